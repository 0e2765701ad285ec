"""Which groups are hard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from holdfast.displays._axes import check_fitted_estimator, new_axes
from holdfast.displays.row_data import RowResults, part_scores, row_results
from holdfast.exceptions import InvalidInputError

__all__ = ["GroupScoresDisplay"]


class GroupScoresDisplay:
    """The held-out error of each group, the hardest on top.

    It is recommended to use `from_estimator` or `from_predictions`. All parameters are stored as
    attributes.

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

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    bars_ : matplotlib BarContainer
        One bar per group shown.
    line_ : matplotlib Line2D or None
        The error of all together.
    """

    def __init__(
        self,
        *,
        labels: Sequence[str],
        scores: ArrayLike,
        counts: ArrayLike,
        overall: float | None = None,
        score_name: str = "RMSE",
    ) -> None:
        self.labels = list(labels)
        self.scores = np.asarray(scores, dtype=float)
        self.counts = np.asarray(counts)
        self.overall = overall
        self.score_name = score_name

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        groups: ArrayLike | None = None,
        target: int = 0,
        n_groups: int = 30,
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
        n_groups : int, default 30
            How many of the hardest groups to show.
        ax : matplotlib Axes, optional
            Where to plot; a new figure by default.
        **kwargs
            For the bars.
        """
        check_fitted_estimator(estimator)
        labels = estimator._problem.groups if groups is None else np.asarray(groups)
        if labels is None:
            raise InvalidInputError(
                "the estimator was fitted without groups: pass groups, one label per training row."
            )
        results = row_results(estimator, target=target)
        if labels.shape != (estimator._problem.weights.size,):
            raise InvalidInputError(
                f"groups must hold one label per training row, shape "
                f"({estimator._problem.weights.size},); got shape {labels.shape}."
            )
        return cls._of(results, labels[results.rows]).plot(ax, n_groups=n_groups, **kwargs)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_pred: ArrayLike,
        groups: ArrayLike,
        *,
        n_groups: int = 30,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Return the display of given predictions of numbers, plotted; see `from_estimator`."""
        y, p = np.asarray(y_true, dtype=float), np.asarray(y_pred, dtype=float)
        rows = np.arange(len(y))
        results = RowResults(rows, rows, y, p, y - p, np.abs(y - p), y, np.ones(len(y)), None)
        return cls._of(results, np.asarray(groups)).plot(ax, n_groups=n_groups, **kwargs)

    @classmethod
    def _of(cls, results: RowResults, labels: Any) -> Self:
        parts = part_scores(results, labels)
        return cls(
            labels=[part.label for part in parts],
            scores=[part.score for part in parts],
            counts=[part.count for part in parts],
            overall=results.score(),
            score_name=results.label,
        )

    def plot(self, ax: Any = None, *, n_groups: int = 30, **kwargs: Any) -> Self:
        """Plot the groups.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to plot; a new figure by default.
        n_groups : int, default 30
            How many of the hardest groups to show.
        **kwargs
            For the bars.

        Returns
        -------
        self
        """
        ax = new_axes(ax)
        order = np.argsort(-self.scores, kind="stable")[:n_groups]
        places = np.arange(len(order))
        self.bars_ = ax.barh(places, self.scores[order], **kwargs)
        # "$" would start a formula.
        names = [self.labels[i].replace("$", r"\$") for i in order]
        ax.set_yticks(places, names)
        ax.invert_yaxis()
        self.line_ = None
        if self.overall is not None:
            self.line_ = ax.axvline(
                self.overall, linestyle="--", color="black", linewidth=1, label="all together"
            )
            ax.legend(loc="lower right")
        ax.set(xlabel=self.score_name)
        self.ax_, self.figure_ = ax, ax.figure
        return self
