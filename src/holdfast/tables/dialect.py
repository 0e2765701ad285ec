"""How a text file writes its table: encoding, delimiter, decimal mark; guessed from the file."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from holdfast.exceptions import InvalidInputError

__all__ = ["Dialect", "cells", "guess_dialect", "is_number"]

DELIMITERS = (",", ";", "\t", "|")
_SAMPLE_CHARACTERS, _SAMPLE_LINES, _FEWEST_LINES = 1 << 18, 200, 6
# A first line longer than this is no header.
_MAX_LINE = 1 << 26
_CHUNK = 1 << 22
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
class Dialect:
    """The beginning of a text file, cut into cells.

    Attributes
    ----------
    encoding, delimiter : str
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

    encoding: str
    delimiter: str
    first: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    header_lines: int
    longest: int

    def decimal(self) -> tuple[str, bool]:
        """Return the decimal mark that the cells show, and whether no other is possible."""
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
        for column in zip(*self.lines, strict=True):
            known = [cell.strip() for cell in column if cell.strip()]
            numbers.append(bool(known) and all(map(_NUMBER.fullmatch, known)))
            same = len({len(cell) for cell in known}) == 1 and all(map(str.isdigit, known))
            codes.append(same and any(map(_CODE.fullmatch, known)))
        return numbers, codes


def guess_dialect(data: bytes, label: str, encoding: str | None, delimiter: str | None) -> Dialect:
    """Return how a text file is written.

    Parameters
    ----------
    data : bytes
        The whole file.
    label : str
        For messages.
    encoding : str, optional
        If it is known.
    delimiter : str, optional
        If it is known; else the one of comma, semicolon, tab and bar that cuts the lines into the
        same number of cells, and into most of them.
    """
    encoding = encoding or _encoding(data)
    text = _text(data, encoding)
    # Whole lines, a first one of any length: a table may have 100,000 columns.
    lines: list[str] = []
    size = 0
    while (size < _SAMPLE_CHARACTERS or len(lines) < _FEWEST_LINES) and len(lines) < _SAMPLE_LINES:
        line = text.readline(_MAX_LINE)
        if not line:
            break
        if len(line) >= _MAX_LINE:
            raise InvalidInputError(f"{label} has a line of more than {_MAX_LINE:,} characters.")
        size += len(line)
        lines.append(line)
    if not lines:
        raise InvalidInputError(f"{label} is empty.")
    tried = [_cut(lines, encoding, mark) for mark in ([delimiter] if delimiter else DELIMITERS)]
    # Lines that fit the first one count in full; the first alone decides among equals.
    best = max(tried, key=lambda d: (len(d.first) > 1, len(d.first) * (1 + 10 * len(d.lines))))
    if not best.first:
        raise InvalidInputError(
            f"{label} has no names of columns: its first line is empty or has a cell of more than "
            f"{csv.field_size_limit():,} characters."
        )
    return best


def _encoding(data: bytes) -> str:
    """Return the encoding of a text.

    A byte-order mark decides; else UTF-16 if every other byte of the beginning is zero; else UTF-8
    if every byte fits; else Windows-1252, or Latin-1 where that has no such character.
    """
    for mark, name in _BOMS:
        if data.startswith(mark):
            return name
    start = data[:4096]
    for first, name in ((1, "utf-16-le"), (0, "utf-16-be")):
        if len(start) >= 4 and start[first::2].count(0) > len(start) // 3:
            return name
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for at in range(0, len(data), _CHUNK):
            decoder.decode(data[at : at + _CHUNK])
    except UnicodeDecodeError:
        return "latin-1" if any(byte in data for byte in b"\x81\x8d\x8f\x90\x9d") else "cp1252"
    return "utf-8"


def _text(data: bytes, encoding: str) -> io.TextIOWrapper:
    name = "utf-8-sig" if encoding == "utf-8" else encoding
    return io.TextIOWrapper(io.BytesIO(data), encoding=name, newline="")


def _cut(lines: list[str], encoding: str, delimiter: str) -> Dialect:
    reader = csv.reader(
        io.StringIO("".join(lines), newline=""), delimiter=delimiter, skipinitialspace=True
    )
    found: list[tuple[str, ...]] = []
    header_lines = 0
    for line in _until_error(reader):
        if line:
            header_lines = header_lines or reader.line_num
            found.append(tuple(line))
    first = found[0] if found else ()
    same = tuple(line for line in found[1:] if len(line) == len(first))
    return Dialect(encoding, delimiter, first, same, header_lines, max(map(len, lines)))


def _until_error(reader: Iterable[list[str]]) -> Iterator[list[str]]:
    try:
        yield from reader
    except csv.Error:  # whoever reads the whole file says what is wrong
        return


def cells(data: bytes, dialect: Dialect) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of the last line and the cells of each row; csv.Error where it breaks."""
    reader = csv.reader(
        _text(data, dialect.encoding),
        delimiter=dialect.delimiter,
        skipinitialspace=True,
        strict=True,
    )
    for row in reader:
        yield reader.line_num, row


def is_number(cell: str) -> bool:
    """Return whether a cell is a number, with a decimal point or comma."""
    return _NUMBER.fullmatch(cell.strip()) is not None
