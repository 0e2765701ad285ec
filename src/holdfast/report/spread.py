"""How far off single predictions are: intervals of held-out rows, and whether they hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from holdfast._typing import FloatArray
from holdfast.displays.score_scale import number
from holdfast.exceptions import HoldfastError
from holdfast.report.bounds import held_out_bounds
from holdfast.report.markup import Html, table, tag
from holdfast.report.parts import Section, figure_element, section
from holdfast.report.plots import Figure, figure, line, numbers, title
from holdfast.report.sure import LEVEL, Ask

if TYPE_CHECKING:
    from holdfast.estimators.base import CrossValidatedKernelRidge
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
METHOD = (
    "They are jackknife+ intervals, like those of predictions of new rows: no distribution is "
    "assumed."
)
#: What the intervals may take.
SECONDS = 6.0


@dataclass(frozen=True, eq=False)
class Coverage:
    """Jackknife+ intervals of held-out predictions and how often they hold the truth.

    Attributes
    ----------
    levels, share, width : ndarray of shape (n,)
        What was promised, the share of rows for which it held, and the mean width.
    level : float
        The level of the intervals that are drawn.
    row : ndarray of int, shape (k,)
        Rows that are drawn, in the order of their predictions.
    y, prediction, low, high : ndarray of shape (k,)
        Truth, held-out prediction, and the ends of the interval.
    """

    levels: FloatArray
    share: FloatArray
    width: FloatArray
    level: float
    row: NDArray[np.int64]
    y: FloatArray
    prediction: FloatArray
    low: FloatArray
    high: FloatArray

    @property
    def share_at_level(self) -> float:
        """The share of rows inside the intervals that are drawn."""
        return float(self.share[np.argmin(np.abs(self.levels - self.level))])


def ask_coverage(
    model: CrossValidatedKernelRidge,
    results: RowResults,
    ask: Ask,
    target: int,
    notes: list[str],
) -> Coverage | None:
    """Return jackknife+ intervals of held-out rows and how often they hold.

    Parameters
    ----------
    model : fitted estimator
    results : RowResults
        Its held-out predictions, row by row.
    ask : Ask
        Level of the intervals that are drawn, and the time there is.
    target : int
        Which target.
    notes : list of str
        Is told why there are none.
    """
    w = results.weights
    if results.classes is not None or not w.sum() > 0:
        return None
    level, seconds = ask.interval or LEVEL, SECONDS * ask.patience
    levels = np.array(sorted({*LEVELS, level}))
    try:
        ends = held_out_bounds(model, tuple(levels.tolist()), target=target, seconds=seconds)
    except HoldfastError as error:
        notes.append(f"No intervals of single predictions: {error}")
        return None
    known = np.asarray(np.isfinite(ends.reshape(-1, levels.size)).all(axis=0))
    if not known[np.searchsorted(levels, level)]:
        notes.append("No intervals of single predictions: there are too few rows for the level.")
        return None
    levels, ends = levels[known], ends[:, :, known]
    inside = (ends[:, 0] <= results.y[:, None]) & (results.y[:, None] <= ends[:, 1])
    order = np.argsort(results.prediction, kind="stable")
    pick = order[np.unique(np.linspace(0, order.size - 1, min(order.size, _DRAWN)).astype(int))]
    low, high = ends[pick, :, np.flatnonzero(levels == level)[0]].T
    return Coverage(
        levels,
        w @ inside / w.sum(),
        w @ (ends[:, 1] - ends[:, 0]) / w.sum(),
        level,
        results.rows[pick],
        results.y[pick].astype(float),
        results.prediction[pick].astype(float),
        low,
        high,
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
    inside = (found.low <= found.y) & (found.y <= found.high)
    drawn: list[Figure] = [
        {
            "type": "scatter",
            "mode": "markers",
            "name": "prediction, interval",
            "x": rows.tolist(),
            "y": numbers(found.prediction),
            "error_y": {
                "type": "data",
                "symmetric": False,
                "array": numbers(found.high - found.prediction),
                "arrayminus": numbers(found.prediction - found.low),
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
            [
                int(found.row[i]),
                *(number(v[i], 4) for v in (found.prediction, found.low, found.high)),
            ]
            for i in at.tolist()
        ],
        "marker": {"color": mark[0], "symbol": mark[1], "size": 5 if mark[1] == "circle" else 8},
        "hovertemplate": (
            "row %{customdata[0]}<br>actual %{y:.4g}<br>held out %{customdata[1]}, between "
            "%{customdata[2]} and %{customdata[3]}<extra></extra>"
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
    note = tag("p", coverage_words(found), f" {METHOD}")
    return section(
        "spread", "How far off a single prediction is", note, tag("div", drawn, held, class_="side")
    )
