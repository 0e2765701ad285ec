"""The identity for sets that share most of their rows, at one penalty.

Every neighbourhood has a size of its own and needs numbers that its neighbours need as well. Here
sets do not stand in stacks: each takes its part of the matrix of its bundle
(`holdfast.smoother.shared`), which is still in cache, and factorises it by itself. Stacks filled up
to one size read the same numbers from memory and solve larger systems.

Only the test rows of a set are asked for, so half of a solution is enough. With I − S_HH = L Lᵀ,

    ŷ_T − S_TH (I − S_HH)⁻¹ e_H = ŷ_T − (L⁻¹S_HT)ᵀ (L⁻¹e_H)

and both factors are rows of the Cholesky factor of I − S_HH bordered by S_HT and e_H. Basis rows E
that leave are part of the border. They change S to S − s_E P_EE⁻¹ s_Eᵀ, so that (Woodbury)

    f_T = ŷ_T − S_TH r + s_T μ,   (I − S_HH) r = e_H − s_H μ,
    (P_EE + s_Hᵀ(I − S_HH)⁻¹s_H) μ = s_Hᵀ(I − S_HH)⁻¹e_H − N_E D z

where all products with (I − S_HH)⁻¹ are products of two rows of the border: what is left for E is
one small system, solved for all sets with as many basis rows at once.

Only sets that are beyond doubt are answered. The others have NaN, and are asked again by
themselves in coordinates that keep more digits (`holdfast.holdout.identity`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from holdfast._typing import FloatArray, IntArray
from holdfast.experiments import Tasks
from holdfast.linalg import Definite, run_pieces, solve_small
from holdfast.linalg._lapack import dpotrf
from holdfast.progress import Counter
from holdfast.smoother.shared import Bundle, Shared

__all__ = ["overlapping_predictions"]

#: A pivot of P_EE, scaled to a unit diagonal, below this has lost digits that a QR would keep.
LEAST_PIVOT = 1e-4
#: What stands for infinity on the diagonal of a border, which must not stop a factorisation.
CORNER = 1e200


def overlapping_predictions(
    together: Shared, tasks: Tasks, alpha: float, least: float, largest: float
) -> tuple[FloatArray, FloatArray]:
    """Return held-out predictions (test rows, targets), and the smallest pivot of every set.

    NaN for sets whose digits are in doubt.

    Parameters
    ----------
    together : Shared
        The bundles of the tasks.
    tasks : Tasks
    alpha : float
    least, largest : float
        A set is in doubt if a pivot of I − S_HH is no larger than `least`, or if
        σᵀ(I − S_HH)⁻¹σ is larger than `largest` for a vector σ of random signs.

    Notes
    -----
    Per bundle of k rows k²p operations for its matrix; per set (h + e + t + v)³/3 at most: nothing
    of size p.
    """
    factor, v = together.factor, together.factor.n_targets
    held, e, t = tasks.held.sizes.tolist(), tasks.removed.sizes, tasks.test.sizes
    kinds, kind = np.unique(e * (t.max() + 1) + t, return_inverse=True)
    members = [np.flatnonzero(kind == c) for c in range(kinds.size)]
    borders = [_Borders.of(index, int(e[index[0]]), int(t[index[0]]), v) for index in members]
    where: list[tuple[FloatArray, FloatArray]] = [(np.empty(0), np.empty(0))] * len(tasks)
    for index, border in zip(members, borders, strict=True):
        for i, j in enumerate(index.tolist()):
            where[j] = border.corner[i], border.products[i]
    form, smallest = together.at(alpha), np.full(len(tasks), np.nan)
    done = Counter(len(tasks), "held-out experiments")

    def work(bundle: Bundle) -> None:
        A = form(bundle)
        entries, places, ptr = A.ravel(), bundle.places.values, bundle.places.ptr.tolist()
        begin = places[:, None] * len(A)
        for i, j in enumerate(bundle.index.tolist()):
            span, h = slice(ptr[i], ptr[i + 1]), held[j]
            own = entries.take(begin[span] + places[span])
            corner, products = where[j]
            corner[:] = own[h:, h:]
            own.ravel()[h * (len(own) + 1) :: len(own) + 1] = CORNER
            # The transpose of a C-ordered symmetric matrix is Fortran-ordered: no copy.
            L, info = dpotrf(own.T, lower=1, clean=0, overwrite_a=1)
            if not info:
                smallest[j] = min(L.diagonal()[:h].tolist(), default=1.0) ** 2
            if smallest[j] > least:
                np.matmul(L[h:, :h], L[h:, :h].T, out=products)
        done.add(bundle.index.size)

    run_pieces(work, together.bundles)
    values = np.empty((tasks.test.values.size, v))
    for index, border in zip(members, borders, strict=True):
        rows = tasks.test.where(index).values
        values[rows] = border.predictions(largest).reshape(rows.size, v)
    values /= factor.scale.root[tasks.test.values][:, None]
    return values, smallest


class _Borders(NamedTuple):
    """What the border of I − S_HH leaves of several sets: basis rows, test rows, targets, signs.

    Attributes
    ----------
    e, t : int
        How many basis rows and test rows each set has.
    corner : ndarray of shape (b, q, q)
        Where the border meets itself: P_EE, s_T, N_E D z and −√w ŷ_T above the diagonal.
    products : ndarray of shape (b, q, q)
        X (I − S_HH)⁻¹ Xᵀ with the border X; NaN for sets in doubt.
    """

    e: int
    t: int
    corner: FloatArray
    products: FloatArray

    @classmethod
    def of(cls, index: IntArray, e: int, t: int, v: int) -> _Borders:
        """Return room for some sets."""
        shape = index.size, e + t + v + 1, e + t + v + 1
        return cls(e, t, np.empty(shape), np.full(shape, np.nan))

    def predictions(self, largest: float) -> FloatArray:
        """Return √w f_T (b, t, v); NaN for sets in doubt."""
        e, T, Y = self.e, slice(self.e, self.e + self.t), slice(self.e + self.t, -1)
        corner, products = self.corner, self.products
        f = products[:, T, Y] - corner[:, T, Y]
        good = products[:, -1, -1] <= largest
        if e:
            P = corner[:, :e, :e]
            good &= ~Definite(P.copy(), LEAST_PIVOT).failed
            inside, right = P + products[:, :e, :e], products[:, :e, Y] - corner[:, :e, Y]
            moved = corner[:, :e, T].swapaxes(1, 2) - products[:, T, :e]
            f[good] += moved[good] @ solve_small(inside[good], right[good])
        f[~good] = np.nan
        return f
