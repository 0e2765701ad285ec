"""A table in memory: columns of numbers and columns of categories."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.exceptions import InvalidInputError

__all__ = ["Categories", "Column", "Numbers", "Table", "level_of"]

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Categories:
    """A column of text, each value as a number into the list of levels.

    Attributes
    ----------
    codes : ndarray of int32, shape (m,)
        The level of each row; -1 where the value is missing.
    levels : tuple of str
        The different values, in the order in which they were met.
    """

    codes: NDArray[np.int32]
    levels: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.codes)

    def values(self) -> NDArray[np.str_]:
        """Return the text of each row; empty where the value is missing."""
        texts = np.array([*self.levels, ""], dtype=str)
        return texts[self.codes]


Column = Numbers | Categories


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of one length.

    Attributes
    ----------
    columns : mapping of str to Column
        float64 arrays (missing: NaN) and `Categories`.
    n_rows : int
        The length of every column.
    """

    columns: Mapping[str, Column]
    n_rows: int

    def __getitem__(self, name: str) -> Column:
        return self.columns[name]

    def missing(self, names: Iterable[str] | None = None) -> dict[str, int]:
        """Return how many values are missing in each column that lacks any."""
        counts = {}
        for name in self.columns if names is None else names:
            column = self.columns[name]
            if isinstance(column, Categories):
                count = int((column.codes < 0).sum())
            else:
                count = int(np.isnan(column).sum())
            if count:
                counts[name] = count
        return counts

    def numbers(self, name: str, role: str) -> Numbers:
        """Return a column of finite numbers; `role` says what it is needed for."""
        column = self.columns[name]
        if isinstance(column, Categories):
            example = next(iter(column.levels), "")
            raise InvalidInputError(
                f"The {role} column {name!r} must hold numbers; it holds text such as {example!r}."
            )
        if not np.isfinite(column).all():
            missing = int(np.isnan(column).sum())
            infinite = int(np.isinf(column).sum())
            raise InvalidInputError(
                f"The {role} column {name!r} has {missing:,} missing and {infinite:,} infinite "
                f"values among {self.n_rows:,} rows. Leave those rows out of the file."
            )
        return column

    def labels(self, name: str, role: str) -> NDArray[np.str_]:
        """Return a column as text without missing values: groups or classes."""
        column = self.columns[name]
        missing = self.missing([name]).get(name, 0)
        if missing:
            raise InvalidInputError(
                f"The {role} column {name!r} has {missing:,} missing values among "
                f"{self.n_rows:,} rows. Leave those rows out of the file."
            )
        if isinstance(column, Categories):
            return column.values()
        values, codes = np.unique(column, return_inverse=True)
        return np.array([level_of(value) for value in values], dtype=str)[codes]


def level_of(value: float) -> str:
    """Return a number as the text of a level: whole numbers without a point."""
    return (
        str(int(value)) if float(value).is_integer() and abs(value) < 2**63 else repr(float(value))
    )
