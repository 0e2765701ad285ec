"""The penalties that a fit compares: the user's own, or a grid that follows the data.

A penalty λ acts against the eigenvalues of the weighted, centred kernel matrix. Its trace T bounds
the largest: at λ = T every direction of the data is shrunk to half or less, and at T/10⁹ next to
nothing is. The default grid therefore runs from T/10⁹ to T, so that neither the unit of the columns
nor the number of rows decides at which end of it the best penalty lies. If the best still lies at
an end, the grid is extended there, once. Columns of a linear kernel in different units have traces
many decades apart; the grid then begins below the smallest of them, as far down as double precision
allows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast._typing import FloatArray, IntArray
from holdfast.scores.choice import TIE, check_alphas
from holdfast.scores.scoring import Scores

__all__ = ["Penalties", "default_penalties", "extended", "kernel_parts"]

#: Penalties of the default grid, and the decades that they span.
COUNT, DECADES = 30, 9.0
#: Penalties that are added beyond an end: two decades down, or four up.
BELOW, ABOVE = 7, 14
#: A grid begins this far under the smallest column, but not below this share of T.
UNDER, LOWEST = 1e-6, 1e-16
_STEP = DECADES / (COUNT - 1)


@dataclass(frozen=True, eq=False)
class Penalties:
    """The penalties to compare for one kernel.

    Attributes
    ----------
    alphas : ndarray of shape (a,)
        Increasing.
    unit : float or None
        What the steps of a default grid count from; None: the user's own grid, which is never
        extended.
    first : int
        Steps from the unit to the smallest penalty.
    """

    alphas: FloatArray
    unit: float | None = None
    first: int = 0

    @classmethod
    def given(cls, alphas: Any) -> Penalties:
        """Return a grid of the user's own, checked."""
        return cls(check_alphas(alphas))

    def beyond(self, best: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return the penalties below and above the grid, where the best lie at its ends."""
        empty = np.empty(0)
        if self.unit is None:
            return empty, empty
        a = self.alphas.size
        low, high = bool((best == 0).any()), bool((best == a - 1).any())
        below = _steps(self.unit, self.first - BELOW, BELOW) if low else empty
        above = _steps(self.unit, self.first + a, ABOVE) if high else empty
        # Neither zero nor infinite, however extreme the kernel.
        return below[below > 0], above[np.isfinite(above)]


def default_penalties(totals: FloatArray, least: FloatArray | None = None) -> list[Penalties]:
    """Return the default grid of each kernel.

    Parameters
    ----------
    totals : ndarray of shape (kernels,)
        T of each kernel: the trace of its weighted, centred matrix.
    least : ndarray of shape (kernels,), optional
        The smallest part of T that a column has, for linear kernels; inf for others.

    Notes
    -----
    All grids are parts of one sequence of equal ratios, which ends at the T of the first kernel:
    scores of several kernels can be compared at the same penalties.
    """
    unit = float(totals[0])
    offsets = np.rint((np.log10(totals) - np.log10(unit)) / _STEP).astype(int)
    counts = np.full(len(totals), COUNT)
    if least is not None:
        down = np.clip(least * UNDER / totals, LOWEST, 10.0**-DECADES)
        counts = np.ceil(-np.log10(down) / _STEP - 1e-9).astype(int) + 1
    return [
        Penalties(_steps(unit, offset - count + 1, count), unit, offset - count + 1)
        for offset, count in zip(offsets.tolist(), counts.tolist(), strict=True)
    ]


def _steps(unit: float, first: int, count: int) -> FloatArray:
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(unit * 10.0 ** (_STEP * np.arange(first, first + count)))


def extended(
    penalties: Penalties,
    scores: Scores,
    best: IntArray,
    score: Callable[[FloatArray], Scores],
) -> tuple[FloatArray, Scores]:
    """Return the penalties compared and their scores, beyond an end of a default grid if need be.

    Parameters
    ----------
    penalties : Penalties
    scores : Scores
        Of these penalties.
    best : ndarray of int
        Places of the best of them, one for each choice to be made.
    score : callable
        From further penalties to their scores.
    """
    alphas, shown = penalties.alphas, scores.pooled
    if np.nanmax(shown) - np.nanmin(shown) <= TIE * np.nanmax(np.abs(shown)):
        return alphas, scores  # all penalties are alike
    below, above = penalties.beyond(best)
    if below.size:
        alphas, scores = np.concatenate([below, alphas]), Scores.joined([score(below), scores])
    if above.size:
        alphas, scores = np.concatenate([alphas, above]), Scores.joined([scores, score(above)])
    return alphas, scores


def kernel_parts(results: Mapping[str, Any]) -> list[slice]:
    """Return where in the columns of `cv_results_` the penalties of each kernel are."""
    alphas = np.asarray(results["alpha"])
    kernels = [repr({k: v for k, v in p.items() if k != "alpha"}) for p in results["params"]]
    starts = [
        i
        for i in range(alphas.size)
        if i == 0 or kernels[i] != kernels[i - 1] or alphas[i] <= alphas[i - 1]
    ]
    return [slice(*ends) for ends in zip(starts, [*starts[1:], alphas.size], strict=True)]
