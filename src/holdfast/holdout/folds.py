"""The normal equations of each experiment's own training rows, solved for every penalty.

The choice when |H| is not small compared with p. Equations in features are those of all rows less
those of the held-out rows; a dense model takes the kernel matrix of its training rows
(`Smoother.by_fold`). One tridiagonal reduction serves every penalty. Removing basis rows restricts
the equations to the orthogonal complement of the constraint rows N_E.

The error that this adds needs no model of it. With g = b − (A + α)θ, which is computed, and E the
rounding errors of A, no larger than eps d dᵀ for columns of lengths d, and those of b, no larger
than eps d ‖y‖, a prediction xᵀθ is off by at most

    (‖g‖ + ‖Eθ‖ + ‖e‖) ‖x‖      in the norm of (A + α)⁻¹, which the same factorisation gives.

The last factor is looked at for all test rows at once: a random model L⁻ᵀn, with LLᵀ = A + α and
normal n, predicts a normal number of deviation ‖x‖.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from holdfast._typing import FloatArray, IntArray
from holdfast.linalg import CHOLESKY_UP_TO, Complement, Tridiagonal
from holdfast.linalg._lapack import dpotrf, dtrtrs
from holdfast.smoother.held import LOOKS, noise
from holdfast.smoother.system import FoldEquations

__all__ = ["Solved", "solve"]

EPS = float(np.finfo(np.float64).eps)
#: Targets that errors are measured with.
MOST_TARGETS = 3
#: Diagonal entries further apart than this belong to columns that a reduction must not mix. Well
#: beyond 1/eps: a graded matrix, such as that of rotated columns, is reduced accurately.
APART = 1e20
#: Penalties of a grid at which errors are measured.
LOOKED_AT = 4


class Solved(NamedTuple):
    """The models of a fold.

    Attributes
    ----------
    theta : ndarray of shape (a, p, v)
        With N_E θ = 0.
    left : ndarray of shape (a,)
        ‖g‖ + ‖Eθ‖, over the spread of the targets; infinite where there is no factorisation.
    looks : ndarray of shape (k, p, LOOKS)
        Random models, each for a range of penalties: what a row makes of them is how much `left`
        grows on the way to its prediction.
    owner : ndarray of int, shape (a,)
        Which of them counts at each penalty.
    """

    theta: FloatArray
    left: FloatArray
    looks: FloatArray
    owner: IntArray


def solve(equations: FoldEquations, alphas: FloatArray, spread: FloatArray) -> Solved:
    """Return the models of a fold, for many penalties through one reduction.

    Parameters
    ----------
    equations : FoldEquations
    alphas : ndarray of shape (a,)
        Increasing.
    spread : ndarray of shape (v,)
        What errors are measured in.

    Notes
    -----
    Errors fall with the penalty: each of a few that are looked at counts up to the next. Few
    penalties are factorised one by one, and so are columns whose units are too far apart: a
    reduction mixes them, and could not even tell how much of the smallest is left.
    """
    few, diagonal = alphas.size <= CHOLESKY_UP_TO, np.diag(equations.A) + alphas[0]
    apart = diagonal.max(initial=0.0) > APART * diagonal.min(initial=np.inf)
    return (_one_by_one if few or apart else _by_reduction)(equations, alphas, spread)


def _by_reduction(equations: FoldEquations, alphas: FloatArray, spread: FloatArray) -> Solved:
    """Return the models through one tridiagonal reduction, on the complement of the constraints."""
    A, rhs = equations.A, equations.rhs
    lift: Callable[[FloatArray], FloatArray] = np.asarray
    project: Callable[[FloatArray], FloatArray] = np.asarray
    if equations.N_E.size:
        complement = Complement(equations.N_E)
        lift, project = complement.lift, complement.project
        A, rhs = complement.reduce(A), project(rhs)
    reduced = Tridiagonal.reduce(A)
    first = reduced.definite_from(alphas)  # below, some direction has nothing but rounding errors
    theta, count = np.zeros((alphas.size, *equations.rhs.shape)), alphas.size - first
    if not count:
        nothing = np.zeros((1, len(theta[0]), LOOKS)), np.zeros(alphas.size, dtype=np.int64)
        return Solved(theta, np.full(alphas.size, np.inf), *nothing)
    theta[first:] = lift(reduced.solve(rhs, alphas[first:]))
    looked = first + np.arange(LOOKED_AT) * count // LOOKED_AT
    left, looks = np.empty(LOOKED_AT), []
    for i, a in enumerate(looked):
        alpha = float(alphas[a])

        def norms(sides: FloatArray, alpha: float = alpha) -> FloatArray:
            sides = project(sides)
            (solved,) = reduced.solve(sides, np.array([alpha]))
            return np.asarray(np.sqrt(np.maximum(np.einsum("pk,pk->k", sides, solved), 0.0)))

        left[i] = _left(equations, theta[a], alpha, spread, norms)
        looks.append(reduced.random_solutions(noise(len(A)), alpha))
    owner = np.maximum(np.searchsorted(looked, np.arange(alphas.size), side="right") - 1, 0)
    known = np.arange(alphas.size) >= first
    return Solved(theta, np.where(known, left[owner], np.inf), lift(np.stack(looks)), owner)


def _one_by_one(equations: FoldEquations, alphas: FloatArray, spread: FloatArray) -> Solved:
    """Return the same by a factorisation for each penalty.

    With A + α = LLᵀ the constraints are Yᵀh = 0 for h = Lᵀθ and Y = L⁻¹N_Eᵀ: a projection.
    """
    A, rhs, N_E, p = equations.A, equations.rhs, equations.N_E, len(equations.A)
    theta, left = np.zeros((alphas.size, *rhs.shape)), np.full(alphas.size, np.inf)
    looks = np.ones((alphas.size, p, LOOKS))
    for a, alpha in enumerate(alphas):
        shifted = A.copy()
        shifted[np.diag_indices(p)] += alpha
        L, info = dpotrf(shifted.T, lower=1, clean=0, overwrite_a=1)  # symmetric: no copy
        if info:  # nothing but rounding errors is left of some direction
            continue
        Y = np.linalg.qr(dtrtrs(L, N_E.T, lower=1)[0])[0] if N_E.size else None

        def half(sides: FloatArray, L: FloatArray = L, Y: FloatArray | None = Y) -> FloatArray:
            h = dtrtrs(L, sides, lower=1)[0]
            return np.asarray(h if Y is None else h - Y @ (Y.T @ h))

        n = noise(p) if Y is None else noise(p) - Y @ (Y.T @ noise(p))
        both = dtrtrs(L, np.hstack([half(rhs), n]), lower=1, trans=1)[0]
        theta[a], looks[a] = both[:, : rhs.shape[1]], both[:, rhs.shape[1] :]

        def norms(sides: FloatArray, half: Callable[[FloatArray], FloatArray] = half) -> FloatArray:
            return np.asarray(np.linalg.norm(half(sides), axis=0))

        left[a] = _left(equations, theta[a], float(alpha), spread, norms)
    return Solved(theta, left, looks, np.arange(alphas.size))


def _left(
    equations: FoldEquations,
    theta: FloatArray,
    alpha: float,
    spread: FloatArray,
    norms: Callable[[FloatArray], FloatArray],
) -> float:
    """Return ‖g‖ + ‖Eθ‖ for models θ (p, v), over the spread; a few targets are looked at."""
    v = theta.shape[1]
    columns = np.unique(np.linspace(0, v - 1, min(v, MOST_TARGETS)).astype(int))
    own, k, lengths = theta[:, columns], columns.size, equations.lengths[:, None]
    g = equations.rhs[:, columns] - equations.A @ own - alpha * own
    found = norms(np.hstack([g, lengths * noise(len(theta))]))
    size = np.linalg.norm(lengths * own, axis=0) + equations.targets[columns]
    return float(((found[:k] + EPS * found[k:].max() * size) / spread[columns]).max())
