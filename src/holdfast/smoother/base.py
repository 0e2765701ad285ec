"""The interface of a smoother, on which the whole library stands."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from threading import RLock
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from holdfast._typing import FloatArray, IntArray
from holdfast.experiments import Shape, Tasks
from holdfast.smoother.factor import Factor
from holdfast.smoother.held import Held
from holdfast.smoother.outputs import Outputs
from holdfast.smoother.scale import RowScale, Targets, Unpenalised
from holdfast.smoother.source import Identity

__all__ = ["Fit", "Form", "OtherBasis", "Sizes", "Smoother"]

Form = Literal["features", "kernel"]


class Fit(NamedTuple):
    """The model on all rows.

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

    def times(self, unit: float) -> Fit:
        """Return the model of targets in another unit."""
        if unit == 1.0:
            return self
        linear = None if self.linear is None else self.linear * unit
        return Fit(self.dual * unit, linear, self.unpenalised * unit)


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


class OtherBasis(NamedTuple):
    """Basis rows, and the absolute shift ε that belongs to them."""

    rows: IntArray
    epsilon: float


class Smoother(ABC):
    """A penalised least-squares model ŷ = S(α) y on all rows, prepared once and asked many times.

    The problem is weighted, its unpenalised columns are made orthonormal and taken out of features
    and targets, and the penalty is made α times the identity. What is left has two forms, features
    (`FeatureSmoother`) and a kernel matrix (`KernelSmoother`).

    A smoother is a value. What it has computed it may keep, and gives away as values too: no array
    that anyone has seen is ever changed. A caller that needs a factor states the smallest penalty
    that it must serve.

    Parameters
    ----------
    weights : ndarray of shape (m,)
    Y : ndarray of shape (m, v)
        Targets as they are.
    unpenalised : Unpenalised
    memory : float
        Bytes that it may use.

    Notes
    -----
    Predictions of `run`, `by_fold` and `retrain` lack the part of the targets along the
    unpenalised columns; `restore` puts it back, once, at the end.
    """

    form: ClassVar[Form]

    #: Paths that train a set again where another has lost accuracy, the first that is affordable.
    repairs: ClassVar[tuple[str, ...]] = ("retrain",)

    def __init__(
        self, weights: FloatArray, Y: FloatArray, unpenalised: Unpenalised, memory: float
    ) -> None:
        self.weights, self.unpenalised, self.memory = weights, unpenalised, memory
        self.scale = RowScale.of(weights)
        self.targets = Targets.of(Y, self.scale, unpenalised)
        self._lock = RLock()  # two threads that need the same factor make it once

    def __getstate__(self) -> dict[str, Any]:
        """Return everything but the lock."""
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._lock = RLock()

    # -- sizes -------------------------------------------------------------------------------------

    @property
    def learned(self) -> bool:
        """Whether features depend on the training rows, so that the identity does not hold."""
        return False

    @property
    @abstractmethod
    def n_basis(self) -> int | None:
        """The number of basis rows; None where every row is one, or none is."""

    @property
    def order(self) -> int:
        """The size of the largest matrix that is factorised."""
        return int(self.weights.size)

    @abstractmethod
    def sizes(self, tasks: Tasks) -> Sizes:
        """Return what a plan for these tasks needs to know."""

    @abstractmethod
    def training_work(self, held: int) -> float:
        """Return how many operations it takes to train one model without so many rows."""

    @abstractmethod
    def single_work(self) -> float:
        """Return how many operations the factor at one penalty takes."""

    @abstractmethod
    def fit_work(self) -> float:
        """Return how many operations the model on all rows takes."""

    # -- factors -----------------------------------------------------------------------------------

    @abstractmethod
    def factor(self, least: float) -> Factor:
        """Return the smoother for every penalty from `least` on."""

    @abstractmethod
    def single(self, alpha: float) -> Factor:
        """Return the smoother at one penalty."""

    @abstractmethod
    def factor_for(self, alphas: FloatArray) -> list[tuple[float, IntArray, Factor]]:
        """Return (penalty, its targets, the factor) for each penalty, one for each target."""

    # -- models as coefficients --------------------------------------------------------------------

    @abstractmethod
    def coordinates(self, alphas: FloatArray) -> Factor | None:
        """Return the factor in whose coordinates `model` gives coefficients; None if in any."""

    @abstractmethod
    def fit(self, alphas: FloatArray) -> Fit:
        """Return the model on all rows, with one penalty per target, in units of the targets."""

    @abstractmethod
    def outputs(self, factor: Factor | None) -> Outputs:
        """Return the map from new rows to v(x): models of a factor are f(x) = v(x)·coefficients."""

    @abstractmethod
    def model(self, factor: Factor | None, alphas: FloatArray) -> FloatArray:
        """Return the coefficients (v, q) of the model on all rows, one penalty per target."""

    @abstractmethod
    def held_models(self, factor: Factor, shape: Shape, held: Held, r: FloatArray) -> FloatArray:
        """Return the coefficients (b, v, q) of the models with held-out residuals r (1, b, h, v).

        Like predictions they lack the targets' level, which `with_level` adds.
        """

    def with_level(
        self, coefficients: FloatArray, columns: slice | IntArray = slice(None)
    ) -> FloatArray:
        """Add the targets' part along the unpenalised columns to (…, v, q), in place."""
        s = self.unpenalised.count
        if s:
            coefficients[..., -s:] += self.targets.level[:, columns].T
        return coefficients

    @abstractmethod
    def published(self, factor: Factor | None, coefficients: FloatArray, alphas: FloatArray) -> Fit:
        """Return coefficients (v, q) of one model as those of rows, or columns, and unpenalised."""

    @abstractmethod
    def fitted_rows(
        self, factor: Factor | None, coefficients: FloatArray, rows: IntArray
    ) -> FloatArray:
        """Return f (k, v) on rows of the data, for one model (v, q)."""

    @abstractmethod
    def fitted_squares(self, factor: Factor | None, coefficients: FloatArray) -> FloatArray:
        """Return Σ_i w_i f(x_i)² over the trained rows, for models (…, q)."""

    # -- the Gaussian view -------------------------------------------------------------------------

    @abstractmethod
    def leverages(self, alpha: float) -> FloatArray:
        """Return S_ii of every row (m,); 0 for rows that are not trained on."""

    @abstractmethod
    def posterior(self, rows: IntArray, alphas: FloatArray) -> FloatArray:
        """Return the covariance (a, t, t) of f on rows of the data, in units of the noise."""

    @abstractmethod
    def variances(self, X: Any, alphas: FloatArray) -> FloatArray:
        """Return the variance (k, a) of f on new rows, in units of the noise."""

    @abstractmethod
    def distances(self, tasks: Tasks) -> FloatArray:
        """Return about how far each row (m,) lies from the mean, squared, in the features.

        The tasks are those to come: one pass over the rows serves them as well.
        """

    @abstractmethod
    def floor(self, rows: IntArray, alphas: FloatArray) -> FloatArray:
        """Return how far rounding the kernel values moves predictions, over the spread of y.

        The data floor of `holdfast.holdout.accuracy` at each penalty (a,), the largest over some
        rows and all targets.
        """

    # -- models without some rows ------------------------------------------------------------------

    def run(
        self, work: Identity, factor: Factor, tasks: Tasks, alphas: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return ``work(factor, tasks, alphas)``, computed where the rows are."""
        return work(factor, tasks, alphas)  # type: ignore[arg-type]

    def rotated(self) -> Smoother | None:
        """Return the smoother in coordinates in which its Gram matrix is nearly diagonal.

        There the equations of experiments lose less; None where they have no coordinates.
        """
        return None

    @abstractmethod
    def by_fold(
        self, solve: Callable[..., Any], tasks: Tasks, alphas: FloatArray, columns: slice
    ) -> tuple[FloatArray, FloatArray]:
        """Return predictions (a, k, v), each task from equations of its own, and errors (a, J).

        Errors are those of the algebra, over the yardstick of the targets.
        """

    @abstractmethod
    def retrain(
        self,
        held: IntArray,
        removed: IntArray,
        test: IntArray,
        alphas: FloatArray,
        columns: slice,
        basis: OtherBasis | None = None,
    ) -> FloatArray:
        """Return predictions (a, t, v) of the model that is trained from scratch without rows.

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
    def without(
        self, held: IntArray, removed: IntArray, basis: OtherBasis | None = None
    ) -> Smoother:
        """Return the smoother of the same rows that trains on fewer, from scratch.

        Row numbers stay what they are: held-out rows have no weight there, so they are predicted
        and never trained on. Its targets lack the part along the unpenalised columns that `restore`
        puts back.
        """

    @abstractmethod
    def remaining(self, held: IntArray, removed: IntArray) -> Smoother | None:
        """Return the same with the targets as they were given, on rows or a matrix that are there.

        None where rows are not kept.
        """

    @abstractmethod
    def retargeted(self, Y: FloatArray) -> Smoother | None:
        """Return the smoother of the same rows with other targets Y (m, v), sharing all else.

        None where that is not possible.
        """

    def _retrained(self, held: IntArray) -> tuple[FloatArray, Unpenalised]:
        """Return weights that are zero for held-out rows, and the unpenalised columns with them."""
        weights = self.weights.copy()
        weights[held] = 0.0
        return weights, self.unpenalised.retrained(weights)

    def count(self, columns: slice) -> int:
        """Return how many targets these columns are."""
        return int(self.targets.Ys[:1, columns].shape[1])

    def original_targets(self) -> FloatArray:
        """Return the targets as they were given, shape (m, v)."""
        level = self.unpenalised.level(slice(None), self.targets.level)
        return np.asarray((self.targets.Y + level) * self.targets.unit)

    def restore(self, values: FloatArray, rows: IntArray, columns: slice | IntArray) -> FloatArray:
        """Add the targets' part along the unpenalised columns to values (a, k, v), in place."""
        if self.unpenalised.count:
            values += self.unpenalised.level(rows, self.targets.level)[..., columns]
        if self.targets.unit != 1.0:
            values *= self.targets.unit
        return values
