"""Run the benchmarks: `python -m benchmarks [--smoke | --small | --full] [--only NAME ...]`.

Prints ratios, and writes the record (JSON) and pictures to benchmarks/results. The page in the
documentation is written by `python -m benchmarks.speed --docs`. Single studies have commands of
their own: `python -m benchmarks.planner_sweep`, `benchmarks.memory`, `benchmarks.flights`,
`benchmarks.groups`, `benchmarks.reading`.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks import report
from benchmarks.problems import PROBLEMS, SETS, Problem
from benchmarks.rivals import RIVALS, YARDSTICK
from benchmarks.runner import Options, run

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
REPEATS = {"smoke": 1, "small": 5, "full": 5}


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    made = argparse.ArgumentParser(prog="benchmarks", description=(__doc__ or "").splitlines()[0])
    which = made.add_mutually_exclusive_group()
    for name, words in (
        ("smoke", "tiny problems in this process, to see that everything runs"),
        ("small", "problems that take minutes (default)"),
        ("full", "the jobs that have targets; takes an hour or more"),
    ):
        which.add_argument(
            f"--{name}", dest="set", action="store_const", const=name, default="small", help=words
        )
    made.add_argument("--only", nargs="+", default=[], metavar="NAME", help="problems or rivals")
    made.add_argument("--skip", nargs="+", default=[], metavar="NAME", help="rivals to leave out")
    made.add_argument("--repeats", type=int, help="rounds (default: 5; smoke: 1)")
    made.add_argument("--budget", type=float, default=60.0, help="seconds per rival and problem")
    made.add_argument("--limit", type=float, default=1800.0, help="seconds of one run at most")
    made.add_argument("--threads", type=int, default=_threads(), help="BLAS threads")
    made.add_argument("--output", type=Path, default=RESULTS, help="folder for record and pictures")
    made.add_argument("--from-record", type=Path, help="report an earlier run; measure nothing")
    made.add_argument("--list", action="store_true", help="list problems and rivals")
    return made


def _threads() -> int:
    given = os.environ.get("OPENBLAS_NUM_THREADS", "")
    return int(given) if given.isdigit() else os.cpu_count() or 1


def choose(
    which: str, names: Sequence[str], skipped: Sequence[str]
) -> tuple[list[Problem], list[str]]:
    """Return the problems and rivals that the command line names."""
    unknown = sorted({*names, *skipped} - {*PROBLEMS, *RIVALS})
    if unknown:
        raise SystemExit(f"benchmarks: no such problem or rival: {', '.join(unknown)}; see --list.")
    problems = [PROBLEMS[name] for name in names if name in PROBLEMS] or list(SETS[which])
    rivals = [name for name in RIVALS if name in names] or list(RIVALS)
    if YARDSTICK not in rivals:
        rivals.insert(0, YARDSTICK)
    return problems, [name for name in rivals if name not in skipped]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for."""
    asked = parser().parse_args(arguments)
    if asked.list:
        for name, problem in PROBLEMS.items():
            print(f"{name:<24}{problem}")
        for name, rival in RIVALS.items():
            print(f"{name:<24}{rival.label}")
        return 0
    if asked.from_record is not None:
        done = report.load(asked.from_record)
    else:
        problems, rivals = choose(asked.set, asked.only, asked.skip)
        options = Options(
            repeats=asked.repeats or REPEATS[asked.set],
            budget=asked.budget,
            limit=asked.limit,
            threads=asked.threads,
            isolated=asked.set != "smoke",
        )

        def keep(so_far: dict[str, Any]) -> None:
            report.save({**so_far, "set": asked.set}, asked.output / f"{asked.set}.json")

        done = run(problems, rivals, options, lambda text: print(text, flush=True), keep)
        if asked.set == "smoke":  # one pair in processes of their own, so that this runs too
            pair = [YARDSTICK, "holdfast"]
            own = run(problems[:1], pair, replace(options, isolated=True))
            failures = [record for record in own["records"] if record["status"] != "ok"]
            done["records"] += failures
        done["set"] = asked.set
        report.save(done, asked.output / f"{asked.set}.json")
    print("\n" + report.to_text(done))
    stem = asked.output / done.get("set", "record")
    pictures = report.plot(done, stem)
    print("\nWritten: " + ", ".join(path.name for path in (stem.with_suffix(".json"), *pictures)))
    return int(any(record["status"] == "failed" for record in done["records"]))


if __name__ == "__main__":
    raise SystemExit(main())
