"""Models that were really retrained, to see that a fast answer is a right one.

Nothing here is shared between experiments: kernel, basis and bias of the training rows alone, and
least squares by QR, which never squares a condition number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.linalg

from benchmarks.problems import Data, Floats, Problem, Rows

SAMPLE = 3


def rbf(X: Floats, Z: Floats, gamma: float) -> Floats:
    """Return exp(−γ‖x − z‖²)."""
    squares = np.einsum("ij,ij->i", X, X)[:, None] + np.einsum("ij,ij->i", Z, Z) - 2.0 * X @ Z.T
    K: Floats = np.exp(-gamma * np.maximum(squares, 0.0))
    return K


def retrained(problem: Problem, data: Data, held: Rows, alpha: float, jitter: float) -> Floats:
    """Return predictions of the held-out rows, for the first target, by a model without them.

    Basis rows that are held out stay in the basis, as all libraries but ours have it; `jitter` is
    ε in the penalty λ aᵀ(K_BB + εI)a.
    """
    train = np.setdiff1d(np.arange(problem.m), held)
    y = data.y.reshape(problem.m, -1)[train, 0]
    if problem.kernel == "linear":
        centre, offset = data.X[train].mean(axis=0), y.mean()
        W, test, y = data.X[train] - centre, data.X[held] - centre, y - offset
    elif data.basis is None:
        K = rbf(data.X[train], data.X[train], problem.gamma)
        K[np.diag_indices(len(K))] += alpha
        return rbf(data.X[held], data.X[train], problem.gamma) @ scipy.linalg.solve(
            K, y, assume_a="pos"
        )
    else:
        Z, offset = data.X[data.basis], 0.0
        C = scipy.linalg.cholesky(rbf(Z, Z, problem.gamma) + jitter * np.eye(len(Z)), lower=True)
        W, test = (
            scipy.linalg.solve_triangular(C, rbf(Z, data.X[rows], problem.gamma), lower=True).T
            for rows in (train, held)
        )
    A = np.vstack([W, np.sqrt(alpha) * np.eye(W.shape[1])])
    b = np.concatenate([y, np.zeros(W.shape[1])])
    Q, R = scipy.linalg.qr(A, mode="economic", overwrite_a=True)
    return test @ scipy.linalg.solve_triangular(R, Q.T @ b) + offset


def questions(problem: Problem, data: Data) -> dict[str, list[Any]]:
    """Return a few experiments and penalties to compare at."""
    at = np.unique(np.linspace(0, len(data.folds) - 1, SAMPLE).astype(int))
    alphas = sorted({problem.n_alphas // 2, problem.n_alphas - 1})
    return {"experiments": at.tolist(), "alphas": alphas}


def deviation(
    problem: Problem,
    data: Data,
    asked: Mapping[str, Sequence[int]],
    answer: Mapping[str, Any],
) -> float | None:
    """Return how far an answer lies from retraining, over the standard deviation of the target.

    An answer has ``predictions`` (asked experiments × asked penalties), mean squared ``errors`` of
    the same, or ``best``, the score of its own choice over all folds; None if it has none of them.
    """
    jitter = answer.get("jitter", 0.0)
    spread = float(data.y.reshape(problem.m, -1)[:, 0].std())
    y = data.y.reshape(problem.m, -1)[:, 0]

    def naive(j: int, alpha: float) -> Floats:
        return retrained(problem, data, data.folds[j], alpha, jitter)

    if "best" in answer:
        if problem.experiments > 10:
            return None
        alpha, score = answer["best"]
        every = [np.mean((y[f] - naive(j, alpha)) ** 2) for j, f in enumerate(data.folds)]
        return float(abs(np.mean(every) - score) / spread**2)
    worst = None
    for which, j in enumerate(asked["experiments"]):
        for other, a in enumerate(asked["alphas"]):
            truth = naive(j, float(problem.alphas[a]))
            if "predictions" in answer:
                gap = np.abs(np.array(answer["predictions"][which][other]) - truth).max() / spread
            elif "errors" in answer:
                mse = float(np.mean((y[data.folds[j]] - truth) ** 2))
                gap = abs(answer["errors"][which][other] - mse) / spread**2
            else:
                return None
            worst = max(worst or 0.0, float(gap))
    return worst
