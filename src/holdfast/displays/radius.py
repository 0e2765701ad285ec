"""How far the model carries: held-out error against the distance to the nearest data."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from holdfast.displays._axes import check_fitted_estimator, new_axes
from holdfast.displays.radius_data import radius_curve

__all__ = ["RadiusDisplay"]


class RadiusDisplay:
    """Held-out error as everything within a radius of the test row is held out.

    Where the curve meets the line of a model without features, nothing is known about a place so
    far from all data. It is recommended to use `from_estimator`. All parameters are stored as
    attributes.

    Parameters
    ----------
    radii : array-like of shape (r,)
        Radii, ascending.
    values : array-like of shape (r,)
        Error or score at each.
    se : array-like of shape (r,), optional
        Its standard error.
    held_out : array-like of shape (r,), optional
        Rows held out around a test row, on average.
    control : array-like of shape (r,), optional
        Error or score with as many rows held out anywhere.
    baseline : float, optional
        Error or score without features: of the mean of all targets.
    score_name : str, default "score"
        What is shown.
    unit : str, optional
        Of the radii.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    line_ : matplotlib Line2D
        The curve.
    band_ : matplotlib PolyCollection or None
        Plus and minus one standard error.
    control_, baseline_ : matplotlib Line2D or None
        The lines to compare with.
    """

    def __init__(
        self,
        *,
        radii: ArrayLike,
        values: ArrayLike,
        se: ArrayLike | None = None,
        held_out: ArrayLike | None = None,
        control: ArrayLike | None = None,
        baseline: float | None = None,
        score_name: str = "score",
        unit: str | None = None,
    ) -> None:
        self.radii = np.asarray(radii, dtype=float)
        self.values = np.asarray(values, dtype=float)
        self.se = None if se is None else np.asarray(se, dtype=float)
        self.held_out = None if held_out is None else np.asarray(held_out, dtype=float)
        self.control = None if control is None else np.asarray(control, dtype=float)
        self.baseline = baseline
        self.score_name = score_name
        self.unit = unit

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        coordinates: ArrayLike,
        radii: ArrayLike,
        *,
        metric: Any = "euclidean",
        metric_params: dict[str, Any] | None = None,
        control: bool = False,
        random_state: int = 0,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Return the display of a fitted estimator, plotted.

        Parameters
        ----------
        estimator : fitted KernelRidgeCV or KernelRidgeClassifierCV
        coordinates : array-like of shape (m, d) or (m,)
            The place of each training row; see `holdfast.splitters.LeaveNeighbourhoodOut`.
        radii : array-like of shape (r,)
            Radii in the unit of the metric; in kilometres with ``metric="haversine"``.
        metric : str or callable, default "euclidean"
            Of the coordinates.
        metric_params : dict, optional
            Further arguments of the metric.
        control : bool, default False
            Also show the error with as many rows held out anywhere: what of the loss is due to
            fewer rows, and not to distance.
        random_state : int, default 0
            Which rows the control holds out.
        ax : matplotlib Axes, optional
            Where to plot; a new figure by default.
        **kwargs
            For the line.

        Notes
        -----
        The model keeps its penalty and its scoring; nothing is trained anew. Each radius is one
        experiment per row (`holdfast.splitters.LeaveNeighbourhoodOut`). The band counts rows as
        independent, which near rows are not: it is the least that the error is uncertain by.
        """
        check_fitted_estimator(estimator)
        curve = radius_curve(
            estimator,
            coordinates,
            radii,
            metric=metric,
            metric_params=metric_params,
            control=control,
            random_state=random_state,
        )
        display = cls(
            radii=curve.radii,
            values=curve.values,
            se=curve.se,
            held_out=curve.held_out,
            control=curve.control,
            baseline=curve.baseline,
            score_name=curve.scale.label,
            unit="km" if metric == "haversine" else None,
        )
        return display.plot(ax, **kwargs)

    def plot(self, ax: Any = None, *, name: str | None = None, **kwargs: Any) -> Self:
        """Plot the curve.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to plot; a new figure by default.
        name : str, optional
            Of the curve, for the legend.
        **kwargs
            For the line.

        Returns
        -------
        self
        """
        ax = new_axes(ax)
        style = {"marker": ".", "label": name or "all rows within the radius held out", **kwargs}
        (self.line_,) = ax.plot(self.radii, self.values, **style)
        self.band_ = self.control_ = self.baseline_ = None
        if self.se is not None and np.isfinite(self.se).any():
            self.band_ = ax.fill_between(
                self.radii,
                self.values - self.se,
                self.values + self.se,
                alpha=0.2,
                color=self.line_.get_color(),
                linewidth=0,
            )
        if self.control is not None:
            (self.control_,) = ax.plot(
                self.radii,
                self.control,
                linestyle="--",
                marker=".",
                color="0.4",
                label="as many rows held out anywhere",
            )
        if self.baseline is not None and np.isfinite(self.baseline):
            self.baseline_ = ax.axhline(
                self.baseline, linestyle=":", color="black", linewidth=1, label="without features"
            )
        unit = f" ({self.unit})" if self.unit else ""
        ax.set(xlabel=f"radius{unit}", ylabel=f"held-out {self.score_name}")
        low, high = ax.get_ylim()
        ax.set_ylim(low, high + 0.3 * (high - low))  # room for the legend above the lines
        ax.legend(loc="upper left")
        self.ax_, self.figure_ = ax, ax.figure
        return self
