"""Counts, names and lists as people read them; and the two ways in which a command is refused."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable
from typing import Any

__all__ = [
    "BadData",
    "BadOption",
    "Refusal",
    "count",
    "listed",
    "percent",
    "quoted",
    "safe",
    "seconds",
]

_LONGEST = 60


class Refusal(Exception):
    """A command cannot be carried out, and the message says why and what to do."""

    code = 2


class BadOption(Refusal):
    """The command line asks for something that is not there or has no meaning."""


class BadData(Refusal):
    """The data cannot be used as they are."""

    code = 3


def safe(text: Any, longest: int = _LONGEST) -> str:
    """Return a text of the data in a form that can be shown.

    Characters that control a terminal or turn the direction of writing are shown as escapes, and
    what is longer than a line is cut.
    """
    shown = str(text)[: longest + 1]
    made = "".join(
        c if unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Zl", "Zp") else _escape(c)
        for c in shown
    )
    return made if len(made) <= longest else f"{made[: longest - 1]}…"


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def quoted(name: Any) -> str:
    """Return the name of a column, or a value, in quotation marks."""
    return f"“{safe(name)}”"


def percent(share: float) -> str:
    """Return a share as a percentage, with a decimal only where it says something."""
    value = 100 * share
    if not math.isfinite(value):
        return "–"
    near_an_end = abs(value) < 10 or (90 < value < 100)
    return f"{value:.1f} %" if near_an_end and value not in (0.0,) else f"{value:.0f} %"


def count(n: int, noun: str, plural: str = "") -> str:
    """Return a number of things."""
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"


def listed(names: Iterable[Any], most: int = 5) -> str:
    """Return names with commas and an "and", cut after some."""
    names = list(names)
    shown = [quoted(name) for name in names[:most]]
    if len(names) > most:
        return f"{', '.join(shown)} and {len(names) - most:,} more"
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def seconds(time: float) -> str:
    """Return a length of time."""
    if time < 10:
        return f"{time:.1f} s"
    return f"{time:.0f} s" if time < 120 else f"{time / 60:.0f} min"
