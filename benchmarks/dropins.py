"""Drop-ins against scikit-learn's own functions: `python -m benchmarks.dropins [--docs] [--smoke]`.

Each job is one line of code with scikit-learn's function and the same line with ours. Both run
once to warm up, then in turn, and the fastest of `ROUNDS` counts. Where scikit-learn would take
minutes, it gets some of the splits and its time is extrapolated, marked "≈"; differences are then
those of these splits. With --docs the table goes into docs/model_selection.md.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import sklearn.model_selection as theirs
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold, LeaveOneGroupOut, LeaveOneOut
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import holdfast.model_selection as ours

PAGE = Path(__file__).parents[1] / "docs" / "model_selection.md"
BEGIN, END = "<!-- dropins: begin -->", "<!-- dropins: end -->"
ROUNDS = 3
#: Splits that scikit-learn gets where it would take minutes.
SOME = 8


@dataclass(frozen=True)
class Job:
    """One line of code.

    Attributes
    ----------
    name : str
        The line, in words.
    run : callable
        From the module, and how many splits (None: all), to the numbers that are compared.
    splits : int
        How many splits there are.
    extrapolated : bool
        Whether scikit-learn gets `SOME` of them.
    """

    name: str
    run: Callable[[Any, int | None], np.ndarray]
    splits: int = 1
    extrapolated: bool = False


def rows(m: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(m + d)
    X = rng.normal(size=(m, d)) * np.exp(rng.normal(size=d))
    return X, np.sin(X[:, 0]) + X[:, 1] + 0.5 * rng.normal(size=m)


def one_by_one(
    name: str,
    model: Any,
    X_and_y: tuple[np.ndarray, np.ndarray],
    cv: Any,
    parts: int = 0,
    *,
    extrapolated: bool = False,
) -> Job:
    """Return a job of `cross_val_predict`, whose first splits scikit-learn may get alone."""
    X, y = X_and_y
    groups = None if not parts else np.arange(len(y)) % parts
    splits = list(cv.split(X, y, groups))

    def run(module: Any, some: int | None) -> np.ndarray:
        if some is None:
            return np.asarray(module.cross_val_predict(model, X, y, cv=cv, groups=groups))
        found = np.full(len(y), np.nan)
        for train, test in splits[:some]:
            found[test] = model.fit(X[train], y[train]).predict(X[test])
        return found

    return Job(f"`cross_val_predict({name}", run, len(splits), extrapolated)


def jobs(small: float) -> list[Job]:
    """Return all jobs; `small` times the rows."""

    def count(m: int) -> int:
        return max(40, int(m * small))

    def permutations(module: Any, _: int | None) -> np.ndarray:
        X, y = rows(count(200), 10)
        number = 1000 if small == 1.0 else 20
        return np.asarray(module.permutation_test_score(Ridge(), X, y, n_permutations=number)[1])

    def search(module: Any, _: int | None) -> np.ndarray:
        X, y = rows(count(500), 8)
        grid = {"alpha": np.logspace(-4, 2, 30), "gamma": np.logspace(-3, 0, 6)}
        found = module.GridSearchCV(KernelRidge(kernel="rbf"), grid, refit=False).fit(X, y)
        return np.asarray(found.cv_results_["mean_test_score"])

    def few(model: Any) -> Callable[[Any, int | None], np.ndarray]:
        X, y = rows(100, 5)
        return lambda module, _: np.asarray(module.cross_val_score(model, X, y, cv=5))

    kernel = KernelRidge(kernel="rbf", gamma=0.1, alpha=0.1)
    process = GaussianProcessRegressor(RBF(2.0) + WhiteKernel(0.1), optimizer=None)
    scaled = make_pipeline(StandardScaler(), Ridge())
    m, n, k, wide = count(500), count(2000), count(1500), count(50000)
    loo, logo = LeaveOneOut(), LeaveOneGroupOut()
    name = "KernelRidge, cv=LeaveOneOut())`"
    grouped = f"GaussianProcessRegressor, cv=LeaveOneGroupOut())`, {k:,} rows, 100 groups"
    permuted = f"`permutation_test_score(Ridge, n_permutations=1000)`, {count(200)} rows"
    scaling = "StandardScaler + Ridge, cv"
    short = "`cross_val_score({}, cv=5)`, 100 rows"
    return [
        one_by_one(f"{name}, {m:,} rows", kernel, rows(m, 8), loo),
        one_by_one(f"{name}, {n:,} rows", kernel, rows(n, 8), loo, extrapolated=True),
        one_by_one(grouped, process, rows(k, 8), logo, min(100, k), extrapolated=True),
        one_by_one(f"KernelRidge, cv=5)`, {n:,} rows", kernel, rows(n, 8), KFold(5)),
        Job(permuted, permutations),
        Job(f"`GridSearchCV(KernelRidge)`, 30 × 6 candidates, 5 folds, {m:,} rows", search),
        one_by_one(f"{scaling}=10)`, {wide:,} × 200", scaled, rows(wide, 200), KFold(10)),
        one_by_one(
            f"{scaling}=LeaveOneOut())`, {n:,} × 30", scaled, rows(n, 30), loo, extrapolated=True
        ),
        Job(short.format("Ridge"), few(Ridge())),
        Job(short.format("KernelRidge"), few(kernel)),
        Job(short.format("StandardScaler + Ridge"), few(scaled)),
    ]


def measured(job: Job, rounds: int, short: int = 100) -> tuple[float, float, float]:
    """Return the seconds of scikit-learn and of ours, and the largest difference.

    Jobs of milliseconds get `short` rounds.
    """
    some = SOME if job.extrapolated else None
    best, found = [np.inf, np.inf], [np.empty(0), np.empty(0)]
    job.run(ours, None)
    for _ in range(short if job.name.endswith("100 rows") else rounds):
        for i, (module, part) in enumerate(((theirs, some), (ours, None))):
            start = time.perf_counter()
            found[i] = job.run(module, part)
            best[i] = min(best[i], time.perf_counter() - start)
    scale = job.splits / SOME if job.extrapolated else 1.0
    size = float(np.nanstd(found[1])) or 1.0
    return best[0] * scale, best[1], float(np.nanmax(np.abs(found[0] - found[1]))) / size


def told(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1e3 * seconds:.3g} ms"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--docs", action="store_true", help="write the table into the docs")
    parser.add_argument("--smoke", action="store_true", help="tiny, to see that it runs")
    asked = parser.parse_args()
    lines = [
        "| job | scikit-learn | holdfast | ratio | largest difference |",
        "|---|---|---|---|---|",
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for job in jobs(0.02 if asked.smoke else 1.0):
            slow, fast, gap = measured(job, 1 if asked.smoke else ROUNDS)
            about = "≈ " if job.extrapolated else ""
            ratio = f"{slow / fast:.3g}"
            lines.append(
                f"| {job.name} | {about}{told(slow)} | {told(fast)} | {ratio} | {gap:.0e} |"
            )
            print(lines[-1], flush=True)
    threads = os.environ.get("OPENBLAS_NUM_THREADS", "all")
    lines += [
        "",
        f"BLAS threads: {threads}; cores: {os.cpu_count()}; fastest of {ROUNDS} rounds, in turn.",
    ]
    if asked.docs:
        page = PAGE.read_text("utf-8")
        start, end = page.index(BEGIN) + len(BEGIN), page.index(END)
        PAGE.write_text(page[:start] + "\n" + "\n".join(lines) + "\n" + page[end:], "utf-8")


if __name__ == "__main__":
    main()
