"""What certainty costs: nested cross-validation, permutations and an interval, against refitting.

    python -m benchmarks.certainty                 # 5,000 rows × 500 basis rows, and dense 1,000
    python -m benchmarks.certainty --smoke         # tiny, to see that it runs
    python -m benchmarks.certainty --json path.json

Times are CPU seconds, the fastest of `ROUNDS` rounds, in each of which everything has its turn: on
a machine with other work they differ by a third. Refitting is extrapolated from single fits on the
training rows of one fold, times the number of models, in two ways: by scikit-learn (`KernelRidge`,
or `Nystroem` and `Ridge`), and by hand (kernel, one product, one Cholesky factorisation). Nested
10 × 10 over 30 penalties trains 3,010, a thousand permutations 300,000, fifty partitions of Bates
et al. 2,750.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy.linalg
from sklearn.kernel_approximation import Nystroem
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

from benchmarks.rivals.by_hand import rbf, shifted
from holdfast import KernelRidgeCV

GAMMA, FOLDS = 0.1, 10
ROUNDS = 3


def seconds(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def best(call: Callable[[], object], repeats: int = 3) -> float:
    return min(seconds(call) for _ in range(repeats))


def plain(X: np.ndarray, y: np.ndarray, basis: np.ndarray | None, alpha: float) -> None:
    """Fit once, as fast as a careful user does by hand."""
    if basis is None:
        A, b = rbf(X, X, GAMMA), y
        A[np.diag_indices(len(A))] += alpha
    else:
        K = rbf(X, X[basis], GAMMA)
        A, b = K.T @ K + alpha * shifted(K[basis]), K.T @ y
    factor = scipy.linalg.cho_factor(A, lower=True, overwrite_a=True, check_finite=False)
    scipy.linalg.cho_solve(factor, b, check_finite=False)


def by_sklearn(X: np.ndarray, y: np.ndarray, n: int | None, alpha: float) -> None:
    """Fit once, as most people do."""
    if n is None:
        KernelRidge(kernel="rbf", gamma=GAMMA, alpha=alpha).fit(X, y)
    else:
        features = Nystroem(gamma=GAMMA, n_components=n, random_state=0)
        make_pipeline(features, Ridge(alpha=alpha)).fit(X, y)


def study(
    m: int, n: int | None, a: int, permutations: int, partitions: int
) -> dict[str, dict[str, float]]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(m, 8))
    y = np.sin(X[:, 0]) + 0.5 * X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=m)
    grid = np.logspace(-4, 2, a)
    model = KernelRidgeCV(gamma=GAMMA, basis=n, cv=FOLDS, alphas=grid, random_state=0)
    left = np.arange(m - m // FOLDS)
    basis = None if n is None else rng.choice(left.size, n, replace=False)
    models = {
        "nested": FOLDS * (FOLDS * a + 1),
        "permutations": permutations * FOLDS * a,
        "interval": partitions * FOLDS * (FOLDS + 1) // 2,
    }
    calls: dict[str, Callable[[], object]] = {
        "nested": lambda: model.nested(FOLDS),
        "permutations": lambda: model.permutation_test(permutations, random_state=0),
        "interval": lambda: model.score_interval(n_partitions=partitions, random_state=0),
    }
    fit = one = usual = np.inf
    taken = dict.fromkeys(calls, np.inf)
    for _ in range(ROUNDS if partitions > 1 else 1):
        fit = min(fit, seconds(lambda: model.fit(X, y)))
        one = min(one, best(lambda: plain(X[left], y[left], basis, 0.1)))
        usual = min(usual, best(lambda: by_sklearn(X[left], y[left], n, 0.1)))
        for name, call in calls.items():
            taken[name] = min(taken[name], seconds(call))
    record = {"fit": {"seconds": fit, "by hand": one, "scikit-learn": usual}}
    what = f"{m} rows, {'dense' if n is None else f'{n} basis rows'}, {a} penalties"
    print(f"{what}: fit {fit:.2f} s, one fit by scikit-learn {usual:.3f} s, by hand {one:.3f} s")
    for name, took in taken.items():
        record[name] = {
            "seconds": took,
            "models": models[name],
            "than scikit-learn": models[name] * usual / took,
            "than by hand": models[name] * one / took,
        }
        found = record[name]
        print(
            f"  {name:<13}{took:7.1f} s for {models[name]:>7} models: "
            f"{found['than scikit-learn']:.0f} × faster than refitting by scikit-learn, "
            f"{found['than by hand']:.0f} × than by hand",
            flush=True,
        )
    return record


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="tiny problems")
    parser.add_argument("--only", choices=["sparse", "dense"], help="one of the two models")
    parser.add_argument("--json", type=Path, help="where the figures go")
    arguments = parser.parse_args()
    jobs: dict[str, tuple[int, int | None, int, int, int]] = {
        "sparse": (5000, 500, 30, 1000, 50),
        "dense": (1000, None, 30, 1000, 50),
    }
    if arguments.smoke:
        jobs = {"sparse": (120, 20, 3, 5, 1), "dense": (60, None, 3, 5, 1)}
    record = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, job in jobs.items():
            if arguments.only in (None, name):
                record[name] = study(*job)
    record["threads"] = os.environ.get("OPENBLAS_NUM_THREADS", "all")
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(record, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
