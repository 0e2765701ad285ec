"""Rows of W, kept in memory or made whenever they are asked for, and sums over some of them.

Sums go block by block, so memory is O(p² + block · p) however many rows there are: a fold may be
larger than memory. Blocks are large enough for BLAS-3 and small enough to stay near the cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from holdfast._typing import FloatArray, Index, IntArray
from holdfast.data.indices import as_slice
from holdfast.linalg import add_gram, mirror, piece_threads
from holdfast.smoother.features import Features
from holdfast.smoother.scale import Centre, RowScale, Unpenalised

__all__ = [
    "BLOCK_BYTES",
    "KEEP_BYTES",
    "FeatureRows",
    "RowBlocks",
    "StreamedRows",
    "cut",
    "even_blocks",
    "fitted",
    "gram_and_rhs",
    "index_blocks",
    "row_blocks",
    "vector_blocks",
]

#: Bytes of one block of rows. A block has at least LEAST_ROWS rows, however long they are.
BLOCK_BYTES, LEAST_ROWS = 8 * 2**20, 256
#: The same where a block is read twice and little is computed: it stays in the cache of one core.
CACHE_BYTES = 2**19
#: Feature rows of one experiment are kept for their second use if they take at most these bytes.
KEEP_BYTES = 2**25


def row_blocks(
    n_rows: int, n_columns: int, start: int = 0, n_bytes: int | None = None
) -> list[slice]:
    """Return slices that cut rows of n_columns doubles into blocks of n_bytes, or BLOCK_BYTES."""
    step = max(LEAST_ROWS, (n_bytes or BLOCK_BYTES) // (8 * max(1, n_columns)))
    return [slice(i, min(i + step, n_rows)) for i in range(start, n_rows, step)]


def even_blocks(n_rows: int, n_columns: int) -> list[slice]:
    """Return nearly equal blocks of at most BLOCK_BYTES, the same number for each thread."""
    threads, count = piece_threads(), len(row_blocks(n_rows, n_columns))
    return _ranges(0, n_rows, threads * -(-count // threads))


def index_blocks(rows: Index, n_columns: int) -> list[Index]:
    """Return those rows, of n_columns doubles each, in blocks of BLOCK_BYTES."""
    if isinstance(rows, slice):
        return [*row_blocks(rows.stop, n_columns, rows.start)]
    return [rows[block] for block in row_blocks(rows.size, n_columns)]


def cut(rows: Index, n_parts: int) -> list[Index]:
    """Return the rows in nearly equal parts, none of them empty."""
    if not isinstance(rows, slice):
        return [*np.array_split(rows, max(1, min(n_parts, rows.size)))]
    return [*_ranges(rows.start, rows.stop, n_parts)]


def _ranges(start: int, stop: int, n_parts: int) -> list[slice]:
    cuts = np.linspace(start, stop, max(1, min(n_parts, stop - start)) + 1).astype(int).tolist()
    return [slice(first, last) for first, last in pairwise(cuts)]


@dataclass(frozen=True)
class StreamedRows:
    """Rows of W that are computed whenever they are asked for, instead of kept.

    Indexed like an array: ``W[rows]`` is a fresh (k, p + s) block, √w (φ − u B) T and √w u. Rows
    are centred before they are mapped: φ T and u B T may be so large that nothing is left of their
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
        block = self.of(self.features.rows(flat), flat)
        return block if isinstance(index, slice) else block.reshape(*index.shape, self.shape[1])

    def of(self, block: FloatArray, flat: Index) -> FloatArray:
        """Return those rows from their features φ, which are overwritten."""
        s = self.unpenalised.count
        if s:
            block -= self.unpenalised.level(flat, self.B.first)
            block -= self.unpenalised.level(flat, self.B.rest)
        if self.T is not None:
            block = block @ self.T
        if s:
            block = np.hstack([block, self.unpenalised.U[flat]])
        if not self.scale.uniform:
            block *= self.scale.root[flat, None]
        return block


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


def gram_and_rhs(blocks: RowBlocks, Ys: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return (WᵀW, WᵀYs)."""
    p = blocks.shape[1]
    A, b = np.zeros((p, p)), np.zeros((p, Ys.shape[1]))
    for part, W in blocks:
        add_gram(W, A)
        b += W.T @ Ys[part]
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
