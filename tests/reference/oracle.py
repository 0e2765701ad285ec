"""The definition of ``reference.retrain`` in high-precision arithmetic, and hard problems for it.

Entries of K, y, the weights, alpha and the jitter are float64 numbers and taken as exact;
every sum, product and solution after that carries ``digits`` decimal digits. The answer is
rounded to float64 once, at the end. Raw normal equations are good enough here: with 50 digits
a system of condition 1e20 keeps 30.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mpmath
import numpy as np
import scipy.optimize
from numpy.typing import ArrayLike, NDArray

from reference.retrain import as_columns, as_rows, as_weights, remaining_basis, training_rows

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
Vector = list[Any]  # of mpmath.mpf, which has no types
Matrix = list[Vector]


def exact_retrain(
    K: ArrayLike,
    y: ArrayLike,
    held_out: ArrayLike,
    test: ArrayLike,
    alpha: float,
    basis: ArrayLike | None = None,
    removed: ArrayLike = (),
    weights: ArrayLike | None = None,
    bias: bool = True,
    jitter: float = 0.0,
    digits: int = 50,
) -> Floats:
    """Return what ``reference.retrain.retrain`` approximates, correctly rounded to float64.

    Notes
    -----
    Arguments as there. Cost: one system of order n + 1 with a basis, of order m + 1 without, in
    software arithmetic: about 0.02 s for m = 40, n = 15, 0.15 s dense.
    """
    K = np.asarray(K, dtype=np.float64)
    w = as_weights(weights, len(K))
    train = training_rows(len(K), held_out, w)
    tested = as_rows(test)
    if bias and not len(train):
        raise ValueError("no training row of positive weight is left, so the bias is undefined")
    with mpmath.workdps(digits):
        Y = _exact(as_columns(y)[train].T)  # one row per target
        w_T = [mpmath.mpf(float(v)) for v in w[train]]
        lam = mpmath.mpf(float(alpha))
        if basis is None:
            if len(as_rows(removed)) or jitter:
                raise ValueError("removed and jitter belong to a model with a basis")
            columns = train
            A, rhs = _dense_system(_exact(K[np.ix_(train, train)]), Y, w_T, lam, bias)
        else:
            columns = remaining_basis(basis, removed)
            K_LL = _exact(K[np.ix_(columns, columns)])
            for j in range(len(columns)):
                K_LL[j][j] += mpmath.mpf(float(jitter))
            A, rhs = _sparse_system(_exact(K[np.ix_(train, columns)]), K_LL, Y, w_T, lam, bias)
        coefficients = _solve(A, rhs)
        Z = _exact(K[np.ix_(tested, columns)])
        if bias:
            Z = [[*row, mpmath.mpf(1)] for row in Z]
        predicted = [[float(mpmath.fdot(row, a)) for a in coefficients] for row in Z]
    return np.array(predicted, dtype=np.float64).reshape(len(tested), len(Y))


def relative_error(computed: ArrayLike, exact: ArrayLike) -> float:
    """Return max |computed - exact| / max |exact|."""
    reference = np.asarray(exact, dtype=np.float64)
    return float(np.max(np.abs(np.asarray(computed) - reference)) / np.max(np.abs(reference)))


def _exact(block: Floats) -> Matrix:
    return [[mpmath.mpf(float(v)) for v in row] for row in block]


def _sparse_system(
    K_TL: Matrix, K_LL: Matrix, Y: Matrix, w: Vector, lam: Any, bias: bool
) -> tuple[Matrix, Matrix]:
    """Return the normal equations of the definition, bias last, and their right-hand sides."""
    Z = [[*row, mpmath.mpf(1)] for row in K_TL] if bias else K_TL
    n = len(K_LL)
    p = n + bias
    weighted = [[w_i * z for z in row] for w_i, row in zip(w, Z, strict=True)]
    A = [[mpmath.mpf(0)] * p for _ in range(p)]
    for r in range(p):
        for c in range(r + 1):
            A[r][c] = A[c][r] = mpmath.fdot(
                (row[r], other[c]) for row, other in zip(weighted, Z, strict=True)
            )
            if r < n:  # never the bias
                A[r][c] = A[c][r] = A[r][c] + lam * K_LL[r][c]
    rhs = [
        [mpmath.fdot((row[r], y_i) for row, y_i in zip(weighted, y, strict=True)) for r in range(p)]
        for y in Y
    ]
    return A, rhs


def _dense_system(
    K_TT: Matrix, Y: Matrix, w: Vector, lam: Any, bias: bool
) -> tuple[Matrix, Matrix]:
    """Return the bordered system [K + alpha W^-1, 1; 1', 0] and its right-hand sides."""
    A = [row + [mpmath.mpf(1)] * bias for row in K_TT]
    for i, w_i in enumerate(w):
        A[i][i] += lam / w_i
    if bias:
        A.append([mpmath.mpf(1)] * len(w) + [mpmath.mpf(0)])
    return A, [y + [mpmath.mpf(0)] * bias for y in Y]


def _solve(A: Matrix, rhs: Matrix) -> Matrix:
    """Return the solution of A a = r for each right-hand side r (each a row of ``rhs``).

    Notes
    -----
    Gaussian elimination with partial pivoting, all right-hand sides at once: several times as
    fast as ``mpmath.lu_solve``, which indexes its matrices through dictionaries.
    """
    n = len(A)
    rows = [[*row, *(r[i] for r in rhs)] for i, row in enumerate(A)]
    for k in range(n):
        pivot = max(range(k, n), key=lambda i: abs(rows[i][k]))
        rows[k], rows[pivot] = rows[pivot], rows[k]
        for i in range(k + 1, n):
            factor = rows[i][k] / rows[k][k]
            rows[i][k:] = [x - factor * y for x, y in zip(rows[i][k:], rows[k][k:], strict=True)]
    solutions = []
    for column in range(n, n + len(rhs)):
        a: Vector = [mpmath.mpf(0)] * n
        for k in reversed(range(n)):
            known = mpmath.fdot(zip(rows[k][k + 1 : n], a[k + 1 :], strict=True))
            a[k] = (rows[k][column] - known) / rows[k][k]
        solutions.append(a)
    return solutions


@dataclass(frozen=True)
class Problem:
    """A small problem whose basis block has a prescribed condition number.

    Attributes
    ----------
    K : (m, m)
        RBF kernel matrix.
    y : (m, targets)
        Labels: smooth functions of the rows, plus noise.
    basis, held_out : row indices
        Basis rows, and a held-out set with some of them in it.
    gamma : float
        The width that gives the condition number.
    condition : float
        The condition number of K_BB that was reached.
    """

    K: Floats
    y: Floats
    basis: Rows
    held_out: Rows
    gamma: float
    condition: float


def conditioned_problem(
    condition: float,
    n_rows: int = 40,
    n_basis: int = 15,
    n_held_out: int = 10,
    n_held_out_basis: int = 3,
    n_targets: int = 2,
    seed: int = 0,
) -> Problem:
    """Return a problem with cond(K_BB) close to ``condition``, which is from 1e3 to 1e14.

    Notes
    -----
    The rows lie in the plane and the width of the RBF kernel is found by root finding: the wider
    the kernel, the worse the condition. No jitter is added.
    """
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, size=(n_rows, 2))
    basis = rng.permutation(n_rows)[:n_basis]
    others = np.setdiff1d(np.arange(n_rows), basis)
    held_out = np.concatenate(
        [basis[:n_held_out_basis], rng.permutation(others)[: n_held_out - n_held_out_basis]]
    )
    squared = np.sum((X[:, None, :] - X[None, :, :]) ** 2, axis=2)

    def excess(log_gamma: float) -> float:
        K_BB = np.exp(-np.exp(log_gamma) * squared[np.ix_(basis, basis)])
        return float(np.log(np.linalg.cond(K_BB)) - np.log(condition))

    gamma = float(np.exp(scipy.optimize.brentq(excess, np.log(1e-4), np.log(1e3), xtol=1e-6)))
    K = np.exp(-gamma * squared)
    frequencies = rng.normal(size=(2, n_targets))
    y = np.sin(2.0 * X @ frequencies) + 0.1 * rng.normal(size=(n_rows, n_targets))
    reached = float(np.linalg.cond(K[np.ix_(basis, basis)]))
    return Problem(K, y, basis, rng.permutation(held_out), gamma, reached)
