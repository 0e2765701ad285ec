"""Basis rows spread as far from each other as the kernel's own metric allows."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from holdfast._typing import IntArray
from holdfast.basis.base import Pool, Selector, how_many, warn_short


class FarthestPoint(Selector):
    """Rows added one by one, each the farthest from those already chosen.

    Parameters
    ----------
    n : int or float
        How many rows, or which fraction of them.

    Notes
    -----
    The distance is that of the kernel's feature space, |φ(x) - φ(z)|² = k(x, x) + k(z, z) -
    2 k(x, z). The first row is drawn at random; the first in row order wins a tie. The largest
    distance of any row from the chosen ones is at most twice the smallest possible (Gonzalez
    1985). Outliers are chosen early: with noisy inputs prefer another selector. Cost: n
    columns of the kernel matrix, O(m) memory. y and the size of the weights are not looked at.

    If every row coincides with a chosen one before n rows are found, fewer come back, with a
    warning.
    """

    data_dependent: ClassVar[bool] = True
    nested: ClassVar[bool] = True

    def __init__(self, n: int | float = 0.1) -> None:
        self.n = n

    def _choose(self, pool: Pool) -> IntArray:
        m = len(pool)
        n = how_many(self.n, m)
        diagonal = pool.data.diag()
        # Rounding of k_ii + k_hh - 2 k_ih; rows closer than this are the same row.
        floor = 64 * np.finfo(np.float64).eps * np.abs(diagonal).max()
        nearest = np.full(m, np.inf)  # squared distance of each row from the chosen ones
        chosen = [int(pool.rng.integers(m))]
        while len(chosen) < n:
            h = chosen[-1]
            column = pool.data.block(slice(None), np.array([h]))[:, 0]
            np.minimum(nearest, diagonal + diagonal[h] - 2.0 * column, out=nearest)
            nearest[h] = -np.inf
            farthest = int(np.argmax(nearest))
            if nearest[farthest] <= floor:
                warn_short(self, len(chosen), n, "every other row coincides with one of these")
                break
            chosen.append(farthest)
        return np.array(chosen, dtype=np.int64)
