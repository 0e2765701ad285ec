"""A table in memory: a frame whose columns are numbers, categories or moments."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.exceptions import InvalidInputError
from holdfast.tables.dates import import_pandas
from holdfast.tables.sources import import_pyarrow
from holdfast.tables.values import Marks, Reading, understand

__all__ = ["Table", "as_table", "make_table"]


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of one length, each with the way it was read.

    Attributes
    ----------
    readings : mapping of str to Reading
        Kind, values, levels and notes of every column.
    n_rows : int
        The length of every column.
    """

    readings: Mapping[str, Reading]
    n_rows: int

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Return a column: numbers, moments, or the texts of categories ("" where missing)."""
        reading = self.readings[name]
        if reading.kind != "category":
            return reading.values
        return np.asarray(np.array([*reading.levels, ""], dtype=str)[reading.values])

    def frame(self, names: Iterable[str] | None = None) -> Any:
        """Return columns as a pandas frame: float64, datetime64, and texts as objects."""
        pd = import_pandas("A table")
        chosen = list(self.readings if names is None else names)
        numbers = [n for n in chosen if self.readings[n].kind in ("number", "yes/no", "empty")]
        made = {}
        for name in chosen:
            reading = self.readings[name]
            if reading.kind == "category":
                made[name] = np.array([*reading.levels, np.nan], dtype=object)[reading.values]
            elif reading.kind == "date":
                made[name] = reading.values
        # One block of numbers, so that 100,000 columns are no more work than one matrix.
        block = np.empty((self.n_rows, len(numbers)), order="F")
        for j, name in enumerate(numbers):
            block[:, j] = self.readings[name].values
        frame = pd.DataFrame(block, columns=numbers, copy=False)
        if made:
            others = pd.DataFrame(made)
            frame = pd.concat([frame, others], axis=1) if numbers else others
        return frame if list(frame.columns) == chosen else frame[chosen]

    def missing(self, names: Iterable[str] | None = None) -> dict[str, int]:
        """Return how many values are missing in each column that lacks any."""
        chosen = self.readings if names is None else names
        return {n: count for n in chosen if (count := self.readings[n].missing)}

    def numbers(self, name: str, role: str) -> NDArray[np.float64]:
        """Return a column of finite numbers; `role` says what it is needed for."""
        reading = self.readings[name]
        if reading.trouble:
            raise InvalidInputError(f"The {role} column {name!r} {reading.trouble}.")
        if reading.kind in ("category", "date"):
            example = next(iter(reading.levels), "")
            held = "dates" if reading.kind == "date" else f"text such as {example!r}"
            raise InvalidInputError(
                f"The {role} column {name!r} must hold numbers; it holds {held}."
            )
        column = reading.values
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
        reading = self.readings[name]
        if reading.missing:
            raise InvalidInputError(
                f"The {role} column {name!r} has {reading.missing:,} missing values among "
                f"{self.n_rows:,} rows. Leave those rows out of the file."
            )
        if reading.kind == "category":
            return self[name]
        values, codes = np.unique(reading.values, return_inverse=True)
        if reading.kind == "date":
            return values.astype(str)[codes]
        return np.array([_level(value) for value in values.tolist()], dtype=str)[codes]

    def moments(self, name: str) -> NDArray[np.float64]:
        """Return a column by which rows can be put in order of time."""
        reading = self.readings[name]
        if reading.trouble:
            raise InvalidInputError(f"The time column {name!r} {reading.trouble}.")
        if reading.kind == "category":
            example = next(iter(reading.levels), "")
            raise InvalidInputError(
                f"The time column {name!r} must hold dates or numbers; it holds text such as "
                f"{example!r}."
            )
        if reading.missing:
            raise InvalidInputError(
                f"The time column {name!r} has {reading.missing:,} missing values among "
                f"{self.n_rows:,} rows. Leave those rows out of the file."
            )
        return reading.values.astype(np.int64 if reading.kind == "date" else float).astype(float)


def _level(value: float) -> str:
    return str(int(value)) if value.is_integer() and abs(value) < 2**63 else repr(value)


def make_table(
    arrays: Mapping[str, Any],
    marks: Marks,
    *,
    as_text: Collection[str] = (),
    formats: Mapping[str, str] | None = None,
    place: Callable[[int], str] = "row {:,}".format,
) -> Table:
    """Return Arrow arrays as a table.

    Parameters
    ----------
    arrays : mapping of str to Arrow array
        Columns of one length.
    marks : Marks
        How numbers and missing values are written.
    as_text : collection of str
        Columns whose values are names even if they read as numbers.
    formats : mapping of str to str, optional
        Formats of dates in columns that were seen before.
    place : callable
        Says where in the file a row stands.
    """
    known = formats or {}
    text = set(as_text)
    readings = {
        name: understand(
            array, name, marks, as_text=name in text, format=known.get(name), place=place
        )
        for name, array in arrays.items()
    }
    return Table(readings, len(next(iter(readings.values())).values) if readings else 0)


def as_table(
    frame: Any, *, as_text: Collection[str] = (), formats: Mapping[str, str] | None = None
) -> Table:
    """Return a frame of pandas, polars or Arrow, or a mapping of columns, as a table.

    Parameters
    ----------
    frame : Table, DataFrame, pyarrow.Table or mapping of str to array
        Text is looked at as the text of a file is: ``"79,99"`` and ``"31.12.2024"`` are understood.
        A pandas column of dtype category holds names.
    as_text : collection of str
        Further columns whose values are names.
    formats : mapping of str to str, optional
        Formats of dates in columns that were seen before.
    """
    if isinstance(frame, Table):
        return frame
    pa = import_pyarrow("A table")
    text = set(as_text)
    if hasattr(frame, "to_arrow"):  # polars
        frame = frame.to_arrow()
    if isinstance(frame, pa.Table):
        arrays = {name: frame.column(i) for i, name in enumerate(frame.column_names)}
    elif hasattr(frame, "columns") and hasattr(frame, "dtypes"):  # pandas
        arrays = {}
        for i, name in enumerate(frame.columns):
            column = frame.iloc[:, i]
            if str(column.dtype) == "category":
                text.add(str(name))
            arrays[str(name)] = _arrow(pa, column)
    elif isinstance(frame, Mapping):
        arrays = {str(name): _arrow(pa, values) for name, values in frame.items()}
    else:
        raise InvalidInputError(
            "frame must be a frame of pandas, polars or Arrow, or a mapping of columns; got "
            f"{type(frame).__module__}.{type(frame).__qualname__}."
        )
    if len({len(array) for array in arrays.values()}) != 1:
        raise InvalidInputError("frame must have columns, all of one length.")
    return make_table(arrays, Marks(), as_text=text, formats=formats)


def _arrow(pa: Any, values: Any) -> Any:
    try:
        return pa.array(values, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError):  # objects of several types
        return pa.array([None if v is None or v != v else str(v) for v in values], pa.string())
