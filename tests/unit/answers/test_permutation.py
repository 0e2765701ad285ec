"""Permutation tests: the same numbers as refits on permuted targets, valid p-values."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneGroupOut,
    ShuffleSplit,
    TimeSeriesSplit,
)

from holdfast import HoldOut, KernelRidgeClassifierCV, KernelRidgeCV
from holdfast.exceptions import InvalidInputError, NotSupportedError
from holdfast.splitters import HBlock, LeaveNeighbourhoodOut, PurgedKFold, TimeSteps
from permuted import orders, permuted

M = 40
ALPHAS = np.logspace(-3, 1, 5)
BASIS = np.arange(1, M, 4)  # two in each of five folds

pytestmark = pytest.mark.filterwarnings("ignore::holdfast.exceptions.HoldfastWarning")


def data(seed=0, targets=1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(M, 2))
    Y = np.column_stack([np.sin(2 * X @ rng.normal(size=2)) for _ in range(targets)])
    Y += 0.5 * rng.normal(size=Y.shape) + 3.0
    return X, Y[:, 0] if targets == 1 else Y


def weights():
    w = np.random.default_rng(3).uniform(0.3, 2.0, size=M)
    w[[0, 21]] = 0.0
    return w


def fitted(X, y, w=None, groups=None, classifier=False, **options):
    kind = KernelRidgeClassifierCV if classifier else KernelRidgeCV
    options = {"gamma": 0.4, "alphas": ALPHAS, "cv": 5, "random_state": 0, **options}
    return kind(**options).fit(X, y, sample_weight=w, groups=groups)


def check(model, X, y, w=None, n=4, cv=None):
    """The null scores are the best scores of models fitted to permuted targets.

    `cv` exchanges what the model's own does, and tests every row.
    """
    found = model.permutation_test(n, random_state=7)
    targets = permuted(model, n, 7, X=X, y=y, weights=w, cv=cv)
    for one in targets:
        np.testing.assert_array_equal(np.sort(one, axis=0), np.sort(y, axis=0))
    again = clone(model)
    if hasattr(model, "classes_"):  # folds that look at labels stay those of the fit
        again.set_params(cv=list(model.held_out().experiments))
    for number in range(n):
        again.fit(X, targets[number], sample_weight=w)
        np.testing.assert_allclose(found.null_scores[number], again.best_score_, rtol=1e-8)
    np.testing.assert_array_equal(found.score, model.best_score_)
    return found


#: Experiments, and others that exchange the same and test every row.
SPLITS = {
    "loo": (None, None),
    "folds": (5, None),
    "shuffled": (ShuffleSplit(6, test_size=9, random_state=1), 5),
    "series": (TimeSeriesSplit(4), HBlock(2)),
}


@pytest.mark.parametrize("path", ["auto", "spectral", "per_fold", "cholesky"])
@pytest.mark.parametrize("cv", SPLITS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["dense", "sparse", "linear"])
def test_null_scores_are_those_of_refits(kind, path, cv, weighted):
    X, y = data()
    w = weights() if weighted else None
    options = {"dense": {}, "sparse": {"basis": BASIS}, "linear": {"kernel": "linear"}}[kind]
    if weighted:
        options = {**options, "fit_intercept": kind != "sparse"}
    cv, whole = SPLITS[cv]
    check(fitted(X, y, w, cv=cv, path=path, **options), X, y, w, n=2, cv=whole)


@pytest.mark.parametrize("policy", ["remove", "keep", "train", "skip", "reselect"])
def test_policies(policy):
    X, y = data()
    check(fitted(X, y, basis=9, held_out_basis=policy), X, y)


@pytest.mark.parametrize("per_target", [False, True])
def test_many_targets(per_target):
    X, Y = data(targets=3)
    model = fitted(X, Y, alpha_per_target=per_target, basis=9)
    found = check(model, X, Y)
    assert found.null_scores.shape == ((4, 3) if per_target else (4,))
    assert np.shape(found.p_value) == ((3,) if per_target else ())


def test_one_target_with_a_penalty_of_its_own():
    X, y = data()
    found = check(fitted(X, y, alpha_per_target=True), X, y)
    assert found.null_scores.shape == (4, 1)


@pytest.mark.parametrize("scoring", [None, "roc_auc", "neg_log_loss"])
def test_two_classes(scoring):
    X, y = data()
    labels = np.where(y > np.median(y), "yes", "no")
    check(fitted(X, labels, classifier=True, scoring=scoring), X, labels)


def test_three_classes_and_a_basis():
    X, y = data()
    check(
        fitted(X, np.digitize(y, [2.5, 3.5]), classifier=True, basis=9),
        X,
        np.digitize(y, [2.5, 3.5]),
    )


@pytest.mark.parametrize("options", [{"rule": "1se"}, {"pooled": False}, {"scoring": "r2"}])
def test_rules_means_and_scorers(options):
    X, y = data()
    check(fitted(X, y, **options), X, y)
    check(fitted(X, y, basis=BASIS, path="per_fold", **options), X, y)


def test_kernels_are_chosen_anew():
    X, y = data()
    for options in ({}, {"basis": 9}, {"rule": "1se"}):
        check(fitted(X, y, gamma=[0.05, 0.5, 3.0], **options), X, y)


def test_more_permutations_than_are_scored_together():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 2))
    y = 0.05 * X[:, 0] + rng.normal(size=1500)
    model = KernelRidgeCV("linear", alphas=np.logspace(-2, 4, 60)).fit(X, y)
    null = model.permutation_test(200, random_state=3).null_scores  # 18 million predictions
    few = model.permutation_test(5, random_state=3).null_scores
    np.testing.assert_allclose(null[:5], few, rtol=1e-11)
    last = permuted(model, 200, 3, X=X, y=y)[-1]
    assert null[-1] == pytest.approx(clone(model).fit(X, last).best_score_, rel=1e-8)


def test_the_model_stays_as_it_is():
    X, y = data()
    for options in ({}, {"basis": 9}, {"basis": BASIS, "path": "per_fold"}):
        model = fitted(X, y, **options)
        before = model.held_out(cv=4).values
        model.permutation_test(5, random_state=0)
        np.testing.assert_allclose(model.held_out(cv=4).values, before, rtol=1e-12)
        assert model.verify().max_relative_error < 1e-9


# -- what is permuted ------------------------------------------------------------------------------


def test_within_labels():
    X, y = data()
    labels = np.arange(M) % 3
    model = fitted(X, y, weights())
    given = {"X": X, "y": y, "weights": weights(), "within": labels}
    order_of = orders(model, 5, 7, **given)
    for order in order_of:
        np.testing.assert_array_equal(np.sort(order), np.arange(M))
        np.testing.assert_array_equal(labels[order], labels)
        assert order[0] == 0  # rows without weight take no part
        assert order[21] == 21
    found = model.permutation_test(3, within=labels, random_state=7)
    again = clone(model).fit(X, y[order_of[1]], sample_weight=weights())
    assert found.null_scores[1] == pytest.approx(again.best_score_, rel=1e-8)


def test_whole_groups_of_one_size():
    X, y = data()
    groups = np.repeat(np.arange(10), 4)
    groups[-4:] = [9, 9, 11, 11]
    model = fitted(X, y, groups=groups, cv=GroupKFold(3))
    moved = 0
    for order in orders(model, 5, 7, X=X, y=y, groups=groups):
        np.testing.assert_array_equal(np.sort(order), np.arange(M))
        for g in range(9):
            source = order[groups == g]
            np.testing.assert_array_equal(np.diff(source), 1)  # rows stay in their order
            assert len(set(groups[source])) == 1
            moved += groups[source[0]] != g
    assert moved > 20
    found = model.permutation_test(3, groups=groups, random_state=7)
    assert found.null_scores.shape == (3,)


def test_groups_with_one_target_each_move_whatever_their_size():
    rng = np.random.default_rng(0)
    groups = np.sort(rng.integers(0, 8, size=M))
    values = rng.normal(size=8)
    X, _ = data()
    model = fitted(X, values[groups], cv=GroupKFold(3), groups=groups)
    (targets,) = permuted(model, 1, 7, X=X, y=values[groups], groups=groups)
    given = [np.unique(targets[groups == g]) for g in np.unique(groups)]
    assert all(part.size == 1 for part in given)
    assert sorted(float(part[0]) for part in given) == sorted(values[np.unique(groups)].tolist())


def source_groups(order, groups):
    """Return the group that each group's targets come from; rows keep their order."""
    for g in np.unique(groups):
        source = order[groups == g]
        assert len(set(groups[source])) == 1
        assert (np.diff(source) > 0).all()
    return [groups[order[groups == g][0]] for g in np.unique(groups)]


def test_groups_that_are_held_out_change_places():
    X, y = data()
    groups = np.random.default_rng(0).permutation(M) % 10
    for cv in (LeaveOneGroupOut(), GroupKFold(3)):
        model = fitted(X, y, groups=groups, cv=cv)
        assert model.permutation_test(2).exchanged == "groups"
        found = source_groups(orders(model, 1, 7, X=X, y=y, groups=groups)[0], groups)
        assert sorted(found) == list(range(10))
        assert found != list(range(10))
    # Folds of single rows exchange single rows, whatever groups are there; and so do users.
    assert fitted(X, y, groups=groups).permutation_test(2).exchanged == "rows"
    (single,) = orders(model, 1, 7, X=X, y=y, groups=groups, groups_asked=np.arange(M))
    assert len({tuple(groups[single[groups == g]]) for g in range(10)}) == 10


@pytest.mark.parametrize(
    "cv", [HBlock(2), PurgedKFold(4, 1, 1), TimeSeriesSplit(4), KFold(5)], ids=repr
)
def test_series_move_on_as_on_a_ring(cv):
    X, _ = data()
    y = np.cumsum(np.ones(M))  # consecutive targets are alike
    w, live = weights(), np.flatnonzero(weights() > 0)
    model, whole = fitted(X, y, w, cv=cv), HBlock(2) if isinstance(cv, TimeSeriesSplit) else cv
    assert model.permutation_test(2).exchanged == "shifts in time"
    shifts = set()
    for order in orders(model, 20, 7, X=X, y=y, weights=w, cv=whole):
        assert order[[0, 21]].tolist() == [0, 21]
        place = np.searchsorted(live, order[live])
        shifts.add(int(place[0]))
        np.testing.assert_array_equal(place, (np.arange(live.size) + place[0]) % live.size)
    assert len(shifts) > 8
    # Each series of its own moves on by itself.
    labels = np.arange(M) % 2
    order = orders(fitted(X, y, cv=cv), 2, 7, X=X, y=y, cv=whole, within=labels)[1]
    for label in (0, 1):
        np.testing.assert_array_equal(np.diff(order[labels == label]) % M, 2)


def test_rows_of_one_time_move_together():
    X, y = data()
    station, time = np.divmod(np.random.default_rng(0).permutation(M), 10)
    (order,) = orders(fitted(X, y, cv=TimeSteps(time, 9)), 1, 7, X=X, y=y)
    tested = time > 0
    shift = (time[order] - time)[tested] % 10
    assert len(set(shift)) == 1
    assert shift[0] != 0
    assert len(set(zip(time[order], station[order], strict=True))) >= tested.sum() == 36


def test_what_only_the_user_knows_is_refused():
    X, y = data()
    spots = np.random.default_rng(0).uniform(size=(M, 2))
    overlapping = [HoldOut([0, 1, 2]), HoldOut([2, 3, 4]), HoldOut([5, 6])]
    buffers = [HoldOut([0, 7, 9], test=[0]), HoldOut([3, 4], test=[4])]
    for cv in (LeaveNeighbourhoodOut(spots, 0.1), overlapping, buffers):
        model = fitted(X, y, cv=cv)
        with pytest.raises(NotSupportedError, match=r"groups=.*within="):
            model.permutation_test(3)
        labels = np.arange(M) % 4
        assert model.permutation_test(3, groups=labels).exchanged == "groups"
        assert model.permutation_test(3, within=labels).exchanged == "rows"
    sizes = np.repeat(np.arange(8), np.arange(1, 9))[:36]
    model = fitted(X[:36], y[:36], groups=sizes, cv=LeaveOneGroupOut())
    with pytest.raises(InvalidInputError, match="groups of one size"):
        model.permutation_test(3)


def test_seeds():
    X, y = data()
    model = fitted(X, y)
    one, two = (model.permutation_test(9, random_state=3).null_scores for _ in range(2))
    np.testing.assert_array_equal(one, two)
    assert (model.permutation_test(9, random_state=4).null_scores != one).any()
    state = np.random.RandomState(0)
    assert (
        model.permutation_test(9, random_state=state).null_scores
        != model.permutation_test(9, random_state=state).null_scores
    ).any()


# -- p-values --------------------------------------------------------------------------------------


def test_a_clear_signal_and_the_count_of_itself():
    X, y = data()
    found = fitted(X, y).permutation_test(99, random_state=0)
    assert found.p_value == 0.01
    assert "99 permutations" in repr(found)


def test_ties_count():
    """Every permutation of two constant halves within themselves is the data again."""
    X, _ = data()
    y = np.repeat([0.0, 1.0], M // 2)
    found = fitted(X, y).permutation_test(20, within=y, random_state=0)
    assert found.p_value == 1.0


def noise(rng, kind):
    """Return independent rows and targets, alike within groups or over time."""
    if kind == "rows":
        return rng.normal(size=(24, 1)), rng.normal(size=24), None
    if kind == "groups":
        groups = rng.permutation(np.repeat(np.arange(12), 4))
        X, y = rng.normal(size=(12, 1))[groups], rng.normal(size=12)[groups]
        return X + 0.3 * rng.normal(size=(48, 1)), y + 0.3 * rng.normal(size=48), groups
    steps = rng.normal(size=(90, 2))
    for t in range(1, 90):
        steps[t] += 0.7 * steps[t - 1]
    return steps[30:, :1], steps[30:, 1], None


NULLS = {
    "rows": ("rows", KFold(4)),
    "groups": ("groups", LeaveOneGroupOut()),
    "h-block": ("shifts in time", HBlock(5)),
    "purged folds": ("shifts in time", PurgedKFold(4, purge=3, embargo=3)),
}


@pytest.mark.parametrize("null", NULLS)
def test_p_values_are_uniform_under_the_null(null):
    exchanged, cv = NULLS[null]
    values = []
    for seed in range(100):
        rng = np.random.default_rng(seed)
        X, y, groups = noise(rng, exchanged)
        model = KernelRidgeCV("linear", alphas=[1.0, 100.0], cv=cv, random_state=0)
        found = model.fit(X, y, groups=groups).permutation_test(39, random_state=seed)
        assert found.exchanged == exchanged
        values.append(found.p_value - rng.uniform(0, 1 / 40))
    assert stats.kstest(values, "uniform").pvalue > 0.01
    assert np.mean(np.array(values) <= 0.05) <= 0.12


def test_display():
    pytest.importorskip("matplotlib").use("Agg")
    from holdfast.displays import PermutationDisplay

    X, y = data()
    model = fitted(X, y)
    display = model.permutation_test(30, random_state=0).plot()
    assert display.line_.get_xdata()[0] == model.best_score_
    assert display.ax_.get_xlabel() == "neg_mean_squared_error"
    display = PermutationDisplay.from_estimator(model, n_permutations=20, random_state=0)
    assert sum(bar.get_height() for bar in display.bars_) == 20


def test_bad_input():
    X, y = data()
    model = fitted(X, y)
    with pytest.raises(InvalidInputError, match="n_permutations must be a whole number"):
        model.permutation_test(0)
    with pytest.raises(InvalidInputError, match="one label per row"):
        model.permutation_test(5, within=[1, 2])
    with pytest.raises(InvalidInputError, match="nothing can be permuted"):
        model.permutation_test(5, within=np.arange(M))
    with pytest.raises(InvalidInputError, match="each group must have one such label"):
        model.permutation_test(5, within=np.arange(M) % 2, groups=np.arange(M) // 4)
    with pytest.raises(InvalidInputError, match="random_state must be"):
        model.permutation_test(5, random_state="x")


def test_rows_on_a_cluster_are_refused():
    dask = pytest.importorskip("dask.array")
    X, y = data()
    model = fitted(dask.from_array(X, chunks=(20, 2)), y, basis=9)
    with pytest.raises(NotSupportedError, match="in memory"):
        model.permutation_test(3)


def test_a_class_that_leaves_with_its_group():
    """Which class has no training rows depends on the permutation, not on the classes as given."""
    rng = np.random.default_rng(0)
    X, groups = rng.normal(size=(40, 2)), np.arange(40) // 8
    y = np.array(["a", "b"])[(X[:, 0] > 0).astype(int)]
    y[groups == 2] = "c"  # all of its rows are held out together
    options = {
        "gamma": 0.5,
        "alphas": [0.1, 1.0],
        "cv": LeaveOneGroupOut(),
        "scoring": "neg_log_loss",
    }
    model = KernelRidgeClassifierCV(**options).fit(X, y, groups=groups)
    found = model.permutation_test(4, random_state=2)
    targets = permuted(model, 4, 2, X=X, y=y, groups=groups)
    assert found.exchanged == "groups"
    for n in range(4):
        again = KernelRidgeClassifierCV(**options).fit(X, targets[n], groups=groups)
        assert found.null_scores[n] == pytest.approx(again.best_score_)
