"""Greedy basis rows: growth in m and n, and speed against retraining for every candidate.

    python benchmarks/greedy.py            # everything
    python benchmarks/greedy.py --smoke    # tiny, to see that it runs

Pahikkala et al. 2012, Algorithm 1, retrains the model for each of 60 candidates at every step. The
naive algorithm here is the leanest form of that: kernel columns are computed once per step, and a
candidate costs one Gram matrix and one solve of the raw normal equations, no whitening. For the
large problem it is timed at a few steps and a few candidates and extrapolated (the cost of a
step grows smoothly with its number); for the small one it is run in full, and must choose the
same rows. One BLAS thread and CPU time throughout, so that other work on the
machine matters little.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import scipy.linalg
from threadpoolctl import threadpool_limits

from holdfast.basis import Greedy
from holdfast.kernels import RBF
from holdfast.kernels.matrix import KernelRows

ALPHA, JITTER, SEED = 1e-2, 1e-8, 0


def problem(m: int) -> tuple[KernelRows, np.ndarray]:
    rng = np.random.default_rng(SEED)
    X = rng.normal(size=(m, 5))
    y = np.sin(X.sum(axis=1)) + 0.1 * rng.normal(size=m)
    return KernelRows(RBF(0.2), X), y[:, None]


def seconds(data: KernelRows, y: np.ndarray, n: int, candidates: int, criterion: str) -> float:
    start = time.process_time()
    groups = np.arange(len(y)) // 10
    Greedy(n, candidates, ALPHA, criterion, jitter=JITTER).select(data, y, groups=groups, rng=SEED)
    return time.process_time() - start


def naive_error(K_B: np.ndarray, K_BB: np.ndarray, y: np.ndarray) -> float:
    """Squared training error of the sparse model with a bias, trained from its kernel columns."""
    Z = np.column_stack([K_B, np.ones(len(K_B))])
    A = Z.T @ Z
    A[:-1, :-1] += ALPHA * (K_BB + JITTER * np.eye(len(K_BB)))
    p = scipy.linalg.solve(A, Z.T @ y, assume_a="pos")
    return float(np.sum((y - Z @ p) ** 2))


def naive_step(data: KernelRows, y: np.ndarray, B: list[int], drawn: np.ndarray) -> int:
    """Return which of the drawn candidates gives the lowest training error."""
    K_B = np.empty((len(y), len(B) + 1), order="F")
    K_B[:, : len(B)] = data.block(slice(None), np.array(B, dtype=int))
    columns = data.block(slice(None), drawn)
    errors = []
    for c, h in enumerate(drawn):
        K_B[:, -1] = columns[:, c]
        errors.append(naive_error(K_B, K_B[[*B, int(h)]], y))
    return int(np.argmin(errors))


def naive(data: KernelRows, y: np.ndarray, n: int, candidates: int) -> list[int]:
    rng, chosen = np.random.default_rng(SEED), []
    for _ in range(n):
        left = np.setdiff1d(np.arange(len(y)), chosen)
        drawn = rng.choice(left, size=min(candidates, len(left)), replace=False)
        chosen.append(int(drawn[naive_step(data, y, chosen, drawn)]))
    return chosen


def naive_seconds(data: KernelRows, y: np.ndarray, n: int, candidates: int, timed: int) -> float:
    """Time of the naive algorithm, from steps timed with a few candidates each."""
    sizes = np.unique(np.linspace(1, n - 1, 9).astype(int))
    rows = np.random.default_rng(SEED).permutation(len(y))
    per_step = []
    for j in sizes:
        naive_step(data, y, rows[:j].tolist(), rows[j : j + 1])  # warm up
        start = time.process_time()
        naive_step(data, y, rows[:j].tolist(), rows[j : j + timed])
        per_step.append((time.process_time() - start) * candidates / timed)
    return float(np.interp(np.arange(n), sizes, per_step).sum())


def growth(label: str, sizes: list[int], times: list[float]) -> None:
    slope = np.polyfit(np.log(sizes), np.log(times), 1)[0]
    shown = ", ".join(f"{s}: {t:.2f} s" for s, t in zip(sizes, times, strict=True))
    print(f"growth in {label}: {shown}; exponent {slope:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="tiny problems")
    smoke = parser.parse_args().smoke
    scale = 10 if smoke else 1
    candidates = 60
    with threadpool_limits(1):
        small_m, small_n = 600 // scale * (2 if smoke else 1), 60 // scale
        data, y = problem(small_m)
        fast = Greedy(small_n, candidates, ALPHA, jitter=JITTER)
        start = time.process_time()
        rows = fast.select(data, y, rng=SEED)
        fast_time = time.process_time() - start
        start = time.process_time()
        same = rows.tolist() == naive(data, y, small_n, candidates)
        ratio = (time.process_time() - start) / fast_time
        print(f"{small_m} rows, {small_n} basis rows, in full: same rows {same}, {ratio:.0f} x")

        m, n = 3000 // scale, 300 // scale
        data, y = problem(m)
        slow = naive_seconds(data, y, n, candidates, timed=3)
        for criterion in ("train", "loo", "group"):
            took = seconds(data, y, n, candidates, criterion)
            against = (
                f", naive {slow:.1f} s (extrapolated), {slow / took:.0f} x"
                if criterion == "train"
                else ""
            )
            print(f"{m} rows, {n} basis rows, criterion {criterion}: {took:.2f} s{against}")

        sizes = [s // scale for s in (1000, 2000, 4000, 8000)]
        growth("m", sizes, [seconds(*problem(s), 100 // scale, candidates, "train") for s in sizes])
        sizes = [s // scale for s in (100, 200, 400, 800)]
        growth("n", sizes, [seconds(data, y, s, candidates, "train") for s in sizes])


if __name__ == "__main__":
    main()
