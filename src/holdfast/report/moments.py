"""Residuals over time: whether the model ages, or was late to learn something."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from holdfast._typing import FloatArray
from holdfast.displays.score_scale import number
from holdfast.report.markup import table
from holdfast.report.parts import Section, figure_element, section
from holdfast.report.plots import Figure, figure, line, numbers, title
from holdfast.report.rows import RowResults

if TYPE_CHECKING:
    from holdfast.answers.held_out import HeldOutPredictions

__all__ = [
    "OverTime",
    "ask_time",
    "repeated_words",
    "time_figure",
    "time_rows",
    "time_section",
    "time_words",
]

MAX_POINTS, BINS, MOST_STEPS = 800, 12, 5e7


@dataclass(frozen=True, eq=False)
class OverTime:
    """What is left over, in the order of time.

    Attributes
    ----------
    name : str
        The column.
    moment : tuple of str or of float
        Time of each row that is drawn: dates as texts, or numbers.
    left : ndarray
        Actual minus held-out prediction; for classes 1 where wrong.
    bin_moment : tuple
        The middle of each stretch of time, of equally many rows.
    bin_error, bin_bias : ndarray
        Error and mean residual of each stretch.
    trend : float
        Rank correlation of the size of the residuals with time.
    label : str
        What the error of a stretch is.
    error, repeated : float
        Error of the model, and of repeating the last training value before each row (NaN: not
        known).
    """

    name: str
    moment: tuple[Any, ...]
    left: FloatArray
    bin_moment: tuple[Any, ...]
    bin_error: FloatArray
    bin_bias: FloatArray
    trend: float
    label: str
    error: float = math.nan
    repeated: float = math.nan


def ask_time(
    results: RowResults,
    name: str,
    moments: NDArray[Any],
    held: HeldOutPredictions | None = None,
    target: int = 0,
) -> OverTime | None:
    """Return held-out residuals over time.

    Parameters
    ----------
    results : RowResults
    name : str
        Of the time column.
    moments : ndarray of shape (m,)
        Time of each row of the data: numbers or datetime64.
    held : HeldOutPredictions, optional
        The same predictions, for the comparison with repeating the last value.
    target : int
        Which of several targets.
    """
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
        name,
        _plain(when[pick]),
        results.error[pick],
        _plain(when[[p[p.size // 2] for p in parts]]),
        np.array([results.score(p) for p in parts]),
        np.array([results.error[p].mean() for p in parts]),
        trend,
        results.label,
        results.score(),
        _repeated(results, moments, held, target),
    )


def _repeated(
    results: RowResults, moments: NDArray[Any], held: HeldOutPredictions | None, target: int
) -> float:
    """Return the error of repeating the last training value before each row; NaN if unknown."""
    if held is None or held.classes is not None:
        return float("nan")
    experiments, y = held.experiments, held.y[:, target]
    if float(len(experiments)) * moments.size > MOST_STEPS:
        return float("nan")
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


def time_words(found: OverTime) -> str:
    """Return whether the error changes in the course of time."""
    first, last = found.bin_error[0], found.bin_error[-1]
    told = (
        f"{repeated_words(found)}The {found.label} is {number(float(first))} in the first stretch "
        f"and {number(float(last))} in the last"
    )
    if abs(found.trend) < 0.1:
        return f"{told}; over all rows, residuals do not grow or shrink with {found.name}."
    way = "grow" if found.trend > 0 else "shrink"
    return (
        f"{told}; residuals {way} with {found.name} (rank correlation {number(found.trend, 2)}): "
        "expect the last stretch, not the mean, of the next rows."
    )


def repeated_words(found: OverTime) -> str:
    """Return how the model compares with repeating the last value, as a sentence."""
    if math.isnan(found.repeated):
        return ""
    better = found.error < found.repeated
    verdict = "" if better else ": the model is no better than that"
    return (
        f"Repeating the last value before each row would be off by {number(found.repeated)}, the "
        f"model is off by {number(found.error)}{verdict}. "
    )


def time_rows(found: OverTime) -> list[tuple[str, ...]]:
    """Return the rows of a table: stretch, error, mean residual."""
    return [
        (when if isinstance(when, str) else number(when, 4), number(float(e)), number(float(b)))
        for when, e, b in zip(found.bin_moment, found.bin_error, found.bin_bias, strict=True)
    ]


def time_figure(found: OverTime) -> Figure:
    """Return residuals over time, with the error of each stretch."""
    dates = bool(found.moment) and isinstance(found.moment[0], str)
    points = {
        "type": "scatter",
        "mode": "markers",
        "name": "rows",
        "x": list(found.moment),
        "y": numbers(found.left),
        "marker": {"color": "@accent", "size": 4, "opacity": 0.5},
        "hovertemplate": "%{x}<br>actual − prediction %{y:.4g}<extra></extra>",
    }
    error = line(list(found.bin_moment), numbers(found.bin_error), f"{found.label} of a stretch")
    error["line"]["dash"] = "solid"
    bias = line(list(found.bin_moment), numbers(found.bin_bias), "mean residual", "@text", "dot")
    classes = found.label != "RMSE"
    traces = [error] if classes else [points, error, bias]
    y = found.label if classes else "actual − prediction"
    axis = {"title": title(found.name), **({"type": "date"} if dates else {})}
    return figure(traces, axis, {"title": {"text": y}})


def time_section(found: OverTime) -> Section:
    """Return the section on time."""
    header = (f"middle of the stretch ({found.name})", found.label, "mean residual")
    return section(
        "time",
        "Over time",
        figure_element(
            "time",
            f"Residuals over {found.name}. {time_words(found)}",
            time_words(found),
            table("Stretches of equally many rows", header, time_rows(found)),
        ),
    )
