"""The exact held-out criterion as a function of log alpha and log gamma, with its gradient."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from holdfast._typing import FloatArray
from holdfast.exceptions import InvalidInputError, NotSupportedError
from holdfast.kernels import Kernel
from holdfast.kernels.checks import require_finite
from holdfast.kernels.products import distance_matrix
from holdfast.tuning.dense import evaluate_dense
from holdfast.tuning.problem import Problem, make_problem
from holdfast.tuning.sparse import evaluate_sparse
from holdfast.tuning.widths import differentiable, feature_sums, profile, with_gamma

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
        Derivatives by log alpha and by the logarithm of each gamma, in this order.
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

    Notes
    -----
    A point is an array (log alpha, log gamma) or (log alpha, log gamma_1, …, log gamma_d). The
    value is minus the score of ``KernelRidgeCV`` at this kernel and penalty, with scoring=None,
    "log_density" or "crps"; the gradient comes from the adjoint of the hold-out algebra
    (`holdfast.tuning.dense`, `holdfast.tuning.sparse`) at two to four times the price of the value,
    whatever the number of gammas.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import KernelRidgeCV
    >>> from holdfast.tuning import Criterion
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(50, 3))
    >>> y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=50)
    >>> criterion = Criterion.of(KernelRidgeCV(cv=5), X, y, ard=True)
    >>> criterion.evaluate(np.log([0.1, 0.5, 0.5, 0.5])).gradient.shape
    (4,)
    """

    problem: Problem
    ard: bool = False

    def __post_init__(self) -> None:
        with_gamma(self.problem.kernel, np.ones(1))  # refuses kernels without one

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
        """Return the criterion of a model on these rows.

        Parameters
        ----------
        model : KernelRidgeCV, KernelRidgeClassifierCV, or dict of parameters
            Kernel family, basis rows, hold-out, policy, intercept, jitter. Basis rows are chosen
            once. A classifier is tuned by the squared error of its ±1 codes (Cawley and Talbot
            2004).
        X, y, sample_weight, groups
            As in ``fit``.
        ard : bool
            One gamma per feature.
        """
        return cls(make_problem(model, X, y, sample_weight, groups), ard)

    @property
    def differentiable(self) -> bool:
        """Whether the gradient is known."""
        return differentiable(self.problem.kernel)

    @property
    def size(self) -> int:
        """Number of coordinates of a point."""
        return 1 + (self.problem.n_features if self.ard else 1)

    def kernel(self, point: FloatArray) -> Kernel:
        """Return the kernel at a point."""
        return with_gamma(self.problem.kernel, np.exp(point[1:]))

    def evaluate(self, point: ArrayLike, gradient: bool = True) -> Evaluation:
        """Return value, losses and (unless not asked for) gradient at a point.

        Parameters
        ----------
        point : array-like of shape (2,) or (1 + d,)
            log alpha and log gamma.
        gradient : bool
            Whether to compute the gradient.
        """
        at = np.asarray(point, dtype=np.float64)
        if at.shape != (self.size,):
            raise InvalidInputError(
                f"a point must hold log alpha and {self.size - 1} log gamma, shape "
                f"({self.size},); got shape {at.shape}."
            )
        if gradient and not self.differentiable:
            raise NotSupportedError(
                f"the gradient is known for RBF and Matern kernels; got {self.problem.kernel!r}. "
                'Use method="nelder-mead", or a grid of gammas with KernelRidgeCV.'
            )
        evaluate = self._dense if self.problem.Z is None else self._sparse
        losses, slopes = evaluate(at, gradient)
        return Evaluation(float(losses.sum()), losses, slopes)

    def _dense(self, at: FloatArray, gradient: bool) -> tuple[FloatArray, FloatArray | None]:
        problem, alpha = self.problem, float(np.exp(at[0]))
        K, slope, q = self._matrix(at, None, gradient)
        losses, adjoint = evaluate_dense(problem, K, alpha, gradient)
        if adjoint is None or slope is None or q is None:
            return losses, None
        P = np.multiply(adjoint.K, slope, out=slope)
        widths = self._by_width(P, q, at, problem.X, problem.X)
        return losses, np.append(alpha * adjoint.alpha, widths)

    def _sparse(self, at: FloatArray, gradient: bool) -> tuple[FloatArray, FloatArray | None]:
        problem, alpha = self.problem, float(np.exp(at[0]))
        K, slope, q = self._matrix(at, problem.Z, gradient)
        K_BB, slope_BB, q_BB = self._basis_matrix(at, gradient)
        losses, adjoint = evaluate_sparse(problem, K, K_BB, alpha, gradient)
        if adjoint is None or slope is None or slope_BB is None or q is None or q_BB is None:
            return losses, None
        P = np.multiply(adjoint.K, slope, out=slope)
        P_BB = np.multiply(adjoint.K_BB, slope_BB, out=slope_BB)
        widths = self._by_width(P, q, at, problem.X, problem.Z)
        widths += self._by_width(P_BB, q_BB, at, problem.Z, problem.Z)
        return losses, np.append(alpha * adjoint.alpha, widths)

    # -- kernel matrices --------------------------------------------------------------------------

    @cached_property
    def _distances(self) -> tuple[FloatArray, FloatArray | None]:
        """Squared distances at gamma = 1, which serve every isotropic width."""
        problem = self.problem
        between = None if problem.Z is None else distance_matrix(problem.Z)
        return distance_matrix(problem.X, problem.Z), between

    def _matrix(
        self, at: FloatArray, Z: Any, gradient: bool
    ) -> tuple[FloatArray, FloatArray | None, FloatArray | None]:
        X, shared = self.problem.X, None
        if self.differentiable and not self.ard:
            shared = self._distances[0]
        return self._values(at, X, Z, shared, gradient)

    def _basis_matrix(
        self, at: FloatArray, gradient: bool
    ) -> tuple[FloatArray, FloatArray | None, FloatArray | None]:
        shared = None
        if self.differentiable and not self.ard:
            shared = self._distances[1]
        return self._values(at, self.problem.Z, None, shared, gradient)

    def _values(
        self, at: FloatArray, X: Any, Z: Any, shared: FloatArray | None, gradient: bool
    ) -> tuple[FloatArray, FloatArray | None, FloatArray | None]:
        """Return kernel values and, for the gradient, slopes and q."""
        kernel = self.kernel(at)
        if not self.differentiable:
            K = kernel(X, Z)
            require_finite(K, repr(kernel))
            return K, None, None
        gamma = np.exp(at[1:])
        q = distance_matrix(X, Z, gamma) if shared is None else gamma[0] * shared
        K, slope = profile(kernel, q, gradient)  # type: ignore[arg-type]  # RBF or Matern
        require_finite(K, repr(kernel))
        return K, slope, q if gradient else None

    def _by_width(self, P: FloatArray, q: FloatArray, at: FloatArray, X: Any, Z: Any) -> FloatArray:
        """Return the derivatives by log gamma, given P = ∂L/∂q."""
        if not self.ard:
            return np.array([np.vdot(P, q)])
        return np.asarray(np.exp(at[1:]) * feature_sums(P, X, Z))
