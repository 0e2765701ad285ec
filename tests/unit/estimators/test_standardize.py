"""standardize=True: columns are scaled inside every experiment, in every answer."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import Ridge, RidgeClassifier
from sklearn.model_selection import GroupKFold, KFold, LeaveOneOut, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from holdfast import KernelRidgeClassifierCV, KernelRidgeCV
from holdfast.exceptions import NotSupportedError

M = 40
ALPHAS = [0.1, 3.0, 40.0]


def rows():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(M, 4)) * [1.0, 30.0, 0.01, 1.0] + [0.0, 5.0, 1.0, 1e3]
    X[:, 3] = rng.integers(0, 2, M)
    y = X[:, 0] + 0.03 * X[:, 1] + rng.normal(size=M)
    return X, y, rng.integers(0, 6, M), rng.uniform(0.5, 2.0, M)


def twin(alpha=3.0, bias=True):
    return make_pipeline(StandardScaler(), Ridge(alpha, fit_intercept=bias))


def weighted(model, X, y, weights):
    return model.fit(X, y, standardscaler__sample_weight=weights, ridge__sample_weight=weights)


def model(**more):
    return KernelRidgeCV("linear", **{"standardize": True, "alphas": [3.0], **more})


def close(a, b):
    np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("cv", [None, 4, KFold(3, shuffle=True, random_state=0)])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_held_out_predictions_are_those_of_a_scaler_inside_each_fold(cv, kind):
    X, y, groups, _ = rows()
    found = model(alphas=ALPHAS, cv=cv).fit(kind(X), y)
    for split in (LeaveOneOut() if cv is None else cv, list(GroupKFold(3).split(X, y, groups))):
        values = found.held_out(split).matrix()
        for a, alpha in enumerate(ALPHAS):
            close(values[a, :, 0], cross_val_predict(twin(alpha), X, y, cv=split))
    plain = twin(found.alpha_).fit(X, y)
    close(found.predict(kind(X)), plain.predict(X))
    close(found.coef_, plain[1].coef_ / plain[0].scale_)
    assert found.verify().max_relative_error < 1e-8


def test_weights_and_rows_that_are_not_trained_on():
    X, y, _, weights = rows()
    weights[:4] = 0.0
    found = model().fit(X, y, sample_weight=weights)
    close(found.predict(X), weighted(twin(), X, y, weights).predict(X))
    held = np.array([1, 7, 9])
    left = np.setdiff1d(np.arange(M), held)
    one = weighted(twin(), X[left], y[left], weights[left])
    close(found.predict_without(held), one.predict(X[held]))
    close(found.predict_without(held, X=X[:9] + 0.3), one.predict(X[:9] + 0.3))


def test_a_column_that_some_experiments_leave_constant():
    X, y, _, _ = rows()
    X[:, 3] = 0.0
    X[5, 3] = 2.0
    close(
        model().fit(X, y).held_out().matrix()[0, :, 0],
        cross_val_predict(twin(), X, y, cv=LeaveOneOut()),
    )


@pytest.mark.parametrize("path", ["auto", "per_fold", "refit"])
def test_paths(path):
    X, y, _, _ = rows()
    found = model(cv=4, path=path).fit(X, y)
    close(found.held_out().matrix()[0, :, 0], cross_val_predict(twin(), X, y, cv=4))
    assert "per_fold" in str(found.explain()) or path == "refit"


def test_answers():
    X, y, _, _ = rows()
    found = model(cv=4).fit(X, y)
    splits = list(KFold(4).split(X))
    models = [twin().fit(X[train], y[train]) for train, _ in splits]
    # jackknife+ (CV+): order statistics of all held-out models
    new = X[:5] + 0.1
    fold = np.empty(M, dtype=int)
    for j, (_, test) in enumerate(splits):
        fold[test] = j
    r = np.abs(y - found.held_out().matrix()[0, :, 0])
    f = np.stack([models[j].predict(new) for j in fold])
    k = int(np.ceil(0.8 * (M + 1)))
    low = np.sort(f - r[:, None], axis=0)[M - k]
    high = np.sort(f + r[:, None], axis=0)[k - 1]
    close(found.predict_interval(new, level=0.8), np.column_stack([low, high]))
    # influence of rows
    whole = twin().fit(X, y)
    cook = [
        np.square(
            whole.predict(X) - twin().fit(np.delete(X, i, 0), np.delete(y, i)).predict(X)
        ).sum()
        for i in range(6)
    ]
    mine = found.influence().cook[:6]
    close(mine / mine[0], np.array(cook) / cook[0])
    # nested choice
    choosing = model(alphas=ALPHAS, cv=3).fit(X, y)
    outer = choosing.nested(KFold(3))
    for j, (train, test) in enumerate(KFold(3).split(X)):
        inner = model(alphas=ALPHAS, cv=3).fit(X[train], y[train])
        assert outer.alphas[j] == inner.alpha_
        close(np.ravel(outer.predictions[j]), inner.predict(X[test]))
    # permutations, intervals of the score, spread
    test = found.permutation_test(20, random_state=0)
    assert test.score == pytest.approx(found.best_score_)
    interval = found.score_interval(random_state=0)
    assert interval.low < interval.score < interval.high
    assert found.held_out(cv=4).std.shape[-1] == M or found.held_out(cv=4).std.size == M


def test_classes():
    X, y, _, _ = rows()
    labels = y > y.mean()
    found = KernelRidgeClassifierCV("linear", standardize=True, alphas=[3.0], cv=4).fit(X, labels)
    plain = make_pipeline(StandardScaler(), RidgeClassifier(3.0))
    close(found.decision_function(X), plain.fit(X, labels).decision_function(X))


def test_default_penalties_follow_the_scaled_columns():
    X, y, _, _ = rows()
    first = KernelRidgeCV("linear", standardize=True).fit(X, y)
    second = KernelRidgeCV("linear", standardize=True).fit(X * [1.0, 1e-3, 1e3, 7.0], y)
    assert first.alpha_ == pytest.approx(second.alpha_)
    close(first.predict(X), second.predict(X * [1.0, 1e-3, 1e3, 7.0]))


def test_pickles():
    X, y, _, _ = rows()
    found = model(cv=4).fit(X, y)
    loaded = pickle.loads(pickle.dumps(found))
    assert loaded.standardize
    close(loaded.predict(X), found.predict(X))
    close(loaded.held_out(5).matrix(), found.held_out(5).matrix())


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"kernel": "rbf"}, "kernel"),
        ({"kernel": ["linear", "rbf"]}, "kernel"),
        ({"basis": 5}, "basis"),
        ({"path": "spectral"}, "path"),
        ({"path": "cholesky"}, "path"),
    ],
)
def test_what_it_refuses(change, word):
    X, y, _, _ = rows()
    with pytest.raises(NotSupportedError, match=word) as error:
        model().set_params(**change).fit(X, y)
    assert error.value.argument == "standardize"
