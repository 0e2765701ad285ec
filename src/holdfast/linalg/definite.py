"""Stacks of small positive definite systems, factorised once and solved as often as wanted."""

from __future__ import annotations

import numpy as np

from holdfast._typing import FloatArray, IntArray
from holdfast.linalg._lapack import dpotrf, dpotrs
from holdfast.linalg._nogil import solve_factorised
from holdfast.linalg.symmetric import solve_small

__all__ = ["Definite"]

#: Matrices up to this size go to NumPy's stacked routines, whose overhead is smaller. For larger
#: ones its LU factorisation costs more than a LAPACK call for each matrix.
STACKED_UP_TO = 20
#: From so many products on, a solve is long enough to let other threads run meanwhile.
LONG_SOLVE = 2e6


class Definite:
    """A stack of positive definite matrices (…, h, h), factorised and ready to solve.

    Parameters
    ----------
    M : ndarray of shape (…, h, h)
        Overwritten.

    Attributes
    ----------
    failed : ndarray of bool, shape (…)
        Where the matrix is singular to working precision, and its solutions mean nothing.

    Notes
    -----
    A pivot is rounding error when it is below h · eps times the largest diagonal entry or 1,
    whichever is less: the entries of I − S were subtracted from 1.
    """

    def __init__(self, M: FloatArray) -> None:
        *stack, h, _ = M.shape
        self._M = M.reshape(-1, h, h)
        self._stack, self._small = tuple(stack), h <= STACKED_UP_TO
        diagonal = np.arange(h)
        largest = self._M[:, diagonal, diagonal].max(axis=1, initial=0.0)
        floors = h * np.finfo(np.float64).eps * np.minimum(largest, 1.0)
        self._pivots = self._factorise(diagonal)
        smallest = self._pivots.min(axis=1, initial=np.inf)
        self.failed = ~(smallest > floors).reshape(self._stack)

    def _factorise(self, diagonal: IntArray) -> FloatArray:
        """Return the squared diagonals of the Cholesky factors, 0 where there is none."""
        M = self._M
        if M.shape[1] == 1:
            return np.asarray(M[:, :, 0])
        if self._small:
            try:
                return np.asarray(np.square(np.linalg.cholesky(M)[:, diagonal, diagonal]))
            except np.linalg.LinAlgError:
                return np.array([_pivots_of(matrix) for matrix in M])
        for matrix in M:
            # The transpose of a C-ordered symmetric matrix is Fortran-ordered: no copy.
            factor, info = dpotrf(matrix.T, lower=1, clean=0, overwrite_a=1)
            assert np.may_share_memory(factor, matrix), "needs C-ordered float64 matrices"
            if info != 0:
                matrix[diagonal, diagonal] = 0.0
        return np.square(M[:, diagonal, diagonal])

    def solve(self, right: FloatArray) -> FloatArray:
        """Return the solutions (…, h, v), a fresh array; zero where a system failed."""
        X = np.array(right)
        self.solve_in_place(X)
        return X

    def solve_in_place(self, X: FloatArray) -> None:
        """Overwrite right-hand sides (…, h, v) by the solutions; zero where a system failed."""
        M, h, v = self._M, *X.shape[-2:]
        if h == 1 or self._small:
            flat = X.reshape(-1, h, v)
            X[...] = self._few(flat).reshape(X.shape)
        else:
            for matrix, where in zip(M, np.ndindex(self._stack), strict=True):
                if h * h * v >= LONG_SOLVE and X[where].flags.c_contiguous:
                    solve_factorised(matrix.T, X[where])
                else:
                    X[where], _ = dpotrs(matrix.T, X[where], lower=1)
        if self.failed.any():
            X[self.failed] = 0.0

    def _few(self, right: FloatArray) -> FloatArray:
        """Return the solutions of systems of few rows."""
        if self._M.shape[1] == 1:
            with np.errstate(divide="ignore", invalid="ignore"):
                return np.asarray(right / self._M)
        return self._each(right) if self.failed.any() else solve_small(self._M, right)

    def _each(self, right: FloatArray) -> FloatArray:
        """Return the solutions of small systems, zero for those that are singular."""
        X, good = np.zeros(right.shape), ~self.failed.ravel()
        X[good] = solve_small(self._M[good], right[good])
        return X


def _pivots_of(matrix: FloatArray) -> FloatArray:
    try:
        return np.asarray(np.square(np.linalg.cholesky(matrix).diagonal()))
    except np.linalg.LinAlgError:
        return np.zeros(len(matrix))
