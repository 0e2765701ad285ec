"""A symmetric matrix without one direction: the orthogonal complement of a unit vector."""

from dataclasses import dataclass

import numpy as np

from holdfast._typing import FloatArray
from holdfast.exceptions import InvalidInputError

_BLOCK = 256  # rows updated at once: the temporaries stay in cache


@dataclass(frozen=True, init=False)
class Deflation:
    """An orthogonal Q whose first column is ±q, applied as one Householder reflector.

    Q = I − 2uuᵀ is symmetric and orthogonal to the last bit of u's norm, whatever q holds (zeros
    included). Q[:, 1:] is an orthonormal basis of what is orthogonal to q.

    Parameters
    ----------
    q : (m,) float64
        A unit vector, m ≥ 1.

    Attributes
    ----------
    u : (m,) float64
        Unit vector of the reflector.

    Notes
    -----
    Golub & Van Loan, Matrix Computations §5.1: u ∝ q + sign(q₁)‖q‖e₁, the sign without
    cancellation. Serves the unpenalised bias, where q = √w/‖√w‖ (Cawley & Talbot 2004).
    """

    u: FloatArray

    def __init__(self, q: FloatArray) -> None:
        if q.ndim != 1 or q.shape[0] == 0:
            raise InvalidInputError(f"q must be a vector of at least one entry, got {q.shape}")
        norm = float(np.linalg.norm(q))
        if not abs(norm - 1.0) <= 1e-8:
            raise InvalidInputError(f"q must be a unit vector, got one of norm {norm:.6g}")
        u = np.array(q, dtype=np.float64)
        u[0] += np.copysign(norm, u[0])
        u /= np.linalg.norm(u)
        u.flags.writeable = False
        object.__setattr__(self, "u", u)

    def symmetric(self, K: FloatArray) -> FloatArray:
        """Return ``(Qᵀ K Q)[1:, 1:]`` for symmetric `K` in O(m²), exactly symmetric.

        QᵀKQ = K − u wᵀ − w uᵀ with w = 2(Ku − (uᵀKu)u).
        """
        reduced = K[1:, 1:].copy()
        self._subtract(self._pull(K @ self.u), 1, reduced)
        return reduced

    def lift_symmetric(self, A: FloatArray) -> FloatArray:
        """Return ``Q[:, 1:] A Q[:, 1:]ᵀ`` (m, m) for symmetric `A` (m − 1, m − 1), in O(m²)."""
        m = self.u.shape[0]
        lifted = np.zeros((m, m))
        lifted[1:, 1:] = A
        Au = np.zeros(m)
        Au[1:] = A @ self.u[1:]
        self._subtract(self._pull(Au), 0, lifted)
        return lifted

    def _pull(self, Ku: FloatArray) -> FloatArray:
        """Return w = 2(Ku − (uᵀKu)u)."""
        return 2.0 * (Ku - (self.u @ Ku) * self.u)

    def _subtract(self, w: FloatArray, first: int, K: FloatArray) -> None:
        """Subtract u wᵀ + w uᵀ, from entry `first` on, from `K` in place."""
        u, w = self.u[first:], w[first:]
        for start in range(0, len(u), _BLOCK):
            rows = slice(start, start + _BLOCK)
            # u_i w_j + w_i u_j is the same sum of the same products at (i, j) and (j, i).
            update = np.multiply.outer(u[rows], w)
            update += np.multiply.outer(w[rows], u)
            K[rows] -= update

    def lift(self, V: FloatArray) -> FloatArray:
        """Return ``Q[:, 1:] V`` (…, m, k) for `V` (…, m − 1, k), any stack of matrices."""
        u = self.u
        lifted = u[:, None] * (-2.0 * (u[1:] @ V))[..., None, :]
        lifted[..., 1:, :] += V
        return lifted

    def project(self, Y: FloatArray) -> FloatArray:
        """Return ``Q[:, 1:]ᵀ Y`` (…, m − 1, k) for `Y` (…, m, k), any stack of matrices."""
        u = self.u
        projected = u[1:, None] * (-2.0 * (u @ Y))[..., None, :]
        projected += Y[..., 1:, :]
        return projected
