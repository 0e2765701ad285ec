"""Held-out rows by explicit matrices: the smoother, I − S on some rows, and real retraining.

A model of features in coordinates where its Gram matrix is diagonal, U'U = diag(Lambda), with the
penalty alpha on the coordinates that ``penalised`` marks, under the constraint O'beta = 0:

    M = D - D O (O'DO)^-1 O'D,    D = 1 / (Lambda + alpha penalised),    S = U M U'
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]


class Problem(NamedTuple):
    """Rows in spectral coordinates, and b sets of h held-out rows, t test rows, e constraints."""

    U: Floats  # (m, p)
    y: Floats  # (m, v)
    Lambda: Floats  # (p,)
    penalised: Floats  # (p,)
    alphas: Floats  # (a,)
    H: Rows  # (b, h)
    T: Rows  # (b, t)
    O: Floats  # (b, p, e)  # noqa: E741

    @property
    def D(self) -> Floats:
        """Return the diagonals (a, p)."""
        return 1.0 / (self.Lambda + self.alphas[:, None] * self.penalised)

    def M(self, a: int, b: int) -> Floats:
        """Return what takes z to the coefficients of all rows under the constraints of a set."""
        D, O = np.diag(self.D[a]), self.O[b]  # noqa: E741
        if not O.shape[1]:
            return D
        return D - D @ O @ np.linalg.inv(O.T @ D @ O) @ O.T @ D

    def S(self, a: int, b: int) -> Floats:
        """Return the smoother of all rows (m, m) under the constraints of a set."""
        return self.U @ self.M(a, b) @ self.U.T


def problem(
    m: int,
    p: int,
    b: int,
    h: int,
    e: int,
    v: int,
    alphas: list[float] | Floats,
    seed: int,
    bias: bool = False,
    t: int = 2,
) -> Problem:
    """Return a random problem; with a bias the last of the p coordinates carries no penalty."""
    rng = np.random.default_rng(seed)
    U = rng.standard_normal((m, p - bias)) * np.geomspace(1.0, 1e-2, p - bias)
    if bias:
        U -= U.mean(axis=0)
    Lambda, V = np.linalg.eigh(U.T @ U)
    U, penalised = U @ V, np.ones(p)
    if bias:
        U = np.hstack([U, np.full((m, 1), m**-0.5)])
        Lambda, penalised[-1] = np.append(Lambda, 1.0), 0.0
    H = np.array([rng.choice(m, h, replace=False) for _ in range(b)], dtype=np.int64)
    H = H.reshape(b, h)
    T = rng.integers(0, m, size=(b, t))
    O = np.empty((b, p, e))  # noqa: E741
    for j in range(b):
        O[j] = np.linalg.qr(rng.standard_normal((p, e)))[0]
    y = rng.standard_normal((m, v))
    return Problem(U, y, Lambda, penalised, np.asarray(alphas, dtype=float), H, T, O)


def errors(given: Problem) -> Floats:
    """Return y − Sy on the held-out rows, (a, b, h, v)."""
    return _each(given, lambda a, b: (given.y - given.S(a, b) @ given.y)[given.H[b]])


def residuals(given: Problem, right: Floats) -> Floats:
    """Return (I − S_HH)^-1 right (a, b, h, v) by an inverse of each matrix."""
    eye = np.eye(given.H.shape[1])

    def one(a: int, b: int) -> Floats:
        S = given.S(a, b)[np.ix_(given.H[b], given.H[b])]
        return np.asarray(np.linalg.solve(eye - S, right[a, b]))

    return _each(given, one)


def coefficients(given: Problem) -> Floats:
    """Return the models (a, b, p, v) that are trained without the held-out rows.

    Stacked least squares on the null space of the constraints: no hold-out identity.
    """

    def one(a: int, b: int) -> Floats:
        left = np.delete(np.arange(len(given.U)), given.H[b])
        Z = scipy.linalg.null_space(given.O[b].T) if given.O.shape[2] else np.eye(len(given.Lambda))
        penalty = np.sqrt(given.alphas[a] * given.penalised)[:, None] * Z
        stacked = np.vstack([given.U[left] @ Z, penalty])
        right = np.vstack([given.y[left], np.zeros((len(penalty), given.y.shape[1]))])
        return np.asarray(Z @ np.linalg.lstsq(stacked, right, rcond=None)[0])

    return _each(given, one)


def _each(given: Problem, one) -> Floats:  # type: ignore[no-untyped-def]
    """Return ``one(a, b)`` for all penalties and sets, stacked."""
    rows = [[one(a, b) for b in range(len(given.H))] for a in range(len(given.alphas))]
    return np.array(rows)
