"""Symmetric matrices, updated in place: fresh arrays of this size take longer than the sums."""

import numpy as np

from holdfast.linalg._lapack import Array
from holdfast.linalg._nogil import add_gram

__all__ = ["add_gram", "mirror", "subtract_outer"]

_ROWS = 64


def mirror(A: Array) -> None:
    """Copy the upper triangle of `A` to the lower one."""
    for start in range(0, len(A), _ROWS):
        rows, after = slice(start, start + _ROWS), slice(start + _ROWS, None)
        A[after, rows] = A[rows, after].T
        corner = np.triu(A[rows, rows])
        A[rows, rows] = corner + np.triu(corner, 1).T


def subtract_outer(A: Array, u: Array, v: Array) -> None:
    """Subtract u vᵀ from `A`."""
    for start in range(0, len(A), _ROWS):
        rows = slice(start, start + _ROWS)
        A[rows] -= np.outer(u[rows], v)
