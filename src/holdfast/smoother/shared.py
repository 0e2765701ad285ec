"""S itself on all rows that are held out, for sets that share most of their rows.

Neighbourhoods that overlap (every row with all rows near it) ask for the same entries of S again
and again. Where there are few penalties and the sets together ask for more entries than S has, S
is formed once as one large product, and each set takes its part. With s = V D Nᵀ and P = N D Nᵀ,
basis rows E that leave change it by

    S^E = S − s_E P_EE⁻¹ s_Eᵀ,      ŷ^E = ŷ − s_E P_EE⁻¹ N_E D z

so that nothing of size p is left for a set to do. P_EE squares the condition of the rows N_E; sets
for which this would cost digits have NaN for an answer, and `holdfast.smoother.held` knows theirs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from holdfast._typing import BoolArray, FloatArray, IntArray
from holdfast.experiments import Shape, Tasks
from holdfast.linalg import Definite
from holdfast.smoother.factor import Factor, FeatureFactor
from holdfast.smoother.held import Held

__all__ = ["SharedFactor", "shared"]

#: Doubles that S may take.
MOST_DOUBLES = 2**25
#: S is formed where the sets ask for at least this share of its entries: the rate of one large
#: product is that much higher than that of many small ones.
LEAST_USE = 0.2
#: Rows of S that are made at once.
BLOCK = 256
#: A pivot of P_EE, scaled to a unit diagonal, below this has lost digits that a QR would keep.
LEAST_PIVOT = 1e-4


def shared(factor: Factor, tasks: Tasks, alpha: float) -> SharedFactor | None:
    """Return S on the rows of the tasks at one penalty; None where it does not pay."""
    if not isinstance(factor, FeatureFactor) or not isinstance(factor.V, np.ndarray):
        return None
    sizes = tasks.held.sizes.astype(float)
    asked = float(np.square(sizes).sum() - sizes.sum())  # a diagonal alone is no product
    if asked < LEAST_USE * tasks.held.values.size:  # at most as many rows as these are used
        return None
    used = np.zeros(factor.V.shape[0], dtype=bool)
    used[tasks.held.values] = True
    used[tasks.test.values] = True
    rows = np.flatnonzero(used)
    if rows.size**2 > min(MOST_DOUBLES, asked / LEAST_USE):
        return None
    D = factor.D(np.array([alpha]))[0]
    V = factor.V[rows]
    scaled = V * np.sqrt(D)
    S = np.empty((rows.size, rows.size))
    for start in range(0, rows.size, BLOCK):  # the upper triangle, and its mirror image
        part, after = slice(start, start + BLOCK), slice(start + BLOCK, None)
        np.matmul(scaled[part], scaled[start:].T, out=S[part, start:])
        S[after, part] = S[part, after].T
    places = np.cumsum(used) - 1
    beta = D[:, None] * factor.z
    s, P, t = np.empty((rows.size, 0)), np.empty((0, 0)), np.empty((0, factor.n_targets))
    if tasks.removed.values.size:
        assert factor.N is not None
        half = factor.N * np.sqrt(D)
        length = np.linalg.norm(half, axis=1, keepdims=True)
        half /= length
        s, P, t = scaled @ half.T, half @ half.T, (factor.N / length) @ beta
    return SharedFactor(factor, places, S, V @ beta, s, P, t)


@dataclass(frozen=True)
class SharedFactor(Factor):
    """S on some rows, at one penalty.

    Attributes
    ----------
    factor : FeatureFactor
        Where it comes from.
    places : ndarray of int, shape (m,)
        Where each row stands among those of S.
    S : ndarray of shape (k, k)
    fitted : ndarray of shape (k, v)
        Fitted values √w ŷ.
    s, P, t : ndarray of shape (k, n), (n, n) and (n, v)
        V D Nᵀ, N D Nᵀ and N D z, rows of N scaled so that P has a unit diagonal; empty if no basis
        row is removed.
    """

    factor: FeatureFactor
    places: IntArray
    S: FloatArray
    fitted: FloatArray
    s: FloatArray
    P: FloatArray
    t: FloatArray

    @property
    def size(self) -> int:
        """Numbers that a row takes in a stack: its part of S, a set being of moderate size."""
        return 64

    @property
    def fills(self) -> bool:
        """True."""
        return True

    @property
    def n_targets(self) -> int:
        """The number v of targets."""
        return self.factor.n_targets

    def select(self, columns: slice | IntArray) -> SharedFactor:
        """Return the same factor for some of the targets."""
        part, t = self.factor.select(columns), self.t[:, columns]
        return replace(self, factor=part, fitted=self.fitted[:, columns], t=t)

    def leverages(self, alpha: float) -> FloatArray:
        """Return S_ii of every row."""
        return self.factor.leverages(alpha)

    def held(self, shape: Shape, alphas: FloatArray) -> HeldShared:
        """Return S on the rows of stacked tasks; `alphas` holds the penalty of S."""
        return HeldShared.of(self, shape)


@dataclass(frozen=True)
class HeldShared(Held):
    """S on the held-out rows of stacked tasks, removed basis rows already out of it.

    Attributes
    ----------
    M : ndarray of shape (b, h, h)
        I − S_HH; NaN where removing the basis rows costs digits.
    S_T : ndarray of shape (b, t, h)
    e, f : ndarray of shape (b, h, v) and (b, t, v)
        Errors on H and fitted values on T of the model on all rows.
    root : ndarray of shape (b, t)
        √w on T.
    Y : ndarray of shape (b, h, v)
        √w y on H.
    weak : float
        A pivot of I − S_HH no larger than this has lost too many digits.
    """

    M: FloatArray
    S_T: FloatArray
    e: FloatArray
    f: FloatArray
    root: FloatArray
    Y: FloatArray
    weak: float = 0.0

    @classmethod
    def of(cls, whole: SharedFactor, shape: Shape) -> HeldShared:
        """Return the parts of S for some tasks."""
        H, T = whole.places[shape.H], whole.places[shape.T]
        k, h = len(whole.S), H.shape[1]
        M = whole.S.take(H[:, :, None] * k + H[:, None])
        S_T = whole.S.take(T[:, :, None] * k + H[:, None])
        Y, f = whole.factor.Ys[shape.H], whole.fitted[T]
        e = Y - whole.fitted[H]
        if shape.E.shape[1]:
            n = len(whole.P)
            P = whole.P.take(shape.E[:, :, None] * n + shape.E[:, None])
            s_H = whole.s.take(H[:, :, None] * n + shape.E[:, None])  # (b, h, e)
            s_T = whole.s.take(T[:, :, None] * n + shape.E[:, None])
            t = whole.t[shape.E]
            if shape.spare is not None:
                _no_constraints(P, s_H, s_T, shape.spare.E)
            left = s_H.swapaxes(1, 2)
            system = Definite(P, LEAST_PIVOT)
            solved = system.solve(np.concatenate([left, t], axis=2))  # P⁻¹(s_Hᵀ, t)
            along = solved[:, :, h:]
            M -= s_H @ solved[:, :, :h]
            S_T -= s_T @ solved[:, :, :h]
            e += s_H @ along
            f = f - s_T @ along
        np.negative(M, out=M)
        M[:, np.arange(h), np.arange(h)] += 1.0
        if shape.spare is not None:
            _no_rows(M, S_T, e, shape.spare.H)
            Y[shape.spare.H] = 0.0
        return cls(M, S_T, e, f, whole.factor.scale.root[shape.T], Y, whole.factor.weak)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(1, b, h, v)."""
        return 1, *self.e.shape

    @property
    def targets(self) -> FloatArray:
        """√w y of the held-out rows."""
        return self.Y

    @property
    def row_size(self) -> int:
        """1: the matrices are parts of S, and no product forms them."""
        return 1

    def errors(self) -> FloatArray:
        """Return y − ŷ on the held-out rows."""
        return self.e[None]

    def gaps(self, piece: slice) -> FloatArray:
        """Return I − S_HH (g, 1, h, h)."""
        return self.M[piece, None].copy()

    def predict(self, r: FloatArray) -> FloatArray:
        """Return ŷ_T − S_TH r_H, without the weights."""
        return np.asarray((self.f - self.S_T @ r[0]) / self.root[..., None])[None]


def _no_constraints(P: FloatArray, s_H: FloatArray, s_T: FloatArray, spare: BoolArray) -> None:
    """Let basis positions that only fill up the stack change nothing."""
    task, place = np.nonzero(spare)
    P[task, place] = P[task, :, place] = 0.0
    P[task, place, place] = 1.0
    s_H[task, :, place] = s_T[task, :, place] = 0.0


def _no_rows(M: FloatArray, S_T: FloatArray, e: FloatArray, spare: BoolArray) -> None:
    """Let rows that only fill up the stack have no residual and no effect."""
    task, row = np.nonzero(spare)
    M[task, row] = M[task, :, row] = 0.0
    M[task, row, row] = 1.0
    S_T[task, :, row] = 0.0
    e[task, row] = 0.0
