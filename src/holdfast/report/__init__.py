"""What a fitted model has to say: one summary, shown as JSON, Markdown, a page or on a terminal.

>>> import numpy as np
>>> from holdfast import KernelRidgeCV
>>> from holdfast.report import summarise
>>> rng = np.random.default_rng(0)
>>> X = rng.uniform(-3, 3, size=(60, 1))
>>> y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=60)
>>> summary = summarise(KernelRidgeCV(gamma=0.5).fit(X, y))
>>> summary.answer[0].startswith("On rows held out by leave-one-out")
True
"""

from __future__ import annotations

import os

from holdfast.data.atomic import write_text
from holdfast.exceptions import InvalidInputError
from holdfast.report.context import Ask, Context
from holdfast.report.markdown import markdown
from holdfast.report.page import page
from holdfast.report.sections import told
from holdfast.report.summary import Summary, summarise

__all__ = ["Ask", "Context", "Summary", "summarise", "to_html", "to_markdown", "write_report"]


def to_html(summary: Summary) -> str:
    """Return the summary as one HTML page that needs nothing else."""
    return page(told(summary))


def to_markdown(summary: Summary) -> str:
    """Return the summary as Markdown: the words and the tables of the page."""
    return markdown(told(summary))


def write_report(summary: Summary, path: str | os.PathLike[str]) -> None:
    """Write the report as HTML, Markdown or JSON, as the ending of the name says.

    Parameters
    ----------
    summary : Summary
        From `summarise`.
    path : path
        Ends in .html, .md or .json. The file appears whole or not at all.
    """
    lowered = os.fspath(path).lower()
    if lowered.endswith((".html", ".htm")):
        text = to_html(summary)
    elif lowered.endswith(".md"):
        text = to_markdown(summary)
    elif lowered.endswith(".json"):
        text = summary.to_json() + "\n"
    else:
        raise InvalidInputError(
            f"path must end in .html, .md or .json, which says what kind of report to write; got "
            f"{os.fspath(path)!r}.",
            argument="path",
        )
    write_text(path, text)
