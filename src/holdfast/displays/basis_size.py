"""Held-out error against the number of basis rows."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from holdfast.displays._axes import new_axes
from holdfast.displays.score_scale import score_scale
from holdfast.estimators.basis_curve import BasisCurve, basis_curve

__all__ = ["BasisSizeDisplay"]


class BasisSizeDisplay:
    """Held-out error over the number of basis rows: a colour per selector, a line per policy.

    Parameters
    ----------
    curve : BasisCurve
        What `holdfast.basis.basis_curve` returns.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    lines_ : dict of (selector, policy) to matplotlib Line2D
        Means over the repeats.
    bands_ : dict of (selector, policy) to matplotlib PolyCollection
        From the smallest to the largest of the repeats; empty with one repeat.
    """

    def __init__(self, curve: BasisCurve) -> None:
        self.curve = curve

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, sizes: Any = None, *, ax: Any = None, **kwargs: Any
    ) -> Self:
        """Return the display of a model on these data, computed and plotted.

        Parameters
        ----------
        estimator, X, y, sizes
            See `holdfast.basis.basis_curve`.
        ax : matplotlib Axes, optional
            Where to plot; a new figure by default.
        **kwargs
            Further arguments of `holdfast.basis.basis_curve`.
        """
        return cls(basis_curve(estimator, X, y, sizes, **kwargs)).plot(ax)

    def plot(self, ax: Any = None, **kwargs: Any) -> Self:
        """Plot the curves.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to plot; a new figure by default.
        **kwargs
            For the lines.

        Returns
        -------
        self
        """
        ax = new_axes(ax)
        curve = self.curve
        scale = score_scale(curve.scoring, curve.classifier)
        shown = scale.shown(curve.scores)
        styles = {"keep": "--", "remove": "-", "train": ":", "skip": "-.", "reselect": (0, (1, 1))}
        self.lines_: dict[tuple[str, str], Any] = {}
        self.bands_: dict[tuple[str, str], Any] = {}
        for s, selector in enumerate(curve.selectors):
            for p, policy in enumerate(curve.policies):
                key, values = (selector, policy), shown[s, p]  # (repeats, sizes)
                look = {"color": f"C{s}", "linestyle": styles[policy], "marker": ".", **kwargs}
                mean = np.mean(values, axis=0)
                label = selector if p == 0 else None
                (self.lines_[key],) = ax.plot(curve.sizes, mean, label=label, **look)
                if len(values) > 1:
                    self.bands_[key] = ax.fill_between(
                        curve.sizes,
                        values.min(axis=0),
                        values.max(axis=0),
                        color=look["color"],
                        alpha=0.1,
                        linewidth=0,
                    )
        for policy in curve.policies:  # colours are named above, kinds of line here
            ax.plot([], [], color="0.3", linestyle=styles[policy], label=f"held out: {policy}")
        ax.set(xscale="log", xlabel="number of basis rows", ylabel=f"held-out {scale.label}")
        ax.set_xticks(curve.sizes, [str(size) for size in curve.sizes])
        ax.minorticks_off()
        ax.legend(title="basis rows")
        self.ax_, self.figure_ = ax, ax.figure
        return self
