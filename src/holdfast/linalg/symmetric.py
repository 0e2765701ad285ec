"""Symmetric matrices, updated in place: allocating new ones would take longer than the sums."""

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri

from holdfast._typing import FloatArray, IntArray
from holdfast.exceptions import KernelError
from holdfast.linalg._nogil import add_gram

__all__ = [
    "add_gram",
    "mirror",
    "not_definite",
    "shifted_inverse",
    "solve_small",
    "submatrix",
    "subtract_outer",
]

_ROWS = 64
# Doubles of whole rows that are fetched before their columns are chosen: they stay in cache.
_FETCHED = 2**15
_BELOW = np.tri(_ROWS, k=-1, dtype=bool)


def mirror(A: FloatArray) -> None:
    """Copy the upper triangle of `A` to the lower one."""
    for start in range(0, len(A), _ROWS):
        rows, after = slice(start, start + _ROWS), slice(start + _ROWS, None)
        A[after, rows] = A[rows, after].T
        corner = A[rows, rows]
        size = len(corner)
        np.copyto(corner, corner.T.copy(), where=_BELOW[:size, :size])


def submatrix(A: FloatArray, rows: IntArray, columns: IntArray) -> FloatArray:
    """Return ``A[np.ix_(rows, columns)]`` in half the time: whole rows first, then columns."""
    assert not columns.size or 0 <= columns.min() <= columns.max() < A.shape[1], "no such column"
    found = np.empty((rows.size, columns.size))
    step = max(1, _FETCHED // max(1, A.shape[1]))
    for start in range(0, rows.size, step):
        some = slice(start, start + step)
        # With mode="raise" NumPy would write to a buffer first; nothing is clipped.
        np.take(A.take(rows[some], axis=0), columns, axis=1, out=found[some], mode="clip")
    return found


def shifted_inverse(A: FloatArray, alpha: float) -> FloatArray:
    """Overwrite the symmetric `A` (C order) by (A + alpha I)⁻¹, m³ flops, and return it.

    Raises
    ------
    KernelError
        If A + alpha I is not positive definite; the contents of `A` are lost then.
    """
    size = len(A)
    if not size:
        return A
    A[np.diag_indices(size)] += alpha
    # The transpose of a C-ordered symmetric matrix is Fortran-ordered: LAPACK works in place.
    L, info = dpotrf(A.T, lower=1, clean=0, overwrite_a=1)
    if info != 0:
        raise not_definite(alpha, info, size)
    inverse, info = dpotri(L, lower=1, overwrite_c=1)
    assert info == 0, info
    assert np.shares_memory(inverse, A), "needs a C-ordered float64 matrix"
    mirror(A)
    return A


def not_definite(alpha: float, pivot: int, size: int) -> KernelError:
    """Return the error to raise when a Cholesky factorisation stops at a pivot."""
    return KernelError(
        f"the system at alpha={alpha:.3g} is not positive definite (pivot {pivot} of {size}); "
        "use larger alphas, a larger jitter, or a positive semidefinite kernel.",
        remedies=("alphas",),
    )


def solve_small(A: FloatArray, B: FloatArray) -> FloatArray:
    """Return A⁻¹B for a stack of small matrices A."""
    if A.shape == (1, 1) and A[0, 0] != 0.0:  # most often: one unpenalised column, one row
        return np.asarray(B / A[0, 0])
    return np.asarray(np.linalg.solve(A, B), dtype=np.float64)


def subtract_outer(A: FloatArray, u: FloatArray, v: FloatArray) -> None:
    """Subtract u vᵀ from `A`."""
    for start in range(0, len(A), _ROWS):
        rows = slice(start, start + _ROWS)
        A[rows] -= np.outer(u[rows], v)
