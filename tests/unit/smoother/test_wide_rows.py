"""A linear kernel with more columns than rows: training anew does not square their units."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from holdfast.experiments import Tasks
from holdfast.kernels import RBF, Linear
from holdfast.kernels.matrix import KernelRows
from holdfast.smoother import KernelSmoother, Unpenalised, kernel_form
from torture.truth import exact_features

M, D = 12, 15
HELD, TEST = np.array([2, 7]), np.array([2, 7, 5])
ALPHAS = np.array([1e-4, 1.0, 1e3])


def rows(spread=3.0, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(M, D)) * 10.0 ** rng.uniform(0.0, spread, D)


def smoother(X, weights=None, bias=True, kernel=None):
    rng = np.random.default_rng(1)
    weights = np.ones(M) if weights is None else weights
    data = KernelRows(Linear() if kernel is None else kernel, X)
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


def test_rows_that_would_take_time_and_other_kernels_have_no_triangle(monkeypatch):
    X = rows()
    L = smoother(X)._triangle
    assert_allclose(L @ L.T, X @ X.T, rtol=1e-12, atol=1e-9)
    assert smoother(X, kernel=RBF(0.1))._triangle is None
    assert smoother(sp.csr_array(X))._triangle is None
    assert smoother(X).remaining(HELD, HELD[:0], anew=False)._triangle is None  # no rows there
    monkeypatch.setattr(kernel_form, "QUICK", X.size * M - 1)
    assert smoother(X)._triangle is None


def test_what_rounding_the_kernel_matrix_costs_is_part_of_the_error(monkeypatch):
    """Others are measured by the kernel matrix as it is; a linear one can be had with more."""
    model, tasks = smoother(rows(5.0)), Tasks.one(HELD, HELD[:0], HELD)
    factor = model.factor()
    values = np.ones((ALPHAS.size, HELD.size, 2))
    found = model.measured(tasks, ALPHAS, values, slice(None), factor)
    monkeypatch.setattr(kernel_form, "QUICK", 0)
    plain = smoother(rows(5.0))
    less = plain.measured(tasks, ALPHAS, values, slice(None), plain.factor())
    assert less.attainable.max() > 0.0
    assert_allclose(found.errors, less.errors + less.attainable)
