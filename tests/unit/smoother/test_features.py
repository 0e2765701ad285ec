"""Features of every kind: rows, coefficients, and what the loss of basis rows does to them."""

import numpy as np
import pytest

from holdfast.kernels import RBF
from holdfast.kernels.matrix import KernelRows
from holdfast.smoother.features import (
    ColumnFeatures,
    KnownColumns,
    ReadyFeatures,
    WhitenedFeatures,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(20, 3))
BASIS = np.array([1, 4, 7, 9, 16])
EPSILON = 1e-3
DATA = KernelRows(RBF(0.3), X)
ALL = np.arange(20)
K = DATA.block(ALL, ALL)
WHITENED = WhitenedFeatures.of(DATA, BASIS, EPSILON)


def ready(removed):
    """Rows that are made already, on the basis rows that are left."""
    left = np.delete(np.arange(BASIS.size), removed)
    other = WhitenedFeatures.of(DATA, BASIS[left], EPSILON)
    return ReadyFeatures(
        other.rows, other.to_coefficients, None, WHITENED, np.asarray(removed), WHITENED.span
    )


KINDS = {
    "whitened": WHITENED,
    "known": KnownColumns.of(K[:, BASIS], K[np.ix_(BASIS, BASIS)], EPSILON),
    "columns": ColumnFeatures(X),
    "ready": ready([1, 3]),
}


def projected(basis, rows=ALL):
    """φφᵀ of the model on some basis rows, by its definition K_{:B} (K_BB + εI)⁻¹ K_{B:}."""
    K_B = K[np.ix_(rows, basis)]
    return K_B @ np.linalg.solve(K[np.ix_(basis, basis)] + EPSILON * np.eye(basis.size), K_B.T)


@pytest.mark.parametrize("kind", ["whitened", "known"])
def test_features_times_coordinates_are_kernel_values_times_coefficients(kind):
    features = KINDS[kind]
    theta = RNG.normal(size=5)
    expected = K[:, BASIS] @ (features.to_coefficients @ theta)
    np.testing.assert_allclose(features.rows(ALL) @ theta, expected, atol=1e-12)


@pytest.mark.parametrize("kind", ["whitened", "known"])
def test_without_basis_rows(kind):
    """The others are whitened by themselves."""
    for removed in ([], [0, 3]):
        rows = KINDS[kind].without(np.array(removed, dtype=int)).rows(ALL)
        left = np.delete(BASIS, removed)
        np.testing.assert_allclose(rows @ rows.T, projected(left), atol=1e-10)


def test_positions_count_among_the_basis_rows_that_are_left():
    features = KINDS["ready"]  # on the rows 1, 7, 16
    assert features.n_basis == 3
    left = features.without(np.array([1]))
    assert left.n_basis == 2
    rows = left.rows(ALL)
    np.testing.assert_allclose(rows @ rows.T, projected(np.array([1, 16])), atol=1e-10)
    assert features.on(BASIS[:2], EPSILON).n_basis == 2


def test_new_rows_need_no_old_ones():
    """Without the rows of the data, predictions of new rows are the same."""
    portable = WHITENED.portable()
    assert len(portable) == 5
    np.testing.assert_array_equal(portable.new_rows(X[:7]), WHITENED.new_rows(X[:7]))
    np.testing.assert_allclose(WHITENED.new_rows(X[:7]), WHITENED.rows(ALL[:7]), atol=1e-12)
    columns = ColumnFeatures(X).portable()
    assert len(columns) == 0
    np.testing.assert_array_equal(columns.new_rows(X[:7]), X[:7])


def test_only_basis_rows_can_leave():
    columns = ColumnFeatures(X)
    assert columns.n_basis is None
    assert columns.without(np.array([], dtype=int)) is columns
    with pytest.raises(AssertionError, match="only features of basis rows"):
        columns.on(BASIS, EPSILON)
    assert WHITENED.without(np.array([], dtype=int)) is WHITENED
