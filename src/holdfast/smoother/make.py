"""From rows, a kernel and basis rows to the smoother: features, or the kernel matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from holdfast._typing import FloatArray, IntArray
from holdfast.exceptions import InvalidInputError, KernelError
from holdfast.kernels import FunctionKernel, Kernel, Precomputed
from holdfast.kernels.matrix import KernelData
from holdfast.kernels.shared import column_factors
from holdfast.smoother.base import Smoother
from holdfast.smoother.feature_smoother import FeatureSmoother
from holdfast.smoother.features import (
    ColumnFeatures,
    Features,
    WeightedColumns,
    WhitenedFeatures,
)
from holdfast.smoother.kernel_smoother import KernelSmoother
from holdfast.smoother.scale import Unpenalised

__all__ = [
    "column_features",
    "is_primal",
    "make_smoother",
    "primal_columns",
    "require_room",
    "require_symmetric",
]

#: A sparse matrix with more columns than this is never turned into dense features.
MAX_SPARSE_FEATURES = 2000


def make_smoother(
    kernel: Kernel | Precomputed,
    data: KernelData,
    X: Any,
    weights: FloatArray,
    Y: FloatArray,
    unpenalised: Unpenalised,
    *,
    basis: IntArray | None,
    epsilon: float,
    memory: float,
) -> Smoother:
    """Return the smoother of a model on all rows.

    Parameters
    ----------
    kernel, data, X
        The kernel, the rows with it, and the rows.
    weights : ndarray of shape (m,)
    Y : ndarray of shape (m, v)
    unpenalised : Unpenalised
    basis : ndarray of int or None
        Basis rows; None for a dense model.
    epsilon : float
        ε of a sparse model.
    memory : float
        Bytes that the smoother may use.
    """
    features: Features
    if basis is not None:
        features = WhitenedFeatures.of(data, basis, epsilon)
    elif is_primal(kernel, X):
        features = column_features(kernel, X)
    else:
        return _kernel_smoother(kernel, data, weights, Y, unpenalised, memory)
    return FeatureSmoother(features, weights, Y, unpenalised, memory)


def _kernel_smoother(
    kernel: Kernel | Precomputed,
    data: KernelData,
    weights: FloatArray,
    Y: FloatArray,
    unpenalised: Unpenalised,
    memory: float,
) -> KernelSmoother:
    require_room(len(data), memory)
    return KernelSmoother(
        data,
        weights,
        Y,
        unpenalised,
        memory,
        trusted=not (isinstance(kernel, Precomputed) or kernel.accepts_objects),
    )


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
    count = 0 if basis is not None else primal_columns(kernel, X)
    return 0 < count < X.shape[0] and not (sp.issparse(X) and count > MAX_SPARSE_FEATURES)


def primal_columns(kernel: Kernel | Precomputed, X: Any) -> int:
    """Return how many columns of X a sum of linear kernels uses; 0 for other kernels."""
    factors = column_factors(kernel, X.shape[1]) if X.ndim == 2 else None
    return 0 if factors is None else int(np.count_nonzero(factors))


def column_features(kernel: Kernel | Precomputed, X: Any) -> ColumnFeatures:
    """Return the features of a linear kernel, or of a sum of some."""
    factors = column_factors(kernel, X.shape[1])
    assert factors is not None
    return ColumnFeatures(X) if (factors == 1.0).all() else WeightedColumns(X, factors)


def require_symmetric(kernel: Kernel | Precomputed, data: KernelData) -> None:
    """Refuse a user's function with k(x, z) ≠ k(z, x), which a sample of rows shows."""
    if isinstance(kernel, Precomputed) or not kernel.accepts_objects:
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
