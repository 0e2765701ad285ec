"""What a fitted model has to say: one summary, shown as JSON, Markdown or a page.

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
from holdfast.report.build import summarise
from holdfast.report.context import Context
from holdfast.report.markdown import to_markdown
from holdfast.report.page import to_html
from holdfast.report.summary import Summary
from holdfast.report.sure import Ask

__all__ = ["Ask", "Context", "Summary", "summarise", "to_html", "to_markdown", "write_report"]


def write_report(summary: Summary, path: str | os.PathLike[str]) -> None:
    """Write the report as HTML, Markdown or JSON, as the ending of the name says.

    Parameters
    ----------
    summary : Summary
        From `summarise`.
    path : path
        Ends in .html, .md or .json. The file appears whole or not at all.
    """
    write_text(path, render(summary, os.fspath(path)))


def render(summary: Summary, path: str) -> str:
    """Return the text of the report for a file of this name."""
    lowered = path.lower()
    if lowered.endswith((".html", ".htm")):
        return to_html(summary)
    if lowered.endswith(".md"):
        return to_markdown(summary)
    if lowered.endswith(".json"):
        return summary.to_json() + "\n"
    raise InvalidInputError(
        f"Cannot tell from the name {path!r} what kind of report to write: use .html, .md or .json."
    )
