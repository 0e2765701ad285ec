"""Would more help? The error over the number of rows, and over the number of basis rows."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from holdfast._typing import FloatArray
from holdfast.answers.learning import training_sets
from holdfast.basis.resolve import as_selector
from holdfast.displays.score_scale import number
from holdfast.estimators.basis_curve import basis_curve
from holdfast.exceptions import HoldfastError
from holdfast.report.blocks import Beside, Chart, Section, Text, table
from holdfast.report.charts import Figure, axis, escape, figure, scatter, spread
from holdfast.report.context import Case

__all__ = ["Growth", "ask_basis_growth", "ask_growth", "growth_section"]

_SHARES = (0.1, 0.2, 0.35, 0.5, 0.7, 0.9)
_REPEATS = 4
_MOST_WORK = 1e9


@dataclass(frozen=True, eq=False)
class Growth:
    """The score, as it is shown, over a number of things."""

    unit: str  #: What is counted: "rows", "groups" or "basis rows"
    #: How many; the score there; the standard deviation over draws (NaN: one draw)
    sizes: FloatArray
    score: FloatArray
    spread: FloatArray
    now: float  #: How many there are, and the score that the curve gives there
    score_now: float
    #: Twice as many, the score expected there, and its bounds at level 0.9; NaN where unknown
    more: float
    expected: float
    low: float
    high: float
    lower_is_better: bool
    label: str  #: What the score is


def ask_growth(case: Case) -> Growth | None:
    """Return the score over the number of training rows, or groups where groups are held out."""
    model, curve, ask = case.model, case.curve, case.ask
    if case.work > _MOST_WORK * ask.patience or model._problem.reselects:
        case.left_out('"would more rows help?"')
        return None
    if model._problem.Y.shape[1] > 1 and not case.classifies:
        return None
    drawn = training_sets(model._asked(), None)
    n = drawn.total
    sizes = np.unique(np.floor(np.array(_SHARES) * drawn.most).astype(int))
    sizes = sizes[(sizes >= drawn.least) & (sizes < drawn.most)]
    if sizes.size < 4:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = model.learning_curve(sizes, _REPEATS, ask.seed)
    except HoldfastError as error:
        case.refused("No learning curve", error)
        return None
    shown = curve.scale.shown(found.scores)
    if not np.isfinite(shown).all() or not (found.errors.max(axis=1) > 0).all():
        return None
    # The power law is fitted to relative errors of samples of draws: none may be without errors.
    ends = np.full((3, 2), np.nan)
    if (found.errors > 0).all():
        ahead = found.extrapolate([n, 2 * n])
        errors = np.array([ahead.error, ahead.low, ahead.high])
        ends = curve.scale.shown(-errors if found.scoring.startswith("neg_") else 1.0 - errors)
    low, high = np.sort(ends[1:, 1]).tolist()
    return Growth(
        found.unit,
        found.sizes.astype(float),
        shown.mean(axis=1),
        shown.std(axis=1, ddof=1),
        float(n),
        float(ends[0, 0]),
        2.0 * n,
        float(ends[0, 1]),
        low,
        high,
        curve.scale.lower_is_better,
        curve.scale.label,
    )


def ask_basis_growth(case: Case) -> Growth | None:
    """Return the score over the number of basis rows, up to twice as many as there are."""
    model, curve, problem = case.model, case.curve, case.model._problem
    if not problem.on_basis or problem.reselects:
        return None
    if not isinstance(problem.X, np.ndarray) or problem.X.ndim != 2:
        return None
    m, n = int(np.count_nonzero(problem.weights)), len(model.basis_indices_)
    selector = as_selector(problem.basis, problem.weights.size)
    sizes = np.unique([max(2, n // 4), max(2, n // 2), n, min(2 * n, m)])
    if sizes.size < 3 or selector is None or not hasattr(selector, "n"):
        return None
    if case.work * 4 > _MOST_WORK * case.ask.patience:
        case.left_out('"would more basis rows help?"')
        return None
    twin: Any = clone(model)
    if model.best_params_.get("gamma") is not None:
        twin.set_params(gamma=model.best_params_["gamma"])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = basis_curve(
                twin,
                problem.X,
                problem.labels,
                sizes,
                [selector],
                policies=(problem.policy,),
                sample_weight=problem.weights,
                groups=problem.groups,
                random_state=problem.seed,
            )
    except HoldfastError as error:
        case.refused("No curve over the number of basis rows", error)
        return None
    shown = curve.scale.shown(found.scores[0, 0, 0])
    if not np.isfinite(shown).all():
        return None
    nan = float("nan")
    at = int(np.flatnonzero(sizes == n)[0])
    return Growth(
        "basis rows",
        sizes.astype(float),
        shown,
        np.full(sizes.size, nan),
        float(n),
        float(shown[at]),
        float(sizes[-1]),
        float(shown[-1]),
        nan,
        nan,
        curve.scale.lower_is_better,
        curve.scale.label,
    )


def growth_section(growths: dict[str, Growth], score: float) -> Section:
    """Return what more rows, and more basis rows, would do; `score` is that of the model."""
    charts = []
    for name, found in growths.items():
        rows = [
            (f"{n:,.0f}", number(score), number(spread_there, 2))
            for n, score, spread_there in zip(found.sizes, found.score, found.spread, strict=True)
        ]
        if np.isfinite(found.low):
            between = f"{number(found.low)} to {number(found.high)}"
            rows.append((f"{found.more:,.0f} (expected)", number(found.expected), between))
        what = f"{found.label[0].upper()}{found.label[1:]} over the number of {found.unit}"
        stays = "; kernel and penalty stay" if found.unit != "basis rows" else ""
        caption = f"{found.label} by number of {found.unit}"
        header = (found.unit, found.label, "spread over draws")
        charts.append(
            Chart(
                name,
                _figure(found),
                f"{what}. {_words(found)}",
                f"{what}{stays}.",
                table(caption, header, rows),
            )
        )
    sentences = [Text(_words(found) + _beside(found, score)) for found in growths.values()]
    drawn = charts if len(charts) == 1 else [Beside(tuple(charts))]
    return Section("growth", "Would more rows help?", (*sentences, *drawn))


def _words(found: Growth) -> str:
    """Return whether more would help, as a sentence or two."""
    if not np.isfinite(found.expected):
        return (
            f"The {found.label} is {number(float(found.score[0]))} with {found.sizes[0]:,.0f} "
            f"{found.unit} and {number(float(found.score[-1]))} with {found.sizes[-1]:,.0f}; some "
            f"draws make no errors at all, so nothing can be said about more {found.unit}."
        )
    gain = found.score_now - found.expected
    if not found.lower_is_better:
        gain = -gain
    share = gain / abs(found.score_now) if found.score_now else 0.0
    told = (
        f"With {found.more:,.0f} {found.unit} instead of {found.now:,.0f} the {found.label} would "
        f"be about {number(found.expected)} instead of {number(found.score_now)}"
    )
    if np.isfinite(found.low):
        told += f" (between {number(found.low)} and {number(found.high)} by the draws' spread)"
    if share >= 0.05:
        return f"{told}: more {found.unit} would help."
    if share >= 0.015:
        return f"{told}: more {found.unit} would help a little."
    return f"{told}: more {found.unit} alone would hardly help."


def _beside(found: Growth, score: float) -> str:
    """Return why the curve has another number for the present than the headline."""
    now = number(found.score_now)
    if not np.isfinite(found.score_now) or now == number(score):
        return ""
    return (
        f" The curve averages random draws and gives {now} for {found.now:,.0f} {found.unit}; the "
        f"{found.label} of the model itself is {number(score)}."
    )


def _figure(found: Growth) -> Figure:
    hover = f"%{{x:,}} {found.unit}<br>{escape(found.label)} %{{y:.4g}}"
    bars = spread(found.spread) if np.isfinite(found.spread).all() else {}
    traces = [scatter(found.sizes, found.score, "measured", size=7, hover=hover, error_y=bars)]
    if np.isfinite(found.low):
        up, down = found.high - found.expected, found.expected - found.low
        traces.append(
            scatter(
                [found.now, found.more],
                [found.score_now, found.expected],
                "expected",
                colour="@second",
                dash="dash",
                size=7,
                hover=hover,
                marker={"symbol": "diamond"},
                error_y=spread([0, up], [0, down]) | {"width": 4},
            )
        )
    return figure(traces, axis(found.unit, rangemode="tozero"), axis(found.label))
