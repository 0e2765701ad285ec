"""What the values of a column are: numbers, names or times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.exceptions import InvalidInputError
from holdfast.tables.dates import parse_dates
from holdfast.tables.numbers import LIMIT, parse_numbers

__all__ = ["MISSING", "Marks", "Reading", "as_numbers", "holds_numbers", "understand"]

# Read as "no value" in every column. Not "None", which is a level in too many data sets.
MISSING = frozenset(
    ("", "NA", "N/A", "n/a", "NaN", "nan", "NaT", "null", "NULL", "#N/A", "#NA", "<NA>", "?")
)
# Read as "no value" only among numbers and dates: elsewhere "-" may well be a level.
_WEAK = ("-", "--", "–", "—", ".", "..", "none", "None", "na", "n.a.", "N.A.", "missing")
# A column of numbers with a few texts among them is a mistake, not a column of names.
_MOST, _FEWEST = 0.9, 10


@dataclass(frozen=True)
class Marks:
    """How a file writes its values.

    Attributes
    ----------
    decimal : {".", ","} or None
        The decimal mark, if it was said.
    likely : {".", ","}
        The decimal mark of the file, as far as it shows.
    missing : tuple of str
        Further marks of missing values.
    """

    decimal: str | None = None
    likely: str = "."
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Reading:
    """One column, understood.

    Attributes
    ----------
    kind : str
        "number", "yes/no", "category", "date" or "empty".
    values : ndarray
        float64 (missing: NaN), datetime64[us] (missing: NaT), or for a category the numbers of its
        levels (missing: -1).
    levels : tuple of str
        Of a category, in the order in which they were met.
    notes : tuple of str
        What had to be understood.
    trouble : str or None
        Why it cannot be used as it is: a column of numbers with texts among them.
    format : str or None
        Of dates that were written as text.
    """

    kind: str
    values: NDArray[Any]
    levels: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    trouble: str | None = None
    format: str | None = None
    missing: int = field(init=False)

    def __post_init__(self) -> None:
        if self.kind == "category":
            missing = self.values < 0
        elif self.kind == "date":
            missing = np.isnat(self.values)
        else:
            missing = np.isnan(self.values)
        object.__setattr__(self, "missing", int(missing.sum()))

    def n_different(self) -> int:
        """Return how many different values there are."""
        if self.kind == "category":
            return len(self.levels)
        known = np.sort(self.values)[: len(self.values) - self.missing]  # missing ones come last
        return int(len(known) > 0) + int(np.count_nonzero(known[1:] != known[:-1]))


def understand(
    array: Any,
    name: str,
    marks: Marks,
    *,
    as_text: bool = False,
    format: str | None = None,
    place: Callable[[int], str] = "row {:,}".format,
) -> Reading:
    """Return what a column holds.

    Parameters
    ----------
    array : Arrow array
        As a reader gives it.
    name : str
        For messages.
    marks : Marks
        How numbers and missing values are written.
    as_text : bool
        Whether the values are names even if they read as numbers.
    format : str, optional
        The format of a column of dates that was seen before.
    place : callable
        Says where in the file a row stands.
    """
    import pyarrow as pa

    kind = array.type
    if kind == pa.float64() and not as_text:  # nearly every column of a wide table
        numbers = as_numbers(array)
        return Reading("empty" if np.isnan(numbers).all() else "number", numbers)
    if pa.types.is_dictionary(kind):
        array = array.cast(kind.value_type)
        kind = array.type
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        raise InvalidInputError(f"The column {name!r} holds bytes that are no text.")
    if _is_text(kind):
        return _text(array, marks, as_text, format, place)
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        moments = _moments(array)
        return _names_of(moments.astype(str), moments) if as_text else Reading("date", moments)
    if pa.types.is_time(kind):
        unit = {"s": 3600.0, "ms": 3.6e6, "us": 3.6e9, "ns": 3.6e12}[kind.unit]
        whole = pa.int32() if kind.bit_width == 32 else pa.int64()
        values = as_numbers(array.cast(whole)) / unit
        return Reading("number", values, notes=("time of day, in hours",))
    if not holds_numbers(kind):
        raise InvalidInputError(
            f"The column {name!r} is of type {kind}; columns must hold numbers, booleans, text, "
            "dates or times. Leave it out with drop=[...]."
        )
    numbers = as_numbers(array)
    if as_text:
        return _names_of(np.array([_level(v) for v in numbers.tolist()]), numbers)
    if pa.types.is_boolean(kind):
        return Reading("yes/no", numbers)
    return Reading("number" if not np.isnan(numbers).all() else "empty", numbers)


def _names_of(texts: NDArray[np.str_], values: NDArray[Any]) -> Reading:
    gone = np.isnat(values) if values.dtype.kind == "M" else np.isnan(values)
    levels, codes = np.unique(texts, return_inverse=True)
    kept = np.unique(codes[~gone])
    order = np.full(len(levels) + 1, -1, np.int32)
    order[kept] = np.arange(len(kept))
    return Reading("category", order[np.where(gone, len(levels), codes)], tuple(levels[kept]))


def _level(value: float) -> str:
    """Return a number as the text of a level: whole numbers without a point."""
    return str(int(value)) if value.is_integer() and abs(value) < 2**63 else repr(value)


def _text(
    array: Any,
    marks: Marks,
    as_text: bool,
    format: str | None,
    place: Callable[[int], str],
) -> Reading:
    """Return what a column of texts holds; only its different texts are looked at."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], pa.string())
    coded = array.cast(pa.large_string()).dictionary_encode()
    texts = pc.utf8_trim_whitespace(coded.dictionary)
    codes = pc.fill_null(coded.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    known = pc.invert(pc.is_in(texts, pa.array([*MISSING, *marks.missing], texts.type)))
    if as_text:
        return _categories(texts, codes, known)
    firm = pc.and_(known, pc.invert(pc.is_in(texts, pa.array(_WEAK, texts.type))))
    firm = firm.to_numpy(zero_copy_only=False)
    if not firm.any():
        levels = known.to_numpy(zero_copy_only=False)
        if levels.any():  # only "-" and the like: levels after all
            return _categories(texts, codes, known)
        return Reading("empty", np.full(len(codes), np.nan))
    rows = _renumbered(firm)[codes]  # of each row, its place among the firm texts
    chosen = texts.filter(pa.array(firm))
    parsed = parse_numbers(chosen, marks.decimal, marks.likely)
    values, fine, notes = parsed.values, parsed.fine, parsed.notes
    if fine.any() and not fine.all():
        values, fine, notes = _limits(chosen, values, fine, notes, marks, rows, place)
    if fine.all():
        return Reading("number", _spread(values, rows, np.nan), notes=notes)
    dates = parse_dates(chosen, rows, format)
    if dates is not None and dates.fine.all():
        moments = _spread(dates.values, rows, np.datetime64("NaT", "us"))
        return Reading("date", moments, notes=dates.notes, format=dates.format)
    trouble = None
    for word, good in (("numbers", fine), ("dates", None if dates is None else dates.fine)):
        if good is not None and trouble is None:
            trouble = _trouble(word, chosen, good, rows, place)
    return _categories(texts, codes, known, trouble)


def _limits(
    texts: Any,
    values: NDArray[np.float64],
    fine: NDArray[np.bool_],
    notes: tuple[str, ...],
    marks: Marks,
    rows: NDArray[np.int64],
    place: Callable[[int], str],
) -> tuple[NDArray[np.float64], NDArray[np.bool_], tuple[str, ...]]:
    """Return the numbers with limits such as <0.1 among them, if that makes all of them numbers."""
    import pyarrow as pa
    import pyarrow.compute as pc

    others = texts.filter(pa.array(~fine))
    if not pc.all(pc.match_substring_regex(others, LIMIT)).as_py():
        return values, fine, notes
    bare = parse_numbers(pc.replace_substring_regex(others, LIMIT, ""), marks.decimal, marks.likely)
    if not bare.fine.all():
        return values, fine, notes
    first = np.flatnonzero(np.isin(rows, np.flatnonzero(~fine)))
    text = texts[int(rows[first[0]])].as_py()
    note = (
        f"{len(first):,} values of which only a limit is known, such as {text!r} in "
        f"{place(int(first[0]))}, were taken as the limit"
    )
    filled = values.copy()
    filled[~fine] = bare.values
    return filled, np.ones_like(fine), (*notes, note)


def _trouble(
    word: str,
    texts: Any,
    fine: NDArray[np.bool_],
    rows: NDArray[np.int64],
    place: Callable[[int], str],
) -> str | None:
    """Return who disturbs a column of numbers or dates; None if it is a column of names."""
    seen = rows[rows >= 0]
    good = fine[seen]
    if fine.sum() < _FEWEST or good.mean() < _MOST:
        return None
    at = np.flatnonzero(rows >= 0)[~good]
    shown = [f"{texts[int(rows[i])].as_py()!r} in {place(int(i))}" for i in at[:3]]
    more = f" and {len(at) - 3:,} more" if len(at) > 3 else ""
    first = texts[int(rows[at[0]])].as_py()
    return (
        f"holds {word}, except {', '.join(shown)}{more}. Correct the file, or say na=[{first!r}] "
        "if that means a missing value, or categorical=[...] if the column holds names"
    )


def _categories(texts: Any, codes: NDArray[np.int64], known: Any, trouble: Any = None) -> Reading:
    import pyarrow as pa

    keep = known.to_numpy(zero_copy_only=False)
    kept = texts.filter(pa.array(keep)).dictionary_encode()  # trimming may have made two equal
    numbers = np.full(len(keep) + 1, -1, np.int64)
    numbers[:-1][keep] = kept.indices.to_numpy(zero_copy_only=False)
    levels = tuple(kept.dictionary.to_pylist())
    return Reading("category", numbers[codes].astype(np.int32), levels, trouble=trouble)


def _renumbered(keep: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the new number of each kept item, -1 for the others and at the end."""
    numbers = np.full(len(keep) + 1, -1, np.int64)
    numbers[:-1][keep] = np.arange(int(keep.sum()))
    return numbers


def _spread(values: NDArray[Any], rows: NDArray[np.int64], missing: Any) -> NDArray[Any]:
    return np.append(values, np.array([missing], values.dtype))[rows]


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    tests = ("is_string", "is_large_string", "is_string_view")
    return any(getattr(pa.types, test)(kind) for test in tests if hasattr(pa.types, test))


def _moments(array: Any) -> NDArray[np.datetime64]:
    import pyarrow as pa

    # A moment with a zone is kept as the moment in UTC.
    plain = array.cast(pa.timestamp("us", getattr(array.type, "tz", None)), safe=False)
    whole = plain.cast(pa.int64())
    if isinstance(whole, pa.ChunkedArray):
        whole = pa.concat_arrays(whole.chunks) if whole.num_chunks else pa.array([], pa.int64())
    values = whole.fill_null(np.iinfo(np.int64).min).to_numpy(zero_copy_only=False)
    return np.asarray(values.astype("datetime64[us]"))


def holds_numbers(kind: Any) -> bool:
    """Return whether values of an Arrow type are numbers, booleans or missing."""
    import pyarrow as pa

    tests = ("is_integer", "is_floating", "is_boolean", "is_decimal", "is_null")
    return any(getattr(pa.types, test)(kind) for test in tests)


def as_numbers(values: Any) -> NDArray[np.float64]:
    """Return an Arrow array of numbers as float64, NaN where a value is missing."""
    import pyarrow as pa

    if values.type == pa.float64() and isinstance(values, pa.ChunkedArray):
        return np.asarray(values.to_numpy(), dtype=np.float64)
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    # safe=False: integers beyond 2**53 are rounded, as any float64 column would have them.
    if isinstance(values, pa.ChunkedArray):
        array = values.cast(pa.float64(), safe=False).to_numpy()
    else:
        array = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return np.asarray(array, dtype=np.float64)
