"""What has no closed form goes to scikit-learn, with a word; metadata are routed as there."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn.model_selection as theirs
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import RandomForestRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import (
    Lasso,
    LinearRegression,
    Ridge,
    RidgeClassifier,
)
from sklearn.metrics import make_scorer, mean_squared_error
from sklearn.model_selection import GroupKFold, KFold, LeaveOneOut
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    OneHotEncoder,
    PowerTransformer,
    SplineTransformer,
    StandardScaler,
)

import holdfast.model_selection as ours
from holdfast import KernelRidgeClassifierCV, KernelRidgeCV
from holdfast.exceptions import HoldfastWarning

M = 40


def rows():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(M, 3))
    return X, X @ [1.0, 2.0, 0.0] + rng.normal(size=M), rng.integers(0, 5, M), rng.uniform(1, 2, M)


def centred(X):
    return X - X.mean(axis=0)


class Shifted(Ridge):
    def predict(self, X):
        return super().predict(X) + 1.0


WITHOUT = {
    "Lasso": Lasso(alpha=0.1),
    "RandomForestRegressor": RandomForestRegressor(n_estimators=3, random_state=0),
    "Shifted": Shifted(),
    "positive=True": Ridge(positive=True),
    "LinearRegression(positive=True)": LinearRegression(positive=True),
    "'lsqr'": Ridge(solver="lsqr"),
    "MinMaxScaler": make_pipeline(MinMaxScaler(), Ridge()),
    "SplineTransformer": make_pipeline(SplineTransformer(), Ridge()),
    "OneHotEncoder": make_pipeline(OneHotEncoder(handle_unknown="ignore"), Ridge()),
    "PowerTransformer": TransformedTargetRegressor(Ridge(), transformer=PowerTransformer()),
    "changes a target by the others": TransformedTargetRegressor(
        Ridge(), func=centred, inverse_func=centred, check_inverse=False
    ),
    "depend on the other rows": make_pipeline(FunctionTransformer(centred), Ridge()),
    "not positive semidefinite": KernelRidge(alpha=5.0, kernel="sigmoid", coef0=-1.0),
    "optimizer=None": GaussianProcessRegressor(RBF(), alpha=0.3),
}


@pytest.mark.filterwarnings("ignore:The optimal value:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:Singular matrix")  # of an indefinite kernel
@pytest.mark.parametrize("reason", WITHOUT)
def test_the_reason_is_named_and_the_numbers_are_theirs(reason):
    X, y, _, _ = rows()
    model = WITHOUT[reason]
    with pytest.warns(HoldfastWarning, match=reason.replace("(", r"\(").replace(")", r"\)")):
        found = ours.cross_val_score(model, X, y, cv=3)
    np.testing.assert_array_equal(found, theirs.cross_val_score(model, X, y, cv=3))
    with pytest.warns(HoldfastWarning, match="cross_val_predict is left to scikit-learn"):
        found = ours.cross_val_predict(model, X, y, cv=3)
    np.testing.assert_array_equal(found, theirs.cross_val_predict(model, X, y, cv=3))


def test_balanced_classes():
    X, y, _, _ = rows()
    model = RidgeClassifier(class_weight="balanced")
    with pytest.warns(HoldfastWarning, match="weighs the rows of each fold"):
        found = ours.cross_val_score(model, X, y > 0, cv=3)
    np.testing.assert_array_equal(found, theirs.cross_val_score(model, X, y > 0, cv=3))


@pytest.mark.parametrize("kind", ["array", "frame", "sparse"])
def test_numbers_that_are_rounded_there(kind):
    X, y, _, _ = rows()
    X = sp.csr_matrix(X) if kind == "sparse" else X.astype(np.float32)
    X = pd.DataFrame(X) if kind == "frame" else X
    with pytest.warns(HoldfastWarning, match="float32|stops at tol"):
        found = ours.cross_val_predict(Ridge(), X, y, cv=3)
    np.testing.assert_array_equal(found, theirs.cross_val_predict(Ridge(), X, y, cv=3))


def test_a_frame_of_which_some_columns_are_rounded():
    X, y, _, _ = rows()
    X = pd.DataFrame(X).astype({0: np.float32})
    found = ours.cross_val_predict(Ridge(), X, y, cv=3)  # a warning would be an error
    np.testing.assert_allclose(found, theirs.cross_val_predict(Ridge(), X, y, cv=3), rtol=1e-9)


@pytest.mark.parametrize(
    "given",
    [{"random_state": "seed"}, {"n_permutations": 0}, {"n_permutations": "3"}, {"scoring": "no"}],
)
def test_errors_of_permutations_are_theirs(given):
    X, y, _, _ = rows()
    with pytest.raises(Exception) as expected:  # noqa: PT011
        theirs.permutation_test_score(Ridge(), X, y, **given)
    with pytest.raises(type(expected.value)) as found:
        ours.permutation_test_score(Ridge(), X, y, **given)
    assert str(found.value) == str(expected.value)


def test_estimators_are_returned():
    X, y, _, _ = rows()
    with pytest.warns(HoldfastWarning, match="return_estimator=True asks"):
        found = ours.cross_validate(Ridge(), X, y, cv=3, return_estimator=True)
    assert [type(model) for model in found["estimator"]] == [Ridge] * 3
    assert found["estimator"][0].coef_.shape == (3,)


@pytest.mark.parametrize("split", [([0, 0, 1, 2, 3], [4]), ([0, 1, 2, 3], [3, 4])])
def test_splits_that_are_no_hold_out(split):
    X, y, _, _ = rows()
    with pytest.warns(HoldfastWarning, match="more than once|tests rows that it trains on"):
        found = ours.cross_val_score(Ridge(), X, y, cv=[split], scoring="neg_mean_squared_error")
    expected = theirs.cross_val_score(Ridge(), X, y, cv=[split], scoring="neg_mean_squared_error")
    np.testing.assert_array_equal(found, expected)


def labels():
    return rows()[1] > 0


def wide():
    return np.random.default_rng(2).normal(size=(M, M))


def halves():
    first = np.arange(M) < M // 2
    return [(first, ~first)]


KEPT = KernelRidgeCV("linear", alphas=[0.1, 1.0, 10.0])
REFITTED = {
    r"KernelRidgeCV chooses in every split; its own nested\(\)": ("cross_val_score", KEPT, {}),
    "KernelRidgeClassifierCV": (
        "cross_val_score",
        KernelRidgeClassifierCV("linear", alphas=[0.1, 1.0, 10.0]),
        {"y": labels()},
    ),
    "chooses in every split": ("permutation_test_score", KEPT, {"n_permutations": 2}),
    "40 columns": (
        "cross_val_score",
        make_pipeline(StandardScaler(), Ridge()),
        {"X": wide()},
    ),
    "is a mask": ("cross_val_score", Ridge(), {"cv": halves()}),
    "one weight for each row": ("cross_val_score", Ridge(), {"params": {"sample_weight": 2.0}}),
    "alpha=0.0": ("cross_val_score", RidgeClassifier(alpha=0.0), {"y": labels()}),
    "is not one penalty": ("cross_val_score", KernelRidge(alpha=[2.0, 2.0]), {}),
    "of each row that a split": (
        "cross_val_score",
        GaussianProcessRegressor(RBF(), alpha=np.full(M // 2, 0.3), optimizer=None),
        {"cv": 2},
    ),
}


@pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")
@pytest.mark.parametrize("reason", REFITTED)
def test_no_refit_is_silent(reason):
    X, y, _, _ = rows()
    name, model, change = REFITTED[reason]
    given = {"X": X, "y": y, "cv": 4, **change}
    expected = getattr(theirs, name)(clone(model), **given)
    with pytest.warns(HoldfastWarning, match=f"{name} is left to scikit-learn.*{reason}") as seen:
        found = getattr(ours, name)(model, **given)
    assert sum("is left to scikit-learn" in str(one.message) for one in seen) == 1
    if isinstance(found, dict):
        found, expected = found["train_score"], expected["train_score"]
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)


@pytest.mark.parametrize(
    ("model", "change"),
    [
        (Ridge(), {"y": None}),
        (Ridge(alpha=-1.0), {}),
        (Ridge(), {"y": np.arange(5.0)}),
        (Ridge(), {"X": np.full((M, 2), np.nan)}),
        (Ridge(), {"cv": 200}),
        (Ridge(), {"cv": GroupKFold(3)}),
        (Ridge(), {"params": {"nonsense": 1}}),
        (KernelRidge(kernel="nonsense"), {}),
        (KernelRidge(kernel="precomputed"), {}),
        (Ridge(), {"scoring": "nonsense"}),
    ],
)
def test_errors_are_theirs(model, change):
    X, y, _, _ = rows()
    given = {"X": X, "y": y, "cv": 3, "error_score": "raise", **change}
    with pytest.raises(Exception) as expected:  # noqa: PT011
        theirs.cross_val_score(model, **given)
    with pytest.raises(type(expected.value)) as found:
        ours.cross_val_score(model, **given)
    assert str(found.value) == str(expected.value)


def test_failed_fits_are_scored_as_there():
    X, y, _, _ = rows()
    X[3] = np.nan
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        found = ours.cross_val_score(Ridge(), X, y, cv=3, error_score=-1.0)
    for word in ("fits failed", "was left to scikit-learn.*because Input"):
        assert any(re.search(word, str(one.message)) for one in seen)
    assert (found == -1.0).any()


def test_columns_that_a_split_leaves_undetermined():
    X, y, _, _ = rows()
    X[:, 2] = 0.0
    X[:3, 2] = [1.0, 2.0, -1.0]
    with pytest.warns(HoldfastWarning, match="a split leaves a column"):
        found = ours.cross_val_predict(LinearRegression(), X, y, cv=KFold(4))
    np.testing.assert_allclose(
        found, theirs.cross_val_predict(LinearRegression(), X, y, cv=KFold(4)), rtol=1e-8
    )
    X[:, 2] = X[:, 1]
    with pytest.warns(HoldfastWarning, match="linearly dependent"):
        ours.cross_val_predict(LinearRegression(), X, y, cv=KFold(4))


# -- metadata --------------------------------------------------------------------------------------


def test_routed_metadata_are_left_to_scikit_learn():
    X, y, groups, weights = rows()
    scorer = make_scorer(mean_squared_error)
    with config_context(enable_metadata_routing=True):
        given = {
            "cv": GroupKFold(3).set_split_request(groups=True),
            "scoring": scorer.set_score_request(sample_weight="importance"),
            "params": {"sample_weight": weights, "groups": groups, "importance": weights**2},
        }
        model = Ridge().set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        for name in ("cross_val_score", "permutation_test_score"):
            with pytest.warns(HoldfastWarning, match="metadata routing is switched on"):
                found = getattr(ours, name)(model, X, y, **given)
            expected = getattr(theirs, name)(model, X, y, **given)
            np.testing.assert_array_equal(np.hstack(found), np.hstack(expected))
        search = {"param_grid": {"alpha": [0.1, 1.0]}, "cv": given["cv"]}
        with pytest.warns(HoldfastWarning, match="metadata routing is switched on"):
            found = ours.GridSearchCV(model, **search).fit(
                X, y, groups=groups, sample_weight=weights
            )
        assert found.cv_results_["mean_test_score"].shape == (2,)


# -- splits are made once --------------------------------------------------------------------------


def drawn():
    return KFold(3, shuffle=True, random_state=np.random.RandomState(4))


def given_once():
    X, y, _, _ = rows()
    return iter(list(KFold(3).split(X, y)))


@pytest.mark.parametrize("make", [drawn, given_once])
@pytest.mark.parametrize("model", [Ridge(), Ridge(solver="lsqr"), Lasso(alpha=0.1)])
@pytest.mark.filterwarnings("ignore::holdfast.exceptions.HoldfastWarning")
def test_splitters_that_draw_and_iterators(make, model):
    X, y, _, _ = rows()
    for name, given in (
        ("cross_val_score", {}),
        ("cross_val_predict", {}),
        ("permutation_test_score", {"n_permutations": 3}),
    ):
        if name == "permutation_test_score" and make is given_once:
            continue
        found = getattr(ours, name)(model, X, y, cv=make(), **given)
        expected = getattr(theirs, name)(model, X, y, cv=make(), **given)
        for a, b in zip(np.atleast_1d(found[1]), np.atleast_1d(expected[1]), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-8)
    found = ours.GridSearchCV(model, {"alpha": [0.1, 1.0]}, cv=make()).fit(X, y)
    expected = theirs.GridSearchCV(model, {"alpha": [0.1, 1.0]}, cv=make()).fit(X, y)
    np.testing.assert_allclose(
        found.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"], rtol=1e-8
    )


def test_rows_one_by_one():
    X, y, _, _ = rows()
    given = {"cv": LeaveOneOut(), "scoring": "neg_mean_absolute_error"}
    np.testing.assert_allclose(
        ours.cross_val_score(Ridge(), X, y, **given), theirs.cross_val_score(Ridge(), X, y, **given)
    )
    np.testing.assert_allclose(
        ours.cross_val_predict(Ridge(), X, y, cv=LeaveOneOut()),
        theirs.cross_val_predict(Ridge(), X, y, cv=LeaveOneOut()),
    )


def test_scaled_columns_that_a_split_leaves_undetermined():
    X, y, _, _ = rows()
    X[:, 2] = 0.0
    X[:3, 2] = [1.0, 2.0, -1.0]
    model = make_pipeline(StandardScaler(), LinearRegression())
    with pytest.warns(HoldfastWarning, match="a split leaves a column"):
        found = ours.cross_val_predict(model, X, y, cv=KFold(4))
    np.testing.assert_allclose(found, theirs.cross_val_predict(model, X, y, cv=KFold(4)))


def lopsided(x, z):
    return float(x[0] * z[0] + 0.5 * x[1])


@pytest.mark.filterwarnings("ignore:Singular matrix")
def test_a_kernel_function_that_is_not_symmetric():
    X, y, _, _ = rows()
    model = KernelRidge(kernel=lopsided)
    with pytest.warns(HoldfastWarning, match="k\\(z, x\\)"):
        found = ours.cross_val_predict(model, X, y, cv=3)
    np.testing.assert_array_equal(found, theirs.cross_val_predict(model, X, y, cv=3))


def test_methods_that_an_estimator_has_not():
    X, y, _, _ = rows()
    with pytest.raises(AttributeError, match="'RidgeClassifier' object has no attribute"):
        ours.cross_val_predict(RidgeClassifier(), X, y > 0, method="predict_proba")


def test_labels_as_categories():
    X, y, _, _ = rows()
    labels = pd.Series(np.where(y > 0, "high", "low"), dtype="category")
    found = ours.cross_val_predict(RidgeClassifier(), X, labels)
    expected = theirs.cross_val_predict(RidgeClassifier(), X, labels)
    assert found.dtype == expected.dtype
    assert (found == expected).all()


def test_columns_whose_units_scikit_learn_cuts_off():
    X, y, _, _ = rows()
    X = X * [1e-5, 1.0, 300.0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HoldfastWarning)  # versions differ in where they cut
        found = ours.cross_val_predict(LinearRegression(), X, y, cv=KFold(4))
    expected = theirs.cross_val_predict(LinearRegression(), X, y, cv=KFold(4))
    np.testing.assert_allclose(found, expected, rtol=1e-8)
