"""Several kernels against himalaya's random search: `python -m benchmarks.bands [--docs]`.

1,000 rows, three bands of columns, ten penalties. Both get the rows, the same draws and the same
folds, choose weights and penalty for each target, and fit the models chosen. They run in turn, and
the fastest of `ROUNDS` counts, divided by the number of draws. Bands of 400 columns have more
columns than rows in all: a dense model. Those of 60 columns are fitted in their columns here, and
by kernel matrices there.

`--many` is leave-run-out with 10,000 targets (1,200 rows, 8 runs, 20 draws): its time and memory,
of ours alone. With --docs the tables go into docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import KFold, LeaveOneGroupOut

from holdfast import KernelMixtureCV
from holdfast.kernels import Linear, OnColumns

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
BEGIN, END = "<!-- bands{}: begin -->", "<!-- bands{}: end -->"
ROUNDS, DRAWS, BANDS = 3, 10, 3
ALPHAS = np.logspace(0, 5, 10)
#: How much each band matters.
SHARES = (1.0, 0.5, 0.1)


@dataclass(frozen=True)
class Job:
    """Rows of several bands, their targets and what to compare.

    Attributes
    ----------
    width : int
        Columns of a band.
    targets, folds, rows, draws : int
    """

    width: int
    targets: int
    folds: int
    rows: int = 1000
    draws: int = DRAWS

    def data(self) -> tuple[np.ndarray, np.ndarray]:
        """Return X and Y."""
        rng = np.random.default_rng(0)
        X = rng.normal(size=(self.rows, BANDS * self.width))
        effects = np.repeat(SHARES, self.width)[:, None] * rng.normal(
            size=(BANDS * self.width, self.targets)
        )
        Y = X @ effects / np.sqrt(self.width) + 0.5 * rng.normal(size=(self.rows, self.targets))
        return X, Y - Y.mean(axis=0)

    def weights(self) -> np.ndarray:
        """Return the draws."""
        return np.random.default_rng(1).dirichlet(np.ones(BANDS), size=self.draws)


def ours(job: Job, X: np.ndarray, Y: np.ndarray, **more: Any) -> KernelMixtureCV:
    """Return the fitted model; with `more`, other options or groups."""
    bands = [OnColumns(Linear(), range(b * job.width, (b + 1) * job.width)) for b in range(BANDS)]
    groups = more.pop("groups", None)
    options = {
        "draws": job.weights(),
        "normalise": False,
        "alphas": ALPHAS,
        "cv": KFold(job.folds),
        "fit_intercept": False,
        "weights_per_target": True,
        "alpha_per_target": True,
        "pooled": False,
    }
    return KernelMixtureCV(bands, **{**options, **more}).fit(X, Y, groups=groups)


def theirs(job: Job, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Return the best score of each target."""
    from himalaya.kernel_ridge import solve_multiple_kernel_ridge_random_search as search

    parts = np.split(X, BANDS, axis=1)
    found = search(
        np.stack([part @ part.T for part in parts]),
        Y,
        n_iter=job.weights(),
        alphas=ALPHAS,
        cv=KFold(job.folds),
        return_weights="dual",
        progress_bar=False,
    )
    return np.asarray(found[2].max(axis=0))


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return seconds and the result."""
    start = time.perf_counter()
    found = work()
    return time.perf_counter() - start, found


def measured(job: Job, rounds: int) -> tuple[float, float, float]:
    """Return seconds per draw of theirs and ours, and how much better our score is, relatively."""
    X, Y = job.data()
    best, scores = [np.inf, np.inf], [np.nan, np.nan]
    for _ in range(rounds):
        seconds, found = timed(lambda: theirs(job, X, Y))
        best[0], scores[0] = min(best[0], seconds), float(found.mean())
        seconds, model = timed(lambda: ours(job, X, Y))
        best[1], scores[1] = min(best[1], seconds), float(np.mean(model.best_score_))
    gap = (scores[1] - scores[0]) / abs(scores[0])
    return best[0] / job.draws, best[1] / job.draws, gap


def many(job: Job, runs: int) -> str:
    """Return a line on leave-run-out with very many targets."""
    X, Y = job.data()
    groups = np.arange(job.rows) * runs // job.rows
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds, model = timed(lambda: ours(job, X, Y, cv=LeaveOneGroupOut(), groups=groups))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return (
        f"| {job.rows:,} × {BANDS * job.width:,} | {runs} | {job.targets:,} | {job.draws} | "
        f"{seconds:.0f} s | {peak / 1e3:,.0f} MB ({before / 1e3:,.0f} MB before the fit, "
        f"{Y.nbytes / 1e6:,.0f} MB of targets) | {len(model.models_)} |"
    )


def write(lines: list[str], which: str = "") -> None:
    """Put a table into the documentation."""
    threads = os.environ.get("OPENBLAS_NUM_THREADS", "all")
    lines = [*lines, "", f"BLAS threads: {threads}; cores: {os.cpu_count()}."]
    page, begin = PAGE.read_text("utf-8"), BEGIN.format(which)
    start, end = page.index(begin) + len(begin), page.index(END.format(which))
    PAGE.write_text(page[:start] + "\n" + "\n".join(lines) + "\n" + page[end:], "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--docs", action="store_true", help="write the tables into the docs")
    parser.add_argument("--smoke", action="store_true", help="tiny, to see that it runs")
    parser.add_argument("--many", action="store_true", help="10,000 targets by runs")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    if asked.many:
        lines = [
            "| rows × columns | runs | targets | draws | time | peak memory | models |",
            "|---|---|---|---|---|---|---|",
        ]
        for width in (20,) if asked.smoke else (60, 400):
            job = Job(width, 200, 8, 64, 3) if asked.smoke else Job(width, 10_000, 8, 1200, 20)
            lines.append(many(job, 8))
            print(lines[-1], flush=True)
        if asked.docs:
            write(lines, " many")
        return
    if find_spec("himalaya") is None:
        parser.error("himalaya is not installed")
    lines = [
        "| columns of a band | targets | folds | himalaya, per draw | holdfast, per draw | ratio | "
        "better score |",
        "|---|---|---|---|---|---|---|",
    ]
    for width in (5, 40) if asked.smoke else (400, 60):
        for targets in (1, 5) if asked.smoke else (1, 100, 1000):
            for folds in (5, 10):
                job = Job(width, targets, folds, *((60, 3) if asked.smoke else ()))
                slow, fast, gap = measured(job, 1 if asked.smoke else ROUNDS)
                lines.append(
                    f"| {width} | {targets:,} | {folds} | {slow:.3f} s | {fast:.3f} s | "
                    f"{slow / fast:.1f} | {gap:.0e} |"
                )
                print(lines[-1], flush=True)
    if asked.docs:
        write(lines)


if __name__ == "__main__":
    main()
