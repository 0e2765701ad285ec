"""Held-out predictions against the truth, and their calibration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from holdfast._typing import FloatArray
from holdfast.data.numbers import check_choice
from holdfast.displays.base import Display, held_out_of
from holdfast.exceptions import InvalidInputError, NotSupportedError

if TYPE_CHECKING:
    from holdfast.answers.held_out import HeldOutPredictions

__all__ = ["HeldOutDisplay", "PITDisplay"]


class _OfHeldOut(Display):
    """A display of the held-out predictions of numbers."""

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


@dataclass(eq=False, repr=False, kw_only=True)
class HeldOutDisplay(_OfHeldOut):
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


@dataclass(eq=False, repr=False, kw_only=True)
class PITDisplay(_OfHeldOut):
    """Histogram of Φ((y − prediction)/std) of held-out rows: flat if the distributions are right.

    A hump says that the predicted distributions are too wide, a bowl that they are too narrow, a
    slope that they are biased (Dawid 1984; Gneiting, Balabdaoui & Raftery 2007).

    Parameters
    ----------
    pit : array-like of shape (k,)
        Values between 0 and 1.

    Other Parameters
    ----------------
    bins : int, default 10
        For `plot`: number of bars.

    Attributes
    ----------
    bars_ : matplotlib BarContainer
    expected_ : matplotlib Line2D
        What right distributions give; the band holds 95 % of the bars of independent rows.
    """

    pit: ArrayLike

    @classmethod
    def from_result(cls, result: HeldOutPredictions, *, target: int = 0) -> Self:
        """Return the display of ``held_out`` at its first penalty, not yet plotted."""
        return cls(pit=result.pit()[0, :, target])

    def _draw(self, ax: Any, *, bins: int = 10, **kwargs: Any) -> None:
        style = {"alpha": 0.6, "edgecolor": "white", **kwargs}
        _, _, self.bars_ = ax.hist(self.pit, bins=bins, range=(0, 1), **style)
        height = np.size(self.pit) / bins
        spread = 1.96 * np.sqrt(height * (1 - 1 / bins))
        self.expected_ = ax.axhline(height, color="black", linewidth=1, linestyle="--")
        ax.axhspan(max(0.0, height - spread), height + spread, color="black", alpha=0.1)
        ax.set(xlabel="predicted probability of a smaller target", ylabel="rows", xlim=(0, 1))
