"""A certificate: how far the fast predictions lie from models that are really retrained."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from holdfast import holdout
from holdfast._typing import FloatArray, IntArray
from holdfast.data.seeds import generator
from holdfast.experiments import Tasks
from holdfast.holdout.digits import basis_shrinks
from holdfast.progress import report
from holdfast.smoother import Smoother

__all__ = ["TOLERANCE", "Verification", "verify"]

#: Predictions that deviate by more from retraining are not verified, …
TOLERANCE = 1e-6
#: … unless, at a penalty that was not chosen, two ways to train may differ as much in double
#: precision: by this many times the error that the path promises there.
ROUNDING = 30.0


@dataclass(frozen=True, eq=False)
class Verification:
    """How far the fast predictions lie from models that were really retrained.

    Attributes
    ----------
    max_relative_error : float
        Largest of `relative_errors`.
    relative_errors : ndarray of shape (n, a)
        For each experiment and alpha, the largest deviation over the largest prediction of all
        experiments that were retrained.
    experiments : ndarray of int, shape (n,)
        Which experiments were retrained.
    alphas : ndarray of shape (a,)
    chosen : ndarray of int
        Which of the penalties the model uses.
    promised : ndarray of shape (a,)
        The relative error that the path promises at each alpha.
    """

    max_relative_error: float
    relative_errors: FloatArray
    experiments: IntArray
    alphas: FloatArray
    chosen: IntArray
    promised: FloatArray

    @property
    def chosen_relative_error(self) -> float:
        """Largest deviation at the penalties that the model uses."""
        return float(self.relative_errors[:, self.chosen].max())

    @property
    def verified(self) -> bool:
        """Whether every deviation is as small as it should be: `within` 1e-6."""
        return self.within(TOLERANCE)

    def within(self, tolerance: float) -> bool:
        """Whether deviations are at most `tolerance`, where double precision has the digits.

        At the penalties that the model uses there is no excuse. At others, so small beside the
        kernel matrix that training itself has fewer digits, ways to train may differ by 30 times
        the error that the path promises.
        """
        allowed = np.maximum(tolerance, ROUNDING * self.promised)
        allowed[self.chosen] = tolerance
        return bool((self.relative_errors <= allowed).all())

    def words(self, tolerance: float = TOLERANCE) -> str:
        """Return what was found, in a sentence or two."""
        found = (
            f"largest relative deviation {self.chosen_relative_error:.1e} at the chosen λ, "
            f"{self.max_relative_error:.1e} over the grid."
        )
        if not self.within(tolerance):
            return f"{found} NOT verified: more than {tolerance:g}. Do not rely on these numbers."
        if self.max_relative_error > tolerance:
            worst = self.alphas[self.relative_errors.max(axis=0).argmax()]
            return f"{found} At λ = {worst:.2g} double precision has no more digits."
        return found

    def __repr__(self) -> str:
        word = "verified" if self.verified else "NOT verified:"
        return (
            f"<{word} {self.experiments.size} experiments × {self.alphas.size} alphas by "
            f"retraining: largest relative error {self.chosen_relative_error:.1e} at the chosen "
            f"alpha, {self.max_relative_error:.1e} over the grid>"
        )


def verify(
    smoother: Smoother,
    tasks: Tasks,
    alphas: FloatArray,
    path: str,
    count: int,
    seed: object,
    chosen: IntArray,
) -> Verification:
    """Return how far the predictions of some tasks, drawn at random, lie from retraining by QR.

    Tasks that are trained anew anyway prove nothing; they are drawn last.
    """
    drawn = generator("random_state", seed).permutation(len(tasks))
    again = basis_shrinks(tasks, smoother.n_basis)
    drawn = drawn[np.argsort(again[drawn], kind="stable")]
    part = tasks.select(np.sort(drawn[: min(count, len(tasks))]))
    errors = deviations(smoother, part, alphas, path)
    promised = smoother.path_promise(path, alphas)
    if promised is None:
        promised = np.zeros(alphas.size)
    return Verification(float(errors.max()), errors, part.source, alphas, chosen, promised)


def deviations(smoother: Smoother, tasks: Tasks, alphas: FloatArray, path: str) -> FloatArray:
    """Return for each task and alpha the largest relative deviation from retraining.

    Relative to the largest prediction of all tasks: a single row may well be predicted to be zero.
    """
    fast = holdout.predict(smoother, tasks, alphas, path)
    gaps, sizes = np.empty((2, len(tasks), alphas.size))
    for j in range(len(tasks)):
        slow = holdout.predict(smoother, tasks.select(np.array([j])), alphas, "retrain")
        known = fast[:, tasks.test.ptr[j] : tasks.test.ptr[j + 1]]
        gaps[j] = np.abs(known - slow).max(axis=(1, 2))
        sizes[j] = np.abs(slow).max(axis=(1, 2))
        report(j + 1, len(tasks), "retraining to verify")
    size = sizes.max(axis=0)
    return np.asarray(gaps / np.where(size > 0, size, 1.0))
