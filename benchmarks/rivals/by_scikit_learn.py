"""scikit-learn: `RidgeCV`, on Nyström features if need be, and grid searches of `KernelRidge`."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge, RidgeClassifierCV, RidgeCV
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    PredefinedSplit,
    cross_val_predict,
    cross_val_score,
    permutation_test_score,
)

from benchmarks.problems import N_PERMUTATIONS, OUTER_FOLDS, Data, Floats, Problem
from benchmarks.rivals.base import Answer, Asked, Done, Rival, nothing, predictions, value

MSE = "neg_mean_squared_error"


def _features(problem: Problem, data: Data) -> Floats:
    if problem.n is None:
        return data.X
    nystroem = Nystroem(kernel="rbf", gamma=problem.gamma, n_components=problem.n, random_state=0)
    features: Floats = nystroem.fit_transform(data.X)
    return features


def _ridge(problem: Problem, data: Data) -> Done:
    """Leave-one-out in closed form, or a grid search over folds."""
    options: dict[str, Any] = {"alphas": problem.alphas, "fit_intercept": problem.bias}
    if problem.split == "loo":
        options["alpha_per_target"] = problem.targets > 1
    else:
        options |= {"cv": PredefinedSplit(data.labels), "scoring": MSE}
    model = RidgeCV(**options).fit(_features(problem, data), data.y)
    if problem.split != "loo":
        best = float(model.alpha_), -float(model.best_score_)
        return Done(lambda asked: {"best": best} if problem.n is None else {})
    if problem.n is not None:
        return nothing()  # Nyström features of rows that scikit-learn chooses itself

    def read(asked: Asked) -> Answer:
        kept = RidgeCV(**options, scoring=MSE, store_cv_results=True).fit(data.X, data.y)
        values = kept.cv_results_.reshape(problem.m, problem.targets, -1)[:, 0].T
        return predictions(values, data).read(asked)

    return Done(read)


def _search(problem: Problem, data: Data, cv: Any, gammas: Any = None) -> GridSearchCV:
    grid = {"alpha": problem.alphas, "gamma": [problem.gamma] if gammas is None else gammas}
    return GridSearchCV(KernelRidge(kernel="rbf"), grid, cv=cv, scoring=MSE)


def _kernel_ridge(problem: Problem, data: Data) -> Done:
    search = _search(problem, data, PredefinedSplit(data.labels)).fit(data.X, data.y)

    def read(asked: Asked) -> Answer:
        table = search.cv_results_
        found = [
            [-float(table[f"split{j}_test_score"][a]) for a in asked["alphas"]]
            for j in asked["experiments"]
        ]
        return {"errors": found}

    return Done(read)


def single(problem: Problem) -> Ridge | KernelRidge:
    """Return the model of a problem with one penalty."""
    alpha = float(problem.alphas[0])
    if problem.kernel == "linear":
        return Ridge(alpha)
    return KernelRidge(kernel="rbf", gamma=problem.gamma, alpha=alpha)


def run(problem: Problem, data: Data) -> Done:
    """Do the job in the way that scikit-learn has for it."""
    X, y, inner = data.X, data.y, KFold(max(problem.parts, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        if problem.job == "cross-validate":
            ridge = problem.kernel == "linear" or problem.n is not None
            return (_ridge if ridge else _kernel_ridge)(problem, data)
        if problem.job == "search":
            gammas = problem.gamma * 4.0 ** np.arange(-2, 3)
            _search(problem, data, PredefinedSplit(data.labels), gammas).fit(X, y)
            return nothing()
        if problem.job == "classify":
            RidgeClassifierCV(problem.alphas).fit(X, y)
            return nothing()
        if problem.job == "nested":
            search = _search(problem, data, inner)
            return value(cross_val_score(search, X, y, cv=KFold(OUTER_FOLDS), scoring=MSE).mean())
        model = single(problem)
        if problem.job == "drop-in":
            return value(cross_val_predict(model, X, y, cv=PredefinedSplit(data.labels)))
        options = {"cv": inner, "scoring": MSE, "n_permutations": N_PERMUTATIONS}
        return value(permutation_test_score(model, X, y, random_state=0, **options)[0])


def can(problem: Problem) -> bool:
    """Whether there is a way, and one that does not fit every model of leave-one-out again."""
    if problem.job in ("interval", "mixture"):
        return False
    if problem.job in ("classify", "drop-in"):
        return True
    if problem.kernel == "linear" or problem.n is not None:
        return problem.split == "loo" or (problem.experiments <= 10 and problem.targets == 1)
    return problem.experiments <= 50 and problem.targets == 1


RIVAL = Rival("scikit-learn", run, can, "sklearn")
