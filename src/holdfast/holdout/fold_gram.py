"""Held-out predictions by taking the held-out rows out of the Gram matrix, fold by fold.

The choice when |H| is not small against p. Primal: the p × p system of an experiment is
A − W_HᵀW_H, so all folds of a partition together cost one more Gram matrix, and each fold is then
solved for every α through one tridiagonal reduction. Dense: the training kernel of each fold,
reduced in the same way.

Removal of basis rows restricts the system to the orthogonal complement of the constraint rows N_E
(`holdfast.linalg.Complement`).
"""

from __future__ import annotations

import numpy as np

from holdfast.experiments import IntArray, Tasks
from holdfast.factors import deflated_kernel, output_rows, spectral_dual
from holdfast.linalg import Complement, Tridiagonal
from holdfast.systems import DualSystem, FloatArray, PrimalSystem, RowScale

#: Below this share of the Gram matrix's trace, what is left is summed afresh instead of subtracted.
SUBTRACTION_LIMIT = 1e-2


def predict_primal(
    system: PrimalSystem,
    Y: FloatArray,
    tasks: Tasks,
    alphas: FloatArray,
    columns: slice = slice(None),  # a slice is a constant
) -> FloatArray:
    """Return held-out predictions of all tasks, shape (alphas, test rows, targets).

    Parameters
    ----------
    system : PrimalSystem
    Y : ndarray of shape (m, v)
        The targets `columns` of those that the system was made with.
    tasks : Tasks
    alphas : ndarray of shape (a,)
    columns : slice

    Notes
    -----
    Per experiment: |H| p² for its Gram matrix, 4/3 p³ for the reduction, 2 p² v per α. The
    subtraction is exact as long as the held-out rows do not carry nearly all of the trace;
    otherwise the training rows are summed directly.
    """
    gram = np.diag(system.gram) if system.gram.ndim == 1 else system.gram
    z, Ys = system.z[:, columns], system.scale.targets(Y)
    predictions = np.empty((alphas.size, tasks.test.values.size, Y.shape[1]))
    for j in range(len(tasks)):
        held, test = tasks.held[j], tasks.test[j]
        W = system.W[held]
        A, b = _training_gram(system, gram, z, Ys, held, W)
        theta = _solve(A, b, system.N[tasks.removed[j]], system.inner, system.bias, alphas)
        rows = W if np.array_equal(held, test) else system.W[test]
        rows = rows if system.scale.uniform else rows / system.scale.root[test, None]
        predictions[:, tasks.test.ptr[j] : tasks.test.ptr[j + 1]] = rows @ theta
    return predictions


def _training_gram(
    system: PrimalSystem,
    gram: FloatArray,
    z: FloatArray,
    Ys: FloatArray,
    held: IntArray,
    W: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Return the Gram matrix and right-hand side of the rows that are not held out."""
    keep = system.scale.trained.copy()
    keep[held] = False
    A_H = W.T @ W
    if np.trace(gram) - np.trace(A_H) > SUBTRACTION_LIMIT * np.trace(gram):
        A, b = gram - A_H, z - W.T @ Ys[held]
    else:
        W = system.W[np.flatnonzero(keep)]
        A, b = W.T @ W, W.T @ Ys[keep]
    if system.bias:
        A[-1, -1] = np.sum(system.scale.q[keep] ** 2)
    return A, b


def _solve(
    A: FloatArray, b: FloatArray, N_E: FloatArray, inner: slice, bias: bool, alphas: FloatArray
) -> FloatArray:
    """Return θ (a, p, v) with the bias eliminated and N_E θ = 0 imposed."""
    theta = np.empty((alphas.size, *b.shape))
    core, rhs = A[inner, inner], b[inner]
    if bias:  # Schur complement: the bias is not penalised
        a, weight = A[inner, -1], A[-1, -1]
        core = core - np.outer(a, a / weight)
        rhs = rhs - np.outer(a, b[-1] / weight)
    if N_E.size:
        complement = Complement(N_E[:, inner])
        x = Tridiagonal.reduce(complement.reduce(core)).solve(complement.project(rhs), alphas)
        theta[:, inner] = complement.lift(x)
    else:
        theta[:, inner] = Tridiagonal.reduce(core).solve(rhs, alphas)
    if bias:
        theta[:, -1] = (b[-1] - np.einsum("p,apv->av", a, theta[:, inner])) / weight
    return theta


def predict_dual(
    system: DualSystem, weights: FloatArray, Y: FloatArray, tasks: Tasks, alphas: FloatArray
) -> FloatArray:
    """Return held-out predictions of a dense model from each experiment's own training kernel.

    Notes
    -----
    Per experiment 4/3 (m − |H|)³ for one tridiagonal reduction that serves every α; a kernel that
    does not declare itself positive semidefinite takes an eigendecomposition instead.
    """
    predictions = np.empty((alphas.size, tasks.test.values.size, Y.shape[1]))
    for j in range(len(tasks)):
        keep = system.scale.trained.copy()
        keep[tasks.held[j]] = False
        train, test = np.flatnonzero(keep), tasks.test[j]
        K = system.K[np.ix_(train, train)]
        part = DualSystem(K, RowScale.of(weights[train]), system.bias, system.definite)
        fold = _dual_fold if system.definite else _dual_fold_indefinite
        K_test = system.K[np.ix_(test, train)]
        predictions[:, tasks.test.ptr[j] : tasks.test.ptr[j + 1]] = fold(
            part, K_test, Y[train], alphas
        )
    return predictions


def _dual_fold(
    part: DualSystem, K_test: FloatArray, Y: FloatArray, alphas: FloatArray
) -> FloatArray:
    scale, Ys = part.scale, part.scale.targets(Y)
    K, deflation = deflated_kernel(part)
    reduced = Tridiagonal.reduce(K, overwrite=True)
    if deflation is None:
        return np.asarray((K_test * scale.root) @ reduced.solve(Ys, alphas))
    c = deflation.lift(reduced.solve(deflation.project(Ys), alphas))  # (a, m, v)
    centre = (scale.q * scale.root) @ part.K * scale.root  # qᵀ√wK√w
    intercept = (scale.q @ Ys - centre @ c) / scale.norm  # (a, v)
    return np.asarray((K_test * scale.root) @ c + intercept[:, None, :])


def _dual_fold_indefinite(
    part: DualSystem, K_test: FloatArray, Y: FloatArray, alphas: FloatArray
) -> FloatArray:
    factor = spectral_dual(part)
    rows = output_rows(factor, part.K, K_test)
    z = factor.project(part.scale.targets(Y), slice(None))
    return np.asarray(rows @ (factor.D(alphas)[:, :, None] * z))
