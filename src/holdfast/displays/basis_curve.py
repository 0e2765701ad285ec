"""Held-out basis rows kept and removed, side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from holdfast.displays._axes import check_fitted_estimator, new_axes
from holdfast.displays.curve_data import policy_curves
from holdfast.exceptions import NotSupportedError

if TYPE_CHECKING:
    from holdfast.experiments import Policy

__all__ = ["BasisCurveDisplay"]


class BasisCurveDisplay:
    """The curve over the penalties for each policy of held-out basis rows.

    It is recommended to use `from_estimator`. All parameters are stored as attributes.

    Parameters
    ----------
    alphas : array-like of shape (a,)
        Penalties.
    values : mapping of str to array-like of shape (a,)
        Error or score by policy.
    score_name : str, default "score"
        What is shown.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    lines_ : dict of str to matplotlib Line2D
        The curves by policy.
    """

    def __init__(
        self, *, alphas: ArrayLike, values: Mapping[str, ArrayLike], score_name: str = "score"
    ) -> None:
        self.alphas = np.asarray(alphas, dtype=float)
        self.values = {name: np.asarray(v, dtype=float) for name, v in values.items()}
        self.score_name = score_name

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        policies: tuple[Policy, ...] = ("keep", "remove"),
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Return the display of a fitted estimator with basis rows, plotted.

        Parameters
        ----------
        estimator : fitted KernelRidgeCV or KernelRidgeClassifierCV
        policies : tuple of str, default ("keep", "remove")
            Which policies to compare; see ``held_out_basis``. Nothing is refitted.
        ax : matplotlib Axes, optional
            Where to plot; a new figure by default.
        **kwargs
            For the lines.
        """
        check_fitted_estimator(estimator)
        if not estimator._problem.on_basis:
            raise NotSupportedError(
                "a dense model has no basis rows to keep or remove: fit with basis=..."
            )
        curves = policy_curves(estimator, policies)
        first = next(iter(curves.values()))
        display = cls(
            alphas=first.alphas,
            values={name: curve.values for name, curve in curves.items()},
            score_name=first.scale.label,
        )
        return display.plot(ax, **kwargs)

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
        styles = {"keep": "--", "remove": "-", "train": ":", "skip": "-."}
        self.lines_ = {}
        for name, values in self.values.items():
            style = {"linestyle": styles.get(name, "-"), "marker": ".", "label": name, **kwargs}
            (self.lines_[name],) = ax.plot(self.alphas, values, **style)
        ax.set(xscale="log", xlabel="penalty λ (alpha)", ylabel=self.score_name)
        ax.legend(title="held-out basis rows")
        self.ax_, self.figure_ = ax, ax.figure
        return self
