"""A file as a table of typed columns: numbers, dates and text, with what was done to read it.

pyarrow parses, as text; a small sniff finds delimiter, decimal mark and encoding; and each column
becomes numbers, dates, or stays text. Nothing is repaired in silence: lines of another length are
refused by number, and everything that was taken for something else than it says is noted.
"""

from __future__ import annotations

import csv
import io
import os
import re
import stat
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.app.words import BadData, BadOption, count, quoted, safe

__all__ = ["MISSING", "Table", "read_table"]

#: What stands for a missing value in any file; capital letters do not matter.
MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "nil", "#n/a", "<na>", "?", "-", "–"})
_DELIMITERS = ",;\t|"
#: A column is one of numbers if so few of its cells are not; those are then missing, which is said.
_FOREIGN = 0.05
_MOST_COLUMNS = 20_000
_LARGEST = 1e100  #: Squares of larger numbers are not numbers
_FORMATS = (
    "%Y-%m-%d",
    "%Y/%m/%d",
    "%Y%m%d",
    "%d.%m.%Y",
    "%d.%m.%y",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%d-%m-%Y",
    "%m-%d-%Y",
    "%d %b %Y",
    "%d-%b-%Y",
    "%b %d, %Y",
)
_TIMES = ("", " %H:%M", " %H:%M:%S", "T%H:%M", "T%H:%M:%S", " %H:%M:%S.%f", "T%H:%M:%S.%f")


@dataclass(frozen=True, eq=False)
class Table:
    """Rows and typed columns of a file."""

    name: str  #: Of the file
    frame: Any  #: pandas: float64, datetime64 and text columns; nan, NaT and None where missing
    kinds: dict[str, str]  #: "number", "date", "text" or "empty" for each column
    lines: NDArray[np.int64]  #: Where each row stands in the file, the header being line 1
    notes: list[str]  #: How it was read, where that could be otherwise
    warnings: list[str] = field(default_factory=list)  #: The same, where it may change the answer

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(self.frame)

    def rows(self, keep: NDArray[Any]) -> Table:
        """Return some of the rows."""
        frame = self.frame.iloc[keep].reset_index(drop=True)
        return Table(self.name, frame, self.kinds, self.lines[keep], self.notes, self.warnings)

    def where(self, rows: NDArray[Any]) -> str:
        """Return where some rows stand, in words."""
        lines = [f"{self.lines[i]:,}" for i in list(rows)[:3]]
        return f"line{'s' if len(lines) > 1 else ''} {', '.join(lines)}" + (
            " and others" if len(rows) > 3 else ""
        )


def read_table(path: str, na: Sequence[str] = (), kinds: Mapping[str, str] | None = None) -> Table:
    """Return the table of a file.

    Parameters
    ----------
    path : str
        CSV or other delimited text, Parquet, or xlsx where openpyxl is there.
    na : sequence of str
        Further marks of a missing value.
    kinds : mapping, optional
        What columns must hold, where that is known from the file that a model was fitted to.
    """
    _refuse_what_is_no_file(path)
    suffix = Path(path).suffix.lower()
    with open(path, "rb") as opened:
        start = opened.read(8)
    if start.startswith(b"PAR1") or suffix in (".parquet", ".pq"):
        frame, lines, notes = _parquet(path)
    elif suffix in (".xlsx", ".xlsm"):
        frame, lines, notes = _workbook(path)
    else:
        frame, lines, notes = _delimited(path, start)
    if not len(frame):
        raise BadData(f"{safe(path)} has a header and no rows.")
    if frame.shape[1] > _MOST_COLUMNS:
        raise BadData(
            f"{safe(path)} has {frame.shape[1]:,} columns; at most {_MOST_COLUMNS:,} are read. If "
            "rows and columns changed places, transpose the table."
        )
    return _typed(Path(path).name, frame, lines, notes, na, kinds or {})


def _refuse_what_is_no_file(path: str) -> None:
    try:
        found = os.stat(path)
    except OSError as error:
        raise BadOption(f"Cannot read {safe(path)}: {error.strerror}.") from error
    if stat.S_ISDIR(found.st_mode):
        raise BadOption(f"Cannot read {safe(path)}: it is a folder.")
    if not stat.S_ISREG(found.st_mode):
        raise BadOption(f"Cannot read {safe(path)}: it is a device or a pipe; save it to a file.")
    if not found.st_size:
        raise BadData(f"{safe(path)} is empty.")
    if not os.access(path, os.R_OK):
        raise BadOption(f"Cannot read {safe(path)}: permission denied.")


# --- files ----------------------------------------------------------------------------------------


def _parquet(path: str) -> tuple[Any, NDArray[np.int64], list[str]]:
    import pyarrow.parquet

    try:
        frame = pyarrow.parquet.read_table(path).to_pandas()
    except (pyarrow.ArrowException, OSError) as error:
        raise BadData(f"{safe(path)} is no Parquet file: {_first_line(error)}") from error
    frame = frame.reset_index() if any(frame.index.names) else frame
    frame.columns = _names([str(name) for name in frame.columns])
    return frame, np.arange(1, len(frame) + 1), ["Row numbers count from 1."]


def _workbook(path: str) -> tuple[Any, NDArray[np.int64], list[str]]:
    import pandas as pd

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sheets = pd.read_excel(path, sheet_name=None, header=None, engine="openpyxl")
    except ImportError as error:
        raise BadOption(
            f"{safe(path)} is a workbook, which needs openpyxl: pip install openpyxl. Or save the "
            "sheet as CSV."
        ) from error
    except Exception as error:  # whatever openpyxl and zipfile say of a damaged file
        raise BadData(f"{safe(path)} is no readable workbook: {_first_line(error)}") from error
    name, sheet = next(iter(sheets.items()))
    if sheet.empty:
        raise BadData(f"The first sheet of {safe(path)}, {quoted(name)}, is empty.")
    names = _names(["" if value != value else str(value) for value in sheet.iloc[0]])
    frame = sheet.iloc[1:].reset_index(drop=True).infer_objects()
    frame.columns = names
    lines = np.arange(2, len(frame) + 2)
    empty = frame.isna().all(axis=1).to_numpy()
    notes = [f"Sheet {quoted(name)}, the first of {len(sheets)}."] if len(sheets) > 1 else []
    return frame[~empty].reset_index(drop=True), lines[~empty], notes


def _delimited(path: str, start: bytes) -> tuple[Any, NDArray[np.int64], list[str]]:
    import pyarrow
    import pyarrow.csv

    for magic, what in ((b"\x1f\x8b", "gzip"), (b"PK\x03\x04", "zip"), (b"%PDF", "PDF")):
        if start.startswith(magic):
            raise BadData(f"{safe(path)} is a {what} file: unpack it, or export it as CSV.")
    text, notes = _decoded(path, Path(path).read_bytes())
    sample = text[:200_000]
    delimiter = _delimiter(sample)
    if delimiter != ",":
        word = {"\t": "tabs", ";": "semicolons", "|": "bars"}[delimiter]
        notes.append(f"Columns are separated by {word}.")
    csv.field_size_limit(2**31 - 1)
    rows = csv.reader(io.StringIO(text), delimiter=delimiter)
    header, first = next(((row, rows.line_num) for row in rows if row), ([], 0))
    names = _names(header)
    if not header:
        raise BadData(f"{safe(path)} has no header.")
    _refuse_a_header_of_numbers(path, header)
    quotes = '"' in text
    try:
        parsed = pyarrow.csv.read_csv(
            io.BytesIO(text.encode("utf-8", "replace")),
            read_options=pyarrow.csv.ReadOptions(
                column_names=names,
                skip_rows=first,
                use_threads=False,
                block_size=max(1 << 20, min(len(text.encode()) + 1, 1 << 30)),
            ),
            parse_options=pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=quotes),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(names, pyarrow.string()), strings_can_be_null=False
            ),
        )
    except pyarrow.ArrowInvalid as error:
        _refuse_ragged_lines(path, text, delimiter, len(names))
        if "Empty CSV" in str(error):
            raise BadData(f"{safe(path)} has a header and no rows.") from error
        raise BadData(f"{safe(path)} cannot be parsed: {_first_line(error)}") from error
    return parsed.to_pandas(), _line_numbers(text, delimiter, first, parsed.num_rows, quotes), notes


def _decoded(path: str, raw: bytes) -> tuple[str, list[str]]:
    for mark, encoding in (
        (b"\xef\xbb\xbf", "utf-8-sig"),
        (b"\xff\xfe", "utf-16"),
        (b"\xfe\xff", "utf-16"),
    ):
        if raw.startswith(mark):
            return raw.decode(encoding, "replace"), []
    if b"\0" in raw[:100_000]:
        raise BadData(f"{safe(path)} is not a table of text: it holds bytes of zero.")
    try:
        return raw.decode("utf-8"), []
    except UnicodeDecodeError:
        return raw.decode("cp1252", "replace"), ["Text was read as Windows-1252, not UTF-8."]


def _delimiter(sample: str) -> str:
    """Return what separates columns: what divides most lines into as many cells as the header."""
    lines = [line for line in sample.splitlines()[:200] if line.strip()]
    lines = lines[:-1] if len(lines) > 20 else lines  # the last may be cut
    best, score = ",", (0.0, 0)
    for delimiter in _DELIMITERS:
        sizes = [len(row) for row in csv.reader(lines, delimiter=delimiter) if row] or [0]
        same = round(sizes.count(sizes[0]) / len(sizes), 1)
        if sizes[0] > 1 and (same, sizes[0]) > score:
            best, score = delimiter, (same, sizes[0])
    return best


def _names(header: Sequence[str]) -> list[str]:
    names: list[str] = []
    for place, name in enumerate(header, 1):
        name = name.strip() or f"column {place}"
        if name in names:
            raise BadData(
                f"Two columns are called {quoted(name)} (columns {names.index(name) + 1} and "
                f"{place}): give each a name of its own."
            )
        names.append(name)
    return names


def _refuse_a_header_of_numbers(path: str, header: Sequence[str]) -> None:
    if len(header) > 1 and all(
        re.fullmatch(r"\s*[-+]?\d+([.,]\d+)?([eE][-+]?\d+)?\s*", h) for h in header
    ):
        raise BadData(
            f"The first line of {safe(path)} holds numbers only: it needs a line with the names of "
            "the columns."
        )


def _refuse_ragged_lines(path: str, text: str, delimiter: str, width: int) -> None:
    rows = csv.reader(io.StringIO(text), delimiter=delimiter)
    bad = [(rows.line_num, len(row)) for row in rows if row and len(row) != width]
    if bad:
        line, cells = bad[0]
        others = f", and {count(len(bad) - 1, 'other line')} likewise" if len(bad) > 1 else ""
        raise BadData(
            f"{safe(path)}, line {line:,}: {count(cells, 'cell')} where the header has "
            f"{count(width, 'column')}{others}. Correct the file; nothing is filled in by guessing."
        )


def _line_numbers(
    text: str, delimiter: str, first: int, n_rows: int, quotes: bool
) -> NDArray[np.int64]:
    """Return the line at which each row begins: one after another, but for quoted line breaks."""
    plain = np.arange(first + 1, first + 1 + n_rows)
    if text.count("\n") + (not text.endswith("\n")) == first + n_rows:
        return plain
    rows, found, last = csv.reader(io.StringIO(text), delimiter=delimiter), [], 0
    for row in rows:
        if row and last >= first:
            found.append(last + 1 if quotes else rows.line_num)
        last = rows.line_num
    return np.array(found) if len(found) == n_rows else plain


def _first_line(error: BaseException) -> str:
    return safe(str(error).splitlines()[0] if str(error) else type(error).__name__, 200)


# --- columns --------------------------------------------------------------------------------------


def _typed(
    name: str,
    frame: Any,
    lines: NDArray[np.int64],
    notes: list[str],
    na: Sequence[str],
    wanted: Mapping[str, str],
) -> Table:
    import pandas as pd

    notes, doubts, kinds, columns = list(notes), [], {}, {}
    marks = {mark.strip().lower() for mark in na} | MISSING
    texts = {}
    for column in frame.columns:
        values = frame[column]
        if values.dtype.kind == "M":
            columns[column], kinds[column] = pd.Series(_naive(values)), "date"
        elif values.dtype.kind in "biuf":
            columns[column], kinds[column] = _coded(values.astype("float64"), na), "number"
        else:
            texts[column] = _stripped(values, marks)
    comma = _decimal_comma(texts)
    if comma:
        notes.append("Decimals are written with a comma.")
    foreign: dict[str, list[str]] = {}
    for column, values in texts.items():
        made, kind, remarks = _converted(values, comma, wanted.get(column))
        columns[column], kinds[column] = made, kind
        if remarks and kind == "number":
            foreign[column] = remarks
        elif remarks:
            notes.append(f"{quoted(column)}: {remarks[0]}")
    for column, cells in foreign.items():
        example = pd.Series(texts[column]).eq(cells[0]).to_numpy().nonzero()[0][0]
        total = int((columns[column].isna() & texts[column].notna()).sum())
        doubts.append(
            f"{quoted(column)} holds numbers, except for {count(total, 'cell')} such as "
            f"{quoted(cells[0])} in line {lines[example]:,}: read as missing."
        )
    for column, kind in kinds.items():
        beyond = columns[column].abs() > _LARGEST if kind == "number" else None
        if beyond is not None and beyond.any():
            line = lines[int(beyond.to_numpy().argmax())]
            raise BadData(
                f"Line {line:,} has a number beyond {_LARGEST:.0e} in {quoted(column)}: a "
                "unit, or a mistake?"
            )
    ordered = pd.DataFrame({column: columns[column] for column in frame.columns})
    for column, kind in wanted.items():
        if column in kinds and kinds[column] not in (kind, "empty"):
            raise BadData(
                f"{quoted(column)} held {_HELD[kind]} when the model was fitted; now it holds "
                f"{_HELD[kinds[column]]}."
            )
    return Table(name, ordered, kinds, lines, notes, doubts)


_HELD = {"number": "numbers", "date": "dates", "text": "text", "empty": "nothing"}


def _stripped(values: Any, marks: set[str]) -> Any:
    """Return cells as text without blanks around, None where one is missing."""
    values = values.map(lambda cell: None if cell is None or cell != cell else str(cell).strip())
    values = values.astype(object)
    lowered = values.str.lower()
    return values.mask(lowered.isin(marks), None).where(values.notna(), None)


def _coded(values: Any, na: Sequence[str]) -> Any:
    """Return numbers without those that were named as marks of a missing value."""
    codes = [float(mark) for mark in na if re.fullmatch(r"[-+]?\d+(\.\d+)?", mark.strip())]
    return values.mask(values.isin(codes))


def _naive(values: Any) -> Any:
    """Return times without a zone, as those of UTC."""
    if getattr(values.dt, "tz", None) is not None:
        values = values.dt.tz_convert("UTC").dt.tz_localize(None)
    return values


_POINT = re.compile(r"[-+−]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?")
_COMMA = re.compile(r"[-+−]?(\d+|\d{1,3}(\.\d{3})+)(,\d*)?([eE][-+]?\d+)?")
_THOUSANDS = re.compile(r"[-+−]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?")


def _decimal_comma(texts: Mapping[str, Any]) -> bool:
    """Return whether numbers of the file have a decimal comma: some column says so beyond doubt."""
    clear = False
    for values in texts.values():
        some = values.dropna()
        some = some[some.str.contains(",", regex=False)].head(1000)
        if len(some) and all(_COMMA.fullmatch(v) for v in some):
            clear = clear or any(not _THOUSANDS.fullmatch(v) for v in some)
    return clear


def _converted(values: Any, comma: bool, wanted: str | None) -> tuple[Any, str, list[str]]:
    """Return a column as numbers, dates or text, what it is, and what was odd about it."""
    known = values.dropna()
    if not len(known):
        return values.astype("float64") if wanted != "text" else values, "empty", []
    if wanted == "text":
        return values, "text", []
    numbers = None if _are_codes(known) else _numbers(values, known, comma)
    if numbers is not None:
        foreign = values[numbers.isna() & values.notna()]
        few = len(foreign) <= _FOREIGN * len(known) and foreign.nunique() <= 10
        if not len(foreign) or few or wanted == "number":
            return numbers, "number", list(foreign.value_counts().index)
    dates = _dates(values, known)
    if dates is not None:
        return dates[0], "date", dates[1]
    return values, "text", []


def _are_codes(known: Any) -> bool:
    """Return whether digits stand for something else than numbers: codes with leading zeros."""
    some = known.head(5000)
    return bool(
        some.str.fullmatch(r"\d+").all()
        and some.str.len().nunique() == 1
        and len(some.iloc[0]) > 1
        and some.str.startswith("0").any()
    )


def _numbers(values: Any, known: Any, comma: bool) -> Any:
    """Return a column of text as numbers, nan where a cell is none; None if hardly any is one."""
    import pandas as pd

    some = known.head(500)
    pattern = _COMMA if comma else _POINT
    cells = values
    if not comma and some.str.contains(",", regex=False).any():
        with_comma = some[some.str.contains(",", regex=False)]
        if all(_THOUSANDS.fullmatch(v) for v in with_comma):
            cells = values.str.replace(",", "", regex=False)
    if some.str.endswith("%").mean() > 1 - _FOREIGN:
        cells = cells.str.rstrip("% ")
    cells = cells.str.replace("−", "-", regex=False).str.replace("[\u00a0\u202f]", "", regex=True)
    if sum(bool(pattern.fullmatch(v)) for v in cells.dropna().head(500)) < 0.5 * len(some):
        return None
    if comma:
        # A point divides thousands where every cell with one has three digits behind it; a column
        # without a comma whose points do otherwise has decimal points all the same.
        dotted = cells[cells.str.contains(".", regex=False, na=False)]
        if all(_COMMA.fullmatch(v) for v in dotted.head(5000)):
            cells = cells.str.replace(".", "", regex=False)
        cells = cells.str.replace(",", ".", regex=False)
    made = pd.to_numeric(cells, errors="coerce").astype("float64")
    good = cells.str.fullmatch(_POINT.pattern.replace("−", "")).fillna(False).astype(bool)
    return made.where(good)


def _dates(values: Any, known: Any) -> tuple[Any, list[str]] | None:
    """Return a column of text as times; None unless every cell is one in the same way."""
    import pandas as pd

    some = known.head(200)
    if not some.str.contains(r"\d", regex=True).all() or (some.str.len() < 6).any():
        return None
    tail = r"(?:Z|[+-]\d\d:?\d\d)$"
    zoned = bool(some.str.contains(r"\d\d:\d\d.*" + tail, regex=True).all())
    plain = values.str.replace(tail, "", regex=True) if zoned else values
    found = []
    for day in _FORMATS:
        if (day == "%Y%m%d") != bool(some.str.fullmatch(r"\d{8}").all()):
            continue
        for time in _TIMES:
            how = day + time
            tried = pd.to_datetime(plain.dropna().head(200), format=how, errors="coerce")
            if tried.notna().all():
                made = pd.to_datetime(plain, format=how, errors="coerce")
                if made.isna().sum() == values.isna().sum():
                    found.append((how, made))
                break
    if not found:
        return None
    how, made = found[0]
    remarks = []
    if len(found) > 1 and not found[1][1].equals(made):
        remarks = [
            f"read as day before month ({safe(known.iloc[0])} is {made.dropna().iloc[0]:%d %B %Y})."
        ]
    return made.astype("datetime64[us]"), remarks
