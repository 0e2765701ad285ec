"""Every answer with every scorer, for every kind of model: a value, or a refusal by name.

A cell of the table is an answer, a scorer and a kind of model. Whoever adds one of these adds a
line or a column here; `REFUSED` holds the cells without a value, and what they are refused by.
"""

from functools import cache

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import KFold, LeaveOneGroupOut

import holdfast
from holdfast import KernelRidgeClassifierCV, KernelRidgeCV
from holdfast.exceptions import HoldfastError

pytestmark = pytest.mark.filterwarnings("ignore::holdfast.exceptions.HoldfastWarning")

M = 48
RNG = np.random.default_rng(0)
X = RNG.normal(size=(M, 2))
SIGNAL = np.exp(np.sin(2 * X[:, 0]) + 0.3 * RNG.normal(size=M))
TWO = np.c_[SIGNAL, SIGNAL[::-1] + X[:, 1] ** 2]
WEIGHTS = np.where(np.arange(M) % 9 == 0, 0.0, RNG.uniform(0.5, 2.0, M))
GROUPS = RNG.permutation(M) % 8
CLASSES = np.where(np.quantile(SIGNAL, 0.6) < SIGNAL, "high", "low")
CLASSES[::7] = "low"  # some are wrong, more in one class than in the other
THREE = np.digitize(SIGNAL, np.quantile(SIGNAL, [0.25, 0.6]))
BASIS = np.arange(0, M, 3)

#: Kind of model: targets, arguments of `fit`, parameters.
KINDS = {
    "plain": (SIGNAL, {}, {}),
    "weights": (SIGNAL, {"sample_weight": WEIGHTS}, {}),
    "groups": (SIGNAL, {"groups": GROUPS}, {"cv": LeaveOneGroupOut()}),
    "several targets": (TWO, {}, {}),
    "a penalty per target": (TWO, {}, {"alpha_per_target": True}),
    "one standard error": (SIGNAL, {}, {"rule": "1se"}),
    "not pooled": (SIGNAL, {}, {"pooled": False}),
    "two widths": (SIGNAL, {}, {"gamma": [0.1, 1.0]}),
    **{
        f"basis, {policy}": (
            SIGNAL,
            {},
            {"basis": 16 if policy == "reselect" else BASIS, "held_out_basis": policy},
        )
        for policy in ("remove", "keep", "train", "skip", "reselect")
    },
    "two classes": (CLASSES, {}, {}),
    "three classes": (THREE, {}, {}),
    "classes with weights": (CLASSES, {"sample_weight": WEIGHTS}, {}),
    "classes on a basis": (THREE, {}, {"basis": BASIS}),
}
OF_CLASSES = ("accuracy", "balanced_accuracy", "neg_log_loss", "roc_auc")
DENSITIES = ("log_density",)


def worst(estimator, X, y, sample_weight=None):
    """A scorer of the user's own that is no mean over rows."""
    return -float(np.abs(np.asarray(y) - estimator.predict(X)).max())


OF_NUMBERS = (
    "neg_mean_squared_error",
    "neg_root_mean_squared_error",
    "r2",
    "explained_variance",
    "pearson",
    *DENSITIES,
    worst,
)


@cache
def fitted(kind, scoring):
    y, fit, options = KINDS[kind]
    cls = KernelRidgeClassifierCV if "class" in kind else KernelRidgeCV
    options = {
        "gamma": 0.5,
        "alphas": [0.03, 0.3, 3.0],
        "cv": KFold(4, shuffle=True, random_state=0),
        "random_state": 0,
        **options,
    }
    return cls(scoring=scoring, **options).fit(X, y, **fit)


@cache
def other(kind, scoring):
    y, fit, _ = KINDS[kind]
    return clone(fitted(kind, scoring)).set_params(gamma=2.0).fit(X, y, **fit)


def interval(method):
    def ask(model, rival):
        found = model.score_interval(method=method, n_splits=4, n_partitions=1, random_state=0)
        assert (np.asarray(found.low) <= np.asarray(found.high)).all()
        # Random partitions have a score of their own, near the one of the fit.
        return found.score if method == "asymptotic" or found.method == "asymptotic" else None

    return ask


def comparison(method):
    def ask(model, rival):
        found = holdfast.compare(
            model, rival, method=method, n_splits=4, n_partitions=1, random_state=0
        )
        assert np.isfinite([found.low, found.high, found.difference]).all()
        assert found.low <= found.difference <= found.high
        # Random partitions have scores of their own.
        return None if model.alpha_per_target or found.method == "nested" else found.scores[0]

    return ask


def held_out(model, rival):
    found = model.held_out()
    if model.alpha_per_target:
        return None  # each target has its best elsewhere
    best = model.best_index_ % model.alphas_.size
    return found.score()[best]


def nested(model, rival):
    found = model.nested(KFold(3))
    assert np.isfinite(found.score()).all()
    assert np.isfinite(found.inner_scores).all()


def permutation(model, rival):
    found = model.permutation_test(3, random_state=0)
    assert np.isfinite(found.null_scores).all()
    assert (np.asarray(found.p_value) > 0).all()
    return found.score


#: Answers, each of which gives the score of the fit, or None where it has a score of its own.
ANSWERS = {
    "held_out": held_out,
    "nested": nested,
    "permutation_test": permutation,
    "score_interval": interval("auto"),
    "score_interval, nested": interval("nested"),
    "score_interval, asymptotic": interval("asymptotic"),
    "compare": comparison("auto"),
    "compare, nested": comparison("nested"),
    "compare, asymptotic": comparison("asymptotic"),
}


def refusal(answer, kind, scoring):
    """Return the words that a cell is refused by, or None for a cell with a value."""
    no_row_mean = scoring in ("explained_variance", worst, "pearson", "balanced_accuracy")
    no_row_mean = no_row_mean or (scoring == "roc_auc" and "three" in kind)
    no_row_mean = no_row_mean or (scoring == "roc_auc" and kind == "classes on a basis")
    if scoring in DENSITIES:
        if answer == "nested" or answer.startswith("compare"):
            return "needs their distribution"
        if answer.startswith("score_interval") and kind == "not pooled":
            return "pooled=False" if answer == "score_interval, nested" else "distribution"
    if answer in ("score_interval, nested", "compare, nested"):
        if kind == "not pooled":
            return "pooled=False|not a mean over rows"
        if scoring in DENSITIES or no_row_mean:
            return "not a mean over rows"
        if scoring == "neg_root_mean_squared_error" and (
            answer == "compare, nested" or kind == "several targets"
        ):
            return "mean over rows|means over rows"
    return None


def cells():
    for kind in KINDS:
        for scoring in OF_CLASSES if "class" in kind else OF_NUMBERS:
            if scoring == "roc_auc" and KINDS[kind][0] is THREE:
                continue  # scikit-learn's scorer of that name is for two classes
            for answer in ANSWERS:
                name = scoring if isinstance(scoring, str) else scoring.__name__
                yield pytest.param(answer, kind, scoring, id=f"{answer}-{kind}-{name}")


@pytest.mark.parametrize(("answer", "kind", "scoring"), list(cells()))
def test_a_value_or_a_refusal_by_name(answer, kind, scoring):
    model, rival = fitted(kind, scoring), other(kind, scoring)
    words = refusal(answer, kind, scoring)
    if words is not None:
        with pytest.raises(HoldfastError, match=words):
            ANSWERS[answer](model, rival)
        return
    score = ANSWERS[answer](model, rival)
    if score is not None:
        np.testing.assert_allclose(score, model.best_score_, rtol=1e-9)


def finite(*values):
    assert all(np.isfinite(np.asarray(value, dtype=float)).all() for value in values)


def influence(model):
    found = model.influence()
    finite(found.leverage, found.residual, found.cook)
    repr(found)


def verify(model):
    assert model.verify(2).max_relative_error < 1e-6


def law(model):
    found = model.held_out()
    finite(found.std, found.log_density())


#: Answers that know no scorer.
OTHERS = {
    "predict_without": lambda model: finite(
        model.predict_without([1, 2]), model.predict_without([1], X)
    ),
    "coef_without": lambda model: finite(model.coef_without([1, 2]).dual_coef),
    "predict_interval, plus": lambda model: finite(model.predict_interval(X[:3], 0.7)),
    "predict_interval, gaussian": lambda model: finite(
        model.predict_interval(X[:3], 0.7, method="gaussian")
    ),
    "influence": influence,
    "verify": verify,
    "explain": lambda model: repr(model.explain()),
    "law": law,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("answer", OTHERS)
def test_other_answers_are_a_value_or_a_refusal_by_name(answer, kind):
    model = fitted(kind, None)
    words = None
    if "class" in kind and (answer == "law" or answer.startswith("predict_interval")):
        words = "regression"
    if kind == "basis, reselect" and answer in ("verify", "coef_without"):
        words = "reselect"
    if words is None:
        OTHERS[answer](model)
        return
    with pytest.raises(HoldfastError, match=words):
        OTHERS[answer](model)


@pytest.mark.parametrize("five", [np.int64(5), np.int32(5)])
def test_a_number_of_folds_may_be_of_numpy(five):
    X, y = np.random.default_rng(0).normal(size=(2, 40, 1))
    y = y[:, 0]

    def answers(cv):
        model = KernelRidgeCV(alphas=[0.1, 1.0], cv=cv).fit(X, y)
        return [
            model.best_score_,
            *model.held_out(cv).score(),
            model.nested(cv).score(),
            model.score_interval(n_partitions=2, random_state=0).low,
            *model.permutation_test(3, random_state=0).null_scores,
            holdfast.compare(model, y + 0.1, cv=cv).low,
            KernelRidgeClassifierCV(alphas=[0.1], cv=cv).fit(X, y > 0).best_score_,
        ]

    assert answers(five) == answers(5)


def test_results_have_a_column_for_each_of_few_splits():
    X, y = np.random.default_rng(0).normal(size=(2, 101, 1))
    few = KernelRidgeCV(alphas=[0.1, 1.0], cv=100).fit(X, y[:, 0]).cv_results_
    many = KernelRidgeCV(alphas=[0.1, 1.0]).fit(X, y[:, 0]).cv_results_
    assert sum(key.startswith("split") for key in few) == 100
    assert not any(key.startswith("split") for key in many)
    names = {"mean_test_score", "std_test_score", "pooled_test_score", "rank_test_score"}
    assert names <= set(few) & set(many)
