"""Which rows, or groups, move the model most: leverage, residual and Cook's distance at once."""

from __future__ import annotations

from itertools import product
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from holdfast._typing import FloatArray
from holdfast.displays._axes import check_fitted_estimator, new_axes

if TYPE_CHECKING:
    from holdfast.answers.influence import Influence

__all__ = ["InfluenceDisplay"]


class InfluenceDisplay:
    """Leverage against studentised held-out residual; the area of a circle is Cook's distance.

    It is recommended to use `from_estimator`. All parameters are stored as attributes.

    Parameters
    ----------
    influence : Influence
        From ``estimator.influence``.
    target : int, default 0
        Which of several targets.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    scatter_ : matplotlib PathCollection
        The rows or groups.
    labels_ : list of matplotlib Annotation
        Names of those with the largest Cook's distances, moved apart where they would collide.
    """

    def __init__(self, *, influence: Influence, target: int = 0) -> None:
        self.influence, self.target = influence, target

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        groups: ArrayLike | None = None,
        target: int = 0,
        n_labels: int = 5,
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
        n_labels : int, default 5
            How many to label.
        ax : matplotlib Axes, optional
            Where to plot; a new figure by default.
        **kwargs
            For the circles.
        """
        check_fitted_estimator(estimator)
        display = cls(influence=estimator.influence(groups), target=target)
        return display.plot(ax, n_labels=n_labels, **kwargs)

    def plot(self, ax: Any = None, *, n_labels: int = 5, **kwargs: Any) -> Self:
        """Plot the rows or groups.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to plot; a new figure by default.
        n_labels : int, default 5
            How many of the most influential to label.
        **kwargs
            For the circles.

        Returns
        -------
        self
        """
        ax = new_axes(ax)
        found = self.influence
        residual, cook = (
            values if values.ndim == 1 else values[:, self.target]
            for values in (found.residual, found.cook)
        )
        area = 12.0 + 400.0 * cook / max(float(cook.max()), 1e-300)
        self.scatter_ = ax.scatter(found.leverage, residual, s=area, **{"alpha": 0.5, **kwargs})
        ax.axhline(0, color="black", linewidth=1, linestyle="--")
        what = "group" if found.grouped else "row"
        ax.set(xlabel=f"leverage of the {what}", ylabel="held-out residual / its std")
        ax.margins(0.1)
        most = np.argsort(-cook, kind="stable")[:n_labels]
        points = np.column_stack([found.leverage[most], residual[most]])
        names = [str(label) for label in found.labels[most]]
        self.labels_ = _label(ax, points, names, self.scatter_)
        self.ax_, self.figure_ = ax, ax.figure
        return self


#: Where a label may stand: to which sides of its point, and how far from its circle, in points.
SIDES = ((1, 1), (-1, 1), (1, -1), (-1, -1), (1, 0), (-1, 0), (0, 1), (0, -1))
DISTANCES = (2, 12, 24)
#: How bad it is that a label leaves the axes, or covers another one, in circles that it covers.
OUTSIDE, COVERED = 1000, 100


def _label(ax: Any, points: FloatArray, names: list[str], scatter: Any) -> list[Any]:
    """Return labels beside points, each in the first free place around its circle.

    A place is free if the label stays inside the axes and covers neither a label nor a circle;
    where none is free, the one that covers least.
    """
    renderer = ax.figure.canvas.get_renderer()
    ax.autoscale_view()  # limits are otherwise settled when the figure is drawn
    frame = ax.get_window_extent(renderer)
    centres = ax.transData.transform(np.asarray(scatter.get_offsets()))
    per_point = ax.figure.dpi / 72.0
    radii = np.sqrt(scatter.get_sizes() / np.pi) * per_point
    drawn: list[Any] = []
    boxes: list[Any] = []
    for point, name in zip(points, names, strict=True):
        own = np.hypot(*(centres - ax.transData.transform(point)).T).argmin()
        places = []
        for distance, (dx, dy) in product(radii[own] / per_point + DISTANCES, SIDES):
            length = distance / np.hypot(dx, dy)
            note = ax.annotate(
                name,
                point,
                xytext=(dx * length, dy * length),
                textcoords="offset points",
                ha={1: "left", 0: "center", -1: "right"}[dx],
                va={1: "bottom", 0: "center", -1: "top"}[dy],
                fontsize="small",
            )
            box = note.get_window_extent(renderer)
            near = np.clip(centres, box.min, box.max) - centres
            badness = int((np.hypot(*near.T) < radii).sum())
            badness += COVERED * sum(box.overlaps(other) for other in boxes)
            badness += OUTSIDE * (frame.count_contains(box.corners()) < 4)
            places.append((badness, note, box))
            if not badness:
                break
        best = min(places, key=itemgetter(0))
        for place in places:
            if place is not best:
                place[1].remove()
        drawn.append(best[1])
        boxes.append(best[2])
    return drawn
