"""Rows of numbers in a file, mapped into memory instead of read."""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.exceptions import InvalidInputError
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
    source = Path(path)
    with source.open("rb") as file:
        magic = file.read(6)
    if magic == b"\x93NUMPY":
        if columns is not None or to is not None:
            raise InvalidInputError(
                f"columns and to are for Parquet, Feather and Arrow files; {source.name} is a .npy "
                "file. Take columns of the array itself: rows[:, [0, 2]]."
            )
        return np.asarray(np.load(source, mmap_mode="r", allow_pickle=False))
    if magic[:4] != b"PAR1" and magic != b"ARROW1":
        raise InvalidInputError(
            f"path must be a .npy, Parquet, Feather (version 2) or Arrow file; {source.name} is "
            "none of these. Convert it, or read it into memory with pandas or polars."
        )
    return _converted(source, magic[:4] == b"PAR1", columns, to)


def _converted(
    source: Path,
    parquet: bool,
    columns: Sequence[str] | None,
    to: str | os.PathLike[str] | None,
) -> NDArray[Any]:
    pa = import_pyarrow(f"Reading {source.name}")
    if to is None:
        handle, name = tempfile.mkstemp(suffix=".npy", prefix="holdfast-")
        os.close(handle)
        target = Path(name)
    else:
        target = Path(to)
    try:
        with pa.memory_map(str(source)) as file:
            reader = _Parquet(file) if parquet else _Ipc(file)
            names = _chosen(reader.names, columns, source.name)
            shape = (reader.n_rows, len(names))
            rows = np.lib.format.open_memmap(target, "w+", dtype=np.float64, shape=shape)
            start = 0
            for batch in reader.batches(names):
                stop = start + batch.num_rows
                for j, column in enumerate(names):
                    rows[start:stop, j] = _numbers(batch.column(column), column, source.name)
                start = stop
        rows.flush()
        del rows
        mapped = np.load(target, mmap_mode="r", allow_pickle=False)
    except BaseException:
        target.unlink(missing_ok=True)
        raise
    if to is None:
        weakref.finalize(mapped, _remove, target)
    return np.asarray(mapped)


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
