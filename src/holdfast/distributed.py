"""Models on rows that live in a Dask cluster: the same block functions, run as Dask tasks.

X stays where it is (`dask.array`, or a `dask.dataframe`); targets, weights and groups are small and
come to the client. One pass over the chunks gives the moments of all rows, added up as a tree;
algebra of size p × p happens on the client. Held-out predictions take a second pass: small
held-out sets travel as rows of X to one worker each, leave-one-out chunk by chunk, large folds as
Gram matrices added up as a tree. Every task is a pure function of its inputs, so a worker that dies
costs time and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from scipy.linalg.lapack import dtrtri

from holdfast.daskrows import CrossRows, DaskRows
from holdfast.engine import Engine
from holdfast.exceptions import InvalidInputError
from holdfast.experiments import IntArray, Ragged, Tasks
from holdfast.factors import Factor
from holdfast.features import ColumnFeatures, Features, WhitenedFeatures
from holdfast.gram import KernelRows
from holdfast.holdout import fold_gram, spectral
from holdfast.holdout.share import few_left
from holdfast.kernels import Kernel, Linear
from holdfast.linalg import Whitening, cholesky_basis
from holdfast.plan import Path
from holdfast.systems import (
    FloatArray,
    Moments,
    PrimalSystem,
    RowScale,
    StreamedRows,
    assemble,
    moments,
    sample_mean,
)

_T = TypeVar("_T")
#: Partial sums that one task of a tree adds up.
FAN_IN = 8
#: Gram matrices of folds that are on their way to the client at once.
FOLDS_AT_ONCE = 8


class DaskEngine(Engine):
    """The engine of a sparse or linear model whose rows are a Dask array."""

    def __init__(
        self,
        kernel: Kernel,
        X: Any,
        weights: FloatArray,
        Y: FloatArray,
        *,
        basis: IntArray | None,
        bias: bool,
        shift: float,
    ) -> None:
        self.data, self.weights, self.Y = DaskRows(kernel, X), weights, Y
        self.basis, self.bias, self.shift, self.memory = basis, bias, shift, float("inf")
        self._kernel, self._X = kernel, X
        self._unchecked, self._spectrum = False, None
        features = _features(kernel, X, basis, shift)
        self._ends = np.cumsum(X.chunks[0])
        scale = RowScale.of(weights)
        centre = np.zeros(features.to_coefficients.shape[1])
        if bias:
            centre = sample_mean(features, weights)
        Ys = scale.targets(Y)
        spec = self._delayed(replace_rows(features, None))
        pairs = [
            self._call(_chunk_moments, part, spec, centre, scale.take(rows), Ys[rows], bias)
            for part, rows in self._chunks()
        ]
        total, norms = self._compute(
            tree([self._call(_first, pair) for pair in pairs], self._call),
            [self._call(_second, pair) for pair in pairs],
        )
        self.system = assemble(features, total, np.concatenate(norms), centre, scale, Ys, bias=bias)

    # -- Dask enters here and nowhere else ---------------------------------------------------------

    @staticmethod
    def _delayed(value: Any) -> Any:
        from dask.delayed import delayed

        return delayed(value)

    @staticmethod
    def _call(function: Callable[..., Any], *arguments: Any) -> Any:
        from dask.delayed import delayed

        return delayed(function, pure=False)(*arguments)

    @staticmethod
    def _compute(*values: Any) -> Any:
        from dask.base import compute

        return compute(*values)  # type: ignore[no-untyped-call]  # dask is partly typed

    def _chunks(self) -> Iterator[tuple[Any, slice]]:
        """Yield each chunk of X as a delayed array, and its rows."""
        start = 0
        parts = self._X.to_delayed().ravel()
        for part, stop in zip(parts, self._ends.tolist(), strict=True):
            yield part, slice(start, stop)
            start = stop

    # -- held-out predictions ----------------------------------------------------------------------

    def predict(self, tasks: Tasks, alphas: FloatArray, path: Path, columns: slice) -> FloatArray:
        """Return held-out predictions (alphas, test rows, targets) of some targets."""
        assert isinstance(self.system, PrimalSystem)
        v = self.Y[:1, columns].shape[1]
        predictions = np.empty((alphas.size, tasks.test.values.size, v))
        few = few_left(self.system, tasks)
        for j in np.flatnonzero(few).tolist():
            where = slice(tasks.test.ptr[j], tasks.test.ptr[j + 1])
            predictions[:, where] = self._retrained(tasks, j, alphas, columns)
        rest = np.flatnonzero(~few)
        if rest.size:
            others = tasks.select(rest)
            run = self._by_fold if path == "fold_gram" else self._by_rows
            predictions[:, ~few[tasks.test.owners]] = run(others, alphas, path, columns)
        return predictions

    def _retrained(self, tasks: Tasks, j: int, alphas: FloatArray, columns: slice) -> FloatArray:
        """Return predictions of a model trained on the little that an experiment leaves."""
        weights = self.weights.copy()
        weights[tasks.held[j]] = 0.0
        basis = None if self.basis is None else np.delete(self.basis, tasks.removed[j])
        part = DaskEngine(
            self._kernel,
            self._X,
            weights,
            self.Y[:, columns],
            basis=basis,
            bias=self.bias,
            shift=self.shift,
        )
        rows = np.asarray(self._X[tasks.test[j]].compute(), dtype=np.float64)
        if basis is not None:
            rows = part.data.predict_block(rows, basis)
        v = part.Y.shape[1]
        fits = [part.fit(np.full(v, alpha)) for alpha in alphas]
        return np.stack([rows @ coef + intercept for coef, intercept in fits])

    def _by_rows(self, tasks: Tasks, alphas: FloatArray, path: Path, columns: slice) -> FloatArray:
        """Return predictions from held-out rows that travel to a worker, batch by batch."""
        if path == "single" and alphas.size > 1:
            parts = [self._by_rows(tasks, np.array([a]), path, columns) for a in alphas]
            return np.concatenate(parts)
        factor = self.spectrum() if path == "spectral" else self._single(float(alphas[0]))
        assert isinstance(factor.V, StreamedRows)
        rows_of = factor.V
        bare = replace(factor, V=replace(rows_of, features=replace_rows(rows_of.features, None)))
        # One copy of what all batches share; its row scale is replaced batch by batch.
        nothing = np.empty(0, dtype=np.int64)
        spec = self._delayed(_with_scale(bare, factor.scale.take(nothing)))
        calls, batches = [], list(self._batches(tasks))
        chunks = [part for part, _ in self._chunks()]
        for index, rows, chunk in batches:
            part = tasks.select(index)
            moved = Tasks(
                _renumber(part.held, rows), part.removed, _renumber(part.test, rows), part.source
            )
            X = chunks[chunk] if chunk >= 0 else self._X[rows]
            scale, Y = factor.scale.take(rows), self.Y[rows, columns]
            calls.append(self._call(_batch_predict, X, spec, scale, Y, moved, alphas, columns))
        predictions = np.empty((alphas.size, tasks.test.values.size, self.Y[:1, columns].shape[1]))
        for (index, _, _), values in zip(batches, self._compute(*calls), strict=True):
            mine = np.zeros(len(tasks), dtype=bool)
            mine[index] = True
            predictions[:, mine[tasks.test.owners]] = values
        return predictions

    def _batches(self, tasks: Tasks) -> Iterator[tuple[IntArray, IntArray, int]]:
        """Yield (tasks, rows, chunk): tasks inside one chunk together, the others in batches."""
        first = np.full(len(tasks), np.iinfo(np.int64).max)
        last = np.full(len(tasks), -1)
        for ragged in (tasks.held, tasks.test):
            chunk = np.searchsorted(self._ends, ragged.values, side="right")
            np.minimum.at(first, ragged.owners, chunk)
            np.maximum.at(last, ragged.owners, chunk)
        starts = np.concatenate([[0], self._ends[:-1]])
        inside = first == last
        for chunk in np.unique(first[inside]).tolist():
            rows = np.arange(starts[chunk], self._ends[chunk])
            yield np.flatnonzero(inside & (first == chunk)), rows, chunk
        across = np.flatnonzero(~inside)
        sizes = np.cumsum(tasks.held.sizes[across] + tasks.test.sizes[across])
        room = int(max(self._X.chunks[0]))
        for group in np.unique(sizes // room).tolist():
            index = across[sizes // room == group]
            part = tasks.select(index)
            rows = np.unique(np.concatenate([part.held.values, part.test.values]))
            yield index, rows, -1

    def _by_fold(self, tasks: Tasks, alphas: FloatArray, path: Path, columns: slice) -> FloatArray:
        """Return predictions of large folds from their Gram matrices, added up over the chunks."""
        system = self.system
        assert isinstance(system, PrimalSystem)
        assert isinstance(system.W, StreamedRows)
        gram = np.diag(system.gram) if system.gram.ndim == 1 else system.gram
        z, Ys = system.z[:, columns], system.scale.targets(self.Y[:, columns])
        bare = replace(system.W, features=replace_rows(system.W.features, None))
        nothing = np.empty(0, dtype=np.int64)
        spec = self._delayed(replace(bare, scale=system.scale.take(nothing)))
        predictions = np.empty((alphas.size, tasks.test.values.size, z.shape[1]))
        for start in range(0, len(tasks), FOLDS_AT_ONCE):
            folds = range(start, min(start + FOLDS_AT_ONCE, len(tasks)))
            sums = [self._fold_sum(system, tasks.held[j], Ys, spec) for j in folds]
            calls, places = [], []
            for j, (A, b) in zip(folds, self._compute(*sums), strict=True):
                left = fold_gram.subtract(system, gram, z, tasks.held[j], A, b)
                theta = fold_gram.solve(left, system.N[tasks.removed[j], system.inner], alphas)
                shared = self._delayed(theta)
                for part, rows, at in self._split(tasks.test[j]):
                    scale = system.scale.take(rows)
                    calls.append(self._call(_fold_predict, part[0], spec, scale, part[1], shared))
                    places.append(tasks.test.ptr[j] + at)
            for place, values in zip(places, self._compute(*calls), strict=True):
                predictions[:, place] = values
        return predictions

    def _fold_sum(self, system: PrimalSystem, held: IntArray, Ys: FloatArray, spec: Any) -> Any:
        parts = [
            self._call(_fold_moments, part[0], spec, system.scale.take(rows), part[1], Ys[rows])
            for part, rows, _ in self._split(held)
        ]
        p = system.z.shape[0]
        return tree(parts, self._call) if parts else (np.zeros((p, p)), np.zeros((p, Ys.shape[1])))

    def _split(self, rows: IntArray) -> Iterator[tuple[tuple[Any, IntArray], IntArray, IntArray]]:
        """Yield ((chunk, rows inside it), rows, positions in `rows`) for each chunk they touch."""
        chunk = np.searchsorted(self._ends, rows, side="right")
        for number, (part, span) in enumerate(self._chunks()):
            at = np.flatnonzero(chunk == number)
            if at.size:
                yield (part, rows[at] - span.start), rows[at], at


def _features(kernel: Kernel, X: Any, basis: IntArray | None, shift: float) -> Features:
    if basis is None:
        if not isinstance(kernel, Linear):
            raise InvalidInputError(
                "a dense model needs the kernel matrix of all rows, which Dask rows do not fit; "
                "pass basis=1000 (or another number of basis rows)."
            )
        return ColumnFeatures(X)
    order = np.argsort(basis)  # Dask gathers rows in order
    Z = np.empty((basis.size, X.shape[1]))
    Z[order] = X[basis[order]].compute()
    rows = KernelRows(kernel, Z)
    C = cholesky_basis(rows.block(slice(None), slice(None)), shift)
    inverse = np.ascontiguousarray(dtrtri(C, lower=1)[0].T)
    whitening = Whitening.prepare(C, X.shape[0])
    return WhitenedFeatures(CrossRows(kernel, X, Z), np.arange(basis.size), whitening, inverse)


def replace_rows(features: Features, X: Any) -> Features:
    """Return the same features of other rows."""
    if isinstance(features, WhitenedFeatures):
        assert isinstance(features.data, CrossRows)
        return replace(features, data=replace(features.data, X=X))
    assert isinstance(features, ColumnFeatures)
    return replace(features, X=X)


def _with_scale(factor: Factor, scale: RowScale) -> Factor:
    assert isinstance(factor.V, StreamedRows)
    return replace(factor, V=replace(factor.V, scale=scale), scale=scale)


def _renumber(ragged: Ragged, rows: IntArray) -> Ragged:
    return Ragged(np.searchsorted(rows, ragged.values), ragged.ptr)


def tree(parts: Sequence[Any], call: Callable[..., Any]) -> Any:
    """Return the sum of delayed parts, FAN_IN at a time."""
    level = list(parts)
    while len(level) > 1:
        level = [
            call(_add, level[i : i + FAN_IN]) if len(level[i : i + FAN_IN]) > 1 else level[i]
            for i in range(0, len(level), FAN_IN)
        ]
    return level[0]


# -- tasks: pure functions of their arguments ----------------------------------------------------


def _first(pair: tuple[_T, Any]) -> _T:
    return pair[0]


def _second(pair: tuple[Any, _T]) -> _T:
    return pair[1]


def _add(parts: Sequence[Any]) -> Any:
    total = parts[0]
    for part in parts[1:]:
        if isinstance(total, tuple):
            total = tuple(a + b for a, b in zip(total, part, strict=True))
        else:
            total = total + part
    return total


def _chunk_moments(
    X: Any, features: Features, centre: FloatArray, scale: RowScale, Ys: FloatArray, bias: bool
) -> tuple[Moments, FloatArray]:
    return moments(replace_rows(features, np.asarray(X)), centre, scale, Ys, bias=bias)


def _batch_predict(
    X: Any,
    factor: Factor,
    scale: RowScale,
    Y: FloatArray,
    tasks: Tasks,
    alphas: FloatArray,
    columns: slice,
) -> FloatArray:
    mine = _with_scale(factor, scale)
    assert isinstance(mine.V, StreamedRows)
    features = replace_rows(mine.V.features, np.asarray(X))
    mine = replace(mine, V=replace(mine.V, features=features))
    return spectral.predict(mine, Y, tasks, alphas, columns)


def _fold_moments(
    X: Any, rows: StreamedRows, scale: RowScale, index: IntArray, Ys: FloatArray
) -> tuple[FloatArray, FloatArray]:
    W = _some_rows(X, rows, scale, index)
    return W.T @ W, W.T @ Ys


def _fold_predict(
    X: Any, rows: StreamedRows, scale: RowScale, index: IntArray, theta: FloatArray
) -> FloatArray:
    W = _some_rows(X, rows, scale, index)
    return np.asarray((W / scale.root[:, None]) @ theta)


def _some_rows(X: Any, rows: StreamedRows, scale: RowScale, index: IntArray) -> FloatArray:
    features = replace_rows(rows.features, np.asarray(X)[index])
    return replace(rows, features=features, scale=scale)[slice(None)]
