"""How far off single predictions are: intervals of held-out rows, and whether they hold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast._typing import FloatArray
from holdfast.displays.score_scale import number
from holdfast.exceptions import HoldfastError
from holdfast.report.blocks import Beside, Chart, Section, Text, table
from holdfast.report.bounds import held_out_bounds
from holdfast.report.charts import Figure, axis, figure, guide, scatter, shares, spread
from holdfast.report.context import Case

__all__ = ["Coverage", "ask_coverage", "coverage_section"]

LEVEL = 0.9
LEVELS = (0.5, 0.68, 0.8, 0.9, 0.95, 0.99)
_DRAWN = 120
#: What the intervals may take.
SECONDS = 6.0


@dataclass(frozen=True, eq=False)
class Coverage:
    """Jackknife+ intervals of held-out predictions and how often they hold the truth."""

    #: What was promised, the share of rows for which it held, and the mean width
    levels: FloatArray
    share: FloatArray
    width: FloatArray
    level: float  #: The level of the intervals that are drawn
    row: NDArray[np.int64]  #: Rows that are drawn, in the order of their predictions
    y: FloatArray  #: Truth, held-out prediction, and the ends of the interval
    prediction: FloatArray
    low: FloatArray
    high: FloatArray


def ask_coverage(case: Case) -> Coverage | None:
    """Return jackknife+ intervals of held-out rows and how often they hold."""
    results, ask = case.results, case.ask
    w = results.weights
    if results.classes is not None or not w.sum() > 0:
        return None
    level, seconds = ask.interval or LEVEL, SECONDS * ask.patience
    levels = np.array(sorted({*LEVELS, level}))
    try:
        ends = held_out_bounds(
            case.model, tuple(levels.tolist()), target=case.target, seconds=seconds
        )
    except HoldfastError as error:
        case.refused("No intervals of single predictions", error)
        return None
    known = np.asarray(np.isfinite(ends.reshape(-1, levels.size)).all(axis=0))
    if not known[np.searchsorted(levels, level)]:
        case.notes.append(
            "No intervals of single predictions: there are too few rows for the level."
        )
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


def coverage_section(found: Coverage, target: str) -> Section:
    """Return whether intervals of single predictions hold what they promise."""
    level = f"{100 * found.level:.3g} %"
    rows = [
        (f"{100 * promised:.3g} %", f"{100 * share:.3g} %", number(float(width)))
        for promised, share, width in zip(found.levels, found.share, found.width, strict=True)
    ]
    intervals = Chart(
        "intervals",
        _intervals(found, target),
        f"Held-out predictions of {found.row.size} rows with {level} intervals, and the truth.",
        f"{level} intervals of {found.row.size} rows, each by the model that never saw it.",
    )
    held = Chart(
        "coverage",
        _held(found),
        "Share of rows inside their intervals over the share that was promised.",
        "On the dashed line intervals hold what they promise; below it they are too narrow.",
        table("Intervals of held-out predictions", ("promised", "held", "mean width"), rows),
    )
    title = "How far off a single prediction is"
    return Section("spread", title, (Text(_words(found)), Beside((intervals, held))))


def _words(found: Coverage) -> str:
    at = int(np.argmin(np.abs(found.levels - found.level)))
    share, level = float(found.share[at]), found.level
    told = (
        f"Intervals meant to hold {100 * level:.3g} % of the rows hold {100 * share:.3g} % of "
        f"those that were held out; they are {number(float(found.width[at]))} wide on average."
    )
    if share < level - 0.05:
        told += " They are too narrow: do not rely on them."
    if share > level + 0.05:
        told += " They are wider than they need to be."
    return (
        f"{told} They are jackknife+ intervals, like those of predictions of new rows: no "
        "distribution is assumed."
    )


def _intervals(found: Coverage, target: str) -> Figure:
    """Return rows in the order of their predictions, with interval and truth."""
    at = np.arange(found.row.size)
    bars = spread(found.high - found.prediction, found.prediction - found.low)
    bars |= {"thickness": 2, "color": "@band2"}
    traces = [scatter(at, found.prediction, "held out", "markers", size=4, error_y=bars)]
    inside = (found.low <= found.y) & (found.y <= found.high)
    kinds = [(inside, "actual, inside", "@text", "circle"), (~inside, "outside", "@bad", "x")]
    for part, name, colour, symbol in kinds:
        shown = np.flatnonzero(part)
        if not shown.size:
            continue
        told = [
            [
                str(found.row[i]),
                *(number(v[i], 4) for v in (found.prediction, found.low, found.high)),
            ]
            for i in shown.tolist()
        ]
        traces.append(
            scatter(
                shown,
                found.y[shown],
                name,
                "markers",
                colour=colour,
                size=5 if symbol == "circle" else 8,
                marker={"symbol": symbol},
                customdata=told,
                hover="row %{customdata[0]}<br>actual %{y:.4g}<br>held out %{customdata[1]}, "
                "between %{customdata[2]} and %{customdata[3]}",
            )
        )
    return figure(traces, axis("held-out rows, by prediction", showticklabels=False), axis(target))


def _held(found: Coverage) -> Figure:
    low = max(0.0, float(min(0.4, found.share.min() - 0.05)))
    hover = "promised %{x:.0%}<br>held %{y:.1%}"
    traces = [
        scatter(found.levels, found.share, "held", size=7, hover=hover),
        guide([0.0, 1.0], [0.0, 1.0], "as promised"),
    ]
    return figure(traces, shares("promised", 0.4), shares("held", low))
