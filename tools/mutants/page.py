"""What mutants have shown: counts with their interval, and the survivors with reasons."""

from __future__ import annotations

import tomllib
from argparse import Namespace
from collections import Counter
from collections.abc import Iterable
from math import sqrt
from pathlib import Path

from tools.mutants.loop import SEEN

REASONS = Path(__file__).with_name("reasons.toml")

#: Characters of a mutant that the page shows.
SHOWN = 240

#: What a survivor may be.
EQUIVALENT, MISSED, UNEXPLAINED = "equivalent", "missed", "unexplained"

INTRODUCTION = """\
# Mutants

Would the tests notice a slip? `make mutants` puts small faults into the numerical core ({folders}),
one at a time: another operator, a comparison turned round, a constant off by one, two arguments
exchanged, a bound of a slice or a statement left out. The tests that reach the changed line are
asked, likely ones first, for at most {budget:g} seconds of processor time. A mutant is *killed*
when one of them fails, crashes or hangs. It is *equivalent* when no test could ever see it, because
no result changes. [A record](decisions/0017-mutants.md) says how it is done, and why by hand.

`make mutants SAMPLE={sample} SEED={seed} BUDGET={budget:g} PAGE=1` writes this page from {sample}
of {population:,} mutants, drawn at random; without `SAMPLE` all are tried, which takes hours. A run
that was stopped goes on where it was.

Killed of those that are not equivalent: **{line}**.

"""

SURVIVORS = """
What survived in this sample and in earlier ones follows with the reasons
(`tools/mutants/reasons.toml`). A name that ends in a colon stands for every survivor of that
function or file.
"""


def wilson(successes: int, n: int, z: float = 1.96) -> tuple[float, float]:
    """Return the 95 % score interval (Wilson 1927) of a proportion."""
    if n == 0:
        return 0.0, 1.0
    p, extra = successes / n, z * z / n
    middle, half = p + extra / 2, z * sqrt(p * (1 - p) / n + extra / (4 * n))
    return (middle - half) / (1 + extra), (middle + half) / (1 + extra)


class Reasons:
    """Why survivors survive, as `reasons.toml` has it."""

    def __init__(self, path: Path = REASONS) -> None:
        self.groups = tomllib.loads(path.read_text("utf-8")) if path.exists() else {}

    def kind(self, name: str) -> str:
        """Return what a survivor is: equivalent, missed or unexplained."""
        for kind in (EQUIVALENT, MISSED):
            for group in self.groups.get(kind, []):
                if any(_means(entry, name) for entry in group["mutants"]):
                    return kind
        return UNEXPLAINED

    def stale(self, names: Iterable[str]) -> list[str]:
        """Return the entries that mean no mutant of today."""
        names = list(names)
        entries = [
            e for k in (EQUIVALENT, MISSED) for g in self.groups.get(k, []) for e in g["mutants"]
        ]
        return [entry for entry in entries if not any(_means(entry, name) for name in names)]


def _means(entry: str, name: str) -> bool:
    """Whether an entry is this mutant, or with a colon at its end the function or file of it."""
    return name.startswith(entry) if entry.endswith(":") else name == entry


class Summary:
    """Counts of a sample of mutants.

    Parameters
    ----------
    records : list of dict
        As in the file of results.
    reasons : Reasons
    """

    def __init__(self, records: list[dict[str, object]], reasons: Reasons) -> None:
        self.valid = [record for record in records if record["outcome"] != "invalid"]
        self.kinds = {
            str(record["mutant"]): reasons.kind(str(record["mutant"]))
            for record in self.valid
            if record["outcome"] not in SEEN
        }
        self.reasons = reasons

    def counts(self, folder: str = "") -> Counter[str]:
        """Return how many mutants of a folder, or of all, had which end."""
        names = [(str(record["mutant"]), record) for record in self.valid]
        return Counter(
            self.kinds.get(name, str(record["outcome"]))
            for name, record in names
            if name.startswith(folder)
        )

    def share(self, folder: str = "") -> tuple[int, int]:
        """Return how many were killed, of how many that are not equivalent."""
        counts = self.counts(folder)
        killed = sum(counts[outcome] for outcome in SEEN)
        return killed, counts.total() - counts[EQUIVALENT]

    def line(self, folder: str = "") -> str:
        """Return the share with its interval, in words."""
        killed, n = self.share(folder)
        low, high = wilson(killed, n)
        share = killed / n if n else 1.0
        interval = f"{100 * low:.1f} to {100 * high:.1f}"
        return f"{killed} of {n}, {100 * share:.1f} % (95 % interval {interval})"

    def __str__(self) -> str:
        counts = self.counts()
        lines = [f"{count:6d} {what}" for what, count in counts.most_common()]
        lines += [f"killed of those that are not equivalent: {self.line()}"]
        lines += [f"  {kind}: {name}" for name, kind in self.kinds.items() if kind != EQUIVALENT]
        return "\n".join(lines)


def write(
    path: Path, summary: Summary, folders: list[str], population: int, options: Namespace
) -> None:
    """Write the page of the documentation; `options` are those of the command line."""
    rows = [("folder", "mutants", "killed", "equivalent", "missed", "killed of the others")]
    rows += [("---", *["---:"] * 5)]
    for folder in [*folders, ""]:
        counts = summary.counts(f"{folder}/" if folder else "")
        seen, of = summary.share(f"{folder}/" if folder else "")
        missed = counts[MISSED] + counts[UNEXPLAINED]
        share = f"{100 * seen / of:.1f} %" if of else "—"
        cells = counts.total(), seen, counts[EQUIVALENT], missed
        rows.append((f"`{folder}/`" if folder else "all", *map(str, cells), share))
    text = INTRODUCTION.format(
        folders=", ".join(f"`{folder}/`" for folder in folders),
        budget=options.budget,
        sample=options.sample or population,
        seed=options.seed,
        population=population,
        line=summary.line(),
    )
    text += "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"
    text += _survivors(summary.reasons)
    unexplained = [name for name, kind in summary.kinds.items() if kind == UNEXPLAINED]
    if unexplained:
        text += "\n## Without a reason yet\n\n"
        text += "".join(f"- {_code(name)}\n" for name in unexplained)
    path.write_text(text, "utf-8")


def _survivors(reasons: Reasons) -> str:
    titles = {
        MISSED: "## Missed",
        EQUIVALENT: "## Equivalent: no result changes",
    }
    text = SURVIVORS
    for kind, title in titles.items():
        text += f"\n{title}\n"
        for group in reasons.groups.get(kind, []):
            text += f"\n{group['reason']}\n\n"
            text += "".join(f"- {_code(entry)}\n" for entry in sorted(group["mutants"]))
    return text


def _code(name: str) -> str:
    """Return a mutant as code in Markdown, long ones cut short in the middle."""
    shown = name if len(name) <= SHOWN else f"{name[: SHOWN - 80]} … {name[-77:]}"
    ticks = "``" if "`" in shown else "`"
    return f"{ticks}{shown}{ticks}"
