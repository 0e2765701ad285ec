"""Experiments: what is held out, what is tested, what becomes of basis rows."""

import weakref
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneGroupOut,
    LeaveOneOut,
    StratifiedKFold,
    TimeSeriesSplit,
)

from holdfast import Experiments, HoldOut, KernelRidgeClassifierCV, KernelRidgeCV
from reference.retrain import policy_experiment

M = 24
RNG = np.random.default_rng(3)
X = RNG.normal(size=(M, 2))
Y = X[:, 0] + 0.3 * RNG.normal(size=M)
GROUPS = RNG.permutation(np.repeat(np.arange(6), 4))


def experiments(cv, groups=None, kind=KernelRidgeCV, X=X, y=Y, **options):
    """Return the experiments that a model takes a way of holding out for."""
    model = kind(alphas=[1.0], cv=cv, **options).fit(X, y, groups=groups)
    return model.held_out().experiments


def rows_tested(found):
    return [one.test.tolist() for one in found]


def held_in(found):
    return [one.held_out.tolist() for one in found]


def test_hold_out():
    whole = HoldOut([5, 3])
    assert whole.held_out.tolist() == whole.test.tolist() == [5, 3]
    part = HoldOut(np.array([3, 4, 5], dtype=np.uint8), test=[4])
    assert part.held_out.dtype == part.test.dtype == np.int64
    assert part.test.tolist() == [4]
    with pytest.raises(FrozenInstanceError):
        part.test = np.array([3])


def test_hold_out_does_not_keep_the_array_it_was_given():
    rows = np.array([1, 2, 3])
    experiment = HoldOut(rows)
    rows[0] = 99
    assert experiment.held_out.tolist() == [1, 2, 3]


def test_experiments_are_a_sequence():
    found = experiments([HoldOut([0, 1], [1]), HoldOut([1, 2, 3]), HoldOut([7])])
    assert isinstance(found, Experiments)
    assert len(found) == 3
    assert rows_tested(found) == [[1], [1, 2, 3], [7]]
    assert found[-2].held_out.tolist() == [1, 2, 3]
    for part in (slice(2), slice(None, None, -2), slice(2, 99), slice(1, 1)):
        assert isinstance(found[part], Experiments)
        assert rows_tested(found[part]) == rows_tested(found)[part]
    for j in (3, -4):
        with pytest.raises(IndexError):
            found[j]
    assert rows_tested(experiments(found)) == rows_tested(found)  # they are a way of holding out


def test_none_and_leave_one_out_mean_the_same():
    for cv in (None, LeaveOneOut(), M):
        assert held_in(experiments(cv)) == [[i] for i in range(M)]


def test_a_number_means_folds_stratified_for_a_classifier():
    assert rows_tested(experiments(3)) == [test.tolist() for _, test in KFold(3).split(X)]
    labels = np.array([0, 1] * (M // 2))
    stratified = experiments(np.int64(3), kind=KernelRidgeClassifierCV, y=labels)
    expected = [test.tolist() for _, test in StratifiedKFold(3).split(X, labels)]
    assert rows_tested(stratified) == expected


def test_held_out_is_all_that_is_not_trained_on():
    cv = TimeSeriesSplit(3, gap=1, test_size=2)
    for experiment, (train, test) in zip(experiments(cv), cv.split(X), strict=True):
        assert experiment.held_out.tolist() == np.setdiff1d(np.arange(M), train).tolist()
        assert experiment.test.tolist() == test.tolist()
        assert experiment.held_out.size > experiment.test.size


def test_test_rows_keep_their_order_and_may_overlap_between_experiments():
    train = np.arange(5, M)
    found = experiments([(train, [4, 2]), (train[1:], [2, 3])])
    assert rows_tested(found) == [[4, 2], [2, 3]]
    assert held_in(found) == [[0, 1, 2, 3, 4], [0, 1, 2, 3, 4, 5]]


def test_pairs_of_a_splitter_are_taken_one_at_a_time():
    """Training rows of k folds are O(mk) numbers; they must not be collected."""
    alive: list[weakref.ref] = []

    class Folds:
        def get_n_splits(self, X=None, y=None, groups=None):
            return M

        def split(self, X, y=None, groups=None):
            for j in range(M):
                train = np.delete(np.arange(M), j)
                alive.append(weakref.ref(train))
                yield train, np.array([j])
                del train
                assert sum(ref() is not None for ref in alive) <= 1

    assert held_in(experiments(Folds())) == [[j] for j in range(M)]


class Half:
    """Has one of the two attributes of an experiment, and is a pair."""

    def __init__(self, name):
        setattr(self, name, np.array([0]))

    def __iter__(self):
        return iter((np.arange(3, M), np.array([2])))


@pytest.mark.parametrize("name", ["held_out", "test"])
def test_an_item_with_one_attribute_of_an_experiment_is_a_pair(name):
    found = experiments([Half(name)])
    assert (held_in(found), rows_tested(found)) == ([[0, 1, 2]], [[2]])


def test_groups_that_a_splitter_ignores_are_no_reason_to_warn():
    experiments(KFold(2), groups=np.arange(M))  # warnings are errors here


@pytest.mark.parametrize("cv", [LeaveOneGroupOut(), GroupKFold(3)])
def test_many_kinds_of_group_labels(cv):
    import pandas as pd
    import polars as pl

    letters = np.array(list("fbdace"))[GROUPS]
    for groups in (
        GROUPS,
        GROUPS.tolist(),
        letters,
        letters.astype(object),
        pd.Series(letters),
        pd.Series(letters, dtype="category"),
        pl.Series(letters.tolist()),
    ):
        plain = np.asarray(groups)
        assert rows_tested(experiments(cv, groups)) == [
            test.tolist() for _, test in cv.split(X, Y, plain)
        ]


@pytest.mark.parametrize("policy", ["remove", "keep", "train", "skip"])
def test_policies_are_those_of_the_naive_twin(policy):
    """Which rows are tested; `exact` has the predictions."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        basis, sets = rng.permutation(M)[:6], []
        for _ in range(7):
            held = rng.permutation(M)[: rng.integers(2, 9)]
            sets.append(HoldOut(held, held[: rng.integers(1, held.size + 1)]))
        twins = [policy_experiment(one.held_out, one.test, basis, policy) for one in sets]
        found = experiments(sets, basis=basis, held_out_basis=policy)
        assert rows_tested(found) == [T.tolist() for _, T, _ in twins if T.size]


def test_leave_one_group_out_of_many_groups():
    """Fifty thousand of them: no Python object for each."""
    groups = RNG.integers(0, 50_000, size=150_000)
    rows = RNG.normal(size=(groups.size, 1))
    found = experiments(LeaveOneGroupOut(), groups, kernel="linear", X=rows, y=rows[:, 0])
    assert len(found) == np.unique(groups).size
    assert found[7].test.tolist() == np.flatnonzero(groups == np.unique(groups)[7]).tolist()
