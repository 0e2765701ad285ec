"""From rows, a kernel and basis rows to the smoother: features, or the kernel matrix."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from holdfast._typing import IntArray
from holdfast.core.cluster import DaskSource
from holdfast.core.data import WeightedData
from holdfast.core.feature_smoother import FeatureSmoother
from holdfast.core.features import (
    BasisFeatures,
    ColumnFeatures,
    Features,
    StandardisedColumns,
    WeightedColumns,
    whiten,
)
from holdfast.core.kernel_smoother import KernelSmoother
from holdfast.core.lapack import inverse_of_triangle
from holdfast.core.smoother import Smoother
from holdfast.exceptions import InvalidInputError, KernelError
from holdfast.kernels import FunctionKernel, Kernel, Precomputed
from holdfast.kernels.base import VectorKernel
from holdfast.kernels.dask_rows import CrossRows, DaskRows
from holdfast.kernels.matrix import KernelData, KernelRows

__all__ = [
    "column_features",
    "is_primal",
    "make_smoother",
    "require_room",
    "require_symmetric",
]

#: A sparse matrix with more columns than this is never turned into dense features.
MAX_SPARSE_FEATURES = 2000


def make_smoother(
    kernel: Kernel | Precomputed,
    rows: KernelData,
    X: Any,
    data: WeightedData,
    *,
    basis: IntArray | None = None,
    epsilon: float = 0.0,
    memory: float = float("inf"),
    standardize: bool = False,
) -> Smoother:
    """Return the smoother of a model on all rows.

    Parameters
    ----------
    kernel, rows, X
        The kernel, the rows with it, and the rows.
    data : WeightedData
        Weights, unpenalised columns and targets.
    basis : ndarray of int or None
        Basis rows; None for a dense model.
    epsilon : float
        ε of a sparse model.
    memory : float
        Bytes that the smoother may use.
    standardize : bool
        Whether columns are in units of their standard deviation, in each experiment its own.
    """
    features: Features | None
    if isinstance(rows, DaskRows):
        features = _features_of_dask(rows, basis, epsilon)
        return FeatureSmoother(features, data, memory, partial(DaskSource, X=rows.X))
    if standardize:
        features = StandardisedColumns(X, data.weights.values)
    elif basis is not None:
        features = BasisFeatures.of(rows, basis, epsilon)
    else:
        features = column_features(kernel, X) if is_primal(kernel, X) else None
    if features is None:
        require_room(len(rows), memory)
        return KernelSmoother(rows, data, memory)
    return FeatureSmoother(features, data, memory)


@dataclass(frozen=True)
class GatheredFeatures(BasisFeatures):
    """Whitened kernel values of rows on a cluster with basis rows that were brought here."""

    @classmethod
    def gathered(cls, rows: DaskRows, basis: IntArray, epsilon: float) -> Self:
        """Return the features of a sparse model."""
        Z, every = np.asarray(rows.gather(basis).X, dtype=np.float64), slice(None)
        C = whiten(KernelRows(rows.kernel, Z).block(every, every), epsilon)
        cross = CrossRows(rows.kernel, rows.X, Z)
        return cls(cross, basis, C, epsilon, inverse_of_triangle(C))

    def on_basis(self, removed: IntArray, other: tuple[IntArray, float] | None) -> Self:
        """Return the features on fewer or other basis rows, brought here as well."""
        if other is None and not removed.size:
            return self
        assert isinstance(self.data, CrossRows)
        basis, epsilon = other or (np.delete(self.basis, removed), self.epsilon)
        return self.gathered(DaskRows(self.data.kernel, self.data.X), basis, epsilon)


def _features_of_dask(rows: DaskRows, basis: IntArray | None, epsilon: float) -> Features:
    """Return the features of a sparse model, or those of a linear kernel without basis rows."""
    if basis is not None:
        return GatheredFeatures.gathered(rows, basis, epsilon)
    features = column_features(rows.kernel, rows.X)
    if features is None:
        raise InvalidInputError(
            "a dense model needs the kernel matrix of all rows, which Dask rows do not fit; "
            "pass basis=1000 (or another number of basis rows).",
            argument="basis",
        )
    return features


def require_room(m: int, memory: float) -> None:
    """Refuse a dense model of so many rows that its matrices do not fit into memory."""
    if 32.0 * m**2 > memory:
        raise InvalidInputError(
            f"a dense model of {m} rows needs {32e-9 * m**2:.3g} GB, more than the "
            f"{memory / 1e9:.3g} GB it may take.",
            argument="basis",
            remedies=("memory_limit",),
            advice="Pass basis=1000 (or another number of basis rows), or raise memory_limit.",
        )


def is_primal(kernel: Kernel | Precomputed, X: Any, basis: Any = None) -> bool:
    """Whether a linear kernel, or a sum of some, is cheaper in the columns of X than by its matrix.

    With basis rows it never is.
    """
    if basis is not None or X.ndim != 2:
        return False
    factors = kernel.column_factors(X.shape[1])
    count = 0 if factors is None else int(np.count_nonzero(factors))
    return 0 < count < X.shape[0] and not (sp.issparse(X) and count > MAX_SPARSE_FEATURES)


def column_features(kernel: Kernel | Precomputed, X: Any) -> ColumnFeatures | None:
    """Return the features of a linear kernel, or of a sum of some; None for other kernels."""
    factors = kernel.column_factors(X.shape[1])
    if factors is None or not factors.any():
        return None
    return ColumnFeatures(X) if (factors == 1.0).all() else WeightedColumns(X, factors)


def require_symmetric(kernel: Kernel | Precomputed, data: KernelData) -> None:
    """Refuse a user's function with k(x, z) ≠ k(z, x), which a sample of rows shows."""
    if isinstance(kernel, VectorKernel | Precomputed) or not kernel.accepts_objects:
        return
    rows = np.unique(np.linspace(0, len(data) - 1, min(len(data), 64)).astype(np.int64))
    K = data.block(rows, rows)
    gap = np.abs(K - K.T)
    if gap.max() > 1e-8 * np.abs(K).max():
        name = kernel.name if isinstance(kernel, FunctionKernel) else repr(kernel)
        i, j = rows[np.array(np.unravel_index(np.argmax(gap), gap.shape))]
        raise KernelError(
            f"kernel must be symmetric; {name} gives values for rows {i} and {j} that differ "
            f"by {gap.max():.3g} when the rows change places. Return k(x, z) = k(z, x).",
            argument="kernel",
        )
