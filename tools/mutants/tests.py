"""What is known of the tests: the lines that each of them reaches, and how long it takes."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import coverage
import pytest

#: Tests that take longer than this many processor seconds are left out.
LONGEST = 5.0


class Tests:
    """Lines and times of tests, kept in a folder from one run to the next.

    A test is measured again when its file changes, all of them when a mutated file does. Each
    process that measures has files of its own.
    """

    def __init__(self, folder: Path, sources: list[Path]) -> None:
        self.seconds: dict[str, float] = {}
        self._digests: dict[str, str] = {}
        self._sources = sources
        name = hashlib.sha256("".join(map(digest, sources)).encode()).hexdigest()[:12]
        self._folder = folder / f"tests-{name}"
        self._folder.mkdir(parents=True, exist_ok=True)
        self.read()

    def read(self) -> None:
        """Take in what other processes have saved, the newest last."""
        for path in sorted(self._folder.glob("*.json"), key=lambda path: path.stat().st_mtime):
            for test, (seconds, version) in json.loads(path.read_text("utf-8")).items():
                self.seconds[test], self._digests[test] = seconds, version
        self._reached: dict[Path, dict[int, set[str]]] = {}

    def has(self, item: pytest.Item) -> bool:
        """Whether a test has been measured as it is now."""
        return self._digests.get(item.nodeid) == digest(item.path)

    @contextmanager
    def recording(self) -> Iterator[Callable[[str], None]]:
        """Trace the sources; yields the function that announces the next test."""
        self.seconds, self._digests = {}, {}
        self._path = self._folder / f"{time.time_ns()}-{os.getpid()}"
        self._tracer = coverage.Coverage(
            data_file=str(self._path.with_suffix(".lines")),
            include=[str(path) for path in self._sources],
            config_file=False,
        )
        self._tracer.start()
        try:
            yield self._tracer.switch_context
        finally:
            self._tracer.stop()
            self.save()

    def add(self, item: pytest.Item, seconds: float, passed: bool) -> None:
        """Note how long a test took; one that fails without any fault is never asked."""
        self.seconds[item.nodeid] = seconds if passed else float("inf")
        self._digests[item.nodeid] = digest(item.path)

    def save(self) -> None:
        """Write the lines and times of this recording."""
        self._tracer.save()
        table = {test: (seconds, self._digests[test]) for test, seconds in self.seconds.items()}
        self._path.with_suffix(".json").write_text(json.dumps(table), "utf-8")

    def reaching(self, path: Path, lines: tuple[int, int]) -> set[str]:
        """Return the tests that reach one of the lines, first to last, of a file."""
        reached = self.load(path)
        tests = {test for n in range(lines[0], lines[1] + 1) for test in reached.get(n, ())}
        return {test for test in tests if self.seconds.get(test, LONGEST) < LONGEST}

    def load(self, path: Path) -> dict[int, set[str]]:
        """Return the tests that reach each line of a file; read once."""
        if path not in self._reached:
            lines = self._reached[path] = defaultdict(set)
            for file in self._folder.glob("*.lines"):
                data = coverage.CoverageData(str(file))
                data.read()
                for line, tests in data.contexts_by_lineno(str(path)).items():
                    lines[line] |= set(tests)
        return self._reached[path]


@cache
def digest(path: Path) -> str:
    """Return a digest of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]


def in_order(
    tests: set[str], seconds: dict[str, float], killers: Counter[str], folder: str
) -> list[str]:
    """Return the tests, those first that are likely to see a fault soon.

    First those that saw other faults of the same function, then one case of each test function, a
    second case of each, and so on; among these the tests of the folder itself, then the quick ones.
    """
    cases: Counter[str] = Counter()
    keys: dict[str, tuple[int, int, bool, float]] = {}
    for test in sorted(tests, key=lambda test: seconds[test]):
        function = test.split("[")[0]
        own = test.startswith(f"tests/unit/{folder}/")
        keys[test] = (-killers[test], cases[function] // 2, not own, seconds[test])
        cases[function] += 1
    return sorted(keys, key=lambda test: keys[test])
