"""Experiments: what is held out, what is tested, what becomes of basis rows."""

import weakref
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneGroupOut,
    LeaveOneOut,
    StratifiedKFold,
    TimeSeriesSplit,
)

from holdfast import Experiments, HoldOut
from holdfast.core.experiments import Ragged, leave_group_out, leave_one_out
from holdfast.core.tasks import POLICIES, resolve
from holdfast.exceptions import HoldOutError, NotSupportedError
from holdfast.splitters.cv import as_experiments
from reference.retrain import policy_experiment

ragged_lists = st.lists(st.lists(st.integers(0, 30), max_size=6), max_size=8)


def ragged(lists):
    return Ragged.from_arrays([np.array(items, dtype=np.int64) for items in lists])


def lists(values):
    return [values[j].tolist() for j in range(len(values))]


# -- many index arrays as one --------------------------------------------------------------------


@given(ragged_lists)
def test_ragged_keeps_its_items(items):
    stored = ragged(items)
    assert len(stored) == len(items)
    assert lists(stored) == items
    assert stored.sizes.tolist() == [len(item) for item in items]
    assert stored.owners.tolist() == [j for j, item in enumerate(items) for _ in item]


@given(ragged_lists, st.integers(0, 30))
def test_ragged_filter(items, limit):
    stored = ragged(items)
    kept = stored.filter(stored.values < limit)
    assert lists(kept) == [[value for value in item if value < limit] for item in items]


@given(ragged_lists.filter(len), st.data())
def test_ragged_items_in_any_order(items, data):
    index = data.draw(st.lists(st.integers(0, len(items) - 1), max_size=10))
    taken = ragged(items).items(np.array(index, dtype=np.int64))
    assert lists(taken) == [items[j] for j in index]


def test_ragged_stack():
    stored = ragged([[1, 2], [3], [4, 5]])
    assert stored.stack(np.array([2, 0]), 2).tolist() == [[4, 5], [1, 2]]
    assert lists(Ragged.empty(3)) == [[], [], []]
    assert len(Ragged.from_arrays([])) == 0


# -- one experiment -------------------------------------------------------------------------------


def test_hold_out():
    whole = HoldOut([5, 3])
    assert whole.held_out.tolist() == whole.test.tolist() == [5, 3]
    part = HoldOut(np.array([3, 4, 5], dtype=np.uint8), test=[4])
    assert part.held_out.dtype == part.test.dtype == np.int64
    assert part.test.tolist() == [4]
    assert repr(part) == "HoldOut(held_out=[3, 4, 5], test=[4])"
    assert "… 10 rows" in repr(HoldOut(np.arange(10)))
    with pytest.raises(FrozenInstanceError):
        part.test = np.array([3])


def test_hold_out_does_not_keep_the_array_it_was_given():
    rows = np.array([1, 2, 3])
    experiment = HoldOut(rows)
    rows[0] = 99
    assert experiment.held_out.tolist() == [1, 2, 3]


def test_experiments_are_a_sequence():
    experiments = as_experiments([HoldOut([0, 1], [1]), HoldOut([1, 2, 3])], 5)
    assert len(experiments) == 2
    assert experiments[-1].held_out.tolist() == [1, 2, 3]
    assert [e.test.tolist() for e in experiments] == [[1], [1, 2, 3]]
    assert repr(experiments) == "<2 experiments, 2–3 rows held out in each>"
    assert repr(leave_one_out(4)) == "<4 experiments, 1 rows held out in each>"
    chosen = experiments.select(np.array([1, 0, 1]))
    assert [e.held_out.size for e in chosen] == [3, 2, 3]
    for j in (2, -3):
        with pytest.raises(IndexError, match=f"experiment {j} of 2"):
            experiments[j]


# -- from cv to experiments -----------------------------------------------------------------------


def test_slices_of_experiments_are_experiments():
    found = as_experiments(KFold(5), 20)
    for part in (slice(2), slice(None, None, -2), slice(4, 99), slice(3, 3)):
        some = found[part]
        assert isinstance(some, Experiments)
        assert [each.test.tolist() for each in some] == [
            each.test.tolist() for each in list(found)[part]
        ]


def test_leave_one_out_of_a_million_rows_is_two_arrays():
    """No Python object per row: both parts share one pair of flat arrays."""
    experiments = as_experiments(None, 10**6)
    assert len(experiments) == 10**6
    assert experiments.test is experiments.held_out
    for array in (experiments.held_out.values, experiments.held_out.ptr):
        assert type(array) is np.ndarray
        assert array.dtype == np.int64
    assert experiments.held_out.values.nbytes == 8 * 10**6
    assert experiments[123_456].held_out.tolist() == [123_456]
    tasks = resolve(
        experiments, weights=np.ones(10**6), basis=np.arange(0, 10**6, 1000), policy="remove"
    )
    assert type(tasks.removed.values) is np.ndarray
    assert tasks.removed.values.tolist() == list(range(1000))
    shapes = list(tasks.shapes())
    assert sorted(len(shape.index) for shape in shapes) == [1000, 999_000]


def test_leave_one_group_out_of_many_groups_is_two_arrays():
    rng = np.random.default_rng(3)
    groups = rng.integers(0, 100_000, size=300_000)
    experiments = as_experiments(LeaveOneGroupOut(), groups.size, groups=groups)
    assert experiments.test is experiments.held_out
    assert len(experiments) == np.unique(groups).size
    assert (np.diff(groups[experiments.held_out.values]) >= 0).all()


@pytest.mark.parametrize("labels", [[2, 0, 2, 1, 0], ["b", "a", "b", "c", "a"]])
def test_leave_one_group_out_is_scikit_learns(labels):
    groups = np.array(labels)
    expected = [test.tolist() for _, test in LeaveOneGroupOut().split(groups, None, groups)]
    assert lists(leave_group_out(groups).held_out) == expected
    assert lists(as_experiments(LeaveOneGroupOut(), 5, groups=groups).test) == expected


def test_none_and_leave_one_out_mean_the_same():
    for cv in (None, LeaveOneOut()):
        assert lists(as_experiments(cv, 4).held_out) == [[0], [1], [2], [3]]


def test_a_number_means_folds_stratified_for_a_classifier():
    y = np.array([0, 1] * 6)
    plain = as_experiments(3, 12, y=y)
    assert lists(plain.held_out) == [test.tolist() for _, test in KFold(3).split(y)]
    stratified = as_experiments(np.int64(3), 12, y=y, classifier=True)
    expected = [test.tolist() for _, test in StratifiedKFold(3).split(y, y)]
    assert lists(stratified.held_out) == expected


def test_held_out_is_all_that_is_not_trained_on():
    experiments = as_experiments(TimeSeriesSplit(3, gap=1, test_size=2), 12)
    for experiment, (train, test) in zip(
        experiments, TimeSeriesSplit(3, gap=1, test_size=2).split(np.zeros(12)), strict=True
    ):
        assert experiment.held_out.tolist() == np.setdiff1d(np.arange(12), train).tolist()
        assert experiment.test.tolist() == test.tolist()
        assert experiment.held_out.size > experiment.test.size


def test_test_rows_keep_their_order_and_may_overlap_between_experiments():
    experiments = as_experiments([([0, 1], [4, 2]), ([0], [2, 3])], 5)
    assert lists(experiments.test) == [[4, 2], [2, 3]]
    assert lists(experiments.held_out) == [[2, 3, 4], [1, 2, 3, 4]]


def test_experiments_pass_through_and_are_checked():
    experiments = leave_one_out(6)
    assert as_experiments(experiments, 6) is experiments
    with pytest.raises(HoldOutError, match="experiment 5 of cv must hold row numbers from 0 to 4"):
        as_experiments(experiments, 5)


def test_pairs_of_a_splitter_are_taken_one_at_a_time():
    """Training rows of k folds are O(mk) numbers; they must not be collected."""
    alive: list[weakref.ref] = []

    class Folds:
        def get_n_splits(self, X=None, y=None, groups=None):
            return 50

        def split(self, X, y=None, groups=None):
            for j in range(50):
                train = np.delete(np.arange(50), j)
                alive.append(weakref.ref(train))
                yield train, np.array([j])
                del train
                assert sum(ref() is not None for ref in alive) <= 1

    assert lists(as_experiments(Folds(), 50).held_out) == [[j] for j in range(50)]


def test_groups_that_a_splitter_ignores_are_no_reason_to_warn():
    as_experiments(KFold(2), 6, groups=np.arange(6))  # warnings are errors here


def test_many_kinds_of_group_labels():
    import pandas as pd
    import polars as pl

    plain = np.array([0, 0, 1, 1, 2, 2])
    expected = lists(as_experiments(GroupKFold(3), 6, groups=plain).held_out)
    for groups in (
        plain.tolist(),
        np.array(list("aabbcc")),
        np.array(list("aabbcc"), dtype=object),
        pd.Series(list("aabbcc")),
        pd.Series(list("aabbcc"), dtype="category"),
        pl.Series(list("aabbcc")),
    ):
        assert lists(as_experiments(GroupKFold(3), 6, groups=groups).held_out) == expected


# -- policies -------------------------------------------------------------------------------------


def random_problem(seed):
    rng = np.random.default_rng(seed)
    m = 16
    basis = rng.permutation(m)[:6]
    experiments = []
    for _ in range(7):
        held = rng.permutation(m)[: rng.integers(2, 9)]
        if np.isin(basis, held).all():
            continue
        experiments.append(HoldOut(held, held[: rng.integers(1, held.size + 1)]))
    weights = rng.integers(0, 3, size=m).astype(float)
    weights[np.setdiff1d(np.arange(m), np.concatenate([e.held_out for e in experiments]))] = 1.0
    return basis, as_experiments(experiments, m), weights


@pytest.mark.parametrize("policy", ["remove", "keep", "train", "skip"])
@pytest.mark.parametrize("seed", range(10))
def test_policies_are_those_of_the_naive_twin(policy, seed):
    basis, experiments, weights = random_problem(seed)
    expected = [policy_experiment(e.held_out, e.test, basis, policy) for e in experiments]
    tasks = resolve(experiments, weights=weights, basis=basis, policy=policy)
    kept = [j for j, (_, T, _) in enumerate(expected) if T.size]
    assert tasks.source.tolist() == kept
    assert len(tasks) == len(kept)
    for task, j in enumerate(kept):
        H, T, removed = expected[j]
        # Rows without weight do not train anyway: they need not leave the training set.
        assert tasks.held[task].tolist() == [i for i in H.tolist() if weights[i] > 0]
        assert tasks.test[task].tolist() == T.tolist()
        assert basis[tasks.removed[task]].tolist() == removed.tolist()


def test_a_dense_model_removes_with_the_row():
    experiments = as_experiments(3, 6)
    for policy in ("remove", "keep"):
        tasks = resolve(experiments, weights=np.ones(6), basis=None, policy=policy)
        assert lists(tasks.removed) == [[], [], []]
        assert lists(tasks.held) == lists(experiments.held_out)
    for policy in ("train", "skip"):
        with pytest.raises(NotSupportedError, match=f'held_out_basis "{policy}"'):
            resolve(experiments, weights=np.ones(6), basis=None, policy=policy)


def test_reselect_leaves_the_basis_to_the_caller():
    experiments = as_experiments(3, 6)
    tasks = resolve(experiments, weights=np.ones(6), basis=np.array([0, 1]), policy="reselect")
    assert lists(tasks.removed) == [[], [], []]
    assert set(POLICIES) == {"remove", "keep", "train", "skip", "reselect"}


def test_skip_drops_experiments_without_test_rows():
    experiments = leave_one_out(5)
    tasks = resolve(experiments, weights=np.ones(5), basis=np.array([3, 1]), policy="skip")
    assert tasks.source.tolist() == [0, 2, 4]
    assert lists(tasks.test) == [[0], [2], [4]]


def test_what_leaves_nothing_is_refused():
    basis = np.array([0, 1])
    with pytest.raises(HoldOutError, match="experiment 1 of cv holds out every basis row"):
        resolve(
            as_experiments([HoldOut([3]), HoldOut([0, 1])], 4),
            weights=np.ones(4),
            basis=basis,
            policy="remove",
        )
    weights = np.array([1.0, 0.0, 0.0, 1.0])
    with pytest.raises(HoldOutError, match="experiment 0 of cv leaves no row with positive weight"):
        resolve(as_experiments([HoldOut([0, 3])], 4), weights=weights, basis=None, policy="keep")
    with pytest.raises(HoldOutError, match='"skip" leaves no test rows'):
        resolve(leave_one_out(3), weights=np.ones(3), basis=np.arange(3), policy="skip")
    # "train" puts the basis rows back, so that something is left to train on.
    resolve(
        as_experiments([HoldOut([0, 3])], 4), weights=weights, basis=np.array([3]), policy="train"
    )


@given(ragged_lists.filter(len), st.integers(1, 4))
def test_shapes_cover_every_task_once(items, n_basis):
    held = [sorted(set(item)) or [0] for item in items]
    experiments = as_experiments([HoldOut(h, h[: 1 + len(h) // 2]) for h in held], 40)
    basis = np.arange(n_basis) * 7 + 3
    if any(np.isin(basis, h).all() for h in held):
        return
    tasks = resolve(experiments, weights=np.ones(40), basis=basis, policy="remove")
    seen = {}
    for shape in tasks.shapes():
        for row, task in enumerate(shape.index):
            assert shape.H[row].tolist() == tasks.held[task].tolist()
            assert shape.E[row].tolist() == tasks.removed[task].tolist()
            assert shape.T[row].tolist() == tasks.test[task].tolist()
            assert tasks.test.values[shape.out[row]].tolist() == tasks.test[task].tolist()
            seen[int(task)] = shape.out[row].tolist()
    assert sorted(seen) == list(range(len(tasks)))
    assert sorted(place for places in seen.values() for place in places) == list(
        range(tasks.test.values.size)
    )


def test_select_of_tasks():
    experiments = as_experiments([HoldOut([0, 1]), HoldOut([2]), HoldOut([3, 4, 5])], 8)
    tasks = resolve(experiments, weights=np.ones(8), basis=np.array([1, 4, 7]), policy="remove")
    part = tasks.select(np.array([2, 0]))
    assert lists(part.held) == [[3, 4, 5], [0, 1]]
    assert lists(part.removed) == [[1], [0]]
    assert part.source.tolist() == [2, 0]


def test_experiments_are_public():
    import holdfast

    assert holdfast.Experiments is Experiments
    assert holdfast.HoldOut is HoldOut
