"""The report as one HTML file that needs nothing else.

Plotly's script is embedded, packed small, and unpacked by the page itself. A content security
policy allows that script and the page's own, by their digests, and forbids every request: even a
text that slipped through the escaping could neither run nor send anything.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import json
import sys
from functools import lru_cache
from importlib.resources import files
from typing import Any

from holdfast.exceptions import MissingDependencyError
from holdfast.report import sections
from holdfast.report.figures import figures
from holdfast.report.linked import linked_data, slider
from holdfast.report.markup import Html, join, tag
from holdfast.report.packing import pack
from holdfast.report.summary import Summary

__all__ = ["check_plotly", "to_html"]

OLD = (
    "The figures need JavaScript in a browser from 2023 or newer. All of the numbers are in the "
    "text and the tables."
)
#: Sections that the slider moves.
LINKED = ("curve", "rows", "parts")


def to_html(summary: Summary) -> str:
    """Return the summary as one self-contained HTML page.

    Raises
    ------
    MissingDependencyError
        Without plotly, whose JavaScript is embedded.
    """
    check_plotly()
    digest, plotly = _plotly()
    own = _text("page.js")
    drawn = figures(summary)
    data = {"figures": drawn, "linked": _linked(summary)}
    packed = pack(json.dumps(data, allow_nan=False, separators=(",", ":")))
    policy = (
        f"default-src 'none'; script-src {digest} {_digest(own)}; "
        "style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="generator", content="holdfast"),
        tag("title", summary.title),
        tag("style", Html(_text("page.css"))),
    )
    parts = sections.all_sections(summary, set(drawn))
    moved = [part.html for part in parts if part.id in LINKED]
    first = next(i for i, part in enumerate(parts) if part.id in LINKED)
    report = [part.html for part in parts if part.id not in LINKED]
    report.insert(first, tag("div", slider(summary.linked), *moved, class_="linked"))
    body = tag(
        "body",
        tag("a", "Skip to the report", href="#report", class_="skip"),
        sections.header(summary, parts),
        tag("p", OLD, class_="note old", id="old", hidden=True, role="note"),
        tag("noscript", tag("p", OLD, class_="note old")),
        tag("main", *report, id="report"),
        tag("footer", sections.colophon(summary)),
        tag("script", Html(packed), type="text/plain", id="data"),
        tag("script", Html(plotly), type="text/plain", id="plotly"),
        tag("script", Html(own)),
    )
    return "<!DOCTYPE html>\n" + join([tag("html", head, body, lang="en")]) + "\n"


def check_plotly() -> None:
    """Raise, with the remedy, if plotly is not installed."""
    if "plotly" in sys.modules:
        missing = sys.modules["plotly"] is None
    else:
        missing = importlib.util.find_spec("plotly") is None
    if missing:
        raise MissingDependencyError(
            "The HTML report needs plotly, which is not installed: pip install "
            "'holdfast[report]'. Reports that end in .md or .json need nothing."
        )


@lru_cache(maxsize=1)
def _plotly() -> tuple[str, str]:
    """Return the digest of Plotly's script, and the script packed."""
    from plotly.offline import get_plotlyjs

    script = str(get_plotlyjs())
    return _digest(script), pack(script)


def _linked(summary: Summary) -> dict[str, Any] | None:
    if summary.linked is None:
        return None
    head = summary.headline
    return linked_data(summary.linked, summary.rows.y, head.label, head.error_label)


def _digest(script: str) -> str:
    digest = hashlib.sha256(script.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def _text(name: str) -> str:
    return files("holdfast.report").joinpath(name).read_text(encoding="utf-8")
