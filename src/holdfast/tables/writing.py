"""Columns written to a file of the kind its name says, whole or not at all."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from numpy.typing import NDArray

from holdfast.data.atomic import atomic_write
from holdfast.data.texts import as_float
from holdfast.exceptions import InvalidInputError
from holdfast.tables.values import import_extra

__all__ = ["check_writable", "write_columns"]

#: What a formula begins with, in one spreadsheet or another; the last four are of full width. An
#: apostrophe before it says "text" to all of them.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", *"\uff1d\uff0b\uff0d\uff20")


def check_writable(path: str) -> None:
    """Raise if `write_columns` could not write such a file: better before the work than after."""
    if path != "-" and not path.lower().endswith((".csv", ".parquet")):
        raise InvalidInputError(
            f"The name of the file to write must end in .csv or .parquet; got {path!r}.",
            argument="path",
        )
    if path.lower().endswith(".parquet"):
        import_extra("pyarrow", f"Writing {path}")
    folder = Path(path).parent
    if path != "-" and not folder.is_dir():
        raise InvalidInputError(
            f"Cannot write {path}: there is no folder {str(folder)!r}.", argument="path"
        )


def write_columns(path: str, columns: Mapping[str, NDArray[Any]]) -> None:
    """Write columns of one length to a .csv or .parquet file; "-" is CSV to standard output.

    In CSV, a text that a spreadsheet would run as a formula gets an apostrophe in front; Parquet
    says itself what is text.
    """
    check_writable(path)
    if path == "-":
        _write_csv(sys.stdout, columns)
        return
    with atomic_write(path) as file:
        if path.lower().endswith(".csv"):
            text = io.TextIOWrapper(file, encoding="utf-8", newline="")
            _write_csv(text, columns)
            text.detach()
        else:
            _write_parquet(file, columns)


def _write_csv(file: Any, columns: Mapping[str, NDArray[Any]]) -> None:
    names = [_harmless(name) for name in columns]
    # tolist gives Python numbers, whose text reads back to the same number.
    cells = [list(map(_harmless, column.tolist())) for column in columns.values()]
    # A carriage return would begin a new line, and perhaps a formula, but csv does not quote it.
    risky = any("\r" in cell for part in [names, *cells] for cell in part if isinstance(cell, str))
    writer = csv.writer(file, lineterminator="\n")
    if risky:
        writer = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    writer.writerow(names)
    writer.writerows(zip(*cells, strict=True))
    file.flush()


def _harmless(cell: Any) -> Any:
    """Return a cell that no spreadsheet takes for a formula; a number stays as it is."""
    if not isinstance(cell, str) or not cell.startswith(_FORMULA):
        return cell
    try:
        as_float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


def _write_parquet(file: IO[bytes], columns: Mapping[str, NDArray[Any]]) -> None:
    pa = import_extra("pyarrow", "Writing Parquet")
    import pyarrow.parquet

    table = pa.table({name: pa.array(column.tolist()) for name, column in columns.items()})
    pyarrow.parquet.write_table(table, file)
