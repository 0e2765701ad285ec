"""Tasks in stacks: which sizes share one, how many fit, and where their numbers go."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from holdfast.core.experiments import Experiments, HoldOut, Ragged
from holdfast.core.tasks import Tasks, resolve
from holdfast.exceptions import HoldOutError, InvalidInputError
from holdfast.splitters.base import Splitter, count_rows, plain
from holdfast.splitters.cv import as_experiments, check_groups, held_and_tested


def ragged(sets):
    return Ragged.from_arrays([np.array(rows, dtype=np.int64) for rows in sets])


def tasks_of(h, e=None, t=None):
    """Return tasks of these sizes; every number tells its task and place."""
    e, t = [0] * len(h) if e is None else e, h if t is None else t
    parts = [
        [100 * j + 10 * kind + np.arange(size) for j, size in enumerate(sizes)]
        for kind, sizes in enumerate((h, e, t))
    ]
    return Tasks(*(ragged(part) for part in parts), np.arange(len(h)))


def test_stacks_hold_every_task():
    h, e, t = [6, 7, 1, 6, 7, 2], [2, 3, 0, 2, 2, 1], [6, 7, 1, 6, 7, 1]
    tasks = tasks_of(h, e, t)
    flat = np.zeros((2, tasks.test.values.size), dtype=int)
    seen = []
    for shape in tasks.shapes():
        seen += shape.index.tolist()
        for i, j in enumerate(shape.index.tolist()):
            assert_array_equal(shape.H[i, : h[j]], tasks.held[j])
            assert_array_equal(shape.E[i, : e[j]], tasks.removed[j])
            assert_array_equal(shape.T[i, : t[j]], tasks.test[j])
        flat[:, shape.out] = np.stack([shape.T, -shape.T])
        part = shape.cut(np.arange(len(shape.index)) == 0)
        assert part.index.tolist() == shape.index[:1].tolist()
    assert sorted(seen) == list(range(6))
    assert_array_equal(flat, [tasks.test.values, -tasks.test.values])


# -- what leaves, and what is left -------------------------------------------------------------


def test_the_experiment_that_leaves_nothing_is_named():
    weights = np.array([1.0, 0.0, 0.0, 2.0])
    for held, j in (([[0], [0, 3]], 1), ([[0, 3], [0]], 0)):
        experiments = as_experiments([HoldOut(h) for h in held], 4)
        with pytest.raises(HoldOutError, match=f"experiment {j} of cv leaves no row"):
            resolve(experiments, weights=weights, basis=None, policy="remove")
    found = resolve(
        as_experiments([HoldOut([0, 1])], 4), weights=weights, basis=None, policy="remove"
    )
    assert found.held[0].tolist() == [0]
    skipped = as_experiments([HoldOut([1]), HoldOut([0, 3])], 4)
    with pytest.raises(HoldOutError, match="experiment 1 of cv leaves no row"):
        resolve(skipped, weights=weights, basis=np.array([1]), policy="skip")


def test_points_of_the_basis_are_no_rows():
    experiments = as_experiments([HoldOut([0, 2]), HoldOut([3])], 5)
    basis = np.array([7, 2, 5, 3])  # two of them are points
    found = resolve(experiments, weights=np.ones(5), basis=basis, policy="remove")
    assert [found.removed[j].tolist() for j in range(2)] == [[1], [3]]
    with pytest.raises(HoldOutError, match="experiment 1 of cv holds out every basis row"):
        resolve(experiments, weights=np.ones(5), basis=np.array([3]), policy="remove")


def test_a_sequence_of_experiments():
    found = as_experiments([HoldOut([0, 1], [1]), HoldOut([2]), HoldOut([3])], 5)
    assert found[-3].held_out.tolist() == [0, 1]
    assert found[-1].held_out.tolist() == [3]
    assert found[0].test.tolist() == [1]
    for j in (3, -4):
        with pytest.raises(IndexError, match=f"experiment {j} of 3"):
            found[j]
    assert repr(found) == "<3 experiments, 1–2 rows held out in each>"
    assert repr(found.select(np.array([1, 2]))) == "<2 experiments, 1 rows held out in each>"
    assert [one.held_out.tolist() for one in found] == [[0, 1], [2], [3]]
    assert (
        repr(HoldOut(range(6))) == "HoldOut(held_out=[0, 1, 2, 3, 4, 5], test=[0, 1, 2, 3, 4, 5])"
    )
    assert "0, 1, 2, 3, 4, 5, … 7 rows]" in repr(HoldOut(range(7)))


def test_a_group_of_ragged_arrays():
    one, other = ragged([[1, 2], []]), ragged([[3]])
    both = Ragged.joined([one, other])
    assert [both[j].tolist() for j in range(3)] == [[1, 2], [], [3]]
    found = Ragged.ranges(np.array([3, 7]), np.array([5, 7]))
    assert [found[j].tolist() for j in range(2)] == [[3, 4], []]
    assert one.owners.tolist() == [0, 0]
    assert len(Ragged.empty(3)) == 3
    copy = one.copy()
    copy.values[0] = 9
    assert one.values[0] == 1


# -- everything that is called cross-validation ------------------------------------------------


class Half:
    """Has one of the two attributes of an experiment, and is a pair."""

    def __init__(self, name):
        setattr(self, name, np.array([0]))

    def __iter__(self):
        return iter((np.array([0, 1]), np.array([2])))


@pytest.mark.parametrize("name", ["held_out", "test"])
def test_an_item_with_one_attribute_of_an_experiment_is_a_pair(name):
    held, tested = held_and_tested([Half(name)], 4, None, None, None, False)
    assert held[0].tolist() == [2, 3]
    assert tested[0].tolist() == [2]


@pytest.mark.parametrize("cv", ["loo", b"loo", 1.5, object()])
def test_what_is_no_cross_validation(cv):
    with pytest.raises(InvalidInputError, match="cv must be None"):
        as_experiments(cv, 5)


@pytest.mark.parametrize("cv", [1, 6, 0, -2])
def test_numbers_of_folds(cv):
    with pytest.raises(HoldOutError, match=r"between 2 and the number of rows \(5,"):
        as_experiments(cv, 5)
    assert len(as_experiments(5, 5)) == 5
    assert len(as_experiments(np.int64(2), 5)) == 2


def test_splitters_that_need_groups_say_so():
    from sklearn.model_selection import GroupKFold

    with pytest.raises(HoldOutError, match="Pass groups, one label per row"):
        as_experiments(GroupKFold(2), 4)
    with pytest.raises(HoldOutError) as told:
        as_experiments(GroupKFold(3), 4, groups=[0, 0, 1, 1])
    assert "Pass groups" not in str(told.value)
    with pytest.raises(HoldOutError, match="at least one experiment; got none"):
        as_experiments([], 4)
    assert check_groups(["a", "b"], 2).tolist() == ["a", "b"]


class Each(Splitter):
    """Hold out each of the first rows, with its neighbour."""

    def __init__(self, count=2, more=None):
        self.count, self.more = count, more

    def _experiments(self, n_rows):
        rows = [[j, j + 1] for j in range(self.count)]
        return Experiments(ragged(rows), ragged([[j] for j in range(self.count)]))

    def get_n_splits(self, X=None, y=None, groups=None):
        return self.count


def test_a_splitter_counts_rows_by_x_or_else_by_y():
    for X, y in ((np.zeros((4, 2)), None), (None, np.zeros(4)), (np.zeros((4, 1)), np.zeros(9))):
        (first, second) = Each().split(X, y)
        assert [rows.tolist() for rows in first] == [[2, 3], [0]]
        assert [rows.tolist() for rows in second] == [[0, 3], [1]]
    assert count_rows([1, 2, 3]) == 3
    assert count_rows(None, [1, 2]) == 2
    with pytest.raises(InvalidInputError, match="got NoneType"):
        count_rows(None)
    with pytest.raises(InvalidInputError, match="got int"):
        count_rows(3)
    with pytest.raises(InvalidInputError):
        Each().experiments(1)
    with pytest.raises(HoldOutError, match="holds out every row"):
        Each(1).experiments(2)


def test_a_splitter_in_words():
    assert repr(Each()) == "Each()"
    assert repr(Each(3, np.zeros((2, 5)))) == "Each(count=3, more=<2 × 5 ndarray>)"
    assert repr(Each(more=list(range(9)))) == "Each(more=<list of 9>)"
    assert repr(Each(more=list(range(8)))) == f"Each(more={list(range(8))})"
    assert plain([1, 2]) == [1, 2]
    array = np.zeros(2)
    assert plain(array) is array

    class Framed:
        def __array__(self, dtype=None, copy=None):
            return np.arange(3)

    assert plain(Framed()).tolist() == [0, 1, 2]
    assert isinstance(plain(np.float64(2.0)), np.float64)
