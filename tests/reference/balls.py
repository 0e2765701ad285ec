"""The definition of ``reference.retrain`` in ball arithmetic (FLINT): fast, every digit certified.

Entries of K, X, y, the weights, the penalties and the jitter are float64 numbers, taken as exact.
Every number after that is a ball that is sure to contain the true one. Where a ball is too wide to
tell the answer, it is computed again with twice the bits. A system serves all penalties of a
held-out set. The twin in ``reference.oracle`` has software arithmetic and is some forty times
slower.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import flint
import numpy as np
from numpy.typing import ArrayLike, NDArray

from reference.retrain import as_columns, as_rows, as_weights, remaining_basis, training_rows

Floats = NDArray[np.float64]
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
    alphas: Floats,
    basis: ArrayLike | None = None,
    removed: ArrayLike = (),
    weights: ArrayLike | None = None,
    bias: bool = True,
    jitter: float = 0.0,
) -> Floats:
    """Return what ``reference.retrain.retrain`` approximates, (alphas, test rows, targets)."""
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


def _solved(system: Callable[[], System], alphas: Floats) -> Floats:
    """Return predictions (alphas, test rows, targets), with as many bits as that takes."""
    before, bits = flint.ctx.prec, BITS
    try:
        while True:
            flint.ctx.prec = bits
            made = system()
            found = [_at(made, float(alpha)) for alpha in alphas]
            if all(certain for certain, _ in found):
                return np.array([values for _, values in found])
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
