"""Problems of 500 to 2,000 rows: every path beside the naive twin, which really trains again.

`python -m torture.large --problems 500` draws them. Exact arithmetic would take days at this size,
so the twin, by QR or in extended precision, stands for the truth. A problem is past if a path
differs from it, in silence, by more than 1e-6 of the spread plus ten times what the twin itself
changes by when rows come in another order.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
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


KINDS: dict[str, Callable[[Rng, Any], dict[str, Any]]] = {
    "dense": dense,
    "basis rows": on_basis_rows,
    "linear": in_columns,
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
    made = KINDS[kind](rng, X)
    scale = float(m * np.square(X).sum(axis=1).mean()) if kind == "linear" else float(m)
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


def judged(which: tuple[str, int]) -> tuple[str, int, dict[str, float], float]:
    """Return by how much each path misses in silence, and the largest error."""
    warnings.simplefilter("ignore")
    p = problem(*which)
    twin = answered(fitted(p, "refit"), p.alphas)[0][0]
    mean, spread = yardstick(p)
    size, errors, silent = np.maximum(spread, np.abs(twin - mean)), {}, {}
    for path in PATHS:
        values, rounding = map(np.stack, zip(*answered(fitted(p, path), p.alphas), strict=True))
        errors[path] = (np.abs(values - twin) / size).max(axis=(2, 3))
        silent[path] = rounding <= PROMISE
    misses = {path: float(errors[path][silent[path]].max(initial=0.0)) for path in PATHS}
    if max(misses.values()) > PROMISE:
        other, where = reordered(p)
        again = answered(fitted(other, "refit"), p.alphas)[0][0][:, where]
        own = TIMES * (np.abs(again - twin) / size).max(axis=(1, 2))
        for path in PATHS:
            misses[path] = float((errors[path] - own)[silent[path]].max(initial=0.0))
    return *which, misses, max(float(error.max()) for error in errors.values())


def main() -> int:
    """Draw problems, and say which are past."""
    parser = argparse.ArgumentParser(prog="torture.large", description=__doc__)
    parser.add_argument("--problems", type=int, default=30, help="problems in all")
    parser.add_argument("--seed", type=int, default=0, help="the first seed of each kind")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    asked = parser.parse_args()
    names, start = list(KINDS), time.monotonic()
    chosen = [(names[i % 3], asked.seed + i // 3) for i in range(asked.problems)]
    past, worst = 0, dict.fromkeys(names, 0.0)
    with ProcessPoolExecutor(asked.jobs, get_context("spawn")) as pool:
        for kind, seed, misses, error in pool.map(judged, chosen):
            worst[kind] = max(worst[kind], *misses.values())
            if not max(misses.values()) <= PROMISE:
                past += 1
                print(f"{kind} seed {seed}: error {error:.1e}, {misses}", flush=True)
    shown = ", ".join(f"{kind} {miss:.1e}" for kind, miss in worst.items())
    print(
        f"{len(chosen)} problems of 500 to 2,000 rows, seeds from {asked.seed}: {past} silent "
        f"misses; the largest: {shown}; {time.monotonic() - start:.0f} s"
    )
    return int(past > 0)


if __name__ == "__main__":
    sys.exit(main())
