"""How a text file writes its table: encoding, delimiter, decimal mark; guessed from the file."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO

from holdfast.exceptions import InvalidInputError

__all__ = ["Sample", "Scan", "check_encoding", "is_number", "scan", "take_sample"]

DELIMITERS = (",", ";", "\t", "|")
_SAMPLE_BYTES, _SAMPLE_LINES, _FEWEST_LINES = 1 << 18, 200, 6
# A first line longer than this is no header.
_MAX_LINE = 1 << 26
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_NUMBER = re.compile(r"[+-]?(\d+[.,]?\d*|[.,]\d+)([eE][+-]?\d+)?|[+-]?(inf|nan)", re.I)
_DECIMAL_COMMA = re.compile(r"[+-]?\d*,(\d{1,2}|\d{4,})")
_DECIMAL_POINT = re.compile(r"[+-]?\d*\.(\d{1,2}|\d{4,})")
_EITHER_COMMA = re.compile(r"[+-]?\d{1,3},\d{3}")
_CODE = re.compile(r"0\d+")


@dataclass(frozen=True)
class Scan:
    """What one pass over the bytes of a text shows.

    Attributes
    ----------
    encoding : str
    quoted : bool
        Whether there are quotation marks, within which lines may break.
    uneven : bool
        Whether their number is odd, as if one were never closed.
    size : int
        Bytes of text.
    """

    encoding: str
    quoted: bool
    uneven: bool
    size: int


def scan(file: IO[bytes], encoding: str | None) -> Scan:
    """Return the encoding of a text and what else its bytes show.

    Parameters
    ----------
    file : binary file
        Read to the end.
    encoding : str, optional
        If it is known.

    Notes
    -----
    A byte-order mark decides; else UTF-8 if every byte fits; else UTF-16 if every other byte of the
    beginning is zero; else Windows-1252, or Latin-1 where that has no such character.
    """
    decoder = codecs.getincrementaldecoder("utf-8")()
    valid, quotes, size, undefined = True, 0, 0, False
    start = b""
    while chunk := file.read(1 << 22):
        start = start or chunk[:4096]
        size += len(chunk)
        quotes += chunk.count(b'"')
        undefined = undefined or any(byte in chunk for byte in b"\x81\x8d\x8f\x90\x9d")
        if valid:
            try:
                decoder.decode(chunk)
            except UnicodeDecodeError:
                valid = False
    if encoding is None:
        encoding = _encoding(start, valid, undefined)
    return Scan(encoding, quotes > 0, quotes % 2 == 1, size)


def _encoding(start: bytes, valid: bool, undefined: bool) -> str:
    for mark, name in _BOMS:
        if start.startswith(mark):
            return name
    if len(start) >= 4 and start[1::2].count(0) > len(start) // 3:
        return "utf-16-le"
    if len(start) >= 4 and start[::2].count(0) > len(start) // 3:
        return "utf-16-be"
    if valid:
        return "utf-8"
    return "latin-1" if undefined else "cp1252"


def check_encoding(encoding: str | None) -> str | None:
    """Return the name of an encoding if Python knows it."""
    try:
        return None if encoding is None else codecs.lookup(encoding).name
    except (LookupError, ValueError) as error:
        raise InvalidInputError(
            f"encoding must be the name of one, such as utf-8, latin-1, cp1252 or utf-16; got "
            f"{encoding!r}."
        ) from error


@dataclass(frozen=True)
class Sample:
    """The beginning of a text file.

    Attributes
    ----------
    delimiter : str
        As said or guessed.
    first : tuple of str
        The cells of the first line.
    lines : tuple of tuple of str
        Those of further lines, of the same number of cells.
    header_lines : int
        How many lines of text the first line of cells takes.
    longest : int
        The number of characters in the longest line seen.
    """

    delimiter: str
    first: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    header_lines: int
    longest: int

    def decimal(self) -> tuple[str, bool]:
        """Return the decimal mark that the cells show, and whether they leave no doubt."""
        if self.delimiter == ",":
            return ".", True
        commas = points = either = 0
        for line in self.lines:
            for cell in line[:1000]:
                if "," in cell or "." in cell:
                    text = cell.strip()
                    commas += bool(_DECIMAL_COMMA.fullmatch(text))
                    points += bool(_DECIMAL_POINT.fullmatch(text))
                    either += bool(_EITHER_COMMA.fullmatch(text))
        if self.delimiter == ";" and not commas and not points:
            return ("," if either else "."), not either
        return ("," if commas > points else "."), not (commas and points)

    def kinds(self) -> tuple[list[bool], list[bool]]:
        """Return which columns look like numbers, and which like codes with leading zeros."""
        numbers, codes = [], []
        for cells in zip(*self.lines, strict=True):
            known = [cell.strip() for cell in cells if cell.strip()]
            numbers.append(bool(known) and all(map(_NUMBER.fullmatch, known)))
            same = len({len(cell) for cell in known}) == 1 and all(map(str.isdigit, known))
            codes.append(same and any(map(_CODE.fullmatch, known)))
        return numbers, codes


def take_sample(text: IO[str], label: str, delimiter: str | None) -> Sample:
    """Return the first lines of a text, cut into cells.

    Parameters
    ----------
    text : text file
        At its beginning.
    label : str
        For messages.
    delimiter : str, optional
        If it is known; else the one of comma, semicolon, tab and bar that cuts the lines into the
        same number of cells, and into most of them.
    """
    if delimiter is not None and len(delimiter) != 1:
        raise InvalidInputError(f"delimiter must be one character; got {delimiter!r}.")
    # Whole lines, a first one of any length: a table may have 100,000 columns.
    lines: list[str] = []
    size = 0
    while (size < _SAMPLE_BYTES or len(lines) < _FEWEST_LINES) and len(lines) < _SAMPLE_LINES:
        line = text.readline(_MAX_LINE)
        if not line:
            break
        if len(line) >= _MAX_LINE:
            raise InvalidInputError(f"{label} has a line of more than {_MAX_LINE:,} characters.")
        size += len(line)
        lines.append(line)
    tried = [_cut(lines, mark) for mark in ([delimiter] if delimiter else DELIMITERS)]
    best = max(tried, key=lambda sample: (len(sample.first) > 1, _rank(sample)))
    if not best.first:
        if lines:
            raise InvalidInputError(
                f"{label} has no names of columns: its first line has a cell of more than "
                f"{csv.field_size_limit():,} characters."
            )
        raise InvalidInputError(f"{label} is empty.")
    return best


def _rank(sample: Sample) -> float:
    # Lines that fit the first one count in full; the first alone decides among equals.
    return len(sample.first) * (1 + 10 * len(sample.lines))


def _cut(lines: list[str], delimiter: str) -> Sample:
    reader = csv.reader(
        io.StringIO("".join(lines), newline=""), delimiter=delimiter, skipinitialspace=True
    )
    cells: list[tuple[str, ...]] = []
    header_lines = 0
    for line in _rows(reader):
        if line:
            header_lines = header_lines or reader.line_num
            cells.append(tuple(line))
    first = cells[0] if cells else ()
    same = tuple(line for line in cells[1:] if len(line) == len(first))
    return Sample(delimiter, first, same, header_lines, max(map(len, lines), default=0))


def _rows(reader: Iterable[list[str]]) -> Iterator[list[str]]:
    try:
        yield from reader
    except csv.Error:  # the reader proper has the words for it
        return


def is_number(cell: str) -> bool:
    """Return whether a cell is a number, with a decimal point or comma."""
    return _NUMBER.fullmatch(cell.strip()) is not None
