"""Symmetric matrices, updated in place: fresh arrays of this size take longer than the sums."""

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri

from holdfast.linalg._lapack import Array
from holdfast.linalg._nogil import add_gram

__all__ = ["add_gram", "invert", "mirror", "subtract_outer"]

_ROWS = 64


def mirror(A: Array) -> None:
    """Copy the upper triangle of `A` to the lower one."""
    for start in range(0, len(A), _ROWS):
        rows, after = slice(start, start + _ROWS), slice(start + _ROWS, None)
        A[after, rows] = A[rows, after].T
        corner = np.triu(A[rows, rows])
        A[rows, rows] = corner + np.triu(corner, 1).T


def invert(A: Array) -> int:
    """Overwrite the positive definite `A` (C order) by its inverse, m³ flops, and return 0.

    If it is not positive definite, return at which pivot that shows; `A` is destroyed then.
    """
    # The transpose of a C-ordered symmetric matrix is Fortran-ordered: LAPACK works in place.
    L, info = dpotrf(A.T, lower=1, clean=0, overwrite_a=1)
    if info != 0:
        return int(info)
    inverse, info = dpotri(L, lower=1, overwrite_c=1)
    assert info == 0, info
    assert np.shares_memory(inverse, A), "needs a C-ordered float64 matrix"
    mirror(A)
    return 0


def subtract_outer(A: Array, u: Array, v: Array) -> None:
    """Subtract u vᵀ from `A`."""
    for start in range(0, len(A), _ROWS):
        rows = slice(start, start + _ROWS)
        A[rows] -= np.outer(u[rows], v)
