"""One door to held-out predictions: every path keeps the promise, or says what it could not."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from holdfast import holdout
from holdfast.experiments import Ragged, Tasks
from holdfast.holdout import folds, identity
from holdfast.holdout.accuracy import FREE_OPERATIONS, PROMISE, affordable, data_floor
from holdfast.holdout.verify import verify
from holdfast.kernels import RBF
from holdfast.kernels.matrix import KernelRows
from holdfast.smoother import FeatureSmoother, KernelSmoother, Unpenalised, WhitenedFeatures
from holdfast.smoother.features import ColumnFeatures

M = 40
RNG = np.random.default_rng(31)
X = RNG.normal(size=(M, 3))
Y = np.c_[np.sin(X[:, 0]), X[:, 1] + 1.0] + 0.1 * RNG.normal(size=(M, 2))
ALPHAS = np.array([0.1, 10.0, 1.0])
HELD, REMOVED = [[0, 1], [2, 3, 4], [5], [6]], [[0, 1], [2, 3, 4], [], [6]]
FAST = ("spectral", "fold_gram", "single")


def ragged(sets):
    return Ragged.from_arrays([np.array(rows, dtype=np.int64) for rows in sets])


def tasks_of(held, removed=None, test=None):
    removed = [[]] * len(held) if removed is None else removed
    test = held if test is None else test
    return Tasks(ragged(held), ragged(removed), ragged(test), np.arange(len(held)))


ONES = np.ones(M)


def sparse(rows=X, weights=ONES):
    features = WhitenedFeatures.of(KernelRows(RBF(0.3), rows), np.arange(12), 1e-8)
    return FeatureSmoother(features, weights, Y, Unpenalised.bias(weights, True))


def dense(rows=X, weights=ONES):
    return KernelSmoother(KernelRows(RBF(0.3), rows), weights, Y, Unpenalised.bias(weights, True))


def linear(rows=X, weights=ONES):
    return FeatureSmoother(ColumnFeatures(rows), weights, Y, Unpenalised.bias(weights, True))


@pytest.mark.parametrize("path", FAST)
@pytest.mark.parametrize("columns", [slice(None), slice(1, 2)])
def test_every_way_gives_the_model_without_the_rows(path, columns):
    tasks = tasks_of(HELD, REMOVED, [[1, 9], [3], [5, 0, 7], [6]])
    found = holdout.judged(sparse(), tasks, ALPHAS, path, columns)
    expected = holdout.predict(sparse(), tasks, ALPHAS, "retrain", columns)
    assert found.values.shape == (3, 7, 2 if columns == slice(None) else 1)
    assert_allclose(found.values, expected, rtol=1e-7, atol=1e-9)
    assert found.error.shape == (3, 4)
    assert found.error.max() <= PROMISE
    assert_array_equal(holdout.predict(sparse(), tasks, ALPHAS, path, columns), found.values)


@pytest.mark.parametrize("weights", [ONES, np.linspace(0.1, 3.0, M)])
@pytest.mark.parametrize("block", [16, 2**18])
def test_more_targets_than_rows(monkeypatch, weights, block):
    monkeypatch.setattr(identity, "PIECE_DOUBLES", block)
    monkeypatch.setattr(identity, "TARGETS_AT_LEAST", 7)
    many = RNG.normal(size=(M, M + 9)) + np.sin(X[:, :1])
    rows, bias = KernelRows(RBF(0.3), X), Unpenalised.bias(weights, True)
    smoother, tasks = KernelSmoother(rows, weights, many, bias), tasks_of([[0, 1], [5, 2, 9]])
    assert identity._solves_for_rows(smoother.factor(0.1), tasks)
    assert not identity._solves_for_rows(smoother.factor(0.1), tasks_of([[0, 1]], None, [[0, 3]]))
    found = holdout.judged(smoother, tasks, ALPHAS, "spectral")
    expected = holdout.predict(smoother, tasks, ALPHAS, "retrain")
    assert_allclose(found.values, expected, atol=1e-11)
    assert found.error.max() <= PROMISE
    few = KernelSmoother(rows, weights, many[:, :3], bias)
    assert not identity._solves_for_rows(few.factor(0.1), tasks)
    assert_allclose(holdout.predict(few, tasks, ALPHAS, "spectral"), expected[..., :3], atol=1e-11)


def lonely():
    """Return rows of which the eighth alone has the last column."""
    rows = np.c_[X, np.zeros(M)]
    rows[7, 3] = 1.0
    return rows


@pytest.mark.parametrize("path", FAST)
def test_sets_past_the_promise_are_trained_again_and_others_stay(path):
    tasks, alphas = tasks_of([[0], [7, 8], [3], [7]]), np.array([1.0, 1e-11])
    raw, error = holdout.PATHS[path](linear(lonely()), tasks, alphas, slice(None))
    got = holdout.judged(linear(lonely()), tasks, alphas, path)
    expected = holdout.predict(linear(lonely()), tasks, alphas, "retrain")
    assert_allclose(got.values, expected, rtol=1e-8)
    assert got.error.max() <= PROMISE
    if path == "fold_gram":  # its own equations have no leverage
        return
    assert (error > PROMISE).tolist() == [[False] * 4, [False, True] * 2]
    smoother = linear(lonely())
    kept = smoother.restore(raw, tasks.test.values, slice(None))
    assert_array_equal(got.values[:, [0, 3]], kept[:, [0, 3]])


def test_folds_of_collinear_columns_need_not_be_trained_again(monkeypatch):
    kind = np.eye(4)[np.arange(M) % 4]  # as many columns as kinds, which sum to one
    rows = np.c_[X, kind, X[:, :1] + X[:, 1:2]]
    tasks, alphas = tasks_of([np.arange(j, M, 5) for j in range(5)]), np.geomspace(1e-12, 1e3, 16)
    expected = holdout.predict(linear(rows), tasks, alphas, "retrain")
    with monkeypatch.context() as patched:
        patched.setattr(FeatureSmoother, "rotated", lambda _: None)
        _, lost = holdout.PATHS["fold_gram"](linear(rows), tasks, alphas, slice(None))
    monkeypatch.setattr(FeatureSmoother, "retrain", lambda *_: pytest.fail("trained again"))
    found = holdout.judged(linear(rows), tasks, alphas, "fold_gram")
    assert found.error.max() <= PROMISE < lost[0].min()
    assert_allclose(found.values, expected, atol=PROMISE)


def test_units_far_apart_are_not_mixed(monkeypatch):
    rows, alphas = X * [1e-6, 1.0, 1e12], np.geomspace(1e-4, 1e4, 8)
    tasks = tasks_of([np.arange(j, M, 5) for j in range(5)])
    expected = holdout.predict(linear(rows), tasks, alphas, "retrain")
    monkeypatch.setattr(folds, "_by_reduction", lambda *_: pytest.fail("mixed"))
    found = holdout.judged(linear(rows), tasks, alphas, "fold_gram")
    assert found.error.max() < 1e-12
    assert_allclose(found.values, expected, atol=1e-12)


def test_what_cannot_be_afforded_is_stated(monkeypatch):
    monkeypatch.setattr(holdout, "affordable", lambda *_: False)
    got = holdout.judged(linear(lonely()), tasks_of([[0], [7]]), np.array([1e-12]), "spectral")
    assert got.error[0, 0] <= PROMISE < got.error[0, 1]


def test_single_rows_past_the_promise_are_looked_at_for_each_penalty():
    alphas = np.geomspace(1e-11, 1.0, 12)
    tasks = tasks_of([[0], [7]])
    _, error = holdout.PATHS["spectral"](linear(lonely()), tasks, alphas, slice(None))
    lost = error[:, 1] > PROMISE
    assert 0 < lost.sum() < alphas.size // 2  # one look at the smallest would lose half of them
    assert (np.diff(error[lost, 1]) < 0.0).all()


def test_many_small_models_are_not_free(monkeypatch):
    smoother, sets = linear(lonely()), [[7]] * 400
    alphas = np.geomspace(1e-12, 1e-11, 6)
    free = 400 * alphas.size * smoother.training_work(1)
    assert affordable(smoother, free)
    monkeypatch.setattr(FeatureSmoother, "retrain", lambda *_: pytest.fail("trained again"))
    assert holdout.judged(smoother, tasks_of(sets), alphas, "spectral").error.max() > PROMISE


def test_what_is_affordable():
    smoother = linear()
    assert affordable(smoother, FREE_OPERATIONS)
    assert not affordable(smoother, 1.01 * FREE_OPERATIONS)
    smoother.fit_work = lambda: 3.0 * FREE_OPERATIONS  # a large model: as much as a fit
    assert affordable(smoother, 3.0 * FREE_OPERATIONS)
    assert not affordable(smoother, 3.01 * FREE_OPERATIONS)


@pytest.mark.parametrize("make", [sparse, dense])
def test_the_data_floor_falls_with_the_penalty_and_has_no_unit(make):
    alphas = np.geomspace(1e-8, 10.0, 7)
    tasks = tasks_of([[i] for i in range(M)])
    floor = data_floor(make(), tasks, alphas)
    assert (np.diff(floor) < 0.0).all()
    assert 1e-16 < floor[-1] < floor[0] < 1e-6
    heavy = make(weights=np.full(M, 16.0))
    assert_allclose(data_floor(heavy, tasks, 16.0 * alphas), floor, rtol=1e-3)


def test_differences_are_over_the_yardstick():
    """The spread of y, or how far a prediction is from its mean; some tasks are drawn."""
    smoother, tasks = sparse(), tasks_of([[i] for i in range(M)])
    found = verify(smoother, tasks, ALPHAS, "spectral", 6, 0, np.array([1]))
    assert found.relative_errors.shape == (6, 3)
    assert np.unique(found.experiments).size == 6
    assert found.verified
    again = verify(smoother, tasks, ALPHAS, "spectral", 6, 0, np.array([1]))
    assert_array_equal(found.experiments, again.experiments)
    assert len(verify(smoother, tasks, ALPHAS, "spectral", 99, 0, np.array([1])).experiments) == M
