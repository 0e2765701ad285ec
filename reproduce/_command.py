"""The command: list the experiments, or run some of them."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from holdfast.exceptions import HoldfastError, InvalidInputError
from holdfast.progress import ProgressBar
from reproduce._digest import digest
from reproduce._framework import EXPERIMENTS, Options
from reproduce._writer import duration, record, write, write_index
from reproduce.datasets import DataNotFoundError

QUICK = 2  # the fewest that have a variance


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    command = argparse.ArgumentParser(
        prog="python -m reproduce",
        description="Run an experiment of one of the papers and write JSON, a figure (PNG and "
        "SVG) and a Markdown page. Without an id, list the experiments.",
    )
    command.add_argument("id", nargs="*", help="such as p000-fig1; 'all' for every experiment")
    command.add_argument("--list", action="store_true", help="list the experiments")
    effort = command.add_mutually_exclusive_group()
    effort.add_argument("--repetitions", type=int, metavar="N", help="default: minutes of work")
    effort.add_argument(
        "--quick",
        action="store_true",
        help=f"at most {QUICK} repetitions, to see it run; too few to decide every claim",
    )
    effort.add_argument(
        "--again",
        action="store_true",
        help="run nothing: rewrite pages and figures of earlier runs in DIR from their numbers",
    )
    command.add_argument("--out", default="reproduced", metavar="DIR", help="default: reproduced")
    command.add_argument("--seed", type=int, default=0, metavar="S", help="default: 0")
    command.add_argument("--data", metavar="DIR", help="folder of .npz files; else HOLDFAST_DATA")
    return command


def main(argv: Sequence[str] | None = None, stream: TextIO | None = None) -> int:
    """Run the command; return 0, or 2 when it was asked for something impossible.

    A claim of a paper that does not hold is a result, not a failure: the code is 0. So it is when
    ``all`` passes over an experiment whose data are nowhere.
    """
    out = sys.stdout if stream is None else stream
    command = parser()
    arguments = command.parse_args(argv)
    if arguments.list or not arguments.id:
        out.write(listing())
        return 0
    everything = arguments.id == ["all"]
    ids = list(EXPERIMENTS) if everything else arguments.id
    unknown = [id for id in ids if id not in EXPERIMENTS]
    if unknown:
        _complain(f"unknown experiment {unknown[0]!r}. Known: {', '.join(EXPERIMENTS)}.")
        return 2
    if arguments.repetitions is not None and arguments.repetitions < 1:
        _complain(f"--repetitions must be at least 1; got {arguments.repetitions}.")
        return 2
    for id in ids:
        n = min(EXPERIMENTS[id].repetitions, QUICK) if arguments.quick else arguments.repetitions
        try:
            if arguments.again:
                entry = again(id, arguments.out)
            else:
                entry = run(id, n, arguments.seed, arguments.data, arguments.out)
        except HoldfastError as error:
            if everything and isinstance(error, DataNotFoundError):
                _complain(f"{id} is not run: {error}")
                continue
            _complain(f"{id}: {error}")
            return 2
        codes = {known.id: digest(known.run) for known in EXPERIMENTS.values()}
        write_index(Path(arguments.out), codes)
        out.write(summary(entry, Path(arguments.out)))
        out.flush()
    return 0


def run(
    id: str,
    repetitions: int | None = None,
    seed: int = 0,
    data: str | None = None,
    out: str | Path = "reproduced",
) -> dict[str, Any]:
    """Run one experiment, write its files into `out`, and return its record.

    Finished repetitions are kept in `out` until the run is through: one that was stopped goes on
    where it stopped.
    """
    experiment, kept = EXPERIMENTS[id], Path(out) / f"{id}.unfinished"
    code = digest(experiment.run)  # of now: the files may change while it runs
    kept.parent.mkdir(parents=True, exist_ok=True)
    options = Options(repetitions or experiment.repetitions, seed, data, kept)
    stopped_before, start = kept.exists(), time.perf_counter()
    with ProgressBar() as bar:
        outcome = experiment.run(options, bar)
    seconds = None if stopped_before else time.perf_counter() - start
    entry = record(experiment, options, outcome, seconds, code)
    write(experiment, entry, Path(out), code)
    kept.unlink(missing_ok=True)
    return entry


def again(id: str, out: str | Path = "reproduced") -> dict[str, Any]:
    """Rewrite the files of an earlier run in `out` from its numbers, and return its record.

    Titles, figures and pages are made by the code of today; the numbers stay as they are. Claims
    are decided again if the experiment can decide them from its numbers, and these were made by the
    code of today.
    """
    experiment, path = EXPERIMENTS[id], Path(out) / f"{id}.json"
    if not path.exists():
        raise InvalidInputError(f"there is no earlier run, {path}. Leave out --again to run it.")
    entry: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    entry["paper"], entry["title"] = experiment.paper, experiment.title
    entry["caption"] = experiment.caption
    code = digest(experiment.run)
    if experiment.decide is not None and entry.get("code") == code:
        claims = experiment.decide(entry["numbers"], entry["repetitions"])
        entry["claims"] = [asdict(claim) for claim in claims]
    write(experiment, entry, Path(out), code)
    return entry


def listing() -> str:
    """Return the table of experiments, one line each."""
    rows = [("id", "paper", "what")]
    rows += [(e.id, e.paper, e.title) for e in EXPERIMENTS.values()]
    first, second = (max(len(row[i]) for row in rows) for i in range(2))
    return "".join(f"{id:<{first}}  {paper:<{second}}  {what}\n" for id, paper, what in rows)


def summary(entry: dict[str, Any], folder: Path) -> str:
    """Return the claims of a run and where its page is."""
    lines = [f"{entry['id']}: {entry['title']} ({duration(entry)})"]
    for claim in entry["claims"]:
        verdict = {True: "holds", False: "DOES NOT HOLD", None: "open"}[claim["holds"]]
        where = f" ({claim['case']})" if claim["case"] else ""
        lines.append(f"  {verdict:<14} {claim['text']}{where}")
        lines.append(f"                  {claim['evidence']}")
    return "\n".join([*lines, f"  page: {folder / entry['id']}.md"]) + "\n"


def _complain(text: str) -> None:
    sys.stderr.write(f"reproduce: {text}\n")
