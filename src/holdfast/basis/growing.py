"""A sparse ridge model that grows by one basis row at a time, and what each row would add.

With basis rows B, K_BB + εI = C Cᵀ, features W = K_{:B} C⁻ᵀ, and Z = W after the rows are
multiplied by √w and the bias is projected out, the smoother of the model is

    S = Z (ZᵀZ + αI)⁻¹ Zᵀ = Q Qᵀ,        [Z; √α I] = [Q; ·] R   (a thin QR)

A further row h appends to W the column (K_{:h} - W W_hᵀ) / √(k_hh + ε - |W_h|²), hence z to Z, and

    S' = S + t tᵀ / σ,        t = (I - S) z,        σ = α + zᵀt

so the residuals become R - t (zᵀR) / σ, and t / √σ is the next column of Q. Nothing is refitted:
c candidates cost three products of m × j with j × c, after j rows.
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
    columns : (m, c)
        The new column of W for each candidate.
    T : (m, c)
        t = (I - S) z for each candidate.
    sigma : (c,)
        σ = α + zᵀt.
    gain : (c, v)
        zᵀR / σ: the new residuals are R - t · gain.
    """

    columns: Floats
    T: Floats
    sigma: Floats
    gain: Floats


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
        # The stacked factor [Q; ·] (m + n, n): the lower part is kept so that a new column can be
        # orthogonalised twice, without which a small α would slowly spoil Q.
        self._Q: Floats = np.zeros((m + n, n), order="F")
        self.Y = project_out(self.q, self.root_weights[:, None] * pool.targets())
        self.residuals: Floats = self.Y.copy()
        self.leverage: Floats = self.q**2  # diagonal of S + qqᵀ

    @property
    def W(self) -> Floats:
        """Whitened features of the rows chosen so far (m, size)."""
        return self._W[:, : self.size]

    @property
    def Q(self) -> Floats:
        """Factor of the smoother, S = Q Qᵀ (m, size)."""
        return self._Q[: len(self._W), : self.size]

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
        columns = self.data.block(slice(None), rows)  # (m, c)
        if self.size:
            columns -= self.W @ self.W[rows].T
        columns /= np.sqrt(self.gaps(rows))
        T = project_out(self.q, self.root_weights[:, None] * columns)  # z, becoming t below
        overlap = self.Q.T @ T  # (size, c)
        gain = T.T @ self.residuals  # zᵀR (c, v)
        # σ = α + zᵀ(I - S)z is the squared length of [z; 0; √α] after projection: no
        # difference of large numbers is needed once t and the lower part are at hand.
        if self.size:
            lower = self._Q[len(T) : len(T) + self.size, : self.size] @ overlap
            T -= self.Q @ overlap
            sigma = self.alpha + np.square(T).sum(axis=0) + np.square(lower).sum(axis=0)
        else:
            sigma = self.alpha + np.square(T).sum(axis=0)
        return Additions(columns, T, sigma, gain / sigma[:, None])

    def add(self, additions: Additions, c: int) -> None:
        """Add candidate ``c`` of these additions to the basis, in O(m size)."""
        m, j = len(self._W), self.size
        self._W[:, j] = additions.columns[:, c]
        z = project_out(self.q, self.root_weights * self._W[:, j])
        column = np.zeros(len(self._Q))
        column[:m], column[m + j] = z, np.sqrt(self.alpha)
        Q = self._Q[:, :j]
        for _ in range(2):  # twice is enough (Kahan)
            column -= Q @ (Q.T @ column)
        self._Q[:, j] = column / np.linalg.norm(column)
        self.size += 1
        new = self.Q[:, j]
        # The residuals are y minus its projection; done anew, rounding does not pile up.
        self.residuals = self.Y - self.Q @ (self.Q.T @ self.Y)
        self.leverage = self.leverage + new**2


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
