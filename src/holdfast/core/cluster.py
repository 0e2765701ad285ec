"""Rows that live in a Dask cluster, as the source of a smoother: the same sums, run as Dask tasks.

X stays where it is. Targets, weights and groups are small and stay on the client; each task gets
those of its rows. One pass over the chunks gives the moments of all rows, and of each fold, added
up as a tree; the algebra of the model (p × p) runs on the client. Held-out predictions take another
pass. For small held-out sets, rows of X travel to one worker (leave-one-out: one task per chunk,
and nothing travels). For large folds, models travel to the chunks that hold their test rows.

Every task is a pure function of its inputs, and the graph holds everything it needs, so a worker
that dies costs time and nothing else. What all tasks share is in the graph only once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from holdfast._typing import FloatArray, IntArray
from holdfast.core import refit, residuals
from holdfast.core.data import Targets, Unpenalised, WeightedData, Weights
from holdfast.core.experiments import Ragged, Tasks
from holdfast.core.factor import FeatureFactor
from holdfast.core.features import BasisFeatures, ColumnFeatures, Features
from holdfast.core.lapack import one_blas_thread
from holdfast.core.rows import StreamedRows, blocks_of, fitted, gram_and_products
from holdfast.core.source import Moments, Source, Sums, moments
from holdfast.data.watched import compute
from holdfast.progress import report

#: Partial sums that one task of a tree adds up.
FAN_IN = 8

_NOTHING = np.empty((0, 0))
#: Weights and unpenalised columns of no rows, replaced by those of a task's own rows.
_NO_DATA = WeightedData(
    Weights.of(np.empty(0)),
    Unpenalised(_NOTHING, _NOTHING, _NOTHING, _NOTHING, True, ()),
    Targets(_NOTHING, _NOTHING, _NOTHING, np.empty(0)),
)


@dataclass(frozen=True)
class Part:
    """Some rows of a chunk, with what belongs to them, as they are sent to a worker.

    Attributes
    ----------
    inside : ndarray of int or None
        Which rows of the chunk; None: all.
    data : WeightedData
        Of those rows.
    """

    inside: IntArray | None
    data: WeightedData

    def rows(self, X: Any) -> Any:
        """Return those rows of the chunk X, which may come in pieces."""
        X = np.concatenate(X) if isinstance(X, list) else np.asarray(X)
        return X if self.inside is None else X[self.inside]


class DaskSource(Source):
    """Rows of a Dask array.

    Parameters
    ----------
    features, data
        As for `Source`.
    X : dask array of shape (m, d)
    """

    keeps = False

    def __init__(self, features: Features, data: WeightedData, X: Any) -> None:
        super().__init__(features, data)
        self.X = X
        self._chunks = list(X.to_delayed().ravel())
        self._ends = np.cumsum(X.chunks[0])

    def portable(self) -> Features:
        """Return the features for new rows, without the rows of the data."""
        return _bare(self.features)

    def level(self) -> FloatArray:
        """Return a first estimate of B (s, p), from the basis rows, which are on the client."""
        phi, unpenalised = self.features.at_basis(), self.data.unpenalised
        if phi is None or not unpenalised.count or not unpenalised.constant:
            return super().level()
        return np.asarray(phi.mean(axis=0)[None] / unpenalised.U[0])

    # -- which rows are where ----------------------------------------------------------------------

    def _split(self, rows: IntArray) -> Iterator[tuple[int, IntArray, IntArray]]:
        """Yield (chunk, row numbers inside it, positions in `rows`) for each chunk they touch."""
        chunk = np.searchsorted(self._ends, rows, side="right")
        order = np.argsort(chunk, kind="stable")
        numbers, starts = np.unique(chunk[order], return_index=True)
        for number, at in zip(numbers.tolist(), np.split(order, starts[1:]), strict=True):
            start = self._ends[number - 1] if number else 0
            yield number, rows[at] - start, at

    def _parts(self, rows: IntArray, Ys: FloatArray) -> Iterator[tuple[Any, Part, IntArray]]:
        """Yield (chunk, some of its rows with what belongs to them, positions) for each chunk.

        Ys (m, v) has the targets of all rows.
        """
        for number, inside, at in self._split(rows):
            yield self._chunks[number], self._part(rows[at], inside, number, Ys), at

    def _part(self, rows: IntArray, inside: IntArray | None, number: int, Ys: FloatArray) -> Part:
        size = self._ends[number] - (self._ends[number - 1] if number else 0)
        if inside is not None and np.array_equal(inside, np.arange(size)):
            inside = None
        weights = Weights.of(self.data.weights.values[rows])
        targets = Targets(Ys[rows], Ys[rows], self.data.targets.level, self.data.targets.std)
        return Part(inside, WeightedData(weights, self.data.unpenalised.take(rows), targets))

    @property
    def _no_targets(self) -> FloatArray:
        return self.data.targets.Ys[:, :0]

    # -- sums over rows ----------------------------------------------------------------------------

    def moments(
        self, B: FloatArray, W: FloatArray | None, sets: Ragged | None
    ) -> tuple[Moments, Sequence[Moments]]:
        """Return the sums of all rows, and those of some sets."""
        shared = _share((_bare(self.features), B))
        trained, owner = self.data.weights.rows, np.full(len(self.data), -1)
        count = 0 if sets is None else len(sets)
        if sets is not None:
            owner[sets.values] = sets.owners
        calls = [
            _call(_chunk_moments, chunk, part, shared, owner[trained[at]], count)
            for chunk, part, at in self._parts(trained, self.data.targets.Ys)
        ]
        *parts, total = _compute(_tree(calls, _add))[0]
        return total, parts

    def normal(self, W: Any, p: int, x: FloatArray) -> FloatArray:
        """Return WᵀWx (p, k) over the trained rows, the unpenalised columns left out."""
        raise AssertionError("streamed rows are measured by their Gram matrix")

    def reduced(self, W: StreamedRows, train: IntArray, Ys: FloatArray) -> FloatArray:
        """Return the triangle of some rows and their targets Ys (k, v), for `refit`."""
        shared, whole = _share(_bare_rows(W)), np.zeros((len(self.data), Ys.shape[1]))
        whole[train] = Ys
        parts = self._parts(train, whole)
        calls = [_call(_chunk_reduced, chunk, part, shared) for chunk, part, _ in parts]
        stacked = partial(refit.stacked_triangle, size=W.shape[1])
        return np.asarray(_compute(_tree(calls, stacked))[0])

    def sums(self, W: Any, sets: Ragged, Ys: FloatArray) -> list[Sums]:
        """Return WᵀW and WᵀYs of each of some sets, added up over the chunks."""
        shared, trees = _share(_bare_rows(W)), []
        for j in range(len(sets)):
            parts = self._parts(sets[j], Ys)
            trees.append(_tree([_call(_chunk_sums, *part, shared) for *part, _ in parts], _add))
        return list(_compute(*trees))

    def fitted_each(self, W: Any, sets: Ragged, models: Sequence[FloatArray]) -> list[FloatArray]:
        """Return f (c, k) on each of some sets of rows by its own models (p + s, c).

        Models travel to the chunks that hold their rows.
        """
        shared, calls, places = _share(_bare_rows(W)), [], []
        fits = [np.empty((models[j].shape[1], sets[j].size)) for j in range(len(sets))]
        for j, own in enumerate(models):
            mine = _share(own)
            for chunk, part, at in self._parts(sets[j], self._no_targets):
                calls.append(_call(_chunk_fitted, chunk, part, shared, mine))
                places.append((j, at))
        for (j, at), f in zip(places, _compute(*calls), strict=True):
            fits[j][:, at] = f
        return fits

    # -- the identity, where the rows are ----------------------------------------------------------

    def held_out(
        self, factor: FeatureFactor, tasks: Tasks, alphas: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return predictions from held-out rows that travel to a worker, batch by batch."""
        shared = _share(_bare_factor(factor))
        calls, places, targets = [], [], factor.data.targets
        for index in self._batches(tasks):
            part = tasks.select(index)
            rows = np.unique(np.concatenate([part.held.values, part.test.values]))
            out = np.unique(part.removed.values)
            rows_there = replace(
                part,
                held=_renumber(part.held, rows),
                removed=_renumber(part.removed, out),
                test=_renumber(part.test, rows),
            )
            pieces = list(self._split(rows))
            if len(pieces) == 1:
                number, inside, _ = pieces[0]
                X, own = self._chunks[number], self._part(rows, inside, number, targets.Ys)
            else:
                X = [_call(_take, self._chunks[n], inside) for n, inside, _ in pieces]
                own = self._part(rows, None, 0, targets.Ys)
            own = replace(own, data=replace(own.data, targets=targets.take(rows)))
            sent = own, shared, factor.N[out], out
            calls.append(_call(_on_batch, X, *sent, rows_there, alphas))
            places.append((index, tasks.test.where(index).values))
        values = np.empty((alphas.size, tasks.test.values.size, targets.count))
        error = np.empty((alphas.size, len(tasks)))
        for done, ((index, place), results) in enumerate(
            zip(places, _compute(*calls), strict=True)
        ):
            values[:, place], error[:, index] = results
            report(done + 1, len(places), "batches of held-out rows")
        return values, error

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


def _renumber(ragged: Ragged, rows: IntArray) -> Ragged:
    return Ragged(np.searchsorted(rows, ragged.values), ragged.ptr)


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


def _tree(parts: Sequence[Any], combine: Callable[[Sequence[Any]], Any]) -> Any:
    """Return the combination of delayed parts, FAN_IN at a time."""
    level = list(parts)
    while len(level) > 1:
        lots = [level[i : i + FAN_IN] for i in range(0, len(level), FAN_IN)]
        level = [_call(combine, lot) if len(lot) > 1 else lot[0] for lot in lots]
    return level[0]


# -- what workers compute: pure functions of a chunk of rows and constants -------------------------


def _bare(features: Features) -> Features:
    """Return features without their rows, and without C⁻ᵀ, which rows do not need."""
    if isinstance(features, BasisFeatures):
        features = replace(features, inverse=_NOTHING)
    return _with_rows(features, None)


def _bare_rows(rows: StreamedRows) -> StreamedRows:
    """Return streamed rows without the data behind them."""
    return replace(rows, features=_bare(rows.features), data=_NO_DATA)


def _bare_factor(factor: FeatureFactor) -> FeatureFactor:
    """Return a factor without its rows, their targets and constraints."""
    assert isinstance(factor.V, StreamedRows)
    V = _bare_rows(factor.V)
    return replace(factor, V=V, data=_NO_DATA, features=V.features, N=_NOTHING)


def _with_rows(features: Features, X: Any) -> Features:
    """Return the same features of other rows."""
    if isinstance(features, BasisFeatures):
        data: Any = features.data
        return replace(features, data=replace(data, X=X))
    assert isinstance(features, ColumnFeatures)
    return replace(features, X=X)


def _streamed(X: Any, part: Part, rows: StreamedRows) -> StreamedRows:
    return replace(rows, features=_with_rows(rows.features, part.rows(X)), data=part.data)


def _take(X: Any, inside: IntArray) -> Any:
    """Return rows of a chunk."""
    return np.asarray(X)[inside]


def _add(parts: Sequence[Any]) -> Any:
    """Return the sum of several tuples of things that can be added."""
    first, *others = parts
    total = list(first)
    for part in others:
        total = [a + b for a, b in zip(total, part, strict=True)]
    return tuple(total)


def _chunk_moments(
    X: Any, part: Part, shared: tuple[Features, FloatArray], owner: IntArray, count: int
) -> tuple[Moments, ...]:
    """Return the moments of each set, then those of all rows; `owner` says in which set each is."""
    features, B = shared
    sets = [np.flatnonzero(owner == j) for j in range(count)]
    here = [rows for rows in sets if rows.size]
    total, own_sums = moments(_with_rows(features, part.rows(X)), B, part.data, sets=here)
    parts, nothing = iter(own_sums), Moments.zeros(B.shape[1], B.shape[0], part.data.targets.count)
    return (*(next(parts) if rows.size else nothing for rows in sets), total)


def _chunk_reduced(X: Any, part: Part, rows: StreamedRows) -> FloatArray:
    """Return the triangle of some rows and their targets."""
    (s, p), own, Ys = rows.B.shape, _streamed(X, part, rows), part.data.targets.Ys
    return refit.reduced(((W, Ys[at]) for at, W in blocks_of(own)), p, s)


def _chunk_sums(X: Any, part: Part, rows: StreamedRows) -> Sums:
    """Return (WᵀW, WᵀYs) of some rows of a chunk."""
    every = np.arange(len(part.data))
    return gram_and_products(_streamed(X, part, rows), every, part.data.targets.Ys)


def _chunk_fitted(X: Any, part: Part, rows: StreamedRows, models: FloatArray) -> FloatArray:
    """Return predictions (c, k) of some rows of a chunk by models (p + s, c)."""
    own, every = _streamed(X, part, rows), np.arange(len(part.data))
    return fitted(own, every, part.data.weights.root, models)


def _on_batch(
    X: Any,
    part: Part,
    factor: FeatureFactor,
    N: FloatArray,
    basis: IntArray,
    tasks: Tasks,
    alphas: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Return held-out predictions of tasks that use only these rows, and the basis rows of `N`."""
    assert isinstance(factor.V, StreamedRows)
    V = _streamed(X, part, factor.V)
    own = replace(factor, V=V, data=part.data, features=V.features, N=N, basis=basis)
    return residuals.held_out(own, tasks, alphas)
