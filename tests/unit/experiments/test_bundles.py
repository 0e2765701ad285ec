"""Bundles of sets that share most of their rows."""

from __future__ import annotations

import numpy as np

from holdfast.experiments import Ragged, bundles


def windows(n_rows, reach):
    rows = np.arange(n_rows)
    return Ragged.ranges(np.maximum(rows - reach, 0), np.minimum(rows + reach + 1, n_rows))


def union(sets, index):
    return np.unique(np.concatenate([sets[j] for j in index.tolist()]))


def test_every_set_is_in_one_bundle_of_sets_like_it():
    sets = windows(500, 10)
    found = bundles(sets, 500)
    assert sorted(np.concatenate(found).tolist()) == list(range(500))
    # Windows around 25 consecutive rows cover 45; a bundle takes no more than its two halves.
    assert max(union(sets, index).size for index in found) <= 60


def test_the_order_of_the_sets_does_not_matter_much():
    sets = windows(500, 10)
    shuffled = sets.items(np.random.default_rng(0).permutation(500))
    found = bundles(shuffled, 500)
    entries = sum(union(shuffled, index).size ** 2 for index in found)
    assert entries <= 1.5 * np.square(sets.sizes).sum()


def test_a_set_joins_the_seed_with_which_it_shares_most_rows():
    rows = [np.arange(20)] * 25 + [np.arange(10, 30)] * 25  # the seeds are sets 12 and 37
    rows[5] = np.arange(12, 32)  # 8 rows of the first seed, 18 of the second
    rows[40] = np.arange(8, 28)  # 12 rows of the first seed, 18 of the second
    rows[41] = np.arange(3, 23)  # 17 rows of the first seed, 13 of the second
    first, second = bundles(Ragged.from_arrays(rows), 40)
    assert set(first.tolist()) == set(range(25)) - {5} | {41}
    assert set(second.tolist()) == set(range(25, 50)) - {41} | {5}


def test_sets_that_share_nothing_with_a_seed_are_by_themselves_in_the_end():
    crowd = [np.arange(20)] * 200
    alone = [np.arange(20) + 100 * (j + 1) for j in range(3)]
    sets = Ragged.from_arrays([*alone, *crowd])
    found = bundles(sets, 500)
    assert sorted(len(index) for index in found) == [1, 1, 1, 200]


def test_disjoint_sets_and_small_ones_make_no_bundles():
    assert bundles(Ragged.from_arrays([np.arange(30) + 30 * j for j in range(9)]), 270) is None
    assert bundles(windows(300, 2), 300) is None
    assert bundles(Ragged.empty(0), 5) is None


def test_all_pairs_of_large_sets_are_too_many_to_compare():
    rng = np.random.default_rng(0)
    sets = Ragged.from_arrays([rng.choice(40, 10, replace=False) for _ in range(3000)])
    assert bundles(sets, 40) is None
