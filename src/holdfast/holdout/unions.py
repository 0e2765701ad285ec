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

Constraints are met by projection (`holdfast.holdout.projections`): with the rows n_E of N D^½
scaled to unit length and P = n nᵀ, Π = I − n_Eᵀ P_EE⁻¹ n_E.
"""

from __future__ import annotations

from itertools import pairwise
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from holdfast._typing import BoolArray, FloatArray
from holdfast.experiments import Ragged, Tasks
from holdfast.holdout.costs import PER_FOLD, RATES
from holdfast.holdout.identity import CG_LEVERAGE
from holdfast.holdout.projections import Members, Projection, projections
from holdfast.linalg import run_pieces, threads_for
from holdfast.smoother import Sizes, Smoother
from holdfast.smoother.factor import FeatureFactor

__all__ = ["Unions"]

#: A residual this share of the right-hand side counts as converged.
TOLERANCE = 1e-12
#: Rounds in single precision gain this much each, or what is left to gain: two of them reach the
#: tolerance.
ROUND = 1e-6
#: … to this share of it: what single precision makes of a residual is not quite the residual.
CLOSER = 0.8
#: Rounds, and steps in each, after which a set is given up.
MOST_ROUNDS, MOST_STEPS = 4, 24
#: Steps of ordinary folds, and how much slower products with few vectors are than large ones.
STEPS, THIN = 20.0, 2.5
#: Rows that are multiplied at once.
BLOCK = 100

Single = NDArray[np.float32]


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
        self._d = np.sqrt(factor.d(alpha))
        self._X = (np.asarray(factor.V) * self._d).astype(np.float32)
        self._high = factor.leverages(alpha) >= CG_LEVERAGE
        self._room = np.empty(factor.V.shape)  # for the rows of one partition after another
        self._n: FloatArray | None = None
        self._P = np.zeros((1, 1))

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
        pieces, most = len(tasks.held.atoms), int(tasks.held.has_atoms().sum(axis=0).max())
        room = 8.0 * (2.5 * m * p + 0.5 * pieces * p**2 + m * n * sizes.v)
        if sizes.streamed or room > sizes.memory:
            return False
        removed = float(tasks.removed.values.size) / n
        each = RATES.cholesky * p**3 + 4.0 * removed * p**2
        direct = n * (each / RATES.gemm + 10.0 * p**2 * RATES.touch + PER_FOLD * RATES.call)
        # Every piece is multiplied as often as the one that most sets hold.
        step = 2.0 * pieces * most * p**2 * THIN + (4.0 * n * p**2 if removed else 0.0)
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
        factor, m, V = self.factor, len(self._X), np.asarray(self.factor.V)
        pieces, tested = tasks.held.atoms, tasks.test.atoms
        folds = _Folds(self._X, V, factor.Ys, self._d, pieces, self._room)
        same = np.array_equal(pieces.ptr, tested.ptr) and np.array_equal(
            pieces.values, tested.values
        )
        beta = self._models(tasks, pieces, folds)  # (sets, v, p)
        inside = tasks.test.has_atoms()
        values = np.empty((m, len(tasks), factor.n_targets))

        def work(j: int) -> None:
            sets, rows = np.flatnonzero(inside[:, j]), tested[j]
            flat = beta[sets].reshape(-1, factor.size)
            f = flat @ (folds.rows[j] if same else V[rows]).T / factor.scale.root[rows]
            values[np.ix_(rows, sets)] = f.T.reshape(rows.size, sets.size, -1)

        run_pieces(work, range(len(tested)))
        return values[tasks.test.values, tasks.test.owners]

    def _models(self, tasks: Tasks, pieces: Ragged, folds: _Folds) -> FloatArray:
        """Return β (sets, v, p), NaN for sets that are given up."""
        factor, d = self.factor, self._d
        inside = tasks.held.has_atoms()
        projection, good = projections(*self._constraints(tasks.removed), tasks.removed)
        beta = np.full((len(tasks), factor.n_targets, factor.size), np.nan)
        good &= np.bincount(tasks.held.owners, self._high[tasks.held.values], len(tasks)) == 0
        sets = np.flatnonzero(good)
        if not sets.size:
            return beta
        right = np.repeat(factor.z.T[None], len(tasks), axis=0)
        for k, side in enumerate(folds.sides):
            right[inside[:, k]] -= side
        right *= d
        with threads_for(factor.size):
            u, done = _solve(folds, inside[sets], projection.select(sets), right[sets])
        beta[sets[done]] = d * u[done]
        return beta

    def _constraints(self, removed: Ragged) -> tuple[FloatArray, FloatArray]:
        """Return the rows n of unit length and P = n nᵀ; nothing if no basis row is removed.

        Both end with a row of zeros, to fill up with.
        """
        if not removed.values.size:
            return np.zeros((1, self.factor.size)), self._P
        if self._n is None:
            assert self.factor.N is not None
            n = np.vstack([self.factor.N * self._d, np.zeros(self.factor.size)])
            n[:-1] /= np.linalg.norm(n[:-1], axis=1, keepdims=True)
            self._n, self._P = n, n @ n.T
        return self._n, self._P


class _Folds:
    """Σ_{k ∈ H} X_kᵀX_k times vectors: by Gram matrices in single precision, or by the rows."""

    def __init__(
        self,
        X: Single,
        V: FloatArray,
        Ys: FloatArray,
        d: FloatArray,
        pieces: Ragged,
        room: FloatArray,
    ) -> None:
        self.d, p = d, d.size
        spans = [slice(*edges) for edges in pairwise(pieces.ptr.tolist())]
        self.rows = [room[span] for span in spans]
        self.sides = [Ys[:0]] * len(pieces)  # V_kᵀy_k
        self.grams: Single = np.empty((len(pieces), p, p), dtype=np.float32)

        def work(k: int) -> None:
            np.take(V, pieces[k], axis=0, out=self.rows[k], mode="clip")  # raising would buffer
            self.sides[k] = Ys[pieces[k]].T @ self.rows[k]
            some = X[pieces[k]]
            np.matmul(some.T, some, out=self.grams[k])

        run_pieces(work, range(len(pieces)))

    def times(self, U: FloatArray, folds: Members) -> FloatArray:
        """Return the products (sets, v, p) with U (sets, v, p) from the rows, in double."""
        U = U * self.d
        out = np.zeros_like(U)
        for rows, sets in zip(self.rows, folds.which, strict=True):
            flat = U[sets].reshape(-1, self.d.size)
            total = np.zeros_like(flat)
            for start in range(0, len(rows), BLOCK):  # both products while they are in cache
                some = rows[start : start + BLOCK]
                total += (flat @ some.T) @ some
            out[sets] += total.reshape(-1, *U.shape[1:])
        return np.asarray(out * self.d)


def _solve(
    folds: _Folds, inside: BoolArray, projection: Projection[np.float64], right: FloatArray
) -> tuple[FloatArray, BoolArray]:
    """Return u (sets, v, p) with Π (I − Σ X_kᵀX_k) u = Π right, and which sets have converged."""
    right = projection(right)
    size = np.linalg.norm(right, axis=2)
    u, left, single = np.zeros_like(right), right.copy(), projection.single()
    converged = (size == 0.0).all(axis=1)
    at_work = np.flatnonzero(~converged)
    for number in range(MOST_ROUNDS):
        if not at_work.size:
            break
        held, part = Members(inside[at_work]), projection.select(at_work)
        goal = TOLERANCE * size[at_work]
        u[at_work] += part(_round(folds, held, single.select(at_work), left[at_work], goal))
        some = u[at_work]
        rest = part(right[at_work] - some + folds.times(some, held))
        if number:  # the last digits: what P_EE⁻¹ has lost of them is along the constraints
            rest = part(rest)
        left[at_work] = rest
        done = (np.linalg.norm(rest, axis=2) <= goal).all(axis=1)
        # The eigenvalues lie in (0, 1]: the residual is a last correction.
        u[at_work[done]] += rest[done]
        converged[at_work[done]] = True
        at_work = at_work[~done]
    return u, converged


def _round(
    folds: _Folds,
    held: Members,
    projection: Projection[np.float32],
    left: FloatArray,
    goal: FloatArray,
) -> FloatArray:
    """Return about what is missing of u, from its residuals, by steps in single precision.

    They go on until the residuals (sets, v, p) are as small as the goal (sets, v), or have gained
    as much as they can.
    """
    size = np.linalg.norm(left, axis=2, keepdims=True)
    size[size == 0.0] = 1.0
    enough = np.square(np.maximum(ROUND, CLOSER * goal / size[..., 0]))
    r = (left / size).astype(np.float32)
    P, x = r.copy(), np.zeros_like(r)
    square = np.einsum("svp,svp->sv", r, r)
    for _ in range(MOST_STEPS):
        BP = projection(P - held.total(held.times(P, folds.grams)))
        curvature = np.einsum("svp,svp->sv", P, BP)
        step = np.divide(square, curvature, out=np.zeros_like(square), where=curvature > 0.0)
        x += step[..., None] * P
        r -= step[..., None] * BP
        new = np.einsum("svp,svp->sv", r, r)
        # A vector that gains no more in single precision stands still until the next round.
        goes_on = (new > enough) & (new < square)
        if not goes_on.any():
            break
        P *= np.divide(new, square, out=np.zeros_like(square), where=goes_on)[..., None]
        P += r
        P *= goes_on[..., None]
        square = np.where(goes_on, new, 0.0).astype(np.float32)
    return np.asarray(x * size)
