"""Peak memory against the number of rows: `python -m benchmarks.memory`.

Each point is a process of its own: rows are made, then `fit` runs once with the feature rows in
memory and, in another process, with a memory limit far below what they take, so that they are
streamed. What counts is the peak above the data. Streamed, it should grow with the outputs alone
(penalties × rows), not with rows × basis rows; the price is the time of computing features twice.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import report
from benchmarks.__main__ import RESULTS
from benchmarks.measure import environment, machine, timed, versions
from benchmarks.problems import DEFAULT, Problem, generate
from benchmarks.rivals.ours import estimator, fit

#: Rows, basis rows, penalties and the limit (bytes) of each size.
SIZES: dict[str, tuple[tuple[int, ...], int, int, float]] = {
    "smoke": ((500, 1_000), 50, 3, 1e5),
    "small": ((10_000, 20_000, 40_000, 80_000), 300, 30, 20e6),
    "full": ((25_000, 50_000, 100_000, 200_000, 400_000), 1_000, 30, 150e6),
}


def problem(size: str, m: int, split: str) -> Problem:
    """Return the problem of one point."""
    _, n, n_alphas, _ = SIZES[size]
    if split == "loo":
        return Problem(f"memory-{m}", m, n, "loo", n_alphas, d=8)
    return Problem(f"memory-{m}", m, n, "folds", n_alphas, parts=10, d=8)


def point(size: str, m: int, split: str, mode: str, repeats: int) -> dict[str, Any]:
    """Return seconds and peak memory of one point; for a process of its own."""
    job = problem(size, m, split)
    rows = generate(job)
    small = Problem("warm", 200, 10, "loo", 2, d=8)
    fit(estimator(small, generate(small), DEFAULT), small, generate(small))
    limit = SIZES[size][3] if mode == "streamed" else 1e12
    timings = [
        timed(lambda: fit(estimator(job, rows, DEFAULT, memory_limit=limit), job, rows).alpha_)
        for _ in range(repeats)
    ]
    return {
        "m": m,
        "split": split,
        "mode": mode,
        "seconds": min(timing.seconds for timing in timings),
        "peak_bytes": max(timing.peak_bytes for timing in timings),
        "features_bytes": 8.0 * m * (job.n or 0),
        "outputs_bytes": 8.0 * m * job.n_alphas,
    }


def in_process(size: str, m: int, split: str, mode: str, repeats: int) -> dict[str, Any]:
    """Return a point from a process of its own."""
    command = [sys.executable, "-m", "benchmarks.memory", "--size", size]
    command += ["--repeats", str(repeats), "--point", str(m), split, mode]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment())
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def lines(points: Sequence[dict[str, Any]]) -> list[tuple[str, ...]]:
    """Return one line per number of rows and split."""
    table: list[tuple[str, ...]] = [
        ("", "features", "outputs", "peak in memory", "peak streamed", "seconds", "slowdown"),
    ]
    both = {(p["split"], p["m"], p["mode"]): p for p in points}
    for split, m in dict.fromkeys((p["split"], p["m"]) for p in points):
        kept, streamed = (both[split, m, mode] for mode in ("kept", "streamed"))
        sizes = [kept[name] for name in ("features_bytes", "outputs_bytes", "peak_bytes")]
        sizes.append(streamed["peak_bytes"])
        table.append(
            (
                f"{'leave-one-out' if split == 'loo' else '10-fold'}, m = {m:,}",
                *(f"{size / 1e6:,.0f} MB" for size in sizes),
                f"{kept['seconds']:.3g}",
                f"{streamed['seconds'] / kept['seconds']:.2f}×",
            )
        )
    return table


def plot(points: Sequence[dict[str, Any]], stem: Path) -> None:
    """Draw peak memory against rows."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    plt.rcParams["svg.hashsalt"] = "holdfast"
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.5), sharey=True, layout="constrained")
    for ax, split in zip(axes, ("loo", "folds"), strict=True):
        for mode, label in (("kept", "in memory"), ("streamed", "streamed")):
            curve = [p for p in points if (p["split"], p["mode"]) == (split, mode)]
            peaks = [p["peak_bytes"] / 1e9 for p in curve]
            ax.plot([p["m"] / 1e3 for p in curve], peaks, "o-", label=label)
        every = [p for p in points if (p["split"], p["mode"]) == (split, "kept")]
        outputs = [p["outputs_bytes"] / 1e9 for p in every]
        label = "held-out predictions alone"
        ax.plot([p["m"] / 1e3 for p in every], outputs, ":", color="grey", label=label)
        title = "leave-one-out" if split == "loo" else "10-fold"
        ax.set(title=title, xlabel="rows, thousands")
        ax.set_ylim(bottom=0)
    axes[0].set_ylabel("peak above the data, GB")
    axes[0].legend(frameon=False)
    stem.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(stem.with_suffix(".png"), dpi=120)
    figure.savefig(stem.with_suffix(".svg"), metadata={"Date": None})
    plt.close(figure)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the curve, or one point of it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--size", choices=tuple(SIZES), default="small")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--point", nargs=3, metavar=("ROWS", "SPLIT", "MODE"))
    asked = parser.parse_args(arguments)
    if asked.point is not None:
        m, split, mode = asked.point
        print(json.dumps(point(asked.size, int(m), split, mode, asked.repeats)))
        return 0
    facts = machine()
    points = [
        in_process(asked.size, m, split, mode, asked.repeats)
        for split in ("loo", "folds")
        for m in SIZES[asked.size][0]
        for mode in ("kept", "streamed")
    ]
    print(report.text_table(lines(points)))
    stem = asked.output / f"memory-{asked.size}"
    run = {"date": time.strftime("%Y-%m-%d"), "machine": facts, "versions": versions()}
    report.save({**run, "points": points}, stem.with_suffix(".json"))
    plot(points, stem)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
