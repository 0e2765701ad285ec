"""LAPACK and BLAS routines that are too short for the interpreter lock to matter, with types.

SciPy's wrappers carry no type information and hold the interpreter lock (see `_nogil`). All
routines work on Fortran-ordered arrays. A C-ordered array is passed as its transpose (a view)
wherever possible: f2py silently copies anything else, and `overwrite` then has no effect.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import blas as _blas
from scipy.linalg import lapack as _lapack

from holdfast._typing import FloatArray
from holdfast.exceptions import InvalidInputError

_Routine = Callable[..., Any]

dtrsv: _Routine = _blas.dtrsv

dgeqrt: _Routine = _lapack.dgeqrt
dormqr: _Routine = _lapack.dormqr
dpotrf: _Routine = _lapack.dpotrf
dpotrs: _Routine = _lapack.dpotrs
dpttrf: _Routine = _lapack.dpttrf
dpttrs: _Routine = _lapack.dpttrs
dtrcon: _Routine = _lapack.dtrcon
dtrtrs: _Routine = _lapack.dtrtrs


def symmetric_workspace(A: FloatArray, overwrite: bool) -> FloatArray:
    """Return a Fortran-ordered array holding the symmetric `A`, `A` itself if `overwrite`.

    The transposed view of a C-ordered symmetric matrix is the same matrix in Fortran order, so no
    reordering copy is needed.
    """
    if A.ndim != 2 or A.shape[0] != A.shape[1]:
        raise InvalidInputError(f"A must be a square matrix, got an array of shape {A.shape}")
    if not A.flags.f_contiguous:
        A = A.T
    if overwrite and A.dtype == np.float64 and A.flags.f_contiguous and A.flags.writeable:
        return A
    return np.array(A, dtype=np.float64, order="F")
