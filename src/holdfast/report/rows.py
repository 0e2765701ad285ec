"""Held-out predictions row by row, and the scores of parts: experiments, groups."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from holdfast._typing import FloatArray, IntArray

if TYPE_CHECKING:
    from holdfast.answers.held_out import HeldOutPredictions
    from holdfast.estimators.base import CrossValidatedKernelRidge

__all__ = ["PartScore", "RowResults", "part_scores", "row_results", "wilson"]

#: Of the intervals of parts.
LEVEL = 0.9


@dataclass(frozen=True, eq=False)
class RowResults:
    """One entry per tested row and experiment, at the chosen penalty, for one target."""

    rows: IntArray  #: Row of the data
    experiment: IntArray  #: Which experiment tested it
    y: NDArray[Any]  #: The truth: numbers, or class labels
    #: What the model that never saw the row says: numbers, or class labels
    prediction: NDArray[Any]
    error: FloatArray  #: Truth minus prediction; for classes 1 where wrong, else 0
    #: By which rows are called hard: the absolute error; for classes how far the decision
    #: lies on the wrong side
    badness: FloatArray
    #: The same error without any features: by the training rows' mean or most frequent class
    baseline: FloatArray
    weights: FloatArray  #: Weight of the row
    classes: NDArray[Any] | None  #: Class labels of a classifier

    @property
    def label(self) -> str:
        """What `score` is."""
        return "RMSE" if self.classes is None else "share of errors"

    def score(self, part: NDArray[Any] | slice = slice(None)) -> float:
        """Return the error of a part of the entries: root mean square, or share of errors."""
        return self._mean(self.error, part)

    def baseline_score(self) -> float:
        """Return the same error for the model without features."""
        return self._mean(self.baseline, slice(None))

    def balanced(self) -> float | None:
        """Return the mean over classes of the share of their rows that is right."""
        if self.classes is None:
            return None
        parts = [np.flatnonzero(self.y == name) for name in self.classes]
        found = [1.0 - self.score(part) for part in parts if self.weights[part].sum() > 0]
        return float(np.mean(found)) if found else None

    def _mean(self, error: FloatArray, part: NDArray[Any] | slice) -> float:
        w, e = self.weights[part], error[part]
        if not w.sum() > 0:
            return float("nan")
        mean = float(w @ (e * e) / w.sum())
        return mean**0.5 if self.classes is None else mean


@dataclass(frozen=True)
class PartScore:
    """The error of one experiment or one group."""

    label: str  #: The part
    count: int  #: How many predictions
    score: float  #: Root mean squared error, or share of errors
    bias: float | None  #: Mean of truth minus prediction; None for classes
    #: A 90 % interval of the score, if the rows of the part are independent; NaN for one row
    low: float = math.nan
    high: float = math.nan


def row_results(
    model: CrossValidatedKernelRidge,
    found: HeldOutPredictions | None = None,
    target: int = 0,
) -> RowResults:
    """Return the held-out predictions of a fitted model, row by row.

    Parameters
    ----------
    model : fitted estimator
    found : HeldOutPredictions, optional
        At one penalty; by default the model's own experiments at its own penalty.
    target : int, default 0
        Which target of a regression on several.
    """
    if found is None:
        alpha = float(np.atleast_1d(model.alpha_)[min(target, np.size(model.alpha_) - 1)])
        found = model.held_out(alphas=[alpha])
    rows = found.rows
    weights = found.weights[rows]
    values = found.values[0]
    if found.classes is None:
        y, prediction = found.y[rows, target], values[:, target]
        error = y - prediction
        badness, baseline = np.abs(error), y - _training_means(found, target)
    else:
        y, prediction = found.y[rows], found.labels()[0]
        error = (y != prediction).astype(float)
        badness = _wrong_side(values, y, found.classes)
        baseline = (y != _training_modes(found)).astype(float)
    owners = found.experiments.test.owners
    return RowResults(rows, owners, y, prediction, error, badness, baseline, weights, found.classes)


def part_scores(
    results: RowResults, labels: NDArray[Any], names: Sequence[str] | None = None
) -> tuple[PartScore, ...]:
    """Return the score of each part, the worst first.

    Parameters
    ----------
    results : RowResults
    labels : ndarray of shape (k,)
        The part that each entry belongs to.
    names : sequence of str, optional
        Names of the parts, in the order of their sorted labels.
    """
    values, code = np.unique(labels, return_inverse=True)
    order = np.argsort(code, kind="stable")
    bounds = np.searchsorted(code[order], np.arange(len(values) + 1))
    parts = []
    for i, value in enumerate(values):
        part = order[bounds[i] : bounds[i + 1]]
        w = results.weights[part]
        if not w.sum() > 0:
            continue
        bias = float(w @ results.error[part] / w.sum()) if results.classes is None else None
        label = str(value) if names is None else names[i]
        score = results.score(part)
        low, high = _interval(results, part, score)
        parts.append(PartScore(label, int(part.size), score, bias, low, high))
    return tuple(sorted(parts, key=lambda p: -p.score))


def _interval(results: RowResults, part: IntArray, score: float) -> tuple[float, float]:
    """Return a 90 % interval of a part's score, its rows taken as independent.

    The mean square of n errors has the relative standard error s/(√n mean); its logarithm is about
    normal, which keeps the ends positive: score · exp(± t s / (2 √n mean)).
    """
    w = results.weights[part]
    if results.classes is not None:
        return wilson(score, w, LEVEL)
    n = float(w.sum() ** 2 / (w @ w))
    squares = results.error[part] ** 2
    mean = score * score
    if n < 2 or mean <= 0:
        return math.nan, math.nan
    spread = math.sqrt(float(w @ (squares - mean) ** 2 / w.sum()) / (n - 1)) / mean
    factor = math.exp(min(50.0, 0.5 * float(stdtrit(n - 1, (1 + LEVEL) / 2)) * spread))
    return score / factor, score * factor


def wilson(share: float, weights: FloatArray, level: float) -> tuple[float, float]:
    """Return Wilson's interval of a share of independent rows (Wilson 1927).

    Parameters
    ----------
    share : float
    weights : ndarray of shape (n,)
        Of the rows; unequal weights count as fewer rows, (Σw)²/Σw² of them.
    level : float
        Confidence level.
    """
    n = float(weights.sum() ** 2 / (weights @ weights))
    z = float(ndtri((1 + level) / 2))
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return max(0.0, middle - half), min(1.0, middle + half)


def _training_means(found: HeldOutPredictions, target: int) -> FloatArray:
    """Return for each entry the weighted mean of the target over its training rows."""
    w, y = found.weights, found.y[:, target]
    held, ptr = found.experiments.held_out.values, found.experiments.held_out.ptr
    held_weight = _sums(w[held], ptr)
    held_total = _sums((w * y)[held], ptr)
    # Centred first, so that the difference of two large sums loses nothing.
    centre = float(w @ y / w.sum())
    means = -(held_total - centre * held_weight) / (w.sum() - held_weight) + centre
    return np.asarray(means[found.experiments.test.owners])


def _training_modes(found: HeldOutPredictions) -> NDArray[Any]:
    """Return for each entry the most frequent class among its training rows."""
    assert found.classes is not None
    code = np.searchsorted(found.classes, found.y)
    held, ptr = found.experiments.held_out.values, found.experiments.held_out.ptr
    left = np.empty((len(ptr) - 1, len(found.classes)))
    for c in range(len(found.classes)):
        inside = found.weights * (code == c)
        left[:, c] = inside.sum() - _sums(inside[held], ptr)
    return np.asarray(found.classes[left.argmax(axis=1)][found.experiments.test.owners])


def _sums(values: FloatArray, ptr: IntArray) -> FloatArray:
    total = np.concatenate([[0.0], np.cumsum(values)])
    return np.asarray(total[ptr[1:]] - total[ptr[:-1]])


def _wrong_side(values: FloatArray, y: NDArray[Any], classes: NDArray[Any]) -> FloatArray:
    """Return how far the best other class beats the true one; positive where wrong."""
    code = np.searchsorted(classes, y)
    f = np.hstack([-values, values]) if values.shape[1] == 1 else values
    rows = np.arange(len(y))
    true = f[rows, code]
    others = f.copy()
    others[rows, code] = -np.inf
    return np.asarray(others.max(axis=1) - true)
