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
@pytest.mark.parametrize("options", [{}, {"kernel": "linear"}, {"basis": 6}], ids=str)
def test_the_price_of_penalties_grows_with_their_number(options):
    """A hundred thousand of them took a minute once, because ranks were counted in pairs."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 3))
    y = X[:, 0] + rng.normal(size=20)

    def seconds(count):
        start = time.perf_counter()
        model = KernelRidgeCV(alphas=np.geomspace(1e-6, 1e6, count), random_state=0, **options).fit(
            X, y
        )
        assert model.cv_results_["rank_test_score"][model.best_index_] == 1
        return time.perf_counter() - start

    seconds(100)
    assert seconds(100_000) < 40 * min(seconds(10_000) for _ in range(3))
