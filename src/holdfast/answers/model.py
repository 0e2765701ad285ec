"""A kernel on all rows of the training data: rows, basis rows, smoother, held-out values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any
from zlib import crc32

import numpy as np
from sklearn.base import clone

from holdfast._typing import FloatArray, IntArray
from holdfast.answers.training import TrainingData
from holdfast.basis import Fixed, Points, Selector
from holdfast.basis.resolve import as_selector, resolve_basis
from holdfast.core.data import WeightedData
from holdfast.core.experiments import Experiments, Tasks, resolve
from holdfast.core.features import basis_epsilon
from holdfast.core.gaussian import SecondMoments, second_moments
from holdfast.core.models import HeldOutModels
from holdfast.core.plan import Plan, make_plan
from holdfast.core.predict import Prediction, predict_with_error
from holdfast.core.smoother import OtherBasis, Smoother
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
from holdfast.kernels.shared import Distances, Parts, SharedRows, common_parts
from holdfast.kernels.smoothers import is_primal, make_smoother, require_symmetric
from holdfast.progress import report

__all__ = ["Model", "Models", "at_own_penalty", "expanded_in", "make_model", "rows_with_kernel"]


@dataclass(frozen=True, eq=False)
class Model:
    """One kernel on all rows of the training data. A pickle of it holds no factors.

    Attributes
    ----------
    training : TrainingData
    kernel : Kernel or Precomputed
    params : dict
        The arguments that the kernel came from.
    data : KernelData
        Rows with the kernel.
    basis : ndarray of int or None
        Basis rows; None for a dense model.
    epsilon : float
        The absolute shift ε of K_BB; 0 for a dense model.
    selector : Selector or None
        What chose the basis rows, with its fitted attributes.
    made : Smoother or None
        The smoother, if it was made already.
    """

    training: TrainingData
    kernel: Kernel | Precomputed
    params: dict[str, Any]
    data: KernelData
    basis: IntArray | None
    epsilon: float
    selector: Selector | None = None
    made: Smoother | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        candidate = Candidate(self.kernel, self.params)
        return make_model, (self.training, candidate, self.basis, self.selector)

    @cached_property
    def smoother(self) -> Smoother:
        """The smoother of all rows."""
        if self.made is not None:
            return self.made
        training = self.training
        return make_smoother(
            self.kernel,
            self.data,
            training.X,
            WeightedData.of(training.Y, training.weights, training.unpenalised),
            basis=self.basis,
            epsilon=self.epsilon,
            memory=training.memory,
            standardize=training.standardize,
        )

    # -- other models ------------------------------------------------------------------------------

    def on(self, training: TrainingData) -> Model:
        """Return this model on data that differ in what the smoother does not depend on."""
        return replace(self, training=training, made=self.smoother)

    def with_targets(self, Y: FloatArray) -> Model | None:
        """Return this model for other targets (m, c), by the same factors; None: not in memory.

        Basis rows that each experiment chooses again are those of the targets as they were.
        """
        other = self.smoother.with_targets(Y)
        if other is None:
            return None
        training = self.training if self.training.reselects else replace(self.training, Y=Y)
        return replace(self, training=training, made=other)

    # -- held-out values ---------------------------------------------------------------------------

    def tasks(self, experiments: Experiments, *, all_tested: bool = False) -> Tasks:
        """Return the tasks that experiments become under the policy.

        With `all_tested` also those of rows that "skip" never tests: their models are of interest
        too.
        """
        weights, policy = self.training.weights, self.training.policy
        if all_tested and policy == "skip":
            policy = "train"
        return resolve(experiments, weights=weights, basis=self.basis, policy=policy)

    def plan(self, tasks: Tasks, n_alphas: int, times: int = 1) -> Plan:
        """Return which path the tasks take; others like them may follow, `times` in all."""
        return make_plan(tasks, self.smoother.sizes(tasks), n_alphas, self.training.path, times)

    def held_out(self, tasks: Tasks, alphas: FloatArray, path: str | None = None) -> FloatArray:
        """Return held-out predictions (a, k, v), by the path of the plan unless one is named."""
        return self.predict_with_error(
            tasks, alphas, path or self.plan(tasks, alphas.size).path
        ).values

    def at(self, tasks: Tasks, alphas: FloatArray, times: int = 1) -> FloatArray:
        """Return held-out predictions (k, v), each target at its own penalty (v,)."""
        path = self.plan(tasks, np.unique(alphas).size, times).path
        predict = partial(self.held_out, tasks, path=path)
        return at_own_penalty(predict, alphas, self.training.Y.shape[1])

    def predict_with_error(
        self, tasks: Tasks, alphas: FloatArray, path: str, columns: slice = slice(None)
    ) -> Prediction:
        """Return held-out predictions with their estimated rounding errors."""
        if self.training.reselects:
            values = self._reselected(tasks, alphas, columns)
            found = Prediction(values, np.zeros((alphas.size, len(tasks))))
        else:
            found = predict_with_error(self.smoother, tasks, alphas, path, columns)
        if self.training.bias and self.training.coded:
            _without_some_class(self.training, tasks, found.values, columns)
        return found

    def held_models(self, tasks: Tasks, alphas: FloatArray) -> HeldOutModels:
        """Return the models of some tasks as coefficients, one penalty for each target."""
        basis = self.chosen_basis if self.training.reselects else None
        return HeldOutModels(self.smoother, tasks, alphas, basis)

    def moments(
        self, tasks: Tasks, alphas: FloatArray, values: FloatArray, columns: slice = slice(None)
    ) -> SecondMoments:
        """Return the second moments of the test rows, given predictions (a, k, v) of them."""
        errors = self.training.Y[tasks.test.values, columns] - values
        return second_moments(self.held_models(tasks, alphas[:1]), alphas, errors)

    def _reselected(self, tasks: Tasks, alphas: FloatArray, columns: slice) -> FloatArray:
        """Return predictions of models whose basis rows come from their own training rows.

        All targets take part in the choice, whichever columns are predicted. There is only one
        path: refitting.
        """
        smoother, parts = self.smoother, []
        for j in range(len(tasks)):
            held, removed, test = tasks.held[j], tasks.removed[j], tasks.test[j]
            basis = self.chosen_basis(held)
            parts.append(smoother.refit(held, removed, test, alphas, columns, basis))
            report(j + 1, len(tasks), "refits on reselected basis rows")
        return np.concatenate(parts, axis=1)

    def chosen_basis(self, held: IntArray) -> OtherBasis:
        """Return the basis rows that are chosen without some rows.

        Seeded by the rows themselves: the same hold-out gives the same basis anywhere.
        """
        training = self.training
        weights = training.weights.copy()
        weights[held] = 0.0
        train = np.flatnonzero(weights > 0)
        seed = [training.seed, crc32(np.sort(held).tobytes())]
        chosen = resolve_basis(
            clone(training.basis) if isinstance(training.basis, Selector) else training.basis,
            self.data.take(train),
            training.Y[train],
            weights[train],
            None if training.groups is None else training.groups[train],
            None,
            np.random.default_rng(seed),
        )
        assert chosen is not None
        rows = train[chosen]
        return OtherBasis(rows, basis_epsilon(self.data, rows, training.jitter))


def make_model(
    training: TrainingData,
    candidate: Candidate,
    basis: IntArray | None = None,
    selector: Selector | None = None,
    data: KernelData | None = None,
) -> Model:
    """Return the model of a kernel on all rows of the training data, with basis rows or dense."""
    kernel = candidate.kernel
    if data is None:
        data = rows_with_kernel(kernel, training.X, training.basis)
    require_symmetric(kernel, data)
    epsilon = 0.0 if basis is None else basis_epsilon(data, basis, training.jitter)
    return Model(training, kernel, candidate.params, data, basis, epsilon, selector)


class Models:
    """From kernels to models on the same rows, which share what can be shared.

    Basis rows, unless their choice depends on the kernel; squared distances, or matrices of the
    parts of sums, if they fit into the memory limit beside the features.
    """

    def __init__(self, training: TrainingData, candidates: Sequence[Candidate]) -> None:
        self._training = training
        self.selector = None if training.basis is None else _selector_of(training)
        # A choice of basis rows that looks at the kernel is made again for each candidate.
        self._same_basis = self.selector is None or not self.selector.data_dependent
        self._chosen: tuple[IntArray | None, Selector | None] | None = None
        self._shared: SharedRows | None = None
        self._common: Parts | None = None
        # Sums of linear kernels that are fitted in their columns make no kernel matrix.
        if (
            len(candidates) > 1
            and self._same_basis
            and not all(is_primal(c.kernel, training.X, training.basis) for c in candidates)
        ):
            self._common = common_parts([candidate.kernel for candidate in candidates])

    def __call__(self, candidate: Candidate) -> Model:
        """Return the model of a kernel."""
        training = self._training
        data = rows_with_kernel(candidate.kernel, training.X, training.basis)
        if self.selector is None:
            basis = selector = None
        elif self._chosen is None or not self._same_basis:
            selector = clone(self.selector)
            basis = resolve_basis(
                selector,
                data,
                training.Y,
                training.weights,
                training.groups,
                training.experiments,
                np.random.default_rng(training.seed),
            )
            self._chosen = basis, selector
        else:
            basis, selector = self._chosen
        if type(data) is KernelRows and self._common is not None:
            data = self._sharing(data, self._common, basis)
        return make_model(training, candidate, basis, selector, data)

    def warn(self) -> None:
        """Warn if the choice of basis rows biases the held-out scores."""
        selector = self.selector
        if selector is None or self._training.policy == "reselect" or not selector.data_dependent:
            return
        warn(
            f"{type(selector).__name__} chose the basis rows by looking at rows that are "
            "later held out, so the held-out scores may be optimistic.",
            SelectionBiasWarning,
            argument="held_out_basis",
            advice='Use held_out_basis="reselect" for an estimate without that bias.',
        )

    def _sharing(self, data: KernelRows, common: Parts, basis: IntArray | None) -> KernelRows:
        """Return the rows with a kernel through what it shares with others, if there is room."""
        X = self._training.X
        columns = expanded_in(basis, X.shape[0])
        kept = 1 if isinstance(common, Distances) else len(common)
        if 8.0 * (2 + kept) * X.shape[0] * columns.size > self._training.memory:
            return data
        if self._shared is None:
            self._shared = SharedRows.of(common, X, columns)
        return self._shared.with_kernel(data.kernel) or data


def _selector_of(training: TrainingData) -> Selector:
    """Return the selector of basis rows."""
    selector = as_selector(training.basis, training.X.shape[0])
    assert selector is not None
    fixed = isinstance(selector, Fixed | Points) or "experiments" in selector.needs
    if training.policy == "reselect" and fixed:
        raise NotSupportedError(
            'held_out_basis="reselect" chooses basis rows again from the training rows of '
            f"each experiment, which {type(selector).__name__} does not allow. Pass a "
            "number of rows or another selector.",
            argument="held_out_basis",
        )
    return selector


def expanded_in(basis: IntArray | None, m: int) -> IntArray:
    """Return the rows that a model has coefficients of: its basis rows, or all m."""
    return np.arange(m) if basis is None else basis


def rows_with_kernel(kernel: Kernel | Precomputed, X: Any, basis: Any) -> KernelData:
    """Return rows and kernel as one object; an m × n precomputed kernel needs its basis rows."""
    if is_dask(X):
        return _elsewhere(kernel, X, basis)
    if isinstance(basis, Points):
        if isinstance(kernel, Precomputed):
            raise NotSupportedError(
                'kernel="precomputed" has no values for points that are not rows. Pass the rows '
                "with a kernel, or basis=[row numbers]; points may be added to the rows with "
                "weight zero.",
                argument="kernel",
                remedies=("basis",),
            )
        return RowsAndPoints(kernel, X, basis.points(X))
    if not isinstance(kernel, Precomputed):
        return KernelRows(kernel, X)
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


def _elsewhere(kernel: Kernel | Precomputed, X: Any, basis: Any) -> DaskRows:
    """Return the rows of a Dask array with a kernel."""
    if isinstance(kernel, Precomputed):
        raise NotSupportedError(
            'kernel="precomputed" takes an array in memory; got a Dask array. Pass the rows '
            "themselves with a kernel, or X.compute().",
            argument="kernel",
        )
    if isinstance(basis, Points):
        raise NotSupportedError(
            "Points are for rows in memory; got a Dask array. Pass basis=[row numbers] or a number "
            "of rows, or X.compute().",
            argument="basis",
        )
    return DaskRows(kernel, X)


def at_own_penalty(
    predict: Callable[[FloatArray], FloatArray], alphas: FloatArray | float, v: int
) -> FloatArray:
    """Return predictions (k, v), each target at its own penalty, from a function of a grid."""
    grid, index = np.unique(np.broadcast_to(np.asarray(alphas), v), return_inverse=True)
    values = predict(grid)
    return np.ascontiguousarray(values[index.ravel(), :, np.arange(v)].T)


def _without_some_class(
    training: TrainingData, tasks: Tasks, values: FloatArray, columns: slice
) -> None:
    """Write −1 (or +1) for classes that no (or every) training row of an experiment has.

    The model of a constant target is that constant. Computed values differ from it by their
    rounding, and scores of an order would follow that.
    """
    held, owners, trained = tasks.held, tasks.test.owners, training.weights > 0
    for j, target in enumerate(training.Y[:, columns].T):
        for sign in (1.0, -1.0):
            members = trained & (target == sign)
            left_out = np.bincount(held.owners, weights=members[held.values], minlength=len(tasks))
            gone = left_out == np.count_nonzero(members)
            if gone.any():
                values[:, gone[owners], j] = -sign
