"""Speed, told whole: `python -m benchmarks.speed [--docs]`.

One run of about a quarter of an hour on two cores. The jobs of the set "speed" (leave-one-out,
folds, groups, ridge, many targets) by every library that does the same job, in interleaved rounds,
each in a process of its own, with the deviation from models that were really retrained; then how
time grows (`benchmarks.growth`). Memory is told beside what `explain` promised. A library that is
not installed is left out and named. With --docs the tables go into docs/benchmarks.md and three
lines into the README; --quick runs tiny problems, to see that it works.
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import growth, report
from benchmarks.__main__ import RESULTS, ROOT
from benchmarks.problems import PROBLEMS, SETS
from benchmarks.report import Run, by_problem, fraction, markdown_table, seconds
from benchmarks.rivals import YARDSTICK
from benchmarks.runner import Options, run

OURS = "holdfast"
#: Columns of the first table: a library, and its adaptors.
LIBRARIES: dict[str, tuple[str, ...]] = {
    "RLScore": ("rlscore",),
    "scikit-learn": ("grid-search", "ridge-loo", "ridge-folds"),
    "himalaya": ("himalaya",),
    "BoTorch": ("botorch",),
    "CVMatrix": ("cvmatrix",),
    "k-fold theorem": ("kfold-theorem",),
    "retraining by hand": ("retraining",),
}
TAKE_PART = (YARDSTICK, OURS, "holdfast-streamed", *sum(LIBRARIES.values(), ()))
#: Three lines of the README: the job, scikit-learn's way, and its adaptor.
README = {
    "dense-5fold": ("`GridSearchCV`", "grid-search"),
    "sparse-loo": ("`Nystroem` + `RidgeCV`", "ridge-loo"),
    "sparse-10fold": ("`Nystroem` + `RidgeCV(cv=10)`", "ridge-folds"),
}
START, END = "<!-- speed: start -->", "<!-- speed: end -->"
TOO_MANY = (
    "10⁵ targets on 5,000 rows are not run: the targets take 4 GB, and their held-out predictions "
    "for ten penalties 40 GB."
)


def overview(done: Run) -> list[tuple[str, ...]]:
    """Return one line for each job: our seconds, the ratio to one fit, and those of the others."""
    lines: list[tuple[str, ...]] = [("job", "holdfast", "× one plain fit", *LIBRARIES)]
    for name, records in by_problem(done).items():
        ours = seconds(records, OURS)
        times = [[seconds(records, rival) for rival in rivals] for rivals in LIBRARIES.values()]
        best = [min((t for t in row if math.isfinite(t)), default=math.nan) for row in times]
        unit = fraction(ours, seconds(records, YARDSTICK))
        cells = [fraction(value, ours) for value in best]
        lines.append((str(PROBLEMS[name]), told(ours), unit, *cells))
    return lines


def told(value: float) -> str:
    """Return seconds, or milliseconds where they are few."""
    return f"{value:.3g} s" if value >= 1 else f"{1e3 * value:.3g} ms"


def memory_lines(done: Run) -> list[tuple[str, ...]]:
    """Return what `explain` promised and what was used, where holdfast ran."""
    lines: list[tuple[str, ...]] = [("job", "promised", "peak", "peak / promised")]
    for name, records in by_problem(done).items():
        for record in records:
            promised, peak = record["promised_bytes"], record["peak_bytes"]
            if promised is None or not math.isfinite(promised) or peak is None:
                continue
            streamed = ", rows streamed" if record["rival"] == "holdfast-streamed" else ""
            megabytes = (f"{value / 1e6:,.3g} MB" for value in (promised, peak))
            lines.append((f"{PROBLEMS[name]}{streamed}", *megabytes, fraction(peak, promised)))
    return lines


def absent(done: Run) -> str:
    """Return one sentence naming what took no part in any job."""
    missing = {r["label"]: r["why"] for r in done["records"] if r["status"] == "missing"}
    failed = [
        f"{r['label']} on {PROBLEMS[r['problem']]}: {r['why']}"
        for r in done["records"]
        if r["status"] == "failed"
    ]
    told = [f"{label} ({why})" for label, why in missing.items()]
    sentence = f"Left out: {'; '.join(told)}." if told else "Every library took part."
    return sentence + (f" Failed: {'; '.join(failed)}." if failed else "")


def to_markdown(done: Run) -> str:
    """Return the whole page below its introduction."""
    parts = [
        report.machine_line(done),
        "Each cell of the columns on the right is a time as a ratio to that of holdfast; a dash "
        "means that the library does not do this job, or would take many minutes. Every ratio is "
        f"of the fastest of interleaved rounds. {absent(done)} {TOO_MANY}",
        markdown_table(overview(done)),
        "### Every job",
        report.NOTE,
    ]
    for name, records in by_problem(done).items():
        parts += [f"**{PROBLEMS[name]}**", markdown_table([report.HEADER, *report.rows(records)])]
    return "\n\n".join(
        [
            *parts,
            "### Memory beside what `explain` promised",
            "The peak of resident memory above the data, and the estimate that `explain` gives "
            "for the path it took.",
            markdown_table(memory_lines(done)),
            "### How time grows",
            "One quantity grows in steps of a quarter, the others stay: ten penalties, one target "
            "and leave-one-out where nothing else is said. CPU seconds on one thread, the fastest "
            "of interleaved rounds. The power is fitted to the upper half of the range; the "
            "largest step is the largest ratio between neighbouring sizes, up or down.",
            markdown_table([growth.HEADER, *map(growth.line, done["growth"])]),
        ]
    )


def readme_table(done: Run) -> str:
    """Return three lines for the README."""
    lines = [("job", "scikit-learn", "holdfast")]
    for name, records in by_problem(done).items():
        _, _, job = name.partition("-")
        if job in README:
            way, rival = README[job]
            cells = f"{told(seconds(records, rival))} ({way})", told(seconds(records, OURS))
            lines.append((_words(name), *cells))
    return markdown_table(lines)


def _words(name: str) -> str:
    problem = PROBLEMS[name]
    parts = "leave-one-out" if problem.split == "loo" else f"{problem.parts} folds"
    model = "kernel ridge" if problem.dense else f"{problem.n:,} basis rows"
    return f"{parts} × {problem.n_alphas} penalties, {problem.m:,} rows, {model}"


def write_between(path: Path, body: str) -> None:
    """Replace what stands between the markers of a page."""
    text = path.read_text(encoding="utf-8")
    before, found, rest = text.partition(START)
    _, ended, after = rest.partition(END)
    if not (found and ended):
        raise SystemExit(f"{path.name} lacks the lines {START} and {END}.")
    path.write_text(f"{before}{START}\n\n{body}\n\n{END}{after}", encoding="utf-8")


def measure(quick: bool, threads: int, keep: Path) -> dict[str, Any]:
    """Run everything; what there is so far is kept in a file."""
    which = "quick" if quick else "speed"
    options = Options(
        repeats=1 if quick else 5, budget=15.0, limit=300.0, threads=threads, isolated=not quick
    )

    def say(text: str) -> None:
        print(text, flush=True)

    done = run(SETS[which], TAKE_PART, options, say, lambda part: report.save(part, keep))
    done["growth"] = growth.measure(0.05 if quick else 1.0, 1 if quick else 3, say)
    report.save(done, keep)
    return done


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and write the page."""
    parser = argparse.ArgumentParser(prog="benchmarks.speed", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="tiny problems, to see that it works")
    parser.add_argument("--docs", action="store_true", help="write docs/benchmarks.md and README")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="BLAS threads")
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder for the record")
    parser.add_argument("--page", type=Path, help="write the tables into this file instead")
    parser.add_argument("--from-record", type=Path, help="report an earlier run; measure nothing")
    asked = parser.parse_args(arguments)
    keep = asked.output / ("speed-quick.json" if asked.quick else "speed.json")
    done = report.load(asked.from_record) if asked.from_record else None
    done = done or measure(asked.quick, asked.threads, keep)
    page = to_markdown(done)
    if asked.page is not None:
        asked.page.write_text(f"{page}\n\n{readme_table(done)}\n", encoding="utf-8")
    if asked.docs:
        write_between(ROOT / "docs" / "benchmarks.md", page)
        write_between(ROOT / "README.md", readme_table(done))
    print(page)
    return int(any(record["status"] == "failed" for record in done["records"]))


if __name__ == "__main__":
    raise SystemExit(main())
