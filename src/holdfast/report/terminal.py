"""Blocks as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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
    Slider,
    Table,
    Text,
)

__all__ = ["terminal"]

_MOST = 32


def terminal(blocks: Iterable[Block], *, colour: bool = False) -> str:
    """Return blocks as text.

    Parameters
    ----------
    blocks : iterable of Block
    colour : bool
        Whether the terminal understands bold.
    """
    return "\n".join(line for block in blocks for line in _block(block, colour))


def _block(block: Block, colour: bool) -> list[str]:
    """Return the lines of one block."""
    match block:
        case Text(text, strong):
            return [_bold(text, colour) if strong else text]
        case Note(text):
            return [f"note: {text}"]
        case Heading(text):
            return ["", text]
        case Code(text):
            return [f"  {text}"]
        case Facts(pairs):
            width = max(len(name) for name, _ in pairs)
            return [f"  {name:<{width}}  {text}" for name, text in pairs]
        case KeyFigures(pairs):
            width = max(len(number) for number, _ in pairs)
            lines = [f"  {number:>{width}}  {what}" for number, what in pairs]
            return ["", _bold(lines[0], colour), *lines[1:], ""]
        case Bullets(title, items, _):
            return ["", title, *(f"  - {item}" for item in items)]
        case Table():
            return ["", *_table(block), ""]
        case Chart(_, _, _, caption, numbers):
            return [] if numbers is None else [caption, *_table(numbers)]
        case Slider():
            return []
        case Beside(blocks):
            return [line for inner in blocks for line in _block(inner, colour)]


def _table(table: Table) -> list[str]:
    """Return columns beside each other, numbers to the right; the last may be of any width."""
    lines = [table.header, *table.rows]
    columns = list(zip(*lines, strict=True))
    widths = [min(_MOST, max(map(len, column))) for column in columns]
    return [_line(line, widths, table.numeric) for line in lines]


def _line(cells: Sequence[str], widths: list[int], right: Sequence[bool]) -> str:
    last = len(cells) - 1
    shown = [
        f"{cell:>{width}}" if to_right else cell if j == last else f"{cell:<{width}}"
        for j, (cell, width, to_right) in enumerate(zip(cells, widths, right, strict=True))
    ]
    return f"  {'  '.join(shown)}".rstrip()


def _bold(text: str, colour: bool) -> str:
    return f"\x1b[1m{text}\x1b[0m" if colour else text
