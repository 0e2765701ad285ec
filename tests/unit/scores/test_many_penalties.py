"""Grids of very many penalties."""

import time

import numpy as np
import pytest

from holdfast import KernelRidgeCV
from holdfast.scores.choice import TIE, rank


def naive_rank(scores):
    threshold = scores - TIE * np.abs(scores)
    beaten = scores[:, None] < threshold
    beaten |= np.isnan(scores)[:, None] & ~np.isnan(scores)
    return 1 + beaten.sum(axis=1)


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("seed", range(20))
def test_ranks_are_those_of_all_pairs(seed):
    rng = np.random.default_rng(seed)
    scores = rng.choice([*rng.normal(size=8), 0.0, np.nan, np.inf, -np.inf], size=40)
    scores[::3] *= 1 + 1e-13 * rng.normal(size=14)
    np.testing.assert_array_equal(rank(scores), naive_rank(scores))


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [{}, {"kernel": "linear"}, {"basis": 6, "random_state": 0}], ids=str
)
def test_a_hundred_thousand_penalties_on_twenty_rows(options):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 3))
    y = X[:, 0] + rng.normal(size=20)
    start = time.perf_counter()
    model = KernelRidgeCV(alphas=np.geomspace(1e-6, 1e6, 100_000), random_state=0, **options).fit(
        X, y
    )
    assert time.perf_counter() - start < 60
    assert model.cv_results_["rank_test_score"][model.best_index_] == 1
