"""Held-out residuals by conjugate gradients, all alphas and held-out sets of a piece at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from holdfast._typing import BoolArray, FloatArray, IntArray
from holdfast.linalg import run_pieces
from holdfast.smoother import HeldCoordinates

__all__ = ["solve_cg"]

# The iteration is compacted to the unfinished alphas when they are at most this share of all.
_COMPACT_BELOW = 0.85
# Measured: this many steps per held-out row cost as much as the direct solution.
_BREAK_EVEN = 0.4
_LEAST_STEPS = 20


def solve_cg(
    held: HeldCoordinates,
    alphas: IntArray,
    errors: FloatArray,
    *,
    max_steps: int | None = None,
    tolerance: float = 1e-14,
) -> tuple[FloatArray, BoolArray]:
    """Return the held-out residuals r (a, b, h, v) and which of them (a, b) have converged.

    Parameters
    ----------
    held : HeldCoordinates
        b sets of h held-out rows, with κ = 1.
    alphas : ndarray of int, shape (a,)
        Which of the penalties.
    errors : (a, b, h, v) float64
        Residuals of the full model at those; unchanged.
    max_steps : int or None
        Steps after which a system is given up. None: as many as the direct solution costs, so that
        a system that falls back to it costs at most twice as much.
    tolerance : float
        ‖e − (I − S_HH) r‖ ≤ tolerance (‖e‖ + ‖r‖) counts as converged; the true residual is used.

    Returns
    -------
    r : (a, b, h, v)
    converged : (a, b) bool
        False where the direct system has to answer; r is meaningless there.

    Notes
    -----
    Conjugate gradients on (Λ + α) − V_Hᵀ V_H preconditioned by its full-data part 1/(Λ + α) are the
    same iteration as plain conjugate gradients on I − V_H D V_Hᵀ, with vectors of length h instead
    of p. The eigenvalues lie between 1 − (largest leverage of a direction in H) and 1: 7 to 13
    steps for ordinary folds, growing like the square root of 1/(1 − leverage). Each step costs
    4 h p flops per right-hand side and alpha, in two products per set. One more step checks the
    result, and its residual is added as a last correction.
    """
    _, b, h, v = held.shape
    a, p = len(alphas), held.row_size
    steps = max(_LEAST_STEPS, int(_BREAK_EVEN * h)) if max_steps is None else max_steps
    r, converged = np.zeros((a, b, h, v)), np.ones((a, b), dtype=bool)

    def work(piece: slice) -> None:
        operator = _Operator(held.V[piece], held.R[alphas], held.removal(piece, alphas))
        right = np.ascontiguousarray(errors[:, piece].transpose(1, 0, 3, 2))  # (g, a, v, h)
        X = _iterate(operator, right, tolerance, steps)
        converged[:, piece] = _verify(operator, right, X, tolerance).T
        r[:, piece] = X.transpose(1, 0, 3, 2)

    if r.size:
        run_pieces(work, held.pieces(p * max(h, a * v)))
    return r, converged


@dataclass(frozen=True)
class _Operator:
    """I − S_HH of one piece, applied to vectors in rows: (g, a, v, h) → (g, a, v, h).

    Vectors are rows, so that both products are plain gemms on contiguous memory and D multiplies
    along the last axis.
    """

    V: FloatArray  # (g, h, p)
    D: FloatArray  # (a, p)
    J: FloatArray | None  # (g, a, e, h)

    def __call__(self, P: FloatArray) -> FloatArray:
        g, a, v, h = P.shape
        T = P.reshape(g, a * v, h) @ self.V
        T.reshape(g, a, v, -1)[...] *= self.D[:, None, :]
        MP: FloatArray = (T @ self.V.swapaxes(1, 2)).reshape(P.shape)
        np.subtract(P, MP, out=MP)
        if self.J is not None:
            MP += (P @ self.J.swapaxes(2, 3)) @ self.J
        return MP

    def restricted(self, alphas: IntArray) -> _Operator:
        J = None if self.J is None else self.J[:, alphas]
        return _Operator(self.V, self.D[alphas], J)


def _iterate(
    operator: _Operator, right: FloatArray, tolerance: float, max_steps: int
) -> FloatArray:
    """Return approximate solutions for right-hand sides (g, a, v, h), each with its own steps."""
    solution = np.zeros_like(right)
    at_work = np.arange(right.shape[1])  # alphas that are still iterated
    X, left, P = np.zeros_like(right), right.copy(), right.copy()
    square = np.einsum("gavh,gavh->gav", left, left)
    goal = tolerance**2 * square
    for _ in range(max_steps):
        MP = operator(P)
        curvature = np.einsum("gavh,gavh->gav", P, MP)
        # A system whose curvature is not positive (a leverage of 1, or a right-hand side of zero)
        # stops where it is; the check decides.
        step = np.divide(square, curvature, out=np.zeros_like(square), where=curvature > 0.0)
        X += step[..., None] * P
        left -= step[..., None] * MP
        new = np.einsum("gavh,gavh->gav", left, left)
        active = ((new > goal) & (step > 0.0)).any(axis=(0, 2))
        if not active.any():
            break
        P *= np.divide(new, square, out=np.zeros_like(square), where=square > 0.0)[..., None]
        P += left
        square = new
        if active.sum() <= _COMPACT_BELOW * len(active):
            solution[:, at_work] = X
            keep = np.flatnonzero(active)
            at_work, operator = at_work[keep], operator.restricted(keep)
            X, left, P, square, goal = (array[:, keep] for array in (X, left, P, square, goal))
    solution[:, at_work] = X
    return solution


def _verify(operator: _Operator, right: FloatArray, X: FloatArray, tolerance: float) -> BoolArray:
    """Return which (g, a) have a small true residual, and add that residual to X.

    Adding it is one step of the fixed-point iteration X ← X + (e − (I − S_HH) X), a contraction
    because the eigenvalues of I − S_HH lie in (0, 1].
    """
    residual = right - operator(X)
    size = np.sqrt(np.einsum("gavh,gavh->gav", residual, residual))
    scale = np.sqrt(np.einsum("gavh,gavh->gav", right, right))
    scale += np.sqrt(np.einsum("gavh,gavh->gav", X, X))
    X += residual
    # Written so that a NaN counts as not converged.
    return np.asarray((size <= tolerance * scale).all(axis=2))
