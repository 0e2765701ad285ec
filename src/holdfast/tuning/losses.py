"""What tuning minimises: the squared error, minus the log density, or the CRPS of held-out targets.

Each is the score of the same name in ``KernelRidgeCV`` with the sign turned round. A loss is filled
with what the experiments give, stack by stack; then it tells what each contributes, and its
derivatives by residuals and covariances (`holdfast.tuning.solved`).

The noise variance σ̂² = Σ rᵀC⁻¹r / n depends on all n tested rows. It makes the density largest, so
that the log density does not change with it to first order; the CRPS does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from holdfast._typing import FloatArray, IntArray
from holdfast.answers.gaussian import crps, crps_slopes, log_densities, standard_deviations
from holdfast.exceptions import HoldOutError
from holdfast.experiments import Tasks
from holdfast.holdout import predict
from holdfast.holdout.models import HeldOutModels
from holdfast.holdout.spread import Spread, spread
from holdfast.smoother import Smoother
from holdfast.tuning.problem import Problem
from holdfast.tuning.solved import CovarianceSlope, Slopes, Solved

__all__ = ["LOSSES", "Loss"]


class Loss(ABC):
    """A loss at one point, filled by the experiments.

    Parameters
    ----------
    problem : Problem
    smoother : Smoother
        Of all rows at this point.
    """

    #: Whether the slopes of an experiment are known without the others.
    separate: ClassVar[bool] = False

    def __init__(self, problem: Problem, smoother: Smoother) -> None:
        self.problem, self.smoother = problem, smoother
        self.unit = smoother.targets.unit
        self.total = problem.test_weight

    @abstractmethod
    def add(self, found: Solved) -> None:
        """Take in stacked experiments."""

    @abstractmethod
    def replace(self, chosen: IntArray, tasks: Tasks, errors: FloatArray, alpha: float) -> None:
        """Take in experiments that were trained from scratch, by their errors y − f₋H (k, v)."""

    @abstractmethod
    def contributions(self) -> FloatArray:
        """Return what each experiment adds to the criterion, shape (experiments,)."""

    @abstractmethod
    def slopes(self, found: Solved) -> Slopes:
        """Return the derivatives by what stacked experiments gave."""

    def train(self, chosen: IntArray, alpha: float) -> None:
        """Replace what some experiments gave by what training them from scratch gives."""
        tasks = self.problem.tasks.select(chosen)
        (values,) = predict(self.smoother, tasks, np.array([alpha]), "single")
        self.replace(chosen, tasks, self.problem.Y[tasks.test.values] - values, alpha)


class SquaredError(Loss):
    """Σ w r² / Σ w, the mean over targets."""

    separate = True

    def __init__(self, problem: Problem, smoother: Smoother) -> None:
        super().__init__(problem, smoother)
        self.squares = np.empty(len(problem.tasks))

    def add(self, found: Solved) -> None:
        """Take in stacked experiments."""
        self.squares[found.block.source] = np.einsum("btv,btv->b", found.tested, found.tested)

    def replace(self, chosen: IntArray, tasks: Tasks, errors: FloatArray, alpha: float) -> None:
        """Take in experiments that were trained from scratch."""
        squares = np.square(errors / self.unit).sum(axis=1)
        squares *= self.problem.weights[tasks.test.values]
        self.squares[chosen] = np.bincount(tasks.test.owners, weights=squares, minlength=len(tasks))

    def contributions(self) -> FloatArray:
        """Return what each experiment adds to the criterion."""
        return np.asarray(self.squares / self.total * self.unit**2)

    def slopes(self, found: Solved) -> Slopes:
        """Return 2 r / Σ w."""
        return Slopes(2.0 * self.unit**2 / self.total * found.tested)


class _Law(Loss):
    """A loss of the normal law of the held-out targets."""

    def __init__(self, problem: Problem, smoother: Smoother) -> None:
        super().__init__(problem, smoother)
        test, v = problem.tasks.test, problem.Y.shape[1]
        self.spread = Spread(
            np.empty((1, test.values.size)),
            np.empty((1, len(test))),
            np.empty((1, len(test), v)),
            test.sizes,
            self.unit,
        )
        self.errors = np.empty((1, test.values.size, v))
        self.root = np.sqrt(problem.weights)

    def add(self, found: Solved) -> None:
        """Take in stacked experiments."""
        law, shape = self.spread, found.block.shape
        root = self.root[shape.T]
        law.log_det[0, shape.index] = found.log_det - 2.0 * np.log(root).sum(axis=1)
        law.square[0, shape.index] = (found.tested * found.weighted).sum(axis=1)
        self.errors[0, shape.out] = found.tested * (self.unit / root[:, :, None])

    def replace(self, chosen: IntArray, tasks: Tasks, errors: FloatArray, alpha: float) -> None:
        """Take in experiments that were trained from scratch: the estimator's own law."""
        models = HeldOutModels(self.smoother, tasks, np.array([alpha]))
        own, law, test = spread(models, models.alphas, errors[None]), self.spread, tasks.test
        place = self.problem.tasks.test.ptr[chosen][test.owners] - test.ptr[test.owners]
        place += np.arange(test.values.size)
        law.log_det[:, chosen], law.square[:, chosen] = own.log_det, own.square
        law.variance[:, place], self.errors[:, place] = own.variance, errors

    @property
    def noise(self) -> FloatArray:
        """σ̂² of each target, shape (v,), in squares of the unit."""
        noise: FloatArray = self.spread.noise[0]
        if not (noise > 0.0).all():
            raise HoldOutError(
                f"target {int(np.argmin(noise))} is predicted without error, so its held-out "
                "density is infinite. Leave scoring=None, or leave that target out.",
                argument="scoring",
            )
        return noise


class LogDensity(_Law):
    """Minus the log density of the tested targets, jointly within an experiment, mean per row."""

    def contributions(self) -> FloatArray:
        """Return what each experiment adds to the criterion."""
        assert self.noise.size
        return np.asarray(-log_densities(self.spread)[0].sum(axis=1) / self.total)

    def slopes(self, found: Solved) -> Slopes:
        """Return q/σ² and ½(C⁻¹ − Σ q qᵀ/σ²), over the number of rows."""
        tau = 0.5 / (self.total * self.noise)
        level = 0.5 * self.noise.size / self.total
        return Slopes(2.0 * tau * found.weighted, CovarianceSlope(level, tau))


class RankedProbability(_Law):
    """The continuous ranked probability score, weighted mean over rows and targets."""

    def add(self, found: Solved) -> None:
        """Take in stacked experiments."""
        super().add(found)
        shape = found.block.shape
        self.spread.variance[0, shape.out] = found.variances / np.square(self.root[shape.T])

    def contributions(self) -> FloatArray:
        """Return what each experiment adds to the criterion."""
        assert self.noise.size
        test = self.problem.tasks.test
        values = crps(self.errors[0], standard_deviations(self.spread)[0]).sum(axis=1)
        values *= self.problem.weights[test.values] / self.total
        return np.bincount(test.owners, weights=values, minlength=len(test)).astype(np.float64)

    def slopes(self, found: Solved) -> Slopes:
        """Return the slopes at fixed σ̂², and those through it."""
        sigma, spread = np.sqrt(self.noise) * self.unit, np.sqrt(found.variances)[:, :, None]
        root = self.root[found.block.shape.T][:, :, None]
        by_error, by_std = crps_slopes(found.tested * self.unit, sigma * spread)
        share = root / self.total
        own = (share * by_std * sigma / (2.0 * spread)).sum(axis=2)
        residual = share * by_error * self.unit + 2.0 * self._through_noise * found.weighted
        return Slopes(residual, CovarianceSlope(0.0, self._through_noise, own))

    @cached_property
    def _through_noise(self) -> FloatArray:
        """∂L/∂σ̂² of each target over the number of tested rows: ∂L/∂(rᵀC⁻¹r), shape (v,)."""
        test, std = self.problem.tasks.test.values, standard_deviations(self.spread)[0]
        _, by_std = crps_slopes(self.errors[0], std)
        weights = self.problem.weights[test] / self.total
        return np.asarray((weights @ (by_std * std)) / (2.0 * self.noise * test.size))


#: By the name of the score.
LOSSES: MappingProxyType[str, type[Loss]] = MappingProxyType(
    {
        "neg_mean_squared_error": SquaredError,
        "log_density": LogDensity,
        "crps": RankedProbability,
    }
)
