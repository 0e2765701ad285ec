"""The page docs/bad_calls.md, written from the table: ``python -m bad_calls.page``."""

from __future__ import annotations

import os
import re
import sys
import tempfile
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bad_calls import Call, all_calls

PAGE = Path(__file__).parents[2] / "docs" / "bad_calls.md"
LIBRARIES = ("numpy", "scipy", "scikit-learn", "pandas", "polars", "pyarrow")

HEAD = """\
# Bad calls

What happens when something is wrong: {total} calls, tried by the tests (`tests/bad_calls`), which also write this page.
{refused} are refused, with a class of `holdfast.exceptions` (or the system's own error, for files that are not there) and a
sentence that names the argument, what is allowed and what arrived; a refused call changes nothing, neither the model nor the data. {accepted} look
bad and are *accepted*, for the reason in the last column.
"""
TAIL = """\
Written with {versions}; a part of the sentences is theirs.
"""


def outcome(call: Call, folder: Path) -> tuple[str, str]:
    """Return what happened and what was said; nothing of it depends on the machine."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result: Any = call.run(folder)
        except Exception as error:
            said = (
                str(error)
                if not isinstance(error, OSError) or error.filename is None
                else (f"{error.strerror}: {os.path.basename(str(error.filename))}")
            )
            return type(error).__name__, plain(said, folder)
    if isinstance(call.error, int) and call.error:
        code, said = result
        return f"exit code {code}", plain(said, folder)
    return "", call.why


def plain(text: str, folder: Path) -> str:
    """Return a sentence without names of folders, addresses and amounts of this machine."""
    text = text.replace(f"{folder}/", "").replace(str(folder), "folder")
    text = text.replace(folder.name, "folder")
    text = re.sub(r" at 0x[0-9a-f]+", "", text)
    text = re.sub(r"[\d,]+ may be taken", "… may be taken", text)
    text = re.sub(r"( \()?written by holdfast [\w.]+\)?", "", text)
    text = re.sub(r"\{'[^{}]*'\}", in_order, text)
    return " ".join(text.split())


def in_order(found: re.Match[str]) -> str:
    """Return a set of words as Python shows it, in the order of the alphabet."""
    return f"{{{', '.join(sorted(found[0][1:-1].split(', ')))}}}"


def cell(text: str) -> str:
    """Return a text for a cell of a table."""
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").replace("$", "\\$")


def code(text: str) -> str:
    """Return a text as code for a cell."""
    return f"`{text.replace('|', '¦').replace('`', chr(39))}`"


def rows() -> list[tuple[str, str, str, str]]:
    """Return group, call, accepted or the error, and sentence or reason, of the whole table."""
    found = []
    for call in all_calls():
        with tempfile.TemporaryDirectory() as name:
            kind, said = outcome(call, Path(name).resolve())
        named = code(call.shown) if call.name in call.shown else f"{call.name}: {code(call.shown)}"
        found.append((call.group, named, kind, said))
    return found


def versions() -> str:
    """Return the versions whose sentences the page shows."""
    own = ".".join(map(str, sys.version_info[:2]))
    return ", ".join([f"Python {own}", *(f"{name} {version(name)}" for name in LIBRARIES)])


def render(table: list[tuple[str, str, str, str]]) -> str:
    """Return the page."""
    accepted = sum(not kind for _, _, kind, _ in table)
    parts = [HEAD.format(total=len(table), refused=len(table) - accepted, accepted=accepted)]
    for group in dict.fromkeys(row[0] for row in table):
        parts.append(f"## {group}\n")
        parts.append("| call | accepted | what is said, or why |\n|---|---|---|")
        for name, shown, kind, said in table:
            if name == group:
                told = f"no: {kind}" if kind else "**yes**"
                parts.append(f"| {shown} | {told} | {cell(said)} |")
        parts.append("")
    parts.append(TAIL.format(versions=versions()))
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(render(rows()), "utf-8")
    print(f"wrote {PAGE}", file=sys.stderr)
