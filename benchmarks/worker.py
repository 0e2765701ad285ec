"""One rival on one problem in a process of its own, so that its memory is its own.

    python -m benchmarks.worker PROBLEM RIVAL

Commands come in as lines and answers go out as lines of JSON: `run` times the job once and keeps
the result, `drop` forgets it, `check FILE` compares it with the retrained models in the file.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

from benchmarks.measure import timed
from benchmarks.problems import PROBLEMS, Data, Problem, generate
from benchmarks.rivals import RIVALS
from benchmarks.rivals.base import Outside, Rival
from benchmarks.truth import Truth, deviation


def tiny(problem: Problem) -> Problem:
    """Return a problem of the same kind that takes milliseconds."""
    return replace(
        problem,
        m=60,
        d=3,
        n=None if problem.dense else 10,
        n_alphas=2,
        parts=min(problem.parts, 5),
        targets=min(problem.targets, 3),
    )


class Job:
    """A rival with its data, warmed up on a tiny problem of the same kind."""

    def __init__(self, problem: Problem, rival: Rival) -> None:
        self.problem, self.rival = problem, rival
        self.data: Data = generate(problem)
        small = tiny(problem)
        rival.run(small, generate(small))  # imports, thread pools, first calls
        self.result: Any = None

    def run(self) -> dict[str, float]:
        """Do the job once and return what it took."""
        self.result = None
        timing = timed(lambda: self.rival.run(self.problem, self.data))
        self.result = timing.result
        if isinstance(self.result, Outside):
            inside = self.result
            return {
                "seconds": inside.seconds,
                "cpu_seconds": float("nan"),
                "peak_bytes": inside.peak_bytes,
            }
        return {
            "seconds": timing.seconds,
            "cpu_seconds": timing.cpu_seconds,
            "peak_bytes": timing.peak_bytes,
        }

    def drop(self) -> dict[str, float]:
        """Forget the result."""
        self.result = None
        return {}

    def check(self, truth: Truth) -> dict[str, float | str]:
        """Return how far the result lies from retraining."""
        rival = self.rival
        outcome = rival.read(self.problem, self.data, self.result)
        value, of = deviation(self.problem, self.data, rival.model, outcome, truth)
        promised = rival.promised(self.result)
        return {"deviation": value, "deviation_of": of, "promised_bytes": promised}


def main(problem: str, rival: str, answers: TextIO) -> None:
    """Answer commands until there are no more."""

    def answer(content: dict[str, Any]) -> None:
        print(json.dumps(content), file=answers, flush=True)

    try:
        job = Job(PROBLEMS[problem], RIVALS[rival])
        answer({})
        for line in sys.stdin:
            command, _, rest = line.strip().partition(" ")
            if command == "check":
                # Written by the runner that started this process, moments ago.
                answer(job.check(pickle.loads(Path(rest).read_bytes())))
            else:
                answer({"run": job.run, "drop": job.drop}[command]())
    except Exception as error:  # the runner records it and goes on
        answer({"failed": f"{type(error).__name__}: {error}"})


if __name__ == "__main__":
    # Rivals print to standard output; the answers keep the channel to themselves.
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    main(sys.argv[1], sys.argv[2], channel)
