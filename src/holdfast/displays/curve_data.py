"""The score over the penalties: what was best, what is within one standard error, the ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from holdfast._typing import FloatArray
from holdfast.displays.score_scale import ScoreScale, score_scale
from holdfast.scores.choice import TIE, largest_within
from holdfast.scores.penalties import kernel_parts

if TYPE_CHECKING:
    from holdfast.estimators.base import CrossValidatedKernelRidge

__all__ = ["CVCurve", "curve_of_scores", "cv_curve", "kernel_curves", "model_scale"]


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
    scale : ScoreScale
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
    scale: ScoreScale
    best: int
    one_se: int | None
    chosen: tuple[float, ...]

    @property
    def edge(self) -> str | None:
        """Which end of the grid the best lies at: "smallest", "largest" or None."""
        if len(self.alphas) < 2:
            return None
        return {0: "smallest", len(self.alphas) - 1: "largest"}.get(self.best)


def curve_of_scores(
    alphas: FloatArray,
    score: FloatArray,
    se: FloatArray,
    scale: ScoreScale,
    chosen: tuple[float, ...] | None = None,
) -> CVCurve:
    """Return the curve of scores where greater is better.

    Parameters
    ----------
    alphas, score, se : ndarray of shape (a,)
        The grid, the scores and their standard errors.
    scale : ScoreScale
        How scores are shown.
    chosen : tuple of float, optional
        The penalties in use; the best by default.
    """
    best = int(largest_within(score, TIE * abs(np.nanmax(score))))
    one_se = int(largest_within(score, se[best])) if np.isfinite(se[best]) else None
    return CVCurve(
        alphas=np.asarray(alphas, dtype=float),
        values=scale.shown(score),
        se=scale.spread(score, se),
        scale=scale,
        best=best,
        one_se=one_se,
        chosen=chosen or (float(alphas[best]),),
    )


def cv_curve(model: CrossValidatedKernelRidge) -> CVCurve:
    """Return the curve that the fitted model chose its penalty by, of the kernel that it chose."""
    return kernel_curves(model)[0]


def kernel_curves(model: CrossValidatedKernelRidge) -> tuple[CVCurve, tuple[CVCurve, ...]]:
    """Return the curve of the chosen kernel, and those of the kernels that lost."""
    results = model.cv_results_
    score = results["pooled_test_score" if model.pooled else "mean_test_score"]
    chosen = tuple(np.unique(np.atleast_1d(model.alpha_)).tolist())
    first = int(np.ravel(model.best_index_)[0])
    own, others = None, []
    for part in kernel_parts(results):
        given = results["alpha"][part], score[part], results["se_test_score"][part]
        if part.start <= first < part.stop:
            own = curve_of_scores(*given, model_scale(model), chosen)
        else:
            others.append(curve_of_scores(*given, model_scale(model)))
    assert own is not None
    return own, tuple(others)


def model_scale(model: CrossValidatedKernelRidge) -> ScoreScale:
    """Return how the scores of a model are shown."""
    return score_scale(model.scoring, model._classes is not None)
