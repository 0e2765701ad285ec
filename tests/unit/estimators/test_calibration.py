"""Calibrated probabilities: those of scikit-learn, which fits the model once more for each fold."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy.special import expit
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_blobs
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import brier_score_loss, log_loss
from sklearn.model_selection import RepeatedKFold, StratifiedKFold, TimeSeriesSplit

from holdfast import KernelRidgeClassifierCV
from holdfast.answers.calibration import calibrated
from holdfast.exceptions import InvalidInputError

pytestmark = pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")

X, CODE = make_blobs(150, n_features=3, centers=3, cluster_std=4.0, random_state=3)
THREE, TWO = np.array(["cat", "dog", "eel"])[CODE], np.where(CODE == 2, "yes", "no")
NEW = 6.0 * np.random.default_rng(0).normal(size=(40, 3))
WEIGHTS = np.random.default_rng(1).integers(0, 4, size=150).astype(float)
FOLDS = StratifiedKFold(5, shuffle=True, random_state=0)
ALPHAS = [0.1, 1.0, 10.0]


def classifier(**options):
    return KernelRidgeClassifierCV(**{"alphas": ALPHAS, "gamma": 0.05, "cv": FOLDS, **options})


@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
@pytest.mark.parametrize("labels", [THREE, TWO], ids=["three", "two"])
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["", "weights"])
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_equal_to_scikit_learn_with_the_same_folds(method, labels, weights, kernel):
    model = classifier(kernel=kernel, calibration=method).fit(X, labels, sample_weight=weights)
    inner = classifier(kernel=kernel, alphas=[model.alpha_])
    twin = CalibratedClassifierCV(inner, method=method, cv=FOLDS, ensemble=False)
    twin.fit(X, labels, sample_weight=weights)
    found = model.predict_proba(NEW)
    # Theirs stops minimising when the gradient is below 1e-6; ours goes on.
    close = 1e-8 if method == "isotonic" else 1e-5
    np.testing.assert_allclose(found, twin.predict_proba(NEW), atol=close)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    plain = classifier(kernel=kernel, calibration=None).fit(X, labels, sample_weight=weights)
    np.testing.assert_array_equal(model.predict(NEW), plain.predict(NEW))
    np.testing.assert_array_equal(model.decision_function(NEW), plain.decision_function(NEW))
    assert model.best_score_ == plain.best_score_
    assert plain.calibration_ is None


def test_a_sigmoid_never_falls():
    """Where the decisions of a class are the lower ones, its probability is its share."""
    positive = np.arange(40)[:, None] < 10
    f = -np.where(positive, 1.0, -1.0) + 0.1 * np.random.default_rng(0).normal(size=(40, 1))
    found = calibrated("sigmoid", f, positive, np.ones(40))
    share = (10 * 11 / 12 + 30 / 32) / 40  # by Platt's targets
    np.testing.assert_allclose(found.of_classes(f), np.tile([1 - share, share], (40, 1)))


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4], ids=str)
@pytest.mark.parametrize("separated", [False, True], ids=["mixed", "separated"])
def test_the_sigmoid_is_the_most_likely_one(scale, separated):
    """Its gradient vanishes, by Platt's definition of the targets."""
    rng = np.random.default_rng(0)
    positive = rng.random(80) < 0.3
    f = np.where(positive, 1.0, -1.0) + (0.1 if separated else 1.5) * rng.normal(size=80)
    weights = rng.random(80)
    found = calibrated("sigmoid", scale * f[:, None], positive[:, None], weights)
    slope, intercept = found.decisions[0]
    n = weights @ positive, weights @ ~positive
    target = np.where(positive, (n[0] + 1) / (n[0] + 2), 1 / (n[1] + 2))
    error = weights * (expit(slope * scale * f + intercept) - target)
    assert abs(error.sum()) < 1e-12
    assert abs(error @ f) < 1e-12


def test_decisions_that_do_not_vary_give_the_share_of_the_class():
    positive = np.arange(10)[:, None] < 3
    for method, share in (("sigmoid", (3 * 4 / 5 + 7 / 9) / 10), ("isotonic", 0.3)):
        found = calibrated(method, np.full((10, 1), 2.0), positive, np.ones(10))
        np.testing.assert_allclose(found.of_classes(np.array([[2.0]])), [[1 - share, share]])


@pytest.mark.parametrize("policy", ["remove", "keep", "train", "skip"])
def test_basis_rows_follow_their_policy(policy):
    options = {"basis": 20, "random_state": 0, "held_out_basis": policy}
    model = classifier(calibration="isotonic", **options).fit(X, TWO, sample_weight=WEIGHTS)
    held = classifier(**options).fit(X, TWO, sample_weight=WEIGHTS).held_out(alphas=[model.alpha_])
    rows = held.experiments.test.values
    twin = IsotonicRegression(out_of_bounds="clip")
    twin.fit(held.values[0, :, 0], TWO[rows] == "yes", WEIGHTS[rows])
    expected = twin.predict(model.decision_function(NEW))
    np.testing.assert_allclose(model.predict_proba(NEW)[:, 1], expected, atol=1e-12)


@pytest.mark.parametrize(
    "cv", [RepeatedKFold(n_splits=4, n_repeats=3, random_state=0), TimeSeriesSplit(4)]
)
def test_rows_tested_several_times_or_never(cv):
    """A row counts once in all, however often it is tested; one never tested does not."""
    model = classifier(calibration="isotonic", cv=cv).fit(X, TWO)
    held = model.held_out(alphas=[model.alpha_])
    rows = held.experiments.test.values
    times = np.bincount(rows, minlength=150)
    twin = IsotonicRegression(out_of_bounds="clip")
    twin.fit(held.values[0, :, 0], TWO[rows] == "yes", 1.0 / times[rows])
    expected = twin.predict(model.decision_function(NEW))
    np.testing.assert_allclose(model.predict_proba(NEW)[:, 1], expected, atol=1e-12)


@pytest.mark.parametrize("labels", [THREE, TWO], ids=["three", "two"])
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["", "weights"])
def test_scores_before_and_after(labels, weights):
    model = classifier(calibration="sigmoid").fit(X, labels, sample_weight=weights)
    found = model.calibration_scores()
    held = model.held_out(alphas=[model.alpha_])
    rows, owners = held.experiments.test.values, held.experiments.test.owners
    w = np.ones(150) if weights is None else weights
    plain = classifier(calibration=None).fit(X, labels, sample_weight=weights)
    before = np.empty((150, model.classes_.size))
    after = np.empty_like(before)
    positive = np.atleast_2d(labels[rows] == model.classes_[1]).T
    if model.classes_.size > 2:
        positive = labels[rows][:, None] == model.classes_
    for fold in range(5):
        mine = owners == fold
        others = calibrated("sigmoid", held.values[0, ~mine], positive[~mine], w[rows][~mine])
        after[rows[mine]] = others.of_classes(held.values[0, mine])
        again = classifier(alphas=[model.alpha_], calibration=None)
        train = np.setdiff1d(np.arange(150), rows[mine])
        again.fit(X[train], labels[train], sample_weight=w[train])
        before[rows[mine]] = again.predict_proba(X[rows[mine]])
    for name, p in (("before", before), ("after", after)):
        expected = log_loss(labels, p, sample_weight=w)
        assert found[name].log_loss == pytest.approx(expected, rel=1e-8)
        if model.classes_.size == 2:
            brier = brier_score_loss(labels == "yes", p[:, 1], sample_weight=w)
        else:
            happened = labels[:, None] == model.classes_
            brier = np.average(np.square(p - happened).sum(axis=1), weights=w)
        assert found[name].brier == pytest.approx(brier, rel=1e-8)
    assert found["after"].log_loss < found["before"].log_loss
    with pytest.raises(InvalidInputError, match="calibration=None"):
        plain.calibration_scores()


@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
def test_it_is_in_the_pickle(method):
    model = classifier(calibration=method).fit(X, THREE)
    again = pickle.loads(pickle.dumps(model))
    assert again.calibration == method
    np.testing.assert_array_equal(again.predict_proba(NEW), model.predict_proba(NEW))
    for when, scores in model.calibration_scores().items():
        assert again.calibration_scores()[when] == pytest.approx(scores, rel=1e-12)


def test_a_later_fit_without_it_forgets_it():
    model = classifier(calibration="sigmoid").fit(X, TWO)
    model.set_params(calibration=None)
    assert model.calibration_ is not None  # set_params is for the next fit
    assert model.fit(X, TWO).calibration_ is None


@pytest.mark.parametrize("wrong", ["platt", True, "temperature"])
def test_other_words_are_refused(wrong):
    with pytest.raises(InvalidInputError, match="calibration"):
        classifier(calibration=wrong).fit(X, TWO)


def test_dask_rows():
    da = pytest.importorskip("dask.array")
    model = classifier(calibration="isotonic").fit(X, THREE)
    lazy = model.predict_proba(da.from_array(NEW, chunks=(7, 3)))
    assert hasattr(lazy, "compute")
    np.testing.assert_allclose(lazy.compute(), model.predict_proba(NEW), atol=1e-12)
