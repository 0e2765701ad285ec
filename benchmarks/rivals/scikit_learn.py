"""scikit-learn: a grid search over `KernelRidge`, and `RidgeCV` on Nyström features."""

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


def _nystroem_ridge(problem: Problem, data: Data, **options: Any) -> RidgeCV:
    features = Nystroem(
        kernel="rbf", gamma=problem.gamma, n_components=problem.n, random_state=SEED
    ).fit_transform(data.X)
    ridge = RidgeCV(
        alphas=problem.alphas, fit_intercept=False, scoring="neg_mean_squared_error", **options
    )
    return ridge.fit(features, data.y)


def _ridge_loo(problem: Problem, data: Data) -> RidgeCV:
    return _nystroem_ridge(problem, data, store_cv_results=True)


def _ridge_folds(problem: Problem, data: Data) -> RidgeCV:
    return _nystroem_ridge(problem, data, cv=splits(data))


def _read_loo(problem: Problem, data: Data, result: RidgeCV) -> Outcome:
    return Outcome(predictions=result.cv_results_.T)


def _read_folds(problem: Problem, data: Data, result: RidgeCV) -> Outcome:
    return Outcome(best=(float(result.alpha_), -float(result.best_score_)))


def _sparse(problem: Problem, loo: bool) -> str | None:
    if problem.dense:
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
        "scikit-learn Nystroem + RidgeCV",
        _ridge_loo,
        _read_loo,
        model=UNSHIFTED,
        refuses=lambda problem: _sparse(problem, loo=True),
        package="scikit-learn",
    ),
    Rival(
        "ridge-folds",
        "scikit-learn Nystroem + RidgeCV(cv=k)",
        _ridge_folds,
        _read_folds,
        model=UNSHIFTED,
        refuses=lambda problem: _sparse(problem, loo=False) or needs_retraining(problem),
        package="scikit-learn",
    ),
)
