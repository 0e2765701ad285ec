"""from_sklearn: the same predictions, held out too, and every answer."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.ensemble import RandomForestRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression, Ridge, RidgeClassifier, RidgeCV
from sklearn.model_selection import GridSearchCV, LeaveOneGroupOut, LeaveOneOut, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

import holdfast
from holdfast import KernelRidgeCV
from holdfast.exceptions import InvalidInputError, NotSupportedError

M = 36


def rows():
    rng = np.random.default_rng(5)
    X = rng.uniform(0.1, 2.0, size=(M, 3)) * [1.0, 4.0, 0.5]
    y = 3.0 + X[:, 0] + np.sin(X[:, 1]) + 0.2 * rng.normal(size=M)
    return X, y, rng.integers(0, 5, M), rng.uniform(0.5, 2.0, M)


def similarity(x, z, power=2):
    return (1.0 + float(x @ z)) ** power


gp = partial(GaussianProcessRegressor, optimizer=None)
ESTIMATORS = {
    "ridge": Ridge(alpha=0.4),
    "ridge, no bias": Ridge(alpha=0.4, fit_intercept=False),
    "least squares": LinearRegression(),
    "least squares, no bias": LinearRegression(fit_intercept=False),
    "linear": KernelRidge(alpha=0.3),
    "rbf": KernelRidge(kernel="rbf", alpha=0.1),
    "poly": KernelRidge(kernel="poly", degree=2, coef0=0.5, alpha=1.0),
    "chi2": KernelRidge(kernel="chi2", gamma=0.3, alpha=0.1),
    "function": KernelRidge(kernel=similarity, kernel_params={"power": 2}, alpha=3.0),
    "matern": KernelRidge(kernel=Matern(nu=1.5), alpha=0.2),
    "gp": gp(ConstantKernel(2.0) * RBF(1.5), alpha=0.1),
    "gp, noise": gp(RBF(1.5) + ConstantKernel(0.5) * WhiteKernel(0.2) + DotProduct(), alpha=0.01),
    "gp, noise in a product": gp(ConstantKernel(2.0) * (RBF(1.5) + WhiteKernel(0.1)), alpha=0.01),
    "gp, all noise in one": gp(RBF(1.5) + (WhiteKernel(0.2) + WhiteKernel(0.1)), alpha=0.01),
    "classes": RidgeClassifier(alpha=0.5),
    "weighted classes": RidgeClassifier(alpha=0.5, class_weight={True: 3.0}),
}


def close(a, b, tolerance=1e-8):
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def values(model, X):
    return model.decision_function(X) if hasattr(model, "decision_function") else model.predict(X)


@pytest.mark.parametrize("fitted", [True, False])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_predictions_and_held_out_predictions(name, fitted):
    X, y, groups, _ = rows()
    estimator = clone(ESTIMATORS[name])
    targets = y > y.mean() if is_classifier(estimator) else y
    plain = clone(estimator).fit(X, targets)
    model = holdfast.from_sklearn(plain if fitted else estimator, X, targets)
    new = X[:7] * 1.1
    close(values(model, new), values(plain, new))
    method = "decision_function" if is_classifier(estimator) else "predict"
    expected = cross_val_predict(estimator, X, targets, cv=LeaveOneOut(), method=method)
    close(model.held_out().matrix()[0, :, 0], expected)
    grouped = holdfast.from_sklearn(estimator, X, targets, groups=groups)
    given = {"cv": LeaveOneGroupOut(), "groups": groups, "method": method}
    close(grouped.held_out().matrix()[0, :, 0], cross_val_predict(estimator, X, targets, **given))


def test_weights_and_several_targets():
    X, y, _, weights = rows()
    Y = np.column_stack([y, X[:, 0] * y])
    for estimator in (Ridge(0.7), KernelRidge(kernel="rbf", alpha=0.2)):
        model = holdfast.from_sklearn(estimator, X, Y, sample_weight=weights)
        close(model.predict(X), clone(estimator).fit(X, Y, sample_weight=weights).predict(X))


def test_noise_of_each_row():
    X, y, _, weights = rows()
    process = gp(RBF(1.5), alpha=0.1 / weights).fit(X, y)
    model = holdfast.from_sklearn(process, X, y)
    close(model.predict(X + 0.1), process.predict(X + 0.1))
    left = np.arange(3, M)
    without = gp(RBF(1.5), alpha=0.1 / weights[left]).fit(X[left], y[left])
    close(model.predict_without([0, 1, 2]), without.predict(X[:3]))


def test_a_precomputed_kernel():
    X, y, _, _ = rows()
    K = X @ X.T + 1.0
    estimator = KernelRidge(kernel="precomputed", alpha=0.5).fit(K, y)
    close(holdfast.from_sklearn(estimator, K, y).predict(K), estimator.predict(K))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_parameters_that_were_chosen():
    X, y, _, _ = rows()
    process = GaussianProcessRegressor(RBF() + WhiteKernel(), random_state=0).fit(X, y - y.mean())
    model = holdfast.from_sklearn(process, X, y - y.mean())
    close(model.predict(X), process.predict(X), 1e-6)
    chosen = RidgeCV(alphas=[0.1, 1.0, 10.0]).fit(X, y)
    close(holdfast.from_sklearn(chosen, X, y).predict(X), chosen.predict(X))
    search = GridSearchCV(KernelRidge(kernel="rbf"), {"alpha": [0.1, 1.0], "gamma": [0.1, 1.0]})
    model = holdfast.from_sklearn(search, X, y)
    close(model.predict(X), search.fit(X, y).predict(X))
    own = KernelRidgeCV(alphas=[1.0]).fit(X, y)
    assert holdfast.from_sklearn(own, X, y) is own


def test_pipelines():
    X, y, groups, _ = rows()
    for estimator in (
        make_pipeline(PolynomialFeatures(2), Ridge()),
        make_pipeline(StandardScaler(), Ridge(2.0)),
        make_pipeline(PolynomialFeatures(2), StandardScaler(), RidgeCV([0.1, 1.0])),
    ):
        for given in (estimator, clone(estimator).fit(X, y)):
            model = holdfast.from_sklearn(given, X, y)
            close(model.predict(X + 0.1), clone(estimator).fit(X, y).predict(X + 0.1))
    model = holdfast.from_sklearn(make_pipeline(StandardScaler(), Ridge(2.0)), X, y, groups=groups)
    expected = cross_val_predict(
        make_pipeline(StandardScaler(), Ridge(2.0)), X, y, cv=LeaveOneGroupOut(), groups=groups
    )
    close(model[-1].held_out().matrix()[0, :, 0], expected)


def test_answers_are_there():
    X, y, _, _ = rows()
    model = holdfast.from_sklearn(gp(RBF(1.5) + WhiteKernel(0.1)).fit(X, y), X, y)
    assert model.predict_interval(X, level=0.8).shape == (M, 2)
    assert model.influence().cook.shape == (M,)
    assert model.permutation_test(30, random_state=0).p_value < 0.1
    assert model.verify().max_relative_error < 1e-8


REFUSED = {
    "RandomForestRegressor": RandomForestRegressor(),
    "positive": Ridge(positive=True),
    "alpha > 0": Ridge(alpha=0.0),
    "penalty for each target": KernelRidge(alpha=[1.0, 2.0]),
    "normalize_y": gp(RBF(), normalize_y=True),
    "WhiteKernel": gp(RBF() * WhiteKernel(0.1)),
    "noise alone": gp(WhiteKernel(0.1)),
    "refit=True": GridSearchCV(Ridge(), {"alpha": [1.0]}, refit=False),
    "Scale X once": make_pipeline(StandardScaler(), KernelRidge(kernel="rbf")),
    "fit_intercept=True": make_pipeline(StandardScaler(), Ridge(fit_intercept=False)),
}


@pytest.mark.parametrize("word", REFUSED)
def test_refusals(word):
    X, y, _, _ = rows()
    Y = np.column_stack([y, y]) if "each target" in word else y
    with pytest.raises(NotSupportedError, match=word) as error:
        holdfast.from_sklearn(REFUSED[word], X, Y)
    assert error.value.argument == "estimator"


def test_an_estimator_that_has_seen_other_rows():
    X, y, _, weights = rows()
    with pytest.raises(InvalidInputError, match="fitted to other rows"):
        holdfast.from_sklearn(Ridge().fit(X[:20], y[:20]), X, y)
    with pytest.raises(InvalidInputError, match="takes no sample_weight"):
        holdfast.from_sklearn(gp(RBF()), X, y, sample_weight=weights)
    with pytest.raises(NotSupportedError, match="does not reach"):
        holdfast.from_sklearn(make_pipeline(StandardScaler(), Ridge()), X, y, sample_weight=weights)
