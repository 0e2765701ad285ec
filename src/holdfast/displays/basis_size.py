"""Held-out error against the number of basis rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from holdfast.displays.base import Display, band
from holdfast.displays.score_scale import score_scale

if TYPE_CHECKING:
    from holdfast.estimators.basis_curve import BasisCurve

__all__ = ["BasisSizeDisplay"]

LINES = {"keep": "--", "remove": "-", "train": ":", "skip": "-.", "reselect": (0, (1, 1))}


@dataclass(eq=False, repr=False)
class BasisSizeDisplay(Display):
    """Held-out error over the number of basis rows: a colour per selector, a line per policy.

    Parameters
    ----------
    curve : BasisCurve
        What `holdfast.basis.basis_curve` returns.

    Attributes
    ----------
    lines_ : dict of (selector, policy) to matplotlib Line2D
        Means over the repeats.
    bands_ : dict of (selector, policy) to matplotlib PolyCollection
        From the smallest to the largest of the repeats; empty with one repeat.
    """

    curve: BasisCurve

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
        from holdfast.estimators.basis_curve import basis_curve

        return cls(basis_curve(estimator, X, y, sizes, **kwargs)).plot(ax)

    def _draw(self, ax: Any, **kwargs: Any) -> None:
        curve = self.curve
        scale = score_scale(curve.scoring, curve.classifier)
        shown = scale.shown(curve.scores)
        self.lines_: dict[tuple[str, str], Any] = {}
        self.bands_: dict[tuple[str, str], Any] = {}
        for s, selector in enumerate(curve.selectors):
            for p, policy in enumerate(curve.policies):
                key, values = (selector, policy), shown[s, p]  # (repeats, sizes)
                look = {"color": f"C{s}", "linestyle": LINES[policy], "marker": ".", **kwargs}
                label = selector if p == 0 else None
                (line,) = ax.plot(curve.sizes, np.mean(values, axis=0), label=label, **look)
                self.lines_[key] = line
                if len(values) > 1:
                    low, high = values.min(axis=0), values.max(axis=0)
                    self.bands_[key] = band(ax, curve.sizes, low, high, line, alpha=0.1)
        for policy in curve.policies:  # colours are named above, kinds of line here
            ax.plot([], [], color="0.3", linestyle=LINES[policy], label=f"held out: {policy}")
        ax.set(xscale="log", xlabel="number of basis rows", ylabel=f"held-out {scale.label}")
        ax.set_xticks(curve.sizes, [str(size) for size in curve.sizes])
        ax.minorticks_off()
        ax.legend(title="basis rows")
