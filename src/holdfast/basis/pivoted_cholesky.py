"""Basis rows by randomly pivoted Cholesky, drawn where least is explained so far."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from holdfast._typing import FloatArray, IntArray
from holdfast.basis.base import Pool, Selector, how_many, warn_short
from holdfast.basis.residual import Residual


class RandomlyPivotedCholesky(Selector):
    """Rows drawn one by one, each with probability proportional to its unexplained part.

    Parameters
    ----------
    n : int or float
        How many rows, or which fraction of them.

    Notes
    -----
    Chen, Epperly, Tropp and Webber (2022), *Randomly pivoted Cholesky*: the chance of row i is its
    residual Δ_ii, Δ = K - K_{:B} K_BB⁻¹ K_{B:}; near-optimal low-rank approximation in
    expectation. The rows come in blocks of proposals thinned by rejection (Epperly, Tropp and
    Webber 2024), which gives exactly the same distribution in fast matrix products. Row weights
    multiply the chances, as if rows were repeated. Cost: O(mn²) time, O(mn) memory and
    kernel values. y is not looked at.

    If nothing is left unexplained before n rows are found, fewer come back, with a warning.
    """

    data_dependent: ClassVar[bool] = True
    nested: ClassVar[bool] = True

    def __init__(self, n: int | float = 0.1) -> None:
        self.n = n

    def _choose(self, pool: Pool) -> IntArray:
        n = how_many(self.n, len(pool))
        chosen, _ = pivot(pool, n)
        if len(chosen) < n:
            why = "the other rows add nothing to what these explain"
            warn_short(self, len(chosen), n, why)
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
