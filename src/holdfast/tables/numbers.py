"""Numbers as people write them: decimal commas, thousands separators, limits such as ``<0.1``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["LIMIT", "Parsed", "parse_numbers"]

_POWER = r"([eE][+-]?[0-9]+)?$"
_WHOLE = r"^[+-]?[0-9]+$"
# With a decimal point, and with a decimal comma: plain, or in groups of three digits.
_POINT = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)" + _POWER
_POINT_GROUPS = r"^[+-]?[0-9]{1,3}(,[0-9]{3})+(\.[0-9]*)?$"
_COMMA = r"^[+-]?([0-9]+,?[0-9]*|,[0-9]+)" + _POWER
_COMMA_GROUPS = r"^[+-]?[0-9]{1,3}(\.[0-9]{3})+(,[0-9]*)?$"
# Groups divided by a space (of three kinds) or an apostrophe, whatever the decimal mark.
_SPACED = "^[+-]?[0-9]{1,3}([ \u00a0\u202f'\u2019][0-9]{3})+([.,][0-9]*)?$"
_SPACES = "[ \u00a0\u202f'\u2019]"
_SIGN_BEFORE, _SIGN_AFTER = r"^[$€£¥]\s*", r"\s*[%€$£]$"
#: A value of which only a limit is known.
LIMIT = r"^[<>≤≥]=?\s*"


@dataclass(frozen=True, eq=False)
class Parsed:
    """Texts read as numbers.

    Attributes
    ----------
    values : ndarray of float
        NaN where a text is no number.
    fine : ndarray of bool
        Where it is one.
    notes : tuple of str
        What was understood, where it was not plain.
    """

    values: NDArray[np.float64]
    fine: NDArray[np.bool_]
    notes: tuple[str, ...]


def parse_numbers(texts: Any, decimal: str | None, likely: str = ".") -> Parsed:
    """Return texts as numbers.

    Parameters
    ----------
    texts : Arrow array of strings
        Different texts, without surrounding blanks.
    decimal : {".", ","} or None
        The decimal mark; None: the one that makes more of them numbers.
    likely : {".", ","}
        The mark to take when both would do: ``1,234`` alone does not say what it is.
    """
    import pyarrow.compute as pc

    texts, signs = _without_signs(texts)
    spaced = pc.match_substring_regex(texts, _SPACED)
    if pc.any(spaced).as_py():
        bare = pc.replace_substring_regex(texts, _SPACES, "")
        texts = pc.if_else(spaced, bare, texts)
        signs = (*signs, "blanks or apostrophes between digits are thousands separators")
    point = _read(texts, _POINT, _POINT_GROUPS, ".")
    if decimal == ".":
        return _with_notes(point, ".", texts, signs, None)
    comma = _read(texts, _COMMA, _COMMA_GROUPS, ",")
    if decimal == ",":
        return _with_notes(comma, ",", texts, signs, None)
    n_point, n_comma = int(point.fine.sum()), int(comma.fine.sum())
    if n_point == n_comma:
        mark, other = likely, (comma if likely == "." else point)
    else:
        mark, other = ("." if n_point > n_comma else ","), None
    chosen = point if mark == "." else comma
    return _with_notes(chosen, mark, texts, signs, other)


def _without_signs(texts: Any) -> tuple[Any, tuple[str, ...]]:
    """Return texts without a sign that all of them carry: a per cent sign, a currency."""
    import pyarrow.compute as pc

    for pattern, word in ((_SIGN_AFTER, "sign after"), (_SIGN_BEFORE, "sign before")):
        if len(texts) and pc.all(pc.match_substring_regex(texts, pattern)).as_py():
            texts = pc.replace_substring_regex(texts, pattern, "")
            return texts, (f"the {word} each number was left out",)
    return texts, ()


def _read(texts: Any, plain: str, groups: str, mark: str) -> Parsed:
    import pyarrow as pa
    import pyarrow.compute as pc

    grouped = pc.match_substring_regex(texts, groups)
    fine = pc.or_(pc.match_substring_regex(texts, plain), grouped)
    bare = pc.if_else(fine, texts, pa.scalar(None, texts.type))
    separator = "," if mark == "." else "."
    bare = pc.if_else(grouped, pc.replace_substring(bare, separator, ""), bare)
    if mark == ",":
        bare = pc.replace_substring(bare, ",", ".")
    # Arrow reads 1. and .5, but not a leading plus sign.
    bare = pc.replace_substring_regex(bare, r"^\+", "")
    values = pc.cast(bare, pa.float64()).to_numpy(zero_copy_only=False)
    return Parsed(np.asarray(values, float), fine.to_numpy(zero_copy_only=False), ())


def _with_notes(
    read: Parsed, mark: str, texts: Any, notes: tuple[str, ...], other: Parsed | None
) -> Parsed:
    import pyarrow.compute as pc

    def example(pattern: str) -> str | None:
        hits = texts.filter(pc.match_substring_regex(texts, pattern))
        return repr(hits[0].as_py()) if len(hits) else None

    if mark == "," and (seen := example(r"^[+-]?[0-9]*,")):
        notes = (*notes, f"decimal comma: {seen}")
    groups = example(_POINT_GROUPS if mark == "." else _COMMA_GROUPS)
    if groups and not (mark == "," and other is None and not read.fine.all()):
        name = "comma" if mark == "." else "point"
        notes = (*notes, f"the {name} is a thousands separator: {groups}")
    if other is not None and read.fine.any():
        both = read.fine & other.fine
        if both.any() and not np.array_equal(read.values[both], other.values[both]):
            said = "," if mark == "." else "."
            notes = (*notes, f"it could be otherwise; --decimal '{said}' would read it so")
    return Parsed(read.values, read.fine, notes)
