"""Scores as means over rows: what standard errors and differences are made of.

The mean squared error, the accuracy, R² with the variance of the targets in hand, log loss are
means over rows. The area under the ROC curve is not, but it is the mean of placements (DeLong,
DeLong & Clarke-Pearson 1988), whose variance is that of the area. Any other scorer is evaluated on
single rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from holdfast._typing import AnyArray, FloatArray, IntArray
from holdfast.exceptions import InvalidInputError, NotSupportedError
from holdfast.scores.metrics import METRICS, spreads
from holdfast.scores.probabilities import happened, shares, sigmoid_probabilities
from holdfast.scores.scorers import class_index, is_scorer
from holdfast.scores.scoring import Scoring

__all__ = ["NoRowMean", "RowScore", "row_score"]

RowValues = Callable[[FloatArray, IntArray], FloatArray]


class NoRowMean(NotSupportedError):
    """A score that is not a mean over rows was asked for single rows."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"scoring={name!r} of these targets is not a mean over rows, which the method asks "
            'for. Use method="asymptotic", which leaves out a part of the data at a time.'
        )


@dataclass(frozen=True, eq=False)
class RowScore:
    """A score that is a mean over rows, up to an increasing function.

    Attributes
    ----------
    name : str
    values : callable
        From predictions (k, v) of rows (k,) to values (k, c) whose weighted mean is the score; c
        is 1, or the number of targets if each has a score of its own.
    weights : ndarray of shape (m,)
        What the rows of the data weigh in that mean.
    finish : callable
        From that mean to the score.
    """

    name: str
    values: RowValues
    weights: FloatArray
    finish: Callable[[FloatArray], FloatArray]

    def slope(self, mean: FloatArray) -> FloatArray:
        """Return the derivative of `finish`, for standard errors on the scale of the score."""
        step = 1e-6 * np.maximum(np.abs(mean), 1e-300)
        return np.asarray((self.finish(mean + step) - self.finish(mean - step)) / (2.0 * step))


def row_score(
    scoring: Scoring,
    labels: AnyArray,
    weights: FloatArray,
    rows: IntArray,
    *,
    per_target: bool,
    known: bool = False,
) -> RowScore:
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
    known : bool
        Whether to refuse a scorer that would have to be evaluated on every row.

    Raises
    ------
    NoRowMean
        If it is not a mean over rows, as far as is known before it is evaluated.
    """

    def targets(values: FloatArray) -> FloatArray:
        return values if per_target else values.mean(axis=1, keepdims=True)

    fast, classes, name = scoring.fast, scoring.classes, scoring.name
    if classes is not None and len(classes) == 2 and is_scorer(scoring.scorer, "roc_auc"):
        positive = labels == classes[1]

        def placements(p: FloatArray, rows: IntArray) -> FloatArray:
            return _placements(p[:, 0], positive[rows], weights[rows])

        return RowScore(name, placements, weights, _same)
    if fast is None:
        several = per_target and classes is None and labels.shape[1] > 1
        if known or several or scoring.density or scoring.takes_groups:
            raise NoRowMean(name)
        used = weights if scoring.takes_weights else np.where(weights > 0, 1.0, 0.0)
        return RowScore(name, _tried(scoring, labels, used), used, _same)
    metric, y, spread = METRICS[fast], labels, np.zeros(1)
    if classes is not None:
        y = class_index(labels, classes).astype(float)[:, None]
    if metric.uses_spread:
        rows = rows[weights[rows] > 0]
        spread = spreads(y[rows], weights[rows], np.array([0, rows.size]))[0]
        if not (spread > 0).all():
            raise NoRowMean(name)
    if metric.linear:

        def each(p: FloatArray, r: IntArray) -> FloatArray:
            if metric.of == "probabilities":
                own = happened(y[r], p.shape[1])
                p = sigmoid_probabilities(p[None], own, shares(r, weights[r]))
                return np.asarray(metric.finish(metric.row_value(p, y[r])[0], spread))
            return targets(metric.finish(metric.row_value(p, y[r]), spread))

        return RowScore(name, each, weights, _same)
    if labels.shape[1] > 1 and not per_target:
        raise NoRowMean(name)
    return RowScore(
        name,
        lambda p, r: -metric.row_value(p, y[r]),
        weights,
        lambda mean: metric.finish(np.maximum(-mean, 0.0), spread),
    )


def _same(mean: FloatArray) -> FloatArray:
    return mean


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
        mean = float(w @ found / w.sum())
        if not abs(mean - whole) <= 1e-9 * max(abs(whole), float(np.abs(found).max())):
            raise NoRowMean(scoring.name)
        return found[:, None]

    return values
