"""Which errors of a dense model are looked at: where they may be large, and not too many."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import holdfast.smoother.measured as measuring
from holdfast.experiments import Ragged, Tasks
from holdfast.holdout.identity import held_out_predictions
from holdfast.kernels import RBF
from holdfast.smoother import KernelSmoother, Unpenalised
from holdfast.smoother.kernel_form import SMALL
from holdfast.smoother.measured import DenseProblem, _evenly, look

M = 20
RNG = np.random.default_rng(9)
X = RNG.normal(size=(M, 2))
X[13] = [6.0, 6.0]  # alone: its leverage is the highest
Y = np.c_[np.sin(X[:, 0]), np.cos(X[:, 1]), X[:, 0]] + 0.1 * RNG.normal(size=(M, 3))
ALPHAS = np.geomspace(1e-7, 1e-6, 5)
HELD = [[0, 1], [2], [13, 3], [4, 5], [6]]
TASKS = Tasks(
    Ragged.from_arrays([np.array(h) for h in HELD]),
    Ragged.empty(5),
    Ragged.from_arrays([np.array(h) for h in HELD]),
    np.arange(5),
)
ALL = slice(None)


def dense(m=M, bias=True, weights=None):
    weights = np.ones(m) if weights is None else weights
    K = RBF(0.3)(X[:m] if m <= M else RNG.normal(size=(m, 2)))
    return KernelSmoother(K, weights, np.resize(Y, (m, 3)), Unpenalised.bias(weights, bias))


def prepared():
    smoother = dense()
    values = held_out_predictions(smoother.factor(), TASKS, ALPHAS)
    level = smoother.unpenalised.level(TASKS.test.values, smoother.targets.level)
    return smoother, values, np.abs(values + level).max(axis=1)


def test_some_of_many():
    numbers = np.array([3, 5, 7, 9, 11])
    assert _evenly(numbers, 5) is numbers
    assert _evenly(numbers, 2).tolist() == [3, 11]
    assert _evenly(numbers, 3).tolist() == [3, 7, 11]
    assert _evenly(numbers, 1).tolist() == [3]
    assert _evenly(numbers, 0).tolist() == []
    assert _evenly(numbers[:0], 0).tolist() == []


@pytest.mark.parametrize("place", [0, 2, 6, 7])
@pytest.mark.parametrize("target", [0, 2])
@pytest.mark.parametrize("penalty", [0, 2, 4])
def test_few_errors_are_all_looked_at(penalty, target, place):
    smoother, values, size = prepared()
    wrong = values.copy()
    wrong[penalty, place, target] += 1e-4
    found = smoother.measured(TASKS, ALPHAS, wrong, ALL)
    expected = np.zeros(5)
    expected[penalty] = 1e-4 / size[penalty, target]
    assert_allclose(found.errors, expected, rtol=1e-2, atol=1e-7)


def test_of_many_the_ends_and_the_highest_leverage(monkeypatch):
    """The first and last penalty and target, one task; penalties between take after the nearer."""
    monkeypatch.setattr(measuring, "FREE", 0.0)
    monkeypatch.setattr(measuring, "SHARE", 0.0)
    smoother, values, size = prepared()

    def seen(penalty, place, target):
        wrong = values.copy()
        wrong[penalty, place, target] += 1e-4
        found = smoother.measured(TASKS, ALPHAS, wrong, ALL).errors
        return (found * size[penalty, target]).round(5).tolist()

    assert seen(0, 3, 0) == [1e-4, 1e-4, 1e-4, 0.0, 0.0]
    assert seen(4, 4, 2) == [0.0, 0.0, 0.0, 1e-4, 1e-4]
    for elsewhere in ((2, 3, 0), (0, 3, 1), (0, 0, 0), (0, 7, 0), (4, 5, 2)):
        assert seen(*elsewhere) == [0.0] * 5
    monkeypatch.setattr(measuring, "SHARE", 1.0)  # 8,000 operations over 4,800 for each task: one
    assert seen(0, 0, 0) == [0.0] * 5
    monkeypatch.setattr(measuring, "SHARE", 12.0 * 4 / M)  # … and now one more, the first
    assert seen(0, 0, 0) == [1e-4, 1e-4, 1e-4, 0.0, 0.0]
    assert seen(0, 7, 0) == [0.0] * 5
    monkeypatch.setattr(measuring, "SHARE", 2 * 12.0 * 4 / M)
    assert seen(0, 7, 0) == [1e-4, 1e-4, 1e-4, 0.0, 0.0]


def test_penalties_without_a_doubt_are_not_looked_at():
    smoother, _, _ = prepared()
    alphas = np.array([1e-7, 1e6])
    values = held_out_predictions(smoother.factor(), TASKS, alphas)
    found = smoother.measured(TASKS, alphas, values + 1e-3, ALL)
    assert found.errors[0] > 1e-4
    assert found.errors[1] == 0.0
    assert found.attainable[1] == 0.0
    assert smoother.measured(TASKS, alphas[1:], values[1:], ALL) is None


def test_a_spectrum_is_made_for_few_rows_only():
    tasks = Tasks(*(Ragged.from_arrays([np.array(r, int)]) for r in ([0], [], [0])), np.arange(1))
    for m, looked in ((SMALL, True), (SMALL + 1, False)):
        smoother = dense(m)
        values = np.ones((1, 1, 3))
        assert (smoother.measured(tasks, ALPHAS[:1], values, ALL) is not None) is looked
        factor = smoother.factor()
        assert smoother.measured(tasks, ALPHAS[:1], values, ALL) is not None
        other = dense(m)
        assert other.measured(tasks, ALPHAS[:1], values, ALL, factor) is not None


@pytest.mark.parametrize("bias", [False, True])
def test_rows_of_no_weight_are_predicted_and_not_held_out(bias):
    weights = np.ones(M)
    weights[[1, 4]] = [0.0, 3.0]
    smoother = dense(bias=bias, weights=weights)
    sets = [np.array([0]), np.array([4, 5]), np.array([], dtype=np.int64)]
    test = Ragged.from_arrays([np.array([0, 1]), np.array([4, 1, 7]), np.array([2])])
    tasks = Tasks(Ragged.from_arrays(sets), Ragged.empty(3), test, np.arange(3))
    values = held_out_predictions(smoother.factor(), tasks, ALPHAS)
    calm = smoother.measured(tasks, ALPHAS, values, ALL)
    assert calm.errors.max() < 1e-7
    assert (calm.attainable > 0.0).all()
    level = smoother.unpenalised.level(test.values, smoother.targets.level)
    size = np.abs(values + level).max(axis=1)
    for place, seen in ((1, True), (4, True), (5, False)):  # the last task holds nothing out
        wrong = values.copy()
        wrong[1, place, 1] += 1e-4
        found = smoother.measured(tasks, ALPHAS, wrong, ALL).errors[1]
        assert np.isclose(found, 1e-4 / size[1, 1], rtol=1e-2) == seen


def test_what_rounding_leaves_grows_as_penalties_shrink():
    smoother, values, _ = prepared()
    found = smoother.measured(TASKS, ALPHAS, values, ALL)
    assert (np.diff(found.attainable) < 0.0).all()
    assert (found.attainable > np.finfo(float).eps).all()
    assert (found.attainable < 1e-6).all()
    assert_array_equal(found.errors < 1e3 * found.attainable, True)


@pytest.mark.parametrize("bias", [False, True])
def test_what_rounding_leaves_does_not_depend_on_the_unit_of_weights(bias):
    """Weights and penalties four times as large are the same model."""
    found = []
    for unit in (1.0, 4.0):
        smoother = dense(bias=bias, weights=np.full(M, unit))
        values = held_out_predictions(smoother.factor(), TASKS, unit * ALPHAS)
        found.append(smoother.measured(TASKS, unit * ALPHAS, values, ALL).attainable)
    assert_allclose(found[1], found[0], rtol=0.05)


@pytest.mark.parametrize("bias", [False, True])
def test_kernel_values_of_both_signs(bias):
    """A linear kernel: what is refined is the model, and not that of the sizes of its entries."""
    smoother = KernelSmoother(X @ X.T, np.ones(M), Y, Unpenalised.bias(np.ones(M), bias))
    assert (smoother.K < 0.0).any()
    alphas = np.array([1e-5, 1e-4])
    values = held_out_predictions(smoother.factor(), TASKS, alphas)
    calm = smoother.measured(TASKS, alphas, values, ALL)
    assert (calm.errors < 1e-8).all()
    assert (calm.attainable < 1e-6).all()
    level = smoother.unpenalised.level(TASKS.test.values, smoother.targets.level)
    values[0, 2, 1] += 1e-3
    found = smoother.measured(TASKS, alphas, values, ALL).errors
    assert found[0] == pytest.approx(1e-3 / np.abs(values + level).max(axis=1)[0, 1], rel=1e-3)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("held", [[13, 3], [0], [1, 6, 2]])
def test_errors_and_what_is_attainable_by_the_formula(held, bias):
    """One task, from explicit inverses: rounding errors of residuals, spread to held-out rows."""
    weights = np.linspace(0.5, 2.0, M)
    smoother = dense(bias=bias, weights=weights)
    factor, held, test = smoother.factor(), np.array(held), np.array([3, 13, 7])
    alphas = np.array([1e-3, 1e-2])
    part = DenseProblem.of(smoother.K, smoother.scale, smoother.unpenalised, smoother.targets.Ys)
    Ys = np.broadcast_to(part.Ys, (2, *part.Ys.shape))
    c = factor.inverse_times(Ys, alphas)
    values = RNG.normal(size=(2, 3, 3))
    errors, noise = look(part, factor, c, held, test, alphas, values)
    root, eps = np.sqrt(weights), np.finfo(float).eps
    A = root[:, None] * smoother.K * root
    right = smoother.retrain(held, np.array([], dtype=int), test, alphas, ALL)
    for a, alpha in enumerate(alphas):
        G = np.linalg.inv(A + alpha * np.eye(M))
        if bias:
            G -= G @ np.outer(root, root) @ G / (root @ G @ root)
        lift = np.linalg.solve(G[np.ix_(held, held)], G[held])
        model = G @ part.Ys - lift.T @ (G @ part.Ys)[held]
        model[held] = 0.0
        size = np.abs(A) @ np.abs(model) + alpha * np.abs(model) + np.abs(part.Ys)
        size[held] = 0.0
        reached = np.sqrt(np.square(lift) @ np.square(eps * size)) / root[held, None]
        sums = eps * (np.abs(smoother.K[test] * root) @ np.abs(model))
        assert_allclose(noise[a], reached.max(axis=0) + sums.max(axis=0), rtol=1e-5)
        assert_allclose(errors[a], np.abs(values[a] - right[a]).max(axis=0), rtol=1e-7)
