"""What all selectors of basis rows share: the pool they are given, the checks, the answer.

A selector answers ``select(data, y, weights, groups, experiments, rng)`` with the positions of the
basis rows, in the order they were chosen. `Selector.select` checks what arrives, leaves out the
rows that are never trained on (weight zero), and passes the others as a `Pool` to ``_choose``, the
one method that a selector implements.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from holdfast._typing import FloatArray, IntArray
from holdfast.data.values import is_number
from holdfast.exceptions import HoldfastWarning, InvalidInputError

if TYPE_CHECKING:
    from holdfast.core.experiments import Experiments
    from holdfast.kernels.matrix import KernelData

SQRT_EPS = float(np.sqrt(np.finfo(np.float64).eps))


@dataclass(frozen=True)
class Pool:
    """What a selector chooses from: only rows of positive weight, numbered 0 … m-1.

    `groups` are numbered from 0, `folds` is the one experiment that holds each row out, and `rng`
    the only source of randomness.
    """

    data: KernelData
    y: FloatArray | None
    weights: FloatArray
    groups: IntArray | None
    folds: IntArray | None
    rng: np.random.Generator

    def __len__(self) -> int:
        """Return the number of rows to choose from."""
        return len(self.weights)

    def targets(self) -> FloatArray:
        """Return the targets (m, v), for a selector that declares that it needs them."""
        assert self.y is not None, "select() checks `needs`"
        return self.y


class Selector(BaseEstimator, ABC):  # type: ignore[misc]  # scikit-learn carries no types
    """A way of choosing basis rows, with scikit-learn's ``get_params`` and ``set_params``.

    Attributes
    ----------
    data_dependent : bool
        Whether the choice looks at the rows themselves. If it does, and is made once outside the
        cross-validation loop, the held-out rows have influenced the model that predicts them, and
        the estimate may be optimistic (Pahikkala et al. 2012, §6.3.2). Only
        ``held_out_basis="reselect"`` avoids that. Selectors that look at the kernel but not at y
        count as data-dependent too: they leak the positions of the held-out rows but not their
        targets, which is usually the smaller bias, though its size cannot be known beforehand.
    nested : bool
        Whether rows are added one by one, so that the first k of n rows are a choice of k rows.

    Notes
    -----
    Rows of weight zero are not trained on, so a selector never chooses them: the answer is the same
    as if those rows were absent. Only the user's own row numbers (`Fixed`) may name them.
    """

    data_dependent: ClassVar[bool]
    nested: ClassVar[bool] = False

    @property
    def needs(self) -> frozenset[str]:
        """Which of ``"y"``, ``"groups"`` and ``"experiments"`` `select` needs."""
        return frozenset()

    def explain(self, m: int) -> str:
        """Return one line for a plan: the memory that choosing from m rows takes beyond O(mn)."""
        with np.printoptions(threshold=8, edgeitems=3):  # long arrays of row numbers take a while
            return f"{self!r}: no more memory than the m x n kernel block of the model itself"

    def select(
        self,
        data: KernelData,
        y: FloatArray | None = None,
        weights: FloatArray | None = None,
        groups: NDArray[Any] | None = None,
        experiments: Experiments | None = None,
        rng: np.random.Generator | int | None = None,
    ) -> IntArray:
        """Return the positions (n,) of the chosen basis rows, in the order of choice.

        Parameters
        ----------
        data : KernelData
            The m rows and their kernel.
        y, weights, groups : array of m values, or (m, v) targets, optional
        experiments : Experiments, optional
            What the model will be scored by.
        rng : numpy.random.Generator or int, optional
        """
        m, given = len(data), self._given(data)
        if given is not None:
            return given
        weights = np.ones(m) if weights is None else _per_row(weights, m, "weights").astype(float)
        if not np.all(np.isfinite(weights)) or np.any(weights < 0):
            raise InvalidInputError("weights must be finite and not negative.", argument="weights")
        self._check_needs(y=y, groups=groups, experiments=experiments)
        rows = np.flatnonzero(weights > 0)
        if len(rows) == 0:
            raise InvalidInputError(
                "there are no rows to choose basis rows from: every weight is zero. "
                "Give at least one row a positive weight.",
                argument="weights",
            )
        everything = len(rows) == m
        pool = Pool(
            data=data if everything else data.take(rows),
            y=_targets(y, m, rows) if "y" in self.needs else None,
            weights=weights[rows],
            groups=_codes(groups, m, rows) if groups is not None else None,
            folds=_folds(experiments, m, self)[rows] if "experiments" in self.needs else None,
            rng=np.random.default_rng(rng),
        )
        chosen = np.asarray(self._choose(pool), dtype=np.int64)
        return chosen if everything else rows[chosen].astype(np.int64)

    def _given(self, data: KernelData) -> IntArray | None:
        """Return the rows that need no choice, if the user has named them."""
        return None

    @abstractmethod
    def _choose(self, pool: Pool) -> IntArray:
        """Return the chosen rows of the pool, in the order of choice."""

    def _check_needs(self, **given: object) -> None:
        remedy = {
            "y": "pass the targets",
            "groups": "pass groups= to fit, one label per row",
            "experiments": "set cv= to a partition of the rows, such as 10 or KFold(10)",
        }
        for name in sorted(self.needs):
            if given[name] is None:
                raise InvalidInputError(
                    f"{type(self).__name__} needs {name} to choose basis rows, but got None: "
                    f"{remedy[name]}, or use a selector that does without, such as Random.",
                    argument=name,
                )


class SizedSelector(Selector):
    """A selector of a number of rows.

    Parameters
    ----------
    n : int or float
        How many rows, or which fraction of them.
    """

    def __init__(self, n: int | float = 0.1) -> None:
        self.n = n


def how_many(n: int | float, m: int, name: str = "n") -> int:
    """Return how many rows ``n`` asks for out of m: a count, or a fraction (0, 1] of them.

    A fraction is rounded to the nearest count and is never less than one row.
    """
    if not is_number(n):
        raise InvalidInputError(
            f"{name} must be a number of rows (int) or a fraction of them (float), got {n!r}.",
            argument=name,
        )
    if isinstance(n, int | np.integer):
        if n < 1:
            raise InvalidInputError(
                f"{name} must be at least 1 basis row, got {n}. For the dense model, in which "
                "every row is a basis row, pass basis=None.",
                argument=name,
                remedies=("basis",),
            )
        if n > m:
            raise InvalidInputError(
                f"{name} asks for {n} basis rows, but there are only {m} rows to choose from "
                f"(rows of weight zero do not count). Use at most {m}, or a fraction such as 0.1.",
                argument=name,
            )
        return int(n)
    if not 0.0 < n <= 1.0:
        raise InvalidInputError(
            f"{name} given as a float is a fraction of the rows and must lie in (0, 1], got {n}. "
            "For a number of rows pass an int.",
            argument=name,
        )
    return max(1, round(float(n) * m))


def _per_row(values: NDArray[Any], m: int, name: str) -> NDArray[Any]:
    values = np.asarray(values)
    if values.shape != (m,):
        raise InvalidInputError(
            f"{name} must hold one value per row, shape ({m},); got shape {values.shape}.",
            argument=name,
        )
    return values


def _targets(y: FloatArray | None, m: int, rows: IntArray) -> FloatArray:
    y = np.asarray(y, dtype=np.float64)
    if y.ndim not in (1, 2) or len(y) != m:
        raise InvalidInputError(
            f"y must have shape ({m},) or ({m}, targets); got {y.shape}.", argument="y"
        )
    targets: FloatArray = y.reshape(m, -1)[rows]
    return targets


def _codes(groups: NDArray[Any], m: int, rows: IntArray) -> IntArray:
    codes = np.unique(_per_row(groups, m, "groups")[rows], return_inverse=True)[1]
    return codes.astype(np.int64)


def _folds(experiments: Experiments | None, m: int, selector: Selector) -> IntArray:
    """Return which experiment holds each row out, or raise unless there is exactly one."""
    assert experiments is not None, "select() checks `needs`"
    held_out = experiments.held_out
    rows = np.asarray(held_out.values)
    if len(rows) != m or not np.array_equal(np.sort(rows), np.arange(m)):
        raise InvalidInputError(
            f"{type(selector).__name__} needs experiments that partition the rows (each of the "
            f"{m} rows held out exactly once), and these hold out {len(rows)} rows in "
            f"{len(experiments)} experiments, with repeats or gaps. Use a partition such as "
            "KFold(10) or GroupKFold, or another selector.",
            argument="cv",
        )
    folds = np.empty(m, dtype=np.int64)
    folds[rows] = np.repeat(np.arange(len(experiments)), np.diff(held_out.ptr))
    return folds


def warn_short(selector: Selector, got: int, wanted: int, why: str) -> None:
    """Warn if a selector found fewer rows than it was asked for, and why."""
    if got >= wanted:
        return
    warnings.warn(
        f"{type(selector).__name__} chose {got} basis rows instead of {wanted}: {why}. "
        f"Ask for at most {got} rows to silence this.",
        HoldfastWarning,
        stacklevel=4,
    )
