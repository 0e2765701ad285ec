"""The LAPACK and BLAS routines in use, gathered behind one typed door.

SciPy's wrappers carry no type information, so the untyped import lives here alone. All routines
work on Fortran-ordered arrays: a C-ordered array is passed as its transpose (a view) wherever
that is possible, because f2py silently copies anything else and then `overwrite` is lost.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import blas as _blas
from scipy.linalg import lapack as _lapack

Array = npt.NDArray[np.float64]

_Routine = Callable[..., Any]

dtrmm: _Routine = _blas.dtrmm
dtrsm: _Routine = _blas.dtrsm
dtrsv: _Routine = _blas.dtrsv

dgeqrt: _Routine = _lapack.dgeqrt
dormqr: _Routine = _lapack.dormqr
dpotrf: _Routine = _lapack.dpotrf
dposv: _Routine = _lapack.dposv
dpttrf: _Routine = _lapack.dpttrf
dpttrs: _Routine = _lapack.dpttrs
dsyevd: _Routine = _lapack.dsyevd
dsytrd: _Routine = _lapack.dsytrd
dsytrd_lwork: _Routine = _lapack.dsytrd_lwork
dtrcon: _Routine = _lapack.dtrcon
dtrtri: _Routine = _lapack.dtrtri


def symmetric_workspace(A: Array, overwrite: bool) -> Array:
    """Return a Fortran-ordered array holding the symmetric `A`, `A` itself if `overwrite`.

    A C-ordered symmetric matrix is its own transpose, so the transposed view will do and no
    reordering copy is made.
    """
    if not A.flags.f_contiguous:
        A = A.T
    if overwrite and A.flags.f_contiguous and A.flags.writeable:
        return A
    return np.array(A, dtype=np.float64, order="F")
