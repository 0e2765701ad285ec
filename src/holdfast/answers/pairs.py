"""All pairs held out: how often two rows that the model never saw are put in the right order.

Leave-pair-out (Airola, Pahikkala, Waegeman, De Baets & Salakoski 2011; Pahikkala et al. 2008) needs
three numbers of the smoother for each pair. With A = I − S on the two rows and e = y − ŷ,

    r_i = (A_jj e_i − A_ij e_j)/(A_ii A_jj − A_ij²)

so all pairs come from S in blocks, 2p operations each. A basis row b that leaves with its row
changes S by a rank-one term, S − s_b s_bᵀ/P_bb with s_b = V D N_bᵀ and P = N D Nᵀ; two by two.
Pairs with equal targets do not count, equal predictions count one half; a pair weighs w_i w_j.
Rounding errors of the size that the factor has are divided by the same determinant: pairs where
they grow too much are predicted like any other experiment (`holdfast.holdout.predict`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from holdfast._typing import AnyArray, BoolArray, FloatArray, IntArray
from holdfast.answers.fitted import Fitted
from holdfast.data.dask import is_dask
from holdfast.data.frames import make_frame
from holdfast.exceptions import HoldOutError, NotSupportedError
from holdfast.experiments import Experiments, Policy, Ragged, resolve
from holdfast.experiments.splits import check_groups
from holdfast.experiments.tasks import affected, positions
from holdfast.holdout import predict
from holdfast.holdout.accuracy import LOST
from holdfast.scores.choice import check_alphas
from holdfast.smoother import Smoother
from holdfast.smoother.factor import Coordinates, FeatureFactor

__all__ = ["LeavePairOut", "all_pairs", "leave_pair_out"]

#: Rows and columns of a tile of S, which stays in cache, and when two predictions are equal.
TILE, EQUAL = (256, 512), 1e-10
#: A mask of pairs that would lose accuracy, where there are none.
NONE_LOST = np.zeros((1, 1), dtype=bool)

#: From a target to r_i − r_j of the pairs of a tile, and which pairs would lose accuracy.
Differences = tuple[Callable[[int], FloatArray], BoolArray]


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
        The library whose frames `to_frame` returns.
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
    """Some rows of the smoother at one penalty.

    What belongs to a row is multiplied by √w once more: the system of a pair then gives held-out
    residuals in units of y, whatever the weights.

    Attributes
    ----------
    V : ndarray of shape (k, p)
        √w V.
    e, y : ndarray of shape (k, v)
        w(y − ŷ), and y itself: equal targets stay equal.
    gap, weight : ndarray of shape (k,)
        w(1 − S_ii), and w.
    reach : ndarray of shape (k,)
        √w times the rounding errors of e, over the spread of y.
    row : ndarray of int, shape (k,)
        The number of the row.
    place : ndarray of int, shape (k,)
        Position among the basis rows that matter, −1 for others.
    s : ndarray of shape (k, n)
        √w V D Nᵀ, if basis rows are removed.
    """

    V: FloatArray
    e: FloatArray
    y: FloatArray
    gap: FloatArray
    weight: FloatArray
    reach: FloatArray
    row: IntArray
    place: IntArray
    s: FloatArray

    def take(self, index: IntArray | slice) -> _Rows:
        return _Rows(**{f.name: getattr(self, f.name)[index] for f in fields(self)})


@dataclass(frozen=True)
class _Setting:
    """What the pairs of one penalty share.

    Attributes
    ----------
    R : ndarray of shape (p,)
        I − S = κI ∓ V R Vᵀ.
    sign : float
        −1 where S = V R Vᵀ is what is known.
    trained : bool
        Whether basis rows stay in the training set.
    P, t : ndarray of shape (n, n) and (n, v)
        N D Nᵀ and N D z, if basis rows are removed.
    scale : ndarray of shape (v,)
        Largest target.
    """

    R: FloatArray
    sign: float
    trained: bool
    P: FloatArray
    t: FloatArray
    scale: FloatArray


def leave_pair_out(
    fitted: Fitted, groups: ArrayLike | None = None, alphas: ArrayLike | None = None
) -> LeavePairOut:
    """Return how often two rows, both held out, are put in the right order."""
    model, problem = fitted.model, fitted.problem
    if problem.reselects:
        raise NotSupportedError(
            'held_out_basis="reselect" would train a model for every pair. Use another policy.',
            argument="held_out_basis",
        )
    if problem.standardize:
        raise NotSupportedError(
            "leave_pair_out with standardize=True would train a model for every pair. Scale X "
            "once before and leave standardize out.",
            argument="standardize",
        )
    if is_dask(problem.X):
        raise NotSupportedError("leave_pair_out needs rows in memory; got a Dask collection.")
    labels = None if groups is None else check_groups(groups, problem.weights.size)
    grid = problem.alphas if alphas is None else check_alphas(alphas)
    concordance, count = all_pairs(model.smoother, grid, problem.policy, model.basis, labels)
    if problem.flat:
        return LeavePairOut(grid, concordance[:, 0], int(count[0]), fitted.frames)
    return LeavePairOut(grid, concordance, count, fitted.frames)


def all_pairs(
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
    place = positions(affected(basis, policy), smoother.weights.size)
    if policy == "skip":
        rows = rows[place[rows] < 0]
    rows = rows[np.argsort(place[rows] >= 0, kind="stable")]  # basis rows last
    found = np.zeros((3, alphas.size, smoother.targets.count))  # in order, that count, pairs
    sets, factor = _sets(rows, groups), smoother.factor(float(alphas.min()))
    assert isinstance(factor, Coordinates)
    for a, alpha in enumerate(alphas.tolist()):
        everything, setting = _prepared(smoother, factor, rows, place, alpha, policy)
        lost: list[IntArray] = []
        for members in sets:
            part = everything if members is None else everything.take(members)
            for first, second in _tiles(part.place):
                with np.errstate(divide="ignore", invalid="ignore"):  # pairs that are lost
                    tile, bad = _compare(
                        part.take(first), part.take(second), setting, first == second
                    )
                found[:, a] += tile
                lost.append(bad)
        apart = np.concatenate(lost)
        if len(apart):
            found[:, a] += _predicted(smoother, apart, alpha, policy, basis, setting.scale)
    right, total, pairs = found
    if not (total > 0).all():
        raise HoldOutError(
            "leave_pair_out found no two rows with different targets to compare"
            + (" within a group." if groups is not None else ".")
        )
    return right / total, pairs[0].astype(np.int64)


def _predicted(
    smoother: Smoother,
    pairs: IntArray,
    alpha: float,
    policy: Policy,
    basis: IntArray | None,
    scale: FloatArray,
) -> FloatArray:
    """Return what `_compare` does for pairs of rows (k, 2), each as an experiment of its own."""
    sets = Ragged(pairs.ravel(), np.arange(0, 2 * len(pairs) + 1, 2))
    tasks = resolve(Experiments(sets, sets), weights=smoother.weights, basis=basis, policy=policy)
    (f,) = predict(smoother, tasks, np.array([alpha]), "spectral")
    y = smoother.original_targets()[pairs]  # (k, 2, v)
    fallen, order = f[0::2] - f[1::2], np.sign(y[:, 0] - y[:, 1])
    near = EQUAL * scale * smoother.targets.unit
    agreed = order * (np.sign(fallen) * (np.abs(fallen) > near))
    weight = smoother.weights[pairs].prod(axis=1)[:, None]
    counted = np.abs(order)
    right = 0.5 * (weight * (counted + agreed)).sum(axis=0)
    return np.stack([right, (weight * counted).sum(axis=0), counted.sum(axis=0)])


def _sets(rows: IntArray, groups: AnyArray | None) -> list[IntArray | None]:
    """Return positions in `rows` that are compared with each other; None: all of them."""
    if groups is None:
        return [None]
    code = np.unique(groups[rows], return_inverse=True)[1]
    order = np.argsort(code, kind="stable")
    return [*np.split(order, np.flatnonzero(np.diff(code[order])) + 1)]


def _tiles(place: IntArray) -> Iterator[tuple[slice, slice]]:
    """Yield two slices of rows for each tile: every pair once, basis rows never beside others."""
    plain = int((place < 0).sum())
    for low, high in ((0, plain), (plain, place.size)):
        for start in range(low, high, TILE[0]):
            rows = slice(start, min(start + TILE[0], high))
            yield rows, rows
            for begin, end in ((rows.stop, high), (high, place.size)):
                for other in range(begin, end, TILE[1]):
                    yield rows, slice(other, min(other + TILE[1], end))


def _prepared(
    smoother: Smoother,
    factor: Coordinates,
    rows: IntArray,
    place: IntArray,
    alpha: float,
    policy: Policy,
) -> tuple[_Rows, _Setting]:
    """Return the rows at one penalty, and what they share."""
    D = factor.d(alpha)
    at = np.array([alpha])
    size = float(factor.unit(at)[0] * (factor.length(D[None])[0] / smoother.targets.spread).max())
    R = factor.R(D)
    V, y = factor.V[rows], smoother.targets.Y[rows]
    if not smoother.unpenalised.constant:  # a level that all rows share does not change an order
        y = y + smoother.unpenalised.level(rows, smoother.targets.level)
    fitted, gap = V @ (R[:, None] * factor.z), np.einsum("ij,ij,j->i", V, V, R)
    if factor.kappa:
        reach = np.sqrt(np.maximum(gap, 0.0))
        e, gap = factor.targets.Ys[rows] - fitted, 1.0 - gap
    else:  # I − S = αV R Vᵀ, without a subtraction
        reach = alpha * np.sqrt((V * V) @ np.square(R))
        e, gap, R = alpha * fitted, alpha * gap, alpha * R
    s, P, t = np.empty((rows.size, 0)), np.empty((0, 0)), np.empty((0, 0))
    if isinstance(factor, FeatureFactor) and policy == "remove" and (place >= 0).any():
        N = factor.N / np.linalg.norm(factor.N, axis=1, keepdims=True)
        s, P, t = V @ (D * N).T, (D * N) @ N.T, N @ (D[:, None] * factor.z)
    root, weight = smoother.scale.root[rows, None], smoother.weights[rows]
    V, e, s, gap = root * V, root * e, root * s, weight * gap
    reach = size * root[:, 0] * reach
    sign = -1.0 if factor.kappa else 1.0
    setting = _Setting(R, sign, policy == "train", P, t, np.abs(y).max(axis=0))
    return _Rows(V, e, y, gap, weight, reach, rows, place[rows], s), setting


def _compare(
    one: _Rows, other: _Rows, setting: _Setting, same: bool
) -> tuple[FloatArray, IntArray]:
    """Return weight in the right order, weight that counts and pairs (3, v) of a tile.

    And the pairs (k, 2) of rows whose predictions would lose accuracy, which are left out.
    """
    found = np.empty((3, one.y.shape[1]))
    differences, lost = _differences(one, other, setting, same)
    i, j = np.nonzero(np.triu(lost, 1) if same else lost)
    for t in range(one.y.shape[1]):
        y_i, y_j, near = one.y[:, t, None], other.y[:, t], EQUAL * setting.scale[t]
        fallen = differences(t)  # r_i − r_j, so that f_i − f_j = y_i − y_j − (r_i − r_j)
        np.subtract(y_i - y_j, fallen, out=fallen)
        # −1, 0 and 1 in a byte each
        predicted = (fallen > near).view(np.int8) - (fallen < -near).view(np.int8)
        order = (y_i > y_j).view(np.int8) - (y_i < y_j).view(np.int8)
        predicted *= order
        order *= order
        if same:  # each pair once, no row with itself
            order, predicted = np.triu(order, 1), np.triu(predicted, 1)
        order[i, j], predicted[i, j] = 0, 0
        counted, agreed = _weighted(one, order, other), _weighted(one, predicted, other)
        found[:, t] = 0.5 * (counted + agreed), counted, order.sum(dtype=np.int64)
    return found, np.stack([one.row[i], other.row[j]], axis=1)


def _weighted(one: _Rows, values: AnyArray, other: _Rows) -> float:
    """Return Σ w_i values_ij w_j."""
    if (one.weight == one.weight[0]).all() and (other.weight == other.weight[0]).all():
        return float(values.sum(dtype=np.int64) * one.weight[0] * other.weight[0])
    return float(one.weight @ values @ other.weight)


def _differences(one: _Rows, other: _Rows, setting: _Setting, same: bool) -> Differences:
    """Return r_i − r_j of each pair, in units of y, and which pairs would lose accuracy."""
    A = (one.V * (setting.sign * setting.R)) @ other.V.T  # (I − S)_ij √(w_i w_j)
    in_i, in_j = bool((one.place >= 0).any()), bool((other.place >= 0).any())
    if not in_j or (not setting.P.size and not setting.trained):
        reach = one.reach[:, None], other.reach
        gaps = one.gap[:, None], other.gap
        return _held(A, gaps, lambda t: (one.e[:, t, None], other.e[:, t]), reach, same)
    if setting.trained:
        return _trained(one, other, A, in_i)
    return (_both_removed if in_i else _one_removed)(one, other, A, setting, same)


def _held(
    A: FloatArray,
    gaps: tuple[FloatArray, FloatArray],
    errors: Callable[[int], tuple[FloatArray, FloatArray]],
    reach: tuple[FloatArray, FloatArray],
    same: bool,
) -> Differences:
    """Both rows are held out: r_i = (A_jj e_i − A_ij e_j)/(A_ii A_jj − A_ij²)."""
    gap_i, gap_j = gaps
    if same:
        np.fill_diagonal(A, 0.0)  # a row with itself is no pair
    det = A * A
    np.subtract(gap_i * gap_j, det, out=det)
    # gap_j e_i − A e_j − (gap_i e_j − A e_i), sorted by e
    of_i, of_j = gap_j + A, gap_i + A

    def difference(t: int) -> FloatArray:
        e_i, e_j = errors(t)
        found = of_i * e_i
        found -= of_j * e_j
        found /= det
        return np.asarray(found)

    # |A_ij| ≤ √(A_ii A_jj), so that most often no pair of the tile needs a look of its own.
    most_i, most_j = float(gap_i.max()), float(gap_j.max())
    cross = np.sqrt(most_i * most_j)
    most = (most_j + cross) * reach[0].max() + (most_i + cross) * reach[1].max()
    if most <= LOST * det.min():
        return difference, NONE_LOST
    error = (np.abs(of_i) * reach[0] + np.abs(of_j) * reach[1]) / det
    return difference, ~(error <= LOST) | ~(det > 0.0)


def _trained(one: _Rows, other: _Rows, A: FloatArray, both: bool) -> Differences:
    """Rows of the basis, the other ones, stay: the first alone are held out, or none is.

    Without row i, the error there is e_i/A_ii, and (e_j − A_ij e_i/A_ii)/w_j at row j.
    """

    def difference(t: int) -> FloatArray:
        e_i, e_j = one.e[:, t, None], other.e[:, t]
        if both:
            return np.asarray(e_i / one.weight[:, None] - e_j / other.weight)
        alone = e_i / one.gap[:, None]
        return np.asarray(alone - (e_j - A * alone) / other.weight)

    own = one.reach[:, None] / (one.weight[:, None] if both else one.gap[:, None])
    error = own * (1.0 if both else 1.0 + np.abs(A) / other.weight) + other.reach / other.weight
    return difference, ~(error <= LOST)


def _one_removed(
    one: _Rows, other: _Rows, A: FloatArray, setting: _Setting, same: bool
) -> Differences:
    """Only the other rows are in the basis: S − s_j s_jᵀ/P_jj for each column."""
    q = other.place
    P = setting.P[q, q]
    s_i, s_j = one.s[:, q] / P, other.s[np.arange(q.size), q]
    gap_i = one.gap[:, None] + s_i * s_i * P
    A = A + s_i * s_j

    def errors(t: int) -> tuple[FloatArray, FloatArray]:
        level = setting.t[q, t]
        return one.e[:, t, None] + s_i * level, other.e[:, t] + s_j * level / P

    gaps = gap_i, other.gap + s_j * s_j / P
    return _held(A, gaps, errors, (one.reach[:, None], other.reach), same)


def _both_removed(
    one: _Rows, other: _Rows, A: FloatArray, setting: _Setting, same: bool
) -> Differences:
    """Both rows are in the basis: S − s P⁻¹ sᵀ with two rows of s, by the inverse of P."""
    q, p, P = one.place, other.place, setting.P
    own_i, own_j = one.s[np.arange(q.size), q][:, None], other.s[np.arange(p.size), p]
    cross_i, cross_j = one.s[:, p], other.s[:, q].T  # s of row i at basis row j, and of row j at i
    P_qq, P_pp, P_qp = P[q, q][:, None], P[p, p], P[np.ix_(q, p)]
    det = P_qq * P_pp - P_qp * P_qp
    det[q[:, None] == p] = 1.0  # a row with itself is no pair
    # s_i = (own_i, cross_i) and s_j = (cross_j, own_j) at the basis rows (i, j)
    left_q, left_p = (P_pp * own_i - P_qp * cross_i) / det, (P_qq * cross_i - P_qp * own_i) / det
    right_q, right_p = (P_pp * cross_j - P_qp * own_j) / det, (P_qq * own_j - P_qp * cross_j) / det
    A = A + left_q * cross_j + left_p * own_j
    gap_i = one.gap[:, None] + left_q * own_i + left_p * cross_i
    gap_j = other.gap + right_q * cross_j + right_p * own_j

    def errors(t: int) -> tuple[FloatArray, FloatArray]:
        t_q, t_p = setting.t[q, t][:, None], setting.t[p, t]
        e_i = one.e[:, t, None] + left_q * t_q + left_p * t_p
        return e_i, other.e[:, t] + right_q * t_q + right_p * t_p

    return _held(A, (gap_i, gap_j), errors, (one.reach[:, None], other.reach), same)
