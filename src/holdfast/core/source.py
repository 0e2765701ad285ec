"""Where the rows are: what a smoother of features asks of all or many of them.

`Source` does it here, chunk by chunk, on rows that are kept or recomputed; `holdfast.core.cluster`
has a source that does the same on a Dask cluster.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from holdfast._typing import FloatArray, IntArray
from holdfast.core import refit, residuals
from holdfast.core.coordinates import Triangle, triangle_of_rows
from holdfast.core.data import WeightedData
from holdfast.core.experiments import Ragged, Tasks
from holdfast.core.factor import FeatureFactor
from holdfast.core.features import Features
from holdfast.core.lapack import run_pieces
from holdfast.core.rows import FeatureRows, StreamedRows, blocks_of, fitted, gram_and_products
from holdfast.core.sums import Moments, moments, sample_level
from holdfast.data.indices import as_slice

#: WᵀW and WᵀYs of some rows.
Sums = tuple[FloatArray, FloatArray]


class Source:
    """Rows in this process.

    Parameters
    ----------
    features : Features
    data : WeightedData
    """

    #: Whether rows may be kept in memory.
    keeps: bool = True

    def __init__(self, features: Features, data: WeightedData) -> None:
        self.features, self.data = features, data

    def portable(self) -> Features:
        """Return the features for new rows, without the rows of the data."""
        return self.features.portable()

    def level(self) -> FloatArray:
        """Return a first estimate of B (s, p), from a sample of rows."""
        return sample_level(self.features, self.data)

    def moments(
        self, B: FloatArray, W: FloatArray | None, sets: Ragged | None
    ) -> tuple[Moments, Sequence[Moments]]:
        """Return the sums of all rows and those of some sets; rows are stored in `W` if given."""
        index = [] if sets is None else [as_slice(sets[j]) for j in range(len(sets))]
        return moments(self.features, B, self.data, W=W, sets=index)

    def triangle(self, W: FeatureRows, p: int, ridge: float) -> Triangle:
        """Return the triangle of the trained rows, with √ridge rows below them, by QR."""
        trained = self.data.weights.trained
        blocks = (rows[trained[part], :p] for part, rows in blocks_of(W))
        return triangle_of_rows(blocks, p, ridge)

    def normal(self, W: FeatureRows, p: int, x: FloatArray) -> FloatArray:
        """Return WᵀWx (p, k) over the trained rows, the unpenalised columns left out."""
        weights, total = self.data.weights, np.zeros_like(x)
        for part, block in blocks_of(W):
            rows = block[:, :p]
            if not weights.trained[part].all():
                rows = rows * weights.trained[part, None]
            total += rows.T @ (rows @ x)
        return total

    def reduced(self, W: StreamedRows, train: IntArray, Ys: FloatArray) -> FloatArray:
        """Return the triangle of some rows and their targets Ys (k, v), for `refit`."""
        s, p = W.B.shape
        return refit.reduced(((rows, Ys[part]) for part, rows in blocks_of(W, train)), p, s)

    def fitted(self, W: FeatureRows, rows: IntArray, theta: FloatArray) -> FloatArray:
        """Return f (a, k, v) of some rows for models θ (a, p + s, v)."""
        (a, p, v), whole = theta.shape, Ragged.from_arrays([rows])
        flat = theta.transpose(1, 0, 2).reshape(p, a * v)
        (values,) = self.fitted_each(W, whole, [flat])
        return values.reshape(a, v, rows.size).swapaxes(1, 2)

    def products(self, W: FeatureRows, sets: Ragged, Ys: FloatArray) -> list[FloatArray]:
        """Return WᵀYs of each of some sets."""
        found = [np.zeros((W.shape[1], Ys.shape[1])) for _ in range(len(sets))]
        for j, total in enumerate(found):
            own = Ys[sets[j]]
            for part, rows in blocks_of(W, sets[j]):
                total += rows.T @ own[part]
        return found

    def sums(self, W: FeatureRows, sets: Ragged, Ys: FloatArray) -> list[Sums]:
        """Return WᵀW and WᵀYs of each of some sets."""

        def work(j: int) -> Sums:
            return gram_and_products(W, sets[j], Ys[sets[j]])

        return run_pieces(work, range(len(sets)), self._threads(W))

    def fitted_each(
        self, W: FeatureRows, sets: Ragged, models: Sequence[FloatArray]
    ) -> list[FloatArray]:
        """Return f (c, k) on each of some sets of rows by its own models (p + s, c)."""
        root = self.data.weights.root

        def work(j: int) -> FloatArray:
            return fitted(W, sets[j], root[sets[j]], models[j])

        return run_pieces(work, range(len(sets)), self._threads(W))

    @staticmethod
    def _threads(W: FeatureRows) -> int | None:
        """Return how many threads may ask for rows at the same time; None: any number."""
        return None if isinstance(W, np.ndarray) or W.features.parallel else 1

    def held_out(
        self, factor: FeatureFactor, tasks: Tasks, alphas: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return held-out predictions by the identity, computed where the rows are."""
        return residuals.held_out(factor, tasks, alphas)
