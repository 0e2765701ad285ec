"""All pairs held out: how often two rows that the model never saw are put in the right order.

Leave-pair-out (Airola, Pahikkala, Waegeman, De Baets & Salakoski 2011; Pahikkala et al. 2008) needs
three numbers of the smoother for each pair. With A = I − S on the two rows and e = y − ŷ,

    r_i = (A_jj e_i − A_ij e_j)/(A_ii A_jj − A_ij²)

so all pairs come from S in blocks, 2p operations each. A basis row b that leaves with its row
changes S by a rank-one term, S − s_b s_bᵀ/P_bb with s_b = V D N_bᵀ and P = N D Nᵀ; two by two.
Pairs with equal targets do not count, equal predictions count one half; a pair weighs w_i w_j.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast._typing import AnyArray, BoolArray, FloatArray, IntArray
from holdfast.data.frames import make_frame
from holdfast.exceptions import HoldOutError
from holdfast.experiments import Policy
from holdfast.smoother import Smoother
from holdfast.smoother.factor import Coordinates

__all__ = ["LeavePairOut", "leave_pair_out"]

#: Entries of S that are looked at together, and how close two predictions must be to be equal.
BLOCK, EQUAL = 2**18, 1e-10


@dataclass(frozen=True, eq=False, repr=False)
class LeavePairOut:
    """Concordance over all pairs of rows held out together.

    Attributes
    ----------
    alphas : ndarray of shape (a,)
    concordance : ndarray of shape (a,) or (a, v)
        Share of pairs in the right order, by weight; for two classes the area under the ROC curve.
    n_pairs : int or ndarray of shape (v,)
        Pairs that count.
    frames : str or None
        The library that `to_frame` gives back.
    """

    alphas: FloatArray
    concordance: FloatArray
    n_pairs: int | IntArray
    frames: str | None = None

    def __repr__(self) -> str:
        best = np.unravel_index(np.argmax(self.concordance), self.concordance.shape)
        return (
            f"<leave-pair-out: {np.sum(self.n_pairs)} pairs, best concordance "
            f"{self.concordance[best]:.4g} at alpha={self.alphas[best[0]]:.3g}>"
        )

    def to_frame(self, library: str | None = None) -> Any:
        """Return a table: alpha, target where there are several, concordance."""
        if self.concordance.ndim == 1:
            columns = {"alpha": self.alphas, "concordance": self.concordance}
        else:
            a, v = self.concordance.shape
            columns = {
                "alpha": np.repeat(self.alphas, v),
                "target": np.tile(np.arange(v), a),
                "concordance": self.concordance.ravel(),
            }
        return make_frame(columns, library or self.frames)


@dataclass(frozen=True)
class _Rows:
    """Some rows of the smoother at one penalty, in units of √w y.

    Attributes
    ----------
    V : ndarray of shape (k, p)
    e, y : ndarray of shape (k, v)
        √w(y − ŷ), and y itself: equal targets stay equal.
    gap : ndarray of shape (k,)
        1 − S_ii.
    root : ndarray of shape (k,)
    place : ndarray of int, shape (k,)
        Position among the basis rows that matter, −1 for others.
    s : ndarray of shape (k, n)
        V D Nᵀ.
    """

    V: FloatArray
    e: FloatArray
    y: FloatArray
    gap: FloatArray
    root: FloatArray
    place: IntArray
    s: FloatArray

    def take(self, index: IntArray | slice) -> _Rows:
        return _Rows(
            self.V[index],
            self.e[index],
            self.y[index],
            self.gap[index],
            self.root[index],
            self.place[index],
            self.s[index],
        )


@dataclass(frozen=True)
class _Removal:
    """P = N D Nᵀ and t = N D z of the basis rows."""

    P: FloatArray
    t: FloatArray


def leave_pair_out(
    smoother: Smoother,
    alphas: FloatArray,
    policy: Policy,
    basis: IntArray | None,
    groups: AnyArray | None,
) -> tuple[FloatArray, IntArray]:
    """Return concordance (a, v) and the number of pairs (v,).

    Parameters
    ----------
    smoother : Smoother
    alphas : ndarray of shape (a,)
    policy : {"remove", "keep", "train", "skip"}
    basis : ndarray of int or None
        Basis rows.
    groups : ndarray of shape (m,) or None
        Compare only rows of one group.
    """
    rows = np.flatnonzero(smoother.weights > 0)
    place = np.full(smoother.weights.size, -1)
    if basis is not None and policy != "keep":
        place[basis] = np.arange(basis.size)
    if policy == "skip":
        rows = rows[place[rows] < 0]
    factor = smoother.factor()
    assert isinstance(factor, Coordinates)
    v = smoother.targets.count
    right, total = np.zeros((alphas.size, v)), np.zeros(v)
    count = np.zeros(v, dtype=np.int64)
    sets = _sets(rows, groups)
    for a, alpha in enumerate(alphas.tolist()):
        everything, removal, D = _prepared(smoother, factor, rows, place, alpha, policy)
        for members in sets:
            part = everything if members is None else everything.take(members)
            for first, second in _blocks(len(part.V)):
                I, J = part.take(first), part.take(second)  # noqa: E741
                S = _products(I, J, D, factor.kappa)
                score, weight, pairs = _compare(I, J, S, removal, policy, first, second)
                right[a] += score
                if not a:
                    total += weight
                    count += pairs
    if not (total > 0).all():
        raise HoldOutError(
            "leave_pair_out found no two rows with different targets to compare"
            + (" within a group." if groups is not None else ".")
        )
    return right / total, count


def _sets(rows: IntArray, groups: AnyArray | None) -> list[IntArray | None]:
    """Return positions in `rows` that are compared with each other; None: all of them."""
    if groups is None:
        return [None]
    code = np.unique(groups[rows], return_inverse=True)[1]
    order = np.argsort(code, kind="stable")
    return [*np.split(order, np.flatnonzero(np.diff(code[order])) + 1)]


def _blocks(k: int) -> Iterator[tuple[slice, slice]]:
    """Yield slices of rows with those from there on: half of all pairs, each once."""
    step = max(1, min(256, BLOCK // max(1, k)))
    for start in range(0, k, step):
        yield slice(start, min(start + step, k)), slice(start, k)


def _prepared(
    smoother: Smoother,
    factor: Coordinates,
    rows: IntArray,
    place: IntArray,
    alpha: float,
    policy: Policy,
) -> tuple[_Rows, _Removal | None, FloatArray]:
    """Return the rows at one penalty, what removal needs, and the diagonal of the residual map."""
    D = factor.D(np.array([alpha]))
    R = factor.R(D)[0]
    V, y = factor.V[rows], smoother.targets.Y[rows]
    fitted = V @ (R[:, None] * factor.z)
    gap = np.einsum("ij,ij,j->i", V, V, R)
    if factor.kappa:
        e, gap = factor.Ys[rows] - fitted, 1.0 - gap
    else:  # I − S = αV R Vᵀ, without a subtraction
        e, gap, R = alpha * fitted, alpha * gap, alpha * R
    s, removal = np.empty((rows.size, 0)), None
    if policy == "remove" and factor.N is not None:
        N = factor.N / np.linalg.norm(factor.N, axis=1, keepdims=True)
        s = V @ (D * N).T
        removal = _Removal((D * N) @ N.T, N @ (D[0][:, None] * factor.z))
    return _Rows(V, e, y, gap, smoother.scale.root[rows], place[rows], s), removal, R


def _products(I: _Rows, J: _Rows, R: FloatArray, kappa: float) -> FloatArray:  # noqa: E741
    """Return A_ij = (I − S)_ij of different rows."""
    products = (I.V * R) @ J.V.T
    return np.negative(products, out=products) if kappa else products


def _compare(
    I: _Rows,  # noqa: E741
    J: _Rows,
    A: FloatArray,
    removal: _Removal | None,
    policy: Policy,
    first: slice,
    second: slice,
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Return weight in the right order, weight that counts, and pairs, each (v,)."""
    b, k = A.shape
    once = np.arange(first.start, first.stop)[:, None] < np.arange(second.start, second.stop)
    weight = np.where(once, np.square(I.root)[:, None] * np.square(J.root), 0.0)
    gap_i, gap_j = np.broadcast_to(I.gap[:, None], (b, k)), np.broadcast_to(J.gap, (b, k))
    v = I.y.shape[1]
    right, total = np.empty(v), np.empty(v)
    pairs = np.empty(v, dtype=np.int64)
    changed = None
    if removal is not None and ((I.place >= 0).any() or (J.place >= 0).any()):
        changed = _without_basis(I, J, A, gap_i, gap_j, removal)
        A, gap_i, gap_j = changed.A, changed.gap_i, changed.gap_j
    trained = (I.place[:, None] >= 0, J.place >= 0) if policy == "train" else None
    det = gap_i * gap_j - A * A
    np.maximum(det, np.finfo(float).tiny, out=det)
    for t in range(v):
        e_i, e_j = I.e[:, t, None], J.e[:, t]
        if changed is not None:
            e_i, e_j = changed.errors(t)
        y_i, y_j = I.y[:, t, None], J.y[:, t]
        f_i = y_i - (gap_j * e_i - A * e_j) / det / I.root[:, None]
        f_j = y_j - (gap_i * e_j - A * e_i) / det / J.root
        if trained is not None:
            f_i, f_j = _kept(trained, f_i, f_j, I, J, A, t)
        difference, order = f_i - f_j, np.sign(y_i - y_j)
        near = EQUAL * (np.abs(f_i) + np.abs(f_j) + np.abs(y_j).max(initial=0.0))
        sign = np.where(np.abs(difference) <= near, 0.0, np.sign(difference))
        counted = weight * np.abs(order)
        right[t] = 0.5 * (counted.sum() + (weight * sign * order).sum())
        total[t], pairs[t] = counted.sum(), np.count_nonzero(counted)
    return right, total, pairs


def _kept(
    trained: tuple[BoolArray, BoolArray],
    f_i: FloatArray,
    f_j: FloatArray,
    I: _Rows,  # noqa: E741
    J: _Rows,
    A: FloatArray,
    t: int,
) -> tuple[FloatArray, FloatArray]:
    """Return predictions where basis rows stay in the training set: only the other row is held."""
    e_i, e_j = I.e[:, t, None], J.e[:, t]
    y_i, y_j = I.y[:, t, None], J.y[:, t]
    in_i, in_j = trained
    # Without row j alone, y_j − f = e_j/A_jj there and e_i − A_ij e_j/A_jj at row i.
    alone_i, alone_j = e_i / I.gap[:, None], e_j / J.gap
    r_i = np.where(in_j, alone_i, e_i - A * alone_j)
    r_j = np.where(in_i, alone_j, e_j - A * alone_i)
    r_i, r_j = np.where(in_i & in_j, e_i, r_i), np.where(in_i & in_j, e_j, r_j)
    either = in_i | in_j
    f_i = np.where(either, y_i - r_i / I.root[:, None], f_i)
    return f_i, np.where(either, y_j - r_j / J.root, f_j)


@dataclass(frozen=True)
class _Changed:
    """I − S^E of each pair, and the errors that belong to it."""

    A: FloatArray
    gap_i: FloatArray
    gap_j: FloatArray
    e: tuple[FloatArray, FloatArray]
    shift: tuple[FloatArray, FloatArray]

    def errors(self, t: int) -> tuple[FloatArray, FloatArray]:
        """Return y − ŷ^E of both rows (b, k), for one target."""
        e_i, e_j = self.e
        return e_i[:, t, None] + self.shift[0][..., t], e_j[:, t] + self.shift[1][..., t]


def _without_basis(
    I: _Rows,  # noqa: E741
    J: _Rows,
    A: FloatArray,
    gap_i: FloatArray,
    gap_j: FloatArray,
    removal: _Removal,
) -> _Changed:
    """Return the pairs' matrices after their basis rows have left: S − s P⁻¹ sᵀ."""
    A, gap_i, gap_j = A.copy(), gap_i.copy(), gap_j.copy()
    b, k = A.shape
    shift_i, shift_j = np.zeros((b, k, I.e.shape[1])), np.zeros((b, k, I.e.shape[1]))
    in_i, in_j = np.flatnonzero(I.place >= 0), np.flatnonzero(J.place >= 0)
    P, t = removal.P, removal.t

    def change(at: Any, s_i: FloatArray, s_j: FloatArray, inverse: FloatArray, t: Any) -> None:
        """Apply it: s (…, e), inverse (…, e, e), t (…, e, v)."""
        left, right = (
            (s_i[..., None, :] @ inverse)[..., 0, :],
            (s_j[..., None, :] @ inverse)[..., 0, :],
        )
        A[at] += (left * s_j).sum(axis=-1)
        gap_i[at] += (left * s_i).sum(axis=-1)
        gap_j[at] += (right * s_j).sum(axis=-1)
        shift_i[at] += (left[..., None] * t).sum(axis=-2)
        shift_j[at] += (right[..., None] * t).sum(axis=-2)

    only_j = np.flatnonzero(J.place < 0)
    if in_i.size and only_j.size:
        q = I.place[in_i]
        s_i = np.broadcast_to(I.s[in_i, q][:, None, None], (in_i.size, only_j.size, 1))
        s_j = J.s[np.ix_(only_j, q)].T[..., None]
        inverse = (1.0 / P[q, q])[:, None, None, None]
        change(np.ix_(in_i, only_j), s_i, s_j, inverse, t[q][:, None, None])
    only_i = np.flatnonzero(I.place < 0)
    if in_j.size and only_i.size:
        q = J.place[in_j]
        s_j = np.broadcast_to(J.s[in_j, q][None, :, None], (only_i.size, in_j.size, 1))
        s_i = I.s[np.ix_(only_i, q)][..., None]
        inverse = (1.0 / P[q, q])[None, :, None, None]
        change(np.ix_(only_i, in_j), s_i, s_j, inverse, t[q][None, :, None])
    if in_i.size and in_j.size:
        q, p = np.broadcast_arrays(I.place[in_i][:, None], J.place[in_j])
        both = np.stack([q, p], axis=-1)
        s_i = I.s[in_i[:, None, None], both]
        s_j = J.s[in_j[None, :, None], both]
        det = P[q, q] * P[p, p] - P[q, p] ** 2
        det = np.where(q == p, 1.0, det)  # a row with itself is no pair
        inverse = np.empty((*q.shape, 2, 2))
        inverse[..., 0, 0], inverse[..., 1, 1] = P[p, p] / det, P[q, q] / det
        inverse[..., 0, 1] = inverse[..., 1, 0] = -P[q, p] / det
        inverse[q == p] = 0.0
        change(np.ix_(in_i, in_j), s_i, s_j, inverse, t[both])
    return _Changed(A, gap_i, gap_j, (I.e, J.e), (shift_i, shift_j))
