"""Held-out residuals by conjugate gradients, all alphas and held-out sets of a piece at once."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from holdfast._typing import BoolArray, FloatArray, IntArray
from holdfast.core.block import FeatureBlock
from holdfast.core.lapack import run_pieces

# The iteration is compacted to the unfinished alphas, or sets, when they are at most this share of
# all. Rows of a set must be copied for that.
_COMPACT_BELOW, _SETS_BELOW = 0.85, 0.6
# Measured: this many steps per held-out row cost as much as the direct solution.
_BREAK_EVEN = 0.4
_LEAST_STEPS = 20
#: A residual this share of the solution counts as converged: a thousandth of what may be lost.
TOLERANCE = 1e-12
# OpenBLAS has kernels of their own for small products: with a transposed matrix for at most so many
# results and multiplications. They are half as fast again, from about eight rows on.
_SMALL_RESULTS, _SMALL_PRODUCT, _SMALL_ROWS = 1200, 10**6, 8


def solve_cg(
    block: FeatureBlock,
    alphas: IntArray,
    errors: FloatArray,
    *,
    max_steps: int | None = None,
    tolerance: float = TOLERANCE,
) -> tuple[FloatArray, BoolArray]:
    """Return the held-out residuals r (a, b, h, v) and which of them (a, b) have converged.

    Parameters
    ----------
    block : FeatureBlock
        b sets of h held-out rows.
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
    a, b, h, v = errors.shape
    p = block.size
    steps = max(_LEAST_STEPS, int(_BREAK_EVEN * h)) if max_steps is None else max_steps
    r, converged = np.zeros((a, b, h, v)), np.ones((a, b), dtype=bool)
    if not r.size:
        return r, converged
    D = block.D[alphas]

    def work(piece: slice) -> None:
        right = np.ascontiguousarray(errors[:, piece].transpose(1, 0, 3, 2))  # (g, a, v, h)
        room = np.empty(len(right) * a * v * p)
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
    room: FloatArray  # (g a v p,): what is between the two products

    def __call__(self, P: FloatArray, out: FloatArray) -> FloatArray:
        """Return (I − S_HH) P in `out`."""
        (g, a, v, h), p = P.shape, self.D.shape[1]
        T, results = self.room[: g * a * v * p].reshape(g, a * v, p), out.reshape(g, a * v, h)
        np.matmul(P.reshape(g, a * v, h), self.V, out=T)
        T.reshape(g, a, v, p)[...] *= self.D[:, None, :]
        step = _rows_at_once(a * v, h, p)
        for start in range(0, a * v, step):
            rows = slice(start, start + step)
            np.matmul(T[:, rows], self.V.swapaxes(1, 2), out=results[:, rows])
        np.subtract(P, out, out=out)
        if self.J is not None:
            out += (P @ self.J.swapaxes(2, 3)) @ self.J
        return out

    def restricted(self, alphas: IntArray | slice) -> _Operator:
        """Return the same for some of the penalties."""
        J = None if self.J is None else self.J[:, alphas]
        return replace(self, D=self.D[alphas], J=J)

    def among(self, sets: IntArray) -> _Operator:
        """Return the same for some of the sets."""
        return replace(self, V=self.V[sets], J=None if self.J is None else self.J[sets])


def _rows_at_once(rows: int, h: int, p: int) -> int:
    """Return how many rows one product with a transposed V (h, p) takes."""
    most = min(_SMALL_RESULTS, _SMALL_PRODUCT // p) // h
    if rows <= most or most < _SMALL_ROWS:
        return rows
    return min(most, -(-rows // (4 * -(-rows // most))) * 4)


def _iterate(
    operator: _Operator, right: FloatArray, tolerance: float, max_steps: int
) -> FloatArray:
    """Return approximate solutions for right-hand sides (g, a, v, h), each with its own steps."""
    solution, X = np.empty(right.shape), np.zeros_like(right)
    sets, alphas = (np.arange(size) for size in right.shape[:2])  # that are still iterated
    left, square = right.copy(), _dot(right, right)
    goal = tolerance**2 * square
    P, MP = left.copy(), np.empty_like(left)
    active = square > goal
    for _ in range(max_steps):
        if not active.all():
            if not active.any():
                break
            some, few = (np.flatnonzero(active.any(axis=axes)) for axes in ((1, 2), (0, 2)))
            if some.size > _SETS_BELOW * sets.size:
                some = np.arange(sets.size)
            if few.size <= _COMPACT_BELOW * alphas.size or some.size < sets.size:
                solution[sets[:, None], alphas] = X
                if some.size < sets.size:
                    operator = operator.among(some)
                operator, kept = operator.restricted(few), np.ix_(some, few)
                X, left, P, square, goal = (array[kept] for array in (X, left, P, square, goal))
                sets, alphas, MP = sets[some], alphas[few], np.empty_like(P)
        operator(P, MP)
        curvature = _dot(P, MP)
        # A system whose curvature is not positive (a leverage of 1, or a right-hand side of zero)
        # stops where it is; the check decides.
        step = np.divide(square, curvature, out=np.zeros_like(square), where=curvature > 0.0)
        MP *= step[..., None]
        left -= MP
        X += np.multiply(P, step[..., None], out=MP)
        new = _dot(left, left)
        active = (new > goal) & (step > 0.0)
        P *= np.divide(new, square, out=np.zeros_like(square), where=square > 0.0)[..., None]
        P += left
        square = new
    solution[sets[:, None], alphas] = X
    return solution


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
