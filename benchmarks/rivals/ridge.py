"""Linear ridge in folds: the k-fold theorem, and CVMatrix.

Liland, Skogholt and Indahl (2024): with X = U s Vᵀ the hat matrix of ridge regression is
S = U diag(s²/(s² + λ)) Uᵀ, and the held-out residuals of a fold H are (I − S_HH)⁻¹ e_H, so that one
singular value decomposition serves all folds and penalties. The few lines are ours.

CVMatrix gives XᵀX and Xᵀy of the rows of each training set without forming them again; what a
ridge model needs besides, one eigendecomposition for each fold, is ours as well.
"""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np

from benchmarks.problems import Data, Floats, Problem
from benchmarks.rivals.base import Outcome, Rival, needs_retraining

#: Rows of the largest folds that the theorem is run on: it solves systems of that size.
MOST_ROWS = 1_000


def kfold_theorem(problem: Problem, data: Data) -> Floats:
    """Return held-out predictions (alphas, m, targets)."""
    Y = data.y.reshape(problem.m, -1)
    U, s, _ = np.linalg.svd(data.X, full_matrices=False)
    inside = U.T @ Y
    folds = None if problem.split == "loo" else data.experiments()
    found = np.empty((problem.n_alphas, *Y.shape))
    for a, alpha in enumerate(problem.alphas):
        shrink = s**2 / (s**2 + alpha)
        errors = Y - U @ (shrink[:, None] * inside)
        if folds is None:
            leverage = np.einsum("ij,j,ij->i", U, shrink, U)
            found[a] = Y - errors / (1.0 - leverage)[:, None]
            continue
        for fold in folds:
            S = (U[fold] * shrink) @ U[fold].T
            found[a, fold] = Y[fold] - np.linalg.solve(np.eye(len(fold)) - S, errors[fold])
    return found


def _cvmatrix(problem: Problem, data: Data) -> Floats:
    from cvmatrix.cvmatrix import CVMatrix  # an optional package: imported when run

    Y = data.y.reshape(problem.m, -1)
    moments = CVMatrix(center_X=False, center_Y=False, scale_X=False, scale_Y=False, copy=False)
    moments.fit(data.X, Y)
    found = np.empty((problem.n_alphas, *Y.shape))
    for fold in data.experiments():
        (XTX, XTY), _ = moments.training_XTX_XTY(fold)
        values, V = np.linalg.eigh(XTX)
        rows, inside = data.X[fold] @ V, V.T @ XTY
        for a, alpha in enumerate(problem.alphas):
            found[a, fold] = rows @ (inside / (values + alpha)[:, None])
    return found


def _small_folds(problem: Problem) -> str | None:
    """Refuse folds whose own matrices would be larger than anyone would solve at each penalty."""
    if problem.m <= MOST_ROWS * problem.n_experiments:
        return None
    return f"solves a system of {problem.m // problem.parts:,} rows for each fold and penalty"


def _read(problem: Problem, data: Data, result: Floats) -> Outcome:
    return Outcome(predictions=result[:, :, 0])


RIVALS = (
    Rival(
        "kfold-theorem",
        "k-fold theorem, Liland et al. (our implementation)",
        kfold_theorem,
        _read,
        refuses=_small_folds,
        kernels=("linear",),
        many=True,
    ),
    Rival(
        "cvmatrix",
        "CVMatrix and an eigendecomposition per fold",
        _cvmatrix,
        _read,
        refuses=lambda problem: needs_retraining(problem, most=1_000),
        missing=lambda: None if find_spec("cvmatrix") else "cvmatrix is not installed",
        package="cvmatrix",
        kernels=("linear",),
        many=True,
    ),
)
