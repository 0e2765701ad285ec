"""The interface of a smoother, on which the whole library stands.

Every model here is a penalised least-squares smoother ŷ = S(α) y. The problem is weighted, its
unpenalised columns are made orthonormal and taken out of features and targets, and the penalty is
made α times the identity. What is left has two forms: features (`FeatureSmoother`), and a kernel
matrix (`KernelSmoother`). Which of them a model has, whether it has a bias or weights, and whether
its rows are streamed or live on a cluster, is decided there and nowhere else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from dataclasses import dataclass
from threading import RLock
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np

from holdfast._typing import FloatArray, IntArray
from holdfast.core import residuals
from holdfast.core.data import WeightedData
from holdfast.core.experiments import Tasks
from holdfast.core.factor import Factor
from holdfast.core.lapack import shared_threads

Form = Literal["features", "kernel"]


class Fit(NamedTuple):
    """A model as coefficients, as users see them.

    Attributes
    ----------
    dual : ndarray of shape (n, v)
        Coefficients of the basis rows; of all rows for a dense or linear model.
    linear : ndarray of shape (d, v) or None
        Coefficients of the columns of X, where a linear kernel was fitted in these.
    unpenalised : ndarray of shape (s, v)
        Coefficients of the unpenalised columns.
    """

    dual: FloatArray
    linear: FloatArray | None
    unpenalised: FloatArray


class OtherBasis(NamedTuple):
    """Basis rows, and the absolute shift ε that belongs to them."""

    rows: IntArray
    epsilon: float


@dataclass(frozen=True)
class Sizes:
    """What a plan needs to know about a smoother.

    Attributes
    ----------
    form : {"features", "kernel"}
    m, p, v : int
        Rows, coordinates (rows again for a kernel matrix), targets.
    basis : int or None
        Number of basis rows.
    memory : float
        Bytes that the smoother may use.
    factorised : bool
        Whether the factor for every penalty has been computed.
    learned : bool
        Whether features depend on the training rows, so that each experiment has its own equations.
    summed : bool
        Whether the Gram matrix of each held-out set comes for little: from a pass over the rows
        that is still to come, or as a sum of those of a few atoms.
    """

    form: Form
    m: int
    p: int
    v: int
    basis: int | None
    memory: float = float("inf")
    factorised: bool = False
    summed: bool = False
    learned: bool = False

    @property
    def model(self) -> str:
        """What the model is made of, in words."""
        if self.form == "kernel":
            return "dense"
        return f"{self.p} features" if self.basis is None else f"{self.basis} basis rows"

    @property
    def streamed(self) -> bool:
        """Whether feature rows are computed again whenever they are needed, instead of kept."""
        return self.form == "features" and 8.0 * self.m * self.p > self.memory


class Outputs(ABC):
    """From new rows to v(x), shape (k, q): models are f(x) = v(x) · coefficients.

    Small, without the training rows that it does not need.
    """

    @property
    @abstractmethod
    def size(self) -> int:
        """The number q of coordinates."""

    @abstractmethod
    def __call__(self, X: Any) -> FloatArray:
        """Return v(x) of new rows, a fresh array (k, q)."""


class Smoother(ABC):
    """A penalised least-squares model ŷ = S(α) y on all rows, prepared once and asked many times.

    A smoother is a value. What it has computed it may keep, and gives away as values too: no array
    that anyone has seen is ever changed. A caller that needs a factor states the smallest penalty
    that it must serve.

    Parameters
    ----------
    data : WeightedData
    memory : float
        Bytes that it may use.
    """

    form: ClassVar[Form]
    #: Whether features depend on the training rows, so that the identity does not hold.
    learned: bool = False

    def __init__(self, data: WeightedData, memory: float) -> None:
        self.data, self.memory = data, memory
        self._lock = RLock()  # two threads that need the same factor make it once

    def __getstate__(self) -> dict[str, Any]:
        """Return everything but the lock."""
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._lock = RLock()

    # -- sizes -------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def order(self) -> int:
        """The size of the largest matrix that is factorised."""

    def own_threads(self) -> AbstractContextManager[None]:
        """Share the threads out by the size of the problem, for a `with` statement."""
        return shared_threads(self.order, float(len(self.data)) * self.order)

    @abstractmethod
    def sizes(self, tasks: Tasks) -> Sizes:
        """Return what a plan for these tasks needs to know."""

    @abstractmethod
    def refit_work(self, held: int) -> float:
        """Return how many operations it takes to refit one model without so many rows."""

    @abstractmethod
    def fit_work(self) -> float:
        """Return how many operations the fit takes."""

    # -- the model on all rows ---------------------------------------------------------------------

    @abstractmethod
    def factor(self, least: float) -> Factor:
        """Return the smoother for every penalty from `least` on."""

    @abstractmethod
    def factor_at(self, alpha: float) -> Factor:
        """Return the smoother at one penalty."""

    @abstractmethod
    def factors_for(self, alphas: FloatArray) -> list[tuple[float, IntArray, Factor]]:
        """Return (penalty, its targets, the factor) for each penalty, one for each target."""

    @abstractmethod
    def model(self, alphas: FloatArray) -> tuple[Outputs, FloatArray]:
        """Return outputs and coefficients (v, q) of the model on all rows, a penalty per target.

        Refitted from the rows where the factor would break the promise.
        """

    # -- models as coefficients --------------------------------------------------------------------

    @abstractmethod
    def outputs(self, factor: Factor) -> Outputs:
        """Return the map from new rows to v(x), for models in the coordinates of a factor."""

    @abstractmethod
    def coefficients(self, factor: Factor, betas: FloatArray, held: IntArray) -> FloatArray:
        """Return coefficients (b, v, q) of models β (b, v, p) without held-out rows (b, h)."""

    @abstractmethod
    def published(self, outputs: Outputs, coefficients: FloatArray, alphas: FloatArray) -> Fit:
        """Return coefficients (v, q) of one model as those of rows, or columns, and unpenalised."""

    def fit(self, alphas: FloatArray) -> Fit:
        """Return the coefficients of the model on all rows, with one penalty per target."""
        with self.own_threads():
            return self.published(*self.model(alphas), alphas)

    @abstractmethod
    def fitted_rows(self, factor: Factor, coefficients: FloatArray, rows: IntArray) -> FloatArray:
        """Return f (k, v) on rows of the data, for one model (v, q)."""

    @abstractmethod
    def fitted_squares(self, factor: Factor, coefficients: FloatArray) -> FloatArray:
        """Return Σ_i w_i f(x_i)² over the trained rows, for models (…, q)."""

    # -- the Gaussian view -------------------------------------------------------------------------

    @abstractmethod
    def posterior(self, rows: IntArray, alphas: FloatArray) -> FloatArray:
        """Return the covariance (a, t, t) of f on rows of the data, in units of the noise."""

    @abstractmethod
    def variances(self, X: Any, alphas: FloatArray) -> FloatArray:
        """Return the variance (k, a) of f on new rows, in units of the noise."""

    # -- models without some rows ------------------------------------------------------------------

    def held_out(
        self, factor: Factor, tasks: Tasks, alphas: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return predictions (a, k, v) by the identity, and their estimated errors (a, J)."""
        return residuals.held_out(factor, tasks, alphas)

    @abstractmethod
    def per_fold(
        self, tasks: Tasks, alphas: FloatArray, columns: slice
    ) -> tuple[FloatArray, FloatArray]:
        """Return the same at increasing penalties, each task from equations of its own."""

    @abstractmethod
    def refit(
        self,
        held: IntArray,
        removed: IntArray,
        test: IntArray,
        alphas: FloatArray,
        columns: slice = slice(None),
        basis: OtherBasis | None = None,
    ) -> FloatArray:
        """Return predictions (a, t, v) of the model that is refitted from scratch without rows.

        No hold-out identity, no removal algebra, no factor of all rows: the naive twin.

        Parameters
        ----------
        held, removed, test : ndarray of int
            Rows held out, positions in the basis that leave it, rows to predict.
        alphas : ndarray of shape (a,)
        columns : slice
            Which targets.
        basis : OtherBasis or None
            Other basis rows to train on, for a model of basis rows.
        """

    @abstractmethod
    def without(self, held: IntArray, removed: IntArray, basis: OtherBasis | None = None) -> Self:
        """Return the smoother of the same rows that trains on fewer, made from scratch.

        Row numbers stay what they are: held-out rows have no weight there, so they are predicted
        and never trained on.
        """

    @abstractmethod
    def on_remaining_rows(self, held: IntArray, removed: IntArray) -> Self | None:
        """Return the same, on rows or a matrix that are there; None where rows are not kept."""

    @abstractmethod
    def with_targets(self, Y: FloatArray) -> Self | None:
        """Return the smoother of the same rows with other targets Y (m, v), sharing all else.

        None where that is not possible.
        """


def by_penalty(alphas: FloatArray) -> list[tuple[float, IntArray]]:
    """Return each penalty with the targets that have it."""
    return [(alpha, np.flatnonzero(alphas == alpha)) for alpha in np.unique(alphas).tolist()]
