r"""Sets of rows that leave after others have left: the identity, block by block.

Without the rows O and I the residuals solve M r = e on these rows, M = I − S (or a multiple of it,
as G of a dense model). With M_OO = L Lᵀ, B = L⁻¹M_O: and b = L⁻¹e_O, eliminating O leaves

    (M_II − B_IᵀB_I) r_I = e_I − B_Iᵀb,        r_O = L⁻ᵀ(b − B_I r_I)

so that O is factorised once for all sets I that leave after it, and of M only the blocks of those
sets are changed: all pairs of folds, or all inner folds of an outer one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from scipy.linalg.lapack import dpotrf, dtrtrs

from holdfast._typing import FloatArray, IntArray
from holdfast.experiments import Ragged, Tasks
from holdfast.holdout.digits import TOO_LITTLE, few_left, warn_of_rounding
from holdfast.linalg import Definite, run_pieces
from holdfast.smoother import Sizes, Smoother
from holdfast.smoother.factor import InverseFactor, KernelFactor

__all__ = ["Eliminated", "Pairs", "after_others"]


class Eliminated:
    """M and e after the rows O have left.

    Parameters
    ----------
    M, e : ndarray of shape (k, k) and (k, v)
        I − S and the residuals of the model on all rows, up to one factor.
    outer : ndarray of int, shape (o,)
        The rows O.
    others : ndarray of int, shape (n,), or None
        Rows that may leave after them; None: all.

    Notes
    -----
    o³/3 + o²n operations; then o h² + h³/3 for each set of h rows. NaN where a matrix is singular
    to working precision.
    """

    def __init__(
        self, M: FloatArray, e: FloatArray, outer: IntArray, others: IntArray | None = None
    ) -> None:
        self._M, self._e, v = M, e, e.shape[1]
        rows = M[outer]
        self._L, info = dpotrf(np.asfortranarray(rows[:, outer]), lower=1, overwrite_a=1)
        both = np.hstack([e[outer], rows if others is None else rows[:, others]])
        B = np.full_like(both, np.nan) if info else dtrtrs(self._L, both, lower=1)[0]
        self._b, self._rows = B[:, :v], B.T[v:]  # (o, v) and (n, o)
        self._place = np.arange(len(M))  # of the others among their rows
        if others is not None:
            self._place[others] = np.arange(others.size)

    def alone(self) -> FloatArray:
        """Return r_O (o, v) where nothing else leaves."""
        return np.asarray(dtrtrs(self._L, self._b, lower=1, trans=1)[0])

    def inner(self, H: IntArray, M: FloatArray | None = None) -> FloatArray:
        """Return r_I (b, h, v) of stacked sets H (b, h) of rows that are not in O.

        With `M` the blocks M_II (b, h, h) that were fetched before; overwritten.
        """
        rows = self._rows[self._place[H]]  # (b, h, o)
        if M is None:
            M = blocks(self._M, H)
        M -= rows @ rows.swapaxes(1, 2)
        return Definite(M).solve(self._e[H] - rows @ self._b)

    def outer(self, H: IntArray, r: FloatArray) -> FloatArray:
        """Return r_O (b, o, v) from the residuals r_I (b, h, v) of the same sets."""
        left = self._b - self._rows[self._place[H]].swapaxes(1, 2) @ r
        flat = left.transpose(1, 0, 2).reshape(len(self._L), -1)
        solved = dtrtrs(self._L, flat, lower=1, trans=1)[0]
        return np.asarray(solved.reshape(-1, len(H), r.shape[2]).swapaxes(0, 1))


def blocks(M: FloatArray, H: IntArray) -> FloatArray:
    """Return the blocks M_HH (b, h, h) of stacked sets of rows H (b, h), a fresh array."""
    return np.asarray(M.take(H[:, :, None] * len(M) + H[:, None]))


def after_others(
    smoother: Smoother, outer: Sequence[IntArray], inner: Sequence[Tasks], alphas: FloatArray
) -> list[FloatArray | None]:
    """Return predictions (a, k, v) of sets of rows that leave after others have left.

    None for outer sets that are not for it: in a model that is not dense, at penalties so small, or
    with an inner set so large, that digits would be lost, or where other rows are tested than are
    held out.

    Parameters
    ----------
    smoother : Smoother
        Of all rows.
    outer : sequence of ndarray of int
        Trained rows that leave first.
    inner : sequence of Tasks
        For each of them the tasks that follow.
    alphas : ndarray of shape (a,)

    Notes
    -----
    m³ operations for each penalty, for V R Vᵀ; then those of `Eliminated`.
    """
    values: list[FloatArray | None] = [None] * len(outer)
    if (smoother.promise(alphas) > TOO_LITTLE).any():
        return values
    served = [j for j in range(len(outer)) if _serves(smoother, outer[j], inner[j])]
    factor = smoother.factor() if served else None
    if not isinstance(factor, KernelFactor) or factor.R(factor.D(alphas)).min() < 0.0:
        return values
    warn_of_rounding(smoother, alphas)
    targets, V = smoother.targets, factor.trained_rows
    place = np.cumsum(smoother.scale.trained) - 1
    shapes = {j: list(inner[j].shapes()) for j in served}
    found = {j: np.empty((alphas.size, inner[j].test.values.size, targets.count)) for j in served}
    for a, R in enumerate(factor.R(factor.D(alphas))):
        scaled = V * np.sqrt(R)
        M, e = scaled @ scaled.T, V @ (R[:, None] * factor.z)
        for j in served:
            left = Eliminated(M, e, place[outer[j]])
            for part in shapes[j]:
                r = left.inner(place[part.T])
                found[j][a, part.out] = targets.Y[part.T] - smoother.scale.unscaled(r, part.T)
    for j in served:
        if not np.isnan(found[j]).any():
            values[j] = smoother.restore(found[j], inner[j].test.values, slice(None))
    return values


def _serves(smoother: Smoother, outer: IntArray, inner: Tasks) -> bool:
    """Whether enough is left after an outer and any inner set, and held-out rows are tested."""
    held, test = inner.held, inner.test
    if not np.array_equal(held.ptr, test.ptr):
        return False
    one, other = (rows.values[np.lexsort((rows.values, rows.owners))] for rows in (held, test))
    if not np.array_equal(one, other):
        return False
    unions = Ragged.from_arrays(np.append(outer, held[i]) for i in range(len(inner)))
    for i in range(0 if smoother.unpenalised.constant else len(unions)):
        smoother.unpenalised.require_determined(unions[i])
    nothing = Ragged.empty(len(unions))
    return not few_left(smoother, Tasks(unions, nothing, nothing, inner.source)).any()


class Pairs:
    """A dense model at one penalty, ready to leave out one or two of a few disjoint sets of rows.

    Parameters
    ----------
    smoother : Smoother
    factor : InverseFactor
        Its factor at the penalty.
    """

    #: What they take the place of.
    instead_of: ClassVar[tuple[str, ...]] = ("single", "spectral")

    def __init__(self, smoother: Smoother, factor: InverseFactor) -> None:
        self.smoother, self.factor = smoother, factor

    @classmethod
    def of(cls, smoother: Smoother, alpha: float) -> Pairs | None:
        """Return them for a smoother; None if its kernel is indefinite."""
        factor = smoother.factor(alpha)
        return cls(smoother, factor) if isinstance(factor, InverseFactor) else None

    @staticmethod
    def pays(tasks: Tasks, sizes: Sizes) -> bool:
        """Whether sets of rows are in several tasks each, so that eliminating them is shared."""
        pieces = len(tasks.held.atoms)
        return 2 * pieces < len(tasks) and 8.0 * sizes.m * len(tasks) * sizes.v <= sizes.memory

    def still(self, smoother: Smoother) -> bool:
        """Whether this is the smoother that they were made for."""
        return smoother is self.smoother

    def predict(self, tasks: Tasks) -> FloatArray:
        """Return predictions (k, v) of tasks that hold out one or two pieces of rows.

        NaN for tasks that hold out more pieces, and for test rows that are not held out.
        """
        m, factor = self.smoother.weights.size, self.factor
        pieces, inside = tasks.held.atoms, tasks.held.has_atoms()
        count, first = inside.sum(axis=1), inside.argmax(axis=1)
        last = inside.shape[1] - 1 - inside[:, ::-1].argmax(axis=1)
        values = np.full((m, len(tasks), factor.n_targets), np.nan)
        place = np.cumsum(factor.scale.trained) - 1
        # Each piece is the last of several pairs: its block is fetched once.
        G = [blocks(factor.G, place[pieces[k]][None])[0] for k in range(len(pieces))]

        def work(k: int) -> None:
            mine = np.flatnonzero((first == k) & (count <= 2) & (count > 0))
            if mine.size:
                self._eliminate(values, pieces, place, G, k, mine, last[mine])

        run_pieces(work, range(len(pieces)))
        return values[tasks.test.values, tasks.test.owners]

    def _eliminate(
        self,
        values: FloatArray,
        pieces: Ragged,
        place: IntArray,
        G: list[FloatArray],
        k: int,
        tasks: IntArray,
        last: IntArray,
    ) -> None:
        """Write the predictions of tasks that hold out piece k first, and perhaps a last one."""
        factor = self.factor
        later = place[pieces.values[pieces.ptr[k + 1] :]]
        left = Eliminated(factor.G, factor.c, place[pieces[k]], later)
        if (last == k).any():
            self._put(values, pieces[k][None], tasks[last == k], left.alone()[None])
        sizes = np.where(last == k, 0, pieces.sizes[last])
        for size in np.unique(sizes[sizes > 0]).tolist():
            some, others = tasks[sizes == size], last[sizes == size]
            rows = pieces.stack(others, size)
            H = place[rows]
            r = left.inner(H, np.stack([G[other] for other in others.tolist()]))
            self._put(values, pieces[k][None], some, left.outer(H, r))
            self._put(values, rows, some, r)

    def _put(self, values: FloatArray, rows: IntArray, tasks: IntArray, r: FloatArray) -> None:
        """Write y − r for tasks with residuals r (b, h, v), rows (b, h) or the same (1, h)."""
        targets, scale = self.smoother.targets, self.smoother.scale
        values[rows, tasks[:, None]] = targets.Y[rows] - scale.unscaled(r, rows)
