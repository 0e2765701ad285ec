"""Held-out residuals by conjugate gradients, all alphas and held-out sets of a piece at once."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from holdfast._typing import FloatArray
from holdfast.linalg.residual import HeldOutRows
from holdfast.linalg.threads import run_pieces

# The iteration is compacted to the alphas still at work when so few of them are left.
_COMPACT_BELOW = 0.85
# Measured: as many steps per held-out row as cost the same as the direct solution.
_BREAK_EVEN = 0.4
_LEAST_STEPS = 20


def solve_cg(
    held: HeldOutRows,
    D: FloatArray,
    E: FloatArray,
    *,
    max_steps: int | None = None,
    tolerance: float = 1e-14,
    n_threads: int | None = None,
) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
    """Return the held-out residuals R (a, b, h, v) and which (a, b) of them are good.

    Parameters
    ----------
    held : HeldOutRows
        b held-out sets of h rows.
    D : (a, p) float64
        Diagonals, positive: 1/(Lambda + alpha · penalised), times alpha in the dual form.
    E : (a, b, h, v) float64
        Residuals of the full model (dual form: its dual coefficients); unchanged.
    max_steps : int or None
        Steps after which a system is given up. None: when the direct solution would have been
        faster, so that a fallback costs at most the direct solution once more.
    tolerance : float
        Of the residual: ‖E − M R‖ ≤ tolerance (‖E‖ + ‖R‖), verified with the true residual.
    n_threads : int or None
        None: as many as BLAS may use.

    Returns
    -------
    R : (a, b, h, v)
    converged : (a, b) bool
        False where the direct system has to answer; R is meaningless there.

    Notes
    -----
    Conjugate gradients on (Lambda + alpha) − V_Hᵀ V_H preconditioned by its full-data part
    1/(Lambda + alpha) are the same iteration as plain conjugate gradients on I − V_H D V_Hᵀ, with
    vectors of length h instead of p. The eigenvalues lie between 1 − (largest leverage of a
    direction in H) and 1: 7 to 13 steps for ordinary folds, growing like the square root of
    1/(1 − leverage). 4 h p flops per step, right-hand side and alpha, all in two products per
    step and set; one step more for the check, whose residual is added as a last correction.
    """
    b, h, p = held.shape
    a, v = D.shape[0], E.shape[3]
    steps = max(_LEAST_STEPS, int(_BREAK_EVEN * h)) if max_steps is None else max_steps
    R, converged = np.zeros((a, b, h, v)), np.ones((a, b), dtype=bool)

    def work(piece: slice) -> None:
        V = held.stacked(piece)
        operator = _Operator(V, D, held.removal(V, D, piece), held.dual)
        right = np.ascontiguousarray(E[:, piece].transpose(1, 0, 3, 2))  # (g, a, v, h)
        X = _iterate(operator, right, tolerance, steps)
        converged[:, piece] = _verify(operator, right, X, tolerance).T
        R[:, piece] = X.transpose(1, 0, 3, 2)

    if R.size:
        run_pieces(work, held.pieces(p * max(h, a * v)), n_threads)
    return R, converged


@dataclass(frozen=True)
class _Operator:
    """The matrices of one piece, applied to vectors in rows: (g, a, v, h) → (g, a, v, h).

    Vectors are rows, so that both products are plain gemms on contiguous memory and D multiplies
    along the last axis.
    """

    V: FloatArray  # (g, h, p)
    D: FloatArray  # (a, p)
    K: FloatArray | None  # (g, a, e, h)
    dual: bool

    def __call__(self, P: FloatArray) -> FloatArray:
        g, a, v, h = P.shape
        T = P.reshape(g, a * v, h) @ self.V
        T.reshape(g, a, v, -1)[...] *= self.D[:, None, :]
        Q: FloatArray = (T @ self.V.swapaxes(1, 2)).reshape(P.shape)
        if self.dual:
            return Q
        np.subtract(P, Q, out=Q)
        if self.K is not None:
            Q += (P @ self.K.swapaxes(2, 3)) @ self.K
        return Q

    def restricted(self, alphas: npt.NDArray[np.intp]) -> "_Operator":
        K = None if self.K is None else self.K[:, alphas]
        return _Operator(self.V, self.D[alphas], K, self.dual)


def _iterate(operator: _Operator, E: FloatArray, tolerance: float, max_steps: int) -> FloatArray:
    """Return approximate solutions for E (g, a, v, h), each with its own step lengths."""
    solution = np.zeros_like(E)
    at_work = np.arange(E.shape[1])  # alphas that are still iterated
    X, R, P = np.zeros_like(E), E.copy(), E.copy()
    rr = np.einsum("gavh,gavh->gav", R, R)
    goal = tolerance**2 * rr
    for _ in range(max_steps):
        Q = operator(P)
        curvature = np.einsum("gavh,gavh->gav", P, Q)
        # A curvature that is not positive (a leverage of 1, or a right-hand side of zero) stops
        # that system where it is; the check decides.
        step = np.divide(rr, curvature, out=np.zeros_like(rr), where=curvature > 0.0)[..., None]
        X += step * P
        R -= step * Q
        new = np.einsum("gavh,gavh->gav", R, R)
        active = ((new > goal) & (step[..., 0] > 0.0)).any(axis=(0, 2))
        if not active.any():
            break
        P *= np.divide(new, rr, out=np.zeros_like(rr), where=rr > 0.0)[..., None]
        P += R
        rr = new
        if active.sum() <= _COMPACT_BELOW * len(active):
            solution[:, at_work] = X
            keep = np.flatnonzero(active)
            at_work, operator = at_work[keep], operator.restricted(keep)
            X, R, P, rr, goal = (array[:, keep] for array in (X, R, P, rr, goal))
    solution[:, at_work] = X
    return solution


def _verify(
    operator: _Operator, E: FloatArray, X: FloatArray, tolerance: float
) -> npt.NDArray[np.bool_]:
    """Return which (g, a) have a small true residual; adds that residual to X.

    Adding it is one step of the fixed-point iteration X ← X + (E − M X), a contraction because
    the eigenvalues of M lie in (0, 1].
    """
    residual = E - operator(X)
    size = np.sqrt(np.einsum("gavh,gavh->gav", residual, residual))
    scale = np.sqrt(np.einsum("gavh,gavh->gav", E, E))
    scale += np.sqrt(np.einsum("gavh,gavh->gav", X, X))
    X += residual
    # Written so that a NaN counts as not converged.
    return np.asarray((size <= tolerance * scale).all(axis=2))
