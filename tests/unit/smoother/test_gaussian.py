"""The Gaussian view of a smoother, its leverages and its models, from plain matrices."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import holdfast.smoother.rows as blocks
from holdfast.experiments import Ragged, Tasks
from holdfast.holdout.identity import residuals
from holdfast.kernels import RBF
from holdfast.kernels.matrix import KernelRows
from holdfast.smoother import FeatureSmoother, KernelSmoother, Unpenalised, WhitenedFeatures
from holdfast.smoother.features import ColumnFeatures

M = 26
RNG = np.random.default_rng(61)
X, NEW = RNG.normal(size=(M, 3)), RNG.normal(size=(5, 3))
Y = np.c_[np.sin(X[:, 0]), X[:, 1]] + 0.1 * RNG.normal(size=(M, 2)) + 2.0
BASIS, EPSILON = np.arange(0, 20, 2), 1e-6
ALPHAS = np.array([0.2, 1.5])
WEIGHTS = RNG.uniform(0.5, 2.0, size=M)
ZEROS = WEIGHTS.copy()
ZEROS[[3, 9]] = 0.0

every_model = [
    pytest.mark.parametrize("bias", [False, True]),
    pytest.mark.parametrize("w", [np.ones(M), WEIGHTS, ZEROS], ids=["ones", "weights", "zeros"]),
    pytest.mark.parametrize("form", ["dense", "sparse", "linear", "streamed"]),
]


def every(test):
    for mark in every_model:
        test = mark(test)
    return test


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1)
    monkeypatch.setattr(blocks, "LEAST_ROWS", 11)


def smoother_of(form, w, bias):
    unpenalised, data = Unpenalised.bias(w, bias), KernelRows(RBF(0.4), X)
    if form == "dense":
        return KernelSmoother(data, w, Y, unpenalised)
    features = ColumnFeatures(X) if form == "linear" else WhitenedFeatures.of(data, BASIS, EPSILON)
    return FeatureSmoother(features, w, Y, unpenalised, 0.0 if form == "streamed" else np.inf)


def kernel(form, A, B):
    if form == "linear":
        return A @ B.T
    k = RBF(0.4)
    if form == "dense":
        return k(A, B)
    K_BB = k(X[BASIS]) + EPSILON * np.eye(BASIS.size)
    return k(A, X[BASIS]) @ np.linalg.solve(K_BB, k(X[BASIS], B))


def covariance(form, rows, w, alpha, bias):
    """Return the covariance of f on rows, given noise of variance 1/w on the trained ones."""
    train = X[w > 0]
    prior, cross = kernel(form, rows, rows) / alpha, kernel(form, rows, train) / alpha
    A = kernel(form, train, train) / alpha + np.diag(1.0 / w[w > 0])
    left = prior - cross @ np.linalg.solve(A, cross.T)
    if bias:
        ones = np.ones((len(train), 1))
        R = 1.0 - cross @ np.linalg.solve(A, ones)
        left += R @ R.T / (ones.T @ np.linalg.solve(A, ones))
    return left


def residual_map(form, w, alpha, bias):
    """Return I − S of the trained rows, weighted."""
    live = w > 0
    root = np.sqrt(w[live])
    K = root[:, None] * kernel(form, X[live], X[live]) * root
    A = K + alpha * np.eye(live.sum())
    G = np.linalg.inv(A)
    if bias:
        u = root[:, None]
        G = G - G @ u @ u.T @ G / (u.T @ G @ u)
    return alpha * G


@every
def test_covariances(form, w, bias):
    smoother, rows = smoother_of(form, w, bias), np.array([0, 3, 7, 25])
    found = smoother.posterior(rows, ALPHAS)
    new = smoother.variances(NEW, ALPHAS)
    assert new.shape == (5, 2)
    for a, alpha in enumerate(ALPHAS):
        assert_allclose(found[a], covariance(form, X[rows], w, alpha, bias), rtol=1e-6, atol=1e-8)
        expected = np.diag(covariance(form, NEW, w, alpha, bias))
        assert_allclose(new[:, a], expected, rtol=1e-6, atol=1e-8)


@every
def test_residuals_that_are_uncorrelated(form, w, bias):
    found = smoother_of(form, w, bias).half_residuals(0.7)
    Lambda, V = np.linalg.eigh(residual_map(form, w, 0.7, bias))
    root = (V * np.sqrt(np.maximum(Lambda, 0.0))) @ V.T
    live = w > 0
    expected = root @ (np.sqrt(w[live])[:, None] * Y[live])
    assert_allclose(found[live], expected, atol=1e-6)
    assert not found[~live].any()


@every
def test_leverages(form, w, bias):
    smoother = smoother_of(form, w, bias)
    expected = np.zeros(M)
    expected[w > 0] = 1.0 - np.diag(residual_map(form, w, 0.7, bias))
    assert_allclose(smoother.leverages(0.7), expected, atol=1e-7)
    for factor in (smoother.factor(0.1), smoother.single(0.7)):
        assert_allclose(factor.leverages(0.7), expected, atol=1e-7)
    assert_allclose(smoother.leverages(0.7), expected, atol=1e-7)


@every
def test_models_as_coefficients(form, w, bias):
    """v(x)·β on new rows, on rows of the data, and the sum of squares over the trained rows."""
    smoother = smoother_of(form, w, bias)
    alphas = np.array([0.7, 0.7])
    factor = smoother.coordinates(alphas)
    model = smoother.model(factor, alphas)
    live = w > 0
    train, wl = X[live], w[live]
    A = kernel(form, train, train) + 0.7 * np.diag(1.0 / wl)
    level = np.zeros(2)
    if bias:
        one = np.linalg.solve(A, np.ones(len(train)))
        level = (one @ Y[live]) / one.sum()
    c = np.linalg.solve(A, Y[live] - level)

    def predicted(rows):
        return kernel(form, rows, train) @ c + level

    outputs = smoother.outputs(factor)
    assert outputs(NEW).shape == (5, outputs.size)
    assert_allclose(outputs(NEW) @ model.T, predicted(NEW), rtol=1e-6, atol=1e-8)
    rows = np.array([3, 0, 20])
    found = smoother.fitted_rows(factor, model, rows)
    assert_allclose(found, predicted(X[rows]), rtol=1e-6, atol=1e-8)
    squares = (wl[:, None] * np.square(predicted(train))).sum(axis=0)
    assert_allclose(smoother.fitted_squares(factor, model), squares, rtol=1e-6)
    both = smoother.fitted_squares(factor, np.stack([model, 2.0 * model]))
    assert_allclose(both, [squares, 4 * squares], rtol=1e-6)


@every
def test_held_out_models_as_coefficients(form, w, bias):
    compare_held_out_models(form, w, bias, lambda smoother: smoother.factor(0.7))


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("w", [np.ones(M), ZEROS], ids=["ones", "zeros"])
def test_held_out_models_of_an_inverse_as_coefficients(w, bias):
    compare_held_out_models("dense", w, bias, lambda smoother: smoother.single(0.7))


def compare_held_out_models(form, w, bias, factorise):
    smoother = smoother_of(form, w, bias)
    held = [np.array([0, 1]), np.array([5, 6])]
    rows = Ragged.from_arrays(held)
    tasks = Tasks(rows, Ragged.empty(2), rows, np.arange(2))
    factor = factorise(smoother)
    (shape,) = tasks.stacks(1, 10**6)
    system = factor.held(shape, np.array([0.7]))
    r = residuals(system, np.inf).r
    models = smoother.with_level(smoother.held_models(factor, shape, system, r))
    outputs = smoother.outputs(factor)
    for j in range(2):
        left = w.copy()
        left[held[j]] = 0.0
        own = smoother_of(form, left, bias)
        alphas = np.array([0.7, 0.7])
        mine = own.coordinates(alphas)
        expected = own.outputs(mine)(NEW) @ own.model(mine, alphas).T
        assert_allclose(outputs(NEW) @ models[j].T, expected, rtol=1e-6, atol=1e-8)
