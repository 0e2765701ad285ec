"""What a preparation learned from its columns, as plain data, and what it makes of new rows.

A model file holds a `Learned` as it is. Everything is checked when one is made, so that a file from
a stranger gives a preparation that works, or an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.exceptions import InvalidInputError
from holdfast.tables.options import ReadOptions
from holdfast.tables.table import Table
from holdfast.tables.values import Reading

__all__ = ["Category", "Dates", "Learned", "Numbers", "date_parts"]

#: What a date can become, and how long its circle is, in days; the position has none.
PARTS = {"position": None, "season": 365.2425, "weekday": 7.0, "hour": 1.0}
_DAY_US = 86_400_000_000
# In microseconds since 1970. Seasons begin in January, weeks on Monday, days at midnight.
_CIRCLE_STARTS = {"season": 946_684_800_000_000, "weekday": 978_307_200_000_000, "hour": 0}


def _is(value: Any, kind: type) -> bool:
    return isinstance(value, kind)  # whatever the annotations of a file's contents promise


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise InvalidInputError(f"What was learned of the columns is inconsistent: {what}.")


@dataclass(frozen=True, eq=False)
class Numbers:
    """The columns of numbers."""

    names: tuple[str, ...]
    centre: NDArray[np.float64]  #: What is subtracted
    spread: NDArray[np.float64]  #: What is divided by
    fill: NDArray[np.float64]  #: What missing values become; NaN if they are refused

    def __post_init__(self) -> None:
        _require(_is(self.names, tuple), "names of numbers")
        for part in (self.centre, self.spread, self.fill):
            fits = _is(part, np.ndarray) and part.dtype == np.float64
            _require(fits and part.shape == (len(self.names),), "numbers")
        finite = np.isfinite(self.centre).all() and np.isfinite(self.spread).all()
        _require(bool(finite and (self.spread > 0).all()), "centre and spread of numbers")
        _require(not np.isinf(self.fill).any(), "values to fill in")

    @classmethod
    def learn(cls, table: Table, names: tuple[str, ...], scale: bool, impute: bool) -> Numbers:
        """Return centre, spread and median of columns; the spread of a constant column is 1."""
        from sklearn.preprocessing import StandardScaler

        centre, spread = np.zeros(len(names)), np.ones(len(names))
        fill = np.full(len(names), np.nan)
        if names and (impute or scale):
            block = np.column_stack([table.readings[name].values for name in names])
            if impute:
                fill = np.nanmedian(block, axis=0)
                np.copyto(block, fill, where=np.isnan(block))
            if scale:
                # Squares of extreme numbers leave the range: these are scaled by their size first.
                size = np.abs(block).max(axis=0)
                unit = np.where((size > 0) & ((size < 1e-100) | (size > 1e100)), size, 1.0)
                scaler = StandardScaler().fit(block / unit if (unit != 1).any() else block)
                centre, spread = scaler.mean_ * unit, scaler.scale_ * unit
        return cls(names, centre, spread, fill)

    def write(self, table: Table, X: NDArray[np.float64]) -> None:
        """Write the features of a table into a matrix."""
        for j, name in enumerate(self.names):
            X[:, j] = table.readings[name].values
        np.copyto(X, self.fill, where=np.isnan(X))
        X -= self.centre
        X /= self.spread


@dataclass(frozen=True)
class Category:
    """A column of names."""

    levels: tuple[str, ...]  #: Sorted
    fill: str | None  #: What missing values become; None if they are refused

    def __post_init__(self) -> None:
        fits = _is(self.levels, tuple) and all(_is(level, str) for level in self.levels)
        _require(fits and len(set(self.levels)) == len(self.levels) > 0, "levels")
        _require(self.fill is None or self.fill in self.levels, "the level to fill in")

    @classmethod
    def learn(cls, reading: Reading, impute: bool) -> Category:
        """Return the levels, and the most frequent one; the first of several."""
        counts = np.bincount(reading.values[reading.values >= 0], minlength=len(reading.levels))
        ranked = sorted(zip(-counts, reading.levels, strict=True))
        return cls(tuple(sorted(reading.levels)), ranked[0][1] if impute else None)

    def write(self, reading: Reading, X: NDArray[np.float64]) -> None:
        """Write 0 and 1 for each level; a level that is not known has only 0."""
        places = {level: i for i, level in enumerate(self.levels)}
        missing = -1 if self.fill is None else places[self.fill]
        columns = np.array([*(places.get(level, -1) for level in reading.levels), missing])
        column = columns[reading.values]
        X[:] = 0.0
        X[np.flatnonzero(column >= 0), column[column >= 0]] = 1.0


@dataclass(frozen=True)
class Dates:
    """A column of dates, which becomes a few numbers.

    Season, weekday and hour are places on a circle, a sine and a cosine each, of length √2: two
    dates then lie as far apart on average as two values of two standardised columns. Sunday is
    next to Monday and December to January.
    """

    parts: tuple[str, ...]  #: Of "position", "season", "weekday" and "hour"
    origin: int  #: The first date, in microseconds since 1970
    fill: int  #: The median date, which replaces missing ones
    centre: float  #: What is subtracted from the position, in days after the origin
    spread: float  #: What the position is divided by

    def __post_init__(self) -> None:
        known = bool(self.parts) and set(self.parts) <= set(PARTS)
        _require(_is(self.parts, tuple) and known, "parts of dates")
        inside = all(_is(n, int) and abs(n) < 2**62 for n in (self.origin, self.fill))
        _require(inside and np.isfinite(self.centre) and 0 < self.spread < np.inf, "dates")

    @classmethod
    def learn(cls, reading: Reading, *, position: bool, scale: bool) -> Dates:
        """Return origin, scale and which parts the dates suggest."""
        known = np.sort(reading.values[~reading.gaps()])
        origin, fill = (int(v.astype(np.int64)) for v in (known[0], known[(len(known) - 1) // 2]))
        parts = date_parts(known)
        if not position:
            parts = parts[1:] or parts
        days = (_filled(reading, fill) - origin) / _DAY_US
        centre, spread = float(days.mean()), float(days.std()) or 1.0
        return cls(parts, origin, fill, *((centre, spread) if scale else (0.0, 1.0)))

    def write(self, reading: Reading, X: NDArray[np.float64]) -> None:
        """Write the features of a column of dates into a matrix."""
        moments, j = _filled(reading, self.fill), 0
        for part in self.parts:
            length = PARTS[part]
            if length is None:
                X[:, j] = ((moments - self.origin) / _DAY_US - self.centre) / self.spread
                j += 1
            else:
                angle = 2 * np.pi * ((moments - _CIRCLE_STARTS[part]) / _DAY_US) / length
                X[:, j], X[:, j + 1] = np.sqrt(2) * np.sin(angle), np.sqrt(2) * np.cos(angle)
                j += 2

    def names(self, column: str) -> tuple[str, ...]:
        """Return the names of the features."""
        sides = {part: ("",) if PARTS[part] is None else (" sin", " cos") for part in self.parts}
        return tuple(f"{column} {part}{side}" for part in self.parts for side in sides[part])


def _filled(reading: Reading, fill: int) -> NDArray[np.int64]:
    if reading.kind == "empty":
        return np.full(len(reading.values), fill, np.int64)
    return np.where(reading.gaps(), fill, reading.values.astype(np.int64))


def date_parts(dates: NDArray[np.datetime64]) -> tuple[str, ...]:
    """Return which numbers a column of dates suggests.

    The position always; a season where the dates span most of a year, weekdays where they span two
    weeks and fall on several, hours where there are any.
    """
    different = np.unique(dates)
    days = np.unique(different.astype("datetime64[D]"))
    span = float((different[-1] - different[0]).astype("timedelta64[us]").astype(int)) / _DAY_US
    parts = ["position"]
    months = different.astype("datetime64[M]")
    if span >= 350 and len(np.unique(months.astype(int) % 12)) >= 4:
        parts.append("season")
    of_month = len(np.unique((days - days.astype("datetime64[M]")).astype(int)))
    weekdays = len(np.unique(days.astype(int) % 7))
    if span >= 13 and len(days) >= 10 and weekdays >= 2 and of_month >= 5:
        parts.append("weekday")
    hours = np.unique((different - different.astype("datetime64[D]")).astype(np.int64))
    if len(hours) >= 3 and span >= 1.5:
        parts.append("hour")
    return tuple(parts)


@dataclass(frozen=True, eq=False)
class Learned:
    """The contents of a fitted `TablePreparation`: its parameters, and what its columns are."""

    scale: bool
    impute: bool
    time: str | None
    numbers: Numbers
    categories: Mapping[str, Category]
    dates: Mapping[str, Dates]
    formats: Mapping[str, str] = field(default_factory=dict)  #: Of dates written as text
    units: Mapping[str, str] = field(default_factory=dict)  #: Currency or per cent signs
    #: How the file is written, as far as the user said; new rows are read in the same way
    options: ReadOptions = field(default_factory=ReadOptions)

    def __post_init__(self) -> None:
        kinds: tuple[tuple[Any, type], ...] = (
            (self.numbers, Numbers),
            (self.options, ReadOptions),
            *((category, Category) for category in self.categories.values()),
            *((dates, Dates) for dates in self.dates.values()),
            *((text, str) for text in (*self.formats.values(), *self.units.values())),
        )
        _require(all(_is(value, kind) for value, kind in kinds), "kinds of columns")
        names = [*self.numbers.names, *self.categories, *self.dates]
        _require(all(_is(n, str) for n in names) and bool(names), "names of columns")
        _require(len(set(names)) == len(names), "a column occurs twice")
        filled = self.impute == (not np.isnan(self.numbers.fill).any())
        _require(filled or not self.numbers.names, "values to fill in")

    @property
    def kinds(self) -> dict[str, str]:
        """The columns in the order of their features, and what they hold."""
        return {
            **dict.fromkeys(self.numbers.names, "number"),
            **dict.fromkeys(self.categories, "category"),
            **dict.fromkeys(self.dates, "date"),
        }

    def features(self) -> dict[str, tuple[str, ...]]:
        """Return, for each column, the names of its features."""
        return {
            **{name: (name,) for name in self.numbers.names},
            **{n: tuple(f"{n}={level}" for level in c.levels) for n, c in self.categories.items()},
            **{name: dates.names(name) for name, dates in self.dates.items()},
        }

    def unseen(self, table: Table) -> dict[str, int]:
        """Return how many rows have levels that were not there before, by column."""
        found = {}
        for name, category in self.categories.items():
            reading = table.readings[name]
            known = set(category.levels)
            new = np.array([*(level not in known for level in reading.levels), False])
            found[name] = int(new[reading.values].sum())
        return {name: count for name, count in found.items() if count}

    def matrix(self, table: Table) -> NDArray[np.float64]:
        """Return the features of a table that has the columns."""
        features, j = self.features(), len(self.numbers.names)
        X = np.empty((table.n_rows, sum(map(len, features.values()))))
        self.numbers.write(table, X[:, :j])
        parts: dict[str, Category | Dates] = {**self.categories, **self.dates}
        for name, part in parts.items():
            part.write(table.readings[name], X[:, j : j + len(features[name])])
            j += len(features[name])
        return X
