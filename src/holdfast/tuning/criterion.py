"""The exact held-out criterion by log alpha and log kernel parameters, with its gradient."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from holdfast._typing import FloatArray
from holdfast.kernels import Kernel
from holdfast.kernels.base import Pullback
from holdfast.kernels.checks import require_finite
from holdfast.kernels.products import RowPair
from holdfast.tuning.dense import evaluate_dense
from holdfast.tuning.problem import Problem, make_problem
from holdfast.tuning.space import Coordinates
from holdfast.tuning.sparse import evaluate_sparse

__all__ = ["Criterion", "Evaluation"]


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The criterion at one point.

    Attributes
    ----------
    value : float
        Of all held-out predictions, over test rows and targets: the weighted mean squared error,
        minus the mean log density per row, or the weighted mean CRPS.
    losses : ndarray of shape (experiments,)
        Contribution of each experiment; they add up to `value`.
    gradient : ndarray or None
        Derivatives by log alpha and by the logarithm of each kernel parameter, in this order.
    """

    value: float
    losses: FloatArray
    gradient: FloatArray | None


@dataclass(frozen=True, eq=False)
class Criterion:
    """The exact held-out error, or minus log density, of a model as a function of alpha and gamma.

    Attributes
    ----------
    problem : Problem
        Rows, targets and experiments.
    ard : bool
        Whether every feature has its own gamma.
    coordinates : Coordinates
        What a point stands for.

    Notes
    -----
    A point is an array (log alpha, log gamma) or (log alpha, log gamma_1, …, log gamma_d); of sums,
    products and multiples of kernels (log alpha, logarithms of `coordinates.names`). The value is
    minus the score of ``KernelRidgeCV`` at this kernel and penalty, with scoring=None,
    "log_density" or "crps"; the gradient comes from the adjoint of the hold-out algebra
    (`holdfast.tuning.dense`, `holdfast.tuning.sparse`) and the kernel's `value_and_pullback`, at
    two to four times the price of the value, whatever the number of parameters.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import KernelRidgeCV
    >>> from holdfast.tuning.criterion import Criterion
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(50, 3))
    >>> y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=50)
    >>> criterion = Criterion.of(KernelRidgeCV(cv=5), X, y, ard=True)
    >>> criterion.evaluate(np.log([0.1, 0.5, 0.5, 0.5])).gradient.shape
    (4,)
    """

    problem: Problem
    ard: bool
    coordinates: Coordinates

    @classmethod
    def of(
        cls,
        model: Any,
        X: Any,
        y: Any,
        *,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        ard: bool = False,
    ) -> Self:
        """Return the criterion of a model on these rows; the parameters are those of `tune`.

        A classifier is tuned by the squared error of its ±1 codes (Cawley and Talbot 2004).
        """
        problem = make_problem(model, X, y, sample_weight, groups)
        coordinates = Coordinates.of(problem.kernel, int(problem.X.shape[1]), ard)
        return cls(problem, ard, coordinates)

    @property
    def differentiable(self) -> bool:
        """Whether the gradient is known."""
        return self.problem.kernel.differentiable

    def evaluate(self, point: ArrayLike, gradient: bool = True) -> Evaluation:
        """Return value, losses and (unless not asked for) gradient at a point.

        Parameters
        ----------
        point : array-like of shape (2,) or (1 + d,)
            log alpha and log gamma (log kernel parameters).
        gradient : bool
            Whether to compute the gradient, which takes a kernel that has one.
        """
        at, coordinates = np.asarray(point, dtype=np.float64), self.coordinates
        alpha, kernel = float(np.exp(at[0])), coordinates.kernel_at(at)
        values, pullbacks = zip(*(_values(kernel, pair) for pair in self._pairs), strict=True)
        evaluate: Any = evaluate_dense if self.problem.Z is None else evaluate_sparse
        losses, adjoint = evaluate(self.problem, *values, alpha, gradient)
        slopes = None
        if adjoint is not None:
            by_kernel = (
                coordinates.gradient(pullback(bar))
                for pullback, bar in zip(pullbacks, adjoint[1:], strict=True)
            )
            slopes = np.append(alpha * adjoint[0], sum(by_kernel))
        return Evaluation(float(losses.sum()), losses, slopes)

    @cached_property
    def _pairs(self) -> tuple[RowPair, ...]:
        """All rows with the basis rows, and these with each other; all rows of a dense model."""
        X, Z = self.problem.X, self.problem.Z
        return (RowPair(X),) if Z is None else (RowPair(X, Z), RowPair(Z))


def _values(kernel: Kernel, pair: RowPair) -> tuple[FloatArray, Pullback | None]:
    """Return kernel values, and the way back to the parameters if there is one."""
    if kernel.differentiable:
        K, pullback = kernel.value_and_pullback(pair)
    else:
        K, pullback = kernel(pair.X, pair.Z), None
    require_finite(K, repr(kernel))
    return K, pullback
