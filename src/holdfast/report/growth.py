"""Would more help? The error over the number of rows, and over the number of basis rows."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from holdfast._typing import FloatArray
from holdfast.answers.learning import training_sets
from holdfast.basis.resolve import as_selector
from holdfast.displays.curve_data import CVCurve
from holdfast.displays.score_scale import number
from holdfast.estimators.basis_curve import basis_curve
from holdfast.exceptions import HoldfastError
from holdfast.report.markup import Html, table, tag
from holdfast.report.parts import Section, figure_element, section
from holdfast.report.plots import Figure, escape, figure, numbers
from holdfast.report.sure import Ask, work_of
from holdfast.report.words import left_out

if TYPE_CHECKING:
    from holdfast.estimators.base import CrossValidatedKernelRidge

__all__ = [
    "Growth",
    "ask_basis_growth",
    "ask_growth",
    "growth_figures",
    "growth_rows",
    "growth_section",
    "growth_words",
]

_SHARES = (0.1, 0.2, 0.35, 0.5, 0.7, 0.9)
_REPEATS = 4
_MOST_WORK = 1e9


@dataclass(frozen=True, eq=False)
class Growth:
    """The score, as it is shown, over a number of things.

    Attributes
    ----------
    unit : str
        What is counted: "rows", "groups" or "basis rows".
    sizes, score, spread : ndarray of shape (n,)
        How many; the score there; the standard deviation over draws (NaN: one draw).
    now, score_now : float
        How many there are, and the score that the curve gives there.
    more, expected, low, high : float
        Twice as many, the score expected there, and its bounds at level 0.9; NaN where unknown.
    lower_is_better : bool
    label : str
        What the score is.
    """

    unit: str
    sizes: FloatArray
    score: FloatArray
    spread: FloatArray
    now: float
    score_now: float
    more: float
    expected: float
    low: float
    high: float
    lower_is_better: bool
    label: str


def ask_growth(
    model: CrossValidatedKernelRidge, curve: CVCurve, notes: list[str], ask: Ask, shell: bool
) -> Growth | None:
    """Return the score over the number of training rows, or groups where groups are held out."""
    problem = model._problem
    if work_of(model) > _MOST_WORK * ask.patience or problem.reselects:
        notes.append(left_out('"would more rows help?"', shell))
        return None
    if problem.Y.shape[1] > 1 and model._classes is None:
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
        notes.append(f"No learning curve: {error}")
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


def ask_basis_growth(
    model: CrossValidatedKernelRidge, curve: CVCurve, notes: list[str], ask: Ask, shell: bool
) -> Growth | None:
    """Return the score over the number of basis rows, up to twice as many as there are."""
    problem = model._problem
    if not model._problem.on_basis or model._problem.reselects:
        return None
    if not isinstance(problem.X, np.ndarray) or problem.X.ndim != 2:
        return None
    m, n = int(np.count_nonzero(problem.weights)), len(model.basis_indices_)
    selector = as_selector(model._problem.basis, problem.weights.size)
    sizes = np.unique([max(2, n // 4), max(2, n // 2), n, min(2 * n, m)])
    if sizes.size < 3 or selector is None or not hasattr(selector, "n"):
        return None
    if work_of(model) * 4 > _MOST_WORK * ask.patience:
        notes.append(left_out('"would more basis rows help?"', shell))
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
        notes.append(f"No curve over the number of basis rows: {error}")
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


def growth_words(found: Growth) -> str:
    """Return whether more would help, as a sentence or two."""
    if not np.isfinite(found.expected):
        return (
            f"The {found.label} is {number(float(found.score[0]))} with {found.sizes[0]:,.0f} "
            f"{found.unit} and {number(float(found.score[-1]))} with {found.sizes[-1]:,.0f}; some "
            "draws make no errors at all, so that nothing can be said about more."
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


def growth_rows(found: Growth) -> list[tuple[str, ...]]:
    """Return the rows of a table: how many, the score, its spread."""
    rows: list[tuple[str, ...]] = [
        (f"{n:,.0f}", number(score), number(spread, 2))
        for n, score, spread in zip(found.sizes, found.score, found.spread, strict=True)
    ]
    if np.isfinite(found.low):
        between = f"{number(found.low)} to {number(found.high)}"
        rows.append((f"{found.more:,.0f} (expected)", number(found.expected), between))
    return rows


def growth_figures(growths: dict[str, Growth]) -> dict[str, Figure]:
    """Return a curve for each kind of growth."""
    return {name: _curve(found) for name, found in growths.items()}


def _curve(found: Growth) -> Figure:
    label = escape(found.label)
    known = np.isfinite(found.spread)
    traces: list[Figure] = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": "measured",
            "x": numbers(found.sizes),
            "y": numbers(found.score),
            "line": {"color": "@accent", "width": 2},
            "marker": {"size": 7},
            "hovertemplate": f"%{{x:,}} {found.unit}<br>{label} %{{y:.4g}}<extra></extra>",
        }
    ]
    if known.all():
        traces[0]["error_y"] = {
            "type": "data",
            "array": numbers(found.spread),
            "width": 0,
            "thickness": 1.5,
        }
    if np.isfinite(found.low):
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": "expected",
                "x": [found.now, found.more],
                "y": numbers([found.score_now, found.expected]),
                "error_y": {
                    "type": "data",
                    "symmetric": False,
                    "array": numbers([0, found.high - found.expected]),
                    "arrayminus": numbers([0, found.expected - found.low]),
                    "width": 4,
                    "thickness": 1.5,
                },
                "line": {"color": "@second", "dash": "dash", "width": 2},
                "marker": {"size": 7, "symbol": "diamond"},
                "hovertemplate": f"%{{x:,}} {found.unit}<br>{label} %{{y:.4g}}<extra></extra>",
            }
        )
    axis = {"title": {"text": found.unit}, "rangemode": "tozero"}
    return figure(traces, axis, {"title": {"text": label}}, 340)


def growth_section(growths: dict[str, Growth]) -> Section:
    """Return the section on what more rows, and more basis rows, would do."""
    sentences = [tag("p", growth_words(found)) for found in growths.values()]
    drawn: list[Html] = []
    for name, found in growths.items():
        header = (found.unit, found.label, "spread over draws")
        drawn.append(
            figure_element(
                name,
                f"{found.label} over the number of {found.unit}. {growth_words(found)}",
                f"{found.label[0].upper()}{found.label[1:]} over the number of {found.unit}"
                + ("; kernel and penalty stay." if found.unit != "basis rows" else "."),
                table(f"{found.label} by number of {found.unit}", header, growth_rows(found)),
            )
        )
    body = tag("div", *drawn, class_="side") if len(drawn) > 1 else drawn[0]
    return section("growth", "Would more rows help?", *sentences, body)
