"""What the slider moves: predictions, residuals, groups and classes at other penalties."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from holdfast._typing import FloatArray
from holdfast.displays.curve_data import CVCurve
from holdfast.displays.score_scale import number
from holdfast.report.markup import Html, tag

if TYPE_CHECKING:
    from holdfast.answers.held_out import HeldOutPredictions
    from holdfast.report.rows import PartScore, RowResults

__all__ = ["Linked", "ask_linked", "linked_data", "slider"]

#: Penalties on the slider, and steps between the smallest and the largest prediction.
MAX_STEPS, GRAIN = 21, 9999
#: Held-out predictions of all penalties that may be made for the slider.
MOST_NUMBERS = 3e7


@dataclass(frozen=True, eq=False)
class Linked:
    """The model at every penalty of the slider.

    Attributes
    ----------
    alphas : ndarray of shape (n,)
    chosen : int
        The one in use.
    score : ndarray of shape (n,)
        The score of the curve.
    error : ndarray of shape (n,)
        RMSE or share of errors.
    predictions : ndarray of shape (n, k) or None
        Of the rows that are drawn; None for classes.
    groups : ndarray of shape (n, g)
        Error of each group, in the order of the report.
    confusion : ndarray of int, shape (n, c, c), or None
        Rows of each class by predicted class.
    """

    alphas: FloatArray
    chosen: int
    score: FloatArray
    error: FloatArray
    predictions: FloatArray | None
    groups: FloatArray
    confusion: NDArray[np.int64] | None


def ask_linked(
    found: HeldOutPredictions,
    curve: CVCurve,
    results: RowResults,
    pick: NDArray[np.int64],
    groups: tuple[PartScore, ...],
    labels: NDArray[Any] | None,
    target: int,
) -> Linked:
    """Return what the slider shows.

    Parameters
    ----------
    found : HeldOutPredictions
        At all penalties of the curve.
    curve : CVCurve
    results : RowResults
        At the penalty in use.
    pick : ndarray of int
        Which entries are drawn.
    groups : tuple of PartScore
        Groups in the order of the report.
    labels : ndarray or None
        Group of each row of the data.
    target : int
        Which target.
    """
    at = curve.chosen_index
    n = curve.alphas.size
    steps = np.unique([*np.linspace(0, n - 1, min(n, MAX_STEPS)).round().astype(int), at])
    w = results.weights
    if results.classes is None:
        wrong = (found.y[found.rows, target] - found.values[steps, :, target]) ** 2
        predictions = found.values[steps][:, pick, target]
        confusion = None
    else:
        names = found.labels()[steps]
        wrong = (names != results.y).astype(float)
        predictions = None
        confusion = _confusions(names, results)
    power = 0.5 if results.classes is None else 1.0
    by_group = np.empty((steps.size, 0))
    if groups and labels is not None:
        own = labels[results.rows].astype(str)
        columns = []
        for part in groups:
            inside = np.flatnonzero(own == part.label)
            columns.append((wrong[:, inside] @ w[inside] / w[inside].sum()) ** power)
        by_group = np.stack(columns, axis=1)
    return Linked(
        curve.alphas[steps],
        int(np.flatnonzero(steps == at)[0]),
        curve.values[steps],
        (wrong @ w / w.sum()) ** power,
        predictions,
        by_group,
        confusion,
    )


def _confusions(names: NDArray[Any], results: RowResults) -> NDArray[np.int64] | None:
    classes = results.classes
    assert classes is not None
    c = len(classes)
    if c > 12:
        return None
    code = np.searchsorted(classes, results.y) * c
    counts = [
        np.bincount(code + np.searchsorted(classes, row), minlength=c * c).reshape(c, c)
        for row in names
    ]
    return np.stack(counts)


def linked_data(linked: Linked, y: Any, label: str, error_label: str) -> dict[str, Any]:
    """Return the same for the page: predictions as whole steps, each less the one before it.

    Parameters
    ----------
    linked : Linked
    y : ndarray
        Truth of the rows that are drawn.
    label, error_label : str
        What `score` and `error` are.
    """
    told = [
        f"λ = {number(alpha, 2)}: {error_label} {number(error)}"
        + (f", {label} {number(score)}" if label not in (error_label, "accuracy") else "")
        for alpha, score, error in zip(linked.alphas, linked.score, linked.error, strict=True)
    ]
    data: dict[str, Any] = {
        "told": told,
        "chosen": linked.chosen,
        "alphas": [float(f"{a:.4g}") for a in linked.alphas],
        "score": [float(f"{s:.5g}") for s in linked.score],
        "groups": [[float(f"{v:.4g}") for v in row] for row in linked.groups],
    }
    if linked.confusion is not None:
        data["confusion"] = linked.confusion.tolist()
    if linked.predictions is not None and linked.predictions.size:
        low, high = float(linked.predictions.min()), float(linked.predictions.max())
        step = (high - low) / GRAIN or 1.0
        whole = np.rint((linked.predictions - low) / step).astype(int)
        data["low"], data["step"] = low, step
        data["differences"] = np.diff(whole, axis=0, prepend=0).tolist()
        data["y"] = [float(f"{v:.6g}") for v in np.asarray(y, dtype=float)]
    return data


def slider(linked: Linked | None) -> Html | None:
    """Return the slider over the penalties; nothing without a choice."""
    if linked is None or linked.alphas.size < 2:
        return None
    return tag(
        "div",
        tag("label", "Penalty λ", for_="slider"),
        tag(
            "input",
            type="range",
            id="slider",
            min="0",
            max=str(linked.alphas.size - 1),
            value=str(linked.chosen),
            step="1",
        ),
        tag("output", f"λ = {number(float(linked.alphas[linked.chosen]), 2)}", for_="slider"),
        tag("button", "Back to the one in use", type="button", id="back", disabled=True),
        class_="slider",
    )
