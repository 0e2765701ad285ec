"""Rows of W, kept in memory or computed whenever they are asked for, and sums over some of them.

Sums go block by block, so memory is O(p² + block · p) however many rows there are: a fold may be
larger than memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from holdfast._typing import FloatArray, Index, IntArray
from holdfast.data.indices import as_slice
from holdfast.linalg import add_gram, mirror
from holdfast.smoother.blocks import CACHE_BYTES, index_blocks, row_blocks
from holdfast.smoother.features import Features
from holdfast.smoother.scale import Centre, RowScale, Unpenalised

__all__ = [
    "KEEP_BYTES",
    "FeatureRows",
    "RowBlocks",
    "StreamedRows",
    "fitted",
    "gram_and_rhs",
    "vector_blocks",
]

#: Feature rows of one experiment are kept for their second use if they take at most these bytes.
KEEP_BYTES = 2**25


@dataclass(frozen=True)
class StreamedRows:
    """Rows of W that are computed whenever they are asked for, instead of kept.

    Indexed like an array: ``W[rows]`` is a fresh (k, p + s) block, √w (φ − u B) T and √w u. Rows
    are centred before they are mapped: φ T and u B T may be so large that no digit is left of their
    difference.

    Attributes
    ----------
    features : Features
    B : Centre
        Qᵀ√wΦ: the part of the features along the unpenalised columns.
    scale : RowScale
    unpenalised : Unpenalised
    T : ndarray of shape (p, p) or None
        The map that follows.
    """

    features: Features
    B: Centre
    scale: RowScale
    unpenalised: Unpenalised
    T: FloatArray | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Return (m, p + s)."""
        return len(self.features), sum(self.B.shape)

    def __getitem__(self, index: Index) -> FloatArray:
        flat = index if isinstance(index, slice) else index.ravel()
        block, s = self.features.rows(flat), self.unpenalised.count
        if s:
            block -= self.unpenalised.level(flat, self.B.first)
            block -= self.unpenalised.level(flat, self.B.rest)
        if self.T is not None:
            block = block @ self.T
        if s:
            block = np.hstack([block, self.unpenalised.U[flat]])
        if not self.scale.uniform:
            block *= self.scale.root[flat, None]
        return block if isinstance(index, slice) else block.reshape(*index.shape, self.shape[1])


FeatureRows = FloatArray | StreamedRows


class RowBlocks:
    """Some rows of W, block by block, as often as they are asked for.

    Parameters
    ----------
    W : ndarray or StreamedRows of shape (m, p)
    rows : ndarray of int, or None for all rows
    once : bool
        Whether they will be asked for only once.

    Notes
    -----
    A few rows are kept for the next time; many are computed again each time.
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


def vector_blocks(W: FeatureRows) -> list[slice]:
    """Return blocks of all rows for products with a few vectors, which kept rows only wait for."""
    n_bytes = CACHE_BYTES if isinstance(W, np.ndarray) else None
    return row_blocks(W.shape[0], W.shape[1], n_bytes=n_bytes)


def along(blocks: RowBlocks, Q: FloatArray) -> FloatArray:
    """Return QᵀW (s, p + s) for the rows of the blocks."""
    total = np.zeros((Q.shape[1], blocks.shape[1]))
    for part, W in blocks:
        total += Q[part].T @ W
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
    blocks: RowBlocks, Ys: FloatArray, Q: FloatArray, mean: FloatArray, level: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return (WᵀW, WᵀYs) of W − Q mean and Ys − Q level, without the unpenalised columns."""
    p = mean.shape[1]
    A, b = np.zeros((p, p)), np.zeros((p, Ys.shape[1]))
    for part, W in blocks:
        centred = W[:, :p] - Q[part] @ mean
        add_gram(centred, A)
        b += centred.T @ (Ys[part] - Q[part] @ level)
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
