"""himalaya: `KernelRidgeCV`, and a random search for the weights of several kernels."""

from __future__ import annotations

import numpy as np
from sklearn.model_selection import KFold, PredefinedSplit

from benchmarks.problems import BANDS, Data, Problem
from benchmarks.rivals.base import Done, Rival, value


def run(problem: Problem, data: Data) -> Done:
    """Do the job; weights and penalty of a mixture are chosen for each target."""
    # An optional package: imported when run.
    from himalaya.kernel_ridge import KernelRidgeCV, solve_multiple_kernel_ridge_random_search

    if problem.job == "mixture":
        bands = np.split(data.X, BANDS, axis=1)
        found = solve_multiple_kernel_ridge_random_search(
            np.stack([band @ band.T for band in bands]),
            data.y,
            n_iter=data.weights,
            alphas=problem.alphas,
            cv=KFold(problem.parts),
            return_weights="dual",
            progress_bar=False,
        )
        return value(found[2].max(axis=0).mean())
    model = KernelRidgeCV(
        kernel="rbf",
        kernel_params={"gamma": problem.gamma},
        alphas=problem.alphas,
        cv=PredefinedSplit(data.labels),
        warn=False,
    ).fit(data.X, data.y.reshape(problem.m, -1))
    # Only the best score is kept: a negative mean squared error, averaged over folds.
    best = float(model.best_alphas_[0]), -float(np.ravel(model.cv_scores_)[0])
    return Done(lambda asked: {"best": best})


def can(problem: Problem) -> bool:
    """Whether it is a mixture, or folds of a dense model."""
    if problem.job == "mixture":
        return True
    dense = problem.kernel == "rbf" and problem.n is None
    return problem.job == "cross-validate" and dense and problem.experiments <= 50


RIVAL = Rival("himalaya", run, can, "himalaya")
