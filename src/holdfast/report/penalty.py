"""What the penalty does: the score over it, and the slider."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from holdfast._typing import FloatArray
from holdfast.displays.curve_data import CVCurve
from holdfast.displays.score_scale import number
from holdfast.report.blocks import Chart, Note, Section, Slider, table
from holdfast.report.charts import LAMBDA, Figure, axis, escape, figure, rounded, scatter
from holdfast.report.context import Case

if TYPE_CHECKING:
    from holdfast.report.rows import PartScore, RowResults

__all__ = ["ask_slider", "curve_section"]

#: Penalties on the slider, and steps between the smallest and the largest prediction.
MAX_STEPS, GRAIN = 21, 9999
#: Held-out predictions of all penalties that may be made for the slider.
MOST_NUMBERS = 3e7


# --- the score over the penalties -----------------------------------------------------------------


def curve_section(curve: CVCurve, shell: bool) -> Section:
    """Return the score over the penalties, what was best and what is in use.

    Parameters
    ----------
    curve : CVCurve
    shell : bool
        Whether the reader uses the command line.
    """
    best, label = curve.best, curve.scale.label
    alt = (
        f"Curve of {label} over {len(curve.alphas)} penalties from {number(curve.alphas[0], 2)} to "
        f"{number(curve.alphas[-1], 2)}; best {number(curve.values[best])} at "
        f"{number(curve.alphas[best], 2)}."
    )
    text = f"Best: λ = {number(curve.alphas[best], 2)} with {label} {number(curve.values[best])}."
    if curve.one_se is not None and curve.one_se != best:
        text += (
            f" The simplest model within one standard error: λ = "
            f"{number(curve.alphas[curve.one_se], 2)} with {number(curve.values[curve.one_se])}."
        )
    text += f" In use: λ = {', '.join(number(a, 2) for a in curve.chosen[:5])}."
    places = {"best": best, "1 SE": curve.one_se, "in use": curve.chosen_index}
    rows = [
        (
            number(a, 3),
            number(v, 4),
            number(s, 2),
            ", ".join(name for name, at in places.items() if at == i),
        )
        for i, (a, v, s) in enumerate(zip(curve.alphas, curve.values, curve.se, strict=True))
    ]
    values = table(f"{label} by penalty", ("λ", label, "standard error", ""), rows)
    chart = Chart("curve", _curve_figure(curve), alt, text, values)
    edge = (
        f"The best penalty is the {curve.edge} of the grid: a better one may lie beyond. Widen the "
        f"grid with {'--alphas' if shell else 'alphas='}."
    )
    notes = (Note(edge),) if curve.edge else ()
    return Section("curve", "The penalty, and what it does", (*notes, chart), moves=True)


def _curve_figure(curve: CVCurve) -> Figure:
    """Return the score with its standard errors, the best and one-SE choices, the slider's place.

    The last trace is the one that the slider moves.
    """
    label = escape(curve.scale.label)
    known = np.isfinite(curve.se)
    traces: list[Figure] = []
    if known.any():
        x = curve.alphas[known]
        low, high = (curve.values - curve.se)[known], (curve.values + curve.se)[known]
        band = scatter(
            np.concatenate([x, x[::-1]]),
            np.concatenate([high, low[::-1]]),
            "± 1 standard error",
            "lines",
            fill="toself",
            fillcolor="@band",
        )
        traces.append(band | {"line": {"width": 0}})
    traces.append(
        scatter(
            curve.alphas,
            curve.values,
            curve.scale.label,
            customdata=[number(s, 2) for s in curve.se.tolist()],
            hover=f"λ = %{{x:.3g}}<br>{label} %{{y:.4g}} ± %{{customdata}}",
        )
    )
    marks = [("best", curve.best, "circle", "@accent", 13)]
    if curve.one_se is not None and curve.one_se != curve.best:
        name = "largest λ within 1 standard error"
        marks.append((name, curve.one_se, "diamond", "@second", 13))
    if curve.chosen_index not in (curve.best, curve.one_se):
        marks.append(("chosen", curve.chosen_index, "square", "@text", 13))
    marks.append(("on the slider", curve.chosen_index, "circle-open", "@text", 19))
    traces += [
        scatter(
            [curve.alphas[at]],
            [curve.values[at]],
            name,
            "markers",
            colour=colour,
            size=size,
            marker={"symbol": symbol, "line": {"width": 2}},
            hover=f"{name}<br>λ = %{{x:.3g}}<br>{label} %{{y:.4g}}" if size < 19 else None,
        )
        for name, at, symbol, colour, size in marks
    ]
    return figure(traces, LAMBDA, axis(curve.scale.label))


# --- the slider -----------------------------------------------------------------------------------


def ask_slider(case: Case, pick: NDArray[np.int64], groups: tuple[PartScore, ...]) -> Slider | None:
    """Return the model at other penalties; None where that would take long, or there are none.

    Parameters
    ----------
    case : Case
    pick : ndarray of int
        Which held-out predictions are drawn.
    groups : tuple of PartScore
        Groups in the order of the report.
    """
    model, curve, results = case.model, case.curve, case.results
    count = float(results.rows.size) * curve.alphas.size * model._problem.Y.shape[1]
    if count > MOST_NUMBERS or model._problem.reselects:
        case.left_out("the slider over the penalties")
        return None
    if curve.alphas.size < 2:
        return None
    found = model.held_out(alphas=curve.alphas)
    n, at, w = curve.alphas.size, curve.chosen_index, results.weights
    steps = np.unique([*np.linspace(0, n - 1, min(n, MAX_STEPS)).round().astype(int), at])
    alphas, score = curve.alphas[steps], curve.values[steps]
    data: dict[str, Any] = {"alphas": rounded(alphas, 4), "score": rounded(score, 5)}
    if results.classes is None:
        wrong = (found.y[found.rows, case.target] - found.values[steps, :, case.target]) ** 2
        data |= _differences(found.values[steps][:, pick, case.target])
        data["y"] = rounded(results.y[pick], 6)
    else:
        names = found.labels()[steps]
        wrong = (names != results.y).astype(float)
        data |= _confusions(names, results)
    power = 0.5 if results.classes is None else 1.0
    data["groups"] = [[] for _ in steps]
    if groups and case.groups is not None:
        own = case.groups[results.rows].astype(str)
        inside = [np.flatnonzero(own == part.label) for part in groups]
        errors = [(wrong[:, i] @ w[i] / w[i].sum()) ** power for i in inside]
        data["groups"] = [rounded(row, 4) for row in np.stack(errors, axis=1)]
    label = "" if curve.scale.label in (results.label, "accuracy") else curve.scale.label
    told = tuple(
        f"λ = {number(a, 2)}: {results.label} {number(e)}"
        + (f", {label} {number(s)}" * bool(label))
        for a, e, s in zip(alphas, (wrong @ w / w.sum()) ** power, score, strict=True)
    )
    return Slider(told, int(np.flatnonzero(steps == at)[0]), data)


def _differences(predictions: FloatArray) -> dict[str, Any]:
    """Return predictions (steps, k) as whole steps, each less the one before it."""
    if not predictions.size:
        return {}
    low, high = float(predictions.min()), float(predictions.max())
    step = (high - low) / GRAIN or 1.0
    whole = np.rint((predictions - low) / step).astype(int)
    changes = np.diff(whole, axis=0, prepend=0).tolist()
    return {"low": low, "step": step, "differences": changes}


def _confusions(names: NDArray[Any], results: RowResults) -> dict[str, Any]:
    """Return the rows of each class by predicted class, at each step."""
    classes = results.classes
    assert classes is not None
    c = len(classes)
    if c > 12:
        return {}
    code = np.searchsorted(classes, results.y) * c
    counts = [
        np.bincount(code + np.searchsorted(classes, row), minlength=c * c).reshape(c, c)
        for row in names
    ]
    return {"confusion": np.stack(counts).tolist()}
