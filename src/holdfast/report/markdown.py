"""Blocks as Markdown: the words and the tables of the page, without the figures."""

from __future__ import annotations

import re
from collections.abc import Sequence

from holdfast.report.blocks import (
    Beside,
    Block,
    Bullets,
    Chart,
    Code,
    Facts,
    Heading,
    KeyFigures,
    Note,
    Report,
    Slider,
    Table,
    Text,
)

__all__ = ["markdown"]

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~])")
_MAX_ROWS = 40


def markdown(report: Report) -> str:
    """Return a report as Markdown."""
    lines = [f"# {_text(report.title)}", "", *_lines(report.head)]
    for section in report.sections:
        lines += [f"## {_text(section.title)}", "", *_lines(section.blocks)]
    return "\n".join([*lines, _text(report.foot)]) + "\n"


def _lines(blocks: Sequence[Block]) -> list[str]:
    return [line for block in blocks for line in _block(block)]


def _block(block: Block) -> list[str]:
    """Return the lines of one block, an empty one at the end."""
    match block:
        case Text(text, strong):
            return [f"**{_text(text)}**" if strong else _text(text), ""]
        case Note(text):
            return [f"> {_text(text)}", ""]
        case Heading(text):
            return [f"### {_text(text)}", ""]
        case Code(text):
            fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
            return [fence, text, fence, ""]
        case Facts(pairs):
            return [*(f"- {_text(name)}: {_text(text)}" for name, text in pairs), ""]
        case KeyFigures(pairs):
            return [*(f"- **{_text(number)}** {_text(what)}" for number, what in pairs), ""]
        case Bullets(title, items, _):
            return [f"**{_text(title)}**", "", *(f"- {_text(item)}" for item in items), ""]
        case Table():
            return _table(block)
        case Chart(_, _, _, caption, numbers):
            return [] if numbers is None else [_text(caption), "", *_table(numbers)]
        case Slider():
            return []
        case Beside(blocks):
            return _lines(blocks)


def _table(table: Table) -> list[str]:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(_text(cell) for cell in cells) + " |"

    rows = [line(row) for row in table.rows[:_MAX_ROWS]]
    lines = [line(table.header), "|" + "---|" * len(table.header), *rows, ""]
    if len(table.rows) > _MAX_ROWS:
        lines += [f"The first {_MAX_ROWS} of {len(table.rows):,}.", ""]
    return lines


def _text(text: str) -> str:
    """Return text that Markdown shows as it is, in one line."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))
