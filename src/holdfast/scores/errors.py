"""Standard errors of scores, over units that count as one observation (`holdfast.scores.units`).

Every standard error of a score is one of three: of a mean over rows (`mean_and_variance` of the
values that a `RowMean` gives), by leaving out parts of the data (`jackknife`, any score), or over
experiments (`holdfast.scores.scoring.summary`). The area under the ROC curve is no mean over rows,
but it is the mean of placements (DeLong, DeLong & Clarke-Pearson 1988), whose variance is that of
the area.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri, stdtrit

from holdfast._typing import AnyArray, FloatArray, IntArray
from holdfast.exceptions import InvalidInputError, NotSupportedError
from holdfast.scores.metric import Metric, placements
from holdfast.scores.probabilities import shares
from holdfast.scores.scoring import row_values, variances
from holdfast.scores.units import codes_of

__all__ = [
    "Estimate",
    "NoRowMean",
    "RowMean",
    "jackknife",
    "mean_and_variance",
    "row_mean",
]

#: Blocks that are left out in turn.
MAX_BLOCKS = 20
#: Units are counted without sorting up to this many times as many numbers as rows.
SPARSE = 20


# --- scores as means over rows --------------------------------------------------------------------


class NoRowMean(NotSupportedError):
    """A score that is not a mean over rows was asked for single rows."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"scoring={name!r} of these targets is not a mean over rows, which the method asks "
            'for. Use method="asymptotic", which leaves out a part of the data at a time.'
        )


@dataclass(frozen=True, eq=False)
class RowMean:
    """A score that is a mean over rows, or the root of one; made by `row_mean`.

    Of targets (m, v) or labels (m,) and weights (m,) of all rows; R² is relative to the `variance`
    of the targets. `per_target` says whether each has a score of its own.
    """

    metric: Metric
    labels: AnyArray
    weights: FloatArray
    variance: FloatArray
    per_target: bool

    @property
    def root(self) -> bool:
        """Whether the score is the root of the mean, and not the mean itself."""
        return self.metric.form == "root"

    def values(self, predictions: FloatArray, rows: IntArray) -> FloatArray:
        """Return values (k, c) of predictions (k, v) of rows; c is the number of scores."""
        metric, labels, w = self.metric, self.labels[rows], self.weights[rows]
        if metric.form == "area":
            values = placements(predictions[:, 0], metric.positive(labels), w)
            if np.isnan(values).any():
                raise InvalidInputError(
                    "the area under the ROC curve needs rows of both classes in every part of the "
                    "data that is scored by itself. Use fewer splits or partitions that keep the "
                    "classes."
                )
            return values[:, None]
        y, share = metric.targets(labels), shares(rows, w)
        values = np.asarray(row_values(metric, predictions[None], y, share)[0])
        if self.root:
            return values
        values = metric.finish(values, self.variance)
        return values if self.per_target else np.asarray(values.mean(axis=1, keepdims=True))

    def finish(self, mean: FloatArray) -> FloatArray:
        """Return the score that a mean becomes."""
        return self.metric.finish(mean, self.variance) if self.root else mean

    def slope(self, mean: FloatArray) -> FloatArray:
        """Return the derivative of `finish`, for standard errors on the scale of the score."""
        return self.metric.slope(mean, self.variance) if self.root else np.ones_like(mean)


def row_mean(
    metric: Metric,
    labels: AnyArray,
    weights: FloatArray,
    rows: IntArray,
    *,
    per_target: bool,
) -> RowMean:
    """Return a score of the tested rows as a mean over them; if it is none, raise NoRowMean."""
    found = RowMean(metric, labels, weights, np.zeros(1), per_target)
    if metric.form == "area":
        return found
    joint = found.root and not per_target and labels.shape[1] > 1
    if metric.row_value is None or metric.density or joint:
        raise NoRowMean(metric.name)
    if metric.form != "relative":
        return found
    rows = rows[weights[rows] > 0]
    variance = variances(labels[rows], weights[rows, None], np.array([0, rows.size]))[0]
    if not (variance > 0).all():
        raise NoRowMean(metric.name)
    return RowMean(metric, labels, weights, variance, per_target)


# --- means and their errors -----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Estimate:
    """Scores (c,), or means over rows that become a `score`, with their standard errors (c,).

    Those have some degrees of freedom, None being very many, and are the `inflation` of those of
    independent units; a `bias` was subtracted from the means.
    """

    mean: FloatArray
    standard_error: FloatArray
    freedom: int | None = None
    score: RowMean | None = None
    bias: FloatArray | float = 0.0
    inflation: FloatArray | float = 1.0

    def finish(self, mean: FloatArray) -> FloatArray:
        """Return the score that a mean becomes."""
        return mean if self.score is None else self.score.finish(mean)

    @property
    def slope(self) -> FloatArray | float:
        """By how much the score changes with the mean; near enough for its bias, too."""
        return 1.0 if self.score is None else np.abs(self.score.slope(self.mean))

    def ends(self, level: float) -> tuple[FloatArray, FloatArray]:
        """Return both ends of an interval for the score: normal, or Student's t for few units."""
        tail = 0.5 + level / 2.0
        z = ndtri(tail) if self.freedom is None else stdtrit(max(1, self.freedom), tail)
        wide = float(z) * self.standard_error
        low, high = np.sort([self.finish(self.mean - wide), self.finish(self.mean + wide)], axis=0)
        return low, high


def mean_and_variance(
    values: FloatArray, weights: FloatArray, units: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return the weighted mean (c,) of values (k, c) and its variance, units (k,) independent.

    Values of one unit (a row that is tested several times, the rows of a group) depend on each
    other in any way.

    Notes
    -----
    The variance of an average over experiments is the sum of their covariances (Pahikkala et al.
    2012 (8)). Those of values that share a unit are estimated by their products, those of others
    count as zero: Var = G/(G − 1) Σ_g (Σ_{i in g} w_i (v_i − mean))² / (Σ w)². With every row a
    unit of its own that is s²/n. nan with fewer than two units.
    """
    total = weights.sum()
    mean = weights @ values / total
    # Small numbers need no sorting: units that are not there add nothing.
    small = units.min() >= 0 and units.max() <= SPARSE * units.size
    code = units if small else codes_of(units)
    count = int(np.count_nonzero(np.bincount(code)))
    parts = weights[:, None] * (values - mean)
    sums = np.stack([np.bincount(code, weights=part) for part in parts.T], axis=1)
    if count < 2:
        return mean, np.full_like(mean, np.nan)
    return mean, np.square(sums).sum(axis=0) / total**2 * (count / (count - 1))


def jackknife(score: Callable[[IntArray], FloatArray], units: IntArray) -> Estimate:
    """Return any score (c,) of all values with its standard error, units being independent.

    Parameters
    ----------
    score : callable
        From the places of values that stay to the score (c,) of those.
    units : ndarray of int, shape (k,)
        The unit of each value. At most 20 blocks of units are left out in turn, dealt out in one
        fixed shuffled order: neighbours (often sorted by time or by y) must not share a block. nan
        with fewer than two units, or where a score is undefined.

    Notes
    -----
    se² = (g − 1)/g Σ_b (θ_(b) − mean θ)² over the scores θ_(b) without each of g blocks.
    """
    code = codes_of(units)
    n = int(code.max()) + 1
    g, block = min(MAX_BLOCKS, n), np.empty(n, dtype=np.int64)
    block[np.random.default_rng(0).permutation(n)] = np.arange(n) % g
    of_value = block[code]
    whole = score(np.arange(units.size))
    parts = np.stack([score(np.flatnonzero(of_value != b)) for b in range(g)], axis=1)
    if g < 2 or not np.isfinite(parts).all():
        return Estimate(whole, np.full_like(whole, np.nan), g - 1)
    return Estimate(whole, np.sqrt(g - 1) * parts.std(axis=1), g - 1)
