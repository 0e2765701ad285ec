"""The smoother of features: sparse models, and linear ones with fewer columns than rows.

W (m × (p + s)) holds the features √w(φ − uB), orthogonal to the unpenalised columns, and those
columns √w u themselves; WᵀW is its Gram matrix. Sparse models have φ = C⁻¹k(B, x) with
K_BB + εI = C Cᵀ (Pahikkala et al. 2012 (14)–(15)), a linear kernel φ(x) = x. The model is
f(x) = φ(x)·θ, the penalty α‖θ‖². Features are whitened before any Gram matrix is formed: K_BᵀK_B
would square the condition of K_BB, WᵀW does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from math import inf
from threading import RLock
from typing import ClassVar

import numpy as np

from holdfast._typing import FloatArray, Index, IntArray
from holdfast.data.indices import as_slice
from holdfast.experiments import Ragged, Tasks
from holdfast.linalg import (
    Complement,
    eigh,
    run_pieces,
    solve_small,
)
from holdfast.smoother.base import OtherBasis, Sizes
from holdfast.smoother.blocks import even_blocks
from holdfast.smoother.equations import FeatureEquations, eliminate
from holdfast.smoother.factor import FeatureFactor
from holdfast.smoother.factorise import (
    FLOOR,
    diagonalise,
    feature_factor,
    remainder,
    ridge_by_qr,
    rotate,
    single_factor,
    subtracted,
    summed,
)
from holdfast.smoother.feature_form import FeatureForm
from holdfast.smoother.features import Features, ReadyFeatures, SomeRows
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
from holdfast.smoother.scale import Centre, RowScale, Targets, Unpenalised
from holdfast.smoother.system import FeatureSystem

__all__ = ["FeatureSmoother"]

#: Folds with at least this many features gain by running side by side; smaller ones spend their
#: time waiting for the interpreter.
SIDE_BY_SIDE_FROM = 128


class FeatureSmoother(FeatureForm):
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

    sums_sets: ClassVar[bool] = True

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
        B, missed = Centre(rough, sums.drift), sums.drift
        N = np.hstack(
            [self.features.to_coefficients, np.zeros((len(self.features.to_coefficients), s))]
        )
        of_sets = None if sets is None else SetSums.of(sets, parts, missed, Q, Ys)
        if W is None:
            rows = StreamedRows(self.features, B, self.scale, self.unpenalised)
            return FeatureSystem(self.features, rows, gram, z, N, B, norms, of_sets)
        if s:
            self._settle_rows(W, missed)
        return FeatureSystem(self.features, W, gram, z, N, B, norms, of_sets)

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
    def order(self) -> int:
        """The number of coordinates."""
        return self._size

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
            summed=self._sums_to_come(tasks) or self._shared_pieces(tasks) is not None,
        )

    @property
    def additive(self) -> bool:
        """Whether the coordinates are those of the features, or a rotation of them."""
        return self._system is None or self._system.least == 0.0

    def _sums_to_come(self, tasks: Tasks) -> bool:
        """Whether the pass that makes the system will give the Gram matrices of these tasks.

        That takes disjoint sets of about twice as many rows as coordinates, so that the matrices
        are small beside W, and room for both. Matrices of smaller sets are made faster one by one.
        """
        if self._system is not None:
            return False
        m, p, n, held = self.weights.size, self._size, len(tasks), tasks.held.values
        kept = 8.0 * m * p if 8.0 * m * p <= self.memory else 0.0
        roomy = 1.9 * n * p <= m and kept + 8.0 * (n + 3) * p**2 <= self.memory
        return roomy and int(np.bincount(held, minlength=1).max()) <= 1

    def announce(self, tasks: Tasks) -> None:
        """Sum the held-out sets up in the first pass over the rows, if that is still to come.

        Sets that share rows are unions of atoms: those are summed, so that every set is a few
        additions.
        """
        if self._sums_to_come(tasks):
            self._system = self._build(tasks.held)
            return
        pieces = self._shared_pieces(tasks)
        if pieces is not None:
            self.sum_sets(pieces)

    def _shared_pieces(self, tasks: Tasks) -> Ragged | None:
        """Return the atoms of held-out sets that share many rows, if they are few and find room."""
        m, p, held = self.weights.size, self._size, tasks.held
        if 3 * np.count_nonzero(np.bincount(held.values, minlength=1)) > 2 * held.values.size:
            return None  # little to share
        pieces = held.atoms
        roomy = len(pieces) * p <= 4 * m and 8.0 * (len(pieces) + 3) * p**2 <= self.memory
        return pieces if roomy else None

    def sum_sets(self, sets: Ragged) -> None:
        """Keep the Gram matrix and the products with the targets of each of some disjoint sets."""
        if self._system is None:
            self._system = self._build(sets)
            return
        system, Ys = self._system, self.targets.Ys
        sums: list[tuple[FloatArray, FloatArray]] = [(Ys, Ys)] * len(sets)

        def work(j: int) -> None:
            sums[j] = gram_and_rhs(RowBlocks(system.W, sets[j], once=True), Ys[sets[j]])

        run_pieces(work, range(len(sets)), None if self._ready_for_folds() else 1)
        self._system = replace(system, sets=SetSums.settled(sets, sums, len(Ys)))

    def equation_rows(self, rows: IntArray) -> FloatArray:
        """Return rows of W."""
        return np.asarray(self.system.W[rows])

    # -- the model on all rows ---------------------------------------------------------------------

    def factor(self, alpha: float | None = None, least: float = inf) -> FeatureFactor:
        """Return the factor for every penalty from `least` on, or a Cholesky factor at one."""
        if alpha is not None:
            return single_factor(
                self.system, self._trained, alpha, self.targets.Ys, self.scale, self._remainder
            )
        with self.lock:  # one thread makes it, the others find it
            system = self.system
            if not system.diagonal or least < system.least:
                gram = None if system.diagonal else system.gram[: system.p, : system.p]
                spectrum = None if gram is None else eigh(gram)
                found = diagonalise(system, spectrum, self._trained, least)
                if isinstance(system.W, np.ndarray):
                    self._system = None  # its rows are overwritten now: made again if interrupted
                self._system = system = rotate(
                    system, found, least, self.scale, self._remainder, overwrite=True
                )
        return feature_factor(system, self.targets.Ys, self.scale)

    def _remainder(self, V: FeatureRows, beta: FloatArray) -> FloatArray:
        return remainder(V, beta, self.targets.Ys, self.scale.trained)

    def _trained(self) -> Iterator[FloatArray]:
        """Yield the trained rows of W under the penalty, block by block."""
        system, trained = self.system, self.scale.trained
        for part, W in RowBlocks(system.W, once=True):
            yield W[trained[part], : system.p]

    def _errors(self, theta: FloatArray, coef: FloatArray, unpenalised: FloatArray) -> FloatArray:
        blocks = RowBlocks(self.system.W, once=True)
        values = fitted(blocks, np.ones(self.weights.size), theta[None])[0]
        residual = self.targets.Ys - values * self.scale.trained[:, None]
        return np.asarray(self.scale.root[:, None] * residual)

    def _portable(self) -> Features:
        return self.features.portable()

    def without(
        self, held: IntArray, removed: IntArray, basis: OtherBasis | None = None
    ) -> FeatureSmoother:
        """Return the smoother without rows and basis rows, whitened by itself."""
        features = self.features.changed(removed, basis)
        weights, unpenalised = self._retrained(held)
        return FeatureSmoother(features, weights, self.targets.Y, unpenalised, self.memory)

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
        N_E = system.constraints(removed)
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
        diagonal, floor = np.diag(system.whole_gram), FLOOR / system.support_without(held)
        known_to = subtracted(diagonal[: system.p], mean, floor, system.T is not None)
        return FeatureEquations(A, b, N_E, known_to, mean, level, rows)

    def _sum_afresh(self, train: IntArray, Ys: FloatArray, N_E: FloatArray) -> FeatureEquations:
        """Return the equations by summing over the training rows: nothing cancels."""
        system, rotated = self.system, self.system.T is not None
        rows, Y, Q = RowBlocks(system.W, train), Ys[train], self.unpenalised.Q[train]
        if not Q.shape[1]:
            A, b = gram_and_rhs(rows, Y)
            nothing = system.B.total  # (0, p)
            known_to = summed(A, nothing, train.size, rotated)
            return FeatureEquations(A, b, N_E, known_to, nothing, Q.T @ Y)
        corner = Q.T @ Q
        mean = solve_small(corner, along(rows, Q)[:, : system.p])
        level = solve_small(corner, Q.T @ Y)
        A, b = centred_gram_and_rhs(rows, Y, Q, mean, level)
        return FeatureEquations(A, b, N_E, summed(A, mean, train.size, rotated), mean, level)

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
        features = self.features.changed(removed, basis)
        weights, unpenalised = self._retrained(held)
        train = np.flatnonzero(weights > 0)
        scale, U = RowScale.of(weights[train]), unpenalised.take(train)
        targets = Targets.of(self.targets.Y[train][:, columns], scale, U)
        B = Centre.of(sample_level(SomeRows(features, train), scale, U))
        rows = StreamedRows(SomeRows(features, train), B, scale, U)
        models = ridge_by_qr(RowBlocks(rows, once=True), targets.Ys, alphas, features.size)
        plain, U = RowScale.of(np.ones(test.size)), unpenalised.take(test)
        rows = StreamedRows(SomeRows(features, test), B, plain, U)
        values = fitted(RowBlocks(rows, once=True), plain.root, models)
        return (values + U.level(slice(None), targets.level)) * targets.unit

    def remaining(self, held: IntArray, removed: IntArray, anew: bool) -> FeatureSmoother:
        """Return the smoother of the rows that are left, on the feature rows that are there.

        m p² for the Gram matrix; no kernel is evaluated and nothing is whitened, unless `anew`.
        Rows are as they are now: whoever uses the new smoother holds the lock of this one.
        """
        weights, unpenalised = self._retrained(held)
        fresh = anew or not self.additive
        features = self.features.without(removed) if fresh else self._ready(removed)
        return FeatureSmoother(features, weights, self.original_targets(), unpenalised, self.memory)

    def _ready(self, removed: IntArray) -> ReadyFeatures:
        """Return the feature rows of the system as features, after some basis rows left.

        Rows have lost their part along the unpenalised columns of all rows. Any such part may be
        missing: those columns make up for it.
        """
        system, scale = self.system, self.scale
        W, p, N = system.W, system.p, system.N[:, : system.p]

        def made(index: Index) -> FloatArray:
            block = np.array(W[index][:, :p], order="C")
            if not scale.uniform:
                block /= scale.root[index, None]
            return block

        Z = None
        if removed.size:
            Z = Complement(N[removed]).lift(np.eye(p - removed.size))
            N = np.delete(N, removed, axis=0) @ Z
        together = isinstance(W, np.ndarray) or W.features.parallel
        return ReadyFeatures(made, N, Z, self.features, removed, together)

    def retargeted(self, Y: FloatArray) -> FeatureSmoother:
        """Return the smoother with other targets: m p for each of them."""
        other, system = copy(self), self.system
        other.lock, other.targets = RLock(), Targets.of(Y, self.scale, self.unpenalised)
        Ys = other.targets.Ys
        z = np.zeros((len(system.z), Ys.shape[1]))
        for part, W in RowBlocks(system.W, once=True):
            z += W.T @ Ys[part]
        sets = system.sets
        if sets is not None:
            of_sets = [
                sum(
                    (W.T @ Ys[sets.rows[j][part]] for part, W in _blocks(system.W, sets.rows[j])),
                    np.zeros_like(z),
                )
                for j in range(len(sets.rows))
            ]
            sets = replace(sets, z=of_sets)
        other._system = replace(system, z=z, sets=sets)
        return other

    # -- how much of the data some rows carry ------------------------------------------------------

    def shift(self, held: IntArray) -> float:
        """Return ‖Q_HᵀW_H‖²."""
        rows = RowBlocks(self.system.W, held)
        return float(np.square(along(rows, self.unpenalised.Q[held])[:, : self.system.p]).sum())


def _blocks(W: FeatureRows, rows: IntArray) -> RowBlocks:
    return RowBlocks(W, rows, once=True)


def _are(blocks: RowBlocks, rows: IntArray) -> bool:
    """Whether the blocks hold these rows."""
    index = as_slice(rows)
    if isinstance(index, slice) or isinstance(blocks.rows, slice):
        return index is blocks.rows or (type(index) is type(blocks.rows) and index == blocks.rows)
    return np.array_equal(index, blocks.rows)
