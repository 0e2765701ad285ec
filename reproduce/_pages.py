"""What a run gave, as JSON, figure (SVG) and a short Markdown page with the verdicts.

A statement may be decided in several cases (two kernels, say); it holds if it holds in every one.
"""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from holdfast import __version__
from reproduce._figures import save
from reproduce._framework import EXPERIMENTS, Claim, Experiment, Options, Outcome
from reproduce._verdicts import weakest

PAPERS = {
    "000": "Pahikkala et al. 2012",
    "001": "Pahikkala et al. 2009",
    "002": "Cawley and Talbot 2004",
    "003": "Tanaka and Imai 2019",
    "004": "Pahikkala et al. 2006",
}
VERDICTS = {True: "holds", False: "**does not hold**", None: "*open*"}
SECTIONS = {
    "paper": "What the paper says, and whether it holds here",
    "besides": "Besides: other readings and other data",
    "ours": "What we checked ourselves",
}
PAGE_ONLY = ("caption", "settings", "comparison", "notes")
DIGITS, MOST = 3, 400  # of the numbers in a file: significant digits, and how many in a list
Entry = Mapping[str, Any]


class Statement(NamedTuple):
    """A statement and all the cases it was decided in."""

    text: str
    claims: list[Claim]

    @property
    def holds(self) -> bool | None:
        """Whether it holds in every case; None where one is open and none fails."""
        return weakest(claim.holds for claim in self.claims)


def record(
    experiment: Experiment, options: Options, outcome: Outcome, seconds: float
) -> dict[str, Any]:
    """Return all there is to say about a run, as JSON knows it."""
    return {
        "id": experiment.id,
        "paper": experiment.paper,
        "title": experiment.title,
        "caption": experiment.caption,
        "repetitions": options.repetitions,
        "paper_repetitions": experiment.paper_repetitions,
        "seed": options.seed,
        "seconds": round(seconds, 1),
        "environment": {
            "holdfast": __version__,
            "python": platform.python_version(),
            **{name: version(name) for name in ("numpy", "scipy", "scikit-learn")},
            "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        },
        "settings": [list(row) for row in outcome.settings],
        "comparison": [list(row) for row in outcome.comparison],
        "claims": [asdict(claim) for claim in outcome.claims],
        "notes": list(outcome.notes),
        "numbers": outcome.numbers,
    }


def kept(entry: Entry) -> dict[str, Any]:
    """Return what goes to JSON: statements and numbers, without what only the page says."""
    claims = [
        {
            name: value
            for name, value in claim.items()
            if value not in ("", "paper") and (name != "why" or claim["kind"] == "paper")
        }
        for claim in entry["claims"]
    ]
    left = {key: value for key, value in entry.items() if key not in PAGE_ONLY}
    return {**left, "claims": claims, "numbers": _short(entry["numbers"])}


def _short(value: Any) -> Any:
    """Return the same with few digits; how long a list was if it is very long."""
    if isinstance(value, dict):
        return {key: _short(part) for key, part in value.items() if key != "why"}
    if isinstance(value, list | tuple):
        n = np.size(value)
        return f"{n:,} numbers, not kept" if n > MOST else [_short(part) for part in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def write(experiment: Experiment, entry: Entry, folder: Path) -> None:
    """Write numbers, figure and page of a run into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = folder / experiment.id
    text = json.dumps(kept(entry), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    stem.with_suffix(".json").write_text(text + "\n", encoding="utf-8")
    save(experiment.draw(entry["numbers"]), stem.with_suffix(".svg"))
    stem.with_suffix(".md").write_text(page(entry), encoding="utf-8")


def page(entry: Entry) -> str:
    """Return the Markdown page of a run."""
    id, claims = entry["id"], _claims(entry)
    parts = [
        f"# {id}: {entry['title']}",
        f"{named(entry['paper'])}. Run it yourself: `{command(entry)}`.",
        f"![{entry['title']}]({id}.svg)",
        *([f"*{entry['caption']}*"] if entry["caption"] else []),
        "## Setting",
        table(("", "paper", "here"), entry["settings"]),
    ]
    if entry["comparison"]:
        parts += ["## Numbers", table(("", "paper", "here"), entry["comparison"])]
    for kind, title in SECTIONS.items():
        found = statements(claims, kind)
        if found:
            parts += [f"## {title}", _verdicts(found)]
    remarks = [*_reasons(claims), *entry["notes"]]
    if remarks:
        parts += ["## What differs, and why", "\n".join(f"- {remark}" for remark in remarks)]
    return "\n\n".join([*parts, "## This run", _this_run(entry)]) + "\n"


def command(entry: Entry) -> str:
    """Return the command that runs what the page shows: as many repetitions, the same seed."""
    words, known = [entry["id"]], EXPERIMENTS.get(entry["id"])
    if known is None or entry["repetitions"] != known.repetitions:
        words.append(f"--repetitions {entry['repetitions']}")
    if entry["seed"]:
        words.append(f"--seed {entry['seed']}")
    asked = " ".join(words)
    return f'make reproduce ONLY="{asked}"' if len(words) > 1 else f"make reproduce ONLY={asked}"


def _this_run(entry: Entry) -> str:
    facts, paper = entry["environment"], entry["paper_repetitions"]
    versions = ", ".join(f"{name} {value}" for name, value in facts.items() if name != "machine")
    repetitions = f"{entry['repetitions']} repetitions"
    if paper is not None:
        repetitions += f" (paper: {paper})"
    return (
        f"{repetitions}, seed {entry['seed']}, {entry['seconds']} s. {facts['machine']}; "
        f"{versions}. Numbers: [{entry['id']}.json]({entry['id']}.json)."
    )


def summary(entry: Entry, folder: Path) -> str:
    """Return the claims of a run and where its page is."""
    lines = [f"{entry['id']}: {entry['title']} ({entry['seconds']} s)"]
    for claim in _claims(entry):
        verdict = VERDICTS[claim.holds].strip("*").upper()
        lines += [f"  {verdict:<14} {_full(claim)}", f"                 {claim.evidence}"]
    return "\n".join([*lines, f"  page: {folder / entry['id']}.md"])


def statements(claims: Sequence[Claim], kind: str) -> list[Statement]:
    """Return the statements of one kind, each with its cases, in the order of the claims."""
    found: dict[str, list[Claim]] = {}
    for claim in claims:
        if claim.kind == kind:
            found.setdefault(claim.text, []).append(claim)
    return [Statement(text, cases) for text, cases in found.items()]


def named(paper: str) -> str:
    """Return where something stands with the names of authors for the numbers of papers."""
    return re.sub(r"\b00[0-4]\b", lambda number: PAPERS[number[0]], paper)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    cells = [[str(cell).replace("|", "\\|") for cell in row] for row in rows]
    lines = [head, ["---"] * len(head), *cells]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _claims(entry: Entry) -> list[Claim]:
    return [Claim(**claim) for claim in entry["claims"]]


def _full(claim: Claim) -> str:
    return f"{claim.text} ({claim.case})" if claim.case else claim.text


def _verdicts(found: Sequence[Statement]) -> str:
    """Return tables of statements: of single ones, and of those with a column for each case."""
    single = [one.claims[0] for one in found if len(one.claims) == 1]
    several = [one for one in found if len(one.claims) > 1]
    parts = []
    if single:
        rows = [(_full(claim), VERDICTS[claim.holds], claim.evidence) for claim in single]
        parts.append(table(("statement", "here", "evidence"), rows))
    if several:
        cases = list(dict.fromkeys(claim.case for one in several for claim in one.claims))
        lines = []
        for one in several:
            said = {c.case: f"{VERDICTS[c.holds]}: {c.evidence}" for c in one.claims}
            lines.append((one.text, *(said.get(case, "–") for case in cases)))
        parts.append(table(("statement", *cases), lines))
    return "\n\n".join(parts)


def _reasons(claims: Sequence[Claim]) -> list[str]:
    """Return why claims do not hold, each reason once with all the claims that it is for."""
    failed: dict[str, list[str]] = {}
    for claim in claims:
        if claim.holds is False and claim.why:
            failed.setdefault(claim.why, []).append(_full(claim))
    return [f"*{'; '.join(texts)}*: {why}" for why, texts in failed.items()]
