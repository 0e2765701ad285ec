"""Rows of numbers in a file, mapped into memory instead of read."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.data.npz import HEADER_ERRORS, briefly, read_npy_header
from holdfast.data.paths import check_path
from holdfast.exceptions import FileFormatError, InvalidInputError
from holdfast.tables.arrow_source import arrow_errors, unreadable
from holdfast.tables.sources import BLOCK_ROWS, import_pyarrow
from holdfast.tables.values import as_numbers, holds_numbers

__all__ = ["open_rows"]


def open_rows(
    path: str | os.PathLike[str],
    columns: Sequence[str] | None = None,
    *,
    to: str | os.PathLike[str] | None = None,
) -> NDArray[Any]:
    """Return the rows of a file as a read-only array that stays on disk.

    Parameters
    ----------
    path : path
        A ``.npy`` file, which is mapped as it is; or a Parquet, Feather or Arrow file of numbers,
        which is converted a block of rows at a time (needs pyarrow).
    columns : sequence of str, optional
        Columns of a Parquet, Feather or Arrow file, in this order; default: all.
    to : path, optional
        Where the converted rows go, a ``.npy`` file that can be opened again. Default: a temporary
        file that is removed when the array is no longer used.

    Returns
    -------
    ndarray of shape (m, d)
        float64 after a conversion; a missing value is NaN. Pass it to ``fit`` as X.

    Notes
    -----
    Memory: one block of rows. Disk: 8 m d bytes for the converted rows.
    """
    source = Path(check_path("path", path))
    with source.open("rb") as file:
        magic = file.read(6)
    if magic == b"\x93NUMPY":
        if columns is not None or to is not None:
            raise InvalidInputError(
                f"columns and to are for Parquet, Feather and Arrow files; {source.name} is a .npy "
                "file. Take columns of the array itself: rows[:, [0, 2]]."
            )
        return _mapped(source)
    if magic[:4] != b"PAR1" and magic != b"ARROW1":
        raise InvalidInputError(
            f"path must be a .npy, Parquet, Feather (version 2) or Arrow file; {source.name} is "
            "none of these. Convert it, or read it into memory with pandas or polars."
        )
    return _converted(source, magic[:4] == b"PAR1", columns, to)


def _mapped(source: Path) -> NDArray[Any]:
    """Return the rows of a .npy file, after a look at what it says about itself."""
    try:
        with source.open("rb") as file:
            shape, _, dtype = read_npy_header(file)
        if dtype.kind not in "biuf" or dtype.shape:
            raise FileFormatError(
                f"{source.name} must hold numbers; got dtype {dtype}, of which nothing is read "
                "(and no pickle is run). Save it again as float64."
            )
        if len(shape) != 2:
            raise FileFormatError(
                f"{source.name} must hold rows and columns; got shape {shape}. Reshape the array "
                "and save it again."
            )
        return np.asarray(np.load(source, mmap_mode="r", allow_pickle=False))
    except FileFormatError:
        raise
    except HEADER_ERRORS as error:  # also of a file shorter than its header says
        raise FileFormatError(
            f"{source.name} is damaged or cut short ({briefly(error)}). Copy it again."
        ) from error


def _converted(
    source: Path,
    parquet: bool,
    columns: Sequence[str] | None,
    to: str | os.PathLike[str] | None,
) -> NDArray[Any]:
    pa = import_pyarrow(f"Reading {source.name}")
    folder = None if to is None else Path(check_path("to", to)).absolute().parent
    # Aside, and renamed when whole: what `to` held before stays until then.
    handle, name = tempfile.mkstemp(suffix=".npy", prefix="holdfast-", dir=folder)
    os.close(handle)
    target = Path(name)
    try:
        try:
            with pa.memory_map(str(source)) as file:
                _convert(_Parquet(file) if parquet else _Ipc(file), columns, source.name, target)
        except InvalidInputError:
            raise
        except arrow_errors(pa) as error:
            raise unreadable(source.name, error) from error
        if to is not None:
            target = target.replace(to)
        mapped = np.load(target, mmap_mode="r", allow_pickle=False)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    if to is None:
        weakref.finalize(mapped, _remove, target)
    return np.asarray(mapped)


def _convert(
    reader: _Parquet | _Ipc, columns: Sequence[str] | None, label: str, target: Path
) -> None:
    """Write the columns of a reader to a .npy file, a batch at a time."""
    names = _chosen(reader.names, columns, label)
    size, room = 8 * reader.n_rows * len(names), shutil.disk_usage(target.parent).free
    if size > room:
        raise InvalidInputError(
            f"{label} says that it has {reader.n_rows:,} rows, {size:,} bytes as numbers; there "
            f"are {room:,} left in {str(target.parent)!r}. Name another place with to=."
        )
    shape = (reader.n_rows, len(names))
    rows = np.lib.format.open_memmap(target, "w+", dtype=np.float64, shape=shape)
    start = 0
    for batch in reader.batches(names):
        batch.validate(full=True)
        stop = start + batch.num_rows
        for j, column in enumerate(names):
            rows[start:stop, j] = _numbers(batch.column(column), column, label)
        start = stop
    if start != reader.n_rows:
        raise ValueError(f"{start:,} rows where {reader.n_rows:,} are declared")
    rows.flush()


def _numbers(values: Any, column: str, label: str) -> NDArray[np.float64]:
    if not holds_numbers(values.type):
        raise InvalidInputError(
            f"{label}: the column {column!r} is of type {values.type}; columns must hold numbers. "
            "Encode it as numbers first, or leave it out with columns=[...]."
        )
    return as_numbers(values)


def _remove(path: Path) -> None:
    with suppress(OSError):  # a system that keeps mapped files removes it with the folder
        path.unlink()


def _chosen(names: list[str], columns: Sequence[str] | None, label: str) -> list[str]:
    if columns is None:
        return names
    if isinstance(columns, str):
        raise InvalidInputError(f"columns must be a list of names; got {columns!r}: use [...].")
    missing = [name for name in columns if name not in names]
    if missing or not len(columns):
        raise InvalidInputError(
            f"columns must name columns of {label}, which has {', '.join(map(repr, names[:12]))}; "
            f"got {', '.join(map(repr, missing)) or 'none'}."
        )
    return list(columns)


class _Parquet:
    """Batches of a Parquet file, from one row group at a time."""

    def __init__(self, file: Any) -> None:
        import pyarrow.parquet

        self._file = pyarrow.parquet.ParquetFile(file)
        self.names: list[str] = self._file.schema_arrow.names
        self.n_rows: int = self._file.metadata.num_rows

    def batches(self, names: list[str]) -> Iterator[Any]:
        yield from self._file.iter_batches(batch_size=BLOCK_ROWS, columns=names)


class _Ipc:
    """Record batches of a mapped Arrow file."""

    def __init__(self, file: Any) -> None:
        import pyarrow.ipc

        self._file = pyarrow.ipc.open_file(file)
        self.names: list[str] = self._file.schema.names
        self.n_rows = sum(batch.num_rows for batch in self.batches(self.names))

    def batches(self, names: list[str]) -> Iterator[Any]:
        for i in range(self._file.num_record_batches):
            yield self._file.get_batch(i)
