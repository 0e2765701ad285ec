"""Triangular factors with columns in the order of their lengths."""

import numpy as np
import pytest

from holdfast.linalg.graded import scaled_cholesky, stacked_qr

RNG = np.random.default_rng(3)


def wide(m, p):
    """Columns in units from 10⁻³ to 10³."""
    return RNG.normal(size=(m, p)) * np.logspace(-3, 3, p)


def by_qr(W, ridge):
    return stacked_qr(np.array_split(W, 3), W.shape[1], ridge)


def by_cholesky(W, ridge):
    return scaled_cholesky(W.T @ W, ridge)


@pytest.mark.parametrize("factorise", [by_qr, by_cholesky])
@pytest.mark.parametrize("ridge", [0.0, 0.5])
def test_factor_of_the_gram_matrix(factorise, ridge):
    W = wide(30, 5)
    factor = factorise(W, ridge)
    expected = W.T @ W + ridge * np.eye(5)
    size = np.sqrt(np.diag(expected))
    R = factor.unordered()
    np.testing.assert_allclose(
        R.T @ R / np.outer(size, size), expected / np.outer(size, size), atol=1e-13
    )
    np.testing.assert_array_equal(factor.R, np.triu(factor.R))
    assert factor.order.tolist() == [4, 3, 2, 1, 0]


def test_fewer_rows_than_columns():
    W = wide(3, 5)
    factor = stacked_qr([W[:1], W[1:]], 5, 0.0)
    assert factor.R.shape == (5, 5)
    R = factor.unordered()
    size = np.sqrt(np.diag(W.T @ W))
    np.testing.assert_allclose(
        R.T @ R / np.outer(size, size), W.T @ W / np.outer(size, size), atol=1e-13
    )


def test_columns_of_zeros():
    W = np.c_[wide(10, 2), np.zeros(10)]
    assert by_cholesky(W, 1e-3) is not None
    R = by_qr(W, 0.0).unordered()
    np.testing.assert_array_equal(R[:, 2], 0.0)


def test_a_singular_gram_matrix_has_no_factor():
    W = np.ones((6, 2))
    assert scaled_cholesky(W.T @ W - np.array([[0.0, 0.0], [0.0, 1e-3]]), 0.0) is None
