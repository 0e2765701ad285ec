"""Blocks as one HTML file that needs nothing else.

Plotly's script is embedded as it is shipped, packed, and unpacked by the page itself. A content
security policy allows that script and the page's own, by their digests, and forbids every request:
even a text that slipped through the escaping could neither run nor send anything.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Iterable
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

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
    Section,
    Slider,
    Table,
    Text,
)

__all__ = ["Html", "page", "tag"]

OLD = (
    "The figures need JavaScript in a browser from 2023 or newer. All of the numbers are in the "
    "text and the tables."
)
_VOID = frozenset(("meta", "link", "br", "hr", "img", "input"))


class Html(str):
    """A string that is HTML already; any other string is text and gets escaped."""

    __slots__ = ()


def tag(name: str, /, *children: str | None, **attributes: str | bool | None) -> Html:
    """Return an element.

    Parameters
    ----------
    name : str
        Of the element.
    *children : str or Html
        Texts (escaped) and elements; None is left out.
    **attributes : str or bool
        Underscores become dashes, a trailing one is dropped (`class_`); True gives an attribute
        without value; None and False none at all.
    """
    parts = [f"<{name}"]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        key = key.rstrip("_").replace("_", "-")
        parts.append(f" {key}" if value is True else f' {key}="{escape(str(value))}"')
    parts.append(">")
    if name in _VOID:
        return Html("".join(parts))
    return Html("".join(parts) + _join(children) + f"</{name}>")


def _join(children: Iterable[str | None]) -> Html:
    found = (child for child in children if child is not None)
    return Html("".join(child if isinstance(child, Html) else escape(child) for child in found))


def page(report: Report) -> str:
    """Return a report as one self-contained HTML page."""
    plotly, own = _file("plotly", "plotly-basic.min.js.gz"), _file("page.js")
    slider = report.slider
    data = {
        "figures": {chart.name: chart.figure for chart in _charts(_all_blocks(report))},
        "slider": slider and {**slider.data, "told": slider.told, "chosen": slider.chosen},
    }
    policy = (
        f"default-src 'none'; script-src {_digest(gzip.decompress(plotly))} {_digest(own)}; "
        "style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="generator", content="holdfast"),
        tag("title", report.title),
        tag("style", Html(_file("page.css").decode())),
    )
    links = (tag("li", tag("a", s.title, href=f"#{s.id}")) for s in report.sections)
    body = tag(
        "body",
        tag("a", "Skip to the report", href="#report", class_="skip"),
        tag(
            "header",
            tag("h1", report.title),
            *map(_html, report.head),
            tag("nav", tag("ul", *links), aria_label="Sections"),
        ),
        tag("p", OLD, class_="note old", id="old", hidden=True, role="note"),
        tag("noscript", tag("p", OLD, class_="note old")),
        tag("main", *_main(report), id="report"),
        tag("footer", tag("p", report.foot)),
        tag("script", Html(_ascii(_packed(data))), type="text/plain", id="data"),
        tag("script", Html(_ascii(plotly)), type="text/plain", id="plotly"),
        tag("script", Html(own.decode())),
    )
    return "<!DOCTYPE html>\n" + tag("html", head, body, lang="en") + "\n"


def _main(report: Report) -> list[Html]:
    """Return the sections; those that the slider moves stand together under it."""
    moved = [_section(section) for section in report.sections if section.moves]
    made = [_section(section) for section in report.sections if not section.moves]
    if moved:
        first = next(i for i, section in enumerate(report.sections) if section.moves)
        slider = _html(report.slider) if report.slider else None
        made.insert(first, tag("div", slider, *moved, class_="linked"))
    return made


def _section(section: Section) -> Html:
    title, blocks = tag("h2", section.title, id=section.id), map(_html, section.blocks)
    if not section.folded:
        return tag("section", title, *blocks)
    return tag("section", tag("details", tag("summary", title), *blocks, class_="fold"))


def _html(block: Block) -> Html:
    """Return one block."""
    match block:
        case Text(text, strong):
            return tag("p", text, class_="answer" if strong else None)
        case Note(text):
            return tag("p", text, class_="note", role="note")
        case Heading(text):
            return tag("h3", text)
        case Code(text):
            return tag("pre", tag("code", text))
        case Facts(pairs):
            return tag("dl", *(tag(n, t) for a, b in pairs for n, t in (("dt", a), ("dd", b))))
        case KeyFigures(pairs):
            cards = (tag("li", tag("strong", number), tag("span", what)) for number, what in pairs)
            return tag("ul", *cards, class_="cards three" if len(pairs) == 6 else "cards")
        case Bullets(title, items, kind):
            heading = tag("strong" if kind == "note" else "h2", title)
            listed = tag("ul", *(tag("li", item) for item in items))
            role = "note" if kind == "note" else None
            return tag("div", heading, listed, class_=f"bullets {kind}", role=role)
        case Table():
            return _table(block)
        case Chart(name, _, alt, caption, numbers):
            place = tag("div", id=f"fig-{name}", class_="plot", role="img", aria_label=alt)
            summary = tag("summary", "The numbers")
            behind = tag("details", summary, _table(numbers)) if numbers else None
            return tag("figure", place, tag("figcaption", caption), behind)
        case Slider():
            return _slider(block)
        case Beside(blocks):
            return tag("div", *map(_html, blocks), class_="side")


def _table(made: Table) -> Html:
    """Return a table in a region that can be scrolled by keyboard."""
    sides = [None if numeric else "text" for numeric in made.numeric]
    head = [tag("th", c, scope="col", class_=s) for c, s in zip(made.header, sides, strict=True)]
    body = [
        tag(
            "tr",
            tag("th", row[0], scope="row"),
            *(tag("td", c, class_=s) for c, s in zip(row[1:], sides[1:], strict=True)),
        )
        for row in made.rows
    ]
    drawn = tag(
        "table",
        tag("caption", made.caption),
        tag("thead", tag("tr", *head)),
        tag("tbody", *body),
        class_="numbers",
        data_moves=made.moves,
    )
    return tag("div", drawn, class_="scroll", role="region", aria_label=made.caption, tabindex="0")


def _slider(block: Slider) -> Html:
    ends = {"min": "0", "max": str(len(block.told) - 1), "value": str(block.chosen), "step": "1"}
    return tag(
        "div",
        tag("label", "Penalty λ", for_="slider"),
        tag("input", type="range", id="slider", **ends),
        tag("output", block.told[block.chosen], for_="slider"),
        tag("button", "Back to the one in use", type="button", id="back", disabled=True),
        class_="slider",
    )


def _all_blocks(report: Report) -> Iterable[Block]:
    yield from report.head
    for section in report.sections:
        yield from section.blocks


def _charts(blocks: Iterable[Block]) -> Iterable[Chart]:
    for block in blocks:
        if isinstance(block, Chart):
            yield block
        elif isinstance(block, Beside):
            yield from _charts(block.blocks)


# --- what is embedded -----------------------------------------------------------------------------


def _packed(data: Any) -> bytes:
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return gzip.compress(text.encode(), 9, mtime=0)


def _ascii(packed: bytes) -> str:
    """Return bytes as characters that neither end a script element nor begin a comment in it.

    Base 64 spends a third on top, base 85 a quarter. `page.js` undoes it.
    """
    return base64.b85encode(packed).decode("ascii").replace("<", ".")


def _digest(script: bytes) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script).digest()).decode('ascii')}'"


@cache
def _file(*path: str) -> bytes:
    return files("holdfast.report").joinpath(*path).read_bytes()
