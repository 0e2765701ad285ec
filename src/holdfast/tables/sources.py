"""Where tables come from: the common part of the readers, and the choice among them."""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from holdfast.data.memory import memory_bytes
from holdfast.exceptions import InvalidInputError
from holdfast.tables.table import Categories, Column, Numbers

__all__ = ["BLOCK_ROWS", "ColumnBuilder", "Source", "TextMetError", "spooled"]

# Rows read at a time. Text in flight costs about 60 bytes a cell, the kept numbers 8.
BLOCK_ROWS = 20_000


class TextMetError(Exception):
    """A column that looked like numbers holds text further down; the reader starts again."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class Quota:
    """Memory that a table may take: a small file can unpack to any size."""

    def __init__(self) -> None:
        self._left = self._most = memory_bytes(None)

    def take(self, size: int) -> None:
        """Take so many bytes, or refuse."""
        self._left -= size
        if self._left < 0:
            raise InvalidInputError(
                f"the table takes more than {self._most:.3g} bytes, half of the memory that is "
                "free. Read fewer columns, or split the file."
            )


class ColumnBuilder:
    """Collects one column block by block.

    Parameters
    ----------
    name : str
        The column.
    text : bool
        Whether values are kept as text even if they read as numbers.
    quota : Quota, optional
        What the columns of one table may take together.
    """

    def __init__(self, name: str, text: bool, quota: Quota | None = None) -> None:
        self.name = name
        self.text = text
        self._quota = quota or Quota()
        self._numbers: list[Numbers] = []
        self._codes: list[NDArray[np.int32]] = []
        self._levels: dict[str, int] = {}

    def add_numbers(self, values: NDArray[Any]) -> None:
        """Add a block of numbers (missing: NaN)."""
        self._quota.take(8 * len(values))
        self._numbers.append(np.asarray(values, dtype=np.float64))

    def add_texts(self, values: Iterable[str | None]) -> None:
        """Add a block of texts (missing: None)."""
        if not self.text:
            if self._numbers:
                raise TextMetError(self.name)
            self.text = True
        levels, known = self._levels, len(self._levels)
        codes = [-1 if v is None else levels.setdefault(v, len(levels)) for v in values]
        self._quota.take(4 * len(codes) + 100 * (len(levels) - known))
        self._codes.append(np.array(codes, dtype=np.int32))

    def finish(self) -> Column:
        """Return the whole column."""
        if self.text:
            codes = np.concatenate(self._codes) if self._codes else np.zeros(0, np.int32)
            return Categories(codes, tuple(self._levels))
        return np.concatenate(self._numbers) if self._numbers else np.zeros(0)


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
    """

    label: str
    names: tuple[str, ...]
    candidates: tuple[str, ...]
    checksum: str

    @abstractmethod
    def fill(self, builders: Sequence[ColumnBuilder]) -> None:
        """Read the builders' columns from beginning to end."""

    def read(self, names: Sequence[str], as_text: Collection[str] = ()) -> dict[str, Column]:
        """Return the named columns.

        Parameters
        ----------
        names : sequence of str
            Which columns.
        as_text : collection of str
            Columns whose values are categories even if they read as numbers.

        Notes
        -----
        A column is text when any of its values is. Should that show only after blocks of
        numbers, the file is read again with that column as text from the start, so that the
        result does not depend on the size of the blocks.
        """
        text = set(as_text)
        while True:
            quota = Quota()
            builders = [ColumnBuilder(name, name in text, quota) for name in names]
            try:
                self.fill(builders)
            except TextMetError as met:
                text.add(met.name)
            else:
                return {builder.name: builder.finish() for builder in builders}


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
