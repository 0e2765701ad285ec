"""How flat the optimum is, and which features matter: what else a search should report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from holdfast._typing import FloatArray
from holdfast.exceptions import HoldfastError
from holdfast.scores.standard_errors import mean_and_variance
from holdfast.tuning.criterion import Criterion, Evaluation

__all__ = ["Flatness", "Relevance", "flatness", "relevance", "standard_error"]

#: Step, in logarithms, of the differences that give the Hessian.
STEP = 1e-3
#: An end of a range is accepted if the rise of the criterion there is within this share of the
#: threshold.
CLOSE = 0.1
#: How many standard errors of a difference count as uncertainty.
MARGIN = 2.0
#: A rise of the criterion by less than this many per cent, uncertainty included, does not matter.
NEGLIGIBLE = 2.0


@dataclass(frozen=True, eq=False)
class Flatness:
    """The criterion around its optimum, in log alpha and log gamma.

    Attributes
    ----------
    hessian : ndarray of shape (k, k) or None
        Second derivatives by log alpha and each log gamma; None where the kernel has no gradient.
    eigenvalues : ndarray of shape (k,) or None
        Of the Hessian, ascending: near zero is a direction in which nothing changes.
    one_percent : ndarray of shape (k, 2)
        For alpha and each gamma the interval, the others fixed, on which the criterion rises by
        less than 1 % (minus a log density: by less than 0.005, what 1 % more variance costs). It
        does not reach beyond the bounds of the search.
    one_standard_error : ndarray of shape (k, 2)
        The same for less than one standard error of the criterion.
    """

    hessian: FloatArray | None
    eigenvalues: FloatArray | None
    one_percent: FloatArray
    one_standard_error: FloatArray


@dataclass(frozen=True, eq=False)
class Relevance:
    """What the criterion would lose without each feature.

    Attributes
    ----------
    rise : ndarray of shape (d,)
        By how much the criterion rises when the gamma of a feature goes to its lower bound.
    standard_error : ndarray of shape (d,)
        Of that rise, from the differences in each experiment.
    relevant : ndarray of bool, shape (d,)
        Whether the rise is above two standard errors.
    irrelevant : ndarray of bool, shape (d,)
        Whether gamma is at its lower bound, or the rise and two standard errors together are below
        2 % of the criterion (minus a log density: below 0.01). A feature that is neither relevant
        nor irrelevant is unclear.
    """

    rise: FloatArray
    standard_error: FloatArray
    relevant: NDArray[np.bool_]
    irrelevant: NDArray[np.bool_]

    @property
    def verdicts(self) -> list[str]:
        """Of each feature: "relevant", "irrelevant" or "unclear"."""
        return [
            "relevant" if yes else "irrelevant" if no else "unclear"
            for yes, no in zip(self.relevant, self.irrelevant, strict=True)
        ]


def standard_error(losses: FloatArray, share: FloatArray) -> float:
    """Return the standard error of a sum of losses, the experiments being independent.

    `losses` are what the experiments add to a weighted mean, `share` their parts in the weight.
    """
    means, units = (losses / share)[:, None], np.arange(losses.size)
    return float(np.sqrt(mean_and_variance(means, share, units)[1][0]))


def flatness(
    criterion: Criterion, point: FloatArray, best: Evaluation, bounds: FloatArray
) -> Flatness:
    """Return the Hessian and the ranges around an optimum.

    Notes
    -----
    The Hessian from central differences of the gradient, two gradients per coordinate. The ranges
    come from the criterion itself, a few values per end: so far out it is not quadratic.
    """
    hessian = _hessian(criterion, point) if criterion.differentiable else None
    one_percent = criterion.loss.percent(best.value)
    thresholds = (one_percent, standard_error(best.losses, criterion.share))
    ranges = np.empty((2, point.size, 2))
    for i in range(point.size):
        curvature = 0.0 if hessian is None else float(hessian[i, i])
        for side, sign in enumerate((-1, 1)):
            room = abs(bounds[i, side] - point[i])
            rise = _line(criterion, point, best.value, i, sign)
            for k, threshold in enumerate(thresholds):
                step = _crossing(rise, threshold, curvature, room)
                ranges[k, i, side] = np.exp(point[i] + sign * step)
    if hessian is None:
        return Flatness(None, None, *ranges)
    eigenvalues = np.asarray(np.linalg.eigvalsh(hessian), dtype=np.float64)
    return Flatness(criterion.scale * hessian, criterion.scale * eigenvalues, *ranges)


def _hessian(criterion: Criterion, point: FloatArray) -> FloatArray:
    rows = []
    for i in range(point.size):
        step = np.zeros(point.size)
        step[i] = STEP
        up, down = (criterion.evaluate(point + s * step).gradient for s in (1.0, -1.0))
        assert up is not None
        assert down is not None
        rows.append((up - down) / (2.0 * STEP))
    hessian = np.array(rows)
    return 0.5 * (hessian + hessian.T)


def _line(
    criterion: Criterion, point: FloatArray, value: float, i: int, sign: int
) -> Callable[[float], float]:
    """Return the rise of the criterion as a function of the step along one coordinate."""

    def rise(step: float) -> float:
        at = point.copy()
        at[i] += sign * step
        try:
            return criterion.evaluate(at, gradient=False).value - value
        except HoldfastError:  # the model breaks down there: no longer flat
            return float("inf")

    return rise


def _crossing(
    rise: Callable[[float], float], threshold: float, curvature: float, room: float
) -> float:
    """Return how far one can go until the criterion rises by the threshold, at most `room`.

    The root of a quadratic is known; it becomes an end of the bracket that Brent's method starts
    from. The square root of the rise is searched, which is then a straight line.
    """
    if room <= 0.0 or not np.isfinite(threshold):
        return room

    @cache
    def over(step: float) -> float:
        share = rise(step) / threshold if step > 0.0 else 0.0
        return 0.0 if abs(share - 1.0) <= CLOSE else min(max(share, 0.0), 1e6) ** 0.5 - 1.0

    guess = np.sqrt(2.0 * threshold / curvature) if curvature > 0.0 else 1.0
    low, high = 0.0, float(min(max(guess, 1e-3), room))
    if over(high) < 0.0:
        low, high = high, room
        if over(high) <= 0.0:
            return room
    return float(brentq(over, low, high, xtol=1e-3, rtol=1e-2))


def relevance(
    criterion: Criterion, point: FloatArray, best: Evaluation, bounds: FloatArray
) -> Relevance | None:
    """Return what each feature is worth; None when all share one gamma, or have several.

    Notes
    -----
    One value of the criterion per feature. A small gamma alone says little: features differ in
    scale, and a feature may act through a wide kernel. What decides is whether held-out rows are
    predicted better with the feature, and that difference is known far better than either error.
    """
    if not criterion.ard or len(criterion.coordinates.names) > 1:
        return None
    d, share = point.size - 1, criterion.share
    rise, error = np.zeros(d), np.zeros(d)
    at_bound = point[1:] <= bounds[1:, 0] + 1e-6
    for j in np.flatnonzero(~at_bound):
        without = point.copy()
        without[1 + j] = bounds[1 + j, 0]
        difference = criterion.evaluate(without, gradient=False).losses - best.losses
        rise[j], error[j] = difference.sum(), standard_error(difference, share)
    relevant = ~at_bound & (rise > MARGIN * error)
    small = rise + MARGIN * error < NEGLIGIBLE * criterion.loss.percent(best.value)
    return Relevance(rise, error, relevant, ~relevant & (at_bound | small))
