"""Residuals over time: whether the model gets better or worse with time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from holdfast._typing import FloatArray
from holdfast.displays.score_scale import number
from holdfast.report.blocks import Chart, Section, table
from holdfast.report.charts import Figure, axis, figure, guide, scatter
from holdfast.report.context import Case

__all__ = ["OverTime", "ask_time", "repeated_words", "time_section"]

MAX_POINTS, BINS, MOST_STEPS = 800, 12, 5e7


@dataclass(frozen=True, eq=False)
class OverTime:
    """What is left over, in the order of time."""

    name: str  #: The column
    moment: tuple[Any, ...]  #: Time of each row that is drawn: dates as texts, or numbers
    left: FloatArray  #: Actual minus held-out prediction; for classes 1 where wrong
    bin_moment: tuple[Any, ...]  #: The middle of each stretch of time, of equally many rows
    bin_error: FloatArray  #: Error and mean residual of each stretch
    bin_bias: FloatArray
    trend: float  #: Rank correlation of the size of the residuals with time
    label: str  #: What the error of a stretch is
    #: Error of the model, and of repeating the last training value before each row (NaN: not
    #: known)
    error: float = math.nan
    repeated: float = math.nan


def ask_time(case: Case) -> OverTime | None:
    """Return held-out residuals over time; None where no column puts rows in order."""
    results, moments = case.results, case.context.moments
    if case.context.time is None or moments is None:
        return None
    when = moments[results.rows]
    order = np.argsort(when, kind="stable")
    if order.size < 4:
        return None
    parts = [p for p in np.array_split(order, min(BINS, max(2, order.size // 10))) if p.size]
    pick = order[np.unique(np.linspace(0, order.size - 1, min(order.size, MAX_POINTS)).astype(int))]
    size = np.abs(results.error)
    with np.errstate(invalid="ignore"):
        constant = bool((size == size[0]).all()) or bool((when == when[0]).all())
        trend = 0.0 if constant else float(spearmanr(when.astype(float), size).statistic)
    return OverTime(
        case.context.time,
        _plain(when[pick]),
        results.error[pick],
        _plain(when[[p[p.size // 2] for p in parts]]),
        np.array([results.score(p) for p in parts]),
        np.array([results.error[p].mean() for p in parts]),
        trend,
        results.label,
        results.score(),
        _repeated(case, moments),
    )


def _repeated(case: Case, moments: NDArray[Any]) -> float:
    """Return the error of repeating the last training value before each row; NaN if unknown."""
    results, held = case.results, case.held
    experiments = held.experiments
    if case.classifies or float(len(experiments)) * moments.size > MOST_STEPS:
        return float("nan")
    y = held.y[:, case.target]
    order = np.argsort(moments, kind="stable")
    said = np.full(results.rows.size, np.nan)
    trained = held.weights > 0
    for j in range(len(experiments)):
        left = trained.copy()
        left[experiments.held_out[j]] = False
        known = order[left[order]]
        at = slice(experiments.test.ptr[j], experiments.test.ptr[j + 1])
        before = np.searchsorted(moments[known], moments[results.rows[at]]) - 1
        said[at] = np.where(before >= 0, y[known[np.maximum(before, 0)]], np.nan)
    seen = np.isfinite(said) & (results.weights > 0)
    if seen.sum() < 0.9 * seen.size:
        return float("nan")
    w, off = results.weights[seen], (y[results.rows] - said)[seen]
    return float(np.sqrt(w @ (off * off) / w.sum()))


def _plain(values: NDArray[Any]) -> tuple[Any, ...]:
    if values.dtype.kind == "M":
        return tuple(np.datetime_as_string(values, unit="s").tolist())
    return tuple(values.astype(float).tolist())


def repeated_words(found: OverTime) -> str:
    """Return how the model compares with repeating the last value, as a sentence."""
    if math.isnan(found.repeated):
        return ""
    verdict = "" if found.error < found.repeated else ": the model is no better than that"
    return (
        f"Repeating the last value before each row would be off by {number(found.repeated)}, the "
        f"model is off by {number(found.error)}{verdict}."
    )


def time_section(found: OverTime) -> Section:
    """Return whether the error changes in the course of time."""
    rows = [
        (when if isinstance(when, str) else number(when, 4), number(float(e)), number(float(b)))
        for when, e, b in zip(found.bin_moment, found.bin_error, found.bin_bias, strict=True)
    ]
    header = (f"middle of the stretch ({found.name})", found.label, "mean residual")
    told = _words(found)
    chart = Chart(
        "time",
        _figure(found),
        f"Residuals over {found.name}. {told}",
        told,
        table("Stretches of equally many rows", header, rows),
    )
    return Section("time", "Over time", (chart,))


def _words(found: OverTime) -> str:
    first, last = (number(float(found.bin_error[i])) for i in (0, -1))
    told = f"The {found.label} is {first} in the first stretch and {last} in the last"
    if repeated := repeated_words(found):
        told = f"{repeated} {told}"
    if abs(found.trend) < 0.1:
        return f"{told}; over all rows, residuals do not grow or shrink with {found.name}."
    way = "grow" if found.trend > 0 else "shrink"
    return (
        f"{told}; residuals {way} with {found.name} (rank correlation {number(found.trend, 2)}): "
        "expect the last stretch, not the mean, of the next rows."
    )


def _figure(found: OverTime) -> Figure:
    """Return residuals over time, with the error of each stretch; of classes only the latter."""
    classes = found.label != "RMSE"
    traces = [guide(found.bin_moment, found.bin_error, f"{found.label} of a stretch", dash="solid")]
    if not classes:
        hover, look = "%{x}<br>actual − prediction %{y:.4g}", {"opacity": 0.5}
        rows = scatter(
            found.moment, found.left, "rows", "markers", size=4, hover=hover, marker=look
        )
        bias = guide(found.bin_moment, found.bin_bias, "mean residual", "@text", "dot")
        traces = [rows, *traces, bias]
    dates = bool(found.moment) and isinstance(found.moment[0], str)
    time = axis(found.name, type="date" if dates else "-")
    return figure(traces, time, axis(found.label if classes else "actual − prediction"))
