"""Families of problems that cost digits: every one is something that people's data do.

A problem is small (exact arithmetic judges it) and hard in one way. Features are the columns of X
under a linear kernel, or kernel values with basis rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Rng = np.random.Generator


@dataclass(frozen=True, eq=False)
class Problem:
    """One problem.

    Attributes
    ----------
    family, seed : what it is, and how to make it again
    X, y : rows and targets
    kernel : what `KernelRidgeCV` takes
    alphas : penalties
    sets : held-out sets
    basis : basis rows, or None
    policy, weights, bias : as the estimator has them
    """

    family: str
    seed: int
    X: Floats
    y: Floats
    alphas: Floats
    sets: list[NDArray[np.int64]]
    kernel: dict[str, Any] = field(default_factory=lambda: {"kernel": "linear"})
    basis: NDArray[np.int64] | None = None
    policy: str = "remove"
    weights: Floats | None = None
    bias: bool = True

    @property
    def is_dense(self) -> bool:
        """Whether every row is a basis row."""
        return self.basis is None and self.kernel["kernel"] != "linear"

    @property
    def row_weights(self) -> Floats:
        """The weights, ones where there are none."""
        return np.ones(len(self.X)) if self.weights is None else self.weights


FAMILIES: dict[str, Callable[[Rng], dict[str, Any]]] = {}


def family(make: Callable[[Rng], dict[str, Any]]) -> Callable[[Rng], dict[str, Any]]:
    FAMILIES[make.__name__] = make
    return make


def grid(rng: Rng, low: float = -12, high: float = 12) -> Floats:
    """Return six penalties over up to 24 decades."""
    return np.sort(10.0 ** rng.uniform(low, high, 6))


def sets_of(rng: Rng, m: int) -> list[NDArray[np.int64]]:
    """Return single rows, a fold, a group and an overlapping set."""
    order = rng.permutation(m)
    sizes = [1, 1, 1, 1, max(2, m // 5), max(2, m // 3)]
    starts = rng.integers(0, m, len(sizes))
    return [
        np.sort(np.take(order, np.arange(s, s + k), mode="wrap"))
        for s, k in zip(starts, sizes, strict=True)
    ]


def targets(rng: Rng, X: Floats, noise: float = 0.1) -> Floats:
    scaled = X / np.maximum(np.abs(X).max(axis=0), 1e-300)
    return scaled @ rng.normal(size=X.shape[1]) + noise * rng.normal(size=len(X))


def linear(rng: Rng, X: Floats, **more: Any) -> dict[str, Any]:
    made = {"X": X, "y": targets(rng, X), "alphas": grid(rng, -8, 6), "sets": sets_of(rng, len(X))}
    return {**made, **more}


@family
def units(rng: Rng) -> dict[str, Any]:
    """Columns in units 1 … 1e12."""
    m, d = int(rng.integers(18, 34)), int(rng.integers(2, 7))
    return linear(rng, rng.normal(size=(m, d)) * 10.0 ** rng.uniform(0, 12, d))


@family
def small_and_large_units(rng: Rng) -> dict[str, Any]:
    m, d = int(rng.integers(18, 34)), int(rng.integers(2, 7))
    return linear(rng, rng.normal(size=(m, d)) * 10.0 ** rng.uniform(-6, 12, d))


@family
def time_stamps(rng: Rng) -> dict[str, Any]:
    m = int(rng.integers(20, 34))
    stamp = 1.7e9 + 10.0 ** rng.uniform(4, 8) * rng.normal(size=m)
    return linear(rng, np.c_[rng.normal(size=(m, 3)), stamp])


@family
def correlated_units(rng: Rng) -> dict[str, Any]:
    m, d = 30, 5
    X = rng.normal(size=(m, d)) @ (np.eye(d) + 0.99 * np.ones((d, d)))
    return linear(rng, X * 10.0 ** rng.uniform(0, 9, d))


@family
def rare_columns(rng: Rng) -> dict[str, Any]:
    """Columns that are non-zero in one or two rows."""
    m = int(rng.integers(18, 30))
    X = np.c_[rng.normal(size=(m, 3)), np.zeros((m, 3))]
    for j in range(3, 6):
        rows = rng.choice(m, int(rng.integers(1, 3)), replace=False)
        X[rows, j] = 10.0 ** rng.uniform(-2, 4) * rng.choice([-1, 1], rows.size)
    made = linear(rng, X)
    made["sets"] += [np.flatnonzero(X[:, j]) for j in range(3, 6)]
    return made


@family
def leverage(rng: Rng) -> dict[str, Any]:
    """One row of leverage 1 − 10^−k, k = 1 … 14."""
    m, k = 24, rng.uniform(1, 14)
    X = rng.normal(size=(m, 3))
    X[0] = 10.0 ** (k / 2) * np.sqrt(m) * rng.normal(size=3)
    made = linear(rng, X)
    made["sets"] += [np.array([0]), np.array([0, 1, 2])]
    return made


@family
def wild_weights(rng: Rng) -> dict[str, Any]:
    m = 26
    made = linear(rng, rng.normal(size=(m, 4)))
    weights = 10.0 ** rng.uniform(-6, 6, m)
    weights[rng.choice(m, 3, replace=False)] = 0.0
    return {**made, "weights": weights}


@family
def offsets(rng: Rng) -> dict[str, Any]:
    """Columns far from zero; targets too, in one problem of four.

    (Targets around 1e8 hide every error of a model that is good to eight digits.)
    """
    offset = 10.0 ** rng.uniform(2, 8) * rng.choice([-1.0, 1.0], 4)
    made = linear(rng, offset + rng.normal(size=(26, 4)))
    centred = made["X"] - offset
    y = centred @ rng.normal(size=4) + 0.1 * rng.normal(size=26)
    return {**made, "y": y + (1e8 if rng.random() < 0.25 else 0.0)}


@family
def duplicates(rng: Rng) -> dict[str, Any]:
    X = np.repeat(rng.normal(size=(9, 3)), 3, axis=0)
    X = np.c_[X, X[:, :1]]
    return linear(rng, X)


@family
def target_sizes(rng: Rng) -> dict[str, Any]:
    made = linear(rng, rng.normal(size=(24, 4)))
    y, size = made["y"], 10.0 ** rng.uniform(-70, 70)
    return {**made, "y": y * size}


@family
def wide_penalties(rng: Rng) -> dict[str, Any]:
    m, d = 26, 4
    return linear(rng, rng.normal(size=(m, d)) * 10.0 ** rng.uniform(-2, 2, d), alphas=grid(rng))


def sparse(rng: Rng, X: Floats, kernel: dict[str, Any], n: int, **more: Any) -> dict[str, Any]:
    m = len(X)
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=m)
    policy = str(rng.choice(["remove", "keep", "train"]))
    basis = rng.choice(m, n, replace=False)
    made = {"X": X, "y": y, "alphas": grid(rng, -8, 4), "sets": sets_of(rng, m)}
    return {**made, "kernel": kernel, "basis": basis, "policy": policy, **more}


@family
def smooth_kernel(rng: Rng) -> dict[str, Any]:
    gamma = 10.0 ** rng.uniform(-2, 1)
    return sparse(rng, rng.normal(size=(30, 3)), {"kernel": "rbf", "gamma": gamma}, 12)


@family
def cubic_with_outlier(rng: Rng) -> dict[str, Any]:
    X = rng.normal(size=(30, 2))
    X[3] *= 10.0 ** rng.uniform(0, 2)
    made = sparse(rng, X, {"kernel": "poly", "degree": 3, "gamma": 0.5}, 8)
    made["sets"] += [np.array([3]), np.array([3, 4, 5])]
    return {**made, "y": X[:, 0] / np.abs(X[:, 0]).max() + 0.1 * rng.normal(size=30)}


@family
def duplicate_basis(rng: Rng) -> dict[str, Any]:
    X = rng.normal(size=(28, 2))
    X[14:18] = X[:4] + 1e-7 * rng.normal(size=(4, 2))
    made = sparse(rng, X, {"kernel": "rbf", "gamma": 0.5}, 10)
    return {**made, "basis": np.array([0, 1, 2, 3, 14, 15, 20, 21, 22, 23])}


@family
def sparse_wild_weights(rng: Rng) -> dict[str, Any]:
    made = sparse(rng, rng.normal(size=(28, 2)), {"kernel": "rbf", "gamma": 0.5}, 8)
    return {**made, "weights": 10.0 ** rng.uniform(-6, 6, 28)}


@family
def dense_kernel(rng: Rng) -> dict[str, Any]:
    X = rng.normal(size=(16, 2)) * 10.0 ** rng.uniform(-1, 1)
    made = sparse(rng, X, {"kernel": "rbf", "gamma": 10.0 ** rng.uniform(-2, 1)}, 4)
    return {**made, "basis": None, "policy": "remove"}


@family
def dense_outlier(rng: Rng) -> dict[str, Any]:
    X = rng.normal(size=(16, 2))
    X[2] *= 10.0 ** rng.uniform(0, 2)
    made = sparse(rng, X, {"kernel": "poly", "degree": 3, "gamma": 0.5}, 4)
    made["sets"] += [np.array([2])]
    y = X[:, 0] / np.abs(X[:, 0]).max() + 0.1 * rng.normal(size=16)
    return {**made, "basis": None, "policy": "remove", "y": y}


def folds_of(rng: Rng, m: int) -> list[NDArray[np.int64]]:
    """Return disjoint sets of all rows: folds of one size, or groups of very different sizes."""
    k = int(rng.integers(2, 7))
    label = np.arange(m) % k if rng.random() < 0.5 else rng.integers(0, k, m)
    label = rng.permutation(label)
    return [np.flatnonzero(label == j) for j in np.unique(label)]


@family
def folds(rng: Rng) -> dict[str, Any]:
    """Disjoint folds or groups, columns in units 1 … 1e9; half of the problems have weights."""
    m, d = int(rng.integers(24, 40)), int(rng.integers(2, 6))
    made = linear(rng, rng.normal(size=(m, d)) * 10.0 ** rng.uniform(0, 9, d))
    weights = 10.0 ** rng.uniform(-3, 3, m) if rng.random() < 0.5 else None
    return {**made, "sets": folds_of(rng, m), "weights": weights}


@family
def sparse_folds(rng: Rng) -> dict[str, Any]:
    m = int(rng.integers(24, 40))
    made = sparse(
        rng, rng.normal(size=(m, 2)), {"kernel": "rbf", "gamma": 10.0 ** rng.uniform(-2, 1)}, 9
    )
    sets = folds_of(rng, m)
    if any(np.isin(made["basis"], rows).all() for rows in sets):  # nothing would be left
        made["policy"] = "keep"
    return {**made, "sets": sets}


@family
def dense_folds(rng: Rng) -> dict[str, Any]:
    m = int(rng.integers(14, 22))
    kernel = {"kernel": "rbf", "gamma": 10.0 ** rng.uniform(-2, 1)}
    made = sparse(rng, rng.normal(size=(m, 2)), kernel, 4)
    return {**made, "basis": None, "policy": "remove", "sets": folds_of(rng, m)}


@family
def every_row(rng: Rng) -> dict[str, Any]:
    """Leave-one-out of a sparse model, one row far away."""
    X = rng.normal(size=(20, 2))
    X[5] *= 10.0 ** rng.uniform(0, 2)
    made = sparse(rng, X, {"kernel": "rbf", "gamma": 10.0 ** rng.uniform(-3, 1)}, 7)
    return {**made, "sets": [np.array([i]) for i in range(20)]}


@family
def several_targets(rng: Rng) -> dict[str, Any]:
    """Three targets of very different sizes, each judged by itself: linear, sparse or dense."""
    X = rng.normal(size=(20, 3))
    kernel = {"kernel": "rbf", "gamma": 10.0 ** rng.uniform(-2, 0)}
    kind = int(rng.integers(0, 3))
    made = linear(rng, X * [1.0, 1e3, 1e6]) if kind == 0 else sparse(rng, X, kernel, 8)
    if kind == 2:
        made |= {"basis": None, "policy": "remove"}
    others = rng.normal(size=(20, 2)) + rng.normal(size=2)
    return {**made, "y": np.c_[made["y"], others] * 10.0 ** rng.uniform(-8, 8, 3)}


@family
def sparse_wide_penalties(rng: Rng) -> dict[str, Any]:
    kernel = {"kernel": "rbf", "gamma": 10.0 ** rng.uniform(-1, 1)}
    return {**sparse(rng, rng.normal(size=(26, 2)), kernel, 8), "alphas": grid(rng)}


@family
def dense_wide_penalties(rng: Rng) -> dict[str, Any]:
    kernel = {"kernel": "rbf", "gamma": 10.0 ** rng.uniform(-1, 1)}
    made = sparse(rng, rng.normal(size=(16, 2)), kernel, 4)
    return {**made, "basis": None, "policy": "remove", "alphas": grid(rng)}


@family
def dense_wild_weights(rng: Rng) -> dict[str, Any]:
    kernel = {"kernel": "rbf", "gamma": 10.0 ** rng.uniform(-1, 1)}
    made = sparse(rng, rng.normal(size=(16, 2)), kernel, 4)
    half = rng.uniform(0, 6)
    weights = 10.0 ** rng.uniform(-half, half, 16)
    if rng.random() < 0.3:
        weights[rng.choice(16, 2, replace=False)] = 0.0
    return {**made, "basis": None, "policy": "remove", "weights": weights}


@family
def dense_duplicates(rng: Rng) -> dict[str, Any]:
    """A singular kernel matrix: rows twice, or nearly."""
    X = rng.normal(size=(16, 2))
    X[8:12] = X[:4] + rng.choice([0.0, 1e-7]) * rng.normal(size=(4, 2))
    made = sparse(rng, X, {"kernel": "rbf", "gamma": 10.0 ** rng.uniform(-1, 1)}, 4)
    made["sets"] += [np.array([0, 8]), np.array([1])]
    return {**made, "basis": None, "policy": "remove"}


@family
def more_columns_than_rows(rng: Rng) -> dict[str, Any]:
    """A linear kernel as a dense model, columns in units 1 … 1e3."""
    m, d = 14, int(rng.integers(15, 24))
    return linear(rng, rng.normal(size=(m, d)) * 10.0 ** rng.uniform(0, 3 * rng.random(), d))


def problem(name: str, seed: int) -> Problem:
    """Return the problem of a family with this seed."""
    rng = np.random.default_rng([seed, sum(map(ord, name))])
    made = FAMILIES[name](rng)
    bias = bool(rng.random() < 0.7) or name in ("time_stamps", "offsets")
    return Problem(family=name, seed=seed, bias=bias, **made)
