"""The cross-validation curve over the penalties."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from holdfast.displays._axes import check_fitted_estimator, new_axes
from holdfast.displays.curve_data import cv_curve

__all__ = ["CVCurveDisplay"]


class CVCurveDisplay:
    """Held-out error or score over the grid of penalties.

    It is recommended to use `from_estimator`. All parameters are stored as attributes.

    Parameters
    ----------
    alphas : array-like of shape (a,)
        Penalties.
    values : array-like of shape (a,)
        Error or score at each.
    se : array-like of shape (a,), optional
        Its standard error.
    best : int, optional
        Index of the best value.
    one_se : int, optional
        Index of the largest penalty within one standard error of the best.
    score_name : str, default "score"
        What is shown.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    line_ : matplotlib Line2D
        The curve.
    band_ : matplotlib PolyCollection or None
        Plus and minus one standard error.
    best_, one_se_ : matplotlib Line2D or None
        The marks.
    """

    def __init__(
        self,
        *,
        alphas: ArrayLike,
        values: ArrayLike,
        se: ArrayLike | None = None,
        best: int | None = None,
        one_se: int | None = None,
        score_name: str = "score",
    ) -> None:
        self.alphas = np.asarray(alphas, dtype=float)
        self.values = np.asarray(values, dtype=float)
        self.se = None if se is None else np.asarray(se, dtype=float)
        self.best = best
        self.one_se = one_se
        self.score_name = score_name

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None, **kwargs: Any) -> Self:
        """Return the display of a fitted estimator, plotted.

        Parameters
        ----------
        estimator : fitted KernelRidgeCV or KernelRidgeClassifierCV
        ax : matplotlib Axes, optional
            Where to plot; a new figure by default.
        **kwargs
            For the line.
        """
        check_fitted_estimator(estimator)
        curve = cv_curve(estimator)
        display = cls(
            alphas=curve.alphas,
            values=curve.values,
            se=curve.se,
            best=curve.best,
            one_se=curve.one_se,
            score_name=curve.scale.label,
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
        style = {"marker": ".", "label": name or self.score_name, **kwargs}
        (self.line_,) = ax.plot(self.alphas, self.values, **style)
        colour = self.line_.get_color()
        self.band_ = self.best_ = self.one_se_ = None
        if self.se is not None and np.isfinite(self.se).any():
            self.band_ = ax.fill_between(
                self.alphas,
                self.values - self.se,
                self.values + self.se,
                alpha=0.2,
                color=colour,
                linewidth=0,
            )
        if self.best is not None:
            self.best_ = self._mark(ax, self.best, "o", "best", colour)
        if self.one_se is not None and self.one_se != self.best:
            self.one_se_ = self._mark(ax, self.one_se, "D", "largest within 1 SE", colour)
        ax.set(xscale="log", xlabel="penalty λ (alpha)", ylabel=self.score_name)
        ax.legend()
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _mark(self, ax: Any, at: int, marker: str, label: str, colour: Any) -> Any:
        (mark,) = ax.plot(
            self.alphas[at],
            self.values[at],
            marker=marker,
            markersize=9,
            linestyle="none",
            markerfacecolor="none",
            markeredgewidth=2,
            color=colour,
            label=label,
        )
        return mark
