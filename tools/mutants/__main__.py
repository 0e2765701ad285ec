"""Run mutants: ``python -m tools.mutants --sample 300 --seed 0``, or all of them.

What is known is kept in ``.mutants``: a run that was stopped goes on where it was. A mutant is
tried again when its file has changed; one that survived, also when the tests have, or with a larger
budget. Of the survivors that it prints, some are equivalent: no result changes. Each of the others
deserves a test.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import sys
import time
from collections import Counter
from itertools import count
from math import sqrt
from pathlib import Path

import pytest

from tools.mutants.loop import BUDGET, SEEN, Loop
from tools.mutants.operators import Module, Mutant, modules
from tools.mutants.tests import digest

ROOT = Path(__file__).parent.parent.parent
PACKAGE = ROOT / "src" / "holdfast"
KEPT = ROOT / ".mutants"

#: The folders that are mutated.
FOLDERS = ["experiments", "holdout", "linalg", "scores", "smoother"]
#: The tests that may see it: quick ones of numbers, first of all those of the folders themselves.
TESTS = [
    *(f"tests/unit/{name}" for name in [*FOLDERS, "answers", "basis", "estimators", "splitters"]),
    *(
        f"tests/exact/test_{name}.py"
        for name in ["exact_matrix", "answers", "answers_range", "ragged"]
    ),
    *(f"tests/interface/test_{name}.py" for name in ["formulas", "bad_input"]),
]


class Results:
    """Outcomes in a file of JSON lines, one a mutant; the last line of a mutant counts."""

    def __init__(self, path: Path, sources: dict[str, str], suite: str, budget: float) -> None:
        self._path, self._sources, self._suite, self._budget = path, sources, suite, budget
        path.parent.mkdir(exist_ok=True)
        path.touch()
        self.read()

    def read(self) -> None:
        """Take in what is in the file."""
        self._known: dict[str, dict[str, object]] = {}
        with self._path.open(encoding="utf-8") as file:
            for line in file:
                record = json.loads(line)
                self._known[record["mutant"]] = record

    def of(self, mutant: Mutant) -> dict[str, object] | None:
        """Return the record of a mutant, if it still holds."""
        record = self._known.get(mutant.name)
        if record is None or record["source"] != self._sources[mutant.module]:
            return None
        asked = record["suite"] == self._suite and record["budget"] >= self._budget
        return record if asked or record["outcome"] in SEEN else None

    def survived(self, mutant: Mutant) -> bool:
        """Whether no test saw this mutant when it was last tried, with other tests or sources."""
        record = self._known.get(mutant.name)
        return record is not None and record["outcome"] not in SEEN

    def add(self, mutant: Mutant, outcome: str, test: str, n_tests: int) -> None:
        """Write the record of a mutant."""
        record = {
            "mutant": mutant.name, "line": mutant.lines[0], "outcome": outcome, "test": test,
            "tests": n_tests, "source": self._sources[mutant.module], "suite": self._suite,
            "budget": self._budget,
        }  # fmt: skip
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record, ensure_ascii=False) + "\n")


def main() -> None:
    """Run the mutants that are not yet known, and say how many were seen."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__)
    parser.add_argument("--sample", type=int, help="so many, drawn at random; all by default")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--only", default="", help="mutants whose name holds this")
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side")
    parser.add_argument("--budget", type=float, default=BUDGET, help="processor seconds a mutant")
    options = parser.parse_args()
    found = modules(PACKAGE, FOLDERS)
    mutants = [m for module in found for m in module.mutants if options.only in m.name]
    if options.sample is not None and options.sample < len(mutants):
        mutants = random.Random(options.seed).sample(mutants, options.sample)
    results = Results(KEPT / "results.jsonl", _digests(found), _suite(), options.budget)
    left = [mutant for mutant in mutants if results.of(mutant) is None]
    left.sort(key=results.survived)  # those that no test saw before come last
    if left:
        _run(found, left, results, options.jobs, options.budget)
        results.read()
    print(summary([record for mutant in mutants if (record := results.of(mutant)) is not None]))


def summary(records: list[dict[str, object]]) -> str:
    """Return counts, the share that tests saw with its interval, and the survivors."""
    valid = [record for record in records if record["outcome"] != "invalid"]
    ends = Counter(str(record["outcome"]) for record in valid)
    seen = sum(ends[outcome] for outcome in SEEN)
    low, high = wilson(seen, len(valid))
    share = f"{100 * seen / max(1, len(valid)):.1f} %"
    lines = [f"{count:6d} {outcome}" for outcome, count in ends.most_common()]
    lines.append(
        f"seen: {seen} of {len(valid)}, {share} (95 % interval {100 * low:.1f} to {100 * high:.1f})"
    )
    lines += [
        f"  survived: {record['mutant']}" for record in valid if record["outcome"] not in SEEN
    ]
    return "\n".join(lines)


def wilson(successes: int, n: int, z: float = 1.96) -> tuple[float, float]:
    """Return the 95 % score interval (Wilson 1927) of a proportion."""
    if n == 0:
        return 0.0, 1.0
    p, extra = successes / n, z * z / n
    middle, half = p + extra / 2, z * sqrt(p * (1 - p) / n + extra / (4 * n))
    return (middle - half) / (1 + extra), (middle + half) / (1 + extra)


def _digests(found: list[Module]) -> dict[str, str]:
    return {module.module: digest(module.path) for module in found}


def _suite() -> str:
    """Return a digest of all tests."""
    paths = sorted(path for part in TESTS for path in [ROOT / part, *(ROOT / part).rglob("*.py")])
    return hashlib.sha256(
        "".join(digest(path) for path in paths if path.is_file()).encode()
    ).hexdigest()[:12]


def _run(
    found: list[Module], mutants: list[Mutant], results: Results, jobs: int, budget: float
) -> None:
    start = time.monotonic()
    done = count(1)

    def told(mutant: Mutant, outcome: str, test: str, n_tests: int) -> None:
        results.add(mutant, outcome, test, n_tests)
        each, share = (time.monotonic() - start) / next(done), len(mutants) / jobs
        print(
            f"{outcome:8} {mutant.name}  ({n_tests} tests, {each:.1f} s each, {share:.0f} to try)"
        )
        sys.stdout.flush()

    os.chdir(ROOT)
    sys.path.insert(0, str(PACKAGE.parent))  # this checkout, whatever is installed
    arguments = ["-q", "-s", "-p", "no:cacheprovider", "-m", "not slow", *TESTS]
    code = pytest.main(arguments, plugins=[Loop(found, mutants, KEPT, told, jobs, budget)])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        sys.exit(int(code))


if __name__ == "__main__":
    main()
