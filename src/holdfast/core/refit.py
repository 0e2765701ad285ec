"""Models refitted from scratch: no hold-out identity, no factor of all rows.

Features by QR of the training rows with √α rows below them, which never squares them. Dense models
by the optimality conditions of the LS-SVM (Cawley and Talbot 2004), in which row weights stand on
the diagonal and heavy rows cost light ones nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from scipy.linalg import solve_triangular

from holdfast._typing import FloatArray, IntArray


def reduced(blocks: Iterable[tuple[FloatArray, FloatArray]], p: int, s: int) -> FloatArray:
    """Return the triangle (p + s, p + s + v) of rows (W, Ys), given in blocks, by QR.

    The unpenalised columns come first. Within a block the longest rows come first, so that rows of
    any length keep their accuracy (Cox & Higham 1998).
    """
    order, R = unpenalised_first(p, s), None
    for W, Ys in blocks:
        own = np.hstack([W[:, order], Ys])
        R = stacked_triangle([own] if R is None else [R, own], p + s)
    assert R is not None, "there are rows to train on"
    return R


def unpenalised_first(p: int, s: int) -> IntArray:
    """Return an order of p + s columns: the last s, which are unpenalised, come first."""
    return np.roll(np.arange(p + s), s)


def stacked_triangle(parts: Sequence[FloatArray], size: int) -> FloatArray:
    """Return the triangle of stacked rows; the first `size` columns say which are longest."""
    stacked = np.vstack(parts)
    longest = np.argsort(-np.abs(stacked[:, :size]).max(axis=1), kind="stable")
    return np.asarray(np.linalg.qr(stacked[longest], mode="r"))[:size]


def ridge_models(R: FloatArray, alphas: FloatArray, p: int, s: int) -> FloatArray:
    """Return θ (a, p + s, v) from the triangle of `reduced`: each penalty adds √α I below it.

    Columns longest first: columns of any length keep their accuracy.
    """
    size, v = p + s, R.shape[1] - p - s
    lengths = np.linalg.norm(R[:, :size], axis=0)
    longest = np.argsort(-lengths, kind="stable")
    models, penalty = np.zeros((alphas.size, size, v)), np.zeros((p, size + v))
    ordered = np.hstack([R[:, :size][:, longest], R[:, size:]])
    penalised = np.flatnonzero(longest >= s)  # the unpenalised columns came first
    own = np.empty((size, v))
    for a, alpha in enumerate(alphas.tolist()):
        penalty[np.arange(p), penalised] = np.sqrt(alpha)
        full = stacked_triangle([ordered, penalty], size)
        own[longest] = solve_triangular(full[:, :size], full[:, size:], check_finite=False)
        models[a] = np.vstack([own[s:], own[:s]])
    return models


def dense_models(
    K: FloatArray, U: FloatArray, y: FloatArray, weights: FloatArray, alphas: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return coefficients c (a, n, v) of the training rows and δ (a, s, v) of the columns U.

    (K + α/w) c + U δ = y and Uᵀc = 0, solved by LU.
    """
    (n, s), v = U.shape, y.shape[1]
    scale = np.linalg.norm(U, axis=0) / np.sqrt(n) + (s == 0)  # columns about as long as K's
    border = np.zeros((n + s, n + s))
    border[:n, :n], border[:n, n:], border[n:, :n] = K, U / scale, (U / scale).T
    sides = np.vstack([y, np.zeros((s, v))])
    c, delta = np.empty((alphas.size, n, v)), np.empty((alphas.size, s, v))
    for a, alpha in enumerate(alphas.tolist()):
        system = border.copy()
        system[np.arange(n), np.arange(n)] += alpha / weights
        x = np.linalg.solve(system, sides)
        c[a], delta[a] = x[:n], x[n:] / scale[:, None] if s else x[n:]
    return c, delta
