"""Sums over all feature rows in one pass: what the smoother of features is assembled from.

Each block of rows is computed, centred (its part along the unpenalised columns is subtracted),
weighted, added to the sums and, if there is room, stored. Sums over parts of the rows add up, so
the same pass can give the sums of each fold of a cross-validation for nothing but their memory.

The exact part of the features along the unpenalised columns, B = Qᵀ√wΦ, is known only after the
pass. So an estimate from a sample of rows is subtracted first, and the small remainder is corrected
afterwards: nothing large cancels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from holdfast._typing import FloatArray, Index, IntArray
from holdfast.experiments import Ragged
from holdfast.linalg import (
    add_gram,
    mirror,
    one_blas_thread,
    piece_threads,
    run_pieces,
    subtract_outer,
)
from holdfast.progress import Counter
from holdfast.smoother.features import Features
from holdfast.smoother.rows import cut, index_blocks
from holdfast.smoother.scale import RowScale, Unpenalised

__all__ = ["Moments", "SetSums", "moments", "sample_level"]

#: Rows of the sample that the first estimate of B is taken from.
SAMPLED_ROWS = 128


@dataclass(frozen=True)
class Moments:
    """Sums over some rows √w(φ − uB₀), for a fixed B₀; sums over parts add up.

    Attributes
    ----------
    gram : ndarray of shape (p + s, p + s)
        The Gram matrix, with zeros for the unpenalised columns.
    z : ndarray of shape (p, v)
        Products with the targets.
    drift : ndarray of shape (s, p)
        Products with Q: how far B₀ is from B.
    """

    gram: FloatArray
    z: FloatArray
    drift: FloatArray

    @classmethod
    def zeros(cls, p: int, s: int, v: int) -> Moments:
        """Return the moments of no rows."""
        return cls(np.zeros((p + s, p + s)), np.zeros((p, v)), np.zeros((s, p)))

    def __add__(self, other: Moments) -> Moments:
        return Moments(self.gram + other.gram, self.z + other.z, self.drift + other.drift)

    def add(self, other: Moments) -> None:
        """Add in place."""
        self.gram[...] += other.gram
        self.z[...] += other.z
        self.drift[...] += other.drift

    def copy(self) -> Moments:
        """Return a copy."""
        return Moments(self.gram.copy(), self.z.copy(), self.drift.copy())

    def settle(self, Q: FloatArray, Ys: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return (WᵀW, WᵀYs) of all rows with the exact B and the unpenalised columns."""
        s, p = self.drift.shape
        gram, along = self.gram.copy(), Q.T @ Ys
        for d in self.drift:
            subtract_outer(gram[:p, :p], d, d)
        gram[p:, p:] = np.eye(s)
        return gram, np.vstack([self.z - self.drift.T @ along, along])

    def settle_part(
        self, missed: FloatArray, Q: FloatArray, Ys: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the same for some of the rows, with B − B₀ = `missed`; overwrites the sums."""
        s, p = self.drift.shape
        gram, corner, along = self.gram, Q.T @ Q, Q.T @ Ys
        moved = self.drift - corner @ missed  # QᵀW
        for j in range(s):
            subtract_outer(gram[:p, :p], self.drift[j], missed[j])
            subtract_outer(gram[:p, :p], missed[j], moved[j])
        gram[p:, :p], gram[:p, p:], gram[p:, p:] = moved, moved.T, corner
        return gram, np.vstack([self.z - missed.T @ along, along])


@dataclass(frozen=True)
class SetSums:
    """WᵀW and WᵀYs over each of several disjoint sets of rows.

    Attributes
    ----------
    rows : Ragged
        The sets.
    gram, z : list of ndarray
        Of shapes (p + s, p + s) and (p + s, v), one of each for every set.
    owner : ndarray of int, shape (m,)
        Which set a row belongs to; −1 for rows that belong to none.
    """

    rows: Ragged
    gram: list[FloatArray]
    z: list[FloatArray]
    owner: IntArray

    @classmethod
    def of(
        cls,
        rows: Ragged,
        parts: Sequence[Moments],
        missed: FloatArray,
        Q: FloatArray,
        Ys: FloatArray,
    ) -> SetSums:
        """Return the sums of each set from its moments, which are used up."""
        settled = [
            part.settle_part(missed, Q[rows[j]], Ys[rows[j]]) for j, part in enumerate(parts)
        ]
        return cls.settled(rows, settled, len(Ys))

    @classmethod
    def settled(
        cls, rows: Ragged, sums: Sequence[tuple[FloatArray, FloatArray]], n_rows: int
    ) -> SetSums:
        """Return the sums of each set from (WᵀW, WᵀYs) of each."""
        owner = np.full(n_rows, -1, dtype=np.int64)
        owner[rows.values] = rows.owners
        return cls(rows, [gram for gram, _ in sums], [z for _, z in sums], owner)

    def find(self, held: IntArray) -> tuple[FloatArray, FloatArray] | None:
        """Return (gram, z) of exactly these rows, if they are a set or a union of some."""
        if not held.size:
            return None
        numbers = np.unique(self.owner[held])
        if numbers[0] < 0 or self.rows.sizes[numbers].sum() != held.size:
            return None
        first, *others = numbers.tolist()
        gram, z = self.gram[first], self.z[first]
        for number in others:
            gram, z = gram + self.gram[number], z + self.z[number]
        return gram, z


def moments(
    features: Features,
    B: FloatArray,
    scale: RowScale,
    unpenalised: Unpenalised,
    Ys: FloatArray,
    *,
    W: FloatArray | None = None,
    sets: Sequence[Index] = (),
) -> tuple[Moments, list[Moments], FloatArray]:
    """Return the moments of all rows, those of each set, and ‖√w(φ − uB)‖² of each row.

    Parameters
    ----------
    features : Features
    B : ndarray of shape (s, p)
        What is subtracted from the features along the unpenalised columns.
    scale : RowScale
    unpenalised : Unpenalised
    Ys : ndarray of shape (m, v)
        √w y.
    W : ndarray of shape (m, p + s), or None
        Where the rows √w(φ − uB) are stored, in the leading columns.
    sets : sequence of slice or ndarray of int
        Disjoint sets of rows.

    Notes
    -----
    One thread sums a set (or a part of it, where sets are few) in the order of the rows, and the
    sums are added in the order of the sets, so that the numbers are the same every time.
    """
    s, p = B.shape
    m, v = Ys.shape
    norms = np.empty(m)
    threads = piece_threads() if features.parallel else 1
    n_parts = threads if len(sets) < 4 * threads else 1
    pieces = [(number, part) for number, rows in enumerate(sets) for part in cut(rows, n_parts)]
    pieces += [(len(sets), part) for rows in _others(m, sets) for part in cut(rows, threads)]
    sums = [Moments.zeros(p, s, v) for _ in pieces]
    done = Counter(m, "feature rows")

    def work(piece: int) -> None:
        mine = sums[piece]
        for rows in index_blocks(pieces[piece][1], p):
            block = features.rows(rows)
            if s:
                block -= unpenalised.level(rows, B)
            if not scale.uniform:
                block *= scale.root[rows, None]
            live = scale.trained[rows]
            add_gram(block if live.all() else block[live], mine.gram[:p, :p])
            mine.z[...] += block.T @ Ys[rows]
            if s:
                mine.drift[...] += unpenalised.Q[rows].T @ block
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
    total = of_sets[0].copy()
    for part in of_sets[1:]:
        total.add(part)
    return total, of_sets[: len(sets)], norms


def _others(m: int, sets: Sequence[Index]) -> list[Index]:
    """Return the rows that are in none of the sets as one more set, if there are any."""
    if not sets:
        return [slice(0, m)]
    left = np.ones(m, dtype=bool)
    for rows in sets:
        left[rows] = False
    return [np.flatnonzero(left)] if left.any() else []


def sample_level(features: Features, scale: RowScale, unpenalised: Unpenalised) -> FloatArray:
    """Return B₀ (s, p): the features on the unpenalised columns, fitted to a sample of rows."""
    s, p = unpenalised.count, features.size
    if not s:
        return np.zeros((0, p))
    live = np.flatnonzero(scale.trained)
    count = min(live.size, max(SAMPLED_ROWS, 4 * s))
    sample = live[np.linspace(0, live.size - 1, count).astype(np.int64)]
    root = scale.root[sample, None]
    with one_blas_thread():  # few rows: idle threads would keep spinning during the pass
        rows = features.rows(sample)
        B, *_ = np.linalg.lstsq(root * unpenalised.U[sample], root * rows, rcond=None)
    return np.asarray(B)
