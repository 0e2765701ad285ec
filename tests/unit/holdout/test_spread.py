"""Second moments of held-out targets against a Gaussian process written out row by row."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import holdfast.holdout.spread as module
from holdfast.experiments import Ragged, Tasks
from holdfast.holdout.models import HeldOutModels
from holdfast.holdout.spread import Spread, spread
from holdfast.kernels import RBF
from holdfast.kernels.matrix import KernelRows
from holdfast.smoother import FeatureSmoother, KernelSmoother, Unpenalised, WhitenedFeatures
from holdfast.smoother.features import ColumnFeatures

M = 30
RNG = np.random.default_rng(51)
X = RNG.normal(size=(M, 3))
Y = np.c_[np.sin(X[:, 0]), X[:, 1]] + 0.1 * RNG.normal(size=(M, 2))
BASIS, EPSILON = np.arange(0, 24, 2), 1e-6
ALPHAS = np.array([0.2, 1.5])
WEIGHTS = RNG.uniform(0.5, 2.0, size=M)
ZEROS = WEIGHTS.copy()
ZEROS[[3, 9]] = 0.0

#: Held out, removed from the basis, tested: one row, several, some of them, and others besides.
SETS = {
    "one": ([[0], [5], [14]], [[], [], []], None),
    "folds": ([[0, 1, 2], [4, 5, 6], [7, 8]], [[0, 1], [2], [4]], None),
    "some": ([[0, 1, 2], [4, 5, 6]], [[0], []], [[2, 0], [5]]),
    "others": ([[0, 1, 2], [4, 5]], [[], [2]], [[2, 20], [21, 5, 4]]),
    "nothing held": ([[], []], [[], []], [[2, 20], [21]]),
    "absent rows": ([[1, 2], [8]], [[], []], [[3, 1], [9, 8]]),
    "large": ([[*range(10, 19)], [*range(20, 28)]], [[5, 6], []], None),
    "most": ([[*range(28)], [*range(2, 29)]], [[*range(6)], []], [[0, 1, 29], [5, 29]]),
}


def tasks_of(name, form):
    held, removed, test = SETS[name]
    removed = removed if form == "sparse" else [[]] * len(held)
    parts = (
        Ragged.from_arrays([np.array(rows, dtype=np.int64) for rows in sets])
        for sets in (held, removed, held if test is None else test)
    )
    return Tasks(*parts, np.arange(len(held)))


def smoother_of(form, weights, bias, targets=Y):
    unpenalised = Unpenalised.bias(weights, bias)
    data = KernelRows(RBF(0.4), X)
    if form == "dense":
        return KernelSmoother(data, weights, targets, unpenalised)
    features = ColumnFeatures(X)
    if form == "sparse":
        features = WhitenedFeatures.of(data, BASIS, EPSILON)
    return FeatureSmoother(features, weights, targets, unpenalised)


def kernel(form, removed):
    if form == "linear":
        return X @ X.T
    K = RBF(0.4)(X)
    if form == "dense":
        return K
    B = np.delete(BASIS, removed)
    return K[:, B] @ np.linalg.solve(K[np.ix_(B, B)] + EPSILON * np.eye(B.size), K[B])


def covariance(K, train, rows, w, alpha, bias):
    """Return the covariance of f on rows, given noise of variance 1/w on the training rows."""
    prior, cross = K[np.ix_(rows, rows)] / alpha, K[np.ix_(rows, train)] / alpha
    A = K[np.ix_(train, train)] / alpha + np.diag(1.0 / w[train])
    left = prior - cross @ np.linalg.solve(A, cross.T)
    if bias:
        ones = np.ones((train.size, 1))
        R = 1.0 - cross @ np.linalg.solve(A, ones)
        left += R @ R.T / (ones.T @ np.linalg.solve(A, ones))
    return left


@pytest.mark.parametrize("stack", [1, 2**20])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("w", [WEIGHTS, ZEROS], ids=["weights", "zeros"])
@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("form", ["dense", "sparse", "linear"])
def test_moments_of_a_gaussian_process(monkeypatch, form, name, w, bias, stack):
    monkeypatch.setattr(module, "STACK_DOUBLES", stack)
    tasks = tasks_of(name, form)
    held = tasks.held.filter(w[tasks.held.values] > 0)
    tasks = Tasks(held, tasks.removed, tasks.test, tasks.source)
    errors = np.random.default_rng(1).normal(size=(2, tasks.test.values.size, 2))
    models = HeldOutModels(smoother_of(form, w, bias), tasks, np.array([1.0, 1.0]))
    found = spread(models, ALPHAS, errors)
    plain = np.where(w > 0, w, 1.0)
    for j in range(len(tasks)):
        K = kernel(form, tasks.removed[j])
        train = np.setdiff1d(np.flatnonzero(w > 0), tasks.held[j])
        rows, span = tasks.test[j], slice(tasks.test.ptr[j], tasks.test.ptr[j + 1])
        counted = w[rows] > 0
        joint = np.isin(rows, tasks.held[j]) & counted
        alone = counted & ~joint
        assert found.count[j] == counted.sum()
        for a, alpha in enumerate(ALPHAS):
            C = covariance(K, train, rows, w, alpha, bias) + np.diag(1.0 / plain[rows])
            assert_allclose(found.variance[a, span], np.diag(C), rtol=1e-6)
            both = C[np.ix_(joint, joint)]
            log_det = np.linalg.slogdet(both)[1] + np.log(np.diag(C)[alone]).sum()
            assert found.log_det[a, j] == pytest.approx(log_det, rel=1e-6, abs=1e-6)
            r = errors[a, span]
            square = (r[joint] * np.linalg.solve(both, r[joint])).sum(axis=0)
            square = square + (np.square(r[alone]) / np.diag(C)[alone, None]).sum(axis=0)
            assert_allclose(found.square[a, j], square, rtol=1e-6, atol=1e-9)


def test_the_noise_that_is_most_likely():
    square = np.arange(1.0, 13.0).reshape(2, 3, 2)
    found = Spread(np.empty(0), np.empty(0), square, np.array([2, 0, 4]))
    assert_allclose(found.noise, square.sum(axis=1) / 6.0)
    nothing = Spread(np.empty(0), np.empty(0), square, np.zeros(3, dtype=int))
    assert_allclose(nothing.noise, square.sum(axis=1))


@pytest.mark.parametrize("form", ["dense", "linear"])
def test_errors_in_units_of_extreme_targets(form):
    unit = 2.0**400
    tasks = tasks_of("folds", form)
    errors = np.random.default_rng(1).normal(size=(2, tasks.test.values.size, 2))
    usual, extreme = (
        spread(
            HeldOutModels(smoother_of(form, WEIGHTS, True, Y * u), tasks, np.ones(2)),
            ALPHAS,
            errors * u,
        )
        for u in (1.0, unit)
    )
    assert extreme.unit > 1e100
    assert_allclose(extreme.square * (extreme.unit / unit) ** 2, usual.square, rtol=1e-9)
    assert_allclose(extreme.variance, usual.variance, rtol=1e-9)
