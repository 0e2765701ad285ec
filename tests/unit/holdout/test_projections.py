"""Unions of pieces: products and projections of all sets together, against one set at a time."""

import numpy as np
import pytest

from holdfast.experiments import Ragged
from holdfast.holdout.projections import Members, projections

P, ROWS = 30, 17
PIECES = [np.array([4]), np.array([0, 9, 12]), np.array([3, 5]), np.array([1, 2, 7, 8, 16])]
SETS = {
    "pairs": [[0], [1], [2], [3], [0, 1], [0, 2], [1, 2], [1, 3], [2, 3]],
    "none, three and all": [[], [1], [0, 2, 3], [], [0, 1, 2, 3], [2]],
    "one set": [[1, 3]],
    "nothing": [[], []],
}


def constraints(seed=0):
    rng = np.random.default_rng(seed)
    n = rng.standard_normal((ROWS, P))
    n /= np.linalg.norm(n, axis=1, keepdims=True)
    return np.vstack([n, np.zeros(P)])


def ragged(sets):
    rows = [np.concatenate([np.empty(0, np.int64), *(PIECES[k] for k in s)]) for s in sets]
    return Ragged.from_arrays(rows)


@pytest.mark.parametrize("sets", SETS.values(), ids=SETS.keys())
@pytest.mark.parametrize("v", [1, 3])
def test_products_of_all_pieces(sets, v):
    rng = np.random.default_rng(1)
    inside = np.array([[k in mine for k in range(len(PIECES))] for mine in sets])
    matrices = rng.standard_normal((len(PIECES), P, 6))
    U = rng.standard_normal((len(sets), v, P))
    for slots in (0, 5):
        some = Members(inside, slots)
        found = some.total(some.times(U, matrices))
        for j, mine in enumerate(sets):
            expected = sum((U[j] @ matrices[k] for k in mine), np.zeros((v, 6)))
            np.testing.assert_allclose(found[j], expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("sets", SETS.values(), ids=SETS.keys())
@pytest.mark.parametrize("v", [1, 3])
def test_projections_against_one_set_at_a_time(sets, v):
    n, removed = constraints(), ragged(sets)
    projection, good = projections(n, n @ n.T, removed)
    assert good.all()
    U = np.random.default_rng(2).standard_normal((len(sets), v, P))
    before, found = U.copy(), projection(U)
    single = projection.single()(U.astype(np.float32))
    some = np.flatnonzero(np.arange(len(sets)) % 2 == 0)
    part = projection.select(some)(U[some])
    for j in range(len(sets)):
        rows = n[removed[j]]
        expected = U[j] - U[j] @ np.linalg.pinv(rows) @ rows
        np.testing.assert_allclose(found[j], expected, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(single[j], expected, rtol=0, atol=1e-5)
    np.testing.assert_allclose(part, found[some], rtol=1e-12, atol=1e-13)
    assert np.array_equal(U, before)


@pytest.mark.parametrize("near", [0.0, 1e-12, 1e-3])
def test_constraints_that_depend_on_each_other_are_told(near):
    n = constraints()
    n[9] = n[4] + near * n[9]  # pieces 0 and 1
    n[16] = n[1] + near * n[16]  # both in piece 3
    sets = [[0], [1], [0, 1], [0, 2], [1, 2], [3], [0, 3], [2]]
    n[:-1] /= np.linalg.norm(n[:-1], axis=1, keepdims=True)
    _, good = projections(n, n @ n.T, ragged(sets))
    np.testing.assert_array_equal(good, [not (3 in s or {0, 1} <= {*s}) for s in sets])
