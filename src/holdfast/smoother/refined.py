"""The model without some rows from its own optimality conditions, for the price of a pass.

An approximate solution is improved until the conditions hold, summed over the training rows
themselves. However rough the factor behind it, a solution that has settled is right: a second
opinion on a fast path that is far cheaper than training from scratch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dgetrf, dgetrs, dpotrf, dpotrs

from holdfast._typing import BoolArray, FloatArray, IntArray
from holdfast.linalg import solve_small, submatrix
from holdfast.smoother.factor import KernelFactor
from holdfast.smoother.factorise import remainder
from holdfast.smoother.rows import RowBlocks, gram_and_rhs
from holdfast.smoother.scale import RowScale, Unpenalised
from holdfast.smoother.system import FeatureSystem, penalty_mask

__all__ = ["FeatureProblem", "KernelProblem"]

#: From what is left of the optimality conditions to a change of the model that takes it away.
Correction = Callable[[FloatArray], FloatArray]

#: A model has settled when predictions change by less than this share of their size; …
SETTLED = 1e-9
#: … after this many passes over the rows it is given up.
PASSES = 4
#: Held-out rows are taken out of the factor of all rows if they are at most this share of p.
FEW = 0.25


def bordered(solve: Correction, C: FloatArray, corner: FloatArray | None = None) -> Correction:
    """Return the solution x of A x + Cᵀμ = b, C x = corner μ, given A⁻¹.

    Parameters
    ----------
    solve : callable
        A⁻¹ applied to columns.
    C : ndarray of shape (c, p)
    corner : ndarray of shape (c,), optional
        0 for a constraint; −1 for a row that leaves the sum A. Without it, all are constraints.

    Raises
    ------
    LinAlgError
        If the small system is singular to the last digit.
    """
    if not len(C):
        return solve
    X = solve(C.T)
    small = C @ X
    if corner is not None:
        small.flat[:: len(C) + 1] += corner
    multipliers = lu_solver(small)

    def corrected(b: FloatArray) -> FloatArray:
        y = solve(b)
        return np.asarray(y - X @ multipliers(C @ y))

    return corrected


def lu_solver(A: FloatArray) -> Correction:
    """Return A⁻¹ applied to columns; the symmetric A is overwritten.

    Raises
    ------
    LinAlgError
        If A is singular to the last digit.
    """
    if A.size == 1 and A[0, 0] != 0.0:  # one row that is held out alone
        return lambda b: np.asarray(b / A[0, 0])
    factor, pivots, info = dgetrf(A.T, overwrite_a=1)  # A.T: no copy
    if info:
        raise np.linalg.LinAlgError("singular")
    return lambda b: np.asarray(dgetrs(factor, pivots, b)[0])


def cholesky_solver(A: FloatArray) -> Correction:
    """Return A⁻¹ applied to columns; A is overwritten.

    Raises
    ------
    LinAlgError
        If A is not definite to its last digits.
    """
    factor, info = dpotrf(A.T, lower=1, overwrite_a=1, clean=0)  # A.T: no copy
    if info:
        raise np.linalg.LinAlgError("not definite")
    return lambda b: np.asarray(dpotrs(factor, b, lower=1)[0])


def settle(
    model: FloatArray,
    missing: Correction,
    correct: Correction,
    predict: Callable[[FloatArray], FloatArray],
    size: float,
) -> FloatArray:
    """Return what a model predicts after corrections (t, v), or NaN where they do not settle.

    Parameters
    ----------
    model : ndarray of shape (p, v)
        Where to start.
    missing : callable
        From a model to what is left of its optimality conditions: one pass over the rows.
    correct : callable
        From that to a change of the model.
    predict : callable
        From a model, or a change, to predictions (t, v): linear.
    size : float
        What a change of the predictions is compared with.
    """
    for _ in range(PASSES):
        change = correct(missing(model))
        model = model + change
        if np.abs(predict(change)).max() <= SETTLED * size:
            return predict(model)
    return np.full_like(predict(model), np.nan)


@dataclass(frozen=True)
class KernelProblem:
    """√wK√w c + αc + Qδ = √w y on the rows that are left; c is zero elsewhere, Qᵀc = 0.

    Attributes
    ----------
    K : ndarray of shape (m, m)
    Ys : ndarray of shape (m, v)
        √w y.
    alpha : float
    scale : RowScale
    unpenalised : Unpenalised
    held : ndarray of int
        The rows that are held out.
    """

    K: FloatArray
    Ys: FloatArray
    alpha: float
    scale: RowScale
    unpenalised: Unpenalised
    held: IntArray

    def predictions(self, test: IntArray, spectrum: KernelFactor | None, size: float) -> FloatArray:
        """Return f (t, v) on rows; a Cholesky factor stands in for a spectrum that is not there."""
        K, Ys, weighted, U = self.K, self.Ys, self.scale.times, self.unpenalised.U[test]
        Q = self.unpenalised.Q.copy()
        Q[self.held] = 0.0
        along = solve_small(Q.T @ Q, Q.T)  # (s, m): δ = along (√w y − √wK√w c − αc)
        out = weighted(K[test] - U @ (weighted(along) @ K)) - self.alpha * (U @ along)
        correct = self._by_cholesky(Q) if spectrum is None else self._by_spectrum(spectrum)

        def missing(c: FloatArray) -> FloatArray:
            return np.asarray(Ys - weighted(weighted(c.T) @ K).T - self.alpha * c)

        found = settle(correct(Ys), missing, correct, lambda c: np.asarray(out @ c), size)
        return U @ (along @ Ys) + found

    def _by_spectrum(self, spectrum: KernelFactor) -> Correction:
        """Return c = Vx from a right side, V_H x = 0."""
        V, rows, held = spectrum.eigenvectors, None, self.held
        D = spectrum.d(self.alpha)[: V.shape[1], None]
        if not self.scale.everything:
            rows = np.flatnonzero(self.scale.trained)
            held = np.searchsorted(rows, held)
        V_H = V[held]
        solve = bordered(lambda b: np.asarray(D * b), V_H)
        return self._on(rows, lambda b: np.asarray(V @ solve(V.T @ b)))

    def _by_cholesky(self, Q: FloatArray) -> Correction:
        """Return c from a right side, by a factor of the rows that are left."""
        left = self.scale.trained.copy()
        left[self.held] = False
        rows = np.flatnonzero(left)
        A = submatrix(self.K, rows, rows)
        if not self.scale.uniform:
            A *= self.scale.root[rows] * self.scale.root[rows, None]
        A[np.diag_indices_from(A)] += self.alpha
        return self._on(rows, bordered(cholesky_solver(A), Q[rows].T))

    def _on(self, rows: IntArray | None, solve: Correction) -> Correction:
        """Return c of all rows, zero where it must be; `solve` knows `rows`, or all of them."""

        def correct(b: FloatArray) -> FloatArray:
            if rows is None:
                c = solve(b)
            else:
                c = np.zeros_like(b)
                c[rows] = solve(b[rows])
            c[self.held] = 0.0
            return c

        return correct


@dataclass(frozen=True)
class FeatureProblem:
    """Wᵀ(√w y − Wθ) = α TᵀTθ over the rows that are left, and N_E θ = 0.

    T takes features to the coordinates of the system; it is orthogonal up to rounding errors.

    Attributes
    ----------
    system : FeatureSystem
        Of all rows, which are kept.
    Ys : ndarray of shape (m, v)
        √w y.
    alpha : float
    trained : ndarray of bool, shape (m,)
    held, removed, columns : ndarray of int
        Rows held out, positions in the basis that leave it, and which targets.
    """

    system: FeatureSystem
    Ys: FloatArray
    alpha: float
    trained: BoolArray
    held: IntArray
    removed: IntArray
    columns: IntArray

    def predictions(self, rows: FloatArray, size: float) -> FloatArray:
        """Return f (t, v) on rows (t, p + s), before the map T."""
        system, p, T = self.system, self.system.p, self.system.T
        Ys, left = self.Ys[:, self.columns], self.trained.copy()
        left[self.held] = False
        correct, rhs = self._factored()

        def mapped(theta: FloatArray) -> FloatArray:
            return theta[:p] if T is None else np.asarray(T @ theta[:p])

        def missing(theta: FloatArray) -> FloatArray:
            found, penalty = remainder(system.W, theta, Ys, left), mapped(theta)
            found[:p] -= self.alpha * (penalty if T is None else T.T @ penalty)
            return found

        def predict(theta: FloatArray) -> FloatArray:
            return np.asarray(rows[:, :p] @ mapped(theta) + rows[:, p:] @ theta[p:])

        return settle(correct(rhs), missing, correct, predict, size)

    def _factored(self) -> tuple[Correction, FloatArray]:
        """Return how WᵀW + αI is solved without rows and basis rows, and its right side."""
        system, held, columns = self.system, self.held, self.columns
        shift, z = self.alpha * penalty_mask(*system.B.shape[::-1]), system.z[:, columns]
        N_E = system.N[self.removed]
        N_E = N_E / np.linalg.norm(N_E, axis=1, keepdims=True)
        Y_H = self.Ys[held][:, columns]
        if system.diagonal and held.size + len(N_E) <= FEW * len(shift):
            W_H, D = np.asarray(system.W[held]), 1.0 / (system.gram + shift)[:, None]
            corner = np.repeat([-1.0, 0.0], [held.size, len(N_E)])
            C = np.vstack([W_H, N_E])
            return bordered(lambda b: np.asarray(D * b), C, corner), z - W_H.T @ Y_H
        known = None if system.sets is None else system.sets.find(held)
        if known is None:
            gram, z_H = gram_and_rhs(RowBlocks(system.W, held, once=True), Y_H)
        else:
            gram, z_H = known[0], known[1][:, columns]
        A = system.whole_gram - gram
        A[np.diag_indices_from(A)] += shift
        return bordered(cholesky_solver(A), N_E), z - z_H
