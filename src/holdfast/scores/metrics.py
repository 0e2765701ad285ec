"""Scores of many experiments from sums over their rows, without a scorer call per experiment.

A metric such as the mean squared error is a function of one weighted sum per experiment. One
pass over the rows, for a few alphas at a time, then gives the score of every experiment, of all
rows pooled and of all rows but one block of experiments (for the jackknife), each target by itself.

The numbers are those of the scikit-learn scorers of the same name, up to rounding.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from holdfast._typing import FloatArray, IntArray

__all__ = ["METRICS", "Metric", "MomentScores", "ScoredRows", "experiment_blocks", "moment_scores"]


MAX_BLOCKS = 20

_BATCH = 1 << 16  # values in a cache

_UNUSED = np.zeros(1)  # the spread for a metric that does not use it


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """Test rows of the experiments that have any weight, one experiment after the other.

    Attributes
    ----------
    y : (k, v) ndarray
        Targets, or labels of shape (k,) for a scorer that is called.
    weights : (k,) ndarray
        Row weights, all positive.
    ptr : (n_used + 1,) ndarray
        Experiment j has the rows ``ptr[j]:ptr[j + 1]``, at least one.
    groups : (k,) ndarray or None
        Group of each row, for a scorer that takes groups.
    """

    y: npt.NDArray[np.generic]
    weights: FloatArray
    ptr: IntArray
    groups: npt.NDArray[np.generic] | None = None

    @property
    def counts(self) -> IntArray:
        """Number of rows of each experiment."""
        return np.diff(self.ptr)


@dataclass(frozen=True, eq=False)
class MomentScores:
    """Scores of a few alphas, for each target.

    Attributes
    ----------
    pooled : (b, v) ndarray
        Scores of all rows together.
    splits : (b, n_used, v) ndarray
        Scores of each experiment.
    replicates : (b, n_blocks, v) ndarray or None
        Scores of all rows without one block of experiments; None where `splits` are all defined.
    """

    pooled: FloatArray
    splits: FloatArray
    replicates: FloatArray | None


@dataclass(frozen=True)
class Metric:
    """One metric: a loss (or gain) per row, and the score made of its weighted mean.

    Attributes
    ----------
    row_value : callable
        (predictions (b, k, v), y) -> (b, k, v) values to be averaged with the row weights.
    finish : callable
        (mean value, spread of y) -> score; elementwise.
    uses_spread : bool
        Whether `finish` uses the weighted variance of y over the same rows.
    power : int
        The score of targets in another unit is this power of the unit times as large.
    """

    row_value: Callable[[FloatArray, FloatArray], FloatArray]
    finish: Callable[[FloatArray, FloatArray], FloatArray]
    uses_spread: bool = False
    power: int = 0


def _squared_error(predictions: FloatArray, y: FloatArray) -> FloatArray:
    residual = predictions - y
    residual *= residual
    return residual


def _absolute_error(predictions: FloatArray, y: FloatArray) -> FloatArray:
    residual = predictions - y
    return np.abs(residual, out=residual)


def _hit(decision: FloatArray, index: FloatArray) -> FloatArray:
    """Return 1.0 where the decision names class `index`, else 0.0; nan without a decision."""
    named = decision > 0 if decision.shape[-1] == 1 else decision.argmax(axis=-1)[..., None]
    # A sum is finite only where every term is, and needs no (b, k, v) mask.
    return np.where(np.isfinite(decision.sum(axis=-1, keepdims=True)), named == index, np.nan)


def _r2(mean_square: FloatArray, spread: FloatArray) -> FloatArray:
    """Return 1 - mean_square / spread; for constant y 1.0 or 0.0 as scikit-learn defines it."""
    constant = spread == 0
    ratio = mean_square / np.where(constant, 1.0, spread)
    return np.where(constant, np.where(mean_square == 0, 1.0, 0.0), 1.0 - ratio)


METRICS: dict[str, Metric] = {
    "neg_mean_squared_error": Metric(_squared_error, lambda mean, _: -mean, power=2),
    "neg_root_mean_squared_error": Metric(_squared_error, lambda mean, _: -np.sqrt(mean), power=1),
    "neg_mean_absolute_error": Metric(_absolute_error, lambda mean, _: -mean, power=1),
    "r2": Metric(_squared_error, _r2, uses_spread=True),
    "accuracy": Metric(_hit, lambda mean, _: mean),
}


def experiment_blocks(n_experiments: int) -> IntArray:
    """Return the block of each experiment, 0 to at most 19, blocks of nearly equal size.

    Experiments are dealt out in one fixed shuffled order. They are the exchangeable units, and
    neighbours in the list (often sorted by time or by y) must not share a block.
    """
    n_blocks = min(MAX_BLOCKS, n_experiments)
    block = np.empty(n_experiments, dtype=np.int64)
    order = np.random.default_rng(0).permutation(n_experiments)
    block[order] = np.arange(n_experiments) % n_blocks
    return block


def _segment_sums(values: FloatArray, starts: IntArray) -> FloatArray:
    """Return the sums of the rows (…, k, v) from each start to the next: (…, n_used, v)."""
    if len(starts) == values.shape[-2]:  # one row in every experiment
        return values
    return np.asarray(np.add.reduceat(values, starts, axis=-2))


def _spread(y: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the weighted variance of each target: exactly 0 if it is constant, nan for one row."""
    if len(y) < 2:
        return np.full(y.shape[1], np.nan)
    total = weights.sum()
    centred = y - weights @ y / total
    variance = weights @ (centred * centred) / total
    # Rounding of the mean would make a constant target seem to vary.
    return np.where(y.max(axis=0) == y.min(axis=0), 0.0, variance)


def _split_spread(rows: ScoredRows, y: FloatArray) -> FloatArray:
    """Return `_spread` of every experiment: (n_used, v)."""
    starts = rows.ptr[:-1]
    weights = rows.weights[:, None]
    total = _segment_sums(weights, starts)
    mean = _segment_sums(weights * y, starts) / total
    centred = y - np.repeat(mean, rows.counts, axis=0)
    variance = _segment_sums(weights * centred * centred, starts) / total
    constant = np.maximum.reduceat(y, starts, axis=0) == np.minimum.reduceat(y, starts, axis=0)
    variance[constant] = 0.0
    variance[rows.counts < 2] = np.nan
    return variance


@dataclass(frozen=True, eq=False)
class _OtherBlocks:
    """Means over the rows outside each block of experiments.

    Attributes
    ----------
    order, starts : ndarray
        Experiments sorted by block, and where each block starts in that order.
    total : (n_blocks, 1) ndarray
        Weight of the rows outside each block.
    spread : (n_blocks, v) ndarray
        Weighted variance of y over those rows.
    """

    order: IntArray
    starts: IntArray
    total: FloatArray
    spread: FloatArray

    def mean(self, sums: FloatArray) -> FloatArray:
        """Return the weighted means (b, n_blocks, v) outside each block; sums: (b, n_used, v)."""
        others = 1.0 - np.eye(len(self.starts))  # adds up the other blocks: nothing cancels
        return others @ _segment_sums(sums[:, self.order], self.starts) / self.total


def _other_blocks(rows: ScoredRows, y: FloatArray) -> _OtherBlocks:
    block = experiment_blocks(len(rows.ptr) - 1)
    row_block = np.repeat(block, rows.counts)
    kept = [row_block != b for b in range(int(block.max()) + 1)]
    order = np.argsort(block, kind="stable")
    return _OtherBlocks(
        order=order,
        starts=np.searchsorted(block[order], np.arange(len(kept))),
        total=np.array([[rows.weights[k].sum()] for k in kept]),
        spread=np.array([_spread(y[k], rows.weights[k]) for k in kept]),
    )


def moment_scores(
    metric: Metric, rows: ScoredRows, predictions: Callable[[slice], FloatArray], n_alphas: int
) -> Iterator[MomentScores]:
    """Return, a few alphas at a time, the scores per target: pooled, of experiments, replicates.

    Parameters
    ----------
    metric : Metric
        One of `METRICS`.
    rows : ScoredRows
        y of shape (k, v); for accuracy the class index, of shape (k, 1).
    predictions : callable
        slice of alphas -> (b, k, v) predictions of the rows, of as many alphas at a time as fit
        into a cache.
    n_alphas : int
        How many alphas.

    Notes
    -----
    O(k v) time per alpha, and memory for a few of them. Replicates (scores without one of at most
    20 blocks of experiments) are made only where an experiment with a single row leaves R²
    undefined.
    """
    y = np.asarray(rows.y, dtype=np.float64)
    weights, total = rows.weights[:, None], rows.weights.sum()
    starts = rows.ptr[:-1]
    split_weight = _segment_sums(weights, starts)
    jackknife = metric.uses_spread and len(starts) > 1 and bool((rows.counts < 2).any())
    others = _other_blocks(rows, y) if jackknife else None
    whole_spread = _spread(y, rows.weights) if metric.uses_spread else _UNUSED
    split_spread = _split_spread(rows, y) if metric.uses_spread else _UNUSED
    batch = max(1, _BATCH // max(1, y.size))
    for i in range(0, n_alphas, batch):
        with np.errstate(all="ignore"):  # non-finite predictions give a nan score, not a warning
            values = metric.row_value(predictions(slice(i, i + batch)), y)
            values *= weights
            sums = _segment_sums(values, starts)  # (b, n_used, v)
            pooled = metric.finish(sums.sum(axis=1) / total, whole_spread)
            splits = metric.finish(sums / split_weight, split_spread)
            replicates = None
            if others is not None:
                replicates = _finite(metric.finish(others.mean(sums), others.spread))
        yield MomentScores(_finite(pooled), _finite(splits), replicates)


def _finite(scores: FloatArray) -> FloatArray:
    """Return scores with nan for every value that is not finite."""
    return np.where(np.isfinite(scores), scores, np.nan)
