"""Classification: one against the rest on ±1, one factorisation, scores of held-out rows."""

import pickle

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.metrics import accuracy_score, balanced_accuracy_score, log_loss, roc_auc_score
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    StratifiedKFold,
    cross_val_predict,
    cross_val_score,
)

from holdfast import KernelRidgeClassifierCV, KernelRidgeCV
from reference.sigmoids import probabilities

SEED = 11
RNG = np.random.default_rng(SEED)
M = 90
X, CODE = make_blobs(M, n_features=3, centers=3, cluster_std=3.0, random_state=SEED)
NAMES = np.array(["cat", "dog", "eel"])
WORDS = NAMES[CODE]
TWO = np.where(CODE == 2, "yes", "no")
ALPHAS = np.logspace(-2, 2, 5)
WEIGHTS = RNG.integers(0, 3, size=M).astype(float)
NEW = RNG.normal(size=(17, 3)) * 5

pytestmark = pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")


def classifier(**options):
    return KernelRidgeClassifierCV(**{"alphas": ALPHAS, "gamma": 0.05, "cv": 5, **options})


def plus_minus(labels, classes):
    """Return targets (m, v): one column for two classes, else one for each class."""
    if len(classes) == 2:
        return np.where(labels == classes[1], 1.0, -1.0)[:, None]
    return np.where(labels[:, None] == classes, 1.0, -1.0)


# -- one against the rest --------------------------------------------------------------------------


@pytest.mark.parametrize("basis", [None, 20])
@pytest.mark.parametrize("labels", [WORDS, TWO], ids=["three", "two"])
@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_decisions_are_regressions_on_plus_and_minus_one(labels, basis, weights):
    folds = StratifiedKFold(5)
    options = {"alphas": ALPHAS, "gamma": 0.05, "basis": basis, "random_state": 0}
    model = KernelRidgeClassifierCV(cv=folds, **options).fit(X, labels, sample_weight=weights)
    splits = list(folds.split(X, labels))
    targets = plus_minus(labels, model.classes_)
    twin = KernelRidgeCV(cv=splits, **options).fit(X, targets, sample_weight=weights)
    np.testing.assert_allclose(model.held_out().values, twin.held_out().values, rtol=1e-10)
    at_alpha = KernelRidgeCV(cv=splits, **{**options, "alphas": model.alpha_})
    decision = at_alpha.fit(X, targets, sample_weight=weights).predict(NEW)
    expected = decision[:, 0] if targets.shape[1] == 1 else decision
    np.testing.assert_allclose(model.decision_function(NEW), expected, rtol=1e-9, atol=1e-12)
    chosen = (decision[:, 0] > 0).astype(int) if targets.shape[1] == 1 else decision.argmax(1)
    np.testing.assert_array_equal(model.predict(NEW), model.classes_[chosen])


def test_shapes_and_fitted_attributes():
    three, two = classifier().fit(X, WORDS), classifier().fit(X, TWO)
    assert three.classes_.tolist() == ["cat", "dog", "eel"]
    assert two.classes_.tolist() == ["no", "yes"]
    assert three.decision_function(NEW).shape == (17, 3)
    assert two.decision_function(NEW).shape == (17,)
    assert three.dual_coef_.shape == (M, 3)
    assert two.dual_coef_.shape == (M,)
    assert three.intercept_.shape == (3,)
    assert isinstance(two.intercept_, float)
    assert three.predict(NEW).shape == two.predict(NEW).shape == (17,)
    assert three.predict_without([1, 2]).shape == (2, 3)
    assert two.predict_without([1, 2]).shape == (2,)


@pytest.mark.parametrize(
    "labels",
    [
        CODE,
        CODE.astype(float),
        CODE.astype(np.int8) - 1,
        CODE == 1,
        WORDS,
        WORDS.astype(object),
        WORDS.tolist(),
    ],
    ids=["int", "float", "int8", "bool", "text", "object", "list"],
)
def test_labels_of_any_kind_come_back_as_they_were(labels):
    given = np.asarray(labels)
    model = classifier().fit(X, labels)
    found = model.predict(X)
    assert found.dtype == given.dtype
    assert np.isin(found, given).all()
    assert model.score(X, labels) > 0.5
    assert model.held_out().labels().dtype == given.dtype
    plain = classifier().fit(X, CODE if len(model.classes_) == 3 else (CODE == 1) * 1)
    np.testing.assert_array_equal(
        np.searchsorted(model.classes_, found), np.searchsorted(plain.classes_, plain.predict(X))
    )


def test_many_classes():
    rng = np.random.default_rng(4)
    centres = rng.normal(size=(150, 10)) * 8
    labels = np.repeat(np.arange(150), 4)
    rows = centres[labels] + rng.normal(size=(600, 10))
    model = KernelRidgeClassifierCV(gamma=0.02, alphas=[0.01, 0.1, 1.0], basis=300, random_state=0)
    model.set_params(cv=4).fit(rows, labels)
    assert model.held_out(alphas=model.alpha_).score("accuracy") > 0.8  # by chance: 0.007
    assert model.predict_proba(rows).shape == (600, 150)
    assert model.verify(2).max_relative_error < 1e-9


def test_a_class_that_has_no_weight_is_known_but_not_trained_on():
    weights = (WORDS != "dog") * 1.0
    model = classifier(cv=KFold(5, shuffle=True, random_state=0))
    model.fit(X, WORDS, sample_weight=weights)
    assert model.classes_.tolist() == ["cat", "dog", "eel"]
    assert "dog" not in model.predict(X)


# -- folds -----------------------------------------------------------------------------------------


def test_a_number_means_stratified_folds():
    order = np.argsort(WORDS)  # plain folds would leave whole classes out
    model = classifier(cv=3).fit(X[order], WORDS[order])
    expected = [test.tolist() for _, test in StratifiedKFold(3).split(X, WORDS[order])]
    assert [e.test.tolist() for e in model.held_out().experiments] == expected
    later = classifier(cv=None).fit(X[order], WORDS[order]).held_out(cv=3)
    assert [e.test.tolist() for e in later.experiments] == expected


def test_a_class_that_a_fold_never_trains_on_is_still_a_class():
    order = np.argsort(WORDS)
    model = classifier(cv=KFold(3)).fit(X[order], WORDS[order])
    assert model.held_out().values.shape == (5, M, 3)
    assert model.best_score_ < -0.6
    assert model.verify().max_relative_error < 1e-10


# -- scores ----------------------------------------------------------------------------------------


def retrained(model, alpha, splits, labels, weights=None):
    """Return held-out decision values by fitting a classifier for every fold."""
    classes = np.unique(labels)
    values = np.empty((M, 1 if len(classes) == 2 else len(classes)))
    for train, test in splits:
        fold = KernelRidgeClassifierCV(alphas=alpha, gamma=0.05).fit(
            X[train], labels[train], sample_weight=None if weights is None else weights[train]
        )
        values[test] = fold.decision_function(X[test]).reshape(len(test), -1)
    return values


METRICS = {
    "accuracy": lambda y, f, p, c: accuracy_score(y, c),
    "balanced_accuracy": lambda y, f, p, c: balanced_accuracy_score(y, c),
    "roc_auc": lambda y, f, p, c: roc_auc_score(y, f),
    "roc_auc_ovr": lambda y, f, p, c: roc_auc_score(y, p, multi_class="ovr"),
    "neg_log_loss": lambda y, f, p, c: -log_loss(y, p),
}


@pytest.mark.parametrize("scoring", METRICS)
@pytest.mark.parametrize("pooled", [True, False])
def test_scores_of_held_out_decisions(scoring, pooled):
    labels = WORDS if scoring == "roc_auc_ovr" else TWO
    splits = list(StratifiedKFold(5).split(X, labels))
    model = classifier(scoring=scoring, pooled=pooled).fit(X, labels)
    results = model.cv_results_
    for i, alpha in enumerate(ALPHAS):
        values = retrained(model, alpha, splits, labels)
        p = probabilities(values, np.searchsorted(model.classes_, labels), np.ones(M))

        def score(rows, values=values, p=p):
            f = values[rows]
            proba = p[rows]
            index = (f[:, 0] > 0).astype(int) if f.shape[1] == 1 else f.argmax(axis=1)
            decision = f[:, 0] if f.shape[1] == 1 else f
            return METRICS[scoring](labels[rows], decision, proba, model.classes_[index])

        parts = [score(test) for _, test in splits]
        assert results["pooled_test_score"][i] == pytest.approx(score(np.arange(M)), abs=1e-9)
        assert results["mean_test_score"][i] == pytest.approx(np.mean(parts), abs=1e-9)
        assert results["split2_test_score"][i] == pytest.approx(parts[2], abs=1e-9)
    shown = results["pooled_test_score" if pooled else "mean_test_score"]
    assert model.best_score_ == shown.max()
    np.testing.assert_array_equal(model.held_out().score(scoring, pooled=pooled), shown)


def test_scikit_learns_cross_validation_of_the_same_model_agrees():
    folds = StratifiedKFold(5)
    model = classifier(cv=folds, scoring="accuracy").fit(X, WORDS)
    plain = KernelRidgeClassifierCV(alphas=model.alpha_, gamma=0.05, cv=folds)
    scores = cross_val_score(plain, X, WORDS, cv=folds)
    np.testing.assert_allclose(
        [model.cv_results_[f"split{i}_test_score"][model.best_index_] for i in range(5)], scores
    )
    labels = cross_val_predict(plain, X, WORDS, cv=folds)
    found = model.held_out(alphas=model.alpha_)
    np.testing.assert_array_equal(found.labels()[0][np.argsort(found.rows)], labels)
    values = cross_val_predict(plain, X, WORDS, cv=folds, method="decision_function")
    np.testing.assert_allclose(found.matrix()[0], values, rtol=1e-9, atol=1e-12)


def test_an_unscorable_split_does_not_spoil_the_pooled_score():
    """One row has no AUC; all rows together have."""
    model = classifier(cv=None, scoring="roc_auc").fit(X, TWO)
    values = model.held_out(alphas=model.alpha_).matrix()[0, :, 0]
    assert model.best_score_ == pytest.approx(roc_auc_score(TWO == "yes", values))
    assert np.isnan(model.cv_results_["mean_test_score"]).all()


# -- against refits ----------------------------------------------------------------------------

FIVE = np.array(list("abcde"))[CODE + np.random.default_rng(2).integers(0, 3, size=M)]
GROUPS = np.random.default_rng(3).integers(0, 12, size=M)
TEN_TO_ONE = {"yes": 10.0, "a": 3.0, "d": 0.5}


def balanced(labels, weights, chosen):
    """Return what rows weigh in a fit: by the classes of all rows of positive weight."""
    classes = np.unique(labels)
    if isinstance(chosen, dict):
        return weights * np.array([chosen.get(name, 1.0) for name in labels])
    used = labels[weights > 0]
    if chosen == "balanced":
        share = {name: used.size / (classes.size * np.sum(used == name)) for name in classes}
        return weights * np.array([share[name] for name in labels])
    return weights


@pytest.mark.parametrize("labels", [TWO, FIVE], ids=["two", "five"])
@pytest.mark.parametrize("weights", [None, WEIGHTS + 0.5 * (WEIGHTS > 0)], ids=["", "weights"])
@pytest.mark.parametrize("groups", [None, GROUPS], ids=["", "groups"])
@pytest.mark.parametrize("class_weight", [None, "balanced", TEN_TO_ONE], ids=["", "even", "dict"])
def test_the_log_loss_of_refits_and_their_sigmoids(labels, weights, groups, class_weight):
    """By hand: a fit for each fold and penalty, sigmoids of what they say about their fold."""
    cv = StratifiedKFold(4) if groups is None else GroupKFold(4)
    if isinstance(class_weight, dict):
        class_weight = {k: v for k, v in class_weight.items() if k in labels}
    model = classifier(cv=cv, class_weight=class_weight)
    model.fit(X, labels, sample_weight=weights, groups=groups)
    w = np.ones(M) if weights is None else weights
    inside = balanced(labels, w, class_weight)
    targets, index = plus_minus(labels, model.classes_), np.searchsorted(model.classes_, labels)
    used = w > 0
    for i, alpha in enumerate(ALPHAS):
        f = np.empty(targets.shape)
        for train, test in cv.split(X, labels, groups):
            fold = KernelRidgeCV(alphas=alpha, gamma=0.05)
            fold.fit(X[train], targets[train], sample_weight=inside[train])
            f[test] = fold.predict(X[test])
        p = probabilities(f, index, w)
        for scoring, loss in LOSSES.items():
            expected = loss(labels[used], p[used], f[used], model.classes_, w[used])
            found = model.held_out(alphas=alpha).score(scoring)[0]
            assert found == pytest.approx(expected, abs=1e-8), scoring
            if scoring == "neg_log_loss":
                assert model.cv_results_["pooled_test_score"][i] == pytest.approx(found, abs=1e-12)
    if class_weight is not None:
        share = inside[used] / w[used]
        np.testing.assert_allclose(model.class_weight_[index[used]], share, rtol=1e-14)


def brier(y, p, classes, w):
    happened = y[:, None] == classes
    return np.average(np.square(p - happened).sum(axis=1), weights=w) / (1 + (len(classes) == 2))


def label_of(f, classes):
    return classes[(f[:, 0] > 0) * 1 if f.shape[1] == 1 else f.argmax(axis=1)]


LOSSES = {
    "neg_log_loss": lambda y, p, f, c, w: -log_loss(y, p, sample_weight=w),
    "neg_brier_score": lambda y, p, f, c, w: -brier(y, p, c, w),
    "accuracy": lambda y, p, f, c, w: accuracy_score(y, label_of(f, c), sample_weight=w),
    "balanced_accuracy": lambda y, p, f, c, w: balanced_accuracy_score(
        y, label_of(f, c), sample_weight=w
    ),
    "roc_auc_ovr": lambda y, p, f, c, w: roc_auc_score(
        y, p[:, 1] if len(c) == 2 else p, multi_class="ovr", sample_weight=w
    ),
}


def test_the_best_score_is_of_the_probabilities_that_the_model_gives():
    for labels in (TWO, FIVE):
        model = classifier(cv=4).fit(X, labels)
        p = model.calibration_.of_classes(model.held_out(alphas=model.alpha_).matrix()[0])
        assert model.best_score_ == pytest.approx(-log_loss(labels, p), rel=1e-12)
        np.testing.assert_array_equal(
            model.predict_proba(NEW),
            model.calibration_.of_classes(model.decision_function(NEW).reshape(17, -1)),
        )


def test_held_out_decisions_that_lean_away_from_the_labels_promise_nothing():
    """Without a row, the mean of the others leans away from it: no sigmoid turns that round."""
    rng = np.random.default_rng(0)
    rows, y = rng.normal(size=(60, 3)), np.arange(60) % 2
    model = KernelRidgeClassifierCV(alphas=[1e-2, 1.0, 1e7], gamma=0.3).fit(rows, y)
    huge = model.held_out(alphas=[1e7])
    decisions = huge.matrix()[0, :, 0]
    assert np.corrcoef(decisions, y)[0, 1] < -0.99
    assert roc_auc_score(y, decisions) < 0.01
    # A free sigmoid would have a log loss near 0; this one knows the share of the classes.
    assert huge.score("neg_log_loss")[0] == pytest.approx(-np.log(2), abs=1e-6)
    assert model.best_score_ < -0.6
    proba = KernelRidgeClassifierCV(alphas=1e7, gamma=0.3).fit(rows, y).predict_proba(rows)
    np.testing.assert_allclose(proba, 0.5, atol=1e-12)


def test_a_rare_class_is_not_forgotten():
    """Accuracy is flat where everyone is called healthy; the log loss is not."""
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(800, 4))
    y = (rows @ [1.0, 0.5, 0, 0] + 0.7 * rng.normal(size=800) > 2.4).astype(int)
    new = rng.normal(size=(4000, 4))
    truth = new @ [1.0, 0.5, 0, 0] + 0.7 * rng.normal(size=4000) > 2.4
    assert y.mean() < 0.06
    model = KernelRidgeClassifierCV(gamma=0.1, cv=10).fit(rows, y)
    assert roc_auc_score(truth, model.decision_function(new)) > 0.9
    assert -log_loss(truth, model.predict_proba(new)) == pytest.approx(model.best_score_, abs=0.05)


def test_class_weights_survive_a_pickle():
    model = classifier(class_weight="balanced").fit(X, TWO, sample_weight=WEIGHTS)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.class_weight_, model.class_weight_)
    np.testing.assert_array_equal(again.held_out(cv=3).score(), model.held_out(cv=3).score())


# -- labels and probabilities ----------------------------------------------------------------------


def test_labels_of_held_out_rows():
    for labels in (WORDS, TWO):
        model = classifier().fit(X, labels)
        found = model.held_out()
        assert found.labels().shape == (ALPHAS.size, M)
        for i in range(ALPHAS.size):
            values = found.values[i]
            index = (values[:, 0] > 0) * 1 if values.shape[1] == 1 else values.argmax(axis=1)
            np.testing.assert_array_equal(found.labels()[i], model.classes_[index])
        np.testing.assert_allclose(
            found.score("accuracy"), np.mean(found.labels() == labels[found.rows], axis=1)
        )


@pytest.mark.parametrize("labels", [WORDS, TWO], ids=["three", "two"])
@pytest.mark.parametrize("rows", [X, NEW, NEW * 1e4], ids=["seen", "new", "far"])
@pytest.mark.parametrize("calibration", ["sigmoid", "isotonic", None])
def test_probabilities_sum_to_one(labels, rows, calibration):
    model = classifier(kernel="linear", calibration=calibration).fit(X, labels)
    proba = model.predict_proba(rows)
    assert proba.shape == (len(rows), len(model.classes_))
    assert (proba >= 0).all()
    assert (proba <= 1).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-12)
    if calibration is None:
        np.testing.assert_array_equal(model.classes_[proba.argmax(axis=1)], model.predict(rows))


def test_probabilities_without_calibration_are_half_of_one_plus_the_decision():
    model = classifier(calibration=None).fit(X, TWO)
    f = model.decision_function(X)
    inside = np.abs(f) <= 1
    np.testing.assert_allclose(model.predict_proba(X)[inside, 1], (1 + f[inside]) / 2, rtol=1e-12)
    assert (model.predict_proba(X)[f > 1, 1] == 1).all()
