"""A certificate: how far the fast predictions lie from models that are really retrained."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from holdfast import holdout
from holdfast._typing import FloatArray, IntArray
from holdfast.data.seeds import seed_of
from holdfast.experiments import Tasks
from holdfast.holdout.accuracy import PROMISE, data_floor
from holdfast.progress import report
from holdfast.smoother import Smoother

__all__ = ["Verification", "verify_tasks"]

#: Two ways to compute the same numbers may differ by this many times what double precision cannot
#: represent.
FLOORS = 3.0
#: … but no more than this: predictions with larger rounding errors are not verified.
MOST = 1e-4


@dataclass(frozen=True, eq=False)
class Verification:
    """How far the fast predictions lie from models that were really retrained.

    Attributes
    ----------
    max_relative_error : float
        Largest of `relative_errors`.
    relative_errors : ndarray of shape (n, a)
        For each experiment and alpha, the largest difference over the spread of y, or over the
        distance of the prediction from its mean if that is larger.
    experiments : ndarray of int, shape (n,)
        Which experiments were retrained.
    alphas : ndarray of shape (a,)
    chosen : ndarray of int
        Which of the penalties the model uses.
    rounding : ndarray of shape (a,)
        What double precision cannot represent of held-out predictions at each alpha, in the same
        units.
    """

    max_relative_error: float
    relative_errors: FloatArray
    experiments: IntArray
    alphas: FloatArray
    chosen: IntArray
    rounding: FloatArray

    @property
    def chosen_relative_error(self) -> float:
        """Largest difference at the penalties that the model uses."""
        return float(self.relative_errors[:, self.chosen].max())

    @property
    def verified(self) -> bool:
        """Whether predictions at the penalties that the model uses are as exact as can be."""
        return self.within(PROMISE)

    def within(self, tolerance: float) -> bool:
        """Whether differences are at most `tolerance`, beside what double precision cannot do.

        At the penalties that the model uses: there they may be `tolerance` and three times the
        predicted rounding error, as long as that is small.
        """
        allowed = tolerance + np.minimum(FLOORS * self.rounding[self.chosen], MOST)
        return bool((self.relative_errors[:, self.chosen] <= allowed).all())

    def words(self, tolerance: float = PROMISE) -> str:
        """Return what was found, in a sentence or two."""
        n = self.experiments.size
        found = (
            f"retrained {n} experiment{'s' * (n > 1)}, largest difference "
            f"{self.chosen_relative_error:.0e} of the spread of y (double precision allows "
            f"{float(self.rounding[self.chosen].max()):.0e})."
        )
        if not self.within(tolerance):
            return f"NOT verified: {found} Do not rely on these numbers."
        coarse = self.relative_errors.max(axis=0) > tolerance
        coarse[self.chosen] = False
        if coarse.any():
            found += (
                f" At alpha = {self.alphas[coarse].max():.2g} and below, which was not chosen, "
                f"rounding errors reach {self.relative_errors[:, coarse].max():.0e}."
            )
        return f"verified: {found}"

    def __repr__(self) -> str:
        return f"<{self.words()}>"


def verify_tasks(
    smoother: Smoother,
    tasks: Tasks,
    alphas: FloatArray,
    path: str,
    count: int,
    seed: object,
    chosen: IntArray,
) -> Verification:
    """Return how far the predictions of some tasks, drawn at random, lie from retraining by QR."""
    drawn = np.random.default_rng(seed_of(seed)).permutation(len(tasks))
    part = tasks.select(np.sort(drawn[: min(count, len(tasks))]))
    errors = differences(smoother, part, alphas, path)
    rounding = data_floor(smoother, part, alphas)
    return Verification(float(errors.max()), errors, part.source, alphas, chosen, rounding)


def differences(smoother: Smoother, tasks: Tasks, alphas: FloatArray, path: str) -> FloatArray:
    """Return for each task and alpha the largest difference from retraining, over the yardstick."""
    fast = holdout.predict(smoother, tasks, alphas, path)
    targets, found = smoother.targets, np.empty((len(tasks), alphas.size))
    mean = smoother.original_targets()[smoother.scale.trained].mean(axis=0)
    for j in range(len(tasks)):
        slow = holdout.predict(smoother, tasks.select(np.array([j])), alphas, "retrain")
        known = fast[:, tasks.test.ptr[j] : tasks.test.ptr[j + 1]]
        yardstick = np.maximum(targets.spread * targets.unit, np.abs(slow - mean))
        found[j] = (np.abs(known - slow) / yardstick).max(axis=(1, 2))
        report(j + 1, len(tasks), "retraining to verify")
    return found
