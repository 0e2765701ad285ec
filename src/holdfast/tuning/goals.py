"""Which scores can be tuned for, what they are called, and when a change of one is small."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

__all__ = ["GOALS", "Goal"]


@dataclass(frozen=True)
class Goal:
    """A score with its sign turned round: the criterion that tuning minimises.

    Attributes
    ----------
    scoring : str
        The score's name in ``KernelRidgeCV``.
    words : str
        What the criterion is called.
    logarithmic : bool
        Whether the criterion is itself a logarithm: another unit of y shifts it, and shares of it
        mean nothing. Otherwise it is an error, and its shares count.
    weighted : bool
        Whether a row counts by its weight in the mean, or else each as one.
    of_law : bool
        Whether it scores the normal law of the held-out targets, not the predictions alone.
    """

    scoring: str
    words: str
    logarithmic: bool = False
    weighted: bool = True
    of_law: bool = False

    def descend(self, value: float) -> tuple[float, float]:
        """Return what a search descends on, and its derivative by the criterion.

        It does not depend on the unit of y, but for a constant: the logarithm of an error, or twice
        minus the log density, which is the logarithm of a variance where nothing else changes.
        """
        if self.logarithmic:
            return 2.0 * value, 2.0
        value = max(value, float(np.finfo(float).tiny))
        return float(np.log(value)), 1.0 / value

    def percent(self, value: float) -> float:
        """Return a rise of one per cent; of a log density, what 1 % more variance costs."""
        return 0.005 if self.logarithmic else 0.01 * value


#: What can be tuned for, by the name of the score.
GOALS: Mapping[str, Goal] = MappingProxyType(
    {
        goal.scoring: goal
        for goal in (
            Goal("neg_mean_squared_error", "mean squared error"),
            Goal("log_density", "minus log density", logarithmic=True, weighted=False, of_law=True),
            Goal("crps", "CRPS", of_law=True),
        )
    }
)
