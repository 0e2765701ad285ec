"""The distribution of scores under permuted targets, with the score of the model."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from holdfast.displays._axes import check_fitted_estimator, new_axes
from holdfast.exceptions import InvalidInputError

__all__ = ["PermutationDisplay"]


class PermutationDisplay:
    """Scores of permuted targets as a histogram, the model's score as a line.

    It is recommended to use `from_estimator` or ``permutation_test(...).plot()``. All parameters
    are stored as attributes.

    Parameters
    ----------
    null_scores : array-like of shape (n,)
        Best score of each permutation.
    score : float
        Best score of the model.
    p_value : float
    score_name : str, default "score"

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    bars_ : matplotlib BarContainer
        The histogram.
    line_ : matplotlib Line2D
        The score of the model.
    """

    def __init__(
        self, *, null_scores: ArrayLike, score: float, p_value: float, score_name: str = "score"
    ) -> None:
        self.null_scores = np.asarray(null_scores, dtype=float)
        self.score, self.p_value, self.score_name = float(score), float(p_value), score_name
        if self.null_scores.ndim != 1:
            raise InvalidInputError(
                f"null_scores must be one-dimensional; got shape {self.null_scores.shape}."
            )

    @classmethod
    def from_result(cls, result: Any, *, target: int = 0) -> Self:
        """Return the display of what `permutation_test` returned, not yet plotted.

        Parameters
        ----------
        result : PermutationTest
        target : int, default 0
            Which of several targets that choose their own penalty.
        """
        null = np.asarray(result.null_scores)
        return cls(
            null_scores=null.reshape(len(null), -1)[:, target],
            score=np.atleast_1d(result.score)[target],
            p_value=np.atleast_1d(result.p_value)[target],
            score_name=result.scoring,
        )

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, target: int = 0, ax: Any = None, **kwargs: Any
    ) -> Self:
        """Return the display of a fitted estimator, plotted.

        Parameters
        ----------
        estimator : fitted KernelRidgeCV or KernelRidgeClassifierCV
        target : int, default 0
            Which of several targets that choose their own penalty.
        ax : matplotlib Axes, optional
            Where to plot; a new figure by default.
        **kwargs
            For `permutation_test`.
        """
        check_fitted_estimator(estimator)
        return cls.from_result(estimator.permutation_test(**kwargs), target=target).plot(ax)

    def plot(self, ax: Any = None, **kwargs: Any) -> Self:
        """Plot the histogram and the score.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to plot; a new figure by default.
        **kwargs
            For the histogram.

        Returns
        -------
        self
        """
        ax = new_axes(ax)
        label = f"{self.null_scores.size} permutations"
        _, _, self.bars_ = ax.hist(
            self.null_scores, **{"bins": "auto", "alpha": 0.7, "label": label, **kwargs}
        )
        self.line_ = ax.axvline(
            self.score, color="black", linestyle="--", label=f"the data, p = {self.p_value:.3g}"
        )
        ax.set(xlabel=self.score_name, ylabel="permutations")
        ax.legend()
        self.ax_, self.figure_ = ax, ax.figure
        return self
