"""What a smoother knows of its own digits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from holdfast._typing import FloatArray, IntArray
from holdfast.experiments import Ragged, Tasks
from holdfast.smoother.factor import Factor
from holdfast.smoother.measured import Measured

__all__ = ["KnownDigits"]


class KnownDigits(ABC):
    """The part of a smoother that `holdfast.holdout.digits` and the check of every fit ask.

    How large errors may be (promises), how large they are (measured on a few models), how much of
    the data some rows carry, and a second opinion on one model.
    """

    #: An experiment whose training rows carry less than this share of the trace is trained on them
    #: alone, instead of taking the held-out rows away from sums over all rows.
    least_share: ClassVar[float]

    #: Paths that make up for predictions that have lost their digits, the first that can.
    repairs: ClassVar[tuple[str, ...]] = ("spectral", "retrain")

    @property
    def additive(self) -> bool:
        """Whether sums over rows may be subtracted: the penalty is α times the identity exactly.

        Not so in coordinates that were chosen for their digits.
        """
        return True

    def promise(self, alphas: FloatArray) -> FloatArray:
        """Return the relative error (a,) that paths with a factor of all rows cannot go below.

        Zero where factors are chosen for their digits.
        """
        return np.zeros(alphas.size)

    def unlike_rows(self, alphas: FloatArray) -> FloatArray:
        """Return the errors (a,) that far-away rows may cost on every path; 0 without such rows."""
        return np.zeros(alphas.size)

    @property
    def spectrum_serves(self) -> bool:
        """Whether a factor for every penalty, of all rows or of a fold, leaves each its digits."""
        return True

    @abstractmethod
    def path_promise(self, path: str, alphas: FloatArray) -> FloatArray | None:
        """Return the errors (a,) that a path promises, beside the largest target or prediction.

        Nothing is factorised to tell: None where the factor that knows was not needed so far.
        """

    @property
    def largest_value(self) -> float:
        """The largest kernel value that rounding errors come from; 0 without a kernel."""
        return 0.0

    @property
    @abstractmethod
    def norms(self) -> FloatArray:
        """Approximate ‖W_i‖² of every row (m,), the unpenalised columns left out."""

    @abstractmethod
    def shift(self, held: IntArray) -> float:
        """Return ‖Q_HᵀW_H‖²: how much the unpenalised part changes when these rows leave."""

    def shifts(self, held: Ragged) -> FloatArray:
        """Return `shift` of each of some sets of rows."""
        return np.array([self.shift(held[j]) for j in range(len(held))])

    def measured(
        self,
        tasks: Tasks,
        alphas: FloatArray,
        values: FloatArray,
        columns: slice,
        factor: Factor | None = None,
    ) -> Measured | None:
        """Return how large errors of held-out predictions are, measured on some of them.

        None where factors are chosen for their digits. Relative to the largest prediction.

        Parameters
        ----------
        tasks : Tasks
        alphas : ndarray of shape (a,)
        values : ndarray of shape (a, k, v)
            The predictions, without the targets' level.
        columns : slice
            Which targets.
        factor : Factor or None
            What they were made with, if it was a factor of all rows.
        """
        return None

    @abstractmethod
    def likely_leverages(self, alpha: float) -> FloatArray:
        """Return leverages, or the length of rows where leverages would take more than a pass."""

    def refines_cheaply(self, factorised: int) -> bool:
        """Whether `refined` costs little beside this many factorisations for single experiments."""
        return True

    @abstractmethod
    def refined(
        self,
        held: IntArray,
        removed: IntArray,
        test: IntArray,
        alpha: float,
        columns: IntArray,
        size: float,
    ) -> FloatArray | None:
        """Return predictions (t, v) of the model without rows, from its optimality conditions.

        A second opinion on the fast paths, for little more than a pass over the rows
        (`holdfast.smoother.refined`).

        Parameters
        ----------
        held, removed, test : ndarray of int
            As in `retrain`.
        alpha : float
        columns : ndarray of int
            Which targets.
        size : float
            What counts as small is judged beside it.

        Returns
        -------
        ndarray or None
            NaN where it does not settle; None where rows are not kept.

        Raises
        ------
        LinAlgError
            If what is left is singular to the last digit.
        """
