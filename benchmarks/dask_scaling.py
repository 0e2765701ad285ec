"""Past one machine: `python -m benchmarks.dask_scaling [--size smoke|small|full]`.

Three things, on clusters of worker processes with one thread each:

- strong scaling: the same fit on one and on two workers;
- growth of the time with the number of rows;
- rates of one worker thread (rows through each pass, the eigendecomposition, the bytes between two
  workers), and from them the time for a billion rows on a hundred workers.

Wall time is what scaling means; the CPU time of workers and client beside it tells how much of it
was other work on the machine.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import KFold
from threadpoolctl import threadpool_limits

from benchmarks import report
from benchmarks.__main__ import RESULTS
from benchmarks.measure import machine, versions
from holdfast import KernelRidgeCV
from holdfast.cluster import DaskRows, DaskSource, cluster_features, work
from holdfast.exceptions import GridEdgeWarning
from holdfast.experiments import Ragged, Tasks
from holdfast.holdout.identity import held_out
from holdfast.kernels import RBF
from holdfast.linalg import eigh
from holdfast.smoother import FeatureSmoother, Unpenalised

FEATURES, N_ALPHAS = 20, 30
ALPHAS = np.logspace(-6, 3, N_ALPHAS)
#: Rows of the scaling run, rows of the growth, basis rows, rows of a chunk, n for the rates.
SIZES: dict[str, tuple[int, tuple[int, ...], int, int, int]] = {
    "smoke": (2_000, (1_000, 2_000), 50, 250, 100),
    "small": (40_000, (10_000, 20_000, 40_000), 500, 2_500, 1_000),
    "full": (200_000, (50_000, 100_000, 200_000, 400_000), 1_000, 10_000, 3_000),
}
SECONDS = (
    "seconds",
    "workers_cpu_seconds",
    "busiest_worker_cpu_seconds",
    "client_cpu_seconds",
)
SPLITS = {"leave-one-out": None, "10-fold": KFold(10)}


def cluster(n_workers: int) -> Any:
    """Return a client of a new cluster on this machine."""
    from distributed import Client, LocalCluster

    made = LocalCluster(
        n_workers=n_workers,
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        silence_logs=50,
    )
    return Client(made)


def rows(m: int, chunk: int) -> tuple[Any, Any]:
    """Return rows and targets that live on the workers."""
    import dask.array as da
    from distributed import wait

    X = da.random.default_rng(0).normal(size=(m, FEATURES), chunks=(chunk, FEATURES)).persist()
    y = da.sin(X[:, 0]) + X[:, 1] ** 2
    wait(X)
    return X, y.compute() + 0.5 * np.random.default_rng(1).normal(size=m)


def one_fit(client: Any, m: int, n: int, chunk: int, split: str, repeats: int) -> dict[str, Any]:
    """Return seconds of a fit, wall and CPU, the best of a few."""
    X, y = rows(m, chunk)
    model = KernelRidgeCV(gamma=0.05, basis=n, cv=SPLITS[split], alphas=ALPHAS, random_state=0)
    found = []
    for _ in range(repeats):
        before = client.run(time.process_time)
        own, start = time.process_time(), time.perf_counter()
        model.fit(X, y)
        wall, own = time.perf_counter() - start, time.process_time() - own
        after = client.run(time.process_time)
        found.append((wall, [after[worker] - before[worker] for worker in after], own))
    wall, workers, own = min(found)
    return {
        "m": m,
        "n": n,
        "split": split,
        "path": model.explain().path,
        "seconds": wall,
        "workers_cpu_seconds": sum(workers),
        "busiest_worker_cpu_seconds": max(workers),
        "client_cpu_seconds": own,
    }


def runs(size: str, repeats: int) -> list[dict[str, Any]]:
    """Return all fits: one and two workers, and more and more rows on two."""
    m, growth, n, chunk, _ = SIZES[size]
    found = []
    for n_workers in (1, 2):
        client = cluster(n_workers)
        try:
            one_fit(client, 4 * n, n // 2, n, "leave-one-out", 1)  # workers import and warm up
            for split in SPLITS:
                for count in sorted({m, *growth}) if n_workers == 2 else [m]:
                    record = one_fit(client, count, n, chunk, split, repeats)
                    found.append({"workers": n_workers, **record})
        finally:
            client.cluster.close()
            client.close()
    return found


def rates(size: str) -> dict[str, float]:
    """Return what one worker thread does per second, by the functions that workers run."""
    import dask.array as da

    n = SIZES[size][4]
    k = max(2 * n, 1_000)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(k + n, FEATURES))
    Y = X[:, :1] ** 2
    with threadpool_limits(1, user_api="blas"):
        data = DaskRows(RBF(0.05), da.from_array(X, chunks=(k + n, FEATURES)))
        weights = np.ones(k + n)
        features = cluster_features(data, np.arange(k, k + n), 1e-8)
        bias = Unpenalised.bias(weights, True)
        source = partial(DaskSource, X=data.X)
        smoother = FeatureSmoother(features, weights, Y, bias, source=source)
        system = smoother.system()
        rows = np.arange(k)
        Ys, columns = smoother.targets.Ys[rows], smoother.unpenalised.take(rows)
        part = work.Part(rows, weights[rows], Ys, columns)
        whole = work.Whole(work.bare(smoother.features), system.B.first)
        no_sets = np.full(k, -1), 0
        first = best(lambda: work.chunk_moments(X, part, whole, *no_sets))
        decomposed = best(lambda: eigh(system.gram), 1)
        factor = smoother.factor(float(ALPHAS.min()))
        bare, targets = work.bare_factor(factor), factor.targets.take(rows)
        nothing = np.empty((0, 0)), np.empty(0, dtype=np.int64)  # no basis row is removed
        every = Ragged(np.arange(k), np.arange(k + 1))
        tasks = Tasks(every, Ragged.empty(k), every, np.arange(k))
        second = best(
            lambda: work.on_batch(held_out, X, part, targets, bare, *nothing, tasks, ALPHAS)
        )
    kernel = 2.0 * n * FEATURES
    return {
        "n": n,
        "first_pass_rows_per_second": k / first,
        "second_pass_rows_per_second": k / second,
        "first_pass_gflops": k * (kernel + 2.0 * n**2) / first / 1e9,
        "second_pass_gflops": k * (kernel + 3.0 * n**2 + 4.0 * n * N_ALPHAS) / second / 1e9,
        "eigh_seconds": decomposed,
        "bytes_per_second": bytes_per_second(8 * n * n),
    }


def best(call: Any, repeats: int = 3) -> float:
    """Return the least CPU seconds of a few calls."""
    found = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        found.append(time.process_time() - start)
    return min(found)


def bytes_per_second(size: int) -> float:
    """Return the rate at which a matrix goes from one worker to another."""
    client = cluster(2)
    try:
        here, there = list(client.scheduler_info()["workers"])
        seconds = []
        for i in range(4):
            matrix = client.submit(np.full, size // 8, float(i), workers=[here], pure=False)
            matrix.result()
            start = time.perf_counter()
            client.submit(len, matrix, workers=[there], pure=False).result()
            seconds.append(time.perf_counter() - start)
        return size / min(seconds)
    finally:
        client.cluster.close()
        client.close()


def predicted(
    found: dict[str, float], m: float, n: float, workers: int, cores: int
) -> dict[str, float]:
    """Return hours of each stage of leave-one-out for larger sizes, from measured rates.

    Passes scale with m n² over all cores; the decomposition with n³ on the client, which is taken
    to have the cores of a worker and to use half of them well; a matrix of n² numbers goes to
    every worker along a binary tree, and Gram matrices come back along one.
    """
    kernel = 2.0 * n * FEATURES
    threads = workers * cores
    first = m * (kernel + 2.0 * n**2) / (found["first_pass_gflops"] * 1e9) / threads
    second_flops = kernel + 3.0 * n**2 + 4.0 * n * N_ALPHAS
    second = m * second_flops / (found["second_pass_gflops"] * 1e9) / threads
    decomposed = found["eigh_seconds"] * (n / found["n"]) ** 3 / max(1.0, cores / 2)
    steps = np.ceil(np.log2(workers))
    matrices = 4 * steps * 8.0 * n**2 / found["bytes_per_second"]
    outputs = 8.0 * m * N_ALPHAS / found["bytes_per_second"]
    stages = {
        "first pass": first,
        "decomposition": decomposed,
        "second pass": second,
        "matrices": matrices,
        "predictions to the client": outputs,
    }
    return {name: seconds / 3600 for name, seconds in stages.items()}


def tables(record: dict[str, Any]) -> str:
    """Return what was found as text."""
    lines: list[tuple[str, ...]] = [
        (
            "",
            "path",
            "workers",
            "seconds",
            "CPU of workers",
            "of the busiest",
            "of client",
            "speed-up",
        )
    ]
    single = {(r["split"], r["m"]): r for r in record["runs"] if r["workers"] == 1}
    for r in record["runs"]:
        one = single.get((r["split"], r["m"]))
        lines.append(
            (
                f"{r['split']}, m = {r['m']:,}, n = {r['n']:,}",
                r["path"],
                str(r["workers"]),
                *(f"{r[name]:.3g}" for name in SECONDS),
                f"{one['seconds'] / r['seconds']:.2f}×" if one else "",
            )
        )
    found = record["rates"]
    rates_lines = [("rate of one worker thread", ""), *((k, f"{v:.3g}") for k, v in found.items())]
    hours = record["predicted"]
    names = list(hours[0]["hours"])
    header = ("m = 10⁹, n = 10⁴, 100 workers", *names, "hours in all")
    future = [header]
    for entry in hours:
        values = [entry["hours"][name] for name in names]
        label = f"{entry['cores']} cores each"
        future.append((label, *(f"{v:.2g}" for v in values), f"{sum(values):.3g}"))
    return "\n\n".join(report.text_table(part) for part in (lines, rates_lines, future))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write the record."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--size", choices=tuple(SIZES), default="small")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--output", type=Path, default=RESULTS)
    asked = parser.parse_args(arguments)
    warnings.simplefilter("ignore", GridEdgeWarning)  # times are the question, not the model
    record: dict[str, Any] = {
        "date": time.strftime("%Y-%m-%d"),
        "machine": machine(),
        "versions": versions(),
        "runs": runs(asked.size, asked.repeats),
        "rates": rates(asked.size),
    }
    record["predicted"] = [
        {"cores": cores, "hours": predicted(record["rates"], 1e9, 1e4, 100, cores)}
        for cores in (1, 16, 64)
    ]
    print(tables(record))
    report.save(record, asked.output / f"dask-scaling-{asked.size}.json")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
