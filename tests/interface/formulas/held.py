"""The identity, removal, fold equations, retraining, digits and costs."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from numpy.linalg import inv, norm, solve

from holdfast import HoldOut, holdout
from holdfast.experiments import as_experiments, resolve
from holdfast.holdout import fold_gram
from holdfast.holdout.check import check
from holdfast.holdout.conjugate import solve_cg
from holdfast.holdout.costs import RATES, KernelCosts
from holdfast.holdout.digits import affordable, basis_shrinks, few_left
from holdfast.holdout.elimination import Eliminated
from holdfast.holdout.identity import (
    HeldSystem,
    held_out_predictions,
    residuals,
    rows_without_themselves,
    solve_direct,
)
from holdfast.holdout.overlapping import overlapping_predictions
from holdfast.holdout.plan import make_plan
from holdfast.holdout.unions import Unions
from holdfast.holdout.verify import verify
from holdfast.linalg import (
    Accuracy,
    Definite,
    Tridiagonal,
    orthonormal_rows,
    solve_shifted,
    weighted_products,
    whitened_products,
)
from holdfast.smoother.equations import eliminate
from holdfast.smoother.held import constraints, removed_part
from holdfast.smoother.measured import DenseProblem, look
from holdfast.smoother.refined import bordered
from holdfast.smoother.shared import shared
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
    alpha,
    alphas,
    dense_G,
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
    shape,
    tasks,
    test_rows,
    v,
    w,
)


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


LARGE = np.r_[H, np.setdiff1d(np.arange(m), np.r_[B, H])[:6]]
OVERLAPPING = LARGE, LARGE[:-1], LARGE[1:]


def bundled():
    several = as_experiments([HoldOut(rows, rows[-1:]) for rows in OVERLAPPING], m)
    sets = resolve(several, weights=w, basis=B, policy="remove")
    together = shared(feature_smoother().factor(), sets)
    assert together is not None
    return sets, together


@example("smoother.shared.Shared.at")
def _():
    _, together = bundled()
    (bundle,) = together.bundles
    A = together.at(alpha)(bundle)
    k, n = bundle.rows.size, bundle.rows.size + bundle.basis.size
    S = naive_S(alpha, np.array([], dtype=int))
    same(A[:k, :k], np.eye(k) - S[np.ix_(bundle.rows, bundle.rows)])
    same(A[:k, n + bundle.tests.size : -1], (Ys - S @ Ys)[bundle.rows])
    s_E, P = A[:k, k:n], A[k:n, k:n]  # all basis rows of the bundle leave
    without = naive_S(alpha, bundle.basis)
    same(np.eye(k) - A[:k, :k] - s_E @ inv(P) @ s_E.T, without[np.ix_(bundle.rows, bundle.rows)])


@example("holdout.overlapping.overlapping_predictions")
def _():
    sets, together = bundled()
    found, _ = overlapping_predictions(together, sets, alpha, 0.0, np.inf)
    for j, rows in enumerate(OVERLAPPING):
        expected = naive_sparse(rows, sets.removed[j], alpha) - U @ Level
        same(found[j], expected[rows[-1]])


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
    held = feature_smoother().factor(alpha).held(shape(), np.array([alpha]))  # D = 1
    V, _, O, _ = parts(held)  # noqa: E741
    same(held.constrained_rows()[0], V @ M_E(np.ones(V.shape[1]), O))


@example("holdout.identity.residuals", "holdout.identity.solve_direct")
def _():
    held = held_features()
    for found in (residuals(held), solve_direct(held, held.errors())):
        for a, r in zip(alphas, found[:, 0], strict=True):
            same(r, root[H, None] * (Y - naive_sparse(H, E, a))[H])


@example("holdout.conjugate.solve_cg")
def _():
    held = held_features()
    found, converged = solve_cg(held, np.arange(3), held.errors(), max_steps=40)
    assert converged.all()
    for a, r in zip(alphas, found[:, 0], strict=True):
        S = naive_S(a, E)
        same(r, solve(np.eye(H.size) - S[np.ix_(H, H)], (Ys - S @ Ys)[H]))


@example("holdout.elimination.Eliminated.inner", "holdout.elimination.Eliminated.outer")
def _():
    M = np.eye(m) - naive_S(alpha, [])
    e = M @ Ys
    outer, inner = np.array([3, 8, 11]), np.array([[0, 5], [6, 14]])
    left = Eliminated(M, e, outer)
    r = left.inner(inner)
    for j, rows in enumerate(inner):
        both = np.append(outer, rows)
        naive = solve(M[np.ix_(both, both)], e[both])
        same(r[j], naive[3:])
        same(left.outer(inner, r)[j], naive[:3])


@example("holdout.unions.Unions.predict")
def _():
    folds = [np.array([1, 4, 9]), np.array([2, 7]), np.array([12, 15, 16])]
    pairs = [np.append(folds[i], folds[j]) for i, j in ((0, 1), (0, 2), (1, 2))]
    experiments = as_experiments([HoldOut(rows) for rows in (*folds, *pairs)], m)
    tasks = resolve(experiments, weights=w, basis=B, policy="remove")
    smoother = feature_smoother()
    found = Unions(smoother.factor(), alpha).predict(tasks)
    smoother.restore(found[None], tasks.test.values, slice(None))
    for j, (start, stop) in enumerate(pairwise(tasks.test.ptr)):
        same(found[start:stop], naive_sparse(tasks.held[j], tasks.removed[j], alpha)[tasks.test[j]])


@example("holdout.identity.HeldSystem")
def _():
    many = np.arange(m - 6)  # more rows than coordinates: the smaller system serves
    for held_rows, removed in ((H, E), (many, [])):
        factor = feature_smoother().factor(alpha)
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
    alone = feature_smoother().factor().alone(one, alphas)
    for a, penalty in enumerate(alphas):
        S = naive_S(penalty, [position])
        same(alone.gap[0, a], 1 - S[row, row])
        same(alone.errors[a, 0], (Ys - S @ Ys)[row])
        same(alone.fitted[a, 0], (S @ Ys)[row] / root[row])
        same(alone.lift[0, a], S[row, row] / root[row])
    S = naive_S(alpha)
    r = rows_without_themselves(Ys - S @ Ys, np.diag(S))
    same(r[4], root[4] * (Y - naive_sparse([4], [], alpha))[4])
    dense = kernel_smoother().factor().alone(shape(held=[4], removed=[], test=[4]), alphas)
    same(dense.errors[1, 0] / dense.gap[0, 1], root[4] * (Y - naive_dense([4], alpha))[4])


@example(
    "smoother.held.HeldInverse.coefficients",
    "smoother.held.HeldInverse.gaps",
    "smoother.held.HeldInverse.errors",
    "smoother.held.HeldInverse.predict",
    "smoother.held.HeldInverse._levels",
)
def _():
    held = kernel_smoother().factor(alpha).held(shape(removed=[]), np.array([alpha]))
    G = dense_G(alpha)
    c = G @ Ys
    same(held.gaps(slice(0, 1))[0, 0], G[np.ix_(H, H)])
    same(held.errors()[0, 0], c[H])
    r = solve(G[np.ix_(H, H)], c[H])
    found = held.coefficients(r[None, None])[0]
    same(found, c - G[:, H] @ r)
    same(found[rest], dense_G(alpha, rest) @ (root[:, None] * Y)[rest])
    same(held.predict(r[None, None])[0, 0], (naive_dense(H, alpha) - U @ Level)[test_rows])


@example("holdout.identity.held_out_predictions")
def _():
    for factor, naive in (
        (feature_smoother().factor(), lambda a: naive_sparse(H, E, a)),
        (kernel_smoother().factor(), lambda a: naive_dense(H, a)),
    ):
        job = tasks(removed=E if factor.N is not None else [])
        found = held_out_predictions(factor, job, alphas)
        for a, values in zip(alphas, found, strict=True):
            same(values, (naive(a) - U @ Level)[test_rows])


@example("smoother.equations.eliminate", "smoother.equations.FeatureEquations.complete")
def _():
    full = np.c_[W, Q][rest]
    A, b = full.T @ full, full.T @ Ys[rest]
    A_c, b_c, mean, level = eliminate(A.copy(), b.copy(), Q[rest].T @ Q[rest])
    same(mean, solve(Q[rest].T @ Q[rest], Q[rest].T @ W[rest]))
    same(level, solve(Q[rest].T @ Q[rest], Q[rest].T @ Ys[rest]))
    theta = solve(A_c + alpha * np.eye(n), b_c)
    whole = solve(A + alpha * np.diag(mask), b)
    same(theta, whole[:n])
    smoother = feature_smoother()
    equations = smoother.equations(H, np.array([], dtype=int), slice(None), False)
    full = smoother.system.W[rest]
    whole = solve(full.T @ full + alpha * np.diag(mask), full.T @ Ys[rest])
    same(equations.complete(theta[None])[0], whole)  # δ = ȳ − φ̄ θ is appended


@example("smoother.feature_smoother.FeatureSmoother.equations")
def _():
    mean, level = (solve(Q[rest].T @ Q[rest], Q[rest].T @ part[rest]) for part in (W, Ys))
    centred = W[rest] - Q[rest] @ mean
    for afresh in (False, True):
        found = feature_smoother().equations(H, E, slice(None), afresh)
        same(found.A, centred.T @ centred)
        same(found.rhs, centred.T @ (Ys[rest] - Q[rest] @ level))
        O = orthonormal_rows(inv(C).T[E])  # noqa: E741  # the same span
        same(found.N_E.T @ found.N_E, O @ O.T)


@example(
    "smoother.kernel_smoother.KernelSmoother.equations",
    "smoother.equations.KernelEquations.complete",
    "smoother.kernel_smoother.KernelSmoother.fitted",
)
def _():
    smoother = kernel_smoother()
    found = smoother.equations(H, np.array([], dtype=int), slice(None), False)
    basis = found.complement.lift(np.eye(rest.size - 2))
    r = root[rest]
    same(found.A, basis.T @ (r[:, None] * K[np.ix_(rest, rest)] * r) @ basis)
    x = solve(found.A + alpha * np.eye(rest.size - 2), found.rhs)
    models = found.complete(x[None])
    values = smoother.fitted(found, models, test_rows)[0]
    same(values, (naive_dense(H, alpha) - U @ Level)[test_rows])


@example("smoother.measured.look")
def _():
    smoother, alone = kernel_smoother(), np.array([alpha])
    factor = smoother.factor(alpha)
    problem = DenseProblem.of(K, smoother.scale, smoother.unpenalised, Ys)
    rough = 1.001 * factor.inverse_times(Ys[None], alone)  # what a step of refinement mends
    exact = (naive_dense(H, alpha) - U @ Level)[test_rows]
    errors, attainable = look(problem, factor, rough, H, test_rows, alone, exact[None] + 0.25)
    same(errors, np.full((1, v), 0.25))
    assert attainable.max() < 1e-10


@example("holdout.fold_gram.solve", "smoother.feature_smoother.FeatureSmoother.fitted")
def _():
    smoother = feature_smoother()
    found = smoother.equations(H, E, slice(None), False)
    models = fold_gram.solve(found, alphas)
    assert np.abs(found.N_E @ models[:, :n]).max() < 1e-10
    values = smoother.fitted(found, models, test_rows)
    for a, part in zip(alphas, values, strict=True):
        same(part, (naive_sparse(H, E, a) - U @ Level)[test_rows])


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
    same(solve_shifted(lower, z, alphas, Accuracy(np.diag(A), definite=False)), exact)


@example(
    "smoother.feature_smoother.FeatureSmoother.retrain",
    "smoother.kernel_smoother.KernelSmoother.retrain",
)
def _():
    nothing = np.array([], dtype=int)
    found = feature_smoother().retrain(H, E, test_rows, alphas, slice(None))
    dense = kernel_smoother().retrain(H, nothing, test_rows, alphas, slice(None))
    for a, sparse_values, dense_values in zip(alphas, found, dense, strict=True):
        same(sparse_values, (naive_sparse(H, E, a) - U @ Level)[test_rows])
        same(dense_values, (naive_dense(H, a) - U @ Level)[test_rows])


@example(
    "smoother.refined.KernelProblem.predictions",
    "smoother.refined.FeatureProblem.predictions",
)
def _():
    nothing, both = np.array([], dtype=int), np.arange(Y.shape[1])
    for a in alphas:
        smoother = feature_smoother()
        same(
            smoother.refined(H, E, test_rows, a, both, 1.0),
            (naive_sparse(H, E, a) - U @ Level)[test_rows],
        )
        smoother = kernel_smoother()
        same(
            smoother.refined(H, nothing, test_rows, a, both, 1.0),
            (naive_dense(H, a) - U @ Level)[test_rows],
        )


@example("smoother.refined.bordered")
def _():
    rng = np.random.default_rng(0)
    M, C, b = rng.normal(size=(5, 5)), rng.normal(size=(2, 5)), rng.normal(size=(5, 3))
    spd, kappa = M @ M.T + np.eye(5), np.array([-1.0, 0.0])
    whole = np.block([[spd, C.T], [C, -np.diag(kappa)]])
    x = solve(whole, np.vstack([b, np.zeros((2, 3))]))[:5]
    same(bordered(lambda right: solve(spd, right), C, kappa)(b), x)


@example("holdout.check.check")
def _():
    a, columns = alphas[0], np.arange(Y.shape[1])
    slow = naive_sparse(H, np.array([], dtype=int), a)[test_rows]
    wrong = slow + 1e-7 * np.abs(slow).max()
    told = check(feature_smoother(), tasks(removed=[]), "spectral", 3, a, columns, wrong)
    deviation = float(told.rsplit(" ", 1)[1])
    assert abs(deviation - 1e-7) < 1e-9


@example("holdout.predict", "smoother.base.Smoother.restore")
def _():
    for path in holdout.PATHS:
        found = holdout.predict(feature_smoother(), tasks(), alphas, path)
        dense = holdout.predict(kernel_smoother(), tasks(removed=[]), alphas, path)
        for a, sparse_values, dense_values in zip(alphas, found, dense, strict=True):
            same(sparse_values, naive_sparse(H, E, a)[test_rows])
            same(dense_values, naive_dense(H, a)[test_rows])


@example("holdout.verify.verify")
def _():
    found = verify(feature_smoother(), tasks(), alphas, "spectral", 1, 0, np.array([1]))
    fast = holdout.predict(feature_smoother(), tasks(), alphas, "spectral")
    slow = np.array([naive_sparse(H, E, a)[test_rows] for a in alphas])
    worst = (np.abs(fast - slow).max(axis=(1, 2)) / np.abs(slow).max(axis=(1, 2))).max()
    assert found.max_relative_error < 1e-9
    assert worst < 1e-9


@example(
    "smoother.kernel_form.KernelForm.norms",
    "smoother.kernel_form.KernelForm.shift",
    "smoother.feature_smoother.FeatureSmoother.shift",
)
def _():
    P = np.eye(m) - Q @ Q.T
    kernel = P @ (root[:, None] * K * root) @ P  # W Wᵀ
    same(kernel_smoother().norms, np.diag(kernel))
    same(kernel_smoother().shift(H), np.trace(Q[H].T @ kernel[np.ix_(H, H)] @ Q[H]))
    same(feature_smoother().shift(H), norm(Q[H].T @ W[H]) ** 2)


@example("holdout.digits.affordable")
def _():
    job, p = tasks(), n + 2
    operations = 6 * m * p**2 + 3 * 4 * p**3
    assert affordable(feature_smoother(), job, 3) is (operations <= 2e10)


@example("holdout.digits.few_left", "holdout.digits.basis_shrinks")
def _():
    many = np.arange(m - 4)
    left = np.setdiff1d(np.arange(m), many)
    mean = solve(Q[left].T @ Q[left], Q[left].T @ W[left])
    share = norm(W[left] - Q[left] @ mean) ** 2 / norm(W) ** 2
    assert share < 0.5
    assert few_left(feature_smoother(), tasks(held=many)).tolist() == [True]
    assert few_left(feature_smoother(), tasks()).tolist() == [False]
    assert basis_shrinks(tasks(), n).tolist() == [E.size / n >= 0.25]


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
