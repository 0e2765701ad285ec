"""Rows of numbers in a file, mapped into memory instead of read."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.data.npz import HEADER_ERRORS, briefly, read_npy_header
from holdfast.data.paths import check_path
from holdfast.exceptions import FileFormatError, InvalidInputError
from holdfast.tables.arrow import as_numbers, holds_numbers, import_extra, reading

__all__ = ["open_rows"]

# Rows converted at a time.
BLOCK_ROWS = 20_000


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
                "file. Take columns of the array itself: rows[:, [0, 2]].",
                argument="columns",
            )
        return _mapped(source)
    if magic[:4] != b"PAR1" and magic != b"ARROW1":
        raise InvalidInputError(
            f"path must be a .npy, Parquet, Feather (version 2) or Arrow file; {source.name} is "
            "none of these. Convert it, or read it into memory with pandas or polars.",
            argument="path",
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
    import_extra("pyarrow", f"Reading {source.name}")
    folder = None if to is None else Path(check_path("to", to)).absolute().parent
    # Aside, and renamed when whole: what `to` held before stays until then.
    handle, name = tempfile.mkstemp(suffix=".npy", prefix="holdfast-", dir=folder)
    os.close(handle)
    target = Path(name)
    try:
        with reading(source.name):
            _convert(source, "parquet" if parquet else "ipc", columns, target)
        if to is not None:
            target = target.replace(to)
        mapped = np.load(target, mmap_mode="r", allow_pickle=False)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    if to is None:
        weakref.finalize(mapped, _remove, target)
    return np.asarray(mapped)


def _convert(source: Path, format: str, columns: Sequence[str] | None, target: Path) -> None:
    """Write columns of a file to a .npy file, a batch at a time."""
    import pyarrow.dataset

    found = pyarrow.dataset.dataset(source, format=format)
    names = _chosen(found.schema, columns, source.name)
    n_rows = found.count_rows()
    size, room = 8 * n_rows * len(names), shutil.disk_usage(target.parent).free
    if size > room:
        raise InvalidInputError(
            f"{source.name} says that it has {n_rows:,} rows, {size:,} bytes as numbers; there are "
            f"{room:,} left in {str(target.parent)!r}. Name another place with to=."
        )
    rows = np.lib.format.open_memmap(target, "w+", dtype=np.float64, shape=(n_rows, len(names)))
    start = 0
    # One batch at a time, and one ahead.
    for batch in found.to_batches(columns=names, batch_size=BLOCK_ROWS, batch_readahead=1):
        batch.validate(full=True)
        stop = start + batch.num_rows
        for j, values in enumerate(batch.columns):
            rows[start:stop, j] = as_numbers(values)
        start = stop
    if start != n_rows:
        raise ValueError(f"{start:,} rows where {n_rows:,} are declared")
    rows.flush()


def _chosen(schema: Any, columns: Sequence[str] | None, label: str) -> list[str]:
    """Return the names of the columns to convert; raise unless they are there, and numbers."""
    names: list[str] = schema.names
    if isinstance(columns, str):
        raise InvalidInputError(
            f"columns must be a list of names; got {columns!r}: use [...].", argument="columns"
        )
    chosen = names if columns is None else list(columns)
    missing = [name for name in chosen if name not in names]
    if missing or not chosen:
        raise InvalidInputError(
            f"columns must name columns of {label}, which has {', '.join(map(repr, names[:12]))}; "
            f"got {', '.join(map(repr, missing)) or 'none'}.",
            argument="columns",
        )
    for name in chosen:
        kind = schema.field(name).type
        if not holds_numbers(kind):
            raise InvalidInputError(
                f"{label}: the column {name!r} is of type {kind}; columns must hold numbers. "
                "Encode it as numbers first, or leave it out with columns=[...].",
                argument="columns",
            )
    return chosen


def _remove(path: Path) -> None:
    with suppress(OSError):  # a system that keeps mapped files removes it with the folder
        path.unlink()
