"""Answers against refitting, and against the matrix products that they cannot avoid.

    python -m benchmarks.answers [--rows 5000] [--basis 500] [--sample 20]

For each answer: seconds, seconds that refitting would take (extrapolated from a sample in the same
run; a refit is the package's own model trained from scratch on features that it computes anew), and
seconds that the counted matrix products take at the rate of dgemm measured in the same run. A
product of a × b and b × c counts 2abc, a symmetric one half of it; the eigendecomposition and the
rows of the factor are part of the fit and counted for nobody. Held-out sets of some 40 rows need
small products, which no BLAS runs at the rate of a large one, and which are not the only thing that
cannot be avoided: the last column is the ratio to these in the shapes that they have. For buffers
that is the same count at the rate of symmetric products of such sets. For groups all of it is timed
alone in the same run (`group_seconds`): fetching the rows, half of S_HH and its Cholesky
factorisation, V_H β and V_Hᵀr, and for the basis rows that leave an orthonormal basis of their
constraints and its products with the rows. Times are those of the processor: run with one BLAS
thread.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg.lapack import dpotrf
from sklearn.neighbors import KDTree

from holdfast import HoldOut, KernelRidgeCV
from holdfast.experiments import as_experiments


def dgemm_rate(n: int = 2000) -> float:
    """Return operations per second of a square product, the best of three."""
    A = np.random.default_rng(0).normal(size=(n, n))
    times = []
    for _ in range(3):
        start = time.process_time()
        A @ A
        times.append(time.process_time() - start)
    return 2.0 * n**3 / min(times)


def small_rate(h: int, p: int) -> float:
    """Return operations per second of symmetric products of h × p matrices, the best of three."""
    V = np.random.default_rng(0).normal(size=(100, h, p))
    return 100.0 * h**2 * p / timed(lambda: V @ V.swapaxes(1, 2), 3)


def group_seconds(n_groups: int, h: int, e: int, p: int) -> float:
    """Return seconds of what no way to groups of h rows and e basis rows avoids, timed alone.

    Rows are fetched from memory; the rest is timed for so few groups that they stay in cache.
    """
    rng, g = np.random.default_rng(0), min(25, n_groups)
    rows, N = rng.normal(size=(n_groups * h, p)), rng.normal(size=(g * e, p))
    H = rng.permutation(n_groups * h).reshape(n_groups, h)
    beta, r, half = rng.normal(size=(p, 1)), rng.normal(size=(g, 1, h)), h // 2
    V, constraints = rows[H[:g]], N.reshape(g, e, p).swapaxes(1, 2)
    others, orthonormal = V.copy(), np.linalg.qr(constraints)[0].swapaxes(1, 2)
    M, upper, lower = np.eye(h) + 1.0, np.empty((g, half, h)), np.empty((g, h - half, h - half))

    def fetch() -> None:
        for first in range(0, n_groups, g):
            some = H[first : first + g]
            np.take(rows, some, axis=0, out=others[: len(some)], mode="clip")

    def symmetric() -> None:  # a quarter less than all; `syrk` takes longer
        np.matmul(others[:, :half], V.swapaxes(1, 2), out=upper)
        np.matmul(others[:, half:], V[:, half:].swapaxes(1, 2), out=lower)

    parts: list[Callable[[], Any]] = [
        symmetric,
        lambda: [dpotrf(M, lower=1) for _ in range(g)],
        lambda: V.reshape(-1, p) @ beta,
        lambda: r @ V,
        lambda: np.linalg.qr(constraints),
        lambda: orthonormal @ V.swapaxes(1, 2),
    ]
    return timed(fetch, 5) + n_groups / g * sum(timed(part, 5) for part in parts)


def timed(call: Callable[[], Any], repeats: int = 2) -> float:
    """Return the shortest of some runs, in seconds."""
    best = np.inf
    for _ in range(repeats):
        start = time.process_time()
        call()
        best = min(best, time.process_time() - start)
    return best


def refit_seconds(model: KernelRidgeCV, sets: list[Any], sample: int) -> float:
    """Return seconds to train one model without some rows and predict those, mean of a sample."""
    chosen = np.random.default_rng(0).choice(len(sets), min(sample, len(sets)), replace=False)
    fitted = model._fitted_model()
    tasks = fitted.tasks(as_experiments([HoldOut(sets[j]) for j in chosen], len(model._problem.Y)))
    alpha = np.array([model.alpha_])
    start = time.process_time()
    for j in range(len(tasks)):
        rows = tasks.held[j], tasks.removed[j], tasks.test[j]
        fitted.smoother.retrain(*rows, alpha, slice(None))
    return (time.process_time() - start) / len(tasks)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--basis", type=int, default=500)
    parser.add_argument("--sample", type=int, default=20)
    options = parser.parse_args()
    m, n = options.rows, options.basis
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(m, 3))
    y = np.sin(4 * X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=m)
    X_new = rng.uniform(-1, 1, size=(m, 3))
    groups = np.arange(m) * 125 // m
    model = KernelRidgeCV(gamma=1.0, basis=n, alphas=[1e-2], random_state=0, path="spectral")
    model.fit(X, y)
    rate = dgemm_rate()
    singles = [[i] for i in range(m)]
    tree = KDTree(X)
    radius = (50 / m * 8 / (4 / 3 * np.pi)) ** (1 / 3)
    near = [HoldOut(rows, [i]) for i, rows in enumerate(tree.query_radius(X, radius))]
    sizes = np.array([e.held_out.size for e in near], dtype=float)
    p = n + 1
    blocks = [np.flatnonzero(groups == g) for g in range(125)]
    flops = {
        # rows of new points: kernel (counted as 2·3 per value), whitening n², rotation 2n², and
        # all models on all of them
        "jackknife+": m * (6.0 * n + n**2 + 2.0 * n**2) + 2.0 * m * m * p,
        # I − S_HH and, for the centre, V_Hᵀr
        "buffered leave-one-out": float((sizes**2 * p + sizes**3 / 3 + 4 * sizes * p).sum()),
        # half of S, each pair once; s = V D Nᵀ and P for the basis rows
        "all pairs": 1.0 * m * m * p + 2.0 * m * n * p + 1.0 * n * n * p,
        # I − S_HH, V_H β and V_Hᵀr
        "influence of 125 groups": sum(
            len(b) ** 2 * p + len(b) ** 3 / 3 + 4.0 * len(b) * p for b in blocks
        ),
    }
    calls: dict[str, Callable[[], Any]] = {
        "jackknife+": lambda: model.predict_interval(X_new),
        "buffered leave-one-out": lambda: model.held_out(near),
        "all pairs": model.leave_pair_out,
        "influence of 125 groups": lambda: model.influence(groups),
    }
    pairs = [rng.choice(m, 2, replace=False) for _ in range(options.sample)]
    refits = {
        "jackknife+": m * refit_seconds(model, singles, options.sample),
        "buffered leave-one-out": m
        * refit_seconds(model, [e.held_out for e in near], options.sample),
        "all pairs": m * (m - 1) / 2 * refit_seconds(model, pairs, options.sample),
        "influence of 125 groups": 125 * refit_seconds(model, blocks, options.sample),
    }
    print(
        f"{m} rows, {n} basis rows, dgemm {rate / 1e9:.1f} Gflop/s, {sizes.mean():.0f} neighbours"
    )
    buffered, grouped = "buffered leave-one-out", "influence of 125 groups"
    small = {
        buffered: flops[buffered] / small_rate(int(sizes.mean()), p),
        grouped: group_seconds(125, m // 125, max(1, n // 125), p),
    }
    print(
        f"{'answer':<26}{'seconds':>9}{'refits':>12}{'faster':>9}{'products':>10}{'ratio':>7}"
        f"{'small':>7}"
    )
    for name, call in calls.items():
        taken, least = timed(call, 5), flops[name] / rate
        print(
            f"{name:<26}{taken:>9.3f}{refits[name]:>12.1f}{refits[name] / taken:>9.0f}"
            f"{least:>10.4f}{taken / least:>7.1f}"
            + (f"{taken / small[name]:>7.1f}" if name in small else "")
        )


if __name__ == "__main__":
    main()
