r"""Models without unions of folds, all of them together, by conjugate gradients.

The pairs of folds that some partition is made of share most of their rows: ten folds make 45 pairs,
and each fold is in nine of them. In the coordinates of a factor the model without the folds H is

    (Λ + α − Σ_{k ∈ H} V_kᵀV_k) β = z − Σ_{k ∈ H} V_kᵀy_k,      N_E β = 0

which with X = V D^½ and u = D^−½ β is the mild system (I − Σ X_kᵀX_k) u = b: rows that are drawn at
random take about their share from every direction, and the eigenvalues lie between 1 − (largest
leverage of a direction) and 1. A step of conjugate gradients multiplies the Gram matrix of each
fold by one vector for each set that holds the fold, so that all steps of all sets together cost
about as much as one or two factorisations.

Steps are made in single precision, each round of them until a few digits are gained; the residual
between rounds is that of the rows themselves in double precision, so single precision costs steps
and no digit. A set that does not converge has NaN for an answer, and so has one with a row of large
leverage, or with removed basis rows whose constraints are nearly dependent.

Constraints are met by projection: with the rows n_E of N D^½ scaled to unit length and P = n nᵀ,
Π = I − n_Eᵀ P_EE⁻¹ n_E.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from holdfast._typing import BoolArray, FloatArray, IntArray
from holdfast.exceptions import KernelError
from holdfast.experiments import Ragged, Tasks, atoms, members
from holdfast.holdout.costs import PER_FOLD, RATES
from holdfast.holdout.identity import CG_LEVERAGE
from holdfast.linalg import run_pieces, shifted_inverse, threads_for
from holdfast.smoother import Sizes, Smoother
from holdfast.smoother.factor import FeatureFactor

__all__ = ["Unions"]

#: A residual this share of the right-hand side counts as converged.
TOLERANCE = 1e-12
#: Rounds in single precision gain this much each: two of them reach the tolerance.
ROUND = 7e-7
#: Rounds, and steps in each, after which a set is given up.
MOST_ROUNDS, MOST_STEPS = 4, 24
#: Steps of ordinary folds, and how much slower products with few vectors are than large ones.
STEPS, THIN = 20.0, 2.5
#: Constraints of which the others leave less than this have lost digits that a QR would keep.
LEAST_PIVOT = 1e-4

Single = NDArray[np.float32]
T = TypeVar("T", np.float32, np.float64)


class Unions:
    """The smoother at one penalty, ready to leave out unions of folds.

    Parameters
    ----------
    factor : FeatureFactor
        Of all rows, in memory.
    alpha : float
    """

    #: What they take the place of.
    instead_of: ClassVar[tuple[str, ...]] = ("fold_gram",)

    def __init__(self, factor: FeatureFactor, alpha: float) -> None:
        self.factor, self.alpha = factor, alpha
        self._d = np.sqrt(factor.D(np.array([alpha]))[0])
        self._X = (np.asarray(factor.V) * self._d).astype(np.float32)
        self._high = factor.leverages(alpha) >= CG_LEVERAGE
        self._n: FloatArray | None = None
        self._P = np.empty((0, 0))

    @classmethod
    def of(cls, smoother: Smoother, alpha: float) -> Unions | None:
        """Return them for a smoother; None if its rows are elsewhere."""
        factor = smoother.factor(least=alpha)
        if not (isinstance(factor, FeatureFactor) and isinstance(factor.V, np.ndarray)):
            return None
        return cls(factor, alpha)

    @staticmethod
    def pays(tasks: Tasks, sizes: Sizes) -> bool:
        """Whether conjugate gradients are cheaper than a factorisation for each task."""
        m, p, n = float(sizes.m), float(sizes.p), float(len(tasks))
        parts = atoms(tasks.held, sizes.m)
        pieces, shared = len(parts), tasks.held.values.size / max(1, parts.values.size)
        room = 8.0 * (2.5 * m * p + 0.5 * pieces * p**2 + m * n * sizes.v)
        if sizes.streamed or room > sizes.memory:
            return False
        removed = float(tasks.removed.values.size) / n
        each = RATES.cholesky * p**3 + 4.0 * removed * p**2
        direct = n * (each / RATES.gemm + 10.0 * p**2 * RATES.touch + PER_FOLD * RATES.call)
        # A piece is in as many sets as its rows are.
        step = 2.0 * pieces * shared * p**2 * THIN + (4.0 * n * p**2 if removed else 0.0)
        together = STEPS * (sizes.v * step / RATES.gemm + pieces * RATES.call)
        if not sizes.factorised:
            together += (RATES.eigh * p**3 + 2.0 * m * p**2) / RATES.gemm
        return bool(together < direct)

    def still(self, smoother: Smoother) -> bool:
        """Whether its factor is the one that they were made for: rows may have been rotated."""
        factor, mine = smoother.factor(least=self.alpha), self.factor
        return (
            isinstance(factor, FeatureFactor)
            and factor.V is mine.V
            and factor.Lambda is mine.Lambda
            and factor.z is mine.z
        )

    def predict(self, tasks: Tasks) -> FloatArray:
        """Return predictions (k, v) of all test rows, NaN for sets that are given up.

        Notes
        -----
        m p² in single precision for the Gram matrices of all folds; then for each set and each
        fold in it 2 p² a step, also in single precision, and 4 |fold| p a round.
        """
        factor, m = self.factor, len(self._X)
        beta = self._models(tasks)  # (v, sets, p)
        pieces = atoms(tasks.test, m)
        inside = members(tasks.test, pieces, m)
        values = np.empty((m, len(tasks), factor.n_targets))

        def work(j: int) -> None:
            sets, rows = np.flatnonzero(inside[:, j]), pieces[j]
            f = beta[:, sets] @ np.asarray(factor.V[rows]).T / factor.scale.root[rows]
            values[np.ix_(rows, sets)] = f.transpose(2, 1, 0)

        run_pieces(work, range(len(pieces)))
        return values[tasks.test.values, tasks.test.owners]

    def _models(self, tasks: Tasks) -> FloatArray:
        """Return β (v, sets, p), NaN for sets that are given up."""
        factor, m, d = self.factor, len(self._X), self._d
        pieces = atoms(tasks.held, m)
        inside = members(tasks.held, pieces, m)
        projection, good = _projection(*self._constraints(tasks.removed), tasks.removed)
        beta = np.full((factor.n_targets, len(tasks), factor.size), np.nan)
        good &= np.bincount(tasks.held.owners, self._high[tasks.held.values], len(tasks)) == 0
        sets = np.flatnonzero(good)
        if not sets.size:
            return beta
        folds = _Folds(self._X, np.asarray(factor.V), d, pieces)
        right = np.repeat((d * factor.z.T)[:, None], len(tasks), axis=1)
        for k, rows in enumerate(folds.rows):
            right[:, inside[:, k]] -= d * (factor.Ys[pieces[k]].T @ rows)[:, None]
        with threads_for(factor.size):
            u, done = _solve(folds, inside[sets], projection.select(sets), right[:, sets])
        beta[:, sets[done]] = d * u[:, done]
        return beta

    def _constraints(self, removed: Ragged) -> tuple[FloatArray, FloatArray]:
        """Return the rows n of unit length and P = n nᵀ; empty if no basis row is removed."""
        if not removed.values.size:
            return np.empty((0, self.factor.size)), self._P
        if self._n is None:
            assert self.factor.N is not None
            n = self.factor.N * self._d
            self._n = n / np.linalg.norm(n, axis=1, keepdims=True)
            self._P = self._n @ self._n.T
        return self._n, self._P


class _Folds:
    """Σ_{k ∈ H} X_kᵀX_k times vectors: by Gram matrices in single precision, or by the rows."""

    def __init__(self, X: Single, V: FloatArray, d: FloatArray, pieces: Ragged) -> None:
        self.d, empty = d, np.empty((0, 0))
        self.rows: list[FloatArray] = [empty] * len(pieces)
        self.grams: list[Single] = [empty.astype(np.float32)] * len(pieces)

        def work(k: int) -> None:
            self.rows[k] = V[pieces[k]]
            some = X[pieces[k]]
            self.grams[k] = some.T @ some

        run_pieces(work, range(len(pieces)))

    def times(self, U: FloatArray, which: list[IntArray]) -> FloatArray:
        """Return the products (v, sets, p) with U (v, sets, p) from the rows, in double."""
        U = U * self.d
        out = np.zeros_like(U)
        for rows, sets in zip(self.rows, which, strict=True):
            out[:, sets] += (U[:, sets] @ rows.T) @ rows
        return np.asarray(out * self.d)

    def times_single(self, U: Single, which: list[IntArray]) -> Single:
        """Return the same from Gram matrices, in single precision."""
        out = np.zeros_like(U)
        for gram, sets in zip(self.grams, which, strict=True):
            out[:, sets] += U[:, sets] @ gram
        return out


@dataclass(frozen=True)
class _Projection(Generic[T]):
    """Π = I − n_Eᵀ P_EE⁻¹ n_E of each set, in double or in single precision.

    Removed basis rows are unions of pieces, too. Each set has as many slots as one set has pieces
    at most, all as large as the largest piece; what a set does not fill counts nothing.

    Attributes
    ----------
    n : list of ndarray of shape (e, p)
        Constraints, piece by piece.
    which, slot : list of ndarray of int
        The sets that a piece belongs to, and its place there.
    inverse : ndarray of shape (sets, slots, e, slots, e)
        P_EE⁻¹, zero where nothing is.
    """

    n: list[NDArray[T]]
    which: list[IntArray]
    slot: list[IntArray]
    inverse: NDArray[T]

    def single(self) -> _Projection[np.float32]:
        """Return the same in single precision."""
        n = [piece.astype(np.float32) for piece in self.n]
        return _Projection(n, self.which, self.slot, self.inverse.astype(np.float32))

    def select(self, sets: IntArray) -> _Projection[T]:
        """Return the same for some of the sets, in their order."""
        if sets.size == len(self.inverse):
            return self
        place = np.full(len(self.inverse), -1)
        place[sets] = np.arange(sets.size)
        which = [place[old] for old in self.which]
        slot = [old[new >= 0] for old, new in zip(self.slot, which, strict=True)]
        return _Projection(self.n, [new[new >= 0] for new in which], slot, self.inverse[sets])

    def __call__(self, U: NDArray[T]) -> NDArray[T]:
        """Return Π U for U (v, sets, p)."""
        sets, slots, e = self.inverse.shape[:3]
        if not slots:
            return U
        along = np.zeros((len(U), sets, slots, e), dtype=U.dtype)
        for n, which, slot in zip(self.n, self.which, self.slot, strict=True):
            along[:, which, slot, : len(n)] = U[:, which] @ n.T
        flat = along.reshape(len(U), sets, 1, slots * e)
        weights = flat @ self.inverse.reshape(sets, slots * e, slots * e)
        along, out = weights.reshape(along.shape), U.copy()
        for n, which, slot in zip(self.n, self.which, self.slot, strict=True):
            out[:, which] -= along[:, which, slot, : len(n)] @ n
        return out


def _projection(
    n: FloatArray, P: FloatArray, removed: Ragged
) -> tuple[_Projection[np.float64], BoolArray]:
    """Return the projections, and for which sets they have their digits."""
    pieces = atoms(removed, len(n))
    inside = members(removed, pieces, len(n))
    slots, e = int(inside.sum(axis=1).max(initial=0)), int(pieces.sizes.max(initial=0))
    place = np.cumsum(inside, axis=1) - 1
    which = [np.flatnonzero(column) for column in inside.T]
    slot = [place[sets, k] for k, sets in enumerate(which)]
    inverse, good = (
        np.zeros((len(removed), slots * e, slots * e)),
        np.ones(len(removed), dtype=bool),
    )
    for j in range(len(removed)):
        mine = [pieces[k] for k in np.flatnonzero(inside[j]).tolist()]
        if not mine:
            continue
        E = np.concatenate(mine)
        at = np.concatenate([i * e + np.arange(part.size) for i, part in enumerate(mine)])
        try:
            inverse[j][np.ix_(at, at)] = shifted_inverse(P[np.ix_(E, E)], 0.0)
        except KernelError:
            good[j] = False
    # A diagonal entry is 1 over what the other constraints leave of this one.
    good &= np.diagonal(inverse, axis1=1, axis2=2).max(axis=1, initial=0.0) * LEAST_PIVOT <= 1.0
    parts = [n[pieces[k]] for k in range(len(pieces))]
    return _Projection(parts, which, slot, inverse.reshape(len(removed), slots, e, slots, e)), good


def _solve(
    folds: _Folds, inside: BoolArray, projection: _Projection[np.float64], right: FloatArray
) -> tuple[FloatArray, BoolArray]:
    """Return u (v, sets, p) with Π (I − Σ X_kᵀX_k) u = Π right, and which sets have converged."""
    right = projection(right)
    size = np.linalg.norm(right, axis=2)
    u, left, single = np.zeros_like(right), right.copy(), projection.single()
    converged = (size == 0.0).all(axis=0)
    at_work = np.flatnonzero(~converged)
    for _ in range(MOST_ROUNDS):
        if not at_work.size:
            break
        which = [np.flatnonzero(column) for column in inside[at_work].T]
        part = projection.select(at_work)
        u[:, at_work] += part(_round(folds, which, single.select(at_work), left[:, at_work]))
        some = u[:, at_work]
        # Twice: what is left along the constraints is small then, whatever P_EE⁻¹ has lost.
        rest = part(part(right[:, at_work] - some + folds.times(some, which)))
        left[:, at_work] = rest
        done = (np.linalg.norm(rest, axis=2) <= TOLERANCE * size[:, at_work]).all(axis=0)
        # The eigenvalues lie in (0, 1]: the residual is a last correction.
        u[:, at_work[done]] += rest[:, done]
        converged[at_work[done]] = True
        at_work = at_work[~done]
    return u, converged


def _round(
    folds: _Folds, which: list[IntArray], projection: _Projection[np.float32], left: FloatArray
) -> FloatArray:
    """Return about what is missing of u, from its residuals, by steps in single precision."""
    size = np.linalg.norm(left, axis=2, keepdims=True)
    size[size == 0.0] = 1.0
    r = (left / size).astype(np.float32)
    P, x = r.copy(), np.zeros_like(r)
    square = np.einsum("vsp,vsp->vs", r, r)
    for _ in range(MOST_STEPS):
        BP = projection(P - folds.times_single(P, which))
        curvature = np.einsum("vsp,vsp->vs", P, BP)
        step = np.divide(square, curvature, out=np.zeros_like(square), where=curvature > 0.0)
        x += step[..., None] * P
        r -= step[..., None] * BP
        new = np.einsum("vsp,vsp->vs", r, r)
        # A vector that gains no more in single precision stands still until the next round.
        goes_on = (new > ROUND**2) & (new < square)
        if not goes_on.any():
            break
        P *= np.divide(new, square, out=np.zeros_like(square), where=goes_on)[..., None]
        P += r
        P *= goes_on[..., None]
        square = np.where(goes_on, new, 0.0).astype(np.float32)
    return np.asarray(x * size)
