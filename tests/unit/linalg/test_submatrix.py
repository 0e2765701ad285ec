"""Parts of a matrix by row and column numbers."""

import numpy as np
import pytest

from holdfast.linalg import submatrix


@pytest.mark.parametrize(("m", "n"), [(1, 1), (7, 5), (300, 400), (3, 40_000)])
def test_a_part_is_the_one_that_numpy_gives(m, n):
    rng = np.random.default_rng(0)
    A = rng.normal(size=(m, n))
    rows, columns = rng.integers(0, m, 2 * m), rng.permutation(n)[: max(1, n // 2)]
    part = submatrix(A, rows, columns)
    np.testing.assert_array_equal(part, A[np.ix_(rows, columns)])
    assert part.flags.c_contiguous
    assert part.base is None  # a fresh array, free to be changed


def test_nothing_gives_nothing():
    nothing = np.empty(0, dtype=np.int64)
    assert submatrix(np.ones((3, 4)), nothing, np.array([1])).shape == (0, 1)
    assert submatrix(np.ones((3, 4)), np.array([1]), nothing).shape == (1, 0)
    assert submatrix(np.empty((0, 0)), nothing, nothing).shape == (0, 0)


@pytest.mark.parametrize("column", [-1, 4])
def test_nothing_is_clipped(column):
    with pytest.raises(AssertionError, match="no such column"):
        submatrix(np.ones((3, 4)), np.array([0]), np.array([column]))
