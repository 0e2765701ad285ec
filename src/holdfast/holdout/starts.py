"""Where an iteration starts: at some penalties from zero, at the others from those solutions.

Held-out residuals are smooth in the penalty α, as D = 1/(Λ + α) is. Penalties far below every
eigenvalue in Λ hardly differ, and neither do those far above. So if D at one penalty is, nearly, a
combination of D at a few others, the same combination of solutions is a good place to start from.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import qr, solve_triangular

from holdfast._typing import FloatArray, IntArray

__all__ = ["KnownStarts", "Starts"]

#: With fewer penalties all start from zero: products with fewer right-hand sides are slower.
LEAST = 16
#: Digits that an iteration from zero has to find, and about how many it finds in a step.
DIGITS, DIGITS_PER_STEP = 14.0, 1.7


@dataclass(frozen=True)
class Starts:
    """In which order penalties are solved, and from where.

    Attributes
    ----------
    order : ndarray of int, shape (a,)
        The penalties: the first `count` start from zero, all at once, then the others.
    count : int
    weights : ndarray of shape (a − count, count)
        The others start from these combinations of the solutions of the first.
    """

    order: IntArray
    count: int
    weights: FloatArray

    @classmethod
    def of(cls, D: FloatArray) -> Starts:
        """Return the order for diagonals D (a, p), each largest at the smallest penalty.

        Notes
        -----
        An interpolative decomposition: QR with column pivoting of the diagonals, each coordinate
        relative to its largest value, 2 a² p flops. The diagonal of R says how much of D is left
        after so many penalties, from which follows how many digits the others still have to find.
        """
        a = len(D)
        largest = D.max(axis=0, initial=0.0)
        shares = (D / np.where(largest > 0.0, largest, 1.0)).T
        if a < LEAST or not np.isfinite(shares).all():
            return cls(np.arange(a), a, np.zeros((0, a)))
        R, order = qr(shares, mode="r", pivoting=True, check_finite=False)
        size = np.abs(np.diag(R))
        k = np.arange(1, size.size)
        with np.errstate(divide="ignore"):
            left = np.maximum(DIGITS + np.log10(size[k] / size[0]), 0.0) + DIGITS_PER_STEP
        work = k * DIGITS + (a - k) * left
        best = int(np.argmin(work)) if work.size else 0
        if not work.size or work[best] >= a * DIGITS:
            return cls(np.arange(a), a, np.zeros((0, a)))
        count = int(k[best])
        weights = solve_triangular(R[:count, :count], R[:count, count:], check_finite=False)
        return cls(order, count, np.ascontiguousarray(weights.T))


class KnownStarts:
    """The starts of one smoother, found once for every choice among its penalties."""

    def __init__(self) -> None:
        self._found: dict[bytes, Starts] = {}

    def of(self, alphas: IntArray, D: FloatArray) -> Starts:
        """Return the starts for some of the penalties, whose diagonals are D (a, p)."""
        key = alphas.tobytes()
        if key not in self._found:  # two threads may find the same, which does no harm
            self._found[key] = Starts.of(D)
        return self._found[key]
