"""One data set: rows, targets, and what is known about the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class Dataset:
    """Rows and targets of one data set, and where they came from.

    Attributes
    ----------
    name, source : str
    X : (m, d) array or CSR matrix
        Inputs, in the units of the source.
    y : (m,) array
    groups : (m,) int array, optional
        Sentence, query, subject … of each row.
    is_train : (m,) bool array, optional
        The original training rows.
    """

    name: str
    X: Any
    y: Array
    source: str
    groups: Array | None = None
    is_train: Array | None = None

    def __len__(self) -> int:
        """Return the number of rows."""
        return int(self.X.shape[0])

    def take(self, rows: ArrayLike) -> Dataset:
        """Return the data set of these rows (positions or a mask)."""
        index = np.asarray(rows)
        index = np.flatnonzero(index) if index.dtype == bool else index
        groups = None if self.groups is None else self.groups[index]
        return Dataset(self.name, self.X[index], self.y[index], self.source, groups)

    def train(self) -> Dataset:
        """Return the original training rows."""
        assert self.is_train is not None
        return self.take(self.is_train)

    def test(self) -> Dataset:
        """Return the rows outside the original training rows."""
        assert self.is_train is not None
        return self.take(~self.is_train)
