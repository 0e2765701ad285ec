"""What tuning minimises: the squared error of held-out targets, or minus their log density.

A loss is minus the score of its name, computed by the code that scores every fit
(`holdfast.answers.scored`). What is here collects the residuals and second moments of the
experiments, stack by stack, from systems that were factorised at one penalty, and knows the
derivatives of the scores by them (`holdfast.tuning.solved`).

Slopes of the squared error are known stack by stack. Those of a distribution need the noise
variance, which all experiments share: then the adjoint takes a second walk over the experiments,
and systems are factorised again rather than kept.

The noise variance σ̂² = Σ rᵀC⁻¹r / n depends on all n tested rows. It makes the density largest, so
that the log density does not change with it to first order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np

from holdfast._typing import FloatArray, IntArray
from holdfast.answers.scored import scored
from holdfast.exceptions import HoldOutError
from holdfast.experiments import Tasks
from holdfast.holdout import predict
from holdfast.holdout.models import HeldOutModels
from holdfast.holdout.spread import Spread, spread
from holdfast.scores.scoring import resolve_scoring
from holdfast.smoother import Smoother
from holdfast.smoother.factor import Factor
from holdfast.tuning.solved import Block, CovarianceSlope, Slopes, Solved

if TYPE_CHECKING:
    from holdfast.tuning.criterion import Criterion

__all__ = ["LOSSES", "Adjoint", "Loss", "walk"]


class Loss(ABC):
    """A loss at one point, filled by the experiments; `smoother` is that of all rows there."""

    #: The score of which it is minus, and what the criterion is called.
    score: ClassVar[str]
    words: ClassVar[str]
    #: Errors of targets in another unit are this power of it times as large.
    power: ClassVar[int]
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

    def __init__(self, criterion: Criterion, smoother: Smoother) -> None:
        self.criterion, self.smoother = criterion, smoother
        self.total = criterion.test_weight
        self.root = np.sqrt(criterion.problem.weights)
        self.errors = np.empty((criterion.tasks.test.values.size, smoother.targets.count))
        self.spread: Spread | None = None

    def add(self, found: Solved) -> None:
        """Take in stacked experiments."""
        shape = found.block.shape
        self.errors[shape.out] = found.tested / self.root[shape.T][:, :, None]

    def retrain(self, chosen: IntArray, alpha: float) -> tuple[Tasks, IntArray]:
        """Replace what some experiments gave by what training them from scratch gives.

        Returns their tasks, and the places of their rows among all tested rows.
        """
        tasks = self.criterion.tasks.select(chosen)
        (values,) = predict(self.smoother, tasks, np.array([alpha]), "single")
        place = self.criterion.tasks.test.where(chosen).values
        self.errors[place] = self.criterion.problem.Y[tasks.test.values] - values
        return tasks, place

    def contributions(self) -> FloatArray:
        """Return what each experiment adds to the criterion, shape (experiments,)."""
        test = self.criterion.tasks.test
        labels = self.smoother.targets.Y  # without their level, on which no score of errors depends
        found = scored(
            resolve_scoring(self.score),
            (labels[test.values] - self.errors)[None],
            test,
            labels,
            self.criterion.problem.weights,
            moments=lambda: self.moments,
        )
        return np.asarray(-found.splits[0] * self.criterion.share)

    @property
    def moments(self) -> Spread:
        """Second moments of the tested rows, of a loss that has them."""
        assert self.spread is not None
        return self.spread

    @abstractmethod
    def slopes(self, found: Solved) -> Slopes:
        """Return the derivatives by what stacked experiments gave."""


class SquaredError(Loss):
    """Σ w r² / Σ w, the mean over targets."""

    score, words, power, separate = "neg_mean_squared_error", "mean squared error", 2, True

    def slopes(self, found: Solved) -> Slopes:
        """Return 2 r / Σ w."""
        return Slopes(2.0 / self.total * found.tested)


class _OfDistribution(Loss):
    """A loss of the normal distribution of the held-out targets."""

    def __init__(self, criterion: Criterion, smoother: Smoother) -> None:
        super().__init__(criterion, smoother)
        (rows, targets), tasks = self.errors.shape, len(criterion.tasks)
        moments = np.empty((1, rows)), np.empty((1, tasks)), np.empty((1, tasks, targets))
        self.spread = Spread(*moments, criterion.tasks.test.sizes)

    def add(self, found: Solved) -> None:
        """Take in stacked experiments."""
        super().add(found)
        shape, root = found.block.shape, self.root[found.block.shape.T]
        self.moments.log_det[0, shape.index] = found.log_det - 2.0 * np.log(root).sum(axis=1)
        self.moments.square[0, shape.index] = (found.tested * found.weighted).sum(axis=1)

    def retrain(self, chosen: IntArray, alpha: float) -> tuple[Tasks, IntArray]:
        """Replace what some experiments gave, second moments included."""
        tasks, place = super().retrain(chosen, alpha)
        models, mine = HeldOutModels(self.smoother, tasks, np.array([alpha])), self.moments
        own = spread(models, models.alphas, self.errors[None, place])
        mine.log_det[:, chosen], mine.square[:, chosen] = own.log_det, own.square
        mine.variance[:, place] = own.variance
        return tasks, place

    def contributions(self) -> FloatArray:
        """Return what each experiment adds to the criterion, if the noise is not zero."""
        if not (self.noise > 0.0).all():
            raise HoldOutError(
                f"target {int(np.argmin(self.noise))} is predicted without error, so its held-out "
                "density is infinite. Leave scoring=None, or leave that target out.",
                argument="scoring",
            )
        return super().contributions()

    @property
    def noise(self) -> FloatArray:
        """σ̂² of each target, shape (v,)."""
        return np.asarray(self.moments.noise[0])


class LogDensity(_OfDistribution):
    """Minus the log density of the tested targets, jointly within an experiment, mean per row."""

    score, words, power, weighted = "log_density", "minus log density", 0, False

    @staticmethod
    def descend(value: float) -> tuple[float, float]:
        """Return twice the criterion: another unit of y shifts it."""
        return 2.0 * value, 2.0

    @staticmethod
    def percent(value: float) -> float:
        """Return what 1 % more variance costs: shares of a logarithm mean nothing."""
        return 0.005

    def slopes(self, found: Solved) -> Slopes:
        """Return q/σ² and ½(C⁻¹ − Σ q qᵀ/σ²), over the number of rows."""
        tau = 0.5 / (self.total * self.noise)
        level = 0.5 * self.noise.size / self.total
        return Slopes(2.0 * tau * found.weighted, CovarianceSlope(level, tau))


#: What can be tuned for, by the name of the score in ``KernelRidgeCV``.
LOSSES: MappingProxyType[str, type[Loss]] = MappingProxyType(
    {loss.score: loss for loss in (SquaredError, LogDensity)}
)


class Adjoint(Protocol):
    """Collects the derivatives by the kernel."""

    def add(self, found: Solved, slopes: Slopes) -> None:
        """Add those of stacked experiments."""


def walk(
    criterion: Criterion,
    smoother: Smoother,
    factor: Factor,
    alpha: float,
    scale: float,
    adjoint: Adjoint | None,
) -> FloatArray:
    """Return what each experiment adds to the criterion (experiments,), and tell the adjoint.

    `smoother` and `factor` are those of all rows at the penalty α, `scale` is what I − S_HH is in
    units of (`Solved`). Experiments whose error passes the promise are trained from scratch, as the
    estimator does.
    """
    lost = np.zeros(len(criterion.tasks), dtype=bool)
    loss = criterion.loss(criterion, smoother)

    def solved(block: Block) -> Solved:
        return Solved(block, factor.held(block.shape, np.array([alpha])), scale)

    for block in criterion.blocks:
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
        for block in criterion.blocks:
            found = solved(block)
            adjoint.add(found, loss.slopes(found))
    return contributions
