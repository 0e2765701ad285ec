"""Numbers in texts: what a person would read as one, and nothing more; texts in messages.

`float` reads "1_000" as a thousand, since it is one in a Python program. In a table or an option it
is a label, or a mistake.
"""

from __future__ import annotations

__all__ = ["as_float", "as_int", "briefly", "quoted"]


def as_float(text: str) -> float:
    """Return the number that a text stands for; ValueError if it has underscores or is none."""
    if "_" in text:
        raise ValueError(f"could not convert string to float: {text!r}")
    return float(text)


def as_int(text: str) -> int:
    """Return the whole number that a text stands for; ValueError likewise."""
    if "_" in text:
        raise ValueError(f"invalid literal for int(): {text!r}")
    return int(text)


def quoted(text: object, most: int = 60) -> str:
    """Return a text in quotation marks for a message; a long one is cut."""
    shown = str(text)
    return repr(shown if len(shown) <= most else f"{shown[: most - 1]}…")


def briefly(error: BaseException) -> str:
    """Return what an error says in one line, without the whole of a hostile header."""
    return " ".join(str(error).split())[:200] or type(error).__name__


# What argparse calls them when it refuses a value.
as_float.__name__, as_int.__name__ = "number", "whole number"
