"""CVMatrix: XᵀX and Xᵀy of each training set, centred; the ridge models on top are ours."""

from __future__ import annotations

import numpy as np

from benchmarks.problems import Data, Problem
from benchmarks.rivals.base import Done, Rival, predictions


def run(problem: Problem, data: Data) -> Done:
    """Hold out every fold, with one eigendecomposition of the moments that CVMatrix gives."""
    from cvmatrix.cvmatrix import CVMatrix  # an optional package: imported when run

    Y = data.y.reshape(problem.m, -1)
    moments = CVMatrix(center_X=True, center_Y=True, scale_X=False, scale_Y=False)
    moments.fit(data.X, Y)
    found = np.empty((problem.n_alphas, *Y.shape))
    for fold in data.folds:
        (XTX, XTY), (centre, _, offset, _) = moments.training_XTX_XTY(fold)
        values, V = np.linalg.eigh(XTX)
        rows, inside = (data.X[fold] - centre) @ V, V.T @ XTY
        for a, alpha in enumerate(problem.alphas):
            found[a, fold] = rows @ (inside / (values + alpha)[:, None]) + offset
    np.square(found - Y).mean(axis=1).argmin(axis=0)
    return predictions(found[:, :, 0], data)


def can(problem: Problem) -> bool:
    """Whether it is linear, in folds."""
    linear = problem.kernel == "linear" and problem.job == "cross-validate"
    return linear and problem.split != "loo"


RIVAL = Rival("CVMatrix", run, can, "cvmatrix")
