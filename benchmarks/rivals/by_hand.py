"""What a careful person writes in NumPy: twenty lines for each job, without a check."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from benchmarks.naive import rbf
from benchmarks.problems import Data, Floats, Problem
from benchmarks.rivals.base import Done, Rival, predictions, value


def _dense(problem: Problem, data: Data) -> Floats:
    """Return held-out predictions (alphas, m, targets) by one eigendecomposition of K."""
    Y = data.y.reshape(problem.m, -1)
    K = rbf(data.X, data.X, problem.gamma)
    Lambda, Q = np.linalg.eigh(K)
    inside, squares = Q.T @ Y, Q**2
    found = np.empty((problem.n_alphas, *Y.shape))
    for a, alpha in enumerate(problem.alphas):
        shrink = 1.0 / (Lambda + alpha)
        coef = Q @ (shrink[:, None] * inside)
        if problem.split == "loo":
            found[a] = Y - coef / (squares @ shrink)[:, None]
            continue
        for fold in data.folds:
            G = (Q[fold] * shrink) @ Q[fold].T
            found[a, fold] = Y[fold] - np.linalg.solve(G, coef[fold])
    return found


def _thin(problem: Problem, data: Data) -> Floats:
    """Return held-out predictions of a model with few features, the bias unpenalised."""
    Y = data.y.reshape(problem.m, -1)
    if problem.n is None:
        W = data.X
    else:
        Z = data.X[data.basis]
        K_BB = rbf(Z, Z, problem.gamma)
        K_BB[np.diag_indices(len(Z))] += 1e-10
        C = scipy.linalg.cholesky(K_BB, lower=True)
        W = scipy.linalg.solve_triangular(C, rbf(Z, data.X, problem.gamma), lower=True).T
    single = problem.split == "loo" or problem.m <= 100 * problem.experiments
    return (_by_leverages if single else _by_moments)(problem, data, W, Y)


def _by_leverages(problem: Problem, data: Data, W: Floats, Y: Floats) -> Floats:
    """Return held-out predictions by one eigendecomposition of WᵀW: small folds."""
    base, offset = 0.0, np.zeros(Y.shape[1])
    if problem.bias:
        W, base, offset = W - W.mean(axis=0), 1.0 / problem.m, Y.mean(axis=0)
    Lambda, T = np.linalg.eigh(W.T @ W)
    U = W @ T
    inside = U.T @ Y
    found = np.empty((problem.n_alphas, *Y.shape))
    leverages = base + U**2 @ (1.0 / (Lambda[:, None] + problem.alphas))
    for a, alpha in enumerate(problem.alphas):
        shrink = 1.0 / (Lambda + alpha)
        errors = Y - offset - U @ (shrink[:, None] * inside)
        if problem.split == "loo":
            found[a] = Y - errors / (1.0 - leverages[:, a])[:, None]
            continue
        for fold in data.folds:
            S = base + (U[fold] * shrink) @ U[fold].T
            found[a, fold] = Y[fold] - np.linalg.solve(np.eye(len(fold)) - S, errors[fold])
    return found


def _by_moments(problem: Problem, data: Data, W: Floats, Y: Floats) -> Floats:
    """Return held-out predictions by the moments of each training set: large folds."""
    A, b, total, sums = W.T @ W, W.T @ Y, W.sum(axis=0), Y.sum(axis=0)
    found = np.empty((problem.n_alphas, *Y.shape))
    for fold in data.folds:
        rows, targets, n = W[fold], Y[fold], problem.m - len(fold)
        G, g = A - rows.T @ rows, b - rows.T @ targets
        centre, offset = np.zeros(W.shape[1]), np.zeros(Y.shape[1])
        if problem.bias:
            centre, offset = (total - rows.sum(axis=0)) / n, (sums - targets.sum(axis=0)) / n
            G, g = G - n * np.outer(centre, centre), g - n * np.outer(centre, offset)
        Lambda, V = np.linalg.eigh(G)
        inside, rotated = V.T @ g, (rows - centre) @ V
        for a, alpha in enumerate(problem.alphas):
            found[a, fold] = rotated @ (inside / (Lambda + alpha)[:, None]) + offset
    return found


def _interval(problem: Problem, data: Data) -> Done:
    """Return jackknife+ intervals (Barber et al. 2021) of a dense model."""
    G = np.linalg.inv(rbf(data.X, data.X, problem.gamma) + problem.alphas[0] * np.eye(problem.m))
    coef = G @ data.y
    r = coef / np.diag(G)
    k = rbf(data.X, data.new, problem.gamma)
    models = coef @ k - (G @ k) * r[:, None]  # (models, new rows)
    low, high = np.sort(models - np.abs(r)[:, None], 0), np.sort(models + np.abs(r)[:, None], 0)
    rank = int(np.ceil(0.9 * (problem.m + 1) - 1e-9))
    return value(np.column_stack([low[problem.m - rank], high[rank - 1]]))


def run(problem: Problem, data: Data) -> Done:
    """Do the job."""
    if problem.job == "interval":
        return _interval(problem, data)
    dense = problem.kernel == "rbf" and problem.n is None
    found = (_dense if dense else _thin)(problem, data)
    np.square(found - data.y.reshape(problem.m, -1)).mean(axis=1).argmin(axis=0)
    return predictions(found[:, :, 0], data, jitter=1e-10)


def can(problem: Problem) -> bool:
    """Whether it is cross-validation, or an interval."""
    return problem.job in ("cross-validate", "interval")


RIVAL = Rival("NumPy by hand", run, can)
