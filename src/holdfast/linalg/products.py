"""Products of many small sets of rows under many diagonals D: V D Vᵀ, and others like it."""

import numpy as np

from holdfast._typing import FloatArray

# For sets of at most this many rows, and at most this many rows per D, all pairs of rows are
# multiplied and one gemm serves every D. Beyond that, a symmetric product for each D is faster.
_PAIRS_UP_TO = 64
_PAIR_ROWS_PER_ALPHA = 1.5
# Doubles in a tile of such pairs: half a megabyte stays in a core's own cache.
_TILE_DOUBLES = 2**16
# OpenBLAS has faster kernels for products of at most this many multiplications.
_SMALL_PRODUCT = 10**6
# Rows of a symmetric product that are multiplied at once, which makes small products. Beyond so
# many rows in all, `syrk` is as fast.
_STRIP, _STRIPS_UP_TO = 8, 128
# At fewer penalties than this, a product for each is faster than products of pairs of rows.
_PAIR_ALPHAS = 4
# Up to this many rows, elimination in Python, on all sets at once, beats a LAPACK call for each.
_ELIMINATED_UP_TO = 12


def weighted_products(V: FloatArray, D: FloatArray | None) -> FloatArray:
    """Return V D Vᵀ (g, a, h, h) for V (g, h, p) and diagonals D ≥ 0 (a, p).

    None stands for the identity alone, V Vᵀ (g, 1, h, h).
    """
    if D is None:
        return _plain_products(V)
    if V.shape[1] <= min(_PAIRS_UP_TO, _PAIR_ROWS_PER_ALPHA * D.shape[0]):
        return _pair_products(V, D)
    return _scaled_products(V, D)


def _pair_products(V: FloatArray, D: FloatArray) -> FloatArray:
    """Return V D Vᵀ (g, a, h, h): products of pairs of rows, times all D at once.

    A plain gemm with h(h+1)/2 rows per set takes the place of a small product per alpha. It goes in
    tiles that stay in cache between the elementwise product and the gemm.
    """
    g, h, p = V.shape
    n_pairs = h * (h + 1) // 2
    per_tile = max(h, _TILE_DOUBLES // (g * p))
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


def _scaled_products(V: FloatArray, D: FloatArray) -> FloatArray:
    """Return V D Vᵀ (g, a, h, h), for each D one symmetric product per set, or a few small ones.

    Small products run at twice the rate of `syrk`.
    """
    g, h, _ = V.shape
    M = np.empty((g, D.shape[0], h, h))
    scaled = np.empty_like(V)
    if h > _STRIPS_UP_TO:
        for k, root in enumerate(np.sqrt(D)):
            np.multiply(V, root, out=scaled)
            np.matmul(scaled, scaled.swapaxes(1, 2), out=M[:, k])
        return M
    for k, d in enumerate(D):
        np.multiply(V, d, out=scaled)
        _strips(scaled, V, M[:, k])
    return M


def _plain_products(V: FloatArray) -> FloatArray:
    """Return V Vᵀ (g, 1, h, h)."""
    g, h, _ = V.shape
    M = np.empty((g, 1, h, h))
    if h > _STRIPS_UP_TO:
        np.matmul(V, V.swapaxes(1, 2), out=M[:, 0])
    else:
        _strips(V, V, M[:, 0])
    return M


def _strips(A: FloatArray, B: FloatArray, M: FloatArray) -> None:
    """Put A Bᵀ, known to be symmetric, into M (g, h, h): a few rows with all that follow them."""
    h = A.shape[1]
    for start in range(0, h, _STRIP):
        stop = min(start + _STRIP, h)
        strip, rest = A[:, start:stop], slice(start, None)
        if stop == h and A is B:  # for a matrix times itself NumPy calls `syrk`, which is slower
            strip = strip.copy()
        np.matmul(strip, B[:, rest].swapaxes(1, 2), out=M[:, start:stop, rest])
        M[:, stop:, start:stop] = M[:, start:stop, stop:].swapaxes(1, 2)


def whitened_products(O: FloatArray, B: FloatArray, D: FloatArray) -> FloatArray:  # noqa: E741
    """Return L⁻¹ O D Bᵀ (g, a, e, k) with L Lᵀ = O D Oᵀ, for O (g, e, p), B (g, k, p) and D (a, p).

    Rows of O must be independent.

    Notes
    -----
    2 e (e + k) p flops for each D, by products of pairs of rows as in `weighted_products`.
    """
    e = O.shape[1]
    rows = _products_of_rows(O, np.concatenate([O, B], axis=1), D)
    if e <= _ELIMINATED_UP_TO:
        for i in range(e):
            pivot = rows[i, :, i].copy()  # (g, a)
            for j in range(i + 1, e):
                rows[j] -= (rows[j, :, i] / pivot)[:, None] * rows[i]
            rows[i] /= np.sqrt(pivot)[:, None]
        return np.ascontiguousarray(rows[:, :, e:].transpose(1, 3, 0, 2))
    both = np.ascontiguousarray(rows.transpose(1, 3, 0, 2))  # (g, a, e, e + k)
    return np.asarray(np.linalg.solve(np.linalg.cholesky(both[..., :e]), both[..., e:]))


def _products_of_rows(O: FloatArray, B: FloatArray, D: FloatArray) -> FloatArray:  # noqa: E741
    """Return O D Bᵀ as (e, g, k, a)."""
    (g, e, p), k, a = O.shape, B.shape[1], len(D)
    products = np.empty((e, g, k, a))
    if a < _PAIR_ALPHAS:
        for j, d in enumerate(D):
            products[..., j] = ((O * d) @ B.swapaxes(1, 2)).swapaxes(0, 1)
        return products
    tile = np.empty((g, k, p))
    Dt = np.ascontiguousarray(D.T)
    step = max(8, _SMALL_PRODUCT // (a * p))
    for i in range(e):
        np.multiply(O[:, i, None], B, out=tile)
        for start in range(0, k, step):
            some = slice(start, start + step)
            np.matmul(tile[:, some], Dt, out=products[i, :, some])
    return products
