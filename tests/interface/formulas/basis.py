"""What selectors of basis rows judge by: residuals, rank-one updates, pruning."""

from __future__ import annotations

import numpy as np
from numpy.linalg import solve

from holdfast.basis import FarthestPoint, FeatureVectors, RandomlyPivotedCholesky
from holdfast.basis.base import Pool
from holdfast.basis.greedy import GroupError, LeaveOneOutError, TrainingError
from holdfast.basis.growing import GrowingModel
from holdfast.basis.pivoted_cholesky import Residual, low_rank_factor
from holdfast.kernels import RBF
from holdfast.kernels.matrix import KernelRows
from interface.formulas import example, same
from interface.formulas.problem import B, H, K, X, Y, alpha, data, eps, m, n, root, w


def pool(groups=None) -> Pool:
    return Pool(data, Y, w, groups, None, np.random.default_rng(0))


def left_over(chosen) -> np.ndarray:
    """Δ = K − K_{:B} K_BB⁻¹ K_{B:} for the rows chosen."""
    chosen = list(chosen)
    if not chosen:
        return K.copy()
    return K - K[:, chosen] @ solve(K[np.ix_(chosen, chosen)], K[chosen])


@example("basis.pivoted_cholesky.Residual.block", "basis.pivoted_cholesky.Residual.add")
def _():
    left = Residual(data)
    left.add(B[:3])
    left.add(B[3:4])
    same(left.block(slice(None), H), left_over(B[:4])[:, H])
    same(left.gap, np.diag(left_over(B[:4])), digits=8)


@example("basis.feature_vectors.FeatureVectors")
def _():
    share = w / w.sum() / np.diag(K)

    def fidelity(chosen):  # weighted mean of K_Biᵀ K_BB⁻¹ K_Bi / k_ii
        return share @ np.einsum("bi,bi->i", K[chosen], solve(K[np.ix_(chosen, chosen)], K[chosen]))

    selector = FeatureVectors(max_size=3)
    chosen: list[int] = []
    for step, row in enumerate(selector.select(data, weights=w)):
        others = [j for j in range(m) if j not in chosen]
        assert row == max(others, key=lambda j: fidelity([*chosen, j]))
        chosen.append(int(row))
        same(selector.errors_[step], share @ np.diag(left_over(chosen)))


@example("basis.pivoted_cholesky.RandomlyPivotedCholesky")
def _():
    draw, chosen = np.random.default_rng(3), []
    for _ in range(4):
        chances = w * np.maximum(np.diag(left_over(chosen)), 0.0)
        chances[chosen] = 0.0
        chosen += draw.choice(m, size=1, p=chances / chances.sum()).tolist()
        draw.random(1)  # a single proposal is always accepted
    found = RandomlyPivotedCholesky(4).select(data, weights=w, rng=np.random.default_rng(3))
    assert found.tolist() == chosen


@example("basis.kmeans.FarthestPoint")
def _():
    found = FarthestPoint(5).select(data, rng=0)
    for k in range(1, 5):
        apart = np.diag(K)[:, None] + np.diag(K)[found[:k]] - 2 * K[:, found[:k]]
        assert found[k] == np.argmax(apart.min(axis=1))


@example("basis.pivoted_cholesky.low_rank_factor")
def _():
    line = KernelRows(RBF(0.01), X[:, :1])
    F = low_rank_factor(line, m)
    same(F @ F.T, np.exp(-0.01 * (X[:, :1] - X[:, 0]) ** 2), digits=13)


def grown(rows) -> GrowingModel:
    model = GrowingModel(pool(), n, alpha, True, eps)
    for row in rows:
        model.add(model.try_rows(np.array([row])), 0)
    return model


def with_bias(basis) -> np.ndarray:
    """The smoother of weighted rows on a basis, with a bias, from the definition."""
    A = root[:, None] * np.c_[K[:, basis], np.ones(m)]
    P = np.zeros((len(basis) + 1,) * 2)
    P[:-1, :-1] = alpha * (K[np.ix_(basis, basis)] + eps * np.eye(len(basis)))
    return A @ solve(A.T @ A + P, A.T)


@example("basis.growing.GrowingModel.try_rows", "basis.growing.GrowingModel.add")
def _():
    model = grown(B[:3])
    before, y = with_bias(B[:3]), root[:, None] * Y
    same(model.V @ model.V.T + np.outer(root, root) / w.sum(), before)
    found = model.try_rows(B[3:6])
    for c, row in enumerate(B[3:6]):
        after = with_bias([*B[:3], row])
        t, sigma = found.moves[:, c], found.sigma[c]
        same(before + np.outer(t, t) / sigma, after)
        same(model.residuals - np.outer(t, found.gain[c]), y - after @ y)
    model.add(found, 1)
    same(model.residuals, y - with_bias([*B[:3], B[4]]) @ y)


@example("basis.greedy.TrainingError.errors", "basis.greedy.LeaveOneOutError.errors")
def _():
    y, model = root[:, None] * Y, GrowingModel(pool(), n, alpha, True, eps)
    loo = LeaveOneOutError(model)
    for row in B[:3]:
        model.add(model.try_rows(np.array([row])), 0)
        loo.added(model)
    found = model.try_rows(B[3:6])
    for c, row in enumerate(B[3:6]):
        S = with_bias([*B[:3], row])
        e = y - S @ y
        same(TrainingError().errors(model, found)[c], (e**2).sum())
        same(loo.errors(model, found)[c], ((e / (1 - np.diag(S))[:, None]) ** 2).sum())


@example("basis.greedy.GroupError.errors")
def _():
    groups = np.repeat([0, 1, 2], [4, 4, m - 8])  # small groups, and one larger than the basis
    y, model = root[:, None] * Y, GrowingModel(pool(groups), n, alpha, True, eps)
    criterion = GroupError(model, groups, n)
    for row in B[:3]:
        model.add(model.try_rows(np.array([row])), 0)
        criterion.added(model)
    found = criterion.errors(model, model.try_rows(B[3:5]))
    for c, row in enumerate(B[3:5]):
        S, total = with_bias([*B[:3], row]), 0.0
        for group in range(3):
            rows = np.flatnonzero(groups == group)
            r = solve(np.eye(rows.size) - S[np.ix_(rows, rows)], (y - S @ y)[rows])
            total += (r**2).sum()
        same(found[c], total)
