"""What a report is made of: a few kinds of blocks, which every renderer can show.

A finding is worded once, as blocks. `page`, `markdown` and `terminal` show blocks and know nothing
of findings.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

__all__ = [
    "Beside",
    "Block",
    "Bullets",
    "Chart",
    "Code",
    "Facts",
    "Heading",
    "KeyFigures",
    "Note",
    "Report",
    "Section",
    "Slider",
    "Table",
    "Text",
    "facts",
    "table",
]

Pairs = tuple[tuple[str, str], ...]
#: A number, a percentage, two ends of an interval, or nothing.
_ONE = r"[-–−+]?[\d.,]*(?:e[-+]?\d+)?(?: ?%)?"
_NUMBER = re.compile(f"{_ONE}(?: to {_ONE})?")


@dataclass(frozen=True)
class Text:
    """A paragraph; a strong one is the answer."""

    text: str
    strong: bool = False


@dataclass(frozen=True)
class Note:
    """A warning."""

    text: str


@dataclass(frozen=True)
class Heading:
    """A heading inside a section."""

    text: str


@dataclass(frozen=True)
class Bullets:
    """A list under a title; `kind` is its look: "believe", "doubt" or "note"."""

    title: str
    items: tuple[str, ...]
    kind: str


@dataclass(frozen=True)
class Facts:
    """Names and what they are."""

    pairs: Pairs


@dataclass(frozen=True)
class KeyFigures:
    """Numbers to see first: the number, and what it is."""

    pairs: Pairs


@dataclass(frozen=True)
class Code:
    """Text to copy as it is, such as a command."""

    text: str


@dataclass(frozen=True)
class Table:
    """A table; the first cell of a row is its heading."""

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    moves: str | None = None  #: The part of `Slider.data` that its cells follow

    @property
    def numeric(self) -> tuple[bool, ...]:
        """Which columns hold numbers and nothing else; never the first, the rows' headings."""
        columns = zip(*self.rows, strict=True)
        found = [all(map(_NUMBER.fullmatch, column)) for column in columns]
        return (False, *found[1:]) if found else (False,) * len(self.header)


@dataclass(frozen=True, eq=False)
class Chart:
    """A figure for Plotly."""

    name: str  #: Of its place on the page
    figure: dict[str, Any]  #: From `holdfast.report.charts`
    alt: str  #: What it shows, for those who do not see it
    caption: str
    table: Table | None = None  #: Its numbers; renderers that cannot draw show these


@dataclass(frozen=True, eq=False)
class Slider:
    """What moves charts and tables to another penalty: only a page can."""

    told: tuple[str, ...]  #: Each step in words
    chosen: int  #: The step in use
    data: dict[str, Any]  #: What charts and tables show at each step


@dataclass(frozen=True)
class Beside:
    """Blocks beside each other where there is room."""

    blocks: tuple[Block, ...]


Block = (
    Text | Note | Heading | Bullets | Facts | KeyFigures | Code | Table | Chart | Slider | Beside
)


@dataclass(frozen=True)
class Section:
    """A part of a report."""

    id: str
    title: str
    blocks: tuple[Block, ...]
    moves: bool = False  #: Whether the slider moves it
    folded: bool = False  #: Whether a page shows it on a click only


@dataclass(frozen=True)
class Report:
    """A whole report: its title, what stands first, the sections, the last line."""

    title: str
    head: tuple[Block, ...]
    sections: tuple[Section, ...]
    slider: Slider | None
    foot: str


def table(
    caption: str,
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    moves: str | None = None,
) -> Table:
    """Return a table of any sequences."""
    return Table(caption, tuple(header), tuple(tuple(row) for row in rows), moves)


def facts(pairs: Sequence[tuple[str, str]]) -> Facts:
    """Return facts, without those that have no text."""
    return Facts(tuple((name, text) for name, text in pairs if text))
