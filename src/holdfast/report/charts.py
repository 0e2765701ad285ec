"""Charts as data for Plotly: lines, points, horizontal bars, and axes that look alike.

Colours are names (``@accent``) that the page replaces by those of its light or dark theme. Text
that comes from data is escaped, because Plotly reads some HTML in labels. Every trace is a scatter
or a bar, so that Plotly's basic bundle can draw the page.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = [
    "LAMBDA",
    "Figure",
    "axis",
    "bars",
    "escape",
    "figure",
    "guide",
    "numbers",
    "rounded",
    "scatter",
    "shares",
    "spread",
]

Figure = dict[str, Any]

#: The axis of the penalties.
LAMBDA: Figure = {
    "type": "log",
    "title": {"text": "penalty λ (alpha)"},
    "exponentformat": "power",
}


def escape(text: str) -> str:
    """Return text that Plotly shows as it is: no tags, and no "$" that would start a formula."""
    return html.escape(text).replace("$", "&#36;")


def numbers(values: Any) -> list[Any]:
    """Return numbers rounded for a screen, None where there is none; texts as they are."""
    array = np.asarray(values)
    if array.dtype.kind in "OU":
        return list(array.tolist())
    return rounded(array, 6)


def rounded(values: Any, digits: int) -> list[float | None]:
    """Return numbers of so many digits; None where there is none."""
    found = np.asarray(values, dtype=float).tolist()
    return [float(f"{v:.{digits}g}") if np.isfinite(v) else None for v in found]


def scatter(
    x: Any,
    y: Any,
    name: str,
    mode: str = "lines+markers",
    *,
    colour: str = "@accent",
    dash: str = "solid",
    size: float = 5,
    hover: str | None = None,
    marker: Figure | None = None,
    **more: Any,
) -> Figure:
    """Return lines or points.

    Parameters
    ----------
    x, y : array-like
    name : str
        In the legend; it may come from data.
    mode : str
        "lines", "markers" or "lines+markers".
    colour, dash : str
        Of points and line.
    size : float
        Of points.
    hover : str, optional
        What is shown under the mouse, a template of Plotly; nothing by default.
    marker : dict, optional
        More about the points.
    **more
        Other settings of the trace.
    """
    made: Figure = {"type": "scatter", "mode": mode, "name": escape(name)}
    made |= {"x": numbers(x), "y": numbers(y)}
    if "lines" in mode:
        made["line"] = {"color": colour, "dash": dash, "width": 2}
    if "markers" in mode:
        made["marker"] = {"color": colour, "size": size, **(marker or {})}
    return made | _hover(hover) | more


def guide(
    x: Any, y: Any, name: str, colour: str = "@second", dash: str = "dash", width: float = 1.5
) -> Figure:
    """Return a thin line to compare with, such as the one where prediction and truth agree."""
    made = scatter(x, y, name, "lines", colour=colour, dash=dash)
    made["line"]["width"] = width
    return made


def bars(
    names: Sequence[str],
    values: Any,
    label: str,
    *,
    hover: str,
    colour: Any = "@accent",
    low: Any = None,
    high: Any = None,
    reach: float | None = None,
    **more: Any,
) -> Figure:
    """Return a figure of horizontal bars, the first on top, with intervals where there are any.

    Bars are told apart by their places: two names may be cut to the same text.

    Parameters
    ----------
    names : sequence of str
    values : array-like
    label : str
        What the length of a bar is.
    hover : str
        As in `scatter`; ``%{text}`` is the name.
    colour : str or list of str
    low, high : array-like, optional
        Ends of intervals.
    reach : float, optional
        Where the axis ends.
    **more
        Other settings of the trace.
    """
    length, places = np.asarray(values, dtype=float), list(range(len(names)))
    trace: Figure = {
        "type": "bar",
        "orientation": "h",
        "y": places,
        "x": numbers(length),
        "text": [escape(name) for name in names],
        "textposition": "none",
        "marker": {"color": colour},
        **_hover(hover),
        **more,
    }
    if low is not None and high is not None:
        ends = np.asarray(high) - length, length - np.asarray(low)
        trace["error_x"] = spread(*ends) | {"width": 3, "color": "@text"}
    cut = [name if len(name) <= 28 else name[:27] + "…" for name in names]
    ticks = {"tickvals": places, "ticktext": [escape(name) for name in cut]}
    ends_at = {} if reach is None else {"range": [0, reach]}
    return figure(
        [trace],
        axis(label, 60, **ends_at),
        {**ticks, "autorange": "reversed", "zeroline": False},
        100 + 21 * max(len(names), 3),
    )


def spread(up: Any, down: Any = None) -> Figure:
    """Return error bars: symmetric ones, or of two lengths."""
    made = {"type": "data", "array": numbers(up), "width": 0, "thickness": 1.5}
    return made if down is None else made | {"symmetric": False, "arrayminus": numbers(down)}


def axis(text: str, most: int = 32, **more: Any) -> Figure:
    """Return an axis; its title is cut where it would not fit beside it."""
    cut = text if len(text) <= most else text[: most - 1] + "…"
    return {"title": {"text": escape(cut)}, **more}


def shares(text: str, low: float = -0.02) -> Figure:
    """Return an axis of shares."""
    return axis(text, 40, tickformat=".0%", range=[low, 1.02])


def figure(traces: list[Figure], xaxis: Figure, yaxis: Figure, height: int = 330) -> Figure:
    """Return traces in axes that look like all others.

    The tool bar is in the top margin, the legend below.
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


def _hover(template: str | None) -> Figure:
    if template is None:
        return {"hoverinfo": "skip"}
    return {"hovertemplate": f"{template}<extra></extra>"}
