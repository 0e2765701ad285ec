"""Rows in the order of time: hold out what lies close before and after, or all that follows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.model_selection import TimeSeriesSplit

from holdfast._typing import AnyArray, IntArray
from holdfast.core.experiments import Experiments, Ragged
from holdfast.data.values import check_labels, whole_number
from holdfast.exceptions import HoldOutError, InvalidInputError
from holdfast.splitters.base import Splitter, plain
from holdfast.splitters.neighbourhood import AroundRows, require_training_rows


class HBlock(AroundRows):
    """Hold out a row with the h rows before and after it and test that row, for every row.

    Burman, Chow and Nolan (1994): for a series in which rows more than h apart are nearly
    independent.

    Parameters
    ----------
    h : int
        Rows on each side. Zero is leave-one-out.

    Notes
    -----
    Rows must be in the order of time, at about equal steps. For unequal steps use
    ``LeaveNeighbourhoodOut(times, radius)``.

    Examples
    --------
    >>> from holdfast.splitters import HBlock
    >>> for experiment in HBlock(1).experiments(4):
    ...     print(experiment)
    HoldOut(held_out=[0, 1], test=[0])
    HoldOut(held_out=[0, 1, 2], test=[1])
    HoldOut(held_out=[1, 2, 3], test=[2])
    HoldOut(held_out=[2, 3], test=[3])
    """

    def __init__(self, h: int) -> None:
        self.h = h

    def steps(self, n_rows: int) -> IntArray:
        """Return the place in time of each row: its number."""
        return np.arange(n_rows)

    def _held_out(self, n_rows: int) -> Ragged:
        h, row = whole_number("h", self.h, 0), np.arange(n_rows)
        start, stop = np.maximum(row - h, 0), np.minimum(row + h + 1, n_rows)
        require_training_rows(stop - start, n_rows, f"h={h}")
        return Ragged.ranges(start, stop)


class PurgedKFold(Splitter):
    """Folds of consecutive rows, with rows before and after each held out as well.

    Parameters
    ----------
    n_splits : int, default 5
        Number of folds, at least two; their sizes differ by at most one.
    purge : int, default 0
        Rows before each fold that are held out and not tested.
    embargo : int, default 0
        Rows after each fold that are held out and not tested.

    Notes
    -----
    Rows must be in the order of time. If the target of row t is made of values up to t + k (a
    return over k days), the k rows before a fold share values with it: ``purge=k``. So do the k
    rows after it, and the features of later rows may contain values from the fold: ``embargo=k`` or
    more (López de Prado 2018, chapter 7).

    Examples
    --------
    >>> from holdfast.splitters import PurgedKFold
    >>> for experiment in PurgedKFold(3, purge=1, embargo=2).experiments(9):
    ...     print(experiment)
    HoldOut(held_out=[0, 1, 2, 3, 4], test=[0, 1, 2])
    HoldOut(held_out=[2, 3, 4, 5, 6, 7], test=[3, 4, 5])
    HoldOut(held_out=[5, 6, 7, 8], test=[6, 7, 8])
    """

    def __init__(self, n_splits: int = 5, purge: int = 0, embargo: int = 0) -> None:
        self.n_splits = n_splits
        self.purge = purge
        self.embargo = embargo

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of folds; arguments are ignored."""
        return whole_number("n_splits", self.n_splits, 2)

    def steps(self, n_rows: int) -> IntArray:
        """Return the place in time of each row: its number."""
        return np.arange(n_rows)

    def _experiments(self, n_rows: int) -> Experiments:
        k = self.get_n_splits()
        purge = whole_number("purge", self.purge, 0)
        embargo = whole_number("embargo", self.embargo, 0)
        if k > n_rows:
            raise HoldOutError(
                f"n_splits must be at most the number of rows, {n_rows}; got {k}. Pass more rows "
                "or ask for fewer folds.",
                argument="n_splits",
            )
        sizes = np.bincount(np.arange(n_rows) % k)
        stop = np.cumsum(sizes)
        start = stop - sizes
        first, last = np.maximum(start - purge, 0), np.minimum(stop + embargo, n_rows)
        require_training_rows(last - first, n_rows, f"purge={purge}, embargo={embargo}")
        return Experiments(Ragged.ranges(first, last), Ragged.ranges(start, stop))


class TimeSteps(Splitter):
    """Train on what came before and test what came next, step by step, for rows in any order.

    `sklearn.model_selection.TimeSeriesSplit` for rows that have a time but are not sorted by it.
    Rows of the same time are never on both sides.

    Parameters
    ----------
    times : array-like of shape (m,)
        The time of each row: numbers or dates.
    n_splits : int, default 5
        Number of steps, at least two. Rows are divided into one more part than that, of about equal
        size; the first is never tested.
    gap : int, default 0
        Rows left out between the training rows and the test rows of a step.

    Notes
    -----
    Held out is everything that is not trained on: what is tested, the gap, and all that follows. A
    step with nothing before it, because its first rows have the earliest time, is left out.

    Examples
    --------
    >>> from holdfast.splitters import TimeSteps
    >>> years = [2021, 2019, 2020, 2022, 2020, 2023]
    >>> for experiment in TimeSteps(years, n_splits=2).experiments(6):
    ...     print(experiment)
    HoldOut(held_out=[0, 2, 3, 4, 5], test=[0, 4])
    HoldOut(held_out=[3, 5], test=[3, 5])
    """

    def __init__(self, times: ArrayLike, n_splits: int = 5, gap: int = 0) -> None:
        self.times = plain(times)
        self.n_splits = n_splits
        self.gap = gap

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of steps that have rows to train on; arguments are ignored."""
        return len(self.experiments(np.size(self.times)))

    def among(self, rows: IntArray) -> TimeSteps:
        """Return the steps in time of some of the rows."""
        return TimeSteps(self._checked(np.size(self.times))[rows], self.n_splits, self.gap)

    def steps(self, n_rows: int) -> IntArray:
        """Return the place of each row's time among all times."""
        return np.unique(self._checked(n_rows), return_inverse=True)[1].astype(np.int64)

    def _experiments(self, n_rows: int) -> Experiments:
        k, gap = whole_number("n_splits", self.n_splits, 2), whole_number("gap", self.gap, 0)
        times = self._checked(n_rows)
        order = np.argsort(times, kind="stable")
        if n_rows // (k + 1) < 1 or n_rows - k * (n_rows // (k + 1)) - gap < 1:
            raise HoldOutError(
                f"{k} steps in time and a gap of {gap} leave no row to train on before the first "
                f"step ({n_rows} rows). Ask for fewer steps, or a smaller gap.",
                argument="n_splits",
            )
        held, test = [], []
        for before, now in TimeSeriesSplit(k, gap=gap).split(order):
            earlier = times[order[before]] < times[order[now[0]]]
            if earlier.any():
                held.append(np.delete(np.arange(n_rows), order[before][earlier]))
                test.append(np.sort(order[now]))
        if not held:
            raise HoldOutError(
                "all rows that could be trained on have the same time as those to be tested: "
                "nothing comes before them. Ask for fewer steps.",
                argument="n_splits",
            )
        return Experiments(Ragged.from_arrays(held), Ragged.from_arrays(test))

    def _checked(self, n_rows: int) -> AnyArray:
        times = check_labels("times", self.times, n_rows)
        if times.dtype.kind not in "biufmM":
            raise InvalidInputError(
                f"times must be numbers or dates; got dtype {times.dtype}. Convert text with "
                "pandas.to_datetime or numpy.datetime64.",
                argument="times",
            )
        return times
