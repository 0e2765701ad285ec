"""The equations of each experiment's own training rows, solved for every penalty.

The choice when |H| is not small compared with p. Equations in features are those of all rows less
those of the held-out rows; a dense model takes the kernel matrix of its training rows. One
tridiagonal reduction serves every penalty. Removing basis rows restricts the equations to the
orthogonal complement of the constraint rows N_E.

The rounding errors need no model: what is left of the equations at the solution, g = b − (A + α)θ,
is computed, and the entries of A, sums over all rows less sums over some, are off by eps d dᵀ for
columns of lengths d. Random right-hand sides of that size are solved like the others: what a row
makes of them (`FoldSolution.probes`) is the error of its prediction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve

from holdfast._typing import BoolArray, FloatArray, IntArray
from holdfast.core.complement import Complement
from holdfast.core.lapack import EPS, Tridiagonal, eigh, evenly_spaced, noise
from holdfast.exceptions import KernelError

__all__ = ["FEW", "FoldEquations", "FoldSolution", "require_semidefinite", "solve"]

#: Models (a, p, v), where there are none (a,), and a solver of further sides at a penalty.
_Solved = tuple[FloatArray, BoolArray, Callable[[FloatArray, int], FloatArray]]

#: For at most this many penalties, a factorisation of each beats one tridiagonal reduction.
FEW = 4
#: Targets that errors are measured with, and penalties of a grid at which they are.
MOST_TARGETS, LOOKED_AT = 3, 4


@dataclass(frozen=True)
class FoldEquations:
    """(A + αI) θ = rhs with θ orthogonal to O.

    Attributes
    ----------
    A, rhs : ndarray of shape (p, p) and (p, v)
    lengths : ndarray of shape (p,)
        A is off by eps times the products of these.
    targets : ndarray of shape (v,)
        Lengths of the targets that rhs was computed from; zero where it was not.
    O : ndarray of shape (p, e)
        Constraints, orthonormal.
    semidefinite : bool
        Whether A has no negative eigenvalue but for rounding: a kernel matrix, and no difference.
    """

    A: FloatArray
    rhs: FloatArray
    lengths: FloatArray
    targets: FloatArray
    O: FloatArray  # noqa: E741
    semidefinite: bool = False


class FoldSolution(NamedTuple):
    """The models of a fold.

    Attributes
    ----------
    theta : ndarray of shape (a, p, v)
    probes : ndarray of shape (k, p, N_PROBES)
        Random models of the size of the rounding errors, over the std of y, at some penalties.
    owner : ndarray of int, shape (a,)
        Which of them stands for each penalty: that of the nearest one below.
    failed : ndarray of bool, shape (a,)
        Where nothing but rounding errors is left of some direction.
    """

    theta: FloatArray
    probes: FloatArray
    owner: IntArray
    failed: BoolArray


def solve(equations: FoldEquations, alphas: FloatArray, std: FloatArray) -> FoldSolution:
    """Return the models of a fold at increasing penalties; errors are measured in `std` (v,)."""
    complement = Complement.of(equations.O)
    A, rhs = complement.reduce(equations.A), complement.project(equations.rhs)
    if alphas.size <= FEW:
        theta, failed, solver = _one_by_one(A, rhs, alphas)
    else:
        theta, failed, solver = _by_reduction(A, rhs, alphas)
    if failed.any() and equations.semidefinite:
        theta, failed, solver = _by_spectrum(A, rhs, alphas)
    known = np.flatnonzero(~failed)
    looked = known if alphas.size <= FEW else known[evenly_spaced(known.size, LOOKED_AT)]
    probes = np.zeros((max(1, looked.size), len(equations.A), noise(1).shape[1]))
    columns = evenly_spaced(std.size, MOST_TARGETS)
    for i, a in enumerate(looked.tolist()):
        t = theta[a][:, columns]
        left = np.abs((rhs[:, columns] - A @ t - alphas[a] * t) / std[columns]).max(axis=1)
        sizes = np.linalg.norm(equations.lengths[:, None] * complement.lift(t), axis=0)
        size = float(((sizes + equations.targets[columns]) / std[columns]).max())
        own = equations.lengths[:, None] * noise(len(equations.A))
        sides = left[:, None] * noise(len(A))[::-1] + EPS * size * complement.project(own)
        probes[i] = complement.lift(solver(sides, a))
    owner = np.maximum(np.searchsorted(looked, np.arange(alphas.size), side="right") - 1, 0)
    return FoldSolution(complement.lift(theta), probes, owner, failed)


def _by_reduction(A: FloatArray, rhs: FloatArray, alphas: FloatArray) -> _Solved:
    """Return models (a, p, v), where there are none, and a solver, by one reduction."""
    reduced = Tridiagonal.reduce(A)
    first = reduced.definite_from(alphas)
    theta = np.zeros((alphas.size, *rhs.shape))
    if first < alphas.size:
        theta[first:] = reduced.solve(rhs, alphas[first:])

    def solver(sides: FloatArray, a: int) -> FloatArray:
        return np.asarray(reduced.solve(sides, alphas[a : a + 1])[0])

    return theta, np.arange(alphas.size) < first, solver


def _one_by_one(A: FloatArray, rhs: FloatArray, alphas: FloatArray) -> _Solved:
    """Return the same by a Cholesky factor for each penalty, columns scaled to unit length."""
    theta, failed = np.zeros((alphas.size, *rhs.shape)), np.zeros(alphas.size, dtype=bool)
    factors: dict[int, tuple[FloatArray, FloatArray]] = {}

    def solver(sides: FloatArray, a: int) -> FloatArray:
        L, d = factors[a]
        return np.asarray(cho_solve((L, True), sides / d, check_finite=False) / d)

    for a, alpha in enumerate(alphas.tolist()):
        d = np.sqrt(np.maximum(np.diag(A), 0.0) + alpha)
        scaled = A / d / d[:, None]
        scaled[np.diag_indices(len(A))] = (np.diag(A) + alpha) / d**2
        try:
            factors[a] = np.linalg.cholesky(scaled), d[:, None]
        except np.linalg.LinAlgError:
            failed[a] = True
            continue
        theta[a] = solver(rhs, a)

    return theta, failed, solver


def _by_spectrum(A: FloatArray, rhs: FloatArray, alphas: FloatArray) -> _Solved:
    """Return the same for a kernel matrix whose rounding errors are larger than the penalty."""
    Lambda, V = eigh(A)
    require_semidefinite(Lambda)
    D = 1.0 / (np.maximum(Lambda, 0.0) + alphas[:, None])
    theta = V @ (D[:, :, None] * (V.T @ rhs))

    def solver(sides: FloatArray, a: int) -> FloatArray:
        return np.asarray(V @ (D[a][:, None] * (V.T @ sides)))

    return theta, np.zeros(alphas.size, dtype=bool), solver


def require_semidefinite(Lambda: FloatArray, trace: float = 0.0) -> None:
    """Refuse the spectrum of an indefinite kernel matrix: the problem has no minimum there."""
    low, high = float(Lambda.min(initial=0.0)), float(np.abs(Lambda).max(initial=0.0))
    if low < -100.0 * EPS * max(Lambda.size * high, trace):
        raise KernelError(
            "the kernel matrix is not positive semidefinite: its smallest eigenvalue is "
            f"{low:.3g} against a largest of {high:.3g}, so kernel least squares has no minimum. "
            "Use a positive semidefinite kernel, computed in float64.",
            argument="kernel",
        )
