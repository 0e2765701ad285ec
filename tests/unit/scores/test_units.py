"""Scores of targets in other units, of experiments that lack some scores, of laws."""

import numpy as np
import pytest

from holdfast.exceptions import InvalidInputError
from holdfast.scores.scorers import resolve_scoring
from holdfast.scores.scoring import Scores

RNG = np.random.default_rng(5)
M = 12
ROWS, PTR, ONES = np.arange(M), np.arange(0, M + 1, 4), np.ones(M)


def test_a_score_that_is_missing_at_one_penalty_leaves_the_others_alone():
    splits = RNG.normal(size=(2, 4, 2))  # penalties, experiments, targets
    whole = Scores.of_targets(splits.mean(axis=1), splits)
    holed = splits.copy()
    holed[0, 1, 0] = np.nan
    found = Scores.of_targets(splits.mean(axis=1), holed)
    for field in ("mean", "std", "se", "per_target_mean", "per_target_se"):
        np.testing.assert_allclose(getattr(found, field)[1], getattr(whole, field)[1], rtol=1e-12)
    np.testing.assert_allclose(found.mean[0], splits[0, [0, 2, 3]].mean(), rtol=1e-12)


def test_two_experiments_have_a_standard_error_and_one_has_none():
    splits = RNG.normal(size=(2, 2, 1))
    found = Scores.of_targets(splits.mean(axis=1), splits)
    np.testing.assert_allclose(found.se, np.abs(splits[:, 0, 0] - splits[:, 1, 0]) / 2, rtol=1e-12)
    assert np.isnan(Scores.of_targets(splits[:, 0], splits[:, :1]).se).all()


def test_one_target_has_no_scores_of_each():
    splits = RNG.normal(size=(2, 4, 1))
    found = Scores.of_targets(splits.mean(axis=1), splits)
    assert found.per_target is None
    assert found.per_target_se is None
    np.testing.assert_allclose(found.mean, splits[:, :, 0].mean(axis=1), rtol=1e-12)


def test_predictions_do_not_tell_the_score_of_a_law():
    with pytest.raises(InvalidInputError, match="scores the predictive distribution"):
        resolve_scoring("log_density").scorer(None, np.zeros((2, 1)), np.zeros(2))
