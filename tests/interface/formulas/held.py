"""The identity, removal, fold equations, retraining, rounding errors and costs."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from numpy.linalg import inv, norm, solve

from holdfast import HoldOut, holdout
from holdfast.experiments import as_experiments, resolve
from holdfast.holdout import folds
from holdfast.holdout.accuracy import affordable, data_floor
from holdfast.holdout.conjugate import solve_cg
from holdfast.holdout.costs import RATES, KernelCosts
from holdfast.holdout.identity import (
    HeldSystem,
    held_out,
    most_growth,
    predictions,
    residuals,
    rows_without_themselves,
)
from holdfast.holdout.plan import make_plan
from holdfast.holdout.verify import verify
from holdfast.linalg import (
    Definite,
    Tridiagonal,
    orthonormal_rows,
    solve_shifted,
    weighted_products,
    whitened_products,
)
from holdfast.smoother.bordered import Bordered
from holdfast.smoother.held import constraints, noise, removed_part
from holdfast.smoother.kernel_equations import KernelEquations
from holdfast.smoother.system import without_rows
from interface.formulas import example, same
from interface.formulas.problem import (
    M_E,
    B,
    C,
    E,
    H,
    K,
    Level,
    Q,
    U,
    W,
    Y,
    Ys,
    Z,
    alpha,
    alphas,
    dense_G,
    eps,
    feature_smoother,
    held_features,
    kernel_smoother,
    m,
    mask,
    n,
    naive_dense,
    naive_S,
    naive_sparse,
    parts,
    rest,
    rng,
    root,
    scale,
    shape,
    tasks,
    test_rows,
    unpenalised,
    v,
    w,
)

EPS = np.finfo(float).eps
NOTHING = np.array([], dtype=int)


@example("experiments.resolve")
def _():
    experiments = as_experiments([HoldOut(H, H[:1])], m)
    found = resolve(experiments, weights=w, basis=B, policy="remove")
    assert set(found.held[0]) == set(H)
    assert {int(B[j]) for j in found.removed[0]} == set(H) & set(B)
    assert found.test[0].tolist() == [H[0]]
    kept = resolve(experiments, weights=w, basis=B, policy="train")
    assert set(kept.held[0]) == set(H) - set(B)


@example("smoother.held.constraints", "linalg.constraint.orthonormal_rows")
def _():
    N = rng.normal(size=(n, n))
    O = orthonormal_rows(N[E])  # noqa: E741
    same(O.T @ O, np.eye(2))
    same(O @ O.T, N[E].T @ inv(N[E] @ N[E].T) @ N[E])
    stacked = constraints(N, E[None])
    same(stacked[0] @ stacked[0].T, O @ O.T)


@example("smoother.held.removed_part")
def _():
    O, D = orthonormal_rows(rng.normal(size=(2, n))), rng.uniform(size=(3, n))  # noqa: E741
    beta = rng.normal(size=(1, 3, v, n))
    found = removed_part(O[None], D, beta)
    for a in range(3):
        d = np.diag(D[a])
        same(found[0, a].T, d @ O @ inv(O.T @ d @ O) @ O.T @ beta[0, a].T)


@example("linalg.products.weighted_products")
def _():
    D = rng.uniform(size=(3, n))
    same(weighted_products(W[None, :5], D)[0], [W[:5] @ np.diag(d) @ W[:5].T for d in D])
    same(weighted_products(W[None], D)[0], [W @ np.diag(d) @ W.T for d in D])


@example("linalg.products.whitened_products")
def _():
    for e in (2, 15):  # by elimination, and by LAPACK
        rows = np.random.default_rng(e).standard_normal((2, e, W.shape[1] + e))
        wide = np.random.default_rng(1).random((3, rows.shape[2])) + 0.1
        found = whitened_products(rows, rows[:, :2], wide)
        for j, (o, d) in enumerate(product(rows, wide)):
            L = np.linalg.cholesky(o @ np.diag(d) @ o.T)
            expected = np.linalg.solve(L, o @ np.diag(d) @ o[:2].T)
            same(found[j // len(wide), j % len(wide)], expected)


@example("smoother.held.HeldCoordinates.gaps", "smoother.held.HeldCoordinates.errors")
def _():
    held = held_features()
    gaps, errors = held.gaps(slice(0, 1))[0], held.errors()[:, 0]
    for a, found, e in zip(alphas, gaps, errors, strict=True):
        S = naive_S(a, E)  # of the model without the removed basis rows
        same(found, np.eye(H.size) - S[np.ix_(H, H)])
        same(e, (Ys - S @ Ys)[H])


@example("smoother.held.HeldCoordinates.removal")
def _():
    held = held_features()
    V, D, O, _ = parts(held)  # noqa: E741
    for a, J in enumerate(held.removal(slice(0, 1))[0]):
        M = M_E(D[a], O)
        same(V @ np.diag(D[a]) @ V.T - J.T @ J, V @ M @ V.T)


@example("smoother.held.HeldCoordinates.betas", "smoother.held.HeldCoordinates.predict")
def _():
    held = held_features()
    V, D, O, z = parts(held)  # noqa: E741
    r = rng.normal(size=(3, 1, H.size, v))
    betas, predictions = held.betas(r, slice(0, 1))[0], held.predict(r)[:, 0]
    for a in range(3):
        beta = M_E(D[a], O) @ (z - V.T @ r[a, 0])
        same(betas[a].T, beta)
        same(predictions[a], held.out[0] @ beta)


@example("smoother.held.HeldCoordinates.constrained_rows")
def _():
    held = feature_smoother().single(alpha).held(shape(), np.array([alpha]))  # D = 1
    V, _, O, _ = parts(held)  # noqa: E741
    same(held.constrained_rows()[0], V @ M_E(np.ones(V.shape[1]), O))


@example("holdout.identity.residuals", "holdout.identity._solved")
def _():
    found = residuals(held_features(), np.inf)
    for a, r in zip(alphas, found.r[:, 0], strict=True):
        same(r, root[H, None] * (Y - naive_sparse(H, E, a))[H])


@example("holdout.conjugate.solve_cg")
def _():
    held = held_features()
    found, converged = solve_cg(held, np.arange(3), held.errors(), max_steps=40)
    assert converged.all()
    for a, r in zip(alphas, found[:, 0], strict=True):
        S = naive_S(a, E)
        same(r, solve(np.eye(H.size) - S[np.ix_(H, H)], (Ys - S @ Ys)[H]))


@example("holdout.identity.HeldSystem")
def _():
    many = np.arange(m - 6)  # more rows than coordinates: the smaller system serves
    for held_rows, removed in ((H, E), (many, [])):
        factor = feature_smoother().single(alpha)
        held = factor.held(shape(held=held_rows, removed=removed), np.array([alpha]))
        S = naive_S(alpha, removed)[np.ix_(held_rows, held_rows)]
        right = rng.normal(size=(1, len(held_rows), v))
        same(HeldSystem(held).solve(right)[0], solve(np.eye(len(held_rows)) - S, right[0]))


@example("linalg.definite.Definite")
def _():
    M = np.eye(5) - naive_S(alpha)[:5, :5]
    same(Definite(np.stack([M, 2 * M])).solve(np.stack([Ys[:5]] * 2))[1], solve(2 * M, Ys[:5]))


@example("smoother.factor.Coordinates.alone", "holdout.identity.rows_without_themselves")
def _():
    row, position = B[3], 3
    one = shape(held=[row], removed=[position], test=[row])
    alone = feature_smoother().factor(alphas[0]).alone(one, alphas)
    for a, penalty in enumerate(alphas):
        S = naive_S(penalty, [position])
        same(alone.gap[0, a], 1 - S[row, row])
        same(alone.errors[a, 0], (Ys - S @ Ys)[row])
        same(alone.moved[0, a], np.sqrt(S[row, row]))
        same(alone.reach[0, a], np.sqrt(S[row, row]) / (1 - S[row, row]) / root[row])
    S = naive_S(alpha)
    r = rows_without_themselves(Ys - S @ Ys, np.diag(S))
    same(r[4], root[4] * (Y - naive_sparse([4], [], alpha))[4])
    factor, at = kernel_smoother().factor(alphas[0]), np.array([alpha])
    dense = factor.alone(shape(held=[4], removed=[], test=[4]), at)
    same(dense.errors[0, 0] / dense.gap[0, 0], root[4] * (Y - naive_dense([4], alpha))[4])
    G = dense_G(alpha)
    same(dense.moved[0, 0], norm(G[4]))
    formed = factor.formed(factor.D(at), factor.length(factor.D(at)))
    same(dense.reach[0], (norm(G[4]) + formed) / (G[4, 4] * root[4]))


@example(
    "smoother.inverse.HeldInverse.coefficients",
    "smoother.inverse.HeldInverse.gaps",
    "smoother.inverse.HeldInverse.errors",
    "smoother.inverse.HeldInverse.predict",
    "smoother.inverse.HeldInverse.levels",
)
def _():
    held = kernel_smoother().single(alpha).held(shape(removed=[]), np.array([alpha]))
    G = dense_G(alpha)
    c = G @ Ys
    same(held.gaps(slice(0, 1))[0, 0], G[np.ix_(H, H)])
    same(held.errors()[0, 0], c[H])
    r = solve(G[np.ix_(H, H)], c[H])
    found = held.coefficients(r[None, None])[0]
    same(found, c - G[:, H] @ r)
    same(found[rest], dense_G(alpha, rest) @ (root[:, None] * Y)[rest])
    same(held.predict(r[None, None])[0, 0], (naive_dense(H, alpha) - U @ Level)[test_rows])


@example(
    "smoother.held.HeldCoordinates.looks",
    "smoother.held.HeldCoordinates.moved",
    "smoother.held.HeldCoordinates.reach",
)
def _():
    held = held_features(removed=[])
    r = rng.normal(size=(3, 1, H.size, v))
    e = np.empty_like(r)
    looks, reach = held.looks()[:, 0], held.reach()[:, 0]
    for a, penalty in enumerate(alphas):
        S = naive_S(penalty)
        same(looks[a], np.sqrt(np.diag(S)[H])[:, None] * noise(H.size))
        same(reach[a], np.sqrt(np.diag(S)[test_rows]) / root[test_rows])
        e[a, 0] = r[a, 0] - S[np.ix_(H, H)] @ r[a, 0]  # what the identity makes of r
    moved = held.moved(r, e)[:, 0]
    for a, d in enumerate(held.D):
        same(moved[a], norm(np.sqrt(d)[:, None] * held.V[0].T @ r[a, 0], axis=0))
    # κ = 0: dense models, from the spectrum
    factor, at = kernel_smoother().factor(alpha), np.array([alpha])
    held = factor.held(shape(removed=[]), at)
    G, c = dense_G(alpha), dense_G(alpha) @ Ys
    V, formed = factor.V, factor.formed(factor.D(at), factor.length(factor.D(at)))
    g = V @ noise(V.shape[1])  # random targets
    same(held.looks()[0, 0], (G @ g)[H] + formed * noise(H.size))
    centred = (np.eye(m) - Q @ Q.T) @ (root[:, None] * K * root)
    same(held.reach()[0, 0], norm(centred[test_rows] @ G, axis=1) / root[test_rows])
    length, lengths = norm(c, axis=0), norm(G[:, H] @ r[0, 0], axis=0)
    same(held.moved(r[:1], e[:1])[0, 0], (lengths / length).max() * length)


@example(
    "smoother.inverse.HeldInverse.looks",
    "smoother.inverse.HeldInverse.moved",
    "smoother.inverse.HeldInverse.reach",
)
def _():
    held = kernel_smoother().single(alpha).held(shape(removed=[]), np.array([alpha]))
    G, r = dense_G(alpha), rng.normal(size=(1, 1, H.size, v))
    same(held.looks()[0, 0], (G @ noise(m))[H] + held.formed * noise(H.size))
    sides = noise(m, 8).T @ G[:, H] @ r[0, 0]  # as long as G_{·H} r, on average
    same(held.moved(r, r)[0, 0], np.sqrt(np.square(sides).mean(axis=0)))
    same(noise(m, 8)[:, :3], noise(m))
    centred = ((np.eye(m) - Q @ Q.T) @ (root[:, None] * K * root))[test_rows]
    centred /= root[test_rows, None]
    own = held.formed * norm(centred, axis=1)  # what forming G adds along k_x
    same(held.reach()[0, 0], norm(centred @ G, axis=1) + own)


@example("holdout.identity.predictions", "holdout.identity.most_growth")
def _():
    factor, part = feature_smoother().factor(alphas[0]), shape(test=H)
    held = factor.held(part, alphas)
    spread = Y.std(axis=0)
    largest = (factor.unit(alphas)[:, None] * factor.length(factor.D(alphas)) / spread).max()
    most = most_growth(factor, held, part)
    same(most, 2.5e-9 * root[H].min() / largest)
    found = residuals(held, most)
    values, error = predictions(factor, held, part, found)
    for a, penalty in enumerate(alphas):
        S = naive_S(penalty, E)[np.ix_(H, H)]
        f = (naive_sparse(H, E, penalty) - U @ Level)[H]
        same(values[a, 0], f)
        look = np.sqrt(np.diag(naive_S(penalty))[H])[:, None] * noise(H.size)
        grown = np.abs(solve(np.eye(H.size) - S, look)).max(axis=1)
        same(found.grown[a, 0], grown)
        r = root[H, None] * (Y - U @ Level)[H] - root[H, None] * f
        length = np.sqrt(np.diag(Ys.T @ naive_S(penalty) @ Ys))  # the model on all rows, …
        length = length + np.sqrt(np.einsum("hv,hg,gv->v", r, S, r))  # … and how far it moves
        size = factor.unit(alphas[a : a + 1]) * length
        same(found.size[a, 0], size)
        ratio = size / factor.targets.yardstick(f)
        same(error[a, 0], ((grown / root[H])[:, None] * ratio).max())


@example("holdout.identity.held_out")
def _():
    for factor, naive in (
        (feature_smoother().factor(alphas[0]), lambda a: naive_sparse(H, E, a)),
        (kernel_smoother().factor(alphas[0]), lambda a: naive_dense(H, a)),
    ):
        job = tasks(removed=E if hasattr(factor, "N") else [])
        found, error = held_out(factor, job, alphas)
        for a, values in zip(alphas, found, strict=True):
            same(values, (naive(a) - U @ Level)[test_rows])
        assert error.shape == (3, 1)
        assert error.max() < 1e-10


def fold_equations(removed=E):
    """Equations of the fold that holds H out, from the sums over H."""
    system, full = feature_smoother().system(), np.c_[W, Q]
    sums = full[H].T @ full[H], full[H].T @ Ys[H]
    N_E = system.constraints(np.asarray(removed, dtype=int))
    lengths = np.linalg.norm(Ys, axis=0)
    return without_rows(system, sums, Q[rest].T @ Q[rest], slice(None), N_E, lengths)


@example("smoother.system.without_rows", "smoother.system.FoldEquations.complete")
def _():
    mean, level = (solve(Q[rest].T @ Q[rest], Q[rest].T @ part[rest]) for part in (W, Ys))
    centred = W[rest] - Q[rest] @ mean
    found = fold_equations()
    same(found.A, centred.T @ centred)
    same(found.rhs, centred.T @ (Ys[rest] - Q[rest] @ level))
    same(found.mean, mean)
    same(found.level, level)
    O = orthonormal_rows(inv(C).T[E])  # noqa: E741  # the same span
    same(found.N_E.T @ found.N_E, O @ O.T)
    same(found.lengths, np.sqrt((W**2).sum(axis=0) + (mean**2).sum(axis=0)))
    theta, full = solve(found.A + alpha * np.eye(n), found.rhs), np.c_[W, Q][rest]
    whole = solve(full.T @ full + alpha * np.diag(mask), full.T @ Ys[rest])
    same(found.complete(theta[None])[0], whole)  # δ = ȳ − φ̄ θ is appended


def on_complement(A, N_E):
    """(A + α)⁻¹ under N_E x = 0, as a matrix."""
    basis = np.linalg.svd(N_E)[2][len(N_E) :].T
    return basis @ inv(basis.T @ (A + alpha * np.eye(n)) @ basis) @ basis.T


@example("holdout.folds.solve", "holdout.folds._one_by_one", "holdout.folds._left")
def _():
    found, spread = fold_equations(), Y.std(axis=0)
    inverse, many = on_complement(found.A, found.N_E), alpha * 10.0 ** np.arange(6)
    off = np.linalg.qr(rng.normal(size=(n, n)))[0][:, :v] * 1e-7  # a model that is not quite right
    off -= found.N_E.T @ (found.N_E @ off)
    for solved in (folds.solve(found, many, spread), folds._one_by_one(found, many, spread)):
        theta = solved.theta[0]
        same(theta, inverse @ found.rhs)
        assert np.abs(found.N_E @ solved.theta).max() < 1e-10
        d = found.lengths[:, None]
        rounding = np.sqrt(np.einsum("pk,pq,qk->k", d * noise(n), inverse, d * noise(n))).max()
        bound = EPS * (rounding * norm(d * theta, axis=0) / spread).max()
        assert 0.99 * bound < solved.left[0] < 10 * bound  # ‖g‖ is a few roundings as well

    def norms(sides):
        return np.sqrt(np.einsum("pk,pq,qk->k", sides, inverse, sides))

    wrong = theta + off  # a residual that can be seen
    g = found.rhs - found.A @ wrong - alpha * wrong
    expected = (norms(g) / spread).max()
    assert folds._left(found, wrong, alpha, spread, norms) == pytest.approx(expected, rel=1e-4)


@example("linalg.shifts.Tridiagonal.random_solutions")
def _():
    A = W.T @ W
    found = Tridiagonal.reduce(A).random_solutions(np.eye(n), alpha)  # of unit vectors: L⁻ᵀ
    same(found @ found.T, inv(A + alpha * np.eye(n)))


@example("smoother.feature_smoother.FeatureSmoother.rotated")
def _():
    smoother = feature_smoother()
    rotated = smoother.rotated()
    system, before = rotated.system(), smoother.system()
    gram = system.gram[:n, :n]
    same(gram, np.diag(np.linalg.eigvalsh(before.gram[:n, :n])))
    job = tasks(removed=E)
    same(
        rotated.by_fold(folds.solve, job, alphas, slice(None))[0],
        smoother.by_fold(folds.solve, job, alphas, slice(None))[0],
    )


@example(
    "smoother.feature_smoother.FeatureSmoother.by_fold",
    "smoother.kernel_smoother.KernelSmoother.by_fold",
)
def _():
    for smoother, removed, naive in (
        (feature_smoother(), E, lambda a: naive_sparse(H, E, a)),
        (kernel_smoother(), [], lambda a: naive_dense(H, a)),
    ):
        job = tasks(removed=removed)
        values, error = smoother.by_fold(folds.solve, job, alphas, slice(None))
        for a, found in zip(alphas, values, strict=True):
            same(found, (naive(a) - U @ Level)[test_rows])
        assert error.max() < 1e-11


@example(
    "smoother.kernel_equations.KernelEquations.of",
    "smoother.kernel_equations.KernelEquations.complete",
    "smoother.kernel_equations.KernelEquations.left",
)
def _():
    found = KernelEquations.of(K, scale, unpenalised, rest, Ys[rest])
    basis = found.complement.lift(np.eye(rest.size - 2))
    r = root[rest]
    same(found.A, basis.T @ (r[:, None] * K[np.ix_(rest, rest)] * r) @ basis)
    x = solve(found.A + alpha * np.eye(rest.size - 2), found.rhs)
    model = found.complete(x[None])[0]
    values = K[:, rest] @ model[:-2] + found.unpenalised.U @ model[-2:]
    same(values, naive_dense(H, alpha) - U @ Level)
    wrong = x + rng.normal(size=x.shape)  # leaves more of the equations than rounding errors do
    g = found.rhs - found.A @ wrong - alpha * wrong
    targets = kernel_smoother().targets
    left = found.left(wrong[None], np.array([alpha]), targets)
    same(left, [(norm(g, axis=0) / targets.spread).max()])


@example(
    "linalg.shifts.solve_shifted",
    "linalg.shifts.Tridiagonal.solve",
    "linalg.shifts.Tridiagonal.refine",
)
def _():
    A, z = W.T @ W, W.T @ Ys
    exact = [solve(A + a * np.eye(n), z) for a in alphas]
    reduced = Tridiagonal.reduce(A)
    x = reduced.solve(z, alphas)
    same(x, exact)
    same(reduced.refine(A, z, alphas, x), exact)
    same(solve_shifted(A, z, alphas), exact)
    lower = A - 0.2 * np.eye(n)  # indefinite
    exact = [solve(lower + a * np.eye(n), z) for a in alphas]
    same(solve_shifted(lower, z, alphas, definite=False), exact)


@example(
    "smoother.feature_smoother.FeatureSmoother.retrain",
    "smoother.kernel_smoother.KernelSmoother.retrain",
)
def _():
    found = feature_smoother().retrain(H, E, test_rows, alphas, slice(None))
    dense = kernel_smoother().retrain(H, NOTHING, test_rows, alphas, slice(None))
    for a, sparse_values, dense_values in zip(alphas, found, dense, strict=True):
        same(sparse_values, (naive_sparse(H, E, a) - U @ Level)[test_rows])
        same(dense_values, (naive_dense(H, a) - U @ Level)[test_rows])


@example("smoother.bordered.Bordered.predictions")
def _():
    problem = Bordered(K[np.ix_(rest, rest)], Z[rest], Y[rest], w[rest])
    found = problem.predictions(K[np.ix_(test_rows, rest)], Z[test_rows], alphas)
    same(found, [naive_dense(H, a)[test_rows] for a in alphas])


@example("holdout.predict", "holdout.judged", "smoother.base.Smoother.restore")
def _():
    for path in holdout.PATHS:
        found = holdout.predict(feature_smoother(), tasks(), alphas, path)
        dense = holdout.judged(kernel_smoother(), tasks(removed=[]), alphas, path)
        assert dense.error.max() < 1e-10
        for a, sparse_values, dense_values in zip(alphas, found, dense.values, strict=True):
            same(sparse_values, naive_sparse(H, E, a)[test_rows])
            same(dense_values, naive_dense(H, a)[test_rows])


@example("holdout.verify.verify", "holdout.verify.differences")
def _():
    smoother = feature_smoother()
    found = verify(smoother, tasks(), alphas, "spectral", 1, 0, np.array([1]))
    fast = holdout.predict(smoother, tasks(), alphas, "spectral")
    slow = holdout.predict(smoother, tasks(), alphas, "retrain")
    yardstick = np.maximum(Y.std(axis=0), np.abs(slow - Y.mean(axis=0)))
    worst = (np.abs(fast - slow) / yardstick).max(axis=(1, 2))
    assert found.relative_errors[0].tolist() == worst.tolist()
    assert found.max_relative_error == worst.max()
    assert found.chosen_relative_error == worst[1]
    same(found.rounding, data_floor(smoother, tasks(), alphas))
    assert found.within(0.0) is bool(worst[1] <= 3 * found.rounding[1])
    assert worst.max() < 1e-9


@example("smoother.feature_smoother.FeatureSmoother.floor")
def _():
    rows = np.array([0, 5, 11])
    found = feature_smoother().floor(rows, alphas)
    K_B, A = K[:, B], K[np.ix_(B, B)] + eps * np.eye(n)
    for a, floor in zip(alphas, found, strict=True):
        full = np.block([[A * a, np.zeros((n, 2))], [np.zeros((2, n + 2))]])
        columns = np.c_[K_B, Z]
        inverse = inv(columns.T @ (w[:, None] * columns) + full)
        c = (inverse @ columns.T @ (w[:, None] * Y))[:n]
        r = w[:, None] * (Y - naive_sparse([], [], a))
        u = (inverse @ columns[rows].T)[:n]  # what a gradient of the basis rows makes of f(x)
        bracket = (K_B**2).T @ r**2 + a**2 * A**2 @ c**2
        square = K_B[rows] ** 2 @ c**2 + (u**2).T @ bracket
        same(floor, EPS * (np.sqrt(square) / Y.std(axis=0)).max())


@example("smoother.kernel_smoother.KernelSmoother.floor")
def _():
    rows = np.array([0, 5, 11])
    found = kernel_smoother().floor(rows, alphas)
    for a, floor in zip(alphas, found, strict=True):
        expected = 0.0
        for row in rows:
            train = np.delete(np.arange(m), row)
            inside, k = K[np.ix_(train, train)], m - 1
            penalised = inside + np.diag(a / w[train])
            inverse = inv(np.block([[penalised, Z[train]], [Z[train].T, np.zeros((2, 2))]]))
            c = inverse[:k, :k] @ Y[train]
            u = (np.r_[K[row, train], Z[row]] @ inverse)[:k]  # f(x) = u · y
            square = K[row, train] ** 2 @ c**2 + u**2 @ (inside**2 @ c**2)
            expected = max(expected, (np.sqrt(square) / Y.std(axis=0)).max())
        same(floor, EPS * expected, digits=7)


@example("holdout.accuracy.data_floor")
def _():
    smoother, many = feature_smoother(), np.geomspace(0.05, 5.0, 5)
    found = data_floor(smoother, tasks(), many)
    some = np.unique(test_rows)
    looked = smoother.floor(some, many[[0, 2, 4]])
    level = (np.abs(Level).sum(axis=0) * np.abs(U).max() / Y.std(axis=0)).max()
    looked = np.maximum(looked, EPS * level)
    same(found[[0, 2, 4]], looked)
    same(found[1], np.sqrt(looked[0] * looked[1]))  # between two penalties, by their logarithms


@example(
    "holdout.accuracy.affordable",
    "smoother.feature_smoother.FeatureSmoother.training_work",
    "smoother.kernel_smoother.KernelSmoother.training_work",
)
def _():
    p = n + 2
    assert feature_smoother().training_work(5) == 6 * (m - 5) * p**2 + 4 * p**3
    assert kernel_smoother().training_work(5) == (m - 5) ** 3 + 200 * (m - 5) ** 2
    assert affordable(feature_smoother(), 2e9)
    assert not affordable(feature_smoother(), 2.1e9)


@example("holdout.plan.make_plan", "holdout.costs.KernelCosts")
def _():
    one_by_one = as_experiments(None, m)
    job = resolve(one_by_one, weights=w, basis=None, policy="remove")
    sizes = kernel_smoother().sizes(job)
    plan = make_plan(job, sizes, alphas.size, "auto")
    seconds = {cost.path: cost.seconds for cost in plan.costs}
    rows = 6 * m * RATES.touch + 4 * m * alphas.size * (1 + v) / RATES.gemm
    assert seconds["spectral"] == pytest.approx(RATES.eigh * m**3 / RATES.gemm + m * rows)
    assert plan.path == min(seconds, key=seconds.get)
    h = np.ones(m)
    assert KernelCosts(sizes, h, 0 * h, h, 3).seconds("single") == seconds["single"]
