"""Grids of penalties: their ranks, and which kernel they belong to."""

import numpy as np
import pytest
from scipy.stats import rankdata

from holdfast.scores.choice import TIE, rank
from holdfast.scores.penalties import kernel_parts


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


def test_ranks_of_many_penalties_need_no_pairs():
    """A hundred thousand of them took a minute once, because ranks were counted in pairs."""
    scores = np.random.default_rng(0).normal(size=100_000)
    np.testing.assert_array_equal(rank(scores), rankdata(-scores, "min"))


@pytest.mark.parametrize(
    ("rows", "sizes"),
    [
        ([("rbf", 1.0), ("rbf", 2.0), ("rbf", 3.0)], [3]),
        ([("rbf", 1.0), ("rbf", 2.0), ("linear", 3.0)], [2, 1]),
        ([("rbf", 1.0), ("rbf", 2.0), ("rbf", 1.0), ("rbf", 2.0)], [2, 2]),
        ([("rbf", 1.0), ("rbf", 1.0), ("rbf", 1.0)], [1, 1, 1]),
    ],
)
def test_a_grid_ends_where_the_kernel_changes_or_the_penalties_stop_growing(rows, sizes):
    params = [{"kernel": kernel, "alpha": alpha} for kernel, alpha in rows]
    parts = kernel_parts({"alpha": [alpha for _, alpha in rows], "params": params})
    assert [part.stop - part.start for part in parts] == sizes
    assert [i for part in parts for i in range(part.start, part.stop)] == list(range(len(rows)))
