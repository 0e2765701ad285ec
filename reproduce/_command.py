"""The command: list the experiments, or run some of them."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reproduce._framework import EXPERIMENTS, Options, silent
from reproduce._pages import record, summary, write
from reproduce.datasets import DataNotFoundError

QUICK = 2  # the fewest that have a variance


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; a statement of a paper that does not hold is a result, not a failure."""
    command = argparse.ArgumentParser(
        prog="python -m reproduce",
        description="Run an experiment of one of the papers and write its numbers (JSON), figure "
        "(SVG) and page (Markdown). Without an id, list the experiments.",
    )
    command.add_argument("id", nargs="*", help="such as p000-fig1; 'all' for every experiment")
    command.add_argument("--repetitions", type=int, metavar="N", help="default: minutes of work")
    command.add_argument("--quick", action="store_true", help="few repetitions, to see it run")
    command.add_argument("--out", type=Path, default=Path("reproduced"), metavar="DIR")
    command.add_argument("--seed", type=int, default=0)
    command.add_argument("--data", metavar="DIR", help="folder of .npz files; else HOLDFAST_DATA")
    asked = command.parse_args(argv)
    if not asked.id:
        for known in sorted(EXPERIMENTS.values(), key=lambda known: known.id):
            print(f"{known.id:17} {known.paper:40} {known.title}")
        return 0
    ids = list(EXPERIMENTS) if asked.id == ["all"] else asked.id
    for id in ids:
        if id not in EXPERIMENTS:
            command.error(f"unknown experiment {id!r}. Known: {', '.join(EXPERIMENTS)}.")
        n = min(EXPERIMENTS[id].repetitions, QUICK) if asked.quick else asked.repetitions
        try:
            print(summary(run(id, n, asked.seed, asked.data, asked.out), asked.out), flush=True)
        except DataNotFoundError as error:
            print(f"{id} is not run: {error}", file=sys.stderr)
    return 0


def run(
    id: str,
    repetitions: int | None = None,
    seed: int = 0,
    data: str | None = None,
    out: Path = Path("reproduced"),
) -> dict[str, Any]:
    """Run one experiment, write its files into `out`, and return its record."""
    experiment, start = EXPERIMENTS[id], time.perf_counter()
    options = Options(repetitions or experiment.repetitions, seed, data)
    outcome = experiment.run(options, _told if sys.stderr.isatty() else silent)
    entry = record(experiment, options, outcome, time.perf_counter() - start)
    write(experiment, entry, out)
    return entry


def _told(done: int, total: int, text: str) -> None:
    print(f"\r{done} of {total}: {text:60}", end="", file=sys.stderr, flush=True)
