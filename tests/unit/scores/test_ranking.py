"""Scores of the order within groups, against double loops, SciPy and scikit-learn."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import kendalltau, pearsonr
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GroupKFold, LeaveOneGroupOut

from holdfast import KernelRidgeClassifierCV, KernelRidgeCV
from holdfast.exceptions import InvalidInputError

pytestmark = pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")
ALPHAS = np.logspace(-3, 2, 6)


# -- the naive twins -------------------------------------------------------------------------------


def twin_concordance(y, p):
    right = total = 0.0
    for i in range(len(y)):
        for j in range(i):
            if y[i] != y[j]:
                total += 1
                product = (y[i] - y[j]) * (p[i] - p[j])
                right += 1.0 if product > 0 else 0.5 if product == 0 else 0.0
    return right / total


def twin_tau(y, p):
    return 0.0 if len(set(p)) == 1 else kendalltau(y, p).statistic


def twin_pearson(y, p):
    return 0.0 if len(set(p)) == 1 else pearsonr(y, p).statistic


TWINS = {"pearson": twin_pearson, "kendall_tau": twin_tau, "concordance": twin_concordance}


def by_group(name, y, p, groups):
    """The twin within each group that has two distinct targets, averaged."""
    values = [
        TWINS[name](y[groups == g], p[groups == g])
        for g in np.unique(groups)
        if len(set(y[groups == g])) > 1
    ]
    return np.mean(values)


def problem(seed, k=60, n_groups=7, levels=None):
    """Return targets, predictions and groups; with few levels there are many ties."""
    rng = np.random.default_rng(seed)
    y, p = rng.gamma(2.0, size=k), rng.normal(size=k)
    if levels is not None:
        y, p = np.floor(y * levels / 4), np.round(p * levels / 3)
    return y, p, rng.integers(0, n_groups, size=k)


def scores(name, y, p, groups=None):
    """Return the score of predictions p; those of a model with other predictions."""
    rows = np.arange(len(y), dtype=float)[:, None]
    found = KernelRidgeCV("linear", alphas=[1.0]).fit(rows, rows[:, 0]).held_out()
    known = replace(found, y=y[:, None], values=p[None, :, None], groups=groups)
    return known.score(name, pooled=True)[0]


@pytest.mark.parametrize("name", TWINS)
@pytest.mark.parametrize("levels", [None, 2, 5])
@pytest.mark.parametrize("n_groups", [1, 7, 40])
def test_against_the_twin(name, levels, n_groups):
    for seed in range(10):
        y, p, groups = problem(seed, n_groups=n_groups, levels=levels)
        expected = by_group(name, y, p, groups)
        assert scores(name, y, p, groups) == pytest.approx(expected, abs=1e-13)
    # The order of rows and the names of groups do not matter.
    mixed = np.random.default_rng(0).permutation(60)
    names = np.array([f"group {-g}" for g in groups])
    again = scores(name, y[mixed], p[mixed], names[mixed])
    assert again == pytest.approx(expected, abs=1e-13)


@pytest.mark.parametrize("name", TWINS)
def test_one_large_group(name):
    y, p, _ = problem(3, k=700, levels=30)
    assert scores(name, y, p) == pytest.approx(TWINS[name](y, p), abs=1e-12)


def test_extremes():
    y = np.array([1.0, 2.0, 3.0, 3.0])
    for p, tau, share in ((y, 1, 1), (-y, -1, 0), (np.zeros(4), 0, 0.5)):
        assert scores("kendall_tau", y, p) == tau
        assert scores("concordance", y, p) == share
    # A group with one target, or one row, has no order and does not count.
    groups = np.array([0, 0, 0, 1, 1, 2])
    y, p = np.array([1.0, 2, 3, 5, 5, 9]), np.array([1.0, 2, 3, 4, 1, 0])
    assert scores("kendall_tau", y, p, groups) == scores("concordance", y, p, groups) == 1


def test_large_groups_need_no_pairs():
    """All pairs would be 20 GB."""
    rng = np.random.default_rng(0)
    y = rng.normal(size=70_000)
    assert scores("concordance", y, y) == 1
    assert abs(scores("kendall_tau", y, rng.permutation(y))) < 0.01


# -- as scorers ------------------------------------------------------------------------------------


def data(seed=0, m=60, v=1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, 2))
    y = np.sin(2 * X[:, :1]) + 0.3 * rng.normal(size=(m, v)) + 2
    return X, np.round(y[:, 0] if v == 1 else y, 1), rng.permutation(np.arange(m) % 9)


@pytest.mark.parametrize("name", TWINS)
@pytest.mark.parametrize("cv", [None, 5, GroupKFold(3), LeaveOneGroupOut()])
def test_fit_and_held_out_score_within_groups(name, cv):
    X, y, groups = data()
    labels = np.array([f"query {g}" for g in groups])
    model = KernelRidgeCV(gamma=0.7, alphas=ALPHAS, cv=cv, scoring=name).fit(X, y, groups=labels)
    found = model.held_out()
    expected = [by_group(name, y[found.rows], v[:, 0], groups[found.rows]) for v in found.values]
    assert np.allclose(model.cv_results_["pooled_test_score"], expected, atol=1e-12)
    assert np.allclose(found.score(name), expected, atol=1e-12)
    assert model.best_score_ == pytest.approx(max(expected))
    assert np.isfinite(model.cv_results_["se_test_score"]).all() == (cv is not None)


@pytest.mark.parametrize("name", TWINS)
def test_without_groups_all_rows_are_one_group(name):
    X, y, _ = data()
    model = KernelRidgeCV(gamma=0.7, alphas=ALPHAS, scoring=name).fit(X, y)
    found = model.held_out()
    expected = [TWINS[name](y, v[:, 0]) for v in found.values]
    assert np.allclose(model.cv_results_["pooled_test_score"], expected, atol=1e-12)


@pytest.mark.parametrize("name", TWINS)
def test_averages_over_experiments_that_hold_out_groups(name):
    X, y, groups = data()
    model = KernelRidgeCV(
        gamma=0.7, alphas=ALPHAS, cv=LeaveOneGroupOut(), scoring=name, pooled=False
    )
    model.fit(X, y, groups=groups)
    found = model.held_out()
    assert np.allclose(found.score(name, pooled=False), found.score(name), atol=1e-12)


def test_groups_of_held_out_are_those_of_the_question():
    X, y, groups = data()
    model = KernelRidgeCV(gamma=0.7).fit(X, y)
    found = model.held_out(cv=LeaveOneGroupOut(), groups=groups.tolist())
    rows = found.rows
    expected = [by_group("concordance", y[rows], v[:, 0], groups[rows]) for v in found.values]
    assert np.allclose(found.score("concordance"), expected)


@pytest.mark.parametrize("name", TWINS)
def test_targets_are_averaged_and_may_choose_for_themselves(name):
    X, y, groups = data(v=3)
    model = KernelRidgeCV(gamma=0.7, alphas=ALPHAS, scoring=name, alpha_per_target=True)
    model.fit(X, y, groups=groups)
    values = model.held_out().values
    for t in range(3):
        single = [by_group(name, y[:, t], v[:, t], groups) for v in values]
        assert model.best_score_[t] == pytest.approx(max(single))


def test_rows_of_weight_zero_are_absent():
    X, y, groups = data()
    weights = np.where(np.arange(60) % 4 == 0, 0.0, 1.0 + np.arange(60) % 3)
    model = KernelRidgeCV(gamma=0.7, alphas=ALPHAS, scoring="kendall_tau")
    model.fit(X, y, sample_weight=weights, groups=groups)
    kept = weights > 0
    found = model.held_out().matrix()[:, kept, 0]
    expected = [by_group("kendall_tau", y[kept], v, groups[kept]) for v in found]
    assert np.allclose(model.cv_results_["pooled_test_score"], expected)


def test_two_classes_are_in_order():
    X, y, _ = data()
    labels = np.where(y > 2, "yes", "no")
    model = KernelRidgeClassifierCV(gamma=0.7, scoring="concordance").fit(X, labels)
    expected = [roc_auc_score(labels == "yes", v[:, 0]) for v in model.held_out().values]
    assert np.allclose(model.cv_results_["pooled_test_score"], expected)
    three = np.array(["a", "b", "c"])[np.arange(60) % 3]
    with pytest.raises(InvalidInputError, match="needs numbers or two classes"):
        KernelRidgeClassifierCV(scoring="kendall_tau").fit(X, three)


def test_what_cannot_be_scored_is_said():
    X, y, _ = data()
    with pytest.raises(InvalidInputError, match="no group has two rows with different targets"):
        KernelRidgeCV(scoring="kendall_tau").fit(X, y, groups=np.arange(60))
