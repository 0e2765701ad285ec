"""Calibration: where held-out targets fall in the laws that predicted them."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from holdfast.displays._axes import check_fitted_estimator, new_axes, refuse_classifier

__all__ = ["PITDisplay"]


class PITDisplay:
    """Histogram of Φ((y − prediction)/std) of held-out rows: flat if the predictive law is right.

    A hump says that the law is too wide, a bowl that it is too narrow, a slope that it is biased
    (Dawid 1984; Gneiting, Balabdaoui & Raftery 2007). It is recommended to use `from_estimator`.

    Parameters
    ----------
    pit : array-like of shape (k,)
        Values between 0 and 1.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    bars_ : matplotlib BarContainer
    expected_ : matplotlib Line2D
        What a right law gives; the band holds 95 % of the bars of independent rows.
    """

    def __init__(self, *, pit: ArrayLike) -> None:
        self.pit = np.asarray(pit, dtype=float)

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, target: int = 0, bins: int = 10, ax: Any = None, **kwargs: Any
    ) -> Self:
        """Return the display of a fitted KernelRidgeCV, plotted.

        Parameters
        ----------
        estimator : fitted KernelRidgeCV
        target : int, default 0
            Which of several targets.
        bins : int, default 10
        ax : matplotlib Axes, optional
            Where to plot; a new figure by default.
        **kwargs
            For the bars.
        """
        check_fitted_estimator(estimator)
        refuse_classifier(estimator, cls.__name__)
        alpha = np.atleast_1d(estimator.alpha_)
        held = estimator.held_out(alphas=[alpha[min(target, alpha.size - 1)]])
        return cls(pit=held.pit()[0, :, target]).plot(ax, bins=bins, **kwargs)

    def plot(self, ax: Any = None, *, bins: int = 10, **kwargs: Any) -> Self:
        """Plot the histogram.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to plot; a new figure by default.
        bins : int, default 10
        **kwargs
            For the bars.

        Returns
        -------
        self
        """
        ax = new_axes(ax)
        k = self.pit.size
        _, _, self.bars_ = ax.hist(
            self.pit, bins=bins, range=(0, 1), **{"alpha": 0.6, "edgecolor": "white", **kwargs}
        )
        spread = 1.96 * np.sqrt(k / bins * (1 - 1 / bins))
        self.expected_ = ax.axhline(k / bins, color="black", linewidth=1, linestyle="--")
        ax.axhspan(max(0.0, k / bins - spread), k / bins + spread, color="black", alpha=0.1)
        ax.set(xlabel="held-out target as a probability of its law", ylabel="rows", xlim=(0, 1))
        self.ax_, self.figure_ = ax, ax.figure
        return self
