"""The columns of the data in a report: how they were read, and notes on them."""

from __future__ import annotations

from holdfast.report.markup import Html, table, tag
from holdfast.report.summary import Summary

__all__ = ["COLUMN_HEADER", "column_rows", "columns_table", "notes_list"]

COLUMN_HEADER = ("column", "role", "kind", "missing", "levels", "what became of it")


def column_rows(summary: Summary) -> tuple[list[tuple[str, ...]], str]:
    """Return a row of cells for each column that is shown, and a sentence on the others."""
    from holdfast.tables.account import shown

    chosen, others = shown(summary.columns)
    rows: list[tuple[str, ...]] = [
        (c.name or "(no name)", c.role, c.kind, f"{c.missing:,}", f"{c.levels:,}", c.became)
        for c in chosen
    ]
    return rows, others


def columns_table(summary: Summary) -> list[Html]:
    """Return the table of the columns as HTML."""
    rows, others = column_rows(summary)
    parts = [table("Every column of the data, as it was read", COLUMN_HEADER, rows)]
    return [*parts, tag("p", others)] if others else parts


def notes_list(summary: Summary) -> Html | None:
    """Return the notes on the data as a list; None if there are none."""
    if not summary.notes:
        return None
    items = (tag("li", note) for note in summary.notes)
    heading = tag("strong", "Notes on the data")
    return tag("div", heading, tag("ul", *items), class_="note notes", role="note")
