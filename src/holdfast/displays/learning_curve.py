"""The held-out error over the number of training rows, and where it seems to go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from holdfast.displays._axes import check_fitted_estimator, new_axes

if TYPE_CHECKING:
    from holdfast.answers.learning import LearningCurve

__all__ = ["LearningCurveDisplay"]


class LearningCurveDisplay:
    """Error against the size of the training set, with the spread over draws.

    It is recommended to use `from_estimator`.

    Parameters
    ----------
    curve : LearningCurve
        From ``estimator.learning_curve``.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    line_ : matplotlib Line2D
        Mean errors.
    extended_ : matplotlib Line2D or None
        The power law beyond the largest size; the band holds 90 % of its bootstrap samples.
    """

    def __init__(self, *, curve: LearningCurve) -> None:
        self.curve = curve

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
        ax : matplotlib Axes, optional
            Where to plot; a new figure by default.
        **kwargs
            For the line.
        """
        check_fitted_estimator(estimator)
        curve = estimator.learning_curve(sizes, n_repeats, random_state, groups=groups)
        return cls(curve=curve).plot(ax, **kwargs)

    def plot(self, ax: Any = None, *, to: float = 2.0, **kwargs: Any) -> Self:
        """Plot the curve.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to plot; a new figure by default.
        to : float, default 2
            How many times the largest size to extend it to.
        **kwargs
            For the line.

        Returns
        -------
        self
        """
        ax = new_axes(ax)
        sizes, errors = self.curve.sizes, self.curve.errors
        mean, std = errors.mean(axis=1), self.curve.std
        (self.line_,) = ax.plot(sizes, mean, **{"marker": "o", **kwargs})
        color = self.line_.get_color()
        ax.fill_between(sizes, mean - std, mean + std, alpha=0.2, color=color, linewidth=0)
        self.extended_ = None
        if sizes.size >= 4 and to > 1:
            more = self.curve.extrapolate(np.linspace(sizes[-1], to * sizes[-1], 30))
            (self.extended_,) = ax.plot(more.sizes, more.error, linestyle="--", color=color)
            ax.fill_between(more.sizes, more.low, more.high, alpha=0.1, color=color, linewidth=0)
        ax.set(xlabel=f"training {self.curve.unit}", ylabel=f"error ({self.curve.scoring})")
        self.ax_, self.figure_ = ax, ax.figure
        return self
