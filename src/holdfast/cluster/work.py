"""What the workers of a Dask cluster compute: pure functions of a chunk of rows and constants.

Nothing here knows Dask. Feature rows of a chunk are made a block at a time, so a task takes
O(p² + block) memory beside the chunk itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from holdfast._typing import FloatArray, IntArray
from holdfast.cluster.rows import CrossRows
from holdfast.experiments import Tasks
from holdfast.linalg import stacked_qr
from holdfast.smoother import ColumnFeatures, Features, WhitenedFeatures
from holdfast.smoother.factor import FeatureFactor
from holdfast.smoother.factorise import reduced, stacked_triangle, unpenalised_first
from holdfast.smoother.moments import Moments, moments
from holdfast.smoother.rows import RowBlocks, StreamedRows, fitted, gram_and_rhs
from holdfast.smoother.scale import RowScale, Targets, Unpenalised
from holdfast.smoother.source import HeldSums, Identity

_NOTHING = np.empty((0, 0))
#: The scaling and unpenalised columns of no rows, replaced by those of a task's own rows.
NO_SCALE = RowScale(np.empty(0), np.empty(0, dtype=bool), True)
NO_COLUMNS = Unpenalised(_NOTHING, _NOTHING, _NOTHING, _NOTHING, True, ())


@dataclass(frozen=True)
class Part:
    """Some rows of a chunk, with their weights and targets, as they are sent to a worker.

    Attributes
    ----------
    inside : ndarray of int or None
        Which rows of the chunk; None: all.
    weights : ndarray of shape (k,)
    Ys : ndarray of shape (k, v)
        √w y.
    unpenalised : Unpenalised
        Of those rows.
    """

    inside: IntArray | None
    weights: FloatArray
    Ys: FloatArray
    unpenalised: Unpenalised

    def rows(self, X: Any) -> Any:
        """Return those rows of the chunk X, which may come in pieces."""
        X = np.concatenate(X) if isinstance(X, list) else np.asarray(X)
        return X if self.inside is None else X[self.inside]

    @property
    def scale(self) -> RowScale:
        """The scaling of those rows."""
        return RowScale.of(self.weights)


@dataclass(frozen=True)
class Whole:
    """What all tasks of the first pass share: the features, and what centring subtracts."""

    features: Features
    B: FloatArray


# -- the same features of other rows ---------------------------------------------------------------


def bare(features: Features) -> Features:
    """Return features without their rows, and without C⁻ᵀ, which rows do not need."""
    if isinstance(features, WhitenedFeatures):
        features = replace(features, inverse=_NOTHING)
    return with_rows(features, None)


def bare_rows(rows: StreamedRows) -> StreamedRows:
    """Return streamed rows without the data behind them."""
    return replace(rows, features=bare(rows.features), scale=NO_SCALE, unpenalised=NO_COLUMNS)


def bare_factor(factor: FeatureFactor) -> FeatureFactor:
    """Return a factor without its rows, their targets and constraints."""
    assert isinstance(factor.V, StreamedRows)
    V, nothing = bare_rows(factor.V), factor.targets.take(np.empty(0, dtype=np.int64))
    return replace(
        factor, V=V, targets=nothing, scale=NO_SCALE, unpenalised=NO_COLUMNS, features=V.features,
        N=_NOTHING,
    )  # fmt: skip


def with_rows(features: Features, X: Any) -> Features:
    """Return the same features of other rows."""
    if isinstance(features, WhitenedFeatures):
        assert isinstance(features.data, CrossRows)
        return replace(features, data=replace(features.data, X=X))
    assert isinstance(features, ColumnFeatures)
    return replace(features, X=X)


def _streamed(X: Any, part: Part, rows: StreamedRows) -> StreamedRows:
    features = with_rows(rows.features, part.rows(X))
    return replace(rows, features=features, scale=part.scale, unpenalised=part.unpenalised)


# -- tasks -----------------------------------------------------------------------------------------


def item(pair: Sequence[Any], index: int) -> Any:
    """Return one of several results."""
    return pair[index]


def take(X: Any, inside: IntArray) -> Any:
    """Return rows of a chunk."""
    return np.asarray(X)[inside]


def add(parts: Sequence[Any]) -> Any:
    """Return the sum of several tuples, or lists, of things that can be added."""
    first, *others = parts
    total = list(first)
    for part in others:
        total = [a + b for a, b in zip(total, part, strict=True)]
    return tuple(total)


def chunk_moments(
    X: Any, part: Part, whole: Whole, owner: IntArray, count: int
) -> tuple[tuple[Moments, ...], FloatArray]:
    """Return the moments of each set, then of all of some rows, and the norms of their features.

    `owner` says which of the `count` sets a row is in, −1 for none.
    """
    features = with_rows(whole.features, part.rows(X))
    sets = [np.flatnonzero(owner == j) for j in range(count)]
    here = [rows for rows in sets if rows.size]
    total, found, norms = moments(
        features, whole.B, part.scale, part.unpenalised, part.Ys, sets=here
    )
    s, p = whole.B.shape
    parts = iter(found)
    nothing = Moments.zeros(p, s, part.Ys.shape[1])
    return (*(next(parts) if rows.size else nothing for rows in sets), total), norms


def on_batch(
    work: Identity,
    X: Any,
    part: Part,
    targets: Targets,
    factor: FeatureFactor,
    N: FloatArray,
    basis: IntArray,
    tasks: Tasks,
    alphas: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Return ``work`` on tasks that use only these rows, and only the basis rows of `N`."""
    assert isinstance(factor.V, StreamedRows)
    V = _streamed(X, part, factor.V)
    own = replace(
        factor, V=V, targets=targets, scale=V.scale, unpenalised=V.unpenalised,
        features=V.features, N=N, basis=basis,
    )  # fmt: skip
    return work(own, tasks, alphas)


def normal(X: Any, part: Part, rows: StreamedRows, x: FloatArray) -> tuple[FloatArray]:
    """Return WᵀWx (p, k) of some rows, without the unpenalised columns."""
    p = rows.B.shape[1]
    total = np.zeros_like(x)
    for _, W in RowBlocks(_streamed(X, part, rows), once=True):
        total += W[:, :p].T @ (W[:, :p] @ x)
    return (total,)


def triangle(X: Any, part: Part, rows: StreamedRows) -> FloatArray:
    """Return the triangle R of a QR factorisation of some rows, without unpenalised columns."""
    p = rows.B.shape[1]
    blocks = RowBlocks(_streamed(X, part, rows), once=True)
    return stacked_qr((W[:, :p] for _, W in blocks), p, 0.0).unordered()


def stack(parts: Sequence[FloatArray]) -> FloatArray:
    """Return the triangle of stacked triangles."""
    return stacked_qr(parts, parts[0].shape[1], 0.0).unordered()


def reduce_rows(X: Any, part: Part, rows: StreamedRows) -> FloatArray:
    """Return the triangle of some rows and their targets, by QR."""
    order = unpenalised_first(*rows.B.shape[::-1])
    return reduced(RowBlocks(_streamed(X, part, rows), once=True), part.Ys, order)[0]


def stack_reduced(parts: Sequence[FloatArray], size: int) -> FloatArray:
    """Return the triangle of several such triangles, of `size` columns beside the targets."""
    return stacked_triangle(parts, size)


def fold_moments(X: Any, part: Part, rows: StreamedRows) -> HeldSums:
    """Return (WᵀW, WᵀYs) of some rows of a chunk."""
    return gram_and_rhs(RowBlocks(_streamed(X, part, rows), once=True), part.Ys)


def fold_predict(X: Any, part: Part, rows: StreamedRows, models: FloatArray) -> FloatArray:
    """Return predictions (a, k, v) of some rows of a chunk."""
    return fitted(RowBlocks(_streamed(X, part, rows), once=True), part.scale.root, models)
