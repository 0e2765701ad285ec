"""Partial Cholesky factorisations of a kernel matrix, and the basis rows that they draw.

After rows B are chosen, Δ = K - K_{:B} K_BB⁻¹ K_{B:} = K - F Fᵀ is what is left. Its diagonal holds
the squared distances of all rows, in the feature space of the kernel, from the span of B. Only F
(m × |B|) and the diagonal are stored.

A smooth kernel on rows of few features has eigenvalues that fall so fast that K = F Fᵀ to rounding
with far fewer columns in F than rows: 3,000 rows of one feature may need 50. Whatever depends on
the columns of K only through their inner products can then be computed in that many coordinates.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import scipy.linalg

from holdfast._typing import FloatArray, IntArray
from holdfast.basis.base import Pool, SizedSelector, how_many, warn_short
from holdfast.kernels.matrix import KernelData

_EPS = float(np.finfo(np.float64).eps)
_HALFWAY = _EPS**0.25  # eigenvalues of a smooth kernel fall faster and faster
_CHECKED = 16  # columns that are compared with the kernel at the end


class Residual:
    """Partial Cholesky factorisation of a kernel matrix, to which chosen rows are added.

    There is room for `capacity` columns at first; more is made when needed.
    """

    def __init__(self, data: KernelData, capacity: int = 32) -> None:
        self.data = data
        self.diagonal: FloatArray = data.diag()
        self.gap: FloatArray = np.maximum(self.diagonal, 0.0)  # diagonal of Δ, rounding cut off
        self.size = 0
        self._F: FloatArray = np.empty((len(data), max(1, capacity)), order="F")

    @property
    def F(self) -> FloatArray:
        """The factor (m, size)."""
        return self._F[:, : self.size]

    def floor(self) -> FloatArray:
        """Return the rounding error of ``gap`` after ``size`` subtractions from k_ii."""
        return 16 * (self.size + 1) * _EPS * np.abs(self.diagonal)

    def block(self, rows: IntArray | slice, columns: IntArray) -> FloatArray:
        """Return Δ[rows][:, columns]."""
        K: FloatArray = self.data.block(rows, columns)
        if self.size:
            K -= self.F[rows] @ self.F[columns].T
        return K

    def add(self, rows: IntArray) -> None:
        """Add these rows to B, O(m size |rows|); they must be independent of B and each other."""
        self.extend(rows, self.block(slice(None), rows))

    def extend(self, rows: IntArray, columns: FloatArray) -> None:
        """Add these rows to B when Δ[:, rows] (m, |rows|) is known already."""
        L = scipy.linalg.cholesky(columns[rows], lower=True, check_finite=False)
        new = scipy.linalg.solve_triangular(L, columns.T, lower=True, check_finite=False).T
        end = self.size + len(rows)
        if end > self._F.shape[1]:
            grown = np.empty((len(self._F), max(end, 2 * self._F.shape[1])), order="F")
            grown[:, : self.size] = self.F
            self._F = grown
        self._F[:, self.size : end] = new
        self.size = end
        self.gap = np.maximum(self.gap - np.square(new).sum(axis=1), 0.0)
        self.gap[rows] = 0.0


class RandomlyPivotedCholesky(SizedSelector):
    """Rows drawn one by one, each with probability proportional to its unexplained part.

    Parameters
    ----------
    n : int or float
        How many rows, or which fraction of them.

    Notes
    -----
    Chen, Epperly, Tropp and Webber (2022), *Randomly pivoted Cholesky*: the chance of row i is its
    residual Δ_ii, Δ = K - K_{:B} K_BB⁻¹ K_{B:}; near-optimal low-rank approximation in expectation.
    The rows come in blocks of proposals thinned by rejection (Epperly, Tropp and Webber 2024),
    which gives exactly the same distribution in fast matrix products. Row weights multiply the
    chances, as if rows were repeated. Cost: O(mn²) time, O(mn) memory and kernel values. y is not
    used.

    If nothing is left unexplained before n rows are found, fewer are returned, with a warning.
    """

    data_dependent: ClassVar[bool] = True
    nested: ClassVar[bool] = True

    def _choose(self, pool: Pool) -> IntArray:
        n = how_many(self.n, len(pool))
        chosen, _ = pivot(pool, n)
        warn_short(self, len(chosen), n, "the other rows add nothing to what these explain")
        return chosen


def pivot(pool: Pool, n: int, block: int | None = None) -> tuple[IntArray, Residual]:
    """Return up to n pivots in the order drawn, and the factorisation they give.

    ``block`` proposals are made at once; it changes speed, not chances.
    """
    if block is None:
        # In small blocks few proposals are rejected, large ones multiply faster: a compromise.
        block = max(1, min(128, n // 10))
    residual = Residual(pool.data, capacity=n)
    chosen: list[IntArray] = []
    while residual.size < n:
        chances = pool.weights * np.where(residual.gap > residual.floor(), residual.gap, 0.0)
        total = chances.sum()
        if total <= 0:
            break
        proposals = pool.rng.choice(len(pool), size=block, p=chances / total)
        left = residual.block(proposals, proposals)
        accepted = proposals[_thin(left, residual.gap[proposals], pool.rng)][: n - residual.size]
        if len(accepted):
            residual.add(accepted)
            chosen.append(accepted)
        elif block == 1:
            # Only rounding can reject a single proposal: the row was explained already.
            residual.gap[proposals] = 0.0
    rows = np.concatenate(chosen) if chosen else np.empty(0, dtype=np.int64)
    return rows.astype(np.int64), residual


def _thin(left: FloatArray, proposed: FloatArray, rng: np.random.Generator) -> IntArray:
    """Return which proposals to accept, in order.

    Proposals were drawn with chances ∝ ``proposed``, the gaps before the block. Accepting one with
    probability (its gap now) / (its gap then) makes each accepted row a draw from the gaps as they
    stand after the rows accepted before it: one-at-a-time sampling, exactly.
    """
    left = left.copy()
    accepted = []
    floor = 64 * len(left) * np.finfo(np.float64).eps * proposed  # rounding left of a repeated row
    for i, chance in enumerate(rng.random(len(left))):
        if left[i, i] > max(chance * proposed[i], floor[i]):
            accepted.append(i)
            left -= np.outer(left[:, i], left[i] / left[i, i])
    return np.array(accepted, dtype=np.int64)


def low_rank_factor(data: KernelData, most: int) -> FloatArray | None:
    """Return F (m, r), r ≤ ``most``, with K = F Fᵀ to rounding, or None if there is none.

    Notes
    -----
    Cholesky in O(m r²), whose pivot is the row with the largest share of its diagonal entry left,
    until only rounding errors are left; by Cauchy-Schwarz the other entries are no larger. That
    holds for kernels; a matrix that is not quite one shows in a few columns, which are compared.
    If ``most`` / 2 columns leave too much the rest is not tried, so a rank between ``most`` / 2 and
    ``most`` is found only if the eigenvalues fall fast.
    """
    left = Residual(data, capacity=most)
    scale = np.maximum(np.abs(left.diagonal), np.finfo(np.float64).tiny)
    while (share := left.gap / scale).max() > 4 * _EPS:
        if left.size == most // 2 and share.max() > _HALFWAY:
            return None
        row = np.array([np.argmax(share)])
        columns = left.block(slice(None), row)
        if columns[row[0], 0] <= 0:  # noise: nothing is left
            break
        if left.size == most:
            return None
        left.extend(row, columns)
    some = np.unique(np.linspace(0, len(data) - 1, _CHECKED).astype(np.int64))
    floor = np.sqrt(left.floor())
    if np.any(np.abs(left.block(slice(None), some)) > np.multiply.outer(floor, floor[some])):
        return None
    return left.F.copy()
