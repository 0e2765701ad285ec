"""The pieces that sections are made of: a heading, a figure with its numbers."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.report.markup import Html, tag

__all__ = ["Section", "figure_element", "section"]


@dataclass(frozen=True)
class Section:
    """A part of the page: its id, its heading and its HTML."""

    id: str
    title: str
    html: Html


def section(id: str, title: str, *children: Html | None) -> Section:
    """Return a section under a heading."""
    return Section(id, title, tag("section", tag("h2", title, id=id), *children))


def figure_element(name: str, alt: str, caption: str, data: Html | None = None) -> Html:
    """Return the place of a figure, what it shows in words, and its numbers behind a click."""
    details = tag("details", tag("summary", "The numbers"), data) if data else None
    return tag(
        "figure",
        tag("div", id=f"fig-{name}", class_="plot", role="img", aria_label=alt),
        tag("figcaption", caption),
        details,
    )
