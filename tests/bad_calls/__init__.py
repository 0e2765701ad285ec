"""The table of bad calls: what is asked, what is said, and why what is accepted is accepted.

`fits`, `silence` and `questions` hold calls from Python, `command_line` calls of the command,
`stranger_files` files that are damaged, forged or foreign, `accepted` what looks bad and is not.
The tests try every one of them (`interface/test_bad_calls.py`), and `page` writes
docs/bad_calls.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Call:
    """One call.

    Attributes
    ----------
    group, name : str
        Where it stands in the table.
    shown : str
        The call as a reader would write it.
    run : callable
        Does it, in an empty folder; what it returns does not matter, a command returns (exit code,
        what it said).
    error : class, int or None
        The exception, the exit code of a command, or None: accepted.
    words : tuple of str
        What the sentence says, among others.
    why : str
        Why the call is accepted.
    warning : class or None
        What it warns of.
    """

    group: str
    name: str
    shown: str
    run: Callable[[Path], Any]
    error: type[Exception] | int | None
    words: tuple[str, ...] = ()
    why: str = ""
    warning: type[Warning] | None = None


def all_calls() -> list[Call]:
    """Return the whole table."""
    from bad_calls import accepted, command_line, python_calls, stranger_files

    return [
        *python_calls.CALLS,
        *stranger_files.CALLS,
        *command_line.CALLS,
        *accepted.CALLS,
    ]
