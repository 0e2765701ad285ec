"""One data set: rows, targets, and what is known about the rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdfast.exceptions import FileFormatError, InvalidInputError

Array = NDArray[Any]
Matrix: TypeAlias = Any  # (m, d) ndarray or scipy.sparse CSR; scipy ships no types


def _frozen(array: Array) -> Array:
    """Return a view that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


@dataclass(frozen=True)
class Dataset:
    """Rows and targets of one data set, and where they came from.

    Attributes
    ----------
    name : str
        The name it was loaded by.
    X : (m, d) array or CSR matrix
        Inputs, in the units of the source. Dense arrays are read-only.
    y : (m,) array
        Target.
    source : str
        Where the rows came from, in words.
    groups : (m,) int array, optional
        Sentence, query, subject … of each row.
    is_train : (m,) bool array, optional
        The original training rows.
    feature_names : tuple of str, optional
        One name per column.
    extra : mapping of str to array
        Further arrays of the source (published folds, a second target, …).
    """

    name: str
    X: Matrix
    y: Array
    source: str
    groups: Array | None = None
    is_train: Array | None = None
    feature_names: tuple[str, ...] | None = None
    extra: Mapping[str, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check that all arrays speak of the same rows, and protect them."""
        m, d = self.X.shape
        by_row = {"y": self.y, "groups": self.groups, "is_train": self.is_train}
        for key, array in by_row.items():
            if array is None:
                continue
            if array.shape != (m,):
                raise FileFormatError(
                    f"Data set {self.name!r} is damaged: {key} has shape {array.shape}, but X has "
                    f"{m} rows. Expected ({m},). Source: {self.source}."
                )
            object.__setattr__(self, key, _frozen(array))
        if self.feature_names is not None and len(self.feature_names) != d:
            raise FileFormatError(
                f"Data set {self.name!r} is damaged: {len(self.feature_names)} feature names for "
                f"{d} columns. Source: {self.source}."
            )
        if isinstance(self.X, np.ndarray):
            object.__setattr__(self, "X", _frozen(self.X))
        object.__setattr__(self, "extra", MappingProxyType(dict(self.extra)))

    def __len__(self) -> int:
        """Return the number of rows."""
        return int(self.X.shape[0])

    def take(self, rows: ArrayLike) -> Dataset:
        """Return the data set of these rows (positions or a mask), without `extra`."""
        index = np.asarray(rows)
        if index.dtype == bool:
            index = np.flatnonzero(index)

        def cut(array: Array | None) -> Array | None:
            return None if array is None else array[index]

        return Dataset(
            name=self.name,
            X=self.X[index],
            y=self.y[index],
            source=self.source,
            groups=cut(self.groups),
            is_train=cut(self.is_train),
            feature_names=self.feature_names,
        )

    def train(self) -> Dataset:
        """Return the original training rows."""
        return self.take(self._split())

    def test(self) -> Dataset:
        """Return the rows outside the original training rows."""
        return self.take(~self._split())

    def _split(self) -> Array:
        if self.is_train is None:
            raise InvalidInputError(
                f"Data set {self.name!r} has no original train/test split. Use X and y, and split "
                "them yourself."
            )
        return self.is_train
