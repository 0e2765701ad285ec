"""How time grows with rows, basis rows, targets and groups: `python -m benchmarks.growth`.

Each quantity is doubled a few times with the others fixed, everything is timed in interleaved
rounds, and the fastest round counts. Printed are the times, the power that they grow with over the
upper half of the range, and the largest jump between neighbours beyond what that power explains.
Linear ridge in folds stands beside the k-fold theorem of Liland, Skogholt and Indahl (2024), in a
few lines of our own: one singular value decomposition serves all folds and penalties.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import LeaveOneGroupOut
from threadpoolctl import threadpool_limits

from holdfast import KernelRidgeCV
from holdfast.exceptions import HoldfastWarning

Floats = NDArray[np.float64]
ALPHAS = np.logspace(-2, 2, 10)
THEOREM = "k-fold theorem (Liland et al.)"


def kfold_theorem(
    X: Floats, Y: Floats, folds: Sequence[NDArray[np.int64]], alphas: Sequence[float] | Floats
) -> Floats:
    """Return held-out predictions of ridge regression with a bias, (alphas, m, targets).

    Notes
    -----
    With the centred X = U s Vᵀ the hat matrix is 11ᵀ/m + U D Uᵀ, D = s²/(s² + λ), and the residuals
    of a fold H are (I − S_HH)⁻¹ e_H.
    """
    m, level = len(X), Y.mean(axis=0)
    U, s, _ = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    inside = U.T @ (Y - level)
    found = np.empty((len(alphas), *Y.shape))
    for a, alpha in enumerate(alphas):
        shrink = s**2 / (s**2 + alpha)
        errors = Y - level - U @ (shrink[:, None] * inside)
        for fold in folds:
            S = 1.0 / m + (U[fold] * shrink) @ U[fold].T
            residuals = np.linalg.solve(np.eye(len(fold)) - S, errors[fold])
            found[a, fold] = Y[fold] - residuals
    return found


def power(x: Sequence[float], seconds: Sequence[float]) -> float:
    """Return the power that times grow with, over the upper half of the range."""
    half = len(x) // 2
    return float(np.polyfit(np.log(x[half:]), np.log(seconds[half:]), 1)[0])


def fastest(jobs: Sequence[Callable[[], Any]], rounds: int) -> list[float]:
    """Return the least seconds of each job, timed in interleaved rounds after one to warm up."""
    least = np.full(len(jobs), np.inf)
    for number in range(rounds + 1):
        for j, job in enumerate(jobs):
            start = time.perf_counter()
            job()
            if number:
                least[j] = min(least[j], time.perf_counter() - start)
    return [float(value) for value in least]


def _data(m: int, targets: int = 1) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((m, 20))
    Y = np.sin(X[:, :1]) + X[:, 1:2] + rng.standard_normal((m, targets))
    return X, Y


def _fit(m: int, targets: int = 1, n_groups: int = 0, **options: Any) -> Callable[[], Any]:
    """Return a fit to be timed."""
    X, Y = _data(m, targets)
    groups = np.arange(m) % n_groups if n_groups else None
    cv = LeaveOneGroupOut() if n_groups else None
    model = KernelRidgeCV(alphas=ALPHAS, **{"gamma": 0.05, "cv": cv, "random_state": 0, **options})
    return partial(model.fit, X, Y, groups=groups)


def _theorem(m: int) -> Callable[[], Any]:
    X, Y = _data(m)
    return partial(kfold_theorem, X, Y, np.array_split(np.arange(m), 10), ALPHAS)


def cases(scale: float) -> dict[str, tuple[list[int], Callable[[int], Callable[[], Any]]]]:
    """Return what grows, its sizes, and the job of each size."""

    def sizes(first: int, count: int) -> list[int]:
        return [max(16, int(scale * first)) * 2**i for i in range(count)]

    m = max(64, int(2000 * scale))
    return {
        "rows, dense": (sizes(250, 4), _fit),
        "rows, 200 basis rows": (
            sizes(2000, 4),
            lambda rows: _fit(rows, basis=max(8, int(200 * scale))),
        ),
        "basis rows": (sizes(50, 4), lambda n: _fit(4 * m, basis=n)),
        "targets, dense": (sizes(16, 4), lambda v: _fit(m // 2, v)),
        "groups": (sizes(16, 4), lambda n: _fit(m, n_groups=n, basis=max(8, m // 10))),
        "rows, ridge in ten folds": (
            sizes(2000, 4),
            lambda rows: _fit(rows, kernel="linear", cv=10),
        ),
        f"rows, {THEOREM}": (sizes(2000, 4), _theorem),
    }


def table(scale: float, rounds: int) -> list[str]:
    """Return a Markdown table of times, powers and jumps."""
    lines = ["| what grows | seconds | power | largest jump |", "|---|---|---|---|"]
    for name, (x, job) in cases(scale).items():
        seconds = fastest([job(size) for size in x], rounds)
        exponent = power(x, seconds)
        steps = np.diff(np.log(seconds)) - exponent * np.diff(np.log(x))
        cells = ", ".join(f"{size}: {value:.3g}" for size, value in zip(x, seconds, strict=True))
        lines.append(f"| {name} | {cells} | {exponent:.2f} | {np.exp(steps.max()):.2f} × |")
    return lines


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    command = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    command.add_argument("--rounds", type=int, default=5)
    command.add_argument(
        "--scale", type=float, default=1.0, help="of all sizes; small to see it run"
    )
    arguments = command.parse_args(argv)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", HoldfastWarning)
        print("\n".join(table(arguments.scale, arguments.rounds)))


if __name__ == "__main__":
    main()
