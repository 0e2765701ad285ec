"""The smoother of features: sparse models, and linear ones with fewer columns than rows.

W (m × (p + s)) holds the features √w(φ − uB), orthogonal to the unpenalised columns, and those
columns √w u themselves; WᵀW is its Gram matrix. Sparse models have φ = C⁻¹k(B, x) with
K_BB + εI = C Cᵀ (paper 000 (14)–(15)), a linear kernel φ(x) = x. The model is f(x) = φ(x)·θ, the
penalty α‖θ‖². Features are whitened before any Gram matrix is formed: K_BᵀK_B would square the
condition of K_BB, WᵀW does not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpotrf, dpotrs

from holdfast._typing import FloatArray, IntArray
from holdfast.data.indices import as_slice
from holdfast.experiments import Ragged, Tasks
from holdfast.linalg import eigh, not_definite, run_pieces, solve_small
from holdfast.smoother.base import Fit, Form, OtherBasis, Sizes, Smoother
from holdfast.smoother.blocks import even_blocks
from holdfast.smoother.equations import FeatureEquations, eliminate
from holdfast.smoother.factor import FeatureFactor
from holdfast.smoother.features import Features, SomeRows
from holdfast.smoother.moments import SetSums, moments, sample_level
from holdfast.smoother.rows import (
    FeatureRows,
    RowBlocks,
    StreamedRows,
    along,
    centred_gram_and_rhs,
    fitted,
    gram_and_rhs,
)
from holdfast.smoother.scale import RowScale, Unpenalised

__all__ = ["FeatureSmoother", "FeatureSystem", "penalty_mask", "rotate", "solve", "transform"]

#: Folds with at least this many features gain by running side by side; smaller ones spend their
#: time waiting for the interpreter.
SIDE_BY_SIDE_FROM = 128


@dataclass(frozen=True)
class FeatureSystem:
    """Rows, their Gram matrix and their products with the targets, in some coordinates.

    Attributes
    ----------
    W : ndarray or StreamedRows of shape (m, p + s)
        Feature rows times √w (unscaled where w = 0), the unpenalised columns last.
    gram : ndarray of shape (p + s, p + s), or (p + s,) when diagonal
        WᵀW over the trained rows. The unpenalised columns are orthonormal and orthogonal to the
        others.
    z : ndarray of shape (p + s, v)
        WᵀYs.
    N : ndarray of shape (n, p + s)
        Published coefficients from coordinates: a = N θ. Rows belong to basis rows (N = C⁻ᵀ) or
        to input features (linear kernel). Zero in the unpenalised columns.
    B : ndarray of shape (s, p)
        Qᵀ√wΦ: features on the unpenalised columns.
    norms : ndarray of shape (m,)
        ‖W_i‖² without the unpenalised columns, approximate: before the last correction of B.
    sets : SetSums or None
        Sums over held-out sets, if they were announced and W has not been rotated since.
    """

    W: FeatureRows
    gram: FloatArray
    z: FloatArray
    N: FloatArray
    B: FloatArray
    norms: FloatArray
    sets: SetSums | None = None

    @property
    def p(self) -> int:
        """The number of coordinates under the penalty."""
        return int(self.B.shape[1])

    @property
    def diagonal(self) -> bool:
        """Whether the Gram matrix is diagonal: the coordinates are its eigenvectors."""
        return self.gram.ndim == 1

    @property
    def whole_gram(self) -> FloatArray:
        """The Gram matrix as a matrix."""
        return np.diag(self.gram) if self.diagonal else self.gram


def penalty_mask(p: int, s: int) -> FloatArray:
    """Return 1 for each of p coordinates under the penalty, 0 for each of s that are not."""
    return np.repeat([1.0, 0.0], [p, s])


def transform(system: FeatureSystem, T: FloatArray, *, overwrite: bool = False) -> FeatureSystem:
    """Return the system in the features W T, with T (p, p) on the coordinates under the penalty.

    The Gram matrix is left for the caller to replace. With `overwrite` the new rows take the memory
    of the old ones, and `system` must not be used again; otherwise it is unchanged.
    """
    p = system.p
    N, z = np.zeros_like(system.N), system.z.copy()
    np.matmul(system.N[:, :p], T, out=N[:, :p])
    z[:p] = T.T @ system.z[:p]
    B = system.B @ T
    W: FeatureRows
    if isinstance(system.W, StreamedRows):
        W = replace(system.W, features=system.W.features.mapped(T), B=B)
    else:
        old = system.W
        new = old if overwrite else np.empty_like(old)

        def work(rows: slice) -> None:
            new[rows, :p] = old[rows, :p] @ T

        run_pieces(work, even_blocks(*old.shape))
        if not overwrite:
            new[:, p:] = old[:, p:]
        W = new
    return replace(system, W=W, N=N, z=z, B=B, sets=None)


def rotate(
    system: FeatureSystem, Lambda: FloatArray, V: FloatArray, *, overwrite: bool = False
) -> FeatureSystem:
    """Return the same system in the eigenvectors of its Gram matrix, WᵀW = V Λ Vᵀ and U = W V.

    Parameters
    ----------
    system : FeatureSystem
    Lambda, V : ndarray of shape (p,) and (p, p)
        Eigenvalues and eigenvectors of the penalised part of the Gram matrix.
    overwrite : bool
        Overwrite the rows of `system`: it takes time to allocate another array of that size.

    Notes
    -----
    Paper 000 (15), (23). A rotation changes no prediction and no norm, so the rotated system serves
    every path. Cost: 2 m p² beside the eigendecomposition.
    """
    gram = np.ones(len(system.gram))
    gram[: system.p] = np.maximum(Lambda, 0.0)
    return replace(transform(system, V, overwrite=overwrite), gram=gram)


def solve(system: FeatureSystem, columns: slice | IntArray, alpha: float) -> FloatArray:
    """Return θ (p + s, v) of the model on all rows, for some of the targets."""
    mask, z = penalty_mask(*system.B.shape[::-1]), system.z[:, columns]
    if system.diagonal:
        return np.asarray(z / (system.gram + alpha * mask)[:, None])
    A = system.gram + np.diag(alpha * mask)
    factor, info = dpotrf(A, lower=1, overwrite_a=1)
    if info != 0:
        raise not_definite(alpha, info, len(A))
    return np.asarray(dpotrs(factor, z, lower=1)[0])


def coefficients(
    system: FeatureSystem, theta: FloatArray, level: FloatArray, unpenalised: Unpenalised
) -> tuple[FloatArray, FloatArray]:
    """Return a = N θ and the coefficients of the unpenalised columns; `level` is that of y."""
    p = system.p
    along_columns = theta[p:] - system.B @ theta[:p] + level
    return system.N @ theta, unpenalised.coefficients(along_columns)


def solve_each(system: FeatureSystem, alphas: FloatArray) -> FloatArray:
    """Return θ (p + s, v) of the model on all rows, one penalty per target."""
    theta = np.empty((len(system.z), alphas.size))
    for alpha in np.unique(alphas):
        columns = np.flatnonzero(alphas == alpha)
        theta[:, columns] = solve(system, columns, float(alpha))
    return theta


def feature_factor(system: FeatureSystem, Ys: FloatArray, scale: RowScale) -> FeatureFactor:
    """Return the factor of a rotated system, which holds for every penalty."""
    mask = penalty_mask(*system.B.shape[::-1])
    return FeatureFactor(system.W, system.gram, mask, system.z, Ys, scale, system.N)


def single_factor(
    system: FeatureSystem, alpha: float, Ys: FloatArray, scale: RowScale
) -> FeatureFactor:
    """Return the factor at one penalty: WᵀW + αI = L Lᵀ and V = W L⁻ᵀ, so that S = V Vᵀ."""
    p, size = system.p, len(system.z)
    A = system.whole_gram[:p, :p] + alpha * np.eye(p)
    L, info = dpotrf(A, lower=1, clean=1)
    if info != 0:
        raise not_definite(alpha, info, p)
    inverse = solve_triangular(L, np.eye(p), lower=True, check_finite=False)
    scaled = transform(system, inverse.T)
    one, none = np.ones(size), np.zeros(size)
    return FeatureFactor(scaled.W, one, none, scaled.z, Ys, scale, scaled.N, inverse.T)


class FeatureSmoother(Smoother):
    """The smoother of features.

    Parameters
    ----------
    features : Features
    weights : ndarray of shape (m,)
    Y : ndarray of shape (m, v)
    unpenalised : Unpenalised
    memory : float
        Bytes that feature rows may take; if they need more, they are computed again whenever they
        are used.

    Notes
    -----
    The only state besides the arguments is the system. It is made when it is first needed, because
    the first experiments decide which further sums its pass over the rows collects (`announce`),
    and is rotated when the factor for every penalty is first asked for.
    """

    form: ClassVar[Form] = "features"
    # Half is where summing the rows that are left becomes cheaper than subtracting the others.
    least_share: ClassVar[float] = 0.5

    def __init__(
        self,
        features: Features,
        weights: FloatArray,
        Y: FloatArray,
        unpenalised: Unpenalised,
        memory: float = float("inf"),
    ) -> None:
        super().__init__(weights, Y, unpenalised)
        self.features, self.memory = features, memory
        self._system: FeatureSystem | None = None

    # -- the system --------------------------------------------------------------------------------

    @property
    def system(self) -> FeatureSystem:
        """The weighted system, in its current coordinates."""
        system = self._system
        if system is None:  # threads that find it ready need no lock
            with self.lock:
                system = self._system = self._system or self._build(None)
        return system

    def _build(self, sets: Ragged | None) -> FeatureSystem:
        """Return the system in one pass over blocks of rows.

        Cost: m n d for the kernel, m p² for whitening and m p² for the Gram matrix. The same pass
        sums disjoint sets of trained rows, which takes p² numbers of memory for each set.
        """
        Ys, Q = self.targets.Ys, self.unpenalised.Q
        m, p, s = len(Ys), self.features.size, self.unpenalised.count
        W = np.empty((m, p + s)) if 8.0 * m * (p + s) <= self.memory else None
        rough = sample_level(self.features, self.scale, self.unpenalised)
        index = [] if sets is None else [as_slice(sets[j]) for j in range(len(sets))]
        sums, parts, norms = moments(
            self.features, rough, self.scale, self.unpenalised, Ys, W=W, sets=index
        )
        gram, z = sums.settle(Q, Ys)
        B, missed = rough + sums.drift, sums.drift
        N = np.hstack(
            [self.features.to_coefficients, np.zeros((len(self.features.to_coefficients), s))]
        )
        of_sets = None if sets is None else SetSums.of(sets, parts, missed, Q, Ys)
        if W is None:
            rows = StreamedRows(self.features, B, self.scale, self.unpenalised)
            return FeatureSystem(rows, gram, z, N, B, norms, of_sets)
        if s:
            self._settle_rows(W, missed)
        return FeatureSystem(W, gram, z, N, B, norms, of_sets)

    def _settle_rows(self, W: FloatArray, missed: FloatArray) -> None:
        """Subtract what the first estimate of B missed from the rows, and append √w u."""
        scale, p = self.scale, missed.shape[1]

        def work(rows: slice) -> None:
            level = self.unpenalised.level(rows, missed)
            W[rows, :p] -= level if scale.uniform else scale.root[rows, None] * level
            W[rows, p:] = self.unpenalised.U[rows] * scale.root[rows, None]

        run_pieces(work, even_blocks(*W.shape))

    # -- sizes -------------------------------------------------------------------------------------

    @property
    def n_basis(self) -> int | None:
        """The number n of basis rows; None for a linear kernel."""
        return self.features.n_basis

    @property
    def _size(self) -> int:
        return self.features.size + self.unpenalised.count

    def sizes(self, tasks: Tasks) -> Sizes:
        """Return what a plan for these tasks needs to know."""
        return Sizes(
            form=self.form,
            m=self.weights.size,
            p=self._size,
            v=self.targets.count,
            basis=self.n_basis,
            memory=self.memory,
            factorised=self._system is not None and self._system.diagonal,
            summed=self._sums_to_come(tasks),
        )

    def _sums_to_come(self, tasks: Tasks) -> bool:
        """Whether the pass that makes the system will give the Gram matrices of these tasks.

        That takes disjoint sets and enough room: the matrices may hold no more numbers than W, and
        both must fit into memory.
        """
        if self._system is not None:
            return False
        m, p, n, held = self.weights.size, self._size, len(tasks), tasks.held.values
        kept = 8.0 * m * p if 8.0 * m * p <= self.memory else 0.0
        roomy = n * p <= m and kept + 8.0 * (n + 3) * p**2 <= self.memory
        return roomy and int(np.bincount(held, minlength=1).max()) <= 1

    def announce(self, tasks: Tasks) -> None:
        """Sum each held-out set in the first pass over the rows, if that is still to come."""
        if self._sums_to_come(tasks):
            self._system = self._build(tasks.held)

    # -- the model on all rows ---------------------------------------------------------------------

    def factor(self, alpha: float | None = None) -> FeatureFactor:
        """Return the spectrum of the Gram matrix, or its Cholesky factor at one penalty."""
        if alpha is not None:
            return single_factor(self.system, alpha, self.targets.Ys, self.scale)
        with self.lock:  # one thread makes it, the others find it
            system = self.system
            if not system.diagonal:
                Lambda, V = eigh(system.gram[: system.p, : system.p])
                if isinstance(system.W, np.ndarray):
                    self._system = None  # its rows are overwritten now: made again if interrupted
                self._system = system = rotate(system, Lambda, V, overwrite=True)
        return feature_factor(system, self.targets.Ys, self.scale)

    def fit(self, alphas: FloatArray) -> Fit:
        """Return the model on all rows, for a linear kernel also by its columns."""
        system = self.system
        theta = solve_each(system, alphas)
        coef, unpenalised = coefficients(system, theta, self.targets.level, self.unpenalised)
        if self.n_basis is not None:
            return Fit(coef, None, unpenalised)
        values = fitted(RowBlocks(system.W, once=True), np.ones(self.weights.size), theta[None])[0]
        residual = self.targets.Ys - values * self.scale.trained[:, None]
        return Fit(self.scale.root[:, None] * residual / alphas, coef, unpenalised)

    def leverages(self, alpha: float) -> FloatArray:
        """Return S_ii of every row."""
        return self.factor().leverages(alpha)

    # -- models without some rows ------------------------------------------------------------------

    def _ready_for_folds(self) -> bool:
        # Half of a tridiagonal reduction is matrix-vector products, which BLAS threads hardly speed
        # up. Experiments side by side do, unless their rows come from a user's function.
        W = self.system.W
        together = isinstance(W, np.ndarray) or W.features.parallel
        return together and self._size >= SIDE_BY_SIDE_FROM

    def equations(
        self, held: IntArray, removed: IntArray, columns: slice, afresh: bool
    ) -> FeatureEquations:
        """Return the equations of all rows less those held out.

        |H| p² for the Gram matrix of the held-out rows, unless the pass that made the system has
        it. The subtraction loses nothing as long as the training rows carry enough of the trace;
        where they do not (`afresh`), they are summed directly.
        """
        system, Ys = self.system, self.targets.Ys[:, columns]
        N_E = system.N[removed, : system.p]
        if afresh:
            keep = self.scale.trained.copy()
            keep[held] = False
            return self._sum_afresh(np.flatnonzero(keep), Ys, N_E)
        Q = self.unpenalised.Q[held]
        corner = np.eye(self.unpenalised.count) - Q.T @ Q
        known, rows = None if system.sets is None else system.sets.find(held), None
        if known is None:
            rows = RowBlocks(system.W, held)
            gram, z = gram_and_rhs(rows, Ys[held])
        else:
            gram, z = known[0], known[1][:, columns]
        A, b = system.whole_gram - gram, system.z[:, columns] - z
        A, b, mean, level = eliminate(A, b, corner)
        return FeatureEquations(A, b, N_E, False, True, mean, level, rows)

    def _sum_afresh(self, train: IntArray, Ys: FloatArray, N_E: FloatArray) -> FeatureEquations:
        """Return the equations by summing over the training rows: nothing cancels."""
        system = self.system
        rows, Y, Q = RowBlocks(system.W, train), Ys[train], self.unpenalised.Q[train]
        if not Q.shape[1]:
            A, b = gram_and_rhs(rows, Y)
            return FeatureEquations(A, b, N_E, False, True, system.B, Q.T @ Y)
        corner = Q.T @ Q
        mean = solve_small(corner, along(rows, Q)[:, : system.p])
        level = solve_small(corner, Q.T @ Y)
        A, b = centred_gram_and_rhs(rows, Y, Q, mean, level)
        return FeatureEquations(A, b, N_E, False, True, mean, level)

    def fitted(self, equations: FeatureEquations, models: FloatArray, test: IntArray) -> FloatArray:
        """Return W θ of the test rows, which often are the held-out rows just read."""
        rows = equations.rows
        if rows is None or not _are(rows, test):
            rows = RowBlocks(self.system.W, test, once=True)
        return fitted(rows, self.scale.root[test], models)

    def retrain(
        self,
        held: IntArray,
        removed: IntArray,
        test: IntArray,
        alphas: FloatArray,
        columns: slice,
        basis: OtherBasis | None = None,
    ) -> FloatArray:
        """Return predictions of a model made from its own training rows and basis rows alone."""
        features = self.features.without(removed) if basis is None else self.features.on(*basis)
        weights = self.weights.copy()
        weights[held] = 0.0
        train = np.flatnonzero(weights > 0)
        unpenalised = self.unpenalised.retrained(weights)
        part = FeatureSmoother(
            SomeRows(features, train),
            weights[train],
            self.targets.Y[train][:, columns],
            unpenalised.take(train),
            memory=0.0,
        )
        system = part.system
        models = np.stack([solve(system, slice(None), float(alpha)) for alpha in alphas])
        plain, U = RowScale.of(np.ones(test.size)), unpenalised.take(test)
        rows = StreamedRows(SomeRows(features, test), system.B, plain, U)
        values = fitted(RowBlocks(rows, once=True), plain.root, models)
        return values + U.level(slice(None), part.targets.level)

    # -- how much of the data some rows carry ------------------------------------------------------

    @property
    def norms(self) -> FloatArray:
        """Approximate ‖W_i‖² of every row, the unpenalised columns left out."""
        return self.system.norms

    def shift(self, held: IntArray) -> float:
        """Return ‖Q_HᵀW_H‖²."""
        rows = RowBlocks(self.system.W, held)
        return float(np.square(along(rows, self.unpenalised.Q[held])[:, : self.system.p]).sum())


def _are(blocks: RowBlocks, rows: IntArray) -> bool:
    """Whether the blocks hold these rows."""
    index = as_slice(rows)
    if isinstance(index, slice) or isinstance(blocks.rows, slice):
        return index is blocks.rows or (type(index) is type(blocks.rows) and index == blocks.rows)
    return np.array_equal(index, blocks.rows)
