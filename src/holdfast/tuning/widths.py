"""Kernels of q = Σ_j gamma_j (x_j − z_j)²: their values, their slopes, and sums over features.

A criterion that depends on kernel values through the sensitivities P_ik = ∂L/∂q_ik depends on the
widths through

    ∂L/∂gamma_j = Σ_ik P_ik (x_ij − z_kj)² = Σ_i P_i· x_ij² + Σ_k P_·k z_kj² − 2 Σ_k z_kj (PᵀX)_kj

so that all widths together cost one matrix product.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from holdfast._typing import FloatArray, RowData
from holdfast.exceptions import NotSupportedError
from holdfast.kernels import RBF, Kernel, Matern

__all__ = ["differentiable", "feature_sums", "profile", "with_gamma"]


def differentiable(kernel: Any) -> bool:
    """Whether the slope of this kernel in q is known: `RBF` and `Matern`."""
    return isinstance(kernel, RBF | Matern)


def with_gamma(kernel: Kernel, gamma: FloatArray) -> Kernel:
    """Return the kernel with another width, one number for shape (1,), else one per feature."""
    if not hasattr(kernel, "gamma"):
        raise NotSupportedError(
            f"kernel {kernel!r} has no gamma to tune. Use RBF, Matern or another kernel with a "
            "gamma, or compare kernels on a grid: KernelRidgeCV chooses alpha for each."
        )
    value = float(gamma[0]) if gamma.size == 1 else tuple(gamma.tolist())
    return replace(kernel, gamma=value)  # type: ignore[type-var]  # kernels are dataclasses


def profile(
    kernel: RBF | Matern, q: FloatArray, gradient: bool = True
) -> tuple[FloatArray, FloatArray | None]:
    """Return kernel values k(q) and, if asked for, slopes dk/dq: fresh arrays of q's shape.

    Notes
    -----
    With t = √(4 nu q): exp(−t), (1 + t) exp(−t), (1 + t + t²/3) exp(−t) for nu = 1/2, 3/2, 5/2
    have the slopes −exp(−t)/t, −3 exp(−t), −5/3 (1 + t) exp(−t). At q = 0 the first is infinite,
    and what multiplies it, (x_j − z_j)², is zero: such pairs do not depend on any width.
    """
    if isinstance(kernel, RBF):
        K = np.exp(-q)
        return K, -K if gradient else None
    t = np.sqrt(4.0 * kernel.nu * q)
    decay = np.exp(-t)
    slope = None
    if kernel.nu == 0.5:
        if gradient:
            slope = -np.divide(decay, t, out=np.zeros_like(t), where=t > 0.0)
        return decay, slope
    if kernel.nu == 1.5:
        return (1.0 + t) * decay, -3.0 * decay if gradient else None
    K = (1.0 + t) * decay
    if gradient:
        slope = -5.0 / 3.0 * K
    t *= t / 3.0
    t *= decay
    K += t
    return K, slope


def feature_sums(P: FloatArray, X: RowData, Z: RowData) -> FloatArray:
    """Return Σ_ik P_ik (x_ij − z_kj)² for every feature j, shape (d,).

    Parameters
    ----------
    P : ndarray of shape (m, n)
    X, Z : rows, (m, d) and (n, d)
        Dense rows should be centred: the sum cancels less.

    Notes
    -----
    2 m n d flops in one product; sparse rows stay sparse.
    """
    if sp.issparse(X):
        cross = np.asarray(Z.multiply((X.T @ P).T).sum(axis=0)).ravel()
        squares = P.sum(axis=1) @ X.multiply(X) + P.sum(axis=0) @ Z.multiply(Z)
        return np.asarray(squares).ravel() - 2.0 * cross
    cross = np.einsum("kj,kj->j", P.T @ X, Z)
    return np.asarray(P.sum(axis=1) @ (X * X) + P.sum(axis=0) @ (Z * Z) - 2.0 * cross)
