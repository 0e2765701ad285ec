"""Adjoints of the held-out error, widths, standard errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.linalg import inv, norm, solve

from holdfast import KernelRidgeCV, kernels
from holdfast.kernels.products import RowPair
from holdfast.smoother import KernelSmoother
from holdfast.tuning.adjoint import evaluate_dense, evaluate_sparse
from holdfast.tuning.criterion import Criterion
from holdfast.tuning.flatness import standard_error
from holdfast.tuning.solved import CovarianceSlope, Solved
from holdfast.tuning.space import reference_gamma
from interface.formulas import example, same
from interface.formulas.problem import B, K, X, Y, alpha, eps, m, n, rng, root, v, w
from reference.answers import law_criterion

FOLDS = [np.arange(j, m, 4) for j in range(4)]


def problem(basis, scoring=None):
    splits = [(np.setdiff1d(np.arange(m), fold), fold) for fold in FOLDS]
    model = KernelRidgeCV("rbf", gamma=0.4, basis=basis, jitter=eps, cv=splits, scoring=scoring)
    return Criterion.of(model, X, Y, sample_weight=w)


def loss(K_: np.ndarray, a: float, K_BB=None) -> float:
    """Weighted mean squared held-out error, from the definition: every fold is trained."""
    total = 0.0
    for fold in FOLDS:
        train = np.setdiff1d(np.arange(m), fold)
        if K_BB is None:
            k = train.size
            system = np.ones((k + 1, k + 1))
            system[:k, :k] = K_[np.ix_(train, train)] + a * np.diag(1 / w[train])
            system[k, k] = 0.0
            c = solve(system, np.r_[Y[train], np.zeros((1, v))])
            f = K_[np.ix_(fold, train)] @ c[:k] + c[k]
        else:
            keep = np.flatnonzero(~np.isin(B, fold))
            A, P = np.c_[K_[:, keep], np.ones(m)], np.zeros((keep.size + 1,) * 2)
            shift = eps * np.mean(np.diag(K_BB)) * np.eye(keep.size)
            P[:-1, :-1] = a * (K_BB[np.ix_(keep, keep)] + shift)
            A_w = A[train] * w[train, None]
            f = (A @ solve(A[train].T @ A_w + P, A_w.T @ Y[train]))[fold]
        total += (w[fold, None] * (Y[fold] - f) ** 2).sum()
    return total / (w.sum() * v)


def slope(function: Callable[[float], float], step: float = 1e-5) -> float:
    return (function(step) - function(-step)) / (2 * step)


@example("tuning.adjoint.evaluate_dense")
def _():
    losses, (by_alpha, by_K) = evaluate_dense(problem(None), K, alpha, True)
    assert losses.sum() == pytest.approx(loss(K, alpha))
    direction = rng.normal(size=(m, m))
    direction = direction + direction.T
    expected = slope(lambda t: loss(K + t * direction, alpha))
    assert np.vdot(by_K, direction) == pytest.approx(expected, rel=1e-6)
    assert by_alpha == pytest.approx(slope(lambda t: loss(K, alpha + t)), rel=1e-6)
    # Σ_j G_{:H} μ_j (G_{:H} r_j − c)ᵀ, with G_HH μ = ∂L/∂r
    q = (root / norm(root))[:, None]
    inner = inv(root[:, None] * K * root + alpha * np.eye(m))
    G = inner - inner @ q @ inv(q.T @ inner @ q) @ q.T @ inner
    c, total = G @ (root[:, None] * Y), np.zeros((m, m))
    for fold in FOLDS:
        r = solve(G[np.ix_(fold, fold)], c[fold])
        mu = solve(G[np.ix_(fold, fold)], 2 * r / (w.sum() * v))
        total += (G[:, fold] @ mu) @ (G[:, fold] @ r - c).T
    total = root[:, None] * total * root
    same(by_K + by_K.T, total + total.T, digits=7)


@example("tuning.adjoint.evaluate_sparse")
def _():
    K_B, K_BB = K[:, B], K[np.ix_(B, B)]
    losses, (by_alpha, by_K, by_BB) = evaluate_sparse(problem(B), K_B, K_BB, alpha, True)
    assert losses.sum() == pytest.approx(loss(K_B, alpha, K_BB))
    step, inner = rng.normal(size=(m, n)), rng.normal(size=(n, n))
    inner = inner + inner.T
    np.fill_diagonal(inner, 0.0)  # the shift ε follows the diagonal
    expected = slope(lambda t: loss(K_B + t * step, alpha, K_BB))
    assert np.vdot(by_K, step) == pytest.approx(expected, rel=1e-6)
    expected = slope(lambda t: loss(K_B, alpha, K_BB + t * inner))
    assert np.vdot(by_BB, inner) == pytest.approx(expected, rel=1e-6)
    expected = slope(lambda t: loss(K_B, alpha + t, K_BB))
    assert by_alpha == pytest.approx(expected, rel=1e-6)


@example("tuning.losses.LogDensity.slopes", "tuning.losses.RankedProbability.slopes")
def _():
    folds = [(fold, fold) for fold in FOLDS]
    direction = np.random.default_rng(7).normal(size=(m, m))
    direction = direction + direction.T
    np.fill_diagonal(direction, 0.0)  # the shift ε follows the diagonal

    def naive(scoring, basis, t=0.0, a=alpha):
        shift = 0.0 if basis is None else eps * np.mean(np.diag(K)[B])
        how = {"basis": basis, "weights": w, "jitter": shift}
        return law_criterion(K + t * direction, Y, folds, a, scoring, **how)

    for scoring in ("log_density", "crps"):
        losses, (by_alpha, by_K) = evaluate_dense(problem(None, scoring), K, alpha, True)
        assert losses.sum() == pytest.approx(naive(scoring, None))
        expected = slope(lambda t: naive(scoring, None, t))  # noqa: B023  # called at once
        assert np.vdot(by_K, direction) == pytest.approx(expected, rel=1e-6)
        expected = slope(lambda t: naive(scoring, None, a=alpha + t))  # noqa: B023
        assert by_alpha == pytest.approx(expected, rel=1e-6)
        K_B, K_BB = K[:, B], K[np.ix_(B, B)]
        sparse = evaluate_sparse(problem(B, scoring), K_B, K_BB, alpha, True)
        losses, (by_alpha, by_K, by_BB) = sparse
        assert losses.sum() == pytest.approx(naive(scoring, B))
        found = np.vdot(by_K, direction[:, B]) + np.vdot(by_BB, direction[np.ix_(B, B)])
        expected = slope(lambda t: naive(scoring, B, t))  # noqa: B023
        assert found == pytest.approx(expected, rel=1e-6)
        expected = slope(lambda t: naive(scoring, B, a=alpha + t))  # noqa: B023
        assert by_alpha == pytest.approx(expected, rel=1e-6)


@example("tuning.solved.Solved.pull_covariance")
def _():
    part = problem(None)
    smoother = KernelSmoother(K, part.problem.weights, part.problem.Y, part.unpenalised)
    factor = smoother.single(alpha)
    for where in (None, np.array([[2, 0]])):  # all held-out rows are tested, or two of them
        (block, *_) = part.blocks
        block = replace(block, shape=block.shape.cut(slice(0, 1)), where=where)
        H = block.shape.H[0]
        T = np.arange(H.size) if where is None else where[0]
        if where is not None:
            block = replace(block, shape=block.shape._replace(T=block.shape.H[:, T]))
        found = Solved(block, factor.held(block.shape, np.array([alpha])), alpha)
        C = inv(alpha * factor.G[np.ix_(H, H)])
        C_T, r = C[np.ix_(T, T)], found.r[0][T]
        q, tau, own = solve(C_T, r), rng.uniform(size=v), rng.uniform(size=(1, T.size))
        Gamma = 0.3 * inv(C_T) - (q * tau) @ q.T + np.diag(own[0])
        rows = rng.normal(size=(1, H.size, 4))
        pulled = found.pull_covariance(CovarianceSlope(0.3, tau, own), rows)
        same(pulled[0], C[:, T] @ Gamma @ C[T] @ rows[0])


@example("kernels.base.Kernel.value_and_pullback", "kernels.products.RowPair.feature_sums")
def _():
    P = rng.normal(size=(m, 4))
    for kernel in (kernels.RBF(1.0), *(kernels.Matern(nu, 1.0) for nu in (0.5, 1.5, 2.5))):
        values, pullback = kernel.value_and_pullback(X, X[:4])
        same(values, kernel(X, X[:4]))
        steps = (kernel.with_params(gamma=np.exp(t))(X, X[:4]) for t in (1e-5, -1e-5))
        ahead, behind = (np.vdot(P, stepped) for stepped in steps)
        same(pullback(P)["gamma"], [(ahead - behind) / 2e-5], digits=7)
    naive = np.einsum("ik,ikj->j", P, (X[:, None] - X[None, :4]) ** 2)
    same(RowPair(X, X[:4]).feature_sums(P), naive)


@example("tuning.criterion.Criterion.evaluate")
def _():
    model = KernelRidgeCV("rbf", cv=4)
    criterion = Criterion.of(model, X, Y, sample_weight=w, ard=True)
    point = np.log([alpha, 0.3, 0.4, 0.5])
    gradient = criterion.evaluate(point).gradient
    for i in range(4):
        at = [point + t * np.eye(4)[i] for t in (1e-5, -1e-5)]
        ahead, behind = (criterion.evaluate(p, gradient=False).value for p in at)
        assert gradient[i] == pytest.approx((ahead - behind) / 2e-5, rel=1e-5, abs=1e-9)


@example("tuning.flatness.standard_error")
def _():
    losses = rng.uniform(size=6)
    share = np.full(6, 1 / 6)  # equal folds: the standard error of a mean
    assert standard_error(losses, share) == pytest.approx(np.std(6 * losses, ddof=1) / np.sqrt(6))


@example("tuning.space.reference_gamma")
def _():
    apart = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    same(reference_gamma(kernels.RBF(), X, w), [1 / np.median(apart[apart > 0])])
    mean = ((X[:, None] - X[None]) ** 2).mean(axis=(0, 1))
    same(reference_gamma(kernels.RBF(), X, w, ard=True), 1 / (mean * 3))
