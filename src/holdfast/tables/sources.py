"""Where tables come from: what every reader of a kind of file offers."""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, cast

from holdfast.exceptions import InvalidInputError, MissingDependencyError
from holdfast.tables.values import Marks

__all__ = ["BLOCK_ROWS", "Source", "check_names", "file_checksum", "import_pyarrow", "spooled"]

# Rows converted at a time by `open_rows`.
BLOCK_ROWS = 20_000


def import_pyarrow(what: str) -> Any:
    """Return the pyarrow package, or say how to get it."""
    try:
        import pyarrow
    except ImportError as error:
        raise MissingDependencyError(
            f"{what} needs pyarrow, which is not installed: pip install 'holdfast[cli]'."
        ) from error
    return pyarrow


class Source(ABC):
    """A file that holds a table.

    Attributes
    ----------
    label : str
        What to call it in messages.
    names : tuple of str
        All columns.
    candidates : tuple of str
        The columns that are features unless something else is said.
    checksum : str
        sha256 of the file's bytes.
    marks : Marks
        How numbers and missing values are written, as said or guessed.
    notes : tuple of str
        How the file was read, a sentence each, where it had to be guessed.
    """

    label: str
    names: tuple[str, ...]
    candidates: tuple[str, ...]
    checksum: str
    marks: Marks = Marks()
    notes: tuple[str, ...] = ()

    @abstractmethod
    def arrays(self, names: Sequence[str], as_text: Collection[str] = ()) -> dict[str, Any]:
        """Return the named columns as Arrow arrays.

        Parameters
        ----------
        names : sequence of str
            Which columns.
        as_text : collection of str
            Columns whose values are names even if they read as numbers.
        """

    def place(self, row: int) -> str:
        """Return where in the file a row stands, in words; rows are counted from 0."""
        return f"row {row:,}"

    def codes(self) -> frozenset[str]:
        """Return columns of numbers that are written as codes are, with leading zeros."""
        return frozenset()


def check_names(names: Sequence[str], label: str) -> tuple[str, ...]:
    """Return the column names as a tuple if they differ."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InvalidInputError(
                f"{label} has two columns named {name!r}; give each column its own name."
            )
        seen.add(name)
    return tuple(names)


@contextmanager
def spooled(path: str) -> Iterator[tuple[IO[bytes], str]]:
    """Open a file (or, for "-", a copy of standard input) that can be read again; and its label."""
    if path != "-":
        with open(path, "rb") as file:
            yield file, os.path.basename(path)
        return
    with tempfile.TemporaryFile() as file:
        while chunk := sys.stdin.buffer.read(1 << 20):
            file.write(chunk)
        file.seek(0)
        yield cast("IO[bytes]", file), "standard input"


def file_checksum(file: IO[bytes]) -> str:
    """Return the sha256 of a file's bytes and rewind it."""
    file.seek(0)
    digest = hashlib.sha256()
    while chunk := file.read(1 << 20):
        digest.update(chunk)
    file.seek(0)
    return digest.hexdigest()
