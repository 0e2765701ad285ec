"""Classification: one against the rest on ±1, one factorisation, scores of held-out rows."""

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_blobs
from sklearn.metrics import accuracy_score, balanced_accuracy_score, log_loss, roc_auc_score
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneOut,
    StratifiedKFold,
    cross_val_predict,
    cross_val_score,
)

import holdfast.core.kernel_smoother
import holdfast.kernels.smoothers
from holdfast import KernelRidgeClassifierCV, KernelRidgeCV

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


def test_one_factorisation_serves_all_classes(monkeypatch):
    built, decomposed = [], []
    smoother, eigh = holdfast.kernels.smoothers.KernelSmoother, holdfast.core.kernel_smoother.eigh

    class Counted(smoother):
        def __init__(self, *args, **kwargs):
            built.append(1)
            super().__init__(*args, **kwargs)

    def counted(*args, **kwargs):
        decomposed.append(1)
        return eigh(*args, **kwargs)

    monkeypatch.setattr(holdfast.kernels.smoothers, "KernelSmoother", Counted)
    monkeypatch.setattr(holdfast.core.kernel_smoother, "eigh", counted)
    labels = np.arange(M) % 20
    model = classifier(path="spectral", cv=4).fit(X, labels)
    model.held_out(cv=3)
    model.predict_without([1, 2, 3])
    assert model.dual_coef_.shape == (M, 20)
    assert (len(built), len(decomposed)) == (1, 1)


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
    assert model.best_score_ > 0.8  # by chance: 0.007
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
    np.testing.assert_array_less(model.best_score_, 0.6)
    assert model.verify().max_relative_error < 1e-10


def test_groups():
    groups = RNG.integers(0, 8, size=M)
    model = classifier(cv=GroupKFold(4)).fit(X, WORDS, groups=groups)
    for experiment in model.held_out().experiments:
        outside = np.delete(groups, experiment.held_out)
        assert not np.isin(groups[experiment.held_out], outside).any()


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

        def score(rows, values=values):
            f = values[rows]
            proba = probabilities(f)
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


def probabilities(f):
    """Least squares on ±1 estimates 2P − 1."""
    f = np.c_[-f, f] if f.shape[1] == 1 else f
    p = np.maximum((1 + f) / 2, 0.0)
    return p / p.sum(axis=1, keepdims=True)


def test_scikit_learns_cross_validation_of_the_same_model_agrees():
    folds = StratifiedKFold(5)
    model = classifier(cv=folds).fit(X, WORDS)
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


def test_leave_one_out_accuracy_by_hand():
    model = classifier(cv=None).fit(X, WORDS)
    plain = KernelRidgeClassifierCV(alphas=model.alpha_, gamma=0.05)
    labels = cross_val_predict(plain, X, WORDS, cv=LeaveOneOut())
    assert model.best_score_ == pytest.approx(np.mean(labels == WORDS))


def test_an_unscorable_split_does_not_spoil_the_pooled_score():
    """One row has no AUC; all rows together have."""
    model = classifier(cv=None, scoring="roc_auc").fit(X, TWO)
    values = model.held_out(alphas=model.alpha_).matrix()[0, :, 0]
    assert model.best_score_ == pytest.approx(roc_auc_score(TWO == "yes", values))
    assert np.isnan(model.cv_results_["mean_test_score"]).all()


def test_weights_count_in_scores():
    model = classifier().fit(X, WORDS, sample_weight=WEIGHTS)
    found = model.held_out()
    expected = [
        accuracy_score(WORDS[found.rows], labels, sample_weight=WEIGHTS[found.rows])
        for labels in found.labels()
    ]
    np.testing.assert_allclose(model.cv_results_["pooled_test_score"], expected)


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
            found.score(), np.mean(found.labels() == labels[found.rows], axis=1)
        )


@pytest.mark.parametrize("labels", [WORDS, TWO], ids=["three", "two"])
@pytest.mark.parametrize("rows", [X, NEW, NEW * 1e4], ids=["seen", "new", "far"])
def test_probabilities_sum_to_one(labels, rows):
    model = classifier(kernel="linear").fit(X, labels)
    proba = model.predict_proba(rows)
    assert proba.shape == (len(rows), len(model.classes_))
    assert (proba >= 0).all()
    assert (proba <= 1).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(model.classes_[proba.argmax(axis=1)], model.predict(rows))


def test_probabilities_of_two_classes_are_half_of_one_plus_the_decision():
    model = classifier().fit(X, TWO)
    f = model.decision_function(X)
    inside = np.abs(f) <= 1
    np.testing.assert_allclose(model.predict_proba(X)[inside, 1], (1 + f[inside]) / 2, rtol=1e-12)
    assert (model.predict_proba(X)[f > 1, 1] == 1).all()


def test_iris():
    rows, y = load_iris(return_X_y=True)
    model = KernelRidgeClassifierCV(cv=10, gamma=[0.05, 0.2, 1.0]).fit(rows, y)
    assert model.best_score_ > 0.95
    assert model.score(rows, y) > 0.95
