"""Full conformal intervals: the model is trained with every possible target of the new row.

Vovk, Gammerman & Shafer 2005; for ridge regression Nouretdinov, Melluish & Vovk 2001. A target y of
a new row x belongs to the set of level 1 − a if its residual is not among the largest,

    #{i : |e_i(y)| ≥ |e_new(y)|} + 1 > a (n + 1)

where e(y) are the residuals of the model trained on the n rows and (x, y). That model follows from
the model f of the n rows. With the covariance C of f in units of the noise (`covariances`) and its
variance v at x (`variances`),

    e_new(y) = t,   e_i(y) = e_i − C_i t,   t = (y − f(x)) / (1 + v)

so that row i counts on the side t > 0 up to |e_i| / (1 + c_i), c_i = C_i · sign e_i, and on the
other side up to |e_i| / (1 − c_i). If every |c_i| < 1 the set is an interval, whose ends are order
statistics of these numbers. Far from the data, where v is large, rows with |c_i| > 1 count once
more from |e_i| / (|c_i| − 1) on, and the set may have holes.

The set covers the target of a new row with probability at least 1 − a whatever the distribution,
if the rows that count and the new row are exchangeable. Basis rows are part of the model's
definition, which the new row is not: they are trained on and do not count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from holdfast._typing import BoolArray, FloatArray, IntArray
from holdfast.exceptions import NotSupportedError
from holdfast.smoother import Smoother
from holdfast.smoother.rows import row_blocks

if TYPE_CHECKING:
    from holdfast.answers.intervals import Quantiles

__all__ = ["full_bounds", "rows_that_count", "training_errors"]


def rows_that_count(
    weights: FloatArray, basis: IntArray | None, units: IntArray | None
) -> IntArray:
    """Return the rows that are exchangeable with a new one: trained on, but not basis rows.

    Parameters
    ----------
    weights : ndarray of shape (m,)
    basis : ndarray of int or None
        Basis rows; numbers from m on are points, not rows.
    units : ndarray of shape (m,) or None
        The group of each row, if whole groups are held out.

    Raises
    ------
    NotSupportedError
        If rows differ in weight, whole groups are held out, or no row is left.
    """
    trained = weights > 0
    if units is not None:
        raise NotSupportedError(
            'method="full" assumes exchangeable rows, but the experiments of fit hold out whole '
            'groups. Use method="plus", whose bounds are for a row of a new group.',
            argument="method",
        )
    if np.ptp(weights[trained]) > 0:
        low, high = weights[trained].min(), weights[trained].max()
        raise NotSupportedError(
            'method="full" assumes exchangeable rows, but sample_weight differs between them '
            f'(from {low:g} to {high:g}). Use method="plus", or fit with weights 0 and 1.',
            argument="method",
        )
    counts = trained.copy()
    if basis is not None:
        counts[basis[basis < weights.size]] = False
    if not counts.any():
        raise NotSupportedError(
            'method="full" counts rows that are not basis rows, but every row is one. Use '
            'basis=None or fewer basis rows, or method="plus".',
            argument="method",
            remedies=("basis",),
        )
    return np.flatnonzero(counts)


def training_errors(smoother: Smoother, alphas: FloatArray) -> FloatArray:
    """Return y − f (m, v) of the model on all rows, one penalty for each target."""
    factor = smoother.coordinates(alphas)
    rows = np.arange(smoother.weights.size)
    fitted = smoother.fitted_rows(factor, smoother.model(factor, alphas), rows)
    return np.asarray(smoother.original_targets() - fitted * smoother.targets.unit)


def full_bounds(
    smoother: Smoother,
    X: Any,
    centre: FloatArray,
    errors: FloatArray,
    alphas: FloatArray,
    counted: IntArray,
    quantiles: Quantiles,
) -> tuple[FloatArray, BoolArray]:
    """Return the hulls (k, 2, levels, v) of the sets, and which of them are not intervals.

    Parameters
    ----------
    smoother : Smoother
    X : rows
    centre : ndarray of shape (k, v)
        Predictions of the model on all rows.
    errors : ndarray of shape (m, v)
        From `training_errors`.
    alphas : ndarray of shape (v,)
    counted : ndarray of int
        From `rows_that_count`.
    quantiles : Quantiles
        Of so many values.

    Notes
    -----
    One product for a block of new rows, then order statistics as for jackknife+.
    """
    k, v = centre.shape
    found, broken = np.empty((k, 2, len(quantiles.levels), v)), np.zeros(k, dtype=bool)
    weight = float(smoother.weights[counted[0]])  # all rows have the same, and so has the new one
    place = np.searchsorted(np.flatnonzero(smoother.scale.trained), counted)
    e = errors[counted]
    signs = np.where(e < 0, -1.0, 1.0)
    for alpha in np.unique(alphas):
        targets = np.flatnonzero(alphas == alpha)
        for part in row_blocks(k, smoother.order + place.size):
            rows = X[part]
            stretch = 1.0 + weight * smoother.variances(rows, np.array([alpha]))
            C = weight * smoother.covariances(rows, float(alpha))[:, place]
            for t in targets.tolist():
                for side, sign in enumerate((-1.0, 1.0)):
                    c = sign * C * signs[:, t]
                    reach, holes = _reach(np.abs(e[:, t]), c, quantiles)
                    found[part, side, :, t] = centre[part, t, None] + sign * stretch * reach
                    broken[part] |= holes
    return found, broken


def _reach(sizes: FloatArray, c: FloatArray, quantiles: Quantiles) -> tuple[FloatArray, BoolArray]:
    """Return how far the sets reach to one side (k, levels), and whether they have holes there.

    Of |e_i| (n,) and c_i (k, n).
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        first = np.where(c > -1.0, sizes / (1.0 + c), np.inf)
    far = (c > 1.0).any(axis=1)
    holes = np.zeros(len(c), dtype=bool)
    again = np.flatnonzero(far)
    swept = [_swept(first[j], sizes, c[j], quantiles) for j in again.tolist()]
    reach = quantiles.upper(first)
    for j, (ends, hole) in zip(again.tolist(), swept, strict=True):
        reach[j], holes[j] = ends, hole
    return reach, holes


def _swept(
    first: FloatArray, sizes: FloatArray, c: FloatArray, quantiles: Quantiles
) -> tuple[FloatArray, bool]:
    """Return the same of one new row, where rows count up to `first` and some from later on."""
    large = c > 1.0
    later = np.sort(sizes[large] / (c[large] - 1.0))
    ends = np.sort(first)
    n = ends.size
    returned = np.searchsorted(later, ends, side="right")
    at = n - np.searchsorted(ends, ends, side="left") + returned  # how many count at each end
    after = n - np.searchsorted(ends, ends, side="right") + returned  # and right behind it
    always = np.count_nonzero(np.isinf(ends)) + later.size
    found, holes = [], False
    for rank in quantiles.ranks():
        need = n + 1 - rank
        end = np.inf if always >= need else float(ends[at >= need].max())
        found.append(end)
        holes = holes or bool((after[ends < end] < need).any())
    return np.array(found), holes
