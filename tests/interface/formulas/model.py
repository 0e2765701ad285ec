"""From kernels to weighted, centred, whitened rows and their sums."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.linalg import inv, norm

from holdfast import kernels
from holdfast.experiments import Ragged
from holdfast.kernels import RBF
from holdfast.kernels.matrix import KernelRows
from holdfast.kernels.products import distance_matrix
from holdfast.linalg import Complement, Whitening, cholesky_basis
from holdfast.smoother import Unpenalised
from holdfast.smoother.features import ColumnFeatures, KnownColumns, basis_epsilon
from holdfast.smoother.kernel_equations import deflated_kernel
from holdfast.smoother.moments import SetSums, moments, sample_level
from holdfast.smoother.rows import RowBlocks, StreamedRows, fitted, gram_and_rhs
from holdfast.smoother.scale import Centre, RowScale, Targets, target_unit
from interface.formulas import example, same
from interface.formulas.problem import (
    B,
    C,
    H,
    K,
    Level,
    Phi,
    Q,
    U,
    W,
    X,
    Y,
    Ys,
    Z,
    data,
    eps,
    feature_smoother,
    features,
    m,
    n,
    rest,
    rng,
    root,
    scale,
    unpenalised,
    v,
    w,
)


@example("kernels.products.distance_matrix")
def _():
    same(distance_matrix(X, X[:4]), ((X[:, None] - X[None, :4]) ** 2).sum(axis=2))


@example("kernels.RBF", "kernels.Matern", "kernels.Laplacian")
def _():
    D2 = ((X[:, None] - X[None, :4]) ** 2).sum(axis=2)
    same(kernels.RBF(0.4)(X, X[:4]), np.exp(-0.4 * D2))
    t = np.sqrt(4 * 2.5 * 0.4 * D2)  # √(2ν) √(2γ) |x − x'|
    same(kernels.Matern(2.5, 0.4)(X, X[:4]), (1 + t + t**2 / 3) * np.exp(-t))
    city = np.abs(X[:, None] - X[None, :4]).sum(axis=2)
    same(kernels.Laplacian(0.4)(X, X[:4]), np.exp(-0.4 * city))


@example("kernels.Polynomial", "kernels.Sigmoid", "kernels.Cosine", "kernels.Normalised")
def _():
    dot, lengths = X @ X[:4].T, norm(X, axis=1)
    same(kernels.Polynomial(3, 0.4, 1.0)(X, X[:4]), (0.4 * dot + 1.0) ** 3)
    same(kernels.Sigmoid(0.4, 1.0)(X, X[:4]), np.tanh(0.4 * dot + 1.0))
    same(kernels.Cosine()(X, X[:4]), dot / np.outer(lengths, lengths[:4]))
    square = np.diag((0.4 * X @ X.T + 1.0) ** 3)
    found = kernels.Polynomial(3, 0.4, 1.0).normalised()(X, X[:4])
    same(found, (0.4 * dot + 1.0) ** 3 / np.sqrt(np.outer(square, square[:4])))


@example("kernels.Tanimoto")
def _():
    bits = (X > 0).astype(float)
    both, size = bits @ bits[:4].T, bits.sum(axis=1)
    either = size[:, None] + size[:4] - both
    expected = np.where(either > 0, both / np.maximum(either, 1.0), 1.0)
    same(kernels.Tanimoto()(bits, bits[:4]), expected)


@example("kernels.Constant")
def _():
    same((kernels.RBF(0.4) + 2.0)(X, X[:4]), K[:, :4] + 2.0)


@example("kernels.matrix.KernelRows.block")
def _():
    same(data.block(H, B), K[np.ix_(H, B)])


@example("smoother.features.basis_epsilon")
def _():
    scaled = KernelRows(2.0 * RBF(0.4), X)
    assert basis_epsilon(scaled, B, 1e-4) == pytest.approx(1e-4 * 2.0 * np.trace(K[:n, :n]) / n)


@example("linalg.whitening.cholesky_basis", "linalg.whitening.Whitening.rows")
def _():
    found = cholesky_basis(K[np.ix_(B, B)], eps)
    same(found @ found.T, K[np.ix_(B, B)] + eps * np.eye(n))
    same(Whitening(found).rows(K[:, B]), K[:, B] @ inv(C).T)


@example("smoother.features.WhitenedFeatures.rows", "smoother.features.ColumnFeatures.rows")
def _():
    same(features.rows(H), K[np.ix_(H, B)] @ inv(C).T)
    same(ColumnFeatures(X).rows(H), X[H])


@example("smoother.features.KnownColumns.rows")
def _():
    known = KnownColumns.of(K[:, B], K[np.ix_(B, B)], eps)
    same(known.rows(H), Phi[H])
    same(known.to_coefficients, inv(C).T)


@example("smoother.scale.RowScale.of", "smoother.scale.RowScale.targets")
def _():
    weights = np.array([4.0, 0.0, 9.0])
    found = RowScale.of(weights)
    same(found.root, [2.0, 1.0, 3.0])  # a row of weight zero keeps its plain features
    same(found.targets(np.ones((3, 1)))[:, 0], np.sqrt(weights))


@example("smoother.scale.Unpenalised.of", "smoother.scale.Unpenalised.bias")
def _():
    same(unpenalised.Q.T @ unpenalised.Q, np.eye(2))
    same(unpenalised.Q @ unpenalised.R, root[:, None] * Z)
    same(unpenalised.U @ unpenalised.R, Z)
    same(unpenalised.Q, root[:, None] * unpenalised.U)
    one = Unpenalised.bias(w, True)
    same(one.Q[:, 0], root / norm(root))
    same(one.U, np.full((m, 1), 1 / norm(root)))


@example("smoother.scale.Unpenalised.project_out", "smoother.scale.Unpenalised.coefficients")
def _():
    same(
        unpenalised.project_out(root[:, None] * Phi), (np.eye(m) - Q @ Q.T) @ (root[:, None] * Phi)
    )
    coordinates = rng.normal(size=(2, v))
    same(Z @ unpenalised.coefficients(coordinates), unpenalised.U @ coordinates)


@example("smoother.scale.target_unit")
def _():
    assert target_unit(Y) == 1.0
    assert target_unit(np.array([[3e80]])) == 2.0 ** round(np.log2(3e80))


@example("smoother.scale.Targets.of", "smoother.scale.Targets.yardstick")
def _():
    found = Targets.of(Y, scale, unpenalised)
    values = rng.normal(size=(4, v)) * 9.0
    same(found.yardstick(values), np.maximum(Y.std(axis=0), np.abs(values - found.Y.mean(axis=0))))
    same(unpenalised.Q @ found.level, Q @ Q.T @ (root[:, None] * Y))
    same(found.Y, Y - U @ Level)
    same(found.Ys, (np.eye(m) - Q @ Q.T) @ (root[:, None] * Y))


@example(
    "smoother.moments.sample_level",
    "smoother.moments.moments",
    "smoother.moments.Moments.settle",
    "smoother.moments.Moments.settle_part",
)
def _():
    q, u = unpenalised.Q, unpenalised.U
    rough = sample_level(features, scale, unpenalised)  # here the sample has all rows
    same(rough, q.T @ (root[:, None] * Phi))
    rough = rough + 0.1
    total, (part,), norms = moments(features, rough, scale, unpenalised, Ys, sets=[H])
    raw = root[:, None] * (Phi - u @ rough)
    same(total.gram[:n, :n], raw.T @ raw)
    same(total.z, raw.T @ Ys)
    same(total.drift, q.T @ raw)
    same(norms, (raw**2).sum(axis=1))
    full = np.c_[W, q]
    gram, z = total.settle(q, Ys)
    same(gram, full.T @ full)
    same(z, full.T @ Ys)
    gram, z = part.settle_part(total.drift, q[H], Ys[H])
    same(gram, full[H].T @ full[H])
    same(z, full[H].T @ Ys[H])


@example("smoother.moments.SetSums.find")
def _():
    full, sets = np.c_[W, Q], [H[:2], H[2:4], H[4:]]
    sums = [(full[rows].T @ full[rows], full[rows].T @ Ys[rows]) for rows in sets]
    of_sets = SetSums.settled(Ragged.from_arrays(sets), sums, m)
    union = np.sort(np.r_[sets[0], sets[2]])
    gram, z = of_sets.find(union)
    same(gram, full[union].T @ full[union])
    same(z, full[union].T @ Ys[union])
    assert of_sets.find(H[1:3]) is None  # half of two sets


@example("smoother.rows.StreamedRows")
def _():
    B_all = unpenalised.Q.T @ (root[:, None] * Phi)
    rows = StreamedRows(features, Centre(B_all + 1.0, -np.ones_like(B_all)), scale, unpenalised)
    same(rows[H], np.c_[W, unpenalised.Q][H])
    T = rng.normal(size=(n, n))
    same(replace(rows, T=T)[H], np.c_[W @ T, unpenalised.Q][H])


@example("smoother.rows.gram_and_rhs", "smoother.rows.fitted")
def _():
    blocks = RowBlocks(W, rest)
    A, b = gram_and_rhs(blocks, Ys[rest])
    same(A, W[rest].T @ W[rest])
    same(b, W[rest].T @ Ys[rest])
    theta = rng.normal(size=(3, n, v))
    same(fitted(blocks, root[rest], theta), (W[rest] @ theta) / root[rest, None])


@example("smoother.feature_smoother.FeatureSmoother.system")
def _():
    system = feature_smoother().system()
    same(system.W[:, :n], W)
    same(system.gram, np.c_[W, Q].T @ np.c_[W, Q])
    same(system.z[:n], W.T @ Ys)
    same(system.N[:, :n], inv(C).T)


@example("smoother.kernel_equations.deflated_kernel")
def _():
    A, complement = deflated_kernel(K, w, unpenalised)
    basis = complement.lift(np.eye(m - 2))
    assert np.abs(basis.T @ Q).max() < 1e-13
    same(A, basis.T @ (root[:, None] * K * root) @ basis)


@example(
    "linalg.constraint.Complement.reduce",
    "linalg.constraint.Complement.project",
    "linalg.constraint.Complement.lift",
    "linalg.constraint.Complement.lift_symmetric",
)
def _():
    N_E = rng.normal(size=(2, n))
    complement = Complement(N_E)
    basis = complement.lift(np.eye(n - 2))
    same(basis.T @ basis, np.eye(n - 2))
    assert np.abs(N_E @ basis).max() < 1e-13
    A = W.T @ W
    same(complement.reduce(A), basis.T @ A @ basis)
    same(complement.project(W.T @ Ys), basis.T @ W.T @ Ys)
    inner = basis.T @ A @ basis
    same(complement.lift_symmetric(inner), basis @ inner @ basis.T)
