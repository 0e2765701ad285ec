"""Held-out predictions against the truth."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from holdfast.displays._axes import check_fitted_estimator, new_axes, refuse_classifier
from holdfast.displays.row_data import row_results
from holdfast.exceptions import InvalidInputError

__all__ = ["HeldOutDisplay"]

KINDS = ("actual_vs_predicted", "residual_vs_predicted")


class HeldOutDisplay:
    """Predictions of models that never saw the row, against the truth.

    It is recommended to use `from_estimator` or `from_predictions`. All parameters are stored as
    attributes. The cousin of `sklearn.metrics.PredictionErrorDisplay`, without refitting.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (k,)
        Truth and held-out prediction.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    scatter_ : matplotlib PathCollection
        The rows.
    line_ : matplotlib Line2D
        Where prediction and truth agree.
    """

    def __init__(self, *, y_true: ArrayLike, y_pred: ArrayLike) -> None:
        self.y_true = np.asarray(y_true, dtype=float)
        self.y_pred = np.asarray(y_pred, dtype=float)
        if self.y_true.shape != self.y_pred.shape or self.y_true.ndim != 1:
            raise InvalidInputError(
                "y_true and y_pred must be one-dimensional and of one length; got shapes "
                f"{self.y_true.shape} and {self.y_pred.shape}."
            )

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        cv: Any = None,
        groups: ArrayLike | None = None,
        target: int = 0,
        kind: str = "actual_vs_predicted",
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Return the display of a fitted regressor, plotted.

        Parameters
        ----------
        estimator : fitted KernelRidgeCV
        cv, groups : optional
            Another way of holding out than that of `fit`, as in ``estimator.held_out``.
        target : int, default 0
            Which of several targets.
        kind : {"actual_vs_predicted", "residual_vs_predicted"}
            What to plot.
        ax : matplotlib Axes, optional
            Where to plot; a new figure by default.
        **kwargs
            For the points.
        """
        check_fitted_estimator(estimator)
        refuse_classifier(estimator, cls.__name__)
        found = None
        if cv is not None:
            alpha = np.atleast_1d(estimator.alpha_)
            found = estimator.held_out(cv, groups, alphas=[alpha[min(target, alpha.size - 1)]])
        rows = row_results(estimator, found, target)
        return cls.from_predictions(rows.y, rows.prediction, kind=kind, ax=ax, **kwargs)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_pred: ArrayLike,
        *,
        kind: str = "actual_vs_predicted",
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Return the display of given predictions, plotted; see `from_estimator`."""
        return cls(y_true=y_true, y_pred=y_pred).plot(ax, kind=kind, **kwargs)

    def plot(self, ax: Any = None, *, kind: str = "actual_vs_predicted", **kwargs: Any) -> Self:
        """Plot the predictions.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to plot; a new figure by default.
        kind : {"actual_vs_predicted", "residual_vs_predicted"}
            What to plot.
        **kwargs
            For the points.

        Returns
        -------
        self
        """
        if kind not in KINDS:
            raise InvalidInputError(f"kind must be one of {', '.join(KINDS)}; got {kind!r}.")
        ax = new_axes(ax)
        style = {"alpha": 0.6, "s": 14, **kwargs}
        if kind == "actual_vs_predicted":
            self.scatter_ = ax.scatter(self.y_true, self.y_pred, **style)
            ends = (
                min(self.y_true.min(), self.y_pred.min()),
                max(self.y_true.max(), self.y_pred.max()),
            )
            (self.line_,) = ax.plot(ends, ends, "--", color="black", linewidth=1)
            ax.set(xlabel="actual", ylabel="held-out prediction")
            ax.set_aspect("equal", adjustable="datalim")
        else:
            self.scatter_ = ax.scatter(self.y_pred, self.y_true - self.y_pred, **style)
            ends = (self.y_pred.min(), self.y_pred.max())
            (self.line_,) = ax.plot(ends, (0, 0), "--", color="black", linewidth=1)
            ax.set(xlabel="held-out prediction", ylabel="actual − prediction")
        self.ax_, self.figure_ = ax, ax.figure
        return self
