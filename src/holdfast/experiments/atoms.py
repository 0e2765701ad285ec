"""The pieces that sets of rows are unions of."""

from __future__ import annotations

import numpy as np

from holdfast._typing import BoolArray
from holdfast.experiments.ragged import Ragged

__all__ = ["atoms", "members"]


def atoms(sets: Ragged, n_rows: int) -> Ragged:
    """Return the atoms of the partition that some sets of rows generate, each in sorted order.

    Rows belong to one atom if the same sets hold them, so every set is a union of atoms. Rows that
    no set holds are left out.

    Parameters
    ----------
    sets : Ragged
        Row numbers, each at most once in a set.
    n_rows : int
        Number of rows of the data.

    Notes
    -----
    Each set gets a random 64-bit number, a row the sum of those of its sets: O(all entries), and
    two atoms meet by chance once in 2⁶⁴ pairs. The sets remember them.
    """
    known: Ragged | None = sets.__dict__.get("_atoms")
    if known is not None:
        return known
    marks = np.random.default_rng(0).integers(1, 2**63, size=len(sets), dtype=np.uint64)
    total = np.zeros(n_rows, dtype=np.uint64)
    np.add.at(total, sets.values, marks[sets.owners])
    inside = np.zeros(n_rows, dtype=bool)
    inside[sets.values] = True
    rows = np.flatnonzero(inside)
    _, code, count = np.unique(total[rows], return_inverse=True, return_counts=True)
    ptr = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
    found = Ragged(rows[np.argsort(code, kind="stable")].astype(np.int64), ptr)
    sets.__dict__["_atoms"] = found  # as a cached property would
    return found


def members(sets: Ragged, pieces: Ragged, n_rows: int) -> BoolArray:
    """Return which atom (columns) is a part of which set (rows): the first row of an atom tells."""
    first = np.full(n_rows, -1)
    first[pieces.values[pieces.ptr[:-1]]] = np.arange(len(pieces))
    piece = first[sets.values]
    inside = np.zeros((len(sets), len(pieces)), dtype=bool)
    inside[sets.owners[piece >= 0], piece[piece >= 0]] = True
    return inside
