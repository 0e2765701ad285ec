"""A held-out criterion over the penalty and the width of the kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast._typing import FloatArray
from holdfast.displays.base import Display

__all__ = ["ContourDisplay"]


@dataclass(eq=False, repr=False, kw_only=True)
class ContourDisplay(Display):
    """A criterion over (alpha, gamma) as contours: what `holdfast.tuning.Surface` plots.

    Parameters
    ----------
    alphas : ndarray of shape (a,)
        Penalties.
    gammas : ndarray of shape (g,)
        Widths of the kernel.
    values : ndarray of shape (g, a)
        The criterion.
    score_name : str, default "score"
        What is shown.
    lower_is_better : bool, default False
        Whether the smallest value is the best.

    Attributes
    ----------
    contours_ : matplotlib QuadContourSet
        Filled contours.
    colorbar_ : matplotlib Colorbar
    best_ : matplotlib Line2D
        Mark at the best value.
    """

    alphas: FloatArray
    gammas: FloatArray
    values: FloatArray
    score_name: str = "score"
    lower_is_better: bool = False

    @property
    def best(self) -> tuple[float, float]:
        """The best (alpha, gamma)."""
        at = np.nanargmin(self.values) if self.lower_is_better else np.nanargmax(self.values)
        g, a = np.unravel_index(int(at), self.values.shape)
        return float(self.alphas[a]), float(self.gammas[g])

    def _draw(self, ax: Any, **kwargs: Any) -> None:
        # Dark is good, whichever direction the score runs.
        style = {"cmap": "viridis" if self.lower_is_better else "viridis_r", **kwargs}
        known = self.values[np.isfinite(self.values)]
        levels = np.unique(np.quantile(known, np.linspace(0, 1, 16)))
        if "levels" not in kwargs and levels.size > 2:
            # One colour for equally many values: a bad corner of the grid would otherwise take
            # all of them and leave the neighbourhood of the best in one.
            from matplotlib.colors import BoundaryNorm

            style |= {"levels": levels, "norm": BoundaryNorm(levels, 256)}
        self.contours_ = ax.contourf(self.alphas, self.gammas, self.values, **style)
        bar = {"label": self.score_name, "format": "%.3g"}
        self.colorbar_ = ax.figure.colorbar(self.contours_, ax=ax, **bar)
        star = {"markersize": 14, "color": "white", "markeredgecolor": "black", "zorder": 5}
        (self.best_,) = ax.plot(*self.best, marker="*", linestyle="none", clip_on=False, **star)
        ax.set(xscale="log", yscale="log", xlabel="penalty λ (alpha)", ylabel="gamma")
