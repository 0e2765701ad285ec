"""Where the model goes wrong: rows, experiments, groups, classes; and influential rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast._typing import FloatArray
from holdfast.displays.score_scale import number
from holdfast.report.blocks import Beside, Block, Chart, Heading, Section, Text, table
from holdfast.report.charts import Figure, axis, bars, escape, figure, guide, numbers, scatter
from holdfast.report.context import Case
from holdfast.report.rows import PartScore, RowResults, part_scores

__all__ = [
    "Confusion",
    "HardRow",
    "Leverage",
    "RowSample",
    "ask_confusion",
    "ask_folds",
    "ask_groups",
    "ask_hardest",
    "ask_leverage",
    "ask_rows",
    "hard_section",
    "parts_section",
    "picked",
    "rows_section",
]

#: Rows in the plots, parts that are told one by one, parts that are drawn, hard rows.
MAX_POINTS, MAX_PARTS, MAX_BARS, N_HARDEST = 1200, 300, 15, 12


@dataclass(frozen=True, eq=False)
class RowSample:
    """Held-out predictions for the plots: all rows, or a regular part of many."""

    row: NDArray[np.int64]
    y: NDArray[Any]  #: Numbers, or texts for classes
    prediction: NDArray[Any]
    group: tuple[str, ...]  #: Group of each row; empty without groups
    total: int  #: How many predictions there are in all


@dataclass(frozen=True)
class Confusion:
    """Held-out predictions of a classifier: counts[i][j] rows of class i called class j."""

    classes: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, eq=False)
class Leverage:
    """A histogram of the leverages S_ii; their sum, the effective number of parameters."""

    edges: FloatArray
    counts: NDArray[np.int64]
    effective_parameters: float
    largest: float


@dataclass(frozen=True)
class HardRow:
    """A row that the models which never saw it predict badly."""

    row: int
    group: str | None
    y: float | str
    prediction: float | str
    error: float
    leverage: float


# --- asking ---------------------------------------------------------------------------------------


def picked(results: RowResults) -> NDArray[np.int64]:
    """Return which entries are drawn: a regular part, so that the same data give the same page."""
    k = len(results.rows)
    return np.arange(k) if k <= MAX_POINTS else np.linspace(0, k - 1, MAX_POINTS).astype(np.int64)


def ask_rows(case: Case) -> RowSample:
    """Return the held-out predictions that are drawn."""
    results, pick = case.results, picked(case.results)
    rows, y, prediction = results.rows[pick], results.y[pick], results.prediction[pick]
    if results.classes is not None:
        y, prediction = y.astype(str), prediction.astype(str)
    labels = () if case.groups is None else tuple(map(str, case.groups[rows]))
    return RowSample(rows, y, prediction, labels, len(results.rows))


def ask_confusion(case: Case) -> Confusion | None:
    """Return the held-out predictions of a classifier, counted."""
    results = case.results
    if results.classes is None:
        return None
    n = len(results.classes)
    cells = np.searchsorted(results.classes, results.y) * n
    cells = cells + np.searchsorted(results.classes, results.prediction)
    counts = np.bincount(cells, minlength=n * n).reshape(n, n)
    return Confusion(
        tuple(map(str, results.classes)), tuple(tuple(map(int, row)) for row in counts)
    )


def ask_folds(case: Case) -> tuple[PartScore, ...]:
    """Return the error of each experiment; () where they are rows or groups, or too many."""
    results, groups = case.results, case.groups
    found = np.unique(results.experiment)
    if len(found) > MAX_PARTS or len(found) == len(np.unique(results.rows)):
        return ()
    if groups is not None:
        # Experiments that are the groups are shown by the groups' names instead.
        pairs = set(zip(results.experiment.tolist(), groups[results.rows].tolist(), strict=True))
        if len(pairs) == len(found) == len({label for _, label in pairs}):
            return ()
    return part_scores(results, results.experiment, [f"fold {j + 1}" for j in found])


def ask_groups(case: Case) -> tuple[PartScore, ...]:
    """Return the error of each group, the worst first; () without groups."""
    if case.groups is None:
        return ()
    return part_scores(case.results, case.groups[case.results.rows])[:MAX_PARTS]


def ask_leverage(values: FloatArray, weights: FloatArray) -> Leverage:
    """Return how the leverages of rows with a weight are distributed."""
    seen = values[weights > 0]
    top = float(seen.max())
    counts, edges = np.histogram(seen, bins=30, range=(0.0, top if top > 0 else 1.0))
    return Leverage(edges, counts.astype(np.int64), float(seen.sum()), top)


def ask_hardest(case: Case, leverage: FloatArray) -> tuple[HardRow, ...]:
    """Return the rows that are hardest to predict, the hardest first."""
    results, groups = case.results, case.groups
    hardest: dict[int, HardRow] = {}
    for at in np.argsort(-results.badness, kind="stable").tolist():
        row = int(results.rows[at])
        # Repeated cross-validation tests a row often; its worst time counts.
        if row in hardest or results.weights[at] == 0:
            continue
        hardest[row] = HardRow(
            row=row,
            group=None if groups is None else str(groups[row]),
            y=_item(results.y[at]),
            prediction=_item(results.prediction[at]),
            error=float(results.error[at] if results.classes is None else results.badness[at]),
            leverage=float(leverage[row]),
        )
        if len(hardest) == N_HARDEST:
            break
    return tuple(hardest.values())


def _item(value: Any) -> float | str:
    return float(value) if isinstance(value, (float, np.floating)) else str(value)


# --- telling --------------------------------------------------------------------------------------


def rows_section(rows: RowSample, confusion: Confusion | None, target: str) -> Section:
    """Return the held-out predictions: of numbers drawn, of classes counted."""
    part = f" ({len(rows.row):,} of {rows.total:,} shown)" if len(rows.row) < rows.total else ""
    title = "Held-out predictions"
    if confusion is not None:
        counts = [
            (name, *(f"{n:,}" for n in row))
            for name, row in zip(confusion.classes, confusion.counts, strict=True)
        ]
        caption = "Rows of each class (down) by predicted class (across)"
        made = table(caption, ("", *confusion.classes), counts, moves="confusion")
        return Section("rows", title, (made,), moves=True)
    low = float(min(rows.y.min(), rows.prediction.min()))
    high = float(max(rows.y.max(), rows.prediction.max()))
    span = [float(rows.prediction.min()), float(rows.prediction.max())]
    actual = Chart(
        "actual",
        figure(
            [
                _points(rows, rows.y, rows.prediction, "actual %{x:.4g}<br>held out %{y:.4g}"),
                guide([low, high], [low, high], "prediction = actual"),
            ],
            axis(f"actual {target}"),
            axis("held-out prediction"),
        ),
        f"Scatter of held-out prediction over actual {target}.",
        f"Each point is a row, predicted by the model that never saw it{part}.",
    )
    left = rows.y - rows.prediction
    residuals = Chart(
        "residuals",
        figure(
            [
                _points(rows, rows.prediction, left, "held out %{x:.4g}<br>residual %{y:.4g}"),
                guide(span, [0.0, 0.0], "no error"),
            ],
            axis("held-out prediction"),
            axis("actual − prediction"),
        ),
        "Scatter of actual minus held-out prediction over the prediction.",
        f"What is left over{part}. A pattern here means there is more to learn.",
    )
    return Section("rows", title, (Beside((actual, residuals)),), moves=True)


def _points(rows: RowSample, x: Any, y: Any, hover: str) -> Figure:
    groups = rows.group or ("",) * len(rows.row)
    names = [
        f"row {row}" + (f", {escape(group)}" if group else "")
        for row, group in zip(rows.row.tolist(), groups, strict=True)
    ]
    look, hover = {"opacity": 0.55}, "%{customdata}<br>" + hover
    return scatter(x, y, "rows", "markers", marker=look, customdata=names, hover=hover)


def parts_section(
    folds: Sequence[PartScore], groups: Sequence[PartScore], label: str, group: str
) -> Section:
    """Return the error of each experiment and of each group."""
    blocks: list[Block] = []
    if folds:
        blocks += [Heading("By experiment"), _parts_chart("folds", folds, label, "experiment")]
    if groups:
        worst = ", ".join(part.label for part in groups[:3])
        blocks += [Heading(f"By {group}"), Text(f"Hardest: {worst}.")]
        blocks.append(_parts_chart("groups", groups, label, group))
    return Section("parts", "Where it goes wrong", tuple(blocks), moves=True)


def _parts_chart(name: str, parts: Sequence[PartScore], label: str, noun: str) -> Chart:
    biased = parts[0].bias is not None
    header = [noun, "predictions", label, "90 % interval"]
    header += ["mean of actual − prediction"] if biased else []
    rows = [
        (
            part.label,
            f"{part.count:,}",
            number(part.score),
            f"{number(part.low)} to {number(part.high)}",
            *((number(part.bias),) if part.bias is not None else ()),
        )
        for part in parts
    ]
    drawn = parts[:MAX_BARS]
    some = f" ({len(drawn)} of {len(parts)} drawn)" if len(drawn) < len(parts) else ""
    chart = bars(
        [part.label for part in drawn],
        [part.score for part in drawn],
        label,
        low=[part.low for part in drawn],
        high=[part.high for part in drawn],
        customdata=[part.count for part in drawn],
        hover=f"%{{text}}<br>{escape(label)} %{{x:.4g}}<br>%{{customdata}} predictions",
    )
    chart["layout"]["xaxis"]["rangemode"] = "tozero"
    return Chart(
        name,
        chart,
        f"Bars of the {label} by {noun}, from {number(parts[0].score)} ({parts[0].label}) to "
        f"{number(parts[-1].score)} ({parts[-1].label}).",
        f"{label[0].upper()}{label[1:]} by {noun}, the hardest first{some}. Bars are 90 % "
        "intervals, if the rows of a part are independent.",
        table(f"{label} by {noun}", header, rows),
    )


def hard_section(
    hardest: Sequence[HardRow], leverage: Leverage, group: str | None, *, classes: bool
) -> Section:
    """Return the rows that are hardest to predict, and how much rows weigh."""
    header = ["row", *([group] if group else []), "actual", "held-out prediction"]
    header += ["margin of the wrong class" if classes else "actual − prediction", "leverage"]
    rows = [
        (
            f"{hard.row}",
            *((hard.group or "",) if group else ()),
            hard.y if isinstance(hard.y, str) else number(hard.y, 4),
            hard.prediction if isinstance(hard.prediction, str) else number(hard.prediction, 4),
            number(hard.error),
            number(hard.leverage, 2),
        )
        for hard in hardest
    ]
    edges, total = leverage.edges, number(leverage.effective_parameters)
    bins = [
        (f"{number(edges[i], 2)} to {number(edges[i + 1], 2)}", f"{n:,}")
        for i, n in enumerate(leverage.counts.tolist())
        if n
    ]
    histogram = {
        "type": "bar",
        "x": numbers((edges[:-1] + edges[1:]) / 2),
        "y": leverage.counts.tolist(),
        "width": numbers(np.diff(edges)),
        "marker": {"color": "@accent"},
        "hovertemplate": "leverage about %{x:.3g}<br>%{y} rows<extra></extra>",
    }
    chart = Chart(
        "leverage",
        figure([histogram], axis("leverage"), axis("rows", rangemode="tozero"), 220),
        f"Histogram of leverages; the largest is {number(leverage.largest)}, their sum {total}.",
        "Leverage: how much a row's own target moves its fitted value, from 0 to 1. The sum, "
        f"{total}, is the model's effective number of parameters.",
        table("Rows by leverage", ("leverage", "rows"), bins),
    )
    hard = table("Rows that are hardest to predict, counted from 0", header, rows)
    return Section("hard", "Hard and influential rows", (hard, chart))
