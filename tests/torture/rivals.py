"""What others answer on the same problems, each judged by the exact answer of its own model.

`RidgeCV` leaves single rows out of a linear model. `GridSearchCV` over `KernelRidge` retrains for
every held-out set and penalty; its model has neither a bias nor basis rows. The package answers the
same questions with the path that its planner takes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import GridSearchCV

from torture.families import Problem
from torture.measure import answered, fitted
from torture.truth import truth

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Pair:
    """The largest errors of a rival and of the package on one problem, over all penalties."""

    rival: float
    ours: float


def ridge_cv(p: Problem) -> Pair | None:
    """Return the errors of leave-one-out by `RidgeCV`.

    None where the kernel is not linear, or no row is held out alone.
    """
    if p.kernel["kernel"] != "linear" or not any(len(held) == 1 for held in p.sets):
        return None
    weights = np.ones(len(p.X)) if p.weights is None else p.weights
    kept = np.flatnonzero(weights)  # RidgeCV divides by the root of the weight
    single = np.isin(kept, [int(held[0]) for held in p.sets if len(held) == 1])
    problem = replace(
        p, X=p.X[kept], y=p.y[kept], weights=None if p.weights is None else weights[kept],
        sets=[np.array([row]) for row in np.flatnonzero(single)],
    )  # fmt: skip
    return _pair(problem, _by_ridge_cv)


def grid_search(p: Problem) -> Pair:
    """Return the errors of `GridSearchCV(KernelRidge)`, without bias and basis rows."""
    return _pair(replace(p, basis=None, policy="remove", bias=False), _by_grid_search)


def _pair(p: Problem, rival: Callable[[Problem], Floats]) -> Pair:
    p = replace(p, y=p.y.reshape(len(p.y), -1)[:, 0])
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        theirs = rival(p)
        model = fitted(p, "auto")
        judge = truth(p, model)
        ours = np.stack([values for values, _ in answered(model, p.alphas)])
    errors = [judge.error(values) for values in (theirs[:, :, None], ours)]
    return Pair(*(float(np.max(np.where(np.isnan(e), np.inf, e))) for e in errors))


def _by_ridge_cv(p: Problem) -> Floats:
    """Return held-out predictions (alphas, test rows)."""
    model = RidgeCV(
        alphas=p.alphas, fit_intercept=p.bias, scoring="neg_mean_squared_error",
        store_cv_results=True,
    )  # fmt: skip
    model.fit(p.X, p.y, sample_weight=p.weights)
    return model.cv_results_.T[:, np.concatenate(p.sets)]


def _by_grid_search(p: Problem) -> Floats:
    """Return held-out predictions (alphas, test rows) of the models that the search trains.

    A kernel that is not linear is given as the values that everybody starts from.
    """
    X, kernel = p.X, "linear"
    if p.kernel["kernel"] != "linear":
        X, kernel = np.asarray(fitted(p, "per_fold").kernel_(p.X)), "precomputed"
    every = np.arange(len(p.X))
    found: dict[float, list[Floats]] = {float(alpha): [] for alpha in p.alphas}

    def keep(model: KernelRidge, rows: Floats, _: Floats) -> float:
        found[float(model.alpha)].append(model.predict(rows))
        return 0.0

    search = GridSearchCV(
        KernelRidge(kernel=kernel), {"alpha": [float(a) for a in p.alphas]}, scoring=keep,
        cv=[(np.setdiff1d(every, held), held) for held in p.sets], refit=False, error_score="raise",
    )  # fmt: skip
    search.fit(X, p.y, **({} if p.weights is None else {"sample_weight": p.weights}))
    return np.array([np.concatenate(parts) for parts in found.values()])
