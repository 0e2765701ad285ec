"""basis="auto": all rows where they are few, random basis rows within memory where not."""

import pickle

import numpy as np
import pytest

from holdfast import KernelRidgeCV
from holdfast.estimators.inputs import DENSE_ROWS, NUMBERS, automatic_basis
from holdfast.exceptions import InvalidInputError
from holdfast.kernels import RBF, Linear, Precomputed


def rows(m, d=3):
    return np.broadcast_to(0.0, (m, d))  # only the shape counts


@pytest.mark.parametrize("m", [10, 1000, DENSE_ROWS])
def test_few_rows_stay_dense(m):
    assert automatic_basis([RBF(1.0)], rows(m), 8e9) is None


@pytest.mark.parametrize("m", [DENSE_ROWS + 1, 50_000, 1_000_000])
@pytest.mark.parametrize("memory", [1e9, 8e9, 64e9])
def test_many_rows_take_as_many_basis_rows_as_fit(m, memory):
    n = automatic_basis([RBF(1.0)], rows(m), memory)
    assert n in NUMBERS
    assert 16 * m * n <= memory or n == min(NUMBERS)
    larger = [other for other in NUMBERS if other > n]
    assert all(16 * m * other > memory for other in larger)


def test_little_memory_counts_for_few_rows_too():
    assert automatic_basis([RBF(1.0)], rows(4000), 16 * 4000 * 300) == 200


def test_kernels_that_need_no_basis_get_none():
    assert automatic_basis([Linear()], rows(10**6), 1e9) is None
    assert automatic_basis([Precomputed()], rows(10**4, 10**4), 1e9) is None
    assert automatic_basis([Linear(), RBF(1.0)], rows(10**6), 1e9) is not None


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    return X, np.sin(X[:, 0]) + 0.1 * rng.normal(size=400)


def test_it_is_the_model_of_that_many_random_rows(data):
    X, y = data
    options = {"gamma": 0.5, "cv": 5, "random_state": 1, "memory_limit": 16 * 400 * 150.0}
    found = KernelRidgeCV(basis="auto", **options).fit(X, y)
    same = KernelRidgeCV(basis=100, **options).fit(X, y)
    np.testing.assert_array_equal(found.basis_indices_, same.basis_indices_)
    np.testing.assert_array_equal(found.predict(X), same.predict(X))
    assert "100 of 400 rows, drawn at random" in str(found.explain())
    again = pickle.loads(pickle.dumps(found))
    np.testing.assert_array_equal(again.predict(X), found.predict(X))
    assert again.verify(3).max_relative_error < 1e-5


def test_few_rows_are_the_dense_model(data):
    X, y = data
    found = KernelRidgeCV(gamma=0.5, basis="auto", cv=5).fit(X, y)
    dense = KernelRidgeCV(gamma=0.5, cv=5).fit(X, y)
    np.testing.assert_array_equal(found.predict(X), dense.predict(X))
    assert "few enough" in str(found.explain())


def test_another_word_is_refused(data):
    with pytest.raises(InvalidInputError, match='"auto", a number or a fraction'):
        KernelRidgeCV(basis="some").fit(*data)
