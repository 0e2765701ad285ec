"""Symmetric eigendecomposition."""

import numpy as np

from holdfast._typing import FloatArray
from holdfast.exceptions import KernelError
from holdfast.linalg._lapack import symmetric_workspace
from holdfast.linalg._nogil import call
from holdfast.linalg.threads import threads_for

#: The largest matrix whose workspace (2 p² and some) divide and conquer can count in 32 bits.
MOST_DIVIDED = 32_766
#: Columns of LAPACK's block reflectors: sizes the workspace.
_BLOCK = 64


def eigh(A: FloatArray, *, overwrite: bool = False) -> tuple[FloatArray, FloatArray]:
    """Return the eigenvalues (ascending) and eigenvectors (columns) of the symmetric `A`.

    Parameters
    ----------
    A : (p, p) float64
        Symmetric; only one triangle is read (the lower one of a Fortran-ordered matrix, the upper
        one of a C-ordered matrix).
    overwrite : bool
        Let `A` be destroyed (its memory then holds the eigenvectors when `A` is contiguous and
        not larger than `MOST_DIVIDED`).

    Returns
    -------
    Lambda : (p,)
    V : (p, p)
        Fortran order: `W @ V` is then a plain gemm, and a block of eigenvectors is contiguous.

    Raises
    ------
    KernelError
        If `A` has entries that are not finite, or the iteration does not converge.

    Notes
    -----
    Divide and conquer (`dsyevd`), about 9 p³ flops and 3 p² numbers of memory. Measured on one
    thread at p = 500 and 1000: as fast as `numpy.linalg.eigh`, the same driver, and 1.1 to 1.2
    times as fast as SciPy's default `evr`. Its workspace is counted in 32-bit integers, which wrap
    around from p = 32,767 on; there relatively robust representations (`dsyevr`) take over, whose
    workspace grows with p alone.
    """
    if A.shape[0] == 0:
        return np.zeros(0), np.zeros((0, 0))
    n, V = A.shape[0], symmetric_workspace(A, overwrite)
    if not np.isfinite(V.diagonal()).all():  # where sums of squares overflow first
        raise KernelError(
            f"a {n} x {n} matrix of the model has entries that are not finite, so it has no "
            "eigenvalues: look for huge values in X or sample_weight, and scale them."
        )
    Lambda = np.empty(n)
    with threads_for(n):
        if n <= MOST_DIVIDED:
            work, iwork = np.empty(1 + 6 * n + 2 * n * n), np.empty(3 + 5 * n, dtype=np.intc)
            sizes = len(work), len(iwork)
            info = call("dsyevd", "V", "L", n, V, n, Lambda, work, sizes[0], iwork, sizes[1], 0)
        else:
            V, info = _relatively_robust(V, Lambda)
    if info != 0:
        raise KernelError(
            f"the eigendecomposition of a {n} x {n} matrix did not converge (LAPACK returned "
            f"{info}): look for kernel values of very different sizes, and scale X."
        )
    return Lambda, V


def _relatively_robust(A: FloatArray, Lambda: FloatArray) -> tuple[FloatArray, int]:
    """Return the eigenvectors of `A`, which is destroyed, and `info`; fill `Lambda`."""
    n = len(A)
    V, support = np.empty((n, n), order="F"), np.empty(2 * n, dtype=np.intc)
    work, iwork = np.empty((_BLOCK + 26) * n), np.empty(10 * n, dtype=np.intc)
    info = call(
        "dsyevr", "V", "A", "L", n, A, n, 0.0, 0.0, 0, 0, 0.0, 0, Lambda, V, n, support,
        work, len(work), iwork, len(iwork), 0,
    )  # fmt: skip
    return V, info
