"""Rows of W, kept in memory or computed when they are needed, and sums over some of them.

W (m × (p + s)) holds the features √w(φ − uB), orthogonal to the unpenalised columns, and those
columns √w u themselves. Sums go chunk by chunk, so that memory is O(p² + chunk) however many rows
there are: a fold may be larger than memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from holdfast._typing import FloatArray, Index, IntArray
from holdfast.core.data import WeightedData
from holdfast.core.features import Features
from holdfast.core.lapack import CHUNK, piece_threads
from holdfast.data.indices import as_slice


def row_chunks(n_rows: int, n_columns: int, start: int = 0) -> list[slice]:
    """Return slices that cut rows of n_columns doubles into chunks."""
    step = max(256, CHUNK // max(1, n_columns))
    return [slice(i, min(i + step, n_rows)) for i in range(start, n_rows, step)]


def even_chunks(n_rows: int, n_columns: int) -> list[slice]:
    """Return nearly equal chunks, the same number for each thread."""
    threads, count = piece_threads(), len(row_chunks(n_rows, n_columns))
    return _ranges(0, n_rows, threads * -(-count // threads))


def chunks(rows: Index, n_columns: int) -> list[Index]:
    """Return those rows, of n_columns doubles each, in chunks."""
    if isinstance(rows, slice):
        return [*row_chunks(rows.stop, n_columns, rows.start)]
    return [rows[part] for part in row_chunks(rows.size, n_columns)]


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
    B : ndarray of shape (s, p)
        Qᵀ√wΦ: the part of the features along the unpenalised columns.
    data : WeightedData
    T : ndarray of shape (p, p) or None
        The map that follows.
    """

    features: Features
    B: FloatArray
    data: WeightedData
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
        weights, unpenalised = self.data.weights, self.data.unpenalised
        if unpenalised.count:
            block -= unpenalised.level(flat, self.B)
        if self.T is not None:
            block = block @ self.T
        if unpenalised.count:
            block = np.hstack([block, unpenalised.U[flat]])
        if not weights.uniform:
            block *= weights.root[flat, None]
        return block


FeatureRows = FloatArray | StreamedRows


def blocks_of(W: FeatureRows, rows: IntArray | None = None) -> Iterator[tuple[slice, FloatArray]]:
    """Yield (slice of the rows, their block of W, not to be overwritten) of some or all rows."""
    index: Index = slice(0, W.shape[0]) if rows is None else as_slice(rows)
    count = W.shape[0] if rows is None else rows.size
    for part, some in zip(row_chunks(count, W.shape[1]), chunks(index, W.shape[1]), strict=True):
        yield part, W[some]


def gram_and_products(
    W: FeatureRows, rows: IntArray, Ys: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return (WᵀW, WᵀYs) over some rows, Ys (k, v) being their targets."""
    p = W.shape[1]
    A, b = np.zeros((p, p)), np.zeros((p, Ys.shape[1]))
    for part, block in blocks_of(W, rows):
        A += block.T @ block
        b += block.T @ Ys[part]
    return A, b


def fitted(W: FeatureRows, rows: IntArray, root: FloatArray, models: FloatArray) -> FloatArray:
    """Return W θ / root (c, k) of some rows for models θ (p, c); root (k,) is theirs.

    One product for all models, with the rows of a model side by side: nothing is turned round.
    """
    values = np.empty((models.shape[1], rows.size))
    plain = bool((root == 1.0).all())
    for part, block in blocks_of(W, rows):
        np.matmul(models.T, block.T, out=values[:, part])
        if not plain:
            values[:, part] /= root[part]
    return values
