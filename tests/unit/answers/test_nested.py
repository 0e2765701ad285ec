"""Nested cross-validation: the same numbers as loops of real refits, by every way."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneGroupOut,
    LeaveOneOut,
    ShuffleSplit,
    TimeSeriesSplit,
    check_cv,
)

from holdfast import HoldOut, KernelRidgeClassifierCV, KernelRidgeCV
from holdfast.answers.nested import nested_predictions
from holdfast.exceptions import HoldOutError, InvalidInputError
from holdfast.splitters import HBlock, LeaveNeighbourhoodOut, TimeSteps
from reference.retrain import retrain

M = 48
ALPHAS = np.logspace(-3, 1, 5)
WAYS = ("unions", "without")

pytestmark = pytest.mark.filterwarnings("ignore::holdfast.exceptions.HoldfastWarning")


def data(seed=0, targets=1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(M, 3))
    Y = np.column_stack([np.sin(X @ rng.normal(size=3)) for _ in range(targets)])
    Y += 0.3 * rng.normal(size=Y.shape) + 5.0
    return X, Y[:, 0] if targets == 1 else Y


def some_weights(seed=1):
    w = np.random.default_rng(seed).uniform(0.3, 2.0, size=M)
    w[[3, 17, 30]] = 0.0
    return w


def basis_rows():
    return np.sort(np.random.default_rng(5).choice(M, 14, replace=False))


def fitted(X, y, weights=None, groups=None, classifier=False, **options):
    kind = KernelRidgeClassifierCV if classifier else KernelRidgeCV
    options = {"gamma": 0.4, "alphas": ALPHAS, "cv": 4, **options}
    return kind(**options).fit(X, y, sample_weight=weights, groups=groups)


def by(model, cv, way, groups=None):
    """Return nested predictions made in one of two ways, of which `nested` takes the cheaper."""
    found = nested_predictions(model._fitted_state(), cv, groups, way=way)
    assert set(found.ways) == {way}
    return found


def splits(cv, X, y=None, groups=None, classifier=False):
    """Return what scikit-learn makes of cv, as experiments."""
    if isinstance(cv, list):
        return cv
    cv = LeaveOneOut() if cv is None else check_cv(cv, y, classifier=classifier)
    every = np.arange(len(X))
    return [HoldOut(np.setdiff1d(every, train), t) for train, t in cv.split(X, y, groups)]


def predict(model, X):
    values = model.decision_function(X) if hasattr(model, "classes_") else model.predict(X)
    return values.reshape(len(X), -1)


def refits(model, X, y, outer, weights=None, groups=None):
    """Train again for every outer experiment, as GridSearchCV inside cross_val_predict."""
    weights = np.ones(M) if weights is None else weights
    basis = None if model.basis is None else np.asarray(model.basis)
    predictions, alphas = [], []
    for experiment in outer:
        held, test = experiment.held_out, experiment.test
        left = np.setdiff1d(np.arange(M), held)
        some = None if groups is None else groups[left]
        inner = splits(model.cv, X[left], y[left], some, hasattr(model, "classes_"))
        inner = [HoldOut(left[e.held_out], left[e.test]) for e in inner]
        again, w = clone(model).set_params(cv=inner), weights.copy()
        policy = model.held_out_basis
        if basis is None or policy == "keep":
            w[held] = 0.0
        elif policy == "remove":
            w[held] = 0.0
            again.set_params(basis=np.setdiff1d(basis, held))
        else:  # basis rows are trained on, always
            w[np.setdiff1d(held, basis)] = 0.0
        # a classifier may not see its labels by other names: those of held-out rows stay
        again.fit(X, y, sample_weight=w, groups=groups)
        if policy == "skip" and basis is not None:
            test = np.setdiff1d(test, basis)
        predictions.append(predict(again, X[test]))
        alphas.append(again.alpha_)
    return predictions, np.array(alphas)


def assert_same(found, expected, tol=1e-8):
    predictions, alphas = expected
    np.testing.assert_array_equal(found.alphas, alphas)
    scale = max(np.abs(p).max() for p in predictions)
    for got, want in zip(found.predictions, predictions, strict=True):
        assert got.shape == want.shape
        assert np.abs(got - want).max() <= tol * scale


def check(model, X, y, cv, weights=None, groups=None, ways=WAYS):
    outer = splits(cv, X, y, groups, hasattr(model, "classes_"))
    expected = refits(model, X, y, outer, weights, groups)
    for way in ways:
        found = by(model, cv, way)
        assert_same(found, expected)
    return found


@pytest.mark.parametrize("policy", ["remove", "keep", "train", "skip"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("inner", [None, 4])
def test_sparse_equals_refits(policy, weighted, inner):
    X, y = data()
    weights = some_weights() if weighted else None
    model = fitted(X, y, weights, basis=basis_rows(), cv=inner, held_out_basis=policy)
    check(model, X, y, KFold(6, shuffle=True, random_state=0), weights)


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("inner", [LeaveOneOut(), 3, ShuffleSplit(5, random_state=3)])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_dense_and_linear_equal_refits(kernel, weighted, inner, fit_intercept):
    X, y = data()
    weights = some_weights() if weighted else None
    model = fitted(X, y, weights, kernel=kernel, cv=inner, fit_intercept=fit_intercept)
    check(model, X, y, 5, weights)


@pytest.mark.parametrize("path", ["spectral", "per_fold", "cholesky", "refit"])
def test_every_path_gives_the_same(path):
    X, y = data()
    for basis in (None, basis_rows()):
        model = fitted(X, y, basis=basis, path=path)
        check(model, X, y, 5)


@pytest.mark.parametrize("per_target", [False, True])
@pytest.mark.parametrize("basis", [False, True])
def test_many_targets(per_target, basis):
    X, Y = data(targets=3)
    model = fitted(X, Y, basis=basis_rows() if basis else None, alpha_per_target=per_target)
    found = check(model, X, Y, 5)
    assert found.alphas.shape == ((5, 3) if per_target else (5,))
    assert np.shape(found.score()) == np.shape(model.best_score_)
    assert np.shape(found.optimism) == np.shape(model.best_score_)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("basis", [False, True])
def test_classifiers(classes, basis):
    X, y = data()
    labels = np.array(["a", "b", "c"])[np.digitize(y, np.quantile(y, [1 / classes, 0.67]))]
    labels = labels if classes == 3 else np.where(y > np.median(y), "p", "n")
    model = fitted(X, labels, classifier=True, basis=basis_rows() if basis else None)
    found = check(model, X, labels, 4)
    hits = np.mean(found.labels() == labels[found.rows])
    assert found.score("accuracy") == pytest.approx(hits)


@pytest.mark.parametrize("rule", ["best", "1se"])
@pytest.mark.parametrize("pooled", [True, False])
def test_rules_and_means(rule, pooled):
    X, y = data()
    model = fitted(X, y, rule=rule, pooled=pooled, scoring="r2")
    found = check(model, X, y, 4)
    assert found.score(pooled=True) == pytest.approx(
        1 - np.sum((y[found.rows] - found.values[:, 0]) ** 2) / np.sum((y - y.mean()) ** 2)
    )


def test_groups_in_both_loops():
    X, y = data()
    groups = np.random.default_rng(2).integers(0, 9, size=M)
    for basis in (None, basis_rows()):
        model = fitted(X, y, groups=groups, cv=GroupKFold(3), basis=basis)
        expected = refits(model, X, y, splits(LeaveOneGroupOut(), X, y, groups), groups=groups)
        for way in WAYS:
            assert_same(by(model, LeaveOneGroupOut(), way), expected)
            assert_same(by(model, LeaveOneGroupOut(), way, groups), expected)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("inside", ["neighbourhoods", "rows in order"])
def test_splitters_that_know_the_place_of_rows(inside, way):
    """Inner neighbourhoods are those of all rows, without the rows that left."""
    X, y = data()
    if inside == "neighbourhoods":
        cv, distance = (
            LeaveNeighbourhoodOut(X[:, :2], 0.6),
            np.linalg.norm(X[:, None, :2] - X[:, :2], axis=2),
        )
        near = distance <= 0.6
    else:
        cv = HBlock(3)
        near = np.abs(np.arange(M)[:, None] - np.arange(M)) <= 3
    model = fitted(X, y, cv=cv)
    outer = KFold(4, shuffle=True, random_state=0)
    found = by(model, outer, way)
    for j, (left, out) in enumerate(outer.split(X)):
        sets = [HoldOut(np.flatnonzero(near[i][left]), [k]) for k, i in enumerate(left.tolist())]
        again = KernelRidgeCV(gamma=0.4, alphas=ALPHAS, cv=sets).fit(X[left], y[left])
        assert found.alphas[j] == again.alpha_
        np.testing.assert_allclose(found.predictions[j][:, 0], again.predict(X[out]), rtol=1e-8)
        np.testing.assert_allclose(found.inner_scores[j], again.best_score_, rtol=1e-8)


@pytest.mark.parametrize("way", WAYS)
def test_steps_in_time_are_taken_anew_inside(way):
    """The past of each outer step has steps of its own."""
    X, y = data()
    times = np.random.default_rng(4).permutation(M)
    model = fitted(X, y, cv=TimeSteps(times, 3))
    found = by(model, TimeSteps(times, 3), way)
    for j, (left, out) in enumerate(TimeSteps(times, 3).split(X)):
        own = TimeSteps(times[left], 3)
        again = KernelRidgeCV(gamma=0.4, alphas=ALPHAS, cv=own).fit(X[left], y[left])
        assert found.alphas[j] == again.alpha_
        np.testing.assert_allclose(found.predictions[j][:, 0], again.predict(X[out]), rtol=1e-8)


def test_explicit_lists_lose_the_outer_rows():
    X, y = data()
    inner = [HoldOut(range(0, 12), test=range(4, 8)), HoldOut(range(8, 20)), HoldOut([40, 41])]
    model = fitted(X, y, cv=inner, basis=basis_rows())
    outer = [HoldOut(range(4, 10), test=[4, 9]), HoldOut([40, 41, 2])]
    for way in WAYS:
        found = by(model, outer, way)
        for j, experiment in enumerate(outer):
            held, w = experiment.held_out, np.ones(M)
            left = [(np.setdiff1d(e.held_out, held), np.setdiff1d(e.test, held)) for e in inner]
            w[held] = 0.0
            again = clone(model).set_params(
                cv=[HoldOut(out, test) for out, test in left if test.size],
                basis=np.setdiff1d(basis_rows(), held),
            )
            again.fit(X, y, sample_weight=w)
            assert again.alpha_ == found.alphas[j]
            np.testing.assert_allclose(
                found.predictions[j][:, 0], again.predict(X[experiment.test]), rtol=1e-8
            )
    with pytest.raises(HoldOutError, match="every test row of cv"):
        fitted(X, y, cv=[HoldOut([1, 2])]).nested([HoldOut([1, 2, 3])])


@pytest.mark.parametrize("basis", [False, True])
def test_a_grid_of_kernels_is_chosen_again(basis):
    X, y = data()
    gammas = [0.02, 0.3, 2.0]
    rows = basis_rows() if basis else None
    model = fitted(X, y, gamma=gammas, basis=rows)
    outer = splits(KFold(6, shuffle=True, random_state=1), X)
    for way in WAYS:
        found = by(model, outer, way)
        for j, experiment in enumerate(outer):
            left = np.setdiff1d(np.arange(M), experiment.held_out)
            place = {row: i for i, row in enumerate(left)}
            again = clone(model)
            if rows is not None:
                again.set_params(basis=[place[row] for row in rows if row in place])
            again.fit(X[left], y[left])
            assert again.best_params_ == {**found.kernels[j], "alpha": again.alpha_}
            assert again.alpha_ == found.alphas[j]
            assert again.best_score_ == pytest.approx(found.inner_scores[j], rel=1e-8)
            np.testing.assert_allclose(
                found.predictions[j][:, 0], again.predict(X[experiment.test]), rtol=1e-8
            )
    assert len({params["gamma"] for params in found.kernels}) >= 1
    assert "gamma" in found.to_frame().columns or len({str(k) for k in found.kernels}) == 1


def test_against_the_naive_twin_alone():
    """No code of the package on the expected side: penalty by the twin, prediction by the twin."""
    X, y = data()
    w, B = some_weights(), basis_rows()
    K = np.exp(-0.4 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    model = fitted(X, y, w, basis=B, cv=KFold(3))
    found = {way: by(model, KFold(4), way) for way in WAYS}
    for j, (left, held) in enumerate(KFold(4).split(X)):
        error = np.zeros(ALPHAS.size)
        for _, part in KFold(3).split(left):
            out = np.union1d(held, left[part])
            removed = np.intersect1d(B, out)
            for a, alpha in enumerate(ALPHAS):
                f = retrain(K, y, out, left[part], alpha, B, removed, w, jitter=model.jitter_)[:, 0]
                error[a] += w[left[part]] @ (y[left[part]] - f) ** 2
        best = ALPHAS[np.argmin(error)]
        f = retrain(K, y, held, held, best, B, np.intersect1d(B, held), w, jitter=model.jitter_)
        for way in WAYS:
            assert found[way].alphas[j] == best
            np.testing.assert_allclose(found[way].predictions[j], f, rtol=1e-8)


def test_reselect_equals_held_out_unions():
    X, y = data()
    model = fitted(X, y, basis=12, held_out_basis="reselect", cv=3, random_state=0)
    found = model.nested(3)
    assert set(found.ways) == {"unions"}
    for j, experiment in enumerate(splits(3, X)):
        left = np.setdiff1d(np.arange(M), experiment.held_out)
        unions = [
            HoldOut(np.union1d(experiment.held_out, left[e.held_out]), left[e.test])
            for e in splits(3, X[left])
        ]
        best = int(np.argmax(model.held_out(unions).score()))
        assert found.alphas[j] == ALPHAS[best]
        values = model.held_out([experiment]).predictions[0][best]
        np.testing.assert_allclose(found.predictions[j], values, rtol=1e-10)


def test_streamed_rows_and_a_time_series():
    X, y = data()
    for options in ({"memory_limit": 1}, {}):
        model = fitted(X, y, basis=basis_rows(), cv=TimeSeriesSplit(3), **options)
        outer = [HoldOut(range(24, 48), test=range(24, 32)), HoldOut(range(32, 48))]
        check(model, X, y, outer, ways=("unions",) if options else WAYS)  # no rows are kept


def test_most_of_the_basis_leaves():
    X, y = data()
    B = basis_rows()
    model = fitted(X, y, basis=B)
    check(model, X, y, [HoldOut(B[:9]), HoldOut(B[5:])])


def test_factors_of_the_model_stay_as_they_are():
    X, y = data()
    for basis in (None, basis_rows()):
        for path in ("spectral", "per_fold"):
            model = fitted(X, y, basis=basis, path=path)
            before = model.held_out(cv=6).values
            for way in WAYS:
                by(model, 4, way)
            np.testing.assert_allclose(model.held_out(cv=6).values, before, rtol=1e-12)
            assert model.verify().max_relative_error < 1e-9


def test_the_result():
    X, y = data()
    model = fitted(X, y)
    found = model.nested(4)
    assert found.values.shape == (M, 1)
    assert [p.shape for p in found.predictions] == [(12, 1)] * 4
    assert found.score() == pytest.approx(-np.mean((y[found.rows] - found.values[:, 0]) ** 2))
    assert found.optimism == pytest.approx(model.best_score_ - found.score())
    assert found.score("neg_mean_absolute_error") < 0
    frame = found.to_frame()
    assert list(frame.columns) == ["experiment", "row", "target", "alpha", "y", "prediction"]
    np.testing.assert_array_equal(frame["prediction"], found.values[:, 0])
    assert "4 outer experiments" in repr(found)
    with pytest.raises(HoldOutError, match="classifiers"):
        found.labels()


def test_optimism_on_pure_noise_is_positive_on_average():
    gaps = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(M, 3)), rng.normal(size=M)
        gaps.append(fitted(X, y, gamma=[0.05, 0.5, 5.0]).nested(6).optimism)
    assert np.mean(gaps) > 2 * np.std(gaps) / np.sqrt(12)


WITHIN = {
    "folds": {"cv": KFold(22)},
    "leave one out": {"cv": None},
    "ragged groups": {"cv": LeaveOneGroupOut()},
    "some rows": {"cv": ShuffleSplit(5, test_size=2, random_state=0)},
    "no bias": {"cv": KFold(22), "fit_intercept": False},
    "a classifier": {"cv": KFold(22), "classifier": True},
    "nearly interpolating": {"cv": KFold(22), "alphas": [1e-8, 1e-7, 1e-6]},
    "several kernels": {"cv": KFold(22), "gamma": [0.1, 0.4]},
    "several targets": {"cv": KFold(22), "alpha_per_target": True},
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", WITHIN)
def test_dense_models_equal_refits(name, weighted):
    X, y = data(targets=2 if name == "several targets" else 1)
    options = dict(WITHIN[name])
    groups = np.repeat(np.arange(16), [1, 2, 3, 4, 5, 3, 2, 1, 3, 3, 3, 3, 3, 3, 6, 3])
    if options.get("classifier"):
        y = np.digitize(y, [4.7, 5.3])
    w = np.random.default_rng(1).uniform(0.3, 2.0, size=M) if weighted else None
    model = fitted(X, y, w, groups=groups, **options)
    outer = KFold(16, shuffle=True, random_state=0)
    unions, without = (by(model, outer, way) for way in WAYS)
    np.testing.assert_array_equal(unions.alphas, without.alphas)
    assert unions.kernels == without.kernels
    np.testing.assert_allclose(unions.inner_scores, without.inner_scores, rtol=1e-8)
    np.testing.assert_allclose(unions.values, without.values, atol=1e-8 * np.std(y))
    if name in ("folds", "leave one out", "a classifier", "several targets"):
        check(model, X, y, outer, w)


def test_the_cheaper_way_is_taken():
    X, y = data()
    # Leave-one-out inside: unions would solve one system for each row.
    assert set(fitted(X, y, basis=basis_rows(), cv=None).nested(4).ways) == {"without"}
    # Two inner experiments beside many outer ones: one factor of all rows serves them all.
    few = [HoldOut([1, 2]), HoldOut([3, 4])]
    assert set(fitted(X, y, cv=few, path="spectral").nested(20).ways) == {"unions"}


def test_bad_input():
    X, y = data()
    model = fitted(X, y)
    with pytest.raises(InvalidInputError, match="cv must be"):
        model.nested("ten")
    with pytest.raises(HoldOutError, match="groups"):
        model.nested(LeaveOneGroupOut())
    with pytest.raises(InvalidInputError, match="one label per row"):
        model.nested(LeaveOneGroupOut(), groups=[1, 2])
    with pytest.raises(HoldOutError, match="number of folds"):
        fitted(X, y, cv=30).nested([HoldOut(range(20, 48))])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.nested(3)  # no word about the ends of the grid for each outer experiment
