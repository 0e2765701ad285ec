"""A fitted model that went through pickle, joblib or skops gives the same answers as before."""

import io
import pickle
from functools import cache

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
import skops.io
from sklearn.gaussian_process import kernels as gp
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold, LeaveOneGroupOut
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from holdfast import (
    HoldOut,
    KernelMixtureCV,
    KernelRidgeClassifierCV,
    KernelRidgeCV,
    trusted_types,
)
from holdfast.basis import Points, RandomlyPivotedCholesky
from holdfast.kernels import RBF, Linear, OnColumns
from holdfast.splitters import HBlock

pytestmark = pytest.mark.filterwarnings("ignore::holdfast.exceptions.HoldfastWarning")

M = 60
RNG = np.random.default_rng(0)
X, NEW = RNG.normal(size=(M, 3)), RNG.normal(size=(5, 3))
Y = np.column_stack([np.sin(X[:, 0]), X[:, 1] + 0.1 * X[:, 2]]) + 0.1 * RNG.normal(size=(M, 2))
LABELS = np.where(X[:, 0] > 0.4, "high", np.where(X[:, 0] < -0.4, "low", "middle"))
GROUPS, WEIGHTS = np.arange(M) // 6, RNG.integers(1, 4, size=M).astype(float)
ALPHAS = [0.1, 1.0, 10.0]
BANDS = {"a": OnColumns(RBF(0.5), [0]), "b": OnColumns(RBF(0.5), [1, 2])}

MODELS = {
    "dense": KernelRidgeCV(cv=5),
    "leave-one-out": KernelRidgeCV(alphas=ALPHAS),
    "groups": KernelRidgeCV(basis=20, cv=LeaveOneGroupOut(), alphas=ALPHAS, random_state=0),
    "linear": KernelRidgeCV("linear", standardize=True, cv=KFold(4)),
    "targets": KernelRidgeCV(alpha_per_target=True, cv=HBlock(2), alphas=ALPHAS),
    "widths": KernelRidgeCV(gamma=[0.1, 1.0], cv=4, rule="1se", scoring="r2"),
    "search": KernelRidgeCV(gamma="search", cv=4),
    "trend": KernelRidgeCV(trend="linear", cv=4, alphas=ALPHAS),
    "sum": KernelRidgeCV(RBF(0.5) + 2.0 * Linear(), cv=4, alphas=ALPHAS),
    "scikit-learn's kernel": KernelRidgeCV(gp.RBF(1.5), cv=4, alphas=ALPHAS),
    "points": KernelRidgeCV(basis=Points(X[:9]), cv=4, alphas=ALPHAS),
    "pivots": KernelRidgeCV(basis=RandomlyPivotedCholesky(9), cv=4, alphas=ALPHAS, random_state=0),
    "experiments": KernelRidgeCV(
        cv=[HoldOut([i, i + 1], test=[i]) for i in range(M - 1)], alphas=ALPHAS
    ),
    "sparse": KernelRidgeCV(cv=4, alphas=ALPHAS),
    "classes": KernelRidgeClassifierCV(cv=4, calibration="sigmoid", alphas=ALPHAS),
    "two classes": KernelRidgeClassifierCV(cv=4, alphas=ALPHAS),
    "mixture": KernelMixtureCV(BANDS, n_draws=4, cv=4, random_state=0, alphas=ALPHAS),
}
TARGETS = {"targets": Y, "mixture": Y, "classes": LABELS, "two classes": LABELS == "high"}


@cache
def fitted(name):
    rows = sp.csr_matrix(X) if name == "sparse" else X
    weights = WEIGHTS if name == "leave-one-out" else None
    groups = GROUPS if name == "groups" else None
    return MODELS[name].fit(rows, TARGETS.get(name, Y[:, 0]), weights, groups)


QUESTIONS = {
    "predict": lambda m: m.predict(NEW),
    "predict_std": lambda m: m.predict(NEW, return_std=True),
    "predict_proba": lambda m: m.predict_proba(NEW),
    "held_out": lambda m: m.held_out().values,
    "held_out elsewhere": lambda m: m.held_out(cv=3).score(),
    "predict_without": lambda m: m.predict_without([1, 2], NEW),
    "coef_without": lambda m: m.coef_without().coef,
    "predict_interval": lambda m: m.predict_interval(NEW),
    "nested": lambda m: np.concatenate([np.ravel(f) for f in m.nested(cv=3).predictions]),
    "score_interval": lambda m: np.array(m.score_interval(method="asymptotic").low),
    "permutation_test": lambda m: m.permutation_test(9, random_state=0).null_scores,
    "influence": lambda m: m.influence().cook,
    "noise_variance": lambda m: m.noise_variance_,
    "trend_coef": lambda m: m.trend_coef_,
    "verify": lambda m: m.verify(2).verified,
    "dual_coef": lambda m: m.dual_coef_,
    "alpha": lambda m: m.alpha_,
    "best_score": lambda m: m.best_score_,
    "n_splits": lambda m: m.n_splits_,
}


def by_pickle(model):
    return pickle.loads(pickle.dumps(model))


def by_joblib(model):
    file = io.BytesIO()
    joblib.dump(model, file)
    file.seek(0)
    return joblib.load(file)


def by_skops(model):
    return skops.io.loads(skops.io.dumps(model), trusted=trusted_types())


def answer(model, question):
    """Return an answer, or the type of the error where a model has none."""
    try:
        return question(model)
    except Exception as error:
        return type(error).__name__


@pytest.mark.parametrize(
    ("name", "tool"),
    [(name, tool) for name in MODELS for tool in (by_pickle, by_skops)] + [("groups", by_joblib)],
)
def test_every_question_has_the_same_answer(name, tool):
    model = fitted(name)
    again = tool(model)
    assert np.array_equal(again.predict(NEW), model.predict(NEW))
    for question in QUESTIONS.values():
        expected, found = answer(model, question), answer(again, question)
        if isinstance(expected, str):
            assert found == expected
            continue
        expected, found = np.array(expected), np.array(found)
        kind = expected.dtype.kind
        same = np.array_equal if kind in "OUSb" else np.allclose
        assert same(found, expected, **({} if kind in "OUSb" else {"rtol": 1e-7, "atol": 1e-10}))
    assert str(again.explain()) == str(model.explain())
    assert list(again.cv_results_) == list(model.cv_results_)
    for key, column in model.cv_results_.items():
        if key.startswith("param"):
            assert list(again.cv_results_[key]) == list(column)
        else:
            np.testing.assert_array_equal(again.cv_results_[key], column)
    assert vars(again).keys() == vars(model).keys()


@pytest.mark.parametrize("tool", [by_pickle, by_joblib, by_skops])
def test_weights_for_each_target(tool):
    options = {"n_draws": 4, "cv": 4, "random_state": 0, "alphas": ALPHAS}
    model = KernelMixtureCV(BANDS, weights_per_target=True, **options).fit(X, Y)
    again = tool(model)
    assert np.array_equal(again.predict(NEW), model.predict(NEW))
    assert np.array_equal(again.kernel_weights_, model.kernel_weights_)
    assert np.array_equal(again.best_score_, model.best_score_)
    assert np.allclose(again.predict_without([1, 2]), model.predict_without([1, 2]))


@pytest.mark.parametrize("tool", [by_pickle, by_joblib, by_skops])
def test_before_a_fit_in_a_pipeline_and_after_other_parameters(tool):
    assert tool(KernelRidgeCV(gamma=2.0)).gamma == 2.0
    pipe = make_pipeline(StandardScaler(), KernelRidgeCV(cv=3, alphas=ALPHAS)).fit(X, Y[:, 0])
    assert np.array_equal(tool(pipe).predict(NEW), pipe.predict(NEW))
    model = KernelRidgeCV(cv=3, alphas=ALPHAS, scoring="r2").fit(X, Y[:, 0])
    expected = model.held_out().score()
    again = tool(model.set_params(scoring=None, kernel="linear"))
    assert np.allclose(again.held_out().score(), expected)
    assert again.kernel == "linear"


def test_a_pickle_is_a_few_kilobytes_larger_than_the_data():
    rows = RNG.normal(size=(1000, 5))
    y = rows[:, 0] + RNG.normal(size=1000)
    for options in ({}, {"cv": 10, "basis": 200}):
        model = KernelRidgeCV(**options).fit(rows, y)
        model.held_out(), model.predict_interval(rows[:9])
        # Coefficients, a table of scores, and which rows are held out of which experiment.
        assert len(pickle.dumps(model)) < rows.nbytes + 2 * y.nbytes + 20_000


def test_a_function_of_the_user_is_not_trusted():
    model = KernelRidgeCV(np.inner, alphas=ALPHAS).fit(X, Y[:, 0])
    assert np.array_equal(by_pickle(model).predict(NEW), model.predict(NEW))
    file = skops.io.dumps(KernelRidgeCV(trend=np.linalg.norm))
    assert set(skops.io.get_untrusted_types(data=file)) - set(trusted_types())


def test_types_of_other_libraries_are_not_among_those_of_holdfast():
    names = trusted_types()
    assert all(name.startswith(("holdfast.", "sklearn.", "scipy.sparse.")) for name in names)
    assert f"{LinearRegression.__module__}.LinearRegression" not in names
