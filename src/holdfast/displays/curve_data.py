"""The score over the penalties: what was best, what is within one standard error, the ends."""

from __future__ import annotations

import copy
import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from holdfast._typing import FloatArray
from holdfast.displays.score_scale import ScoreScale, score_scale
from holdfast.scores.penalties import kernel_parts
from holdfast.scores.scoring import resolve_scoring, score_experiments

if TYPE_CHECKING:
    from holdfast.estimators.base import CrossValidatedKernelRidge
    from holdfast.experiments import Policy

__all__ = ["CVCurve", "curve_of_scores", "cv_curve", "policy_curves"]


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

    @property
    def chosen_index(self) -> int:
        """Index of the first chosen penalty; the best if it is not in the grid."""
        hits = np.flatnonzero(np.isclose(self.alphas, self.chosen[0], rtol=1e-12, atol=0))
        return int(hits[0]) if hits.size else self.best


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
    # Scores equal to twelve digits mean the larger penalty, as in holdfast.scores.choice.
    top = np.nanmax(score)
    best = int(np.flatnonzero(score >= top - 1e-12 * abs(top))[-1])
    one_se = None
    if np.isfinite(se[best]):
        one_se = int(np.flatnonzero(score >= score[best] - se[best])[-1])
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
    """Return the curve that the fitted model chose its penalty by.

    Notes
    -----
    With several kernels it is the curve of the kernel that was chosen.
    """
    results = model.cv_results_
    part = _chosen_part(model)
    return curve_of_scores(
        results["alpha"][part],
        results["pooled_test_score" if model.pooled else "mean_test_score"][part],
        results["se_test_score"][part],
        _scale(model),
        tuple(np.unique(np.atleast_1d(model.alpha_)).tolist()),
    )


def _chosen_part(model: CrossValidatedKernelRidge) -> slice:
    """Return where in the columns of `cv_results_` the chosen kernel's penalties are."""
    first = int(np.ravel(model.best_index_)[0])
    return next(part for part in kernel_parts(model.cv_results_) if first < part.stop)


def policy_curves(
    model: CrossValidatedKernelRidge, policies: tuple[Policy, ...] = ("keep", "remove")
) -> dict[str, CVCurve]:
    """Return the curve of each policy for held-out basis rows, on the basis of the fitted model.

    Parameters
    ----------
    model : fitted estimator with basis rows
    policies : tuple of str
        Of "remove", "keep", "train", "skip".

    Notes
    -----
    Nothing is refitted: the factors are those of the model, only the experiments differ.
    """
    curves: dict[str, CVCurve] = {}
    for policy in policies:
        if policy == model.held_out_basis:
            curves[policy] = cv_curve(model)
            continue
        twin = copy.copy(model)
        twin._problem = dataclasses.replace(model._problem, policy=policy)
        twin._model = dataclasses.replace(model._fitted_model(), problem=twin._problem)
        curves[policy] = curve_of_held_out(twin, twin.held_out())
    return curves


def curve_of_held_out(model: CrossValidatedKernelRidge, found: Any) -> CVCurve:
    """Return the curve of held-out predictions over a grid, scored as the model scores."""
    scorer = resolve_scoring(model.scoring, classes=found.classes)
    scores = score_experiments(
        scorer,
        found.values,
        found.rows,
        found.experiments.test.ptr,
        found.y,
        found.weights,
        groups=found.groups,
    )
    score = scores.pooled if model.pooled else scores.mean
    return curve_of_scores(found.alphas, score, scores.se, _scale(model))


def _scale(model: CrossValidatedKernelRidge) -> ScoreScale:
    return score_scale(model.scoring, model._classes is not None)
