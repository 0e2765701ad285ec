"""What every way to compute a problem is compared with: the exact answer, and retraining by QR."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast import KernelRidgeCV
from reference.oracle import exact_features, exact_retrain
from reference.retrain import as_columns, as_rows, policy_experiment, retrain, training_rows
from torture.families import Problem

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Truth:
    """The exact predictions of a problem and those of retraining by QR.

    Attributes
    ----------
    exact : ndarray of shape (alphas, test rows, targets)
    mean, spread : ndarray of shape (targets,)
        Of the targets that have weight.
    retrain : callable
        From an order of the rows to predictions by QR. The same method on the same numbers: how
        far such predictions lie from each other is what rounding errors happen to make of them.
    """

    exact: Floats
    retrain: Callable[[Rows], Floats]
    mean: Floats
    spread: Floats

    def error(self, values: Floats) -> Floats:
        """Return the largest error (alphas, targets) of values (…, alphas, test rows, targets).

        Relative to the spread of the targets, or to how far a prediction lies from their mean.
        """
        size = np.maximum(self.spread, np.abs(self.exact - self.mean))
        errors = (np.abs(values - self.exact) / size).max(axis=-2)
        return np.asarray(errors.reshape(-1, *errors.shape[-2:]).max(axis=0))

    def qr_error(self, m: int, orders: int = 1) -> Floats:
        """Return the error of QR, the largest over some orders of the m rows: first as they are."""
        shuffled = [np.random.default_rng(k).permutation(m) for k in range(1, orders)]
        return self.error(np.stack([self.retrain(order) for order in [np.arange(m), *shuffled]]))


def truth(p: Problem, model: KernelRidgeCV, tests: Sequence[Rows] | None = None) -> Truth:
    """Return what the problem is judged by; the fitted model gives kernel values and the jitter.

    `tests` are the rows that each set is tested on, if these are not its own.
    """
    sets = list(zip(p.sets, p.sets if tests is None else tests, strict=True))
    if p.kernel["kernel"] == "linear":
        more = (p.alphas, p.row_weights, p.bias)
        exact = [exact_features(p.X, p.y, held, test, *more) for held, test in sets]

        def retrain(order: Rows) -> Floats:
            parts = [qr_features(p.X, p.y, held, test, *more, order) for held, test in sets]
            return np.concatenate(parts, axis=1)

        return Truth(np.concatenate(exact, axis=1), retrain, *yardstick(p))
    K = np.asarray(model.kernel_(p.X))
    experiments = [policy_experiment(held, test, p.basis, p.policy) for held, test in sets]  # type: ignore[arg-type]
    return of_models(
        p, K, [(held, test, p.basis, removed, model.jitter_) for held, test, removed in experiments]
    )


def yardstick(p: Problem) -> tuple[Floats, Floats]:
    """Return the mean and the spread of the targets that have weight."""
    y = as_columns(p.y)[p.row_weights > 0]
    spread = y.std(axis=0)
    return y.mean(axis=0), np.where(spread > 0.0, spread, np.abs(y).max(axis=0))


def of_models(
    p: Problem, K: Floats, experiments: Sequence[tuple[Rows, Rows, Rows | None, Rows, float]]
) -> Truth:
    """Return the truth of kernel models: rows held out and tested, basis, removed rows, jitter."""
    exact = [
        exact_models(K, p.y, held, test, p.alphas, basis, removed, p.row_weights, p.bias, jitter)
        for held, test, basis, removed, jitter in experiments
    ]

    def retrain(order: Rows) -> Floats:
        place, Y = np.argsort(order), as_columns(p.y)[order]
        shuffled = not np.array_equal(order, np.arange(len(order)))
        parts = []
        for held, test, basis, removed, jitter in experiments:
            inside = None if basis is None else place[basis]
            if inside is not None and shuffled:  # basis rows come in the order of the rows
                inside = np.sort(inside)
            more = (inside, place[removed], p.row_weights[order], p.bias, jitter)
            K_here = K[np.ix_(order, order)]
            parts.append(qr_models(K_here, Y, place[held], place[test], p.alphas, *more))
        return np.concatenate(parts, axis=1)

    return Truth(np.concatenate(exact, axis=1), retrain, *yardstick(p))


def exact_models(
    K: Floats, y: Floats, held: Rows, test: Rows, alphas: Floats, basis: Rows | None, removed: Rows,
    weights: Floats, bias: bool, jitter: float,
) -> Floats:  # fmt: skip
    """Return predictions (alphas, test rows, targets) of a kernel model, correctly rounded."""
    jitter = jitter if basis is not None else 0.0
    return exact_retrain(K, y, held, test, alphas, basis, removed, weights, bias, jitter)


def qr_models(
    K: Floats, y: Floats, held: Rows, test: Rows, alphas: Floats, *more: object
) -> Floats:
    """Return the same by QR of the augmented system, dense of the bordered one."""
    return np.array(
        [retrain(K, y, held, test, float(alpha), *more) for alpha in alphas]  # type: ignore[arg-type]
    )


def qr_features(
    X: Floats,
    y: Floats,
    held: Rows,
    test: Rows,
    alphas: Floats,
    weights: Floats,
    bias: bool,
    order: Rows,
) -> Floats:
    """Return the same by QR of the augmented system, features and targets centred first."""
    train, Y, d = training_rows(len(X), held, weights), as_columns(y), X.shape[1]
    train = order[np.isin(order, train)]
    w = weights[train]
    mean, level = np.zeros(d), np.zeros(Y.shape[1])
    if bias:
        mean, level = w @ X[train] / w.sum(), w @ Y[train] / w.sum()
    root = np.sqrt(w)[:, None]
    rows = np.hstack([root * (X[train] - mean), *([root] if bias else [])])
    A = np.zeros((len(alphas), len(train) + d, d + int(bias)))
    A[:, : len(train)] = rows
    A[:, len(train) + np.arange(d), np.arange(d)] = np.sqrt(alphas)[:, None]
    b = np.vstack([root * (Y[train] - level), np.zeros((d, Y.shape[1]))])
    Q, R = np.linalg.qr(A)
    theta = np.linalg.solve(R, Q.swapaxes(1, 2) @ b)
    Z = np.hstack([X[as_rows(test)] - mean, np.ones((len(test), int(bias)))])
    return np.asarray(Z @ theta + level)
