"""Random estimators, rows, splits and scorers: scikit-learn's numbers, refitted or not."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import sklearn.model_selection as theirs
from sklearn.base import is_classifier
from sklearn.compose import TransformedTargetRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression, Ridge, RidgeClassifier, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, PolynomialFeatures, SplineTransformer, StandardScaler

import holdfast.model_selection as ours


def problem(seed):
    """Return the name of a function, and its arguments."""
    rng = np.random.default_rng(seed)
    m, d = int(rng.integers(12, 60)), int(rng.integers(1, 6))
    X = rng.normal(size=(m, d)) * 10.0 ** rng.uniform(-1, 1, size=d) + rng.normal(size=d)
    y = 30.0 + np.sin(X[:, 0]) + X @ rng.normal(size=d) + rng.normal(size=m)
    model = _model(rng, d)
    given = {"X": X, "y": y, "cv": _splitter(rng, m)}
    if is_classifier(model):
        given["y"] = np.arange(m) % int(rng.integers(2, 4))
        scoring = rng.choice(["accuracy", "balanced_accuracy", "f1_macro"])
    else:
        if rng.random() < 0.2:
            given["y"] = np.column_stack([y, rng.normal(size=m)])
        names = ["neg_mean_squared_error", "neg_mean_absolute_error", "neg_max_error"]
        scoring = rng.choice(names[: 2 + (given["y"].ndim == 1)])
    weighted = not isinstance(model, GaussianProcessRegressor | TransformedTargetRegressor)
    if weighted and not hasattr(model, "steps") and rng.random() < 0.3:
        given["params"] = {"sample_weight": rng.uniform(0.2, 3.0, size=m)}
    if isinstance(given["cv"], theirs.GroupKFold):
        given["groups"] = np.arange(m) % 7
    name = str(rng.choice(["cross_validate", "cross_val_predict", "permutation_test_score"]))
    partition = isinstance(given["cv"], int | theirs.GroupKFold | theirs.KFold | theirs.LeaveOneOut)
    if name == "cross_val_predict" and partition:
        return name, model, given
    if name == "permutation_test_score" and "params" not in given:
        return name, model, {**given, "scoring": str(scoring), "n_permutations": 3}
    train = bool(rng.random() < 0.3)
    return "cross_validate", model, {**given, "scoring": str(scoring), "return_train_score": train}


def _model(rng, d):
    alpha, bias = 10.0 ** rng.uniform(-2, 2), bool(rng.random() < 0.7)
    gamma = 10.0 ** rng.uniform(-2, 0.5)
    linear = [Ridge(alpha, fit_intercept=bias), LinearRegression(fit_intercept=bias)]
    kernel = str(rng.choice(["rbf", "laplacian", "poly", "linear", "cosine"]))
    process = ConstantKernel(2.0) * RBF(2.0) + WhiteKernel(0.2) if rng.random() < 0.5 else Matern()
    normalise = bool(rng.random() < 0.5)
    models = [
        *linear,
        RidgeClassifier(alpha, fit_intercept=bias),
        KernelRidge(alpha=alpha, kernel=kernel, gamma=gamma, degree=2),
        GaussianProcessRegressor(process, alpha=0.1, optimizer=None, normalize_y=normalise),
        make_pipeline(StandardScaler(), Ridge(alpha)),
        make_pipeline(PolynomialFeatures(2), StandardScaler(), Ridge(1.0 + alpha)),
        make_pipeline(Normalizer(), KernelRidge(alpha=alpha, kernel="rbf")),
        make_pipeline(SplineTransformer(knots=np.linspace(-40, 40, 5)[:, None] + np.zeros(d)),
                      Ridge(alpha)),
        TransformedTargetRegressor(Ridge(alpha), func=np.arctan, inverse_func=np.tan),
        RidgeCV(alpha * np.logspace(-2, 2, 5), fit_intercept=bias, cv=3),
        make_pipeline(StandardScaler(), KernelRidge(alpha=alpha, kernel="rbf")),  # refitted
    ]  # fmt: skip
    return models[int(rng.integers(len(models)))]


def _splitter(rng, m):
    seed = int(rng.integers(1000))
    splitters = [
        int(rng.integers(2, 6)),
        theirs.KFold(4, shuffle=True, random_state=seed),
        theirs.LeaveOneOut(),
        theirs.GroupKFold(3),
        theirs.ShuffleSplit(3, test_size=0.3, random_state=seed),
        theirs.RepeatedKFold(n_splits=3, n_repeats=2, random_state=seed),
        theirs.TimeSeriesSplit(3),
    ]
    return splitters[int(rng.integers(len(splitters)))]


def gap(seed):
    """Return the largest difference, over the standard deviation of the targets, and its name."""
    name, model, given = problem(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found, expected = (getattr(side, name)(model, **given) for side in (ours, theirs))
    if isinstance(found, dict):
        keep = [key for key in expected if not key.endswith("_time")]
        assert found.keys() == expected.keys()
        found, expected = (np.array([one[key] for key in keep]) for one in (found, expected))
    parts = zip(found, expected, strict=True) if isinstance(found, tuple) else [(found, expected)]
    worst = 0.0
    for a, b in parts:
        a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
        assert a.shape == b.shape
        np.testing.assert_array_equal(np.isnan(a), np.isnan(b))
        if np.isfinite(b).any():
            size = np.maximum(np.abs(b), np.std(np.asarray(given["y"], dtype=float)))
            worst = max(worst, float(np.nanmax(np.abs(a - b) / size)))
    return worst, f"{name} of {model!r}"


@pytest.mark.parametrize("seed", range(60))
def test_the_numbers_are_those_of_scikit_learn(seed):
    worst, what = gap(seed)
    assert worst < 1e-7, what
