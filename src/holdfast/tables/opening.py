"""The right reader for a file, and which of its columns play which role."""

from __future__ import annotations

import difflib
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

from holdfast.data.npz import ZIP_ERRORS
from holdfast.exceptions import InvalidInputError
from holdfast.tables.arrow_source import ArrowSource
from holdfast.tables.csv_source import CsvSource
from holdfast.tables.npz_source import NpzSource
from holdfast.tables.sources import Source, spooled

__all__ = ["Roles", "open_source", "split_names"]


@contextmanager
def open_source(
    path: str,
    *,
    delimiter: str | None = None,
    header: bool = True,
    decimal: str | None = None,
    encoding: str | None = None,
    na: Sequence[str] = (),
) -> Iterator[Source]:
    """Open a table, told by its first bytes: Parquet, Arrow, Feather, NPZ, gzipped or plain text.

    Parameters
    ----------
    path : str
        The file; "-" is text on standard input.
    delimiter, header, encoding
        For text; see `CsvSource`.
    decimal : {".", ","}, optional
        The decimal mark; default: guessed.
    na : sequence of str
        Further marks of missing values.
    """
    with spooled(path) as (file, label):
        magic = file.read(6)
        file.seek(0)
        if magic[:4] == b"PAR1":
            yield ArrowSource(file, label, parquet=True, decimal=decimal, na=na)
        elif magic == b"ARROW1" or magic[:4] in (b"FEA1", b"\xff\xff\xff\xff"):
            yield ArrowSource(file, label, parquet=False, decimal=decimal, na=na)
        elif magic[:4] == b"PK\x03\x04":
            _refuse_workbook(file, label)
            yield NpzSource(file, label)
        elif magic[:4] == b"\xd0\xcf\x11\xe0":
            raise InvalidInputError(f"{label} is an Excel workbook: {_SAVE_AS}")
        else:
            yield CsvSource(
                file,
                label,
                delimiter=delimiter,
                header=header,
                decimal=decimal,
                encoding=encoding,
                na=na,
            )


_SAVE_AS = "save the sheet as CSV (any delimiter, any decimal mark), and name that file."


def _refuse_workbook(file: IO[bytes], label: str) -> None:
    try:
        with zipfile.ZipFile(file) as archive:
            names = archive.namelist()
    except ZIP_ERRORS:  # whoever reads it will say what is wrong
        names = []
    file.seek(0)
    if "xl/workbook.xml" in names or "mimetype" in names:
        raise InvalidInputError(f"{label} is a workbook of a spreadsheet program: {_SAVE_AS}")


@dataclass(frozen=True)
class Roles:
    """Which columns are features, target, group, weight and time.

    Attributes
    ----------
    features : tuple of str
        The columns the model sees, before they are prepared.
    target, group, weight, time : str or None
        Their columns, where asked for.
    named : bool
        Whether the features were named one by one.
    """

    features: tuple[str, ...]
    target: str | None = None
    group: str | None = None
    weight: str | None = None
    time: str | None = None
    named: bool = False

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

        Parameters
        ----------
        source : Source
            The table.
        target, group, weight, time : str, optional
            Names of columns. Time is a feature as well, unless it is dropped.
        features : str, optional
            Names separated by commas; by default all columns without another role.
        drop : str, optional
            Names, separated by commas, of columns that are no features.
        """
        asked = {"--target": target, "--group": group, "--weight": weight, "--time": time}
        for option, name in asked.items():
            if name is not None:
                _check_known(name, source, option)
        taken = {target, group, weight} - {None}
        dropped = set(split_names(drop, source, "--drop")) if drop else set()
        if features is not None:
            chosen = split_names(features, source, "--features")
            for name in chosen:
                if name in taken:
                    raise InvalidInputError(
                        f"--features: {name!r} is already the target, group or weight column."
                    )
        else:
            chosen = [name for name in source.candidates if name not in taken]
        chosen = [name for name in chosen if name not in dropped]
        if not chosen:
            raise InvalidInputError(f"No column of {source.label} is left to be a feature.")
        return cls(tuple(chosen), target, group, weight, time, features is not None)

    def all(self) -> tuple[str, ...]:
        """Return every column that has a role, each once."""
        names = [*self.features, self.target, self.group, self.weight, self.time]
        return tuple(dict.fromkeys(name for name in names if name is not None))


def split_names(text: str, source: Source, option: str) -> list[str]:
    """Return the columns in a list separated by commas; a column's own commas are tried first."""
    known = set(source.names)
    if text in known:
        return [text]
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in known:
            _check_known(name, source, option)
    if len(set(names)) != len(names):
        raise InvalidInputError(f"{option} names a column twice: {text!r}.")
    return names


def check_columns(names: Sequence[str], source: Source) -> None:
    """Raise unless the table has every one of the columns that a model needs."""
    known = set(source.names)
    missing = [name for name in names if name not in known]
    if missing:
        raise InvalidInputError(
            f"{source.label} lacks columns that the model was fitted on: "
            f"{', '.join(map(repr, missing[:12]))}."
        )


def _check_known(name: str, source: Source, option: str) -> None:
    if name in source.names:
        return
    near = difflib.get_close_matches(name, source.names, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    shown = ", ".join(repr(n) for n in source.names[:12])
    more = f" and {len(source.names) - 12} more" if len(source.names) > 12 else ""
    raise InvalidInputError(
        f"{option}: {source.label} has no column {name!r}.{hint} It has {shown}{more}."
    )
