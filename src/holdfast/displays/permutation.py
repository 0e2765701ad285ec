"""The distribution of scores under permuted targets, with the score of the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from holdfast.displays.base import Display, check_fitted_estimator

if TYPE_CHECKING:
    from holdfast.answers.permutation import PermutationTest

__all__ = ["PermutationDisplay"]


@dataclass(eq=False, repr=False)
class PermutationDisplay(Display):
    """Scores of permuted targets as a histogram, the model's score as a line.

    Parameters
    ----------
    result : PermutationTest
        From ``estimator.permutation_test``.
    target : int, default 0
        Which of several targets that choose their own penalty.

    Attributes
    ----------
    bars_ : matplotlib BarContainer
        The histogram.
    line_ : matplotlib Line2D
        The score of the model.
    """

    result: PermutationTest
    target: int = 0

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
        return cls(estimator.permutation_test(**kwargs), target).plot(ax)

    def _draw(self, ax: Any, **kwargs: Any) -> None:
        found, n = self.result, len(self.result.null_scores)
        null = np.reshape(found.null_scores, (n, -1))[:, self.target]
        score, p = (np.atleast_1d(each)[self.target] for each in (found.score, found.p_value))
        style = {"bins": "auto", "alpha": 0.7, "label": f"{n} permutations", **kwargs}
        _, _, self.bars_ = ax.hist(null, **style)
        dashed = {"color": "black", "linestyle": "--"}
        self.line_ = ax.axvline(score, label=f"the data, p = {p:.3g}", **dashed)
        ax.set(xlabel=found.scoring, ylabel="permutations")
        ax.legend()
