"""Atoms: every set is a union of them, and no two share a row."""

from __future__ import annotations

import numpy as np

from holdfast.core.experiments import Ragged


def test_every_set_is_a_union_of_atoms():
    rng = np.random.default_rng(0)
    sets = [rng.choice(40, size=rng.integers(1, 25), replace=False) for _ in range(6)]
    together = Ragged.from_arrays(sets)
    pieces = together.atoms
    held = [{*rows.tolist()} for rows in sets]
    parts = [{*pieces[j].tolist()} for j in range(len(pieces))]
    assert sum(map(len, parts)) == len(set().union(*parts)) == len(set().union(*held))
    for rows in held:
        assert set().union(*(part for part in parts if part <= rows)) == rows
    signatures = {tuple(row in rows for rows in held) for row in set().union(*held)}
    assert len(parts) == len(signatures)


def test_pairs_of_folds_have_the_folds_as_atoms():
    folds = np.array_split(np.random.default_rng(1).permutation(50), 5)
    pairs = [np.append(a, b) for i, a in enumerate(folds) for b in folds[:i]]
    pieces = Ragged.from_arrays(pairs).atoms
    found = {tuple(pieces[j]) for j in range(len(pieces))}
    assert found == {tuple(np.sort(fold)) for fold in folds}


def test_sets_remember_their_atoms_and_copies_do_not():
    sets = Ragged.from_arrays([np.array([0, 1, 2]), np.array([2, 3])])
    assert sets.atoms is sets.atoms
    other = sets.copy()
    other.values[0] = 7
    assert [*other.atoms.values] == [*Ragged(other.values, other.ptr).atoms.values]
    assert 7 in other.atoms.values


def test_sets_without_rows_have_no_atoms():
    nothing = Ragged.empty(3)
    assert len(nothing.atoms) == 0
