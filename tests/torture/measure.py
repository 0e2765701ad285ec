"""The error of every path, and of retraining by QR, against many digits."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import mpmath
import numpy as np
from numpy.typing import NDArray

from holdfast import HoldOut, KernelRidgeCV
from holdfast.exceptions import DigitsWarning, HoldfastWarning
from holdfast.holdout import PATHS
from reference.oracle import _exact, _solve, _sparse_system, exact_retrain
from reference.retrain import policy_experiment, retrain
from torture.families import Problem

Floats = NDArray[np.float64]

#: A path may be this many times less accurate than retraining by QR, …
FACTOR = 30.0
#: … where errors below this, relative to the largest prediction, count as this.
FLOOR = 1e-12


@dataclass(frozen=True)
class Measured:
    """Errors of one problem.

    Attributes
    ----------
    problem : Problem
    qr : ndarray of shape (alphas,)
        Error of retraining by QR over the largest prediction.
    paths : dict of ndarray of shape (alphas,)
    told : dict of set of float
        Penalties that a warning named, for each path.
    """

    problem: Problem
    qr: Floats
    paths: dict[str, Floats]
    told: dict[str, set[float]]

    def excess(self, path: str) -> float:
        """Return the largest ratio that no warning spoke of."""
        silent = np.array([a not in self.told[path] for a in self.problem.alphas])
        ratio = self.paths[path] / np.maximum(self.qr, FLOOR)
        return float(np.max(np.where(silent, ratio, 0.0)))


def exact_features(
    X: Floats, y: Floats, held: NDArray[np.int64], test: NDArray[np.int64], alpha: float,
    weights: Floats, bias: bool,
) -> Floats:  # fmt: skip
    """Return predictions of ridge regression on the columns of X, correctly rounded."""
    keep = weights > 0
    keep[held] = False
    train = np.flatnonzero(keep)
    d = X.shape[1]
    with mpmath.workdps(80):
        identity = [[mpmath.mpf(int(i == j)) for j in range(d)] for i in range(d)]
        w = [mpmath.mpf(float(v)) for v in weights[train]]
        Y = [[mpmath.mpf(float(v)) for v in y[train]]]
        A, rhs = _sparse_system(_exact(X[train]), identity, Y, w, mpmath.mpf(float(alpha)), bias)
        (coefficients,) = _solve(A, rhs)
        Z = [[*row, mpmath.mpf(1)] if bias else row for row in _exact(X[test])]
        return np.array([float(mpmath.fdot(row, coefficients)) for row in Z])


def qr_features(
    X: Floats, y: Floats, held: NDArray[np.int64], test: NDArray[np.int64], alpha: float,
    weights: Floats, bias: bool,
) -> Floats:  # fmt: skip
    """Return the same by QR of the augmented system, features and targets centred first."""
    keep = weights > 0
    keep[held] = False
    train = np.flatnonzero(keep)
    w, d = weights[train], X.shape[1]
    mean, level = np.zeros(d), 0.0
    if bias:
        mean, level = w @ X[train] / w.sum(), float(w @ y[train] / w.sum())
    root = np.sqrt(w)[:, None]
    rows = [root * (X[train] - mean), root] if bias else [root * X[train]]
    A = np.vstack(
        [np.hstack(rows), np.hstack([np.sqrt(alpha) * np.eye(d), np.zeros((d, int(bias)))])]
    )
    b = np.concatenate([root[:, 0] * (y[train] - level), np.zeros(d)])
    Q, R = np.linalg.qr(A)
    theta = np.linalg.solve(R, Q.T @ b)
    Z = np.hstack([X[test] - mean, np.ones((len(test), int(bias)))])
    return Z @ theta + level


def measure(p: Problem, paths: tuple[str, ...] = tuple(PATHS)) -> Measured:
    """Return the errors of one problem."""
    exact, qr = _references(p)
    size = np.maximum(np.abs(exact).max(axis=1), np.finfo(float).tiny)
    errors, told = {}, {}
    for path in paths:
        values, told[path] = _package(p, path)
        errors[path] = np.abs(values - exact).max(axis=(0, 2)) / size
    return Measured(p, np.abs(qr - exact).max(axis=1) / size, errors, told)


def _references(p: Problem) -> tuple[Floats, Floats]:
    """Return (alphas, test rows) exactly and by QR."""
    weights = np.ones(len(p.X)) if p.weights is None else p.weights
    exact, qr = [], []
    if p.kernel["kernel"] == "linear":
        for alpha in p.alphas:
            parts = [(p.X, p.y, H, H, float(alpha), weights, p.bias) for H in p.sets]
            exact.append(np.concatenate([exact_features(*part) for part in parts]))
            qr.append(np.concatenate([qr_features(*part) for part in parts]))
        return np.array(exact), np.array(qr)
    model = _fitted(p, "fold_gram")
    K = np.asarray(model.kernel_(p.X))
    for alpha in p.alphas:
        rows: list[list[Floats]] = [[], []]
        for H in p.sets:
            held, test, removed = policy_experiment(H, H, p.basis, p.policy)
            more = (p.basis, removed, weights, p.bias, model.jitter_)
            rows[0].append(exact_retrain(K, p.y, held, test, float(alpha), *more)[:, 0])
            rows[1].append(retrain(K, p.y, held, test, float(alpha), *more, solver="qr")[:, 0])
        exact.append(np.concatenate(rows[0]))
        qr.append(np.concatenate(rows[1]))
    return np.array(exact), np.array(qr)


def estimator(p: Problem, path: str) -> KernelRidgeCV:
    """Return the estimator of a problem."""
    return KernelRidgeCV(
        **p.kernel, alphas=p.alphas, basis=p.basis, held_out_basis=p.policy, fit_intercept=p.bias,
        cv=[HoldOut(rows) for rows in p.sets], path=path,
    )  # fmt: skip


def answered(model: KernelRidgeCV, alphas: Floats) -> tuple[Floats, set[float]]:
    """Return predictions (2, alphas, test rows) and the penalties that a warning named.

    What `fit` computed, and the same asked again, of the factors that it left.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        both = [model.held_out().values, model.held_out(alphas=alphas).values]
        values = np.stack(both)[..., 0]
    told: set[float] = set()
    for entry in caught:
        if isinstance(entry.message, DigitsWarning):
            told |= set(entry.message.alphas)
    return values, told


def _fitted(p: Problem, path: str) -> KernelRidgeCV:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HoldfastWarning)
        return estimator(p, path).fit(p.X, p.y, sample_weight=p.weights)


def _package(p: Problem, path: str) -> tuple[Floats, set[float]]:
    return answered(_fitted(p, path), p.alphas)
