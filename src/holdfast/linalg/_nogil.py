"""LAPACK and BLAS routines that let other Python threads run while they work.

SciPy's Python wrappers (`scipy.linalg.lapack`, `scipy.linalg.blas`) hold the interpreter lock
during the call, except for `dormqr`, so two Python threads that call them take turns. The same
routines are exported for Cython in `scipy.linalg.cython_lapack` and `cython_blas`; called through
`ctypes` they run without the lock. All of them work in place on the memory that they are given.

Only routines that take long are called this way: a call through `ctypes` costs some ten
microseconds more than the wrapper, so short calls are faster with it.
"""

import ctypes
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cython_blas, cython_lapack

from holdfast._typing import FloatArray
from holdfast.exceptions import NotSupportedError

# Rows of a triangular matrix that one step of substitution takes; measured, 64 to 128 are best.
_SUBSTITUTION_BLOCK = 128

# Prototypes of our own: the functions on `ctypes.pythonapi` are shared with other libraries.
_capsule_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(
    ("PyCapsule_GetName", ctypes.pythonapi)
)
_capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


@cache
def _routine(name: str) -> Any:
    """Return the routine as a function of pointers; `ctypes` releases the lock during the call."""
    module = cython_lapack if name in cython_lapack.__pyx_capi__ else cython_blas
    capsule = module.__pyx_capi__[name]
    signature = _capsule_name(capsule)
    # "void (char *, int *, double *, …)": Fortran passes everything by reference.
    arguments = signature[signature.index(b"(") + 1 : -1].split(b",")
    integers = [kind for kind in arguments if kind.strip() == b"int *"]
    if not integers:
        raise ImportError(f"{name} of this SciPy does not take 32-bit integers: {signature!r}")
    prototype = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(arguments))
    return prototype(_capsule_pointer(capsule, signature))


def too_large(name: str, size: int) -> NotSupportedError:
    """Return the error of a size that LAPACK's 32-bit integers cannot hold."""
    return NotSupportedError(
        f"the model is too large for LAPACK, whose integers end at 2,147,483,647; {name} would "
        f"need {size:,}. Use fewer rows, or basis rows: basis=1000.",
        remedies=("basis",),
    )


class _Address(NamedTuple):
    """A place inside the memory of an array."""

    at: int


def call(name: str, *arguments: str | int | float | np.ndarray[Any, Any] | _Address) -> int:
    """Call a routine and return the last integer argument: `info` where there is one."""
    pointers, kept = [], []
    last = ctypes.c_int(0)
    for value in arguments:
        if isinstance(value, np.ndarray | _Address):
            pointers.append(value.ctypes.data if isinstance(value, np.ndarray) else value.at)
            continue
        scalar: ctypes.c_char | ctypes.c_int | ctypes.c_double
        if isinstance(value, str):
            scalar = ctypes.c_char(value.encode())
        elif isinstance(value, int):
            if not -(2**31) <= value < 2**31:  # ctypes would wrap it around
                raise too_large(name, value)
            scalar = last = ctypes.c_int(value)
        else:
            scalar = ctypes.c_double(value)
        kept.append(scalar)  # so that its address stays its own
        pointers.append(ctypes.addressof(scalar))
    _routine(name)(*pointers)
    return last.value


def _check(array: FloatArray, *shape: int) -> FloatArray:
    """Return `array` if it is Fortran-ordered float64 of this shape: a pointer has no length."""
    if array.dtype != np.float64 or not array.flags.f_contiguous or array.shape != shape:
        raise ValueError(
            f"needs Fortran-ordered float64 of shape {shape}, got {array.dtype} of shape "
            f"{array.shape} with strides {array.strides}"
        )
    return array


def _writeable(array: FloatArray, *shape: int) -> FloatArray:
    """Return `array` if a routine may write to it as Fortran-ordered float64 of this shape."""
    if not array.flags.writeable:
        raise ValueError("needs an array that may be overwritten")
    return _check(array, *shape)


def dsytrd(A: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return diagonal, off-diagonal and tau of the reduction of `A` (lower), in place."""
    p = A.shape[0]
    d, e, tau, work = np.empty(p), np.empty(p - 1), np.empty(p - 1), np.empty(64 * p)
    info = call("dsytrd", "L", p, _writeable(A, p, p), p, d, e, tau, work, len(work), 0)
    assert info == 0, info
    return d, e, tau


def add_gram(block: FloatArray, gram: FloatArray) -> None:
    """Add blockᵀ block to the upper triangle of `gram`, whose rows may be parts of longer rows."""
    k, p = block.shape
    step = gram.strides[0] // 8
    if gram.shape != (p, p) or gram.strides[1] != 8 or not gram.flags.writeable:
        raise ValueError(f"needs rows of {p} doubles to add to, got {gram.shape}, {gram.strides}")
    if k and p:  # in Fortran's eyes: block (p, k), and the lower triangle of gram
        call("dsyrk", "L", "N", p, k, 1.0, _check(block.T, p, k), p, 1.0, gram, step)


def solve_factorised(L: FloatArray, B: FloatArray) -> None:
    """Overwrite the rows of `B` (h, v), C-ordered, by those of (L Lᵀ)⁻¹ B, L lower triangular."""
    (h, v), right = B.shape, _writeable(B.T, *B.T.shape)
    for transposed in ("T", "N"):  # in Fortran's eyes Bᵀ, which is multiplied from the right
        call("dtrsm", "R", "L", transposed, "N", v, h, 1.0, _check(L, h, h), h, right, v)


def substitute(C: FloatArray, B: FloatArray) -> None:
    """Overwrite `B` by C⁻¹ B, C lower triangular.

    One block of rows of C at a time: `dtrsm` solves for it, `dgemm` subtracts it from those below.
    Measured, a tenth faster than one `dtrsm` for n = 1000, whose inner products are smaller.
    """
    n, k = B.shape
    factor, right = _check(C, n, n).ctypes.data, _writeable(B, n, k).ctypes.data
    for start in range(0, n, _SUBSTITUTION_BLOCK):
        stop = min(start + _SUBSTITUTION_BLOCK, n)
        size, row, corner = stop - start, 8 * start, 8 * start * (n + 1)
        solved = _Address(right + row)
        diagonal, below = _Address(factor + corner), _Address(factor + corner + 8 * size)
        call("dtrsm", "L", "L", "N", "N", size, k, 1.0, diagonal, n, solved, n)
        if stop < n:
            rest = _Address(right + 8 * stop)
            call("dgemm", "N", "N", n - stop, k, size, -1.0, below, n, solved, n, 1.0, rest, n)
