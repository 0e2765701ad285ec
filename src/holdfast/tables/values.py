"""What the values of a column are: numbers, names, dates, or nothing.

Arrow and pandas convert what is plainly written. This module handles what else people write:
decimal commas, thousands separators, currencies, limits such as ``<0.1``, and dates in any order.
Of a column of texts only the different ones are looked at.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.data.texts import quoted
from holdfast.exceptions import InvalidInputError, MissingDependencyError
from holdfast.tables.options import ReadOptions

__all__ = ["MISSING", "Reading", "as_arrow", "as_texts", "import_extra", "understand"]

# Read as "no value" in every column. Not "None", which is a level in too many data sets.
MISSING = frozenset(
    ("", "NA", "N/A", "n/a", "NaN", "nan", "NaT", "null", "NULL", "#N/A", "#NA", "<NA>", "?")
)
# Read as "no value" only among numbers and dates: elsewhere "-" may well be a level.
_WEAK = ("-", "--", "–", "—", ".", "..", "none", "None", "na", "n.a.", "N.A.", "missing")
# A column of numbers with a few texts among them is a mistake, not a column of names.
_MOST, _FEWEST = 0.9, 10

# For each decimal mark: plain numbers, and numbers in groups of three digits, which a blank (of
# three kinds), an apostrophe or the other mark divides.
_OTHER = {".": ",", ",": "."}
_BLANKS = " \u00a0\u202f'\u2019"
_PLAIN = {
    mark: rf"^[+-]?([0-9]+[{mark}]?[0-9]*|[{mark}][0-9]+)([eE][+-]?[0-9]+)?$" for mark in _OTHER
}
_GROUPS = {
    mark: rf"^[+-]?[0-9]{{1,3}}([{other}{_BLANKS}][0-9]{{3}})+([{mark}][0-9]*)?$"
    for mark, other in _OTHER.items()
}
_SIGNED = r"^[$€£¥]|[%$€£¥]$"
_LIMIT = r"^[<>≤≥]=?\s*"

_DAYS = (
    "%d.%m.%Y", "%d.%m.%y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y.%m.%d",
    "%d/%m/%y", "%m/%d/%y", "%d %b %Y", "%d %B %Y", "%d-%b-%Y", "%d-%b-%y", "%b %d, %Y",
    "%B %d, %Y", "%b %d %Y", "%b %Y", "%B %Y", "%m/%Y",
)  # fmt: skip
_HOURS = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p")
_FORMATS = ("ISO8601", *(day + hour for hour in _HOURS for day in _DAYS))
_DATE = (
    r"^[0-9]{1,4}[-/. ][0-9A-Za-z]{1,9}[-/. ]|^[0-9]{4}-[0-9]{2}$|"
    r"^[A-Za-z]{3,9}\.? [0-9]|^[0-9]{1,2}/[0-9]{4}$"
)
_SAMPLE = 60
_PARTS = {"d": "day", "m": "month", "b": "month", "B": "month", "Y": "year", "y": "year"}


@dataclass(frozen=True, eq=False)
class Reading:
    """One column, understood."""

    kind: str  #: "number", "yes/no", "category", "date" or "empty"
    #: float64 (missing: NaN), datetime64[us] (NaT), or numbers of levels (-1) for a category
    values: NDArray[Any]
    levels: tuple[str, ...] = ()  #: Of a category, in the order in which they were met
    notes: tuple[str, ...] = ()  #: What had to be understood
    trouble: str | None = None  #: Why it cannot be used: numbers with texts among them
    format: str | None = None  #: Of dates that were written as text
    unit: str | None = None  #: The currency or per cent sign of every number

    def gaps(self) -> NDArray[np.bool_]:
        """Return where values are missing."""
        if self.kind == "category":
            return np.asarray(self.values < 0)
        return np.asarray(np.isnat(self.values) if self.kind == "date" else np.isnan(self.values))

    @cached_property
    def missing(self) -> int:
        """How many values are missing."""
        return int(self.gaps().sum())

    @cached_property
    def n_different(self) -> int:
        """How many different values there are."""
        if self.kind == "category":
            return len(self.levels)
        return len(np.unique(self.values[~self.gaps()]))

    def refuse_faults(self, title: str, argument: str | None = None) -> None:
        """Raise if there are texts among numbers, orders of dates to choose, infinite numbers."""
        if self.trouble and self.kind == "date":
            raise InvalidInputError(
                f"{title} {self.trouble}.",
                argument=argument,
                remedies=("dayfirst",),
                advice="Say dayfirst=True or dayfirst=False.",
            )
        if self.trouble:
            raise InvalidInputError(
                f"{title} {self.trouble}.",
                argument=argument,
                remedies=("na", "categorical"),
                advice="Correct the file, or say na=[...] if such a text means a missing value, or "
                "categorical=[...] if the column holds names.",
            )
        infinite = int(np.isinf(self.values).sum()) if self.kind == "number" else 0
        if infinite:
            raise InvalidInputError(
                f"{title} has {infinite:,} infinite values among {len(self.values):,} rows. Leave "
                "those rows out of the file, or drop the column.",
                argument=argument,
            )

    def take(self, rows: NDArray[np.intp]) -> Reading:
        """Return the values of some rows; a category keeps only the levels that occur there."""
        values, levels = self.values[rows], self.levels
        if self.kind == "category":
            kept, codes = np.unique(values, return_inverse=True)
            start = int(kept.size > 0 and kept[0] < 0)
            levels = tuple(self.levels[int(k)] for k in kept[start:])
            values = (codes - start).astype(np.int32)
        return Reading(self.kind, values, levels, self.notes, self.trouble, self.format, self.unit)


def understand(
    array: Any,
    name: str,
    options: ReadOptions,
    *,
    likely: str = ".",
    as_text: bool = False,
    format: str | None = None,
    place: Callable[[int], str] = "row {:,}".format,
) -> Reading:
    """Return what a column, an Arrow array, holds.

    The decimal mark is the `likely` one when both would do: ``1,234`` alone does not say what it
    is. With `as_text` the values are names even if they read as numbers. `format` is that of a
    column of dates that was seen before, and `place` says where in the file a row stands.
    """
    import pyarrow as pa

    kind = array.type
    if kind == pa.float64() and not as_text:  # nearly every column of a wide table
        return _number(_as_numbers(array))
    if pa.types.is_dictionary(kind):
        array = array.cast(kind.value_type)
        kind = array.type
    dated = pa.types.is_date(kind) or pa.types.is_timestamp(kind)
    if _is(kind, *_TEXT) or (as_text and (dated or _is(kind, *_NUMBERS))):
        found = _Texts.of(as_texts(array), options.na, place)
        return found.categories() if as_text else _text(found, options, likely, format)
    if dated:
        return Reading("date", _as_moments(array))
    if pa.types.is_time(kind):
        hours = _as_numbers(array.cast(pa.time64("ns")).cast(pa.int64())) / 3.6e12
        return Reading("number", hours, notes=("time of day, in hours",))
    if not _is(kind, *_NUMBERS):
        raise InvalidInputError(
            f"The column {name!r} is of type {kind}; columns must hold numbers, booleans, text, "
            "dates or times. Leave it out with drop=[...].",
            remedies=("drop",),
        )
    numbers = _as_numbers(array)
    return Reading("yes/no", numbers) if pa.types.is_boolean(kind) else _number(numbers)


def _number(values: NDArray[np.float64]) -> Reading:
    return Reading("empty" if np.isnan(values).all() else "number", values)


# --- Arrow ----------------------------------------------------------------------------------------

_TEXT = ("string", "large_string", "string_view")
_NUMBERS = ("integer", "floating", "boolean", "decimal", "null")


def import_extra(module: str, what: str, install: str = "'holdfast[cli]'") -> Any:
    """Return an optional package, or say how to get it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingDependencyError(
            f"{what} needs {module}, which is not installed: pip install {install}."
        ) from error


def _is(kind: Any, *names: str) -> bool:
    """Return whether an Arrow type is one of these; older versions lack some."""
    import pyarrow as pa

    tests = (getattr(pa.types, f"is_{name}", None) for name in names)
    return any(test(kind) for test in tests if test)


def _as_numbers(values: Any) -> NDArray[np.float64]:
    """Return an Arrow array of numbers as float64, NaN where a value is missing."""
    import pyarrow as pa

    if pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    # safe=False: integers beyond 2**53 are rounded, as any float64 column would have them.
    if values.type != pa.float64():
        values = values.cast(pa.float64(), safe=False)
    return np.asarray(values.__array__(), dtype=np.float64)


def _as_moments(array: Any) -> NDArray[np.datetime64]:
    """Return an Arrow array of dates or moments as datetime64[us], NaT where one is missing."""
    import pyarrow as pa

    # A moment with a zone is kept as the moment in UTC.
    plain = array.cast(pa.timestamp("us", getattr(array.type, "tz", None)), safe=False)
    return np.asarray(plain.__array__(), dtype="datetime64[us]")


def as_texts(array: Any) -> Any:
    """Return an Arrow array as text; whole numbers are written without a point."""
    import pyarrow as pa

    if _is(array.type, *_NUMBERS) and not pa.types.is_integer(array.type):
        array = pa.array(_as_numbers(array), from_pandas=True)
        with suppress(pa.ArrowInvalid):  # some are not whole
            array = array.cast(pa.int64())
    texts = array.cast(pa.large_string())  # of any size together
    return texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts


def as_arrow(values: Any) -> Any:
    """Return a column of any objects as an Arrow array; of several types as text."""
    import pyarrow as pa

    try:
        return pa.array(values, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array([None if v is None or v != v else str(v) for v in values], pa.string())


# --- texts ----------------------------------------------------------------------------------------


class _Texts(NamedTuple):
    """The different texts of a column, trimmed, and which of them each row has (-1: none)."""

    texts: Any
    rows: NDArray[np.int64]
    place: Callable[[int], str]

    @classmethod
    def of(cls, array: Any, missing: tuple[str, ...], place: Callable[[int], str]) -> _Texts:
        """Return the texts of a column, without those that mean a missing value."""
        import pyarrow.compute as pc

        coded = array.dictionary_encode()
        trimmed = pc.utf8_trim_whitespace(coded.dictionary).dictionary_encode()
        places = np.append(trimmed.indices.to_numpy(zero_copy_only=False), -1).astype(np.int64)
        rows = places[pc.fill_null(coded.indices, -1).to_numpy(zero_copy_only=False)]
        return cls(trimmed.dictionary, rows, place).without((*MISSING, *missing))

    def without(self, marks: tuple[str, ...]) -> _Texts:
        """Return the texts except some, whose rows then have none."""
        import pyarrow as pa
        import pyarrow.compute as pc

        keep = pc.invert(pc.is_in(self.texts, pa.array(marks, self.texts.type)))
        kept = keep.to_numpy(zero_copy_only=False)
        numbers = np.where(kept, np.cumsum(kept) - 1, -1)
        return _Texts(self.texts.filter(keep), self.spread(numbers, -1), self.place)

    def spread(self, values: NDArray[Any], missing: Any) -> NDArray[Any]:
        """Return the value of each row from the values of the texts."""
        return np.append(values, np.array([missing], values.dtype))[self.rows]

    def where(self, chosen: NDArray[np.bool_]) -> NDArray[np.intp]:
        """Return the rows that have one of the chosen texts."""
        return np.flatnonzero(self.spread(chosen, False))

    def at(self, row: int) -> str:
        """Return the text of a row for a message, and where it stands."""
        return f"{quoted(self.texts[int(self.rows[row])].as_py())} in {self.place(int(row))}"

    def categories(self, trouble: str | None = None) -> Reading:
        """Return the column as one of names."""
        levels = tuple(self.texts.to_pylist())
        return Reading("category", self.rows.astype(np.int32), levels, trouble=trouble)


def _text(found: _Texts, options: ReadOptions, likely: str, format: str | None) -> Reading:
    """Return what a column of texts holds."""
    firm = found.without(_WEAK)
    if not len(firm.texts):
        if len(found.texts):  # only "-" and the like: levels after all
            return found.categories()
        return Reading("empty", np.full(len(found.rows), np.nan))
    bare, units = _without_units(firm.texts)
    numbers = _with_limits(firm, bare, _parse(bare, options.decimal, likely), options.decimal)
    if len(units) > 1 and numbers.fine.mean() >= _MOST:
        first = [firm.where(np.array([u in t for t in firm.texts.to_pylist()]))[0] for u in units]
        return found.categories(
            f"mixes the signs {' and '.join(units)} ({', '.join(map(firm.at, first))})"
        )
    if numbers.fine.all():
        notes = (*(f"in {unit}; the sign was left out" for unit in units), *numbers.notes)
        values = firm.spread(numbers.values, np.nan)
        return Reading("number", values, notes=notes, unit=units[0] if units else None)
    dates = _parse_dates(firm.texts, options.dayfirst, format)
    if dates is None:
        return found.categories(_trouble("numbers", firm, numbers.fine))
    if not dates.fine.all():
        return found.categories(
            _trouble("numbers", firm, numbers.fine) or _trouble("dates", firm, dates.fine)
        )
    ask = None
    if dates.ambiguous:
        ask = (
            "holds dates that fit both day/month and month/day, such as "
            f"{firm.at(int(np.argmax(firm.rows >= 0)))}"
        )
    order = [_PARTS[mark] for mark in re.findall("%([dmbBYy])", dates.format)]
    notes = (f"read as {' '.join(order)}",) if order and not ask else ()
    moments = firm.spread(dates.values, np.datetime64("NaT", "us"))
    return Reading("date", moments, notes=notes, trouble=ask, format=dates.format)


def _trouble(word: str, texts: _Texts, fine: NDArray[np.bool_]) -> str | None:
    """Return which texts disturb a column of numbers or dates; None if it is one of names."""
    wrong = texts.where(~fine)
    known = int((texts.rows >= 0).sum())
    if fine.sum() < _FEWEST or len(wrong) > (1 - _MOST) * known:
        return None
    shown = ", ".join(texts.at(row) for row in wrong[:3])
    more = f" and {len(wrong) - 3:,} more" if len(wrong) > 3 else ""
    return f"holds {word}, except {shown}{more}"


# --- numbers --------------------------------------------------------------------------------------


class _Parsed(NamedTuple):
    """Texts as numbers; where a text is none, its value is NaN and it is not `fine`."""

    values: NDArray[np.float64]
    fine: NDArray[np.bool_]
    mark: str
    notes: tuple[str, ...] = ()


def _without_units(texts: Any) -> tuple[Any, tuple[str, ...]]:
    """Return texts without a currency or per cent sign that all of them carry, and the signs."""
    import pyarrow.compute as pc

    if not re.search(_SIGNED, texts[0].as_py()):
        return texts, ()
    if not pc.all(pc.match_substring_regex(texts, _SIGNED)).as_py():
        return texts, ()
    bare = pc.replace_substring_regex(texts, r"^[$€£¥]\s*|\s*[%$€£¥]$", "")
    signs = pc.unique(pc.replace_substring_regex(texts, r"^([$€£¥]).*|.*([%$€£¥])$", r"\1\2"))
    return bare, tuple(sorted(signs.to_pylist()))


def _parse(texts: Any, decimal: str | None, likely: str) -> _Parsed:
    """Return texts as numbers; an unknown decimal mark is the one that makes most of them so."""
    import pyarrow.compute as pc

    found = {mark: _read(texts, mark) for mark in _OTHER if decimal in (None, mark)}
    mark = max(found, key=lambda mark: (int(found[mark].fine.sum()), mark == likely))
    read, other = found[mark], found.get(_OTHER[mark])
    notes = []
    for what, pattern in (
        ("decimal comma", r"^[+-]?[0-9]*,[0-9]+$" if mark == "," else "^$"),
        ("thousands separator", _GROUPS[mark]),
    ):
        hits = texts.filter(pc.match_substring_regex(texts, pattern))
        notes += [f"{what}: {quoted(hits[0].as_py())}"] if len(hits) else []
    if other is not None and other.fine.sum() == read.fine.sum():
        both = read.fine & other.fine
        if not np.array_equal(read.values[both], other.values[both]):
            notes.append(f"the decimal mark {_OTHER[mark]!r} would read it differently")
    return read._replace(notes=tuple(notes))


def _read(texts: Any, mark: str) -> _Parsed:
    import pyarrow as pa
    import pyarrow.compute as pc

    grouped = pc.match_substring_regex(texts, _GROUPS[mark])
    fine = pc.or_(pc.match_substring_regex(texts, _PLAIN[mark]), grouped)
    bare = pc.if_else(fine, texts, pa.scalar(None, texts.type))
    # Arrow reads 1. and .5, but not a leading plus sign.
    bare = pc.replace_substring_regex(bare, f"[{_BLANKS}{_OTHER[mark]}]|^\\+", "")
    values = _as_numbers(pc.replace_substring(bare, mark, "."))
    return _Parsed(values, fine.to_numpy(zero_copy_only=False), mark)


def _with_limits(texts: _Texts, bare: Any, parsed: _Parsed, decimal: str | None) -> _Parsed:
    """Return the numbers with limits such as <0.1 among them, if that makes all of them numbers."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if parsed.fine.all() or not parsed.fine.any():
        return parsed
    others = bare.filter(pa.array(~parsed.fine))
    if not pc.all(pc.match_substring_regex(others, _LIMIT)).as_py():
        return parsed
    limits = _parse(pc.replace_substring_regex(others, _LIMIT, ""), decimal, parsed.mark)
    if not limits.fine.all():
        return parsed
    rows = texts.where(~parsed.fine)
    note = (
        f"{len(rows):,} values of which only a limit is known, such as {texts.at(rows[0])}, were "
        "taken as the limit"
    )
    values = parsed.values.copy()
    values[~parsed.fine] = limits.values
    return _Parsed(values, np.ones_like(parsed.fine), parsed.mark, (*parsed.notes, note))


# --- dates ----------------------------------------------------------------------------------------


class _Dates(NamedTuple):
    """Texts as dates: NaT where a text is none; `ambiguous` if another order fits as well."""

    values: NDArray[np.datetime64]
    format: str
    fine: NDArray[np.bool_]
    ambiguous: bool = False


def _parse_dates(texts: Any, dayfirst: bool | None, format: str | None) -> _Dates | None:
    """Return texts as dates; None unless most of them are."""
    import pyarrow.compute as pc

    if pc.sum(pc.match_substring_regex(texts, _DATE)).as_py() < _MOST * len(texts):
        return None
    # Where day or month could come first, the one that was said does.
    wrong = {True: r"%m[/-]%d", False: r"%d[/-]%m"}.get(dayfirst, "^$")  # type: ignore[arg-type]
    allowed = [f for f in (format, *_FORMATS) if f is not None and not re.match(wrong, f)]
    if format in allowed and (found := _dates(texts, format)):
        return found
    part = texts.take(np.linspace(0, len(texts) - 1, min(_SAMPLE, len(texts))).astype(int))
    fitting = [
        found
        for format in allowed
        if _dates(part, format) and (found := _dates(texts, format)) is not None
    ]
    if not fitting:
        return None
    most = max(int(found.fine.sum()) for found in fitting)
    best, *others = (found for found in fitting if int(found.fine.sum()) == most)
    same = all(np.array_equal(other.values, best.values, equal_nan=True) for other in others)
    return best._replace(ambiguous=not same)


def _dates(texts: Any, format: str) -> _Dates | None:
    """Return texts as dates of one format; None unless most of them are."""
    pd = import_extra("pandas", "Reading dates")
    found = pd.to_datetime(
        pd.Series(texts.to_pylist(), dtype=object), format=format, errors="coerce", utc=True
    )
    values = found.dt.tz_localize(None).to_numpy(dtype="datetime64[us]")
    # %Y also takes 24 for the year 24.
    years = values.astype("datetime64[Y]").astype(int) + 1970
    values = np.where((years > 1000) & (years < 3000), values, np.datetime64("NaT", "us"))
    fine = ~np.isnat(values)
    return _Dates(values, format, fine) if fine.sum() >= max(1, _MOST * len(texts)) else None
