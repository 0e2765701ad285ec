"""A sparse ridge model that grows by one basis row at a time, and what each row would add.

With basis rows B, K_BB + εI = C Cᵀ, features Φ = K_{:B} C⁻ᵀ, and W = (I - QQᵀ)√wΦ (weighted, and
free of the unpenalised columns Q), the smoother of the model is S + QQᵀ with

    S = W (WᵀW + αI)⁻¹ Wᵀ = V Vᵀ,        [W; √α I] = [V; F] X   (a thin QR, X triangular)

A further basis row h appends to Φ the column (K_{:h} - Φ Φ_hᵀ) / √g, g = k_hh + ε - |Φ_h|², hence
a column ζ to W, and to the stacked matrix the column [ζ; 0; √α]. The part of that column outside
the span of [V; F] is, because F X = √α I,

    [t; f; √α] = ([k; √α Φ_hᵀ; √(αg)] - [V; F; 0] (Vᵀk + √α FᵀΦ_hᵀ)) / √g

with k = (I - QQᵀ)√wK_{:h}. So only the row h of Φ is needed, and

    S' = S + t tᵀ / σ,        t = (I - S) ζ,        σ = α + |t|² + |f|² = α + ζᵀt

The residuals become e - t (ζᵀe) / σ, and t / √σ is the next column of V. Nothing is refitted:
after j rows, c candidates cost two products of m × j with j × c.

Where all columns of the kernel lie in r directions, the columns of an orthonormal m × r matrix, the
same holds with r coordinates in place of m rows, for kernel columns and targets alike. The part of
the targets outside these directions stays in the residuals, whatever is chosen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg

from holdfast._typing import FloatArray, IntArray
from holdfast.basis.base import Pool
from holdfast.basis.pivoted_cholesky import low_rank_factor
from holdfast.core.data import Unpenalised, Weights

if TYPE_CHECKING:
    from holdfast.kernels.matrix import KernelData

_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Additions:
    """What each of c candidate rows would add to the model."""

    rows: IntArray
    #: [t; f] (m + n, c): the new columns of the stacked factor, except for the √α.
    stacked: FloatArray
    #: σ = α + ζᵀt, shape (c,).
    sigma: FloatArray
    #: ζᵀe / σ, shape (c, v): the new residuals are e - t · gain.
    gain: FloatArray
    #: t = (I - S) ζ, shape (m, c): the directions in which residuals move.
    moves: FloatArray
    #: The kernel's columns (m, c), if they had to be computed.
    kernel: FloatArray | None


class GrowingModel:
    """Ridge regression on basis rows added one by one.

    Parameters
    ----------
    pool : Pool
    n : int
        The largest number of basis rows: memory is two arrays of m × n.
    alpha : float
    fit_intercept : bool
    jitter : float
        The shift ε is ``jitter`` times the mean of the kernel's diagonal over all rows.
    directions : int
        If the kernel's columns span at most this many directions, coordinates along them replace
        rows; lengths do not change. 0: each row keeps its residual.

    Notes
    -----
    Residuals and smoother are those of weighted rows (√w times the row), with the unpenalised
    columns projected out of both. Below, the "m" of residuals, moves and V is the number of
    coordinates, which may be less than the number of rows.
    """

    def __init__(
        self,
        pool: Pool,
        n: int,
        alpha: float,
        fit_intercept: bool,
        jitter: float,
        directions: int = 0,
    ) -> None:
        self.data: KernelData = pool.data
        self.alpha = alpha
        self.weights = Weights.of(pool.weights)
        self.unpenalised = Unpenalised.bias(pool.weights, fit_intercept)
        self.diagonal = pool.data.diag()
        self.epsilon = jitter * float(np.mean(self.diagonal))
        self.size = 0
        self.Y = self._weighted(pool.targets())
        self.outside = 0.0  # squared length of the part of Y that no kernel column can fit
        self._columns = self._rotate(directions) if directions else None
        m = len(self.Y)
        self._Phi: FloatArray = np.empty((len(pool), n))
        self._gaps: FloatArray = self.diagonal + self.epsilon
        # The stacked factor [V; F] (m + n, n), and [Y; 0] after projection by it (m + n, v).
        self._VF: FloatArray = np.zeros((m + n, n), order="F")
        self._left: FloatArray = np.zeros((m + n, self.Y.shape[1]))
        self._left[:m] = self.Y

    def _weighted(self, values: FloatArray) -> FloatArray:
        """Return (I − QQᵀ)√w values, a fresh array."""
        return self.unpenalised.project_out(self.weights.root[:, None] * values)

    def _rotate(self, most: int) -> FloatArray | None:
        """Put Y into coordinates along few directions; return kernel columns there, in rows.

        None, and Y unchanged, if the kernel has more directions than `most`.
        """
        factor = low_rank_factor(self.data, most)
        if factor is None:
            return None
        directions, triangle = scipy.linalg.qr(self._weighted(factor), mode="economic")
        inside = directions.T @ self.Y
        self.outside = float(np.square(self.Y - directions @ inside).sum())
        self.Y = inside
        return np.asarray(factor @ triangle.T)

    @property
    def Phi(self) -> FloatArray:
        """Whitened features of all rows by the basis rows chosen so far (rows, size)."""
        return self._Phi[:, : self.size]

    @property
    def V(self) -> FloatArray:
        """Factor of the smoother, S = V Vᵀ (m, size)."""
        return self._VF[: len(self.Y), : self.size]

    @property
    def residuals(self) -> FloatArray:
        """What the model does not fit of Y, e (m, v)."""
        return self._left[: len(self.Y)]

    def gaps(self, rows: IntArray) -> FloatArray:
        """Return k_hh + ε - |Φ_h|² of these rows: squared distance from the span of the basis."""
        return self._gaps[rows]

    def independent(self, rows: IntArray) -> IntArray:
        """Return those of these rows that are not numerically dependent on the basis.

        The gap is a difference of numbers of size k_hh that carry ``size`` rounding errors. Below
        that it is noise, and the whitened column would be noise too.
        """
        floor = 16 * (self.size + 1) * _EPS * (np.abs(self.diagonal[rows]) + self.epsilon)
        kept: IntArray = rows[self.gaps(rows) > floor]
        return kept

    def try_rows(self, rows: IntArray) -> Additions:
        """Return what each of these independent rows would add, in O(c m size)."""
        m, j = len(self.Y), self.size
        stacked: FloatArray = np.zeros((len(self._VF), len(rows)), order="F")
        kernel = None
        if self._columns is None:
            kernel = self.data.block(slice(None), rows)
            stacked[:m] = self._weighted(kernel)
        else:
            stacked[:m] = self._columns[rows].T
        if j:
            stacked[m : m + j] = np.sqrt(self.alpha) * self.Phi[rows].T
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
        column = column - self.Phi @ self.Phi[row[0]]
        column /= np.sqrt(self.gaps(row))
        self._Phi[:, j] = column
        self._gaps -= column**2
        new = additions.stacked[:, [c]]
        new[m + j] = np.sqrt(self.alpha)
        # A second projection: without it a small α would slowly spoil V; twice is enough (Kahan).
        self._project(new)
        new /= np.linalg.norm(new)
        self._VF[:, [j]] = new
        self._left -= new @ (new.T @ self._left)
        self.size += 1

    def _project(self, stacked: FloatArray) -> None:
        """Subtract from these columns (m + n, c) their part in the span of [V; F], in place."""
        VF = self._VF[:, : self.size]
        stacked -= (stacked.T @ VF @ VF.T).T
