"""HTML from Python, with every text escaped unless it is HTML already."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

__all__ = ["Html", "join", "table", "tag"]

_VOID = frozenset(("meta", "link", "br", "hr", "img", "input"))


class Html(str):
    """A string that is HTML already; any other string is text and gets escaped."""

    __slots__ = ()


def tag(name: str, /, *children: str | Html | None, **attributes: str | bool | None) -> Html:
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
    return Html("".join(parts) + join(children) + f"</{name}>")


def join(children: Iterable[str | Html | None]) -> Html:
    """Return texts and elements one after the other."""
    return Html(
        "".join(
            child if isinstance(child, Html) else escape(child)
            for child in children
            if child is not None
        )
    )


def table(caption: str, header: Sequence[str], rows: Iterable[Sequence[str | Html]]) -> Html:
    """Return a table in a region that can be scrolled by keyboard.

    Parameters
    ----------
    caption : str
        What the table shows.
    header : sequence of str
        Column headings; the first column of each row is its heading.
    rows : iterable of sequences
        The cells.
    """
    head = tag("tr", *(tag("th", cell, scope="col") for cell in header))
    body = [
        tag("tr", tag("th", row[0], scope="row"), *(tag("td", cell) for cell in row[1:]))
        for row in rows
    ]
    made = tag(
        "table",
        tag("caption", caption),
        tag("thead", head),
        tag("tbody", *body),
        class_="numbers",
    )
    return tag("div", made, class_="scroll", role="region", aria_label=caption, tabindex="0")
