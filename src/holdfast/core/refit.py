"""Models refitted from scratch: no hold-out identity, no factor of all rows.

Features by QR of the training rows with √α rows below them, which never squares them. Dense models
by the optimality conditions of the LS-SVM (Cawley and Talbot 2004), in which row weights stand on
the diagonal and heavy rows cost light ones nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from scipy.linalg import solve_triangular

from holdfast._typing import FloatArray


def reduced(blocks: Iterable[tuple[FloatArray, FloatArray]], p: int, s: int) -> FloatArray:
    """Return the triangle (p + s, p + s + v) of rows (W, Ys), given in blocks, by QR."""
    R = np.zeros((0, 0))
    for W, Ys in blocks:
        own = np.hstack([W, Ys])
        R = stacked_triangle([R, own] if R.size else [own], p + s)
    assert R.size, "there are rows to train on"
    return R


def stacked_triangle(parts: Sequence[FloatArray], size: int) -> FloatArray:
    """Return the first `size` rows of the triangle of stacked rows."""
    return np.asarray(np.linalg.qr(np.vstack(parts), mode="r"))[:size]


def ridge_models(R: FloatArray, alphas: FloatArray, p: int, s: int) -> FloatArray:
    """Return θ (a, p + s, v) from the triangle of `reduced`: each penalty adds √α I below it."""
    size = p + s
    models = np.empty((alphas.size, size, R.shape[1] - size))
    for model, alpha in zip(models, alphas.tolist(), strict=True):
        full = stacked_triangle([R, np.sqrt(alpha) * np.eye(p, R.shape[1])], size)
        model[...] = solve_triangular(full[:, :size], full[:, size:], check_finite=False)
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
