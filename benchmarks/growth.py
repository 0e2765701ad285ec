"""How time grows with rows, basis rows, targets, groups and penalties.

`python -m benchmarks.growth` prints the table; `benchmarks.speed` puts it on its page. One quantity
grows in steps of a quarter with the others fixed. All sizes are timed in interleaved rounds, CPU
time on one thread, and the fastest round counts. Told are the times of both ends, the power that
they grow with over the upper half of the range, and the largest ratio between neighbours, up or
down: past 3 it would be a cliff.
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

from benchmarks.report import markdown_table
from holdfast import KernelRidgeCV
from holdfast.exceptions import HoldfastWarning

Floats = NDArray[np.float64]
STEP = 1.25
HEADER = ("what grows", "from, to", "CPU seconds", "power", "largest step")


def power(x: Sequence[float], seconds: Sequence[float]) -> float:
    """Return the power that times grow with, over the upper half of the range."""
    half = len(x) // 2
    return float(np.polyfit(np.log(x[half:]), np.log(seconds[half:]), 1)[0])


def largest_step(seconds: Sequence[float]) -> float:
    """Return the largest ratio of neighbouring times, up or down."""
    return float(np.exp(np.abs(np.diff(np.log(seconds))).max()))


def fastest(jobs: Sequence[Callable[[], Any]], rounds: int) -> list[float]:
    """Return the least CPU seconds of each job, in interleaved rounds after one to warm up."""
    least = np.full(len(jobs), np.inf)
    for number in range(rounds + 1):
        for j, job in enumerate(jobs):
            start = time.process_time()
            job()
            if number:
                least[j] = min(least[j], time.process_time() - start)
    return [float(value) for value in least]


def _fit(m: int, v: int = 1, groups: int = 0, a: int = 10, **options: Any) -> Callable[[], Any]:
    """Return a fit to be timed: m rows, v targets, a penalties, and groups if there are any."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((m, 20))
    Y = np.sin(X[:, :1]) + X[:, 1:2] + rng.standard_normal((m, v))
    labels = np.arange(m) % groups if groups else None
    cv = LeaveOneGroupOut() if groups else None
    alphas = np.logspace(-2, 2, a) if a > 1 else [1.0]
    model = KernelRidgeCV(alphas=alphas, **{"gamma": 0.05, "cv": cv, "random_state": 0, **options})
    return partial(model.fit, X, Y if v > 1 else Y[:, 0], groups=labels)


def cases(scale: float) -> dict[str, tuple[list[int], Callable[[int], Callable[[], Any]]]]:
    """Return what grows, its sizes, and the job of each size."""

    def sizes(first: int, last: int) -> list[int]:
        count = int(np.log(last / first) / np.log(STEP)) + 1
        found = np.geomspace(
            max(2, scale * first), max(8, scale * last), max(4, int(count * scale))
        )
        return np.unique(found.astype(int)).tolist()

    def of(count: int) -> int:
        return max(8, int(count * scale))

    m, rows, n = of(1_000), of(8_000), of(200)
    return {
        "rows, dense, leave-one-out": (sizes(200, 1_600), _fit),
        "rows, dense, 5 folds": (sizes(200, 1_600), lambda k: _fit(k, cv=5)),
        "rows, 200 basis rows, leave-one-out": (sizes(1_000, 16_000), lambda k: _fit(k, basis=n)),
        "rows, 200 basis rows, 10 folds": (
            sizes(1_000, 16_000),
            lambda k: _fit(k, basis=n, cv=10),
        ),
        "basis rows, 8,000 rows": (sizes(25, 800), lambda k: _fit(rows, basis=k)),
        "targets, dense, 500 rows": (sizes(4, 512), lambda k: _fit(of(500), k)),
        "targets, 200 basis rows, 8,000 rows": (sizes(4, 128), lambda k: _fit(rows, k, basis=n)),
        "groups, dense, 1,000 rows": (sizes(8, 500), lambda k: _fit(m, groups=k)),
        "groups, 200 basis rows, 8,000 rows": (
            sizes(8, 2_000),
            lambda k: _fit(rows, groups=k, basis=n),
        ),
        "penalties, dense, 500 rows": (sizes(2, 200), lambda k: _fit(of(500), a=k)),
        "columns, ridge, 8,000 rows, 10 folds": (sizes(10, 400), lambda k: _ridge(rows, k)),
    }


def _ridge(m: int, d: int) -> Callable[[], Any]:
    """Return a fit of linear ridge on d columns in ten folds."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((m, d))
    model = KernelRidgeCV("linear", alphas=np.logspace(-2, 2, 10), cv=10)
    return partial(model.fit, X, X[:, 0] + rng.standard_normal(m))


def measure(scale: float, rounds: int, tell: Callable[[str], None] = print) -> list[dict[str, Any]]:
    """Return sizes, times, power and largest step of each case, ready for JSON."""
    found = []
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", HoldfastWarning)
        for name, (x, job) in cases(scale).items():
            seconds = fastest([job(size) for size in x], rounds)
            entry = {"name": name, "sizes": x, "seconds": seconds}
            entry |= {"power": power(x, seconds), "step": largest_step(seconds)}
            found.append(entry)
            tell(" | ".join(line(entry)))
    return found


def line(entry: dict[str, Any]) -> tuple[str, ...]:
    """Return one line of the table."""
    x, seconds = entry["sizes"], entry["seconds"]
    return (
        entry["name"],
        f"{x[0]:,}, {x[-1]:,}",
        f"{seconds[0]:.3g}, {seconds[-1]:.3g}",
        f"{entry['power']:.2f}",
        f"{entry['step']:.2f} ×",
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    command = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    command.add_argument("--rounds", type=int, default=3)
    command.add_argument("--scale", type=float, default=1.0, help="of all sizes")
    asked = command.parse_args(argv)
    found = measure(asked.scale, asked.rounds, lambda text: None)
    print(markdown_table([HEADER, *map(line, found)]))


if __name__ == "__main__":
    main()
