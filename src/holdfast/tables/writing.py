"""Columns written to a file of the kind its name says, whole or not at all."""

from __future__ import annotations

import csv
import gzip
import io
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from holdfast.data.atomic import atomic_write
from holdfast.data.texts import as_float
from holdfast.exceptions import InvalidInputError
from holdfast.tables.sources import import_pyarrow

__all__ = ["check_writable", "write_columns"]

_ARROW = (".arrow", ".feather")
#: What a formula begins with, in one spreadsheet or another; the last four are of full width.
_FORMULA = (
    "=",
    "+",
    "-",
    "@",
    "\t",
    "\r",
    "\n",
    *"\uff1d\uff0b\uff0d\uff20",
)


def check_writable(path: str) -> None:
    """Raise if `write_columns` could not write such a file: better before the work than after."""
    kind = _kind(path)
    if kind in (".parquet", *_ARROW):
        import_pyarrow(f"Writing {path}")
    folder = Path(path).parent
    if path != "-" and not folder.is_dir():
        raise InvalidInputError(f"Cannot write {path}: there is no folder {str(folder)!r}.")


def write_columns(path: str, columns: Mapping[str, NDArray[Any]]) -> None:
    """Write columns of one length.

    Parameters
    ----------
    path : str
        Ends in .csv, .csv.gz, .parquet, .feather, .arrow or .npz; "-" is CSV to standard output.
    columns : mapping of str to ndarray
        The columns, in order.

    Notes
    -----
    In CSV, a text that a spreadsheet would run as a formula gets an apostrophe in front; the other
    formats say themselves what is text.
    """
    if path == "-":
        _write_csv(sys.stdout, columns)
        return
    kind = _kind(path)
    with atomic_write(path) as file:
        if kind == ".csv":
            _csv_bytes(file, columns)
        elif kind == ".csv.gz":
            # mtime=0: the same numbers give the same bytes.
            with gzip.GzipFile(fileobj=file, mode="wb", mtime=0) as zipped:
                _csv_bytes(cast("IO[bytes]", zipped), columns)
        elif kind == ".npz":
            np.savez_compressed(file, allow_pickle=False, **dict(columns))
        else:
            _write_arrow(file, columns, kind)


def _kind(path: str) -> str:
    lowered = path.lower()
    for suffix in (".csv", ".csv.gz", ".parquet", ".npz", *_ARROW):
        if path == "-" or lowered.endswith(suffix):
            return suffix
    raise InvalidInputError(
        f"Cannot tell from the name {path!r} what kind of file to write: use .csv, .csv.gz, "
        ".parquet, .feather, .arrow or .npz."
    )


def _csv_bytes(file: IO[bytes], columns: Mapping[str, NDArray[Any]]) -> None:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    _write_csv(text, columns)
    text.detach()


def _write_csv(file: Any, columns: Mapping[str, NDArray[Any]]) -> None:
    names = [_harmless(name) for name in columns]
    # tolist gives Python numbers, whose text reads back to the same number.
    cells = [_cells(column) for column in columns.values()]
    # A carriage return would begin a new line, and perhaps a formula, but csv does not quote it.
    risky = any("\r" in cell for part in [names, *cells] for cell in part if isinstance(cell, str))
    writer = csv.writer(file, lineterminator="\n")
    if risky:
        writer = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    writer.writerow(names)
    writer.writerows(zip(*cells, strict=True))
    file.flush()


def _cells(column: NDArray[Any]) -> list[Any]:
    values: list[Any] = column.tolist()
    if column.dtype.kind in "biufc":
        return values
    return [_harmless(value) if isinstance(value, str) else value for value in values]


def _harmless(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula; a number stays as it is.

    Spreadsheets run cells that begin with one of these marks, also when they come from a file; an
    apostrophe before it says "text" to all of them.
    """
    if not text.startswith(_FORMULA):
        return text
    try:
        as_float(text)
    except ValueError:
        return f"'{text}"
    return text


def _write_arrow(file: IO[bytes], columns: Mapping[str, NDArray[Any]], kind: str) -> None:
    pa = import_pyarrow(f"Writing {kind}")
    table = pa.table({name: pa.array(column.tolist()) for name, column in columns.items()})
    if kind == ".parquet":
        import pyarrow.parquet

        pyarrow.parquet.write_table(table, file)
    else:
        import pyarrow.feather

        pyarrow.feather.write_feather(table, file, compression="uncompressed")
