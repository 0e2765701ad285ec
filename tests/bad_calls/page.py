"""The page docs/bad_calls.md, written from the table: ``python -m bad_calls.page``."""

from __future__ import annotations

import sys
from pathlib import Path

from bad_calls import Call, all_calls

PAGE = Path(__file__).parents[2] / "docs" / "bad_calls.md"

HEAD = """\
# Bad calls

The tests make {total} calls in which something is wrong (`tests/bad_calls`). {refused} are refused, with a class of
`holdfast.exceptions` (or the system's own error, for files that are not there) and a sentence that names the argument,
what is allowed, what arrived and what to do. A refused call changes nothing, neither the model nor the data.

{accepted} look bad and are accepted:

| call | why it is accepted |
|---|---|"""


def cell(text: str) -> str:
    """Return a text for a cell of a table."""
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").replace("$", "\\$")


def code(text: str) -> str:
    """Return a text as code for a cell."""
    return f"`{text.replace('|', '¦').replace('`', chr(39))}`"


def render(calls: list[Call]) -> str:
    """Return the page."""
    accepted = [call for call in calls if call.why]
    head = HEAD.format(total=len(calls), refused=len(calls) - len(accepted), accepted=len(accepted))
    lines = [f"| {code(call.shown)} | {cell(call.why)} |" for call in accepted]
    return "\n".join([head, *lines, ""])


if __name__ == "__main__":
    PAGE.write_text(render(all_calls()), "utf-8")
    print(f"wrote {PAGE}", file=sys.stderr)
