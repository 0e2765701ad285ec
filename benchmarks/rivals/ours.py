"""holdfast itself: the common model, its defaults, and the same with streamed rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.model_selection import LeaveOneGroupOut

from benchmarks.problems import COMMON, DEFAULT, JITTER, SEED, Data, Model, Problem
from benchmarks.rivals.base import Outcome, Rival
from holdfast import KernelRidgeCV
from holdfast.exceptions import HoldfastWarning


def estimator(problem: Problem, data: Data, model: Model, **options: Any) -> KernelRidgeCV:
    """Return the estimator that does the problem's job on the given model."""
    cv: Any = {"loo": None, "folds": problem.parts, "groups": LeaveOneGroupOut()}[problem.split]
    return KernelRidgeCV(
        problem.kernel,
        gamma=problem.gamma if problem.kernel == "rbf" else None,
        alphas=problem.alphas,
        basis=data.basis,
        cv=cv,
        held_out_basis=model.policy,
        fit_intercept=model.bias,
        jitter=JITTER,
        alpha_per_target=problem.targets > 1,
        random_state=SEED,
        **options,
    )


def fit(estimator: KernelRidgeCV, problem: Problem, data: Data) -> KernelRidgeCV:
    """Fit without the word about a best penalty at the edge of the grid."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HoldfastWarning)
        groups = data.labels if problem.split == "groups" else None
        return estimator.fit(data.X, data.y, groups=groups)


def _read(problem: Problem, data: Data, result: KernelRidgeCV) -> Outcome:
    found = result.held_out()
    predictions = np.empty(found.values.shape[:2])
    predictions[:, found.rows] = found.values[:, :, 0]  # every row is tested once
    return Outcome(predictions=predictions)


def _promised(result: KernelRidgeCV) -> float:
    plan = result.explain()
    return float(next(cost.bytes for cost in plan.costs if cost.path == plan.path))


def _runs(model: Model) -> Callable[[Problem, Data], KernelRidgeCV]:
    return lambda problem, data: fit(estimator(problem, data, model), problem, data)


def _streamed(problem: Problem) -> str | None:
    return "has no rows to stream: the model is dense" if problem.dense else None


def _removes(problem: Problem) -> str | None:
    return "is the same: a dense model has no basis to keep" if problem.dense else None


def _run_streamed(problem: Problem, data: Data) -> KernelRidgeCV:
    # A tenth of what the feature rows take, so that they are computed again when needed.
    limit = 0.8 * problem.m * (problem.n or problem.m)
    return fit(estimator(problem, data, COMMON, memory_limit=limit), problem, data)


REMOVE = Model("remove", bias=False)

RIVALS = (
    Rival(
        "holdfast",
        "holdfast",
        _runs(COMMON),
        _read,
        promised=_promised,
        package="holdfast",
        kernels=("rbf", "linear"),
        many=True,
    ),
    Rival(
        "holdfast-remove",
        "holdfast, basis rows removed",
        _runs(REMOVE),
        _read,
        model=REMOVE,
        refuses=_removes,
        promised=_promised,
        package="holdfast",
    ),
    Rival(
        "holdfast-default",
        "holdfast, defaults (bias, basis rows removed)",
        _runs(DEFAULT),
        _read,
        model=DEFAULT,
        promised=_promised,
        package="holdfast",
    ),
    Rival(
        "holdfast-streamed",
        "holdfast, rows streamed",
        _run_streamed,
        _read,
        refuses=_streamed,
        promised=_promised,
        package="holdfast",
    ),
)
