"""Tables in CSV files, plain or gzipped, with nothing but the standard library and NumPy."""

from __future__ import annotations

import csv
import gzip
import io
import os
import zlib
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import IO, cast

import numpy as np

from holdfast import progress
from holdfast.data.numbers import as_float
from holdfast.exceptions import InvalidInputError
from holdfast.tables.sources import BLOCK_ROWS, ColumnBuilder, Source, check_names, file_checksum
from holdfast.tables.table import Numbers

__all__ = ["MISSING", "CsvSource"]

# Read as "no value". Not "None", which is a level in too many data sets.
MISSING = frozenset(("", "NA", "N/A", "NaN", "nan", "null", "NULL", "?"))
_DELIMITERS = ",;\t|"
# Characters of one line; a few kilobytes of gzip can hold a line of any length.
_MOST_OF_A_LINE = 2**24


class CsvSource(Source):
    """A CSV file.

    Parameters
    ----------
    file : binary file
        Seekable; gzip is recognised by its first bytes.
    label : str
        What to call it in messages.
    delimiter : str, optional
        One character. By default the one of comma, semicolon, tab and bar that is most
        frequent in the first line.
    header : bool, default True
        Whether the first line names the columns; otherwise they are c0, c1, …
    block_rows : int
        Rows converted at a time.
    """

    def __init__(
        self,
        file: IO[bytes],
        label: str,
        *,
        delimiter: str | None = None,
        header: bool = True,
        block_rows: int = BLOCK_ROWS,
    ) -> None:
        self.file = file
        self.label = label
        self.header = header
        self.block_rows = block_rows
        self.checksum = file_checksum(file)
        self._size = file.seek(0, os.SEEK_END)
        if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
            raise InvalidInputError(
                f"--delimiter must be one character that separates cells; got {delimiter!r}. Say "
                "--delimiter ';', or leave it out."
            )
        self.delimiter = delimiter or self._guess_delimiter()
        first = next(iter(self._lines()), None)
        if not first:
            raise InvalidInputError(f"{label} is empty.")
        if header and all(_is_number(cell) for cell in first):
            raise InvalidInputError(
                f"The first line of {label} holds numbers only ({', '.join(first[:4])}, …), not "
                "the names of columns. If the file has no header line, say --no-header; the "
                "columns are then called c0, c1, …"
            )
        names = [c.strip() for c in first] if header else [f"c{i}" for i in range(len(first))]
        self.names = check_names(names, label)
        self.candidates = self.names

    def fill(self, builders: Sequence[ColumnBuilder]) -> None:
        """Read the builders' columns from beginning to end."""
        places = [self.names.index(builder.name) for builder in builders]
        lines = self._lines()
        if self.header:
            next(lines)
        while block := list(islice(lines, self.block_rows)):
            columns = list(zip(*block, strict=True))
            for builder, place in zip(builders, places, strict=True):
                _add(builder, columns[place])
            progress.report(self._raw_position() // 1000, self._size // 1000, "reading (kB)")

    def _lines(self) -> Iterator[list[str]]:
        """Yield the cells of each line; lines of another width are an error, empty ones not."""
        reader = csv.reader(_bounded(self._text()), delimiter=self.delimiter, skipinitialspace=True)
        width = None
        try:
            for cells in reader:
                if not cells:
                    continue
                width = width or len(cells)
                if len(cells) != width:
                    raise InvalidInputError(
                        f"{self.label}, line {reader.line_num}: {len(cells)} values where the "
                        f"first line has {width} (delimiter {self.delimiter!r})."
                    )
                yield cells
        except UnicodeDecodeError as error:
            raise InvalidInputError(
                f"{self.label} is not UTF-8 text (near line {reader.line_num}: {error.reason}). "
                "Convert it, for instance with `iconv -f latin1 -t utf-8`."
            ) from error
        except (csv.Error, EOFError, OSError, zlib.error) as error:
            raise InvalidInputError(
                f"{self.label} cannot be read near line {reader.line_num}: {error}."
            ) from error

    def _text(self) -> io.TextIOWrapper:
        self.file.seek(0)
        zipped = self.file.read(2) == b"\x1f\x8b"
        self.file.seek(0)
        raw = gzip.GzipFile(fileobj=self.file) if zipped else _Borrowed(self.file)
        return io.TextIOWrapper(cast("IO[bytes]", raw), encoding="utf-8-sig", newline="")

    def _guess_delimiter(self) -> str:
        try:
            line = self._text().readline(_MOST_OF_A_LINE)
        except (UnicodeDecodeError, EOFError, OSError, zlib.error):
            return ","  # _lines meets the same trouble and has the words for it
        return max(_DELIMITERS, key=line.count)

    def _raw_position(self) -> int:
        return self.file.tell()


def _bounded(text: io.TextIOWrapper) -> Iterator[str]:
    """Yield the lines of a text, none longer than any table has them."""
    while line := text.readline(_MOST_OF_A_LINE):
        if len(line) == _MOST_OF_A_LINE and not line.endswith("\n"):
            raise csv.Error(f"a line has more than {_MOST_OF_A_LINE:,} characters")
        yield line


class _Borrowed(io.RawIOBase):
    """A file whose wrapper may be closed without closing it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type]  # TextIOWrapper passes a bytearray
        data = self._file.read(len(view))
        view[: len(data)] = data
        return len(data)

    def read1(self, size: int = -1) -> bytes:  # what TextIOWrapper asks for
        return self._file.read(size)


def _add(builder: ColumnBuilder, cells: tuple[str, ...]) -> None:
    if not builder.text:
        numbers = _as_numbers(cells)
        if numbers is not None:
            builder.add_numbers(numbers)
            return
    stripped = (cell.strip() for cell in cells)
    builder.add_texts(None if cell in MISSING else cell for cell in stripped)


def _as_numbers(cells: tuple[str, ...]) -> Numbers | None:
    """Return the cells as numbers, missing ones as NaN; None if any is text."""
    if "_" in "".join(cells):  # Python's thousands, nobody else's
        return None
    try:
        return np.array([float(cell) for cell in cells])
    except ValueError:
        pass
    try:
        return np.array([np.nan if (c := cell.strip()) in MISSING else float(c) for cell in cells])
    except ValueError:
        return None


def _is_number(cell: str) -> bool:
    try:
        as_float(cell)
    except ValueError:
        return False
    return True
