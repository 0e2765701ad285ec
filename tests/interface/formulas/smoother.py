"""Factors, the model on all rows, leverages."""

from __future__ import annotations

import numpy as np
from numpy.linalg import cholesky, inv, solve

from holdfast.linalg import add_gram, mirror, reciprocal_shifts, shifted_inverse, subtract_outer
from holdfast.linalg.eigen import eigh as our_eigh
from holdfast.smoother import KernelSmoother, Unpenalised
from holdfast.smoother.feature_smoother import coefficients, rotate, single_factor, transform
from holdfast.smoother.feature_smoother import solve as solve_system
from interface.formulas import example, same
from interface.formulas.problem import (
    B,
    C,
    H,
    K,
    Level,
    U,
    W,
    Y,
    Ys,
    Z,
    alpha,
    alphas,
    dense_G,
    feature_smoother,
    held_features,
    kernel_smoother,
    m,
    mask,
    n,
    naive_dense,
    naive_S,
    naive_sparse,
    rng,
    root,
    scale,
    unpenalised,
    v,
    w,
)


@example("linalg.eigen.eigh", "smoother.feature_smoother.rotate")
def _():
    Lambda, T = our_eigh(W.T @ W)
    same(T @ np.diag(Lambda) @ T.T, W.T @ W)
    same(T.T @ T, np.eye(n))
    system = rotate(feature_smoother().system, Lambda, T)
    same(system.W[:, :n], W @ T)
    same(system.W[:, :n].T @ system.W[:, :n], np.diag(Lambda))
    same(system.gram, np.r_[Lambda, 1.0, 1.0])


@example("smoother.feature_smoother.transform")
def _():
    T = rng.normal(size=(n, n))
    system = transform(feature_smoother().system, T)
    same(system.W[:, :n], W @ T)
    same(system.z[:n], T.T @ W.T @ Ys)
    same(system.N[:, :n], inv(C).T @ T)


@example("smoother.feature_smoother.single_factor")
def _():
    factor = single_factor(feature_smoother().system, alpha, Ys, scale)
    L = cholesky(W.T @ W + alpha * np.eye(n))
    same(factor.V[:, :n], W @ inv(L).T)
    same(factor.T, inv(L).T)
    same(factor.V @ factor.V.T, naive_S(alpha))


@example("smoother.feature_smoother.FeatureSmoother.factor", "smoother.factor.Coordinates.D")
def _():
    factor = feature_smoother().factor()
    D = factor.D(alphas)
    same(D, 1 / (factor.Lambda + alphas[:, None] * mask))
    for a, d in zip(alphas, D, strict=True):
        same((factor.V * d) @ factor.V.T, naive_S(a))
    same(factor.z, factor.V.T @ Ys)


@example("linalg.shifts.reciprocal_shifts")
def _():
    Lambda = np.array([3.0, 0.5, 1.0])
    found = reciprocal_shifts(Lambda, alphas, np.array([1.0, 1.0, 0.0]))
    same(found, [[1 / (3.0 + a), 1 / (0.5 + a), 1.0] for a in alphas])


@example("smoother.kernel_smoother.KernelSmoother.factor", "smoother.factor.KernelFactor.R")
def _():
    factor = kernel_smoother().factor()
    for a in alphas:
        R = factor.R(factor.D(np.array([a])))[0]
        same(a * (factor.V * R) @ factor.V.T, a * dense_G(a))


@example("linalg.symmetric.shifted_inverse")
def _():
    same(shifted_inverse(K.copy(), alpha), inv(K + alpha * np.eye(m)))


@example("linalg.symmetric.add_gram", "linalg.symmetric.mirror", "linalg.symmetric.subtract_outer")
def _():
    A = np.zeros((n, n))
    add_gram(W, A)
    mirror(A)
    same(A, W.T @ W)
    subtract_outer(A, W[0], W[1])
    same(A, W.T @ W - np.outer(W[0], W[1]))


@example("smoother.factor.FeatureFactor.R", "smoother.factor.FeatureFactor.outputs")
def _():
    factor = feature_smoother().factor()
    D = factor.D(alphas)
    same(factor.R(D), D)
    out = factor.outputs(H, factor.V[H])
    same(out @ (D[1][:, None] * factor.z), (naive_sparse([], [], alpha) - U @ Level)[H])


@example("smoother.factor.KernelFactor.outputs")
def _():
    factor = kernel_smoother().factor()
    out = factor.outputs(H, factor.V[H])
    same(out @ (factor.D(alphas)[1][:, None] * factor.z), (naive_dense([], alpha) - U @ Level)[H])


@example("smoother.kernel_smoother.KernelSmoother._output_rows")
def _():
    weights = w.copy()
    weights[H] = 0.0  # predicted, never trained on
    smoother = KernelSmoother(K, weights, Y, Unpenalised.of(Z, weights))
    factor = smoother.factor()
    values = factor.V[H] @ (factor.D(np.array([alpha]))[0][:, None] * factor.z)
    values = smoother.restore(values[None], H, slice(None))[0]
    same(values, naive_dense([], alpha, weights)[H])


@example("smoother.feature_smoother.solve", "smoother.feature_smoother.coefficients")
def _():
    system = feature_smoother().system
    theta = solve_system(system, slice(None), alpha)
    same(theta[:n], solve(W.T @ W + alpha * np.eye(n), W.T @ Ys))
    level = unpenalised.Q.T @ (root[:, None] * Y)
    a, b = coefficients(system, theta, level, unpenalised)
    same(K[:, B] @ a + Z @ b, naive_sparse([], [], alpha))


@example(
    "smoother.feature_smoother.FeatureSmoother.fit", "smoother.kernel_smoother.KernelSmoother.fit"
)
def _():
    fit = feature_smoother().fit(np.full(v, alpha))
    same(K[:, B] @ fit.dual + Z @ fit.unpenalised, naive_sparse([], [], alpha))
    fit = kernel_smoother().fit(np.full(v, alpha))
    same(K @ fit.dual + Z @ fit.unpenalised, naive_dense([], alpha))


@example("smoother.factor.Coordinates.leverages", "smoother.factor.InverseFactor.leverages")
def _():
    same(feature_smoother().factor().leverages(alpha), np.diag(naive_S(alpha)))
    dense = 1 - alpha * np.diag(dense_G(alpha))
    same(kernel_smoother().factor().leverages(alpha), dense)
    same(kernel_smoother().factor(alpha).leverages(alpha), dense)


@example("smoother.held.HeldCoordinates.leverages")
def _():
    found = held_features().leverages(slice(None))
    same(found.T, [np.diag(naive_S(a))[H] for a in alphas])
