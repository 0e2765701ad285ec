"""Standard errors of scores: over units, over experiments, by leaving out blocks.

Every standard error of the package is one of these. The variances are of plain means; what to make
of them (intervals, the rule of one standard error, differences of models) is up to the callers.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from holdfast._typing import FloatArray, IntArray

__all__ = [
    "experiment_blocks",
    "jackknife",
    "mean_and_std",
    "mean_and_variance",
    "mean_of_defined",
    "of_sums",
    "over_splits",
]

#: Blocks that are left out in turn.
MAX_BLOCKS = 20
#: Units are counted without sorting up to this many times as many numbers as rows.
SPARSE = 20


def experiment_blocks(n_experiments: int) -> IntArray:
    """Return the block of each of some units, 0 to at most 19, blocks of nearly equal size.

    They are dealt out in one fixed shuffled order: neighbours in the list (often sorted by time or
    by y) must not share a block.
    """
    n_blocks = min(MAX_BLOCKS, n_experiments)
    block = np.empty(n_experiments, dtype=np.int64)
    order = np.random.default_rng(0).permutation(n_experiments)
    block[order] = np.arange(n_experiments) % n_blocks
    return block


def mean_and_variance(
    values: FloatArray, weights: FloatArray, units: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return the weighted mean (c,) of values (k, c) and its variance, units being independent.

    Parameters
    ----------
    values : ndarray of shape (k, c)
    weights : ndarray of shape (k,)
    units : ndarray of int, shape (k,)
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
    code = units if small else np.unique(units, return_inverse=True)[1]
    count = int(np.count_nonzero(np.bincount(code)))
    parts = weights[:, None] * (values - mean)
    sums = np.stack([np.bincount(code, weights=part) for part in parts.T], axis=1)
    if count < 2:
        return mean, np.full_like(mean, np.nan)
    return mean, np.square(sums).sum(axis=0) / total**2 * (count / (count - 1))


def mean_of_defined(splits: FloatArray) -> FloatArray:
    """Return the mean of the defined splits (c, n, …); nan without any."""
    total = splits.sum(axis=1)
    if splits.shape[1] and np.isfinite(total).all():
        return np.asarray(total / splits.shape[1])
    defined = np.isfinite(splits)
    n = defined.sum(axis=1)
    mean = np.where(defined, splits, 0.0).sum(axis=1) / np.maximum(n, 1)
    return np.where(n > 0, mean, np.nan)


def mean_and_std(splits: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return mean and standard deviation of the defined splits (c, n, …); nan without any."""
    mean, defined = mean_of_defined(splits), np.isfinite(splits)
    deviation = np.where(defined, splits - mean[:, None], 0.0)
    variance = (deviation * deviation).sum(axis=1) / np.maximum(defined.sum(axis=1), 1)
    return mean, np.where(np.isnan(mean), np.nan, np.sqrt(variance))


def over_splits(splits: FloatArray) -> FloatArray:
    """Return the standard error of the mean of splits (c, n, …), nan with fewer than two."""
    n = splits.shape[1]
    if n < 2:
        return np.full((len(splits), *splits.shape[2:]), np.nan)
    return np.asarray(splits.std(axis=1, ddof=1) / np.sqrt(n))


def of_sums(terms: FloatArray) -> FloatArray:
    """Return the standard error of the sum of n terms (c, n, …) about zero, each independent.

    se² = n/(n − 1) Σ_j t_j², as `mean_and_variance` of units; nan with fewer than two.
    """
    n = terms.shape[1]
    if n < 2:
        return np.full((len(terms), *terms.shape[2:]), np.nan)
    return np.asarray(np.sqrt(np.square(terms).sum(axis=1) * (n / (n - 1))))


def jackknife(
    score: Callable[[IntArray], FloatArray], units: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return any score (c,) of all values and its standard error, units being independent.

    Parameters
    ----------
    score : callable
        From the places of values that stay to the score (c,) of those.
    units : ndarray of int, shape (k,)
        The unit of each value. At most 20 blocks of units are left out in turn; nan with fewer
        than two units, or where a score is undefined.

    Notes
    -----
    se² = (g − 1)/g Σ_b (θ_(b) − mean θ)² over the scores θ_(b) without each of g blocks.
    """
    code = np.unique(units, return_inverse=True)[1]
    block = experiment_blocks(int(code.max()) + 1)[code]
    whole = score(np.arange(units.size))
    parts = np.stack(
        [score(np.flatnonzero(block != b)) for b in range(int(block.max()) + 1)], axis=1
    )
    g = parts.shape[1]
    if g < 2 or not np.isfinite(parts).all():
        return whole, np.full_like(whole, np.nan)
    return whole, np.sqrt(g - 1) * parts.std(axis=1)
