"""Basis selection without shortcuts: every candidate is judged by a full computation."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reference.retrain import as_columns, as_weights, retrain

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]


def draw_candidates(
    chosen: list[int], n_rows: int, n_candidates: int | None, rng: np.random.Generator | None
) -> Rows:
    """Return candidate rows in drawn order, or all remaining rows in ascending order.

    Notes
    -----
    The contract on randomness: one ``rng.choice(remaining, size=min(n_candidates, remaining),
    replace=False)`` per step, ``remaining`` ascending.
    """
    remaining = np.setdiff1d(np.arange(n_rows), chosen)
    if n_candidates is None:
        return remaining
    if rng is None:
        raise ValueError("drawing candidates needs rng, a numpy.random.Generator")
    drawn = rng.choice(remaining, size=min(n_candidates, len(remaining)), replace=False)
    return np.asarray(drawn, dtype=np.int64)


def training_error(
    K: ArrayLike,
    y: ArrayLike,
    basis: list[int],
    alpha: float,
    weights: ArrayLike | None = None,
    bias: bool = True,
    jitter: float = 0.0,
) -> float:
    """Return the weighted sum of squared training residuals, over all targets."""
    Y = as_columns(y)
    w = as_weights(weights, len(Y))
    everything = np.arange(len(Y))
    fitted = retrain(K, Y, [], everything, alpha, basis, (), w, bias, jitter)
    return float(np.sum(w[:, None] * (Y - fitted) ** 2))


def greedy(
    K: ArrayLike,
    y: ArrayLike,
    n: int,
    alpha: float,
    rng: np.random.Generator,
    n_candidates: int = 60,
    weights: ArrayLike | None = None,
    bias: bool = True,
    jitter: float = 0.0,
) -> Rows:
    """Return n basis rows in order, by Pahikkala et al. 2012, Algorithm 1, retraining each time.

    Notes
    -----
    At a tie the first candidate in drawn order wins.
    """
    K = np.asarray(K, dtype=np.float64)
    chosen: list[int] = []
    for _ in range(n):
        candidates = draw_candidates(chosen, len(K), n_candidates, rng)
        errors = [
            training_error(K, y, [*chosen, int(h)], alpha, weights, bias, jitter)
            for h in candidates
        ]
        chosen.append(int(candidates[int(np.argmin(errors))]))  # argmin takes the first
    return np.asarray(chosen, dtype=np.int64)


def reconstruction(K: ArrayLike, subset: list[int]) -> float:
    """Return J(S), the mean over rows of K_Si' K_SS^-1 K_Si / k_ii: Cawley and Talbot 2004, (5)."""
    K = np.asarray(K, dtype=np.float64)
    if not subset:
        return 0.0
    K_S = K[subset]  # (|S|, m)
    projected = np.sum(K_S * np.linalg.solve(K_S[:, subset], K_S), axis=0)
    return float(np.mean(projected / np.diag(K)))


def feature_vectors(
    K: ArrayLike,
    n: int,
    tolerance: float | None = None,
    rank_tolerance: float = 1e-12,
    n_candidates: int | None = None,
    rng: np.random.Generator | None = None,
) -> Rows:
    """Return at most n rows in chosen order, each the one that raises J(S) the most.

    Parameters
    ----------
    K : (m, m)
        Kernel matrix.
    n : int
        How many rows at most.
    tolerance : float, optional
        Stop once the mean reconstruction error 1 - J(S) is at most this.
    rank_tolerance : float
        A candidate whose own error delta (Cawley, Talbot 2004 (4)) is at most this depends linearly
        on the chosen rows; stop when all candidates do.
    n_candidates, rng : int and Generator, optional
        Judge a random sample of rows at each step (the efficient variant) instead of all.

    Notes
    -----
    Cawley and Talbot 2004 §2.4.1, with J(S) from scratch for each candidate. Ties: the first.
    """
    K = np.asarray(K, dtype=np.float64)
    chosen: list[int] = []
    while len(chosen) < min(n, len(K)):
        candidates = draw_candidates(chosen, len(K), n_candidates, rng)
        independent = [int(j) for j in candidates if _delta(K, chosen, int(j)) > rank_tolerance]
        if not independent:
            break
        scores = [reconstruction(K, [*chosen, j]) for j in independent]
        chosen.append(independent[int(np.argmax(scores))])
        if tolerance is not None and 1.0 - reconstruction(K, chosen) <= tolerance:
            break
    return np.asarray(chosen, dtype=np.int64)


def _delta(K: Floats, chosen: list[int], j: int) -> float:
    """Return delta_j(S), the relative squared distance of row j from the span of S: (4)."""
    if K[j, j] <= 0.0:
        return 0.0
    if not chosen:
        return 1.0
    k_Sj = K[chosen, j]
    return float(1.0 - k_Sj @ np.linalg.solve(K[np.ix_(chosen, chosen)], k_Sj) / K[j, j])
