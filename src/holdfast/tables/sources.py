"""Where tables come from: text files, Parquet, Feather, Arrow and workbooks.

Arrow and pandas read the cells. Here is what they leave open: the delimiter, the encoding, the
decimal mark and the codes that the beginning of a text shows, and errors that name a line.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import hashlib
import io
import os
import re
import sys
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any

from holdfast import progress
from holdfast.data.archive import ZIP_ERRORS
from holdfast.data.texts import briefly, quoted
from holdfast.exceptions import HoldfastError, InvalidInputError
from holdfast.tables.options import ReadOptions
from holdfast.tables.values import MISSING, as_arrow, import_extra

__all__ = ["Source", "open_source"]


@dataclass(frozen=True, eq=False)
class Source:
    """A file that holds a table."""

    label: str  #: What to call it in messages
    names: tuple[str, ...]  #: All columns
    checksum: str  #: sha256 of the file's bytes
    options: ReadOptions  #: How it is written, where that was said
    #: Takes names of columns and those that are text; returns Arrow arrays by name
    read: Callable[[Sequence[str], Collection[str]], Mapping[str, Any]]
    likely: str = "."  #: The decimal mark, as far as the file shows
    notes: tuple[str, ...] = ()  #: How the file was read, where it had to be guessed
    codes: frozenset[str] = frozenset()  #: Numbers that are written as codes, with leading zeros
    place: Callable[[int], str] = "row {:,}".format  #: Where in the file a row stands, from 0

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for name in self.names:
            if name in seen:
                raise InvalidInputError(
                    f"{self.label} has two columns named {quoted(name)}; give each column its own "
                    "name."
                )
            seen.add(name)

    def arrays(self, names: Sequence[str], as_text: Collection[str] = ()) -> Mapping[str, Any]:
        """Return the named columns as Arrow arrays; those of `as_text` hold names, not numbers."""
        progress.report(0, 1, "reading")
        with _reading(self.label):
            found = self.read(names, as_text)
        progress.report(1, 1, "reading")
        return found


@contextmanager
def open_source(
    path: str,
    *,
    delimiter: str | None = None,
    header: bool = True,
    decimal: str | None = None,
    encoding: str | None = None,
    na: Sequence[str] = (),
    dayfirst: bool | None = None,
) -> Iterator[Source]:
    """Open a table, told by its first bytes: text (also gzipped), Parquet, Arrow, Feather, .xlsx.

    Parameters
    ----------
    path : str
        The file; "-" is text on standard input.
    delimiter, header, decimal, encoding, na, dayfirst
        How it is written; see `ReadOptions`. What is not said is guessed.
    """
    options = ReadOptions(delimiter, header, decimal, encoding, na, dayfirst)  # type: ignore[arg-type]
    if path == "-":
        yield _text_source(sys.stdin.buffer, "standard input", options)
        return
    label = os.path.basename(path)
    with open(path, "rb") as file:
        magic = file.read(6)
        file.seek(0)
        if magic[:4] == b"PAR1" or magic == b"ARROW1" or magic[:4] in _OTHER_ARROW:
            yield _arrow_source(file, label, options, parquet=magic[:4] == b"PAR1")
        elif magic[:4] == b"PK\x03\x04":
            yield _workbook_source(file, label, options)
        elif magic[:4] == b"\xd0\xcf\x11\xe0":
            raise InvalidInputError(f"{label} is a workbook of an old kind (.xls). {_SAVE_AS}")
        else:
            yield _text_source(file, label, options)


# Feather version 1, and a stream of Arrow batches.
_OTHER_ARROW = (b"FEA1", b"\xff\xff\xff\xff")
_SAVE_AS = "Save the sheet as .xlsx or as CSV, and name that file."


@contextmanager
def _reading(label: str) -> Iterator[None]:
    """Turn what pyarrow raises while it reads a file into errors that say what to do."""
    pa = import_extra("pyarrow", f"Reading {label}")
    try:
        yield
    except HoldfastError:
        raise
    except MemoryError as error:  # Arrow's own is one as well
        raise InvalidInputError(
            f"{label} does not fit into memory ({briefly(error)}). Free memory, or read fewer "
            "columns. If the file should be small, it is damaged: copy it again."
        ) from error
    except (pa.ArrowException, OSError, ValueError, LookupError, TypeError) as error:
        raise InvalidInputError(
            f"{label} cannot be read; it is damaged, or of an unknown kind ({briefly(error)}). "
            "Copy it again, or write it again."
        ) from error


def _checksum(file: Any) -> str:
    digest = hashlib.file_digest(file, "sha256").hexdigest()
    file.seek(0)
    return digest


def _column_names(first: Sequence[str], header: bool, label: str) -> tuple[str, ...]:
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


# --- Parquet, Feather, Arrow ----------------------------------------------------------------------


def _arrow_source(file: IO[bytes], label: str, options: ReadOptions, *, parquet: bool) -> Source:
    checksum = _checksum(file)
    with _reading(label):
        if parquet:
            import pyarrow.parquet

            whole = pyarrow.parquet.ParquetFile(file)
            names, take = whole.schema_arrow.names, whole.read
        else:
            table = _read_ipc(file)
            names, take = table.schema.names, table.select

    def read(names: Sequence[str], as_text: Collection[str]) -> Mapping[str, Any]:
        part = take(list(names))
        part.validate(full=True)  # offsets in a damaged file may point anywhere
        return {name: part.column(name) for name in names}

    return Source(label, tuple(names), checksum, options, read, options.decimal or ".")


def _read_ipc(file: IO[bytes]) -> Any:
    """Return the table of an Arrow file, stream, or Feather file of either version."""
    import pyarrow as pa
    import pyarrow.feather

    try:
        return pyarrow.feather.read_table(file, memory_map=False)
    except pa.ArrowInvalid:
        file.seek(0)
        return pa.ipc.open_stream(file).read_all()


# --- workbooks ------------------------------------------------------------------------------------


def _workbook_source(file: IO[bytes], label: str, options: ReadOptions) -> Source:
    """Return the first sheet of an .xlsx file; refuse other archives."""
    _check_archive(file, label)
    checksum = _checksum(file)
    import_extra("openpyxl", f"Reading {label}", "openpyxl (or save the sheet as CSV)")
    pandas = import_extra("pandas", f"Reading {label}")
    try:
        book = pandas.ExcelFile(file, engine="openpyxl")
        sheet = pandas.read_excel(book, header=None, dtype=object).dropna(how="all")
    except Exception as error:  # XML, zip and value errors of any kind
        raise InvalidInputError(
            f"{label} cannot be read as a workbook ({briefly(error)}). {_SAVE_AS}"
        ) from error
    if not len(sheet):
        raise InvalidInputError(f"The first sheet of {label} is empty.")
    first = ["" if cell != cell else str(cell) for cell in sheet.iloc[0]]
    names = _column_names(first, options.header, label)
    body = sheet.iloc[int(options.header) :]

    def read(chosen: Sequence[str], as_text: Collection[str]) -> Mapping[str, Any]:
        return {name: as_arrow(body.iloc[:, names.index(name)]) for name in chosen}

    def place(row: int) -> str:
        return f"row {body.index[row] + 1:,} of the sheet"

    sheets = book.sheet_names
    notes = (f"The first of {len(sheets)} sheets, {sheets[0]!r}, was read.",) * (len(sheets) > 1)
    decimal = options.decimal or "."
    return Source(label, names, checksum, options, read, decimal, notes, place=place)


def _check_archive(file: IO[bytes], label: str) -> None:
    """Raise unless an archive is a workbook."""
    try:
        with zipfile.ZipFile(file) as archive:
            members = archive.namelist()
    except ZIP_ERRORS as error:
        raise InvalidInputError(
            f"{label} is a damaged archive ({briefly(error)}). Copy it again."
        ) from error
    file.seek(0)
    if any(name.endswith(".npy") for name in members):
        raise InvalidInputError(
            f"{label} is a NumPy archive (.npz), which is not read as a table. Write its columns "
            "to a Parquet or CSV file, or pass its arrays to fit in Python."
        )
    if "xl/workbook.xml" not in members:
        raise InvalidInputError(f"{label} is an archive that holds no .xlsx sheet. {_SAVE_AS}")


# --- text -----------------------------------------------------------------------------------------

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


def _text_source(file: IO[bytes], label: str, options: ReadOptions) -> Source:
    with _reading(label):
        data = file.read()
        checksum = hashlib.sha256(data).hexdigest()
        text = _open_text(_unpacked(data, label), label, options)
    return Source(
        label,
        text.names,
        checksum,
        options,
        text.read,
        text.decimal()[0],
        text.notes(),
        text.codes(),
        text.place,
    )


def _unpacked(data: bytes, label: str) -> bytes:
    try:
        return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    except (EOFError, OSError, zlib.error) as error:
        raise InvalidInputError(
            f"{label} cannot be read: its compressed part is damaged ({error}). Copy it again."
        ) from error


@dataclass(frozen=True, eq=False)
class _Text:
    """A table in a text: how it is written, as said or guessed from its first lines."""

    data: bytes
    label: str
    options: ReadOptions
    encoding: str
    delimiter: str
    names: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]  #: Cells of the first lines that have as many as names
    skipped: int  #: How many lines the names take

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
        """Return columns of numbers with leading zeros, all of one length."""
        found = set()
        for name, cells in zip(self.names, zip(*self.lines, strict=True), strict=False):
            known = [text for cell in cells if (text := cell.strip())]
            same = len(set(map(len, known))) == 1 and len(known[0]) > 1
            if same and all(map(str.isdigit, known)) and any(t[0] == "0" for t in known):
                found.add(name)
        return frozenset(found)

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
        looks = {}
        if len(names) > _WIDE:  # Arrow tries seven kinds for each, which takes longer than reading
            columns = zip(self.names, zip(*self.lines, strict=True), strict=False)
            looks = {n: pa.float64() for n, c in columns if all(map(_NUMBER.fullmatch, c))}
        try:
            try:
                table = self._parsed(names, {**looks, **kinds})
            except pa.ArrowInvalid:
                if not looks:
                    raise
                table = self._parsed(names, kinds)  # the first lines did not tell
        except pa.ArrowInvalid as error:
            told = self.fault() or briefly(error)
            raise InvalidInputError(f"{self.label} cannot be read: {told}.") from error
        places = {name: i for i, name in enumerate(table.column_names)}
        return {name: table.column(places[name]) for name in names}

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


def _open_text(data: bytes, label: str, options: ReadOptions) -> _Text:
    """Return a text with what its beginning shows.

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
    names = _column_names(first, options.header, label)
    skipped = skipped if options.header else 0
    found = _Text(data, label, options, encoding, mark, names, same, skipped)
    # Arrow reads everything after a quotation mark that is never closed as one cell.
    if data.count(b'"') % 2 and (fault := found.fault()):
        raise InvalidInputError(f"{label} cannot be read: {fault}.")
    return found


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
