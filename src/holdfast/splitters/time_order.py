"""Rows in the order of time: hold out what lies close before and after."""

from __future__ import annotations

from typing import Any

import numpy as np

from holdfast.data.numbers import whole_number
from holdfast.exceptions import HoldOutError
from holdfast.experiments.experiment import Experiments
from holdfast.experiments.ragged import Ragged
from holdfast.experiments.splitter import Splitter, count_rows


class HBlock(Splitter):
    """Hold out a row with the h rows before and after it and test that row, for every row.

    Burman, Chow and Nolan (1994): for a series in which rows more than h apart are about
    independent.

    Parameters
    ----------
    h : int
        Rows on each side. Zero is leave-one-out.

    Notes
    -----
    Rows must be in the order of time, at about equal steps. For times at unequal steps use
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

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of rows.

        Parameters
        ----------
        X : array-like of shape (m, ...)
            The rows.
        y : array-like of shape (m,), optional
            Counted if X is None.
        groups : ignored
        """
        return count_rows(X, y)

    def _experiments(self, n_rows: int) -> Experiments:
        h = whole_number("h", self.h, 0)
        row = np.arange(n_rows)
        start, stop = np.maximum(row - h, 0), np.minimum(row + h + 1, n_rows)
        if ((stop - start) == n_rows).any():
            raise HoldOutError(
                f"h={h} holds out all {n_rows} rows around row "
                f"{int(np.argmax(stop - start == n_rows))}; h must be at most "
                f"{(n_rows - 2) // 2} here. Choose a smaller h or pass more rows."
            )
        return Experiments(Ragged.ranges(start, stop), Ragged(row, np.arange(n_rows + 1)))


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
    rows after it, and what the features remember of the fold comes on top: ``embargo=k`` or more
    (López de Prado 2018, chapter 7).

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
        """Return the number of folds.

        Parameters
        ----------
        X, y, groups : ignored
        """
        return whole_number("n_splits", self.n_splits, 2)

    def _experiments(self, n_rows: int) -> Experiments:
        k = whole_number("n_splits", self.n_splits, 2)
        purge = whole_number("purge", self.purge, 0)
        embargo = whole_number("embargo", self.embargo, 0)
        if k > n_rows:
            raise HoldOutError(
                f"n_splits must be at most the number of rows, {n_rows}; got {k}. Pass more rows "
                "or ask for fewer folds."
            )
        sizes = np.full(k, n_rows // k)
        sizes[: n_rows % k] += 1
        stop = np.cumsum(sizes)
        start = stop - sizes
        first, last = np.maximum(start - purge, 0), np.minimum(stop + embargo, n_rows)
        if ((last - first) == n_rows).any():
            raise HoldOutError(
                f"purge={purge} and embargo={embargo} leave no row to train on beside fold "
                f"{int(np.argmax(last - first == n_rows))} of {k} ({n_rows} rows). Purge fewer "
                "rows or pass more."
            )
        return Experiments(Ragged.ranges(first, last), Ragged.ranges(start, stop))
