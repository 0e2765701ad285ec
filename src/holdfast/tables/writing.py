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
from holdfast.exceptions import InvalidInputError
from holdfast.tables.sources import import_pyarrow

__all__ = ["check_writable", "write_columns"]

_ARROW = (".arrow", ".feather")


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
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(columns)
    # tolist gives Python numbers, whose text reads back to the same number.
    writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))
    file.flush()


def _write_arrow(file: IO[bytes], columns: Mapping[str, NDArray[Any]], kind: str) -> None:
    pa = import_pyarrow(f"Writing {kind}")
    table = pa.table({name: pa.array(column.tolist()) for name, column in columns.items()})
    if kind == ".parquet":
        import pyarrow.parquet

        pyarrow.parquet.write_table(table, file)
    else:
        import pyarrow.feather

        pyarrow.feather.write_feather(table, file, compression="uncompressed")
