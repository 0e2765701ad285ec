"""Displays of what one method of an estimator answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from holdfast._typing import IntArray
from holdfast.displays.base import AnswerDisplay

if TYPE_CHECKING:
    from holdfast.answers.influence import Influence
    from holdfast.answers.permutation import PermutationTest

__all__ = [
    "InfluenceDisplay",
    "PermutationDisplay",
]


@dataclass(eq=False, repr=False)
class PermutationDisplay(AnswerDisplay):
    """Scores of permuted targets as a histogram, the model's score as a line.

    Parameters
    ----------
    result : PermutationTest
        From ``estimator.permutation_test``.
    target : int, default 0
        Which of several targets that choose their own penalty.

    Attributes
    ----------
    bars_ : matplotlib BarContainer
        The histogram.
    line_ : matplotlib Line2D
        The score of the model.
    """

    answer: ClassVar[str] = "permutation_test"
    result: PermutationTest
    target: int = 0

    def _draw(self, ax: Any, **kwargs: Any) -> None:
        found, n = self.result, len(self.result.null_scores)
        null = np.reshape(found.null_scores, (n, -1))[:, self.target]
        score, p = (np.atleast_1d(each)[self.target] for each in (found.score, found.p_value))
        style = {"bins": "auto", "alpha": 0.7, "label": f"{n} permutations", **kwargs}
        _, _, self.bars_ = ax.hist(null, **style)
        dashed = {"color": "black", "linestyle": "--"}
        self.line_ = ax.axvline(score, label=f"the data, p = {p:.3g}", **dashed)
        ax.set(xlabel=found.scoring, ylabel="permutations")
        ax.legend()


@dataclass(eq=False, repr=False)
class InfluenceDisplay(AnswerDisplay):
    """Leverage against studentised held-out residual; the area of a circle is Cook's distance.

    Parameters
    ----------
    influence : Influence
        From ``estimator.influence``.
    target : int, default 0
        Which of several targets.

    Other Parameters
    ----------------
    n_labels : int, default 5
        For `plot`: how many of the most influential to label.

    Attributes
    ----------
    scatter_ : matplotlib PathCollection
        The rows or groups.
    labels_ : list of matplotlib Annotation
        Names of those with the largest Cook's distances, moved apart where they would collide.
    """

    answer: ClassVar[str] = "influence"
    influence: Influence
    target: int = 0

    def _draw(self, ax: Any, *, n_labels: int = 5, **kwargs: Any) -> None:
        found = self.influence
        leverage, residual, cook = (
            values if values.ndim == 1 else values[:, self.target]
            for values in (found.leverage, found.residual, found.cook)
        )
        area = 12.0 + 400.0 * cook / max(float(cook.max()), 1e-300)
        self.scatter_ = ax.scatter(leverage, residual, s=area, **{"alpha": 0.5, **kwargs})
        ax.axhline(0, color="black", linewidth=1, linestyle="--")
        what = "group" if found.grouped else "row"
        ax.set(xlabel=f"leverage of the {what}", ylabel="held-out residual / its std")
        ax.margins(0.1)
        most = np.argsort(-cook, kind="stable")[:n_labels]
        self.labels_ = _label(ax, self.scatter_, most, [str(label) for label in found.labels[most]])


def _label(ax: Any, scatter: Any, points: IntArray, names: list[str]) -> list[Any]:
    """Return labels beside some circles, each moved up or down until it covers no other."""
    ax.figure.draw_without_rendering()  # limits and layout are otherwise settled later
    radii = np.sqrt(scatter.get_sizes()[points] / np.pi) + 2.0
    labels: list[Any] = []
    taken: list[Any] = []
    look = {"textcoords": "offset points", "fontsize": "small", "va": "center"}
    for at, radius, name in zip(scatter.get_offsets()[points], radii, names, strict=True):
        label = ax.annotate(name, at, xytext=(radius, 0), **look)
        if label.get_window_extent().x1 > ax.get_window_extent().x1:
            label.set(ha="right", x=-radius)
        for step in range(2 * len(names)):
            label.set_y((step + 1) // 2 * 6 * (-1) ** step)
            box = label.get_window_extent()
            if not any(box.overlaps(other) for other in taken):
                break
        labels.append(label)
        taken.append(box)
    return labels
