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

__all__ = ["Verification", "verify"]


@dataclass(frozen=True, eq=False)
class Verification:
    """How far the fast predictions lie from models that were really retrained.

    Attributes
    ----------
    max_relative_error : float
        Largest of `relative_errors`.
    relative_errors : ndarray of shape (n, a)
        For each experiment and alpha, the largest deviation over the largest prediction.
    experiments : ndarray of int, shape (n,)
        Which experiments were retrained.
    alphas : ndarray of shape (a,)
    """

    max_relative_error: float
    relative_errors: FloatArray
    experiments: IntArray
    alphas: FloatArray

    def __repr__(self) -> str:
        return (
            f"<verified {self.experiments.size} experiments × {self.alphas.size} alphas by "
            f"retraining: largest relative error {self.max_relative_error:.1e}>"
        )


def verify(
    smoother: Smoother, tasks: Tasks, alphas: FloatArray, path: str, count: int, seed: object
) -> Verification:
    """Return how far the predictions of some tasks, drawn at random, lie from retraining.

    Tasks that are trained anew anyway prove nothing, and are drawn last.
    """
    drawn = generator("random_state", seed).permutation(len(tasks))
    again = basis_shrinks(tasks, smoother.n_basis)
    drawn = drawn[np.argsort(again[drawn], kind="stable")]
    part = tasks.select(np.sort(drawn[: min(count, len(tasks))]))
    fast = holdout.predict(smoother, part, alphas, path)
    errors = np.empty((len(part), alphas.size))
    for j in range(len(part)):
        slow = holdout.predict(smoother, part.select(np.array([j])), alphas, "retrain")
        gap = np.abs(fast[:, part.test.ptr[j] : part.test.ptr[j + 1]] - slow).max(axis=(1, 2))
        size = np.abs(slow).max(axis=(1, 2))
        errors[j] = gap / np.where(size > 0, size, 1.0)
        report(j + 1, len(part), "retraining to verify")
    return Verification(float(errors.max()), errors, part.source, alphas)
