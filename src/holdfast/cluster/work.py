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
from holdfast.holdout import fold_gram, spectral
from holdfast.holdout.fold_gram import TrainingMoments
from holdfast.holdout.sums import (
    RowBlocks,
    centred_gram_and_rhs,
    fitted,
    gram_and_rhs,
    weighted_sum,
)
from holdfast.smoother.factors import Factor
from holdfast.smoother.features import ColumnFeatures, Features, WhitenedFeatures
from holdfast.smoother.moments import Moments, RowScale, moments
from holdfast.smoother.systems import StreamedRows

_NOTHING = np.empty((0, 0))
#: The scaling of no rows: a place to be filled with that of a task's own rows.
NO_ROWS = RowScale(np.empty(0), np.empty(0, dtype=bool), np.empty(0), 1.0, True)


@dataclass(frozen=True)
class Part:
    """Some rows of a chunk with what belongs to them, in the form that travels.

    Attributes
    ----------
    inside : ndarray of int or None
        Which rows of the chunk; None: all.
    weights : ndarray of shape (k,) or None
        None: all one.
    Y : ndarray of shape (k, v)
        Targets.
    norm : float
        ‖√w‖ over all rows of the data.
    """

    inside: IntArray | None
    weights: FloatArray | None
    Y: FloatArray
    norm: float

    def rows(self, X: Any) -> Any:
        """Return those rows of the chunk X, which may come in pieces."""
        X = np.concatenate(X) if isinstance(X, list) else np.asarray(X)
        return X if self.inside is None else X[self.inside]

    @property
    def scale(self) -> RowScale:
        """The scaling of those rows."""
        return RowScale.of(
            np.ones(len(self.Y)) if self.weights is None else self.weights, self.norm
        )


@dataclass(frozen=True)
class Whole:
    """What the first pass shares: the features, the centre they are summed about, the bias."""

    features: Features
    centre: FloatArray
    bias: bool


# -- the same features of other rows ---------------------------------------------------------------


def bare(features: Features) -> Features:
    """Return features without rows, and without C⁻ᵀ, which rows do not need."""
    if isinstance(features, WhitenedFeatures):
        features = replace(features, inverse=_NOTHING)
    return with_rows(features, None)


def bare_rows(rows: StreamedRows) -> StreamedRows:
    """Return streamed rows without rows."""
    return replace(rows, features=bare(rows.features), scale=NO_ROWS)


def with_rows(features: Features, X: Any) -> Features:
    """Return the same features of other rows."""
    if isinstance(features, WhitenedFeatures):
        assert isinstance(features.data, CrossRows)
        return replace(features, data=replace(features.data, X=X))
    assert isinstance(features, ColumnFeatures)
    return replace(features, X=X)


def _streamed(X: Any, part: Part, rows: StreamedRows) -> StreamedRows:
    return replace(rows, features=with_rows(rows.features, part.rows(X)), scale=part.scale)


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
    features, scale = with_rows(whole.features, part.rows(X)), part.scale
    total, _, norms = moments(features, whole.centre, scale, scale.targets(part.Y), bias=whole.bias)
    return total, norms


def batch_predict(
    X: Any, part: Part, factor: Factor, N: FloatArray, tasks: Tasks, alphas: FloatArray
) -> FloatArray:
    """Return held-out predictions of tasks that concern these rows, and basis rows `N`, only."""
    assert isinstance(factor.V, StreamedRows)
    V = _streamed(X, part, factor.V)
    factor = replace(factor, V=V, scale=V.scale, N=N)
    return spectral.predict(factor, part.Y, tasks, alphas)


def drift(X: Any, part: Part, rows: StreamedRows) -> tuple[FloatArray, FloatArray, float]:
    """Return Σ q_i W_i without the bias column, Σ q_i √w_i y_i and Σ q_i²."""
    scale = part.scale
    s = weighted_sum(RowBlocks(_streamed(X, part, rows)), scale.q)
    return s[: s.size - rows.bias], scale.q @ scale.targets(part.Y), float(scale.q @ scale.q)


def mean(sums: tuple[FloatArray, FloatArray, float]) -> tuple[FloatArray, FloatArray]:
    """Return the means of features and targets in units of the bias column."""
    return sums[0] / sums[2], sums[1] / sums[2]


def fold_moments(
    X: Any,
    part: Part,
    rows: StreamedRows,
    centre: tuple[FloatArray, FloatArray] | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Return (WᵀW, Wᵀ√wY) of some rows of a chunk; with a centre, about it and without the bias."""
    blocks, scale = RowBlocks(_streamed(X, part, rows)), part.scale
    Ys = scale.targets(part.Y)
    if centre is None:
        return gram_and_rhs(blocks, Ys)
    return centred_gram_and_rhs(blocks, Ys, scale.q, *centre)


def subtract(
    everything: tuple[FloatArray, FloatArray],
    held: tuple[FloatArray, FloatArray],
    left: float | None,
) -> TrainingMoments:
    """Return the normal equations of the rows that are not held out."""
    return fold_gram.subtract(*everything, *held, left)


def nothing_held(everything: tuple[FloatArray, FloatArray], bias: bool) -> TrainingMoments:
    """Return the normal equations of all rows."""
    A, b = everything
    return fold_gram.subtract(A, b, np.zeros_like(A), np.zeros_like(b), 1.0 if bias else None)


def fresh(
    sums: tuple[FloatArray, FloatArray], centre: tuple[FloatArray, FloatArray] | None
) -> TrainingMoments:
    """Return the normal equations of rows that were summed about their own mean."""
    means = (None, None) if centre is None else centre
    return TrainingMoments(*sums, *means)


def solve(left: TrainingMoments, N_E: FloatArray, alphas: FloatArray) -> FloatArray:
    """Return θ (a, p, v) of one experiment."""
    return fold_gram.solve(left, N_E, alphas)


def fold_predict(X: Any, part: Part, rows: StreamedRows, theta: FloatArray) -> FloatArray:
    """Return predictions (a, k, v) of some rows of a chunk."""
    return fitted(RowBlocks(_streamed(X, part, rows)), part.scale.root, theta)
