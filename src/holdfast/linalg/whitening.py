"""Coordinates in which the penalty of a sparse model is the identity.

With K_BB + eps I = C Cᵀ, a model a on the basis rows has penalty aᵀ (K_BB + eps I) a = ‖Cᵀ a‖²,
so that in the coordinates Cᵀ a the features of a row are its row of W = K_{:B} C⁻ᵀ.
"""

from dataclasses import dataclass

import numpy as np

from holdfast._typing import FloatArray, IntArray
from holdfast.exceptions import InvalidInputError, KernelError, SingularBasisError
from holdfast.linalg._lapack import dpotrf, dtrsv
from holdfast.linalg._nogil import substitute
from holdfast.linalg.constraint import orthonormal_rows


def cholesky_basis(K_BB: FloatArray, jitter: float) -> FloatArray:
    """Return the lower triangular C (Fortran order) with ``K_BB + jitter I = C Cᵀ``.

    Parameters
    ----------
    K_BB : (n, n) float64
        Kernel matrix of the basis rows; unchanged.
    jitter : float
        Shift of the diagonal in absolute terms. It is part of the model's definition.

    Raises
    ------
    KernelError
        If `K_BB` holds values that are not finite.
    SingularBasisError
        If a pivot is not positive, or the smallest is at most n · eps · max diagonal: the factor
        would consist of rounding errors. Nothing is repaired.

    Notes
    -----
    n³/3 flops. The pivots are the squared diagonal of C: the part of k(x_j, x_j) + jitter that
    the basis rows before j do not explain.
    """
    n = K_BB.shape[0]
    if not np.isfinite(K_BB).all():
        raise KernelError(
            f"the kernel matrix of the {n} basis rows holds {np.sum(~np.isfinite(K_BB))} values "
            "that are not finite; check the data and the kernel's parameters",
            argument="kernel",
        )
    shifted = np.array(K_BB, dtype=np.float64, order="F")
    shifted[np.diag_indices(n)] += jitter
    floor = n * np.finfo(np.float64).eps * float(np.max(np.diag(shifted), initial=0.0))
    C, info = dpotrf(shifted, lower=1, clean=1)
    if info > 0:
        # The leading minor of order `info` is not positive; this is its last pivot.
        index = int(info) - 1
        raise _singular(n, index, _pivot(shifted, index), floor, jitter)
    pivots = np.square(np.diag(C))
    if n and pivots.min() <= floor:
        index = int(pivots.argmin())
        raise _singular(n, index, float(pivots[index]), floor, jitter)
    return np.asarray(C)


def _pivot(shifted: FloatArray, index: int) -> float:
    """Return pivot `index` of the Cholesky factorisation, whose earlier pivots are positive."""
    diagonal = float(shifted[index, index])
    if index == 0:
        return diagonal
    leading, info = dpotrf(np.asfortranarray(shifted[:index, :index]), lower=1)
    if info > 0:  # with blocks of another size, rounding may make an earlier pivot fail
        return 0.0
    row = dtrsv(leading, shifted[index, :index], lower=1)
    return diagonal - float(row @ row)


def _singular(n: int, index: int, pivot: float, floor: float, jitter: float) -> SingularBasisError:
    return SingularBasisError(
        f"the kernel matrix of the {n} basis rows plus jitter = {jitter:.3g} is numerically "
        f"singular: the smallest pivot reached is {pivot:.3g} at basis row {index} (position in "
        f"the basis), and {floor:.3g} = n * eps * max diagonal is the smallest that is more than "
        "rounding error. Raise `jitter`, drop duplicate basis rows, or use a less smooth kernel (a "
        "larger gamma, a Matern kernel)"
    )


@dataclass(frozen=True)
class Whitening:
    """Rows of K_{:B} turned into rows of W = K_{:B} C⁻ᵀ, block by block.

    Attributes
    ----------
    factor : (n, n) float64, Fortran order
        C.

    Notes
    -----
    n² flops per row, by substitution: W Cᵀ = K_{:B} then holds to eps. A product with C⁻¹ would be
    1.2 to 1.9 times as fast, but holds only to cond(C) eps (record 0001).
    """

    factor: FloatArray

    def rows(self, K_block: FloatArray, out: FloatArray | None = None) -> FloatArray:
        """Return ``K_block C⁻ᵀ`` in `out` (which may be `K_block` itself), C order.

        Parameters
        ----------
        K_block : (r, n) float64
        out : (r, n) float64, C order, or None
            None: a fresh array, and `K_block` is unchanged.
        """
        if out is None:
            out = np.array(K_block, dtype=np.float64, order="C")
        elif not (out.flags.c_contiguous and out.dtype == np.float64):
            raise InvalidInputError(
                f"out must be a C-ordered float64 array, got {out.dtype} with strides {out.strides}"
            )
        elif out is not K_block:
            out[...] = K_block
        if out.size:
            # Wᵀ = C⁻¹ K_blockᵀ, and the transpose of a C-ordered block is Fortran-ordered.
            substitute(self.factor, out.T)
        return out

    def span(self, removed: IntArray) -> FloatArray:
        """Return O (n, e), orthonormal columns that span those columns of C⁻¹.

        Notes
        -----
        Columns of nearly equal basis rows are long and nearly parallel, and what they differ by is
        lost in their rounding errors. C O is zero but for the rows `removed`. So what these hold is
        taken from a first O, and C⁻¹ applied to it once more by substitution: no column is long
        then. 4 n² e flops.
        """
        n, e = len(self.factor), removed.size
        right = np.zeros((e, n))
        right[np.arange(e), removed] = 1.0
        first = orthonormal_rows(self.rows(right))
        right[:, removed] = (self.factor[removed] @ first).T
        return np.asarray(np.linalg.qr(self.rows(right, out=right).T)[0])
