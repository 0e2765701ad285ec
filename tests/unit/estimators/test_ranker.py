"""Ranking: against least squares on all pairs of a query, written out and trained again."""

from __future__ import annotations

import pickle
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.stats import kendalltau
from sklearn.base import clone
from sklearn.metrics import ndcg_score
from sklearn.model_selection import GroupKFold, KFold

import holdfast
from holdfast import KernelRankerCV
from holdfast.basis import Points
from holdfast.exceptions import HoldOutError, InvalidInputError, NotSupportedError
from holdfast.kernels import Linear, Precomputed

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


def trained(alpha, keep, w=None, basis=None, policy="remove", k=kernel):
    """Return the model of the kept rows by least squares on their pairs, on all or basis rows."""
    w = np.ones(M) if w is None else w
    rows = np.flatnonzero(keep & (w > 0))
    pairs = [p for p in combinations(rows, 2) if QUERY[p[0]] == QUERY[p[1]]]
    D = np.zeros((len(pairs), M))
    for r, (i, j) in enumerate(pairs):
        D[r, [i, j]] = np.array([1.0, -1.0]) * np.sqrt(w[i] * w[j])
    B = rows if basis is None else basis
    penalty = k(X[B], X[B]) + (0.0 if basis is None else 1e-10) * np.eye(B.size)
    left = keep[B] | (policy == "keep")
    B, penalty = B[left], penalty[np.ix_(left, left)]
    values, vectors = np.linalg.eigh(penalty)
    use = values > 1e-13 * values[-1]
    half = vectors[:, use] / np.sqrt(values[use])
    A = np.vstack([D @ k(X, X[B]) @ half, np.sqrt(alpha) * np.eye(use.sum())])
    theta = half @ np.linalg.lstsq(A, np.append(D @ Y, np.zeros(use.sum())), rcond=None)[0]
    return lambda Z: k(Z, X[B]) @ theta


def held_out(alpha, folds=None, w=None, **model):
    """Return values of every query by the model without it, less their weighted mean."""
    found, w = np.empty(M), np.ones(M) if w is None else w
    for names in folds or [[name] for name in "abcdefg"]:
        f = trained(alpha, ~np.isin(QUERY, names), w, **model)(X)
        for name in names:
            rows = name == QUERY
            share = w[rows] if w[rows].sum() else np.ones(rows.sum())
            found[rows] = f[rows] - np.average(f[rows], weights=share)
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


def splits_of(folds):
    if folds is None:
        return None
    tested = [np.isin(QUERY, names) for names in folds]
    return [(np.flatnonzero(~test), np.flatnonzero(test)) for test in tested]


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


WEIGHTS = {
    "equal": None,
    "rows": np.where(RNG.random(M) < 0.2, 0.0, RNG.uniform(0.2, 3.0, M)),
    "queries": np.sqrt(np.array([LEVEL[q] for q in QUERY])),  # the first query has weight zero
}
BASIS = np.flatnonzero(RNG.permutation(M) < 12)


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("policy", [None, "remove", "keep"])
@pytest.mark.parametrize("folds", [None, [["a", "d"], ["b", "c"], ["e", "f", "g"]]])
def test_weights_basis_rows_and_folds(weights, policy, folds):
    w, how = WEIGHTS[weights], {} if policy is None else {"basis": BASIS, "policy": policy}
    ranker = KernelRankerCV(gamma=GAMMA, alphas=ALPHAS, cv=splits_of(folds))
    if policy is not None:
        ranker.set_params(basis=BASIS, held_out_basis=policy)
    model = ranker.fit(X, Y, QUERY, w)
    expected = np.array([held_out(alpha, folds, w, **how) for alpha in ALPHAS])
    assert np.abs(model.held_out(ALPHAS) - expected).max() < 1e-8
    f = trained(model.alpha_, np.ones(M, dtype=bool), w, **how)
    assert np.abs(model.predict(NEW) - f(NEW)).max() < 1e-8
    f = trained(model.alpha_, ~np.isin(QUERY, ["c", "e"]), w, **how)
    assert np.abs(model.predict_without(["c", "e"], NEW) - f(NEW)).max() < 1e-8
    assert model.verify(3).max_relative_error < 1e-8
    assert model.influence().cook.shape == (7,)
    if weights == "rows":
        with pytest.raises(NotSupportedError, match="equal weights"):
            model.permutation_test(9)
    else:
        assert 0.1 <= model.permutation_test(9, random_state=0).p_value <= 1.0


@pytest.mark.parametrize("rows", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("basis", [None, BASIS])
def test_a_linear_kernel_of_columns_and_sparse_rows(rows, basis):
    model = KernelRankerCV("linear", alphas=ALPHAS, basis=basis, jitter=1e-10)
    model.fit(rows(X), Y, QUERY, WEIGHTS["rows"])
    assert model._ranked.regression.kernel_ == (Linear() if basis is None else Precomputed())
    how = {"w": WEIGHTS["rows"], "basis": basis, "k": lambda A, B: A @ B.T}
    if basis is None:
        expected = held_out(model.alpha_, **how)
        assert np.abs(model.held_out()[0] - expected).max() < 1e-8
        f = trained(model.alpha_, QUERY != "c", **how)(NEW)
        assert np.abs(model.predict_without("c", rows(NEW)) - f).max() < 1e-8
    dense = KernelRankerCV("linear", alphas=ALPHAS, basis=basis).fit(X, Y, QUERY, WEIGHTS["rows"])
    assert np.allclose(model.predict(rows(NEW)), dense.predict(NEW), atol=1e-9)
    assert np.allclose(model.held_out(ALPHAS), dense.held_out(ALPHAS), atol=1e-9)


@pytest.mark.parametrize("options", [{}, {"basis": 9, "random_state": 3}, {"kernel": "linear"}])
def test_a_file_has_the_same_answers(options, tmp_path):
    frame = pd.DataFrame(X, columns=["one", "two"])
    model = KernelRankerCV(**{"gamma": GAMMA, "cv": 3, **options})
    model.fit(frame, Y, QUERY, WEIGHTS["queries"]).save(tmp_path / "ranker.holdfast")
    again = holdfast.load(tmp_path / "ranker.holdfast")
    new = pd.DataFrame(NEW, columns=["one", "two"])
    assert again.get_params() == model.get_params()
    assert np.array_equal(again.predict(new), model.predict(new))
    assert np.array_equal(again.scores_, model.scores_)
    assert np.allclose(again.held_out(ALPHAS), model.held_out(ALPHAS), atol=1e-12)
    assert np.allclose(again.predict_without("c", new), model.predict_without("c", new), atol=1e-12)
    assert again.query_scores().equals(model.query_scores())
    assert np.isclose(again.nested(3).score(), model.nested(3).score())


def test_models_are_compared_query_by_query():
    found = holdfast.compare(fitted(), fitted(gamma=5.0))
    assert found.units == "groups"
    assert np.allclose(found.scores, [fitted().best_score_, fitted(gamma=5.0).best_score_])


def test_the_squared_error_of_differences():
    model = fitted(scoring="pairwise")
    for alpha, score in zip(ALPHAS, model.scores_, strict=True):
        f = held_out(alpha)
        total = 0.0
        for i, j in combinations(range(M), 2):
            if QUERY[i] == QUERY[j]:
                total += ((Y[i] - Y[j]) - (f[i] - f[j])) ** 2
        assert np.isclose(-score, total / (SIZES**2).sum(), rtol=1e-9)


def test_folds_of_queries_and_models_without_some():
    assert np.array_equal(fitted(cv=3).scores_, fitted(cv=GroupKFold(3)).scores_)
    model = fitted()
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


@pytest.mark.parametrize("scoring", SCORES)
@pytest.mark.parametrize("basis", [None, BASIS])
def test_questions_about_the_score(scoring, basis):
    how = {"gamma": GAMMA, "alphas": ALPHAS, "scoring": scoring}
    model = fitted(**how, basis=basis)
    assert model.verify(3).max_relative_error < 1e-8
    test = model.permutation_test(19, random_state=0)
    assert test.score == model.best_score_
    assert 0.05 <= test.p_value <= 1.0
    interval = model.score_interval()
    assert interval.low <= interval.score <= interval.high
    assert np.isclose(interval.score, model.best_score_)
    assert model.influence().cook.shape == (7,)
    found = model.nested(3)
    assert -1.0 <= found.score() <= 1.0
    for experiment, values in zip(found.experiments, found.predictions, strict=True):
        left = np.setdiff1d(np.arange(M), experiment.held_out)
        left = left[left < M]
        if basis is not None:
            how["basis"] = np.flatnonzero(np.isin(left, basis))
        again = KernelRankerCV(**how).fit(X[left], Y[left], QUERY[left])
        for name in np.unique(QUERY[experiment.test]):
            rows = QUERY[experiment.test] == name
            f = again.predict(X[experiment.test[rows]])
            expected = f - f.mean()
            assert np.abs(values[rows, 0] - expected).max() < 1e-8
    assert model.score(X, Y, QUERY) > 0.5


def test_refusals_by_name():
    model = fitted()
    with pytest.raises(NotSupportedError, match="predict_interval is for targets"):
        model.predict_interval(NEW)
    with pytest.raises(HoldOutError, match="which is not one"):
        model.predict_without("z", NEW)
    da = pytest.importorskip("dask.array")
    with pytest.raises(NotSupportedError, match="rows in memory"):
        model.fit(da.from_array(X), Y, QUERY)


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
        ({"basis": Points(NEW)}, (X, Y, QUERY), NotSupportedError, "must be rows for a ranker"),
        (
            {"basis": 5, "held_out_basis": "skip"},
            (X, Y, QUERY),
            NotSupportedError,
            "held out whole",
        ),
        ({"basis": 5, "memory_limit": 1000}, (X, Y, QUERY), InvalidInputError, "fewer basis rows"),
        ({}, (X, Y, QUERY, -np.ones(M)), InvalidInputError, "sample_weight must not be negative"),
        ({}, (X, Y, QUERY, QUERY == "d"), InvalidInputError, "no query has two rows"),
    ],
)
def test_bad_calls_are_refused_and_change_nothing(options, arguments, error, message):
    model = fitted()
    before = model.predict(NEW)
    model.set_params(**options)
    with pytest.raises(error, match=message):
        model.fit(*arguments)
    assert np.array_equal(model.predict(NEW), before)
