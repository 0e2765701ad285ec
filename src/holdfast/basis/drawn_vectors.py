"""Feature-vector selection whose cost does not depend on the number of rows.

At each step a few rows are drawn as candidates and a few others to judge them on. Only kernel
values among these and the rows chosen so far are computed (Cawley and Talbot 2002; 2004,
§2.4.1): with K_BB = L Lᵀ and F = K_{:B} L⁻ᵀ for the rows drawn, Δ = K − FFᵀ as everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.linalg

from holdfast._typing import FloatArray, IntArray
from holdfast.basis.base import Pool

_DRAWS = 10  # so many draws in a row without an independent candidate mean that the rank is reached


class Drawn(NamedTuple):
    """The rows chosen, the estimated error after each, and what ended the selection."""

    rows: IntArray
    errors: FloatArray
    stopped: str


def choose_drawn(
    pool: Pool,
    size: int,
    tol: float,
    rank_tol: float,
    sample: int,
    evaluate: int,
    diagonal: Callable[[Pool, IntArray], FloatArray],
) -> Drawn:
    """Return rows that reconstruct the others well, chosen from draws.

    Parameters
    ----------
    pool : Pool
    size, tol, rank_tol, sample, evaluate
        As in `FeatureVectors`.
    diagonal : callable(pool, rows)
        Kernel values k_ii of rows, checked.

    Notes
    -----
    Step j computes (c + e) j + c e kernel values and takes O((c + e) j²) time, for c candidates
    and e rows to judge them on, however many rows there are.
    """
    m, data, rng = len(pool), pool.data, pool.rng
    triangle = np.empty((min(size, 64),) * 2, order="F")
    chosen = np.empty(0, dtype=np.int64)
    errors: list[float] = []

    def factor(rows: IntArray) -> FloatArray:
        """Return F of these rows (k, j)."""
        if not chosen.size:
            return np.empty((len(rows), 0))
        j = chosen.size
        K = data.block(rows, chosen)
        L = triangle[:j, :j]
        return np.asarray(scipy.linalg.solve_triangular(L, K.T, lower=True, check_finite=False).T)

    idle = 0
    while chosen.size < size:
        drawn = rng.choice(m, size=min(sample, m), replace=False)
        drawn = drawn[~np.isin(drawn, chosen)]
        own, F = diagonal(pool, drawn), factor(drawn)
        gap = own - np.square(F).sum(axis=1)
        good = gap > rank_tol * np.maximum(own, np.finfo(np.float64).tiny)
        if not good.any():
            idle += 1
            if idle == _DRAWS:
                return Drawn(chosen, np.array(errors), "rank")
            continue
        idle, candidates, F, gap = 0, drawn[good], F[good], gap[good]
        on = rng.choice(m, size=evaluate, replace=False)
        norms, G = diagonal(pool, on), factor(on)
        share = np.where(norms > 0, pool.weights[on], 0.0) / pool.weights[on].sum()
        share[norms > 0] /= norms[norms > 0]
        left = data.block(on, candidates) - G @ F.T
        gains = share @ np.square(left) / gap
        best = int(np.argmax(gains))
        j = chosen.size
        if j == len(triangle):
            triangle = np.pad(triangle, (0, min(size, 2 * j) - j))
        triangle[j, :j], triangle[j, j] = F[best], np.sqrt(gap[best])
        chosen = np.append(chosen, candidates[best])
        error = share @ np.maximum(norms - np.square(G).sum(axis=1), 0.0) - gains[best]
        errors.append(max(float(error), 0.0))
        if errors[-1] <= tol:
            return Drawn(chosen, np.array(errors), "tol")
    return Drawn(chosen, np.array(errors), "size")
