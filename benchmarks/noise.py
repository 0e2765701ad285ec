"""Real data against noise of the same size: `python -m benchmarks.noise`.

Every data set of the folder named by ``HOLDFAST_DATA`` (numbers only, some hundred rows of each),
several kernels, leave-one-out and five folds, dense and on basis rows. The same fit runs on
standard normal rows and targets of the same shape; both are timed in turn, CPU time on one thread,
and the fastest round counts. Real data should take at most twice as long: what takes longer is
printed, with the path that was taken.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from holdfast import KernelRidgeCV

Floats = NDArray[np.float64]
MOST = 2.0
KERNELS: dict[str, dict[str, Any]] = {
    "rbf": {"kernel": "rbf"},
    "rbf, wide": {"kernel": "rbf", "gamma": 0.003},
    "linear": {"kernel": "linear"},
}
SPLITS: dict[str, Any] = {"leave-one-out": None, "5 folds": 5}


def read(path: Path, rows: int) -> tuple[Floats, Floats] | None:
    """Return some rows with columns of unit spread, and targets; None if they are no numbers."""
    with np.load(path, allow_pickle=False) as arrays:
        if "X" not in arrays or "y" not in arrays:
            return None
        X, y = arrays["X"], arrays["y"]
    if X.ndim != 2 or X.dtype.kind not in "fiub" or y.dtype.kind not in "fiub":
        return None
    keep = np.sort(np.random.default_rng(1).permutation(len(y))[:rows])
    X, y = X[keep].astype(float), y[keep].reshape(len(keep), -1)[:, 0].astype(float)
    good = np.isfinite(X).all(axis=1) & np.isfinite(y)
    X, y = X[good], y[good]
    if len(y) < 60 or not y.std() > 0.0:
        return None
    spread = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0), y


def ratio(X: Floats, y: Floats, rounds: int, **options: Any) -> tuple[float, float, Any]:
    """Return the seconds on real data, their ratio to those on noise, and the fitted model."""
    rng = np.random.default_rng(0)
    noise = rng.standard_normal(X.shape), rng.standard_normal(len(y))
    best = [np.inf, np.inf]
    models = [KernelRidgeCV(random_state=0, **options) for _ in best]
    for _ in range(rounds):
        for i, data in enumerate(((X, y), noise)):
            start = time.process_time()
            models[i].fit(*data)
            best[i] = min(best[i], time.process_time() - start)
    return best[0], best[0] / best[1], models[0]


def comparisons(
    folder: Path, rows: int, n: int, rounds: int, only: Sequence[str]
) -> Iterator[tuple[str, float, float, Any]]:
    """Yield what was compared, the seconds on real data, the ratio, and the model."""
    for path in sorted(folder.glob("*.npz")):
        data = read(path, rows) if not only or path.stem in only else None
        if data is None:
            continue
        for kernel, options in KERNELS.items():
            for split, cv in SPLITS.items():
                for basis in (None, min(n, len(data[1]) // 2)):
                    if kernel == "linear" and basis is None and data[0].shape[1] < len(data[1]):
                        size = "columns"
                    else:
                        size = "dense" if basis is None else f"{basis} basis rows"
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        found = ratio(*data, rounds, cv=cv, basis=basis, **options)
                    yield f"{path.stem}, {kernel}, {split}, {size}", *found


def main(argv: Sequence[str] | None = None) -> int:
    """Compare, and print what takes more than twice as long."""
    parser = argparse.ArgumentParser(prog="benchmarks.noise", description=__doc__)
    parser.add_argument("--rows", type=int, default=600)
    parser.add_argument("--basis", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", default=[], help="data sets")
    asked = parser.parse_args(argv)
    folder = os.environ.get("HOLDFAST_DATA")
    if not folder:
        raise SystemExit("noise: set HOLDFAST_DATA to the folder that holds the data sets.")
    sizes = Path(folder), asked.rows, asked.basis, asked.rounds, asked.only
    ratios: dict[str, list[float]] = {"dense": [], "basis": []}
    with threadpool_limits(1):
        for name, seconds, found, model in comparisons(*sizes):
            ratios["basis" if "basis" in name else "dense"].append(found)
            if found > MOST:
                path = model.explain().path
                print(f"{found:6.2f} × {1e3 * seconds:7.1f} ms  {name}, {path}", flush=True)
    for kind, values in ratios.items():
        if values:
            past = [sum(value > limit for value in values) for limit in (MOST, 3.0)]
            print(f"{kind}: of {len(values)}, {past[0]} past {MOST:g} and {past[1]} past 3")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
