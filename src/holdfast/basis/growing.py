"""A sparse ridge model that grows by one basis row at a time, and what each row would add.

With basis rows B, K_BB + εI = C Cᵀ, features W = K_{:B} C⁻ᵀ, and Z = W after the rows are
multiplied by √w and the bias is projected out, the smoother of the model is

    S = Z (ZᵀZ + αI)⁻¹ Zᵀ = Q Qᵀ,        [Z; √α I] = [Q; ·] R   (a thin QR)

A further row h appends to W the column (K_{:h} - W W_hᵀ) / √g, g = k_hh + ε - |W_h|², hence z to
Z, and to the stacked matrix the column [z; 0; √α]. What of it is not in the span of [Q; L] = [Q; ·]
is, because L R = √α I,

    [t; l; √α] = ([k; √α W_hᵀ; √(αg)] - [Q; L; 0] (Qᵀk + √α LᵀW_hᵀ)) / √g

with k the kernel's column in the coordinates of Z. So W is not needed for more than the row h, and

    S' = S + t tᵀ / σ,        t = (I - S) z,        σ = α + |t|² + |l|² = α + zᵀt

The residuals become R - t (zᵀR) / σ, and t / √σ is the next column of Q. Nothing is refitted:
c candidates cost two products of m × j with j × c, after j rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from holdfast.basis.base import Floats, Pool, Rows

if TYPE_CHECKING:
    from holdfast.gram import KernelData

_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Additions:
    """What each of c candidate rows would add to the model.

    Attributes
    ----------
    rows : (c,)
        The candidates.
    stacked : (m + n, c)
        [t; l] for each candidate: its new column of the stacked factor, but for the √α.
    sigma : (c,)
        σ = α + zᵀt.
    gain : (c, v)
        zᵀR / σ: the new residuals are R - t · gain.
    T : (m, c)
        t = (I - S) z for each candidate.
    """

    rows: Rows
    stacked: Floats
    sigma: Floats
    gain: Floats
    T: Floats


class GrowingModel:
    """Ridge regression on basis rows added one by one.

    Parameters
    ----------
    pool : Pool
        Rows, targets and weights.
    n : int
        How many basis rows there will be at most: memory is two arrays of m × n.
    alpha : float
        The penalty.
    fit_intercept : bool
        Whether an unpenalised bias is projected out.
    jitter : float
        The shift ε is ``jitter`` times the mean of the kernel's diagonal over all rows.

    Notes
    -----
    Residuals and smoother live in weighted coordinates (√w times the row), with the bias
    projected out of both; ``q`` is the direction of the bias there.
    """

    def __init__(
        self, pool: Pool, n: int, alpha: float, fit_intercept: bool, jitter: float
    ) -> None:
        m = len(pool)
        self.data: KernelData = pool.data
        self.alpha = alpha
        self.root_weights = np.sqrt(pool.weights)
        self.q = bias_direction(self.root_weights, fit_intercept)
        self.diagonal = pool.data.diag()
        self.epsilon = jitter * float(np.mean(self.diagonal))
        self.size = 0
        self._W: Floats = np.empty((m, n), order="F")
        # The stacked factor [Q; L] (m + n, n), and [Y; 0] after projection by it (m + n, v).
        self._Q: Floats = np.zeros((m + n, n), order="F")
        self.Y = project_out(self.q, self.root_weights[:, None] * pool.targets())
        self._left: Floats = np.zeros((m + n, self.Y.shape[1]))
        self._left[:m] = self.Y
        self.leverage: Floats = self.q**2  # diagonal of S + qqᵀ

    @property
    def W(self) -> Floats:
        """Whitened features of the rows chosen so far (m, size)."""
        return self._W[:, : self.size]

    @property
    def Q(self) -> Floats:
        """Factor of the smoother, S = Q Qᵀ (m, size)."""
        return self._Q[: len(self._W), : self.size]

    @property
    def residuals(self) -> Floats:
        """What the model leaves of Y (m, v)."""
        return self._left[: len(self._W)]

    def gaps(self, rows: Rows) -> Floats:
        """Return k_hh + ε - |W_h|² of these rows: squared distance from the span of the basis."""
        own: Floats = np.square(self.W[rows]).sum(axis=1)
        return self.diagonal[rows] + self.epsilon - own

    def independent(self, rows: Rows) -> Rows:
        """Return those of these rows that are not numerically dependent on the basis.

        The gap is a difference of numbers of size k_hh that carry ``size`` rounding errors;
        below that it is noise and the whitened column would be noise too.
        """
        floor = 16 * (self.size + 1) * _EPS * (np.abs(self.diagonal[rows]) + self.epsilon)
        kept: Rows = rows[self.gaps(rows) > floor]
        return kept

    def try_rows(self, rows: Rows) -> Additions:
        """Return what each of these independent rows would add, in O(c m size)."""
        m, j = len(self._W), self.size
        stacked: Floats = np.zeros((len(self._Q), len(rows)), order="F")
        np.multiply(self.root_weights[:, None], self._kernel(rows), out=stacked[:m])
        project_out(self.q, stacked[:m])
        if j:
            stacked[m : m + j] = np.sqrt(self.alpha) * self.W[rows].T
            self._project(stacked)
        stacked /= np.sqrt(self.gaps(rows))
        # Both are inner products of vectors after projection: no difference of large numbers.
        sigma = self.alpha + np.einsum("ic,ic->c", stacked, stacked)
        gain = stacked.T @ self._left / sigma[:, None]
        return Additions(rows, stacked, sigma, gain, stacked[:m])

    def add(self, additions: Additions, c: int) -> None:
        """Add candidate ``c`` of these additions to the basis, in O(m size)."""
        m, j = len(self._W), self.size
        row = additions.rows[[c]]
        column = self._kernel(row)[:, 0] - self.W @ self.W[row[0]]
        self._W[:, j] = column / np.sqrt(self.gaps(row))
        new = additions.stacked[:, [c]]
        new[m + j] = np.sqrt(self.alpha)
        # Once more: without that a small α would slowly spoil Q; twice is enough (Kahan).
        self._project(new)
        self._Q[:, [j]] = new / np.linalg.norm(new)
        self.size += 1
        new = self._Q[:, [j]]
        self._left -= new @ (new.T @ self._left)
        self.leverage = self.leverage + new[:m, 0] ** 2

    def _kernel(self, rows: Rows) -> Floats:
        """Return the kernel's columns of these rows (m, c), Fortran-ordered."""
        return self.data.block(rows, slice(None)).T

    def _project(self, stacked: Floats) -> None:
        """Take out of these columns (m + n, c) what lies in the span of [Q; L], in place."""
        Q = self._Q[:, : self.size]
        stacked -= (stacked.T @ Q @ Q.T).T


def bias_direction(root_weights: Floats, fit_intercept: bool) -> Floats:
    """Return the unit vector q = √w / |√w| of an unpenalised bias, or zeros without one."""
    if not fit_intercept:
        return np.zeros_like(root_weights)
    return np.asarray(root_weights / np.linalg.norm(root_weights))


def project_out(q: Floats, values: Floats) -> Floats:
    """Return (I - qqᵀ) values; the array is overwritten."""
    if np.any(q):
        values -= np.multiply.outer(q, q @ values)
    return values
