"""GridSearchCV and permutation_test_score give scikit-learn's results."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn.model_selection as theirs
from sklearn import config_context
from sklearn.compose import TransformedTargetRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, Matern, RationalQuadratic
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import (
    Lasso,
    LinearRegression,
    Ridge,
    RidgeClassifier,
    RidgeClassifierCV,
    RidgeCV,
)
from sklearn.model_selection import GroupKFold, KFold, LeaveOneOut, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

import holdfast.model_selection as ours
from holdfast import KernelRidgeCV
from holdfast.exceptions import HoldfastWarning

M = 30
ALPHAS = [1e-2, 0.1, 1.0, 10.0]


def rows():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(M, 3)) * [1.0, 5.0, 0.3]
    y = X @ [1.0, 0.2, 1.0] + 0.5 * rng.normal(size=M) + 4.0
    return X, y, rng.integers(0, 5, M), rng.uniform(0.5, 2.0, M)


def same(found, expected):
    assert found.keys() == expected.keys()
    for name, column in expected.items():
        if name.endswith("_time"):
            continue
        if name == "params" or name.startswith("param_"):
            assert list(map(str, found[name])) == list(map(str, column))
            assert type(found[name]) is type(column)
        elif name.startswith("rank_test_"):  # equal scores may differ in their last digit
            score = expected[name.replace("rank", "mean")]
            alone = np.isclose(score[:, None], score, rtol=1e-8).sum(axis=1) == 1
            np.testing.assert_array_equal(found[name][alone], column[alone])
        else:
            np.testing.assert_allclose(found[name], column, rtol=1e-8, atol=1e-10)


SEARCHES = {
    "ridge": (Ridge(), {"alpha": ALPHAS}, {}),
    "ridge, several": (
        Ridge(),
        [{"alpha": ALPHAS}, {"alpha": [0.0, 1.0], "fit_intercept": [True, False]}],
        {"return_train_score": True, "cv": 4},
    ),
    "kernel ridge": (
        KernelRidge(kernel="rbf"),
        {"alpha": ALPHAS, "gamma": [0.01, 0.1, 1.0]},
        {"scoring": "neg_mean_absolute_error", "cv": LeaveOneOut()},
    ),
    "kernels": (
        KernelRidge(),
        {"alpha": ALPHAS, "kernel": ["linear", "laplacian", Matern(nu=1.5)]},
        {"scoring": ["r2", "neg_mean_squared_error"], "refit": "r2"},
    ),
    "gp": (
        GaussianProcessRegressor(optimizer=None, normalize_y=True),
        {"alpha": ALPHAS, "kernel": [RBF(1.0), RBF(3.0)]},
        {"refit": False},
    ),
    "a kernel's own alpha": (
        GaussianProcessRegressor(RationalQuadratic(), optimizer=None),
        {"alpha": ALPHAS, "kernel__alpha": [0.5, 2.0]},
        {},
    ),
    "transformed targets": (
        TransformedTargetRegressor(
            make_pipeline(PolynomialFeatures(), Ridge()), func=np.arctan, inverse_func=np.tan
        ),
        {"regressor__ridge__alpha": ALPHAS, "regressor__polynomialfeatures__degree": [1, 2]},
        {},
    ),
    "scaled": (
        make_pipeline(StandardScaler(), Ridge()),
        {"ridge__alpha": ALPHAS, "standardscaler__with_std": [True, False]},
        {},
    ),
    "degrees": (
        make_pipeline(PolynomialFeatures(), Ridge()),
        {"ridge__alpha": ALPHAS, "polynomialfeatures__degree": [1, 2]},
        {"refit": lambda results: 3},
    ),
    "least squares": (LinearRegression(), {"fit_intercept": [True, False]}, {}),
}


@pytest.mark.parametrize("name", SEARCHES)
def test_search(name):
    X, y, _, _ = rows()
    model, grid, given = SEARCHES[name]
    found = ours.GridSearchCV(model, grid, **given).fit(X, y)
    plain = theirs.GridSearchCV(model, grid, **given).fit(X, y)
    same(found.cv_results_, plain.cv_results_)
    for attribute in ("best_index_", "n_splits_", "multimetric_"):
        assert getattr(found, attribute) == getattr(plain, attribute)
    assert str(found.best_params_) == str(plain.best_params_)
    assert type(found.scorer_) is type(plain.scorer_)
    if given.get("refit", True):
        np.testing.assert_allclose(found.predict(X), plain.predict(X), rtol=1e-10)
        assert found.score(X, y) == pytest.approx(plain.score(X, y))
        assert found.refit_time_ >= 0.0
    else:
        assert not hasattr(found, "best_estimator_")


def test_search_of_classes_with_weights_groups_and_frames():
    X, y, groups, weights = rows()
    frame = pd.DataFrame(X, columns=list("abc"))
    labels = np.array(["low", "high"])[(y > 4).astype(int)]
    given = {"cv": GroupKFold(3), "scoring": "balanced_accuracy", "return_train_score": True}
    found = ours.GridSearchCV(RidgeClassifier(), {"alpha": ALPHAS}, **given)
    expected = theirs.GridSearchCV(RidgeClassifier(), {"alpha": ALPHAS}, **given)
    for one in (found, expected):
        one.fit(frame, labels, groups=groups, sample_weight=weights)
    same(found.cv_results_, expected.cv_results_)
    assert (found.predict(frame) == expected.predict(frame)).all()
    assert list(found.feature_names_in_) == list("abc")
    found = ours.GridSearchCV(Ridge(), {"alpha": ALPHAS}).fit(frame, y, sample_weight=None)
    assert list(found.feature_names_in_) == list("abc")


def test_search_without_a_closed_form():
    X, y, _, _ = rows()
    with pytest.warns(HoldfastWarning, match="GridSearchCV is left to scikit-learn.*Lasso"):
        found = ours.GridSearchCV(Lasso(), {"alpha": [0.1, 1.0]}).fit(X, y)
    expected = theirs.GridSearchCV(Lasso(), {"alpha": [0.1, 1.0]}).fit(X, y)
    same(found.cv_results_, expected.cv_results_)
    with pytest.raises(ValueError, match="Invalid parameter"):
        ours.GridSearchCV(Ridge(), {"nonsense": [1.0]}).fit(X, y)


def test_search_inside_another():
    X, y, _, _ = rows()
    inner = ours.GridSearchCV(KernelRidge(kernel="rbf", gamma=0.1), {"alpha": ALPHAS}, cv=4)
    plain = theirs.GridSearchCV(KernelRidge(kernel="rbf", gamma=0.1), {"alpha": ALPHAS}, cv=4)
    found = theirs.cross_val_predict(inner, X, y, cv=3)
    np.testing.assert_allclose(found, theirs.cross_val_predict(plain, X, y, cv=3), rtol=1e-8)


# -- permutations ----------------------------------------------------------------------------------


def squared(estimator, X, y):
    return -float(np.square(y - estimator.predict(X)).mean())


@pytest.mark.parametrize(
    ("model", "given"),
    [
        (Ridge(), {}),
        (Ridge(), {"scoring": "neg_mean_squared_error", "cv": 3}),
        (Ridge(), {"scoring": "neg_mean_absolute_error", "cv": LeaveOneOut()}),
        (Ridge(), {"scoring": "neg_median_absolute_error", "cv": GroupKFold(3), "groups": True}),
        (Ridge(), {"scoring": squared, "random_state": 5}),
        (Ridge(), {"params": True}),
        (KernelRidge(kernel="rbf"), {"cv": KFold(4, shuffle=True, random_state=0)}),
        (GaussianProcessRegressor(RBF(), alpha=0.5, optimizer=None, normalize_y=True), {}),
        (make_pipeline(StandardScaler(), Ridge()), {}),
        (LinearRegression(), {"cv": [(np.arange(20), np.arange(20, 30))]}),
        (RidgeClassifier(), {}),
        (RidgeClassifier(), {"cv": [([*range(19, -1, -1)], [*range(20, 30)])]}),
        (RidgeClassifier(), {"scoring": "roc_auc", "cv": StratifiedKFold(3)}),
    ],
)
def test_permutations(model, given):
    X, y, groups, weights = rows()
    given = dict(given)
    if given.pop("groups", False):
        given["groups"] = groups
    if given.pop("params", False):
        given["params"] = {"sample_weight": weights}
    targets = y > 4 if isinstance(model, RidgeClassifier) else y
    found = ours.permutation_test_score(model, X, targets, n_permutations=12, **given)
    expected = theirs.permutation_test_score(model, X, targets, n_permutations=12, **given)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10)


def test_permutations_shuffled_again_each_time():
    X, y, _, _ = rows()
    for function in (ours, theirs):
        cv = KFold(3, shuffle=True, random_state=np.random.RandomState(7))
        found = function.permutation_test_score(Ridge(), X, y, cv=cv, n_permutations=5)
        if function is ours:
            first = found
    np.testing.assert_allclose(first[1], found[1], rtol=1e-8)


def test_permutations_without_a_closed_form():
    X, y, _, _ = rows()
    with pytest.warns(HoldfastWarning, match="permutation_test_score is left to scikit-learn"):
        found = ours.permutation_test_score(Lasso(), X, y, n_permutations=3)
    expected = theirs.permutation_test_score(Lasso(), X, y, n_permutations=3)
    np.testing.assert_array_equal(found[1], expected[1])


# -- estimators that choose ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model",
    [
        theirs.GridSearchCV(
            KernelRidge(kernel="rbf"), {"alpha": ALPHAS, "gamma": [0.1, 1.0]}, cv=3
        ),
        theirs.GridSearchCV(make_pipeline(StandardScaler(), Ridge()), {"ridge__alpha": ALPHAS}),
        RidgeCV(ALPHAS),
        KernelRidgeCV(gamma=0.1, alphas=ALPHAS, cv=3),
        KernelRidgeCV("linear", alphas=ALPHAS, standardize=True),
        KernelRidgeCV("linear", alphas=ALPHAS, basis=10, random_state=0),
        KernelRidgeCV(gamma=0.1, cv=3),
    ],
)
@pytest.mark.filterwarnings("ignore:.*is left to scikit-learn")
@pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")
def test_nested(model):
    X, y, _, _ = rows()
    np.testing.assert_allclose(
        ours.cross_val_predict(model, X, y, cv=4),
        theirs.cross_val_predict(model, X, y, cv=4),
        rtol=1e-8,
    )
    found = ours.cross_validate(model, X, y, cv=4, return_train_score=True)
    expected = theirs.cross_validate(model, X, y, cv=4, return_train_score=True)
    for name in ("test_score", "train_score"):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-8)


def test_nested_with_weights_and_permutations():
    X, y, _, weights = rows()
    model = KernelRidgeCV(gamma=0.1, alphas=ALPHAS, cv=3)
    given = {"cv": 4, "params": {"sample_weight": weights}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.testing.assert_allclose(
            ours.cross_val_score(model, X, y, **given),
            theirs.cross_val_score(model, X, y, **given),
            rtol=1e-8,
        )
        search = theirs.GridSearchCV(Ridge(), {"alpha": ALPHAS})
        found = ours.permutation_test_score(search, X, y, n_permutations=3)
        expected = theirs.permutation_test_score(search, X, y, n_permutations=3)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-8)


def alpha_of(estimator, X, y):
    return estimator.alpha_


@pytest.mark.parametrize(
    "given",
    [
        {"cv": 3},
        {"cv": KFold(4, shuffle=True, random_state=0), "scoring": "neg_mean_absolute_error"},
        {"cv": LeaveOneOut(), "scoring": "neg_mean_squared_error", "fit_intercept": False},
    ],
)
def test_ridge_with_folds_inside(given):
    X, y, _, weights = rows()
    alphas = np.logspace(-2, 2, 5)
    model = RidgeCV(alphas, **given)
    params = {"sample_weight": weights}
    for targets in (y, np.column_stack([y, y**2])):
        found = ours.cross_val_predict(model, X, targets, cv=4, params=params)
        expected = theirs.cross_val_predict(model, X, targets, cv=4, params=params)
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)
        wanted = {"cv": 4, "scoring": {"alpha": alpha_of, "r2": "r2"}, "return_train_score": True}
        found = ours.cross_validate(model, X, targets, **wanted)
        expected = theirs.cross_validate(model, X, targets, **wanted)
        np.testing.assert_array_equal(found["test_alpha"], expected["test_alpha"])
        for name in ("test_r2", "train_r2"):
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("columns", [120, 3, 300])
@pytest.mark.parametrize("bias", [True, False])
def test_ridge_with_leave_one_out_inside(columns, bias):
    rng = np.random.default_rng(4)
    X = 1.0 + rng.normal(size=(200, columns))
    y = X[:, 0] + np.sin(X[:, 1]) + rng.normal(size=200)
    given = {"alphas": np.logspace(-2, 4, 13), "fit_intercept": bias}
    wanted = {"cv": 3, "scoring": {"alpha": alpha_of}, "return_train_score": True}
    for model, targets in (
        (RidgeCV(**given), y),
        (RidgeCV(**given), np.column_stack([y, X[:, 2]])),
        (RidgeClassifierCV(**given), np.where(y > 1, "high", "low")),
        (RidgeClassifierCV(**given), np.digitize(y, [0.0, 1.0, 2.0])),
        (make_pipeline(StandardScaler(), RidgeCV(**given)), y),
        (TransformedTargetRegressor(RidgeCV(**given), func=np.arctan, inverse_func=np.tan), y),
    ):
        found = ours.cross_val_predict(model, X, targets, cv=3)
        np.testing.assert_array_equal(found, theirs.cross_val_predict(model, X, targets, cv=3))
        if hasattr(model, "alphas"):
            found = ours.cross_validate(model, X, targets, **wanted)
            expected = theirs.cross_validate(model, X, targets, **wanted)
            np.testing.assert_array_equal(found["test_alpha"], expected["test_alpha"])


def test_ridge_with_folds_inside_a_search_or_wrong():
    X, y, _, _ = rows()
    model = RidgeCV(ALPHAS, cv=3)
    grid = {"fit_intercept": [True, False]}
    with pytest.warns(HoldfastWarning, match="RidgeCV chooses in every split"):
        found = ours.GridSearchCV(model, grid).fit(X, y)
    same(found.cv_results_, theirs.GridSearchCV(model, grid).fit(X, y).cv_results_)
    with config_context(enable_metadata_routing=True):
        with pytest.warns(HoldfastWarning, match="left to scikit-learn.*RidgeCV"):
            found = ours.cross_val_score(model, X, y, params={})  # 1.6 needs params there
        np.testing.assert_array_equal(found, theirs.cross_val_score(model, X, y, params={}))
    for wrong in ({"alphas": [-1.0, 1.0]}, {"alpha_per_target": True}, {"scoring": "nonsense"}):
        model = RidgeCV(**{"alphas": ALPHAS, "cv": 3, **wrong})
        with pytest.raises(ValueError, match=r"\w") as expected:
            theirs.cross_val_score(model, X, y, error_score="raise")
        with pytest.raises(type(expected.value)) as error:
            ours.cross_val_score(model, X, y, error_score="raise")
        assert str(error.value) == str(expected.value)


def test_permutations_that_end_in_a_refit_draw_the_same():
    X, y, _, _ = rows()
    X = np.column_stack([X, X[:, 0]])  # no closed form for dependent columns without a penalty
    for module in (ours, theirs):
        generator = np.random.RandomState(9)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", HoldfastWarning)
            found = module.permutation_test_score(
                LinearRegression(), X, y, n_permutations=4, random_state=generator
            )
        if module is ours:
            first = found
    np.testing.assert_array_equal(first[1], found[1])
