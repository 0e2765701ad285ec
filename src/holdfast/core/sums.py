"""Sums over all feature rows in one pass: what the smoother of features is assembled from.

Each chunk of rows is computed, centred (its part along the unpenalised columns is subtracted),
weighted, added to the sums and, if there is room, stored. Sums over parts of the rows add up, so
the same pass can give the sums of each fold of a cross-validation for nothing but their memory.

The exact part of the features along the unpenalised columns, B = Qᵀ√wΦ, is known only after the
pass. So an estimate from a sample of rows is subtracted first, and the small remainder is corrected
afterwards: nothing large cancels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from holdfast._typing import FloatArray, Index, IntArray
from holdfast.core.data import WeightedData
from holdfast.core.experiments import Ragged
from holdfast.core.features import Features
from holdfast.core.lapack import evenly_spaced, one_blas_thread, piece_threads, run_pieces
from holdfast.core.rows import FeatureRows, chunks, cut
from holdfast.progress import Counter

#: Rows of the sample that the first estimate of B is taken from.
SAMPLED_ROWS = 128


@dataclass(frozen=True)
class System:
    """Rows, their Gram matrix and their products with the targets, in some coordinates.

    Attributes
    ----------
    W : ndarray or StreamedRows of shape (m, p + s)
        Feature rows times √w (unscaled where w = 0), the unpenalised columns last.
    gram : ndarray of shape (p + s, p + s)
        WᵀW over the trained rows. The unpenalised columns are orthonormal and orthogonal to the
        others.
    z : ndarray of shape (p + s, v)
        WᵀYs.
    N : ndarray of shape (n, p)
        Coefficients of basis rows, or of columns, from coordinates: a = N θ.
    B : ndarray of shape (s, p)
        Qᵀ√wΦ: features on the unpenalised columns.
    sets : SetSums or None
        Sums of held-out sets, if they were asked for.
    """

    W: FeatureRows
    gram: FloatArray
    z: FloatArray
    N: FloatArray
    B: FloatArray
    sets: SetSums | None = None

    @property
    def p(self) -> int:
        """The number of coordinates under the penalty."""
        return int(self.B.shape[1])


@dataclass(frozen=True)
class Moments:
    """Sums over some rows √w(φ − uB₀), for a fixed B₀; sums over parts add up.

    Attributes
    ----------
    gram : ndarray of shape (p, p)
        The Gram matrix.
    z : ndarray of shape (p, v)
        Products with the targets.
    drift : ndarray of shape (s, p)
        Products with Q: over all rows, how far B₀ is from B.
    """

    gram: FloatArray
    z: FloatArray
    drift: FloatArray

    @classmethod
    def zeros(cls, p: int, s: int, v: int) -> Moments:
        """Return the moments of no rows."""
        return cls(np.zeros((p, p)), np.zeros((p, v)), np.zeros((s, p)))

    def __add__(self, other: Moments) -> Moments:
        return Moments(self.gram + other.gram, self.z + other.z, self.drift + other.drift)

    def add(self, other: Moments) -> None:
        """Add in place."""
        for mine, theirs in zip(vars(self).values(), vars(other).values(), strict=True):
            mine += theirs

    def settled(
        self, missed: FloatArray, Q: FloatArray, Ys: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return (WᵀW, WᵀYs) of these rows with the exact B = B₀ + missed; Q, Ys are theirs."""
        s, p = self.drift.shape
        corner, along = Q.T @ Q, Q.T @ Ys
        moved = self.drift - corner @ missed  # QᵀW
        gram = np.empty((p + s, p + s))
        gram[:p, :p] = self.gram
        if s:
            gram[:p, :p] -= self.drift.T @ missed + missed.T @ moved
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
    def of(cls, rows: Ragged, sums: Sequence[tuple[FloatArray, FloatArray]], n: int) -> SetSums:
        """Return the sums (WᵀW, WᵀYs) of each set of n rows."""
        owner = np.full(n, -1, dtype=np.int64)
        owner[rows.values] = rows.owners
        return cls(rows, [gram for gram, _ in sums], [z for _, z in sums], owner)

    def with_products(self, z: list[FloatArray]) -> SetSums:
        """Return the same for other targets."""
        return replace(self, z=z)

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
    data: WeightedData,
    *,
    W: FloatArray | None = None,
    sets: Sequence[Index] = (),
) -> tuple[Moments, list[Moments]]:
    """Return the moments of all rows, and those of each set.

    Parameters
    ----------
    features : Features
    B : ndarray of shape (s, p)
        What is subtracted from the features along the unpenalised columns.
    data : WeightedData
    W : ndarray of shape (m, p + s), or None
        Where the rows √w(φ − uB) are stored, in the leading columns.
    sets : sequence of slice or ndarray of int
        Disjoint sets of rows.

    Notes
    -----
    One thread sums a set (or a part of it, where sets are few) in the order of the rows, and the
    sums are added in the order of the sets, so that the numbers are the same every time.
    """
    weights, unpenalised, Ys = data.weights, data.unpenalised, data.targets.Ys
    (s, p), (m, v) = B.shape, Ys.shape
    threads = piece_threads() if features.parallel else 1
    n_parts = threads if len(sets) < 4 * threads else 1
    pieces = [(number, part) for number, rows in enumerate(sets) for part in cut(rows, n_parts)]
    pieces += [(len(sets), part) for rows in _others(m, sets) for part in cut(rows, threads)]
    sums = [Moments.zeros(p, s, v) for _ in pieces]
    done = Counter(m, "feature rows")

    def work(piece: int) -> None:
        mine = sums[piece]
        for rows in chunks(pieces[piece][1], p):
            block = features.rows(rows)
            if s:
                block -= unpenalised.level(rows, B)
            if not weights.uniform:
                block *= weights.root[rows, None]
            if W is not None:
                W[rows, :p] = block
            live = weights.trained[rows]
            own = block if live.all() else block[live]
            mine.gram[...] += own.T @ own
            mine.z[...] += block.T @ Ys[rows]
            if s:
                mine.drift[...] += unpenalised.Q[rows].T @ block
            done.add(len(block))

    run_pieces(work, range(len(pieces)), threads)
    of_sets: list[Moments] = []
    for (number, _), part in zip(pieces, sums, strict=True):
        if number < len(of_sets):
            of_sets[number].add(part)
        else:
            of_sets.append(part)
    if len(of_sets) == 1:
        return of_sets[0], of_sets[: len(sets)]
    total = Moments.zeros(p, s, v)
    for part in of_sets:
        total.add(part)
    return total, of_sets[: len(sets)]


def _others(m: int, sets: Sequence[Index]) -> list[Index]:
    """Return the rows that are in none of the sets as one more set, if there are any."""
    if not sets:
        return [slice(0, m)]
    left = np.ones(m, dtype=bool)
    for rows in sets:
        left[rows] = False
    return [np.flatnonzero(left)] if left.any() else []


def sample_level(features: Features, data: WeightedData) -> FloatArray:
    """Return B₀ (s, p): the features on the unpenalised columns, fitted to a sample of rows."""
    s, p = data.unpenalised.count, features.size
    if not s:
        return np.zeros((0, p))
    live = data.weights.rows
    sample = live[evenly_spaced(live.size, max(SAMPLED_ROWS, 4 * s))]
    root = data.weights.root[sample, None]
    with one_blas_thread():  # few rows: idle threads would keep spinning during the pass
        rows = root * features.rows(sample)
        if data.unpenalised.constant:
            u = root * data.unpenalised.U[sample]
            return np.asarray(u.T @ rows / np.square(u).sum())
        B, *_ = np.linalg.lstsq(root * data.unpenalised.U[sample], rows, rcond=None)
    return np.asarray(B)
