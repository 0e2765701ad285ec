"""The methods that the papers compare with, in plain NumPy and in our own words.

They are here to be timed and to be compared with, not to be used: each forms the normal equations
of one penalty, so it loses digits where the kernel matrix is ill-conditioned, and it repeats for
every penalty what holdfast does once. All take one target ``y`` (m,) and give the held-out
prediction of every row.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]


def _penalised(K_BB: Floats, alpha: float, bias: bool) -> Floats:
    """Return λ K_BB, with a row and a column of zeros for an unpenalised bias."""
    n = K_BB.shape[0]
    R = np.zeros((n + bias, n + bias))
    R[:n, :n] = alpha * K_BB
    return R


def _design(K_mB: Floats, bias: bool) -> Floats:
    """Return the kernel columns, with a column of ones for the bias."""
    return np.column_stack([K_mB, np.ones(K_mB.shape[0])]) if bias else K_mB


def cawley_talbot(
    K_mB: Floats, K_BB: Floats, y: Floats, alpha: float, *, bias: bool = False
) -> Floats:
    """Return leave-one-out predictions of a sparse model from one Cholesky factorisation.

    Notes
    -----
    Paper 002 §2.6: ``e_i / (1 - h_ii)`` with ``C = R + ZᵀZ`` and ``h_ii = z_iᵀ C⁻¹ z_i``; basis
    rows stay in the basis. This is method 1 of paper 000, Table 1. O(m n²) for each penalty.
    """
    Z = _design(K_mB, bias)
    C = _penalised(K_BB, alpha, bias) + Z.T @ Z
    L = linalg.cholesky(C, lower=True, check_finite=False)
    A = linalg.solve_triangular(L, Z.T, lower=True, check_finite=False)  # h_ii = |A[:, i]|²
    h = np.einsum("ij,ij->j", A, A)
    fitted = A.T @ (A @ y)
    predictions: Floats = y - (y - fitted) / (1.0 - h)
    return predictions


def cawley_talbot_printed(
    K_mB: Floats, K_BB: Floats, y: Floats, alpha: float, *, bias: bool = False
) -> Floats:
    """Return the same as `cawley_talbot`, by the formula as printed, with C⁻¹ itself.

    Notes
    -----
    ``H = Z C⁻¹ Zᵀ`` (paper 002 §2.6) through a general inverse and a full product: about twice the
    work of `cawley_talbot`, which knows that C is symmetric and positive definite.
    """
    Z = _design(K_mB, bias)
    inverse = np.linalg.inv(_penalised(K_BB, alpha, bias) + Z.T @ Z)
    A = Z @ inverse
    h = np.einsum("ij,ij->i", A, Z)
    predictions: Floats = y - (y - A @ (Z.T @ y)) / (1.0 - h)
    return predictions


def explicit(K_mB: Floats, K_BB: Floats, y: Floats, alpha: float, *, bias: bool = False) -> Floats:
    """Return leave-one-out predictions of a sparse model by solving again for every row.

    Notes
    -----
    Paper 002 §2.5 before any short-cut: O(m² n²).
    """
    Z = _design(K_mB, bias)
    R = _penalised(K_BB, alpha, bias)
    m = y.size
    predictions = np.empty(m)
    for i in range(m):
        kept = np.arange(m) != i
        Z_i = Z[kept]
        coef = linalg.solve(R + Z_i.T @ Z_i, Z_i.T @ y[kept], assume_a="sym", check_finite=False)
        predictions[i] = Z[i] @ coef
    return predictions


def explicit_orthogonal(
    K_mB: Floats, K_BB: Floats, y: Floats, alpha: float, *, bias: bool = False
) -> Floats:
    """Return the same as `explicit`, from least-squares problems that never square K.

    Notes
    -----
    With ``K_BB = C Cᵀ`` and ``W = K_mB C⁻ᵀ`` the model is ridge regression on W; each row's model
    is the least-squares solution of W stacked on ``√λ I``. This is the yardstick for accuracy.
    """
    C = linalg.cholesky(K_BB, lower=True, check_finite=False)
    W = linalg.solve_triangular(C, K_mB.T, lower=True, check_finite=False).T
    m, n = W.shape
    Z = _design(W, bias)
    penalty = np.zeros((n, n + bias))
    penalty[:, :n] = np.sqrt(alpha) * np.eye(n)
    predictions = np.empty(m)
    for i in range(m):
        kept = np.arange(m) != i
        A = np.vstack([Z[kept], penalty])
        b = np.concatenate([y[kept], np.zeros(n)])
        predictions[i] = Z[i] @ np.linalg.lstsq(A, b, rcond=None)[0]
    return predictions


def naive_dense(K: Floats, y: Floats, folds: Sequence[Rows], alphas: Sequence[float]) -> Floats:
    """Return held-out predictions of the dense model by solving again for every fold, (alphas, m).

    Notes
    -----
    Paper 003, equation (12). O(a k m³) for a penalties and k folds.
    """
    m = y.size
    predictions = np.empty((len(alphas), m))
    for fold in folds:
        kept = np.setdiff1d(np.arange(m), fold)
        K_kept, K_fold = K[np.ix_(kept, kept)], K[np.ix_(fold, kept)]
        for a, alpha in enumerate(alphas):
            shifted = K_kept + alpha * np.eye(kept.size)
            coef = linalg.solve(shifted, y[kept], assume_a="pos", check_finite=False)
            predictions[a, fold] = K_fold @ coef
    return predictions


def an_et_al(K: Floats, y: Floats, folds: Sequence[Rows], alphas: Sequence[float]) -> Floats:
    """Return held-out predictions of the dense model from one inverse per penalty, (alphas, m).

    Notes
    -----
    An, Liu and Venkatesh (2007), paper 003 equation (14): with ``G = (K + λI)⁻¹`` the residual of a
    fold H is ``G_HH⁻¹ (G y)_H``. O(m³) for each penalty.
    """
    m = y.size
    predictions = np.empty((len(alphas), m))
    single = all(len(fold) == 1 for fold in folds)
    for a, alpha in enumerate(alphas):
        L = linalg.cholesky(K + alpha * np.eye(m), lower=True, check_finite=False)
        G, info = linalg.lapack.dpotri(L, lower=True)
        if info != 0:
            raise np.linalg.LinAlgError(f"dpotri failed with info {info}")
        G = np.tril(G) + np.tril(G, -1).T
        coef = G @ y
        if single:
            predictions[a] = y - coef / np.diag(G)
            continue
        for fold in folds:
            residual = linalg.solve(G[np.ix_(fold, fold)], coef[fold], assume_a="pos")
            predictions[a, fold] = y[fold] - residual
    return predictions


def eigendecomposition(
    K: Floats, y: Floats, folds: Sequence[Rows], alphas: Sequence[float]
) -> Floats:
    """Return held-out predictions of the dense model from one eigendecomposition, (alphas, m).

    Notes
    -----
    Paper 003, equations (16)–(19), as printed: O(m³) once, and O(Σ|H|² m) for each penalty.
    """
    Lambda, P = linalg.eigh(K, check_finite=False, driver="evd")
    q = P.T @ y
    predictions = np.empty((len(alphas), y.size))
    single = all(len(fold) == 1 for fold in folds)
    squares = P * P if single else P
    for a, alpha in enumerate(alphas):
        d = 1.0 / (Lambda + alpha)
        coef = P @ (d * q)
        if single:
            predictions[a] = y - coef / (squares @ d)
            continue
        for fold in folds:
            P_fold = P[fold]
            M = (P_fold * d) @ P_fold.T
            residual = linalg.solve(M, coef[fold], assume_a="pos", check_finite=False)
            predictions[a, fold] = y[fold] - residual
    return predictions
