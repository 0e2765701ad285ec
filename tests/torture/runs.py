"""Many problems, on several processes; a run that was stopped goes on from its record."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass, field
from multiprocessing import get_context
from pathlib import Path

from torture.families import FAMILIES, problem
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


def judged(family: str, seed: int, ways: bool) -> Judged:
    """Return what becomes of a problem by every path and, if asked, by every other way."""
    try:
        drawn = problem(family, seed)
        others = [way(drawn) for way in WAYS.values()] if ways else []
        parts = [measure(drawn), *(found for found in others if found is not None)]
    except Exception as error:
        return Judged(family, seed, failed=f"{type(error).__name__}: {error}")
    each = [(found, path) for found in parts for path in found.errors]
    misses = {path: found.miss(path) for found, path in each}
    return Judged(family, seed, misses, max(found.understated(path) for found, path in each))


def drawn(count: int, seed: int, families: Iterable[str] = FAMILIES) -> list[tuple[str, int]]:
    """Return which problems a run consists of: every family in turn, then the next seed."""
    names = sorted(families)
    return [(names[i % len(names)], seed + i // len(names)) for i in range(count)]


def run(
    problems: list[tuple[str, int]], ways: bool, jobs: int, record: Path | None
) -> Iterator[Judged]:
    """Yield what becomes of each problem, as it comes; those in the record are not done again."""
    done = dict(_recorded(record, ways))
    yield from (done[which] for which in problems if which in done)
    left = [which for which in problems if which not in done]
    parts = [left[i : i + AT_A_TIME] for i in range(0, len(left), AT_A_TIME)]
    for some in _everywhere(parts, ways, jobs):
        if record is not None:
            lines = (json.dumps({**asdict(one), "ways": ways}) + "\n" for one in some)
            with record.open("a", encoding="utf-8") as file:
                file.writelines(lines)
        yield from some


def _recorded(record: Path | None, ways: bool) -> Iterator[tuple[tuple[str, int], Judged]]:
    if record is None or not record.exists():
        return
    for line in record.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        if entry.pop("ways") == ways:
            one = Judged(**entry)
            yield (one.family, one.seed), one


def _everywhere(
    parts: list[list[tuple[str, int]]], ways: bool, jobs: int
) -> Iterator[list[Judged]]:
    """Yield what becomes of each part, a few of them under way in every process."""
    if jobs == 1:
        yield from (_some(part, ways) for part in parts)
        return
    waiting = iter(parts)
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        under_way: set[Future[list[Judged]]] = set()
        try:
            while True:
                while len(under_way) < 2 * jobs and (part := next(waiting, None)) is not None:
                    under_way.add(pool.submit(_some, part, ways))
                if not under_way:
                    return
                ready, under_way = wait(under_way, return_when=FIRST_COMPLETED)
                yield from (future.result() for future in ready)
        finally:
            for future in under_way:
                future.cancel()


def _some(part: list[tuple[str, int]], ways: bool) -> list[Judged]:
    warnings.simplefilter("ignore")
    return [judged(family, seed, ways) for family, seed in part]
