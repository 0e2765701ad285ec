"""What a score is: a value of every row, and what their weighted mean becomes.

The mean squared error, R² with the variance of the targets in hand, the accuracy, the log loss are
functions of one weighted mean over rows. That one statement gives the score of every experiment and
of all rows together (`holdfast.scores.scoring`), its standard error (`holdfast.scores.row_means`),
and how it is printed. The numbers are those of the scikit-learn scorers of the same name, up to
rounding.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast._typing import FloatArray, IntArray
from holdfast.scores.probabilities import of_own_class

__all__ = ["METRICS", "Metric", "in_words", "segment_sums", "spreads"]


@dataclass(frozen=True)
class Metric:
    """One metric: a loss (or gain) per row, and the score made of its weighted mean.

    Attributes
    ----------
    row_value : callable
        (predictions (b, k, v), y) -> (b, k, v) values to be averaged with the row weights.
    finish : callable
        (mean value, variance of y) -> score; elementwise.
    slope : callable
        The derivative of `finish` with respect to the mean value.
    uses_spread : bool
        Whether `finish` uses the weighted variance of y over the same rows.
    linear : bool
        Whether the score of the mean is the mean of the scores of single rows, the variance given.
    of : {"values", "decisions", "probabilities"}
        What `row_value` takes: predictions of numbers with the targets, or decision values or
        class probabilities with the index of each row's class, (k, 1).
    """

    row_value: Callable[[FloatArray, FloatArray], FloatArray]
    finish: Callable[[FloatArray, FloatArray], FloatArray]
    slope: Callable[[FloatArray, FloatArray], FloatArray]
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


def _gain(mean: FloatArray, _: FloatArray) -> FloatArray:
    return mean


def _loss(mean: FloatArray, _: FloatArray) -> FloatArray:
    return -mean


def _up(mean: FloatArray, _: FloatArray) -> FloatArray:
    return np.ones_like(mean)


def _down(mean: FloatArray, _: FloatArray) -> FloatArray:
    return -np.ones_like(mean)


def _root(mean: FloatArray, _: FloatArray) -> FloatArray:
    return -np.sqrt(np.maximum(mean, 0.0))


def _of_root(mean: FloatArray, _: FloatArray) -> FloatArray:
    return np.asarray(-0.5 / np.sqrt(np.maximum(mean, np.finfo(float).tiny)))


def _over_variance(mean: FloatArray, spread: FloatArray) -> FloatArray:
    return np.where(spread == 0, 0.0, -1.0 / np.where(spread == 0, 1.0, spread)) + 0.0 * mean


METRICS: dict[str, Metric] = {
    "neg_mean_squared_error": Metric(_squared_error, _loss, _down),
    "neg_root_mean_squared_error": Metric(_squared_error, _root, _of_root, linear=False),
    "neg_mean_absolute_error": Metric(_absolute_error, _loss, _down),
    "r2": Metric(_squared_error, _r2, _over_variance, uses_spread=True),
    "accuracy": Metric(_hit, _gain, _up, of="decisions"),
    "neg_log_loss": Metric(_log_probability, _gain, _up, of="probabilities"),
    "neg_brier_score": Metric(_squared_difference, _loss, _down, of="probabilities"),
}

#: What scores are called in print, and what becomes of the number.
_WORDS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "neg_mean_squared_error": ("RMSE", lambda score: np.sqrt(np.maximum(np.negative(score), 0.0))),
    "neg_root_mean_squared_error": ("RMSE", np.negative),
    "neg_mean_absolute_error": ("MAE", np.negative),
    "r2": ("R²", np.positive),
    "neg_brier_score": ("Brier score", np.negative),
    "roc_auc": ("AUC", np.positive),
    "pearson": ("Pearson's r", np.positive),
    "kendall_tau": ("Kendall's τ", np.positive),
}


def in_words(name: str) -> tuple[str, Callable[[Any], Any]]:
    """Return what a score is called in print, and the function of the score that is printed.

    A mean squared error is printed as its root, in the unit of the target; other losses without
    their minus sign.
    """
    plain = name.removeprefix("neg_").replace("_", " ")
    return _WORDS.get(name, (plain, np.negative if name.startswith("neg_") else np.positive))


def segment_sums(values: FloatArray, starts: IntArray) -> FloatArray:
    """Return the sums of the rows (…, k, v) from each start to the next: (…, n_used, v)."""
    if len(starts) == values.shape[-2]:  # one row in every experiment
        return values
    return np.asarray(np.add.reduceat(values, starts, axis=-2))


def spreads(y: FloatArray, weights: FloatArray, ptr: IntArray) -> FloatArray:
    """Return the weighted variances (n, v) of y in each experiment; 0 if constant, nan of a row."""
    starts, counts, w = ptr[:-1], np.diff(ptr), weights[:, None]
    total = segment_sums(w, starts)
    mean = segment_sums(w * y, starts) / total
    centred = y - np.repeat(mean, counts, axis=0)
    variance = segment_sums(w * centred * centred, starts) / total
    # Rounding of the mean would make a constant target seem to vary.
    variance[np.maximum.reduceat(y, starts) == np.minimum.reduceat(y, starts)] = 0.0
    variance[counts < 2] = np.nan
    return variance
