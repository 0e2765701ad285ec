"""Three million flights on one machine: `python -m benchmarks.flights`.

The delay of 3,000,000 flights from 8 features (``flights_3m.npz`` in the folder named by
``HOLDFAST_DATA``), 1,000 basis rows, leave-one-out and 10-fold for 30 penalties. Wanted: within
4 GB of memory and within five times what a bare matrix product would take for the same
operations. Each split runs in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import report
from benchmarks.__main__ import RESULTS
from benchmarks.measure import dgemm_rate, environment, machine, peak_bytes, timed, versions
from holdfast import KernelRidgeCV
from holdfast.exceptions import HoldfastWarning

SPLITS: dict[str, int | None] = {"leave-one-out": None, "10-fold": 10}
MEMORY, RATIO = 4e9, 5.0


def load(rows: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Return standardised features and clipped delays in random order, all rows or some.

    The file is in order of time, and delays have a heavy tail: shuffled, contiguous folds are
    random ones; clipped at their 1st and 99th hundredth, a few flights do not decide everything.
    """
    folder = os.environ.get("HOLDFAST_DATA")
    if not folder:
        raise SystemExit("flights: set HOLDFAST_DATA to the folder that holds flights_3m.npz.")
    with np.load(Path(folder) / "flights_3m.npz", allow_pickle=False) as arrays:
        order = np.random.default_rng(0).permutation(len(arrays["y"]))[:rows]
        X = arrays["X"][order].astype(np.float64)
        y = arrays["y"][order].astype(np.float64)
    np.clip(y, *np.quantile(y, [0.01, 0.99]), out=y)
    X -= X.mean(axis=0)
    X /= np.maximum(X.std(axis=0), 1e-12)
    return X, y


def operations(split: str, m: int, n: int, d: int, a: int) -> float:
    """Return the floating-point operations that the method needs at least.

    Notes
    -----
    Kernel 2mnd (exponentials are not counted), whitening mn², Gram mn². Leave-one-out: an
    eigendecomposition 9n³, rotation 2mn², fits and leverages of all penalties 4mna. Folds: a
    tridiagonal reduction (4/3)n³ and vectors 4n²a for each, predictions 2mna. Rows that are
    streamed twice count once.
    """
    features = 2.0 * m * n * d + 2.0 * m * n**2
    if split == "leave-one-out":
        return features + 9.0 * n**3 + 2.0 * m * n**2 + 4.0 * m * n * a
    k = SPLITS[split] or m
    return features + k * (4 / 3 * n**3 + 4.0 * n**2 * a) + 2.0 * m * n * a


def measure(split: str, rows: int | None, n: int, a: int, limit: str) -> dict[str, Any]:
    """Fit once and return what it took; for a process of its own."""
    X, y = load(rows)
    m, d = X.shape
    model = KernelRidgeCV(
        "rbf",
        gamma=1.0 / d,
        alphas=np.logspace(-3, 4, a),
        basis=n,
        cv=SPLITS[split],
        memory_limit=limit,
        random_state=0,
    )
    warnings.simplefilter("ignore", HoldfastWarning)
    rate = dgemm_rate(n)
    timing = timed(lambda: model.fit(X, y))
    bare = operations(split, m, n, d, a) / rate
    held = {
        "peak_bytes": peak_bytes(),  # before verify(), which retrains two experiments
        "max_relative_error": model.verify(2).max_relative_error,
    }
    return {
        **held,
        "split": split,
        "m": m,
        "n": n,
        "alphas": a,
        "seconds": timing.seconds,
        "cpu_seconds": timing.cpu_seconds,
        "dgemm_gflops": rate / 1e9,
        "dgemm_seconds": bare,
        "ratio": timing.seconds / bare,
        "alpha": float(model.alpha_),
        "r2": 1.0 + float(model.best_score_) / float(np.var(y)),
        "plan": str(model.explain()),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run both splits."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, help="only so many rows, drawn at random")
    parser.add_argument("--basis", type=int, default=1_000)
    parser.add_argument("--alphas", type=int, default=30)
    parser.add_argument("--memory-limit", default="1GB", help="what feature rows may take")
    parser.add_argument("--split", choices=tuple(SPLITS), action="append")
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    splits = asked.split or list(SPLITS)
    if asked.here:
        found = measure(splits[0], asked.rows, asked.basis, asked.alphas, asked.memory_limit)
        print(json.dumps(found))
        return 0
    facts, runs = machine(), []
    for split in splits:
        command = [sys.executable, "-m", "benchmarks.flights", "--here", "--split", split]
        command += ["--basis", str(asked.basis), "--alphas", str(asked.alphas)]
        command += ["--memory-limit", asked.memory_limit]
        command += [] if asked.rows is None else ["--rows", str(asked.rows)]
        done = subprocess.run(
            command, check=True, stdout=subprocess.PIPE, text=True, env=environment()
        )
        runs.append(json.loads(done.stdout.splitlines()[-1]))
        print(describe(runs[-1]), flush=True)
    run = {"date": time.strftime("%Y-%m-%d"), "machine": facts, "versions": versions()}
    report.save({**run, "runs": runs}, asked.output / "flights.json")
    return 0


def describe(run: dict[str, Any]) -> str:
    """Return one line about a run."""
    return (
        f"{run['split']} × {run['alphas']} λ, m = {run['m']:,}, n = {run['n']:,}: "
        f"{run['seconds']:.1f} s, {run['ratio']:.2f}× the bare matrix product (wanted: at most "
        f"{RATIO:.0f}×), whole process at most {run['peak_bytes'] / 1e9:.2f} GB (wanted: at most "
        f"{MEMORY / 1e9:.0f} GB), R² {run['r2']:.3f}, deviation {run['max_relative_error']:.0e}"
    )


if __name__ == "__main__":
    raise SystemExit(main())
