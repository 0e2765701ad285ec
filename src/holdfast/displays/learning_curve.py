"""The held-out error over the number of training rows, and where it seems to go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from holdfast.displays.base import Display, band, check_fitted_estimator

if TYPE_CHECKING:
    from holdfast.answers.learning import LearningCurve

__all__ = ["LearningCurveDisplay"]


@dataclass(eq=False, repr=False)
class LearningCurveDisplay(Display):
    """Error against the size of the training set, with the spread over draws.

    Parameters
    ----------
    curve : LearningCurve
        From ``estimator.learning_curve``.

    Other Parameters
    ----------------
    to : float, default 2
        For `plot`: how many times the largest size to extend the curve to.

    Attributes
    ----------
    line_ : matplotlib Line2D
        Mean errors.
    extended_ : matplotlib Line2D or None
        The power law beyond the largest size; the band holds 90 % of its bootstrap samples.
    """

    curve: LearningCurve

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        sizes: ArrayLike = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8),
        *,
        n_repeats: int = 10,
        random_state: Any = 0,
        groups: ArrayLike | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Return the display of a fitted estimator, plotted.

        Parameters
        ----------
        estimator : fitted KernelRidgeCV or KernelRidgeClassifierCV
        sizes, n_repeats, random_state, groups
            As in ``estimator.learning_curve``.
        ax, **kwargs
            For `plot`.
        """
        check_fitted_estimator(estimator)
        curve = estimator.learning_curve(sizes, n_repeats, random_state, groups=groups)
        return cls(curve).plot(ax, **kwargs)

    def _draw(self, ax: Any, *, to: float = 2.0, **kwargs: Any) -> None:
        sizes, mean, std = self.curve.sizes, self.curve.errors.mean(axis=1), self.curve.std
        (self.line_,) = ax.plot(sizes, mean, **{"marker": "o", **kwargs})
        band(ax, sizes, mean - std, mean + std, self.line_)
        self.extended_ = None
        if sizes.size >= 4 and to > 1:
            more = self.curve.extrapolate(np.linspace(sizes[-1], to * sizes[-1], 30))
            style = {"linestyle": "--", "color": self.line_.get_color()}
            (self.extended_,) = ax.plot(more.sizes, more.error, **style)
            band(ax, more.sizes, more.low, more.high, self.line_, alpha=0.1)
        name = self.curve.scoring.removeprefix("neg_").replace("_", " ")
        error = name if self.curve.scoring.startswith("neg_") else f"1 − {name}"
        ax.set(xlabel=f"training {self.curve.unit}", ylabel=f"held-out {error}")
