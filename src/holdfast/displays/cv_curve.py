"""The cross-validation curve over the penalties."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from holdfast.displays.base import Display, band, check_fitted_estimator
from holdfast.displays.curve_data import CVCurve, kernel_curves

__all__ = ["CVCurveDisplay"]


@dataclass(eq=False, repr=False)
class CVCurveDisplay(Display):
    """Held-out error or score over the grid of penalties.

    Parameters
    ----------
    curve : CVCurve
        Of the chosen kernel: ``alphas``, ``values``, their standard errors ``se``.
    others : sequence of CVCurve, default ()
        Of the kernels, or widths, that it was compared with; drawn in grey.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The curve.
    band_ : matplotlib PolyCollection or None
        Plus and minus one standard error.
    best_, one_se_ : matplotlib Line2D or None
        The best, and the largest penalty within one standard error of it.
    others_ : list of matplotlib Line2D
        The other kernels.
    """

    curve: CVCurve
    others: Sequence[CVCurve] = ()

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None, **kwargs: Any) -> Self:
        """Return the display of a fitted estimator, plotted.

        Parameters
        ----------
        estimator : fitted KernelRidgeCV or KernelRidgeClassifierCV
        ax, **kwargs
            For `plot`.
        """
        check_fitted_estimator(estimator)
        return cls(*kernel_curves(estimator)).plot(ax, **kwargs)

    def _draw(self, ax: Any, **kwargs: Any) -> None:
        curve, label = self.curve, self.curve.scale.label
        x, y, se, best = curve.alphas, curve.values, curve.se, curve.best
        grey = {"color": "0.7", "linewidth": 1}
        self.others_ = [ax.plot(other.alphas, other.values, **grey)[0] for other in self.others]
        if self.others:
            self.others_[0].set_label("other kernels")
        (self.line_,) = ax.plot(x, y, **{"marker": ".", "label": label, **kwargs})
        self.band_ = self.one_se_ = None
        if np.isfinite(se).any():
            self.band_ = band(ax, x, y - se, y + se, self.line_)
        mark = {"markersize": 9, "linestyle": "none", "color": self.line_.get_color()}
        mark |= {"markerfacecolor": "none", "markeredgewidth": 2}
        (self.best_,) = ax.plot(x[best], y[best], marker="o", label="best", **mark)
        if curve.one_se is not None and curve.one_se != best:
            at, label = curve.one_se, "largest within 1 SE"
            (self.one_se_,) = ax.plot(x[at], y[at], marker="D", label=label, **mark)
        ax.set(xscale="log", xlabel="penalty λ (alpha)", ylabel=curve.scale.label)
        shown = np.concatenate([line.get_ydata() for line in (self.line_, *self.others_)])
        if curve.scale.sign < 0 and np.nanmax(shown) > 10 * np.nanmin(shown) > 0:
            ax.set_yscale("log")  # a bad corner of the grid would flatten all the rest
        ax.legend()
