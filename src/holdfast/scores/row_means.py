"""Scores as means over rows: what intervals, comparisons and the 1-SE rule are made of.

The mean squared error, the accuracy, R² with the variance of the targets in hand, log loss are
means over rows (`holdfast.scores.metrics`). The area under the ROC curve is not, but it is the mean
of placements (DeLong, DeLong & Clarke-Pearson 1988), whose variance is that of the area. Other
scorers are jackknifed (`holdfast.scores.standard_errors`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from holdfast._typing import AnyArray, FloatArray, IntArray
from holdfast.exceptions import InvalidInputError, NotSupportedError
from holdfast.scores.metrics import Metric, spreads
from holdfast.scores.probabilities import happened, shares, sigmoid_probabilities
from holdfast.scores.scorers import Scoring, class_index, is_scorer

__all__ = ["NoRowMean", "RowMean", "row_mean"]

RowValues = Callable[[FloatArray, IntArray], FloatArray]


class NoRowMean(NotSupportedError):
    """A score that is not a mean over rows was asked for single rows."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"scoring={name!r} of these targets is not a mean over rows, which the method asks "
            'for. Use method="asymptotic", which leaves out a part of the data at a time.'
        )


@dataclass(frozen=True, eq=False)
class RowMean:
    """A score that is a mean over rows, or a function of one.

    Attributes
    ----------
    name : str
    values : callable
        From predictions (k, v) of rows (k,) to values (k, c) whose weighted mean makes the score;
        c is 1, or the number of targets if each has a score of its own.
    weights : ndarray of shape (m,)
        What the rows of the data weigh in that mean.
    metric : Metric or None
        What the mean becomes; None: the mean is the score.
    """

    name: str
    values: RowValues
    weights: FloatArray
    metric: Metric | None = None

    def finish(self, mean: FloatArray) -> FloatArray:
        """Return the score that a mean becomes."""
        return mean if self.metric is None else self.metric.finish(mean, np.zeros(1))

    def slope(self, mean: FloatArray) -> FloatArray:
        """Return the derivative of `finish`, for standard errors on the scale of the score."""
        return np.ones_like(mean) if self.metric is None else self.metric.slope(mean, np.zeros(1))


def row_mean(
    scoring: Scoring,
    labels: AnyArray,
    weights: FloatArray,
    rows: IntArray,
    *,
    per_target: bool,
) -> RowMean:
    """Return a scorer as a mean over rows.

    Parameters
    ----------
    scoring : Scoring
    labels : ndarray of shape (m, v), or (m,) class labels
    weights : ndarray of shape (m,)
    rows : ndarray of int, shape (k,)
        The rows that are tested: R² is relative to their variance.
    per_target : bool
        Whether each target has a score of its own.

    Raises
    ------
    NoRowMean
        If it is not a mean over rows.
    """
    metric, classes, name = scoring.metric, scoring.classes, scoring.name
    if classes is not None and len(classes) == 2 and is_scorer(scoring.scorer, "roc_auc"):
        positive = labels == classes[1]
        return RowMean(name, lambda p, r: _placements(p[:, 0], positive[r], weights[r]), weights)
    if metric is None or not (metric.linear or per_target or labels.shape[1] == 1):
        raise NoRowMean(name)
    if not metric.linear:
        return RowMean(name, lambda p, r: metric.row_value(p, labels[r]), weights, metric)
    y, spread = labels, np.zeros(1)
    if classes is not None:
        y = class_index(labels, classes).astype(float)[:, None]
    if metric.uses_spread:
        rows = rows[weights[rows] > 0]
        spread = spreads(y[rows], weights[rows], np.array([0, rows.size]))[0]
        if not (spread > 0).all():
            raise NoRowMean(name)

    def values(p: FloatArray, r: IntArray) -> FloatArray:
        if metric.of == "probabilities":
            p = sigmoid_probabilities(p[None], happened(y[r], p.shape[1]), shares(r, weights[r]))[0]
        scores = metric.finish(metric.row_value(p[None], y[r])[0], spread)
        return scores if per_target else scores.mean(axis=1, keepdims=True)

    return RowMean(name, values, weights)


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
