"""Which rows, or groups, move the model most: leverage, residual and Cook's distance at once."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from holdfast._typing import IntArray
from holdfast.displays.base import Display, check_fitted_estimator

if TYPE_CHECKING:
    from holdfast.answers.influence import Influence

__all__ = ["InfluenceDisplay"]

#: Where a label may stand: to which sides of its point, and how far from its circle, in points.
SIDES = ((1, 1), (-1, 1), (1, -1), (-1, -1), (1, 0), (-1, 0), (0, 1), (0, -1))
DISTANCES = (2, 12, 24)


@dataclass(eq=False, repr=False)
class InfluenceDisplay(Display):
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

    influence: Influence
    target: int = 0

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        groups: ArrayLike | None = None,
        target: int = 0,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Return the display of a fitted estimator, plotted.

        Parameters
        ----------
        estimator : fitted KernelRidgeCV or KernelRidgeClassifierCV
        groups : array-like of shape (m,), optional
            Groups instead of rows.
        target : int, default 0
            Which of several targets.
        ax, **kwargs
            For `plot`.
        """
        check_fitted_estimator(estimator)
        return cls(estimator.influence(groups), target).plot(ax, **kwargs)

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
    """Return labels of some circles, each in the first free place around its circle.

    A place is free if the label stays inside the axes and covers neither a label nor a circle;
    where none is free, the one that covers least.
    """
    ax.figure.draw_without_rendering()  # limits and layout are otherwise settled later
    frame, per_point = ax.get_window_extent(), ax.figure.dpi / 72.0
    centres = ax.transData.transform(scatter.get_offsets())
    radii = np.sqrt(scatter.get_sizes() / np.pi) * per_point
    labels: list[Any] = []

    def move(label: Any, distance: float, side: tuple[int, int]) -> Any:
        length = distance / np.hypot(*side)
        label.set_position((side[0] * length, side[1] * length))
        label.set_ha({1: "left", 0: "center", -1: "right"}[side[0]])
        label.set_va({1: "bottom", 0: "center", -1: "top"}[side[1]])
        return label.get_window_extent()

    for point, name in zip(points, names, strict=True):
        label = ax.annotate(
            name,
            scatter.get_offsets()[point],
            xytext=(0, 0),
            textcoords="offset points",
            fontsize="small",
        )
        taken = [other.get_window_extent() for other in labels]

        def badness(
            place: tuple[float, tuple[int, int]], label: Any = label, taken: list[Any] = taken
        ) -> tuple[bool, int, int]:
            box = move(label, *place)
            near = np.clip(centres, box.min, box.max) - centres
            outside = frame.count_contains(box.corners()) < 4
            labels_covered = sum(box.overlaps(other) for other in taken)
            return outside, labels_covered, int((np.hypot(*near.T) < radii).sum())

        move(label, *min(product(radii[point] / per_point + DISTANCES, SIDES), key=badness))
        labels.append(label)
    return labels
