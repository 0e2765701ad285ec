"""Basis rows that remain after the least useful ones have been dropped one by one."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from holdfast._typing import FloatArray, IntArray
from holdfast.basis.base import Pool, Selector, check_positive, how_many, is_number, whole_number
from holdfast.basis.random import Random
from holdfast.basis.resolve import as_selector
from holdfast.exceptions import InvalidInputError, SingularBasisError
from holdfast.holdout.identity import rows_without_themselves
from holdfast.smoother import FeatureSmoother, Unpenalised, WhitenedFeatures

# Everything is computed afresh once updates may have magnified rounding errors by this much, half
# of all digits.
_MAX_GROWTH = 1e8
_BLOCK_COLUMNS = 16  # basis rows judged at once, so that the work stays in cache


class Prune(Selector):
    """A larger basis, from which the rows that matter least to exact leave-one-out are dropped.

    Parameters
    ----------
    n : int or float
        How many rows to keep, or which fraction of all rows.
    start : Selector, int, float, row positions or None
        The basis to start from, as ``basis=`` of the estimators; None: 4n random rows.
    alpha : float
        Penalty of the models by which rows are judged.
    step : int or float
        How many rows to drop between two rankings: a number, or a fraction in (0, 1) of the
        rows above n (rounded up). With 1 every drop is the best one there is.
    fit_intercept : bool
        Whether those models have an unpenalised bias.
    jitter : float
        Shift of K_BB in those models, relative to the mean diagonal of the kernel.

    Attributes
    ----------
    errors_ : array
        Mean squared leave-one-out error before the first drop and after each ranking's drops;
        weighted mean over rows, mean over outputs.
    sizes_ : array of int
        The number of basis rows that each of ``errors_`` belongs to.

    Notes
    -----
    Suykens et al. (2002) prune by small coefficients and retrain; Cawley and Talbot (2004), §2.4.
    Here a basis row j is judged by the exact leave-one-out error of the model without it (rows
    leave the training set, the other basis rows stay). Removing j is the constraint a_j = 0, which
    changes the smoother by rank one. With S = V Vᵀ, V = W L⁻ᵀ, L Lᵀ = WᵀW + αI, and o_j the unit
    vector along row j of N = C⁻ᵀL⁻ᵀ,

        S^j = S - t_j t_jᵀ,   t_j = V o_j,   ŷ^j = ŷ - t_j (o_jᵀz),   z = Vᵀy

    so all rows are judged at once in O(mn), and dropping one projects o_j out of the others, O(mn)
    again. From n₀ to n rows: O(m n₀² + (n₀ - n) m n₀) time and O(m n₀) memory; no model is
    refitted. Updates magnify rounding errors when rows are nearly dependent. A bound on that is
    kept, and when half the digits may be lost everything is computed afresh, at the price of one
    fit. The rows that remain keep the order of the start.
    """

    data_dependent: ClassVar[bool] = True

    def __init__(
        self,
        n: int | float = 0.1,
        start: Selector | ArrayLike | None = None,
        alpha: float = 1.0,
        step: int | float = 1,
        fit_intercept: bool = True,
        jitter: float = 1e-10,
    ) -> None:
        self.n = n
        self.start = start
        self.alpha = alpha
        self.step = step
        self.fit_intercept = fit_intercept
        self.jitter = jitter

    @property
    def needs(self) -> frozenset[str]:
        """The targets, and what the start needs."""
        start = as_selector(self.start)
        return frozenset({"y"}) | (start.needs if start is not None else frozenset())

    def _choose(self, pool: Pool) -> IntArray:
        n = how_many(self.n, len(pool))
        alpha = check_positive("alpha", self.alpha)
        jitter = check_positive("jitter", self.jitter, zero=True)
        if len(pool) < 2:
            raise InvalidInputError("Prune needs at least two rows of positive weight; got one.")
        start = as_selector(self.start) or Random(min(4 * n, len(pool)))
        basis = start._choose(pool)
        if len(basis) < n:
            raise InvalidInputError(
                f"start gives {len(basis)} rows, fewer than the n = {n} to keep: start from more."
            )
        epsilon = jitter * float(np.mean(pool.data.diag()))
        model = _PrunedModel(pool, basis, alpha, epsilon, bool(self.fit_intercept))
        errors, sizes = [model.error()], [len(basis)]
        while len(model.basis) > n:
            ranking = np.argsort(model.errors_without_each(), kind="stable")
            drops = ranking[: self._how_many_drops(len(model.basis) - n)]
            model.drop(drops)
            errors.append(model.error())
            sizes.append(len(model.basis))
        scale = pool.weights.sum() * pool.targets().shape[1]
        self.errors_: FloatArray = np.array(errors) / scale
        self.sizes_: IntArray = np.array(sizes)
        return basis[np.isin(basis, model.basis)]

    def _how_many_drops(self, surplus: int) -> int:
        if is_number(self.step) and not isinstance(self.step, int | np.integer):
            if not 0.0 < self.step < 1.0:
                raise InvalidInputError(
                    f"step as a float is a fraction and must lie in (0, 1); got {self.step}."
                )
            return int(np.ceil(self.step * surplus))
        return min(whole_number("step", self.step), surplus)


class _PrunedModel:
    """A sparse ridge model and what it would be without each of its basis rows."""

    def __init__(
        self, pool: Pool, basis: IntArray, alpha: float, epsilon: float, fit_intercept: bool
    ) -> None:
        self.pool = pool
        self.alpha = alpha
        self.epsilon = epsilon
        self.unpenalised = Unpenalised.bias(pool.weights, fit_intercept)
        self.basis = basis.copy()
        self.leverage: FloatArray
        self.residuals: FloatArray
        self.O: FloatArray
        self.moves: FloatArray
        self.pull: FloatArray
        self.growth: FloatArray
        self._factorise()

    def error(self) -> float:
        """Return the sum of squared leave-one-out errors."""
        return float(np.square(rows_without_themselves(self.residuals, self.leverage)).sum())

    def errors_without_each(self) -> FloatArray:
        """Return that sum for the model without each basis row, (n,): O(mn) per output."""
        total = np.zeros(len(self.basis))
        for start in range(0, len(total), _BLOCK_COLUMNS):
            block = slice(start, start + _BLOCK_COLUMNS)
            moves = self.moves[:, block]
            leverage = self.leverage[:, None] - np.square(moves)
            for target in range(self.residuals.shape[1]):
                residuals = moves * self.pull[block, target]
                residuals += self.residuals[:, [target]]
                held_out = rows_without_themselves(residuals, leverage)
                total[block] += np.einsum("ij,ij->j", held_out, held_out)
        return total

    def drop(self, positions: IntArray) -> None:
        """Remove these basis rows (positions in the basis), one after another."""
        for row in self.basis[positions]:
            self._drop_one(int(np.flatnonzero(self.basis == row)[0]))
            if self.growth.max(initial=1.0) > _MAX_GROWTH:
                self._factorise()

    def _drop_one(self, j: int) -> None:
        t, o = self.moves[:, j].copy(), self.O[:, j].copy()
        pull, growth = self.pull[j].copy(), self.growth[j]
        self.leverage -= t**2
        self.residuals += np.outer(t, pull)
        # The last row takes the place of the dropped one: arrays shrink without being copied.
        last = len(self.basis) - 1
        for columns in (self.basis, self.growth, self.pull, self.moves.T, self.O.T):
            columns[j] = columns[last]
        self.basis, self.growth, self.pull = self.basis[:last], self.growth[:last], self.pull[:last]
        self.moves, self.O = self.moves[:, :last], self.O[:, :last]
        # Every other unit vector loses its part along o_j and is scaled to unit length again. The
        # length is measured: 1 - cos² would lose twice the digits.
        cosines = o @ self.O
        _subtract_outer(self.O, o, cosines)
        lengths = np.sqrt(np.einsum("ij,ij->j", self.O, self.O))
        lengths = np.maximum(lengths, np.finfo(np.float64).eps)
        _subtract_outer(self.moves, t, cosines)
        self.O /= lengths
        self.moves /= lengths
        self.pull = (self.pull - np.outer(cosines, pull)) / lengths[:, None]
        self.growth = (self.growth + np.abs(cosines) * growth) / lengths

    def _factorise(self) -> None:
        """Compute everything from scratch, O(mn²).

        leverage (m,): diagonal of S + QQᵀ. residuals (m, v). O (n, n): column j is o_j. moves
        (m, n): column j is t_j. pull (n, v): row j is o_jᵀz. growth (n,): by how much rounding
        errors may have grown since, here 1.
        """
        pool = self.pool
        try:
            features = WhitenedFeatures.of(pool.data, self.basis, self.epsilon)
        except SingularBasisError as error:
            raise SingularBasisError(
                f"the kernel matrix of the {len(self.basis)} rows that Prune starts from is "
                f"numerically singular with a shift of {self.epsilon:.3g}. Raise jitter, or start "
                "from independent rows, such as start=RandomlyPivotedCholesky(n)."
            ) from error
        smoother = FeatureSmoother(features, pool.weights, pool.targets(), self.unpenalised)
        factor, p = smoother.single(self.alpha), features.size
        assert isinstance(factor.V, np.ndarray)
        V, N, z = factor.V[:, :p], factor.N[:, :p], factor.z[:p]  # without the unpenalised columns
        self.leverage = factor.leverages(self.alpha)
        self.residuals = factor.targets.Ys - factor.V @ factor.z
        self.O = np.asfortranarray((N / np.linalg.norm(N, axis=1, keepdims=True)).T)
        self.moves = np.asfortranarray(V @ self.O)
        self.pull = self.O.T @ z
        self.growth = np.ones(p)


def _subtract_outer(A: FloatArray, x: FloatArray, y: FloatArray) -> None:
    """Subtract x yᵀ from A (Fortran order) in place."""
    if A.size:
        assert A.flags.f_contiguous, "BLAS would work on a copy"
        scipy.linalg.blas.dger(-1.0, x, y, a=A, overwrite_a=True)
