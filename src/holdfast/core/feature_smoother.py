"""The smoother of features: sparse models, and linear ones with fewer columns than rows.

W (m × (p + s)) holds the features √w(φ − uB), orthogonal to the unpenalised columns, and those
columns √w u themselves; WᵀW is its Gram matrix. The model is f(x) = φ(x)·θ, the penalty α‖θ‖².
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from threading import RLock
from typing import Any, ClassVar, Self

import numpy as np

from holdfast._typing import FloatArray, Index, IntArray
from holdfast.core import refit
from holdfast.core.accuracy import to_refit, warn_of_rounding
from holdfast.core.coordinates import Coordinates, at_one_penalty, for_every_penalty
from holdfast.core.data import NewColumns, Targets, WeightedData
from holdfast.core.experiments import Ragged, Tasks
from holdfast.core.factor import Factor, FeatureFactor
from holdfast.core.features import Features, MadeFeatures
from holdfast.core.folds import Complement, FoldEquations, FoldModels
from holdfast.core.lapack import KEPT, SOME_ROWS, evenly_spaced, run_pieces
from holdfast.core.rows import FeatureRows, StreamedRows, even_chunks
from holdfast.core.smoother import Fit, Form, OtherBasis, Outputs, Sizes, Smoother, by_penalty
from holdfast.core.source import SetSums, Source, Sums, System
from holdfast.exceptions import HoldOutError


class FeatureSmoother(Smoother):
    """The smoother of features.

    Parameters
    ----------
    features : Features
    data : WeightedData
    memory : float
        Bytes that feature rows may take; if they need more, they are computed again whenever they
        are used.
    make_source : callable
        From features and data to the rows, wherever they are.

    Notes
    -----
    What is kept is the system of a pass over the rows, and the factor for the smallest penalty so
    far, as far as there is room. Rows are mapped in place only by the pass that made them, before
    anyone else has seen them.
    """

    form: ClassVar[Form] = "features"

    def __init__(
        self,
        features: Features,
        data: WeightedData,
        memory: float = float("inf"),
        make_source: Callable[[Features, WeightedData], Source] = Source,
    ) -> None:
        super().__init__(data, memory)
        self.features, self._make_source = features, make_source
        self.source = make_source(features, data)
        self._system: System | None = None
        self._factor: FeatureFactor | None = None

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
    def _room_for_both(self) -> bool:
        return not self._keeps_rows or 16.0 * len(self.data) * self.order <= self.memory

    @property
    def _keeps_rows(self) -> bool:
        return self.source.keeps and 8.0 * len(self.data) * self.order <= self.memory

    def _build(self, sets: Ragged | None) -> System:
        """Return the system in one pass over chunks of rows.

        Cost: m n d for the kernel, m p² for whitening and m p² for the Gram matrix. The same pass
        sums disjoint sets of trained rows, which takes p² numbers of memory for each set.
        """
        Ys, Q, data = self.data.targets.Ys, self.data.unpenalised.Q, self.data
        m, p, s = len(data), self.features.size, data.unpenalised.count
        W = np.empty((m, p + s)) if self._keeps_rows else None
        rough = self.source.level()
        total, parts = self.source.moments(rough, W, sets)
        missed = total.drift
        gram, z = total.settled(missed, Q, Ys)
        gram[p:, :p], gram[:p, p:], gram[p:, p:] = 0.0, 0.0, np.eye(s)
        of_sets = None
        if sets is not None:
            rows = [sets[j] for j in range(len(sets))]
            settled = [
                part.settled(missed, Q[own], Ys[own]) for part, own in zip(parts, rows, strict=True)
            ]
            of_sets = SetSums.of(sets, settled, m)
        kept: FeatureRows = StreamedRows(self.features, rough + missed, data)
        if W is not None:
            if s:
                self._settle_rows(W, missed)
            kept = W
        return System(kept, gram, z, self.features.to_coefficients, rough + missed, of_sets)

    def _settle_rows(self, W: FloatArray, missed: FloatArray) -> None:
        """Subtract what the first estimate of B missed from the rows, and append √w u."""
        weights, unpenalised, p = self.data.weights, self.data.unpenalised, missed.shape[1]

        def work(rows: slice) -> None:
            level, U = unpenalised.level(rows, missed), unpenalised.U[rows]
            root = weights.root[rows, None]
            W[rows, :p] -= level if weights.uniform else root * level
            W[rows, p:] = U if weights.uniform else root * U

        run_pieces(work, even_chunks(*W.shape))

    def factor(self, least: float) -> FeatureFactor:
        """Return the factor for every penalty from `least` on."""
        with self._lock:
            known = self._factor
            if known is None or known.least > least:
                mine = self._system is None and known is None  # rows that nothing else refers to
                system = self._build(None) if self._system is None else self._system
                known = self._factorised(system, least, for_every_penalty, overwrite=mine)
                if not self._room_for_both:
                    self._system = None
                self._factor = known
            return known

    def factor_at(self, alpha: float) -> FeatureFactor:
        """Return a Cholesky factor at one penalty."""
        return self._factorised(self.system(), alpha, at_one_penalty, overwrite=False)

    def factors_for(self, alphas: FloatArray) -> list[tuple[float, IntArray, Factor]]:
        """Return the one factor that serves all penalties."""
        factor = self.factor(float(alphas.min()))
        return [(alpha, columns, factor.select(columns)) for alpha, columns in by_penalty(alphas)]

    def _factorised(
        self, system: System, alpha: float, way: Callable[..., Coordinates], *, overwrite: bool
    ) -> FeatureFactor:
        """Return the factor in some coordinates (Pahikkala et al. 2012 (15), (23))."""
        p, s = system.p, self.data.unpenalised.count
        gram, z = system.gram[:p, :p], system.z.copy()
        normal: Callable[[FloatArray], FloatArray] = partial(self.source.normal, system.W, p)
        if isinstance(system.W, StreamedRows):  # another pass over the rows costs too much
            normal = gram.__matmul__
        coordinates = way(gram, z[:p], alpha, normal)
        T, N = coordinates.T, np.zeros((len(system.N), p + s))
        z[:p] = T.T @ system.z[:p]
        V: FeatureRows
        pairs = [(system.N, N)]
        if isinstance(system.W, StreamedRows):
            V = StreamedRows(self.features, system.B, self.data, T)
        else:
            V = system.W if overwrite else np.empty_like(system.W)
            V[:, p:] = system.W[:, p:]
            pairs.append((system.W, V))

        def work(piece: tuple[FloatArray, FloatArray, slice]) -> None:
            old, new, rows = piece
            new[rows, :p] = old[rows, :p] @ T

        run_pieces(work, [(*pair, rows) for pair in pairs for rows in even_chunks(*pair[0].shape)])
        return FeatureFactor(
            data=self.data,
            V=V,
            Lambda=np.append(coordinates.Lambda, np.ones(s)),
            penalised=np.repeat([1.0, 0.0], [p, s]),
            z=z,
            rounding=coordinates.rounding,
            least=alpha,
            only=coordinates.only,
            features=self.features,
            B=system.B,
            N=N,
            T=T,
        )

    # -- sizes -------------------------------------------------------------------------------------

    @property
    def learned(self) -> bool:  # type: ignore[override]
        """Whether columns have units of their own in each experiment."""
        return self.features.learned

    @property
    def order(self) -> int:
        """The number of coordinates."""
        return self.features.size + self.data.unpenalised.count

    def sizes(self, tasks: Tasks) -> Sizes:
        """Return what a plan for these tasks needs to know."""
        return Sizes(
            form=self.form,
            m=len(self.data),
            p=self.order,
            v=self.data.targets.count,
            basis=self.features.n_basis,
            memory=self.memory if self.source.keeps else 0.0,
            factorised=self._factor is not None,
            learned=self.learned,
            summed=self._disjoint_sets(tasks) is not None or self._atoms(tasks) is not None,
        )

    def refit_work(self, held: int) -> float:
        """Return about 6 m p² for a QR factorisation, and its triangle."""
        p, v = float(self.order), self.data.targets.count
        return 6.0 * (len(self.data) - held) * p * (p + v) + 4.0 * p**3

    def fit_work(self) -> float:
        """Return what the rows, their Gram matrix, its spectrum and the rows' coordinates take."""
        p, v = float(self.order), self.data.targets.count
        return 6.0 * len(self.data) * p * (p + v) + 10.0 * p**3

    # -- the model on all rows ---------------------------------------------------------------------

    def model(self, alphas: FloatArray) -> tuple[FeatureOutputs, FloatArray]:
        """Return outputs and coefficients (v, p + s) of the model on all rows."""
        factor = self._factor
        if factor is None or factor.least > alphas.min():
            outputs, theta, error = self._model_by_sums(alphas)
        else:
            outputs = self.outputs(factor)
            theta = (factor.D(alphas) * factor.z.T).T
            error = float(factor.size_of_errors(np.unique(alphas)).max())
        error /= float(self.data.weights.root.min())
        if to_refit(self, np.array([error]), np.zeros(1, dtype=np.int64)).any():
            rows = StreamedRows(self.features, self.source.level(), self.data)
            outputs, theta = self._outputs(rows.B, None), np.empty_like(theta)
            for alpha, columns in by_penalty(alphas):
                theta[:, columns] = self._refitted(self, rows, np.array([alpha]), columns)[0]
        else:
            chosen = np.unique(alphas)
            warn_of_rounding(chosen, np.full(chosen.size, error))
        theta[outputs.B.shape[1] :] += self.data.targets.level
        return outputs, theta.T

    def _model_by_sums(self, alphas: FloatArray) -> tuple[FeatureOutputs, FloatArray, float]:
        """Return the same (p + s, v) with its error, by the normal equations without a factor.

        The error is that on a sample of rows.
        """
        system, targets = self.system(), self.data.targets
        p, rows = system.p, self.data.weights.rows
        theta, error = np.empty_like(system.z), 0.0
        sample = system.W[rows[evenly_spaced(rows.size, SOME_ROWS)]][:, :p]
        for alpha, columns in by_penalty(alphas):
            equations = FoldEquations(
                system.gram[:p, :p],
                system.z[:p, columns],
                np.sqrt(np.diag(system.gram)[:p]),
                np.linalg.norm(targets.Ys[:, columns], axis=0),
                targets.std[columns],
                np.zeros((p, 0)),
            )
            models = equations.solve(np.array([alpha]))
            theta[:p, columns], theta[p:, columns] = models.theta[0], system.z[p:, columns]
            error = max(error, float(models.errors(sample.__matmul__)[0]))
        return self._outputs(system.B, None), theta, error

    # -- models as coefficients --------------------------------------------------------------------

    def outputs(self, factor: Factor) -> FeatureOutputs:
        """Return v(x) in the coordinates of a factor."""
        assert isinstance(factor, FeatureFactor)
        return self._outputs(factor.B, factor.T)

    def _outputs(self, B: FloatArray, T: FloatArray | None) -> FeatureOutputs:
        return FeatureOutputs(self.source.portable(), B, T, self.data.unpenalised.elsewhere())

    def coefficients(self, factor: Factor, betas: FloatArray, held: IntArray) -> FloatArray:
        """Return β with the level of the targets."""
        s = self.data.unpenalised.count
        if s:
            betas[..., -s:] += factor.data.targets.level.T
        return betas

    def published(self, outputs: Outputs, coefficients: FloatArray, alphas: FloatArray) -> Fit:
        """Return coefficients of basis rows; without any, those of the rows and of the columns."""
        assert isinstance(outputs, FeatureOutputs)
        B, T, unpenalised, targets = outputs.B, outputs.T, self.data.unpenalised, self.data.targets
        theta, level = np.split(coefficients.T, [B.shape[1]])
        theta = theta if T is None else T @ theta
        coef = self.features.to_coefficients @ theta
        along = unpenalised.coefficients(level - B @ theta)
        if self.features.n_basis is not None:
            return Fit(coef, None, along)
        factor, every = self._factor, np.arange(len(self.data))
        if factor is not None and T is factor.T:
            fitted = self.fitted_rows(factor, coefficients, every)
        else:
            rows = StreamedRows(self.features, B, self.data)
            fitted = self.source.fitted(rows, every, np.vstack([theta, level])[None])[0]
        return Fit(self.data.weights.values[:, None] * (targets.Y - fitted) / alphas, coef, along)

    def fitted_rows(self, factor: Factor, coefficients: FloatArray, rows: IntArray) -> FloatArray:
        """Return V β without the weights."""
        return np.asarray(self.source.fitted(factor.V, rows, coefficients.T[None])[0])

    def fitted_squares(self, factor: Factor, coefficients: FloatArray) -> FloatArray:
        """Return Σ_j Λ_j β_j²: no row is looked at."""
        assert not factor.only, "the spectrum of all rows"
        return np.asarray(np.square(coefficients) @ factor.Lambda)

    # -- the Gaussian view -------------------------------------------------------------------------

    def posterior(self, rows: IntArray, alphas: FloatArray) -> FloatArray:
        """Return φ D φᵀ."""
        factor = self.factor(float(alphas.min()))
        out = factor.outputs(rows)
        return np.asarray((out * factor.D(alphas)[:, None]) @ out.T)

    def variances(self, X: Any, alphas: FloatArray) -> FloatArray:
        """Return φ·Dφ."""
        factor = self.factor(float(alphas.min()))
        return np.asarray(np.square(self.outputs(factor)(X)) @ factor.D(alphas).T)

    # -- models without some rows ------------------------------------------------------------------

    def held_out(
        self, factor: Factor, tasks: Tasks, alphas: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return predictions by the identity, computed where the rows are."""
        assert isinstance(factor, FeatureFactor)
        return self.source.held_out(factor, tasks, alphas)

    def _disjoint_sets(self, tasks: Tasks) -> Ragged | None:
        """Return the held-out sets if the pass that makes the system should sum them.

        That takes disjoint sets of about twice as many rows as coordinates, so that the matrices
        are small beside W, and room for both. Matrices of smaller sets are made faster one by one.
        """
        if self._system is not None:
            return None
        m, p, n, held = len(self.data), self.order, len(tasks), tasks.held.values
        kept = 8.0 * m * p if self._keeps_rows else 0.0
        roomy = 1.9 * n * p <= m and kept + 8.0 * (n + 3) * p**2 <= self.memory
        disjoint = roomy and int(np.bincount(held, minlength=1).max()) <= 1
        return tasks.held if disjoint else None

    def _atoms(self, tasks: Tasks) -> Ragged | None:
        """Return the atoms of held-out sets that share many rows, if they are few and find room."""
        m, p, held = len(self.data), self.order, tasks.held
        if 3 * np.count_nonzero(np.bincount(held.values, minlength=1)) > 2 * held.values.size:
            return None  # little to share
        pieces = held.atoms
        roomy = len(pieces) * p <= 4 * m and 8.0 * (len(pieces) + 3) * p**2 <= self.memory
        return pieces if roomy else None

    def per_fold(
        self, tasks: Tasks, alphas: FloatArray, columns: slice
    ) -> tuple[FloatArray, FloatArray]:
        """Return predictions of each task from the equations of all rows less those held out.

        |H| p² for the Gram matrix of the held-out rows, unless the pass that made the system has
        it, or they are a union of a few atoms.
        """
        system = self.system(self._disjoint_sets(tasks))
        data, z, a = self.data.select(columns), system.z[:, columns], alphas.size
        v, Ys = data.targets.count, data.targets.Ys
        known, own, atoms = system.sets, columns, self._atoms(tasks)
        if atoms is not None:
            known, own = (
                SetSums.of(atoms, self.source.sums(system.W, atoms, Ys), len(data)),
                slice(None),
            )
        units = self.features.units_without(tasks.held) if self.learned else None
        values = np.empty((a, tasks.test.values.size, v))
        error = np.empty((a, len(tasks)))
        step = max(8, KEPT // self.order**2)
        for start in range(0, len(tasks), step):
            batch = tasks.select(np.arange(start, min(start + step, len(tasks))))
            sums = self._sums(system.W, batch.held, Ys, known, own)

            def solve(
                i: int,
                batch: Tasks = batch,
                sums: list[Sums] = sums,
                start: int = start,
            ) -> FoldOfFeatures:
                left = system.gram - sums[i][0], z - sums[i][1]
                unit = None if units is None else units[start + i]
                return self._fold(system, *left, batch.removed[i], alphas, data.targets, unit)

            solved = run_pieces(solve, range(len(batch)))
            models = [fold.all_models() for fold in solved]
            fits = self.source.fitted_each(system.W, batch.test, models)
            for j, (fold, f) in enumerate(zip(solved, fits, strict=True), start):
                rows, out = tasks.test[j], slice(tasks.test.ptr[j], tasks.test.ptr[j + 1])
                values[:, out] = f[: a * v].reshape(a, v, -1).swapaxes(1, 2) + data.level(rows)
                error[:, j] = fold.errors(partial(self.source.fitted, system.W, rows), f[a * v :])
        return values, error

    def _sums(
        self, W: FeatureRows, held: Ragged, Ys: FloatArray, known: SetSums | None, own: slice
    ) -> list[Sums]:
        """Return WᵀW and WᵀYs of each held-out set, where they are not known from a pass over W.

        `own` are the targets among those of the known sums.
        """
        sums = [None if known is None else known.find(held[j]) for j in range(len(held))]
        missing = np.array([j for j, each in enumerate(sums) if each is None], dtype=np.int64)
        fresh: Iterator[Sums] = iter(())
        if missing.size:
            fresh = iter(self.source.sums(W, held.items(missing), Ys))
        return [next(fresh) if each is None else (each[0], each[1][:, own]) for each in sums]

    def _fold(
        self,
        system: System,
        A: FloatArray,
        b: FloatArray,
        removed: IntArray,
        alphas: FloatArray,
        targets: Targets,
        units: FloatArray | None,
    ) -> FoldOfFeatures:
        """Return the models of a task from WᵀW and WᵀYs (p + s, …) of its training rows."""
        p = system.p
        lengths, cross = np.sqrt(np.diag(system.gram)[:p]), A[p:, :p]
        try:  # the unpenalised columns are eliminated
            mean, level = (np.asarray(np.linalg.solve(A[p:, p:], side)) for side in (cross, b[p:]))
        except np.linalg.LinAlgError as error:
            raise HoldOutError(
                "the rows that an experiment leaves to train on weigh next to nothing beside those "
                "that it holds out. Use weights that are less far apart.",
                argument="sample_weight",
            ) from error
        rhs, A = b[:p] - cross.T @ level, A[:p, :p] - cross.T @ mean
        # Where heavy rows left, what was taken away for the mean counts as well.
        lengths = np.sqrt(np.square(lengths) + np.square(mean).sum(axis=0))
        if units is not None:
            A, rhs, lengths = A / units / units[:, None], rhs / units[:, None], lengths / units
        O = self.features.span(removed) if removed.size else np.zeros((p, 0))  # noqa: E741
        sizes = np.linalg.norm(targets.Ys, axis=0)
        equations = FoldEquations(A, rhs, lengths, sizes, targets.std, O)
        return FoldOfFeatures(equations.solve(alphas), mean, level, units)

    @staticmethod
    def _refitted(
        own: FeatureSmoother, rows: StreamedRows, alphas: FloatArray, columns: Any
    ) -> FloatArray:
        """Return models θ (a, p + s, v) of a smoother by QR of its rows."""
        train = own.data.weights.rows
        R = own.source.reduced(rows, train, own.data.targets.Ys[train][:, columns])
        return refit.ridge_models(R, alphas, own.features.size, own.data.unpenalised.count)

    def refit(
        self,
        held: IntArray,
        removed: IntArray,
        test: IntArray,
        alphas: FloatArray,
        columns: slice = slice(None),
        basis: OtherBasis | None = None,
    ) -> FloatArray:
        """Return predictions of a model made from its own training rows and basis rows by QR."""
        own = self.without(held, removed, basis)
        rows = StreamedRows(own.features, own.source.level(), own.data)
        models = self._refitted(own, rows, alphas, columns)
        return own.source.fitted(rows, test, models) + own.data.select(columns).level(test)

    def without(self, held: IntArray, removed: IntArray, basis: OtherBasis | None = None) -> Self:
        """Return the smoother without rows and basis rows, whitened by itself."""
        data = self.data.without(held)
        features = self.features.on_basis(removed, basis).trained_on(data.weights.values)
        return type(self)(features, data, self.memory, self._make_source)

    def on_remaining_rows(self, held: IntArray, removed: IntArray) -> Self | None:
        """Return the smoother of the rows that are left, on the feature rows that are there.

        m p² for the Gram matrix; no kernel is evaluated and nothing is whitened.
        """
        data = self.data.without(held)
        if self.learned:
            return type(self)(self.features.trained_on(data.weights.values), data, self.memory)
        factor = self._factor
        if factor is None:
            system = self.system()
            W, N, p = system.W, system.N, system.p
        else:
            W, p = factor.V, len(factor.T)
            N = factor.N[:, :p]
        if not isinstance(W, np.ndarray):
            return None
        root = None if self.data.weights.uniform else self.data.weights.root

        def made(index: Index) -> FloatArray:
            # The rows have lost their part along the unpenalised columns of all rows; any such part
            # may be missing, as those columns make up for it.
            block = np.array(W[index][:, :p], order="C")
            return block if root is None else block / root[index, None]

        Z = None
        if removed.size:
            O = self.features.span(removed)  # noqa: E741
            if factor is not None:
                O = np.linalg.qr(factor.T.T @ O)[0]  # noqa: E741
            Z = Complement.of(O).lift(np.eye(p - removed.size))
            N = np.delete(N, removed, axis=0) @ Z
        features = MadeFeatures(made, N, Z, self.features, removed)
        return type(self)(features, data, self.memory)

    def with_targets(self, Y: FloatArray) -> Self | None:
        """Return the smoother with other targets: m p for each of them."""
        if not self.source.keeps:
            return None
        other = copy(self)
        other._lock, other.data = RLock(), self.data.with_targets(Y)
        other.source = self._make_source(self.features, other.data)
        Ys, every = other.data.targets.Ys, Ragged.from_arrays([np.arange(len(Y))])
        if self._factor is not None:
            (z,) = self.source.products(self._factor.V, every, Ys)
            other._factor = self._factor.with_targets(other.data, z)
        if self._system is not None or self._factor is None:
            system = self.system()
            (z,) = self.source.products(system.W, every, Ys)
            sets = system.sets
            if sets is not None:
                sets = sets.with_products(self.source.products(system.W, sets.rows, Ys))
            other._system = replace(system, z=z, sets=sets)
        return other


@dataclass(frozen=True)
class FoldOfFeatures:
    """The models of one task, from the equations of its own training rows.

    Attributes
    ----------
    models : FoldModels
        Its penalised coordinates.
    mean, level : ndarray of shape (s, p) and (s, v)
        The unpenalised coordinates are level − mean θ.
    units : ndarray of shape (p,) or None
        What columns are divided by in this fold, beside those of all rows.
    """

    models: FoldModels
    mean: FloatArray
    level: FloatArray
    units: FloatArray | None

    def all_models(self) -> FloatArray:
        """Return the models at every penalty, then the first probes, side by side (p + s, c)."""
        models = self._whole(self.models.theta, self.level)
        parts = [models, self._whole(self.models.probes(self.models.first), 0.0)]
        return np.hstack([part.transpose(1, 0, 2).reshape(part.shape[1], -1) for part in parts])

    def errors(self, predict: Callable[[FloatArray], FloatArray], known: FloatArray) -> FloatArray:
        """Return estimated errors (a,), from predictions (c, rows) by the first probes.

        `predict` goes from models (b, p + s, c) to predictions (b, rows, c).
        """
        return self.models.errors(lambda probes: predict(self._whole(probes, 0.0)), known.T)

    def _whole(self, theta: FloatArray, level: FloatArray | float) -> FloatArray:
        """Return models (b, p + s, c) from their penalised coordinates (b, p, c)."""
        theta = theta if self.units is None else theta / self.units[:, None]
        return np.concatenate([theta, level - self.mean @ theta], axis=1)


@dataclass(frozen=True)
class FeatureOutputs(Outputs):
    """Features without their part along the unpenalised columns, then those columns.

    Attributes
    ----------
    features : Features
    B : ndarray of shape (s, p)
        The features' part along the unpenalised columns.
    T : ndarray of shape (p, p) or None
        The map that follows.
    columns : NewColumns
        The unpenalised columns u(x).
    """

    features: Features
    B: FloatArray
    T: FloatArray | None
    columns: NewColumns

    @property
    def size(self) -> int:
        """The number p + s of coordinates."""
        return sum(self.B.shape)

    def __call__(self, X: Any) -> FloatArray:
        """Return [(φ(x) − uB)T, u]."""
        block, u = self.features.new_rows(X), self.columns(X)
        if u.shape[1]:
            block -= u @ self.B
        if self.T is not None:
            block = block @ self.T
        return np.hstack([block, np.broadcast_to(u, (len(block), u.shape[1]))])
