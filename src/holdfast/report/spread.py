"""How far off single predictions are: intervals of held-out rows, and whether they hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from holdfast._typing import FloatArray
from holdfast.displays.score_scale import number
from holdfast.exceptions import HoldfastError
from holdfast.report.markup import Html, table, tag
from holdfast.report.parts import Section, figure_element, section
from holdfast.report.plots import Figure, figure, line, numbers, title

if TYPE_CHECKING:
    from holdfast.estimators.results import HeldOutPredictions
    from holdfast.report.rows import RowResults

__all__ = [
    "Coverage",
    "ask_coverage",
    "coverage_figures",
    "coverage_rows",
    "coverage_section",
    "coverage_words",
]

LEVELS = (0.5, 0.68, 0.8, 0.9, 0.95, 0.99)
_DRAWN = 120
# Sum of the cubes of the numbers of rows held out: what the standard deviations take.
_MOST_WORK = 1e10


@dataclass(frozen=True, eq=False)
class Coverage:
    """Intervals of held-out predictions and how often they hold the truth.

    Attributes
    ----------
    levels, share, width : ndarray of shape (n,)
        What was promised, the share of rows for which it held, and the mean width.
    level : float
        The level of the intervals that are drawn.
    row : ndarray of int, shape (k,)
        Rows that are drawn, in the order of their predictions.
    y, prediction, half : ndarray of shape (k,)
        Truth, held-out prediction, and half the width of the interval.
    """

    levels: FloatArray
    share: FloatArray
    width: FloatArray
    level: float
    row: NDArray[np.int64]
    y: FloatArray
    prediction: FloatArray
    half: FloatArray

    @property
    def share_at_level(self) -> float:
        """The share of rows inside the intervals that are drawn."""
        return float(self.share[np.argmin(np.abs(self.levels - self.level))])


def ask_coverage(
    found: HeldOutPredictions, results: RowResults, level: float, target: int, notes: list[str]
) -> Coverage | None:
    """Return intervals of held-out rows under the normal law and how often they hold.

    Parameters
    ----------
    found : HeldOutPredictions
        At the penalty of the model.
    results : RowResults
        The same, row by row.
    level : float
        Of the intervals that are drawn.
    target : int
        Which target.
    notes : list of str
        Is told why there are none.
    """
    if results.classes is not None:
        return None
    held = np.diff(found.experiments.held_out.ptr).astype(float)
    if (held**3).sum() > _MOST_WORK:
        notes.append(
            "Left out because it would take long: intervals of held-out predictions. "
            "predict --interval makes those of new rows."
        )
        return None
    try:
        std = found.std[0, :, target]
    except HoldfastError as error:
        notes.append(f"No intervals of held-out predictions: {error}")
        return None
    levels = np.array(sorted({*LEVELS, level}))
    factors = ndtri((1 + levels) / 2)
    w = results.weights
    if not (w.sum() > 0 and np.isfinite(std).all()):
        return None
    inside = np.abs(results.error)[None, :] <= factors[:, None] * std
    order = np.argsort(results.prediction, kind="stable")
    pick = order[np.unique(np.linspace(0, order.size - 1, min(order.size, _DRAWN)).astype(int))]
    return Coverage(
        levels,
        inside @ w / w.sum(),
        2 * factors * (std @ w / w.sum()),
        level,
        results.rows[pick],
        results.y[pick].astype(float),
        results.prediction[pick].astype(float),
        float(ndtri((1 + level) / 2)) * std[pick],
    )


def coverage_words(found: Coverage) -> str:
    """Return whether the intervals hold what they promise, as a sentence."""
    share, level = found.share_at_level, found.level
    width = found.width[np.argmin(np.abs(found.levels - level))]
    told = (
        f"Intervals meant to hold {100 * level:.3g} % of the rows hold {100 * share:.3g} % of "
        f"those that were held out; they are {number(float(width))} wide on average."
    )
    if share < level - 0.05:
        return told + " They are too narrow: do not rely on them."
    if share > level + 0.05:
        return told + " They are wider than they need to be."
    return told


def coverage_rows(found: Coverage) -> list[tuple[str, ...]]:
    """Return the rows of a table: promised, held, mean width."""
    return [
        (f"{100 * level:.3g} %", f"{100 * share:.3g} %", number(float(width)))
        for level, share, width in zip(found.levels, found.share, found.width, strict=True)
    ]


def coverage_figures(found: Coverage, target: str) -> dict[str, Figure]:
    """Return the intervals of some rows, and the share that holds against what was promised."""
    rows = np.arange(found.row.size)
    inside = np.abs(found.y - found.prediction) <= found.half
    drawn: list[Figure] = [
        {
            "type": "scatter",
            "mode": "markers",
            "name": "prediction, interval",
            "x": rows.tolist(),
            "y": numbers(found.prediction),
            "error_y": {
                "type": "data",
                "array": numbers(found.half),
                "width": 0,
                "thickness": 2,
                "color": "@band2",
            },
            "marker": {"color": "@accent", "size": 4},
            "hoverinfo": "skip",
        },
        *(_truths(found, part, name, mark) for part, name, mark in _kinds(inside)),
    ]
    axis = {"title": {"text": "held-out rows, by prediction"}, "showticklabels": False}
    ends = [0.0, 1.0]
    promised: list[Figure] = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": "held",
            "x": numbers(found.levels),
            "y": numbers(found.share),
            "line": {"color": "@accent", "width": 2},
            "marker": {"size": 7},
            "hovertemplate": "promised %{x:.0%}<br>held %{y:.1%}<extra></extra>",
        },
        line(ends, ends, "as promised"),
    ]
    share = {"tickformat": ".0%", "range": [0.4, 1.02]}
    low = max(0.0, float(min(0.4, found.share.min() - 0.05)))
    return {
        "intervals": figure(drawn, axis, {"title": title(target)}),
        "coverage": figure(
            promised,
            {"title": {"text": "promised"}, **share},
            {"title": {"text": "held"}, "tickformat": ".0%", "range": [low, 1.02]},
        ),
    }


def _kinds(inside: NDArray[np.bool_]) -> list[tuple[NDArray[np.bool_], str, tuple[str, str]]]:
    kinds = [(inside, "actual, inside", ("@text", "circle")), (~inside, "outside", ("@bad", "x"))]
    return [kind for kind in kinds if kind[0].any()]


def _truths(found: Coverage, part: Any, name: str, mark: tuple[str, str]) -> Figure:
    at = np.flatnonzero(part)
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": at.tolist(),
        "y": numbers(found.y[at]),
        "customdata": [
            [int(found.row[i]), number(found.prediction[i], 4), number(found.half[i])]
            for i in at.tolist()
        ],
        "marker": {"color": mark[0], "symbol": mark[1], "size": 5 if mark[1] == "circle" else 8},
        "hovertemplate": (
            "row %{customdata[0]}<br>actual %{y:.4g}<br>held out %{customdata[1]} ± "
            "%{customdata[2]}<extra></extra>"
        ),
    }


def coverage_section(found: Coverage) -> Section:
    """Return the section on single predictions."""
    level = f"{100 * found.level:.3g} %"
    header = ("promised", "held", "mean width")
    data: Html = table("Intervals of held-out predictions", header, coverage_rows(found))
    drawn = figure_element(
        "intervals",
        f"Held-out predictions of {found.row.size} rows with {level} intervals, and the truth.",
        f"{level} intervals of {found.row.size} rows, each by the model that never saw it.",
    )
    held = figure_element(
        "coverage",
        "Share of rows inside their intervals over the share that was promised.",
        "On the dashed line intervals hold what they promise; below it they are too narrow.",
        data,
    )
    note = tag(
        "p",
        coverage_words(found),
        " They rest on normal errors; predict --interval makes none of that assumption.",
    )
    return section(
        "spread", "How far off a single prediction is", note, tag("div", drawn, held, class_="side")
    )
