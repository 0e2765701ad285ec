"""Naive twins of the answers: train again for every model, then follow the definition literally."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from reference.retrain import (
    Floats,
    Policy,
    Rows,
    as_columns,
    as_weights,
    policy_experiment,
    remaining_basis,
    retrain,
    training_rows,
)


def without(
    K: Floats,
    K_new: Floats,
    y: ArrayLike,
    held_out: ArrayLike,
    alpha: float,
    *,
    basis: ArrayLike | None = None,
    policy: Policy = "remove",
    weights: ArrayLike | None = None,
    bias: bool = True,
    jitter: float = 0.0,
) -> Floats:
    """Return predictions (k, targets) for new rows by the model that never saw some rows.

    The new rows join the data with weight zero, so that nothing learns from them.
    """
    m, k = len(K), len(K_new)
    joined = np.block([[K, K_new.T], [K_new, np.zeros((k, k))]])
    Y = np.vstack([as_columns(y), np.zeros((k, as_columns(y).shape[1]))])
    w = np.concatenate([as_weights(weights, m), np.zeros(k)])
    H, _, removed = policy_experiment(held_out, [], basis, policy)
    new = np.arange(m, m + k)
    return retrain(joined, Y, H, new, alpha, basis, removed, w, bias, jitter)


def rank(level: float, count: int) -> int:
    """Return the smallest whole number r with r ≥ level (count + 1), level as it is written."""
    exact = Fraction(str(level)) * (count + 1)
    r = 0
    while r < exact:
        r += 1
    return r


def weighted_upper(values: Sequence[float], shares: Sequence[Fraction], level: float) -> float:
    """Return the smallest value below which at least ``level`` of the mass lies; else infinity."""
    reached = Fraction(0)
    for value, share in sorted(zip(values, shares, strict=True), key=lambda pair: pair[0]):
        reached += share
        if reached >= Fraction(str(level)):
            return value
    return math.inf


def interval(
    models: Floats,
    residuals: Floats,
    owners: Sequence[int],
    level: float,
    groups: Sequence[Any] | None = None,
) -> Floats:
    """Return bounds (k, 2) from predictions (models, k), residuals (m,) and the model of each row.

    ``groups``: the group of each row; each then weighs 1/(groups + 1), shared by its rows.
    """
    m, k = len(residuals), models.shape[1]
    shares = [Fraction(1, m + 1)] * m
    if groups is not None:
        n_groups = len(set(groups))
        shares = [Fraction(1, (n_groups + 1) * list(groups).count(g)) for g in groups]
    absolute = [abs(float(r)) for r in residuals]
    bounds = np.empty((k, 2))
    for x in range(k):
        low = [-(models[j, x] - r) for j, r in zip(owners, absolute, strict=True)]
        high = [models[j, x] + r for j, r in zip(owners, absolute, strict=True)]
        bounds[x] = -weighted_upper(low, shares, level), weighted_upper(high, shares, level)
    return bounds


def posterior(
    K: Floats,
    K_test: Floats,
    K_tests: Floats,
    train: Rows,
    alpha: float,
    weights: Floats,
    bias: bool,
    basis: ArrayLike | None = None,
    removed: ArrayLike = (),
    jitter: float = 0.0,
) -> Floats:
    """Return the covariance (t, t) of f on test rows, in units of the noise variance.

    Parameters
    ----------
    K, K_test, K_tests
        Kernel of all rows (m, m), of test rows with them (t, m), of test rows (t, t).
    train : rows
    alpha, weights, bias, basis, removed, jitter
        The model, as in ``retrain``.
    """
    w = weights[train]
    if basis is None:
        C = K[np.ix_(train, train)] / alpha + np.diag(1.0 / w)
        k = K_test[:, train].T / alpha
        covariance = K_tests / alpha - k.T @ np.linalg.solve(C, k)
        if bias:
            one = np.ones((len(train), 1))
            u = np.ones((1, len(K_test))) - one.T @ np.linalg.solve(C, k)
            covariance += u.T @ np.linalg.solve(one.T @ np.linalg.solve(C, one), u)
        return np.asarray(covariance)
    left = remaining_basis(basis, removed)
    F, F_test = K[np.ix_(train, left)], K_test[:, left]
    penalty = alpha * (K[np.ix_(left, left)] + jitter * np.eye(len(left)))
    if bias:
        F, F_test = (np.column_stack([A, np.ones(len(A))]) for A in (F, F_test))
        penalty = np.pad(penalty, ((0, 1), (0, 1)))
    return np.asarray(F_test @ np.linalg.solve(F.T @ (w[:, None] * F) + penalty, F_test.T))


def held_out_law(
    K: Floats,
    held_out: ArrayLike,
    test: ArrayLike,
    alpha: float,
    *,
    basis: ArrayLike | None = None,
    policy: Policy = "remove",
    weights: ArrayLike | None = None,
    bias: bool = True,
    jitter: float = 0.0,
) -> Floats:
    """Return the covariance (t, t) of the test rows' targets, in units of the noise variance.

    Test rows that stay in the training set, or have no weight, are independent new observations.
    """
    w = as_weights(weights, len(K))
    H, T, removed = policy_experiment(held_out, test, basis, policy)
    train = training_rows(len(K), H, w)
    C = posterior(
        K, K[T], K[np.ix_(T, T)], train, alpha, w, bias, basis, removed, jitter
    ) + np.diag(1.0 / np.where(w[T] > 0, w[T], 1.0))
    for t, row in enumerate(T.tolist()):
        if row not in set(H.tolist()) or w[row] == 0:
            own = C[t, t]
            C[t, :] = 0.0
            C[:, t] = 0.0
            C[t, t] = own
    return C


def log_density(r: Floats, C: Floats, noise: float) -> float:
    """Return the log density of residuals under a normal law of covariance ``noise · C``."""
    n = len(r)
    _, log_det = np.linalg.slogdet(noise * C)
    return float(-0.5 * (n * np.log(2 * np.pi) + log_det + r @ np.linalg.solve(noise * C, r)))
