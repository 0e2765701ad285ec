"""A kernel of some columns is that kernel of rows that have no others."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

import holdfast
from holdfast import KernelRidgeCV
from holdfast.exceptions import InvalidInputError
from holdfast.kernels import RBF, FunctionKernel, Linear, Matern, OnColumns

RNG = np.random.default_rng(0)
X, Z = RNG.normal(size=(30, 5)), RNG.normal(size=(7, 5))
COLUMNS = [3, 0]


@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize("kernel", [RBF(0.4), Linear(), Matern(nu=1.5)], ids=repr)
def test_values_are_those_of_the_columns_alone(kernel, make):
    part = OnColumns(kernel, COLUMNS)
    assert np.array_equal(part(make(X), make(Z)), kernel(make(X[:, COLUMNS]), make(Z[:, COLUMNS])))
    assert np.array_equal(part(make(X)), kernel(make(X[:, COLUMNS])))
    assert np.array_equal(part.diag(make(X)), kernel.diag(make(X[:, COLUMNS])))


def test_any_form_of_columns():
    assert OnColumns(RBF(), range(1, 3)).columns == (1, 2)
    assert OnColumns(RBF(), slice(3)) == OnColumns(RBF(), np.arange(3))
    assert hash(OnColumns(RBF(), [1])) == hash(OnColumns(RBF(), (1,)))


def test_parameters_are_those_of_the_kernel():
    kernel = OnColumns(RBF(0.4), COLUMNS) + 2.0 * OnColumns(RBF(1.0), [1])
    assert kernel.parameters == {
        "k1__kernel__gamma": 0.4, "k2__factor": 2.0, "k2__kernel__kernel__gamma": 1.0
    }  # fmt: skip


def test_in_models():
    y = np.sin(X[:, 3]) + X[:, 1] + 0.2 * X[:, 4]
    model = KernelRidgeCV(OnColumns(RBF(0.4), COLUMNS) + OnColumns(Linear(), [1]), cv=5).fit(X, y)
    loaded = pickle.loads(pickle.dumps(model))
    assert loaded.kernel_ == model.kernel_
    assert np.array_equal(loaded.predict(Z), model.predict(Z))
    tuned = holdfast.tune(KernelRidgeCV(OnColumns(RBF(0.4), COLUMNS), cv=5), X, y)
    assert tuned.model.kernel_.columns == (3, 0)


@pytest.mark.parametrize("columns", [[], [-1], [1, 1], [True], ["a"], 3, slice(None), None])
def test_bad_columns_are_refused(columns):
    with pytest.raises(InvalidInputError, match="columns must be different whole numbers"):
        OnColumns(RBF(), columns)


def test_other_refusals():
    with pytest.raises(InvalidInputError, match="built from kernel objects"):
        OnColumns("rbf", [0])
    with pytest.raises(InvalidInputError, match="among the 5 columns of X; got 9"):
        OnColumns(RBF(), [0, 9])(X)
    with pytest.raises(InvalidInputError, match="numeric rows"):
        OnColumns(FunctionKernel(lambda A, B: np.ones((len(A), len(B)))), [0])(["a", "b"])


@pytest.mark.parametrize("basis", [None, 12])
def test_sums_of_linear_kernels_of_columns_have_coefficients(basis):
    kernel = 2.0 * OnColumns(3.0 * Linear() + Linear(), COLUMNS) + 0.5 * Linear()
    y = X @ RNG.normal(size=5)
    model = KernelRidgeCV(kernel, alphas=[1.0], basis=basis, random_state=0).fit(X, y)
    np.testing.assert_allclose(Z @ model.coef_ + model.intercept_, model.predict(Z), atol=1e-10)
    same = KernelRidgeCV("precomputed", alphas=[1.0]).fit(kernel(X), y)
    if basis is None:
        np.testing.assert_allclose(model.predict(Z), same.predict(kernel(Z, X)), atol=1e-9)
