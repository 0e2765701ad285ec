"""The held-out error over the penalty and the width of the kernel."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from holdfast import progress
from holdfast.displays._axes import new_axes
from holdfast.exceptions import GridEdgeWarning, InvalidInputError
from holdfast.report.curves import cv_curve

__all__ = ["ContourDisplay"]


class ContourDisplay:
    """Held-out error or score over (alpha, gamma) as contours.

    It is recommended to use `from_estimator`. All parameters are stored as attributes.

    Parameters
    ----------
    alphas : array-like of shape (a,)
        Penalties.
    gammas : array-like of shape (g,)
        Widths of the kernel.
    values : array-like of shape (g, a)
        Error or score.
    score_name : str, default "score"
        What is shown.
    lower_is_better : bool, default False
        Whether the smallest value is the best.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    contours_ : matplotlib QuadContourSet
        Filled contours.
    colorbar_ : matplotlib Colorbar
    best_ : matplotlib Line2D
        Mark at the best value.
    """

    def __init__(
        self,
        *,
        alphas: ArrayLike,
        gammas: ArrayLike,
        values: ArrayLike,
        score_name: str = "score",
        lower_is_better: bool = False,
    ) -> None:
        self.alphas = np.asarray(alphas, dtype=float)
        self.gammas = np.asarray(gammas, dtype=float)
        self.values = np.asarray(values, dtype=float)
        self.score_name = score_name
        self.lower_is_better = lower_is_better
        if self.values.shape != (self.gammas.size, self.alphas.size):
            raise InvalidInputError(
                "values must have shape (gammas, alphas) = "
                f"({self.gammas.size}, {self.alphas.size}); got {self.values.shape}."
            )
        if min(self.values.shape) < 2:
            raise InvalidInputError("contours need at least two alphas and two gammas.")

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        gammas: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Return the display of an estimator fitted at each gamma, plotted.

        Parameters
        ----------
        estimator : KernelRidgeCV or KernelRidgeClassifierCV
            It is cloned, not changed.
        X, y, sample_weight, groups
            As in ``fit``.
        gammas : array-like of shape (g,)
            Widths to compare, increasing. One fit each.
        ax : matplotlib Axes, optional
            Where to plot; a new figure by default.
        **kwargs
            For the contours.
        """
        curves = []
        widths = np.asarray(gammas, dtype=float)
        for i, gamma in enumerate(widths):
            twin = clone(estimator).set_params(gamma=float(gamma))
            with warnings.catch_warnings():
                # The picture shows where the best of each width lies.
                warnings.simplefilter("ignore", GridEdgeWarning)
                twin.fit(X, y, sample_weight=sample_weight, groups=groups)
            curves.append(cv_curve(twin))
            progress.report(i + 1, widths.size, "kernel widths")
        scale = curves[0].scale
        display = cls(
            alphas=curves[0].alphas,
            gammas=widths,
            values=[curve.values for curve in curves],
            score_name=scale.label,
            lower_is_better=scale.lower_is_better,
        )
        return display.plot(ax, **kwargs)

    @property
    def best(self) -> tuple[float, float]:
        """The best (alpha, gamma)."""
        signed = -self.values if self.lower_is_better else self.values
        g, a = np.unravel_index(int(np.nanargmax(signed)), signed.shape)
        return float(self.alphas[a]), float(self.gammas[g])

    def plot(self, ax: Any = None, **kwargs: Any) -> Self:
        """Plot the contours.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to plot; a new figure by default.
        **kwargs
            For the contours.

        Returns
        -------
        self
        """
        ax = new_axes(ax)
        # Dark is good, whichever direction the score runs.
        cmap = "viridis" if self.lower_is_better else "viridis_r"
        style = {"cmap": cmap, **kwargs}
        levels = np.unique(
            np.quantile(self.values[np.isfinite(self.values)], np.linspace(0, 1, 16))
        )
        if "levels" not in kwargs and levels.size > 2:
            # One colour for equally many values: a bad corner of the grid would otherwise take
            # all of them and leave the neighbourhood of the best in one.
            from matplotlib.colors import BoundaryNorm

            style |= {"levels": levels, "norm": BoundaryNorm(levels, 256)}
        self.contours_ = ax.contourf(self.alphas, self.gammas, self.values, **style)
        self.colorbar_ = ax.figure.colorbar(
            self.contours_, ax=ax, label=self.score_name, format="%.3g"
        )
        alpha, gamma = self.best
        (self.best_,) = ax.plot(
            alpha,
            gamma,
            marker="*",
            markersize=14,
            color="white",
            markeredgecolor="black",
            linestyle="none",
            label="best",
            clip_on=False,
            zorder=5,
        )
        ax.set(xscale="log", yscale="log", xlabel="penalty λ (alpha)", ylabel="gamma")
        self.ax_, self.figure_ = ax, ax.figure
        return self
