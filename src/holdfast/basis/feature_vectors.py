"""Basis rows whose span reconstructs all rows best: feature-vector selection.

With Δ = K − FFᵀ the part of the kernel matrix that the chosen rows do not explain, row h would
lower the mean reconstruction error by g_h/Δ_hh, g_h = Σ_i s_i Δ_ih². When the row b is chosen, F
gains the column v = Δ_{:b}/√Δ_bb and Δ becomes Δ − vvᵀ, so that

    g_h  ←  g_h − 2 v_h (Δ(s∘v))_h + v_h² Σ_i s_i v_i²,      Δ(s∘v) = K(s∘v) − F(Fᵀ(s∘v))

is one product of the kernel matrix with a vector. K may be in memory, or computed in blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from holdfast._typing import FloatArray, IntArray
from holdfast.basis.base import SQRT_EPS, Pool, Selector, how_many
from holdfast.basis.pivoted_cholesky import Residual
from holdfast.core.lapack import CHUNK
from holdfast.data.values import check_positive, whole_number
from holdfast.exceptions import KernelError

_EPS = float(np.finfo(np.float64).eps)
_KEPT_BYTES = 1e9  # a kernel matrix of more bytes is computed again for every row that is chosen
_DIGITS = 1e-6  # rounding errors in the gains, relative to the best, that call for a fresh sum
_DRAWS = 10  # so many draws in a row without an independent candidate mean that the rank is reached

# Takes which rows are usable; returns the row chosen and the gaps Δ_ii that it leaves.
_Step = Callable[[NDArray[np.bool_]], tuple[int, FloatArray]]


class FeatureVectors(Selector):
    """Rows added one by one so that their span in feature space reconstructs all rows best.

    Parameters
    ----------
    max_size : int or float, optional
        Stop at this many rows, or at this fraction of them.
    tol : float, optional
        Stop once the mean reconstruction error is at most this.
    sample : int, optional
        None: at every step every row competes (exact). An int: only that many random rows do; with
        59 the winner is, with probability 0.95, among the best 5 %.
    evaluate : int, optional
        With ``sample``: judge the candidates on that many random rows, drawn again at each step,
        instead of all rows. Then nothing goes through all rows, and the cost does not depend on
        their number.
    rank_tol : float
        A row whose own relative error δ (Cawley and Talbot 2004, eq. 4) is at most this counts as
        dependent on the chosen rows. When all rows do, the numerical rank is reached and selection
        stops.

    Attributes
    ----------
    errors_ : (n,) array
        Mean reconstruction error after each step (Cawley and Talbot 2004, Fig. 3), over all rows;
        with ``evaluate`` an estimate from the rows drawn at that step.
    stopped_ : {"size", "tol", "rank"}
        What ended the selection.

    Notes
    -----
    Cawley and Talbot (2004), §2.4.1 (Baudat and Anouar 2001): one row at a time, maximise the mean
    over i of K_Biᵀ K_BB⁻¹ K_Bi / k_ii. With Δ = K - K_{:B} K_BB⁻¹ K_{B:} a candidate h raises it by
    mean_i Δ_ih² / (Δ_hh k_ii), so nothing is solved.

    Per row chosen, the exact variant costs O(m²), one product with the kernel matrix, and O(mn)
    memory beside that matrix, which is kept if it takes at most 1 GB. With ``sample=c`` it costs
    O(mcn), c columns of the kernel matrix, and O(mn) memory; with ``sample=c, evaluate=e``
    O((c + e)n²), (c + e)n + ce kernel values, and O((c + e)n) memory.

    A kernel matrix of more than 1 GB is computed again, block by block, for every row. The last
    variant is the improved algorithm of Cawley and Talbot (2002), O(n³) in all for any number of
    rows: 59 and 59 are its usual numbers. It stops when ten draws in a row have no independent
    candidate.

    With row weights the means are weighted, as if rows were repeated. A row with k_ii = 0 is
    reconstructed by anything: it counts as error 0 and is never chosen. y is not used.

    The default ``rank_tol`` is the square root of the rounding unit. Nearly dependent rows have the
    highest gain of all, because the difference of two close rows points in a direction of its own;
    the tolerance keeps rounding errors from deciding the choice.
    """

    data_dependent: ClassVar[bool] = True
    nested: ClassVar[bool] = True

    def __init__(
        self,
        max_size: int | float | None = None,
        tol: float | None = None,
        sample: int | None = None,
        evaluate: int | None = None,
        rank_tol: float = SQRT_EPS,
    ) -> None:
        self.max_size = max_size
        self.tol = tol
        self.sample = sample
        self.evaluate = evaluate
        self.rank_tol = rank_tol

    def explain(self, m: int) -> str:
        """Return one line for a plan: what choosing from m rows takes."""
        if self.sample is not None:
            return super().explain(m)
        if keeps_matrix(m):
            return f"{self!r}: holds the whole {m} x {m} kernel matrix, {8e-6 * m * m:.0f} MB"
        return f"{self!r}: computes the {m} x {m} kernel matrix again, in blocks, for every row"

    errors_: FloatArray

    def _choose(self, pool: Pool) -> IntArray:
        m = len(pool)
        size = m if self.max_size is None else how_many(self.max_size, m, "max_size")
        tol = -1.0 if self.tol is None else check_positive("tol", self.tol, zero=True)
        rank_tol = check_positive("rank_tol", self.rank_tol, zero=True)
        evaluate = m if self.evaluate is None else whole_number("evaluate", self.evaluate)
        sample = None if self.sample is None else whole_number("sample", self.sample)
        if sample is not None and evaluate < m:
            steps = _from_draws(pool, size, rank_tol, sample, evaluate)
        else:
            steps = _from_all(pool, rank_tol, sample)
        chosen: list[int] = []
        errors: list[float] = []
        self.stopped_ = "rank"
        for row, error in steps:
            chosen.append(row)
            errors.append(error)
            if error <= tol or len(chosen) == size:
                self.stopped_ = "tol" if error <= tol else "size"
                break
        self.errors_ = np.array(errors)
        return np.array(chosen, dtype=np.int64)


def _from_all(pool: Pool, rank_tol: float, sample: int | None) -> Iterator[tuple[int, float]]:
    """Yield rows and the error of all rows after each, until the rank is reached."""
    diagonal = _diagonal(pool, None)
    share = _shares(pool.weights, diagonal)
    step = Gains(pool, share).choose if sample is None else _sampled(pool, share, sample)
    usable, gap = diagonal > 0, diagonal
    while (usable := usable & (gap > rank_tol * diagonal)).any():
        best, gap = step(usable)
        usable[best] = False
        yield best, float(share @ np.maximum(gap, 0.0))


def _sampled(pool: Pool, share: FloatArray, sample: int) -> _Step:
    """Return a function that chooses the best of a few random rows and gives the new gaps."""
    residual, remaining = Residual(pool.data), np.arange(len(pool))

    def step(usable: NDArray[np.bool_]) -> tuple[int, FloatArray]:
        nonlocal remaining
        drawn = pool.rng.choice(remaining, size=min(sample, len(remaining)), replace=False)
        rows = drawn[usable[drawn]]
        if not len(rows):  # an unlucky draw: choose among the rows that will do
            left = np.flatnonzero(usable)
            rows = pool.rng.choice(left, size=min(sample, len(left)), replace=False)
        columns = residual.block(slice(None), rows)  # (m, c)
        c = int(np.argmax(share @ np.square(columns) / residual.gap[rows]))
        best = int(rows[c])
        residual.extend(rows[[c]], columns[:, [c]])
        remaining = remaining[remaining != best]
        return best, residual.gap

    return step


def _from_draws(
    pool: Pool, size: int, rank_tol: float, sample: int, evaluate: int
) -> Iterator[tuple[int, float]]:
    """Yield rows and the estimated error after each, until draws bring no independent row.

    At each step a few rows are drawn as candidates and a few others to judge them on. Only kernel
    values among these and the rows chosen so far are computed (Cawley and Talbot 2002; 2004,
    §2.4.1): with K_BB = L Lᵀ and F = K_{:B} L⁻ᵀ for the rows drawn, Δ = K − FFᵀ as everywhere.
    Step j computes (c + e) j + c e kernel values and takes O((c + e) j²) time, for c candidates
    and e rows to judge them on, however many rows there are.
    """
    m, data, rng = len(pool), pool.data, pool.rng
    triangle = np.empty((min(size, 64),) * 2, order="F")
    chosen = np.empty(0, dtype=np.int64)

    def factor(rows: IntArray) -> FloatArray:
        """Return F of these rows (k, j)."""
        if not chosen.size:
            return np.empty((len(rows), 0))
        L, K = triangle[: chosen.size, : chosen.size], data.block(rows, chosen)
        return np.asarray(scipy.linalg.solve_triangular(L, K.T, lower=True, check_finite=False).T)

    idle = 0
    while idle < _DRAWS:
        drawn = rng.choice(m, size=min(sample, m), replace=False)
        drawn = drawn[~np.isin(drawn, chosen)]
        own, F = _diagonal(pool, drawn), factor(drawn)
        gap = own - np.square(F).sum(axis=1)
        good = gap > rank_tol * np.maximum(own, np.finfo(np.float64).tiny)
        if not good.any():
            idle += 1
            continue
        idle, candidates, F, gap = 0, drawn[good], F[good], gap[good]
        on = rng.choice(m, size=evaluate, replace=False)
        norms, G = _diagonal(pool, on), factor(on)
        share = _shares(pool.weights[on], norms)
        gains = share @ np.square(data.block(on, candidates) - G @ F.T) / gap
        best, j = int(np.argmax(gains)), chosen.size
        if j == len(triangle):
            triangle = np.pad(triangle, (0, min(size, 2 * j) - j))
        triangle[j, :j], triangle[j, j] = F[best], np.sqrt(gap[best])
        chosen = np.append(chosen, candidates[best])
        error = share @ np.maximum(norms - np.square(G).sum(axis=1), 0.0) - gains[best]
        yield int(candidates[best]), max(float(error), 0.0)


def _shares(weights: FloatArray, diagonal: FloatArray) -> FloatArray:
    """Return the weight of each row's error in the mean, w_i / (k_ii Σw); 0 where k_ii = 0."""
    live = diagonal > 0
    share = np.where(live, weights, 0.0) / weights.sum()
    share[live] /= diagonal[live]
    return np.asarray(share)


def _diagonal(pool: Pool, rows: IntArray | None) -> FloatArray:
    """Return k_ii of these rows (None: all), or refuse a kernel that cannot be one."""
    diagonal = pool.data.diag(rows)
    if np.any(diagonal < 0):
        raise KernelError(
            "FeatureVectors needs a positive semi-definite kernel, and this one has negative "
            "values on its diagonal. Use another kernel, or another selector such as Random.",
            argument="kernel",
        )
    return diagonal


def keeps_matrix(m: int) -> bool:
    """Whether the kernel matrix of m rows is kept in memory."""
    return 8.0 * m * m <= _KEPT_BYTES


class Gains:
    """g_h of every row, up to date with the rows chosen so far; `share` (m,) is s.

    The recurrence subtracts: once the gains have fallen far below those that they were summed
    from, rounding errors would decide the choice. They are then summed again from Δ, block by
    block, O(m²n), which happens a few times in all.
    """

    def __init__(self, pool: Pool, share: FloatArray) -> None:
        self.share = share
        self.left = Residual(pool.data)
        every = slice(None)
        self._K = pool.data.block(every, every) if keeps_matrix(len(pool)) else None
        self._sum_again()

    def choose(self, usable: NDArray[np.bool_]) -> tuple[int, FloatArray]:
        """Return the best of the usable rows, now chosen, and the gaps Δ_ii that it leaves."""
        best = self._best(usable)
        if self._noise(usable) > _DIGITS * self._ratio(usable)[best]:
            self._sum_again()
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

    def _sum_again(self) -> None:
        g, F = np.zeros(len(self.share)), self.left.F
        for block, K in self._blocks():
            g += self.share[block] @ np.square(K - F[block] @ F.T)
        self._g, self._from = g, g.copy()

    def _blocks(self) -> Iterator[tuple[slice, FloatArray]]:
        """Yield blocks of rows of the kernel matrix, not to be overwritten."""
        m = len(self.share)
        height = max(1, CHUNK // 4 // m)
        for start in range(0, m, height):
            block = slice(start, min(start + height, m))
            known = self._K
            yield block, self.left.data.block(block, slice(None)) if known is None else known[block]
