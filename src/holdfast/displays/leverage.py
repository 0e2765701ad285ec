"""Leverage against the held-out error: which rows matter, which are hard."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from holdfast.displays._axes import check_fitted_estimator, new_axes
from holdfast.displays.row_data import row_results
from holdfast.exceptions import InvalidInputError

__all__ = ["LeverageDisplay"]


class LeverageDisplay:
    """The leverage of each row and its held-out error.

    It is recommended to use `from_estimator`. All parameters are stored as attributes.

    Parameters
    ----------
    leverage : array-like of shape (k,)
        How much the row's own target moves its fitted value, between 0 and 1.
    error : array-like of shape (k,)
        Truth minus held-out prediction; for a classifier the margin of the wrong class.
    rows : array-like of int, shape (k,), optional
        Row numbers, for the labels of the hardest.
    error_name : str, default "actual − held-out prediction"
        What `error` is.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    scatter_ : matplotlib PathCollection
        The rows.
    labels_ : list of matplotlib Annotation
        Numbers of the rows with the largest errors.
    """

    def __init__(
        self,
        *,
        leverage: ArrayLike,
        error: ArrayLike,
        rows: ArrayLike | None = None,
        error_name: str = "actual − held-out prediction",
    ) -> None:
        self.leverage = np.asarray(leverage, dtype=float)
        self.error = np.asarray(error, dtype=float)
        self.rows = np.arange(len(self.leverage)) if rows is None else np.asarray(rows)
        self.error_name = error_name
        if not self.leverage.shape == self.error.shape == self.rows.shape:
            raise InvalidInputError(
                "leverage, error and rows must have one length; got shapes "
                f"{self.leverage.shape}, {self.error.shape} and {self.rows.shape}."
            )

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        target: int = 0,
        n_labels: int = 5,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Return the display of a fitted estimator, plotted.

        Parameters
        ----------
        estimator : fitted KernelRidgeCV or KernelRidgeClassifierCV
        target : int, default 0
            Which of several targets.
        n_labels : int, default 5
            How many of the hardest rows to label.
        ax : matplotlib Axes, optional
            Where to plot; a new figure by default.
        **kwargs
            For the points.
        """
        check_fitted_estimator(estimator)
        alpha = np.atleast_1d(estimator.alpha_)
        results = row_results(estimator, target=target)
        classes = results.classes is not None
        display = cls(
            leverage=estimator._leverages(alpha[min(target, alpha.size - 1)])[results.rows],
            error=results.badness if classes else results.error,
            rows=results.rows,
            **({"error_name": "margin of the wrong class"} if classes else {}),
        )
        return display.plot(ax, n_labels=n_labels, **kwargs)

    def plot(self, ax: Any = None, *, n_labels: int = 5, **kwargs: Any) -> Self:
        """Plot the rows.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to plot; a new figure by default.
        n_labels : int, default 5
            How many of the hardest rows to label.
        **kwargs
            For the points.

        Returns
        -------
        self
        """
        ax = new_axes(ax)
        self.scatter_ = ax.scatter(self.leverage, self.error, **{"alpha": 0.6, "s": 14, **kwargs})
        ax.axhline(0, color="black", linewidth=1, linestyle="--")
        hardest = np.argsort(-np.abs(self.error), kind="stable")[:n_labels]
        self.labels_ = [
            ax.annotate(
                str(self.rows[i]),
                (self.leverage[i], self.error[i]),
                xytext=(4, 4),
                textcoords="offset points",
                fontsize="small",
            )
            for i in hardest
        ]
        ax.set(xlabel="leverage", ylabel=self.error_name)
        self.ax_, self.figure_ = ax, ax.figure
        return self
