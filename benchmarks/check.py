"""What the check of every fit costs: fits with and without it, turn by turn.

    python -m benchmarks.check                # one BLAS thread
    python -m benchmarks.check --threads 2
    python -m benchmarks.check --smoke        # tiny, to see that it runs

Times are CPU time for one thread and wall time for more, the fastest of several rounds; in each
round the same model is fitted with and without the check. The check itself is timed inside the fit
as well: on a busy machine the difference of two fits says little. "Share" is the check over the fit
without it.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from sklearn.model_selection import GroupKFold
from threadpoolctl import threadpool_limits

from holdfast import KernelRidgeCV
from holdfast.estimators import search

DENSE = (100, 300, 500, 1000, 2000)
SPARSE = ((5000, 500), (20000, 400))
ALPHAS = np.logspace(-4, 3, 30)
FEATURES = 10


def rows(m: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(m)
    X = rng.normal(size=(m, FEATURES))
    return X, np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=m)


def cases(smoke: bool) -> Iterator[tuple[str, str, int, dict[str, Any], np.ndarray | None]]:
    """Yield (model, held out, rows, arguments, groups)."""
    for m in (40,) if smoke else DENSE:
        for name, cv in (("one row", None), ("5 folds", 5)):
            yield f"dense {m:,}", name, m, {"cv": cv}, None
    for m, n in ((80, 10),) if smoke else SPARSE:
        groups = np.arange(m) // 40
        of_groups = GroupKFold(m // 40)
        for name, cv in (("one row", None), ("10 folds", 10), ("groups of 40", of_groups)):
            yield f"sparse {m:,} × {n}", name, m, {"cv": cv, "basis": n}, groups


def fastest(
    calls: list[Callable[[], object]], clock: Callable[[], float], least: float
) -> np.ndarray:
    """Return the fastest time of each call, in turns until each had its seconds."""
    best, spent = np.full(len(calls), np.inf), 0.0
    done = 0
    while spent < least * len(calls) or done < 5:
        for i in range(len(calls)):
            call = (i + done) % len(calls)
            start = clock()
            calls[call]()
            took = clock() - start
            best[call], spent = min(best[call], took), spent + took
        done += 1
    return best


class Stopwatch:
    """The fastest time of a function, wherever it is called."""

    def __init__(self, function: Callable[..., Any], clock: Callable[[], float]) -> None:
        self.function, self.clock, self.best = function, clock, np.inf

    def __call__(self, *arguments: Any) -> Any:
        start = self.clock()
        result = self.function(*arguments)
        self.best = min(self.best, self.clock() - start)
        return result


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--threads", type=int, default=1, help="BLAS threads")
    parser.add_argument("--seconds", type=float, default=4.0, help="for each way to fit")
    parser.add_argument("--only", default="", help="models whose name begins with this")
    parser.add_argument("--smoke", action="store_true", help="tiny problems")
    arguments = parser.parse_args()
    least = 0.0 if arguments.smoke else arguments.seconds
    clock = time.process_time if arguments.threads == 1 else time.perf_counter
    print("| model | held out | fit without, ms | with, ms | the check, ms | share |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    plain = search.train_again
    with threadpool_limits(arguments.threads), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for model, held_out, m, asked, groups in cases(arguments.smoke):
            if not model.startswith(arguments.only):
                continue
            X, y = rows(m)
            ways = [
                KernelRidgeCV(gamma=0.05, alphas=ALPHAS, random_state=0, check=check, **asked)
                for check in (False, True)
            ]
            fits = [partial(way.fit, X, y, groups=groups) for way in ways]
            watch = search.train_again = Stopwatch(plain, clock)
            without, with_it = fastest(fits, clock, least)
            times = f"{1e3 * without:.1f} | {1e3 * with_it:.1f} | {1e3 * watch.best:.2f}"
            print(f"| {model} | {held_out} | {times} | {watch.best / without:.1%} |", flush=True)


if __name__ == "__main__":
    main()
