"""holdfast itself: the common model, its defaults, and the same with streamed rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from sklearn.model_selection import LeaveOneGroupOut

from benchmarks.problems import COMMON, DEFAULT, JITTER, SEED, Data, Model, Problem
from benchmarks.rivals.base import Outcome, Rival
from holdfast import KernelRidgeCV
from holdfast.exceptions import HoldfastWarning


def estimator(problem: Problem, data: Data, model: Model, **options: Any) -> KernelRidgeCV:
    """Return the estimator that does the problem's job on the given model."""
    cv: Any = {"loo": None, "folds": problem.parts, "groups": LeaveOneGroupOut()}[problem.split]
    return KernelRidgeCV(
        "rbf",
        gamma=problem.gamma,
        alphas=problem.alphas,
        basis=data.basis,
        cv=cv,
        held_out_basis=model.policy,
        fit_intercept=model.bias,
        jitter=JITTER,
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
    return Outcome(predictions=result.held_out().matrix()[:, :, 0])


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
    Rival("holdfast", "holdfast", _runs(COMMON), _read, package="holdfast"),
    Rival(
        "holdfast-remove",
        "holdfast, basis rows removed",
        _runs(REMOVE),
        _read,
        model=REMOVE,
        refuses=_removes,
        package="holdfast",
    ),
    Rival(
        "holdfast-default",
        "holdfast, defaults (bias, basis rows removed)",
        _runs(DEFAULT),
        _read,
        model=DEFAULT,
        package="holdfast",
    ),
    Rival(
        "holdfast-streamed",
        "holdfast, rows streamed",
        _run_streamed,
        _read,
        refuses=_streamed,
        package="holdfast",
    ),
)
