"""Ranking: against least squares on all pairs of a query, written out and trained again."""

from __future__ import annotations

import pickle
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import kendalltau
from sklearn.base import clone
from sklearn.metrics import ndcg_score
from sklearn.model_selection import GroupKFold, KFold

from holdfast import KernelRankerCV
from holdfast.exceptions import HoldOutError, InvalidInputError, NotSupportedError

pytestmark = pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")

GAMMA, ALPHAS = 0.5, np.array([0.02, 0.3, 4.0])
RNG = np.random.default_rng(0)
SIZES = np.array([5, 2, 7, 1, 6, 4, 6])  # one query has a single row
QUERY = RNG.permutation(np.repeat(["a", "b", "c", "d", "e", "f", "g"], SIZES))
M = QUERY.size
X, NEW = RNG.normal(size=(M, 2)), RNG.normal(size=(6, 2))
LEVEL = {name: 5.0 * i for i, name in enumerate("abcdefg")}
Y = np.sin(2 * X[:, 0]) + 0.6 * RNG.normal(size=M) + np.array([LEVEL[q] for q in QUERY]) + 3
Y[QUERY == "b"] = 1.0  # no order in this one


def kernel(A, B):
    return np.exp(-GAMMA * ((A[:, None] - B[None]) ** 2).sum(axis=2))


def trained(alpha, keep, y=Y):
    """Return coefficients of the kept rows by least squares on their pairs."""
    rows = np.flatnonzero(keep)
    pairs = [p for p in combinations(range(rows.size), 2) if QUERY[rows[p[0]]] == QUERY[rows[p[1]]]]
    D = np.zeros((len(pairs), rows.size))
    for k, (i, j) in enumerate(pairs):
        D[k, i], D[k, j] = 1.0, -1.0
    values, vectors = np.linalg.eigh(kernel(X[rows], X[rows]))
    half = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    A = np.vstack([D @ half.T, np.sqrt(alpha) * np.eye(rows.size)])
    theta = np.linalg.lstsq(A, np.append(D @ y[rows], np.zeros(rows.size)), rcond=None)[0]
    return lambda Z: (kernel(Z, X[rows]) @ vectors) @ (theta / np.sqrt(np.maximum(values, 1e-300)))


def held_out(alpha, folds=None):
    """Return values of every query by the model without it, less their mean."""
    found = np.empty(M)
    for names in folds or [[name] for name in "abcdefg"]:
        model = trained(alpha, ~np.isin(QUERY, names))
        for name in names:
            rows = name == QUERY
            f = model(X[rows])
            found[rows] = f - f.mean()
    return found


def by_query(score, f, y=Y):
    each = []
    for name in "abcdefg":
        rows = name == QUERY
        if np.unique(y[rows]).size > 1:
            each.append(score(y[rows], f[rows]))
    return np.mean(each)


def concordance(y, f):
    pairs = [(i, j) for i, j in combinations(range(y.size), 2) if y[i] != y[j]]
    return np.mean([(y[i] > y[j]) == (f[i] > f[j]) for i, j in pairs])


SCORES = {
    "concordance": concordance,
    "kendall_tau": lambda y, f: kendalltau(y, f)[0],
    "ndcg": lambda y, f: ndcg_score([y], [f]),
}


def fitted(**options):
    return KernelRankerCV(**{"gamma": GAMMA, "alphas": ALPHAS, **options}).fit(X, Y, QUERY)


@pytest.mark.parametrize("scoring", SCORES)
def test_leave_query_out_is_training_on_the_pairs_of_the_other_queries(scoring):
    model = fitted(scoring=scoring)
    expected = np.array([held_out(alpha) for alpha in ALPHAS])
    assert np.abs(model.held_out(ALPHAS) - expected).max() < 1e-8
    scores = [by_query(SCORES[scoring], f) for f in expected]
    assert np.allclose(model.scores_, scores, atol=1e-12)
    assert model.best_score_ == model.scores_.max()
    assert model.alpha_ == ALPHAS[np.flatnonzero(model.scores_ == model.best_score_)[-1]]
    f = trained(model.alpha_, np.ones(M, dtype=bool))
    assert np.abs(model.predict(NEW) - f(NEW)).max() < 1e-8
    sums = [model.dual_coef_[name == QUERY].sum() for name in "abcdefg"]
    assert np.abs(sums).max() < 1e-10


def test_the_squared_error_of_differences():
    model = fitted(scoring="pairwise")
    for alpha, score in zip(ALPHAS, model.scores_, strict=True):
        f = held_out(alpha)
        total = 0.0
        for i, j in combinations(range(M), 2):
            if QUERY[i] == QUERY[j]:
                total += ((Y[i] - Y[j]) - (f[i] - f[j])) ** 2
        assert np.isclose(-score, total / M, rtol=1e-9)


def test_folds_of_queries_and_models_without_some():
    folds = [["a", "d"], ["b", "c"], ["e", "f", "g"]]
    splits = [
        (np.flatnonzero(~np.isin(QUERY, n)), np.flatnonzero(np.isin(QUERY, n))) for n in folds
    ]
    model = fitted(cv=splits)
    assert np.abs(model.held_out()[0] - held_out(model.alpha_, folds)).max() < 1e-8
    assert np.array_equal(fitted(cv=3).scores_, fitted(cv=GroupKFold(3)).scores_)
    f = trained(model.alpha_, ~np.isin(QUERY, ["c", "e"]))
    assert np.abs(model.predict_without(["c", "e"], NEW) - f(NEW)).max() < 1e-8
    f = trained(model.alpha_, QUERY != "c")
    assert np.abs(model.predict_without("c", NEW) - f(NEW)).max() < 1e-8


def test_levels_of_queries_change_nothing():
    shifted = KernelRankerCV(gamma=GAMMA, alphas=ALPHAS).fit(
        X, Y + np.array([100.0 * LEVEL[q] for q in QUERY]), QUERY
    )
    assert np.allclose(shifted.predict(NEW), fitted().predict(NEW), atol=1e-8)


def test_scores_of_each_query():
    model = fitted()
    f, table = held_out(model.alpha_), model.query_scores("pandas").set_index("query")
    for name in "abcdefg":
        rows = name == QUERY
        assert table.loc[name, "rows"] == rows.sum()
        for score, function in SCORES.items():
            value = table.loc[name, score]
            if np.unique(Y[rows]).size == 1:
                assert np.isnan(value)
            else:
                assert np.isclose(value, function(Y[rows], f[rows]))
    assert np.isclose(table["concordance"].mean(), model.best_score_)


def test_questions_about_the_score():
    model = fitted()
    assert model.verify(3).max_relative_error < 1e-8
    test = model.permutation_test(19, random_state=0)
    assert test.score == model.best_score_
    assert 0.05 <= test.p_value <= 1.0
    interval = model.score_interval()
    assert interval.low <= interval.score <= interval.high
    assert np.isclose(interval.score, model.best_score_)
    assert model.influence().cook.shape == (7,)
    found = model.nested(3)
    assert 0.0 <= found.score() <= 1.0
    for experiment, values in zip(found.experiments, found.predictions, strict=True):
        left = np.setdiff1d(np.arange(M), experiment.held_out)
        again = KernelRankerCV(gamma=GAMMA, alphas=ALPHAS).fit(X[left], Y[left], QUERY[left])
        for name in np.unique(QUERY[experiment.test]):
            rows = QUERY[experiment.test] == name
            f = again.predict(X[experiment.test[rows]])
            expected = (f - f.mean()) * np.sqrt(rows.sum())
            assert np.abs(values[rows, 0] - expected).max() < 1e-7
    assert model.score(X, Y, QUERY) > 0.5


def test_refusals_by_name():
    model = fitted()
    with pytest.raises(NotSupportedError, match="predict_interval is for targets"):
        model.predict_interval(NEW)
    with pytest.raises(NotSupportedError, match="Use joblib"):
        model.save("r.holdfast")
    for question in ("nested", "permutation_test", "score_interval"):
        with pytest.raises(NotSupportedError, match='scoring="ndcg" looks at'):
            getattr(fitted(scoring="ndcg"), question)()
    with pytest.raises(HoldOutError, match="which is not one"):
        model.predict_without("z", NEW)


def test_pickles_clones_and_default_grids():
    model = KernelRankerCV(gamma=GAMMA).fit(X, Y, QUERY)
    assert model.alphas_.size >= 25
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict(NEW), model.predict(NEW))
    assert clone(model).get_params() == model.get_params()


@pytest.mark.parametrize(
    ("options", "arguments", "error", "message"),
    [
        ({"scoring": "r2"}, (X, Y, QUERY), InvalidInputError, "scoring"),
        ({"kernel": ["rbf", "linear"]}, (X, Y, QUERY), NotSupportedError, "one kernel of rows"),
        ({"kernel": "precomputed"}, (X, Y, QUERY), NotSupportedError, "one kernel of rows"),
        ({"cv": KFold(3)}, (X, Y, QUERY), HoldOutError, "whole queries; experiment 0"),
        ({}, (X, Y, QUERY[:5]), InvalidInputError, "queries must hold one label"),
        ({}, (X, np.c_[Y, Y], QUERY), InvalidInputError, "one-dimensional"),
        ({}, (X, np.ones(M), QUERY), InvalidInputError, "no query has two rows"),
        ({}, (X, Y, np.arange(M)), InvalidInputError, "no query has two rows"),
        ({"alphas": [-1.0]}, (X, Y, QUERY), InvalidInputError, "alphas"),
        ({"memory_limit": 10_000}, (X, Y, QUERY), InvalidInputError, "memory_limit"),
        ({"scoring": "ndcg"}, (X, Y - 50, QUERY), ValueError, "negative"),
    ],
)
def test_bad_calls_are_refused_and_change_nothing(options, arguments, error, message):
    model = fitted()
    before = model.predict(NEW)
    model.set_params(**options)
    with pytest.raises(error, match=message):
        model.fit(*arguments)
    assert np.array_equal(model.predict(NEW), before)
