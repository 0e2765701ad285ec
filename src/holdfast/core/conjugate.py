"""Held-out residuals by conjugate gradients, all penalties and held-out sets of a piece at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from holdfast._typing import BoolArray, FloatArray, IntArray
from holdfast.core.block import FeatureBlock
from holdfast.core.lapack import run_pieces

#: A residual this share of the solution counts as converged: a millionth of what may be lost.
TOLERANCE = 1e-12
#: Steps after which a system is given up, for each held-out row and in all: as many as cost what
#: the direct solution does.
STEPS_PER_ROW, LEAST_STEPS = 0.4, 20


def solve_cg(
    block: FeatureBlock, alphas: IntArray, errors: FloatArray, tolerance: float = TOLERANCE
) -> tuple[FloatArray, BoolArray]:
    """Return the held-out residuals r (a, b, h, v) and which of them (a, b) have converged.

    Parameters
    ----------
    block : FeatureBlock
        b sets of h held-out rows.
    alphas : ndarray of int, shape (a,)
        Which of the penalties.
    errors : ndarray of shape (a, b, h, v)
        Residuals of the model on all rows at those; unchanged.
    tolerance : float
        ‖e − (I − S_HH) r‖ ≤ tolerance (‖e‖ + ‖r‖) counts as converged; the true residual is used.

    Returns
    -------
    r : ndarray of shape (a, b, h, v)
    converged : ndarray of bool, shape (a, b)
        False where the direct system has to answer; r is meaningless there.

    Notes
    -----
    Conjugate gradients on (Λ + α) − V_Hᵀ V_H preconditioned by its full-data part 1/(Λ + α) are the
    same iteration as plain conjugate gradients on I − V_H D V_Hᵀ, with vectors of length h instead
    of p. The eigenvalues lie between 1 − (largest leverage of a direction in H) and 1: 7 to 13
    steps for ordinary folds, growing like the square root of 1/(1 − leverage). Each step costs
    4 h p flops per right-hand side and penalty, in two products per set. One more step checks the
    result, and its residual is added as a last correction.
    """
    a, b, h, v = errors.shape
    p, steps = block.size, max(LEAST_STEPS, int(STEPS_PER_ROW * h))
    r, converged = np.zeros((a, b, h, v)), np.ones((a, b), dtype=bool)
    if not r.size:
        return r, converged
    D = block.D[alphas]

    def work(piece: slice) -> None:
        right = np.ascontiguousarray(errors[:, piece].transpose(1, 0, 3, 2))  # (g, a, v, h)
        room = np.empty((len(right), a * v, p))
        operator = _Operator(block.V[piece], D, block.removal(piece, alphas), room)
        X = _iterate(operator, right, tolerance, steps)
        converged[:, piece] = _verify(operator, right, X, tolerance).T
        r[:, piece] = X.transpose(1, 0, 3, 2)

    run_pieces(work, block.pieces(p * max(h, a * v)))
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
    room: FloatArray  # (g, a v, p): what is between the two products

    def __call__(self, P: FloatArray, out: FloatArray) -> FloatArray:
        """Return (I − S_HH) P in `out`."""
        g, a, v, h = P.shape
        np.matmul(P.reshape(g, a * v, h), self.V, out=self.room)
        self.room.reshape(g, a, v, -1)[...] *= self.D[:, None, :]
        np.matmul(self.room, self.V.swapaxes(1, 2), out=out.reshape(g, a * v, h))
        np.subtract(P, out, out=out)
        if self.J is not None:
            out += (P @ self.J.swapaxes(2, 3)) @ self.J
        return out


def _iterate(
    operator: _Operator, right: FloatArray, tolerance: float, max_steps: int
) -> FloatArray:
    """Return approximate solutions for right-hand sides (g, a, v, h)."""
    X, left, square = np.zeros_like(right), right.copy(), _dot(right, right)
    goal = tolerance**2 * square
    P, MP = left.copy(), np.empty_like(left)
    for _ in range(max_steps):
        operator(P, MP)
        curvature = _dot(P, MP)
        # A system whose curvature is not positive (a leverage of 1, or a right-hand side of zero)
        # stops where it is; the check decides.
        step = np.divide(square, curvature, out=np.zeros_like(square), where=curvature > 0.0)
        MP *= step[..., None]
        left -= MP
        X += np.multiply(P, step[..., None], out=MP)
        new = _dot(left, left)
        if not ((new > goal) & (step > 0.0)).any():
            break
        P *= np.divide(new, square, out=np.zeros_like(square), where=square > 0.0)[..., None]
        P += left
        square = new
    return X


def _verify(operator: _Operator, right: FloatArray, X: FloatArray, tolerance: float) -> BoolArray:
    """Return which (g, a) have a small true residual, and add that residual to X.

    Adding it is one step of the fixed-point iteration X ← X + (e − (I − S_HH) X), a contraction
    because the eigenvalues of I − S_HH lie in (0, 1].
    """
    residual = operator(X, np.empty_like(X))
    np.subtract(right, residual, out=residual)
    size, scale = np.sqrt(_dot(residual, residual)), np.sqrt(_dot(right, right))
    scale += np.sqrt(_dot(X, X))
    X += residual
    # Written so that a NaN counts as not converged.
    return np.asarray((size <= tolerance * scale).all(axis=2))


def _dot(A: FloatArray, B: FloatArray) -> FloatArray:
    """Return products of the vectors in rows, (g, a, v)."""
    return np.asarray(np.einsum("gavh,gavh->gav", A, B))
