"""Stacks of small positive definite systems, factorised once and solved twice."""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from holdfast._typing import FloatArray
from holdfast.exceptions import HoldOutError

__all__ = ["Definite"]

#: Up to this size NumPy's stacked routines; beyond, a call of LAPACK per system.
STACKED_UP_TO = 20


class Definite:
    """A stack of positive definite matrices (b, h, h), ready to solve for right-hand sides.

    The residual and its adjoint need the same systems, one after the other.

    Parameters
    ----------
    M : ndarray of shape (b, h, h)
        Overwritten.
    scale : float
        Size of the numbers that M was computed from: a pivot of `scale` times rounding has no
        digits left.
    """

    def __init__(self, M: FloatArray, scale: float = 1.0) -> None:
        h = M.shape[1]
        self._small = h <= STACKED_UP_TO
        floor = h * np.finfo(np.float64).eps * scale
        if h == 1:
            pivots = M[:, 0, 0]
        elif self._small:
            try:
                pivots = np.square(np.linalg.cholesky(M).diagonal(axis1=1, axis2=2))
            except np.linalg.LinAlgError:
                raise _interpolates() from None
        else:
            # The transpose of a C-ordered symmetric matrix is Fortran-ordered: no copy.
            for j in range(len(M)):
                _, info = dpotrf(M[j].T, lower=1, clean=0, overwrite_a=1)
                if info != 0:
                    raise _interpolates()
            pivots = np.square(M.diagonal(axis1=1, axis2=2))
        if not pivots.min(initial=np.inf) > floor:
            raise _interpolates()
        self._M = M

    def solve(self, R: FloatArray) -> FloatArray:
        """Return the solutions (b, h, v) for R (b, h, v), a fresh array."""
        if self._M.shape[1] == 1:
            return np.asarray(R / self._M)
        if self._small:
            return np.asarray(np.linalg.solve(self._M, R))
        X = np.empty_like(R)
        for j in range(len(R)):
            X[j], _ = dpotrs(self._M[j].T, R[j], lower=1)
        return X


def _interpolates() -> HoldOutError:
    return HoldOutError(
        "the model interpolates held-out rows to the last digit, so what it would predict without "
        "them cannot be told in double precision. Raise the lower bound of alpha."
    )
