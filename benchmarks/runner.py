"""The runner: every rival on every problem, in turn, round after round, and one record of each.

All rivals of a problem are alive at the same time, each in its own process, and take turns: a
machine that slows down slows all of them, and the fastest round counts. A rival whose rounds have
used up their budget stops early, one that exceeds the limit is ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from benchmarks.measure import REST, environment, machine, versions
from benchmarks.problems import Model, Problem, generate
from benchmarks.rivals import RIVALS, rlscore_library
from benchmarks.rivals.base import Rival
from benchmarks.truth import retrain
from benchmarks.worker import Job


@dataclass(frozen=True)
class Options:
    """How to measure.

    Attributes
    ----------
    repeats : int
        Rounds.
    budget : float
        Seconds after which a rival takes part in no further round of the same problem.
    limit : float
        Seconds after which a single run is ended.
    threads : int
        BLAS threads of each rival.
    isolated : bool
        Whether rivals run in processes of their own; otherwise memory is not comparable.
    """

    repeats: int = 5
    budget: float = 60.0
    limit: float = 1800.0
    threads: int = 1
    isolated: bool = True


@dataclass
class Record:
    """One rival on one problem."""

    problem: str
    rival: str
    label: str
    model: dict[str, Any]
    status: str = "ok"
    why: str = ""
    version: str = ""
    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    peak_bytes: float = float("nan")
    deviation: float = float("nan")
    deviation_of: str = ""
    promised_bytes: float = float("nan")

    @property
    def fastest(self) -> float:
        """Seconds of the fastest round."""
        return min(self.seconds, default=float("nan"))


class Failed(Exception):
    """A rival gave up, or was ended; the message says why."""


class Participant(Protocol):
    """A rival that can be told what to do."""

    def ready(self) -> None:
        """Wait until it is ready to run, or fail."""
        ...

    def ask(self, command: str, rest: str = "") -> dict[str, Any]:
        """Return the answer to run, drop or check."""
        ...

    def close(self) -> None:
        """End it."""
        ...


class Inside:
    """A rival in this process: quick to start, and its memory is mixed with everybody's."""

    def __init__(self, problem: Problem, rival: Rival, options: Options) -> None:
        self._problem, self._rival = problem, rival

    def ready(self) -> None:
        """Make the data and warm up."""
        self._job: Job = _attempt(lambda: Job(self._problem, self._rival))

    def ask(self, command: str, rest: str = "") -> dict[str, Any]:
        """Return the answer to run, drop or check."""
        if command == "check":
            truth = pickle.loads(Path(rest).read_bytes())
            return dict(_attempt(lambda: self._job.check(truth)))
        return dict(_attempt({"run": self._job.run, "drop": self._job.drop}[command]))

    def close(self) -> None:
        """Nothing to end."""


def _attempt(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except Exception as error:
        raise Failed(f"{type(error).__name__}: {error}") from error


class Process:
    """A rival in a process of its own (`benchmarks.worker`)."""

    def __init__(self, problem: Problem, rival: Rival, options: Options) -> None:
        self._limit = options.limit
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.worker", problem.name, rival.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment(options.threads),
        )

    def ready(self) -> None:
        """Wait until data and imports are there."""
        self._answer()

    def ask(self, command: str, rest: str = "") -> dict[str, Any]:
        """Return the answer to run, drop or check."""
        assert self._process.stdin is not None
        try:
            print(command, rest, file=self._process.stdin, flush=True)
        except OSError:
            raise Failed("the process has ended") from None
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            if not selector.select(self._limit):
                raise Failed(f"took longer than {self._limit:.0f} s")
        line = self._process.stdout.readline()
        if not line:
            code = self._process.wait()
            raise Failed("was ended for want of memory" if code == -9 else f"exit code {code}")
        answer: dict[str, Any] = json.loads(line)
        if "failed" in answer:
            raise Failed(answer["failed"])
        return answer

    def close(self) -> None:
        """End the process."""
        with contextlib.suppress(OSError):
            self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


def run(
    problems: Sequence[Problem],
    rivals: Iterable[str],
    options: Options,
    tell: Callable[[str], None] = lambda text: None,
    keep: Callable[[dict[str, Any]], None] = lambda done: None,
) -> dict[str, Any]:
    """Return the records of all problems, with machine, versions and options, ready for JSON.

    `keep` gets what there is after each problem, so that an interrupted run is not lost.
    """
    chosen, facts = [RIVALS[name] for name in rivals], machine()
    facts["threads"] = options.threads if options.isolated else facts["threads"]
    done: dict[str, Any] = {
        "date": time.strftime("%Y-%m-%d"),
        "machine": facts,
        "versions": versions(),
        "options": asdict(options),
        "records": [],
    }
    for problem in problems:
        tell(f"{problem.name}: {problem}")
        done["records"] += map(asdict, run_problem(problem, chosen, options, tell))
        keep(done)
    return done


def run_problem(
    problem: Problem, rivals: Sequence[Rival], options: Options, tell: Callable[[str], None]
) -> list[Record]:
    """Return the records of one problem."""
    records: list[Record] = []
    alive: list[tuple[Record, Participant]] = []
    files: dict[Model, Path] = {}
    with tempfile.TemporaryDirectory() as folder:
        try:
            for rival in rivals:
                record, participant = _start(problem, rival, options)
                records.append(record)
                if participant is not None:
                    alive.append((record, participant))
                    if rival.model not in files and not rival.single:
                        files[rival.model] = Path(folder) / f"{len(files)}.pickle"
            for model, path in files.items():
                path.write_bytes(pickle.dumps(retrain(problem, generate(problem), model)))
            _rounds(alive, files, options)
        finally:
            for _, participant in alive:
                participant.close()
    for record in records:
        tell(f"  {_summary(record)}")
    return records


def _start(problem: Problem, rival: Rival, options: Options) -> tuple[Record, Participant | None]:
    record = Record(problem.name, rival.name, rival.label, asdict(rival.model))
    for status, why in (("missing", rival.missing()), ("refused", rival.declines(problem))):
        if why:
            record.status, record.why = status, why
            return record, None
    found = versions()
    record.version = found.get(rival.package, "")
    if rival.package == "rlscore":
        record.version = rlscore_library.version()
    kind = Process if options.isolated else Inside
    return record, kind(problem, rival, options)


def _fail(record: Record, participant: Participant, error: Failed) -> None:
    record.status, record.why = "failed", str(error)
    participant.close()


def _rounds(
    alive: list[tuple[Record, Participant]], files: dict[Model, Path], options: Options
) -> None:
    """Let all take turns until their rounds or budgets are used up."""
    waiting = []
    for record, participant in alive:
        try:
            participant.ready()
            waiting.append((record, participant))
        except Failed as error:
            _fail(record, participant, error)
    for turn in range(options.repeats):
        again = []
        for record, participant in waiting:
            try:
                last = _turn(record, participant, files, options, turn)
            except Failed as error:
                _fail(record, participant, error)
                continue
            if not last:
                again.append((record, participant))
        waiting = again


def _turn(
    record: Record,
    participant: Participant,
    files: dict[Model, Path],
    options: Options,
    turn: int,
) -> bool:
    """Time one run; check its answer if it is the last one, and return whether it is."""
    time.sleep(REST)
    answer = participant.ask("run")
    record.seconds.append(answer["seconds"])
    record.cpu_seconds.append(answer["cpu_seconds"])
    peaks = [record.peak_bytes, answer["peak_bytes"]]
    record.peak_bytes = max((peak for peak in peaks if peak == peak), default=float("nan"))
    last = turn == options.repeats - 1 or sum(record.seconds) > options.budget
    truth = files.get(Model(**record.model))
    if last and truth is not None and not RIVALS[record.rival].single:
        checked = participant.ask("check", os.fspath(truth))
        record.deviation, record.deviation_of = checked["deviation"], checked["deviation_of"]
        record.promised_bytes = checked["promised_bytes"]
    participant.ask("drop")
    return last


def _summary(record: Record) -> str:
    if record.status != "ok":
        return f"{record.label}: {record.why}"
    return f"{record.label}: {record.fastest:.4g} s, deviation {record.deviation:.1e}"
