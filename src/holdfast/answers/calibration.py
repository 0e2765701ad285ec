"""Class probabilities from held-out decision values: Platt's sigmoid, or isotonic regression.

A calibrator learns from decisions about rows that the model did not see; decisions about training
rows are overconfident. scikit-learn's ``CalibratedClassifierCV(ensemble=False)`` gets such
decisions by fitting the model once more for each fold; here they are already known. What is learned
from them is the same: one calibrator for each class against the rest, then probabilities scaled to
sum to one. The sigmoids are those of the default score of a classifier
(`holdfast.scores.probabilities`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from scipy.special import expit
from sklearn.isotonic import IsotonicRegression

from holdfast._typing import AnyArray, BoolArray, FloatArray, IntArray
from holdfast.scores.metric import KNOWN
from holdfast.scores.probabilities import of_classes, sigmoids

__all__ = ["CALIBRATIONS", "Calibration", "CalibrationScores", "calibrated", "compared"]

CALIBRATIONS = ("sigmoid", "isotonic")
#: Parts of the rows, each scored by calibrators that learned from the others.
PARTS = 10


class CalibrationScores(NamedTuple):
    """How good probabilities are, smaller being better.

    Attributes
    ----------
    log_loss : float
        Minus the mean log probability of the class that a row has.
    brier : float
        Mean squared difference between probabilities and what happened, as scikit-learn's
        ``brier_score_loss``: half the sum over the classes where there are two, else the sum.
    """

    log_loss: float
    brier: float


@dataclass(frozen=True, eq=False)
class Calibration:
    """From decision values to probabilities, target by target.

    Attributes
    ----------
    method : {"sigmoid", "isotonic"}
    decisions : tuple of ndarray
        Of each target, for "isotonic": the decision values between which probabilities are
        interpolated. For "sigmoid": the slope s and the intercept c of 1 / (1 + exp(−sf − c)).
    probabilities : tuple of ndarray
        Of each target, for "isotonic": the probabilities there. Empty for "sigmoid".
    """

    method: Literal["sigmoid", "isotonic"]
    decisions: tuple[FloatArray, ...]
    probabilities: tuple[FloatArray, ...]

    def each(self, decision: FloatArray) -> FloatArray:
        """Return the probability (k, v) of every target by itself, of decision values (k, v)."""
        if self.method == "sigmoid":
            slope, intercept = np.array(self.decisions).T
            return np.asarray(expit(decision * slope + intercept))
        maps = zip(decision.T, self.decisions, self.probabilities, strict=True)
        return np.stack([np.interp(f, x, p) for f, x, p in maps], axis=1)

    def of_classes(self, decision: FloatArray) -> FloatArray:
        """Return probabilities (k, classes) that sum to one; one target is that of two classes."""
        return of_classes(self.each(decision))


def calibrated(
    method: Literal["sigmoid", "isotonic"],
    decision: FloatArray,
    positive: BoolArray,
    weights: FloatArray,
) -> Calibration:
    """Return what held-out decision values say about probabilities.

    Parameters
    ----------
    method : {"sigmoid", "isotonic"}
    decision : ndarray of shape (k, v)
        Held-out decision values.
    positive : ndarray of bool, shape (k, v)
        Whether a row has the class of each column.
    weights : ndarray of shape (k,)
        Rows of weight zero do not count.
    """
    used = weights > 0
    if not used.all():
        decision, positive, weights = decision[used], positive[used], weights[used]
    if method == "sigmoid":
        found = sigmoids(decision[None], positive, weights)
        pairs_of = np.stack([found.slope[0], found.intercept[0]], axis=1)
        return Calibration(method, tuple(pairs_of), ())
    pairs = zip(decision.T, positive.T, strict=True)
    fits = [
        IsotonicRegression(out_of_bounds="clip").fit(f, own.astype(float), weights)
        for f, own in pairs
    ]
    return Calibration(
        method,
        tuple(fit.X_thresholds_ for fit in fits),
        tuple(fit.y_thresholds_ for fit in fits),
    )


def compared(
    method: Literal["sigmoid", "isotonic"],
    decision: FloatArray,
    plain: FloatArray,
    positive: BoolArray,
    weights: FloatArray,
    owners: IntArray,
) -> tuple[CalibrationScores, CalibrationScores]:
    """Return the scores of plain and of calibrated probabilities of held-out rows.

    Parameters
    ----------
    method, decision, positive, weights
        As in `calibrated`.
    plain : ndarray of shape (k, classes)
        Probabilities without calibration.
    owners : ndarray of int, shape (k,)
        The experiment of each row. Those of every tenth experiment are scored by calibrators that
        learned from the others: isotonic regression follows what it has seen.
    """
    better, part = np.empty_like(plain), owners % min(PARTS, int(owners.max()) + 1)
    for own in np.unique(part):
        inside = part == own
        if (weights[~inside] > 0).any():
            others = calibrated(method, decision[~inside], positive[~inside], weights[~inside])
        else:  # a single experiment
            others = calibrated(method, decision, positive, weights)
        better[inside] = others.of_classes(decision[inside])
    index = positive[:, 0] if positive.shape[1] == 1 else positive.argmax(axis=1)
    return _scores(plain, index, weights), _scores(better, index, weights)


def _scores(p: FloatArray, index: AnyArray, weights: FloatArray) -> CalibrationScores:
    """Return the scores of probabilities (k, classes) of rows of these classes."""
    losses = []
    for metric in (KNOWN["neg_log_loss"], KNOWN["neg_brier_score"]):
        assert metric.row_value is not None
        mean = np.average(metric.row_value(p[None], index)[0, :, 0], weights=weights)
        losses.append(-metric.sign * float(mean))
    return CalibrationScores(*losses)
