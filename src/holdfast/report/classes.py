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
from holdfast.estimators.classification import KernelRidgeClassifierCV
from holdfast.report.blocks import Beside, Block, Chart, Heading, Section, Text, table
from holdfast.report.charts import Figure, escape, figure, guide, scatter, shares, spread
from holdfast.report.rows import wilson
from holdfast.scores.scorers import decision_to_proba

if TYPE_CHECKING:
    from holdfast.answers.held_out import HeldOutPredictions
    from holdfast.estimators.base import CrossValidatedKernelRidge

__all__ = [
    "ClassCurve",
    "Probabilities",
    "ask_classes",
    "ask_probabilities",
    "class_section",
    "probability_blocks",
]

MAX_CLASSES, MAX_POINTS, BINS = 6, 150, 10
CLASS_HEADER = ("class", "rows", "area under ROC", "average precision", "share of the rows")
_COLOURS = ("@accent", "@second", "@good", "@bad", "@muted", "@text")
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "solid")


@dataclass(frozen=True, eq=False)
class ClassCurve:
    """One class against the others, on held-out rows."""

    label: str
    count: int  #: Rows of the class
    share: float  #: Their share, by weight
    auc: float
    average_precision: float
    false_positive: FloatArray  #: The ROC curve
    true_positive: FloatArray
    recall: FloatArray  #: The precision–recall curve
    precision: FloatArray
    #: Calibration: mean predicted share of the class and observed share in bins of equally
    #: many rows, with a 90 % interval of the latter
    predicted: FloatArray
    observed: FloatArray
    low: FloatArray
    high: FloatArray


@dataclass(frozen=True)
class Probabilities:
    """What calibration did to the probabilities of held-out rows; smaller is better."""

    method: str
    log_loss: tuple[float, float]  #: Before and after
    brier: tuple[float, float]


def ask_probabilities(model: CrossValidatedKernelRidge) -> Probabilities | None:
    """Return log loss and Brier score before and after, if the model is calibrated."""
    calibration = getattr(model, "calibration_", None)
    if calibration is None or not isinstance(model, KernelRidgeClassifierCV):
        return None
    before, after = model.calibration_scores().values()
    return Probabilities(
        calibration.method,
        (before.log_loss, after.log_loss),
        (before.brier, after.brier),
    )


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


def class_section(
    curves: tuple[ClassCurve, ...], probabilities: Probabilities | None = None
) -> Section:
    """Return how well each class is found, and whether class shares are probabilities."""
    rows = [
        (
            c.label,
            f"{c.count:,}",
            number(c.auc),
            number(c.average_precision),
            f"{100 * c.share:.3g} %",
        )
        for c in curves
    ]
    areas = "; ".join(f"{c.label} {number(c.auc)}" for c in curves)
    roc = Chart(
        "roc",
        _figure(
            curves,
            ("false_positive", "true_positive"),
            ("false alarms", "found"),
            "false alarms %{x:.1%}<br>found %{y:.1%}",
            "luck",
        ),
        f"ROC curves; areas under them: {areas}.",
        "Rows of the class that are found, against false alarms among the others.",
    )
    recall = Chart(
        "recall",
        _figure(
            curves,
            ("recall", "precision"),
            ("found (recall)", "right of those named (precision)"),
            "found %{x:.1%}<br>of those named, right %{y:.1%}",
        ),
        "Precision over recall for each class.",
        "How many of the rows named are right, when so many of the class are to be found.",
    )
    return Section(
        "classes",
        "Finding each class",
        (
            table("Each class against the others, held-out rows", CLASS_HEADER, rows),
            Beside((roc, recall)),
            _calibration_chart(curves),
            *probability_blocks(probabilities),
        ),
    )


def probability_blocks(found: Probabilities | None) -> tuple[Block, ...]:
    """Return what calibration did to probabilities, if there is one."""
    if found is None:
        return ()
    rows = [
        (name, number(before), number(after))
        for name, (before, after) in (("log loss", found.log_loss), ("Brier score", found.brier))
    ]
    told = (
        f"Smaller is better. After: {found.method} calibration, judged on held-out rows other than "
        "those it was learned from; class shares elsewhere are those before it."
    )
    made = table("Probabilities of held-out rows", ("", "before", "after"), rows)
    return Heading("Probabilities of held-out rows"), made, Text(told)


def _calibration_chart(curves: tuple[ClassCurve, ...]) -> Chart:
    worst = max((_worst_gap(c) for c in curves), default=0.0)
    told = (
        "Where the points leave the dotted line by more than their bars, the shares are not "
        "probabilities: a least-squares classifier does not promise them."
    )
    if worst > 0:
        told += f" The largest gap beyond its bar is {100 * worst:.2g} percentage points."
    rows = [
        (c.label, number(p, 2), number(o, 2), f"{number(a, 2)} to {number(b, 2)}")
        for c in curves
        for p, o, a, b in zip(c.predicted, c.observed, c.low, c.high, strict=True)
    ]
    return Chart(
        "calibration",
        _figure(
            curves,
            ("predicted", "observed"),
            ("predicted share", "observed share"),
            "predicted %{x:.1%}<br>observed %{y:.1%}",
            "as predicted",
            bars=True,
        ),
        "Observed share of each class over the predicted share, in bins of rows.",
        told,
        table("Calibration", ("class", "predicted", "observed", "90 % interval"), rows),
    )


def _figure(
    curves: tuple[ClassCurve, ...],
    fields: tuple[str, str],
    titles: tuple[str, str],
    hover: str,
    diagonal: str = "",
    *,
    bars: bool = False,
) -> Figure:
    """Return one line for each class, and the diagonal where it means something."""
    traces = [
        scatter(
            getattr(c, fields[0]),
            getattr(c, fields[1]),
            c.label,
            "lines+markers" if bars else "lines",
            colour=_COLOURS[i],
            dash=_DASHES[i],
            hover=f"{escape(c.label)}<br>{hover}",
            error_y=spread(c.high - c.observed, c.observed - c.low) if bars else {},
        )
        for i, c in enumerate(curves)
    ]
    if diagonal:
        traces.append(guide([0.0, 1.0], [0.0, 1.0], diagonal, "@muted", "dot"))
    return figure(traces, shares(titles[0]), shares(titles[1]))


def _worst_gap(curve: ClassCurve) -> float:
    gap = np.maximum(curve.low - curve.predicted, curve.predicted - curve.high)
    return float(gap.max()) if gap.size and not math.isnan(gap.max()) else 0.0
