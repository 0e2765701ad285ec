"""What a careful user writes by hand: one plain fit, and retraining for every fold.

The plain fit is the yardstick of all ratios: the RBF kernel, one symmetric product and one
Cholesky factorisation of the normal equations, for a single penalty and without any held-out
prediction. It is written to be fast, in place and through BLAS, not to be a straw man, and its
m × n kernel matrix is kept between calls: fresh memory costs up to half as much again, which would
flatter every ratio. The cold fit beside it takes fresh memory, as a first call does.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import scipy.linalg
from scipy.linalg.blas import dgemm, dsyrk, dtrsm

from benchmarks.problems import JITTER, Data, Floats, Model, Problem, Rows
from benchmarks.rivals.base import Outcome, Rival, needs_retraining, needs_square


def rbf(X: Floats, Z: Floats, gamma: float, out: Floats | None = None) -> Floats:
    """Return exp(−γ‖x − z‖²) in Fortran order, in `out` or fresh memory and no other."""
    if out is None:
        out = np.empty((len(X), len(Z)), order="F")
    K = dgemm(2.0 * gamma, X.T, Z.T, trans_a=True, c=out, overwrite_c=1)  # (m, n), 2γ x·z
    K -= (gamma * np.einsum("ij,ij->i", X, X))[:, None]
    K -= gamma * np.einsum("ij,ij->i", Z, Z)
    np.minimum(K, 0.0, out=K)
    return np.asarray(np.exp(K, out=K))


def shifted(K_BB: Floats, jitter: float = JITTER) -> Floats:
    """Return K_BB + εI, the penalty of a sparse model."""
    K_BB = K_BB.copy(order="F")
    K_BB[np.diag_indices(len(K_BB))] += jitter
    return K_BB


def _middle(problem: Problem) -> float:
    return float(problem.alphas[problem.n_alphas // 2])


@cache
def _kept(m: int, n: int) -> Floats:
    """Return memory for a kernel matrix, the same at every call."""
    return np.empty((m, n), order="F")


def plain_fit(problem: Problem, data: Data) -> Floats:
    """Return the coefficients for one penalty, in memory that is kept between calls."""
    return _fit(
        problem, data, _kept(problem.m, problem.m if data.basis is None else len(data.basis))
    )


def cold_fit(problem: Problem, data: Data) -> Floats:
    """Return the same in fresh memory."""
    return _fit(problem, data, None)


def _fit(problem: Problem, data: Data, out: Floats | None) -> Floats:
    alpha = _middle(problem)
    if problem.kernel == "linear":
        A = dsyrk(1.0, data.X.T, lower=1, c=alpha * np.eye(problem.d, order="F"), beta=1.0)
        b = data.X.T @ data.y
    elif data.basis is None:
        A, b = rbf(data.X, data.X, problem.gamma, out), data.y
        A[np.diag_indices(problem.m)] += alpha
    else:
        K = rbf(data.X, data.X[data.basis], problem.gamma, out)
        A = dsyrk(1.0, K, trans=1, lower=1, c=alpha * shifted(K[data.basis]), beta=1.0)
        b = K.T @ data.y
    factor = scipy.linalg.cho_factor(A, lower=True, overwrite_a=True, check_finite=False)
    return np.asarray(scipy.linalg.cho_solve(factor, b, check_finite=False))


def _read_fit(problem: Problem, data: Data, result: Floats) -> Outcome:
    return Outcome()


def retraining(problem: Problem, data: Data) -> Floats:
    """Return held-out predictions (alphas, m) by retraining every fold, written well.

    Features are whitened once, each fold costs one Gram matrix of its training rows, and each
    penalty one Cholesky factorisation and one solution.
    """
    predictions = np.empty((problem.n_alphas, problem.m))
    kept = np.ones(problem.m, dtype=bool)
    if problem.kernel == "linear":
        features, square = data.X, False
    elif data.basis is None:
        features, square = rbf(data.X, data.X, problem.gamma), True
    else:
        K = rbf(data.X, data.X[data.basis], problem.gamma)
        C = scipy.linalg.cholesky(shifted(K[data.basis]), lower=True, check_finite=False)
        features, square = dtrsm(1.0, C, K, side=1, lower=1, trans_a=1, overwrite_b=1), False
    for held in data.experiments():
        kept[held] = False
        W = features[kept]
        if square:
            A, b, test = np.asfortranarray(W[:, kept]), data.y[kept], features[held][:, kept]
        else:
            A, b, test = dsyrk(1.0, W, trans=1, lower=1), W.T @ data.y[kept], features[held]
        for a, alpha in enumerate(problem.alphas):
            shift = A.copy(order="F")
            shift[np.diag_indices(len(A))] += alpha
            factor = scipy.linalg.cho_factor(shift, lower=True, overwrite_a=True)
            predictions[a, held] = test @ scipy.linalg.cho_solve(factor, b)
        kept[held] = True
    return predictions


def _read_predictions(problem: Problem, data: Data, result: Floats) -> Outcome:
    return Outcome(predictions=result)


def naive(problem: Problem, data: Data, model: Model, held: Rows, alphas: Floats) -> Floats:
    """Return predictions (alphas, rows) of a model trained from scratch without the rows `held`.

    This is what all others are compared with: kernel, basis, whitening and bias of the training
    rows alone, no identity and nothing shared between experiments.
    """
    train, y = np.setdiff1d(np.arange(problem.m), held), data.first
    if problem.kernel == "linear":
        return _naive_ridge(data.X[train], data.X[held], y[train], model, alphas)
    if data.basis is None:
        K = rbf(data.X[train], data.X[train], problem.gamma)
        K_test = rbf(data.X[held], data.X[train], problem.gamma)
        return _naive_dense(K, K_test, y[train], model, alphas)
    left = data.basis
    if model.policy == "remove":
        left = left[~np.isin(left, held)]
    Z = data.X[left]
    C = scipy.linalg.cholesky(shifted(rbf(Z, Z, problem.gamma), model.jitter), lower=True)
    W, W_test = (
        scipy.linalg.solve_triangular(C, rbf(data.X[rows], Z, problem.gamma).T, lower=True).T
        for rows in (train, held)
    )
    return _naive_ridge(W, W_test, y[train], model, alphas)


def _naive_ridge(W: Floats, W_test: Floats, y: Floats, model: Model, alphas: Floats) -> Floats:
    """Return ridge predictions on whitened features, centred when there is a bias."""
    offset = 0.0
    if model.bias:
        centre, offset = W.mean(axis=0), float(y.mean())
        W, W_test, y = W - centre, W_test - centre, y - offset
    A, b, eye = W.T @ W, W.T @ y, np.eye(W.shape[1])
    thetas = [scipy.linalg.solve(A + alpha * eye, b, assume_a="pos") for alpha in alphas]
    return np.stack([W_test @ theta for theta in thetas]) + offset


def _naive_dense(K: Floats, K_test: Floats, y: Floats, model: Model, alphas: Floats) -> Floats:
    """Return predictions of the dense model, the bias by elimination."""
    predictions = np.empty((alphas.size, len(K_test)))
    sides = np.column_stack([y, np.ones(y.size)])
    for a, alpha in enumerate(alphas):
        factor = scipy.linalg.cho_factor(K + alpha * np.eye(len(K)), lower=True)
        c, d = scipy.linalg.cho_solve(factor, sides).T
        bias = c.sum() / d.sum() if model.bias else 0.0
        predictions[a] = K_test @ (c - bias * d) + bias
    return predictions


RIVALS = (
    Rival(
        "plain-fit",
        "one plain fit, one λ",
        plain_fit,
        _read_fit,
        package="scipy",
        kernels=("rbf", "linear"),
        many=True,
        single=True,
    ),
    Rival(
        "cold-fit",
        "one plain fit, in fresh memory",
        cold_fit,
        _read_fit,
        package="scipy",
        single=True,
    ),
    Rival(
        "retraining",
        "retraining every fold, whitened",
        retraining,
        _read_predictions,
        kernels=("rbf", "linear"),
        refuses=lambda problem: (
            needs_retraining(problem) or (needs_square(problem) if problem.dense else None)
        ),
        package="scipy",
    ),
)
