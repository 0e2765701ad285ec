"""A dense model trained from scratch keeps the digits that LU alone would lose."""

from __future__ import annotations

import numpy as np
import pytest

from holdfast.kernels import RBF
from holdfast.smoother.bordered import AT_ONCE, Bordered, product
from reference.oracle import exact_retrain
from reference.retrain import retrain

RNG = np.random.default_rng(0)
X = RNG.normal(size=(14, 2))
Y = np.c_[np.sin(X[:, 0]), X[:, 1] ** 2] + 0.1 * RNG.normal(size=(14, 2))
WEIGHTS = 10.0 ** RNG.uniform(-2, 2, 14)
TRAIN, TEST = np.arange(11), np.array([12, 13, 2])
NOTHING = np.empty(0, dtype=np.int64)


def predictions(alphas, bias):
    K, U = RBF(0.05)(X), np.ones((14, int(bias)))
    problem = Bordered(K[np.ix_(TRAIN, TRAIN)], U[TRAIN], Y[TRAIN], WEIGHTS[TRAIN])
    return K, problem.predictions(K[np.ix_(TEST, TRAIN)], U[TEST], np.asarray(alphas))


@pytest.mark.parametrize("bias", [False, True])
def test_it_is_the_model_of_the_optimality_conditions(bias):
    K, found = predictions([1e-2, 3.0], bias)
    held = np.setdiff1d(np.arange(14), TRAIN)
    for alpha, values in zip([1e-2, 3.0], found, strict=True):
        expected = retrain(K, Y, held, TEST, alpha, None, NOTHING, WEIGHTS, bias, 0.0)
        np.testing.assert_allclose(values, expected, rtol=1e-10)


@pytest.mark.skipif(
    np.finfo(np.longdouble).eps > 1e-18, reason="no longer floating-point numbers on this machine"
)
@pytest.mark.parametrize("bias", [False, True])
def test_nearly_singular_systems_keep_their_digits(bias):
    alpha, held = 1e-8, np.setdiff1d(np.arange(14), TRAIN)
    K, (found,) = predictions([alpha], bias)
    more = (None, NOTHING, WEIGHTS, bias, 0.0)
    exact = exact_retrain(K, Y, held, TEST, alpha, *more, 60)
    by_qr = retrain(K, Y, held, TEST, alpha, *more, solver="qr")
    error, of_qr = (np.abs(values - exact).max() for values in (found, by_qr))
    assert error < 1e-12 * np.abs(exact).max()
    assert error < 0.1 * of_qr


def test_a_singular_system_is_an_error():
    problem = Bordered(np.zeros((3, 3)), np.zeros((3, 0)), np.ones((3, 1)), np.ones(3))
    with pytest.raises(np.linalg.LinAlgError, match="singular"):
        problem.predictions(np.zeros((1, 3)), np.zeros((1, 0)), np.array([0.0]))


def test_products_go_by_rows():
    A, x = RNG.normal(size=(3, AT_ONCE // 2)), np.ones((AT_ONCE // 2, 1), dtype=np.longdouble)
    np.testing.assert_allclose(product(A, x).astype(float)[:, 0], A.sum(axis=1), rtol=1e-9)
    assert product(A[:0], x).shape == (0, 1)
