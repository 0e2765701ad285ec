"""Experiments that cannot be: the message names the experiment and the row."""

import numpy as np
import pytest

from holdfast.core.experiments import Experiments, HoldOut, Ragged, leave_one_out
from holdfast.exceptions import HoldfastError, HoldOutError
from holdfast.splitters.cv import as_experiments


def experiments(*held):
    rows = Ragged.from_arrays([np.array(h) for h in held])
    return Experiments(rows, rows)


@pytest.mark.parametrize(
    ("held_out", "test", "message"),
    [
        ([], None, "got 0 held-out and 0 test rows"),
        ([1, 2], [], "got 2 held-out and 0 test rows"),
        ([1, 2], [2, 5, 7], "row 5 is tested but not held out"),
    ],
)
def test_hold_outs(held_out, test, message):
    with pytest.raises(HoldOutError, match=message):
        HoldOut(held_out, test)


def test_rows_must_be_there():
    experiments([0, 1], [2, 4]).check_rows(5)
    with pytest.raises(HoldfastError, match=r"held_out of experiment 1 of cv.*5"):
        experiments([0, 1], [2, 5], [6]).check_rows(5)
    with pytest.raises(HoldfastError, match="held_out of experiment 2 of cv"):
        experiments([0, 1], [2, 4], [-1, 3]).check_rows(5)


def test_something_must_be_left_to_train_on():
    with pytest.raises(HoldOutError, match=r"experiment 1 of cv holds out every row \(n_samples=3"):
        experiments([0, 1], [0, 1, 2]).check_rows(3)
    assert len(leave_one_out(2)) == 2
    with pytest.raises(HoldOutError):
        leave_one_out(1)


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        (([0, 1], []), "experiment 1 of cv must have at least one test row"),
        (([0, 1, 3], [2, 3]), r"experiment 1 of cv trains on a row that it tests \(row 3\)"),
        (([0, 9], [2]), "train of experiment 1 of cv"),
        (([0], [-9]), "test of experiment 1 of cv"),
        (3, "item 1 is int"),
    ],
)
def test_pairs(pair, message):
    good = np.array([0, 1, 2]), np.array([3])
    with pytest.raises(HoldfastError, match=message):
        as_experiments([good, pair], 4)


def test_what_a_pair_does_not_train_on_is_held_out():
    found = as_experiments([(np.array([0, 3]), np.array([2]))], 5)
    assert found.held_out[0].tolist() == [1, 2, 4]
    assert found.test[0].tolist() == [2]
