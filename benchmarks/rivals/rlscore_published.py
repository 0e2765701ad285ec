"""RLScore's algorithm (our implementation): what its sources say, in our own words.

Pahikkala, Suominen and Boberg's library does one singular value decomposition of the whitened
features (an eigendecomposition of the kernel matrix when the model is dense), then, for every
penalty, leave-one-out from the diagonal of the smoother, and a fold from an inverse of size
min(|H|, p). It keeps held-out basis rows in the basis. The library itself needs an old interpreter
(`benchmarks.rivals.rlscore_library`); this is its arithmetic on the BLAS of today.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from benchmarks.problems import Data, Floats, Problem
from benchmarks.rivals.base import Outcome, Rival, needs_square
from benchmarks.rivals.by_hand import rbf, shifted


def _decompose(problem: Problem, data: Data) -> tuple[Floats, Floats]:
    """Return the nonzero eigenvalues of the kernel (or its approximation) and their vectors."""
    if data.basis is None:
        values, vectors = np.linalg.eigh(rbf(data.X, data.X, problem.gamma))
        return values[values > 0], vectors[:, values > 0]
    K = rbf(data.X, data.X[data.basis], problem.gamma)
    C = np.linalg.cholesky(shifted(K[data.basis]))
    vectors, roots, _ = np.linalg.svd(K @ np.linalg.inv(C.T), full_matrices=False)
    return roots**2, vectors


def _run(problem: Problem, data: Data) -> Floats:
    values, V = _decompose(problem, data)
    z = V.T @ data.y
    predictions = np.empty((problem.n_alphas, problem.m))
    folds = None if problem.split == "loo" else data.experiments()
    for a, alpha in enumerate(problem.alphas):
        b = values / (values + alpha)  # eigenvalues of the smoother
        scaled = V * b
        if folds is None:
            leverage = (V * scaled).sum(axis=1)
            predictions[a] = (scaled @ z - leverage * data.y) / (1.0 - leverage)
            continue
        for held in folds:
            predictions[a, held] = _hold_out(V[held], b, z, data.y[held])
    best = int(np.argmin(((predictions - data.y) ** 2).mean(axis=1)))
    V @ (z / (values + problem.alphas[best]))  # the final model, as the library makes it
    return predictions


def _hold_out(V: Floats, b: Floats, z: Floats, y: Floats) -> Floats:
    """Return predictions for one fold without its rows, from the smaller of two inverses."""
    right = V @ (b * (z - V.T @ y))
    B = b[:, None] * V.T
    if V.shape[0] <= V.shape[1]:
        return np.asarray(scipy.linalg.inv(np.eye(len(V)) - V @ B) @ right)
    return np.asarray(right - V @ (scipy.linalg.inv(B @ V - np.eye(b.size)) @ (B @ right)))


def _read(problem: Problem, data: Data, result: Floats) -> Outcome:
    return Outcome(predictions=result)


RIVALS = (
    Rival(
        "rlscore-published",
        "RLScore's algorithm (our implementation)",
        _run,
        _read,
        refuses=lambda problem: needs_square(problem) if problem.dense else None,
        package="numpy",
    ),
)
