"""What the figures of a page share: axes, lines, and text that Plotly shows as it is.

Colours are names (``@accent``) that the page replaces by those of its light or dark theme. Text
that comes from data is escaped, because Plotly reads some HTML in labels.
"""

from __future__ import annotations

import html
from typing import Any

import numpy as np

__all__ = ["Figure", "escape", "figure", "line", "numbers", "penalty_axis", "title"]

Figure = dict[str, Any]


def escape(text: str) -> str:
    """Return text that Plotly shows as it is: no tags, and no "$" that would start a formula."""
    return html.escape(text).replace("$", "&#36;")


def title(text: str, most: int = 32) -> Figure:
    """Return the title of an axis, cut where it would not fit beside its axis."""
    return {"text": escape(text if len(text) <= most else text[: most - 1] + "…")}


def line(x: Any, y: Any, name: str, colour: str = "@second", dash: str = "dash") -> Figure:
    """Return a line without points, such as the one where prediction and truth agree."""
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": x,
        "y": y,
        "line": {"color": colour, "dash": dash, "width": 1.5},
        "hoverinfo": "skip",
    }


def penalty_axis() -> Figure:
    """Return the axis of the penalties."""
    return {"type": "log", "title": {"text": "penalty λ (alpha)"}, "exponentformat": "power"}


def figure(traces: list[Figure], xaxis: Figure, yaxis: Figure, height: int = 380) -> Figure:
    """Return traces in axes that look like all others.

    The tool bar has the margin at the top to itself, the legend the foot.
    """
    look = {"gridcolor": "@grid", "zerolinecolor": "@grid", "automargin": True}
    legend = sum(1 for trace in traces if trace.get("showlegend", True)) > 1
    return {
        "data": traces,
        "layout": {
            "xaxis": {**look, **xaxis},
            "yaxis": {**look, **yaxis},
            "font": {"color": "@text", "family": "system-ui, sans-serif", "size": 13},
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "margin": {"l": 60, "r": 20, "t": 36, "b": 50},
            "height": height + (30 if legend else 0),
            "hovermode": "closest",
            "hoverlabel": {"bgcolor": "@panel", "font": {"color": "@text"}, "align": "left"},
            "legend": {
                "orientation": "h",
                "yref": "container",
                "y": 0,
                "yanchor": "bottom",
                "x": 0,
                "font": {"size": 13},
            },
            "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": "@muted", "activecolor": "@accent"},
            "showlegend": legend,
            "dragmode": "zoom",
        },
    }


def numbers(values: Any) -> list[float | None]:
    """Return numbers rounded to what a screen can show; None where there is none."""
    array = np.asarray(values, dtype=float)
    return [float(f"{v:.6g}") if np.isfinite(v) else None for v in array.tolist()]
