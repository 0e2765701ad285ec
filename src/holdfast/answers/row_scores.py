"""Scores as means over rows: what standard errors and differences are made of.

The mean squared error, the accuracy, R² with the variance of the targets in hand, log loss are
means over rows. The area under the ROC curve is not, but it is the mean of placements (DeLong,
DeLong & Clarke-Pearson 1988), whose variance is that of the area. Any other scorer is tried on
single rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sklearn.metrics import get_scorer

from holdfast._typing import AnyArray, FloatArray, IntArray
from holdfast.exceptions import InvalidInputError, NotSupportedError
from holdfast.scores.metrics import METRICS
from holdfast.scores.scoring import Scoring, decision_to_proba

__all__ = ["RowScore", "mean_and_variance", "row_score", "standard_error"]

#: Units are counted without sorting up to this many times as many numbers as rows.
SPARSE = 20

RowValues = Callable[[FloatArray, IntArray], FloatArray]


@dataclass(frozen=True, eq=False)
class RowScore:
    """A score that is a mean over rows, up to an increasing function.

    Attributes
    ----------
    name : str
    values : callable
        From predictions (k, v) of rows (k,) to values (k, c) whose weighted mean is the score; c
        is 1, or the number of targets if each has a score of its own.
    finish : callable
        From that mean to the score.
    """

    name: str
    values: RowValues
    finish: Callable[[FloatArray], FloatArray]

    def slope(self, mean: FloatArray) -> FloatArray:
        """Return the derivative of `finish`, for standard errors on the scale of the score."""
        step = 1e-6 * np.maximum(np.abs(mean), 1e-300)
        return np.asarray((self.finish(mean + step) - self.finish(mean - step)) / (2.0 * step))


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


def standard_error(
    score: RowScore, predictions: FloatArray, rows: IntArray, weights: FloatArray, units: IntArray
) -> FloatArray:
    """Return the standard error (c,) of a score over units, on its own scale.

    Parameters
    ----------
    score : RowScore
    predictions : ndarray of shape (k, v)
    rows : ndarray of int, shape (k,)
    weights, units : ndarray of shape (m,)
        Of all rows; rows of weight zero are left out.
    """
    used = weights[rows] > 0
    rows = rows[used]
    values = score.values(predictions[used], rows)
    mean, variance = mean_and_variance(values, weights[rows], units[rows])
    return np.asarray(np.abs(score.slope(mean)) * np.sqrt(variance))


def row_score(
    scoring: Scoring, labels: AnyArray, weights: FloatArray, *, per_target: bool
) -> RowScore:
    """Return a scorer as a mean over rows.

    Parameters
    ----------
    scoring : Scoring
    labels : ndarray of shape (m, v), or (m,) class labels
    weights : ndarray of shape (m,)
    per_target : bool
        Whether each target has a score of its own.

    Raises
    ------
    NotSupportedError
        For the root mean squared error of several targets together.
    """

    def targets(values: FloatArray) -> FloatArray:
        return values if per_target else values.mean(axis=1, keepdims=True)

    fast, classes = scoring.fast, scoring.classes
    if fast is None and classes is not None and _is(scoring, "roc_auc") and len(classes) == 2:
        positive = labels == classes[1]
        return RowScore(
            scoring.name, lambda p, rows: _placements(p[:, 0], positive[rows], weights[rows]), _same
        )
    if fast is None and classes is not None and _is(scoring, "neg_log_loss"):
        index = np.searchsorted(classes, labels)
        return RowScore(scoring.name, lambda p, rows: _log_loss(p, index[rows], classes), _same)
    if fast is None:
        return RowScore(scoring.name, _tried(scoring, labels, weights), _same)
    loss = METRICS[fast].row_value
    if fast == "accuracy":
        assert classes is not None
        number = np.searchsorted(classes, labels).astype(float)[:, None]
        return RowScore(scoring.name, lambda p, rows: loss(p, number[rows]), _same)
    if fast == "r2":
        used = weights > 0
        mean = weights[used] @ labels[used] / weights.sum()
        spread = weights[used] @ np.square(labels[used] - mean) / weights.sum()
        return RowScore(
            scoring.name, lambda p, rows: targets(1.0 - loss(p, labels[rows]) / spread), _same
        )
    if fast == "neg_root_mean_squared_error":
        if labels.shape[1] > 1 and not per_target:
            raise NotSupportedError(
                "the root mean squared error of several targets is not a mean over rows. Use "
                'scoring="neg_mean_squared_error", or alpha_per_target=True.'
            )
        return RowScore(
            scoring.name,
            lambda p, rows: -loss(p, labels[rows]),
            lambda mean: -np.sqrt(np.maximum(-mean, 0.0)),
        )
    return RowScore(scoring.name, lambda p, rows: targets(-loss(p, labels[rows])), _same)


def _same(mean: FloatArray) -> FloatArray:
    return mean


def _is(scoring: Scoring, name: str) -> bool:
    """Whether this is scikit-learn's scorer of that name, without other arguments."""
    twin, scorer = get_scorer(name), scoring.scorer
    fields = ("_score_func", "_sign", "_kwargs", "_response_method")
    return all(getattr(scorer, field, None) == getattr(twin, field, None) for field in fields)


def _log_loss(decision: FloatArray, index: IntArray, classes: AnyArray) -> FloatArray:
    proba = decision_to_proba(decision, len(classes))
    eps = np.finfo(float).eps
    own = np.clip(proba[np.arange(len(index)), index], eps, 1.0 - eps)
    return np.asarray(np.log(own)[:, None])


def _placements(decision: FloatArray, positive: AnyArray, weights: FloatArray) -> FloatArray:
    """Return values (k, 1) with the area under the ROC curve as weighted mean (DeLong 1988).

    A row's placement is the share of rows of the other class that it is ranked above (positive)
    or below (negative), half of ties. Values are the area plus the row's influence on it.
    """
    w1, w0 = np.where(positive, weights, 0.0), np.where(positive, 0.0, weights)
    if not (w1.sum() > 0 and w0.sum() > 0):
        raise InvalidInputError(
            "the area under the ROC curve needs rows of both classes in every part of the data "
            "that is scored by itself. Use fewer splits or partitions that keep the classes."
        )
    values, code = np.unique(decision, return_inverse=True)

    def below(w: FloatArray) -> FloatArray:
        """Return the share of weight below each value, half of that at it."""
        here = np.bincount(code, weights=w, minlength=values.size)
        return np.asarray((np.cumsum(here) - 0.5 * here)[code] / w.sum())

    placement = np.where(positive, below(w0), 1.0 - below(w1))
    area = float(w1 @ placement / w1.sum())
    share = np.where(positive, w1.sum(), w0.sum()) / weights.sum()
    return np.asarray((area + (placement - area) / share)[:, None])


def _tried(scoring: Scoring, labels: AnyArray, weights: FloatArray) -> RowValues:
    """Return the scorer's values of single rows, if the score of all of them is their mean."""

    def values(predictions: FloatArray, rows: IntArray) -> FloatArray:
        y, w = labels[rows], weights[rows]
        one = [
            scoring.call(y[i : i + 1], predictions[i : i + 1], None, undefined_is_nan=True)
            for i in range(rows.size)
        ]
        found = np.array(one)
        whole = scoring.score(y, predictions, w)
        used = w if scoring.takes_weights else np.where(w > 0, 1.0, 0.0)
        mean = float(used @ found / used.sum())
        if not abs(mean - whole) <= 1e-9 * max(abs(whole), float(np.abs(found).max())):
            raise InvalidInputError(
                f"scoring={scoring.name!r} is not a mean over rows, so that single rows have no "
                'part in its error. Use a scorer that is, or method="corrected" in an interval.'
            )
        return found[:, None]

    return values
