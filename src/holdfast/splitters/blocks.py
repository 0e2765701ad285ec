"""Hold out the cells of a grid."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from holdfast._typing import FloatArray, IntArray
from holdfast.data.numbers import check_positive, whole_number
from holdfast.exceptions import HoldOutError, InvalidInputError
from holdfast.experiments.cv import leave_group_out
from holdfast.experiments.experiment import Experiments
from holdfast.experiments.splitter import Splitter, plain
from holdfast.splitters.around import check_coordinates, leave_some


class SpatialBlocks(Splitter):
    """Hold out the rows of each cell of a grid in turn, or of several cells together.

    Parameters
    ----------
    coordinates : array-like of shape (m, d) or (m,)
        The place of each row.
    size : float or array-like of shape (d,)
        Width of the cells, one for all dimensions or one for each. Edges lie at the multiples of
        the width, so a place is in the same cell whatever other rows there are.
    n_splits : int, optional
        Distribute the cells over this many folds: at random, large cells first, each to the fold
        with the fewest rows. By default each cell is held out by itself.
    random_state : int, RandomState or None
        Seed of that distribution; None: a different one each time.

    Notes
    -----
    Rows on both sides of an edge are near each other, and one of them is trained on:
    `LeaveNeighbourhoodOut` has no edges, at the price of one experiment per row.

    Examples
    --------
    >>> from holdfast.splitters import SpatialBlocks
    >>> places = [[0.1, 0.2], [0.9, 0.3], [1.2, 0.1], [0.4, 1.7]]
    >>> SpatialBlocks(places, size=1.0).groups()
    array([0, 0, 2, 1])
    >>> for experiment in SpatialBlocks(places, size=1.0).experiments(4):
    ...     print(experiment)
    HoldOut(held_out=[0, 1], test=[0, 1])
    HoldOut(held_out=[3], test=[3])
    HoldOut(held_out=[2], test=[2])
    """

    def __init__(
        self,
        coordinates: ArrayLike,
        size: float | ArrayLike,
        n_splits: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.coordinates = plain(coordinates)
        self.size = plain(size)
        self.n_splits = n_splits
        self.random_state = random_state

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of cells, or of folds; arguments are ignored."""
        if self.n_splits is None:
            return int(self.groups().max()) + 1
        return whole_number("n_splits", self.n_splits, 2)

    def groups(self) -> IntArray:
        """Return the cell of each row, counted from 0 in the order of the coordinates.

        For anything that takes groups, such as a display or a basis selector.
        """
        points = check_coordinates(self.coordinates)
        steps = points / self._widths(points.shape[1])
        whole = np.rint(steps)
        # 0.3 / 0.1 is 2.9999999999999996: what lies on an edge but for rounding lies on it.
        on_edge = np.abs(steps - whole) <= 1e-9 * np.maximum(1.0, np.abs(steps))
        corner = np.where(on_edge, whole, np.floor(steps))
        return np.asarray(np.unique(corner, axis=0, return_inverse=True)[1].ravel(), dtype=np.int64)

    def _experiments(self, n_rows: int) -> Experiments:
        check_coordinates(self.coordinates, n_rows)
        cell = self.groups()
        counts = np.bincount(cell)
        leave_some(counts, n_rows, f"size={self.size}")
        return leave_group_out(cell if self.n_splits is None else self._dealt(counts)[cell])

    def _dealt(self, counts: IntArray) -> IntArray:
        """Return the fold of each cell."""
        n_splits = self.get_n_splits()
        if n_splits > counts.size:
            raise HoldOutError(
                f"n_splits must be at most the number of cells that hold rows, {counts.size}; got "
                f"{n_splits}. Choose smaller cells or fewer folds.",
                argument="n_splits",
            )
        load = np.zeros(n_splits)
        fold = np.empty(counts.size, dtype=np.int64)
        order = check_random_state(self.random_state).permutation(counts.size)
        for cell in order[np.argsort(-counts[order], kind="stable")]:
            fold[cell] = np.argmin(load)
            load[fold[cell]] += counts[cell]
        return fold

    def _widths(self, n_dimensions: int) -> FloatArray:
        given = np.asarray(self.size, dtype=object)
        widths = np.array([check_positive("size", width) for width in given.ravel()])
        if given.shape not in ((), (n_dimensions,)):
            raise InvalidInputError(
                f"size must be one number, or one for each of the {n_dimensions} dimensions; got "
                f"{self.size!r}. It is in the unit of the coordinates.",
                argument="size",
            )
        return widths
