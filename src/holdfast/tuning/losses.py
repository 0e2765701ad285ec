"""What tuning minimises: the squared error, minus the log density, or the CRPS of held-out targets.

Each is the score of the same name in ``KernelRidgeCV`` with the opposite sign. A loss collects what
the experiments give, stack by stack; then it returns what each contributes, and its derivatives by
residuals and covariances (`holdfast.tuning.solved`).

Slopes of the squared error are known stack by stack. Those of a distribution need the noise
variance, which all experiments share: then the adjoint takes a second walk over the experiments,
and systems are factorised again rather than kept.

The noise variance σ̂² = Σ rᵀC⁻¹r / n depends on all n tested rows. It makes the density largest, so
that the log density does not change with it to first order; the CRPS does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np

from holdfast._typing import FloatArray, IntArray
from holdfast.answers.gaussian import crps, crps_slopes, log_densities, standard_deviations
from holdfast.exceptions import HoldOutError
from holdfast.experiments import Tasks
from holdfast.holdout import predict
from holdfast.holdout.models import HeldOutModels
from holdfast.holdout.spread import Spread, spread
from holdfast.smoother import Smoother
from holdfast.smoother.factor import Factor
from holdfast.tuning.solved import Block, CovarianceSlope, Slopes, Solved

if TYPE_CHECKING:
    from holdfast.tuning.problem import Problem

__all__ = ["LOSSES", "Adjoint", "Loss", "walk"]


class Loss(ABC):
    """A loss at one point, filled by the experiments.

    Parameters
    ----------
    problem : Problem
    smoother : Smoother
        Of all rows at this point.
    """

    #: What the criterion is called.
    words: ClassVar[str]
    #: Whether the slopes of an experiment are known without the others.
    separate: ClassVar[bool] = False
    #: Whether a row counts by its weight in the mean, or else each as one.
    weighted: ClassVar[bool] = True

    @staticmethod
    def descend(value: float) -> tuple[float, float]:
        """Return what a search descends on, and its derivative by the criterion.

        It does not depend on the unit of y, but for a constant: the logarithm of an error, or twice
        minus the log density, which is the logarithm of a variance where nothing else changes.
        """
        value = max(value, float(np.finfo(float).tiny))
        return float(np.log(value)), 1.0 / value

    @staticmethod
    def percent(value: float) -> float:
        """Return a rise of one per cent; of a log density, what 1 % more variance costs."""
        return 0.01 * value

    def __init__(self, problem: Problem, smoother: Smoother) -> None:
        self.problem, self.smoother = problem, smoother
        self.unit = smoother.targets.unit
        self.total = problem.test_weight
        self.root = np.sqrt(problem.weights)
        self.errors = np.empty((problem.tasks.test.values.size, problem.Y.shape[1]))

    def add(self, found: Solved) -> None:
        """Take in stacked experiments."""
        shape = found.block.shape
        self.errors[shape.out] = found.tested * (self.unit / self.root[shape.T][:, :, None])

    def retrain(self, chosen: IntArray, alpha: float) -> tuple[Tasks, IntArray]:
        """Replace what some experiments gave by what training them from scratch gives.

        Returns their tasks, and the places of their rows among all tested rows.
        """
        tasks = self.problem.tasks.select(chosen)
        (values,) = predict(self.smoother, tasks, np.array([alpha]), "single")
        test = tasks.test
        place = self.problem.tasks.test.ptr[chosen][test.owners] - test.ptr[test.owners]
        place += np.arange(test.values.size)
        self.errors[place] = self.problem.Y[test.values] - values
        return tasks, place

    @abstractmethod
    def contributions(self) -> FloatArray:
        """Return what each experiment adds to the criterion, shape (experiments,)."""

    @abstractmethod
    def slopes(self, found: Solved) -> Slopes:
        """Return the derivatives by what stacked experiments gave."""

    def _weighted_sums(self, values: FloatArray) -> FloatArray:
        """Return Σ w values / Σ w over the tested rows of each experiment."""
        test = self.problem.tasks.test
        share = self.problem.weights[test.values] / self.total
        return np.bincount(test.owners, share * values, len(test)).astype(np.float64)


class SquaredError(Loss):
    """Σ w r² / Σ w, the mean over targets."""

    words, separate = "mean squared error", True

    def contributions(self) -> FloatArray:
        """Return what each experiment adds to the criterion."""
        squares = np.square(self.errors / self.unit).sum(axis=1)
        return self._weighted_sums(squares) * self.unit**2

    def slopes(self, found: Solved) -> Slopes:
        """Return 2 r / Σ w."""
        return Slopes(2.0 * self.unit**2 / self.total * found.tested)


class _OfDistribution(Loss):
    """A loss of the normal distribution of the held-out targets."""

    def __init__(self, problem: Problem, smoother: Smoother) -> None:
        super().__init__(problem, smoother)
        rows, tasks = len(self.errors), len(problem.tasks)
        moments = (
            np.empty((1, rows)),
            np.empty((1, tasks)),
            np.empty((1, tasks, problem.Y.shape[1])),
        )
        self.spread = Spread(*moments, problem.tasks.test.sizes, self.unit)

    def add(self, found: Solved) -> None:
        """Take in stacked experiments."""
        super().add(found)
        shape, root = found.block.shape, self.root[found.block.shape.T]
        self.spread.log_det[0, shape.index] = found.log_det - 2.0 * np.log(root).sum(axis=1)
        self.spread.square[0, shape.index] = (found.tested * found.weighted).sum(axis=1)

    def retrain(self, chosen: IntArray, alpha: float) -> tuple[Tasks, IntArray]:
        """Replace what some experiments gave, second moments included."""
        tasks, place = super().retrain(chosen, alpha)
        models = HeldOutModels(self.smoother, tasks, np.array([alpha]))
        own = spread(models, models.alphas, self.errors[None, place])
        self.spread.log_det[:, chosen], self.spread.square[:, chosen] = own.log_det, own.square
        self.spread.variance[:, place] = own.variance
        return tasks, place

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


class LogDensity(_OfDistribution):
    """Minus the log density of the tested targets, jointly within an experiment, mean per row."""

    words, weighted = "minus log density", False

    @staticmethod
    def descend(value: float) -> tuple[float, float]:
        """Return twice the criterion: another unit of y shifts it."""
        return 2.0 * value, 2.0

    @staticmethod
    def percent(value: float) -> float:
        """Return what 1 % more variance costs: shares of a logarithm mean nothing."""
        return 0.005

    def contributions(self) -> FloatArray:
        """Return what each experiment adds to the criterion."""
        assert self.noise.size
        return np.asarray(-log_densities(self.spread)[0].sum(axis=1) / self.total)

    def slopes(self, found: Solved) -> Slopes:
        """Return q/σ² and ½(C⁻¹ − Σ q qᵀ/σ²), over the number of rows."""
        tau = 0.5 / (self.total * self.noise)
        level = 0.5 * self.noise.size / self.total
        return Slopes(2.0 * tau * found.weighted, CovarianceSlope(level, tau))


class RankedProbability(_OfDistribution):
    """The continuous ranked probability score, weighted mean over rows and targets."""

    words = "CRPS"

    def add(self, found: Solved) -> None:
        """Take in stacked experiments."""
        super().add(found)
        shape = found.block.shape
        self.spread.variance[0, shape.out] = found.variances / np.square(self.root[shape.T])

    def contributions(self) -> FloatArray:
        """Return what each experiment adds to the criterion."""
        assert self.noise.size
        return self._weighted_sums(
            crps(self.errors, standard_deviations(self.spread)[0]).sum(axis=1)
        )

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
        _, by_std = crps_slopes(self.errors, std)
        weights = self.problem.weights[test] / self.total
        return np.asarray((weights @ (by_std * std)) / (2.0 * self.noise * test.size))


#: What can be tuned for, by the name of the score in ``KernelRidgeCV``.
LOSSES: MappingProxyType[str, type[Loss]] = MappingProxyType(
    {
        "neg_mean_squared_error": SquaredError,
        "log_density": LogDensity,
        "crps": RankedProbability,
    }
)


class Adjoint(Protocol):
    """Collects the derivatives by the kernel."""

    def add(self, found: Solved, slopes: Slopes) -> None:
        """Add those of stacked experiments."""


def walk(
    problem: Problem,
    smoother: Smoother,
    factor: Factor,
    alpha: float,
    scale: float,
    adjoint: Adjoint | None,
) -> FloatArray:
    """Return what each experiment adds to the criterion (experiments,), and tell the adjoint.

    Parameters
    ----------
    problem : Problem
    smoother, factor : Smoother, Factor
        Of all rows, at this penalty.
    alpha, scale : float
        The penalty, and what I − S_HH is in units of (`Solved`).
    adjoint : Adjoint or None

    Notes
    -----
    Experiments whose error passes the promise are trained from scratch, as the estimator does.
    """
    lost = np.zeros(len(problem.tasks), dtype=bool)
    loss = problem.loss(problem, smoother)

    def solved(block: Block) -> Solved:
        return Solved(block, factor.held(block.shape, np.array([alpha])), scale)

    for block in problem.blocks:
        found = solved(block)
        loss.add(found)
        root = factor.scale.root[block.shape.H]
        lost[block.shape.index] |= found.system.lost(factor.targets.spread, root)
        if adjoint is not None and loss.separate:
            adjoint.add(found, loss.slopes(found))
    if lost.any():
        loss.retrain(np.flatnonzero(lost), alpha)
    contributions = loss.contributions()
    if adjoint is not None and not loss.separate:
        for block in problem.blocks:
            found = solved(block)
            adjoint.add(found, loss.slopes(found))
    return contributions
