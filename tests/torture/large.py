"""Problems of 500 to 2,000 rows: every path beside the naive twin, which really refits.

`python -m torture --family large_dense` (`large_basis`, `large_linear`) draws them. Exact
arithmetic would take days at this size, so refits by QR stand for the truth. A path misses by what
it differs from them, in silence, beyond ten times what they themselves change by when rows come in
another order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from torture.families import Problem, Rng, targets
from torture.measure import PROMISE, TIMES, answered, fitted
from torture.truth import yardstick

#: Paths that are compared with the twin.
PATHS = ("spectral", "per_fold", "cholesky")


def dense(rng: Rng, X: Any) -> dict[str, Any]:
    """All rows, under a smooth or a rough kernel."""
    name = str(rng.choice(["rbf", "matern32", "laplacian"]))
    return {"kernel": {"kernel": name, "gamma": 10.0 ** rng.uniform(-2, 0.5)}}


def on_basis_rows(rng: Rng, X: Any) -> dict[str, Any]:
    """Some basis rows, which leave with their rows or stay."""
    basis = np.sort(rng.choice(len(X), int(rng.integers(40, 160)), replace=False))
    return {
        "kernel": {"kernel": "rbf", "gamma": 10.0 ** rng.uniform(-2, 0.5)},
        "basis": basis,
        "policy": str(rng.choice(["remove", "keep"])),
    }


def in_columns(rng: Rng, X: Any) -> dict[str, Any]:
    """A linear model whose columns have different units."""
    X *= 10.0 ** rng.uniform(-3, 9 * rng.random(), X.shape[1])
    return {"kernel": {"kernel": "linear"}}


LARGE: dict[str, Callable[[Rng, Any], dict[str, Any]]] = {
    "large_dense": dense,
    "large_basis": on_basis_rows,
    "large_linear": in_columns,
}


def problem(kind: str, seed: int) -> Problem:
    """Return the problem of a kind with this seed."""
    rng = np.random.default_rng([seed, sum(map(ord, kind))])
    m = round(500 * 4 ** rng.random() ** 2)
    X = rng.normal(size=(m, int(rng.integers(2, 9))))
    if rng.random() < 0.3:  # rows that are there twice, or nearly
        X[: m // 10] = X[-(m // 10) :] + rng.choice([0.0, 1e-7]) * rng.normal(
            size=X[: m // 10].shape
        )
    y = targets(rng, X, 10.0 ** rng.uniform(-3, 0)) + np.sin(X[:, 0])
    made = LARGE[kind](rng, X)
    scale = float(m * np.square(X).sum(axis=1).mean()) if kind == "large_linear" else float(m)
    order = rng.permutation(m)
    return Problem(
        family=kind,
        seed=seed,
        X=X,
        y=y,
        alphas=np.sort(scale * 10.0 ** rng.uniform(-11, 0, 3)),
        sets=[np.sort(part) for part in np.split(order[: m // 5 + 22], [1, 2, 22])],
        weights=10.0 ** rng.uniform(-3, 3, m) if rng.random() < 0.3 else None,
        bias=bool(rng.random() < 0.7),
        **made,
    )


def reordered(p: Problem) -> tuple[Problem, Any]:
    """Return the same problem with rows and basis rows in another order, and where tests went."""
    order = np.random.default_rng(1).permutation(len(p.X))
    place = np.argsort(order)
    starts = np.cumsum([0, *(len(rows) for rows in p.sets)])
    ranks = [np.argsort(np.argsort(place[rows])) for rows in p.sets]
    made = replace(
        p,
        X=p.X[order],
        y=p.y[order],
        weights=None if p.weights is None else p.weights[order],
        basis=None if p.basis is None else np.sort(place[p.basis]),
        sets=[np.sort(place[rows]) for rows in p.sets],
    )
    return made, np.concatenate([start + rank for start, rank in zip(starts, ranks, strict=False)])


def misses(kind: str, seed: int) -> dict[str, float]:
    """Return by how much each path misses in silence."""
    p = problem(kind, seed)
    twin = answered(fitted(p, "refit"), p.alphas)[0][0]
    mean, spread = yardstick(p)
    size, errors, silent = np.maximum(spread, np.abs(twin - mean)), {}, {}
    for path in PATHS:
        values, rounding = map(np.stack, zip(*answered(fitted(p, path), p.alphas), strict=True))
        errors[path] = (np.abs(values - twin) / size).max(axis=(2, 3))
        silent[path] = rounding <= PROMISE
    found = {path: float(errors[path][silent[path]].max(initial=0.0)) for path in PATHS}
    if max(found.values()) > PROMISE:
        other, where = reordered(p)
        again = answered(fitted(other, "refit"), p.alphas)[0][0][:, where]
        own = TIMES * (np.abs(again - twin) / size).max(axis=(1, 2))
        for path in PATHS:
            found[path] = float((errors[path] - own)[silent[path]].max(initial=0.0))
    return found
