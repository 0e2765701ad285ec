"""Blocks of rows: large enough for BLAS-3, small enough to stay near the cache."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from holdfast._typing import Index
from holdfast.linalg import piece_threads

__all__ = ["BLOCK_BYTES", "CACHE_BYTES", "cut", "even_blocks", "index_blocks", "row_blocks"]

#: Bytes of one block of rows. A block has at least LEAST_ROWS rows, however long they are.
BLOCK_BYTES, LEAST_ROWS = 8 * 2**20, 256
#: The same where a block is read twice and little is computed: it stays in the cache of one core.
CACHE_BYTES = 2**19


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
