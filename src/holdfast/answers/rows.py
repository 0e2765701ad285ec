"""Rows with their kernel, and the basis rows that are chosen among them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from holdfast._typing import IntArray
from holdfast.answers.training import TrainingData
from holdfast.basis import Fixed, Points, Selector
from holdfast.basis.resolve import as_selector, resolve_basis
from holdfast.data.dask import is_dask
from holdfast.data.indices import row_numbers
from holdfast.exceptions import (
    InvalidInputError,
    NotSupportedError,
    SelectionBiasWarning,
    warn,
)
from holdfast.kernels import Kernel, Precomputed
from holdfast.kernels.dask_rows import DaskRows
from holdfast.kernels.grid import Candidate
from holdfast.kernels.matrix import KernelData, KernelRows, PrecomputedRows, RowsAndPoints
from holdfast.kernels.shared import Distances, SharedRows, common_parts
from holdfast.kernels.smoothers import is_primal

__all__ = [
    "DataProvider",
    "choose_basis",
    "expanded_in",
    "rows_with_kernel",
    "selector_of",
    "warn_of_selection",
]


def expanded_in(basis: IntArray | None, m: int) -> IntArray:
    """Return the rows that a model has coefficients of: its basis rows, or all m."""
    return np.arange(m) if basis is None else basis


def rows_with_kernel(kernel: Kernel | Precomputed, X: Any, basis: Any) -> KernelData:
    """Return rows and kernel as one object; an m × n precomputed kernel needs its basis rows."""
    if isinstance(basis, Points):
        return _with_points(kernel, X, basis)
    if not isinstance(kernel, Precomputed):
        return DaskRows(kernel, X) if is_dask(X) else KernelRows(kernel, X)
    if is_dask(X):
        raise NotSupportedError(
            'kernel="precomputed" takes an array in memory; got a Dask array. Pass the rows '
            "themselves with a kernel, or X.compute().",
            argument="kernel",
        )
    if X.shape[0] == X.shape[1]:
        return PrecomputedRows(X)
    rows = basis.rows if isinstance(basis, Fixed) else basis
    if rows is None or np.ndim(rows) != 1:
        raise InvalidInputError(
            "a precomputed kernel must be a square matrix of all rows; got shape "
            f"{X.shape}. For a kernel with the basis rows only, name them: basis=[row numbers].",
            argument="X",
            remedies=("basis",),
        )
    columns = row_numbers("basis", rows, X.shape[0], mask=True, error=InvalidInputError)
    if columns.size != X.shape[1]:
        raise InvalidInputError(
            f"basis must name one row for each of the {X.shape[1]} columns of the precomputed "
            f"kernel; got {columns.size} rows. Pass the kernel of all rows with the basis rows.",
            argument="basis",
        )
    return PrecomputedRows(X, columns=columns)


def _with_points(kernel: Kernel | Precomputed, X: Any, basis: Points) -> RowsAndPoints:
    """Return rows and kernel together with basis vectors that are not rows."""
    if isinstance(kernel, Precomputed):
        raise NotSupportedError(
            'kernel="precomputed" has no values for points that are not rows. Pass the rows with a '
            "kernel, or basis=[row numbers]; points may be added to the rows with weight zero.",
            argument="kernel",
            remedies=("basis",),
        )
    if is_dask(X):
        raise NotSupportedError(
            "Points are for rows in memory; got a Dask array. Pass basis=[row numbers] or a number "
            "of rows, or X.compute().",
            argument="basis",
        )
    return RowsAndPoints(kernel, X, basis.points(X))


def selector_of(training: TrainingData) -> Selector | None:
    """Return the selector of basis rows; None for a dense model."""
    selector = as_selector(training.basis, training.X.shape[0])
    if selector is None:
        return None
    fixed = isinstance(selector, Fixed | Points) or "experiments" in selector.needs
    if training.policy == "reselect" and fixed:
        raise NotSupportedError(
            'held_out_basis="reselect" chooses basis rows again from the training rows of '
            f"each experiment, which {type(selector).__name__} does not allow. Pass a "
            "number of rows or another selector.",
            argument="held_out_basis",
        )
    return selector


def warn_of_selection(training: TrainingData, selector: Selector | None) -> None:
    """Warn if the choice of basis rows biases the held-out scores."""
    if selector is not None and training.policy != "reselect" and selector.data_dependent:
        warn(
            f"{type(selector).__name__} chose the basis rows by looking at rows that are "
            "later held out, so the held-out scores may be optimistic.",
            SelectionBiasWarning,
            argument="held_out_basis",
            advice='Use held_out_basis="reselect" for an estimate without that bias.',
        )


def choose_basis(
    training: TrainingData, selector: Selector | None, data: KernelData
) -> IntArray | None:
    """Return the basis rows of the model on all rows, or None for a dense model."""
    return resolve_basis(
        selector,
        data,
        training.Y,
        training.weights,
        training.groups,
        training.experiments,
        np.random.default_rng(training.seed),
    )


class DataProvider:
    """Rows and basis rows for each candidate, sharing what can be shared."""

    def __init__(self, training: TrainingData, candidates: Sequence[Candidate]) -> None:
        self.training, self.selector = training, selector_of(training)
        self._once: tuple[IntArray | None, Selector | None] | None = None
        self._shared: SharedRows | None = None
        # A choice of basis rows that looks at the kernel is made again for each candidate.
        self._same_basis = self.selector is None or not self.selector.data_dependent
        elsewhere = is_dask(training.X) or isinstance(self.selector, Points)
        # Sums of linear kernels that are fitted in their columns make no kernel matrix.
        primal = all(is_primal(c.kernel, training.X, training.basis) for c in candidates)
        self._common = None
        if self._same_basis and not (elsewhere or primal):
            self._common = common_parts([candidate.kernel for candidate in candidates])

    def __call__(self, candidate: Candidate) -> tuple[KernelData, IntArray | None, Selector | None]:
        """Return rows with the kernel, basis rows, and the selector that chose them."""
        data = rows_with_kernel(candidate.kernel, self.training.X, self.training.basis)
        if self._once is None:
            selector = None if self.selector is None else clone(self.selector)
            basis = choose_basis(self.training, selector, data)
            if self._same_basis:
                self._once = (basis, selector)
        else:
            basis, selector = self._once
        return self._sharing(candidate.kernel, basis) or data, basis, selector

    def _sharing(self, kernel: Kernel | Precomputed, basis: IntArray | None) -> SharedRows | None:
        """Return the data of a candidate through what it shares with others, if there is room."""
        if self._common is None or isinstance(kernel, Precomputed):
            return None
        X = self.training.X
        columns = expanded_in(basis, X.shape[0])
        kept = 1 if isinstance(self._common, Distances) else len(self._common)
        if 8.0 * (2 + kept) * X.shape[0] * columns.size > self.training.memory:
            return None
        if self._shared is None:
            self._shared = SharedRows.of(self._common, X, columns)
        return self._shared.with_kernel(kernel)
