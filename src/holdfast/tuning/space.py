"""The bounds of a search and its starting points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from holdfast._typing import FloatArray
from holdfast.data.rows import take_rows
from holdfast.exceptions import InvalidInputError
from holdfast.kernels.products import squared_distances
from holdfast.tuning.criterion import Criterion
from holdfast.tuning.problem import Problem

__all__ = ["Bounds", "look_around", "reference_gamma", "search_bounds", "start_points"]

Bounds = Mapping[str, Any]

#: Default bounds of alpha, times the mean weight of a row. Below the lower one, rounding errors of
#: a thousand rows with a wide kernel would show in the sixth digit and confuse line searches.
ALPHA = (1e-7, 1e4)
#: Default bounds of gamma, times the gamma at which an average pair of rows is one unit apart.
#: Below the lower one a feature changes no kernel value in its first six digits.
GAMMA = (1e-6, 1e4)
#: The median distance is taken over a sample of this many rows.
SAMPLE = 1000


def reference_gamma(problem: Problem, ard: bool) -> FloatArray:
    """Return the gamma at which typical rows are one unit apart, shape (1,) or (d,).

    One over the median squared distance (the median heuristic), or for each feature one over its
    own mean squared difference and the number of features.
    """
    X = problem.X
    if ard:
        mean = np.asarray(X.mean(axis=0)).ravel()
        square = X.multiply(X) if sp.issparse(X) else X * X
        spread = 2.0 * (np.asarray(square.mean(axis=0)).ravel() - mean * mean)
        floor = 1e-12 * max(float(spread.max()), np.finfo(float).tiny)
        spread = np.where(spread > floor, spread, 1.0)  # a constant feature changes nothing
        return np.asarray(1.0 / (spread * spread.size))
    rows = np.linspace(0, X.shape[0] - 1, min(X.shape[0], SAMPLE)).astype(np.int64)
    distances = squared_distances(take_rows(X, rows))
    positive = distances[distances > 0]
    return np.array([1.0 / float(np.median(positive)) if positive.size else 1.0])


def search_bounds(criterion: Criterion, bounds: Bounds | None) -> FloatArray:
    """Return lower and upper bounds of log alpha and log gamma, shape (k, 2)."""
    given = dict(bounds or {})
    unknown = set(given) - {"alpha", "gamma"}
    if unknown:
        raise InvalidInputError(
            f'bounds must be a dict with the keys "alpha" and "gamma"; got {sorted(unknown)}.'
        )
    weight = float(criterion.problem.weights.mean())
    reference = reference_gamma(criterion.problem, criterion.ard)
    if criterion.ard:
        reference = reference * reference.size
    alpha = _interval("alpha", given.get("alpha", np.array(ALPHA) * weight), 1)
    gamma = _interval("gamma", given.get("gamma", np.outer(reference, GAMMA)), criterion.size - 1)
    return np.asarray(np.log(np.vstack([alpha, gamma])))


def _interval(name: str, value: Any, size: int) -> FloatArray:
    limits = np.asarray(value, dtype=np.float64)
    if limits.shape not in ((2,), (size, 2)) or not np.isfinite(limits).all():
        raise InvalidInputError(
            f"bounds of {name} must be (low, high) or {size} such pairs; got {value!r}."
        )
    limits = np.broadcast_to(limits, (size, 2))
    if not ((limits[:, 0] > 0) & (limits[:, 0] < limits[:, 1])).all():
        raise InvalidInputError(f"bounds of {name} must satisfy 0 < low < high; got {value!r}.")
    return limits


def start_points(criterion: Criterion, start: Any, bounds: FloatArray) -> list[FloatArray]:
    """Return the points that a user's `start` describes: one (alpha, gamma) or a list of them."""
    pairs = start if isinstance(start, list) else [start]
    points = []
    for pair in pairs:
        if not isinstance(pair, Sequence | np.ndarray) or len(pair) != 2:
            raise InvalidInputError(
                f"start must be a pair (alpha, gamma) or a list of such pairs; got {pair!r}."
            )
        gamma = np.broadcast_to(np.asarray(pair[1], dtype=np.float64).ravel(), criterion.size - 1)
        values = np.append(float(pair[0]), gamma)
        if not (np.isfinite(values).all() and (values > 0).all()):
            raise InvalidInputError(f"start must hold positive numbers; got {pair!r}.")
        points.append(np.clip(np.log(values), bounds[:, 0], bounds[:, 1]))
    return points


def look_around(criterion: Criterion, bounds: FloatArray) -> list[FloatArray]:
    """Return points that cover the sensible region coarsely: 3 widths × 3 penalties."""
    reference = np.log(reference_gamma(criterion.problem, criterion.ard))
    weight = np.log(criterion.problem.weights.mean())
    points = [
        np.concatenate([[weight + alpha], reference + gamma])
        for gamma in np.log([0.1, 1.0, 10.0])
        for alpha in np.log([1e-4, 1e-2, 1.0])
    ]
    return [np.clip(point, bounds[:, 0], bounds[:, 1]) for point in points]
