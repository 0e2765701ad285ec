"""scikit-learn: a grid search over `KernelRidge`, and `RidgeCV`, on Nyström features if need be."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn.kernel_approximation import Nystroem
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import GridSearchCV, PredefinedSplit

from benchmarks.problems import SEED, UNSHIFTED, Data, Problem
from benchmarks.rivals.base import Outcome, Rival, needs_retraining, needs_square, only_dense


def splits(data: Data) -> PredefinedSplit:
    """Return the problem's held-out sets as a splitter."""
    return PredefinedSplit(data.labels)


def _grid_search(problem: Problem, data: Data) -> GridSearchCV:
    search = GridSearchCV(
        KernelRidge(kernel="rbf", gamma=problem.gamma),
        {"alpha": problem.alphas},
        cv=splits(data),
        scoring="neg_mean_squared_error",
    )
    return search.fit(data.X, data.y)


def _read_grid(problem: Problem, data: Data, result: GridSearchCV) -> Outcome:
    columns: Iterable[int] = range(problem.n_experiments)
    errors = [-result.cv_results_[f"split{j}_test_score"] for j in columns]
    return Outcome(errors=np.stack(errors, axis=1))


def _ridge(problem: Problem, data: Data, **options: Any) -> RidgeCV:
    features = data.X
    if problem.kernel == "rbf":
        features = Nystroem(
            kernel="rbf", gamma=problem.gamma, n_components=problem.n, random_state=SEED
        ).fit_transform(data.X)
    ridge = RidgeCV(
        alphas=problem.alphas, fit_intercept=False, scoring="neg_mean_squared_error", **options
    )
    return ridge.fit(features, data.y)


def _ridge_loo(problem: Problem, data: Data) -> RidgeCV:
    per_target = problem.targets > 1
    return _ridge(problem, data, store_cv_results=True, alpha_per_target=per_target)


def _ridge_folds(problem: Problem, data: Data) -> RidgeCV:
    return _ridge(problem, data, cv=splits(data))


def _read_loo(problem: Problem, data: Data, result: RidgeCV) -> Outcome:
    return Outcome(predictions=result.cv_results_.reshape(problem.m, problem.targets, -1)[:, 0].T)


def _read_folds(problem: Problem, data: Data, result: RidgeCV) -> Outcome:
    return Outcome(best=(float(result.alpha_), -float(result.best_score_)))


def _features(problem: Problem, loo: bool) -> str | None:
    if problem.dense and problem.kernel == "rbf":
        return "needs basis rows for its features"
    if (problem.split == "loo") != loo:
        return "is leave-one-out" if loo else "is k-fold"
    return None


RIVALS = (
    Rival(
        "grid-search",
        "scikit-learn GridSearchCV(KernelRidge)",
        _grid_search,
        _read_grid,
        refuses=lambda problem: (
            only_dense(problem) or needs_square(problem) or needs_retraining(problem)
        ),
        package="scikit-learn",
    ),
    Rival(
        "ridge-loo",
        "scikit-learn RidgeCV (Nystroem before it)",
        _ridge_loo,
        _read_loo,
        model=UNSHIFTED,
        kernels=("rbf", "linear"),
        many=True,
        refuses=lambda problem: _features(problem, loo=True),
        package="scikit-learn",
    ),
    Rival(
        "ridge-folds",
        "scikit-learn RidgeCV(cv=k) (Nystroem before it)",
        _ridge_folds,
        _read_folds,
        model=UNSHIFTED,
        kernels=("rbf", "linear"),
        refuses=lambda problem: _features(problem, loo=False) or needs_retraining(problem),
        package="scikit-learn",
    ),
)
