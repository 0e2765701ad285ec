"""Kernel matrices from files: NumPy's .npy, text, and GCTA's relationship matrices.

A matrix may come from a stranger: nothing in a file is run, and the size that it declares is
compared with the size of the file and the free memory before a number is read.
"""

from __future__ import annotations

import gzip
import os
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from holdfast._typing import FloatArray, IntArray
from holdfast.data.archive import HEADER_ERRORS
from holdfast.data.memory import available_bytes
from holdfast.data.texts import as_float, briefly
from holdfast.exceptions import InvalidInputError

__all__ = ["KernelMatrix", "read_kernel_matrix"]

#: Values above and below the diagonal may differ by this share of the largest: text is rounded.
SYMMETRIC = 1e-6


@dataclass(frozen=True, eq=False)
class KernelMatrix:
    """A kernel matrix, and the names of its rows where the file has them."""

    values: FloatArray  #: Symmetric, (m, m)
    ids: tuple[str, ...] | None = None  #: Names of the rows and columns

    def places(self, names: NDArray[np.str_], column: str) -> IntArray:
        """Return where the rows of a table stand in the matrix, by their names in a column."""
        if self.ids is None:
            raise InvalidInputError(
                f"id={column!r} needs a kernel matrix that names its rows, and this one does not. "
                "Use a .grm with its .grm.id, or a text file whose first line names the columns.",
                argument="id",
            )
        place = {name: i for i, name in enumerate(self.ids)}
        missing = [str(name) for name in names if name not in place]
        if missing:
            raise InvalidInputError(
                f"id={column!r}: {len(missing):,} of {len(names):,} rows are not in the kernel "
                f"matrix, the first of them {missing[0]!r}. Its first row is called "
                f"{self.ids[0]!r}. Leave those rows out, or add them to the matrix.",
                argument="id",
            )
        if len(set(names)) < len(names):
            raise InvalidInputError(
                f"id={column!r} must name each row once; a name occurs twice. Repeated "
                "measurements need a row of the matrix each.",
                argument="id",
            )
        return np.array([place[name] for name in names], dtype=np.int64)


def read_kernel_matrix(path: str | os.PathLike[str]) -> KernelMatrix:
    r"""Return the kernel matrix in a file.

    Parameters
    ----------
    path : path
        ``K.npy``; a text file of numbers (``.csv``, ``.tsv``, ``.txt``, also gzipped), with or
        without a first line and a first column of names; or ``prefix.grm``, for the
        ``prefix.grm.bin`` and ``prefix.grm.id`` that GCTA writes.

    Raises
    ------
    InvalidInputError
        If the file holds no square, symmetric matrix of finite numbers, or a larger one than fits
        into memory.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from holdfast.tables import read_kernel_matrix
    >>> path = Path(tempfile.mkdtemp()) / "K.csv"
    >>> _ = path.write_text("ann,ben\n1.0,0.5\n0.5,1.0\n")
    >>> found = read_kernel_matrix(path)
    >>> found.ids
    ('ann', 'ben')
    >>> found.values[0].tolist()
    [1.0, 0.5]
    """
    path = Path(path)
    name = path.name.lower()
    if name.endswith((".grm", ".grm.bin", ".grm.id")):
        values, ids = _read_grm(path)
    elif name.endswith(".npy"):
        values, ids = _read_npy(path), None
    elif name.removesuffix(".gz").endswith((".csv", ".tsv", ".txt")):
        values, ids = _read_text(path)
    else:
        raise _refused(path, "is none of .npy, .csv, .tsv, .txt (also .gz) and .grm")
    return KernelMatrix(_checked(path, values), ids)


def _refused(path: Path, why: str) -> InvalidInputError:
    return InvalidInputError(
        f"kernel_matrix: {path.name} {why}. It must hold a square, symmetric matrix of finite "
        "numbers, one row and column for each row of the data.",
        argument="kernel_matrix",
    )


def _check_size(path: Path, shape: tuple[int, ...]) -> None:
    """Refuse a matrix that is not square or takes more memory than there is."""
    if len(shape) != 2 or shape[0] != shape[1] or not shape[0]:
        raise _refused(path, f"has shape {shape}")
    if 8.0 * shape[0] ** 2 > available_bytes():
        raise _refused(path, f"takes {8e-9 * shape[0] ** 2:,.1f} GB, more memory than there is")


def _checked(path: Path, values: FloatArray) -> FloatArray:
    _check_size(path, values.shape)
    if not np.isfinite(values).all():
        i, j = np.argwhere(~np.isfinite(values))[0].tolist()
        raise _refused(path, f"has {values[i, j]} in row {i + 1}, column {j + 1}")
    largest = float(np.abs(values).max())
    apart = np.abs(values - values.T)
    if float(apart.max()) > SYMMETRIC * largest:
        i, j = np.unravel_index(int(np.argmax(apart)), apart.shape)
        raise _refused(
            path,
            f"is not symmetric: {values[i, j]:g} in row {i + 1}, column {j + 1}, and "
            f"{values[j, i]:g} the other way round",
        )
    return np.asarray(0.5 * (values + values.T))


def _read_npy(path: Path) -> FloatArray:
    try:
        mapped: Any = np.load(path, mmap_mode="r", allow_pickle=False)
    except HEADER_ERRORS as error:
        raise _refused(path, f"is not an array of numbers ({briefly(error)})") from error
    if mapped.dtype.kind not in "fiu":
        raise _refused(path, f"holds values of type {mapped.dtype}")
    _check_size(path, mapped.shape)
    return np.array(mapped, dtype=np.float64)


def _read_grm(path: Path) -> tuple[FloatArray, tuple[str, ...]]:
    """Read the lower triangle, row by row, in single precision, and its people."""
    stem = str(path)[: str(path).lower().rindex(".grm")]
    numbers, people = Path(f"{stem}.grm.bin"), Path(f"{stem}.grm.id")
    lines = [line.split() for line in people.read_text("utf-8").splitlines() if line.strip()]
    n = len(lines)
    if any(len(line) != 2 for line in lines) or not n:
        raise _refused(people, "must hold two columns, family and person, a line for each row")
    _check_size(numbers, (n, n))
    expected, there = 2 * n * (n + 1), numbers.stat().st_size
    if there != expected:
        raise _refused(
            numbers,
            f"has {there:,} bytes; the {n:,} people of {people.name} take {expected:,} "
            "(4 for each pair)",
        )
    values = np.empty((n, n))
    values[np.tril_indices(n)] = np.fromfile(numbers, dtype="<f4")
    values = np.tril(values) + np.tril(values, -1).T
    persons = [line[1] for line in lines]
    unique = len(set(persons)) == n
    return values, tuple(persons if unique else (" ".join(line) for line in lines))


def _read_text(path: Path) -> tuple[FloatArray, tuple[str, ...] | None]:
    """Read a matrix, below and beside its names if it has any."""

    def opened() -> IO[str]:
        gzipped = path.name.lower().endswith(".gz")
        return (gzip.open if gzipped else open)(path, "rt", encoding="utf-8-sig")

    try:
        with opened() as file:
            lines = file.readline(), file.readline()
        mark = next((mark for mark in (",", ";", "\t") if mark in lines[0]), None)
        first, line = ([c.strip().strip('"') for c in t.strip().split(mark)] for t in lines)
        headed = not all(map(_is_number, first))
        line = line if headed else first
        named = bool(line) and not _is_number(line[0])  # rows have names as well
        _check_size(path, (len(line) - named, len(line) - named))
        with opened() as file:
            rows = np.loadtxt(
                file,
                delimiter=mark,
                skiprows=int(headed),
                usecols=range(1, len(line)) if named else None,
                ndmin=2,
                comments=None,
            )
    except (ValueError, EOFError, gzip.BadGzipFile) as error:
        if isinstance(error, InvalidInputError):
            raise
        raise _refused(path, f"cannot be read as numbers ({briefly(error)})") from error
    if not headed:
        if len(rows) != rows.shape[1] + 1:
            return rows, None
        rows = rows[1:]  # names that are numbers
    ids = tuple(first[-len(rows) :] if len(first) == len(rows) + 1 else first)
    if len(ids) != len(rows) or len(set(ids)) != len(ids):
        raise _refused(path, f"names {len(set(ids))} columns and has {len(rows)} rows")
    return rows, ids


def _is_number(text: str) -> bool:
    try:
        as_float(text)
    except ValueError:
        return False
    return True
