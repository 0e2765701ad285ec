"""The definition of ``reference.retrain`` in ball arithmetic (FLINT), and hard problems for it.

Entries of K, X, y, the weights, the penalties and the jitter are float64 numbers, taken as exact.
Every number after that is a ball that is sure to contain the true one. Where a ball is too wide to
tell the answer, it is computed again with twice the bits. A system serves all penalties of a
held-out set.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.optimize
from numpy.typing import ArrayLike, NDArray

from reference.retrain import as_columns, as_rows, as_weights, remaining_basis, training_rows

flint = pytest.importorskip("flint", reason="needs python-flint")

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
Balls = Any  # flint.arb_mat, which has no types

#: Bits to begin with, and at most.
BITS, MOST_BITS = 192, 6144
#: Balls may be this wide, relative to the largest prediction.
WIDTH = 2.0**-60


class System(NamedTuple):
    """(base + alpha · penalty) a = right, and predictions rows · a."""

    base: Balls
    penalty: Balls
    right: Balls
    rows: Balls


def exact_retrain(
    K: ArrayLike,
    y: ArrayLike,
    held_out: ArrayLike,
    test: ArrayLike,
    alphas: ArrayLike,
    basis: ArrayLike | None = None,
    removed: ArrayLike = (),
    weights: ArrayLike | None = None,
    bias: bool = True,
    jitter: float = 0.0,
) -> Floats:
    """Return what ``reference.retrain.retrain`` approximates, correctly rounded to float64.

    Of shape (alphas, test rows, targets), or (test rows, targets) for one penalty.
    """
    K, Y = np.asarray(K, dtype=np.float64), as_columns(y)
    w = as_weights(weights, len(K))
    train, tested = training_rows(len(K), held_out, w), as_rows(test)

    def dense() -> System:
        n = len(train)
        base, penalty = np.zeros((n + bias, n + bias)), flint.arb_mat(n + bias, n + bias)
        base[:n, :n] = K[np.ix_(train, train)]
        base[:n, n:] = base[n:, :n] = 1.0
        for i, weight in enumerate(w[train].tolist()):
            penalty[i, i] = 1 / flint.arb(weight)
        right = np.vstack([Y[train], np.zeros((int(bias), Y.shape[1]))])
        return System(_balls(base), penalty, _balls(right), _output(K, tested, train, bias))

    def sparse() -> System:
        left = remaining_basis(basis, removed)  # type: ignore[arg-type]
        penalty = _balls(np.pad(K[np.ix_(left, left)], (0, int(bias))))
        for j in range(len(left)):
            penalty[j, j] += flint.arb(float(jitter))
        Z = _output(K, train, left, bias)
        return _normal(Z, Y[train], w[train], penalty, _output(K, tested, left, bias))

    return _solved(dense if basis is None else sparse, alphas)


def exact_features(
    X: Floats,
    y: ArrayLike,
    held_out: ArrayLike,
    test: ArrayLike,
    alphas: Floats,
    weights: Floats,
    bias: bool,
) -> Floats:
    """Return predictions (alphas, test rows, targets) of ridge regression on the columns of X."""
    Y, every = as_columns(y), np.arange(X.shape[1])
    train = training_rows(len(X), held_out, weights)

    def system() -> System:
        penalty = _balls(np.diag(np.append(np.ones(X.shape[1]), np.zeros(int(bias)))))
        Z, rows = (_output(X, some, every, bias) for some in (train, as_rows(test)))
        return _normal(Z, Y[train], weights[train], penalty, rows)

    return _solved(system, alphas)


def _balls(block: Floats) -> Balls:
    return flint.arb_mat(*block.shape, block.ravel().tolist())


def _output(K: Floats, rows: NDArray[np.int64], columns: NDArray[np.int64], bias: bool) -> Balls:
    return _balls(np.column_stack([K[np.ix_(rows, columns)], np.ones((len(rows), int(bias)))]))


def _normal(Z: Balls, Y: Floats, w: Floats, penalty: Balls, rows: Balls) -> System:
    """Return the normal equations Z'WZ + alpha · penalty."""
    weighted = Z.transpose() * _balls(np.diag(w))
    return System(weighted * Z, penalty, weighted * _balls(Y), rows)


def _solved(system: Callable[[], System], alphas: ArrayLike) -> Floats:
    """Return predictions (alphas, test rows, targets), with as many bits as that takes."""
    before, bits = flint.ctx.prec, BITS
    try:
        while True:
            flint.ctx.prec = bits
            made = system()
            found = [_at(made, float(alpha)) for alpha in np.ravel(alphas)]
            if all(certain for certain, _ in found):
                values = np.array([values for _, values in found])
                return values if np.ndim(alphas) else values[0]
            bits *= 2
            if bits > MOST_BITS:
                raise ArithmeticError(f"{MOST_BITS} bits are not enough: is the system singular?")
    finally:
        flint.ctx.prec = before


def _at(system: System, alpha: float) -> tuple[bool, Floats]:
    """Return predictions (test rows, targets) at one penalty, and whether their digits are sure."""
    base, penalty, right, rows = system
    try:
        predicted = rows * (base + penalty * flint.arb(alpha)).solve(right)
    except ZeroDivisionError:  # no ball that is sure to be free of zero
        return False, np.empty(0)
    entries = predicted.entries()
    largest = max((abs(entry.mid()) for entry in entries), default=flint.arb(0))
    certain = all(bool(entry.rad() <= WIDTH * largest) for entry in entries)
    values = np.array([float(entry.mid()) for entry in entries], dtype=np.float64)
    return certain, values.reshape(predicted.nrows(), predicted.ncols())


def relative_error(computed: ArrayLike, exact: ArrayLike) -> float:
    """Return max |computed - exact| / max |exact|."""
    reference = np.asarray(exact, dtype=np.float64)
    return float(np.max(np.abs(np.asarray(computed) - reference)) / np.max(np.abs(reference)))


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
