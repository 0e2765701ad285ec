"""The one way from held-out predictions to scores, for the fit and for every answer."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from holdfast._typing import AnyArray, FloatArray
from holdfast.answers.gaussian import density_scores
from holdfast.core.experiments import Ragged
from holdfast.core.gaussian import SecondMoments
from holdfast.exceptions import NotSupportedError
from holdfast.scores.scoring import Scores, Scoring, score_experiments

__all__ = ["refuse_density", "scored", "whole"]


def refuse_density(scoring: Scoring, answer: str) -> None:
    """Raise if a scorer needs a predictive distribution, which this answer does not have."""
    if scoring.density:
        raise NotSupportedError(
            f"{answer} scores predictions; scoring={scoring.name!r} needs their distribution. "
            "fit, held_out(...).score, score_interval and permutation_test have it; here, use a "
            'scorer such as "neg_mean_squared_error".',
            argument="scoring",
        )


def scored(
    scoring: Scoring,
    values: FloatArray,
    test: Ragged,
    labels: AnyArray,
    weights: FloatArray,
    groups: AnyArray | None = None,
    *,
    each_target: bool = False,
    moments: Callable[[], SecondMoments] | None = None,
) -> Scores:
    """Return the scores of held-out predictions.

    Parameters
    ----------
    scoring : Scoring
    values : ndarray of shape (a, k, v)
        Predictions of the test rows of all experiments laid end to end.
    test : Ragged
        The test rows of each experiment.
    labels : ndarray of shape (m, v), or (m,) class labels
    weights : ndarray of shape (m,)
    groups : ndarray of shape (m,) or None
        For scorers that see groups.
    each_target : bool
        Whether the scores of each target are wanted by experiment.
    moments : callable, optional
        Makes the second moments of the test rows, for scores of their distribution.
    """
    if scoring.density:
        if moments is None:
            refuse_density(scoring, "this answer")
            raise AssertionError
        return density_scores(moments())
    return score_experiments(
        scoring,
        values,
        test.values,
        test.ptr,
        labels,
        weights,
        groups=groups,
        each_target=each_target,
    )


def whole(scores: Scores, *, pooled: bool, per_target: bool) -> FloatArray:
    """Return the score at the first penalty as (1,), or (v,) with one for each target."""
    total = (scores.pooled if pooled else scores.mean)[:1]
    if not per_target:
        return total
    parts = scores.per_target if pooled else scores.per_target_mean
    return total if parts is None else np.asarray(parts[0])
