"""The smoother of features: sparse models, and linear ones with fewer columns than rows.

W (m × (p + s)) holds the features √w(φ − uB), orthogonal to the unpenalised columns, and those
columns √w u themselves; WᵀW is its Gram matrix. Sparse models have φ = C⁻¹k(B, x) with
K_BB + εI = C Cᵀ (Pahikkala et al. 2012 (14)–(15)), a linear kernel φ(x) = x. The model is
f(x) = φ(x)·θ, the penalty α‖θ‖². Features are whitened before any Gram matrix is formed: K_BᵀK_B
would square the condition of K_BB, WᵀW does not.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from functools import partial
from threading import RLock
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from holdfast._typing import FloatArray, Index, IntArray
from holdfast.experiments import Ragged, Shape, Tasks
from holdfast.linalg import Complement, eigh, run_pieces
from holdfast.smoother.base import Fit, Form, OtherBasis, Sizes, Smoother
from holdfast.smoother.factor import EPS, Factor, FeatureFactor
from holdfast.smoother.factorise import (
    Rows,
    factorised,
    measured_at,
    ridge_of_triangle,
    single_factor,
)
from holdfast.smoother.features import Features, ReadyFeatures
from holdfast.smoother.held import LOOKS, Held, HeldCoordinates
from holdfast.smoother.moments import SetSums
from holdfast.smoother.outputs import FeatureOutputs
from holdfast.smoother.rows import StreamedRows, even_blocks
from holdfast.smoother.scale import Centre, Targets, Unpenalised
from holdfast.smoother.source import HeldSums, Identity, Source
from holdfast.smoother.system import (
    System,
    coefficients,
    penalty_mask,
    solve_each,
    without_rows,
)

__all__ = ["FeatureSmoother"]

#: Rows that sums over all rows are estimated from.
SAMPLED = 256


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
    source : callable
        From features, scale, unpenalised columns and targets to the rows, wherever they are.

    Notes
    -----
    What is kept is the system of a pass over the rows, and the factor for the smallest penalty so
    far, as far as there is room. Rows are rotated in place only by the pass that made them, before
    anyone else has seen them.
    """

    form: ClassVar[Form] = "features"

    def __init__(
        self,
        features: Features,
        weights: FloatArray,
        Y: FloatArray,
        unpenalised: Unpenalised,
        memory: float = float("inf"),
        source: Callable[..., Source] = Source,
    ) -> None:
        super().__init__(weights, Y, unpenalised, memory)
        self.features, self._make_source = features, source
        self.source = source(*self._problem())
        self._system: System | None = None
        self._factor: FeatureFactor | None = None
        self._norms = np.zeros(0)

    # -- the system and its factors ----------------------------------------------------------------

    def system(self, sets: Ragged | None = None) -> System:
        """Return the sums over all rows; if the pass is to come, also those of disjoint sets."""
        with self._lock:
            if self._system is None:
                self._system = self._build(sets)
                if not self._room_for_both:
                    self._factor = None
            return self._system

    @property
    def _state(self) -> System:
        """What is there already: the sums, or the factor, whose sums are diagonal."""
        with self._lock:
            factor = self._factor
            return self.system() if factor is None else System.of(factor, self._norms)

    @property
    def _room_for_both(self) -> bool:
        return not self._keeps_rows or 16.0 * self.weights.size * self.order <= self.memory

    def _build(self, sets: Ragged | None) -> System:
        """Return the system in one pass over blocks of rows.

        Cost: m n d for the kernel, m p² for whitening and m p² for the Gram matrix. The same pass
        sums disjoint sets of trained rows, which takes p² numbers of memory for each set.
        """
        Ys, Q = self.targets.Ys, self.unpenalised.Q
        m, p, s = len(Ys), self.features.size, self.unpenalised.count
        W = np.empty((m, p + s)) if self._keeps_rows else None
        rough = self.source.level()
        total, parts, norms = self.source.moments(rough, W, sets)
        gram, z = total.settle(Q, Ys)
        B = Centre(rough, total.drift)
        N = self.features.to_coefficients
        of_sets = None if sets is None else SetSums.of(sets, parts, total.drift, Q, Ys)
        rows: Any = StreamedRows(self.features, B, self.scale, self.unpenalised)
        if W is not None:
            if s:
                self._settle_rows(W, total.drift)
            rows = W
        self._norms = norms
        span = self.features.span
        return System(rows, gram, z, np.pad(N, ((0, 0), (0, s))), B, norms, span, of_sets)

    @property
    def _keeps_rows(self) -> bool:
        return self.source.keeps and 8.0 * self.weights.size * self.order <= self.memory

    def _settle_rows(self, W: FloatArray, missed: FloatArray) -> None:
        """Subtract what the first estimate of B missed from the rows, and append √w u."""
        scale, p = self.scale, missed.shape[1]

        def work(rows: slice) -> None:
            level = self.unpenalised.level(rows, missed)
            W[rows, :p] -= level if scale.uniform else scale.root[rows, None] * level
            W[rows, p:] = self.unpenalised.U[rows] * scale.root[rows, None]

        run_pieces(work, even_blocks(*W.shape))

    def _problem(self) -> tuple[Features, Any, Unpenalised, Targets]:
        return self.features, self.scale, self.unpenalised, self.targets

    def factor(self, least: float) -> FeatureFactor:
        """Return the factor for every penalty from `least` on."""
        with self._lock:
            known = self._factor
            if known is not None and known.least > least:
                known = measured_at(known, least)
            if known is None:
                mine = self._system is None  # rows that nothing else refers to
                system = self._build(None) if self._system is None else self._system
                rows = self._rows_of(system)
                known = factorised(system, *self._problem(), least, rows, overwrite=mine)
                if not self._room_for_both:
                    self._system = None
            self._factor = known
            return known

    def single(self, alpha: float) -> FeatureFactor:
        """Return a Cholesky factor at one penalty."""
        system = self.system()
        return single_factor(system, *self._problem(), alpha, self._rows_of(system))

    def _rows_of(self, system: System) -> Rows:
        normal = partial(self.source.normal, system.W, system.p)
        return Rows(normal, partial(self.source.triangle, system.W, system.p))

    def factor_for(self, alphas: FloatArray) -> list[tuple[float, IntArray, Factor]]:
        """Return the one factor that serves all penalties."""
        factor = self.factor(float(alphas.min()))
        return [(alpha, columns, factor.select(columns)) for alpha, columns in by_penalty(alphas)]

    # -- sizes -------------------------------------------------------------------------------------

    @property
    def learned(self) -> bool:
        """Whether columns have units of their own in each experiment."""
        return self.features.learned

    @property
    def n_basis(self) -> int | None:
        """The number n of basis rows; None for a linear kernel."""
        return self.features.n_basis

    @property
    def order(self) -> int:
        """The number of coordinates."""
        return self.features.size + self.unpenalised.count

    def sizes(self, tasks: Tasks) -> Sizes:
        """Return what a plan for these tasks needs to know."""
        return Sizes(
            form=self.form,
            m=self.weights.size,
            p=self.order,
            v=self.targets.count,
            basis=self.n_basis,
            memory=self.memory if self.source.keeps else 0.0,
            factorised=self._factor is not None,
            learned=self.learned,
            summed=self._disjoint_sets(tasks) is not None or self._atoms(tasks) is not None,
        )

    def training_work(self, held: int) -> float:
        """Return about 6 m p² for a QR factorisation, and its triangle."""
        p = float(self.order)
        return 6.0 * (self.weights.size - held) * p**2 + 4.0 * p**3

    def single_work(self) -> float:
        """Return what the Gram matrix, its factor and the rows in its coordinates take."""
        p = float(self.order)
        return 3.0 * self.weights.size * p**2 + 6.0 * p**3

    def fit_work(self) -> float:
        """Return m p² for the Gram matrix, and p³."""
        p = float(self.order)
        return self.weights.size * p**2 + p**3

    # -- models as coefficients --------------------------------------------------------------------

    def coordinates(self, alphas: FloatArray) -> FeatureFactor:
        """Return the factor that serves these penalties."""
        return self.factor(float(alphas.min()))

    def fit(self, alphas: FloatArray) -> Fit:
        """Return the model on all rows; that of a linear kernel also by its columns."""
        state = self._state
        return self._published(state, state.W, solve_each(state, alphas), alphas)

    def _published(self, state: Any, rows: Any, theta: FloatArray, alphas: FloatArray) -> Fit:
        """Return the model θ (p + s, v) by its basis rows; without any, by rows and columns."""
        coef, unpenalised = coefficients(state, theta, self.targets, self.unpenalised)
        if self.n_basis is not None:
            return Fit(coef, None, unpenalised)
        every = np.arange(self.weights.size)
        residual = self.targets.Y - self.source.fitted(rows, every, theta[None])[0]
        return Fit(self.weights[:, None] * residual / alphas, coef, unpenalised)

    def outputs(self, factor: Factor | None) -> FeatureOutputs:
        """Return v(x) in the coordinates of a factor."""
        assert isinstance(factor, FeatureFactor)
        columns = self.unpenalised.elsewhere()
        return FeatureOutputs(self.source.portable(), factor.B, factor.T, columns)

    def model(self, factor: Factor | None, alphas: FloatArray) -> FloatArray:
        """Return θ (v, p + s) with the targets' level."""
        assert isinstance(factor, FeatureFactor)
        return self.with_level(np.array(factor.D(alphas) * factor.z.T))

    def held_models(self, factor: Factor, shape: Shape, held: Held, r: FloatArray) -> FloatArray:
        """Return β (b, v, p + s)."""
        assert isinstance(held, HeldCoordinates)
        return held.betas(r, slice(None))[:, 0]

    def published(self, factor: Factor | None, coefficients: FloatArray, alphas: FloatArray) -> Fit:
        """Return coefficients of basis rows; those of a linear kernel also by its columns."""
        assert isinstance(factor, FeatureFactor)
        theta = coefficients.T.copy()
        theta[self.features.size :] -= self.targets.level
        return self._published(factor, factor.V, theta, alphas)

    def fitted_rows(
        self, factor: Factor | None, coefficients: FloatArray, rows: IntArray
    ) -> FloatArray:
        """Return W θ without the weights."""
        assert isinstance(factor, FeatureFactor)
        return np.asarray(self.source.fitted(factor.V, rows, coefficients.T[None])[0])

    def fitted_squares(self, factor: Factor | None, coefficients: FloatArray) -> FloatArray:
        """Return Σ_j Λ_j β_j²: no row is looked at."""
        assert isinstance(factor, FeatureFactor)
        return np.asarray(np.square(coefficients) @ factor.Lambda)

    # -- the Gaussian view -------------------------------------------------------------------------

    def leverages(self, alpha: float) -> FloatArray:
        """Return S_ii of every row."""
        return self.factor(alpha).leverages(alpha)

    def posterior(self, rows: IntArray, alphas: FloatArray) -> FloatArray:
        """Return φ D φᵀ."""
        factor = self.factor(float(alphas.min()))
        out = factor.outputs(rows, factor.V[rows])
        return np.asarray((out * factor.D(alphas)[:, None]) @ out.T)

    def variances(self, X: Any, alphas: FloatArray) -> FloatArray:
        """Return φ·Dφ."""
        factor = self.factor(float(alphas.min()))
        return np.asarray(np.square(self.outputs(factor)(X)) @ factor.D(alphas).T)

    def distances(self, tasks: Tasks) -> FloatArray:
        """Return ‖W_i‖² without the weights."""
        if not self._norms.size:
            self.system(self._disjoint_sets(tasks))
        return np.asarray(self._norms / np.square(self.scale.root))

    def floor(self, rows: IntArray, alphas: FloatArray) -> FloatArray:
        """Return the data floor of predictions of some rows, at each penalty.

        eps √(Σ_j k(x,b_j)² c_j² + Σ_j u_j² (Σ_i k_ij² r_i² + α² Σ_l A_jl² c_l²)) over the spread
        of y: dual coefficients c, training residuals r, A = K_BB + εI and u = N D v(x). The sum
        over rows is estimated from a sample. A model of columns has no kernel values.
        """
        trained = np.flatnonzero(self.scale.trained)
        sample = trained[np.linspace(0, trained.size - 1, min(SAMPLED, trained.size)).astype(int)]
        both = np.concatenate([sample, rows])
        found_rows = self.features.with_kernel(both)
        if found_rows is None:
            return np.zeros(alphas.size)
        state, k = self._state, sample.size
        W = StreamedRows(self.features, state.B, self.scale, self.unpenalised, state.T)
        (K, K_x), V = np.split(found_rows[0], [k]), W.of(found_rows[1], both)
        K, V, V_x = self.scale.root[sample, None] * K, V[:k], V[k:] / self.scale.root[rows, None]
        A, N, some = self.features.penalty_matrix, state.N, self.targets.some()
        Ys, spread, z = (
            self.targets.Ys[sample][:, some],
            self.targets.spread[some],
            state.z[:, some],
        )
        found, mask = np.empty(alphas.size), penalty_mask(*state.B.shape[::-1])
        for a, alpha in enumerate(alphas):
            theta, U = _solved(state.gram, alpha * mask, z, V_x)
            c, r = N @ theta, Ys - V @ theta
            sums = np.square(K).T @ np.square(r) * (trained.size / sample.size)
            sums += alpha**2 * (np.square(A) @ np.square(c))  # (n, v)
            square = np.square(K_x) @ np.square(c) + np.square(N @ U).T @ sums
            found[a] = EPS * float((np.sqrt(square) / spread).max())
        return found

    # -- models without some rows ------------------------------------------------------------------

    def run(
        self, work: Identity, factor: Factor, tasks: Tasks, alphas: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return ``work(factor, tasks, alphas)``, computed where the rows are."""
        assert isinstance(factor, FeatureFactor)
        return self.source.run(work, factor, tasks, alphas)

    def _disjoint_sets(self, tasks: Tasks) -> Ragged | None:
        """Return the held-out sets if the pass that makes the system should sum them.

        That takes disjoint sets of about twice as many rows as coordinates, so that the matrices
        are small beside W, and room for both. Matrices of smaller sets are made faster one by one.
        """
        if self._system is not None:
            return None
        m, p, n, held = self.weights.size, self.order, len(tasks), tasks.held.values
        kept = 8.0 * m * p if self._keeps_rows else 0.0
        roomy = 1.9 * n * p <= m and kept + 8.0 * (n + 3) * p**2 <= self.memory
        disjoint = roomy and int(np.bincount(held, minlength=1).max()) <= 1
        return tasks.held if disjoint else None

    def _atoms(self, tasks: Tasks) -> Ragged | None:
        """Return the atoms of held-out sets that share many rows, if they are few and find room."""
        m, p, held = self.weights.size, self.order, tasks.held
        if 3 * np.count_nonzero(np.bincount(held.values, minlength=1)) > 2 * held.values.size:
            return None  # little to share
        pieces = held.atoms
        roomy = len(pieces) * p <= 4 * m and 8.0 * (len(pieces) + 3) * p**2 <= self.memory
        return pieces if roomy else None

    def rotated(self) -> FeatureSmoother | None:
        """Return the smoother in the coordinates of the eigenvectors of its Gram matrix.

        Sums are made again from the rows: m p² for these, and m p² to rotate them. None where units
        are learned, or the rows are elsewhere.
        """
        if self.learned or not self.source.keeps:
            return None
        system = self.system()
        features, p = self._ready(system, np.arange(0)), system.p
        T = eigh(system.gram[:p, :p])[1]
        features = replace(features, N=features.N @ T, Z=T)
        return self._on(features, self.weights, self.unpenalised)

    def by_fold(
        self, solve: Callable[..., Any], tasks: Tasks, alphas: FloatArray, columns: slice
    ) -> tuple[FloatArray, FloatArray]:
        """Return predictions of each task from the equations of all rows less those held out.

        |H| p² for the Gram matrix of the held-out rows, unless the pass that made the system has
        it, or they are a union of a few atoms.
        """
        system = self.system(self._disjoint_sets(tasks))
        targets, Q = self.targets.select(columns), self.unpenalised.Q
        sums, atoms = system.sets, self._atoms(tasks)
        if atoms is not None:
            of_atoms = self.source.sums(system.W, atoms, targets.Ys)
            sums, own = SetSums.settled(atoms, of_atoms, self.weights.size), slice(None)
        else:
            own = columns
        a, v, long = alphas.size, targets.count, np.linalg.norm(targets.Ys, axis=0)
        values = np.empty((a, tasks.test.values.size, v))
        solved: dict[int, Any] = {}
        error = np.zeros((a, len(tasks)))
        units = self.features.units_without(tasks.held) if self.learned else None

        def known(j: int) -> HeldSums | None:
            found = None if sums is None else sums.find(tasks.held[j])
            return None if found is None else (found[0], found[1][:, own])

        def models(j: int, of_held: HeldSums) -> FloatArray:
            Q_H = Q[tasks.held[j]]
            corner = np.eye(Q.shape[1]) - Q_H.T @ Q_H
            N_E = system.constraints(tasks.removed[j])
            equations = without_rows(system, of_held, corner, columns, N_E, long)
            own_units = np.ones(1) if units is None else units[j]
            scaled = equations if units is None else equations.in_units(own_units)
            found = solved[j] = solve(scaled, alphas, targets.spread)
            theta = equations.complete(found.theta / own_units[:, None])
            looks = equations.centred(found.looks / own_units[:, None])
            parts = [m.transpose(1, 0, 2).reshape(self.order, -1) for m in (theta, looks)]
            return np.hstack(parts)

        def put(j: int, at: IntArray | slice, f: FloatArray) -> None:
            start, found = tasks.test.ptr[j], solved[j]
            where = slice(start, tasks.test.ptr[j + 1]) if isinstance(at, slice) else start + at
            values[:, where] = f[:, : a * v].reshape(-1, a, v).swapaxes(0, 1)
            grown = np.abs(f[:, a * v :]).max(axis=0, initial=0.0).reshape(-1, LOOKS).max(axis=1)
            error[:, j] = np.maximum(error[:, j], found.left * grown[found.owner])

        self.source.folds(system.W, tasks, targets.Ys, known, models, put)
        return values, np.where(np.isnan(error), np.inf, error)

    def without(
        self, held: IntArray, removed: IntArray, basis: OtherBasis | None = None
    ) -> FeatureSmoother:
        """Return the smoother without rows and basis rows, whitened by itself."""
        weights, unpenalised = self._retrained(held)
        features = self.features.changed(removed, basis).retrained(weights)
        Y = self.targets.Y
        more = self.memory, self._make_source
        return FeatureSmoother(features, weights, Y, unpenalised, *more)

    def retrain(
        self,
        held: IntArray,
        removed: IntArray,
        test: IntArray,
        alphas: FloatArray,
        columns: slice,
        basis: OtherBasis | None = None,
    ) -> FloatArray:
        """Return predictions of a model made from its own training rows and basis rows by QR."""
        own = self.without(held, removed, basis)
        B = Centre.of(own.source.level())
        rows = StreamedRows(own.features, B, own.scale, own.unpenalised)
        train = np.flatnonzero(own.scale.trained)
        R, order = own.source.reduced(rows, train, own.targets.Ys[train][:, columns])
        models = ridge_of_triangle(R, alphas, own.features.size, order)
        return own.restore(own.source.fitted(rows, test, models), test, columns)

    def remaining(self, held: IntArray, removed: IntArray) -> FeatureSmoother | None:
        """Return the smoother of the rows that are left, on the feature rows that are there.

        m p² for the Gram matrix; no kernel is evaluated and nothing is whitened.
        """
        weights, unpenalised = self._retrained(held)
        features: Features
        if self.learned:
            features = self.features.retrained(weights)
        else:
            system = self._state
            if not isinstance(system.W, np.ndarray):
                return None
            features = self._ready(system, removed)
        return self._on(features, weights, unpenalised)

    def _on(
        self, features: Features, weights: FloatArray, unpenalised: Unpenalised
    ) -> FeatureSmoother:
        """Return a smoother of the same targets."""
        return FeatureSmoother(features, weights, self.original_targets(), unpenalised, self.memory)

    def _ready(self, system: System, removed: IntArray) -> ReadyFeatures:
        """Return the feature rows of the system as features, after some basis rows left.

        Rows have lost their part along the unpenalised columns of all rows. Any such part may be
        missing: those columns make up for it.
        """
        W, p, root = system.W, system.p, None if self.scale.uniform else self.scale.root
        N = system.N[:, :p]

        def made(index: Index) -> FloatArray:
            block = np.array(W[index][:, :p], order="C")
            return block if root is None else block / root[index, None]

        Z = None
        if removed.size:
            Z = Complement(system.constraints(removed)).lift(np.eye(p - removed.size))
            N = np.delete(N, removed, axis=0) @ Z
        return ReadyFeatures(made, N, Z, self.features, removed, system.span)

    def retargeted(self, Y: FloatArray) -> FeatureSmoother | None:
        """Return the smoother with other targets: m p for each of them."""
        if not self.source.keeps:
            return None
        other = copy(self)
        other._lock, other.targets = RLock(), Targets.of(Y, self.scale, self.unpenalised)
        other.source = self._make_source(*other._problem())
        Ys, every = other.targets.Ys, Ragged.from_arrays([np.arange(len(Y))])
        if self._factor is not None:
            (z,) = self.source.products(self._factor.V, every, Ys)
            other._factor = replace(self._factor, z=z, targets=other.targets)
        if self._system is not None or self._factor is None:
            system = self.system()
            (z,) = self.source.products(system.W, every, Ys)
            sets = system.sets
            if sets is not None:
                sets = replace(sets, z=self.source.products(system.W, sets.rows, Ys))
            other._system = replace(system, z=z, sets=sets)
        return other


def by_penalty(alphas: FloatArray) -> list[tuple[float, IntArray]]:
    """Return each penalty with the targets that have it."""
    return [(alpha, np.flatnonzero(alphas == alpha)) for alpha in np.unique(alphas).tolist()]


def _solved(
    gram: FloatArray, shift: FloatArray, z: FloatArray, rows: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return (WᵀW + shift)⁻¹ times z (q, v) and rowsᵀ (q, t)."""
    if gram.ndim == 1:
        D = 1.0 / (gram + shift)[:, None]
        return D * z, D * rows.T
    factor = cho_factor(gram + np.diag(shift), lower=True, check_finite=False)
    return cho_solve(factor, z), cho_solve(factor, rows.T)
