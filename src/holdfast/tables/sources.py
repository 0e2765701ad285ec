"""Where tables come from: text files, Parquet, Feather, Arrow and workbooks."""

from __future__ import annotations

import gzip
import hashlib
import os
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
from holdfast.exceptions import InvalidInputError
from holdfast.tables.arrow import as_arrow, import_extra, reading, too_large
from holdfast.tables.options import ReadOptions
from holdfast.tables.text import column_names, open_text

__all__ = ["Source", "open_source"]


def _row_number(row: int) -> str:
    """Return how a row is called; rows are counted from 0."""
    return f"row {row:,}"


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
    place: Callable[[int], str] = _row_number

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
    import_extra("pyarrow", f"Reading {label}")
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
    names = column_names(first, options.header, label)
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


def _text_source(file: IO[bytes], label: str, options: ReadOptions) -> Source:
    import_extra("pyarrow", f"Reading {label}")
    try:
        data = file.read()
        checksum = hashlib.sha256(data).hexdigest()
        text = open_text(_unpacked(data, label), label, options)
    except MemoryError as error:
        raise too_large(label, error) from error
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
