"""Factors, the model on all rows, leverages."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.linalg import inv, solve

from holdfast.linalg import add_gram, mirror, reciprocal_shifts, shifted_inverse, subtract_outer
from holdfast.linalg.eigen import eigh as our_eigh
from holdfast.linalg.graded import coordinates, scaled_cholesky, stacked_qr
from holdfast.smoother import KernelSmoother, Unpenalised
from holdfast.smoother.factorise import (
    diagonalise,
    promise,
    remainder,
    ridge_by_qr,
    settled,
    single_factor,
)
from holdfast.smoother.rows import RowBlocks
from holdfast.smoother.system import coefficients, transform
from holdfast.smoother.system import solve as solve_system
from interface.formulas import example, same
from interface.formulas.problem import (
    B,
    C,
    H,
    K,
    Level,
    Q,
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


@example("linalg.eigen.eigh")
def _():
    Lambda, T = our_eigh(W.T @ W)
    same(T @ np.diag(Lambda) @ T.T, W.T @ W)
    same(T.T @ T, np.eye(n))


@example("smoother.factorise.diagonalise", "smoother.factorise.promise")
def _():
    system = feature_smoother().system
    Lambda = np.linalg.eigvalsh(W.T @ W)
    condition = (Lambda[-1] + alpha) / (Lambda[0] + alpha)
    found = promise(Lambda[-1], Lambda[0], alpha, m)
    assert found == pytest.approx(4 * np.finfo(float).eps * condition / m)
    spectrum = our_eigh(W.T @ W)
    found = diagonalise(system, spectrum, lambda: iter([W]), 0.0)
    V = W @ found.T
    same(V.T @ V, np.diag(Lambda))
    same(found.gram, np.r_[Lambda, 1.0, 1.0])
    units = 10.0 ** np.arange(n)  # columns in very different units
    both = np.outer(np.r_[units, 1, 1], np.r_[units, 1, 1])
    graded = replace(system, gram=system.gram * both)
    spectrum = our_eigh(graded.gram[:n, :n])  # not enough digits: a factor that does not square
    found = diagonalise(graded, spectrum, lambda: iter([W * units]), alpha)
    V, penalty = W * units @ found.T, alpha * found.T.T @ found.T
    same(V.T @ V + penalty, np.diag(found.gram[:n] + alpha))


@example("linalg.graded.scaled_cholesky", "linalg.graded.stacked_qr", "linalg.graded.coordinates")
def _():
    A = W.T @ W + alpha * np.eye(n)
    for factor in (scaled_cholesky(W.T @ W, alpha), stacked_qr([W[:9], W[9:]], n, alpha)):
        R = factor.unordered()
        same(R.T @ R, A)
        s, T = coordinates(factor)
        same(s**2, np.linalg.eigvalsh(A))
        same(T.T @ A @ T, np.diag(s**2))


def left(V, beta):
    return remainder(V, beta, Ys, scale.trained)


@example("smoother.factorise.settled")
def _():
    system = feature_smoother().system
    full, beta = system.W, rng.normal(size=(n + 2, v))
    known = full.T @ full @ beta
    found = settled(system, beta, known, scale, left)
    same(found.z, known + full.T @ (Ys - full @ beta))
    same(found.z, full.T @ Ys)


@example("smoother.factorise.ridge_by_qr")
def _():
    full = np.c_[W, Q]
    found = ridge_by_qr(RowBlocks(full), Ys, alphas, n)
    for a, theta in zip(alphas, found, strict=True):
        same(theta, solve(full.T @ full + a * np.diag(mask), full.T @ Ys))


@example("smoother.system.transform")
def _():
    T = rng.normal(size=(n, n))
    system = transform(feature_smoother().system, T)
    same(system.W[:, :n], W @ T)
    same(system.z[:n], T.T @ W.T @ Ys)
    same(system.N[:, :n], inv(C).T @ T)


@example("smoother.factorise.single_factor")
def _():
    factor = single_factor(feature_smoother().system, lambda: iter([W]), alpha, Ys, scale, left)
    same(factor.T @ factor.T.T, inv(W.T @ W + alpha * np.eye(n)))
    same(factor.V[:, :n], W @ factor.T)
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


@example("smoother.system.solve", "smoother.system.coefficients")
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
