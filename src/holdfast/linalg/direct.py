"""Held-out residuals by forming and factorising each |H| × |H| matrix."""

import numpy as np

from holdfast.exceptions import HoldOutError
from holdfast.linalg._lapack import Array
from holdfast.linalg._nogil import dposv
from holdfast.linalg.residual import PIECE_DOUBLES, HeldOutRows
from holdfast.linalg.threads import run_pieces

# All pairs of rows are multiplied out, and one gemm serves every alpha, for sets of at most
# this many rows, and at most this many per alpha: beyond, a symmetric product per alpha is faster.
_PAIRS_UP_TO = 64
_PAIR_ROWS_PER_ALPHA = 1.5
# Below, NumPy's stacked solve; above, its LU costs more than a call of LAPACK per system.
_STACKED_SOLVE_UP_TO = 20


def solve_direct(held: HeldOutRows, D: Array, E: Array, *, n_threads: int | None = None) -> Array:
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
        M = _pair_products(V, D) if _use_pairs(h, a) else _scaled_products(V, D)
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


def _use_pairs(h: int, a: int) -> bool:
    return h <= min(_PAIRS_UP_TO, _PAIR_ROWS_PER_ALPHA * a)


def _pair_products(V: Array, D: Array) -> Array:
    """Return V D Vᵀ (g, a, h, h): products of pairs of rows, times all D at once.

    h(h+1)/2 rows per set in a plain gemm, instead of a small product per alpha; in tiles that
    stay in cache between the elementwise product and the gemm.
    """
    g, h, p = V.shape
    n_pairs = h * (h + 1) // 2
    per_tile = max(h, PIECE_DOUBLES // (g * p))
    tile = np.empty((g, min(n_pairs, per_tile), p))
    products = np.empty((g, n_pairs, D.shape[0]))
    position = np.empty((h, h), dtype=np.intp)
    start = filled = 0
    for i in range(h):
        count = h - i
        if filled + count > tile.shape[1]:
            np.matmul(tile[:, :filled], D.T, out=products[:, start : start + filled])
            start, filled = start + filled, 0
        np.multiply(V[:, i, None], V[:, i:], out=tile[:, filled : filled + count])
        position[i, i:] = position[i:, i] = start + filled + np.arange(count)
        filled += count
    np.matmul(tile[:, :filled], D.T, out=products[:, start:])
    return np.ascontiguousarray(np.moveaxis(products[:, position], 3, 1))


def _scaled_products(V: Array, D: Array) -> Array:
    """Return V D Vᵀ (g, a, h, h), one symmetric product (syrk) per set and alpha."""
    g, h, _ = V.shape
    M = np.empty((g, D.shape[0], h, h))
    scaled = np.empty_like(V)
    for k, root in enumerate(np.sqrt(D)):
        np.multiply(V, root, out=scaled)
        np.matmul(scaled, scaled.swapaxes(1, 2), out=M[:, k])
    return M


def solve_systems(M: Array, E: Array, first: int = 0) -> Array:
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
