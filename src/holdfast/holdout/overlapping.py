"""The identity for sets that share most of their rows, at one penalty.

Every neighbourhood has a size of its own and needs numbers that its neighbours need as well. Here
sets do not stand in stacks: each takes its part of the matrix of its bundle
(`holdfast.smoother.shared`), which is still in cache, and factorises it by itself. Stacks filled up
to one size read the same numbers from memory and solve larger systems.

Only the test rows of a set are asked for, so half of a solution is enough. With I − S_HH = L Lᵀ,

    f_T = ŷ_T − S_TH (I − S_HH)⁻¹ e_H = ŷ_T − (L⁻¹S_HT)ᵀ (L⁻¹e_H)

and both factors are rows of the Cholesky factor of I − S_HH bordered by S_HT and e_H.

Only sets that are beyond doubt are answered. The others have NaN, and are asked again by
themselves in coordinates that keep more digits (`holdfast.holdout.identity`).
"""

from __future__ import annotations

import numpy as np

from holdfast._typing import FloatArray
from holdfast.experiments import Tasks
from holdfast.linalg import run_pieces
from holdfast.linalg._lapack import dpotrf, dtrtrs
from holdfast.progress import Counter
from holdfast.smoother.shared import Bundle, Shared

__all__ = ["overlapping_predictions"]

#: A pivot of P_EE, scaled to a unit diagonal, below this has lost digits that a QR would keep.
LEAST_PIVOT = 1e-4


def overlapping_predictions(
    together: Shared, tasks: Tasks, alpha: float, least: float, largest: float
) -> FloatArray:
    """Return held-out predictions (test rows, targets); NaN for sets whose digits are in doubt.

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
    Per bundle of k rows k²p operations for its matrix; per set (h + t + v)³/3, and h²e where basis
    rows leave: nothing of size p.
    """
    factor, v = together.factor, together.factor.n_targets
    removed, held, tested = (
        part.sizes.tolist() for part in (tasks.removed, tasks.held, tasks.test)
    )
    values = np.full((tasks.test.values.size, v), np.nan)
    form, first = together.at(alpha), tasks.test.ptr.tolist()
    done = Counter(len(tasks), "held-out experiments")

    def work(bundle: Bundle) -> None:
        A = form(bundle)
        entries, places, ptr = A.ravel(), bundle.places.values, bundle.places.ptr.tolist()
        begin = places[:, None] * len(A)
        for i, j in enumerate(bundle.index.tolist()):
            span, h, t = slice(ptr[i], ptr[i + 1]), held[j], tested[j]
            own = entries.take(begin[span] + places[span])
            left = _without_basis(own, removed[j]) if removed[j] else own
            if left is not None:
                values[first[j] : first[j + 1]] = _predictions(left, h, t, least, largest)
        done.add(bundle.index.size)

    run_pieces(work, together.bundles)
    values /= factor.scale.root[tasks.test.values][:, None]
    return values


def _without_basis(own: FloatArray, e: int) -> FloatArray | None:
    """Return the bordered matrix of one set, its first e rows and columns eliminated.

    These are basis rows that leave; None where that would cost digits.
    """
    L, info = dpotrf(own[:e, :e].T, lower=1, clean=0)
    if info or _least_pivot(L, e) <= LEAST_PIVOT:
        return None
    J, _ = dtrtrs(L, own[:e, e:], lower=1)
    left: FloatArray = J.T @ J
    left += own[e:, e:]
    return left


def _predictions(
    own: FloatArray, h: int, t: int, least: float, largest: float
) -> FloatArray | float:
    """Return √w f_T (t, v) from the bordered matrix of one set, which is overwritten."""
    fitted = -own[h : h + t, h + t : -1]
    # The transpose of a C-ordered symmetric matrix is Fortran-ordered: no copy.
    L, info = dpotrf(own.T, lower=1, clean=0, overwrite_a=1)
    if info or _least_pivot(L, h) <= least:
        return np.nan
    border = L[h:, :h]  # test rows, targets, signs
    if border[-1] @ border[-1] > largest:
        return np.nan
    fitted += border[:t] @ border[t:-1].T
    return fitted


def _least_pivot(L: FloatArray, size: int) -> float:
    """Return the smallest of the first pivots; of so few numbers Python finds it faster."""
    return float(min(L.diagonal()[:size].tolist(), default=np.inf) ** 2)
