"""Held-out basis rows kept and removed: the curve of each policy over the penalties."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.answers.held_out import held_out
from holdfast.displays.curve_data import (
    CVCurve,
    curve_of_scores,
    cv_curve,
    model_scale,
    score_held_out,
)

if TYPE_CHECKING:
    from holdfast.estimators.base import CrossValidatedKernelRidge
    from holdfast.experiments import Policy

__all__ = ["policy_curves"]


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
        found = held_out(model._asked().changed(policy=policy))
        scores = score_held_out(model, found)
        score = scores.pooled if model.pooled else scores.mean
        curves[policy] = curve_of_scores(found.alphas, score, scores.se, model_scale(model))
    return curves
