"""What each of all rows would add to the span of the chosen ones, without Δ in memory.

With Δ = K − FFᵀ the part of the kernel matrix that the chosen rows do not explain, row h would
lower the mean reconstruction error by g_h/Δ_hh, g_h = Σ_i s_i Δ_ih². When the row b is chosen, F
gains the column v = Δ_{:b}/√Δ_bb and Δ becomes Δ − vvᵀ, so that

    g_h  ←  g_h − 2 v_h (Δ(s∘v))_h + v_h² Σ_i s_i v_i²,      Δ(s∘v) = K(s∘v) − F(Fᵀ(s∘v))

is one product of the kernel matrix with a vector. K may be in memory, or computed in blocks.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from holdfast._typing import FloatArray
from holdfast.basis.base import Pool
from holdfast.basis.residual import Residual

_EPS = float(np.finfo(np.float64).eps)
_KEPT_BYTES = 1e9  # a kernel matrix of more bytes is computed anew for every row that is chosen
_BLOCK_ENTRIES = 2**18  # entries of the kernel matrix handled at once, so that they stay in cache
_DIGITS = 1e-6  # rounding errors in the gains, relative to the best, that call for a fresh sum


def keeps_matrix(m: int) -> bool:
    """Whether the kernel matrix of m rows is kept in memory."""
    return 8.0 * m * m <= _KEPT_BYTES


class Gains:
    """g_h of every row, up to date with the rows chosen so far.

    Parameters
    ----------
    pool : Pool
    share : (m,) array
        s: the weight of each row's error in the mean.

    Notes
    -----
    The recurrence subtracts: once the gains have fallen far below those that they were summed
    from, rounding errors would decide the choice. They are then summed anew from Δ, block by
    block, O(m²n), which happens a few times in all.
    """

    def __init__(self, pool: Pool, share: FloatArray) -> None:
        self.share = share
        self.left = Residual(pool.data)
        every = slice(None)
        self._K = pool.data.block(every, every) if keeps_matrix(len(pool)) else None
        self._sum_anew()

    def choose(self, usable: NDArray[np.bool_]) -> tuple[int, FloatArray]:
        """Return the best of the usable rows, now chosen, and the gaps Δ_ii that it leaves."""
        best = self._best(usable)
        if self._noise(usable) > _DIGITS * self._ratio(usable)[best]:
            self._sum_anew()
            best = self._best(usable)
        self.left.add(np.array([best]))
        v = self.left.F[:, -1]
        sv = self.share * v
        product = np.empty(len(v))
        for block, K in self._blocks():
            product[block] = K @ sv
        # F without its last column, which is v itself: Δ before this step
        before = self.left.F[:, :-1]
        product -= before @ (before.T @ sv)
        self._g += v * (v * float(sv @ v) - 2.0 * product)
        return best, self.left.gap

    def _ratio(self, usable: NDArray[np.bool_]) -> FloatArray:
        return np.where(usable, self._g / np.where(usable, self.left.gap, 1.0), -1.0)

    def _best(self, usable: NDArray[np.bool_]) -> int:
        return int(np.argmax(self._ratio(usable)))

    def _noise(self, usable: NDArray[np.bool_]) -> float:
        """Return the largest rounding error of g_h/Δ_hh since the sums were made."""
        return float((4 * _EPS * self._from[usable] / self.left.gap[usable]).max())

    def _sum_anew(self) -> None:
        g, F = np.zeros(len(self.share)), self.left.F
        for block, K in self._blocks():
            g += self.share[block] @ np.square(K - F[block] @ F.T)
        self._g, self._from = g, g.copy()

    def _blocks(self) -> Iterator[tuple[slice, FloatArray]]:
        """Yield blocks of rows of the kernel matrix, not to be overwritten."""
        m = len(self.share)
        height = max(1, _BLOCK_ENTRIES // m)
        for start in range(0, m, height):
            block = slice(start, min(start + height, m))
            known = self._K
            yield block, self.left.data.block(block, slice(None)) if known is None else known[block]
