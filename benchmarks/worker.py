"""One library in a process of its own, with its own number of BLAS threads and its own memory.

    python -m benchmarks.worker LIBRARY

Commands come in and answers go out as lines of JSON. ``prepare`` makes the arrays of a problem and
warms up on a tiny one of the same kind, ``run`` does the job once, ``read`` gives its numbers, and
``forget`` frees everything.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import Any

from benchmarks.measure import timed
from benchmarks.problems import Data, Problem, generate
from benchmarks.rivals import RIVALS, Done, Rival


class Worker:
    """A library, the problem that it works on, and its last result."""

    def __init__(self, rival: Rival) -> None:
        self.rival = rival
        self.problem: Problem | None = None
        self.data: Data | None = None
        self.done: Done | None = None

    def prepare(self, problem: Mapping[str, Any]) -> dict[str, Any]:
        """Make the arrays, and pay for imports and first calls."""
        self.problem = Problem(**problem)
        tiny = self.problem.tiny()
        self.rival.run(tiny, generate(tiny))
        self.data = generate(self.problem)
        return {}

    def run(self) -> dict[str, Any]:
        """Do the job once and return what it took."""
        assert self.problem is not None
        assert self.data is not None
        problem, data = self.problem, self.data
        self.done = None
        self.done, seconds, peak = timed(lambda: self.rival.run(problem, data))
        if self.done.seconds is not None:
            seconds, peak = self.done.seconds, self.done.peak_bytes
        return {"seconds": seconds, "peak_bytes": peak}

    def read(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Return the numbers of the last run."""
        assert self.done is not None
        return self.done.read(asked)

    def forget(self) -> dict[str, Any]:
        """Free everything."""
        self.problem = self.data = self.done = None
        return {}


def main(name: str) -> None:
    """Answer commands until there are no more."""
    channel = os.fdopen(os.dup(1), "w")  # libraries print to standard output: it is not the channel
    os.dup2(2, 1)
    worker = Worker(RIVALS[name])
    for line in sys.stdin:
        command = json.loads(line)
        try:
            answer = getattr(worker, command.pop("do"))(**command)
        except Exception as error:  # the runner records it and goes on
            answer = {"failed": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=channel, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
