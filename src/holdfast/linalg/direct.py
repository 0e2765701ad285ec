"""Held-out residuals by forming and factorising each |H| × |H| matrix."""

import numpy as np

from holdfast._typing import FloatArray
from holdfast.exceptions import HoldOutError
from holdfast.linalg._nogil import dposv
from holdfast.linalg.products import weighted_products
from holdfast.linalg.residual import HeldOutRows
from holdfast.linalg.threads import run_pieces

# Below, NumPy's stacked solve; above, its LU costs more than a call of LAPACK per system.
_STACKED_SOLVE_UP_TO = 20


def solve_direct(
    held: HeldOutRows, D: FloatArray, E: FloatArray, *, n_threads: int | None = None
) -> FloatArray:
    """Return the held-out residuals R (a, b, h, v) that solve the systems for `E`.

    Parameters
    ----------
    held : HeldOutRows
        b held-out sets of h rows.
    D : (a, p) float64
        Diagonals, positive: 1/(Lambda + alpha · penalised), times alpha in the dual form.
    E : (a, b, h, v) float64
        Residuals of the full model (dual form: its dual coefficients); unchanged.
    n_threads : int or None
        None: as many as BLAS may use.

    Raises
    ------
    HoldOutError
        If a matrix is not positive definite to working precision: a leverage is 1 to the last
        digit, and what the model would predict without these rows cannot be told.

    Notes
    -----
    Per set and alpha h² p flops to form the matrix, h³/3 to factorise it.
    """
    b, h, p = held.shape
    a, v = D.shape[0], E.shape[3]
    R = np.empty((a, b, h, v))

    def work(piece: slice) -> None:
        V = held.stacked(piece)
        M = weighted_products(V, D)
        if not held.dual:
            np.negative(M, out=M)
            M[..., np.arange(h), np.arange(h)] += 1.0
        K = held.removal(V, D, piece)
        if K is not None:
            M += K.swapaxes(2, 3) @ K
        R[:, piece] = solve_systems(M, E[:, piece].swapaxes(0, 1), piece.start).swapaxes(0, 1)

    if R.size:
        run_pieces(work, held.pieces(h * max(p, h * a)), n_threads)
    return R


def solve_systems(M: FloatArray, E: FloatArray, first: int = 0) -> FloatArray:
    """Return R (g, a, h, v) with M R = E for positive definite M (g, a, h, h), E (g, a, h, v).

    M is overwritten. Errors count the g held-out sets from `first` on.
    """
    h = M.shape[2]
    # Relative to the matrix: in the dual form it scales with the kernel and the penalty.
    diagonal = M[..., np.arange(h), np.arange(h)]
    floor = h * np.finfo(np.float64).eps * np.minimum(diagonal.max(axis=2), 1.0)  # (g, a)
    if h <= _STACKED_SOLVE_UP_TO:
        try:
            pivots = np.linalg.cholesky(M)[..., np.arange(h), np.arange(h)]
        except np.linalg.LinAlgError:
            raise _no_digits(h, None) from None
        if not (np.square(pivots).min(axis=2) > floor).all():
            raise _no_digits(h, first + int(np.argmin(pivots.min(axis=(1, 2)))))
        return np.asarray(np.linalg.solve(M, E))
    R = np.empty(E.shape)
    for j in range(M.shape[0]):
        for k in range(M.shape[1]):
            # The transpose of a C-ordered symmetric matrix is Fortran-ordered: no copy.
            factor, right = M[j, k].T, np.array(E[j, k], order="F")
            info = dposv(factor, right)
            if info != 0 or not np.square(factor.diagonal()).min() > floor[j, k]:
                raise _no_digits(h, first + j)
            R[j, k] = right
    return R


def _no_digits(h: int, index: int | None) -> HoldOutError:
    which = "a held-out set" if index is None else f"held-out set {index}"
    return HoldOutError(
        f"the model interpolates the {h} rows of {which} to the last digit, so what it would "
        "predict without them cannot be told in double precision. Use larger alphas."
    )
