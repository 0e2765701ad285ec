"""What the workers of a Dask cluster compute: pure functions of a chunk of rows and constants.

Nothing here knows Dask. Feature rows of a chunk are made a block at a time, so a task takes
O(p² + block) memory beside the chunk itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from holdfast._typing import FloatArray, IntArray
from holdfast.cluster.rows import CrossRows
from holdfast.experiments import Tasks
from holdfast.linalg import solve_small, stacked_qr
from holdfast.smoother import ColumnFeatures, Factor, Features, WhitenedFeatures
from holdfast.smoother.equations import FeatureEquations, eliminate
from holdfast.smoother.factor import FeatureFactor
from holdfast.smoother.factorise import (
    reduced,
    remainder,
    stacked_triangle,
    subtracted,
    summed,
    unpenalised_first,
)
from holdfast.smoother.moments import Moments, moments
from holdfast.smoother.rows import (
    RowBlocks,
    StreamedRows,
    centred_gram_and_rhs,
    fitted,
    gram_and_rhs,
)
from holdfast.smoother.rows import along as along_rows
from holdfast.smoother.scale import RowScale, Unpenalised
from holdfast.smoother.span import Span

_NOTHING = np.empty((0, 0))
#: The scaling and unpenalised columns of no rows, replaced by those of a task's own rows.
NO_SCALE = RowScale(np.empty(0), np.empty(0, dtype=bool), True)
NO_COLUMNS = Unpenalised(_NOTHING, _NOTHING, _NOTHING, True, ())


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
    return replace(factor, V=bare_rows(factor.V), Ys=_NOTHING, scale=NO_SCALE, N=None, span=None)


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
    """Return the sum of moments, arrays, or tuples of arrays."""
    total = parts[0]
    for part in parts[1:]:
        if isinstance(total, tuple):
            total = tuple(a + b for a, b in zip(total, part, strict=True))
        else:
            total = total + part
    return total


def chunk_moments(X: Any, part: Part, whole: Whole) -> tuple[Moments, FloatArray]:
    """Return the moments of some rows of a chunk, and the norms of their features."""
    features = with_rows(whole.features, part.rows(X))
    total, _, norms = moments(features, whole.B, part.scale, part.unpenalised, part.Ys)
    return total, norms


def on_batch(
    work: Callable[[Factor, Tasks, FloatArray], FloatArray],
    X: Any,
    part: Part,
    factor: FeatureFactor,
    N: FloatArray,
    basis: IntArray,
    tasks: Tasks,
    alphas: FloatArray,
) -> FloatArray:
    """Return ``work`` on tasks that use only these rows, and only the basis rows of `N`."""
    assert isinstance(factor.V, StreamedRows)
    V = _streamed(X, part, factor.V)
    span = Span(V.features, V.T, basis)
    return work(replace(factor, V=V, Ys=part.Ys, scale=V.scale, N=N, span=span), tasks, alphas)


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


def left_over(X: Any, part: Part, rows: StreamedRows, beta: FloatArray) -> FloatArray:
    """Return Vᵀ(Ys − Vβ) of some rows of a chunk."""
    trained = np.ones(len(part.Ys), dtype=bool)
    return remainder(_streamed(X, part, rows), beta, part.Ys, trained)


def along(X: Any, part: Part, rows: StreamedRows) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return QᵀW without the unpenalised columns, QᵀYs and QᵀQ of some rows of a chunk."""
    Q = part.unpenalised.Q
    s = along_rows(RowBlocks(_streamed(X, part, rows)), Q)[:, : rows.B.shape[1]]
    return s, Q.T @ part.Ys, Q.T @ Q


def means(sums: tuple[FloatArray, FloatArray, FloatArray]) -> tuple[FloatArray, FloatArray]:
    """Return features and targets of some rows on the unpenalised columns."""
    cross, level, corner = sums
    return solve_small(corner, cross), solve_small(corner, level)


def fold_moments(
    X: Any,
    part: Part,
    rows: StreamedRows,
    centre: tuple[FloatArray, FloatArray] | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Return (WᵀW, WᵀYs) of some rows of a chunk; with a centre, centred there and without Q."""
    blocks = RowBlocks(_streamed(X, part, rows))
    if centre is None:
        return gram_and_rhs(blocks, part.Ys)
    return centred_gram_and_rhs(blocks, part.Ys, part.unpenalised.Q, *centre)


def subtract(
    everything: tuple[FloatArray, FloatArray],
    held: tuple[FloatArray, FloatArray] | None,
    corner: FloatArray,
    N_E: FloatArray,
    floor: float,
    rotated: bool,
) -> FeatureEquations:
    """Return the equations of the rows that are not held out."""
    A, b = everything
    size = np.diag(A)[: len(A) - len(corner)].copy()
    A, b = (A.copy(), b.copy()) if held is None else (A - held[0], b - held[1])
    A, b, mean, level = eliminate(A, b, corner)
    return FeatureEquations(A, b, N_E, subtracted(size, mean, floor, rotated), mean, level)


def fresh(
    sums: tuple[FloatArray, FloatArray],
    centre: tuple[FloatArray, FloatArray],
    N_E: FloatArray,
    n_rows: int,
    rotated: bool,
) -> FeatureEquations:
    """Return the equations of training rows that were summed directly."""
    return FeatureEquations(*sums, N_E, summed(sums[0], centre[0], n_rows, rotated), *centre)


def fold_predict(X: Any, part: Part, rows: StreamedRows, models: FloatArray) -> FloatArray:
    """Return predictions (a, k, v) of some rows of a chunk."""
    return fitted(RowBlocks(_streamed(X, part, rows)), part.scale.root, models)
