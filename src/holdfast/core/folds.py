"""The equations of each experiment's own training rows, solved for every penalty.

The choice when |H| is not small compared with p. Equations in features are those of all rows less
those of the held-out rows; a dense model takes the kernel matrix of its training rows. One
tridiagonal reduction serves every penalty.

Removing basis rows E is the constraint a_E = 0 (Pahikkala, Suominen & Boberg 2012, Proposition 1),
N_E θ = 0 in coordinates; a dense model with unpenalised columns is solved on their orthogonal
complement. Either way orthonormal coordinates (`Complement`) turn the problem into a smaller one of
the same kind.

The rounding errors need no model: what is left of the equations at the solution, g = b − (A + α)θ,
is computed, and the entries of A, sums over all rows less sums over some, are off by eps d dᵀ for
columns of lengths d. Random right-hand sides of that size are solved like the others: what a row
makes of them (`FoldModels.probes`) is the error of its prediction. Errors shrink as the penalty
grows, so that the smallest penalty stands for all, unless it breaks the promise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.linalg import cho_solve, lapack, qr

from holdfast._typing import BoolArray, FloatArray, IntArray
from holdfast.core.accuracy import CAUTION, PROMISE
from holdfast.core.lapack import (
    CHUNK,
    EPS,
    N_PROBES,
    SOME_TARGETS,
    Tridiagonal,
    eigh,
    evenly_spaced,
    noise,
    submatrix,
    triangle,
)
from holdfast.exceptions import KernelError

#: Rows of constraints that are so many times as long as the first ones take their place.
LARGE = 10.0
#: For at most this many penalties, a factorisation of each beats one tridiagonal reduction.
FEW = 4


@dataclass(frozen=True)
class Complement:
    """An orthonormal basis O⊥ (p, p − e) of what is orthogonal to e orthonormal columns.

    Attributes
    ----------
    Y, T : ndarray of shape (p, e) and (e, e)
        I − Y T Yᵀ = [O, O⊥] is orthogonal, and its first e columns span what is left out. O⊥ is
        never formed: Householder QR in compact WY form (Schreiber & Van Loan 1989).
    order : ndarray of int, shape (p,), or None
        The order in which the coordinates were taken; None: as they are. The first e are gone from
        the smaller problem. Where columns are nearly supported by a few rows (heavy ones under a
        bias), these must be the ones: anything else left of them would be a difference of large
        numbers.
    """

    Y: FloatArray
    T: FloatArray
    order: IntArray | None = None

    @classmethod
    def of(cls, columns: FloatArray) -> Complement:
        """Return the complement of orthonormal columns (p, e)."""
        p, e = columns.shape
        if not e:
            return cls(columns, np.zeros((0, 0)))
        sizes, order = np.abs(columns).max(axis=1), None
        if sizes.max() > LARGE * sizes[:e].min():
            first = qr(columns.T, mode="r", pivoting=True)[1][:e]
            order = np.concatenate([first, np.delete(np.arange(p), first)])
            columns = columns[order]
        factored, T, _ = lapack.dgeqrt(e, np.asfortranarray(columns))
        Y = np.tril(factored, -1)
        Y[np.arange(e), np.arange(e)] = 1.0
        return cls(np.ascontiguousarray(Y), np.triu(T), order)

    def reduce(self, A: FloatArray) -> FloatArray:
        """Return ``O⊥ᵀ A O⊥`` (p − e, p − e) for symmetric `A` in O(p² e), a fresh array.

        [O, O⊥]ᵀ A [O, O⊥] = A − Y Xᵀ − X Yᵀ with P = A Y T and X = P − ½ Y (Tᵀ Yᵀ P).
        """
        e = self.Y.shape[1]
        A = A if self.order is None else submatrix(A, self.order, self.order)
        reduced = np.array(A[e:, e:], order="C")
        if e:
            P = (A @ self.Y) @ self.T
            X = P - 0.5 * (self.Y @ (self.T.T @ (self.Y.T @ P)))
            left, right = np.hstack([self.Y, X])[e:], np.hstack([X, self.Y])[e:]
            step = max(1, CHUNK // 4 // max(1, len(left)))
            for start in range(0, len(left), step):
                rows = slice(start, start + step)
                reduced[rows] -= left[rows] @ right.T
        return reduced

    def project(self, z: FloatArray) -> FloatArray:
        """Return ``O⊥ᵀ z`` (…, p − e, v) for `z` (…, p, v), any stack of matrices."""
        e = self.Y.shape[1]
        z = z if self.order is None else z[..., self.order, :]
        return np.asarray(z[..., e:, :] - self.Y[e:] @ (self.T.T @ (self.Y.T @ z))) if e else z

    def lift(self, x: FloatArray) -> FloatArray:
        """Return ``O⊥ x`` (…, p, v) for `x` (…, p − e, v), any stack of matrices."""
        e = self.Y.shape[1]
        if not e:
            return x
        lifted = -(self.Y @ (self.T @ (self.Y[e:].T @ x)))
        lifted[..., e:, :] += x
        return np.asarray(lifted if self.order is None else lifted[..., np.argsort(self.order), :])


class _Solver(Protocol):
    """Solves (A + αI) x = b for several penalties."""

    definite: BoolArray  # (a,): where A + αI has a factorisation

    def solve(self, sides: FloatArray, which: IntArray) -> FloatArray:
        """Return solutions (b, p, c) of sides (p, c) at some of the penalties, all definite."""


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
    std : ndarray of shape (v,)
        What errors are measured in.
    O : ndarray of shape (p, e)
        Constraints, orthonormal.
    semidefinite : bool
        Whether A has no negative eigenvalue but for rounding: a kernel matrix, and no difference.
    """

    A: FloatArray
    rhs: FloatArray
    lengths: FloatArray
    targets: FloatArray
    std: FloatArray
    O: FloatArray  # noqa: E741  # the notation's name for it
    semidefinite: bool = False

    def solve(self, alphas: FloatArray) -> FoldModels:
        """Return the models at increasing penalties."""
        complement = Complement.of(self.O)
        A, rhs = complement.reduce(self.A), complement.project(self.rhs)
        solver: _Solver = (_OneByOne if alphas.size <= FEW else _Reduction)(A, alphas)
        if self.semidefinite and not solver.definite.all():
            solver = _Spectrum(A, alphas)
        inside = np.zeros((alphas.size, *rhs.shape))
        inside[solver.definite] = solver.solve(rhs, np.flatnonzero(solver.definite))
        return FoldModels(
            complement.lift(inside), ~solver.definite, self, alphas, complement, A, rhs, solver
        )


@dataclass(frozen=True)
class FoldModels:
    """The models of a fold at every penalty.

    Attributes
    ----------
    theta : ndarray of shape (a, p, v)
    failed : ndarray of bool, shape (a,)
        Where nothing but rounding errors is left of some direction.
    equations : FoldEquations
    alphas : ndarray of shape (a,)
    """

    theta: FloatArray
    failed: BoolArray
    equations: FoldEquations
    alphas: FloatArray
    _complement: Complement
    _A: FloatArray
    _rhs: FloatArray
    _solver: _Solver

    @property
    def first(self) -> IntArray:
        """The smallest penalty with a model, if there is one (1,)."""
        return np.flatnonzero(~self.failed)[:1]

    def probes(self, which: IntArray) -> FloatArray:
        """Return random models (b, p, N_PROBES) as large as the errors, over the std of y."""
        equations, complement = self.equations, self._complement
        probes = np.empty((which.size, len(equations.A), N_PROBES))
        columns = evenly_spaced(equations.std.size, SOME_TARGETS)
        std, targets = equations.std[columns], equations.targets[columns]
        lengths = equations.lengths[:, None]
        entries = complement.project(lengths * noise(len(lengths)))
        for i, a in enumerate(which.tolist()):
            theta = self.theta[a][:, columns]
            t = complement.project(theta)
            left = self._rhs[:, columns] - self._A @ t - self.alphas[a] * t
            size = float(((np.linalg.norm(lengths * theta, axis=0) + targets) / std).max())
            sides = np.abs(left / std).max(axis=1)[:, None] * noise(len(t))[::-1]
            sides += EPS * size * entries
            probes[i] = complement.lift(self._solver.solve(sides, which[i : i + 1])[0])
        return CAUTION * probes

    def errors(
        self, predict: Callable[[FloatArray], FloatArray], known: FloatArray | None = None
    ) -> FloatArray:
        """Return estimated errors (a,) from what test rows make of the probes.

        Parameters
        ----------
        predict : callable
            From probes (b, p, N_PROBES) to their predictions (b, rows, N_PROBES).
        known : ndarray of shape (rows, N_PROBES) or None
            What it returns for those of `first`, if that is there already.
        """
        errors = np.full(self.alphas.size, np.inf)
        if self.first.size:
            usable = ~self.failed
            errors[usable] = worst(
                predict(self.probes(self.first)) if known is None else known[None]
            )
            if not errors[usable].max() <= PROMISE:
                errors[usable] = worst(predict(self.probes(np.flatnonzero(usable))))
        return errors


def worst(probed: FloatArray) -> FloatArray:
    """Return the largest size (b,) of predictions (b, rows, c) by probes; inf for nan."""
    largest = np.abs(probed).max(axis=(1, 2), initial=0.0)
    return np.where(np.isfinite(largest), largest, np.inf)


class _Reduction:
    """One tridiagonal reduction for all penalties."""

    def __init__(self, A: FloatArray, alphas: FloatArray) -> None:
        self._reduced, self._alphas = Tridiagonal.reduce(A), alphas
        self.definite = np.arange(alphas.size) >= self._reduced.definite_from(alphas)

    def solve(self, sides: FloatArray, which: IntArray) -> FloatArray:
        return self._reduced.solve(sides, self._alphas[which])


class _OneByOne:
    """A Cholesky factor for each penalty."""

    def __init__(self, A: FloatArray, alphas: FloatArray) -> None:
        self._factors: dict[int, FloatArray] = {}
        for a, alpha in enumerate(alphas.tolist()):
            R = triangle(A, alpha)
            if R is not None:
                self._factors[a] = R
        self.definite = np.array([a in self._factors for a in range(alphas.size)])

    def solve(self, sides: FloatArray, which: IntArray) -> FloatArray:
        solved = np.empty((which.size, *sides.shape))
        for x, a in zip(solved, which.tolist(), strict=True):
            x[...] = cho_solve((self._factors[a], False), sides, check_finite=False)
        return solved


class _Spectrum:
    """A kernel matrix whose rounding errors are larger than the penalty."""

    def __init__(self, A: FloatArray, alphas: FloatArray) -> None:
        Lambda, self._V = eigh(A)
        require_semidefinite(Lambda)
        self._D = 1.0 / (np.maximum(Lambda, 0.0) + alphas[:, None])
        self.definite = np.ones(alphas.size, dtype=bool)

    def solve(self, sides: FloatArray, which: IntArray) -> FloatArray:
        return np.asarray(self._V @ (self._D[which][:, :, None] * (self._V.T @ sides)))


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
