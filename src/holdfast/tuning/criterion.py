"""The exact held-out criterion by log alpha and log kernel parameters, with its gradient."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike

from holdfast._typing import FloatArray, IntArray
from holdfast.answers.problem import Problem
from holdfast.answers.rows import choose_basis, rows_with_kernel
from holdfast.basis import Points
from holdfast.basis.resolve import as_selector
from holdfast.estimators.base import CrossValidatedKernelRidge
from holdfast.exceptions import (
    HoldOutError,
    InvalidInputError,
    NotSupportedError,
    SelectionBiasWarning,
    warn,
)
from holdfast.experiments import Tasks, resolve
from holdfast.kernels import Kernel, Precomputed
from holdfast.kernels.base import Pullback
from holdfast.kernels.checks import require_finite
from holdfast.kernels.products import RowPair
from holdfast.scores.scoring import resolve_scoring
from holdfast.smoother import Unpenalised
from holdfast.smoother.scale import target_unit
from holdfast.tuning.adjoint import evaluate_dense, evaluate_sparse
from holdfast.tuning.losses import LOSSES, Loss
from holdfast.tuning.solved import Block
from holdfast.tuning.space import Coordinates

__all__ = ["Criterion", "Evaluation"]

#: Doubles that the held-out and tested rows of one stack of tasks may take.
STACK_DOUBLES = 2**22


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The criterion at one point.

    Attributes
    ----------
    value : float
        Of all held-out predictions, over test rows and targets: the weighted mean squared error,
        or minus the mean log density per row, of targets in the unit of the
        criterion.
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
        That of the fit: rows, targets in `unit`, weights, experiments, what happens to basis rows.
    coordinates : Coordinates
        What a point stands for.
    basis : ndarray of int or None
        Basis rows, chosen once; None for a dense model.
    tasks : Tasks
        The experiments of the problem after its policy; of test rows only those with weight.
    loss : subclass of Loss
        What is minimised.
    ard : bool
        Whether every feature has its own gamma.
    unit : float
        1, or what targets are in units of whose squares would leave the range of numbers.

    Notes
    -----
    A point is an array (log alpha, log gamma) or (log alpha, log gamma_1, …, log gamma_d); of sums,
    products and multiples of kernels (log alpha, logarithms of `coordinates.names`). The value is
    minus the score of ``KernelRidgeCV`` at this kernel and penalty, with scoring=None,
    or "log_density"; the gradient comes from the adjoint of the hold-out algebra
    (`holdfast.tuning.adjoint`) and the kernel's `value_and_pullback`, at two to four times the
    price of the value, whatever the number of parameters.

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
    coordinates: Coordinates
    basis: IntArray | None
    tasks: Tasks
    loss: type[Loss]
    ard: bool = False
    unit: float = 1.0

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
        estimator = as_estimator(model)
        loss = _loss(estimator)
        problem, (candidate,) = estimator._prepare(X, y, sample_weight, groups)
        if not loss.separate:
            resolve_scoring(estimator.scoring, classes=estimator._classes)  # refuses classifiers
        return cls.on(problem, cast(Kernel, candidate.kernel), loss, ard=ard)

    @classmethod
    def on(
        cls,
        problem: Problem,
        kernel: Kernel,
        loss: type[Loss] = LOSSES["neg_mean_squared_error"],
        *,
        ard: bool = False,
    ) -> Self:
        """Return the criterion of a kernel on the problem of a fit."""
        basis = _basis(problem, kernel)
        if basis is None:
            _check_memory(problem, kernel)
        coordinates = Coordinates.of(kernel, int(problem.X.shape[1]), ard)
        unit = target_unit(problem.Y)
        scaled = problem if unit == 1.0 else replace(problem, Y=problem.Y / unit)
        return cls(scaled, coordinates, basis, _tasks(problem, basis), loss, ard, unit)

    @property
    def differentiable(self) -> bool:
        """Whether the gradient is known."""
        return self.coordinates.kernel.differentiable

    @property
    def scale(self) -> float:
        """What a difference of values is to be multiplied by, for the targets as they are."""
        with np.errstate(over="ignore", under="ignore"):
            return float(np.float64(self.unit) ** self.loss.power)

    def told(self, value: Any) -> Any:
        """Return values of the criterion for the targets as they are, not in `unit`."""
        return value * self.scale if self.loss.power else value + np.log(self.unit)

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
        evaluate: Any = evaluate_dense if self.basis is None else evaluate_sparse
        losses, adjoint = evaluate(self, *values, alpha, gradient)
        slopes = None
        if adjoint is not None:
            by_kernel = (
                coordinates.gradient(pullback(bar))
                for pullback, bar in zip(pullbacks, adjoint[1:], strict=True)
            )
            slopes = np.append(alpha * adjoint[0], sum(by_kernel))
        return Evaluation(float(losses.sum()), losses, slopes)

    # -- what all points share ---------------------------------------------------------------------

    @cached_property
    def _pairs(self) -> tuple[RowPair, ...]:
        """All rows with the basis rows, and these with each other; all rows of a dense model."""
        X = self.problem.X
        if self.basis is None:
            return (RowPair(X),)
        Z = X[self.basis]
        return RowPair(X, Z), RowPair(Z)

    @cached_property
    def unpenalised(self) -> Unpenalised:
        """The bias, if there is one, and the trend."""
        return self.problem.unpenalised

    @cached_property
    def blocks(self) -> list[Block]:
        """The tasks in stacks of one shape, each of bounded size."""
        p = (self.problem.weights.size if self.basis is None else self.basis.size) + 1
        return [Block.of(stack) for stack in self.tasks.stacks(p, STACK_DOUBLES)]

    @cached_property
    def _counts(self) -> FloatArray:
        """How much the test rows of each experiment count: their weights, or their number."""
        test, weights = self.tasks.test, self.problem.weights
        counts = weights[test.values] if self.loss.weighted else None
        return np.bincount(test.owners, counts, minlength=len(test)).astype(np.float64)

    @property
    def test_weight(self) -> float:
        """What all test rows count, times the number of targets."""
        return float(self._counts.sum()) * int(self.problem.Y.shape[1])

    @property
    def share(self) -> FloatArray:
        """Share of each experiment in what all test rows count; the shares add up to one."""
        return np.asarray(self._counts / self._counts.sum())


def _values(kernel: Kernel, pair: RowPair) -> tuple[FloatArray, Pullback | None]:
    """Return kernel values, and the way back to the parameters if there is one."""
    if kernel.differentiable:
        K, pullback = kernel.value_and_pullback(pair)
    else:
        K, pullback = kernel(pair.X, pair.Z), None
    require_finite(K, repr(kernel))
    return K, pullback


# -- from what a user passes -----------------------------------------------------------------------


def as_estimator(model: Any) -> Any:
    """Return an estimator with the parameters of `model`, if it can be tuned.

    `model` is a KernelRidgeCV, a KernelRidgeClassifierCV or a dict of parameters of the first; it
    is not changed.
    """
    if isinstance(model, dict):
        from holdfast.estimators.regression import KernelRidgeCV

        model = KernelRidgeCV(**model)
    if not isinstance(model, CrossValidatedKernelRidge):
        raise InvalidInputError(
            "model must be a KernelRidgeCV, a KernelRidgeClassifierCV or a dict of their "
            f"parameters; got {type(model).__name__}.",
            argument="model",
        )
    # Not sklearn's clone: it cannot copy an iterator of splits.
    estimator = type(model)(**model.get_params(deep=False))
    estimator._validate_params()
    if isinstance(estimator.gamma, str):  # "search": finding the width is what tuning does
        estimator.gamma = None
    _loss(estimator)
    if estimator.alpha_per_target:
        raise NotSupportedError(
            "tuning finds one alpha for all targets; got alpha_per_target=True. Tune with "
            "alpha_per_target=False, then result.estimator(alpha_per_target=True) refines alpha.",
            argument="alpha_per_target",
        )
    _check_kernel(estimator)
    return estimator


def _loss(estimator: Any) -> type[Loss]:
    """Return what the estimator's score asks to minimise."""
    scoring = "neg_mean_squared_error" if estimator.scoring is None else estimator.scoring
    if not isinstance(scoring, str) or scoring not in LOSSES:
        raise NotSupportedError(
            "tuning minimises the held-out mean squared error (scoring=None), or maximises "
            f'or "log_density"; got scoring={estimator.scoring!r}. Take one of these, or '
            "search a grid of gammas with KernelRidgeCV, which takes any score.",
            argument="scoring",
        )
    return LOSSES[scoring]


def _check_kernel(estimator: Any) -> None:
    """Refuse kernels without a gamma, and more than one kernel."""
    candidates = estimator._candidates()
    if len(candidates) > 1:
        raise InvalidInputError(
            "tuning starts from one kernel; got a list of kernels or gammas. Pass one kernel, and "
            "start=… for several starting points.",
            argument="kernel",
        )
    kernel = candidates[0].kernel
    if isinstance(kernel, Precomputed) or kernel.accepts_objects:
        raise NotSupportedError(
            f"kernel={estimator.kernel!r} has no gamma to tune. Use RBF, Matern or another kernel "
            "with a gamma, or compare several kernels on a grid with KernelRidgeCV.",
            argument="kernel",
        )


def _basis(problem: Problem, kernel: Kernel) -> IntArray | None:
    """Return the basis rows, chosen once: the criterion is a function of alpha and gamma alone."""
    selector = as_selector(problem.basis, problem.X.shape[0])
    if selector is None:
        return None
    if problem.policy in ("reselect", "train"):
        raise NotSupportedError(
            f'tuning takes held_out_basis="remove", "keep" or "skip"; got '
            f'"{problem.policy}". Tune with "remove", then judge the result with '
            f'result.estimator(held_out_basis="{problem.policy}", basis=...).',
            argument="held_out_basis",
        )
    if selector.data_dependent:
        warn(
            f"{type(selector).__name__} chose the basis rows once, with the kernel as given and "
            "by looking at rows that are later held out: the tuned criterion may be optimistic.",
            SelectionBiasWarning,
            argument="basis",
        )
    if isinstance(selector, Points):
        raise NotSupportedError(
            "tuning takes basis rows; got Points, which are not rows. Tune with basis=[row "
            "numbers] or a number of rows, then pass the points with the gamma that was found.",
            argument="basis",
        )
    return choose_basis(problem, selector, rows_with_kernel(kernel, problem.X, problem.basis))


def _tasks(problem: Problem, basis: IntArray | None) -> Tasks:
    """Return the experiments after the policy; of test rows only those with weight."""
    weights = problem.weights
    tasks = resolve(problem.experiments, weights=weights, basis=basis, policy=problem.policy)
    test = tasks.test.filter(weights[tasks.test.values] > 0)
    left = np.flatnonzero(test.sizes > 0)
    if not left.size:
        raise HoldOutError(
            "no test row of cv has weight; give some of them a sample_weight.", argument="cv"
        )
    return replace(tasks, test=test).select(left)


def _check_memory(problem: Problem, kernel: Kernel) -> None:
    m = problem.weights.size
    # the values of each kernel, slopes, distances, G, and two products of the adjoint
    size = 8.0 * (5 + _n_kernels(kernel)) * m**2
    if size > problem.memory:
        raise InvalidInputError(
            f"tuning a dense model of {m} rows needs {1e-9 * size:.3g} GB, more than the "
            f"{problem.memory / 1e9:.3g} GB it may take. Pass basis=1000 (or another number of "
            "basis rows), or raise memory_limit.",
            argument="basis",
            remedies=("memory_limit",),
        )


def _n_kernels(kernel: Kernel) -> int:
    """Return how many kernels a kernel is made of, itself included."""
    return 1 + sum(_n_kernels(part) for part in kernel.parts.values())
