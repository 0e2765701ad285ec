"""The report as one HTML file that needs nothing else.

Plotly's script is embedded. A content security policy allows that script and the page's own, by
their digests, and forbids every request: even a text that slipped through the escaping could
neither run nor send anything.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import json
import sys
from importlib.resources import files

from holdfast.exceptions import MissingDependencyError
from holdfast.report import sections
from holdfast.report.figures import figures
from holdfast.report.markup import Html, join, tag
from holdfast.report.summary import Summary

__all__ = ["check_plotly", "to_html"]


def to_html(summary: Summary) -> str:
    """Return the summary as one self-contained HTML page.

    Raises
    ------
    MissingDependencyError
        Without plotly, whose JavaScript is embedded.
    """
    plotly = _plotly_script()
    own = _text("page.js")
    drawn = figures(summary)
    # "<" in a JSON string may be written as an escape; a script element cannot then be closed.
    data = json.dumps(drawn, ensure_ascii=True, allow_nan=False).replace("<", "\\u003c")
    policy = (
        f"default-src 'none'; script-src {_digest(plotly)} {_digest(own)}; "
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
    body = tag(
        "body",
        tag("a", "Skip to the report", href="#report", class_="skip"),
        sections.header(summary, parts),
        tag("main", *(part.html for part in parts), id="report"),
        tag("footer", sections.colophon(summary)),
        tag("script", Html(data), type="application/json", id="figures"),
        tag("script", Html(plotly)),
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


def _plotly_script() -> str:
    check_plotly()
    from plotly.offline import get_plotlyjs

    script = str(get_plotlyjs())
    # Inside a script element only this would end it early.
    return script.replace("</script", "<\\/script")


def _digest(script: str) -> str:
    digest = hashlib.sha256(script.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def _text(name: str) -> str:
    return files("holdfast.report").joinpath(name).read_text(encoding="utf-8")
