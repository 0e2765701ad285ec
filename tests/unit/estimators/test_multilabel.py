"""Multi-label targets: each label is a classification of its own, all from one factorisation."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_multilabel_classification
from sklearn.linear_model import RidgeClassifier
from sklearn.metrics import (
    accuracy_score,
    brier_score_loss,
    f1_score,
    hamming_loss,
    log_loss,
    make_scorer,
    roc_auc_score,
)
from sklearn.model_selection import KFold

import holdfast
from holdfast import KernelRidgeClassifierCV, KernelRidgeCV
from holdfast.exceptions import InvalidInputError, NotSupportedError

pytestmark = pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")

X, Y = make_multilabel_classification(
    n_samples=120, n_features=6, n_classes=5, n_labels=2, random_state=0
)
X = (X - X.mean(axis=0)) / X.std(axis=0)
NEW = np.random.default_rng(0).normal(size=(30, 6))
WEIGHTS = np.random.default_rng(1).integers(0, 3, size=120).astype(float)
ALPHAS = [0.1, 1.0, 10.0]
FOLDS = KFold(5, shuffle=True, random_state=0)


def classifier(**options):
    return KernelRidgeClassifierCV(**{"alphas": ALPHAS, "gamma": 0.1, "cv": FOLDS, **options})


@pytest.mark.parametrize("basis", [None, 25])
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["", "weights"])
@pytest.mark.parametrize("per_target", [False, True], ids=["", "each"])
def test_decisions_are_regressions_on_plus_and_minus_one(basis, weights, per_target):
    options = {"basis": basis, "random_state": 0, "alpha_per_target": per_target}
    model = classifier(**options).fit(X, Y, sample_weight=weights)
    options |= {"alphas": ALPHAS, "gamma": 0.1, "cv": FOLDS}
    twin = KernelRidgeCV(**options).fit(X, 2.0 * Y - 1.0, sample_weight=weights)
    assert model.multilabel_
    np.testing.assert_array_equal(model.alpha_, twin.alpha_)
    np.testing.assert_allclose(model.best_score_, twin.best_score_, rtol=1e-12)
    np.testing.assert_allclose(model.held_out().values, twin.held_out().values, rtol=1e-12)
    np.testing.assert_allclose(model.decision_function(NEW), twin.predict(NEW), rtol=1e-12)
    np.testing.assert_array_equal(model.predict(NEW), twin.predict(NEW) > 0)
    assert model.predict(NEW).dtype.kind == "i"
    expected = np.clip((1 + twin.predict(NEW)) / 2, 0, 1)
    np.testing.assert_allclose(model.predict_proba(NEW), expected, atol=1e-15)
    assert model.classes_.tolist() == [0, 1, 2, 3, 4]
    assert model.score(X, Y) == accuracy_score(Y, model.predict(X))


def test_linear_is_scikit_learns_ridge_classifier():
    model = KernelRidgeClassifierCV("linear", alphas=[2.0], cv=4).fit(X, Y)
    twin = RidgeClassifier(alpha=2.0).fit(X, Y)
    np.testing.assert_allclose(model.decision_function(NEW), twin.decision_function(NEW))
    np.testing.assert_array_equal(model.predict(NEW), twin.predict(NEW))


@pytest.mark.parametrize(
    ("scoring", "by"),
    [
        ("f1_micro", lambda y, f: f1_score(y, f > 0, average="micro")),
        ("f1_macro", lambda y, f: f1_score(y, f > 0, average="macro")),
        ("accuracy", lambda y, f: accuracy_score(y, f > 0)),
        ("roc_auc", roc_auc_score),
        (make_scorer(hamming_loss, greater_is_better=False), lambda y, f: -hamming_loss(y, f > 0)),
        (
            make_scorer(roc_auc_score, response_method="predict_proba", average="micro"),
            lambda y, f: roc_auc_score(y, np.clip((1 + f) / 2, 0, 1), average="micro"),
        ),
    ],
    ids=["micro", "macro", "subset", "auc", "hamming", "proba"],
)
def test_scores_are_scikit_learns(scoring, by):
    model = classifier(scoring=scoring).fit(X, Y)
    held = model.held_out()
    rows = held.experiments.test.values
    expected = [by(Y[rows], values) for values in held.values]
    np.testing.assert_allclose(model.cv_results_["pooled_test_score"], expected, rtol=1e-12)
    plain = classifier().fit(X, Y)
    np.testing.assert_allclose(plain.held_out().score(scoring), expected, rtol=1e-12)


def test_two_labels_are_not_two_classes():
    two = classifier(scoring="f1_macro").fit(X, Y[:, :2])
    assert two.decision_function(NEW).shape == two.predict_proba(NEW).shape == (30, 2)
    held = two.held_out()
    rows = held.experiments.test.values
    expected = [f1_score(Y[rows, :2], values > 0, average="macro") for values in held.values]
    np.testing.assert_allclose(two.cv_results_["pooled_test_score"], expected)


def test_a_penalty_for_each_label_by_any_score():
    model = classifier(scoring="f1", alpha_per_target=True).fit(X, Y)
    held = model.held_out()
    rows = held.experiments.test.values
    for t in range(5):
        scores = [f1_score(Y[rows, t], values[:, t] > 0) for values in held.values]
        assert model.best_score_[t] == pytest.approx(max(scores))
        assert model.alpha_[t] in np.array(ALPHAS)[np.isclose(scores, max(scores))]


@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
def test_calibration_of_each_label(method):
    model = classifier(calibration=method).fit(X, Y)
    found = model.predict_proba(NEW)
    held = model.held_out(alphas=[model.alpha_])
    rows, owners = held.experiments.test.values, held.experiments.test.owners
    after = np.empty(Y.shape)
    for t in range(5):
        one = classifier(alphas=[model.alpha_])
        twin = CalibratedClassifierCV(one, method=method, cv=FOLDS, ensemble=False)
        twin.fit(X, Y[:, t])
        close = 1e-8 if method == "isotonic" else 1e-5
        np.testing.assert_allclose(found[:, t], twin.predict_proba(NEW)[:, 1], atol=close)
    for fold in range(5):
        mine = owners == fold
        part = holdfast.answers.calibration.calibrated(
            method, held.values[0, ~mine], Y[rows][~mine] > 0, np.ones(int((~mine).sum()))
        )
        after[rows[mine]] = part.each(held.values[0, mine])
    scores = model.calibration_scores()["after"]
    told = [log_loss(Y[:, t], after[:, t]) for t in range(5)]
    assert scores.log_loss == pytest.approx(np.mean(told))
    brier = [brier_score_loss(Y[:, t], after[:, t]) for t in range(5)]
    assert scores.brier == pytest.approx(np.mean(brier))


def test_sparse_rows_and_sparse_labels():
    bits = sp.csr_array((np.random.default_rng(0).random((120, 40)) < 0.2).astype(float))
    dense = classifier(kernel="linear").fit(bits.toarray(), Y)
    sparse = classifier(kernel="linear").fit(bits, sp.csr_array(Y))
    np.testing.assert_allclose(
        sparse.decision_function(bits), dense.decision_function(bits.toarray()), atol=1e-9
    )
    np.testing.assert_array_equal(sparse.predict(bits), dense.predict(bits.toarray()))


def test_thousands_of_labels_in_chunks(monkeypatch):
    from holdfast.estimators import search

    rng = np.random.default_rng(0)
    many = (rng.random((120, 2000)) < 0.1).astype(int)
    whole = classifier(basis=20, random_state=0).fit(X, many)
    monkeypatch.setattr(search, "MOST_PREDICTIONS", 120 * 3 * 300)  # 300 labels at a time
    parts = classifier(basis=20, random_state=0).fit(X, many)
    np.testing.assert_allclose(parts.best_score_, whole.best_score_, rtol=1e-12)
    assert whole.predict(NEW).shape == (30, 2000)
    # A score of all labels of a row together is never taken in parts.
    by_rows = classifier(basis=20, random_state=0, scoring="f1_samples").fit(X, many)
    held = by_rows.held_out(alphas=[by_rows.alpha_])
    expected = f1_score(many[held.experiments.test.values], held.values[0] > 0, average="samples")
    assert by_rows.best_score_ == pytest.approx(expected)


def test_answers_about_labels():
    model = classifier(scoring="f1_macro").fit(X, Y)
    again = classifier(alphas=[model.alpha_]).fit(X[10:], Y[10:])
    without = model.predict_without(np.arange(10), X[:10])
    np.testing.assert_allclose(without, again.decision_function(X[:10]), atol=1e-8)
    nested = model.nested(4)
    assert np.isfinite(nested.score())
    curve = model.learning_curve([60, 90], 3, random_state=0, scoring="f1_micro")
    assert (curve.scores > 0).all()
    found = model.permutation_test(19, random_state=0)
    assert found.score == pytest.approx(model.best_score_)
    assert found.p_value == pytest.approx(0.05)
    for question in (model.predict_interval, lambda rows: model.held_out().std):
        with pytest.raises(NotSupportedError):
            question(NEW)


def test_in_a_file(tmp_path):
    for targets in (Y, Y[:, :2]):
        model = classifier(calibration="sigmoid", alpha_per_target=True).fit(X, targets)
        model.save(tmp_path / "m.holdfast")
        again = holdfast.load(tmp_path / "m.holdfast")
        assert again.multilabel_
        np.testing.assert_array_equal(again.predict_proba(NEW), model.predict_proba(NEW))
        np.testing.assert_allclose(again.held_out().values, model.held_out().values)


def test_a_later_fit_of_classes_forgets_labels():
    model = classifier().fit(X, Y).fit(X, Y[:, 0])
    assert not model.multilabel_
    assert model.predict(NEW).shape == (30,)


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (2 * Y, r"matrix of 0 and 1; got 2 in row \d+, column \d+ of an array of shape"),
        (Y - 0.5, "matrix of 0 and 1"),
        (np.where(Y > 0, np.nan, 0.0), "got nan"),
        (np.zeros_like(Y), "0 everywhere"),
        (Y[:7], "one value for each of the 120 rows"),
        (np.array([["a", "b"]] * 120), "1d"),
        (sp.csr_array((120, 0)), "column for each label"),
    ],
)
def test_what_is_refused(y, words):
    with pytest.raises(InvalidInputError, match=words):
        classifier().fit(X, y)


def test_scores_of_distributions_are_refused():
    with pytest.raises(InvalidInputError, match="for regression"):
        classifier(scoring="log_density").fit(X, Y)


def test_dask_rows():
    da = pytest.importorskip("dask.array")
    model = classifier(calibration="isotonic").fit(X, Y)
    lazy = da.from_array(NEW, chunks=(7, 6))
    np.testing.assert_array_equal(model.predict(lazy).compute(), model.predict(NEW))
    np.testing.assert_allclose(model.predict_proba(lazy).compute(), model.predict_proba(NEW))
