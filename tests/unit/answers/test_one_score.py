"""Every answer scores as the fit does, and speaks of the hold-out of the fit."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.metrics import r2_score
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneGroupOut,
    PredefinedSplit,
    RepeatedKFold,
    TimeSeriesSplit,
)

import holdfast
from holdfast import KernelRidgeClassifierCV, KernelRidgeCV
from holdfast.exceptions import InvalidInputError, NotSupportedError
from holdfast.splitters import (
    HBlock,
    LeaveNeighbourhoodOut,
    PurgedKFold,
    TimeSteps,
)
from permuted import permuted

pytestmark = pytest.mark.filterwarnings("ignore::holdfast.exceptions.HoldfastWarning")

M = 60
ALPHAS = [0.01, 0.1, 1.0]
RANKING = ("kendall_tau", "concordance")


def data(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(M, 2))
    y = np.exp(np.sin(2 * X[:, 0]) + 0.5 * rng.normal(size=M))
    return X, y, np.arange(M) % 10


def walk(seed=0, m=120):
    """A random walk over time: neighbours in time tell nearly everything, others nothing."""
    rng = np.random.default_rng(seed)
    return np.arange(m, dtype=float)[:, None] / 10, np.cumsum(rng.normal(size=m))


def fit(X, y, groups=None, **options):
    options = {"gamma": 0.5, "alphas": ALPHAS, "cv": 5, "random_state": 0, **options}
    return KernelRidgeCV(**options).fit(X, y, groups=groups)


# -- scorers that see groups -----------------------------------------------------------------------


def by_hand(name, y, f, groups):
    """Return the mean over groups of Kendall's tau or of the share of pairs in the right order."""
    found = []
    for g in np.unique(groups):
        t, p = y[groups == g], f[groups == g]
        i, j = np.triu_indices(t.size, 1)
        sign = np.sign(t[i] - t[j]) * np.sign(p[i] - p[j])
        found.append(stats.kendalltau(t, p)[0] if name == "kendall_tau" else np.mean(sign > 0))
    return np.mean(found)


@pytest.mark.parametrize("name", RANKING)
def test_permutations_are_scored_within_groups(name):
    X, y, groups = data()
    model = fit(X, y, groups, scoring=name)
    found = model.permutation_test(3, random_state=4)
    for n, targets in enumerate(permuted(model, 3, 4, X=X, y=y, groups=groups)):
        again = clone(model).fit(X, targets, groups=groups)
        assert found.null_scores[n] == pytest.approx(again.best_score_)


@pytest.mark.parametrize("name", ["kendall_tau", "concordance"])
def test_nested_scores_are_within_groups(name):
    X, y, groups = data()
    model = fit(X, y, groups, scoring=name, cv=KFold(4))
    found = model.nested(KFold(3))
    f = np.empty(M)
    f[found.rows] = found.values[:, 0]
    assert found.score() == pytest.approx(by_hand(name, y, f, groups))
    for j in range(3):
        left = np.setdiff1d(np.arange(M), found.experiments[j].held_out)
        again = clone(model).fit(X[left], y[left], groups=groups[left])
        assert found.inner_scores[j] == pytest.approx(again.best_score_)


@pytest.mark.parametrize("name", RANKING)
@pytest.mark.parametrize("cv", [5, LeaveOneGroupOut()], ids=["folds", "groups"])
def test_intervals_and_comparisons_are_within_groups(name, cv):
    X, y, groups = data()
    a = fit(X, y, groups, scoring=name, cv=cv)
    b = fit(X, y, groups, scoring=name, cv=cv, kernel="linear", gamma=None)
    interval = a.score_interval()
    assert interval.score == pytest.approx(a.best_score_)
    assert (interval.method, interval.units) == ("asymptotic", "groups")
    assert interval.low < interval.score < interval.high
    found = holdfast.compare(a, b)
    np.testing.assert_allclose(found.scores, [a.best_score_, b.best_score_])
    assert found.difference == pytest.approx(a.best_score_ - b.best_score_)
    assert found.low < found.difference < found.high


# -- the model's own score -------------------------------------------------------------------------


@pytest.mark.parametrize("scoring", [None, "r2", "neg_mean_absolute_error", *RANKING])
@pytest.mark.parametrize("pooled", [True, False])
def test_the_best_of_held_out_scores_is_the_best_score(scoring, pooled):
    X, y, groups = data()
    model = fit(X, y, groups, scoring=scoring, pooled=pooled, cv=GroupKFold(4))
    assert model.held_out().score().max() == pytest.approx(model.best_score_)


def test_the_best_of_held_out_scores_of_a_classifier():
    X, y, _ = data()
    model = KernelRidgeClassifierCV(alphas=ALPHAS, scoring="roc_auc", cv=5).fit(X, y > np.median(y))
    assert model.held_out().score().max() == pytest.approx(model.best_score_)


@pytest.mark.parametrize("cv", [None, 5])
def test_densities_work_or_are_refused_by_name(cv):
    scoring = "log_density"
    X, y, _ = data()
    model = fit(X, y, scoring=scoring, cv=cv)
    interval = model.score_interval()
    assert interval.score == pytest.approx(model.best_score_)
    assert interval.low < interval.score < interval.high
    assert interval.units == ("blocks" if cv else "rows")
    test = model.permutation_test(2, random_state=1)
    for n, targets in enumerate(permuted(model, 2, 1, X=X, y=y)):
        again = clone(model).fit(X, targets)
        assert test.null_scores[n] == pytest.approx(again.best_score_)
    for answer in (
        lambda: model.nested(3),
        lambda: holdfast.compare(model, y),
    ):
        with pytest.raises(NotSupportedError, match=f"scoring='{scoring}' needs their distrib"):
            answer()


# -- the hold-out of the fit -----------------------------------------------------------------------


def splitters(m):
    place = np.arange(m, dtype=float)[:, None]
    return {
        "hblock": HBlock(4),
        "purged": PurgedKFold(5, purge=3, embargo=2),
        "steps": TimeSteps(place[:, 0], n_splits=6, gap=2),
        "neighbourhood": LeaveNeighbourhoodOut(place, 5.0),
        "series": TimeSeriesSplit(5),
        "folds": KFold(5),
        "fixed": PredefinedSplit(np.where(np.arange(m) < 90, -1, 0)),
    }


SCORERS = (
    "neg_mean_squared_error",
    "neg_root_mean_squared_error",
    "r2",
    "explained_variance",
    "neg_median_absolute_error",
    "kendall_tau",
    "log_density",
)


@pytest.mark.parametrize("name", splitters(4))
@pytest.mark.parametrize("scoring", SCORERS)
def test_the_interval_contains_its_score(name, scoring):
    X, y = walk()
    model = fit(X, y, cv=splitters(y.size)[name], scoring=scoring)
    if (name, scoring) == ("fixed", "log_density"):  # one joint density, and nothing to compare
        with pytest.raises(InvalidInputError, match="Fit with more experiments"):
            model.score_interval()
        return
    found = model.score_interval(random_state=0)
    assert found.method == "asymptotic"
    assert found.score == pytest.approx(model.best_score_)
    assert found.low <= model.best_score_ <= found.high
    with pytest.raises((NotSupportedError, InvalidInputError), match=r"asymptotic|score_int"):
        model.score_interval(method="nested", n_partitions=1, random_state=0)


def test_a_random_walk_under_purged_folds():
    X, y = walk()
    cv = PurgedKFold(5, purge=10, embargo=10)
    model, other = fit(X, y, cv=cv, scoring="r2"), fit(X, y, cv=cv, scoring="r2", gamma=1e-3)
    found = model.score_interval(random_state=0)
    assert found.low <= model.best_score_ <= found.high
    assert model.best_score_ < 0.5 < fit(X, y, cv=KFold(5, shuffle=True), scoring="r2").best_score_
    with pytest.raises(NotSupportedError, match='Use method="asymptotic"'):
        holdfast.compare(model, other, method="nested")
    gap = holdfast.compare(model, other)
    assert gap.difference == pytest.approx(model.best_score_ - other.best_score_)


@pytest.mark.parametrize("cv", [None, 5, KFold(5, shuffle=True), RepeatedKFold(n_splits=5)])
def test_exchangeable_rows_have_nested_intervals(cv):
    X, y, _ = data()
    found = fit(X, y, cv=cv).score_interval(n_partitions=2, random_state=0)
    assert (found.method, found.units) == ("nested", "rows")


@pytest.mark.parametrize("classes", [False, True], ids=["numbers", "classes"])
def test_consecutive_folds_of_rows_in_order_are_blocks(classes):
    X, y = walk()
    if classes:
        model = KernelRidgeClassifierCV(gamma=0.5, alphas=ALPHAS, cv=KFold(6)).fit(X, y > y.mean())
    else:
        model = fit(X, y, cv=KFold(6))
    found = model.score_interval(random_state=0)
    assert (found.method, found.units) == ("asymptotic", "blocks")
    assert found.low <= model.best_score_ <= found.high
    with pytest.raises(NotSupportedError, match="folds of rows in order"):
        model.score_interval(method="nested")
    with pytest.raises(NotSupportedError, match="folds of rows in order"):
        holdfast.compare(model, model, method="nested")
    assert holdfast.compare(model, model).units == "blocks"
    # In another order the same rows are a sample like any other.
    order = np.random.default_rng(0).permutation(y.size)
    mixed = fit(X[order], y[order], cv=KFold(6))
    found = mixed.score_interval(n_partitions=2, random_state=0)
    assert (found.method, found.units) == ("nested", "rows")


def test_groups_that_lie_together_stay_the_units():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(12), 5)
    y = rng.normal(size=12)[groups] + 0.1 * rng.normal(size=M)
    model = fit(rng.normal(size=(M, 2)), y, groups, cv=LeaveOneGroupOut())
    found = model.score_interval(n_splits=4, n_partitions=2, random_state=0)
    assert (found.method, found.units) == ("nested", "groups")


def test_blocks_of_time_are_the_units():
    X, y = walk(m=60)
    model = fit(X, y, cv=HBlock(2))
    found = model.score_interval()
    best = int(np.flatnonzero(model.alphas_ == model.alpha_)[0])
    e = -((y - model.held_out().matrix()[best, :, 0]) ** 2)
    assert found.units == "blocks"
    # Row 0 and the two that leave with it, then five and five, and two more at the end.
    starts = [0, *range(3, 58, 5)]
    g, sums = len(starts), np.add.reduceat(e - e.mean(), starts)
    se = np.sqrt(g / (g - 1) * np.sum(sums**2)) / 60
    assert found.standard_error == pytest.approx(se)
    assert found.high == pytest.approx(e.mean() + stats.t.ppf(0.95, g - 1) * se)


# -- means over experiments, and the variance of R² ------------------------------------------------


def test_r2_is_relative_to_the_tested_rows():
    X, y = walk()
    cv = TimeSeriesSplit(4)
    a, b = fit(X, y, cv=cv, scoring="r2"), fit(X, y, cv=cv, scoring="r2", gamma=0.05)
    tested = np.concatenate([test for _, test in cv.split(X)])
    best = a.held_out(alphas=[a.alpha_]).values[0, :, 0]
    assert a.score_interval().score == pytest.approx(r2_score(y[tested], best))
    found = holdfast.compare(a, b)
    assert found.difference == pytest.approx(a.best_score_ - b.best_score_)


def test_a_mean_over_experiments():
    X, y, _ = data()
    cv = [(np.arange(20, M), np.arange(20)), (np.arange(20), np.arange(20, M))]
    cv += [(np.arange(0, M, 2), np.array([1, 3, 5]))]
    options = {"cv": cv[:2], "scoring": "r2", "pooled": False}
    a, b = fit(X, y, **options), fit(X, y, **options, kernel="linear", gamma=None)
    splits = [
        [m.cv_results_[f"split{j}_test_score"][m.best_index_] for j in (0, 1)] for m in (a, b)
    ]
    found = a.score_interval()
    assert (found.method, found.units) == ("asymptotic", "experiments")
    assert found.score == pytest.approx(a.best_score_)
    assert found.standard_error == pytest.approx(np.std(splits[0], ddof=1) / np.sqrt(2))
    gap = holdfast.compare(a, b)
    np.testing.assert_allclose(gap.scores, [a.best_score_, b.best_score_])
    assert gap.difference == pytest.approx(a.best_score_ - b.best_score_)
    assert gap.units == "experiments"
    assert gap.low < gap.difference < gap.high
    with pytest.raises(NotSupportedError, match='Use method="asymptotic"'):
        a.score_interval(method="nested")
    twice = fit(X, y, cv=cv, pooled=False)
    with pytest.raises(NotSupportedError, match="Fit with pooled=True"):
        twice.score_interval(method="asymptotic")


@pytest.mark.parametrize("pooled", [True, False])
def test_differences_are_differences_of_scores(pooled):
    X, y, _ = data()
    cv = RepeatedKFold(n_splits=7, n_repeats=2, random_state=0)
    options = {"cv": cv, "scoring": "r2", "pooled": pooled}
    a, b = fit(X, y, **options), fit(X, y, **options, kernel="linear", gamma=None)
    if not pooled:
        with pytest.raises(NotSupportedError, match="Fit with pooled=True"):
            holdfast.compare(a, b)
        return
    found = holdfast.compare(a, b, method="asymptotic")
    assert found.method == "asymptotic"
    assert found.difference == pytest.approx(a.best_score_ - b.best_score_)
    assert found.difference == pytest.approx(found.scores[0] - found.scores[1])


# -- arguments -------------------------------------------------------------------------------------


def test_arguments_of_compare():
    X, y, _ = data()
    a = fit(X, y)
    for options, words in (
        ({"n_splits": 2.5}, "n_splits"),
        ({"n_partitions": 0}, "n_partitions"),
        ({"random_state": "x"}, "random_state"),
        ({"random_state": -1}, "random_state"),
        ({"level": "high"}, "level must lie between"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            holdfast.compare(a, a, **options)


@pytest.mark.parametrize("answer", ["interval", "permutation", "compare"])
def test_random_states_mean_what_they_do_in_scikit_learn(answer):
    X, y, _ = data()
    a, b = fit(X, y), fit(X, y, gamma=2.0)
    ask = {
        "interval": lambda s: a.score_interval(n_partitions=1, random_state=s).low,
        "permutation": lambda s: a.permutation_test(2, random_state=s).null_scores[0],
        "compare": lambda s: (
            holdfast.compare(a, b, method="nested", n_partitions=1, random_state=s).low
        ),
    }[answer]
    assert ask(1) == ask(1) == ask(np.int64(1))
    assert ask(np.random.RandomState(3)) == ask(np.random.RandomState(3))
    state = np.random.RandomState(3)
    assert ask(state) != ask(state)
    found = []
    for _ in range(2):
        np.random.seed(5)  # noqa: NPY002  # None is NumPy's global generator
        found.append(ask(None))
    assert found[0] == found[1]
    for bad in ("x", -1, 1.5):
        with pytest.raises(InvalidInputError, match="random_state"):
            ask(bad)


def test_a_level_is_checked_everywhere():
    X, y, _ = data()
    a = fit(X, y)
    for ask in (
        lambda level: a.score_interval(level),
        lambda level: a.predict_interval(X, level),
        lambda level: holdfast.compare(a, a, level=level),
    ):
        for level in (0.0, 1, 90, True):
            with pytest.raises(InvalidInputError, match="level must lie between 0 and 1"):
                ask(level)
