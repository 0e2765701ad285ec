"""All libraries on all problems, in turn, each in processes of its own with one and two threads."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import machine, versions
from benchmarks.naive import Truth
from benchmarks.problems import Problem, generate
from benchmarks.rivals import OURS, RIVALS, Rival

ROOT = Path(__file__).parents[1]
THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
#: Seconds between two runs: threads of BLAS wait for more work by spinning, beside what follows.
REST = 0.05


class TooSlowError(Exception):
    """A run was stopped at the limit."""


class Process:
    """A worker of one library with so many threads; started when needed, and again if stopped."""

    def __init__(self, rival: Rival, threads: int) -> None:
        self.rival, self.threads = rival, threads
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, limit: float, do: str, **command: Any) -> dict[str, Any]:
        """Return the answer to a command; stop the process if there is none in time."""
        if self._process is None:
            paths = [os.fspath(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
            environment |= dict.fromkeys(THREAD_VARIABLES, str(self.threads))
            self._process = subprocess.Popen(
                [sys.executable, "-W", "ignore", "-m", "benchmarks.worker", self.rival.name],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=environment,
            )
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps({"do": do, **command}).encode() + b"\n")
        process.stdin.flush()
        if not select.select([process.stdout], [], [], limit)[0]:
            self.stop()
            raise TooSlowError
        line = process.stdout.readline()
        if not line:
            self.stop()
            return {"failed": "the process ended"}
        answer: dict[str, Any] = json.loads(line)
        return answer

    def stop(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


@dataclass
class Entry:
    """What one library with so many threads did on one problem.

    Attributes
    ----------
    library : str
    threads : int
    seconds : list of float
        Of each round.
    peak_bytes : float or None
    why : str
        What went wrong, or that it took longer than the limit; else empty.
    answer : dict
        The numbers, to be compared.
    """

    library: str
    threads: int
    seconds: list[float] = field(default_factory=list)
    peak_bytes: float | None = None
    why: str = ""
    answer: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Options:
    """How long a run may take.

    Attributes
    ----------
    seconds : float
        For everything together.
    limit : float
        For one run of one library.
    rounds : int
        Of each problem, if there is time.
    threads : sequence of int
    """

    seconds: float = 540.0
    limit: float = 20.0
    rounds: int = 7
    threads: Sequence[int] = (1, 2)


def run(
    problems: Sequence[Problem],
    libraries: Sequence[str],
    options: Options,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """Return the records of all problems, with the facts about the machine."""
    here = [RIVALS[name] for name in libraries if RIVALS[name].absent() is None]
    absent = {name: RIVALS[name].absent() for name in libraries if RIVALS[name].absent()}
    started, records = time.monotonic(), []
    facts = {"date": time.strftime("%Y-%m-%d"), "machine": machine(), "versions": versions()}
    with _processes(here, options.threads) as processes:
        for i, problem in enumerate(problems):
            left = options.seconds - (time.monotonic() - started)
            share = max(0.0, left / (len(problems) - i))
            records += _one(problem, processes, options, share)
            say(_line(problem, records))
    return {**facts, "absent": absent, "limit": options.limit, "records": records}


@contextlib.contextmanager
def _processes(rivals: Sequence[Rival], threads: Sequence[int]) -> Iterator[list[Process]]:
    found = [Process(rival, n) for n in threads for rival in rivals]
    try:
        yield found
    finally:
        for process in found:
            process.stop()


def _one(
    problem: Problem, processes: Sequence[Process], options: Options, share: float
) -> list[dict[str, Any]]:
    """Return the records of one problem: rounds in which all take turns, while time is left."""
    naive = Truth(problem, generate(problem))
    started = time.monotonic()
    entries = {
        process: Entry(process.rival.name, process.threads)
        for process in processes
        if process.rival.can(problem)
    }
    slow: set[str] = set()
    for turn in range(options.rounds):
        if turn and time.monotonic() - started > share:
            break
        for process, entry in entries.items():
            if entry.why or (not turn and entry.library in slow):
                entry.why = entry.why or _too_slow(options)
                continue
            try:
                _turn(process, entry, problem, naive.asked if turn == 0 else None, options.limit)
            except TooSlowError:
                entry.why = _too_slow(options)
                slow.add(entry.library)
            time.sleep(REST)
    for process, entry in entries.items():
        if not entry.why:
            process.ask(options.limit, "forget")
    truth = next((e.answer["value"] for e in _others(entries) if "value" in e.answer), None)
    return [_record(naive, entry, truth) for entry in entries.values()]


def _too_slow(options: Options) -> str:
    return f"more than {options.limit:g} s"


def _others(entries: Mapping[Process, Entry]) -> list[Entry]:
    return [entry for entry in entries.values() if entry.library != OURS]


def _turn(process: Process, entry: Entry, problem: Problem, asked: Any, limit: float) -> None:
    """Let one library do the job once."""
    if asked is not None:
        prepared = process.ask(limit + 60.0, "prepare", problem=asdict(problem))
        entry.why = prepared.get("failed", "")
        if entry.why:
            return
    took = process.ask(limit, "run")
    entry.why = took.get("failed", "")
    if entry.why:
        return
    entry.seconds.append(took["seconds"])
    entry.peak_bytes = max(filter(None, (entry.peak_bytes, took["peak_bytes"])), default=None)
    if asked is not None:
        entry.answer = process.ask(limit + 60.0, "read", asked=asked)


def _record(naive: Truth, entry: Entry, truth: list[float] | None) -> dict[str, Any]:
    """Return a record: the fastest round, memory, and the deviation from retraining."""
    problem, far = naive.problem, None
    if "value" in entry.answer and truth is not None and entry.library == OURS:
        ours = np.array(entry.answer["value"])
        far = float(np.abs(ours - truth).max() / np.abs(truth).max())
    elif problem.job == "cross-validate" and entry.answer:
        far = naive.deviation(entry.answer)
    return {
        "problem": problem.name,
        "title": str(problem),
        "library": entry.library,
        "threads": entry.threads,
        "seconds": min(entry.seconds, default=None),
        "rounds": len(entry.seconds),
        "peak_bytes": entry.peak_bytes,
        "deviation": far,
        "why": entry.why or entry.answer.get("failed", ""),
    }


def _line(problem: Problem, records: Sequence[Mapping[str, Any]]) -> str:
    """Return a line that says how fast everybody was."""
    cells = []
    for record in records:
        if record["problem"] == problem.name:
            took = record["why"] or f"{1e3 * record['seconds']:.3g} ms"
            far = "" if record["deviation"] is None else f" ({record['deviation']:.0e})"
            cells.append(f"{record['library']}/{record['threads']} {took}{far}")
    return f"{problem}\n    " + ", ".join(cells)
