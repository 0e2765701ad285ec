"""The smoother on a cluster: the same block functions, run as Dask tasks.

One pass over the chunks gives the moments of all rows, added up as a tree; the algebra of the model
on all rows (p × p) runs on the client. Held-out predictions take another pass. For small held-out
sets, rows of X travel to one worker (leave-one-out: one task per chunk, and nothing travels). For
large folds, Gram matrices are added up as a tree and solved on the workers, all folds side by side.

Every task is a pure function of its inputs, and the graph holds everything it needs, so a worker
that dies costs time and nothing else. What all tasks share is in the graph only once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from math import inf
from typing import Any

import numpy as np

from holdfast._typing import BoolArray, FloatArray, IntArray
from holdfast.cluster import work
from holdfast.data.dask import local
from holdfast.data.watched import compute
from holdfast.experiments import Ragged, Tasks
from holdfast.linalg import eigh, one_blas_thread
from holdfast.progress import report
from holdfast.smoother import Equations, Factor, Features, OtherBasis, Sizes
from holdfast.smoother.factor import FeatureFactor
from holdfast.smoother.factorise import (
    FLOOR,
    diagonalise,
    feature_factor,
    ridge_of_triangle,
    rotate,
    single_factor,
    unpenalised_first,
)
from holdfast.smoother.feature_form import FeatureForm
from holdfast.smoother.moments import sample_level
from holdfast.smoother.rows import FeatureRows, StreamedRows
from holdfast.smoother.scale import Centre, Unpenalised
from holdfast.smoother.system import FeatureSystem

__all__ = ["ClusterSmoother"]

#: Partial sums that one task of a tree adds up.
FAN_IN = 8
#: Folds whose tasks are in one graph.
FOLDS_AT_ONCE = 64


class ClusterSmoother(FeatureForm):
    """The smoother of a sparse or linear model whose rows are a Dask array.

    Parameters
    ----------
    features : Features
        Of those rows (`holdfast.cluster.features`).
    X : dask array of shape (m, d)
    weights : ndarray of shape (m,)
    Y : ndarray of shape (m, v)
    unpenalised : Unpenalised
    """

    def __init__(
        self,
        features: Features,
        X: Any,
        weights: FloatArray,
        Y: FloatArray,
        unpenalised: Unpenalised,
    ) -> None:
        super().__init__(weights, Y, unpenalised)
        self.features, self.X = features, X
        self._chunks = list(X.to_delayed().ravel())
        self._ends = np.cumsum(X.chunks[0])

    def _rough_rows(self) -> StreamedRows:
        """Return the rows, their part along the unpenalised columns taken out by a sample."""
        rough = sample_level(self.features, self.scale, self.unpenalised)
        return StreamedRows(self.features, Centre.of(rough), self.scale, self.unpenalised)

    @cached_property
    def _system(self) -> FeatureSystem:
        """The system, with streamed rows, from one pass over the chunks when it is first needed."""
        Ys, features, s = self.targets.Ys, self.features, self.unpenalised.count
        rough = self._rough_rows().B.first
        shared = _share(work.Whole(work.bare(features), rough))
        pairs, places = [], []
        # Chunks without a trained row add nothing, and their norms are not needed elsewhere.
        for part, at in self._parts(np.flatnonzero(self.scale.trained), slice(None)):
            pairs.append(_call(work.chunk_moments, *part, shared))
            places.append(at)
        total, lengths = _compute(
            _tree([_call(work.item, pair, 0) for pair in pairs]),
            [_call(work.item, pair, 1) for pair in pairs],
        )
        norms = np.zeros(self.weights.size)
        for at, values in zip(places, lengths, strict=True):
            norms[at] = values
        gram, z = total.settle(self.unpenalised.Q, Ys)
        N, B = features.to_coefficients, Centre(rough, total.drift)
        rows = StreamedRows(features, B, self.scale, self.unpenalised)
        return FeatureSystem(features, rows, gram, z, np.pad(N, ((0, 0), (0, s))), B, norms)

    @property
    def system(self) -> FeatureSystem:
        """The weighted system, in its current coordinates."""
        return self._system

    @property
    def _streamed(self) -> StreamedRows:
        assert isinstance(self._system.W, StreamedRows)
        return self._system.W

    # -- which rows are where ---------------------------------------------------------------------

    def _split(self, rows: IntArray) -> Iterator[tuple[int, IntArray, IntArray]]:
        """Yield (chunk, row numbers inside it, positions in `rows`) for each chunk they touch."""
        chunk = np.searchsorted(self._ends, rows, side="right")
        order = np.argsort(chunk, kind="stable")
        numbers, starts = np.unique(chunk[order], return_index=True)
        for number, at in zip(numbers.tolist(), np.split(order, starts[1:]), strict=True):
            start = self._ends[number - 1] if number else 0
            yield number, rows[at] - start, at

    def _parts(
        self, rows: IntArray, columns: slice
    ) -> Iterator[tuple[tuple[Any, work.Part], IntArray]]:
        """Yield ((chunk, some of its rows with what belongs to them), rows) for each chunk."""
        for number, inside, at in self._split(rows):
            yield (self._chunks[number], self._part(rows[at], inside, number, columns)), rows[at]

    def _part(
        self, rows: IntArray, inside: IntArray | None, number: int, columns: slice
    ) -> work.Part:
        size = self._ends[number] - (self._ends[number - 1] if number else 0)
        if inside is not None and np.array_equal(inside, np.arange(size)):
            inside = None
        Ys, unpenalised = self.targets.Ys[rows][:, columns], self.unpenalised.take(rows)
        return work.Part(inside, self.weights[rows], Ys, unpenalised)

    # -- sizes ------------------------------------------------------------------------------------

    @property
    def additive(self) -> bool:
        """Whether the coordinates are those of the features, or a rotation of them."""
        return self._system.least == 0.0

    def sizes(self, tasks: Tasks) -> Sizes:
        """Return what a plan needs to know; feature rows are never kept, so their memory is 0."""
        m, p = self._streamed.shape
        known = self._system.diagonal
        return Sizes(self.form, m, p, self.targets.count, self.n_basis, 0.0, known)

    # -- the model on all rows --------------------------------------------------------------------

    def factor(self, alpha: float | None = None, least: float = inf) -> FeatureFactor:
        """Return the factor, with rows that are made on the workers."""
        if alpha is not None:
            return single_factor(
                self._system, self._triangles, alpha, self.targets.Ys, self.scale, self._remainder
            )
        with self.lock:
            system = self._system
            if not system.diagonal or least < system.least:
                gram = None if system.diagonal else system.gram[: system.p, : system.p]
                spectrum = None if gram is None else eigh(gram)
                found = diagonalise(system, spectrum, self._triangles, least)
                self._system = system = rotate(system, found, least, self.scale, self._remainder)
        return feature_factor(system, self.targets.Ys, self.scale)

    def _remainder(self, V: FeatureRows, beta: FloatArray) -> FloatArray:
        """Return Vᵀ(Ys − Vβ) over the trained rows, from a pass over the chunks."""
        assert isinstance(V, StreamedRows)
        shared, models = _share(work.bare_rows(V)), _share(beta)
        parts = self._parts(np.flatnonzero(self.scale.trained), slice(None))
        calls = [_call(work.left_over, *part, shared, models) for part, _ in parts]
        return np.asarray(_compute(_tree(calls))[0])

    def _triangles(self) -> list[FloatArray]:
        """Return one triangle with the Gram matrix of all trained rows, from QR on the workers."""
        shared = _share(work.bare_rows(self._streamed))
        parts = self._parts(np.flatnonzero(self.scale.trained), slice(0, 0))
        return [
            _compute(_tree([_call(work.triangle, *p, shared) for p, _ in parts], work.stack))[0]
        ]

    def _errors(self, theta: FloatArray, coef: FloatArray, unpenalised: FloatArray) -> FloatArray:
        values = local(self.X @ coef)
        if self.unpenalised.count:
            values = values + self.unpenalised.U @ (self.unpenalised.R @ unpenalised)
        Y = self.targets.Y + self.unpenalised.U @ self.targets.level
        return np.asarray(self.weights[:, None] * (Y - values))

    def _portable(self) -> Features:
        return work.bare(self.features)

    def without(
        self, held: IntArray, removed: IntArray, basis: OtherBasis | None = None
    ) -> ClusterSmoother:
        """Return the smoother without rows and basis rows, from a pass of its own."""
        return self._without(held, removed, basis, slice(None))

    def _without(
        self, held: IntArray, removed: IntArray, basis: OtherBasis | None, columns: slice
    ) -> ClusterSmoother:
        features = self.features.changed(removed, basis)
        weights, unpenalised = self._retrained(held)
        Y = self.targets.Y[:, columns]
        return ClusterSmoother(features, self.X, weights, Y, unpenalised)

    # -- models without some rows -----------------------------------------------------------------

    def run(
        self,
        work_on: Callable[[Factor, Tasks, FloatArray], FloatArray],
        factor: Factor,
        tasks: Tasks,
        alphas: FloatArray,
    ) -> FloatArray:
        """Return predictions from held-out rows that travel to a worker, batch by batch."""
        assert isinstance(factor, FeatureFactor)
        assert isinstance(factor.V, StreamedRows)
        v = factor.n_targets
        # Rows, targets, weights and constraints travel with the tasks that use them.
        shared = _share(work.bare_factor(factor))
        calls, places = [], []
        for index in self._batches(tasks):
            part = tasks.select(index)
            rows = np.unique(np.concatenate([part.held.values, part.test.values]))
            out = np.unique(part.removed.values)
            moved = replace(
                part,
                held=_renumber(part.held, rows),
                removed=_renumber(part.removed, out),
                test=_renumber(part.test, rows),
            )
            N = np.empty((0, 0)) if factor.N is None else factor.N[out]
            pieces = list(self._split(rows))
            if len(pieces) == 1:
                number, inside, _ = pieces[0]
                X, own = self._chunks[number], self._part(rows, inside, number, slice(0, 0))
            else:
                X = [_call(work.take, self._chunks[n], inside) for n, inside, _ in pieces]
                own = self._part(rows, None, 0, slice(0, 0))
            own = replace(own, Ys=factor.Ys[rows])
            calls.append(_call(work.on_batch, work_on, X, own, shared, N, out, moved, alphas))
            places.append(Ragged(np.arange(tasks.test.values.size), tasks.test.ptr).items(index))
        predictions = np.empty((alphas.size, tasks.test.values.size, v))
        for place, values in zip(places, _compute(*calls), strict=True):
            predictions[:, place.values] = values
        return predictions

    def _batches(self, tasks: Tasks) -> Iterator[IntArray]:
        """Yield batches of tasks for one worker: those inside one chunk, the others by size."""
        first = np.full(len(tasks), np.iinfo(np.int64).max)
        last = np.full(len(tasks), -1)
        for ragged in (tasks.held, tasks.test):
            chunk = np.searchsorted(self._ends, ragged.values, side="right")
            np.minimum.at(first, ragged.owners, chunk)
            np.maximum.at(last, ragged.owners, chunk)
        inside = np.flatnonzero(first == last)
        inside = inside[np.argsort(first[inside], kind="stable")]
        if inside.size:
            yield from np.split(inside, np.flatnonzero(np.diff(first[inside])) + 1)
        across = np.flatnonzero(first != last)
        if across.size:  # neighbours together, so that a batch touches few chunks
            across = across[np.lexsort((last[across], first[across]))]
            sizes = np.cumsum(tasks.held.sizes[across] + tasks.test.sizes[across])
            batch = sizes // max(int(np.diff(self._ends, prepend=0).max()), 1)
            yield from np.split(across, np.flatnonzero(np.diff(batch)) + 1)

    def by_fold(
        self,
        solve_on: Callable[[Equations, FloatArray], FloatArray],
        tasks: Tasks,
        alphas: FloatArray,
        columns: slice,
        afresh: BoolArray,
    ) -> FloatArray:
        """Return predictions of large folds from their Gram matrices, added up over the chunks."""
        system, v = self._system, self.targets.Ys[:1, columns].shape[1]
        predictions = np.empty((alphas.size, tasks.test.values.size, v))
        for start in range(0, len(tasks), FOLDS_AT_ONCE):
            rows = _share(work.bare_rows(self._streamed))
            everything = _share((system.whole_gram, system.z[:, columns]))
            calls, places = [], []
            folds = range(start, min(start + FOLDS_AT_ONCE, len(tasks)))
            for j in folds:
                N_E = system.constraints(tasks.removed[j])
                if afresh[j]:
                    equations = self._left(tasks.held[j], rows, columns, N_E)
                else:
                    equations = self._all_but(tasks.held[j], rows, everything, columns, N_E)
                models = _call(solve_on, equations, alphas)
                for part, at in self._tested(tasks.test[j], tasks.test.ptr[j]):
                    calls.append(_call(work.fold_predict, *part, rows, models))
                    places.append(at)
            for place, values in zip(places, _compute(*calls), strict=True):
                predictions[:, place] = values
            report(folds.stop, len(tasks), "folds")
        return predictions

    def _all_but(
        self, held: IntArray, rows: Any, everything: Any, columns: slice, N_E: FloatArray
    ) -> Any:
        """Return the equations of the training rows: those of all rows less those held out."""
        Q = self.unpenalised.Q[held]
        corner = np.eye(self.unpenalised.count) - Q.T @ Q
        parts = [_call(work.fold_moments, *part, rows) for part, _ in self._parts(held, columns)]
        floor = FLOOR / self._system.support_without(held)
        held_sums = _tree(parts) if parts else None
        rotated = self._system.T is not None
        return _call(work.subtract, everything, held_sums, corner, N_E, floor, rotated)

    def _left(self, held: IntArray, rows: Any, columns: slice, N_E: FloatArray) -> Any:
        """Return the equations of the few training rows, summed directly."""
        keep = self.scale.trained.copy()
        keep[held] = False
        parts = [part for part, _ in self._parts(np.flatnonzero(keep), columns)]
        means = _call(work.means, _tree([_call(work.along, *part, rows) for part in parts]))
        sums = _tree([_call(work.fold_moments, *part, rows, means) for part in parts])
        return _call(work.fresh, sums, means, N_E, int(keep.sum()), self._system.T is not None)

    def _tested(
        self, test: IntArray, first: int
    ) -> Iterator[tuple[tuple[Any, work.Part], IntArray]]:
        for number, inside, at in self._split(test):
            part = self._part(test[at], inside, number, slice(0, 0))
            yield (self._chunks[number], part), first + at

    def _ready_for_folds(self) -> bool:
        raise AssertionError("by_fold does without")

    def equations(self, held: IntArray, removed: IntArray, columns: slice, afresh: bool) -> Any:
        """Raise: folds are solved where their sums are (`by_fold`)."""
        raise AssertionError("by_fold does without")

    def fitted(self, equations: Any, models: FloatArray, test: IntArray) -> FloatArray:
        """Raise: folds are solved where their sums are (`by_fold`)."""
        raise AssertionError("by_fold does without")

    def retrain(
        self,
        held: IntArray,
        removed: IntArray,
        test: IntArray,
        alphas: FloatArray,
        columns: slice,
        basis: OtherBasis | None = None,
    ) -> FloatArray:
        """Return predictions (a, t, v) of a model fitted from scratch, by QR on the workers."""
        model = self._without(held, removed, basis, columns)
        rows, p = model._rough_rows(), model.features.size
        rows_of = _share(work.bare_rows(rows))
        kept = model._parts(np.flatnonzero(model.scale.trained), slice(None))
        triangles = [_call(work.reduce_rows, *part, rows_of) for part, _ in kept]
        stack = partial(work.stack_reduced, size=rows.shape[1])
        (R,), order = _compute(_tree(triangles, stack)), unpenalised_first(*rows.B.shape[::-1])
        models = ridge_of_triangle(R, alphas, p, order)
        shared = _share(models)
        parts = list(model._tested(test, 0))
        calls = [_call(work.fold_predict, *part, rows_of, shared) for part, _ in parts]
        predictions = np.empty((alphas.size, test.size, models.shape[2]))
        for (_, at), values in zip(parts, _compute(*calls), strict=True):
            predictions[:, at] = values
        return model.restore(predictions, test, slice(None))

    # -- how much of the data some rows carry -----------------------------------------------------

    def shift(self, held: IntArray) -> float:
        """Return ‖Q_HᵀW_H‖²."""
        shared = _share(work.bare_rows(self._streamed))
        parts = self._parts(held, slice(0, 0))
        total = _tree([_call(work.along, *part, shared) for part, _ in parts])
        return float(np.square(_compute(total)[0][0]).sum())


def _renumber(ragged: Ragged, rows: IntArray) -> Ragged:
    return Ragged(np.searchsorted(rows, ragged.values), ragged.ptr)


def _tree(parts: Sequence[Any], combine: Callable[[Sequence[Any]], Any] = work.add) -> Any:
    """Return the sum (or another combination) of delayed parts, FAN_IN at a time."""
    level = list(parts)
    while len(level) > 1:
        lots = [level[i : i + FAN_IN] for i in range(0, len(level), FAN_IN)]
        level = [_call(combine, lot) if len(lot) > 1 else lot[0] for lot in lots]
    return level[0]


# -- Dask enters here and in holdfast.data.dask, nowhere else --------------------------------------


def _share(value: Any) -> Any:
    """Return a value that many tasks use, put into the graph once."""
    from dask.delayed import delayed

    return delayed(value, pure=False, traverse=False)


def _call(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return a call that a worker will make."""
    from dask.delayed import delayed

    return delayed(function, pure=False)(*arguments)


def _compute(*values: Any) -> Any:
    """Return delayed values, computed by whatever scheduler Dask is set to.

    Tasks run side by side, so those in this process use one BLAS thread each. The graph holds p × p
    matrices on purpose, and only once, so Dask's warning about large graphs would mislead.
    """
    from dask import config

    quiet = {"distributed.admin.large-graph-warning-threshold": "1TB"}
    with one_blas_thread(), config.set(quiet):
        return compute(*values)
