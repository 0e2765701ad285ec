"""Atoms: every set is a union of them, and no two share a row."""

from __future__ import annotations

import numpy as np

from holdfast.experiments import Ragged, atoms


def test_every_set_is_a_union_of_atoms():
    rng = np.random.default_rng(0)
    sets = [rng.choice(40, size=rng.integers(1, 25), replace=False) for _ in range(6)]
    pieces = atoms(Ragged.from_arrays(sets), 40)
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
    pieces = atoms(Ragged.from_arrays(pairs), 60)
    found = {tuple(pieces[j]) for j in range(len(pieces))}
    assert found == {tuple(np.sort(fold)) for fold in folds}


def test_sets_remember_their_atoms_and_copies_do_not():
    sets = Ragged.from_arrays([np.array([0, 1, 2]), np.array([2, 3])])
    assert atoms(sets, 9) is atoms(sets, 9)
    other = sets.copy()
    other.values[0] = 7
    assert [*atoms(other, 9).values] == [*atoms(Ragged(other.values, other.ptr), 9).values]
    assert 7 in atoms(other, 9).values
