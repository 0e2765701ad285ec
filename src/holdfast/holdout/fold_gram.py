"""Held-out predictions by taking the held-out rows out of the Gram matrix, fold by fold.

The choice when |H| is not small against p. Primal: the p × p system of an experiment is
A − W_HᵀW_H, and each fold is then
solved for every α through one tridiagonal reduction. Dense: the training kernel of each fold,
reduced in the same way.

Removal of basis rows restricts the system to the orthogonal complement of the constraint rows N_E
(`holdfast.linalg.Complement`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from holdfast._typing import FloatArray, IntArray
from holdfast.experiments import Tasks
from holdfast.holdout.digits import few_left
from holdfast.holdout.sums import (
    RowBlocks,
    centred_gram_and_rhs,
    fitted,
    gram_and_rhs,
    weighted_sum,
)
from holdfast.linalg import Complement, Tridiagonal, not_definite, run_pieces, subtract_outer
from holdfast.smoother.factors import deflated_kernel, output_rows, spectral_dual
from holdfast.smoother.moments import RowScale
from holdfast.smoother.systems import DualSystem, PrimalSystem

#: Penalties up to which a Cholesky factorisation for each beats one tridiagonal reduction.
CHOLESKY_UP_TO = 4
#: Features from which experiments gain by running side by side.
SIDE_BY_SIDE_FROM = 128


def predict_primal(
    system: PrimalSystem,
    Y: FloatArray,
    tasks: Tasks,
    alphas: FloatArray,
    columns: slice = slice(None),
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
    Per experiment: |H| p² for its Gram matrix, unless the pass that made the system has it already
    (`PrimalSystem.held`); 4/3 p³ for the reduction, 2 p² v per α. The
    subtraction loses nothing as long as the training rows carry their part of the trace; where
    they do not (`holdfast.holdout.digits`) they are summed afresh.
    """
    gram = np.diag(system.gram) if system.gram.ndim == 1 else system.gram
    z, Ys = system.z[:, columns], system.scale.targets(Y)
    afresh = few_left(system, tasks)
    predictions = np.empty((alphas.size, tasks.test.values.size, Y.shape[1]))

    def work(j: int) -> None:
        held, test = tasks.held[j], tasks.test[j]
        rows: RowBlocks | None = None
        if afresh[j]:
            moments = _sum_training(system, Ys, held)
        else:
            left = 1.0 - float(np.sum(system.scale.q[held] ** 2)) if system.bias else None
            known = None if system.held is None else system.held.find(held)
            if known is None:
                rows = RowBlocks(system.W, held)
                moments = subtract(gram, z, *gram_and_rhs(rows, Ys[held]), left)
            else:
                moments = subtract(gram, z, known[0], known[1][:, columns], left)
        theta = solve(moments, system.N[tasks.removed[j], system.inner], alphas)
        if rows is None or not np.array_equal(held, test):
            rows = RowBlocks(system.W, test, once=True)
        where = slice(tasks.test.ptr[j], tasks.test.ptr[j + 1])
        predictions[:, where] = fitted(rows, system.scale.root[test], theta)

    # Half of a tridiagonal reduction is matrix-vector work, which BLAS threads hardly speed up:
    # experiments side by side do, unless each makes its rows by a function of the user's, or is
    # so small that threads only wait for the interpreter.
    together = isinstance(system.W, np.ndarray) or system.W.features.parallel
    together &= system.z.shape[0] >= SIDE_BY_SIDE_FROM
    run_pieces(work, range(len(tasks)), None if together else 1)
    return predictions


class TrainingMoments(NamedTuple):
    """Normal equations of the training rows of one experiment, the bias eliminated.

    Attributes
    ----------
    gram, rhs : (p, p) and (p, v)
        Of the features and targets without their means over the training rows.
    mean, level : (p,) and (v,), or None without a bias
        Those means, in units of the bias column.
    """

    gram: FloatArray
    rhs: FloatArray
    mean: FloatArray | None
    level: FloatArray | None


def subtract(
    gram: FloatArray,
    z: FloatArray,
    gram_held: FloatArray,
    z_held: FloatArray,
    left: float | None,
) -> TrainingMoments:
    """Return the moments as those of all rows less those of the held-out rows.

    Parameters
    ----------
    gram, z, gram_held, z_held : ndarray
        WᵀW and Wᵀ√wY of all rows and of the held-out rows, the bias column last.
    left : float or None
        Share of the weight that is left, at least half (see `few_left`); None without a bias.
    """
    A, b = gram - gram_held, z - z_held
    if left is None:
        return TrainingMoments(A, b, None, None)
    cross = A[:-1, -1].copy()
    mean, level = cross / left, b[-1] / left
    subtract_outer(A[:-1, :-1], mean, cross)
    return TrainingMoments(A[:-1, :-1], b[:-1] - np.outer(cross, level), mean, level)


def _sum_training(system: PrimalSystem, Ys: FloatArray, held: IntArray) -> TrainingMoments:
    """Return the moments by summing over the training rows, (m − |H|) p²: nothing cancels."""
    keep = system.scale.trained.copy()
    keep[held] = False
    train = np.flatnonzero(keep)
    rows, Y = RowBlocks(system.W, train), Ys[train]
    if not system.bias:
        return TrainingMoments(*gram_and_rhs(rows, Y), None, None)
    q = system.scale.q[train]
    mean, level = weighted_sum(rows, q)[system.inner] / (q @ q), q @ Y / (q @ q)
    return TrainingMoments(*centred_gram_and_rhs(rows, Y, q, mean, level), mean, level)


def solve(moments: TrainingMoments, N_E: FloatArray, alphas: FloatArray) -> FloatArray:
    """Return θ (a, p, v), the bias last if there is one, with N_E θ = 0 imposed."""
    if N_E.size:
        complement = Complement(N_E)
        theta = complement.lift(
            _shifted(complement.reduce(moments.gram), complement.project(moments.rhs), alphas)
        )
    else:
        theta = _shifted(moments.gram, moments.rhs, alphas)
    if moments.mean is None or moments.level is None:
        return theta
    bias = moments.level - np.einsum("p,apv->av", moments.mean, theta)
    return np.concatenate([theta, bias[:, None]], axis=1)


def _shifted(
    A: FloatArray, rhs: FloatArray, alphas: FloatArray, refine: bool = False
) -> FloatArray:
    """Return x (a, p, v) with (A + αI) x = rhs: a Cholesky factor for each of few α, else one T.

    With `refine`, T's solutions are refined once; factors are the cheaper way then for many
    right-hand sides.
    """
    if not len(A):  # one row, and a bias that fits it
        return np.zeros((alphas.size, *rhs.shape))
    many_sides = refine and rhs.shape[1] >= len(A) / 12
    if alphas.size > CHOLESKY_UP_TO and not many_sides:
        reduced = Tridiagonal.reduce(A)
        x = reduced.solve(rhs, alphas)
        return reduced.refine(A, rhs, alphas, x) if refine else x
    solutions = np.empty((alphas.size, *rhs.shape))
    for a, alpha in enumerate(alphas):
        shifted = A.copy()
        shifted[np.diag_indices(len(A))] += alpha
        _, solutions[a], info = lapack.dposv(shifted, rhs, lower=1, overwrite_a=1)
        if info != 0:
            raise not_definite(float(alpha), info, len(A))
    return solutions


def predict_dual(
    system: DualSystem, weights: FloatArray, Y: FloatArray, tasks: Tasks, alphas: FloatArray
) -> FloatArray:
    """Return held-out predictions of a dense model from each experiment's own training kernel.

    Notes
    -----
    Per experiment 4/3 (m − |H|)³ for one tridiagonal reduction that serves every α, and one step
    of refinement: a smooth kernel's small eigenvalues need every digit. A kernel that does not
    declare itself positive semidefinite takes an eigendecomposition instead.
    """
    predictions = np.empty((alphas.size, tasks.test.values.size, Y.shape[1]))

    def work(j: int) -> None:
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

    run_pieces(work, range(len(tasks)))
    return predictions


def _dual_fold(
    part: DualSystem, K_test: FloatArray, Y: FloatArray, alphas: FloatArray
) -> FloatArray:
    c, intercept = dual_coefficients(part, Y, alphas)
    return np.asarray(K_test @ c + intercept[:, None, :])


def dual_coefficients(
    system: DualSystem, Y: FloatArray, alphas: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return coefficients (a, m, v) and intercepts (a, v) of dense models on all rows of a system.

    Every row has weight. A Cholesky factorisation for each of few α, else one reduction.
    """
    scale, Ys = system.scale, system.scale.targets(Y)
    K, deflation = deflated_kernel(system)
    if deflation is None:
        c = _shifted(K, Ys, alphas, refine=True) * scale.root[:, None]
        return c, np.zeros((alphas.size, Y.shape[1]))
    c = deflation.lift(_shifted(K, deflation.project(Ys), alphas, refine=True))
    c *= scale.root[:, None]
    centre = (scale.q * scale.root) @ system.K  # qᵀ√wK
    return c, (scale.q @ Ys - centre @ c) / scale.norm


def _dual_fold_indefinite(
    part: DualSystem, K_test: FloatArray, Y: FloatArray, alphas: FloatArray
) -> FloatArray:
    factor = spectral_dual(part)
    rows = output_rows(factor, part.K, K_test)
    z = factor.project(part.scale.targets(Y), slice(None))
    return np.asarray(rows @ (factor.D(alphas)[:, :, None] * z))
