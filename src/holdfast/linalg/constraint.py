"""A symmetric matrix on the orthogonal complement of a few rows N.

Two uses. Removing basis rows E from a sparse model is the constraint a_E = 0 (Pahikkala, Suominen &
Boberg 2012, Proposition 1), N_E θ = 0 in coordinates. A dense model with unpenalised columns is
solved on their orthogonal complement. Either way orthonormal coordinates turn the problem into a
smaller one of the same kind.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from holdfast._typing import FloatArray, IntArray
from holdfast.exceptions import InvalidInputError, SingularBasisError
from holdfast.linalg._lapack import dgeqrt, dtrcon

_BLOCK = 256  # rows updated at once: the temporaries stay in cache

# A row of which less than this share is left after those before it loses as much accuracy, and may
# be dependent on them. Under a diagonal the span is less accurate than that of the rows themselves,
# which is then made first.
_DOUBTFUL, _DOUBTFUL_UNDER = 1e-4, 1e-3


def _householder(N: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return Y (p, e) and T (e, e) with Nᵀ = (I − Y T Yᵀ) R, N of full row rank.

    Y is unit lower trapezoidal and T upper triangular: the compact WY form (Schreiber & Van Loan
    1989). The rows of N are first scaled to unit length: their span stays the same, and the rank
    check does not depend on the scale of a row.
    """
    if N.ndim != 2 or N.shape[0] > N.shape[1]:
        raise InvalidInputError(
            f"N must be (e, p) with e <= p: at most as many rows as unknowns, got {N.shape}"
        )
    e, p = N.shape
    if e == 0:
        return np.zeros((p, 0)), np.zeros((0, 0))
    norms = np.linalg.norm(N, axis=1)
    if not (np.isfinite(norms).all() and norms.min() > 0.0):
        index = int(np.argmin(np.where(np.isfinite(norms), norms, -1.0)))
        raise SingularBasisError(
            f"constraint row {index} of {e} has length {norms[index]:.3g}; "
            "each must be finite and not zero"
        )
    factored, T, _ = dgeqrt(e, np.asfortranarray((N / norms[:, None]).T), overwrite_a=1)
    rcond, _ = dtrcon(np.asfortranarray(factored[:e]))
    if not rcond > p * np.finfo(np.float64).eps:
        raise SingularBasisError(
            f"the {e} constraint rows (one per removed basis row, {p} unknowns) are linearly "
            f"dependent: reciprocal condition {rcond:.3g}. Drop duplicates among the removed "
            "rows, raise `jitter`, or use a less smooth kernel"
        )
    Y = np.tril(factored, -1)
    Y[np.arange(e), np.arange(e)] = 1.0
    return Y, np.triu(T)


def orthonormal_rows(N: FloatArray) -> FloatArray:
    """Return O (p, e), an orthonormal basis of the row space of `N` (e, p).

    Raises
    ------
    SingularBasisError
        If the rows are numerically dependent (reciprocal condition of the scaled rows ≤ p eps).

    Notes
    -----
    Householder QR of Nᵀ, O(p e²); orthonormal to rounding whatever the condition of N.
    """
    Y, T = _householder(N)
    e = Y.shape[1]
    # The first e columns of I − Y T Yᵀ.
    O = -(Y @ (T @ Y[:e].T))  # noqa: E741  # as on the notation page
    O[np.arange(e), np.arange(e)] += 1.0
    return O


def orthonormal_stacks(
    N: FloatArray,
    E: IntArray,
    d: FloatArray | None = None,
    span: Callable[[IntArray], FloatArray] | None = None,
) -> FloatArray:
    """Return O (b, p, e): the same for the rows ``N[E[j]]`` (e, p) of every j at once.

    One QR factorisation each, without a loop in Python; rows that may be dependent go the way of
    `orthonormal_rows`, which knows, or that of `span`: from numbers of rows to columns that span
    the same more accurately, in the first coordinates; others are zero. With d (p,), d > 0, O is
    that of N diag(d).
    """
    rows = N[E] if d is None else N[E] * d
    O, R = np.linalg.qr(rows.swapaxes(1, 2))  # noqa: E741
    with np.errstate(all="ignore"):  # what is left of a row when those before it are taken away
        share = np.abs(np.diagonal(R, axis1=1, axis2=2)) / np.linalg.norm(R, axis=1)
    doubtful = ~(share >= (_DOUBTFUL if d is None else _DOUBTFUL_UNDER))
    for j in np.flatnonzero(doubtful.any(axis=1)).tolist():
        alone = orthonormal_rows(N[E[j]]) if span is None else span(E[j])
        own = np.zeros((N.shape[1], E.shape[1]))
        own[: len(alone)] = alone
        O[j] = np.linalg.qr(own if d is None else d[:, None] * own)[0]
    return np.asarray(O)


@dataclass(frozen=True, init=False)
class Complement:
    """An orthonormal basis O⊥ (p, p − e) of the null space of `N` (e, p), never formed.

    Attributes
    ----------
    Y, T : (p, e) and (e, e) float64
        I − Y T Yᵀ = [O, O⊥] is orthogonal, and its first e columns O span the rows of N.

    Notes
    -----
    Householder QR of Nᵀ in compact WY form, O(p e²); each application is two thin products.
    Orthogonal to rounding, whatever N holds, also if it has zeros.
    """

    Y: FloatArray
    T: FloatArray

    def __init__(self, N: FloatArray) -> None:
        Y, T = _householder(N)
        object.__setattr__(self, "Y", Y)
        object.__setattr__(self, "T", T)

    @property
    def n_removed(self) -> int:
        """The number e of constraints."""
        return int(self.Y.shape[1])

    def reduce(self, A: FloatArray) -> FloatArray:
        """Return ``O⊥ᵀ A O⊥`` (p − e, p − e) for symmetric `A` in O(p² e), a fresh array.

        Notes
        -----
        [O, O⊥]ᵀ A [O, O⊥] = A − Y Xᵀ − X Yᵀ with P = A Y T and X = P − ½ Y (Tᵀ Yᵀ P): half the
        flops of applying the reflectors from both sides. Symmetric to rounding.
        """
        e = self.n_removed
        reduced = np.array(A[e:, e:], dtype=np.float64, order="C")
        if e:
            self._subtract((A @ self.Y) @ self.T, e, reduced)
        return reduced

    def lift_symmetric(self, A: FloatArray) -> FloatArray:
        """Return ``O⊥ A O⊥ᵀ`` (p, p) for symmetric `A` (p − e, p − e), in O(p² e)."""
        p, e = self.Y.shape
        lifted = np.zeros((p, p))
        lifted[e:, e:] = A
        P = np.zeros((p, e))
        P[e:] = A @ self.Y[e:] @ self.T.T
        self._subtract(P, 0, lifted, self.T)
        return lifted

    def _subtract(
        self, P: FloatArray, first: int, A: FloatArray, T: FloatArray | None = None
    ) -> None:
        """Subtract Y Xᵀ + X Yᵀ, without the first rows and columns, from `A`; X follows from P."""
        T = self.T.T if T is None else T
        X = P - 0.5 * (self.Y @ (T @ (self.Y.T @ P)))
        left, right = np.hstack([self.Y, X])[first:], np.hstack([X, self.Y])[first:]
        for start in range(0, len(left), _BLOCK):
            rows = slice(start, start + _BLOCK)
            A[rows] -= left[rows] @ right.T

    def project(self, z: FloatArray) -> FloatArray:
        """Return ``O⊥ᵀ z`` (…, p − e, v) for `z` (…, p, v), any stack of matrices."""
        e = self.n_removed
        return np.asarray(z[..., e:, :] - self.Y[e:] @ (self.T.T @ (self.Y.T @ z)))

    def lift(self, x: FloatArray) -> FloatArray:
        """Return ``O⊥ x`` (…, p, v) for `x` (…, p − e, v), any stack of matrices."""
        e = self.n_removed
        lifted = -(self.Y @ (self.T @ (self.Y[e:].T @ x)))
        lifted[..., e:, :] += x
        return np.asarray(lifted)
