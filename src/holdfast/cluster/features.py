"""Features of rows that live in a Dask cluster."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from holdfast._typing import IntArray
from holdfast.cluster.rows import CrossRows, DaskRows
from holdfast.exceptions import InvalidInputError
from holdfast.kernels.matrix import KernelRows
from holdfast.smoother import Features, WhitenedFeatures
from holdfast.smoother.features import whiten
from holdfast.smoother.make import column_features, primal_columns

__all__ = ["cluster_features"]


@dataclass(frozen=True)
class GatheredFeatures(WhitenedFeatures):
    """Whitened kernel values with basis rows that were brought to the client."""

    def on(self, basis: IntArray, epsilon: float) -> GatheredFeatures:
        """Return the features of the same rows on other basis rows, brought here as well."""
        assert isinstance(self.data, CrossRows)
        return _gathered(DaskRows(self.data.kernel, self.data.X), basis, epsilon)


def cluster_features(data: DaskRows, basis: IntArray | None, epsilon: float) -> Features:
    """Return the features of a sparse model, or those of a linear kernel without basis rows."""
    if basis is not None:
        return _gathered(data, basis, epsilon)
    if not primal_columns(data.kernel, data.X):
        raise InvalidInputError(
            "a dense model needs the kernel matrix of all rows, which Dask rows do not fit; "
            "pass basis=1000 (or another number of basis rows).",
            argument="basis",
        )
    return column_features(data.kernel, data.X)


def _gathered(data: DaskRows, basis: IntArray, epsilon: float) -> GatheredFeatures:
    Z = np.asarray(data.gather(basis).X, dtype=np.float64)
    every = slice(None)
    whitening, inverse = whiten(KernelRows(data.kernel, Z).block(every, every), epsilon)
    cross = CrossRows(data.kernel, data.X, Z)
    return GatheredFeatures(cross, basis, whitening, epsilon, inverse)
