"""Models that were really retrained, to see that a fast answer is a right one.

Nothing here is shared between experiments: kernel, basis and bias of the training rows alone, and
least squares by QR, which never squares a condition number.
"""

from __future__ import annotations

from collections.abc import Mapping
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


class Truth:
    """Retrained models of one problem, each made once.

    Parameters
    ----------
    problem : Problem
    data : Data
    """

    def __init__(self, problem: Problem, data: Data) -> None:
        self.problem, self.data = problem, data
        self.asked = questions(problem, data)
        self.y = data.y.reshape(problem.m, -1)[:, 0]
        self._made: dict[tuple[int, float, float], Floats] = {}

    def predictions(self, j: int, alpha: float, jitter: float) -> Floats:
        """Return the predictions of an experiment's rows by a model without them."""
        key = j, alpha, jitter
        if key not in self._made:
            held = self.data.folds[j]
            self._made[key] = retrained(self.problem, self.data, held, alpha, jitter)
        return self._made[key]

    def deviation(self, answer: Mapping[str, Any]) -> float | None:
        """Return how far an answer lies from retraining, over the standard deviation of the target.

        An answer has ``predictions`` (asked experiments × asked penalties), mean squared ``errors``
        of the same, or ``best``, the score of its own choice over all folds; None without them.
        """
        jitter, variance = answer.get("jitter", 0.0), float(self.y.var())
        if "best" in answer and self.problem.experiments <= 10:
            alpha, score = answer["best"]
            every = range(len(self.data.folds))
            return (
                abs(float(np.mean([self._mse(j, alpha, jitter) for j in every])) - score) / variance
            )
        gaps = []
        for which, j in enumerate(self.asked["experiments"]):
            for other, a in enumerate(self.asked["alphas"]):
                alpha = float(self.problem.alphas[a])
                if "predictions" in answer:
                    found = np.array(answer["predictions"][which][other])
                    gap = np.abs(found - self.predictions(j, alpha, jitter)).max()
                    gaps.append(float(gap) / variance**0.5)
                elif "errors" in answer:
                    gap = answer["errors"][which][other] - self._mse(j, alpha, jitter)
                    gaps.append(abs(gap) / variance)
        return max(gaps, default=None)

    def _mse(self, j: int, alpha: float, jitter: float) -> float:
        errors = self.y[self.data.folds[j]] - self.predictions(j, alpha, jitter)
        return float(np.mean(errors**2))
