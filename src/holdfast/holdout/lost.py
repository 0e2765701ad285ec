"""Which held-out predictions have lost their digits, told from what they were computed with.

The identity divides by I − S_HH. Where a pivot or a direction of it nearly vanishes, it makes
rounding errors large; where little is left of a prediction beside what was taken away, they show.
A set that is lost becomes NaN, and is trained from scratch instead.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from holdfast._typing import BoolArray, FloatArray
from holdfast.smoother.factorise import WEAK

__all__ = [
    "CLOSE",
    "LOOKS",
    "VANISHING",
    "cancelled",
    "faint",
    "reach_of",
    "shortest",
    "shrunk",
    "signs",
]

#: A set is also lost where I − S_HH shrinks some direction below this share of what a pivot may be:
#: such a direction need not show in a single pivot. The second share is for factors that have lost
#: digits themselves.
DIRECTION, DIRECTION_OF_LOSS = 0.1, 0.5
#: Vectors of random signs that look for it: one alone is nearly orthogonal to it every tenth time.
LOOKS = 3
#: With pivots up to this, predictions below this share of their residuals have cancelled; the
#: largest of all, with smaller pivots, below a larger share.
CLOSE, VANISHING = 1e-2, 1e-2
#: Predictions that are smaller than this share of all that was fitted, over the pivot (at least
#: CLOSE), are faint: rounding errors of the rows that were fitted best show in them.
FAINT = 5e-4


def faint(pivots: FloatArray, largest: FloatArray, fitted: FloatArray) -> BoolArray:
    """Return which predictions are so small that rounding errors of other rows show in them.

    Parameters
    ----------
    pivots : ndarray
        The smallest pivot of I − S_HH.
    largest : ndarray
        The largest prediction, beside which errors are judged.
    fitted : ndarray
        The length of all fitted targets times the reach √(S_ii / w_i) of a row: over the pivot,
        rounding errors of that size are in the prediction.
    """
    return np.asarray(np.maximum(pivots, CLOSE) * largest < FAINT * fitted)


def cancelled(smallest: FloatArray, x: FloatArray, left: FloatArray) -> BoolArray:
    """Return which sets (g, a) have predictions that are mostly rounding errors of their own rows.

    Parameters
    ----------
    smallest : ndarray of shape (g, a)
        The smallest pivot of I − S_HH.
    x, left : ndarray of shape (g, a, h, v)
        Held-out residuals and what they leave of the targets, |y − x|, both times √w.
    """
    close = smallest <= CLOSE
    if not close.any():
        return close
    left = left.max(axis=2, initial=0.0)  # (g, a, v)
    largest, r = np.fmax.reduce(left, axis=0), VANISHING * np.abs(x).max(axis=2)
    lost = (left < r) | (smallest[..., None] * largest < CLOSE * r)
    return np.asarray(close & lost.any(axis=2))


def reach_of(M: FloatArray, root: FloatArray) -> FloatArray:
    """Return the largest √(S_ii / w_i) (g, a) of each set, from I − S_HH (g, a, h, h)."""
    leverages = np.maximum(1.0 - np.einsum("gahh->gah", M), 0.0)
    return np.asarray(np.sqrt((leverages / np.square(root[..., 0])).max(axis=2)))


def shortest(weak: float) -> float:
    """Return what I − S_HH may shrink a direction to, from the smallest pivot that is allowed."""
    return weak * (DIRECTION_OF_LOSS if weak > WEAK else DIRECTION)


def shrunk(found: FloatArray, weak: float) -> BoolArray:
    """Return where I − S_HH shrinks some direction too much, from its inverse times `signs`.

    How much the inverse lengthens them tells the smallest eigenvalue from above.
    """
    return np.asarray(np.abs(found).max(axis=(-2, -1)) * shortest(weak) > 1.0)


@cache
def signs(h: int) -> FloatArray:
    """Return vectors (h, LOOKS) of signs, the same every time."""
    return np.random.default_rng(0).choice([-1.0, 1.0], (LOOKS, h)).T
