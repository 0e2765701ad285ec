"""The functions give scikit-learn's numbers: estimators × splitters × scorers × kinds of data.

None of these is refitted: that would be a warning, and so an error.
"""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn.model_selection as theirs
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression, Ridge, RidgeClassifier
from sklearn.metrics import make_scorer, mean_squared_error
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneGroupOut,
    LeaveOneOut,
    LeavePOut,
    PredefinedSplit,
    RepeatedKFold,
    ShuffleSplit,
    StratifiedKFold,
    TimeSeriesSplit,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    Normalizer,
    OneHotEncoder,
    PolynomialFeatures,
    SplineTransformer,
    StandardScaler,
)

import holdfast.model_selection as ours

M = 36
TOLERANCE = 1e-8


def rows(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(M, 4)) * [1.0, 3.0, 0.2, 1.0] + [0.0, 2.0, 0.0, -1.0]
    y = 5.0 + np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.1 * rng.normal(size=M)
    return X, y, rng.integers(0, 6, M), rng.uniform(0.2, 3.0, M)


KNOTS = np.linspace(-9, 12, 5)[:, None] + np.zeros(4)


def signs(X):
    return np.sign(np.round(X))


def similarity(x, z):
    return 1.0 + float(x @ z) ** 2


gp = partial(GaussianProcessRegressor, optimizer=None)
REGRESSORS = {
    "ridge": Ridge(alpha=0.7),
    "ridge, no bias": Ridge(alpha=0.7, fit_intercept=False),
    "ridge by svd": Ridge(alpha=0.7, solver="svd"),
    "ridge by exact lsqr": Ridge(alpha=0.7, solver="lsqr", tol=1e-14),
    "ridge without penalty": Ridge(alpha=0.0, solver="svd"),
    "least squares": LinearRegression(),
    "least squares, no bias": LinearRegression(fit_intercept=False),
    "kernel ridge": KernelRidge(alpha=0.3),
    "kernel ridge, rbf": KernelRidge(kernel="rbf", gamma=0.2, alpha=0.1),
    "kernel ridge, laplacian": KernelRidge(kernel="laplacian", alpha=0.1),
    "kernel ridge, poly": KernelRidge(kernel="poly", degree=2, gamma=0.1, alpha=1.0),
    "kernel ridge, cosine": KernelRidge(kernel="cosine", alpha=0.5),
    "kernel ridge, function": KernelRidge(kernel=similarity, alpha=2.0),
    "kernel ridge, gp kernel": KernelRidge(kernel=Matern(nu=1.5), alpha=0.1),
    "gp": gp(RBF(2.0), alpha=0.1),
    "gp, default kernel": gp(alpha=0.05),
    "gp, normalised": gp(ConstantKernel(2.0) * RBF(2.0), alpha=0.1, normalize_y=True),
    "gp, noise": gp(DotProduct() + RBF() + WhiteKernel(0.2), normalize_y=True),
    "gp, all fixed": GaussianProcessRegressor(RBF(2.0, "fixed"), alpha=0.05),
    "polynomial": make_pipeline(PolynomialFeatures(2), Ridge(alpha=1.0)),
    "function": make_pipeline(FunctionTransformer(np.abs), Normalizer(), KernelRidge(alpha=0.2)),
    "columns": make_pipeline(
        ColumnTransformer([("p", PolynomialFeatures(2), [0, 1]), ("a", "passthrough", [2])]),
        "passthrough",
        Ridge(),
    ),
    "given knots": make_pipeline(
        SplineTransformer(knots=np.linspace(-9, 12, 5)[:, None] + np.zeros(4)), Ridge()
    ),
    "given categories": make_pipeline(
        FunctionTransformer(signs),
        OneHotEncoder(categories=[[-1.0, 0.0, 1.0]] * 4),
        Ridge(solver="lsqr", tol=1e-14),
    ),
    "frozen": make_pipeline(
        FrozenEstimator(StandardScaler().fit(rows()[0])), KernelRidge(kernel="rbf", alpha=0.3)
    ),
    "log of y": TransformedTargetRegressor(Ridge(), func=np.log1p, inverse_func=np.expm1),
    "log of y, pipeline": TransformedTargetRegressor(
        make_pipeline(PolynomialFeatures(2), StandardScaler(), Ridge(3.0)),
        func=np.log1p,
        inverse_func=np.expm1,
    ),
    "log of y, gp": TransformedTargetRegressor(
        gp(RBF(2.0), alpha=0.1, normalize_y=True), func=np.log, inverse_func=np.exp
    ),
}
SCALED = {
    "scaled ridge": make_pipeline(StandardScaler(), Ridge(alpha=0.7)),
    "scaled, no bias": make_pipeline(StandardScaler(), Ridge(fit_intercept=False)),
    "not centred": make_pipeline(StandardScaler(with_mean=False), Ridge(fit_intercept=False)),
    "centred only": make_pipeline(StandardScaler(with_std=False), Ridge(fit_intercept=False)),
    "scaled kernel ridge": make_pipeline(StandardScaler(), KernelRidge(alpha=3.0)),
    "scaled polynomial": make_pipeline(PolynomialFeatures(2), StandardScaler(), Ridge()),
    "scaled least squares": make_pipeline(StandardScaler(), LinearRegression()),
}
REGRESSORS |= SCALED
SPLITTERS: dict = {
    "5": (5, None),
    "shuffled": (KFold(4, shuffle=True, random_state=1), None),
    "loo": (LeaveOneOut(), None),
    "groups": (LeaveOneGroupOut(), "groups"),
    "group folds": (GroupKFold(3), "groups"),
    "repeated": (RepeatedKFold(n_splits=3, n_repeats=2, random_state=0), None),
    "shuffle split": (ShuffleSplit(4, test_size=0.3, train_size=0.5, random_state=0), None),
    "time": (TimeSeriesSplit(3), None),
    "predefined": (PredefinedSplit(np.arange(M) % 3), None),
}
SCORERS = {
    "default": None,
    "name": "neg_root_mean_squared_error",
    "several": ["r2", "neg_median_absolute_error", "explained_variance"],
}


def close(a, b):
    np.testing.assert_allclose(a, b, rtol=TOLERANCE, atol=TOLERANCE)


def same_scores(found, expected):
    assert found.keys() == expected.keys()
    for name in expected:
        if not name.endswith("_time"):
            close(found[name], expected[name])


@pytest.mark.parametrize("splitter", SPLITTERS)
@pytest.mark.parametrize("name", REGRESSORS)
def test_regressors(name, splitter):
    X, y, groups, _ = rows()
    cv, uses = SPLITTERS[splitter]
    model, given = REGRESSORS[name], {"groups": groups} if uses else {}
    scoring = "neg_mean_absolute_error" if splitter == "loo" else SCORERS["several"]
    same_scores(
        ours.cross_validate(model, X, y, cv=cv, scoring=scoring, return_train_score=True, **given),
        theirs.cross_validate(
            model, X, y, cv=cv, scoring=scoring, return_train_score=True, **given
        ),
    )
    if splitter in ("repeated", "shuffle split", "time"):
        return  # no partition
    close(
        ours.cross_val_predict(model, X, y, cv=cv, **given),
        theirs.cross_val_predict(model, X, y, cv=cv, **given),
    )


# -- scorers ---------------------------------------------------------------------------------------


def largest_coefficient(estimator, X, y):
    """A function that asks the model for more than predictions."""
    return float(np.abs(estimator.coef_).max())


def on_new_rows(estimator, X, y):
    return {"moved": float(estimator.predict(X + 1.0).mean()), "rows": len(X)}


@pytest.mark.parametrize(
    "scoring",
    [
        None,
        "neg_root_mean_squared_error",
        ("r2", "neg_mean_absolute_error"),
        {"a": "r2", "b": largest_coefficient},
        largest_coefficient,
        on_new_rows,
        make_scorer(mean_squared_error, greater_is_better=False),
    ],
)
def test_scorers(scoring):
    X, y, _, _ = rows()
    given = {"cv": 4, "scoring": scoring, "return_train_score": True}
    same_scores(
        ours.cross_validate(Ridge(), X, y, **given), theirs.cross_validate(Ridge(), X, y, **given)
    )


@pytest.mark.parametrize("scoring", ["neg_log_loss", lambda estimator, X, y: 1 / 0])
def test_scorers_that_fail(scoring):
    X, y, _, _ = rows()
    labels = (y > y.mean()).astype(int)
    given = {"cv": 4, "scoring": scoring, "error_score": -5.0}
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        expected = theirs.cross_val_score(RidgeClassifier(), X, labels, **given)
        close(ours.cross_val_score(RidgeClassifier(), X, labels, **given), expected)
    assert (expected == -5.0).all()


# -- classifiers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("cv", [4, StratifiedKFold(3, shuffle=True, random_state=0), LeaveOneOut()])
@pytest.mark.parametrize("class_weight", [None, {1: 3.0}])
def test_classifiers(count, cv, class_weight):
    X, y, _, weights = rows()
    labels = np.digitize(y, np.quantile(y, np.linspace(0, 1, count + 1)[1:-1]))
    if class_weight is None:
        labels = np.array(list("abc"))[labels]
    model = RidgeClassifier(class_weight=class_weight)
    scoring = ["accuracy"] if isinstance(cv, LeaveOneOut) else ["balanced_accuracy", "f1_macro"]
    if count == 2 and not isinstance(cv, LeaveOneOut):
        scoring.append("roc_auc")
    given = {"cv": cv, "params": {"sample_weight": weights}}
    same_scores(
        ours.cross_validate(model, X, labels, scoring=scoring, return_train_score=True, **given),
        theirs.cross_validate(model, X, labels, scoring=scoring, return_train_score=True, **given),
    )
    expected = theirs.cross_val_predict(model, X, labels, **given)
    assert (ours.cross_val_predict(model, X, labels, **given) == expected).all()
    given["method"] = "decision_function"
    close(
        ours.cross_val_predict(model, X, labels, **given),
        theirs.cross_val_predict(model, X, labels, **given),
    )


def test_a_class_that_a_fold_has_not_seen():
    X, y, _, _ = rows()
    labels = np.digitize(y, np.quantile(y, [0.3, 0.5, 0.6]))
    order = np.argsort(labels, kind="stable")
    X, labels = X[order], labels[order]
    given = {"cv": KFold(3), "method": "decision_function"}
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        found = ours.cross_val_predict(RidgeClassifier(), X, labels, **given)
        expected = theirs.cross_val_predict(RidgeClassifier(), X, labels, **given)
    close(found, expected)
    assert (
        ours.cross_val_predict(RidgeClassifier(), X, labels, cv=KFold(3))
        == theirs.cross_val_predict(RidgeClassifier(), X, labels, cv=KFold(3))
    ).all()


# -- kinds of data ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ridge", "least squares", "kernel ridge, rbf", "kernel ridge"])
@pytest.mark.parametrize("zeros", [0, 5])
def test_weights(name, zeros):
    X, y, groups, weights = rows()
    weights[:zeros] = 0.0
    given = {"cv": GroupKFold(3), "groups": groups, "params": {"sample_weight": weights}}
    same_scores(
        ours.cross_validate(REGRESSORS[name], X, y, return_train_score=True, **given),
        theirs.cross_validate(REGRESSORS[name], X, y, return_train_score=True, **given),
    )


@pytest.mark.filterwarnings("ignore:invalid value encountered in sqrt")  # scikit-learn's own
@pytest.mark.parametrize("zeros", [0, 5])
@pytest.mark.parametrize("both", [True, False])
@pytest.mark.parametrize("name", ["scaled ridge", "scaled, no bias", "not centred"])
def test_weights_of_scaled_columns(name, both, zeros):
    X, y, _, weights = rows()
    weights[:zeros] = 0.0
    X[:, 3] = 2.0  # a column that never varies
    X[:9, 2] = 1.0
    X[9:, 2] = 0.0  # and one that does not without some rows
    step = "ridge__sample_weight"
    params = {step: weights, "standardscaler__sample_weight": weights} if both else {step: weights}
    if not both and (zeros or name == "scaled, no bias"):
        return  # refitted
    for cv in (KFold(4), LeaveOneOut()):
        close(
            ours.cross_val_predict(SCALED[name], X, y, cv=cv, params=params),
            theirs.cross_val_predict(SCALED[name], X, y, cv=cv, params=params),
        )


def test_sparse_scaled_columns():
    X, y, _, _ = rows()
    X = sp.csr_matrix(np.where(np.abs(X) > 1.0, X, 0.0))
    ridge = Ridge(solver="sparse_cg", tol=1e-13)
    model = make_pipeline(StandardScaler(with_mean=False), ridge)
    close(ours.cross_val_predict(model, X, y, cv=4), theirs.cross_val_predict(model, X, y, cv=4))


def test_weights_of_a_pipeline():
    X, y, _, weights = rows()
    model = make_pipeline(PolynomialFeatures(2), Ridge())
    given = {"cv": 4, "params": {"ridge__sample_weight": weights}}
    close(
        ours.cross_val_predict(model, X, y, **given),
        theirs.cross_val_predict(model, X, y, **given),
    )


TARGETS = {
    "ridge": Ridge(alpha=0.7),
    "a penalty for each": Ridge(alpha=np.array([0.1, 1.0, 7.0])),
    "kernel ridge": KernelRidge(kernel="rbf", alpha=np.array([0.1, 1.0, 0.1])),
    "least squares": LinearRegression(),
    "gp": gp(RBF(), alpha=0.1, normalize_y=True),
}


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("columns", [1, 3])
def test_several_targets(name, columns):
    X, y, _, _ = rows()
    Y = np.column_stack([y, X[:, 0] * y, np.cos(y)])[:, :columns]
    model = TARGETS[name]
    if columns == 1 and np.ndim(model.get_params()["alpha"] if "alpha" in vars(model) else 1):
        pytest.skip("three penalties")
    found = ours.cross_val_predict(model, X, Y, cv=4)
    expected = theirs.cross_val_predict(model, X, Y, cv=4)
    assert found.shape == expected.shape
    close(found, expected)
    same_scores(
        ours.cross_validate(model, X, Y, cv=4, scoring="r2", return_train_score=True),
        theirs.cross_validate(model, X, Y, cv=4, scoring="r2", return_train_score=True),
    )


@pytest.mark.parametrize("name", ["ridge", "kernel ridge", "kernel ridge, rbf"])
def test_sparse_rows(name):
    X, y, _, _ = rows()
    X = sp.csr_matrix(np.where(np.abs(X) > 1.0, X, 0.0))
    model = Ridge(solver="sparse_cg", tol=1e-13) if name == "ridge" else REGRESSORS[name]
    close(ours.cross_val_predict(model, X, y, cv=4), theirs.cross_val_predict(model, X, y, cv=4))


@pytest.mark.parametrize("name", ["ridge", "gp, normalised", "columns", "polynomial"])
def test_frames(name):
    X, y, _, _ = rows()
    frame, series = pd.DataFrame(X, columns=list("abcd")), pd.Series(y, index=np.arange(M)[::-1])
    close(
        ours.cross_val_predict(REGRESSORS[name], frame, series, cv=4),
        theirs.cross_val_predict(REGRESSORS[name], frame, series, cv=4),
    )
    same_scores(
        ours.cross_validate(REGRESSORS[name], frame, series, scoring=on_new_rows),
        theirs.cross_validate(REGRESSORS[name], frame, series, scoring=on_new_rows),
    )


@pytest.mark.parametrize("cv", [4, LeaveOneOut()])
def test_a_precomputed_kernel(cv):
    X, y, _, _ = rows()
    K = X @ X.T + 1.0
    model = KernelRidge(kernel="precomputed", alpha=0.5)
    close(ours.cross_val_predict(model, K, y, cv=cv), theirs.cross_val_predict(model, K, y, cv=cv))
    same_scores(
        ours.cross_validate(model, K, y, cv=4, scoring=on_new_kernel, return_train_score=True),
        theirs.cross_validate(model, K, y, cv=4, scoring=on_new_kernel, return_train_score=True),
    )


def on_new_kernel(estimator, K, y):
    return float(np.abs(y - estimator.predict(K)).mean()) + K.shape[1]


@pytest.mark.parametrize("columns", [60, 36])
@pytest.mark.parametrize("bias", [True, False])
def test_more_columns_than_rows(columns, bias):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(M, columns))
    y = X[:, 0] + rng.normal(size=M)
    model = Ridge(alpha=2.0, fit_intercept=bias)
    close(
        ours.cross_val_predict(model, X, y, cv=LeaveOneOut()),
        theirs.cross_val_predict(model, X, y, cv=LeaveOneOut()),
    )


def test_every_pair_left_out():
    X, y, _, _ = rows()
    X, y = X[:12], y[:12]
    given = {"cv": LeavePOut(2), "scoring": "neg_mean_squared_error"}
    close(
        ours.cross_val_score(REGRESSORS["gp, noise"], X, y, **given),
        theirs.cross_val_score(REGRESSORS["gp, noise"], X, y, **given),
    )


def test_splits_as_a_list_and_their_indices():
    X, y, _, _ = rows()
    splits = [(np.arange(20), np.arange(25, 30)), (np.arange(10, 30), np.array([3, 1, 3]))]
    found = ours.cross_validate(Ridge(), X, y, cv=splits, return_indices=True)
    expected = theirs.cross_validate(Ridge(), X, y, cv=splits, return_indices=True)
    close(found["test_score"], expected["test_score"])
    for kind in ("train", "test"):
        for a, b in zip(found["indices"][kind], expected["indices"][kind], strict=True):
            assert (a == b).all()


def test_changing_the_import_breaks_nothing():
    """Every other public name is scikit-learn's own; star imports bring the drop-ins alone."""
    for name in theirs.__all__:
        if name.startswith("Halving"):  # scikit-learn itself refuses it, until asked for
            continue
        own = getattr(ours, name)
        assert (own is getattr(theirs, name)) == (name not in ours.__all__)
        assert name in dir(ours)
    assert ours.train_test_split is theirs.train_test_split
    with pytest.raises(AttributeError, match="no_such_name"):
        ours.no_such_name  # noqa: B018
