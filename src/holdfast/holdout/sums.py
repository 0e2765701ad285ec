"""Sums over some rows of a system, and predictions for them, a block of rows at a time.

Memory is O(p² + block · p) however many rows there are: a fold may be larger than memory.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from holdfast._typing import FloatArray, IntArray
from holdfast.data.indices import as_slice
from holdfast.linalg import add_gram, mirror
from holdfast.smoother.moments import index_blocks, row_blocks
from holdfast.smoother.systems import FeatureRows

#: Bytes of feature rows up to which those of one experiment are kept for their second use.
KEEP_BYTES = 2**25


class RowBlocks:
    """Blocks of some rows of W, as often as they are asked for.

    Parameters
    ----------
    W : ndarray or StreamedRows of shape (m, p)
    rows : ndarray of int, or None for all rows
    once : bool
        Whether they will be asked for once only.

    Notes
    -----
    Few rows are kept for the next time; many are made again each time.
    """

    def __init__(self, W: FeatureRows, rows: IntArray | None = None, *, once: bool = False) -> None:
        self.W = W
        self.rows = slice(0, W.shape[0]) if rows is None else as_slice(rows)
        self.shape = (W.shape[0] if rows is None else rows.size, W.shape[1])
        self._kept: list[tuple[slice, FloatArray]] | None = None
        if not once and 8 * self.shape[0] * self.shape[1] <= KEEP_BYTES:
            self._kept = list(self._made())

    def _made(self) -> Iterator[tuple[slice, FloatArray]]:
        parts, blocks = row_blocks(*self.shape), index_blocks(self.rows, self.shape[1])
        for part, index in zip(parts, blocks, strict=True):
            yield part, self.W[index]

    def __iter__(self) -> Iterator[tuple[slice, FloatArray]]:
        """Yield (slice of the rows, their block of W, not to be overwritten)."""
        return self._made() if self._kept is None else iter(self._kept)


def weighted_sum(blocks: RowBlocks, q: FloatArray) -> FloatArray:
    """Return Σ q_i W_i, shape (p,)."""
    total = np.zeros(blocks.shape[1])
    for part, W in blocks:
        total += q[part] @ W
    return total


def gram_and_rhs(blocks: RowBlocks, Ys: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return (WᵀW, WᵀYs)."""
    p = blocks.shape[1]
    A, b = np.zeros((p, p)), np.zeros((p, Ys.shape[1]))
    for part, W in blocks:
        add_gram(W, A)
        b += W.T @ Ys[part]
    mirror(A)
    return A, b


def centred_gram_and_rhs(
    blocks: RowBlocks, Ys: FloatArray, q: FloatArray, mean: FloatArray, level: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the same for W − q meanᵀ and Ys − q levelᵀ, without the columns beyond `mean`."""
    p = mean.size
    A, b = np.zeros((p, p)), np.zeros((p, Ys.shape[1]))
    for part, W in blocks:
        centred = W[:, :p] - np.outer(q[part], mean)
        add_gram(centred, A)
        b += centred.T @ (Ys[part] - np.outer(q[part], level))
    mirror(A)
    return A, b


def fitted(blocks: RowBlocks, root: FloatArray, theta: FloatArray) -> FloatArray:
    """Return W θ / root for every θ (a, p, v), shape (a, k, v)."""
    a, p, v = theta.shape
    flat = np.ascontiguousarray(theta.transpose(1, 0, 2)).reshape(p, a * v)  # one product for all α
    values = np.empty((a, blocks.shape[0], v))
    for part, W in blocks:
        product = (W @ flat) / root[part, None]
        values[:, part] = product.reshape(-1, a, v).swapaxes(0, 1)
    return values
