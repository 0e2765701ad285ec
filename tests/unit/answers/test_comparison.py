"""Comparisons: differences by hand, predictions of other libraries, and what they say."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy import stats
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    RepeatedKFold,
    StratifiedKFold,
    cross_val_predict,
)

import holdfast
from holdfast import HoldOut, KernelRidgeClassifierCV, KernelRidgeCV
from holdfast.exceptions import InvalidInputError, NotSupportedError

M = 60
ALPHAS = np.logspace(-2, 1, 4)

pytestmark = pytest.mark.filterwarnings("ignore::holdfast.exceptions.HoldfastWarning")


def data(seed=0, targets=1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(M, 2))
    Y = np.column_stack([np.sin(2 * X @ rng.normal(size=2)) for _ in range(targets)])
    Y += 0.4 * rng.normal(size=Y.shape)
    return X, Y[:, 0] if targets == 1 else Y


def fitted(X, y, w=None, groups=None, classifier=False, **options):
    kind = KernelRidgeClassifierCV if classifier else KernelRidgeCV
    options = {"gamma": 0.4, "alphas": ALPHAS, "cv": 5, "random_state": 0, **options}
    return kind(**options).fit(X, y, sample_weight=w, groups=groups)


def held_out(model, cv=None):
    index = int(np.flatnonzero(model.alpha_ == ALPHAS)[0])
    return model.held_out(cv).matrix()[index, :, 0]


def error(found, freedom=None):
    """Return the standard error behind an interval at level 0.9."""
    tail = stats.norm.ppf(0.95) if freedom is None else stats.t.ppf(0.95, freedom)
    return (found.high - found.low) / (2 * tail)


def test_difference_by_hand():
    X, y = data()
    a, b = fitted(X, y), fitted(X, y, kernel="linear")
    found = holdfast.compare(a, b, level=0.8, method="asymptotic")
    d = (y - held_out(b)) ** 2 - (y - held_out(a)) ** 2
    se = d.std(ddof=1) / np.sqrt(M)
    assert found.method == "asymptotic"
    assert found.difference == pytest.approx(a.best_score_ - b.best_score_)
    assert found.low == pytest.approx(d.mean() - stats.norm.ppf(0.9) * se)
    np.testing.assert_allclose(found.scores, [a.best_score_, b.best_score_])
    other = holdfast.compare(b, a, level=0.8, method="asymptotic")
    assert other.difference == pytest.approx(-found.difference)
    assert other.low == pytest.approx(-found.high)


def test_experiments_are_those_of_the_first_model():
    X, y = data()
    a, b = fitted(X, y, cv=5), fitted(X, y, cv=None, kernel="linear")
    found = holdfast.compare(a, b, method="asymptotic")
    assert found.scores[1] == pytest.approx(-np.mean((y - held_out(b, 5)) ** 2))
    again = holdfast.compare(a, b, cv=KFold(7), method="asymptotic")
    assert again.scores[0] == pytest.approx(-np.mean((y - held_out(a, KFold(7))) ** 2))


def test_predictions_of_another_library():
    X, y = data()
    model = fitted(X, y)
    other = cross_val_predict(LinearRegression(), X, y, cv=5)
    found = holdfast.compare(model, other, names=["kernel", "line"])
    assert found.scores[1] == pytest.approx(-np.mean((y - other) ** 2))
    lists = [other[test] for _, test in KFold(5).split(X)]
    assert holdfast.compare(model, lists).low == pytest.approx(found.low)
    assert holdfast.compare(other, model).difference == pytest.approx(-found.difference)
    assert "kernel is better than line" in repr(found)


def test_nested_predictions():
    X, y = data()
    model, line = fitted(X, y), fitted(X, y, kernel="linear")
    found = holdfast.compare(model.nested(5), line)
    assert found.scores[0] == pytest.approx(model.nested(5).score())
    others = line.nested(KFold(6, shuffle=True, random_state=0))
    with pytest.raises(InvalidInputError, match="outer experiments"):
        holdfast.compare(model, others)


def test_groups_are_the_units():
    X, y = data()
    groups = np.array(list("abcdefghijklmno"))[np.arange(M) % 15]
    a = fitted(X, y, groups=groups, cv=GroupKFold(5))
    b = fitted(X, y, groups=groups, cv=GroupKFold(5), kernel="linear")
    found = holdfast.compare(a, b, method="asymptotic")
    d = (y - held_out(b)) ** 2 - (y - held_out(a)) ** 2
    sums = np.array([(d - d.mean())[groups == g].sum() for g in np.unique(groups)])
    assert found.units == "groups"
    assert error(found, 14) == pytest.approx(np.sqrt(15 / 14 * (sums**2).sum()) / M)
    assert holdfast.compare(a, b, n_partitions=2).method == "nested"
    by = {"groups": groups, "method": "asymptotic"}
    asked = holdfast.compare(fitted(X, y), fitted(X, y, kernel="linear"), **by)
    assert asked.units == "groups"


def test_what_it_says():
    X, y = data()
    a, b = fitted(X, y), fitted(X, y, kernel="linear")
    for method in ("auto", "asymptotic"):
        same = holdfast.compare(a, a, method=method, n_partitions=3)
        assert same.difference == same.low == same.high == 0.0
        assert "have the same" in repr(same)
    better, worse = holdfast.compare(a, b), holdfast.compare(b, a)
    assert "model a is better than model b" in repr(better)
    assert "model a is worse than model b" in repr(worse)
    close = holdfast.compare(a, fitted(X, y, gamma=0.41))
    assert ("could be chance" in repr(close)) == (close.low <= 0 <= close.high)
    assert all("\n" not in repr(found) for found in (same, better, close))


def test_a_row_that_is_tested_repeatedly_counts_once():
    X, y = data()
    cv = RepeatedKFold(n_splits=5, n_repeats=3, random_state=0)
    a, b = fitted(X, y, cv=cv), fitted(X, y, cv=cv, kernel="linear")
    found, gap = holdfast.compare(a, b, method="asymptotic"), np.zeros(M)
    for model, sign in ((a, -1.0), (b, 1.0)):
        held = model.held_out(alphas=[model.alpha_])
        gap += sign * np.bincount(held.rows, (y[held.rows] - held.values[0, :, 0]) ** 2) / 3
    assert found.difference == pytest.approx(gap.mean())
    assert error(found) == pytest.approx(gap.std(ddof=1) / np.sqrt(M))
    with pytest.raises(InvalidInputError, match="one array per experiment"):
        holdfast.compare(a, y)


def test_nested_intervals_of_a_difference():
    X, y = data()
    a, b = fitted(X, y), fitted(X, y, kernel="linear")
    found = holdfast.compare(a, b, n_splits=5, n_partitions=3)
    assert found.method == "nested"
    assert found.difference == found.scores[0] - found.scores[1]
    plain = holdfast.compare(a, b, method="asymptotic")
    assert found.low < found.difference < found.high
    assert error(found) >= 0.8 * error(plain)
    alone = holdfast.compare(a, a, method="nested", n_splits=5, n_partitions=2)
    assert alone.difference == alone.low == alone.high == 0.0
    with pytest.raises(NotSupportedError, match="made beforehand"):
        holdfast.compare(a, held_out(b), method="nested")
    with pytest.raises(NotSupportedError, match="is not one"):
        holdfast.compare(a, b, method="nested", scoring="neg_root_mean_squared_error")


def test_few_groups_take_fewer_folds():
    X, y = data()
    few = np.arange(M) % 7
    a, b = (fitted(X, y, groups=few, cv=GroupKFold(3), gamma=g) for g in (0.4, 2.0))
    found = holdfast.compare(a, b, n_partitions=2)
    assert (found.method, found.units) == ("nested", "groups")
    with pytest.raises(InvalidInputError, match="n_splits"):
        holdfast.compare(a, b, method="nested", n_partitions=2)


def test_delong_for_two_classes():
    X, y = data()
    labels = np.where(y > np.median(y), "yes", "no")
    cv = StratifiedKFold(5)
    a = fitted(X, labels, classifier=True, scoring="roc_auc", cv=cv)
    b = cross_val_predict(LogisticRegression(), X, labels, cv=cv, method="decision_function")
    found = holdfast.compare(a, b)
    f, pos = held_out(a), labels == "yes"
    assert found.difference == pytest.approx(roc_auc_score(pos, f) - roc_auc_score(pos, b))

    def wins(s):
        return (s[pos][:, None] > s[~pos]) + 0.5 * (s[pos][:, None] == s[~pos])

    gap = wins(f) - wins(b)
    var = gap.mean(axis=1).var() / pos.sum() + gap.mean(axis=0).var() / (~pos).sum()
    assert error(found) == pytest.approx(np.sqrt(var * M / (M - 1)))


def test_labels_as_predictions():
    X, y = data()
    for labels in (np.where(y > 0, "p", "n"), np.digitize(y, [-0.3, 0.3])):
        model = fitted(X, labels, classifier=True)
        forest = RandomForestClassifier(20, random_state=0)
        other = cross_val_predict(forest, X, labels, cv=StratifiedKFold(5))
        found = holdfast.compare(model, other, scoring="accuracy")
        ours = model.held_out(alphas=model.alpha_).score("accuracy")[0]
        assert found.scores[1] == pytest.approx(np.mean(other == labels))
        assert found.difference == pytest.approx(ours - np.mean(other == labels))


def test_other_scores_weights_and_targets():
    X, Y = data(targets=3)
    w = np.random.default_rng(0).uniform(0.5, 2.0, size=M)
    w[4] = 0.0
    a, b = fitted(X, Y, w, alpha_per_target=True), fitted(X, Y, w, kernel="linear")
    found = holdfast.compare(a, b, method="asymptotic")
    assert found.difference == pytest.approx(np.mean(a.best_score_) - b.best_score_)
    assert holdfast.compare(a, b, scoring="r2").scoring == "r2"
    X, y = data()
    a, b = fitted(X, y), fitted(X, y, kernel="linear")
    root = holdfast.compare(a, b, scoring="neg_root_mean_squared_error")
    assert root.difference == pytest.approx(np.sqrt(-b.best_score_) - np.sqrt(-a.best_score_))


def test_skip_compares_what_both_test():
    X, y = data()
    a = fitted(X, y, basis=np.arange(10), held_out_basis="skip")
    b = fitted(X, y, basis=np.arange(5, 20), held_out_basis="skip")
    found = holdfast.compare(a, b)
    assert found.method == "asymptotic"
    index = [int(np.flatnonzero(m.alpha_ == ALPHAS)[0]) for m in (a, b)]
    for i, model in enumerate((a, b)):
        held = model.held_out()
        both = held.rows >= 20
        errors = y[held.rows[both]] - held.values[index[i], both, 0]
        assert found.scores[i] == pytest.approx(-np.mean(errors**2))


def test_tested_rows_may_be_a_part():
    X, y = data()
    cv = [HoldOut(range(0, 20), test=range(5, 10)), HoldOut(range(30, 40))]
    found = holdfast.compare(fitted(X, y, cv=cv), fitted(X, y, cv=cv, kernel="linear"))
    assert found.units == "blocks"  # more held out than tested


def test_bad_input():
    X, y = data()
    a = fitted(X, y)
    with pytest.raises(InvalidInputError, match="at least one fitted model"):
        holdfast.compare(y, y)
    with pytest.raises(InvalidInputError, match="same rows, targets and weights"):
        holdfast.compare(a, fitted(X, y + 1))
    with pytest.raises(InvalidInputError, match="same rows, targets and weights"):
        holdfast.compare(a, fitted(X, y, np.arange(1.0, M + 1)))
    with pytest.raises(InvalidInputError, match="entry 1"):
        holdfast.compare(a, y[:5])
    with pytest.raises(InvalidInputError, match="1 column"):
        holdfast.compare(a, np.ones((M, 2)))
    with pytest.raises(InvalidInputError, match="level"):
        holdfast.compare(a, a, level=90)
    with pytest.raises(InvalidInputError, match="method"):
        holdfast.compare(a, a, method="naive")
    with pytest.raises(InvalidInputError, match="different names"):
        holdfast.compare(a, a, names=["x", "x"])
    with pytest.raises(InvalidInputError, match="one array per experiment"):
        holdfast.compare(a, [y[:1]] * 5)
    median = holdfast.compare(a, fitted(X, y, gamma=2.0), scoring="neg_median_absolute_error")
    assert median.low < median.difference < median.high


@pytest.mark.slow
def test_differences_of_equal_models_are_rarely_significant():
    """Two kernels that suit equally well: the interval holds 0 about nine times in ten."""
    hits = []
    for seed in range(150):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(80, 2))
        y = X[:, 0] + X[:, 1] + rng.normal(size=80)
        a = KernelRidgeCV("linear", alphas=[1.0], cv=10).fit(X[:, :1], y)
        b = KernelRidgeCV("linear", alphas=[1.0], cv=10).fit(X[:, 1:], y)
        found = holdfast.compare(a, b, n_partitions=10)
        hits.append(found.low <= 0 <= found.high)
    assert abs(np.mean(hits) - 0.9) < 3 * np.sqrt(0.09 / 150)


def test_answers_are_printed_in_words():
    X, y = data()
    a, b = fitted(X, y), fitted(X, y, kernel="linear")
    root = f"RMSE {np.sqrt(-a.best_score_):.4g}"
    assert root in repr(a.score_interval(method="asymptotic"))
    assert root in repr(holdfast.compare(a, b, method="asymptotic"))
    assert "neg_" not in "".join(
        map(repr, (a.nested(5), a.permutation_test(3), a.score_interval()))
    )
    found = repr(fitted(X, y, scoring="r2").score_interval(n_partitions=3))
    assert "R² 0." in found
    low, high = map(
        float, re.findall(r"between (-?[\d.]+) and (-?[\d.]+)", repr(a.score_interval()))[0]
    )
    assert 0 < low < high


def test_breeders_compare_correlations_within_groups():
    X, y = data()
    groups = np.arange(M) % 6
    a, b = (fitted(X, y, groups=groups, scoring="pearson", kernel=k) for k in ("rbf", "linear"))
    f = held_out(a)
    each = [stats.pearsonr(y[groups == g], f[groups == g]).statistic for g in range(6)]
    assert a.best_score_ == pytest.approx(np.mean(each))
    found = holdfast.compare(a, b)
    assert (found.method, found.units) == ("asymptotic", "groups")
    assert found.difference == pytest.approx(a.best_score_ - b.best_score_)
    assert a.permutation_test(9).score == a.best_score_
