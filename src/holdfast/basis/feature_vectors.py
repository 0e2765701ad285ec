"""Basis rows whose span reconstructs all rows best: feature-vector selection."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from holdfast._typing import FloatArray, IntArray
from holdfast.basis.base import SQRT_EPS, Pool, Selector, check_positive, how_many, whole_number
from holdfast.basis.drawn_vectors import choose_drawn
from holdfast.basis.exact_vectors import Gains, keeps_matrix
from holdfast.basis.residual import Residual
from holdfast.exceptions import KernelError

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
        None: at every step every row competes (exact). An int: only that many random rows do;
        with 59 the winner is, with probability 0.95, among the best twentieth.
    evaluate : int, optional
        With ``sample``: judge the candidates on that many random rows, drawn anew at each step,
        instead of all rows. Then nothing goes through all rows, and the cost does not depend on
        their number.
    rank_tol : float
        A row whose own relative error δ (Cawley and Talbot 2004, eq. 4) is at most this counts as
        dependent on the chosen rows. When all rows do, the numerical rank is reached and selection
        stops.

    Attributes
    ----------
    errors_ : (n,) array
        Mean reconstruction error after each step (Cawley and Talbot 2004, Fig. 3), over all
        rows; with ``evaluate`` an estimate, over the rows drawn at that step.
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

    A kernel matrix of more than 1 GB is computed anew, block by block, for every row. The last
    variant is the improved algorithm of Cawley and Talbot (2002), O(n³) in all for any
    number of rows: 59 and 59 are its usual numbers. It stops at the rank when ten draws in a row
    bring no independent candidate.

    With row weights the means are weighted, as if rows were repeated. A row with k_ii = 0 is
    reconstructed by anything: it counts as error 0 and is never chosen. y is not looked at.

    The default ``rank_tol`` is the square root of the rounding unit. Nearly dependent rows have the
    highest gain of all, because the difference of two close rows points where no row does; the
    tolerance keeps rounding errors from deciding the choice.
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
        return f"{self!r}: computes the {m} x {m} kernel matrix anew, in blocks, for every row"

    errors_: FloatArray

    def _choose(self, pool: Pool) -> IntArray:
        m = len(pool)
        size = m if self.max_size is None else how_many(self.max_size, m, "max_size")
        tol = -1.0 if self.tol is None else check_positive("tol", self.tol, zero=True)
        rank_tol = check_positive("rank_tol", self.rank_tol, zero=True)
        evaluate = m if self.evaluate is None else whole_number("evaluate", self.evaluate)
        if self.sample is not None and evaluate < m:
            sample = whole_number("sample", self.sample)
            drawn = choose_drawn(pool, size, tol, rank_tol, sample, evaluate, _diagonal)
            self.errors_, self.stopped_ = drawn.errors, drawn.stopped
            return drawn.rows
        diagonal = _diagonal(pool, None)
        # Weight of row i in the mean: w_i / (k_ii Σw), and 0 for rows with k_ii = 0.
        live = diagonal > 0
        share = np.where(live, pool.weights, 0.0) / pool.weights.sum()
        share[live] /= diagonal[live]
        step = Gains(pool, share).choose if self.sample is None else self._sampled(pool, share)
        chosen: list[int] = []
        errors: list[float] = []
        gap = diagonal
        self.stopped_ = "size"
        while len(chosen) < size:
            usable = live & (gap > rank_tol * diagonal)
            usable[chosen] = False
            if not usable.any():
                self.stopped_ = "rank"
                break
            best, gap = step(usable)
            chosen.append(best)
            errors.append(float(share @ np.maximum(gap, 0.0)))
            if errors[-1] <= tol:
                self.stopped_ = "tol"
                break
        self.errors_ = np.array(errors)
        return np.array(chosen, dtype=np.int64)

    def _sampled(self, pool: Pool, share: FloatArray) -> _Step:
        """Return a function that chooses the best of a few random rows and gives the new gaps."""
        sample = whole_number("sample", self.sample)
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


def _diagonal(pool: Pool, rows: IntArray | None) -> FloatArray:
    """Return k_ii of these rows (None: all), or refuse a kernel that cannot be one."""
    diagonal = pool.data.diag(rows)
    if np.any(diagonal < 0):
        raise KernelError(
            "FeatureVectors needs a positive semi-definite kernel, and this one has negative "
            "values on its diagonal. Use another kernel, or another selector such as Random."
        )
    return diagonal
