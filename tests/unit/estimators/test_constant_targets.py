"""Constant targets: the mean is the model, with a warning; absent classes are exactly −1."""

import numpy as np
import pytest
from sklearn.metrics import make_scorer, roc_auc_score
from sklearn.model_selection import KFold, cross_val_score

from holdfast import HoldOut, KernelRidgeClassifierCV, KernelRidgeCV
from holdfast.exceptions import HoldfastWarning

RNG = np.random.default_rng(5)
X = RNG.normal(size=(30, 2))


@pytest.mark.parametrize("scoring", [None, "r2", "neg_mean_absolute_error", "log_density"])
@pytest.mark.parametrize("rule", ["best", "1se"])
@pytest.mark.parametrize("basis", [None, 10], ids=["dense", "basis"])
@pytest.mark.parametrize("value", [7.0, 0.0, 0.1])
def test_the_constant_is_the_model(scoring, rule, basis, value):
    model = KernelRidgeCV(scoring=scoring, rule=rule, basis=basis, cv=5, random_state=0)
    with pytest.warns(HoldfastWarning, match="y does not vary"):
        model.fit(X, np.full(30, value))
    np.testing.assert_allclose(model.predict(X), value, rtol=1e-14)
    np.testing.assert_allclose(model.held_out().matrix(), value, rtol=1e-14)


def test_several_targets_a_search_of_widths_and_weights():
    Y = np.tile([1.0, 2.0], (30, 1))
    Y[:3] = 9.0
    weights = np.ones(30)
    weights[:3] = 0.0
    model = KernelRidgeCV(gamma="search", alpha_per_target=True, scoring="r2", cv=3)
    with pytest.warns(HoldfastWarning, match="y does not vary"):
        model.fit(X, Y, sample_weight=weights)
    np.testing.assert_allclose(model.predict(X), np.tile([1.0, 2.0], (30, 1)), rtol=1e-14)
    assert model.alpha_.shape == (2,)


def test_an_outer_loop_does_not_die_of_a_fold_without_variation():
    y = np.zeros(30)
    y[:10] = RNG.normal(size=10)
    with pytest.warns(HoldfastWarning, match="y does not vary"):
        found = cross_val_score(KernelRidgeCV(cv=3), X, y, cv=KFold(3), error_score="raise")
    assert found.shape == (3,)


def test_a_constant_without_a_bias_is_a_target_like_others(recwarn):
    model = KernelRidgeCV(fit_intercept=False, gamma=0.3, alphas=[0.1, 1.0], cv=3)
    model.fit(X, np.full(30, 7.0))
    assert not any("y does not vary" in str(one.message) for one in recwarn)
    assert np.ptp(model.predict(X)) > 0


# -- classes that no training row has --------------------------------------------------------------

LABELS = np.repeat(["a", "b", "c"], 10)


@pytest.mark.parametrize("basis", [None, np.arange(0, 30, 2)], ids=["dense", "basis"])
@pytest.mark.parametrize("path", ["auto", "cholesky", "refit"])
@pytest.mark.parametrize(
    "weights", [None, RNG.uniform(0.1, 3.0, size=30)], ids=["plain", "weights"]
)
def test_an_absent_class_is_exactly_minus_one(basis, path, weights):
    model = KernelRidgeClassifierCV(
        gamma=0.4, alphas=[1e-3, 0.1, 10.0], basis=basis, cv=KFold(3), path=path
    ).fit(X, LABELS, sample_weight=weights)
    for absent, values in enumerate(model.held_out().predictions):
        assert (values[:, :, absent] == -1.0).all()
        others = np.delete(values, absent, axis=2)
        assert (np.ptp(others, axis=1) > 0).all()


def test_of_two_classes_the_one_that_is_left_is_exact():
    y = np.arange(30) >= 10
    model = KernelRidgeClassifierCV(gamma=0.4, alphas=[0.1]).fit(X, y)
    for rows, value in ((np.arange(10), 1.0), (np.arange(10, 30), -1.0)):
        assert (model.held_out([HoldOut(rows)]).values == value).all()


def test_scores_of_an_order_see_equal_values():
    score = make_scorer(
        lambda y, p: roc_auc_score(y == "a", p[:, 0]), response_method="decision_function"
    )
    model = KernelRidgeClassifierCV(gamma=0.4, alphas=[0.1], cv=KFold(3)).fit(X, LABELS)
    found = model.held_out([HoldOut(np.arange(12))])  # all of "a", and two of "b"
    assert found.score(score)[0] == 0.5
