"""Which groups are hard."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdfast._typing import FloatArray, IntArray
from holdfast.data.values import check_labels
from holdfast.displays.base import Display, check_fitted_estimator, held_out_of
from holdfast.exceptions import InvalidInputError

if TYPE_CHECKING:
    from holdfast.answers.held_out import HeldOutPredictions

__all__ = ["GroupScoresDisplay"]


@dataclass(eq=False, repr=False, kw_only=True)
class GroupScoresDisplay(Display):
    """The held-out error of each group, the hardest on top.

    Parameters
    ----------
    labels : sequence of str
        The groups.
    scores : array-like of shape (g,)
        Error of each.
    counts : array-like of int, shape (g,)
        Predictions in each.
    overall : float, optional
        Error of all predictions together.
    score_name : str, default "RMSE"
        What is shown.

    Other Parameters
    ----------------
    n_groups : int, default 30
        For `plot`: how many of the hardest groups to show.

    Attributes
    ----------
    bars_ : matplotlib BarContainer
        One bar per group shown.
    line_ : matplotlib Line2D or None
        The error of all together.
    """

    labels: Sequence[str]
    scores: FloatArray
    counts: IntArray
    overall: float | None = None
    score_name: str = "RMSE"

    @classmethod
    def from_result(
        cls, result: HeldOutPredictions, groups: NDArray[Any], *, target: int = 0
    ) -> Self:
        """Return the display of ``held_out`` at its first penalty, not yet plotted.

        Parameters
        ----------
        result : HeldOutPredictions
        groups : ndarray of shape (m,)
            Group of each row of the data.
        target : int, default 0
            Which of several targets.
        """
        rows = result.rows
        if result.classes is None:
            loss = (result.y[rows, target] - result.values[0, :, target]) ** 2
        else:
            loss = (result.y[rows] != result.labels()[0]).astype(float)
        return cls._of(loss, result.weights[rows], groups[rows], root=result.classes is None)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        groups: ArrayLike | None = None,
        target: int = 0,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Return the display of a fitted estimator, plotted.

        Parameters
        ----------
        estimator : fitted KernelRidgeCV or KernelRidgeClassifierCV
        groups : array-like of shape (m,), optional
            Group of each training row; by default the groups of `fit`. They only sort the
            predictions: what was held out is up to the estimator's cv.
        target : int, default 0
            Which of several targets.
        ax, **kwargs
            For `plot`.
        """
        check_fitted_estimator(estimator)
        training = estimator._training
        labels = training.groups if groups is None else groups
        if labels is None:
            raise InvalidInputError(
                "the estimator was fitted without groups: pass groups, one label per training row.",
                argument="groups",
            )
        labels = check_labels("groups", labels, training.weights.size)
        found = held_out_of(estimator, target)
        return cls.from_result(found, labels, target=target).plot(ax, **kwargs)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_pred: ArrayLike,
        groups: ArrayLike,
        *,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Return the display of given predictions of numbers, plotted; see `from_estimator`."""
        loss = (np.asarray(y_true, dtype=float) - np.asarray(y_pred, dtype=float)) ** 2
        return cls._of(loss, np.ones(loss.size), np.asarray(groups), root=True).plot(ax, **kwargs)

    @classmethod
    def _of(cls, loss: FloatArray, weights: FloatArray, groups: Any, *, root: bool) -> Self:
        """Return the display of weighted mean losses, or of their roots, the largest first."""
        labels, code, counts = np.unique(groups, return_inverse=True, return_counts=True)
        total = np.bincount(code, weights)
        seen = np.flatnonzero(total > 0)
        power = 0.5 if root else 1.0
        scores = (np.bincount(code, weights * loss)[seen] / total[seen]) ** power
        order = np.argsort(-scores, kind="stable")
        return cls(
            labels=[str(label) for label in labels[seen[order]]],
            scores=scores[order],
            counts=counts[seen[order]],
            overall=float(weights @ loss / weights.sum()) ** power,
            score_name="RMSE" if root else "share of errors",
        )

    def _draw(self, ax: Any, *, n_groups: int = 30, **kwargs: Any) -> None:
        scores = np.asarray(self.scores)
        order = np.argsort(-scores, kind="stable")[:n_groups]
        self.bars_ = ax.barh(np.arange(order.size), scores[order], **kwargs)
        # "$" would start a formula.
        ax.set_yticks(np.arange(order.size), [self.labels[i].replace("$", r"\$") for i in order])
        ax.invert_yaxis()
        self.line_ = None
        if self.overall is not None:
            style = {"linestyle": "--", "color": "black", "linewidth": 1}
            self.line_ = ax.axvline(self.overall, label="all together", **style)
            ax.legend(loc="lower right")
        ax.set(xlabel=self.score_name)
