"""The error of every path, and of retraining by QR, against the exact answer."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from holdfast import HoldOut, KernelRidgeCV
from holdfast.exceptions import HoldfastWarning
from reference.retrain import PATHS
from torture.families import Problem
from torture.truth import Truth, truth

Floats = NDArray[np.float64]

#: How far a prediction may lie from the exact one, in standard deviations of the target, beside …
PROMISE = 1e-6
#: … this many times the error of refitting by QR. What is further away, and not said to be, is a
#: silent miss; beyond this, a bad one.
TIMES, BAD = 10.0, 1e-5
#: Where a miss is seen, QR has this many tries, with rows and basis rows in other orders: one of
#: them may be lucky. Its error is the largest.
ORDERS = 4


@dataclass(frozen=True)
class Measured:
    """Errors of one problem.

    Attributes
    ----------
    problem : Problem
    qr : ndarray of shape (alphas, targets)
        Error of retraining by QR over the spread of the target.
    errors : dict of ndarray of shape (answers, alphas, targets)
        The same for each path, or other way; answers are of `fit`, and asked for afterwards.
    rounding : dict of ndarray of shape (answers, alphas)
        The rounding error that each answer states.
    """

    problem: Problem
    qr: Floats
    errors: dict[str, Floats]
    rounding: dict[str, Floats]

    def miss(self, path: str) -> float:
        """Return by how much the largest error in silence is beyond ten times that of QR."""
        beyond = self.errors[path] - TIMES * self.qr
        beyond = np.where(np.isnan(beyond), np.inf, beyond)
        silent = self.rounding[path] <= PROMISE
        return float(beyond[silent].max(initial=0.0))

    def understated(self, path: str) -> float:
        """Return the largest ratio of an error to what is said of it, where something is."""
        said = self.rounding[path] > PROMISE
        beyond = np.maximum(self.errors[path] - TIMES * self.qr, 0.0)
        return float((beyond / self.rounding[path][..., None])[said].max(initial=0.0))


def measure(p: Problem, paths: tuple[str, ...] = PATHS) -> Measured:
    """Return the errors of one problem."""
    models = {path: fitted(p, path) for path in paths}
    judge = truth(p, models[paths[0]])
    return judged(p, judge, {path: answered(model, p.alphas) for path, model in models.items()})


def judged(p: Problem, judge: Truth, answers: dict[str, list[tuple[Floats, Floats]]]) -> Measured:
    """Return the errors of answers beside those of QR."""
    errors = {path: np.stack([judge.error(v) for v, _ in found]) for path, found in answers.items()}
    rounding = {path: np.stack([told for _, told in found]) for path, found in answers.items()}
    found = Measured(p, judge.qr_error(len(p.X)), errors, rounding)
    if all(found.miss(path) <= PROMISE for path in errors):
        return found
    return replace(found, qr=judge.qr_error(len(p.X), ORDERS))


def by_one_way(p: Problem, way: str, judge: Truth, model: KernelRidgeCV) -> Measured:
    """Return the errors of one way to fit a problem."""
    return judged(p, judge, {way: answered(model, p.alphas)})


def estimator(p: Problem, path: str) -> KernelRidgeCV:
    """Return the estimator of a problem."""
    return KernelRidgeCV(
        **p.kernel, alphas=p.alphas, basis=p.basis, held_out_basis=p.policy, fit_intercept=p.bias,
        cv=[HoldOut(rows) for rows in p.sets], path=path,
    )  # fmt: skip


def fitted(p: Problem, path: str, rows: object = None, **changed: object) -> KernelRidgeCV:
    """Return the fitted model of a problem; `rows` may be X in another form."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HoldfastWarning)
        model = estimator(p, path).set_params(**changed)
        return model.fit(p.X if rows is None else rows, p.y, sample_weight=p.weights)


def answered(model: KernelRidgeCV, alphas: Floats) -> list[tuple[Floats, Floats]]:
    """Return predictions (alphas, test rows, targets) and the rounding errors stated (alphas,).

    What `fit` computed, and the same asked again, of the factors that it left.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HoldfastWarning)
        answers = model.held_out(), model.held_out(alphas=alphas)
    return [(found.values, found.rounding) for found in answers]
