"""Where the rows are, and the one pass over them: sums that the smoother of features is made from.

Each chunk of rows is computed, centred (its part along the unpenalised columns is subtracted),
weighted, added to the sums and, if there is room, stored. Sums over parts of the rows add up, so
the same pass can give the sums of each fold of a cross-validation for nothing but their memory.

The exact part of the features along the unpenalised columns, B = Qᵀ√wΦ, is known only after the
pass. So an estimate from a sample of rows is subtracted first, and the small remainder is corrected
afterwards: nothing large cancels.

`Source` does all that here, chunk by chunk, on rows that are kept or recomputed;
`holdfast.core.cluster` has a source that does the same on a Dask cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from holdfast._typing import FloatArray, Index, IntArray
from holdfast.core import refit, residuals
from holdfast.core.data import WeightedData
from holdfast.core.experiments import Ragged, Tasks
from holdfast.core.factor import FeatureFactor
from holdfast.core.features import Features
from holdfast.core.lapack import (
    SOME_ROWS,
    evenly_spaced,
    one_blas_thread,
    piece_threads,
    run_pieces,
)
from holdfast.core.rows import (
    FeatureRows,
    StreamedRows,
    blocks_of,
    chunks,
    cut,
    fitted,
    gram_and_products,
)
from holdfast.data.indices import as_slice
from holdfast.progress import Counter

#: WᵀW and WᵀYs of some rows.
Sums = tuple[FloatArray, FloatArray]


class Source:
    """Rows in this process.

    Parameters
    ----------
    features : Features
    data : WeightedData
    """

    #: Whether rows may be kept in memory.
    keeps: bool = True

    def __init__(self, features: Features, data: WeightedData) -> None:
        self.features, self.data = features, data

    def portable(self) -> Features:
        """Return the features for new rows, without the rows of the data."""
        return self.features.portable()

    def level(self) -> FloatArray:
        """Return a first estimate of B (s, p), from a sample of rows."""
        return sample_level(self.features, self.data)

    def moments(
        self, B: FloatArray, W: FloatArray | None, sets: Ragged | None
    ) -> tuple[Moments, Sequence[Moments]]:
        """Return the sums of all rows and those of some sets; rows are stored in `W` if given."""
        index = [] if sets is None else [as_slice(sets[j]) for j in range(len(sets))]
        return moments(self.features, B, self.data, W=W, sets=index)

    def normal(self, W: FeatureRows, p: int, x: FloatArray) -> FloatArray:
        """Return WᵀWx (p, k) over the trained rows, the unpenalised columns left out."""
        weights, total = self.data.weights, np.zeros_like(x)
        for part, block in blocks_of(W):
            rows = block[:, :p]
            if not weights.trained[part].all():
                rows = rows * weights.trained[part, None]
            total += rows.T @ (rows @ x)
        return total

    def reduced(self, W: StreamedRows, train: IntArray, Ys: FloatArray) -> FloatArray:
        """Return the triangle of some rows and their targets Ys (k, v), for `refit`."""
        s, p = W.B.shape
        return refit.reduced(((rows, Ys[part]) for part, rows in blocks_of(W, train)), p, s)

    def fitted(self, W: FeatureRows, rows: IntArray, theta: FloatArray) -> FloatArray:
        """Return f (a, k, v) of some rows for models θ (a, p + s, v)."""
        (a, p, v), whole = theta.shape, Ragged.from_arrays([rows])
        flat = theta.transpose(1, 0, 2).reshape(p, a * v)
        (values,) = self.fitted_each(W, whole, [flat])
        return values.reshape(a, v, rows.size).swapaxes(1, 2)

    def products(self, W: FeatureRows, sets: Ragged, Ys: FloatArray) -> list[FloatArray]:
        """Return WᵀYs of each of some sets."""
        products = [np.zeros((W.shape[1], Ys.shape[1])) for _ in range(len(sets))]
        for j, total in enumerate(products):
            own = Ys[sets[j]]
            for part, rows in blocks_of(W, sets[j]):
                total += rows.T @ own[part]
        return products

    def sums(self, W: FeatureRows, sets: Ragged, Ys: FloatArray) -> list[Sums]:
        """Return WᵀW and WᵀYs of each of some sets."""

        def work(j: int) -> Sums:
            return gram_and_products(W, sets[j], Ys[sets[j]])

        return run_pieces(work, range(len(sets)), self._threads(W))

    def fitted_each(
        self, W: FeatureRows, sets: Ragged, models: Sequence[FloatArray]
    ) -> list[FloatArray]:
        """Return f (c, k) on each of some sets of rows by its own models (p + s, c)."""
        root = self.data.weights.root

        def work(j: int) -> FloatArray:
            return fitted(W, sets[j], root[sets[j]], models[j])

        return run_pieces(work, range(len(sets)), self._threads(W))

    @staticmethod
    def _threads(W: FeatureRows) -> int | None:
        """Return how many threads may ask for rows at the same time; None: any number."""
        return None if isinstance(W, np.ndarray) or W.features.parallel else 1

    def held_out(
        self, factor: FeatureFactor, tasks: Tasks, alphas: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return held-out predictions by the identity, computed where the rows are."""
        return residuals.held_out(factor, tasks, alphas)


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
        along_Q = self.drift - corner @ missed  # QᵀW
        gram = np.empty((p + s, p + s))
        gram[:p, :p] = self.gram
        if s:
            gram[:p, :p] -= self.drift.T @ missed + missed.T @ along_Q
        gram[p:, :p], gram[:p, p:], gram[p:, p:] = along_Q, along_Q.T, corner
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
    sample = live[evenly_spaced(live.size, max(SOME_ROWS, 4 * s))]
    root = data.weights.root[sample, None]
    with one_blas_thread():  # few rows: idle threads would keep spinning during the pass
        rows = root * features.rows(sample)
        if data.unpenalised.constant:
            u = root * data.unpenalised.U[sample]
            return np.asarray(u.T @ rows / np.square(u).sum())
        B, *_ = np.linalg.lstsq(root * data.unpenalised.U[sample], rows, rcond=None)
    return np.asarray(B)
