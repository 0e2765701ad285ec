"""Tables in text files: CSV and its relatives, plain or gzipped, read by Arrow."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Collection, Sequence
from typing import IO, Any, cast

from holdfast import progress
from holdfast.exceptions import InvalidInputError
from holdfast.tables.dialect import check_encoding, is_number, scan, take_sample
from holdfast.tables.sources import Source, check_names, file_checksum, import_pyarrow
from holdfast.tables.values import MISSING, Marks

__all__ = ["CsvSource"]

_BLOCK, _MOST_BLOCK = 1 << 22, 1 << 30
# From so many columns on, the kinds of columns are taken from the first lines: Arrow tries seven
# kinds for each column and each block, which takes longer than reading.
_WIDE = 2000
_WORDS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar", " ": "blank"}


class CsvSource(Source):
    """A text file of cells: CSV, TSV, semicolons, bars.

    Parameters
    ----------
    file : binary file
        Seekable; gzip is recognised by its first bytes.
    label : str
        What to call it in messages.
    delimiter : str, optional
        One character; default: guessed.
    header : bool, default True
        Whether the first line names the columns; otherwise they are c0, c1, …
    decimal : {".", ","}, optional
        The decimal mark; default: guessed.
    encoding : str, optional
        Default: guessed.
    na : sequence of str
        Further marks of missing values.
    """

    def __init__(
        self,
        file: IO[bytes],
        label: str,
        *,
        delimiter: str | None = None,
        header: bool = True,
        decimal: str | None = None,
        encoding: str | None = None,
        na: Sequence[str] = (),
    ) -> None:
        import_pyarrow(f"Reading {label}")
        if decimal not in (None, ".", ","):
            raise InvalidInputError(f"decimal must be '.' or ','; got {decimal!r}.")
        self.file = file
        self.label = label
        self.header = header
        self.checksum = file_checksum(file)
        try:
            self._scan = scan(self._bytes(), check_encoding(encoding))
            sample = take_sample(self._text(), label, delimiter)
        except (EOFError, OSError, zlib.error) as error:
            raise InvalidInputError(f"{label} cannot be read: {error}.") from error
        except UnicodeError as error:
            raise InvalidInputError(
                f"{label} is not text in the encoding {self._scan.encoding}: {error}."
            ) from error
        if self._scan.uneven:
            self._check_quotes(sample.delimiter)
        first = sample.first
        if header and all(is_number(cell) for cell in first):
            raise InvalidInputError(
                f"The first line of {label} holds numbers only ({', '.join(first[:4])}, …), not "
                "the names of columns. If the file has no header line, say header=False; the "
                "columns are then called c0, c1, …"
            )
        names = [c.strip() for c in first] if header else [f"c{i}" for i in range(len(first))]
        self.names = check_names(names, label)
        self.candidates = self.names
        self._sample = sample
        self.marks = Marks(decimal, decimal or sample.decimal()[0], tuple(na))
        self.notes = self._notes(delimiter, decimal, encoding)
        self._numbers, codes = sample.kinds()
        self._codes = frozenset(n for n, c in zip(self.names, codes, strict=False) if c)

    def _check_quotes(self, delimiter: str) -> None:
        """Raise if a quotation mark is never closed: Arrow reads the rest as one cell."""
        reader = csv.reader(self._text(), delimiter=delimiter, skipinitialspace=True, strict=True)
        started = 0
        try:
            for _ in reader:
                started = reader.line_num
        except csv.Error as error:
            if "unexpected end of data" in str(error) or "field limit" in str(error):
                raise InvalidInputError(
                    f"{self.label} cannot be read: a quotation mark in line {started + 1:,} or "
                    "soon after it is never closed."
                ) from error

    def _notes(
        self, delimiter: str | None, decimal: str | None, encoding: str | None
    ) -> tuple[str, ...]:
        notes = []
        mark = self._sample.delimiter
        if delimiter is None and mark != ",":
            notes.append(f"Cells are separated by a {_WORDS.get(mark, repr(mark))}.")
        if decimal is None and self.marks.likely == ",":
            notes.append("Numbers have a decimal comma.")
            if not self._sample.decimal()[1]:
                notes.append("It could be otherwise; with decimal='.' 1,234 is one thousand.")
        if encoding is None and not self._scan.encoding.startswith("utf-8"):
            notes.append(f"The text is encoded as {self._scan.encoding}.")
        return tuple(notes)

    def codes(self) -> frozenset[str]:
        """Return columns of numbers that are written as codes are, with leading zeros."""
        return self._codes

    def arrays(self, names: Sequence[str], as_text: Collection[str] = ()) -> dict[str, Any]:
        """Return the named columns as Arrow arrays."""
        import pyarrow as pa

        progress.report(0, 1, "reading")
        kinds = dict.fromkeys(as_text, pa.string())
        guessed = dict(kinds)
        if len(names) > _WIDE:
            looks = dict(zip(self.names, self._numbers, strict=False))
            for name in self.names:
                guessed.setdefault(name, pa.float64() if looks.get(name) else pa.string())
        block = max(_BLOCK, 16 * self._sample.longest)
        if len(names) > _WIDE:
            block = max(block, min(self._scan.size, _MOST_BLOCK // 2))
        while True:
            try:
                table = self._read(names, guessed, min(block, _MOST_BLOCK))
                break
            except pa.ArrowInvalid as error:
                if "straddling" in str(error) and block < min(_MOST_BLOCK, 2 * self._scan.size):
                    block *= 4
                elif guessed != kinds and "conversion error" in str(error):
                    guessed = kinds  # the first lines did not tell
                else:
                    self._complain(error)
            except (EOFError, OSError, UnicodeError, zlib.error) as error:
                raise InvalidInputError(f"{self.label} cannot be read: {error}.") from error
        progress.report(1, 1, "reading")
        places = {name: i for i, name in enumerate(table.column_names)}
        return {name: table.column(places[name]) for name in names}

    def _read(self, names: Sequence[str], kinds: dict[str, Any], block: int) -> Any:
        import pyarrow.csv

        encoding = self._scan.encoding
        return pyarrow.csv.read_csv(
            self._bytes(),
            read_options=pyarrow.csv.ReadOptions(
                column_names=list(self.names),
                skip_rows=self._sample.header_lines if self.header else 0,
                encoding="utf-8" if encoding.startswith("utf-8") else encoding,
                block_size=block,
            ),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=self._sample.delimiter, newlines_in_values=self._scan.quoted
            ),
            convert_options=pyarrow.csv.ConvertOptions(
                # Arrow looks each of them up among all others, which takes long for many.
                include_columns=None if len(names) > _WIDE else list(names),
                column_types=kinds,
                null_values=[*MISSING, *self.marks.missing],
                strings_can_be_null=True,
                decimal_point=self.marks.likely,
                check_utf8=True,
            ),
        )

    def _complain(self, error: Exception) -> None:
        """Raise the error of a file that Arrow cannot read, with the line, where it can be told."""
        width = len(self.names)
        try:
            reader = csv.reader(
                self._text(), delimiter=self._sample.delimiter, skipinitialspace=True
            )
            for cells in reader:
                if cells and len(cells) != width:
                    raise InvalidInputError(
                        f"{self.label}, line {reader.line_num}: {len(cells)} values where the "
                        f"first line has {width} (delimiter {self._sample.delimiter!r})."
                    ) from error
        except (csv.Error, UnicodeError, EOFError, OSError, zlib.error):
            pass
        raise InvalidInputError(f"{self.label} cannot be read: {error}") from error

    def place(self, row: int) -> str:
        """Return the line of a row, if every row is one line, else its number."""
        if self._scan.quoted:
            return f"row {row:,}"
        return f"line {row + 1 + (self._sample.header_lines if self.header else 0):,}"

    def _bytes(self) -> IO[bytes]:
        self.file.seek(0)
        zipped = self.file.read(2) == b"\x1f\x8b"
        self.file.seek(0)
        raw = gzip.GzipFile(fileobj=self.file) if zipped else _Borrowed(self.file)
        return cast("IO[bytes]", raw)

    def _text(self) -> io.TextIOWrapper:
        encoding = self._scan.encoding
        if encoding == "utf-8":
            encoding = "utf-8-sig"
        return io.TextIOWrapper(self._bytes(), encoding=encoding, newline="")


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

    def read(self, size: int = -1) -> bytes:
        return self._file.read(size)

    def read1(self, size: int = -1) -> bytes:  # what TextIOWrapper asks for
        return self._file.read(size)
