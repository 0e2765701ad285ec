"""Models on rows that live in a Dask cluster: the same block functions, run as Dask tasks.

X stays where it is (`dask.array`, or a `dask.dataframe`); targets, weights and groups are small and
live on the client, each task gets those of its rows. One pass over the chunks gives the moments of
all rows, added up as a tree; what concerns the model on all rows (p × p) happens on the client.
Held-out predictions take another pass: small held-out sets as rows of X that travel to one worker
(leave-one-out: one task per chunk, nothing travels), large folds as Gram matrices that are added
up as a tree and solved on the workers, all folds side by side.

Every task is a pure function of its inputs and everything it needs is in the graph, so a worker
that dies costs time and nothing else. What all tasks share is in the graph once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from threading import RLock
from typing import Any

import numpy as np
from scipy.linalg.lapack import dtrtri
from threadpoolctl import threadpool_limits

from holdfast._typing import BoolArray, FloatArray, IntArray
from holdfast.cluster import work
from holdfast.cluster.rows import CrossRows, DaskRows
from holdfast.data.dask import gather
from holdfast.estimators.engine import Engine
from holdfast.exceptions import InvalidInputError
from holdfast.experiments import Ragged, Tasks
from holdfast.holdout.digits import basis_shrinks, few_left
from holdfast.holdout.plan import Path
from holdfast.kernels import Kernel, Linear
from holdfast.kernels.matrix import KernelRows
from holdfast.linalg import Whitening, cholesky_basis
from holdfast.progress import report
from holdfast.smoother.factors import single_primal
from holdfast.smoother.features import ColumnFeatures, Features, WhitenedFeatures
from holdfast.smoother.moments import RowScale, sample_mean
from holdfast.smoother.systems import PrimalSystem, StreamedRows, assemble, solve_primal

#: Partial sums that one task of a tree adds up.
FAN_IN = 8
#: Folds whose tasks are in one graph.
FOLDS_AT_ONCE = 64


class DaskEngine(Engine):
    """The engine of a sparse or linear model whose rows are a Dask array."""

    _system: PrimalSystem

    def __init__(
        self,
        data: DaskRows,
        weights: FloatArray,
        Y: FloatArray,
        *,
        basis: IntArray | None,
        bias: bool,
        shift: float,
    ) -> None:
        self.data, self.weights, self.Y = data, weights, Y
        # Feature rows are never kept: for the planner, no memory is there for them.
        self.basis, self.bias, self.shift, self.memory = basis, bias, shift, 0.0
        self._lock, self._columns = RLock(), None
        self._unchecked, self._spectrum = False, None
        self._rows, self._chunks = data, list(data.X.to_delayed().ravel())
        self._ends = np.cumsum(data.X.chunks[0])
        self._norm = float(np.linalg.norm(np.sqrt(weights)))
        features, scale = _features(data.kernel, data.X, basis, shift), RowScale.of(weights)
        centre = np.zeros(features.to_coefficients.shape[1])
        if bias:
            centre = sample_mean(features, weights)
        shared = _share(work.Whole(work.bare(features), centre, bias))
        pairs, places = [], []
        # Chunks without a trained row add nothing, and nothing else asks for their norms.
        for part, at in self._parts(np.flatnonzero(weights > 0), Y):
            pairs.append(_call(work.chunk_moments, *part, shared))
            places.append(at)
        total, lengths = _compute(
            _tree([_call(work.item, pair, 0) for pair in pairs]),
            [_call(work.item, pair, 1) for pair in pairs],
        )
        norms = np.zeros(weights.size)
        for at, values in zip(places, lengths, strict=True):
            norms[at] = values
        self._features = features
        self._system = assemble(features, total, norms, centre, scale, scale.targets(Y), bias=bias)

    @property
    def system(self) -> PrimalSystem:
        """The weighted system, with streamed rows."""
        return self._system

    @property
    def _streamed(self) -> StreamedRows:
        assert isinstance(self.system.W, StreamedRows)
        return self.system.W

    # -- which rows are where ----------------------------------------------------------------------

    def _split(self, rows: IntArray) -> Iterator[tuple[int, IntArray, IntArray]]:
        """Yield (chunk, row numbers inside it, positions in `rows`) for each chunk they touch."""
        chunk = np.searchsorted(self._ends, rows, side="right")
        order = np.argsort(chunk, kind="stable")
        numbers, starts = np.unique(chunk[order], return_index=True)
        for number, at in zip(numbers.tolist(), np.split(order, starts[1:]), strict=True):
            start = self._ends[number - 1] if number else 0
            yield number, rows[at] - start, at

    def _parts(
        self, rows: IntArray, Y: FloatArray | None = None
    ) -> Iterator[tuple[tuple[Any, work.Part], IntArray]]:
        """Yield ((chunk, some of its rows with weights and targets), rows) for each chunk."""
        for number, inside, at in self._split(rows):
            yield (self._chunks[number], self._part(rows[at], inside, number, Y)), rows[at]

    def _part(
        self, rows: IntArray, inside: IntArray | None, number: int, Y: FloatArray | None
    ) -> work.Part:
        size = self._ends[number] - (self._ends[number - 1] if number else 0)
        if inside is not None and np.array_equal(inside, np.arange(size)):
            inside = None
        weights = self.weights[rows]
        targets = np.empty((rows.size, 0)) if Y is None else Y[rows]
        uniform = bool((weights == 1.0).all())
        return work.Part(inside, None if uniform else weights, targets, self._norm)

    # -- held-out predictions ----------------------------------------------------------------------

    def predict(self, tasks: Tasks, alphas: FloatArray, path: Path, columns: slice) -> FloatArray:
        """Return held-out predictions (alphas, test rows, targets) of some targets."""
        again = np.zeros(len(tasks), dtype=bool)
        if self.basis is not None:
            again = basis_shrinks(tasks, self.basis.size)
        few, others = np.zeros_like(again), np.flatnonzero(~again)
        if others.size:
            few[others] = few_left(self.system, tasks.select(others), self._moment)
        folds = (few | (path == "fold_gram")) & ~again
        v = self.Y[:1, columns].shape[1]
        predictions = np.empty((alphas.size, tasks.test.values.size, v))
        for chosen in (again, folds, ~(again | folds)):
            if not chosen.any():
                continue
            index, where = np.flatnonzero(chosen), chosen[tasks.test.owners]
            part = tasks.select(index)
            if chosen is again:
                predictions[:, where] = self._train_again(part, alphas, columns)
            elif chosen is folds:
                predictions[:, where] = self._by_fold(part, few[index], alphas, columns)
            else:
                predictions[:, where] = self._by_rows(part, alphas, path, columns)
        return predictions

    def _moment(self, held: IntArray) -> float:
        """Return ‖Σ_H q_i W_i‖²: how far the mean moves without the rows H."""
        shared = _share(work.bare_rows(self._streamed))
        total = _tree([_call(work.drift, *part, shared) for part, _ in self._parts(held)])
        s = _compute(total)[0][0]
        return float(s @ s)

    def _by_rows(self, tasks: Tasks, alphas: FloatArray, path: Path, columns: slice) -> FloatArray:
        """Return predictions from held-out rows that travel to a worker, batch by batch."""
        if path == "single" and alphas.size > 1:
            parts = [self._by_rows(tasks, np.array([a]), path, columns) for a in alphas]
            return np.concatenate(parts)
        if path == "spectral":
            factor = self.spectrum()
        else:
            factor = single_primal(self.system, float(alphas[0]))
        assert isinstance(factor.V, StreamedRows)
        assert factor.z is not None
        shared = _share(
            replace(
                factor,
                V=work.bare_rows(factor.V),
                scale=work.NO_ROWS,
                N=None,  # its rows come with the tasks that use them
                z=factor.z[:, columns],
            )
        )
        Y = self.Y[:, columns]
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
                X, own = self._chunks[number], self._part(rows, inside, number, Y)
            else:
                X = [_call(work.take, self._chunks[n], inside) for n, inside, _ in pieces]
                own = self._part(rows, None, 0, Y)
            calls.append(_call(work.batch_predict, X, own, shared, N, moved, alphas))
            places.append(Ragged(np.arange(tasks.test.values.size), tasks.test.ptr).items(index))
        predictions = np.empty((alphas.size, tasks.test.values.size, Y.shape[1]))
        for place, values in zip(places, _compute(*calls), strict=True):
            predictions[:, place.values] = values
        return predictions

    def _batches(self, tasks: Tasks) -> Iterator[IntArray]:
        """Yield tasks that one worker does together: those inside one chunk, others by size."""
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

    def _by_fold(
        self, tasks: Tasks, few: BoolArray, alphas: FloatArray, columns: slice
    ) -> FloatArray:
        """Return predictions of large folds from their Gram matrices, added up over the chunks."""
        system, Y = self.system, self.Y[:, columns]
        gram = np.diag(system.gram) if system.gram.ndim == 1 else system.gram
        predictions = np.empty((alphas.size, tasks.test.values.size, Y.shape[1]))
        for start in range(0, len(tasks), FOLDS_AT_ONCE):
            rows = _share(work.bare_rows(self._streamed))
            everything = _share((gram, system.z[:, columns]))
            calls, places = [], []
            folds = range(start, min(start + FOLDS_AT_ONCE, len(tasks)))
            for j in folds:
                N_E = system.N[tasks.removed[j], system.inner]
                if few[j]:
                    moments = self._left(tasks.held[j], rows, Y)
                else:
                    moments = self._all_but(tasks.held[j], rows, everything, Y)
                theta = _call(work.solve, moments, N_E, alphas)
                for part, at in self._tested(tasks.test[j], tasks.test.ptr[j]):
                    calls.append(_call(work.fold_predict, *part, rows, theta))
                    places.append(at)
            for place, values in zip(places, _compute(*calls), strict=True):
                predictions[:, place] = values
            report(folds.stop, len(tasks), "folds")
        return predictions

    def _all_but(self, held: IntArray, rows: Any, everything: Any, Y: FloatArray) -> Any:
        """Return the moments of the training rows: those of all rows less those held out."""
        if not held.size:
            return _call(work.nothing_held, everything, self.bias)
        parts = [_call(work.fold_moments, *part, rows) for part, _ in self._parts(held, Y)]
        left = 1.0 - float(np.sum(self.system.scale.q[held] ** 2)) if self.bias else None
        return _call(work.subtract, everything, _tree(parts), left)

    def _left(self, held: IntArray, rows: Any, Y: FloatArray) -> Any:
        """Return the moments of the few training rows, summed afresh about their own mean."""
        keep = self.weights > 0
        keep[held] = False
        parts = [part for part, _ in self._parts(np.flatnonzero(keep), Y)]
        mean = None
        if self.bias:
            mean = _call(work.mean, _tree([_call(work.drift, *part, rows) for part in parts]))
        sums = _tree([_call(work.fold_moments, *part, rows, mean) for part in parts])
        return _call(work.fresh, sums, mean)

    def _tested(
        self, test: IntArray, first: int
    ) -> Iterator[tuple[tuple[Any, work.Part], IntArray]]:
        for number, inside, at in self._split(test):
            yield (self._chunks[number], self._part(test[at], inside, number, None)), first + at

    def retrain(
        self,
        basis: IntArray | None,
        weights: FloatArray,
        test: IntArray,
        alphas: FloatArray,
        *,
        shift: float,
        columns: slice = slice(None),
    ) -> FloatArray:
        """Return predictions (alphas, test rows, targets) of a model fitted from scratch."""
        Y = self.Y[:, columns]
        model = DaskEngine(self._rows, weights, Y, basis=basis, bias=self.bias, shift=shift)
        theta = np.stack([solve_primal(model.system, model.system.z, a) for a in alphas])
        rows, shared = _share(work.bare_rows(model._streamed)), _share(theta)
        parts = list(model._tested(test, 0))
        values = _compute(*[_call(work.fold_predict, *part, rows, shared) for part, _ in parts])
        predictions = np.empty((alphas.size, test.size, theta.shape[2]))
        for (_, at), part in zip(parts, values, strict=True):
            predictions[:, at] = part
        return predictions


def _features(kernel: Kernel, X: Any, basis: IntArray | None, shift: float) -> Features:
    if basis is None:
        if not isinstance(kernel, Linear):
            raise InvalidInputError(
                "a dense model needs the kernel matrix of all rows, which Dask rows do not fit; "
                "pass basis=1000 (or another number of basis rows)."
            )
        return ColumnFeatures(X)
    Z = np.asarray(gather(X, basis), dtype=np.float64)
    C = cholesky_basis(KernelRows(kernel, Z).block(slice(None), slice(None)), shift)
    inverse = np.ascontiguousarray(dtrtri(C, lower=1)[0].T)
    whitening = Whitening(C, inverted=False)
    return WhitenedFeatures(CrossRows(kernel, X, Z), np.arange(basis.size), whitening, inverse)


def _renumber(ragged: Ragged, rows: IntArray) -> Ragged:
    return Ragged(np.searchsorted(rows, ragged.values), ragged.ptr)


def _tree(parts: Sequence[Any]) -> Any:
    """Return the sum of delayed parts, FAN_IN at a time."""
    level = list(parts)
    while len(level) > 1:
        lots = [level[i : i + FAN_IN] for i in range(0, len(level), FAN_IN)]
        level = [_call(work.add, lot) if len(lot) > 1 else lot[0] for lot in lots]
    return level[0]


# -- Dask enters here and in daskrows, nowhere else ------------------------------------------------


def _share(value: Any) -> Any:
    """Return a value that many tasks use, in the graph once."""
    from dask.delayed import delayed

    return delayed(value, pure=False, traverse=False)


def _call(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return a call that a worker will make."""
    from dask.delayed import delayed

    return delayed(function, pure=False)(*arguments)


def _compute(*values: Any) -> Any:
    """Return delayed values, computed by whatever scheduler Dask is set to.

    Tasks run side by side, so those in this process keep to one BLAS thread each. The graph holds
    p × p matrices on purpose (once), so Dask's warning about large graphs would mislead.
    """
    from dask import config
    from dask.base import compute

    quiet = {"distributed.admin.large-graph-warning-threshold": "1TB"}
    with threadpool_limits(1, user_api="blas"), config.set(quiet):
        return compute(*values)  # type: ignore[no-untyped-call]  # dask is partly typed
