"""A table in memory: columns of numbers, categories or moments."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.data.texts import quoted
from holdfast.exceptions import InvalidInputError
from holdfast.tables.arrow import as_arrow, as_texts, import_extra
from holdfast.tables.options import ReadOptions
from holdfast.tables.sources import Source
from holdfast.tables.values import Reading, understand

__all__ = ["Table", "as_table", "read_columns"]


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of one length, each with the way it was read.

    Attributes
    ----------
    readings : mapping of str to Reading
        Kind, values, levels and notes of every column.
    n_rows : int
        The length of every column.
    options : ReadOptions
        How the table was written, where that was said.
    """

    readings: Mapping[str, Reading]
    n_rows: int
    options: ReadOptions = field(default_factory=ReadOptions)

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Return a column: numbers, moments, or the texts of categories ("" where missing)."""
        reading = self.readings[name]
        if reading.kind != "category":
            return reading.values
        return np.asarray(np.array([*reading.levels, ""], dtype=str)[reading.values])

    def columns(self, names: Iterable[str]) -> Table:
        """Return the table with some of its columns."""
        return Table({name: self.readings[name] for name in names}, self.n_rows, self.options)

    def rows(self, rows: NDArray[np.intp]) -> Table:
        """Return the table with some of its rows."""
        taken = {name: reading.take(rows) for name, reading in self.readings.items()}
        return Table(taken, len(rows), self.options)

    def frame(self) -> Any:
        """Return the table as a pandas frame: float64, datetime64, and texts as objects."""
        made = {
            name: np.array([*r.levels, np.nan], dtype=object)[r.values]
            if r.kind == "category"
            else r.values
            for name, r in self.readings.items()
        }
        return import_extra("pandas", "A table").DataFrame(made)

    def missing(self, names: Iterable[str] | None = None) -> dict[str, int]:
        """Return how many values are missing in each column that lacks any."""
        chosen = self.readings if names is None else names
        return {n: count for n in chosen if (count := self.readings[n].missing)}

    def known(self, name: str) -> NDArray[np.intp]:
        """Return the rows in which a column has a value; raise if there is none."""
        rows = np.flatnonzero(~self.readings[name].gaps())
        if not rows.size:
            raise InvalidInputError(
                f"The target column {name!r} has no values: all {self.n_rows:,} are missing. Name "
                "another column.",
                argument="target",
            )
        return rows

    def numbers(self, name: str, role: str) -> NDArray[np.float64]:
        """Return a column of finite numbers; `role` says what it is needed for."""
        reading = self._usable(name, role, "numbers", ("number", "yes/no", "empty"))
        if infinite := int(np.isinf(reading.values).sum()):
            raise InvalidInputError(
                f"The {role} column {name!r} has {infinite:,} infinite values among "
                f"{self.n_rows:,} rows. Leave those rows out of the file.",
                argument=role,
            )
        return reading.values

    def labels(self, name: str, role: str) -> NDArray[np.str_]:
        """Return a column as text without missing values: groups or classes."""
        reading = self._usable(name, role, trouble=False)
        if reading.kind == "category":
            return self[name]
        pa = import_extra("pyarrow", "A table")
        values, codes = np.unique(reading.values, return_inverse=True)
        return np.array(as_texts(pa.array(values)).to_pylist(), dtype=str)[codes]

    def moments(self, name: str) -> NDArray[np.float64]:
        """Return a column by which rows can be put in order of time."""
        reading = self._usable(name, "time", "dates or numbers", ("date", "number", "yes/no"))
        return reading.values.astype(np.int64 if reading.kind == "date" else float).astype(float)

    def _usable(
        self,
        name: str,
        role: str,
        words: str = "",
        kinds: Collection[str] = (),
        *,
        trouble: bool = True,
    ) -> Reading:
        """Return a column without missing values, of one of the kinds if any are named."""
        reading = self.readings[name]
        if reading.trouble and trouble:
            raise InvalidInputError(
                f"The {role} column {name!r} {reading.trouble}.",
                argument=role,
                remedies=reading.remedies,
            )
        if kinds and reading.kind not in kinds:
            example = f"text such as {quoted(next(iter(reading.levels), ''))}"
            held = {"category": example, "empty": "no values"}.get(reading.kind, "dates")
            raise InvalidInputError(
                f"The {role} column {name!r} must hold {words}; it holds {held}.",
                argument=role,
            )
        if reading.missing:
            raise InvalidInputError(
                f"The {role} column {name!r} has {reading.missing:,} missing values among "
                f"{self.n_rows:,} rows. Leave those rows out of the file.",
                argument=role,
            )
        return reading


def read_columns(
    source: Source,
    names: Sequence[str],
    as_text: Collection[str] = (),
    formats: Mapping[str, str] | None = None,
) -> Table:
    """Return the named columns of an open source as a table.

    Parameters
    ----------
    source : Source
        From `open_source`.
    names : sequence of str
        Which columns.
    as_text : collection of str
        Columns whose values are names even if they read as numbers. Numbers written with leading
        zeros, all of one length, are names without saying so.
    formats : mapping of str to str, optional
        Formats of dates in columns that were seen before.
    """
    if not names:
        raise InvalidInputError(f"{source.label} has no columns.")
    text = {*as_text, *source.codes.intersection(names)}
    arrays = source.arrays(names, text)
    if not len(next(iter(arrays.values()))):
        raise InvalidInputError(f"{source.label} has no rows.")
    return _table(arrays, source.options, text, formats, likely=source.likely, place=source.place)


def as_table(
    frame: Any,
    *,
    as_text: Collection[str] = (),
    formats: Mapping[str, str] | None = None,
    options: ReadOptions | None = None,
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
    options : ReadOptions, optional
        How the texts are written, where that is known.
    """
    if isinstance(frame, Table):
        return frame
    pa = import_extra("pyarrow", "A table")
    text = set(as_text)
    if hasattr(frame, "to_arrow"):  # polars
        frame = frame.to_arrow()
    if isinstance(frame, pa.Table):
        arrays = {name: frame.column(i) for i, name in enumerate(frame.column_names)}
    elif hasattr(frame, "columns") and hasattr(frame, "dtypes"):  # pandas
        text.update(str(name) for name in frame.select_dtypes("category").columns)
        arrays = {str(n): as_arrow(frame.iloc[:, i]) for i, n in enumerate(frame.columns)}
    elif isinstance(frame, Mapping):
        arrays = {str(name): as_arrow(values) for name, values in frame.items()}
    else:
        raise InvalidInputError(
            "frame must be a frame of pandas, polars or Arrow, or a mapping of columns; got "
            f"{type(frame).__module__}.{type(frame).__qualname__}.",
            argument="frame",
        )
    if len({len(array) for array in arrays.values()}) != 1:
        raise InvalidInputError("frame must have columns, all of one length.", argument="frame")
    return _table(arrays, options or ReadOptions(), text, formats)


def _table(
    arrays: Mapping[str, Any],
    options: ReadOptions,
    as_text: Collection[str],
    formats: Mapping[str, str] | None,
    **where: Any,
) -> Table:
    known = formats or {}
    readings = {
        name: understand(
            array, name, options, as_text=name in as_text, format=known.get(name), **where
        )
        for name, array in arrays.items()
    }
    return Table(readings, len(next(iter(readings.values())).values), options)
