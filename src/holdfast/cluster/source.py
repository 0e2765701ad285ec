"""Rows that live in a Dask cluster, as the source of a smoother: the same sums, run as Dask tasks.

One pass over the chunks gives the moments of all rows, and of each fold, added up as a tree; the
algebra of the model (p × p) runs on the client. Held-out predictions take another pass. For small
held-out sets, rows of X travel to one worker (leave-one-out: one task per chunk, and nothing
travels). For large folds, models travel to the chunks that hold their test rows.

Every task is a pure function of its inputs, and the graph holds everything it needs, so a worker
that dies costs time and nothing else. What all tasks share is in the graph only once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from holdfast._typing import FloatArray, IntArray
from holdfast.cluster import work
from holdfast.data.watched import compute
from holdfast.experiments import Ragged, Tasks
from holdfast.linalg import Graded, one_blas_thread, run_pieces, stacked_qr
from holdfast.progress import report
from holdfast.smoother.factorise import unpenalised_first
from holdfast.smoother.features import Features
from holdfast.smoother.moments import Moments
from holdfast.smoother.rows import StreamedRows
from holdfast.smoother.scale import RowScale, Targets, Unpenalised
from holdfast.smoother.source import HeldSums, Identity, Source

if TYPE_CHECKING:
    from holdfast.smoother.factor import FeatureFactor

__all__ = ["DaskSource"]

#: Partial sums that one task of a tree adds up.
FAN_IN = 8
#: Folds whose sums are on the client at once.
FOLDS_AT_ONCE = 64


class DaskSource(Source):
    """Rows of a Dask array.

    Parameters
    ----------
    features, scale, unpenalised, targets
        As for `Source`.
    X : dask array of shape (m, d)
    """

    keeps = False

    def __init__(
        self,
        features: Features,
        scale: RowScale,
        unpenalised: Unpenalised,
        targets: Targets,
        X: Any,
    ) -> None:
        super().__init__(features, scale, unpenalised, targets)
        self.X = X
        self._chunks = list(X.to_delayed().ravel())
        self._ends = np.cumsum(X.chunks[0])

    def portable(self) -> Features:
        """Return the features for new rows, without the rows of the data."""
        return work.bare(self.features)

    def level(self) -> FloatArray:
        """Return a first estimate of B (s, p), from the basis rows, which are on the client."""
        phi, U = self.features.at_basis(), self.unpenalised.U
        if phi is None or not U.shape[1] or not self.unpenalised.constant:
            return super().level()
        return np.asarray(phi.mean(axis=0)[None] / U[0])

    # -- which rows are where ----------------------------------------------------------------------

    def _split(self, rows: IntArray) -> Iterator[tuple[int, IntArray, IntArray]]:
        """Yield (chunk, row numbers inside it, positions in `rows`) for each chunk they touch."""
        chunk = np.searchsorted(self._ends, rows, side="right")
        order = np.argsort(chunk, kind="stable")
        numbers, starts = np.unique(chunk[order], return_index=True)
        for number, at in zip(numbers.tolist(), np.split(order, starts[1:]), strict=True):
            start = self._ends[number - 1] if number else 0
            yield number, rows[at] - start, at

    def _parts(self, rows: IntArray, Ys: FloatArray) -> Iterator[tuple[Any, work.Part, IntArray]]:
        """Yield (chunk, some of its rows with what belongs to them, positions) for each chunk.

        Ys (m, v) has the targets of all rows.
        """
        for number, inside, at in self._split(rows):
            yield self._chunks[number], self._part(rows[at], inside, number, Ys), at

    def _part(
        self, rows: IntArray, inside: IntArray | None, number: int, Ys: FloatArray
    ) -> work.Part:
        size = self._ends[number] - (self._ends[number - 1] if number else 0)
        if inside is not None and np.array_equal(inside, np.arange(size)):
            inside = None
        root, trained = self.scale.root[rows], self.scale.trained[rows]
        return work.Part(inside, root * root * trained, Ys[rows], self.unpenalised.take(rows))

    @property
    def _no_targets(self) -> FloatArray:
        return self.targets.Ys[:, :0]

    # -- sums over rows ----------------------------------------------------------------------------

    def moments(
        self, B: FloatArray, W: FloatArray | None, sets: Ragged | None
    ) -> tuple[Moments, Sequence[Moments], FloatArray]:
        """Return the sums of all rows, those of some sets, and the squared length of each row."""
        shared = _share(work.Whole(work.bare(self.features), B))
        trained = np.flatnonzero(self.scale.trained)
        owner = np.full(self.scale.trained.size, -1)
        count = 0 if sets is None else len(sets)
        if sets is not None:
            owner[sets.values] = sets.owners
        calls, places = [], []
        # Chunks without a trained row add nothing, and their norms are not needed elsewhere.
        for chunk, part, at in self._parts(trained, self.targets.Ys):
            rows = trained[at]
            calls.append(_call(work.chunk_moments, chunk, part, shared, owner[rows], count))
            places.append(rows)
        sums, lengths = _compute(
            _tree([_call(work.item, pair, 0) for pair in calls]),
            [_call(work.item, pair, 1) for pair in calls],
        )
        norms = np.zeros(owner.size)
        for at, values in zip(places, lengths, strict=True):
            norms[at] = values
        *parts, total = sums
        return total, parts, norms

    def triangle(self, W: Any, p: int, ridge: float) -> Graded:
        """Return the triangular factor of the trained rows, from QR on the workers."""
        shared = _share(work.bare_rows(W))
        parts = self._parts(np.flatnonzero(self.scale.trained), self._no_targets)
        calls = [_call(work.triangle, chunk, part, shared) for chunk, part, _ in parts]
        return stacked_qr(_compute(_tree(calls, work.stack)), p, ridge)

    def normal(self, W: Any, p: int, x: FloatArray) -> FloatArray:
        """Return WᵀWx (p, k) over the trained rows, the unpenalised columns left out."""
        shared, vectors = _share(work.bare_rows(W)), _share(x)
        parts = self._parts(np.flatnonzero(self.scale.trained), self._no_targets)
        calls = [_call(work.normal, chunk, part, shared, vectors) for chunk, part, _ in parts]
        return np.asarray(_compute(_tree(calls))[0][0])

    def reduced(
        self, W: StreamedRows, train: IntArray, Ys: FloatArray
    ) -> tuple[FloatArray, IntArray]:
        """Return the triangle of some rows and their targets Ys (k, v), and the column order."""
        shared, whole = _share(work.bare_rows(W)), np.zeros((self.scale.root.size, Ys.shape[1]))
        whole[train] = Ys
        calls = [
            _call(work.reduce_rows, chunk, part, shared)
            for chunk, part, _ in self._parts(train, whole)
        ]
        stack = partial(work.stack_reduced, size=W.shape[1])
        return _compute(_tree(calls, stack))[0], unpenalised_first(*W.B.shape[::-1])

    def fitted(self, W: Any, rows: IntArray, theta: FloatArray) -> FloatArray:
        """Return f (a, k, v) of some rows for models θ (a, p + s, v)."""
        shared, models = _share(work.bare_rows(W)), _share(theta)
        parts = list(self._parts(rows, self._no_targets))
        calls = [_call(work.fold_predict, chunk, part, shared, models) for chunk, part, _ in parts]
        values = np.empty((len(theta), rows.size, theta.shape[2]))
        for (_, _, at), found in zip(parts, _compute(*calls), strict=True):
            values[:, at] = found
        return values

    def sums(self, W: Any, sets: Ragged, Ys: FloatArray) -> list[HeldSums]:
        """Return WᵀW and WᵀYs of each of some sets, added up over the chunks."""
        shared, trees = _share(work.bare_rows(W)), []
        for j in range(len(sets)):
            parts = self._parts(sets[j], Ys)
            trees.append(_tree([_call(work.fold_moments, *part, shared) for *part, _ in parts]))
        return list(_compute(*trees))

    def folds(
        self,
        W: Any,
        tasks: Tasks,
        Ys: FloatArray,
        known: Callable[[int], HeldSums | None],
        models: Callable[[int, HeldSums], FloatArray],
        put: Callable[[int, IntArray | slice, FloatArray], None],
    ) -> None:
        """Hand the predictions of each task's own models over, for its test rows.

        Models are solved on the client, and travel to the chunks that hold their test rows.
        """
        shared = _share(work.bare_rows(W))
        for start in range(0, len(tasks), FOLDS_AT_ONCE):
            batch = range(start, min(start + FOLDS_AT_ONCE, len(tasks)))
            found = {j: known(j) for j in batch}
            missing = np.array([j for j in batch if found[j] is None], dtype=np.int64)
            if missing.size:
                fresh = self.sums(W, tasks.held.items(missing), Ys)
                found.update(zip(missing.tolist(), fresh, strict=True))
            solved: dict[int, FloatArray] = {}

            def solve(j: int, found: Any = found, solved: Any = solved) -> None:
                solved[j] = models(j, found[j])

            run_pieces(solve, batch)
            calls, places = [], []
            for j in batch:
                mine = _share(solved[j][None])
                for chunk, part, at in self._parts(tasks.test[j], self._no_targets):
                    calls.append(_call(work.fold_predict, chunk, part, shared, mine))
                    places.append((j, at))
            for place, (f,) in zip(places, _compute(*calls), strict=True):
                put(*place, f)
            report(batch.stop, len(tasks), "folds")

    # -- the identity, where the rows are ----------------------------------------------------------

    def run(
        self, work_on: Identity, factor: FeatureFactor, tasks: Tasks, alphas: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return predictions from held-out rows that travel to a worker, batch by batch."""
        assert isinstance(factor.V, StreamedRows)
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
            pieces = list(self._split(rows))
            if len(pieces) == 1:
                number, inside, _ = pieces[0]
                X, own = self._chunks[number], self._part(rows, inside, number, factor.targets.Ys)
            else:
                X = [_call(work.take, self._chunks[n], inside) for n, inside, _ in pieces]
                own = self._part(rows, None, 0, factor.targets.Ys)
            targets = factor.targets.take(rows)
            sent = own, targets, shared, factor.N[out], out
            calls.append(_call(work.on_batch, work_on, X, *sent, moved, alphas))
            places.append((index, tasks.test.where(index).values))
        values = np.empty((alphas.size, tasks.test.values.size, factor.n_targets))
        error = np.empty((alphas.size, len(tasks)))
        for (index, place), found in zip(places, _compute(*calls), strict=True):
            values[:, place], error[:, index] = found
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
