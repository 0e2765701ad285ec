"""From columns to the matrix a kernel sees, learned once and repeated for new rows."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.exceptions import HoldfastWarning, InvalidInputError
from holdfast.tables.table import Categories, Column, Numbers, Table

__all__ = ["ColumnCode", "Encoded", "TableEncoder"]

# More levels than this are an identifier, not a category.
_MAX_LEVELS = 1000


@dataclass(frozen=True)
class ColumnCode:
    """How one column becomes one feature, or one per level.

    Attributes
    ----------
    name : str
        The column.
    levels : tuple of str or None
        None for numbers. For categories, one 0/1 feature each.
    centre, scale : float
        Subtracted from, then divided into, numbers.
    fill : float, str or None
        What stands in for a missing value; None refuses them.
    """

    name: str
    levels: tuple[str, ...] | None
    centre: float = 0.0
    scale: float = 1.0
    fill: float | str | None = None

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features made of this column."""
        if self.levels is None:
            return (self.name,)
        return tuple(f"{self.name}={level}" for level in self.levels)


@dataclass(frozen=True, eq=False)
class Encoded:
    """A matrix made of a table.

    Attributes
    ----------
    X : ndarray of shape (m, d)
        The features.
    unseen : dict of str to int
        Per column, rows whose level was not among those learned; their features are all 0.
    imputed : dict of str to int
        Per column, values that were missing and have been filled in.
    """

    X: NDArray[np.float64]
    unseen: Mapping[str, int]
    imputed: Mapping[str, int]


@dataclass(frozen=True)
class TableEncoder:
    """Turns named columns into a matrix of numbers; what it learned is saved with the model.

    Attributes
    ----------
    columns : tuple of ColumnCode
        In the order of the features.
    scaled : bool
        Whether numbers are centred and divided by their standard deviation.

    Notes
    -----
    Numbers get mean 0 and standard deviation 1; categories become 0/1 features, which are not
    scaled: two different levels then lie as far apart (√2) as two numbers typically do. Levels,
    scale and fill-in values are learned on all rows, held-out ones included. They never see the
    target, but they are not relearned for each experiment; the report says so.
    """

    columns: tuple[ColumnCode, ...]
    scaled: bool = True

    @classmethod
    def learn(
        cls,
        table: Table,
        features: Sequence[str],
        *,
        scale: bool = True,
        impute: bool = False,
    ) -> TableEncoder:
        """Return the encoder for these columns of a table.

        Parameters
        ----------
        table : Table
            The training data.
        features : sequence of str
            Which columns.
        scale : bool, default True
            Whether to standardise numbers.
        impute : bool, default False
            Whether missing values are filled in: numbers by the median, categories by the most
            frequent level. Otherwise they are refused.
        """
        if not impute:
            _refuse_missing(table, features)
        return cls(
            tuple(_learn_column(name, table[name], scale, impute) for name in features), scale
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The columns a table must have."""
        return tuple(code.name for code in self.columns)

    @property
    def categories(self) -> tuple[str, ...]:
        """The columns that must be read as text."""
        return tuple(code.name for code in self.columns if code.levels is not None)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features, one per column of the matrix."""
        return tuple(name for code in self.columns for name in code.feature_names)

    def transform(self, table: Table) -> Encoded:
        """Return the matrix of a table that has the learned columns.

        Warns
        -----
        HoldfastWarning
            When levels occur that were not there before.
        """
        refusing = [code.name for code in self.columns if code.fill is None]
        _refuse_missing(table, refusing)
        X = np.empty((table.n_rows, len(self.feature_names)))
        unseen: dict[str, int] = {}
        at = 0
        for code in self.columns:
            width = len(code.feature_names)
            count = _encode(code, table[code.name], X[:, at : at + width])
            if count:
                unseen[code.name] = count
            at += width
        if unseen:
            told = ", ".join(f"{name!r}: {count:,} rows" for name, count in unseen.items())
            warnings.warn(
                f"Levels that were not in the training data are encoded as all zeros ({told}).",
                HoldfastWarning,
                stacklevel=2,
            )
        return Encoded(X, unseen, table.missing(self.names))


def _learn_column(name: str, column: Column, scale: bool, impute: bool) -> ColumnCode:
    if isinstance(column, Categories):
        return _learn_levels(name, column, impute)
    infinite = int(np.isinf(column).sum())
    if infinite:
        raise InvalidInputError(
            f"The column {name!r} has {infinite:,} infinite values; leave those rows out or drop "
            "the column."
        )
    known = column[~np.isnan(column)]
    if not len(known):
        raise InvalidInputError(f"The column {name!r} has no values at all; drop it.")
    fill = float(np.median(known)) if impute else None
    if not scale:
        return ColumnCode(name, None, fill=fill)
    filled = column if fill is None else np.where(np.isnan(column), fill, column)
    centre, spread = float(filled.mean()), float(filled.std())
    # A constant column, up to rounding, has no scale of its own; centred it is zero everywhere.
    constant = spread <= 1e-12 * max(abs(centre), np.finfo(float).tiny)
    return ColumnCode(name, None, centre, 1.0 if constant else spread, fill)


def _learn_levels(name: str, column: Categories, impute: bool) -> ColumnCode:
    counts = np.bincount(column.codes[column.codes >= 0], minlength=len(column.levels))
    if len(column.levels) > min(_MAX_LEVELS, max(20, len(column) // 2)):
        examples = ", ".join(repr(level) for level in column.levels[:3])
        raise InvalidInputError(
            f"The column {name!r} is text with {len(column.levels):,} different values in "
            f"{len(column):,} rows ({examples}, …). It looks like an identifier, a free text, or "
            "numbers written with other marks: name the columns to use with --features or leave "
            "this one out with --drop."
        )
    if not len(column.levels):
        raise InvalidInputError(f"The column {name!r} has no values at all; drop it.")
    fill = column.levels[int(counts.argmax())] if impute else None
    # Sorted, so that the order of the rows does not decide the order of the features.
    return ColumnCode(name, tuple(sorted(column.levels)), fill=fill)


def _encode(code: ColumnCode, column: Column, out: NDArray[np.float64]) -> int:
    """Write the features of one column into `out` (m, width); return the rows of unseen level."""
    if code.levels is None:
        if isinstance(column, Categories):
            raise InvalidInputError(
                f"The column {code.name!r} held numbers when the model was fitted; now it holds "
                f"text such as {next(iter(column.levels), '')!r}."
            )
        values: Numbers = column
        if code.fill is not None:
            values = np.where(np.isnan(values), float(code.fill), values)
        if np.isinf(values).any():
            raise InvalidInputError(f"The column {code.name!r} has infinite values.")
        out[:, 0] = (values - code.centre) / code.scale
        return 0
    if not isinstance(column, Categories):
        raise InvalidInputError(
            f"The column {code.name!r} held text when the model was fitted; now it holds numbers."
        )
    place = {level: j for j, level in enumerate(code.levels)}
    known = np.array([place.get(level, -1) for level in column.levels], dtype=np.intp)
    missing = column.codes < 0
    where = np.full(len(column), -1, dtype=np.intp)
    where[~missing] = known[column.codes[~missing]]
    if code.fill is not None:
        where[missing] = place[str(code.fill)]
    out[:] = 0.0
    rows = np.flatnonzero(where >= 0)
    out[rows, where[rows]] = 1.0
    return int((where < 0).sum())


def _refuse_missing(table: Table, names: Sequence[str]) -> None:
    counts = table.missing(names)
    if counts:
        told = ", ".join(f"{name!r}: {count:,}" for name, count in counts.items())
        raise InvalidInputError(
            f"Values are missing (of {table.n_rows:,} rows; {told}). Say --impute to fill in the "
            "median or the most frequent level, leave columns out with --drop, or remove those "
            "rows from the file."
        )
