"""Sums over all feature rows in one pass: what every system is assembled from.

Blocks of rows are made, centred, weighted, summed and, if there is room, stored. Sums over parts of
the rows add up, so the pass can also give the sums of each fold of a cross-validation at no price.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from holdfast._typing import BoolArray, FloatArray, Index, IntArray
from holdfast.linalg import add_gram, blas_threads, mirror, one_blas_thread, run_pieces
from holdfast.progress import Counter
from holdfast.smoother.features import Features

#: Bytes of one block of rows: large enough for BLAS-3, small enough to stay near the cache. Long
#: rows come in blocks of at least this many all the same.
BLOCK_BYTES, LEAST_ROWS = 8 * 2**20, 256


@dataclass(frozen=True)
class RowScale:
    """Row weights in the form that the algebra uses.

    Attributes
    ----------
    root : ndarray of shape (m,)
        √w where the weight is positive, 1 where it is zero.
    trained : ndarray of bool, shape (m,)
        Whether the weight is positive.
    q : ndarray of shape (m,)
        √w/‖√w‖: the direction of the bias in scaled rows.
    norm : float
        ‖√w‖, so that the bias of the model is its q-coordinate divided by `norm`.
    uniform : bool
        Whether every weight is 1.
    """

    root: FloatArray
    trained: BoolArray
    q: FloatArray
    norm: float
    uniform: bool

    @classmethod
    def of(cls, weights: FloatArray, norm: float | None = None) -> RowScale:
        """Return the scaling for these weights, with the norm over more rows if it is given."""
        root = np.sqrt(weights)
        norm = float(np.linalg.norm(root)) if norm is None else norm
        trained = weights > 0
        uniform = bool(np.all(weights == 1.0))
        return cls(np.where(trained, root, 1.0), trained, root / norm, norm, uniform)

    def take(self, rows: slice | IntArray) -> RowScale:
        """Return the scaling of some rows; the bias keeps its norm over all rows."""
        trained = self.trained[rows]
        return RowScale(self.root[rows], trained, self.q[rows], self.norm, self.uniform)

    def targets(self, Y: FloatArray) -> FloatArray:
        """Return √w · Y, zero where a row is not trained on."""
        return Y if self.uniform else Y * (self.root * self.trained)[:, None]


def row_blocks(n_rows: int, n_columns: int, start: int = 0) -> list[slice]:
    """Return slices that cut rows of n_columns doubles into blocks of BLOCK_BYTES."""
    step = max(LEAST_ROWS, BLOCK_BYTES // (8 * max(1, n_columns)))
    return [slice(i, min(i + step, n_rows)) for i in range(start, n_rows, step)]


def even_blocks(n_rows: int, n_columns: int) -> list[slice]:
    """Return at most so large blocks of equal size, as many for each thread."""
    threads, count = blas_threads(), len(row_blocks(n_rows, n_columns))
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
class Moments:
    """Sums over some rows, from which a system is assembled; sums over parts add up.

    Attributes
    ----------
    gram : ndarray of shape (p, p), or (p + 1, p + 1) with a bias
        Σ w (φ − c)(φ − c)ᵀ for a fixed centre c; zeros keep the place of the bias.
    z : ndarray of shape (p, v)
        Σ w (φ − c) yᵀ.
    drift : ndarray of shape (p,)
        Σ w (φ − c).
    """

    gram: FloatArray
    z: FloatArray
    drift: FloatArray

    def __add__(self, other: Moments) -> Moments:
        return Moments(self.gram + other.gram, self.z + other.z, self.drift + other.drift)

    def add(self, other: Moments) -> None:
        """Add in place."""
        self.gram[...] += other.gram
        self.z[...] += other.z
        self.drift[...] += other.drift


def moments(
    features: Features,
    centre: FloatArray,
    scale: RowScale,
    Ys: FloatArray,
    *,
    bias: bool,
    W: FloatArray | None = None,
    sets: Sequence[Index] = (),
) -> tuple[Moments, list[Moments], FloatArray]:
    """Return the moments of all rows, those of each set, and ‖√w(φ − c)‖² of each row.

    Parameters
    ----------
    features : Features
    centre : ndarray of shape (p,)
        c.
    scale : RowScale
    Ys : ndarray of shape (m, v)
        √w Y.
    bias : bool
        Whether rows are centred.
    W : ndarray of shape (m, p or p + 1), or None
        Where the rows √w(φ − c) are stored, in the leading columns.
    sets : sequence of slice or ndarray of int
        Disjoint sets of rows.

    Notes
    -----
    The sums of a set, or of its parts where sets are few, are the work of one thread, in the order
    of the rows, and are added up in the order of the sets: the same numbers every time.
    """
    m, p = len(features), centre.size
    norms = np.empty(m)
    ones = scale.root * scale.trained
    threads = blas_threads() if features.parallel else 1
    n_parts = threads if len(sets) < 4 * threads else 1
    pieces = [(number, part) for number, rows in enumerate(sets) for part in cut(rows, n_parts)]
    pieces += [(len(sets), part) for rows in _others(m, sets) for part in cut(rows, threads)]
    size, v = p + bias, Ys.shape[1]
    sums = [Moments(np.zeros((size, size)), np.zeros((p, v)), np.zeros(p)) for _ in pieces]
    done = Counter(m, "feature rows")

    def work(piece: int) -> None:
        mine = sums[piece]
        for rows in index_blocks(pieces[piece][1], p):
            block = features.rows(rows)
            if bias:
                block -= centre
            if not scale.uniform:
                block *= scale.root[rows, None]
            live = scale.trained[rows]
            add_gram(block if live.all() else block[live], mine.gram[:p, :p])
            mine.z[...] += block.T @ Ys[rows]
            mine.drift[...] += ones[rows] @ block
            norms[rows] = np.einsum("ip,ip->i", block, block)
            if W is not None:
                W[rows, :p] = block
            done.add(len(block))
        mirror(mine.gram)

    run_pieces(work, range(len(pieces)), threads)
    of_sets: list[Moments] = []
    for (number, _), part in zip(pieces, sums, strict=True):
        if number < len(of_sets):
            of_sets[number].add(part)
        else:
            of_sets.append(part)
    total = Moments(*(array.copy() for array in (of_sets[0].gram, of_sets[0].z, of_sets[0].drift)))
    for part in of_sets[1:]:
        total.add(part)
    return total, of_sets[: len(sets)], norms


def _others(m: int, sets: Sequence[Index]) -> list[Index]:
    """Return the rows that are in none of the sets, as one set more if there are any."""
    if not sets:
        return [slice(0, m)]
    left = np.ones(m, dtype=bool)
    for rows in sets:
        left[rows] = False
    return [np.flatnonzero(left)] if left.any() else []


def sample_mean(features: Features, weights: FloatArray) -> FloatArray:
    """Return the weighted mean of the features over an even sample of trained rows."""
    live = np.flatnonzero(weights > 0)
    sample = live[np.linspace(0, live.size - 1, min(live.size, 128)).astype(np.int64)]
    with one_blas_thread():  # few rows: threads would spin into the pass that follows
        rows = features.rows(sample)
    return np.asarray(np.average(rows, axis=0, weights=weights[sample]))
