"""The table of docs/benchmarks.md and the three rows of the README, from the records of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.rivals import OURS, RIVALS

START, END = "<!-- table: start -->", "<!-- table: end -->"
Record = Mapping[str, Any]

NOTE = (
    "Cells are times as multiples of ours, each library with its better number of threads; in "
    "bold: faster than ours. A dash: the library does not do the job, or would take many minutes."
)

#: Rows of the README: the problem, and what scikit-learn calls its way.
README = {
    "dense-folds-1000": "`GridSearchCV(KernelRidge())`",
    "basis-20000": "`Nystroem` + `RidgeCV`",
    "nested-1000": "`cross_val_score(GridSearchCV(…))`",
}


def best(records: Iterable[Record]) -> dict[str, dict[str, Record]]:
    """Return the record of each library at its best number of threads, for each problem."""
    found: dict[str, dict[str, Record]] = {}
    for record in records:
        there = found.setdefault(record["problem"], {})
        other = there.get(record["library"])
        if other is None or _seconds(record) < _seconds(other):
            there[record["library"]] = record
    return found


def _seconds(record: Record) -> float:
    return float("inf") if record["seconds"] is None or record["why"] else record["seconds"]


def overview(done: Mapping[str, Any]) -> str:
    """Return one row for each problem: our time, and those of others as multiples of it."""
    libraries = [name for name in RIVALS if name != OURS and name not in done["absent"]]
    rows = [("job", OURS, *libraries)]
    for problem in best(done["records"]).values():
        ours = problem[OURS]
        unit = _seconds(ours)
        cells = [_cell(problem.get(name), unit) for name in libraries]
        rows.append((ours["title"], time_of(ours), *cells))
    return table(rows)


def _cell(record: Record | None, ours: float) -> str:
    """Return how many times as long a library takes; where it is faster, in bold."""
    if record is None or ours == float("inf"):
        return "–"
    if record["why"]:
        return time_of(record)
    ratio = _seconds(record) / ours
    said = f"{ratio:.2f}" if ratio < 10 else f"{ratio:,.0f}"
    return f"**{said}**" if ratio < 1.0 else said


def details(done: Mapping[str, Any]) -> str:
    """Return one row for each library on each problem: time, threads, memory and deviation."""
    rows = [("job", "library", "time", "threads", "memory", "deviation")]
    for problem in best(done["records"]).values():
        for i, (name, record) in enumerate(problem.items()):
            peak, far = record["peak_bytes"], record["deviation"]
            rows.append(
                (
                    "" if i else record["title"],
                    name,
                    time_of(record),
                    str(record["threads"]),
                    "–" if peak is None else f"{peak / 1e6:,.0f} MB",
                    "–" if far is None else f"{far:.0e}",
                )
            )
    return table(rows)


def time_of(record: Record) -> str:
    """Return seconds, or milliseconds where they are few; what went wrong, if something did."""
    value = _seconds(record)
    if value == float("inf"):
        return record["why"] if record["why"].startswith("more than") else "failed"
    return f"{value:.3g} s" if value >= 1.0 else f"{1e3 * value:.3g} ms"


def facts(done: Mapping[str, Any]) -> str:
    """Return a paragraph on the machine, the versions and what is left out."""
    here = done["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in done["versions"].items())
    text = (
        f"{done['date']}, {here['processor']}, {here['cores']} cores, {', '.join(here['blas'])}, "
        f"load at the start {here['load']}; {versions}."
    )
    absent = "; ".join(f"{name}: {why}" for name, why in done["absent"].items())
    return f"{text} Left out: {absent}." if absent else text


def page(done: Mapping[str, Any]) -> str:
    """Return what stands between the marks of docs/benchmarks.md."""
    return "\n\n".join(
        ["## Figures", facts(done), NOTE, overview(done), "### Every figure", details(done)]
    )


def readme(done: Mapping[str, Any]) -> str:
    """Return the rows of the README, and a line that says what was measured."""
    found = best(done["records"])
    rows = [("job", "scikit-learn", OURS)]
    for name, way in README.items():
        if {"scikit-learn", OURS} <= set(found.get(name, {})):
            theirs, ours = found[name]["scikit-learn"], found[name][OURS]
            rows.append((ours["title"], f"{time_of(theirs)} ({way})", time_of(ours)))
    said = (
        f"{done['versions']['holdfast']}, {done['machine']['cores']} cores, each library with its "
        "better number of threads; [all figures](docs/benchmarks.md) beside himalaya and NumPy."
    )
    return f"{table(rows)}\n\nVersion {said}"


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; the first row is its head, figures stand to the right."""
    head, *body = rows
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def write_between(path: Path, body: str) -> None:
    """Replace what stands between the marks of a page."""
    text = path.read_text(encoding="utf-8")
    before, found, rest = text.partition(START)
    _, ended, after = rest.partition(END)
    if not (found and ended):
        raise SystemExit(f"{path.name} lacks the lines {START} and {END}.")
    path.write_text(f"{before}{START}\n\n{body}\n\n{END}{after}", encoding="utf-8")
