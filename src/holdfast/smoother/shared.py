"""S itself on the rows of sets that share most of their rows.

Neighbourhoods that overlap (every row with all rows near it) ask for the same entries of S again
and again. At few penalties S is therefore formed once for each bundle of sets
(`holdfast.experiments.bundles`), on all rows that they hold, as one product of moderate size, and
each set takes its part while that is in cache. Basis rows that leave are rows of the same product:
with s = V D Nᵀ and P = N D Nᵀ

    S^E = S − s_E P_EE⁻¹ s_Eᵀ,      ŷ^E = ŷ − s_E P_EE⁻¹ N_E D z

so that nothing of size p is left for a set to do (`holdfast.holdout.overlapping`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from holdfast._typing import FloatArray, IntArray
from holdfast.experiments import Ragged, Tasks, bundles
from holdfast.smoother.factor import Factor, FeatureFactor

__all__ = ["Bundle", "Shared", "shared"]

#: S is formed where bundles have no more entries than this for each entry that a set asks for: a
#: product of moderate size runs at about twice the rate of a small one.
MOST_SPARE = 2.0
#: The matrices I − S_HH have at least this many times the entries of their borders squared: test
#: rows, targets, basis rows that leave.
LEAST_INSIDE = 2
#: Doubles that S may take for one bundle.
MOST_DOUBLES = 2**25


class Bundle(NamedTuple):
    """Sets that share most of their rows.

    Attributes
    ----------
    index : ndarray of int
        Which tasks.
    rows, basis, tests : ndarray of int
        The rows that they hold or test, the basis rows that leave, and the rows tested.
    places : Ragged
        Of each task, where its held-out rows, removed basis rows, test rows, the targets and the
        signs stand in the matrix of `Shared.at`.
    """

    index: IntArray  # type: ignore[assignment]  # hides tuple.index, which nobody needs here
    rows: IntArray
    basis: IntArray
    tests: IntArray
    places: Ragged


@dataclass(frozen=True)
class Shared:
    """Tasks that overlap, ready for any penalty.

    Attributes
    ----------
    factor : FeatureFactor
    bundles : list of Bundle
    """

    factor: FeatureFactor
    bundles: list[Bundle]

    def at(self, alpha: float) -> Callable[[Bundle], FloatArray]:
        """Return the function from a bundle to what its sets need at one penalty, as one matrix.

        I − S on its rows, s and P for its basis rows, bordered by columns for the rows tested, the
        targets and random signs σ. Rows of N are scaled so that P has a unit diagonal.

            I − S    s    −S    √w(y − ŷ)   σ
              sᵀ     P     s      N D z     0
              0      0     0      −√w ŷ     0
              0      0     0        0       0

        What is zero here is never used.
        """
        factor = self.factor
        V, D = np.asarray(factor.V), factor.d(alpha)
        root, beta = np.sqrt(D), D[:, None] * factor.z
        N = np.empty((0, D.size)) if factor.N is None else factor.N
        half = N * root
        length = np.linalg.norm(half, axis=1, keepdims=True)
        half /= length
        fitted, level = V @ beta, (N / length) @ beta
        signs = np.random.default_rng(0).choice([-1.0, 1.0], len(V))

        def form(bundle: Bundle) -> FloatArray:
            rows, k, n = bundle.rows, bundle.rows.size, bundle.rows.size + bundle.basis.size
            Z = np.empty((n, D.size))
            np.take(V, rows, axis=0, out=Z[:k], mode="clip")  # "raise" would copy
            Z[:k] *= root
            Z[k:] = half[bundle.basis]
            targets = slice(n + bundle.tests.size, -1)
            A = np.zeros((n + bundle.tests.size + factor.n_targets + 1,) * 2)
            np.matmul(Z, Z.T, out=A[:n, :n])
            np.negative(A[:k, :k], out=A[:k, :k])
            A[:n, n : targets.start] = A[:n, np.searchsorted(rows, bundle.tests)]
            A[np.arange(k), np.arange(k)] += 1.0
            A[:k, targets] = factor.Ys[rows] - fitted[rows]
            A[k:n, targets] = level[bundle.basis]
            A[n : targets.start, targets] = -fitted[bundle.tests]
            A[:k, -1] = signs[rows]
            return A

        return form


def shared(factor: Factor, tasks: Tasks) -> Shared | None:
    """Return how S is formed once for several tasks at a time; None where it does not pay."""
    if not isinstance(factor, FeatureFactor) or not isinstance(factor.V, np.ndarray):
        return None
    border = tasks.removed.sizes + tasks.test.sizes + factor.n_targets + 1
    if LEAST_INSIDE * np.square(border).sum() > np.square(tasks.held.sizes).sum():
        return None
    found = bundles(tasks.held, len(factor.V))
    if found is None:
        return None
    order = np.concatenate(found)
    ends = np.cumsum([0, *(bundle.size for bundle in found)])
    ordered = tasks.select(order)
    sides = Ragged.ranges(np.zeros(order.size, int), np.full(order.size, factor.n_targets + 1))
    sets = ordered.held, ordered.removed, ordered.test, sides
    rows, basis = _Places(len(factor.V)), _Places(0 if factor.N is None else len(factor.N))
    places = [np.empty_like(part.values) for part in sets]
    most = MOST_SPARE * float(np.square(tasks.held.sizes).sum())
    used = []
    for start, stop in pairwise(ends.tolist()):
        spans = [slice(part.ptr[start], part.ptr[stop]) for part in sets]
        H, E, T, B = (part.values[span] for part, span in zip(sets, spans, strict=True))
        all_rows, left, tests = rows.union(H, T), basis.union(E), rows.union(T)
        n = all_rows.size + left.size
        most -= n**2
        if most < 0.0 or n**2 > MOST_DOUBLES:
            return None
        used.append((all_rows, left, tests))
        places[0][spans[0]] = rows.numbered(H, all_rows, 0)
        places[1][spans[1]] = basis.numbered(E, left, all_rows.size)
        places[2][spans[2]] = rows.numbered(T, tests, n)
        places[3][spans[3]] = B + (n + tests.size)
    side_by_side = np.argsort(np.concatenate([part.owners for part in sets]), kind="stable")
    ptr = np.sum([part.ptr for part in sets], axis=0)
    whole = Ragged(np.concatenate(places)[side_by_side], ptr)
    parts = []
    for (start, stop), own in zip(pairwise(ends.tolist()), used, strict=True):
        parts.append(Bundle(order[start:stop], *own, whole.items(np.arange(start, stop))))
    return Shared(factor, parts)


class _Places:
    """Which rows, or basis rows, a bundle uses, and where they stand in its matrix."""

    def __init__(self, count: int) -> None:
        self._used, self._place = np.zeros(count, dtype=bool), np.zeros(count, dtype=np.int64)

    def union(self, *sets: IntArray) -> IntArray:
        """Return what some sets hold, in sorted order."""
        for values in sets:
            self._used[values] = True
        found = np.flatnonzero(self._used)
        self._used[found] = False
        return found

    def numbered(self, values: IntArray, union: IntArray, first: int) -> IntArray:
        """Return the places of some values, those of the union being numbered from `first` on."""
        self._place[union] = np.arange(first, first + union.size)
        return self._place[values]
