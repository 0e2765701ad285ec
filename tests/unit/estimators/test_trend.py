"""A trend: unpenalised columns beside the kernel part, held against least squares on kept rows."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, KFold, LeaveOneGroupOut
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

import holdfast
from holdfast import HoldOut, KernelRidgeClassifierCV, KernelRidgeCV
from holdfast.exceptions import InvalidInputError, NotSupportedError

pytestmark = pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")

M, GAMMA, EXACT = 48, 0.7, 1e-9
ALPHAS = np.array([1e-2, 0.3, 5.0])
RNG = np.random.default_rng(0)
X = np.c_[RNG.uniform(-2, 2, size=(M, 2)), np.arange(M) % 4]
Y = np.c_[3 * X[:, 0] + np.sin(3 * X[:, 1]) + X[:, 2], X[:, 1] ** 2] + 0.1 * RNG.normal(size=(M, 2))
NEW = np.c_[RNG.uniform(-2, 2, size=(7, 2)), np.arange(7) % 4]
WEIGHTS = np.where(np.arange(M) == 5, 0.0, RNG.uniform(0.5, 2.0, M))
GROUPS = np.arange(M) // 6
BASIS = np.array([0, 5, 7, 20, 33, 41])


def squares(rows):
    """A function as a trend: one dimension is one column."""
    return np.asarray(rows)[:, 0] ** 2


def one_for_each(rows):
    """Return a column of ones and zeros for each of four kinds."""
    return np.asarray(rows)[:, [0]] == np.arange(4)


def ones_and(*columns):
    return lambda rows: np.c_[np.ones(len(rows)), rows[:, list(columns)]]


#: The argument, and the columns Z that it stands for.
TRENDS = {
    "linear": ("linear", ones_and(0, 1, 2)),
    "columns": ([-1, 0], ones_and(2, 0)),
    "function": (squares, lambda rows: np.c_[np.ones(len(rows)), rows[:, 0] ** 2]),
    "polynomial": (
        lambda rows: PolynomialFeatures(2, include_bias=False).fit_transform(rows),
        lambda rows: PolynomialFeatures(2).fit_transform(rows),
    ),
}


def kernel(A, B):
    return np.exp(-GAMMA * ((A[:, None] - B[None]) ** 2).sum(axis=2))


def solution(Z, weights, y, alpha, basis, jitter):
    """Return coefficients of basis rows and of Z by least squares on the kept rows alone."""
    keep = weights > 0
    rows = np.flatnonzero(keep) if basis is None else basis
    n, s, root = rows.size, Z.shape[1], np.sqrt(weights[keep])[:, None]
    penalty = kernel(X[rows], X[rows]) + jitter * np.eye(n)
    values, vectors = np.linalg.eigh(penalty)
    half = np.sqrt(alpha * np.maximum(values, 0.0))[:, None] * vectors.T
    A = np.block([[root * kernel(X[keep], X[rows]), root * Z[keep]], [half, np.zeros((n, s))]])
    b = np.vstack([root * y[keep], np.zeros((n, y.shape[1]))])
    found = np.linalg.lstsq(A, b, rcond=None)[0]
    return rows, found[:n], found[n:]


def predicted(of, rows, held, alpha, *, basis=None, jitter=0.0, weights=WEIGHTS, y=Y):
    weights = weights.copy()
    weights[held] = 0.0
    used, dual, gamma = solution(of(X), weights, y, alpha, basis, jitter)
    return kernel(rows, X[used]) @ dual + of(rows) @ gamma


def fitted(trend="linear", weights=WEIGHTS, y=Y, groups=None, **more):
    more = {"gamma": GAMMA, "alphas": ALPHAS, "cv": 4, "trend": trend, **more}
    return KernelRidgeCV("rbf", **more).fit(X, y, sample_weight=weights, groups=groups)


@pytest.mark.parametrize("path", ["spectral", "per_fold", "cholesky", "refit"])
@pytest.mark.parametrize("policy", ["dense", "keep", "remove"])
@pytest.mark.parametrize("name", TRENDS)
def test_held_out_models_are_those_of_least_squares(name, policy, path):
    trend, of = TRENDS[name]
    split = {"cv": GroupKFold(4), "groups": GROUPS, "path": path}
    basis = None if policy == "dense" else BASIS
    model = fitted(trend, basis=basis, held_out_basis=policy.replace("dense", "keep"), **split)
    rest = {"basis": basis, "jitter": model.jitter_}
    held_out = model.held_out()
    for experiment, values in zip(held_out.experiments, held_out.predictions, strict=True):
        held, test = experiment.held_out, experiment.test
        left = {**rest, "basis": np.setdiff1d(BASIS, held)} if policy == "remove" else rest
        for a, alpha in enumerate(ALPHAS):
            expected = predicted(of, X[test], held, alpha, **left)
            assert np.abs(values[a] - expected).max() < EXACT
    if policy == "remove":
        return
    rows, alpha = [3, 9, 20, 21], model.alpha_
    expected = predicted(of, NEW, rows, alpha, **rest)
    assert np.abs(model.predict_without(rows, NEW) - expected).max() < EXACT
    assert np.abs(model.predict(NEW) - predicted(of, NEW, [], alpha, **rest)).max() < EXACT


@pytest.mark.parametrize("bias", [True, False])
def test_coefficients_are_those_of_generalised_least_squares(bias):
    of = ones_and(0, 1, 2)
    model = fitted(fit_intercept=bias, y=Y[:, 0])
    keep, Z = WEIGHTS > 0, of(X)[:, int(not bias) :]
    C = kernel(X[keep], X[keep]) / model.alpha_ + np.diag(1 / WEIGHTS[keep])
    information = Z[keep].T @ np.linalg.solve(C, Z[keep])
    gamma = np.linalg.solve(information, Z[keep].T @ np.linalg.solve(C, Y[keep, 0]))
    assert np.allclose(model.trend_coef_, gamma[int(bias) :], rtol=1e-9)
    assert np.isclose(model.intercept_, gamma[0] if bias else 0.0, rtol=1e-9)
    # A new observation: universal kriging.
    Z_new, k = of(NEW)[:, int(not bias) :], kernel(X[keep], NEW) / model.alpha_
    u = Z_new.T - Z[keep].T @ np.linalg.solve(C, k)
    variance = 1 + 1 / model.alpha_ - (k * np.linalg.solve(C, k)).sum(axis=0)
    variance += (u * np.linalg.solve(information, u)).sum(axis=0)
    _, found = model.predict(NEW, return_std=True)
    assert np.allclose(found, np.sqrt(model.noise_variance_ * variance), rtol=1e-8)


def test_coefficients_without_rows():
    model = fitted()
    found = model.coef_without([1, 2, 3])
    weights = WEIGHTS.copy()
    weights[[1, 2, 3]] = 0.0
    _, _, gamma = solution(ones_and(0, 1, 2)(X), weights, Y, model.alpha_, None, 0.0)
    assert np.allclose(found.intercept, gamma[0], rtol=1e-8)
    assert np.allclose(found.trend_coef, gamma[1:].T, rtol=1e-8)


def test_a_linear_kernel_with_a_trend():
    model = KernelRidgeCV("linear", alphas=[0.5], trend=[2], cv=4).fit(X, Y)
    Z, A = ones_and(2)(X), X
    design = np.block([[A, Z], [np.sqrt(0.5) * np.eye(3), np.zeros((3, 2))]])
    found = np.linalg.lstsq(design, np.vstack([Y, np.zeros((3, 2))]), rcond=None)[0]
    assert np.allclose(model.coef_, found[:3].T)
    assert np.allclose(model.trend_coef_, found[4:].T)
    assert np.allclose(model.predict(NEW), np.hstack([NEW, ones_and(2)(NEW)]) @ found)


# -- every answer ----------------------------------------------------------------------------------


@pytest.mark.parametrize("basis", [None, BASIS], ids=["dense", "basis"])
def test_nested_choice_is_that_of_fits_on_the_rows_that_are_left(basis):
    inner = KFold(4)
    model = fitted(y=Y[:, 0], basis=basis, cv=inner, weights=np.ones(M))
    found = model.nested(GroupKFold(4), groups=GROUPS)
    for experiment, values in zip(found.experiments, found.predictions, strict=True):
        left = np.setdiff1d(np.arange(M), experiment.held_out)
        again = KernelRidgeCV(
            "rbf",
            gamma=GAMMA,
            alphas=ALPHAS,
            cv=inner,
            trend="linear",
            basis=None if basis is None else np.flatnonzero(np.isin(left, basis)),
            jitter=model.jitter,
        )
        again.fit(X[left], Y[left, 0])
        assert np.abs(values[:, 0] - again.predict(X[experiment.test])).max() < 1e-7


def test_intervals_follow_models_that_were_really_trained():
    model = fitted(y=Y[:, 0], weights=np.ones(M))
    of, alpha = ones_and(0, 1, 2), model.alpha_
    values, errors = np.empty((M, len(NEW))), np.empty(M)
    for experiment in model.held_out().experiments:
        H = experiment.held_out
        rest = {"weights": np.ones(M), "y": Y[:, :1]}
        values[H] = predicted(of, NEW, H, alpha, **rest)[:, 0]
        errors[H] = np.abs(Y[H, 0] - predicted(of, X[H], H, alpha, **rest)[:, 0])
    rank = int(np.ceil(0.9 * (M + 1)))
    upper = np.sort(values + errors[:, None], axis=0)[rank - 1]
    assert np.allclose(model.predict_interval(NEW, level=0.9)[:, 1], upper, atol=1e-9)
    bounds = model.predict_interval(NEW, level=0.9, method="gaussian")
    assert (bounds[:, 0] <= bounds[:, 1]).all()


def test_influence_is_that_of_models_trained_without_the_group():
    model = fitted(y=Y[:, 0], weights=np.ones(M))
    of, alpha, rest = ones_and(0, 1, 2), model.alpha_, {"weights": np.ones(M), "y": Y[:, :1]}
    full = predicted(of, X, [], alpha, **rest)[:, 0]
    found = model.influence(GROUPS)
    moved = [
        np.square(full - predicted(of, X, np.flatnonzero(g == GROUPS), alpha, **rest)[:, 0]).sum()
        for g in np.unique(GROUPS)
    ]
    ratio = found.cook / np.array(moved)
    assert np.allclose(ratio, ratio[0], rtol=1e-7)


def test_permutations_and_intervals_of_the_score():
    model = fitted(y=Y[:, 0], weights=np.ones(M))
    assert model.permutation_test(19, random_state=0).p_value == 0.05
    assert model.permutation_test(19, random_state=0).score == model.best_score_
    interval = model.score_interval(n_partitions=2, n_splits=4, random_state=0)
    assert interval.low <= interval.score <= interval.high
    other = fitted(None, y=Y[:, 0], weights=np.ones(M))
    assert holdfast.compare(model, other, random_state=0).difference is not None
    assert model.verify(3).max_relative_error < 1e-8


def test_tuning_finds_a_width_beside_a_trend():
    found = holdfast.tune(KernelRidgeCV("rbf", trend="linear", cv=4), X, Y[:, 0])
    options = {"gamma": found.params["gamma"], "alphas": [found.params["alpha"]]}
    model = KernelRidgeCV(**options, trend="linear", cv=4).fit(X, Y[:, 0])
    assert np.isclose(model.best_score_, found.score, rtol=1e-9)


# -- undetermined columns --------------------------------------------------------------------------


def test_a_hold_out_that_leaves_a_column_undetermined_is_refused_by_name():
    site = np.arange(M) // 8
    rows = pd.DataFrame({"depth": X[:, 0], "last": (site == 5).astype(float)})
    make = {"trend": ["depth", "last"], "alphas": ALPHAS, "gamma": 1.0}
    message = "trend column 'last'"
    with pytest.raises(InvalidInputError, match=message):
        KernelRidgeCV(cv=LeaveOneGroupOut(), **make).fit(rows, Y, groups=site)
    model = KernelRidgeCV(**make).fit(rows, Y)
    held = np.flatnonzero(site == 5)
    questions = [
        lambda: model.held_out([HoldOut(held)]),
        lambda: model.predict_without(held),
        lambda: model.predict_without(held, rows),
        lambda: model.coef_without(held),
        lambda: model.influence(site),
        lambda: model.nested(LeaveOneGroupOut(), groups=site),
    ]
    for question in questions:
        with pytest.raises(InvalidInputError, match=message):
            question()
    # One row is left: that determines it.
    assert np.isfinite(model.predict_without(held[1:])).all()


def test_a_column_that_no_row_or_only_others_determine_is_refused():
    rows = np.c_[X[:, :1], 2 * X[:, :1] + 1]
    with pytest.raises(InvalidInputError, match="trend column 'x1'"):
        KernelRidgeCV(trend="linear").fit(rows, Y)
    rows = pd.DataFrame({"a": X[:, 0], "zero": 0.0})
    with pytest.raises(InvalidInputError, match="trend column 'zero'"):
        KernelRidgeCV(trend=["zero"]).fit(rows, Y)
    with pytest.raises(InvalidInputError, match="trend column '3'"):  # the bias is their sum
        KernelRidgeCV(trend=one_for_each).fit(X[:, 2:], Y)
    KernelRidgeCV(trend=lambda rows: one_for_each(rows)[:, 1:], cv=KFold(4)).fit(X[:, 2:], Y)
    KernelRidgeCV(trend=one_for_each, fit_intercept=False, cv=KFold(4)).fit(X[:, 2:], Y)


def test_one_row_alone_in_a_column_is_refused_for_leave_one_out():
    rows = np.c_[X[:, 0], np.arange(M) == 3]
    with pytest.raises(InvalidInputError, match="trend column 'x1'"):
        KernelRidgeCV(trend="linear").fit(rows, Y)


# -- forms of input --------------------------------------------------------------------------------


def test_columns_are_named_as_in_the_frame():
    rows = pd.DataFrame(X, columns=["east", "north", "kind"])
    named, numbered = (KernelRidgeCV(trend=trend).fit(rows, Y) for trend in (["north"], [1]))
    assert named.trend_coef_.shape == (2, 1)
    assert np.array_equal(named.trend_coef_, numbered.trend_coef_)


def test_sparse_rows_streamed_rows_and_zero_weights():
    full = fitted()
    sparse = KernelRidgeCV("rbf", gamma=GAMMA, alphas=ALPHAS, cv=4, trend="linear").fit(
        sp.csr_matrix(X), Y, sample_weight=WEIGHTS
    )
    assert np.allclose(sparse.predict(sp.csr_matrix(NEW)), full.predict(NEW), atol=1e-9)
    kept, streamed = fitted(basis=BASIS), fitted(basis=BASIS, memory_limit=2000)
    assert np.allclose(kept.held_out().matrix(), streamed.held_out().matrix(), atol=1e-9)


@pytest.mark.parametrize("trend", ["linear", squares], ids=["linear", "function"])
def test_rows_on_a_cluster(trend):
    da = pytest.importorskip("dask.array")
    make = {"gamma": GAMMA, "alphas": ALPHAS, "cv": 4, "trend": trend, "basis": BASIS}
    lazy = KernelRidgeCV("rbf", **make).fit(da.from_array(X, chunks=(13, 3)), Y)
    local = KernelRidgeCV("rbf", **make).fit(X, Y)
    assert np.allclose(lazy.held_out().matrix(), local.held_out().matrix(), atol=1e-9)
    new = lazy.predict(da.from_array(NEW, chunks=(3, 3)))
    assert np.allclose(new.compute(), local.predict(NEW), atol=1e-9)
    without = lazy.predict_without([1, 2], da.from_array(NEW, chunks=(3, 3)))
    assert np.allclose(without.compute(), local.predict_without([1, 2], NEW), atol=1e-9)


def test_rows_that_are_objects():
    texts = np.array(["a" * (1 + i % 7) + "b" * (i % 5) for i in range(M)], dtype=object)

    def alike(A, B):
        return np.array([[float(len(set(a) & set(b))) for b in B] for a in A])

    def length(rows):
        return [[len(text)] for text in rows]

    model = KernelRidgeCV(alike, trend=length, alphas=[1.0]).fit(texts, Y[:, 0])
    assert model.trend_coef_.shape == (1,)
    with pytest.raises(InvalidInputError, match="objects without columns"):
        KernelRidgeCV(alike, trend="linear").fit(texts, Y[:, 0])


def test_a_classifier_has_a_trend_too():
    labels = np.where(Y[:, 0] > 0, "wet", "dry")
    model = KernelRidgeClassifierCV(gamma=GAMMA, alphas=[0.3], trend="linear", cv=4).fit(X, labels)
    code = np.where(labels == "wet", 1.0, -1.0)[:, None]
    rest = {"weights": np.ones(M), "y": code}
    expected = predicted(ones_and(0, 1, 2), NEW, [], 0.3, **rest)[:, 0]
    assert np.allclose(model.decision_function(NEW), expected, atol=1e-9)
    assert model.trend_coef_.shape == (3,)


@pytest.mark.parametrize("trend", ["linear", [0, 2]], ids=["linear", "columns"])
def test_pickles(trend):
    model = fitted(trend)
    twin = pickle.loads(pickle.dumps(model))
    assert np.array_equal(twin.predict(NEW), model.predict(NEW))
    assert np.array_equal(twin.trend_coef_, model.trend_coef_)
    assert np.allclose(twin.held_out().matrix(), model.held_out().matrix(), atol=1e-12)
    assert clone(twin).trend == trend


def test_pickles_of_functions():
    loaded = pickle.loads(pickle.dumps(fitted(squares)))
    assert np.array_equal(loaded.predict(NEW), fitted(squares).predict(NEW))


@pytest.mark.filterwarnings("ignore:divide by zero")
@pytest.mark.parametrize(
    ("trend", "message"),
    [
        ("quadratic", r"None, \"linear\", a list of columns"),
        ([], "a list of columns"),
        (3, "a list of columns"),
        (StandardScaler(), "a list of columns of X or a function"),
        ([7], "from 0 to 2; got 7"),
        ([True], "got True"),
        ([0, -3], "a column twice"),
        (["depth"], "no column names"),
        (lambda rows: rows[:5], "for each of the 48 rows"),
        (lambda rows: rows[:, :0], "at least one number"),
        (lambda rows: np.log(np.abs(rows) - np.abs(rows)), "finite numbers"),
        (lambda rows: ["a"] * len(rows), "must return numbers"),
    ],
)
def test_bad_trends_are_refused_and_change_nothing(trend, message):
    model = fitted()
    before = model.predict(NEW)
    model.set_params(trend=trend)
    with pytest.raises(InvalidInputError, match=message):
        model.fit(X, Y)
    assert np.array_equal(model.predict(NEW), before)


def test_more_refusals():
    with pytest.raises(InvalidInputError, match=r"which X does not have\. Its columns: a, b"):
        KernelRidgeCV(trend=["depth"]).fit(pd.DataFrame(X[:, :2], columns=["a", "b"]), Y)
    with pytest.raises(NotSupportedError, match="precomputed"):
        KernelRidgeCV("precomputed", trend="linear").fit(kernel(X, X), Y)
    model = fitted(lambda rows: np.ones((len(rows), 1)) * np.arange(len(rows))[:, None])
    assert model.predict(NEW).shape == (7, 2)
    changing = fitted(lambda rows: rows if len(rows) == M else rows[:, :2])
    with pytest.raises(InvalidInputError, match="3 columns for the training rows and 2"):
        changing.predict(NEW)
    with pytest.raises(AttributeError, match="no trend"):
        fitted(None).trend_coef_  # noqa: B018  # asking is the point
