"""himalaya: `KernelRidgeCV`, an eigendecomposition for each fold, and `RidgeCV`, one by SVD."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from benchmarks.problems import Data, Problem
from benchmarks.rivals.base import Outcome, Rival, needs_retraining, needs_square, only_dense
from benchmarks.rivals.scikit_learn import splits


def _run(problem: Problem, data: Data) -> Any:
    # An optional package: imported when run.
    from himalaya.kernel_ridge import KernelRidgeCV
    from himalaya.ridge import RidgeCV

    options = {"alphas": problem.alphas, "cv": splits(data)}
    if problem.kernel == "linear":
        # Matrices of test rows by training rows, for as many penalties: one at a time finds room.
        model = RidgeCV(fit_intercept=False, solver_params={"n_alphas_batch": 1}, **options)
    else:
        parameters = {"gamma": problem.gamma}
        model = KernelRidgeCV(kernel="rbf", kernel_params=parameters, warn=False, **options)
    return model.fit(data.X, data.y.reshape(problem.m, -1))


def _read(problem: Problem, data: Data, result: Any) -> Outcome:
    # Only the best score is kept: a negative mean squared error, averaged over folds.
    return Outcome(best=(float(result.best_alphas_[0]), -float(result.cv_scores_.ravel()[0])))


RIVALS = (
    Rival(
        "himalaya",
        "himalaya",
        _run,
        _read,
        refuses=lambda problem: (
            only_dense(problem) or needs_square(problem) or needs_retraining(problem)
        ),
        kernels=("rbf", "linear"),
        many=True,
        missing=lambda: None if find_spec("himalaya") else "himalaya is not installed",
        package="himalaya",
    ),
)
