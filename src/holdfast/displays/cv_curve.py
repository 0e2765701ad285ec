"""The score over the penalties: what was best, what is within one standard error, the ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from holdfast._typing import FloatArray
from holdfast.displays.base import Display, band, check_fitted_estimator
from holdfast.scores.choice import TIE, kernel_parts, largest_within
from holdfast.scores.metric import Printed, printed

if TYPE_CHECKING:
    from holdfast.estimators.base import CrossValidatedKernelRidge

__all__ = ["CVCurve", "CVCurveDisplay", "kernel_curves"]


@dataclass(frozen=True, eq=False)
class CVCurve:
    """Held-out error (or score) over the grid of penalties, in the units it is shown in.

    Attributes
    ----------
    alphas : ndarray of shape (a,)
        The grid.
    values : ndarray of shape (a,)
        The shown error or score.
    se : ndarray of shape (a,)
        Its standard error; NaN where unknown.
    scale : Printed
        What is shown.
    best : int
        Index of the best value (the largest alpha among equals).
    one_se : int or None
        Index of the largest alpha within one standard error of the best.
    """

    alphas: FloatArray
    values: FloatArray
    se: FloatArray
    scale: Printed
    best: int
    one_se: int | None

    @property
    def edge(self) -> str | None:
        """Which end of the grid the best lies at: "smallest", "largest" or None."""
        if len(self.alphas) < 2:
            return None
        return {0: "smallest", len(self.alphas) - 1: "largest"}.get(self.best)


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


def kernel_curves(model: CrossValidatedKernelRidge) -> tuple[CVCurve, tuple[CVCurve, ...]]:
    """Return the curve that a fitted model chose its penalty by, and those of other kernels."""
    results, scale = model.cv_results_, printed(model._fitted_state().objective.scoring.name)
    scores = results["pooled_test_score" if model.pooled else "mean_test_score"]
    first = int(np.ravel(model.best_index_)[0])
    curves: dict[bool, list[CVCurve]] = {True: [], False: []}
    for part in kernel_parts(results):
        score, se = scores[part], results["se_test_score"][part]
        largest = np.nanmax(score)
        best = int(largest_within(score, largest - TIE * abs(largest)))
        one_se = int(largest_within(score, largest - se[best])) if np.isfinite(se[best]) else None
        shown = scale.of(score), scale.error(score, se), scale, best, one_se
        own = part.start <= first < part.stop
        curves[own].append(CVCurve(results["alpha"][part], *shown))
    return curves[True][0], tuple(curves[False])
