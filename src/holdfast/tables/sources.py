"""Where tables come from: text files, Parquet, Feather, Arrow and workbooks."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import os
import sys
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any

from holdfast import progress
from holdfast.data.npz import ZIP_ERRORS, briefly
from holdfast.data.texts import quoted
from holdfast.exceptions import InvalidInputError
from holdfast.tables.arrow import as_arrow, import_extra, import_pyarrow, reading, too_large
from holdfast.tables.dialect import Dialect, cells, guess_dialect, is_number
from holdfast.tables.options import ReadOptions
from holdfast.tables.values import MISSING

__all__ = ["Source", "open_source"]

_BLOCK, _MOST_BLOCK = 1 << 22, 1 << 30
# From so many columns on, the kinds of columns are taken from the first lines: Arrow tries seven
# kinds for each column and each block, which takes longer than reading.
_WIDE = 2000
_WORDS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar", " ": "blank"}


@dataclass(frozen=True, eq=False)
class Source:
    """A file that holds a table.

    Attributes
    ----------
    label : str
        What to call it in messages.
    names : tuple of str
        All columns.
    checksum : str
        sha256 of the file's bytes.
    options : ReadOptions
        How it is written, where that was said.
    read : callable
        Takes names of columns and those that are text; returns Arrow arrays by name.
    likely : {".", ","}
        The decimal mark, as far as the file shows.
    notes : tuple of str
        How the file was read, a sentence each, where it had to be guessed.
    codes : frozenset of str
        Columns of numbers that are written as codes are, with leading zeros.
    place : callable
        Says where in the file a row stands; rows are counted from 0.
    """

    label: str
    names: tuple[str, ...]
    checksum: str
    options: ReadOptions
    read: Callable[[Sequence[str], Collection[str]], Mapping[str, Any]]
    likely: str = "."
    notes: tuple[str, ...] = ()
    codes: frozenset[str] = frozenset()
    place: Callable[[int], str] = "row {:,}".format

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
        """Return the named columns as Arrow arrays.

        Parameters
        ----------
        names : sequence of str
            Which columns.
        as_text : collection of str
            Columns whose values are names even if they read as numbers.
        """
        progress.report(0, 1, "reading")
        with reading(self.label):
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


def _checksum(file: Any) -> str:
    digest = hashlib.file_digest(file, "sha256").hexdigest()
    file.seek(0)
    return digest


# --- Parquet, Feather, Arrow ----------------------------------------------------------------------


def _arrow_source(file: IO[bytes], label: str, options: ReadOptions, *, parquet: bool) -> Source:
    import_pyarrow(f"Reading {label}")
    checksum = _checksum(file)
    with reading(label):
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

    if options.decimal is None:
        return Source(label, tuple(names), checksum, options, read)
    return Source(label, tuple(names), checksum, options, read, options.decimal)


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
    try:
        with zipfile.ZipFile(file) as archive:
            members = archive.namelist()
    except ZIP_ERRORS as error:
        raise InvalidInputError(
            f"{label} is a damaged archive ({briefly(error)}). Copy it again."
        ) from error
    if "xl/workbook.xml" not in members:
        if any(name.endswith(".npy") for name in members):
            raise InvalidInputError(
                f"{label} is a NumPy archive (.npz), which is not read as a table. Write its "
                "columns to a Parquet or CSV file, or pass its arrays to fit in Python."
            )
        raise InvalidInputError(f"{label} is an archive that holds no .xlsx sheet. {_SAVE_AS}")
    openpyxl = import_extra("openpyxl", f"Reading {label}", "openpyxl (or save the sheet as CSV)")
    import_pyarrow(f"Reading {label}")
    checksum = _checksum(file)
    try:
        book = openpyxl.load_workbook(file, read_only=True, data_only=True)
        sheet = book.worksheets[0]
        rows = [
            (i, row)
            for i, row in enumerate(sheet.iter_rows(values_only=True), 1)
            if any(cell is not None for cell in row)
        ]
    except Exception as error:  # XML, zip and value errors of any kind
        raise InvalidInputError(
            f"{label} cannot be read as a workbook ({briefly(error)}). {_SAVE_AS}"
        ) from error
    if not rows:
        raise InvalidInputError(f"The sheet {sheet.title!r} of {label} is empty.")
    first = tuple("" if cell is None else str(cell) for cell in rows[0][1])
    names = _column_names(first, options.header, label)
    content = rows[1:] if options.header else rows
    columns = dict(zip(names, zip(*(row for _, row in content), strict=True), strict=False))
    notes = f"The first of {len(book.worksheets)} sheets, {sheet.title!r}, was read."

    def read(names: Sequence[str], as_text: Collection[str]) -> Mapping[str, Any]:
        return {name: as_arrow(columns.get(name, ())) for name in names}

    def place(row: int) -> str:
        return f"row {content[row][0]:,} of the sheet"

    return Source(
        label,
        names,
        checksum,
        options,
        read,
        options.decimal or ".",
        (notes,) if len(book.worksheets) > 1 else (),
        place=place,
    )


def _column_names(first: Sequence[str], header: bool, label: str) -> tuple[str, ...]:
    if not header:
        return tuple(f"c{i}" for i in range(len(first)))
    if all(is_number(cell) for cell in first):
        raise InvalidInputError(
            f"The first line of {label} holds numbers only ({', '.join(first[:4])}, …), not the "
            "names of columns. If the file has no header line, say header=False; the columns are "
            "then called c0, c1, …"
        )
    return tuple(cell.strip() for cell in first)


# --- text -----------------------------------------------------------------------------------------


def _text_source(file: IO[bytes], label: str, options: ReadOptions) -> Source:
    import_pyarrow(f"Reading {label}")
    try:
        data = file.read()
        checksum = hashlib.sha256(data).hexdigest()
        if data[:2] == b"\x1f\x8b":
            data = _unpacked(data, label)
        dialect = guess_dialect(data, label, options.encoding, options.delimiter)
    except MemoryError as error:
        raise too_large(label, error) from error
    except UnicodeError as error:
        raise InvalidInputError(
            f"{label} is not text in the encoding {options.encoding}: {error}."
        ) from error
    names = _column_names(dialect.first, options.header, label)
    quotes = data.count(b'"')
    if quotes % 2:
        _check_quotes(data, dialect, label)
    skipped = dialect.header_lines if options.header else 0
    text = _Text(data, label, names, dialect, options, quotes > 0, skipped)
    _, codes = dialect.kinds()
    return Source(
        label,
        names,
        checksum,
        options,
        text.read,
        text.likely,
        _notes(dialect, options),
        frozenset(name for name, code in zip(names, codes, strict=False) if code),
        text.place,
    )


def _unpacked(data: bytes, label: str) -> bytes:
    try:
        return gzip.decompress(data)
    except (EOFError, OSError, zlib.error) as error:
        raise InvalidInputError(
            f"{label} cannot be read: its compressed part is damaged ({error}). Copy it again."
        ) from error


def _check_quotes(data: bytes, dialect: Dialect, label: str) -> None:
    """Raise if a quotation mark is never closed: Arrow reads the rest as one cell."""
    line = 0
    try:
        for line, _ in cells(data, dialect):  # noqa: B007  # its last value is what is wanted
            pass
    except csv.Error as error:
        if "unexpected end of data" in str(error) or "field limit" in str(error):
            raise InvalidInputError(
                f"{label} cannot be read: a quotation mark in line {line + 1:,} or soon after it "
                "is never closed."
            ) from error


def _notes(dialect: Dialect, options: ReadOptions) -> tuple[str, ...]:
    notes = []
    mark = dialect.delimiter
    if options.delimiter is None and mark != ",":
        notes.append(f"Cells are separated by a {_WORDS.get(mark, repr(mark))}.")
    likely, sure = dialect.decimal()
    if options.decimal is None and likely == ",":
        notes.append("Numbers have a decimal comma.")
        if not sure:
            notes.append("With decimal='.' the comma is a thousands separator instead.")
    if options.encoding is None and not dialect.encoding.startswith("utf-8"):
        notes.append(f"The text is encoded as {dialect.encoding}.")
    return tuple(notes)


@dataclass(frozen=True, eq=False)
class _Text:
    """The text of a table, and how Arrow is to read it."""

    data: bytes
    label: str
    names: tuple[str, ...]
    dialect: Dialect
    options: ReadOptions
    quoted: bool
    skipped: int

    @property
    def likely(self) -> str:
        return self.options.decimal or self.dialect.decimal()[0]

    def place(self, row: int) -> str:
        """Return the line of a row, if every row is one line, else its number."""
        return f"row {row:,}" if self.quoted else f"line {row + 1 + self.skipped:,}"

    def read(self, names: Sequence[str], as_text: Collection[str]) -> Mapping[str, Any]:
        """Return the named columns as Arrow arrays."""
        import pyarrow as pa

        kinds = dict.fromkeys(as_text, pa.string())
        guessed = dict(kinds)
        block = max(_BLOCK, 16 * self.dialect.longest)
        if len(names) > _WIDE:
            for name, number in zip(self.names, self.dialect.kinds()[0], strict=False):
                guessed.setdefault(name, pa.float64() if number else pa.string())
            block = max(block, min(len(self.data), _MOST_BLOCK // 2))
        while True:
            try:
                table = self._table(names, guessed, min(block, _MOST_BLOCK))
                break
            except pa.ArrowInvalid as error:
                if "straddling" in str(error) and block < min(_MOST_BLOCK, 2 * len(self.data)):
                    block *= 4
                elif guessed != kinds and "conversion error" in str(error):
                    guessed = kinds  # the first lines were not enough
                else:
                    self._complain(error)
            except (UnicodeError, OSError) as error:
                raise InvalidInputError(f"{self.label} cannot be read: {error}.") from error
        places = {name: i for i, name in enumerate(table.column_names)}
        return {name: table.column(places[name]) for name in names}

    def _table(self, names: Sequence[str], kinds: Mapping[str, Any], block: int) -> Any:
        import pyarrow.csv

        encoding = self.dialect.encoding
        return pyarrow.csv.read_csv(
            io.BytesIO(self.data),
            read_options=pyarrow.csv.ReadOptions(
                column_names=list(self.names),
                skip_rows=self.skipped,
                encoding="utf-8" if encoding.startswith("utf-8") else encoding,
                block_size=block,
            ),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=self.dialect.delimiter, newlines_in_values=self.quoted
            ),
            convert_options=pyarrow.csv.ConvertOptions(
                # Arrow looks each of them up among all others, which takes long for many.
                include_columns=None if len(names) > _WIDE else list(names),
                column_types=kinds,
                null_values=[*MISSING, *self.options.na],
                strings_can_be_null=True,
                decimal_point=self.likely,
                check_utf8=True,
            ),
        )

    def _complain(self, error: Exception) -> None:
        """Raise the error of a file that Arrow cannot read, with its line, if one is to blame."""
        width = len(self.names)
        try:
            for line, row in cells(self.data, self.dialect):
                if row and len(row) != width:
                    raise InvalidInputError(
                        f"{self.label}, line {line}: {len(row)} values where the first line has "
                        f"{width} (delimiter {self.dialect.delimiter!r})."
                    ) from error
        except (csv.Error, UnicodeError):
            pass
        raise InvalidInputError(f"{self.label} cannot be read: {briefly(error)}") from error
