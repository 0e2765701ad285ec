"""A table in memory: columns of numbers, categories or moments, and which plays which role."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.data.texts import quoted
from holdfast.exceptions import InvalidInputError
from holdfast.tables.options import ReadOptions
from holdfast.tables.sources import Source
from holdfast.tables.values import Reading, as_arrow, as_texts, import_extra, understand

__all__ = ["Roles", "Table", "as_table", "check_columns", "read_columns", "split_names"]


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of one length, each with the way it was read."""

    readings: Mapping[str, Reading]  #: Kind, values, levels and notes of every column
    n_rows: int
    options: ReadOptions = field(default_factory=ReadOptions)  #: As far as the user said

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
        return self._usable(name, role, "numbers", ("number", "yes/no", "empty")).values

    def labels(self, name: str, role: str) -> NDArray[np.str_]:
        """Return a column as text without missing values: groups or classes."""
        reading = self._usable(name, role)
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
        self, name: str, role: str, words: str = "", kinds: Collection[str] = ()
    ) -> Reading:
        """Return a column without missing values; if kinds are named, of one, and without fault."""
        reading = self.readings[name]
        if kinds:
            reading.refuse_faults(f"The {role} column {name!r}", role)
        if kinds and reading.kind not in kinds:
            example = f"text such as {quoted(next(iter(reading.levels), ''))}"
            held = {"category": example, "empty": "no values"}.get(reading.kind, "dates")
            raise InvalidInputError(
                f"The {role} column {name!r} must hold {words}; it holds {held}.",
                argument=role,
                remedies=("classify",) if role == "target" else (),
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

    Values of `as_text` are names even if they read as numbers; numbers written with leading zeros,
    all of one length, are names without saying so. `formats` are those of columns of dates that
    were seen before.
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

    Text is looked at as the text of a file is: ``"79,99"`` and ``"31.12.2024"`` are understood. A
    pandas column of dtype category holds names, and so do those of `as_text`. `formats` and
    `options` are what is known of dates that were seen before, and of how texts are written.
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


# --- roles ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Roles:
    """Which columns are features, target, group, weight and time."""

    features: tuple[str, ...]  #: The columns the model sees, before they are prepared
    target: str | None = None
    group: str | None = None
    weight: str | None = None
    time: str | None = None
    named: bool = False  #: Whether the features were named one by one

    @classmethod
    def choose(
        cls,
        source: Source,
        *,
        target: str | None = None,
        group: str | None = None,
        weight: str | None = None,
        time: str | None = None,
        features: str | None = None,
        drop: str | None = None,
    ) -> Roles:
        """Return the roles that the options of a command give the columns of `source`.

        Features and columns to drop are names separated by commas; by default all columns without
        another role are features. Time is one as well, unless it is dropped.
        """
        asked = {"target": target, "group": group, "weight": weight, "time": time}
        for argument, name in asked.items():
            if name is not None:
                _check_known(name, source, argument)
        taken = {target, group, weight} - {None}
        dropped = set(split_names(drop, source, "drop")) if drop else set()
        if features is not None:
            chosen = split_names(features, source, "features")
            for name in chosen:
                if name in taken:
                    raise InvalidInputError(
                        f"features: {name!r} is already the target, group or weight column.",
                        argument="features",
                    )
        else:
            chosen = [name for name in source.names if name not in taken]
        chosen = [name for name in chosen if name not in dropped]
        if not chosen:
            raise InvalidInputError(f"No column of {source.label} is left to be a feature.")
        return cls(tuple(chosen), target, group, weight, time, features is not None)

    def all(self) -> tuple[str, ...]:
        """Return every column that has a role, each once."""
        names = [*self.features, self.target, self.group, self.weight, self.time]
        return tuple(dict.fromkeys(name for name in names if name is not None))


def split_names(text: str, source: Source, argument: str) -> list[str]:
    """Return the columns in a list separated by commas; a column's own commas are tried first."""
    known = set(source.names)
    if text in known:
        return [text]
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in known:
            _check_known(name, source, argument)
    if len(set(names)) != len(names):
        raise InvalidInputError(f"{argument} names a column twice: {text!r}.", argument=argument)
    return names


def check_columns(names: Iterable[str], there: Collection[str], label: str) -> None:
    """Raise unless a table has every one of the columns that a model needs."""
    known = set(there)
    missing = [name for name in names if name not in known]
    if missing:
        raise InvalidInputError(
            f"{label} lacks columns that the model was fitted on: "
            f"{', '.join(map(quoted, missing[:12]))}."
        )


def _check_known(name: str, source: Source, argument: str) -> None:
    if name in source.names:
        return
    near = difflib.get_close_matches(name, source.names, n=1)
    hint = f" Did you mean {quoted(near[0])}?" if near else ""
    shown = ", ".join(map(quoted, source.names[:12]))
    more = f" and {len(source.names) - 12} more" if len(source.names) > 12 else ""
    raise InvalidInputError(
        f"{argument}: {source.label} has no column {quoted(name)}.{hint} It has {shown}{more}.",
        argument=argument,
    )
