"""``python -m benchmarks``: run the jobs, print how fast everybody was, keep the records."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from benchmarks import report
from benchmarks.problems import PROBLEMS, SMOKE
from benchmarks.rivals import OURS, RIVALS
from benchmarks.runner import ROOT, Options, run

RESULTS = ROOT / "benchmarks" / "results"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is asked; 1 if something failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("problems", nargs="*", help="parts of the problems' names; none: all")
    parser.add_argument("--list", action="store_true", help="list problems and libraries")
    parser.add_argument("--smoke", action="store_true", help="tiny problems, to see that it works")
    parser.add_argument("--docs", action="store_true", help="write docs/benchmarks.md and README")
    parser.add_argument("--minutes", type=float, default=9.0, help="for everything (default: 9)")
    parser.add_argument("--library", action="append", choices=list(RIVALS), help="beside ours")
    parser.add_argument("--record", type=Path, help="the file of records")
    asked = parser.parse_args(arguments)
    problems = [
        problem
        for problem in (SMOKE if asked.smoke else PROBLEMS.values())
        if not asked.problems or any(part in problem.name for part in asked.problems)
    ]
    if asked.list:
        for problem in problems:
            print(f"{problem.name:20} {problem}")
        for name, rival in RIVALS.items():
            print(f"{name:20} {rival.absent() or 'takes part'}")
        return 0
    names = [n for n in RIVALS if asked.library is None or n in asked.library or n == OURS]
    options = Options(seconds=60.0 * asked.minutes)
    if asked.smoke:
        options = Options(seconds=0.0, rounds=1, threads=(1,))
    done = run(problems, names, options, lambda text: print(text, flush=True))
    path = asked.record or RESULTS / ("smoke.json" if asked.smoke else "latest.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(done, indent=1) + "\n", encoding="utf-8")
    print(f"\n{report.facts(done)}\n\n{report.overview(done)}\n\nRecords: {path}")
    if asked.docs:
        report.write_between(ROOT / "docs" / "benchmarks.md", report.page(done))
        report.write_between(ROOT / "README.md", report.readme(done))
    failed = [r for r in done["records"] if r["why"] and not r["why"].startswith("more than")]
    for record in failed:
        print(f"failed: {record['library']} on {record['title']}: {record['why']}")
    return int(bool(failed))


if __name__ == "__main__":
    raise SystemExit(main())
