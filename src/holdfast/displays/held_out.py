"""Held-out predictions against the truth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from holdfast._typing import FloatArray
from holdfast.data.values import check_choice
from holdfast.displays.base import Display, held_out_of
from holdfast.exceptions import InvalidInputError, NotSupportedError

if TYPE_CHECKING:
    from holdfast.answers.held_out import HeldOutPredictions

__all__ = ["HeldOutDisplay"]


@dataclass(eq=False, repr=False, kw_only=True)
class HeldOutDisplay(Display):
    """Predictions of models that never saw the row, against the truth.

    Like `sklearn.metrics.PredictionErrorDisplay`, without refitting.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (k,)
        Truth and held-out prediction.

    Other Parameters
    ----------------
    kind : {"actual_vs_predicted", "residual_vs_predicted"}
        For `plot`: what to show.

    Attributes
    ----------
    scatter_ : matplotlib PathCollection
        The rows.
    line_ : matplotlib Line2D
        Where prediction and truth agree.
    """

    y_true: FloatArray
    y_pred: FloatArray

    def __post_init__(self) -> None:
        self.y_true, self.y_pred = np.asarray(self.y_true, float), np.asarray(self.y_pred, float)
        if self.y_true.shape != self.y_pred.shape or self.y_true.ndim != 1:
            raise InvalidInputError(
                "y_true and y_pred must be one-dimensional and of one length; got shapes "
                f"{self.y_true.shape} and {self.y_pred.shape}.",
                argument="y_true",
            )

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        cv: Any = None,
        groups: ArrayLike | None = None,
        target: int = 0,
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
        ax, **kwargs
            For `plot`.
        """
        found = held_out_of(estimator, target, cv, groups)
        if found.classes is not None:
            raise NotSupportedError(
                f"{cls.__name__} shows numbers; the predictions of a classifier are classes. Use "
                "sklearn.metrics.ConfusionMatrixDisplay.from_predictions with "
                "estimator.held_out(alphas=estimator.alpha_).labels()[0]."
            )
        return cls.from_result(found, target=target).plot(ax, **kwargs)

    @classmethod
    def from_result(cls, result: HeldOutPredictions, *, target: int = 0) -> Self:
        """Return the display of ``held_out`` at its first penalty, not yet plotted.

        Parameters
        ----------
        result : HeldOutPredictions
        target : int, default 0
            Which of several targets.
        """
        return cls(y_true=result.y[result.rows, target], y_pred=result.values[0, :, target])

    @classmethod
    def from_predictions(
        cls, y_true: ArrayLike, y_pred: ArrayLike, *, ax: Any = None, **kwargs: Any
    ) -> Self:
        """Return the display of given predictions, plotted; see `from_estimator`."""
        return cls(y_true=np.asarray(y_true), y_pred=np.asarray(y_pred)).plot(ax, **kwargs)

    def _draw(self, ax: Any, *, kind: str = "actual_vs_predicted", **kwargs: Any) -> None:
        check_choice("kind", kind, ("actual_vs_predicted", "residual_vs_predicted"))
        style = {"alpha": 0.6, "s": 14, **kwargs}
        if kind == "actual_vs_predicted":
            self.scatter_ = ax.scatter(self.y_true, self.y_pred, **style)
            both = np.concatenate([self.y_true, self.y_pred])
            x = y = (both.min(), both.max())
            ax.set(xlabel="actual", ylabel="held-out prediction")
            ax.set_aspect("equal", adjustable="datalim")
        else:
            self.scatter_ = ax.scatter(self.y_pred, self.y_true - self.y_pred, **style)
            x, y = (self.y_pred.min(), self.y_pred.max()), (0, 0)
            ax.set(xlabel="held-out prediction", ylabel="actual − prediction")
        (self.line_,) = ax.plot(x, y, "--", color="black", linewidth=1)
