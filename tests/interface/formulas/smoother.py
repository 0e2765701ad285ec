"""Factors, the model on all rows, leverages."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.linalg import inv, norm, solve

from holdfast.linalg import add_gram, mirror, reciprocal_shifts, shifted_inverse, subtract_outer
from holdfast.linalg.eigen import eigh as our_eigh
from holdfast.linalg.graded import coordinates, scaled_cholesky, stacked_qr
from holdfast.smoother import KernelSmoother, Unpenalised
from holdfast.smoother.factorise import (
    Rows,
    factorised,
    measured_at,
    reduced,
    ridge_of_triangle,
    single_factor,
)
from holdfast.smoother.rows import RowBlocks
from holdfast.smoother.system import coefficients, solve_each
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
    features,
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
    unpenalised,
    v,
    w,
)


@example("linalg.eigen.eigh")
def _():
    Lambda, T = our_eigh(W.T @ W)
    same(T @ np.diag(Lambda) @ T.T, W.T @ W)
    same(T.T @ T, np.eye(n))


#: The roundings of double precision.
EPS = np.finfo(float).eps


def rows_of(W):
    """What a factor asks of the rows themselves."""
    return Rows(lambda x: W.T @ (W @ x), lambda ridge: stacked_qr([W], n, ridge))


def problem_of(smoother):
    return features, smoother.scale, smoother.unpenalised, smoother.targets


@example("smoother.factorise.factorised")
def _():
    smoother = feature_smoother()
    factor = factorised(
        smoother.system(), *problem_of(smoother), alpha, rows_of(W), overwrite=False
    )
    V, T = factor.V[:, :n], factor.T
    same(V, W @ T)
    same(factor.Lambda, np.r_[np.linalg.eigvalsh(W.T @ W), 1.0, 1.0])
    same(V.T @ V + alpha * T.T @ T, np.diag(factor.Lambda[:n] + alpha))
    same(factor.z, factor.V.T @ Ys)
    same(factor.N[:, :n], inv(C).T @ T)
    units = 10.0 ** np.r_[0, 0, 4, 8, 0, 0, 8]  # an eigendecomposition mixes columns in such units
    both = np.outer(np.r_[units, 1, 1], np.r_[units, 1, 1])
    system = smoother.system()
    graded = replace(
        system,
        W=system.W * np.r_[units, 1, 1],
        gram=system.gram * both,
        z=system.z * np.r_[units, 1, 1][:, None],
    )
    factor = factorised(
        graded,
        *problem_of(smoother),
        alpha,
        rows_of(W * units),
        overwrite=False,
    )
    V, T = factor.V[:, :n], factor.T
    penalised = V.T @ V + alpha * T.T @ T
    root_of = np.sqrt(np.diag(penalised))  # each entry by its own row and column
    same(penalised / np.outer(root_of, root_of), np.eye(n))
    same(penalised.diagonal() / (factor.Lambda[:n] + alpha), np.ones(n))


def naive_defect(V, T, Lambda, z, a):
    """What is left of VᵀV + αTᵀT = Λ + α at the fitted model, relative to the fitted targets."""
    whole = V.T @ V
    whole[:n, :n] += a * T.T @ T
    D = np.diag(1 / (Lambda + a * mask))
    beta = D @ z
    left = np.sqrt(D) @ (whole @ beta - z)
    return (norm(left, axis=0) / norm(np.sqrt(D) @ z, axis=0)).max()


@example(
    "smoother.factorise._defects",
    "smoother.factorise.measured_at",
    "smoother.factor.FeatureFactor.unit",
)
def _():
    factor = feature_smoother().factor(alpha)
    assert factor.defect[1].max() < 1e-12
    same(factor.unit(np.array([alpha])), factor.defect[1, 0] + 4 * EPS)
    bent = factor.T @ (np.eye(n) + 1e-13 * rng.normal(size=(n, n)))  # a factor that is a bit off
    worse = replace(factor, T=bent, V=np.c_[W @ bent, factor.V[:, n:]])
    found = measured_at(worse, 0.1)
    for a, defect in found.defect.T:
        expected = naive_defect(worse.V, bent, factor.Lambda, factor.z, a)
        assert defect == pytest.approx(expected, rel=0.1)  # both are sums of roundings as well
    assert found.least == 0.1
    assert found.defect[1].max() > 5 * factor.defect[1].max()
    bent = factor.T @ (np.eye(n) + 1e-6 * rng.normal(size=(n, n)))
    assert measured_at(replace(worse, T=bent, V=np.c_[W @ bent, factor.V[:, n:]]), 0.1) is None


@example("linalg.graded.scaled_cholesky", "linalg.graded.stacked_qr", "linalg.graded.coordinates")
def _():
    A = W.T @ W + alpha * np.eye(n)
    for factor in (scaled_cholesky(W.T @ W, alpha), stacked_qr([W[:9], W[9:]], n, alpha)):
        R = factor.unordered()
        same(R.T @ R, A)
        s, T = coordinates(factor)
        same(s**2, np.linalg.eigvalsh(A))
        same(T.T @ A @ T, np.diag(s**2))


@example("smoother.factorise.reduced", "smoother.factorise.ridge_of_triangle")
def _():
    full = np.c_[W, Q]
    R, order = reduced(RowBlocks(full), Ys)
    ordered = full[:, order]
    same(R[:, : n + 2].T @ R, ordered.T @ np.c_[ordered, Ys])
    found = ridge_of_triangle(R, alphas, n, order)
    for a, theta in zip(alphas, found, strict=True):
        same(theta, solve(full.T @ full + a * np.diag(mask), full.T @ Ys))


@example("smoother.factorise.single_factor")
def _():
    smoother = feature_smoother()
    factor = single_factor(smoother.system(), *problem_of(smoother), alpha, rows_of(W))
    same(factor.T @ factor.T.T, inv(W.T @ W + alpha * np.eye(n)))
    same(factor.V[:, :n], W @ factor.T)
    same(factor.V @ factor.V.T, naive_S(alpha))


@example("smoother.feature_smoother.FeatureSmoother.factor", "smoother.factor.Coordinates.D")
def _():
    factor = feature_smoother().factor(alphas[0])
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
    factor = kernel_smoother().factor(alphas[0])
    for a in alphas:
        R = factor.R(factor.D(np.array([a])))[0]
        same(a * (factor.V * R) @ factor.V.T, a * dense_G(a))


@example("smoother.kernel_smoother.KernelSmoother.single")
def _():
    factor = kernel_smoother().single(alpha)
    same(factor.G, dense_G(alpha))
    same(factor.c, dense_G(alpha) @ Ys)


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
    factor = feature_smoother().factor(alphas[0])
    D = factor.D(alphas)
    same(factor.R(D), D)
    out = factor.outputs(H, factor.V[H])
    same(out @ (D[1][:, None] * factor.z), (naive_sparse([], [], alpha) - U @ Level)[H])


@example("smoother.factor.KernelFactor.outputs")
def _():
    factor = kernel_smoother().factor(alphas[0])
    out = factor.outputs(H, factor.V[H])
    same(out @ (factor.D(alphas)[1][:, None] * factor.z), (naive_dense([], alpha) - U @ Level)[H])


@example("smoother.kernel_smoother.KernelSmoother._output_rows")
def _():
    weights = w.copy()
    weights[H] = 0.0  # predicted, never trained on
    smoother = KernelSmoother(K, weights, Y, Unpenalised.of(Z, weights))
    factor = smoother.factor(alpha)
    values = factor.V[H] @ (factor.D(np.array([alpha]))[0][:, None] * factor.z)
    values = smoother.restore(values[None], H, slice(None))[0]
    same(values, naive_dense([], alpha, weights)[H])


@example("smoother.system.solve_each", "smoother.system.coefficients")
def _():
    smoother = feature_smoother()
    system, each = smoother.system(), alphas[:v]
    theta = solve_each(system, each)
    for k, a in enumerate(each):
        same(theta[:n, k], solve(W.T @ W + a * np.eye(n), W.T @ Ys[:, k]))
    coef, b = coefficients(system, theta, smoother.targets, unpenalised)
    for k, a in enumerate(each):
        same((K[:, B] @ coef + Z @ b)[:, k], naive_sparse([], [], a)[:, k])


@example(
    "smoother.feature_smoother.FeatureSmoother.fit", "smoother.kernel_smoother.KernelSmoother.fit"
)
def _():
    fit = feature_smoother().fit(np.full(v, alpha))
    same(K[:, B] @ fit.dual + Z @ fit.unpenalised, naive_sparse([], [], alpha))
    fit = kernel_smoother().fit(np.full(v, alpha))
    same(K @ fit.dual + Z @ fit.unpenalised, naive_dense([], alpha))


@example("smoother.factor.FeatureFactor.length", "smoother.factor.KernelFactor.length")
def _():
    factor = feature_smoother().factor(alpha)
    for a, found in zip(alphas, factor.length(factor.D(alphas)), strict=True):
        same(found, np.sqrt(np.diag(Ys.T @ naive_S(a) @ Ys)))
    factor = kernel_smoother().factor(alpha)
    for a, found in zip(alphas, factor.length(factor.D(alphas)), strict=True):
        same(found, norm(dense_G(a) @ Ys, axis=0))


@example(
    "smoother.factor.KernelFactor.unit",
    "smoother.factor.KernelFactor.formed",
    "smoother.kernel_smoother.KernelSmoother._forming",
    "smoother.kernel_smoother.KernelSmoother._largest",
)
def _():
    P, A = np.eye(m) - Q @ Q.T, root[:, None] * K * root
    rounding = 0.2 * norm(P @ A @ P, 2) + norm(A, axis=1).max()
    factor, at = kernel_smoother().factor(alpha), np.array([alpha])
    same(factor.unit(at), [EPS * rounding])
    D, c = factor.D(at), dense_G(alpha) @ Ys
    sizes = norm(Ys, axis=0) + norm(root) * Y.std(axis=0)
    ratio = (sizes / norm(c, axis=0)).max()
    same(factor.formed(D, factor.length(D)), [norm(dense_G(alpha), 2) * ratio / rounding])
    same(kernel_smoother()._forming, norm(A, axis=1).max())
    assert 0.9 * norm(A, 2) < kernel_smoother()._largest <= norm(A, 2) * (1 + 1e-12)


@example("smoother.factor.Coordinates.leverages", "smoother.inverse.InverseFactor.leverages")
def _():
    same(feature_smoother().factor(alpha).leverages(alpha), np.diag(naive_S(alpha)))
    dense = 1 - alpha * np.diag(dense_G(alpha))
    same(kernel_smoother().factor(alpha).leverages(alpha), dense)
    same(kernel_smoother().single(alpha).leverages(alpha), dense)


@example("smoother.held.HeldCoordinates.leverages")
def _():
    found = held_features().leverages(slice(None))
    same(found.T, [np.diag(naive_S(a))[H] for a in alphas])
