"""holdfast."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.model_selection import KFold, LeaveOneGroupOut, LeaveOneOut

from benchmarks.problems import BANDS, N_PERMUTATIONS, OUTER_FOLDS, Data, Problem
from benchmarks.rivals.base import Answer, Asked, Done, Rival, nothing, value
from benchmarks.rivals.by_scikit_learn import single
from holdfast import KernelMixtureCV, KernelRidgeClassifierCV, KernelRidgeCV
from holdfast.exceptions import HoldfastWarning
from holdfast.kernels import Linear, OnColumns
from holdfast.model_selection import cross_val_predict

#: ε of a sparse model, the estimator's default; the RBF kernel has a diagonal of ones.
JITTER = 1e-10


def estimator(problem: Problem, data: Data, **options: Any) -> KernelRidgeCV:
    """Return the estimator that does the problem's job."""
    return KernelRidgeCV(
        problem.kernel,
        gamma=options.pop("gamma", problem.gamma if problem.kernel == "rbf" else None),
        alphas=problem.alphas,
        basis=data.basis,
        cv=splitter(problem),
        held_out_basis="keep",  # as every other library has it
        fit_intercept=problem.bias,
        jitter=JITTER,
        alpha_per_target=problem.targets > 1,
        **options,
    )


def splitter(problem: Problem) -> Any:
    """Return the problem's way of holding out."""
    return {
        "loo": None,
        "folds": KFold(max(problem.parts, 2)),
        "groups": LeaveOneGroupOut(),
    }[problem.split]


def _cross_validate(problem: Problem, data: Data) -> Done:
    groups = data.labels if problem.split == "groups" else None
    model = estimator(problem, data).fit(data.X, data.y, groups=groups)

    def read(asked: Asked) -> Answer:
        alphas = problem.alphas[list(asked["alphas"])]
        found = model.held_out(splitter(problem), groups=groups, alphas=alphas).predictions
        parts = [found[j].reshape(len(alphas), -1, problem.targets) for j in asked["experiments"]]
        return {"predictions": [part[:, :, 0].tolist() for part in parts], "jitter": JITTER}

    return Done(read)


def _search(problem: Problem, data: Data) -> Done:
    estimator(problem, data, gamma="search").fit(data.X, data.y)
    return nothing()


def _classify(problem: Problem, data: Data) -> Done:
    model = KernelRidgeClassifierCV(problem.kernel, alphas=problem.alphas, cv=splitter(problem))
    model.fit(data.X, data.y)
    return nothing()


def _nested(problem: Problem, data: Data) -> Done:
    model = estimator(problem, data).fit(data.X, data.y)
    return value(model.nested(cv=KFold(OUTER_FOLDS)).score())


def _permutation(problem: Problem, data: Data) -> Done:
    model = estimator(problem, data).fit(data.X, data.y)
    return value(model.permutation_test(N_PERMUTATIONS, random_state=0).score)


def _interval(problem: Problem, data: Data) -> Done:
    model = estimator(problem, data).fit(data.X, data.y)
    return value(model.predict_interval(data.new, level=0.9))


def _drop_in(problem: Problem, data: Data) -> Done:
    cv = splitter(problem) or LeaveOneOut()
    return value(cross_val_predict(single(problem), data.X, data.y, cv=cv))


def _mixture(problem: Problem, data: Data) -> Done:
    width = problem.d // BANDS
    bands = [OnColumns(Linear(), range(b * width, (b + 1) * width)) for b in range(BANDS)]
    model = KernelMixtureCV(
        bands,
        draws=data.weights,
        normalise=False,
        alphas=problem.alphas,
        cv=splitter(problem),
        fit_intercept=False,
        weights_per_target=True,
        alpha_per_target=True,
        pooled=False,
    )
    return value(np.mean(model.fit(data.X, data.y).best_score_))


WAYS = {
    "cross-validate": _cross_validate,
    "search": _search,
    "classify": _classify,
    "nested": _nested,
    "permutation": _permutation,
    "interval": _interval,
    "drop-in": _drop_in,
    "mixture": _mixture,
}


def run(problem: Problem, data: Data) -> Done:
    """Do the job without the word about a best penalty at the end of the grid."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HoldfastWarning)
        return WAYS[problem.job](problem, data)


RIVAL = Rival("holdfast", run, lambda problem: True, "holdfast")
