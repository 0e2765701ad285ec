"""Many problems, on several processes; a run that was stopped goes on from its record."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from torture.families import FAMILIES, problem
from torture.large import LARGE
from torture.large import misses as large_misses
from torture.measure import PROMISE, measure
from torture.ways import WAYS

#: Problems that a process takes at a time.
AT_A_TIME = 17


@dataclass(frozen=True)
class Judged:
    """What became of one problem.

    Attributes
    ----------
    family, seed : which problem
    misses : dict of float
        For every path and way the largest error that is not stated, less ten times that of QR.
    understated : float
        The largest ratio of an error to what is stated, where more than the promise is.
    failed : str
        What was raised, if anything.
    """

    family: str
    seed: int
    misses: dict[str, float] = field(default_factory=dict)
    understated: float = 0.0
    failed: str = ""

    def missed(self, promise: float = PROMISE) -> bool:
        """Whether something failed, or is silent about an error beyond the promise."""
        return bool(self.failed) or max(self.misses.values(), default=0.0) > promise

    def __str__(self) -> str:
        misses = (f"{path} {miss:.1e}" for path, miss in self.misses.items() if miss > PROMISE)
        return f"{self.family} seed {self.seed}: " + (self.failed or ", ".join(misses))


def judged(which: tuple[str, int], ways: bool) -> Judged:
    """Return what becomes of a problem by every path and, if asked, by every other way."""
    warnings.simplefilter("ignore")
    try:
        if which[0] in LARGE:
            return Judged(*which, large_misses(*which))
        drawn = problem(*which)
        others = [way(drawn) for way in WAYS.values()] if ways else []
        parts = [measure(drawn), *(found for found in others if found is not None)]
    except Exception as error:
        return Judged(*which, failed=f"{type(error).__name__}: {error}")
    each = [(found, path) for found in parts for path in found.errors]
    misses = {path: found.miss(path) for found, path in each}
    return Judged(*which, misses, max(found.understated(path) for found, path in each))


def drawn(count: int, seed: int, families: Iterable[str] = FAMILIES) -> list[tuple[str, int]]:
    """Return which problems a run consists of: every family in turn, then the next seed."""
    names = sorted(families)
    return [(names[i % len(names)], seed + i // len(names)) for i in range(count)]


def run(
    problems: list[tuple[str, int]], ways: bool, jobs: int, record: Path | None
) -> Iterator[Judged]:
    """Yield what becomes of each problem, as it comes; those in the record are not done again."""
    done = _recorded(record, ways)
    yield from (done[which] for which in problems if which in done)
    left = [which for which in problems if which not in done]
    pool = ProcessPoolExecutor(jobs, get_context("spawn"))
    try:
        for one in pool.map(partial(judged, ways=ways), left, chunksize=AT_A_TIME):
            if record is not None:
                with record.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({**asdict(one), "ways": ways}) + "\n")
            yield one
    finally:
        pool.shutdown(cancel_futures=True)


def _recorded(record: Path | None, ways: bool) -> dict[tuple[str, int], Judged]:
    if record is None or not record.exists():
        return {}
    lines = record.read_text(encoding="utf-8").splitlines()
    entries = [entry for entry in map(json.loads, lines) if entry.pop("ways") == ways]
    return {(entry["family"], entry["seed"]): Judged(**entry) for entry in entries}
