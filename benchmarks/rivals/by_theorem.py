"""The k-fold theorem of Liland, Skogholt and Indahl (2024) for linear ridge; the lines are ours.

With centred X = U s Vᵀ the hat matrix of ridge regression with a bias is S = 11ᵀ/m +
U diag(s²/(s² + λ)) Uᵀ, and the held-out errors of a fold H are (I − S_HH)⁻¹ e_H, so that one
singular value decomposition serves all folds and penalties.
"""

from __future__ import annotations

import numpy as np

from benchmarks.problems import Data, Problem
from benchmarks.rivals.base import Done, Rival, predictions

#: Rows of the largest folds: it solves systems of that size.
MOST_ROWS = 500


def run(problem: Problem, data: Data) -> Done:
    """Hold out every fold by one decomposition."""
    Y, m = data.y.reshape(problem.m, -1), problem.m
    U, s, _ = np.linalg.svd(data.X - data.X.mean(axis=0), full_matrices=False)
    offset = Y.mean(axis=0)
    inside = U.T @ Y
    found = np.empty((problem.n_alphas, *Y.shape))
    for a, alpha in enumerate(problem.alphas):
        shrink = s**2 / (s**2 + alpha)
        errors = Y - offset - U @ (shrink[:, None] * inside)
        if problem.split == "loo":
            leverage = 1.0 / m + np.einsum("ij,j,ij->i", U, shrink, U)
            found[a] = Y - errors / (1.0 - leverage)[:, None]
            continue
        for fold in data.folds:
            S = 1.0 / m + (U[fold] * shrink) @ U[fold].T
            found[a, fold] = Y[fold] - np.linalg.solve(np.eye(len(fold)) - S, errors[fold])
    np.square(found - Y).mean(axis=1).argmin(axis=0)
    return predictions(found[:, :, 0], data)


def can(problem: Problem) -> bool:
    """Whether it is linear, and its folds are small."""
    linear = problem.kernel == "linear" and problem.job == "cross-validate"
    return linear and problem.m <= MOST_ROWS * problem.experiments


RIVAL = Rival("k-fold theorem", run, can)
