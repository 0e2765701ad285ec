"""`permutation_test_score`: permuted targets are more right-hand sides of one smoother.

The orders of the targets are those that scikit-learn draws. Held-out predictions for all of them
come from one smoother, and the scorer sees one order after the other.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import is_classifier
from sklearn.metrics import check_scoring, mean_absolute_error, mean_squared_error, r2_score
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneGroupOut,
    LeaveOneOut,
    LeavePGroupsOut,
    LeavePOut,
    PredefinedSplit,
    ShuffleSplit,
    TimeSeriesSplit,
    check_cv,
)
from sklearn.model_selection import permutation_test_score as _permutation_test_score
from sklearn.utils import _safe_indexing, check_random_state

from holdfast._typing import FloatArray, IntArray
from holdfast.model_selection.description import Refit, refits_errors
from holdfast.model_selection.functions import drop_in
from holdfast.model_selection.job import Job
from holdfast.model_selection.problem import Problem, penalties_of
from holdfast.model_selection.question import Question, Splits, described_of, number_of_rows
from holdfast.model_selection.stand_in import Answers, on_rows, r2

#: Splitters that do not look at the targets.
ROWS_ALONE = (
    GroupKFold,
    KFold,
    LeaveOneGroupOut,
    LeaveOneOut,
    LeavePGroupsOut,
    LeavePOut,
    PredefinedSplit,
    ShuffleSplit,
    TimeSeriesSplit,
)
#: From targets and predictions (t, n) to one number for each column.
Measure = Callable[[FloatArray, FloatArray], FloatArray]
MEASURES: dict[Any, Measure] = {
    r2_score: r2,
    mean_squared_error: lambda truth, values: np.square(truth - values).mean(axis=0),
    mean_absolute_error: lambda truth, values: np.abs(truth - values).mean(axis=0),
}
#: Numbers of predictions that are made at once.
BLOCK_DOUBLES = 2**22


@drop_in(_permutation_test_score)
def permutation_test_score(given: dict[str, Any]) -> Any:
    """Return score, scores of permuted targets and p value as scikit-learn, without refits.

    Parameters
    ----------
    estimator, X, y, groups, cv, n_permutations, n_jobs, random_state, verbose, scoring, params
        As in `sklearn.model_selection.permutation_test_score`. The same `random_state` gives the
        same permutations.

    Returns
    -------
    score : float
    permutation_scores : ndarray of shape (n_permutations,)
    pvalue : float

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import Ridge
    >>> from holdfast.model_selection import permutation_test_score
    >>> X, y = load_diabetes(return_X_y=True)
    >>> score, null, pvalue = permutation_test_score(Ridge(), X, y, n_permutations=200)
    >>> print(f"{score:.2f} {null.max():.2f} {pvalue:.3f}")
    0.41 0.02 0.005
    """
    if hasattr(given["cv"], "__next__"):
        given["cv"] = list(given["cv"])  # an iterator gives its splits once
    # Generators shall draw for refits what they drew here.
    untouched = {**given, "cv": deepcopy(given["cv"])}
    untouched["random_state"] = deepcopy(given["random_state"])
    try:
        described_of(given)
        runs = _runs_of(given)
        question = Question.of({**given, "cv": runs[0].splits})
        problem, scorer = question.problem(), _scorer(given)
        blocks = _blocks(runs, problem)
        scores = np.concatenate([_scores(question, problem, block, scorer) for block in blocks])
    except Refit as refit:
        return Job.left("permutation_test_score", untouched, refit).run(_permutation_test_score)
    null = scores[1:]
    return float(scores[0]), null, float((np.sum(null >= scores[0]) + 1.0) / (null.size + 1))


@refits_errors
def _scorer(given: dict[str, Any]) -> Any:
    return check_scoring(given["estimator"], scoring=on_rows(given["scoring"]))


class _Run(NamedTuple):
    """The order of the targets, and how they are split."""

    order: IntArray
    splits: Splits


@refits_errors
def _runs_of(given: dict[str, Any]) -> list[_Run]:
    """Return the targets as they are, and in every order that scikit-learn puts them in."""
    X, y, groups, m = given["X"], given["y"], given["groups"], number_of_rows(given["X"])
    cv = check_cv(given["cv"], y, classifier=is_classifier(given["estimator"]))
    generator = check_random_state(given["random_state"])
    orders = [_permuted(groups, m, generator) for _ in range(given["n_permutations"])]
    first = Splits(m, cv.split(X, y, groups))
    runs = [_Run(np.arange(m), first)]
    same = _splits_rows(given["cv"], cv)
    for order in orders:
        splits = runs[-1].splits
        if not same:
            own = Splits(m, cv.split(X, _safe_indexing(y, order), groups))
            splits = splits if own == splits else own
        runs.append(_Run(order, splits))
    if len(runs) < 2:
        raise Refit  # which scikit-learn refuses
    return runs


def _permuted(groups: Any, m: int, generator: Any) -> IntArray:
    """Return the next order of the targets, among those of a group if there are groups."""
    if groups is None:
        return np.asarray(generator.permutation(m))
    order, groups = np.arange(m), np.asarray(groups)
    for group in np.unique(groups):
        inside = groups == group
        order[inside] = generator.permutation(order[inside])
    return order


def _splits_rows(given: Any, cv: Any) -> bool:
    """Whether targets are split alike in any order: nothing looks at them, and nothing is drawn."""
    if not (given is None or isinstance(given, numbers.Integral) or hasattr(given, "split")):
        return True  # a list of splits
    draws = getattr(cv, "shuffle", type(cv) is ShuffleSplit)
    seeded = isinstance(getattr(cv, "random_state", 0), numbers.Integral)
    return type(cv) in ROWS_ALONE and (seeded or not draws)


def _blocks(runs: list[_Run], problem: Problem) -> list[list[_Run]]:
    """Return runs that are split alike, so many that their predictions fit into a block."""
    found = []
    for _, same in groupby(runs, key=lambda run: id(run.splits)):
        some = list(same)
        per_run = some[0].splits.experiments().test.values.size * problem.Y.shape[1]
        step = max(1, BLOCK_DOUBLES // per_run)
        found += [some[i : i + step] for i in range(0, len(some), step)]
    return found


def _scores(question: Question, problem: Problem, block: list[_Run], scorer: Any) -> FloatArray:
    """Return the mean score over the splits of the targets in each order of a block."""
    orders, splits = [run.order for run in block], block[0].splits
    experiments, v = splits.experiments(), problem.Y.shape[1]
    Y = np.hstack([problem.Y[order] for order in orders])
    penalties = np.tile(penalties_of(question.described, problem), len(orders))[None]
    (values,) = problem.held_out(experiments, penalties, Y)
    test, measure = experiments.test, _measure_of(scorer)
    plain = v == 1 and problem.classes is None and question.described.target is None
    if plain and measure is not None and test.sizes.min() > 1:
        parts = [
            measure(Y[test[j]], values[test.ptr[j] : test.ptr[j + 1]]) for j in range(len(test))
        ]
        return np.asarray(np.mean(parts, axis=0))
    found = np.empty(len(orders))
    for i, order in enumerate(orders):
        own = replace(question, y=_safe_indexing(question.y, order), splits=splits)
        part = values[:, i * v : (i + 1) * v]
        model, scores = Answers(own, problem, experiments, [part]).stand_in(), []
        for train, rows in map(_arrays, splits):
            model.fit(train[:, None], _safe_indexing(own.y, train))
            if problem.classes is not None and model.classes_.size < 2:
                raise Refit("a split trains on a single class")
            scores.append(scorer(model, rows[:, None], _safe_indexing(own.y, rows)))
        found[i] = np.mean(scores)
    return found


def _arrays(split: Any) -> tuple[IntArray, IntArray]:
    return np.asarray(split[0]), np.asarray(split[1])


def _measure_of(scorer: Any) -> Measure | None:
    """Return the function that a scorer of a regressor is, if it is known here."""
    if type(scorer).__name__ == "_PassthroughScorer":  # the default
        return r2
    sign, measure = getattr(scorer, "_sign", 1), MEASURES.get(getattr(scorer, "_score_func", None))
    if measure is None or scorer._kwargs:
        return None
    return lambda truth, values: sign * measure(truth, values)
