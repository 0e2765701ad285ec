"""Intervals around scores: the formulas by refits, and coverage by simulation."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.metrics import make_scorer, roc_auc_score
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneGroupOut,
    ShuffleSplit,
)

from holdfast import HoldOut, KernelRidgeClassifierCV, KernelRidgeCV
from holdfast.answers.partitions import partitions
from holdfast.exceptions import HoldOutError, InvalidInputError, NotSupportedError

M = 45
ALPHAS = np.logspace(-2, 1, 4)

pytestmark = pytest.mark.filterwarnings("ignore::holdfast.exceptions.HoldfastWarning")


def data(seed=0, targets=1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(M, 2))
    Y = np.column_stack([np.sin(2 * X @ rng.normal(size=2)) for _ in range(targets)])
    Y += 0.4 * rng.normal(size=Y.shape) + 3.0
    return X, Y[:, 0] if targets == 1 else Y


def fitted(X, y, w=None, groups=None, classifier=False, **options):
    kind = KernelRidgeClassifierCV if classifier else KernelRidgeCV
    options = {"gamma": 0.4, "alphas": ALPHAS, "cv": 5, "random_state": 0, **options}
    return kind(**options).fit(X, y, sample_weight=w, groups=groups)


def refit(model, X, y, w, held):
    """Return predictions for held-out rows by a model that is really trained without them."""
    left = np.setdiff1d(np.arange(len(X)), held)
    again = clone(model).set_params(alphas=[float(model.alpha_)], cv=KFold(2))
    if model.basis is not None:
        kept = np.setdiff1d(model.basis_indices_, held)
        again.set_params(basis=np.searchsorted(left, kept))
    return again.fit(X[left], y[left], sample_weight=None if w is None else w[left]).predict(
        X[held]
    )


def mean_and_variance(values, weights, unit):
    """Return the weighted mean over rows, and its plain variance over units."""
    mean = np.average(values, weights=weights)
    total = np.bincount(np.unique(unit, return_inverse=True)[1], weights * (values - mean))
    g = total.size
    return mean, g / (g - 1) * np.sum(total**2) / weights.sum() ** 2


def bates(model, X, y, w, unit, K, n_partitions, seed):
    """Algorithm 1 of Bates, Hastie and Tibshirani, by refits, for the negative squared error."""
    weights = np.ones(M) if w is None else w
    ins, outs, squares, plains, wholes = [], [], [], [], []
    for n in range(n_partitions):
        folds = partitions(unit, None, weights, K, [seed, n])
        e = {}
        for i, j in combinations(range(K), 2):
            held = np.append(folds[i], folds[j])
            loss = -((y[held] - refit(model, X, y, w, held)) ** 2)
            e[i, j], e[j, i] = loss[: folds[i].size], loss[folds[i].size :]
        single = [-((y[f] - refit(model, X, y, w, f)) ** 2) for f in folds]
        wholes.append(np.average(np.concatenate(single), weights=weights[np.concatenate(folds)]))
        for k in range(K):
            others = [j for j in range(K) if j != k]
            rows = np.concatenate([folds[j] for j in others])
            mean, var = mean_and_variance(
                np.concatenate([e[j, k] for j in others]), weights[rows], unit[rows]
            )
            out, out_var = mean_and_variance(single[k], weights[folds[k]], unit[folds[k]])
            ins.append(mean)
            outs.append(out_var)
            squares.append((mean - out) ** 2)
            plains.append(var)
    ncv = np.mean(ins)
    bias = (1 + (K - 2) / K) * (ncv - np.mean(wholes))
    plain = np.mean(plains)
    excess = max(0.0, np.mean(squares) - np.mean(outs))
    inflation = np.clip(np.sqrt(excess / plain), 1, np.sqrt(K))
    return ncv - bias, np.sqrt(plain * (K - 1) / K) * inflation, bias


@pytest.mark.parametrize("kind", ["dense", "sparse", "linear"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
def test_nested_equals_refits(kind, weighted, grouped):
    X, y = data()
    w = np.random.default_rng(1).uniform(0.5, 2, size=M) if weighted else None
    groups = np.arange(M) // 3 if grouped else None
    cv = GroupKFold(5) if grouped else 5
    options = {"dense": {}, "sparse": {"basis": 12}, "linear": {"kernel": "linear"}}[kind]
    model = fitted(X, y, w, groups, cv=cv, **options)
    found = model.score_interval(n_splits=4, n_partitions=2, random_state=5)
    unit = np.arange(M) if groups is None else groups
    score, se, bias = bates(model, X, y, w, unit, 4, 2, 5)
    assert found.score == pytest.approx(score, rel=1e-8)
    assert found.standard_error == pytest.approx(se, rel=1e-8)
    assert found.bias == pytest.approx(bias, rel=1e-6)
    z = stats.t.ppf(0.95, 14) if grouped else stats.norm.ppf(0.95)
    assert found.high - found.low == pytest.approx(2 * z * se, rel=1e-8)
    assert found.units == ("groups" if grouped else "rows")
    assert 1.0 <= found.inflation <= 2.0


def test_asymptotic_is_the_plain_standard_error():
    X, y = data()
    for cv in (None, 5):
        model = fitted(X, y, cv=cv)
        found = model.score_interval(0.8, "asymptotic")
        best = int(np.flatnonzero(model.alpha_ == ALPHAS)[0])
        e = -((y - model.held_out().matrix()[best, :, 0]) ** 2)
        assert found.score == pytest.approx(model.best_score_)
        assert found.standard_error == pytest.approx(e.std(ddof=1) / np.sqrt(M))
        assert found.low == pytest.approx(e.mean() - stats.norm.ppf(0.9) * found.standard_error)


def test_asymptotic_by_group_and_with_rows_tested_twice():
    X, y = data()
    groups = np.arange(M) % 9
    model = fitted(X, y, groups=groups, cv=LeaveOneGroupOut())
    found = model.score_interval(method="asymptotic")
    best = int(np.flatnonzero(model.alpha_ == ALPHAS)[0])
    e = -((y - model.held_out().matrix()[best, :, 0]) ** 2)
    sums = np.array([(e - e.mean())[groups == g].sum() for g in range(9)])
    assert found.standard_error == pytest.approx(np.sqrt(9 / 8 * (sums**2).sum()) / M)
    # Repeating the same experiments tells nothing new.
    twice = [*KFold(5).split(X), *KFold(5).split(X)]
    one = fitted(X, y, cv=KFold(5)).score_interval(method="asymptotic").standard_error
    two = fitted(X, y, cv=twice).score_interval(method="asymptotic").standard_error
    assert one == pytest.approx(two)


def test_variance_is_the_sum_of_covariances_of_experiments():
    """Pahikkala et al. 2012 (8): Var of a mean of experiments that share rows, by covariances."""
    X, y = data()
    model = fitted(X, y, cv=ShuffleSplit(5, test_size=8, random_state=0))
    found = model.held_out(alphas=[model.alpha_])
    e = -((y[found.rows] - found.values[0, :, 0]) ** 2)
    tests, total = found.rows.reshape(5, 8), 0.0
    d = (e - e.mean()).reshape(5, 8)
    for h in range(5):
        for j in range(5):
            shared = tests[h][:, None] == tests[j][None, :]
            total += (np.outer(d[h], d[j]) * shared).sum()
    n = np.unique(found.rows).size
    error = model.score_interval(method="asymptotic").standard_error
    assert error == pytest.approx(np.sqrt(n / (n - 1) * total / 40**2))


@pytest.mark.parametrize("per_target", [False, True])
@pytest.mark.parametrize("cv", [None, 5, ShuffleSplit(6, random_state=0)])
def test_the_rule_of_one_standard_error_over_rows(cv, per_target):
    X, Y = data(targets=2)
    options = {"cv": cv, "alpha_per_target": per_target, "alphas": np.logspace(-3, 3, 13)}
    model = fitted(X, Y, rule="1se", **options)
    found = model.held_out()
    rows = found.rows
    loss = -((Y[rows] - found.values) ** 2)  # (a, k, v)
    loss = loss if per_target else loss.mean(axis=2, keepdims=True)
    expected = []
    for t in range(loss.shape[2]):
        means = loss[:, :, t].mean(axis=1)
        best = int(np.argmax(means))
        _, var = mean_and_variance(loss[best, :, t], np.ones(rows.size), rows)
        within = np.flatnonzero(means >= means[best] - np.sqrt(var))
        expected.append(found.alphas[within[-1]])
    np.testing.assert_allclose(np.atleast_1d(model.alpha_), expected)
    outer = model.nested(3)  # the same rule inside
    assert outer.alphas.shape == ((3, 2) if per_target else (3,))
    left = np.setdiff1d(np.arange(M), outer.experiments[0].held_out)
    again = clone(model).fit(X[left], Y[left])
    np.testing.assert_allclose(outer.alphas[0], again.alpha_)
    test = model.permutation_test(2, random_state=0)
    assert test.null_scores.shape == ((2, 2) if per_target else (2,))


# -- scores ----------------------------------------------------------------------------------------


def test_scale_of_the_score():
    X, y = data()
    square = fitted(X, y).score_interval(n_partitions=2, n_splits=5, random_state=0)
    root = fitted(X, y, scoring="neg_root_mean_squared_error").score_interval(
        n_partitions=2, n_splits=5, random_state=0
    )
    np.testing.assert_allclose(
        [root.score, root.low, root.high],
        -np.sqrt(-np.array([square.score, square.low, square.high])),
    )
    slope = 1 / (2 * abs(root.score))
    assert root.standard_error == pytest.approx(slope * square.standard_error, rel=1e-5)
    r2 = fitted(X, y, scoring="r2").score_interval(n_partitions=2, n_splits=5, random_state=0)
    assert r2.score == pytest.approx(1 + square.score / y.var())
    assert r2.low == pytest.approx(1 + square.low / y.var())


def test_accuracy_auc_and_log_loss():
    X, y = data()
    labels = np.where(y > np.median(y), "yes", "no")
    decisions = {}
    for scoring in ("accuracy", "roc_auc", "neg_log_loss"):
        model = fitted(X, labels, classifier=True, scoring=scoring)
        found = model.score_interval(method="asymptotic")
        assert found.score == pytest.approx(model.best_score_)
        assert found.low < found.score < found.high
        decisions[scoring] = (model, found)
        nested = model.score_interval(n_partitions=2, n_splits=4, random_state=0)
        assert nested.low < nested.score < nested.high
    model, found = decisions["roc_auc"]
    index = int(np.flatnonzero(model.alpha_ == ALPHAS)[0])
    f, pos = model.held_out().matrix()[index, :, 0], labels == "yes"
    wins = (f[pos][:, None] > f[~pos]) + 0.5 * (f[pos][:, None] == f[~pos])
    delong = (
        wins.mean(axis=1).var(ddof=0) / pos.sum() + wins.mean(axis=0).var(ddof=0) / (~pos).sum()
    )
    assert found.score == pytest.approx(roc_auc_score(pos, f))
    assert found.standard_error == pytest.approx(np.sqrt(delong * M / (M - 1)))


def test_a_scorer_of_ones_own_that_is_a_mean():
    X, y = data()
    pinball = make_scorer(
        lambda t, p: np.mean(np.maximum(0.3 * (t - p), -0.7 * (t - p))), greater_is_better=False
    )
    model = fitted(X, y, scoring=pinball)
    found = model.score_interval(method="asymptotic")
    assert found.score == pytest.approx(model.best_score_)


@pytest.mark.parametrize("method", ["nested", "asymptotic"])
def test_targets(method):
    X, Y = data(targets=3)
    options = {"method": method, "n_splits": 4, "n_partitions": 2, "random_state": 1}
    joint = fitted(X, Y, alphas=[0.1]).score_interval(**options)
    each = fitted(X, Y, alphas=[0.1], alpha_per_target=True).score_interval(**options)
    assert each.score.shape == each.low.shape == (3,)
    assert joint.score == pytest.approx(each.score.mean())
    for t in range(3):
        alone = fitted(X, Y[:, t], alphas=[0.1]).score_interval(**options)
        assert each.low[t] == pytest.approx(alone.low)
        assert each.standard_error[t] == pytest.approx(alone.standard_error)
    assert "between" in repr(each)
    assert "between" in repr(joint)


@pytest.mark.parametrize("policy", ["remove", "keep", "train", "skip", "reselect"])
def test_policies_and_weights_of_zero(policy):
    X, y = data()
    w = np.ones(M)
    w[[2, 9]] = 0.0
    model = fitted(X, y, w, basis=9, held_out_basis=policy)
    for method in ("nested", "asymptotic"):
        found = model.score_interval(0.9, method, n_splits=4, n_partitions=2, random_state=0)
        assert found.low < found.score < found.high


@pytest.mark.parametrize("policy", ["remove", "keep", "train"])
def test_unions_of_folds_equal_refits(policy):
    """What intervals ask for: models without two folds, and one without most of the basis."""
    X, y = data()
    w = np.random.default_rng(1).uniform(0.5, 2, size=M)
    w[[5, 11]] = 0.0
    folds = np.array_split(np.random.default_rng(0).permutation(M), 9)
    pairs = [HoldOut(np.append(a, b)) for i, a in enumerate(folds) for b in folds[:i]]
    pairs.append(HoldOut(np.arange(30)))
    values, expected = (
        fitted(X, y, w, basis=np.arange(0, M, 3), held_out_basis=policy, path=path)
        .held_out(pairs)
        .values
        for path in ("per_fold", "refit")
    )
    np.testing.assert_allclose(values, expected, rtol=1e-8, atol=1e-9)


def test_seeds_and_partitions():
    X, y = data()
    model = fitted(X, y)
    one, two = (model.score_interval(n_partitions=2, random_state=3) for _ in range(2))
    assert one.low == two.low
    assert model.score_interval(n_partitions=2, random_state=4).low != one.low
    labels = np.repeat(["a", "b"], [15, 30])
    folds = partitions(np.arange(M), labels, np.ones(M), 5, 0)
    assert all(np.sum(labels[rows] == "a") == 3 for rows in folds)
    np.testing.assert_array_equal(np.sort(np.concatenate(folds)), np.arange(M))


def test_which_groups_are_held_out():
    X, y = data()
    groups = np.arange(M) // 3
    few = {"n_partitions": 2, "n_splits": 5, "random_state": 0}
    assert fitted(X, y, None, groups, cv=GroupKFold(5)).score_interval(**few).units == "groups"
    assert fitted(X, y, None, groups, cv=None).score_interval(**few).units == "rows"
    assert fitted(X, y).score_interval(groups=groups, **few).units == "groups"


@pytest.mark.parametrize("n_groups", [2, 3, 5, 7, 18])
def test_few_groups_have_intervals_by_default(n_groups):
    rng, groups = np.random.default_rng(0), np.repeat(np.arange(n_groups), 6)
    X = rng.normal(size=(groups.size, 2))
    model = fitted(X, X[:, 0] + rng.normal(size=groups.size), groups=groups, cv=LeaveOneGroupOut())
    found = model.score_interval(n_partitions=2, random_state=0)
    assert found.low < found.score < found.high
    assert found.method == ("nested" if n_groups >= 6 else "asymptotic")
    assert found.units == "groups"


def test_bad_input():
    X, y = data()
    model = fitted(X, y)
    for level in (0.0, 1.0, 90, "high"):
        with pytest.raises(InvalidInputError, match="level must lie between 0 and 1"):
            model.score_interval(level)
    with pytest.raises(InvalidInputError, match="method must be one of"):
        model.score_interval(method="naive")
    with pytest.raises(InvalidInputError, match="at least 3"):
        model.score_interval(n_splits=2)
    with pytest.raises(InvalidInputError, match="at most the number of rows"):
        model.score_interval(method="nested", n_splits=50)
    with pytest.raises(InvalidInputError, match="at least two rows"):
        model.score_interval(method="nested", n_splits=30, n_partitions=1)
    with pytest.raises(InvalidInputError, match="n_partitions"):
        model.score_interval(n_partitions=0)
    two = fitted(X, data(targets=2)[1], scoring="neg_root_mean_squared_error")
    with pytest.raises(NotSupportedError, match="not a mean over rows"):
        two.score_interval(method="nested", n_partitions=1)
    labels = np.where(np.arange(M) < 5, "rare", "usual")
    rare = fitted(X, labels, classifier=True, scoring="roc_auc")
    with pytest.raises(InvalidInputError, match="both classes"):
        rare.score_interval(method="nested", n_splits=9, n_partitions=1)
    skipped = fitted(X, y, basis=np.arange(40), held_out_basis="skip")
    with pytest.raises(HoldOutError, match="no row to test"):
        skipped.score_interval(method="nested", n_splits=20, n_partitions=1, random_state=0)


# -- coverage --------------------------------------------------------------------------------------


def coverage(make, n_sims, methods, **options):
    """Return for each method how often the interval holds the error of the fitted model."""
    hits = dict.fromkeys(methods, 0)
    for seed in range(n_sims):
        model, error = make(np.random.default_rng(seed))
        for method in methods:
            found = model.score_interval(0.9, method, random_state=seed, **options)
            hits[method] += found.low <= -error <= found.high
    return {method: count / n_sims for method, count in hits.items()}


def linear_model(rng, m=60, d=40):
    """Ridge with many columns for its rows: where the plain standard error fails."""
    beta = np.zeros(d)
    beta[:5] = 1.0
    X = rng.normal(size=(m, d))
    y = X @ beta + rng.normal(size=m)
    model = KernelRidgeCV("linear", alphas=[0.5], cv=10).fit(X, y)
    coef = model.dual_coef_ @ X
    error = np.sum((coef - beta) ** 2) + model.intercept_**2 + 1.0
    assert np.allclose(Ridge(alpha=0.5).fit(X, y).coef_, coef)
    return model, error


@pytest.mark.slow
def test_coverage_where_the_plain_standard_error_fails():
    n = 100
    found = coverage(linear_model, n, ("asymptotic", "nested"), n_splits=10, n_partitions=12)
    noise = np.sqrt(0.9 * 0.1 / n)
    assert found["nested"] > 0.9 - 3 * noise, found
    assert found["asymptotic"] < found["nested"], found
    assert found["asymptotic"] < 0.9 - noise, found


@pytest.mark.slow
def test_coverage_of_a_stable_model():
    def make(rng):
        X = rng.uniform(-3, 3, size=(200, 1))
        y = np.sin(X[:, 0]) + 0.5 * rng.normal(size=200)
        model = KernelRidgeCV(gamma=0.5, alphas=[1.0], cv=10).fit(X, y)
        new = rng.uniform(-3, 3, size=(4000, 1))
        return model, np.mean((model.predict(new) - np.sin(new[:, 0])) ** 2) + 0.25

    n = 100
    found = coverage(make, n, ("asymptotic", "nested"), n_splits=10, n_partitions=4)
    noise = np.sqrt(0.9 * 0.1 / n)
    assert abs(found["asymptotic"] - 0.9) < 3 * noise, found
    assert found["nested"] > 0.9 - 3 * noise, found


def test_many_rows_take_the_plain_standard_error():
    """Random partitions of a large dense model would take minutes, and change little."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 2))
    y = X[:, 0] + rng.normal(size=3000)
    model = KernelRidgeCV(gamma=0.1, alphas=[10.0], cv=5).fit(X, y)
    assert model.score_interval().method == "asymptotic"
    assert model.score_interval(n_splits=3, n_partitions=1, random_state=0).method == "nested"
