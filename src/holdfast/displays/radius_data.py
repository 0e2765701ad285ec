"""The held-out error of a model as everything within a radius of the test row is held out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from holdfast._typing import FloatArray
from holdfast.displays.score_scale import ScoreScale, score_scale
from holdfast.exceptions import InvalidInputError
from holdfast.experiments import Experiments, Ragged
from holdfast.scores.scoring import resolve_scoring, score_experiments
from holdfast.splitters import LeaveNeighbourhoodOut

if TYPE_CHECKING:
    from holdfast.estimators.base import CrossValidatedKernelRidge

__all__ = ["RadiusCurve", "radius_curve"]


@dataclass(frozen=True, eq=False)
class RadiusCurve:
    """Held-out error (or score) over the radius, in the units it is shown in.

    Attributes
    ----------
    radii : ndarray of shape (r,)
        The radii, ascending.
    values, se : ndarray of shape (r,)
        The shown error or score at each, and its standard error.
    held_out : ndarray of shape (r,)
        Rows held out around a test row, on average.
    control : ndarray of shape (r,) or None
        The same with as many rows held out anywhere instead.
    baseline : float
        The same for the mean of all targets: what is known without any features.
    scale : ScoreScale
        What is shown.
    """

    radii: FloatArray
    values: FloatArray
    se: FloatArray
    held_out: FloatArray
    control: FloatArray | None
    baseline: float
    scale: ScoreScale


def radius_curve(
    model: CrossValidatedKernelRidge,
    coordinates: ArrayLike,
    radii: ArrayLike,
    *,
    metric: Any = "euclidean",
    metric_params: dict[str, Any] | None = None,
    control: bool = False,
    random_state: int = 0,
) -> RadiusCurve:
    """Return the held-out error of a fitted model at its own penalty, for each radius.

    Parameters
    ----------
    model : fitted estimator
    coordinates, metric, metric_params
        As in `holdfast.splitters.LeaveNeighbourhoodOut`.
    radii : array-like of float
        Radii, in any order.
    control : bool
        Whether to hold out as many rows anywhere as well.
    random_state : int
        Which rows the control holds out.
    """
    problem = model._problem
    m = problem.weights.size
    scale = score_scale(model.scoring, model._classes is not None)
    rng = np.random.default_rng(random_state)
    grid = _check_radii(radii)
    scores, others, held = [], [], []
    for radius in grid:
        splitter = LeaveNeighbourhoodOut(
            coordinates, float(radius), metric, metric_params=metric_params
        )
        experiments = splitter.experiments(m)
        held.append(experiments.held_out.sizes.mean())
        scores.append(_score(model, experiments))
        if control:
            others.append(_score(model, _anywhere(experiments, m, rng))[0])
    score, se = np.array(scores).T
    return RadiusCurve(
        radii=grid,
        values=scale.shown(score),
        se=scale.spread(score, se),
        held_out=np.array(held),
        control=scale.shown(np.array(others)) if control else None,
        baseline=float(scale.shown(np.array(_baseline(model)))),
        scale=scale,
    )


def _check_radii(radii: ArrayLike) -> FloatArray:
    try:
        grid = np.unique(np.asarray(radii, dtype=np.float64))
    except (TypeError, ValueError):
        grid = np.empty(0)
    if not grid.size or not np.isfinite(grid).all() or grid[0] < 0:
        raise InvalidInputError(
            "radii must be at least one finite number, zero or positive, in the unit of the "
            f"metric; got {radii!r}."
        )
    return grid


def _score(model: CrossValidatedKernelRidge, experiments: Experiments) -> tuple[float, float]:
    """Return the score of the model at its own penalty, or penalties, and its standard error."""
    v = model._problem.Y.shape[1]
    alphas, index = np.unique(np.broadcast_to(model.alpha_, v), return_inverse=True)
    found = model.held_out(experiments, alphas=alphas)
    own = found.values[index, :, np.arange(v)].T[None]
    scores = score_experiments(
        resolve_scoring(model.scoring, classes=found.classes),
        own,
        found.rows,
        found.experiments.test.ptr,
        found.y,
        found.weights,
        groups=found.groups,
    )
    return float(scores.pooled[0]), float(scores.se[0])


def _baseline(model: CrossValidatedKernelRidge) -> float:
    """Return the score of the weighted mean of the targets."""
    problem = model._problem
    mean = np.average(problem.Y, axis=0, weights=problem.weights)
    constant = np.broadcast_to(mean, problem.Y.shape)
    scoring = resolve_scoring(model.scoring, classes=model._classes)
    return scoring.score(problem.labels, constant, problem.weights, problem.groups)


def _anywhere(experiments: Experiments, m: int, rng: np.random.Generator) -> Experiments:
    """Return experiments that test the same rows and hold out as many, but anywhere.

    Rows are laid out in a random circle; with each test row those that follow it are held out.
    """
    circle = rng.permutation(m)
    place = np.empty(m, dtype=np.int64)
    place[circle] = np.arange(m)
    start = place[experiments.test.values]
    spans = Ragged.ranges(start, start + experiments.held_out.sizes)
    return Experiments(Ragged(circle[spans.values % m], spans.ptr), experiments.test)
