"""himalaya's `KernelRidgeCV`: dense, k-fold, one eigendecomposition for each fold."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from benchmarks.problems import Data, Problem
from benchmarks.rivals.base import Outcome, Rival, needs_retraining, needs_square, only_dense
from benchmarks.rivals.scikit_learn import splits


def _run(problem: Problem, data: Data) -> Any:
    from himalaya.kernel_ridge import KernelRidgeCV  # an optional package: imported when run

    model = KernelRidgeCV(
        alphas=problem.alphas,
        kernel="rbf",
        kernel_params={"gamma": problem.gamma},
        cv=splits(data),
        warn=False,
    )
    return model.fit(data.X, data.y[:, None])


def _read(problem: Problem, data: Data, result: Any) -> Outcome:
    # Only the best score is kept: a negative mean squared error, averaged over folds.
    return Outcome(best=(float(result.best_alphas_[0]), -float(result.cv_scores_.ravel()[0])))


RIVALS = (
    Rival(
        "himalaya",
        "himalaya KernelRidgeCV",
        _run,
        _read,
        refuses=lambda problem: (
            only_dense(problem) or needs_square(problem) or needs_retraining(problem)
        ),
        missing=lambda: None if find_spec("himalaya") else "himalaya is not installed",
        package="himalaya",
    ),
)
