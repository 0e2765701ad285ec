"""A linear kernel with more columns than rows: training again does not square their units."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from holdfast.kernels import Linear
from holdfast.kernels.matrix import KernelRows
from holdfast.smoother import KernelSmoother, Unpenalised
from torture.truth import exact_features

M, D = 12, 15
HELD, TEST = np.array([2, 7]), np.array([2, 7, 5])
ALPHAS = np.array([1e-4, 1.0, 1e3])


def rows(spread=3.0, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(M, D)) * 10.0 ** rng.uniform(0.0, spread, D)


def smoother(X, weights, bias):
    rng = np.random.default_rng(1)
    data = KernelRows(Linear(), X)
    return KernelSmoother(data, weights, rng.normal(size=(M, 2)), Unpenalised.bias(weights, bias))


@pytest.mark.parametrize("spread", [3.0, 8.0])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_it_is_the_exact_model_to_the_last_digits(bias, weighted, spread):
    X = rows(spread)
    weights = np.random.default_rng(2).uniform(0.1, 3.0, M) if weighted else np.ones(M)
    weights[9] = 0.0 if weighted else 1.0
    model = smoother(X, weights, bias)
    nothing = np.empty(0, dtype=np.int64)
    values = model.retrain(HELD, nothing, TEST, ALPHAS, slice(None))
    found = model.restore(values, TEST, slice(None))
    exact = exact_features(X, model.original_targets(), HELD, TEST, ALPHAS, weights, bias)
    assert_allclose(found, exact, atol=1e-13 * np.abs(exact).max())
