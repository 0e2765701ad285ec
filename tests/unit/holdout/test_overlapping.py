"""Sets that share most of their rows: one S for many of them, and which of them are in doubt."""

import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from holdfast import holdout
from holdfast.experiments import Ragged, Tasks
from holdfast.experiments.bundles import LEAST_SIZE, bundles
from holdfast.holdout import identity, lost
from holdfast.holdout.identity import held_out_predictions
from holdfast.holdout.overlapping import LEAST_PIVOT, _Borders, overlapping_predictions
from holdfast.kernels import RBF
from holdfast.kernels.matrix import KernelRows
from holdfast.progress import listening
from holdfast.smoother import FeatureSmoother, KernelSmoother, Unpenalised, WhitenedFeatures
from holdfast.smoother.shared import shared

bundling, sharing = sys.modules[bundles.__module__], sys.modules[shared.__module__]

M, N = 90, 14
RNG = np.random.default_rng(6)
X = np.sort(RNG.uniform(0.0, 10.0, size=(M, 1)), axis=0)
Y = np.c_[np.sin(X[:, 0]), np.cos(2.0 * X[:, 0])] + 0.2 * RNG.normal(size=(M, 2))
WEIGHTS = RNG.uniform(0.5, 2.0, size=M)
BASIS = np.arange(0, M, 7)[:N]
ALPHA = 0.3


def sparse(weights=WEIGHTS, bias=True, targets=Y):
    features = WhitenedFeatures.of(KernelRows(RBF(0.5), X), BASIS, 1e-6)
    return FeatureSmoother(features, weights, targets, Unpenalised.bias(weights, bias))


def ragged(sets):
    return Ragged.from_arrays([np.array(rows, dtype=np.int64) for rows in sets])


def windows(removed=False, width=24, step=3, tests=1, mixed=False):
    """Return windows of rows on a line, each testing rows in its middle."""
    held, gone, test = [], [], []
    for k, start in enumerate(range(0, M - width, step)):
        rows = np.arange(start, start + width - (k % 3 if mixed else 0))
        held.append(rows)
        inside = np.flatnonzero(np.isin(BASIS, rows))[: 1 + k % 2]
        gone.append(inside if removed else [])
        test.append(rows[10 : 10 + tests + (k % 2 if mixed else 0)])
    return Tasks(ragged(held), ragged(gone), ragged(test), np.arange(len(held)))


def smoother_matrix(factor, alpha):
    D = factor.D(np.array([alpha]))[0]
    return (factor.V * D) @ factor.V.T


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("removed", [False, True])
@pytest.mark.parametrize("weights", [np.ones(M), WEIGHTS], ids=["ones", "weights"])
def test_windows_equal_training_again(weights, removed, mixed, bias):
    tasks = windows(removed, mixed=mixed, tests=2)
    smoother = sparse(weights, bias)
    factor = smoother.factor()
    together = shared(factor, tasks)
    assert together is not None
    assert 1 < len(together.bundles) < len(tasks)
    found, _ = overlapping_predictions(together, tasks, ALPHA, 1e-6, np.inf)
    smoother.restore(found[None], tasks.test.values, slice(None))
    expected = holdout.predict(sparse(weights, bias), tasks, np.array([ALPHA]), "retrain")[0]
    assert_allclose(found, expected, rtol=1e-7, atol=1e-9)


def test_tasks_of_other_numbers_of_test_rows_and_basis_rows():
    """Two removed with one test, one removed with three: kinds must not be mixed up."""
    tasks = windows(True, width=36)
    tests = [tasks.test[j][:1] if tasks.removed[j].size == 2 else tasks.held[j][3:6]
             for j in range(len(tasks))]  # fmt: skip
    tests[0] = tasks.held[0][5:7]
    tasks = Tasks(tasks.held, tasks.removed, ragged(tests), tasks.source)
    smoother = sparse()
    together = shared(smoother.factor(), tasks)
    assert together is not None
    found, _ = overlapping_predictions(together, tasks, ALPHA, 1e-6, np.inf)
    smoother.restore(found[None], tasks.test.values, slice(None))
    expected = holdout.predict(sparse(), tasks, np.array([ALPHA]), "retrain")[0]
    assert_allclose(found, expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("alpha", [1e-3, 0.3])
def test_sets_with_a_small_pivot_are_in_doubt(alpha):
    tasks, factor = windows(), sparse().factor()
    together = shared(factor, tasks)
    S = smoother_matrix(factor, alpha)
    smallest = []
    for j in range(len(tasks)):
        rows = tasks.held[j]
        L = np.linalg.cholesky(np.eye(rows.size) - S[np.ix_(rows, rows)])
        smallest.append(np.square(np.diag(L)).min())
    smallest = np.array(smallest)
    middle = np.sort(smallest)[len(smallest) // 2]
    for least in (0.999 * middle, 1.001 * middle):
        found, _ = overlapping_predictions(together, tasks, alpha, least, np.inf)
        assert_array_equal(np.isnan(found).all(axis=1), smallest <= least)
        assert_array_equal(np.isnan(found).any(axis=1), smallest <= least)


@pytest.mark.parametrize("removed", [False, True])
def test_sets_with_a_weak_direction_are_in_doubt(removed):
    tasks, factor = windows(removed), sparse().factor()
    together = shared(factor, tasks)
    S = smoother_matrix(factor, ALPHA)
    signs = np.random.default_rng(0).choice([-1.0, 1.0], M)
    long = []
    for j in range(len(tasks)):
        rows = tasks.held[j]
        gap = np.eye(rows.size) - S[np.ix_(rows, rows)]
        long.append(signs[rows] @ np.linalg.solve(gap, signs[rows]))
    long = np.array(long)
    middle = np.sort(long)[len(long) // 2]
    for largest in (0.999 * middle, 1.001 * middle):
        found, _ = overlapping_predictions(together, tasks, ALPHA, 1e-9, largest)
        assert_array_equal(np.isnan(found).all(axis=1), long > largest)


def test_a_leverage_of_one_is_in_doubt():
    """Where I − S is singular the factorisation fails, and others are not disturbed."""
    tasks, factor = windows(), sparse().factor()
    together = shared(factor, tasks)
    S = smoother_matrix(factor, 1e-14)
    hard = [np.linalg.eigvalsh(S[np.ix_(tasks.held[j], tasks.held[j])])[-1] > 1 - 1e-9
            for j in range(len(tasks))]  # fmt: skip
    found, _ = overlapping_predictions(together, tasks, 1e-14, 1e-3, np.inf)
    assert np.isnan(found[hard]).all()


def test_what_is_in_doubt_is_asked_again_alone(monkeypatch):
    tasks = windows()
    alphas = np.array([0.01, 0.3, 5.0])
    right = held_out_predictions(sparse().factor(), tasks, alphas, apart=True)
    asked = []
    real = identity.overlapping_predictions

    def doubtful(together, tasks, alpha, least, largest):
        values, smallest = real(together, tasks, alpha, least, largest)
        if alpha == 0.3:
            values[[2, 5], 1] = np.nan
        asked.append((alpha, least, largest))
        return values + 0.0, smallest

    monkeypatch.setattr(identity, "overlapping_predictions", doubtful)
    factor = sparse().factor()
    steps = []
    with listening(lambda *step: steps.append(step)):
        found = held_out_predictions(factor, tasks, alphas)
    assert_allclose(found, right, rtol=1e-8, atol=1e-10)
    least = max(lost.CLOSE, factor.weak)
    assert asked == [(a, least, 1.0 / (lost.DIRECTION * factor.weak)) for a in alphas]
    counts = [done for done, total, _ in steps if total == 2]
    assert counts[-1] == 2
    assert max(done for done, total, _ in steps if total == len(tasks)) == len(tasks)


def test_many_penalties_are_not_shared(monkeypatch):
    """Beyond a number of penalties each set goes by itself."""
    asked = []
    monkeypatch.setattr(identity, "_together", lambda *_: asked.append(1))
    tasks, factor = windows(), sparse().factor()
    for count, together in ((identity.SHARED_ALPHAS, True), (identity.SHARED_ALPHAS + 1, False)):
        asked.clear()
        held_out_predictions(factor, tasks, np.geomspace(0.1, 1.0, count))
        assert bool(asked) is together


# -- where it pays -----------------------------------------------------------------------------


def test_where_one_product_for_many_sets_pays(monkeypatch):
    factor = sparse().factor()
    assert shared(factor, windows()) is not None
    dense = KernelSmoother(RBF(0.5)(X), WEIGHTS, Y, Unpenalised.bias(WEIGHTS, True)).factor()
    assert shared(dense, windows()) is None
    # Borders: 1 test, 2 targets and the signs make 4; twice their squares against 24².
    tasks = windows()
    inside = np.square(tasks.held.sizes).sum() / (16.0 * len(tasks))
    monkeypatch.setattr(sharing, "LEAST_INSIDE", inside)
    assert shared(factor, tasks) is not None
    monkeypatch.setattr(sharing, "LEAST_INSIDE", 1.0001 * inside)
    assert shared(factor, tasks) is None
    monkeypatch.undo()
    found = shared(factor, tasks).bundles
    entries = [float((bundle.rows.size + bundle.basis.size) ** 2) for bundle in found]
    monkeypatch.setattr(sharing, "MOST_DOUBLES", max(entries))
    assert shared(factor, tasks) is not None
    monkeypatch.setattr(sharing, "MOST_DOUBLES", max(entries) - 1)
    assert shared(factor, tasks) is None
    monkeypatch.undo()
    spare = sum(entries) / np.square(tasks.held.sizes).sum()
    monkeypatch.setattr(sharing, "MOST_SPARE", 1.0001 * spare)
    assert shared(factor, tasks) is not None
    monkeypatch.setattr(sharing, "MOST_SPARE", 0.9999 * spare)
    assert shared(factor, tasks) is None


def test_places_in_the_matrix_of_a_bundle():
    tasks = windows(True, tests=2)
    factor = sparse().factor()
    found = shared(factor, tasks)
    form = found.at(ALPHA)
    D = factor.D(np.array([ALPHA]))[0]
    S, fitted = smoother_matrix(factor, ALPHA), factor.V @ (D[:, None] * factor.z)
    half = factor.N * np.sqrt(D)
    length = np.linalg.norm(half, axis=1)
    unit = half / length[:, None]
    seen = []
    for bundle in found.bundles:
        A = form(bundle)
        for i, j in enumerate(bundle.index.tolist()):
            seen.append(j)
            H, E, T = tasks.held[j], tasks.removed[j], tasks.test[j]
            h, e, t = H.size, E.size, T.size
            places = bundle.places[i]
            own = A[np.ix_(places, places)]
            assert len(own) == h + e + t + 3
            assert_allclose(own[:h, :h], np.eye(h) - S[np.ix_(H, H)], atol=1e-12)
            s = (factor.V[H] * np.sqrt(D)) @ unit[E].T
            assert_allclose(own[h : h + e, :h], s.T, atol=1e-12)
            assert_allclose(own[h : h + e, h : h + e], unit[E] @ unit[E].T, atol=1e-12)
            target = slice(h + e + t, -1)
            assert_allclose(own[:h, target], factor.Ys[H] - fitted[H], atol=1e-12)
            level = (factor.N[E] / length[E, None]) @ (D[:, None] * factor.z)
            assert_allclose(own[h : h + e, target], level, atol=1e-12)
            assert_allclose(own[h + e : h + e + t, target], -fitted[T], atol=1e-12)
            assert_allclose(np.abs(own[:h, -1]), 1.0)
    assert sorted(seen) == list(range(len(tasks)))


# -- bundles -----------------------------------------------------------------------------------


def brute(sets, seeds):
    """Return the seed that shares most rows with each set, the first of several; −1 for none."""
    found = []
    for one in sets:
        common = [len(set(one) & set(sets[k])) for k in seeds]
        best = int(np.argmax(common))
        found.append(best if common[best] else -1)
    return found


def test_sets_join_the_seed_with_which_they_share_most(monkeypatch):
    monkeypatch.setattr(bundling, "SETS_PER_SEED", 4)
    sets = [np.arange(start, start + 16) for start in range(0, 64, 3)]
    found = bundles(ragged(sets), 80)
    seeds = np.arange(len(sets))[2::4]
    labels = brute(sets, seeds)
    expected = [np.flatnonzero(np.array(labels) == k).tolist() for k in range(len(seeds))]
    assert [part.tolist() for part in found] == [part for part in expected if part]


def test_sets_that_share_nothing_with_any_seed(monkeypatch):
    monkeypatch.setattr(bundling, "SETS_PER_SEED", 4)
    near = [np.arange(k, k + 16) for k in range(8)]
    far = [np.arange(100, 116), np.arange(101, 117), np.arange(200, 216)]
    sets = ragged([*near[:4], far[0], *near[4:], far[1], far[2]])
    found = sorted(part.tolist() for part in bundles(sets, 300))
    assert sorted(j for part in found for j in part) == list(range(11))
    for part in found:
        kinds = {0 if j not in (4, 9, 10) else 2 if j == 10 else 1 for j in part}
        assert len(kinds) == 1


def test_where_sets_have_little_in_common():
    assert bundles(ragged([]), 10) is None
    apart = [np.arange(16 * k, 16 * (k + 1)) for k in range(6)]
    assert bundles(ragged(apart), 96) is None
    twice = ragged([*apart, *apart])  # every row in two sets
    assert bundles(twice, 96) is not None
    assert bundles(ragged([*apart, *apart[:-1], apart[-1][:-1]]), 96) is None
    small = [np.arange(LEAST_SIZE - 1)] * 4
    assert bundles(ragged(small), 96) is None
    assert bundles(ragged([np.arange(LEAST_SIZE)] * 4), 96) is not None


@pytest.mark.parametrize("e", [0, 1])
def test_what_a_border_leaves(e):
    """Predictions from products with the inverse, by hand; a limit that is just met is met."""
    t, v = 1, 2
    q = e + t + v + 1
    rng = np.random.default_rng(2)
    corner, products = rng.standard_normal((3, q, q)), rng.standard_normal((3, q, q))
    corner[:, :e, :e], products[:, :e, :e] = 1.0, 0.5
    products[:, -1, -1] = [2.0, 2.0 + 1e-9, np.nan]
    found = _Borders(e, t, corner, products).predictions(2.0)
    assert np.isnan(found).all(axis=(1, 2)).tolist() == [False, True, True]
    T, Y = slice(e, e + t), slice(e + t, -1)
    expected = products[0, T, Y] - corner[0, T, Y]
    if e:
        moved = corner[0, :e, T].T - products[0, T, :e]
        expected = expected + moved @ (products[0, :e, Y] - corner[0, :e, Y]) / 1.5
    assert_allclose(found[0], expected)


def test_constraints_that_depend_on_each_other_are_in_doubt():
    corner, products = np.zeros((2, 5, 5)), np.zeros((2, 5, 5))
    for j, pivot in enumerate((0.9 * LEAST_PIVOT, 1.1 * LEAST_PIVOT)):
        off = np.sqrt(1.0 - pivot)
        corner[j, :2, :2] = [[1.0, off], [off, 1.0]]
    found = _Borders(2, 1, corner, products).predictions(1.0)
    assert np.isnan(found).all(axis=(1, 2)).tolist() == [True, False]
