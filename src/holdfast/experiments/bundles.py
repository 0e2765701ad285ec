"""Sets that share most of their rows, in bundles.

Neighbourhoods overlap: the sets around two rows that are close to each other are nearly the same.
What the sets of a bundle need is then little more than what one of them needs, and is done once for
all of them. Only the sets are looked at, not what made them, so that neighbourhoods in space, in
time and on a graph are all alike.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from holdfast._typing import IntArray
from holdfast.experiments.ragged import Ragged

__all__ = ["bundles"]

#: One set of this many is the seed of a bundle.
SETS_PER_SEED = 25
#: Sets smaller than this on average gain nothing from company.
LEAST_SIZE = 8
#: Sets that share no row with any seed have this many more rounds of seeds.
ROUNDS = 3


def bundles(sets: Ragged, n_rows: int) -> list[IntArray] | None:
    """Return which sets make a bundle, each set in one; None where sets have little in common.

    Every set joins the seed with which it has most rows in common. Seeds are evenly spaced in the
    list of sets; sets that share no row with any seed become a bundle of one in the end.

    Parameters
    ----------
    sets : Ragged
        Row numbers, each at most once in a set.
    n_rows : int
        Number of rows of the data.

    Notes
    -----
    One product of sparse matrices: as many operations as pairs (set, seed) have rows in common,
    which must be fewer than the entries of all matrices S_HH.
    """
    sizes, n = sets.sizes, len(sets)
    if not n or sets.values.size < LEAST_SIZE * n:
        return None
    times = np.bincount(sets.values, minlength=n_rows)
    if sets.values.size < 2 * np.count_nonzero(times):  # most rows are in one set, or two
        return None
    label, left, used = np.full(n, -1), np.arange(n), 0
    for _ in range(ROUNDS):
        seeds = left[min(SETS_PER_SEED, left.size) // 2 :: SETS_PER_SEED]
        own = sets.items(seeds)
        if times @ np.bincount(own.values, minlength=n_rows) > np.square(sizes).sum():
            return None
        nearest = _nearest(sets.items(left), own, n_rows)
        label[left] = np.where(nearest < 0, -1, nearest + used)
        left, used = left[nearest < 0], used + seeds.size
        if not left.size:
            break
    label[left] = used + np.arange(left.size)
    order = np.argsort(label, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(label[order])) + 1)


def _nearest(sets: Ragged, seeds: Ragged, n_rows: int) -> IntArray:
    """Return the seed with which each set shares most rows, the first of several; −1 for none."""
    both = _incidence(sets, n_rows) @ _incidence(seeds, n_rows).T
    found = np.full(len(sets), -1)
    some = np.flatnonzero(np.diff(both.indptr))
    if some.size:
        k = len(seeds)
        best = np.maximum.reduceat(both.data * k + (k - 1 - both.indices), both.indptr[some])
        found[some] = k - 1 - best % k
    return found


def _incidence(sets: Ragged, n_rows: int) -> csr_array:
    """Return the matrix (sets, rows) with a one where a set holds a row."""
    ones = np.ones(sets.values.size, dtype=np.int64)
    return csr_array((ones, sets.values, sets.ptr), shape=(len(sets), n_rows))
