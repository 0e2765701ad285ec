"""The orthogonal complement of a few rows: where a constraint, or a bias, is taken out of a system.

Removing basis rows E from a sparse model is the constraint a_E = 0 (Pahikkala, Suominen & Boberg
2012, Proposition 1), N_E θ = 0 in coordinates. A dense model with unpenalised columns is solved on
their orthogonal complement. Either way orthonormal coordinates turn the problem into a smaller one
of the same kind.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack

from holdfast._typing import FloatArray
from holdfast.core.lapack import CHUNK


@dataclass(frozen=True)
class Complement:
    """An orthonormal basis O⊥ (p, p − e) of what is orthogonal to e orthonormal columns.

    Attributes
    ----------
    Y, T : ndarray of shape (p, e) and (e, e)
        I − Y T Yᵀ = [O, O⊥] is orthogonal, and its first e columns span what is left out. O⊥ is
        never formed: Householder QR in compact WY form (Schreiber & Van Loan 1989).
    """

    Y: FloatArray
    T: FloatArray

    @classmethod
    def of(cls, columns: FloatArray) -> Complement:
        """Return the complement of orthonormal columns (p, e)."""
        e = columns.shape[1]
        if not e:
            return cls(columns, np.zeros((0, 0)))
        factored, T, _ = lapack.dgeqrt(e, np.asfortranarray(columns))
        Y = np.tril(factored, -1)
        Y[np.arange(e), np.arange(e)] = 1.0
        return cls(np.ascontiguousarray(Y), np.triu(T))

    def reduce(self, A: FloatArray) -> FloatArray:
        """Return ``O⊥ᵀ A O⊥`` (p − e, p − e) for symmetric `A` in O(p² e), a fresh array.

        [O, O⊥]ᵀ A [O, O⊥] = A − Y Xᵀ − X Yᵀ with P = A Y T and X = P − ½ Y (Tᵀ Yᵀ P).
        """
        e = self.Y.shape[1]
        reduced = np.array(A[e:, e:], order="C")
        if e:
            P = (A @ self.Y) @ self.T
            X = P - 0.5 * (self.Y @ (self.T.T @ (self.Y.T @ P)))
            left, right = np.hstack([self.Y, X])[e:], np.hstack([X, self.Y])[e:]
            step = max(1, CHUNK // 4 // max(1, len(left)))  # temporaries stay in the cache
            for start in range(0, len(left), step):
                rows = slice(start, start + step)
                reduced[rows] -= left[rows] @ right.T
        return reduced

    def project(self, z: FloatArray) -> FloatArray:
        """Return ``O⊥ᵀ z`` (…, p − e, v) for `z` (…, p, v), any stack of matrices."""
        e = self.Y.shape[1]
        return np.asarray(z[..., e:, :] - self.Y[e:] @ (self.T.T @ (self.Y.T @ z))) if e else z

    def lift(self, x: FloatArray) -> FloatArray:
        """Return ``O⊥ x`` (…, p, v) for `x` (…, p − e, v), any stack of matrices."""
        e = self.Y.shape[1]
        if not e:
            return x
        lifted = -(self.Y @ (self.T @ (self.Y[e:].T @ x)))
        lifted[..., e:, :] += x
        return np.asarray(lifted)
