"""Groups, single rows and folds beside one plain fit: `python -m benchmarks.groups`.

Three data sets, held out by ragged groups, row by row and in ten folds, with held-out basis rows
kept and removed, on one thread and on as many as there are cores. Everything is timed in
interleaved rounds, and the fastest round counts. Printed are the ratios to a plain fit that keeps
the memory of its kernel matrix (*warm*), to one that does not (*cold*), the least that the
operations could take at the rate of a bare matrix product, and the gain from more threads.

The model is the estimator's own: with a free bias. The plain fit has none.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.model_selection import LeaveOneGroupOut
from threadpoolctl import threadpool_limits

from benchmarks.measure import REST, dgemm_rate
from benchmarks.problems import SEED, Data, Problem, Rows
from benchmarks.rivals.by_hand import cold_fit, plain_fit
from holdfast import KernelRidgeCV
from holdfast.exceptions import HoldfastWarning
from holdfast.linalg import blas_threads

SPLITS = ("groups", "loo", "folds")
POLICIES = ("keep", "remove")
N_FOLDS = 10


@dataclass(frozen=True)
class Job:
    """A data set whose rows come in groups.

    Attributes
    ----------
    name : str
    problem : Problem
        Sizes and penalties.
    wanted : dict
        The ratios to a warm plain fit that the project wants, by split and policy.
    """

    name: str
    problem: Problem
    wanted: dict[tuple[str, str], float]


def _job(name: str, m: int, n: int, d: int, keep: float, remove: float) -> Job:
    problem = Problem(name, m, n, "groups", 30, parts=m // 40, d=d)
    return Job(name, problem, {("groups", "keep"): keep, ("groups", "remove"): remove})


JOBS = (
    _job("20,000 × 400", 20_000, 400, 20, 4.5, 5.0),
    _job("5,000 × 500", 5_000, 500, 20, 5.5, 6.0),
    _job("schools, 7,185 × 300", 7_185, 300, 5, 6.0, 7.0),
)


def generate(job: Job) -> Data:
    """Return rows in ragged groups, always the same ones.

    Groups have 20 to 60 rows; those of the schools 14 to 67, around their own level, with two
    columns of zeros and ones, one of which belongs to the school.
    """
    problem, rng = job.problem, np.random.default_rng(SEED)
    schools = job.name.startswith("schools")
    labels = _labels(problem.m, *((14, 67, 160) if schools else (20, 60, problem.parts)), rng)
    X = rng.standard_normal((problem.m, problem.d))
    if schools:
        level = rng.standard_normal((labels.max() + 1, 2))
        X[:, 0], X[:, 1] = level[labels, 0], rng.random(problem.m) < 0.3
        X[:, 2] = level[labels, 1] > 0
        X = (X - X.mean(axis=0)) / X.std(axis=0)
    y = np.sin(X[:, : problem.d // 2 + 1]).sum(axis=1) + 0.5 * rng.standard_normal(problem.m)
    basis = rng.permutation(problem.m)[: problem.n].astype(np.int64)
    return Data(X, y, basis, rng.permutation(labels) if not schools else labels)


def _labels(m: int, least: int, most: int, count: int, rng: np.random.Generator) -> Rows:
    """Return a label for each of m rows: `count` groups of `least` to `most` rows."""
    sizes = rng.integers(least, most + 1, count)
    while sizes.sum() != m:
        j = rng.integers(count)
        step = int(np.sign(m - sizes.sum()))
        sizes[j] = np.clip(sizes[j] + step, least, most)
    return np.repeat(np.arange(count), sizes)


def fit(job: Job, data: Data, split: str, policy: Any) -> KernelRidgeCV:
    """Return the fitted estimator."""
    cv: Any = {"groups": LeaveOneGroupOut(), "loo": None, "folds": N_FOLDS}[split]
    model = KernelRidgeCV(
        "rbf",
        gamma=job.problem.gamma,
        alphas=job.problem.alphas,
        basis=data.basis,
        cv=cv,
        held_out_basis=policy,
        random_state=SEED,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HoldfastWarning)
        return model.fit(data.X, data.y, groups=data.labels if split == "groups" else None)


def operations(job: Job, data: Data, split: str) -> float:
    """Return the floating-point operations that the fit cannot do without.

    Kernel 2mnd, whitening mn², Gram matrix mn². By coordinates: eigenvectors 4n³ (a reduction to
    tridiagonal form, and its way back), rotation 2mn², and 2mn for each penalty and either
    |H| + 2, the direct systems, or twice six steps of conjugate gradients, whichever is less.
    Ten folds: one reduction to tridiagonal form each, 4n³/3.
    """
    m, n, d, a = job.problem.m, job.problem.n or 0, job.problem.d, job.problem.n_alphas
    count = 2.0 * m * n * d + 2.0 * m * n**2
    if split == "folds":
        return count + N_FOLDS * 4 / 3 * n**3
    count += 4.0 * n**3 + 2.0 * m * n**2 + 4.0 * m * n * a
    if split == "groups":
        sizes = np.bincount(data.labels)
        count += a * float(np.minimum(sizes, 12 * 2).astype(float) @ sizes) * n
    return count


def rounds(
    works: dict[Any, Callable[[], Any]], seconds: float, least: int
) -> Iterator[dict[Any, float]]:
    """Yield the time of each piece of work, round by round, for about so many seconds."""
    end, done = time.perf_counter() + seconds, 0
    while done < least or time.perf_counter() < end:
        taken = {}
        for name, work in works.items():
            time.sleep(REST)
            start = time.perf_counter()
            work()
            taken[name] = time.perf_counter() - start
        done += 1
        yield taken


def _limited(threads: int, work: Callable[[], Any]) -> None:
    with threadpool_limits(threads, user_api="blas"):
        work()


def measure(
    job: Job, splits: Sequence[str], policies: Sequence[str], counts: Sequence[int], seconds: float
) -> dict[tuple[int, str, str], float]:
    """Return the fastest time by threads, split and policy; plain fits are ("plain", "warm")."""
    data = generate(job)
    works: dict[Any, Callable[[], Any]] = {}
    for threads in counts:
        for kind, plain in (("warm", plain_fit), ("cold", cold_fit)):
            works[threads, "plain", kind] = partial(
                _limited, threads, partial(plain, job.problem, data)
            )
        for split in splits:
            for policy in policies:
                work = partial(fit, job, data, split, policy)
                works[threads, split, policy] = partial(_limited, threads, work)
    taken = [*rounds(works, seconds, 3)][1:]  # the first round warms up
    return {name: min(one[name] for one in taken) for name in works}


def report(job: Job, times: dict[tuple[int, str, str], float], rates: dict[int, float]) -> str:
    """Return the table of one data set, in Markdown."""
    data, few, most = generate(job), min(rates), max(rates)
    lines = [f"**{job.name}**", ""]
    warm, cold = (times[most, "plain", kind] for kind in ("warm", "cold"))
    gain = times[few, "plain", "warm"] / warm
    lines += [
        f"one plain fit: {1e3 * warm:.0f} ms warm, {1e3 * cold:.0f} ms cold, × {gain:.2f} from "
        f"{few} to {most} threads",
        "",
        "| held out | basis rows | time | × warm | × cold | least | want | from "
        f"{few} to {most} threads |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for threads, split, policy in times:
        if threads != most or split == "plain":
            continue
        seconds = times[threads, split, policy]
        least = operations(job, data, split) / rates[most]
        want = job.wanted.get((split, policy))
        lines.append(
            f"| {split} | {policy} | {1e3 * seconds:.0f} ms | {seconds / warm:.2f} | "
            f"{seconds / cold:.2f} | {least / warm:.2f} | {'–' if want is None else f'≤ {want}'} | "
            f"{times[few, split, policy] / seconds:.2f} |"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    made = argparse.ArgumentParser(
        prog="benchmarks.groups", description=(__doc__ or "").splitlines()[0]
    )
    made.add_argument("--only", nargs="+", type=int, choices=range(len(JOBS)), metavar="JOB")
    made.add_argument("--splits", nargs="+", choices=SPLITS, default=SPLITS)
    made.add_argument("--policies", nargs="+", choices=POLICIES, default=POLICIES)
    made.add_argument("--seconds", type=float, default=30.0, help="for each data set")
    asked = made.parse_args(arguments)
    counts = sorted({1, blas_threads()})
    rates = {}
    for threads in counts:
        with threadpool_limits(threads, user_api="blas"):
            rates[threads] = dgemm_rate()
    print(", ".join(f"{rate / 1e9:.0f} Gflop/s on {k}" for k, rate in rates.items()), "threads")
    for index in asked.only or range(len(JOBS)):
        job = JOBS[index]
        times = measure(job, asked.splits, asked.policies, counts, asked.seconds)
        print("\n" + report(job, times, rates), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
