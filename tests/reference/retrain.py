"""The naive twin: train on the rows that are left, predict the test rows, repeat.

The model (one definition for every path of the package): with basis rows B, held-out
rows H, removed basis rows E, L = B without E, weights w and penalty alpha, minimise

    sum_{i not in H} w_i (y_i - b - sum_{j in L} a_j k(x_i, x_j))^2
        + alpha a' (K_LL + jitter I) a

over a and, when there is a bias, over b, which is never penalised. Without a basis
(the dense model) L is the set of training rows with w > 0 and there is no jitter. Rows of
weight zero are never trained on but may be tested, and may be basis rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
Policy = Literal["remove", "keep", "train", "skip"]

POLICIES: tuple[Policy, ...] = ("remove", "keep", "train", "skip")
#: The values of the parameter `path`: each must give what `retrain` gives.
PATHS = ("spectral", "per_fold", "cholesky", "refit")


def retrain(
    K: ArrayLike,
    y: ArrayLike,
    held_out: ArrayLike,
    test: ArrayLike,
    alpha: float,
    basis: ArrayLike | None = None,
    removed: ArrayLike = (),
    weights: ArrayLike | None = None,
    bias: bool = True,
    jitter: float = 0.0,
) -> Floats:
    """Return predictions (|test|, targets) of the model trained on the rows not in ``held_out``.

    Parameters
    ----------
    K : (m, m)
        Kernel matrix of all rows.
    y : (m,) or (m, targets)
        Labels; those of held-out rows and rows of weight zero are never read.
    held_out, test : row indices
        Rows that do not train, and rows to predict (any rows, in any order).
    alpha : float
        The penalty.
    basis, removed : row indices, optional
        Basis rows and those of them that this experiment removes. ``None``: dense model.
    weights : (m,), optional
        Non-negative row weights, ones by default.
    bias : bool
        Whether the model has an unpenalised bias.
    jitter : float
        Absolute shift of the basis block K_LL, part of the model.

    Notes
    -----
    With a basis: stacked least squares in the coordinates of W = K_{:L} C^-T, CC' = K_LL +
    jitter I. Dense: the bordered system of sqrt(W) K sqrt(W) + alpha I, the bias as an unknown.
    Both by QR, which squares no condition number. O(m n^2) with a basis, O(m^3) dense, per call.
    """
    K = np.asarray(K, dtype=np.float64)
    Y = as_columns(y)
    w = as_weights(weights, len(K))
    tested = as_rows(test)
    train = training_rows(len(K), held_out, w)
    if bias and not len(train):
        raise ValueError("no training row of positive weight is left, so the bias is undefined")
    if basis is None:
        if len(as_rows(removed)) or jitter:
            raise ValueError("removed and jitter belong to a model with a basis; this one is dense")
        return _dense(K, Y[train], train, tested, alpha, w[train], bias)
    left = remaining_basis(basis, removed)
    K_LL = K[np.ix_(left, left)] + jitter * np.eye(len(left))
    return _sparse(
        K[np.ix_(train, left)], K[np.ix_(tested, left)], K_LL, Y[train], alpha, w[train], bias
    )


def policy_experiment(
    held_out: ArrayLike, test: ArrayLike, basis: ArrayLike | None, policy: Policy
) -> tuple[Rows, Rows, Rows]:
    """Return (held_out, test, removed) to retrain with, under a policy for basis rows.

    Notes
    -----
    ``"remove"``: basis rows in H leave the training set and the basis. ``"keep"``: they leave
    the training set only. ``"train"``: they leave neither, so that a basis row among the test
    rows is predicted by a model that trained on it. ``"skip"``: as ``"train"``, and they are
    not tested. (Pahikkala et al. 2012 §6.2, §6.4.) A dense model has no basis to speak of.
    """
    H, T = as_rows(held_out), as_rows(test)
    none = np.empty(0, dtype=np.int64)
    B = none if basis is None else as_rows(basis)
    in_basis = set(B.tolist())
    H_without_B = as_rows([i for i in H.tolist() if i not in in_basis])
    T_without_B = as_rows([i for i in T.tolist() if i not in in_basis])
    if policy == "remove":
        return H, T, as_rows([i for i in H.tolist() if i in in_basis])
    if policy == "keep":
        return H, T, none
    if policy == "train":
        return H_without_B, T, none
    if policy == "skip":
        return H_without_B, T_without_B, none
    raise ValueError(f"policy must be one of {POLICIES}, got {policy!r}")


def retrain_all(
    K: ArrayLike,
    y: ArrayLike,
    experiments: Iterable[tuple[ArrayLike, ArrayLike]],
    alphas: Sequence[float] | Floats,
    basis: ArrayLike | None = None,
    policy: Policy = "remove",
    weights: ArrayLike | None = None,
    bias: bool = True,
    jitter: float = 0.0,
) -> list[Floats]:
    """Return one (alphas, rows, targets) array per experiment (held_out, test), by retraining."""
    predictions = []
    for held_out, test in experiments:
        H, T, removed = policy_experiment(held_out, test, basis, policy)
        predictions.append(
            np.stack(
                [
                    retrain(K, y, H, T, alpha, basis, removed, weights, bias, jitter)
                    for alpha in np.asarray(alphas, dtype=np.float64).tolist()
                ]
            )
        )
    return predictions


def as_columns(y: ArrayLike) -> Floats:
    """Return y as (m, targets)."""
    Y = np.asarray(y, dtype=np.float64)
    return Y[:, None] if Y.ndim == 1 else Y


def as_rows(rows: ArrayLike) -> Rows:
    """Return row indices as a one-dimensional int64 array."""
    return np.asarray(rows, dtype=np.int64).reshape(-1)


def as_weights(weights: ArrayLike | None, n_rows: int) -> Floats:
    """Return weights as an array of length m."""
    return np.ones(n_rows) if weights is None else np.asarray(weights, dtype=np.float64)


def training_rows(n_rows: int, held_out: ArrayLike, weights: Floats) -> Rows:
    """Return the rows that train: not held out and of positive weight."""
    is_held_out = np.zeros(n_rows, dtype=bool)
    is_held_out[as_rows(held_out)] = True
    return np.flatnonzero(~is_held_out & (weights > 0))


def remaining_basis(basis: ArrayLike, removed: ArrayLike) -> Rows:
    """Return the basis without the removed rows, in the order of the basis."""
    gone = set(as_rows(removed).tolist())
    return as_rows([j for j in as_rows(basis).tolist() if j not in gone])


def _sparse(
    K_TL: Floats, K_SL: Floats, K_LL: Floats, Y: Floats, alpha: float, w: Floats, bias: bool
) -> Floats:
    """Minimise sum_i w_i (y_i - b - W_i beta)^2 + alpha |beta|^2, and predict."""
    n = len(K_LL)
    if n:
        C = scipy.linalg.cholesky(K_LL, lower=True)
        K_TL = scipy.linalg.solve_triangular(C, K_TL.T, lower=True).T
        K_SL = scipy.linalg.solve_triangular(C, K_SL.T, lower=True).T
    # Stacked system (t + n, n + 1): unit penalty rows below, and no penalty on the bias column.
    A = np.vstack([np.sqrt(w)[:, None] * K_TL, np.sqrt(alpha) * np.eye(n)])
    rhs = np.vstack([np.sqrt(w)[:, None] * Y, np.zeros((n, Y.shape[1]))])
    if bias:
        A = np.column_stack([A, np.concatenate([np.sqrt(w), np.zeros(n)])])
    solution = _by_qr(A, rhs)
    return np.asarray(K_SL @ solution[:n] + solution[n:].sum(axis=0))


def _dense(
    K: Floats, Y: Floats, train: Rows, test: Rows, alpha: float, w: Floats, bias: bool
) -> Floats:
    """Solve the bordered system in c = a / sqrt(w) (Cawley, Talbot 2004 §2.2), and predict."""
    t, s = len(train), np.sqrt(w)
    A = np.zeros((t + bias, t + bias))
    A[:t, :t] = s[:, None] * K[np.ix_(train, train)] * s + alpha * np.eye(t)
    A[:t, t:] = s[:, None]
    A[t:, :t] = s
    solution = _by_qr(A, np.vstack([s[:, None] * Y, np.zeros((int(bias), Y.shape[1]))]))
    b = solution[t:].sum(axis=0)
    return np.asarray(K[np.ix_(test, train)] @ (s[:, None] * solution[:t]) + b)


def _by_qr(A: Floats, rhs: Floats) -> Floats:
    Q, R = np.linalg.qr(A)
    found = Q.T @ rhs
    return np.asarray(scipy.linalg.solve_triangular(R, found) if A.shape[1] else found)
