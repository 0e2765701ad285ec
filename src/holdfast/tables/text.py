"""Text files of cells: how they are written, as given or guessed, and read by Arrow."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.data.texts import briefly
from holdfast.exceptions import InvalidInputError
from holdfast.tables.options import ReadOptions
from holdfast.tables.values import MISSING

__all__ = ["TextFile", "column_names", "open_text"]

_DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
_SAMPLE_CHARACTERS, _SAMPLE_LINES, _FEWEST_LINES = 1 << 18, 200, 6
# No line of a table is longer.
_MAX_LINE = 1 << 26
_CHUNK, _MOST_BLOCK = 1 << 22, 1 << 30
_WIDE = 2000
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


@dataclass(frozen=True, eq=False)
class TextFile:
    """A table in a text file.

    Attributes
    ----------
    data : bytes
        The whole text.
    label : str
        What to call it in messages.
    options : ReadOptions
        How it is written, where that was said.
    encoding, delimiter : str
        As said or guessed.
    names : tuple of str
        The columns.
    lines : tuple of tuple of str
        The cells of the first lines below the names that have as many.
    skipped : int
        How many lines of text the names take.
    """

    data: bytes
    label: str
    options: ReadOptions
    encoding: str
    delimiter: str
    names: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    skipped: int

    def decimal(self) -> tuple[str, bool]:
        """Return the decimal mark that was said or that cells show, and whether it is certain."""
        if self.options.decimal is not None or self.delimiter == ",":
            return self.options.decimal or ".", True
        cells = [cell.strip() for line in self.lines for cell in line[:1000]]
        commas, points, either = (
            sum(map(bool, map(pattern.fullmatch, cells)))
            for pattern in (_DECIMAL_COMMA, _DECIMAL_POINT, _EITHER_COMMA)
        )
        if self.delimiter == ";" and not commas and not points:
            return ("," if either else "."), not either
        return ("," if commas > points else "."), not (commas and points)

    def codes(self) -> frozenset[str]:
        """Return columns of numbers that are written as codes are, with leading zeros."""
        columns = zip(*self.lines, strict=True)
        return frozenset(n for n, cells in zip(self.names, columns, strict=False) if _codes(cells))

    def notes(self) -> tuple[str, ...]:
        """Return what was guessed, a sentence each."""
        notes = []
        if self.options.delimiter is None and self.delimiter != ",":
            notes.append(f"Cells are separated by a {_DELIMITERS[self.delimiter]}.")
        mark, certain = self.decimal()
        if self.options.decimal is None and mark == ",":
            notes.append("Numbers have a decimal comma.")
            if not certain:
                notes.append("If commas separate thousands here, name '.' as the decimal mark.")
        if self.options.encoding is None and not self.encoding.startswith("utf-8"):
            notes.append(f"The text is encoded as {self.encoding}.")
        return tuple(notes)

    def place(self, row: int) -> str:
        """Return the line of a row, if every row is one line, else its number."""
        return f"row {row:,}" if b'"' in self.data else f"line {row + 1 + self.skipped:,}"

    def read(self, names: Sequence[str], as_text: Collection[str]) -> Mapping[str, Any]:
        """Return the named columns as Arrow arrays."""
        import pyarrow as pa

        kinds = dict.fromkeys(as_text, pa.string())
        try:
            try:
                table = self._parsed(names, {**self._looks(names), **kinds})
            except pa.ArrowInvalid:  # the first lines did not tell
                table = self._parsed(names, kinds)
        except pa.ArrowInvalid as error:
            told = self.fault() or briefly(error)
            raise InvalidInputError(f"{self.label} cannot be read: {told}.") from error
        places = {name: i for i, name in enumerate(table.column_names)}
        return {name: table.column(places[name]) for name in names}

    def _looks(self, names: Sequence[str]) -> dict[str, Any]:
        """Return which of many columns hold numbers in the first lines.

        Arrow tries seven kinds for each column, which takes longer than reading a wide table.
        """
        import pyarrow as pa

        if len(names) <= _WIDE:
            return {}
        columns = zip(self.names, zip(*self.lines, strict=True), strict=False)
        return {n: pa.float64() for n, cells in columns if all(map(_NUMBER.fullmatch, cells))}

    def _parsed(self, names: Sequence[str], kinds: dict[str, Any]) -> Any:
        """Return the Arrow table of some columns, some of them of known kinds."""
        import pyarrow as pa
        import pyarrow.csv

        return pyarrow.csv.read_csv(
            pa.BufferReader(self.data),
            read_options=pyarrow.csv.ReadOptions(
                column_names=list(self.names),
                skip_rows=self.skipped,
                encoding="utf-8" if self.encoding.startswith("utf-8") else self.encoding,
                # In one piece: then a line of any length, and a late surprise, do no harm.
                block_size=min(len(self.data), _MOST_BLOCK),
            ),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=self.delimiter, newlines_in_values=b'"' in self.data
            ),
            convert_options=pyarrow.csv.ConvertOptions(
                # Arrow looks each of them up among all others, which takes long for many.
                include_columns=None if len(names) > _WIDE else list(names),
                column_types=kinds,
                null_values=[*MISSING, *self.options.na],
                strings_can_be_null=True,
                decimal_point=self.decimal()[0],
                check_utf8=True,
            ),
        )

    def fault(self) -> str | None:
        """Return what is wrong with the cells, and in which line; None if nothing is."""
        text = _decoded(self.data, self.encoding)
        reader = csv.reader(text, delimiter=self.delimiter, skipinitialspace=True, strict=True)
        width, before = len(self.names), 0
        try:
            for row in reader:
                if row and len(row) != width:
                    return (
                        f"line {reader.line_num} has {len(row)} values where the first line has "
                        f"{width} (delimiter {self.delimiter!r})"
                    )
                before = reader.line_num
        except UnicodeError:
            return None
        except csv.Error as error:
            if "unexpected end of data" in str(error) or "field limit" in str(error):
                return f"a quotation mark in line {before + 1:,} or soon after is never closed"
        return None


def open_text(data: bytes, label: str, options: ReadOptions) -> TextFile:
    """Return a text file with what its beginning shows.

    The delimiter, if it is not said, is the one of comma, semicolon, tab and bar that cuts the
    first lines into the same number of cells, and into most of them.
    """
    encoding = options.encoding or _encoding(data)
    try:
        lines = _first_lines(_decoded(data, encoding), label)
    except UnicodeError as error:
        raise InvalidInputError(
            f"{label} is not text in the encoding {encoding}: {error}."
        ) from error
    marks = [options.delimiter] if options.delimiter else _DELIMITERS
    tried = [(mark, *_cut(lines, mark)) for mark in marks]
    # Lines that fit the first one count in full; the first alone decides among equals.
    mark, skipped, first, same = max(
        tried, key=lambda cut: (len(cut[2]) > 1, len(cut[2]) * (1 + 10 * len(cut[3])))
    )
    if not first:
        raise InvalidInputError(
            f"{label} has no names of columns: its first line is empty or has a cell of more than "
            f"{csv.field_size_limit():,} characters."
        )
    names = column_names(first, options.header, label)
    skipped = skipped if options.header else 0
    found = TextFile(data, label, options, encoding, mark, names, same, skipped)
    # Arrow reads everything after a quotation mark that is never closed as one cell.
    if data.count(b'"') % 2 and (fault := found.fault()):
        raise InvalidInputError(f"{label} cannot be read: {fault}.")
    return found


def column_names(first: Sequence[str], header: bool, label: str) -> tuple[str, ...]:
    """Return the names of columns from the first line of a table."""
    if not header:
        return tuple(f"c{i}" for i in range(len(first)))
    if all(_NUMBER.fullmatch(cell.strip()) for cell in first):
        raise InvalidInputError(
            f"The first line of {label} holds numbers only ({', '.join(first[:4])}, …), not the "
            "names of columns. If the file has no header line, say header=False; the columns are "
            "then called c0, c1, …",
            argument="header",
        )
    return tuple(cell.strip() for cell in first)


def _codes(cells: Sequence[str]) -> bool:
    known = [text for cell in cells if (text := cell.strip())]
    same = len(set(map(len, known))) == 1 and all(map(str.isdigit, known))
    return same and any(map(_CODE.fullmatch, known))


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


def _decoded(data: bytes, encoding: str) -> io.TextIOWrapper:
    name = "utf-8-sig" if encoding == "utf-8" else encoding
    return io.TextIOWrapper(io.BytesIO(data), encoding=name, newline="")


def _first_lines(text: io.TextIOWrapper, label: str) -> list[str]:
    """Return whole lines, a first one of any length: a table may have 100,000 columns."""
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
    return lines


def _cut(
    lines: list[str], delimiter: str
) -> tuple[int, tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Return how many lines the first row takes, its cells, and rows with as many cells."""
    text = io.StringIO("".join(lines), newline="")
    reader = csv.reader(text, delimiter=delimiter, skipinitialspace=True)
    rows: list[tuple[str, ...]] = []
    taken = 0
    try:
        for row in filter(None, reader):
            taken = taken or reader.line_num
            rows.append(tuple(row))
    except csv.Error:  # reading the whole file will say what is wrong
        pass
    first = rows[0] if rows else ()
    return taken, first, tuple(row for row in rows[1:] if len(row) == len(first))
