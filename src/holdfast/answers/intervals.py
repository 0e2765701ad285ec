"""Prediction intervals from held-out models: jackknife+ and CV+, or of a normal distribution.

Barber, Candès, Ramdas & Tibshirani 2021, *Predictive inference with the jackknife+*, Annals of
Statistics 49(1). With m held-out residuals r_i, the model f₋H(i) that did not see row i, and level
1 − a, jackknife+ (CV+ for folds) takes

    lower: the ⌊a(m+1)⌋-th smallest of f₋H(i)(x) − |r_i|
    upper: the ⌈(1−a)(m+1)⌉-th smallest of f₋H(i)(x) + |r_i|

and covers a new row with probability at least 1 − 2a whatever the distribution, about 1 − a in
practice. Where whole groups are held out, a new row comes from a new group: each of the K groups
then weighs 1/(K + 1), shared equally by its rows (Lee, Barber & Willett 2023).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any

import numpy as np
from scipy.special import ndtri

from holdfast._typing import FloatArray, IntArray
from holdfast.answers.decision import decision
from holdfast.answers.fitted import Estimator, Fitted
from holdfast.core.experiments import Tasks
from holdfast.core.models import HeldOutModels
from holdfast.core.rows import row_chunks
from holdfast.data.dask import parts_here
from holdfast.data.values import check_level
from holdfast.exceptions import (
    HoldOutError,
    InvalidInputError,
)
from holdfast.scores.units import held_out_units

__all__ = [
    "METHODS",
    "Quantiles",
    "bounds",
    "counted_rows",
    "group_shares",
    "predict_interval",
    "standard_deviation",
]

METHODS = ("plus", "gaussian")


@dataclass(frozen=True)
class Quantiles:
    """Order statistics that allow for the new row.

    Attributes
    ----------
    levels : tuple of float
    count : int
        The number m of values.
    shares : ndarray of shape (m,) or None
        What each value weighs, less than one in total; None: 1/(m + 1).
    """

    levels: tuple[float, ...]
    count: int
    shares: FloatArray | None = None

    def ranks(self) -> list[int]:
        """Return ⌈level·(m + 1)⌉ of the levels as they were written: 0.55 is 55/100, not less."""
        return [ceil(Fraction(repr(float(level))) * (self.count + 1)) for level in self.levels]

    def upper(self, values: FloatArray) -> FloatArray:
        """Return the quantiles (k, levels) of values (k, m), which are overwritten."""
        if self.shares is not None:
            return self._weighted(values)
        ranks, m = self.ranks(), self.count
        inside = sorted({rank - 1 for rank in ranks if rank <= m})
        if inside:
            values.partition(inside, axis=1)
        columns = [values[:, r - 1] if r <= m else np.full(len(values), np.inf) for r in ranks]
        return np.stack(columns, axis=1)

    def lower(self, values: FloatArray) -> FloatArray:
        """Return the same from the other end: ⌊a(m+1)⌋ = m + 1 − ⌈(1−a)(m+1)⌉; rank 0 is −∞."""
        np.negative(values, out=values)
        return -self.upper(values)

    def _weighted(self, values: FloatArray) -> FloatArray:
        assert self.shares is not None
        order = np.argsort(values, axis=1, kind="stable")
        reached = np.cumsum(self.shares[order], axis=1)
        columns = []
        for level in self.levels:
            enough = reached >= level - 1e-12  # sums of shares are rounded, levels are not
            first = np.take_along_axis(order, enough.argmax(axis=1)[:, None], axis=1)
            found = np.take_along_axis(values, first, axis=1)[:, 0]
            columns.append(np.where(enough[:, -1], found, np.inf))
        return np.stack(columns, axis=1)


def counted_rows(tasks: Tasks, weights: FloatArray, *, skipped: bool) -> IntArray:
    """Return which of the test rows, laid end to end, count: those of positive weight.

    Raises
    ------
    HoldOutError
        If a row of positive weight is tested more than once, or never (unless basis rows are
        skipped).
    """
    rows = tasks.test.values
    count = np.bincount(rows, minlength=weights.size)
    wrong = (weights > 0) & ((count > 1) | ((count == 0) & (not skipped)))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise HoldOutError(
            f"predict_interval needs experiments that test every row once; row {row} is tested "
            f"{count[row]} times.",
            argument="cv",
            advice="Fit with cv=None (leave-one-out), folds, or groups.",
        )
    return np.flatnonzero(weights[rows] > 0)


def group_shares(units: IntArray | None, rows: IntArray) -> FloatArray | None:
    """Return what each of the rows (k,) that count weighs, if whole groups are held out; else None.

    `units` (m,) is the group of each row of the data. Each of the K groups weighs 1/(K + 1).
    """
    if units is None:
        return None
    size = np.bincount(units[rows])
    return np.asarray(1.0 / ((np.count_nonzero(size) + 1) * size[units[rows]]))


def bounds(
    models: HeldOutModels,
    X: Any,
    sizes: FloatArray,
    owners: IntArray,
    quantiles: Quantiles,
) -> FloatArray:
    """Return lower and upper bounds (k, 2, levels, v) for new rows.

    Parameters
    ----------
    models : HeldOutModels
    X : rows
    sizes : ndarray of shape (m, v)
        |r_i| of the rows that count.
    owners : ndarray of int, shape (m,)
        The experiment that tested each.
    quantiles : Quantiles

    Notes
    -----
    m × (a block of new rows) numbers pass through at a time; only order statistics stay.
    """
    k, v = X.shape[0], sizes.shape[1]
    found = np.empty((k, 2, len(quantiles.levels), v))
    plain = np.array_equal(owners, np.arange(len(models)))
    for rows, values in models.predict(X):
        for t, f in enumerate(values):  # (rows, experiments)
            own = f if plain else f[:, owners]
            found[rows, 0, :, t] = quantiles.lower(own - sizes[:, t])
            found[rows, 1, :, t] = quantiles.upper(own + sizes[:, t])
    return found


def predict_interval(
    estimator: Estimator, X: Any, level: float | Sequence[float] = 0.9, method: str = "plus"
) -> FloatArray:
    """Return lower and upper bounds for the target of each new row.

    Parameters
    ----------
    X : rows
        As in `predict`.
    level : float or sequence of float
        How often the bounds should hold.
    method : {"plus", "gaussian"}
        "plus": jackknife+ or CV+ by the experiments of `fit`, which must test each row once;
        it holds at least 1 − 2(1 − level) of the time, whatever the distribution. "gaussian":
        by the `return_std` of `predict`.

    Returns
    -------
    ndarray of shape (k, 2), (k, 2, levels), (k, 2, v) or (k, 2, levels, v)
        Lower and upper bounds; infinite where there are too few rows for the level.

    Notes
    -----
    Barber, Candès, Ramdas & Tibshirani 2021. Where the experiments hold out whole groups (the
    `groups` of `fit`), the bounds are for a row of a *new* group: Lee, Barber & Willett 2023.
    The penalty was chosen on the same rows, which the theory does not cover; one number chosen
    from a grid makes little difference (docs: answers).

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import KernelRidgeCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, size=(200, 1))
    >>> y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=200)
    >>> model = KernelRidgeCV(gamma=0.5).fit(X, y)
    >>> low, high = model.predict_interval([[1.0]], level=0.9)[0]
    >>> bool(low < np.sin(1.0) < high)
    True
    """
    fitted = estimator._fitted_state()
    fitted.refuse_classes("predict_interval")
    rows = estimator._new_rows(X)
    if method not in METHODS:
        raise InvalidInputError(
            f"method must be one of {METHODS}; got {method!r}.", argument="method"
        )
    levels = tuple(check_level(value) for value in np.atleast_1d(np.asarray(level)).tolist())
    if not levels:
        raise InvalidInputError(f"level must lie between 0 and 1; got {level!r}.", argument="level")
    bound = (_gaussian if method == "gaussian" else _jackknife)(fitted, levels)
    found = np.concatenate([bound(part) for part in parts_here(rows)])
    found = found[..., 0] if fitted.training.flat else found
    return found[:, :, 0] if np.ndim(level) == 0 else found


def _gaussian(fitted: Fitted, levels: tuple[float, ...]) -> Callable[[Any], FloatArray]:
    """Return the function from rows to the bounds (k, 2, levels, v) of a normal distribution."""
    reach = ndtri(0.5 + 0.5 * np.array(levels))[:, None]

    def normal(rows: Any) -> FloatArray:
        f, width = (
            decision(fitted, rows)[:, None],
            standard_deviation(fitted, rows)[:, None] * reach,
        )
        return np.stack([f - width, f + width], axis=1)

    return normal


def _jackknife(fitted: Fitted, levels: tuple[float, ...]) -> Callable[[Any], FloatArray]:
    """Return the function from rows to bounds (k, 2, levels, v) by held-out residuals."""
    training, (tasks, errors, models) = fitted.training, fitted.left_out()
    counted = counted_rows(tasks, training.weights, skipped=training.policy == "skip")
    tested, used = tasks.test.values[counted], training.weights > 0
    units = held_out_units(training.experiments, training.groups, used.size, used)
    quantiles = Quantiles(levels, tested.size, group_shares(units, tested))
    sizes, owners = np.abs(errors[counted]), tasks.test.owners[counted]

    def jackknife(rows: Any) -> FloatArray:
        return bounds(models, rows, sizes, owners, quantiles)

    return jackknife


def standard_deviation(fitted: Fitted, rows: Any) -> FloatArray:
    """Return the standard deviation (k, v) of new observations: √(σ²(1 + var f(x)))."""
    smoother = fitted.model.smoother
    grid, index = np.unique(fitted.alphas, return_inverse=True)
    parts = []
    for part in parts_here(rows):
        variance = np.empty((part.shape[0], index.size))
        for block in row_chunks(part.shape[0], smoother.order):
            variance[block] = smoother.variances(part[block], grid)[:, index]
        parts.append(variance)
    return np.asarray(fitted.noise * np.sqrt(1.0 + np.concatenate(parts)))
