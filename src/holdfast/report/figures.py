"""The figures of a page, as data for Plotly.

`plots` has what they share; figures of findings of their own are in the modules of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from holdfast.displays.curve_data import CVCurve
from holdfast.report.classes import class_figures
from holdfast.report.growth import growth_figures
from holdfast.report.moments import time_figure
from holdfast.report.plots import Figure, escape, figure, line, numbers, penalty_axis, title
from holdfast.report.relevance import relevance_figure
from holdfast.report.rows import PartScore
from holdfast.report.spread import coverage_figures
from holdfast.report.summary import Contrast, Leverage, RowSample, Summary
from holdfast.report.words import number

__all__ = ["MAX_BARS", "figures"]

MAX_BARS = 25


def figures(summary: Summary) -> dict[str, Figure]:
    """Return the figures that a summary has, by name, in the order of the page."""
    found: dict[str, Figure] = {}
    if summary.contrasts:
        found["contrast"] = contrast_figure(summary.contrasts, summary.headline.error_label)
    found["curve"] = curve_figure(summary.curve)
    if summary.policies:
        found["policies"] = policies_figure(summary.policies)
    if summary.confusion is None:
        found["actual"] = actual_figure(summary.rows, summary.asked.target)
        found["residuals"] = residual_figure(summary.rows)
    if summary.folds:
        found["folds"] = parts_figure(summary.folds, summary.headline.error_label)
    if summary.groups:
        found["groups"] = parts_figure(summary.groups, summary.headline.error_label)
    if summary.coverage:
        found |= coverage_figures(summary.coverage, summary.asked.target)
    if summary.classes:
        found |= class_figures(summary.classes)
    if summary.relevance:
        found["relevance"] = relevance_figure(summary.relevance)
    if summary.time:
        found["time"] = time_figure(summary.time)
    found |= growth_figures(summary.growth)
    found["leverage"] = leverage_figure(summary.leverage)
    return found


def curve_figure(curve: CVCurve) -> Figure:
    """Return the error over the penalties with its standard errors, the best and one-SE choices."""
    label = escape(curve.scale.label)
    known = np.isfinite(curve.se)
    traces: list[Figure] = []
    if known.any():
        x = curve.alphas[known]
        low, high = (curve.values - curve.se)[known], (curve.values + curve.se)[known]
        traces.append(
            {
                "type": "scatter",
                "x": numbers(np.concatenate([x, x[::-1]])),
                "y": numbers(np.concatenate([high, low[::-1]])),
                "fill": "toself",
                "fillcolor": "@band",
                "line": {"width": 0},
                "hoverinfo": "skip",
                "name": "± 1 standard error",
                "mode": "lines",
            }
        )
    traces.append(
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": label,
            "x": numbers(curve.alphas),
            "y": numbers(curve.values),
            "customdata": [number(s, 2) for s in curve.se.tolist()],
            "line": {"color": "@accent", "width": 2},
            "marker": {"size": 5},
            "hovertemplate": (
                f"λ = %{{x:.3g}}<br>{label} %{{y:.4g}} ± %{{customdata}}<extra></extra>"
            ),
        }
    )
    marks = [("best", curve.best, "circle", "@accent")]
    if curve.one_se is not None and curve.one_se != curve.best:
        marks.append(("largest λ within 1 standard error", curve.one_se, "diamond", "@second"))
    if curve.chosen_index not in (curve.best, curve.one_se):
        marks.append(("chosen", curve.chosen_index, "square", "@text"))
    traces += [
        {
            "type": "scatter",
            "mode": "markers",
            "name": name,
            "x": [float(curve.alphas[at])],
            "y": [float(curve.values[at])],
            "marker": {"size": 13, "symbol": symbol, "color": colour, "line": {"width": 2}},
            "hovertemplate": f"{name}<br>λ = %{{x:.3g}}<br>{label} %{{y:.4g}}<extra></extra>",
        }
        for name, at, symbol, colour in marks
    ]
    traces.append(
        {
            "type": "scatter",
            "mode": "markers",
            "name": "on the slider",
            "x": [float(curve.alphas[curve.chosen_index])],
            "y": [float(curve.values[curve.chosen_index])],
            "marker": {
                "size": 19,
                "symbol": "circle-open",
                "color": "@text",
                "line": {"width": 2},
            },
            "hoverinfo": "skip",
        }
    )
    return figure(traces, penalty_axis(), {"title": {"text": label}})


def policies_figure(policies: dict[str, CVCurve]) -> Figure:
    """Return the curves of the policies for held-out basis rows in one pair of axes."""
    looks = {"keep": ("@second", "dash"), "remove": ("@accent", "solid")}
    traces = []
    label = ""
    for name, curve in policies.items():
        colour, dash = looks.get(name, ("@text", "dot"))
        label = escape(curve.scale.label)
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": name,
                "x": numbers(curve.alphas),
                "y": numbers(curve.values),
                "line": {"color": colour, "dash": dash, "width": 2},
                "marker": {"size": 5},
                "hovertemplate": f"{name}<br>λ = %{{x:.3g}}<br>{label} %{{y:.4g}}<extra></extra>",
            }
        )
    return figure(traces, penalty_axis(), {"title": {"text": label}})


def contrast_figure(contrasts: Sequence[Contrast], label: str) -> Figure:
    """Return one bar per way of holding out."""
    shown = list(reversed(contrasts))
    trace = {
        "type": "bar",
        "orientation": "h",
        "y": [escape(c.name) for c in shown],
        "x": numbers([c.error for c in shown]),
        "text": [number(c.error) for c in shown],
        "textposition": "outside",
        "cliponaxis": False,
        "marker": {
            "color": ["@good" if c.truth else "@accent" if c.asked else "@second" for c in shown]
        },
        "hovertemplate": f"%{{y}}<br>{escape(label)} %{{x:.4g}}<extra></extra>",
    }
    made = figure(
        [trace],
        # Room for the number at the end of the longest bar.
        {"title": {"text": escape(label)}, "range": [0, 1.2 * max(c.error for c in shown) or 1]},
        {
            "type": "category",
            "automargin": True,
        },
    )
    made["layout"]["height"] = 120 + 55 * len(shown)
    return made


def actual_figure(rows: RowSample, target: str) -> Figure:
    """Return the held-out prediction over the truth, with the line where they agree."""
    low = float(min(rows.y.min(), rows.prediction.min()))
    high = float(max(rows.y.max(), rows.prediction.max()))
    points = _points(rows, rows.y, rows.prediction)
    points["hovertemplate"] = "%{customdata}<br>actual %{x:.4g}<br>held out %{y:.4g}<extra></extra>"
    agree = line([low, high], [low, high], "prediction = actual")
    return figure(
        [points, agree],
        {"title": title(f"actual {target}")},
        {"title": {"text": "held-out prediction"}},
    )


def residual_figure(rows: RowSample) -> Figure:
    """Return truth minus held-out prediction over the prediction."""
    points = _points(rows, rows.prediction, rows.y - rows.prediction)
    points["hovertemplate"] = (
        "%{customdata}<br>held out %{x:.4g}<br>residual %{y:.4g}<extra></extra>"
    )
    span = [float(rows.prediction.min()), float(rows.prediction.max())]
    return figure(
        [points, line(span, [0.0, 0.0], "no error")],
        {"title": {"text": "held-out prediction"}},
        {"title": {"text": "actual − prediction"}},
    )


def parts_figure(parts: Sequence[PartScore], label: str) -> Figure:
    """Return one bar per part, the worst on top."""
    shown = list(reversed(parts[:MAX_BARS]))
    trace = {
        "type": "bar",
        "orientation": "h",
        "y": [escape(part.label) for part in shown],
        "x": numbers([part.score for part in shown]),
        "customdata": [part.count for part in shown],
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": numbers([part.high - part.score for part in shown]),
            "arrayminus": numbers([part.score - part.low for part in shown]),
            "width": 3,
            "thickness": 1.5,
            "color": "@text",
        },
        "marker": {"color": "@accent"},
        "hovertemplate": (
            f"%{{y}}<br>{escape(label)} %{{x:.4g}}<br>%{{customdata}} predictions<extra></extra>"
        ),
    }
    made = figure(
        [trace],
        {"title": {"text": escape(label)}, "rangemode": "tozero"},
        {
            "type": "category",
            "automargin": True,
            "dtick": 1,
        },
    )
    made["layout"]["height"] = 120 + 22 * max(len(shown), 5)
    return made


def leverage_figure(leverage: Leverage) -> Figure:
    """Return the histogram of the leverages."""
    edges = leverage.edges
    trace = {
        "type": "bar",
        "x": numbers((edges[:-1] + edges[1:]) / 2),
        "y": leverage.counts.tolist(),
        "width": numbers(np.diff(edges)),
        "marker": {"color": "@accent"},
        "hovertemplate": "leverage about %{x:.3g}<br>%{y} rows<extra></extra>",
    }
    return figure(
        [trace], {"title": {"text": "leverage"}}, {"title": {"text": "rows"}, "rangemode": "tozero"}
    )


def _points(rows: RowSample, x: Any, y: Any) -> Figure:
    groups = rows.group or ("",) * len(rows.row)
    names = [
        f"row {row}" + (f", {escape(group)}" if group else "")
        for row, group in zip(rows.row.tolist(), groups, strict=True)
    ]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "rows",
        "x": numbers(x),
        "y": numbers(y),
        "customdata": names,
        "marker": {"color": "@accent", "size": 5, "opacity": 0.55},
    }
