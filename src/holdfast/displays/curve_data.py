"""The score over the penalties: what was best, what is within one standard error, the ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from holdfast._typing import FloatArray
from holdfast.scores.choice import TIE, kernel_parts, largest_within
from holdfast.scores.metric import Printed, printed

if TYPE_CHECKING:
    from holdfast.estimators.base import CrossValidatedKernelRidge

__all__ = ["CVCurve", "kernel_curves", "model_scale"]


@dataclass(frozen=True, eq=False)
class CVCurve:
    """Held-out error (or score) over the grid of penalties, in the units it is shown in.

    Attributes
    ----------
    alphas : ndarray of shape (a,)
        The grid.
    values : ndarray of shape (a,)
        The shown error or score.
    se : ndarray of shape (a,)
        Its standard error; NaN where unknown.
    scale : Printed
        What is shown.
    best : int
        Index of the best value (the largest alpha among equals).
    one_se : int or None
        Index of the largest alpha within one standard error of the best.
    chosen : tuple of float
        The penalties the model uses.
    """

    alphas: FloatArray
    values: FloatArray
    se: FloatArray
    scale: Printed
    best: int
    one_se: int | None
    chosen: tuple[float, ...]

    @property
    def edge(self) -> str | None:
        """Which end of the grid the best lies at: "smallest", "largest" or None."""
        if len(self.alphas) < 2:
            return None
        return {0: "smallest", len(self.alphas) - 1: "largest"}.get(self.best)


def kernel_curves(model: CrossValidatedKernelRidge) -> tuple[CVCurve, tuple[CVCurve, ...]]:
    """Return the curve that a fitted model chose its penalty by, and those of other kernels."""
    results, scale = model.cv_results_, model_scale(model)
    score = results["pooled_test_score" if model.pooled else "mean_test_score"]
    chosen = tuple(np.unique(np.atleast_1d(model.alpha_)).tolist())
    first = int(np.ravel(model.best_index_)[0])
    curves: dict[bool, list[CVCurve]] = {True: [], False: []}
    for part in kernel_parts(results):
        own = part.start <= first < part.stop
        given = results["alpha"][part], score[part], results["se_test_score"][part]
        curves[own].append(_curve(*given, scale, chosen if own else None))
    return curves[True][0], tuple(curves[False])


def _curve(
    alphas: FloatArray,
    score: FloatArray,
    se: FloatArray,
    scale: Printed,
    chosen: tuple[float, ...] | None,
) -> CVCurve:
    """Return the curve of scores where greater is better; None chooses the best."""
    largest = np.nanmax(score)
    best = int(largest_within(score, largest - TIE * abs(largest)))
    one_se = int(largest_within(score, largest - se[best])) if np.isfinite(se[best]) else None
    own = chosen or (float(alphas[best]),)
    return CVCurve(alphas, scale.of(score), scale.error(score, se), scale, best, one_se, own)


def model_scale(model: CrossValidatedKernelRidge) -> Printed:
    """Return how the scores of a model are shown."""
    return printed(model._fitted_state().objective.scoring.name)
