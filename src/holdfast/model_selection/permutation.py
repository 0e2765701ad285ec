"""`permutation_test_score`: permuted targets are more right-hand sides of one smoother."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
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
)
from sklearn.model_selection import permutation_test_score as _permutation_test_score
from sklearn.utils import _safe_indexing, check_random_state
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing

from holdfast._typing import FloatArray, IntArray
from holdfast.core.experiments import Experiments
from holdfast.core.smoother import Smoother
from holdfast.estimators.regression import KernelRidgeCV
from holdfast.model_selection.answering import case_of, form_and_penalty, refitting, routed
from holdfast.model_selection.held_out import experiments_of, predictions, prepared
from holdfast.model_selection.recognise import Form, Refit
from holdfast.model_selection.stand_in import Answers, Case, on_rows, r2, stand_in

__all__ = ["permutation_test_score"]

#: Splitters that do not look at the targets.
SAME_SPLITS = (
    KFold,
    GroupKFold,
    LeaveOneOut,
    LeavePOut,
    LeaveOneGroupOut,
    LeavePGroupsOut,
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


def permutation_test_score(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    groups: Any = None,
    cv: Any = None,
    n_permutations: int = 100,
    n_jobs: int | None = None,
    random_state: Any = 0,
    verbose: int = 0,
    scoring: Any = None,
    params: dict[str, Any] | None = None,
) -> tuple[float, FloatArray, float]:
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
    if hasattr(cv, "__next__"):
        cv = list(cv)  # an iterator gives its splits once
    # Generators shall draw for refits what they drew for us.
    untouched, seed = deepcopy(cv), deepcopy(random_state)
    try:
        if type(estimator) is KernelRidgeCV:
            raise Refit("KernelRidgeCV chooses in every split of every permutation")
        case = case_of(estimator, X, y, groups, cv, params)
        form, penalty = form_and_penalty(case)
        asked = _asked(case, scoring, groups, listed=_listed(cv))
        orders = _orders(len(case), n_permutations, groups, random_state)
        scores = _all_scores(case, form, penalty, orders, asked)
    except Refit as refit:
        job = refitting("permutation_test_score", refit, estimator, X, y, untouched)
        given: dict[str, Any] = {} if params is None else {"params": params}
        found = job.run(
            _permutation_test_score,
            {"n_jobs": n_jobs},
            groups=groups,
            n_permutations=n_permutations,
            random_state=seed,
            verbose=verbose,
            scoring=scoring,
            **given,
        )
        return found[0], found[1], found[2]
    score, null = float(scores[0]), scores[1:]
    return score, null, float((np.sum(null >= score) + 1.0) / (n_permutations + 1))


class _Asked(NamedTuple):
    """The scorer, what it and the splitter get beside the data, and whether splits are listed."""

    scorer: Callable[..., Any]
    score: dict[str, Any]
    split: dict[str, Any]
    listed: bool


def _asked(case: Case, scoring: Any, groups: Any, *, listed: bool) -> _Asked:
    """Return what scorer and splitter receive, by request if metadata are routed."""
    try:
        scorer = check_scoring(case.estimator, scoring=on_rows(scoring, case))
        if not routed():
            return _Asked(scorer, {}, {"groups": groups}, listed)
        router = MetadataRouter(owner="permutation_test_score")
        for name, part, method in (
            ("estimator", case.estimator, "fit"),
            ("splitter", case.cv, "split"),
            ("scorer", scorer, "score"),
        ):
            mapping = MethodMapping().add(caller="fit", callee=method)
            router.add(method_mapping=mapping, **{name: part})
        found = process_routing(router, "fit", **case.fit_params)
    except (TypeError, ValueError) as error:  # which scikit-learn raises, too
        raise Refit from error
    return _Asked(scorer, dict(found.scorer.score), dict(found.splitter.split), listed)


def _orders(m: int, count: int, groups: Any, random_state: Any) -> list[IntArray]:
    """Return the order of the targets as they are, and those of scikit-learn's permutations."""
    try:
        generator, draws = check_random_state(random_state), range(count)
    except (TypeError, ValueError) as error:  # which scikit-learn raises, too
        raise Refit from error
    if not draws:
        raise Refit
    return [np.arange(m), *(_permuted(groups, m, generator) for _ in draws)]


def _all_scores(
    case: Case, form: Form, penalty: FloatArray, orders: list[IntArray], asked: _Asked
) -> FloatArray:
    """Return the mean score over the splits for targets in each of some orders."""
    m, smoother = len(case), prepared(form)
    if asked.listed or _same_splits(case.cv):
        experiments = experiments_of(case.splits, m, everything=False)
        blocks = _blocks(orders, experiments.test.values.size * form.Y.shape[1])
        parts = [_scores(case, form, penalty, experiments, o, asked, smoother) for o in blocks]
        return np.concatenate(parts)
    parts = []
    for i, order in enumerate(orders):
        own = case
        if i:
            y = _safe_indexing(case.y, order)
            own = replace(case, splits=list(case.cv.split(case.X, y, **asked.split)))
        experiments = experiments_of(own.splits, m, everything=False)
        parts.append(_scores(own, form, penalty, experiments, [order], asked, smoother))
    return np.concatenate(parts)


def _listed(cv: Any) -> bool:
    """Whether splits are given themselves, and not what makes them."""
    return not (cv is None or isinstance(cv, numbers.Integral) or hasattr(cv, "split"))


def _same_splits(cv: Any) -> bool:
    """Whether permuted targets are split as the others, every time."""
    drawn = getattr(cv, "shuffle", type(cv) is ShuffleSplit)
    seeded = isinstance(getattr(cv, "random_state", 0), int | np.integer)
    return type(cv) in SAME_SPLITS and (seeded or not drawn)


def _permuted(groups: Any, m: int, generator: Any) -> IntArray:
    """Return the next order of the targets, among those of a group if there are groups."""
    if groups is None:
        return np.asarray(generator.permutation(m))
    order, groups = np.arange(m), np.asarray(groups)
    for group in np.unique(groups):
        inside = groups == group
        order[inside] = generator.permutation(order[inside])
    return order


def _blocks(orders: list[IntArray], per_order: int) -> Iterator[list[IntArray]]:
    step = max(1, BLOCK_DOUBLES // max(1, per_order))
    return (orders[i : i + step] for i in range(0, len(orders), step))


def _scores(
    case: Case,
    form: Form,
    penalty: FloatArray,
    experiments: Experiments,
    orders: list[IntArray],
    asked: _Asked,
    smoother: Smoother | None,
) -> FloatArray:
    """Return the same for orders whose targets are split alike, with one set of predictions."""
    v = form.Y.shape[1]
    Y = np.hstack([form.Y[order] for order in orders])
    penalties = np.tile(penalty, len(orders))[None]
    (values,) = predictions(replace(form, Y=Y), experiments, penalties, smoother)
    plain = v == 1 and form.classes is None and form.inverse is None and not asked.score
    measure = _measure_of(asked.scorer) if plain else None
    if measure is not None and experiments.test.sizes.min() > 1:
        return _measured(measure, Y, values, experiments)
    found = np.empty(len(orders))
    for i, order in enumerate(orders):
        own = replace(case, y=_safe_indexing(case.y, order))
        part = [values[:, i * v : (i + 1) * v]]
        part = part if form.inverse is None else [form.inverse(part[0])]
        answers = Answers(own, experiments, part, form.flat, form.classes)
        found[i] = _mean_score(answers, asked)
    return found


def _mean_score(answers: Answers, asked: _Asked) -> float:
    case, model, scores = answers.case, stand_in(answers), []
    for train, test in case.splits:
        model.fit(np.asarray(train)[:, None], _safe_indexing(case.y, train))
        if answers.classes is not None and model.classes_.size < 2:
            raise Refit("a split trains on a single class")
        given = {name: _safe_indexing(value, test) for name, value in asked.score.items()}
        truth = _safe_indexing(case.y, test)
        scores.append(asked.scorer(model, np.asarray(test)[:, None], truth, **given))
    return float(np.mean(scores))


def _measured(
    measure: Measure,
    Y: FloatArray,
    values: FloatArray,
    experiments: Experiments,
) -> FloatArray:
    """Return the mean over the splits of a metric, for many targets (m, n) at once."""
    test = experiments.test
    parts = [measure(Y[test[j]], values[test.ptr[j] : test.ptr[j + 1]]) for j in range(len(test))]
    return np.asarray(np.mean(parts, axis=0))


def _measure_of(scorer: Any) -> Measure | None:
    """Return the function that a scorer of a regressor is, if it is known here."""
    if type(scorer).__name__ == "_PassthroughScorer":  # the default
        return r2
    sign, measure = getattr(scorer, "_sign", 1), MEASURES.get(getattr(scorer, "_score_func", None))
    if measure is None or scorer._kwargs:
        return None
    return lambda truth, values: sign * measure(truth, values)
