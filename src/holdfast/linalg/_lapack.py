"""The LAPACK and BLAS routines in use that are not worth a thread, behind one typed door.

SciPy's wrappers carry no type information and hold the interpreter lock (see `_nogil`). All
routines work on Fortran-ordered arrays: a C-ordered array is passed as its transpose (a view)
wherever that is possible, because f2py silently copies anything else and `overwrite` is lost.
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
dtrcon: _Routine = _lapack.dtrcon


def symmetric_workspace(A: FloatArray, overwrite: bool) -> FloatArray:
    """Return a Fortran-ordered array holding the symmetric `A`, `A` itself if `overwrite`.

    A C-ordered symmetric matrix is its own transpose, so the transposed view will do and no
    reordering copy is made.
    """
    if A.ndim != 2 or A.shape[0] != A.shape[1]:
        raise InvalidInputError(f"A must be a square matrix, got an array of shape {A.shape}")
    if not A.flags.f_contiguous:
        A = A.T
    if overwrite and A.dtype == np.float64 and A.flags.f_contiguous and A.flags.writeable:
        return A
    return np.array(A, dtype=np.float64, order="F")
