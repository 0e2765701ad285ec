"""The interface of a smoother, on which the whole library stands."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from threading import RLock
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from holdfast._typing import BoolArray, FloatArray, IntArray
from holdfast.experiments import Ragged, Tasks
from holdfast.linalg import run_pieces
from holdfast.smoother.as_coefficients import AsCoefficients, Fit
from holdfast.smoother.equations import Equations
from holdfast.smoother.factor import Factor
from holdfast.smoother.known_digits import KnownDigits
from holdfast.smoother.scale import RowScale, Targets, Unpenalised

__all__ = ["Fit", "Form", "OtherBasis", "Sizes", "Smoother"]

Form = Literal["features", "kernel"]


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
    summed : bool
        Whether the Gram matrix of each held-out set comes for little: from a pass over the rows
        that is still to come, or as a sum of those of a few atoms.
    spectrum : bool
        Whether a factor for every penalty leaves each row its digits.
    """

    form: Form
    m: int
    p: int
    v: int
    basis: int | None
    memory: float = float("inf")
    factorised: bool = False
    summed: bool = False
    spectrum: bool = True

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


class Smoother(KnownDigits, AsCoefficients):
    """A penalised least-squares model ŷ = S(α) y on all rows, prepared once and asked many times.

    The problem is weighted, its unpenalised columns are made orthonormal and taken out of features
    and targets, and the penalty is made α times the identity. What is left has two forms, features
    (`FeatureSmoother`) and a kernel matrix (`KernelSmoother`); `holdfast.cluster` has the first on
    rows that live elsewhere. All three are final.

    Here stands what a fit needs: the factor of all rows, equations of folds, training from scratch.
    What a smoother says of its digits is inherited from `KnownDigits`, and models as coefficients,
    which the answers ask for, from `AsCoefficients`.

    Parameters
    ----------
    weights : ndarray of shape (m,)
    Y : ndarray of shape (m, v)
        Targets as they are.
    unpenalised : Unpenalised

    Attributes
    ----------
    lock : RLock
        Held by whoever asks for predictions: rows must not be rotated while others read them.

    Notes
    -----
    Predictions of `run`, `by_fold` and `retrain` lack the part of the targets along the
    unpenalised columns; `restore` puts it back, once, at the end.
    """

    form: ClassVar[Form]

    def __init__(self, weights: FloatArray, Y: FloatArray, unpenalised: Unpenalised) -> None:
        self.weights, self.unpenalised = weights, unpenalised
        self.scale = RowScale.of(weights)
        self.targets = Targets.of(Y, self.scale, unpenalised)
        self.lock = RLock()

    # -- sizes -------------------------------------------------------------------------------------

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

    # -- the model on all rows ---------------------------------------------------------------------

    @abstractmethod
    def factor(self, alpha: float | None = None, least: float = inf) -> Factor:
        """Return the smoother for one penalty, or for every penalty (None), at least `least`."""

    @abstractmethod
    def fit(self, alphas: FloatArray) -> Fit:
        """Return the model on all rows, with one penalty per target, in units of the targets."""

    @abstractmethod
    def leverages(self, alpha: float) -> FloatArray:
        """Return S_ii of every row (m,); 0 for rows that are not trained on."""

    @abstractmethod
    def without(
        self, held: IntArray, removed: IntArray, basis: OtherBasis | None = None
    ) -> Smoother:
        """Return the smoother of the same rows that trains on fewer, from scratch.

        Its targets lack the part along the unpenalised columns that `restore` puts back.
        """

    # -- models without some rows ------------------------------------------------------------------

    #: Whether equations of folds are sums over sets of rows that are kept here, for any targets:
    #: only then ask for `sum_sets` and `equation_rows`.
    sums_sets: ClassVar[bool] = False

    def sum_sets(self, sets: Ragged) -> None:
        """Keep the Gram matrix and the products with the targets of each of some disjoint sets."""
        raise AssertionError("nothing is summed here: sums_sets is False")

    def equation_rows(self, rows: IntArray) -> FloatArray:
        """Return rows √w v(x) (k, p + s) in the coordinates of `equations`, unpenalised last."""
        raise AssertionError("nothing is summed here: sums_sets is False")

    def announce(self, tasks: Tasks) -> None:  # most have nothing to prepare
        """Announce tasks to be solved fold by fold, before the first pass over the rows."""

    def run(
        self,
        work: Callable[[Factor, Tasks, FloatArray], FloatArray],
        factor: Factor,
        tasks: Tasks,
        alphas: FloatArray,
    ) -> FloatArray:
        """Return ``work(factor, tasks, alphas)``, computed where the rows are."""
        return work(factor, tasks, alphas)

    def by_fold(
        self,
        solve: Callable[[Equations, FloatArray], FloatArray],
        tasks: Tasks,
        alphas: FloatArray,
        columns: slice,
        afresh: BoolArray,
    ) -> FloatArray:
        """Return predictions (alphas, test rows, targets), each task from equations of its own.

        Parameters
        ----------
        solve : callable
            From the equations of the training rows of a task to its models.
        tasks : Tasks
        alphas : ndarray of shape (a,)
        columns : slice
            Which targets.
        afresh : ndarray of bool, shape (len(tasks),)
            Which tasks sum their training rows directly, instead of subtracting the held-out rows
            from the sum of all rows.
        """
        v = self.targets.Ys[:1, columns].shape[1]
        predictions = np.empty((alphas.size, tasks.test.values.size, v))

        def work(j: int) -> None:
            equations = self.equations(tasks.held[j], tasks.removed[j], columns, bool(afresh[j]))
            models = solve(equations, alphas)
            where = slice(tasks.test.ptr[j], tasks.test.ptr[j + 1])
            predictions[:, where] = self.fitted(equations, models, tasks.test[j])

        together = self._ready_for_folds()
        run_pieces(work, range(len(tasks)), None if together else 1)
        return predictions

    @abstractmethod
    def _ready_for_folds(self) -> bool:
        """Prepare what all folds share; return whether running them side by side is faster."""

    @abstractmethod
    def equations(self, held: IntArray, removed: IntArray, columns: slice, afresh: bool) -> Any:
        """Return the normal equations of the rows that are not held out."""

    @abstractmethod
    def fitted(self, equations: Any, models: FloatArray, test: IntArray) -> FloatArray:
        """Return predictions (a, t, v) for rows by the models that solve some equations."""

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

    def _retrained(self, held: IntArray) -> tuple[FloatArray, Unpenalised]:
        """Return weights that are zero for held-out rows, and the unpenalised columns with them."""
        weights = self.weights.copy()
        weights[held] = 0.0
        return weights, self.unpenalised.retrained(weights)

    def count(self, columns: slice) -> int:
        """Return how many targets these columns are."""
        return int(self.targets.Ys[:1, columns].shape[1])

    def remaining(self, held: IntArray, removed: IntArray, anew: bool) -> Smoother | None:
        """Return the smoother of the rows that are left, as a smoother in its own right.

        Row numbers stay what they are: held-out rows have no weight there, so they are predicted
        and never trained on. Positions in the basis are those among the basis rows that are left.

        Parameters
        ----------
        held, removed : ndarray of int
            Rows held out, positions in the basis that leave it.
        anew : bool
            Whether the basis rows that are left are whitened by themselves.

        Returns
        -------
        Smoother or None
            None where held-out rows are always taken away from the sums of all rows.
        """
        return None

    def retargeted(self, Y: FloatArray) -> Smoother | None:
        """Return the smoother of the same rows with other targets Y (m, v), sharing all else.

        As long as it is in use, neither may be asked for its first factor: rows rotate in place.
        None where that is not possible.
        """
        return None

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
