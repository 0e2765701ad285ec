"""Classes: ROC, precision and recall, and whether class shares mean what they say."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import auc as area_under
from sklearn.metrics import average_precision_score, precision_recall_curve, roc_curve

from holdfast._typing import FloatArray
from holdfast.displays.score_scale import number
from holdfast.report.markup import table, tag
from holdfast.report.parts import Section, figure_element, section
from holdfast.report.plots import Figure, escape, figure, line, numbers
from holdfast.report.rows import wilson
from holdfast.scores.scorers import decision_to_proba

if TYPE_CHECKING:
    from holdfast.answers.held_out import HeldOutPredictions

__all__ = [
    "CLASS_HEADER",
    "ClassCurve",
    "ask_classes",
    "class_figures",
    "class_rows",
    "class_section",
]

MAX_CLASSES, MAX_POINTS, BINS = 6, 150, 10
CLASS_HEADER = ("class", "rows", "area under ROC", "average precision", "share of the rows")
_COLOURS = ("@accent", "@second", "@good", "@bad", "@muted", "@text")
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "solid")


@dataclass(frozen=True, eq=False)
class ClassCurve:
    """One class against the others, on held-out rows.

    Attributes
    ----------
    label : str
    count : int
        Rows of the class.
    share : float
        Their share, by weight.
    auc, average_precision : float
    false_positive, true_positive : ndarray
        The ROC curve.
    recall, precision : ndarray
        The precision–recall curve.
    predicted, observed, low, high : ndarray
        Calibration: mean predicted share of the class and observed share in bins of equally many
        rows, with a 90 % interval of the latter.
    """

    label: str
    count: int
    share: float
    auc: float
    average_precision: float
    false_positive: FloatArray
    true_positive: FloatArray
    recall: FloatArray
    precision: FloatArray
    predicted: FloatArray
    observed: FloatArray
    low: FloatArray
    high: FloatArray


def ask_classes(found: HeldOutPredictions) -> tuple[ClassCurve, ...]:
    """Return the curves of each class: of the second of two, else of the most frequent six.

    Parameters
    ----------
    found : HeldOutPredictions
        Of a classifier at one penalty; a regression has none.
    """
    if found.classes is None:
        return ()
    values, rows = found.values[0], found.rows
    y, weights = found.y[rows], found.weights[rows]
    proba = decision_to_proba(values, len(found.classes))
    if values.shape[1] == 1:
        wanted = [1]
        decisions = {1: values[:, 0]}
    else:
        counts = [-int(np.count_nonzero(y == c)) for c in found.classes]
        wanted = np.argsort(counts, kind="stable")[:MAX_CLASSES].tolist()
        decisions = {c: values[:, c] for c in wanted}
    curves = (
        _curve(str(found.classes[c]), y == found.classes[c], decisions[c], proba[:, c], weights)
        for c in wanted
    )
    return tuple(curve for curve in curves if curve is not None)


def _curve(
    label: str,
    truth: NDArray[np.bool_],
    decision: FloatArray,
    proba: FloatArray,
    weights: FloatArray,
) -> ClassCurve | None:
    used = weights > 0
    truth, decision, proba, weights = truth[used], decision[used], proba[used], weights[used]
    if truth.all() or not truth.any():
        return None  # a class that is always or never there has no curve
    false, true, _ = roc_curve(truth, decision, sample_weight=weights)
    precision, recall, _ = precision_recall_curve(truth, decision, sample_weight=weights)
    keep, kept = _thinned(false.size), _thinned(recall.size)
    return ClassCurve(
        label,
        int(truth.sum()),
        float(weights[truth].sum() / weights.sum()),
        float(area_under(false, true)),
        float(average_precision_score(truth, decision, sample_weight=weights)),
        false[keep],
        true[keep],
        recall[kept],
        precision[kept],
        *_calibration(truth, proba, weights),
    )


def _thinned(n: int) -> NDArray[np.int64]:
    return np.unique(np.linspace(0, n - 1, min(n, MAX_POINTS)).astype(np.int64))


def _calibration(
    truth: NDArray[np.bool_], proba: FloatArray, weights: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    order = np.argsort(proba, kind="stable")
    bins = [
        part for part in np.array_split(order, min(BINS, max(1, truth.size // 10))) if part.size
    ]
    predicted, observed, low, high = [], [], [], []
    for part in bins:
        w = weights[part]
        predicted.append(float(w @ proba[part] / w.sum()))
        share = float(w @ truth[part] / w.sum())
        observed.append(share)
        ends = wilson(share, w, 0.9)
        low.append(ends[0])
        high.append(ends[1])
    return np.array(predicted), np.array(observed), np.array(low), np.array(high)


def class_rows(curves: tuple[ClassCurve, ...]) -> list[tuple[str, ...]]:
    """Return the rows of a table of the classes."""
    return [
        (
            c.label,
            f"{c.count:,}",
            number(c.auc),
            number(c.average_precision),
            f"{100 * c.share:.3g} %",
        )
        for c in curves
    ]


def class_figures(curves: tuple[ClassCurve, ...]) -> dict[str, Figure]:
    """Return ROC, precision–recall and calibration."""
    roc: list[Figure] = []
    recall: list[Figure] = []
    calibration: list[Figure] = []
    for i, c in enumerate(curves):
        look = {"color": _COLOURS[i], "dash": _DASHES[i], "width": 2}
        name = escape(c.label)
        base: Figure = {"type": "scatter", "mode": "lines", "name": name, "line": look}
        roc.append(
            base
            | {
                "x": numbers(c.false_positive),
                "y": numbers(c.true_positive),
                "hovertemplate": f"{name}<br>false alarms %{{x:.1%}}<br>found %{{y:.1%}}"
                "<extra></extra>",
            }
        )
        recall.append(
            base
            | {
                "x": numbers(c.recall),
                "y": numbers(c.precision),
                "hovertemplate": f"{name}<br>found %{{x:.1%}}<br>of those named, right %{{y:.1%}}"
                "<extra></extra>",
            }
        )
        calibration.append(
            base
            | {
                "mode": "lines+markers",
                "x": numbers(c.predicted),
                "y": numbers(c.observed),
                "error_y": {
                    "type": "data",
                    "symmetric": False,
                    "array": numbers(c.high - c.observed),
                    "arrayminus": numbers(c.observed - c.low),
                    "width": 0,
                    "thickness": 1.5,
                },
                "hovertemplate": f"{name}<br>predicted %{{x:.1%}}<br>observed %{{y:.1%}}"
                "<extra></extra>",
            }
        )
    ends = [0.0, 1.0]
    roc.append(line(ends, ends, "luck", "@muted", "dot"))
    calibration.append(line(ends, ends, "as predicted", "@muted", "dot"))
    share = {"tickformat": ".0%", "range": [-0.02, 1.02]}
    return {
        "roc": figure(roc, {"title": {"text": "false alarms"}, **share}, _found("found", share)),
        "recall": figure(
            recall,
            {"title": {"text": "found (recall)"}, **share},
            _found("right of those named (precision)", share),
        ),
        "calibration": figure(
            calibration,
            {"title": {"text": "predicted share"}, **share},
            _found("observed share", share),
        ),
    }


def _found(title: str, share: Figure) -> Figure:
    return {"title": {"text": title}, **share}


def class_section(curves: tuple[ClassCurve, ...]) -> Section:
    """Return the section on classes."""
    told = "; ".join(f"{c.label} {number(c.auc)}" for c in curves)
    worst = max((_worst_gap(c) for c in curves), default=0.0)
    rows = [
        (c.label, number(p, 2), number(o, 2), f"{number(a, 2)} to {number(b, 2)}")
        for c in curves
        for p, o, a, b in zip(c.predicted, c.observed, c.low, c.high, strict=True)
    ]
    advice = (
        "Where the points leave the dotted line by more than their bars, the shares are not "
        "probabilities: a least-squares classifier does not promise them."
    )
    if worst > 0:
        advice += f" The largest gap beyond its bar is {100 * worst:.2g} percentage points."
    header = ("class", "predicted", "observed", "90 % interval")
    return section(
        "classes",
        "Finding each class",
        table("Each class against the others, held-out rows", CLASS_HEADER, class_rows(curves)),
        tag(
            "div",
            figure_element(
                "roc",
                f"ROC curves; areas under them: {told}.",
                "Rows of the class that are found, against false alarms among the others.",
            ),
            figure_element(
                "recall",
                "Precision over recall for each class.",
                "How many of the rows named are right, when so many of the class are to be found.",
            ),
            class_="side",
        ),
        figure_element(
            "calibration",
            "Observed share of each class over the predicted share, in bins of rows.",
            advice,
            table("Calibration", header, rows),
        ),
    )


def _worst_gap(curve: ClassCurve) -> float:
    gap = np.maximum(curve.low - curve.predicted, curve.predicted - curve.high)
    return float(gap.max()) if gap.size and not math.isnan(gap.max()) else 0.0
