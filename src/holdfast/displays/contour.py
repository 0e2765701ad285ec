"""The held-out error over the penalty and the width of the kernel."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from holdfast._typing import FloatArray, IntArray
from holdfast.displays._axes import check_fitted_estimator, new_axes
from holdfast.displays.curve_data import cv_curve
from holdfast.exceptions import InvalidInputError
from holdfast.scores.penalties import kernel_parts

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
    def from_estimator(cls, estimator: Any, *, ax: Any = None, **kwargs: Any) -> Self:
        """Return the display of an estimator that was fitted with several gammas, plotted.

        Parameters
        ----------
        estimator : fitted KernelRidgeCV or KernelRidgeClassifierCV
            With ``gamma=[...]``, one kernel.
        ax : matplotlib Axes, optional
            Where to plot; a new figure by default.
        **kwargs
            For the contours.
        """
        check_fitted_estimator(estimator)
        results = estimator.cv_results_
        others = [k for k in results if k.startswith("param_") and k != "param_gamma"]
        varied = [k for k in others if len(set(map(repr, results[k]))) > 1]
        if "param_gamma" not in results or varied:
            raise InvalidInputError(
                "contours need an estimator fitted with several values of gamma and nothing else "
                "compared beside the penalties: KernelRidgeCV(gamma=[0.01, 0.1, 1.0]).fit(X, y)."
            )
        parts = kernel_parts(results)
        gammas = np.array([float(results["param_gamma"][part.start]) for part in parts])
        score = results["pooled_test_score" if estimator.pooled else "mean_test_score"]
        # Default grids of several widths are parts of one sequence: what was not tried is nan.
        alphas, place = _distinct(results["alpha"])
        table = np.full((len(parts), alphas.size), np.nan)
        for row, part in zip(table, parts, strict=True):
            row[place[part]] = score[part]
        order = np.argsort(gammas)
        scale = cv_curve(estimator).scale
        display = cls(
            alphas=alphas,
            gammas=gammas[order],
            values=scale.shown(table[order]),
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


def _distinct(alphas: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return the different penalties, increasing, and where each of the given ones is."""
    _, first, place = np.unique(
        np.round(np.log10(alphas), 9), return_index=True, return_inverse=True
    )
    return alphas[first], place.astype(np.int64)
