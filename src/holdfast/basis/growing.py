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

Where all columns of the kernel lie in r directions, P √w K = E Gᵀ with orthonormal E (m × r), the
same is true with r coordinates in place of m rows: k is a row of G, and Y is EᵀY. What of Y is
outside the span of E stays in the residuals whatever is chosen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg

from holdfast._typing import FloatArray, IntArray
from holdfast.basis.base import Pool
from holdfast.basis.span import low_rank_factor
from holdfast.smoother.scale import RowScale, Unpenalised

if TYPE_CHECKING:
    from holdfast.kernels.matrix import KernelData

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
    kernel : (m, c) or None
        The kernel's columns, if they had to be computed.
    """

    rows: IntArray
    stacked: FloatArray
    sigma: FloatArray
    gain: FloatArray
    T: FloatArray
    kernel: FloatArray | None


class GrowingModel:
    """Ridge regression on basis rows added one by one.

    Parameters
    ----------
    pool : Pool
        IntArray, targets and weights.
    n : int
        How many basis rows there will be at most: memory is two arrays of m × n.
    alpha : float
        The penalty.
    fit_intercept : bool
        Whether an unpenalised bias is projected out.
    jitter : float
        The shift ε is ``jitter`` times the mean of the kernel's diagonal over all rows.
    by_row : bool
        Whether residuals and smoother are needed for each row. If only their lengths are, fewer
        coordinates than rows are used where the kernel's columns lie in few directions.

    Notes
    -----
    Residuals and smoother live in weighted coordinates (√w times the row), with the bias
    projected out of both. Below, "m" of residuals,
    T and Q is the number of these coordinates.
    """

    def __init__(
        self, pool: Pool, n: int, alpha: float, fit_intercept: bool, jitter: float, by_row: bool
    ) -> None:
        self.data: KernelData = pool.data
        self.alpha = alpha
        self.scale = RowScale.of(pool.weights)
        self.unpenalised = Unpenalised.bias(pool.weights, fit_intercept)
        self.diagonal = pool.data.diag()
        self.epsilon = jitter * float(np.mean(self.diagonal))
        self.size = 0
        self.Y = self._weighted(pool.targets())
        self.outside = 0.0  # squared length of what of Y no kernel column reaches
        self._G = None if by_row else self._rotate(n // 2)
        m = len(self.Y)
        self._W: FloatArray = np.empty((len(pool), n))
        self._gaps: FloatArray = self.diagonal + self.epsilon
        # The stacked factor [Q; L] (m + n, n), and [Y; 0] after projection by it (m + n, v).
        self._Q: FloatArray = np.zeros((m + n, n), order="F")
        self._left: FloatArray = np.zeros((m + n, self.Y.shape[1]))
        self._left[:m] = self.Y

    def _weighted(self, values: FloatArray) -> FloatArray:
        """Return (I − QQᵀ)√w values, a fresh array."""
        return self.unpenalised.project_out(self.scale.root[:, None] * values)

    def _rotate(self, most: int) -> FloatArray | None:
        """Turn Y into coordinates in which kernel columns are rows of G, and return G, or None."""
        F = low_rank_factor(self.data, most)
        if F is None:
            return None
        E, R = scipy.linalg.qr(self._weighted(F), mode="economic")
        inside = E.T @ self.Y
        self.outside = float(np.square(self.Y - E @ inside).sum())
        self.Y = inside
        return np.asarray(F @ R.T)

    @property
    def W(self) -> FloatArray:
        """Whitened features of all rows by the rows chosen so far (rows, size)."""
        return self._W[:, : self.size]

    @property
    def Q(self) -> FloatArray:
        """Factor of the smoother, S = Q Qᵀ (m, size)."""
        return self._Q[: len(self.Y), : self.size]

    @property
    def residuals(self) -> FloatArray:
        """What the model leaves of Y (m, v)."""
        return self._left[: len(self.Y)]

    def gaps(self, rows: IntArray) -> FloatArray:
        """Return k_hh + ε - |W_h|² of these rows: squared distance from the span of the basis."""
        return self._gaps[rows]

    def independent(self, rows: IntArray) -> IntArray:
        """Return those of these rows that are not numerically dependent on the basis.

        The gap is a difference of numbers of size k_hh that carry ``size`` rounding errors;
        below that it is noise and the whitened column would be noise too.
        """
        floor = 16 * (self.size + 1) * _EPS * (np.abs(self.diagonal[rows]) + self.epsilon)
        kept: IntArray = rows[self.gaps(rows) > floor]
        return kept

    def try_rows(self, rows: IntArray) -> Additions:
        """Return what each of these independent rows would add, in O(c m size)."""
        m, j = len(self.Y), self.size
        stacked: FloatArray = np.zeros((len(self._Q), len(rows)), order="F")
        kernel = None
        if self._G is None:
            kernel = self.data.block(slice(None), rows)
            stacked[:m] = self._weighted(kernel)
        else:
            stacked[:m] = self._G[rows].T
        if j:
            stacked[m : m + j] = np.sqrt(self.alpha) * self.W[rows].T
            self._project(stacked)
        stacked /= np.sqrt(self.gaps(rows))
        # Both are inner products of vectors after projection: no difference of large numbers.
        sigma = self.alpha + np.einsum("ic,ic->c", stacked, stacked)
        gain = stacked.T @ self._left / sigma[:, None]
        return Additions(rows, stacked, sigma, gain, stacked[:m], kernel)

    def add(self, additions: Additions, c: int) -> None:
        """Add candidate ``c`` of these additions to the basis, in O(m size)."""
        m, j = len(self.Y), self.size
        row = additions.rows[[c]]
        if additions.kernel is None:
            column = self.data.block(slice(None), row)[:, 0]
        else:
            column = additions.kernel[:, c]
        column = column - self.W @ self.W[row[0]]
        column /= np.sqrt(self.gaps(row))
        self._W[:, j] = column
        self._gaps -= column**2
        new = additions.stacked[:, [c]]
        new[m + j] = np.sqrt(self.alpha)
        # Once more: without that a small α would slowly spoil Q; twice is enough (Kahan).
        self._project(new)
        new /= np.linalg.norm(new)
        self._Q[:, [j]] = new
        self._left -= new @ (new.T @ self._left)
        self.size += 1

    def _project(self, stacked: FloatArray) -> None:
        """Take out of these columns (m + n, c) what lies in the span of [Q; L], in place."""
        Q = self._Q[:, : self.size]
        stacked -= (stacked.T @ Q @ Q.T).T
