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
from holdfast.scores.probabilities import of_own_class
from holdfast.scores.standard_errors import experiment_blocks

__all__ = ["METRICS", "Metric", "ScoredRows", "moment_scores", "spreads"]


_BATCH = 1 << 16  # values in a cache


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
    linear : bool
        Whether the score of the mean is the mean of the scores of single rows, the spread given.
    of : {"values", "decisions", "probabilities"}
        What `row_value` takes: predictions of numbers with the targets, or decision values or
        class probabilities with the index of each row's class, (k, 1).
    """

    row_value: Callable[[FloatArray, FloatArray], FloatArray]
    finish: Callable[[FloatArray, FloatArray], FloatArray]
    uses_spread: bool = False
    linear: bool = True
    of: str = "values"


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


def _log_probability(p: FloatArray, index: FloatArray) -> FloatArray:
    """Return the logarithm of the probability of class `index`, bounded as in scikit-learn."""
    eps = np.finfo(float).eps
    return np.asarray(np.log(np.clip(of_own_class(p, index), eps, 1.0 - eps)))


def _squared_difference(p: FloatArray, index: FloatArray) -> FloatArray:
    """Return Σ (p − what happened)², half of it for two classes."""
    own = of_own_class(p, index)
    total = np.square(p).sum(axis=-1, keepdims=True) + 1.0 - 2.0 * own
    return np.asarray(total / 2.0 if p.shape[-1] == 2 else total)


def _r2(mean_square: FloatArray, spread: FloatArray) -> FloatArray:
    """Return 1 - mean_square / spread; for constant y 1.0 or 0.0 as scikit-learn defines it."""
    constant = spread == 0
    ratio = mean_square / np.where(constant, 1.0, spread)
    return np.where(constant, np.where(mean_square == 0, 1.0, 0.0), 1.0 - ratio)


METRICS: dict[str, Metric] = {
    "neg_mean_squared_error": Metric(_squared_error, lambda mean, _: -mean),
    "neg_root_mean_squared_error": Metric(
        _squared_error, lambda mean, _: -np.sqrt(mean), linear=False
    ),
    "neg_mean_absolute_error": Metric(_absolute_error, lambda mean, _: -mean),
    "r2": Metric(_squared_error, _r2, uses_spread=True),
    "accuracy": Metric(_hit, lambda mean, _: mean, of="decisions"),
    "neg_log_loss": Metric(_log_probability, lambda mean, _: mean, of="probabilities"),
    "neg_brier_score": Metric(_squared_difference, lambda mean, _: -mean, of="probabilities"),
}


def _segment_sums(values: FloatArray, starts: IntArray) -> FloatArray:
    """Return the sums of the rows (…, k, v) from each start to the next: (…, n_used, v)."""
    if len(starts) == values.shape[-2]:  # one row in every experiment
        return values
    return np.asarray(np.add.reduceat(values, starts, axis=-2))


def spreads(y: FloatArray, weights: FloatArray, ptr: IntArray) -> FloatArray:
    """Return the weighted variances (n, v) of y in each experiment; 0 if constant, nan of a row."""
    starts, counts, w = ptr[:-1], np.diff(ptr), weights[:, None]
    total = _segment_sums(w, starts)
    mean = _segment_sums(w * y, starts) / total
    centred = y - np.repeat(mean, counts, axis=0)
    variance = _segment_sums(w * centred * centred, starts) / total
    # Rounding of the mean would make a constant target seem to vary.
    variance[np.maximum.reduceat(y, starts) == np.minimum.reduceat(y, starts)] = 0.0
    variance[counts < 2] = np.nan
    return variance


def _replicates(
    metric: Metric, rows: ScoredRows, y: FloatArray
) -> Callable[[FloatArray], FloatArray]:
    """Return a function from sums (b, n_used, v) to scores without each block (b, blocks, v)."""
    block = experiment_blocks(len(rows.ptr) - 1)
    row_block, order = np.repeat(block, rows.counts), np.argsort(block, kind="stable")
    kept = [np.flatnonzero(row_block != b) for b in range(int(block.max()) + 1)]
    starts = np.searchsorted(block[order], np.arange(len(kept)))
    total = np.array([[rows.weights[k].sum()] for k in kept])
    spread = [spreads(y[k], rows.weights[k], np.array([0, k.size]))[0] for k in kept]
    others = 1.0 - np.eye(len(kept))  # adds up the other blocks: nothing cancels

    def scores(sums: FloatArray) -> FloatArray:
        mean = others @ _segment_sums(sums[:, order], starts) / total
        return _finite(metric.finish(mean, np.array(spread)))

    return scores


def moment_scores(
    metric: Metric, rows: ScoredRows, predictions: Callable[[slice], FloatArray], n_alphas: int
) -> Iterator[tuple[FloatArray, FloatArray, FloatArray | None]]:
    """Return, a few alphas at a time, the scores of each target.

    Those of all rows together (b, v), of each experiment (b, n_used, v), and of all rows without
    one block of experiments (b, n_blocks, v), or None where all experiments have a score.

    Parameters
    ----------
    metric : Metric
        One of `METRICS`.
    rows : ScoredRows
        y of shape (k, v); of classes the index, of shape (k, 1).
    predictions : callable
        slice of alphas -> (b, k, v) predictions of the rows (or what the metric takes), of as many
        alphas at a time as fit into a cache.
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
    split_weight, weighted = _segment_sums(weights, starts), bool((rows.weights != 1.0).any())
    jackknife = metric.uses_spread and len(starts) > 1 and bool((rows.counts < 2).any())
    replicates = _replicates(metric, rows, y) if jackknife else None
    whole_spread = split_spread = np.zeros(1)  # for a metric that does not use it
    if metric.uses_spread:
        split_spread = spreads(y, rows.weights, rows.ptr)
        whole_spread = spreads(y, rows.weights, rows.ptr[[0, -1]])[0]
    batch = max(1, _BATCH // max(1, y.size))
    for i in range(0, n_alphas, batch):
        with np.errstate(all="ignore"):  # non-finite predictions give a nan score, not a warning
            values = metric.row_value(predictions(slice(i, i + batch)), y)
            if weighted:
                values *= weights
            sums = _segment_sums(values, starts)  # (b, n_used, v)
            pooled = _finite(metric.finish(sums.sum(axis=1) / total, whole_spread))
            splits = _finite(metric.finish(sums / split_weight, split_spread))
            without = None if replicates is None else replicates(sums)
        yield pooled, splits, without


def _finite(scores: FloatArray) -> FloatArray:
    """Return scores with nan for every value that is not finite."""
    if np.isfinite(scores.sum()):
        return np.ascontiguousarray(scores)  # sums of these depend on the order in memory
    return np.where(np.isfinite(scores), scores, np.nan)
