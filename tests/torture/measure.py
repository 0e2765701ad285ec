"""The error of every path, and of retraining by QR, against the exact answer."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from holdfast import HoldOut, KernelRidgeCV
from holdfast.core.predict import PATHS
from holdfast.exceptions import HoldfastWarning
from torture.families import Problem
from torture.truth import Truth, truth

Floats = NDArray[np.float64]

#: What the algebra may add to a prediction, over the spread of the target, …
PROMISE = 1e-6
#: … beside this many times the predicted rounding error, or the error of retraining by QR.
TIMES = 10.0
#: Errors over all this.
FACTOR = 1.0
#: Where that seems too much, QR has this many tries, with rows and basis rows in other orders: one
#: of them may be lucky. Its error is the largest.
ORDERS = 4


@dataclass(frozen=True)
class Measured:
    """Errors of one problem.

    Attributes
    ----------
    problem : Problem
    qr : ndarray of shape (alphas, targets)
        Error of retraining by QR over the spread of the target.
    paths : dict of ndarray of shape (alphas, targets)
        The same for each path, or other way.
    told : dict of ndarray of shape (alphas,)
        The rounding error that the fit predicts at each penalty, for each path.
    """

    problem: Problem
    qr: Floats
    paths: dict[str, Floats]
    told: dict[str, Floats]

    def excess(self, path: str) -> float:
        """Return the largest ratio to what is promised, predicted, or no better by QR."""
        allowed = np.maximum(PROMISE + TIMES * self.told[path][:, None], TIMES * self.qr)
        ratio = self.paths[path] / allowed
        return float(np.where(np.isnan(ratio), np.inf, ratio).max())


def measure(p: Problem, paths: tuple[str, ...] = tuple(PATHS)) -> Measured:
    """Return the errors of one problem."""
    models = {path: fitted(p, path) for path in paths}
    judge = truth(p, models[paths[0]])
    errors, told = {}, {}
    for path, model in models.items():
        values, told[path] = answered(model, p.alphas)
        errors[path] = judge.error(values)
    return judged(p, judge, errors, told)


def judged(
    p: Problem, judge: Truth, errors: dict[str, Floats], told: dict[str, Floats]
) -> Measured:
    """Return the errors beside those of QR."""
    found = Measured(p, judge.qr_error(len(p.X)), errors, told)
    if all(found.excess(path) <= FACTOR for path in errors):
        return found
    return replace(found, qr=judge.qr_error(len(p.X), ORDERS))


def by_one_way(p: Problem, way: str, judge: Truth, model: KernelRidgeCV) -> Measured:
    """Return the errors of one way to fit a problem."""
    values, told = answered(model, p.alphas)
    return judged(p, judge, {way: judge.error(values)}, {way: told})


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


def answered(model: KernelRidgeCV, alphas: Floats) -> tuple[Floats, Floats]:
    """Return predictions (2, alphas, test rows, targets) and the rounding errors predicted.

    What `fit` computed, and the same asked again, of the factors that it left.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HoldfastWarning)
        values = np.stack([model.held_out().values, model.held_out(alphas=alphas).values])
    return values, np.asarray(model.cv_results_["rounding"])
