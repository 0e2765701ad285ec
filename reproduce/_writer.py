"""Write what a run gave: JSON, figure (PNG and SVG) and a short Markdown page."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from holdfast import __version__
from reproduce._figures import save
from reproduce._framework import EXPERIMENTS, Experiment, Options, Outcome
from reproduce._statements import (
    claims_of,
    counts,
    headline,
    named,
    reasons,
    statements,
    table,
    verdict_table,
)

EARLIER = "The code of the experiment has changed since this run: numbers and verdicts are earlier."
MARKS = ("<!-- headline -->", "<!-- end of headline -->")
SECTIONS = {
    "paper": "What the paper says, and whether it holds here",
    "besides": "Besides: other readings and other data",
    "ours": "What we checked ourselves",
}


def record(
    experiment: Experiment, options: Options, outcome: Outcome, seconds: float | None, code: str
) -> dict[str, Any]:
    """Return all there is to say about a run, as JSON knows it.

    `seconds` is None for a run that went on where another had stopped; `code` is the digest.
    """
    return {
        "id": experiment.id,
        "paper": experiment.paper,
        "title": experiment.title,
        "caption": experiment.caption,
        "repetitions": options.repetitions,
        "paper_repetitions": experiment.paper_repetitions,
        "seed": options.seed,
        "seconds": None if seconds is None else round(seconds, 1),
        "code": code,
        "environment": environment(),
        "settings": [list(row) for row in outcome.settings],
        "comparison": [list(row) for row in outcome.comparison],
        "claims": [asdict(claim) for claim in outcome.claims],
        "notes": list(outcome.notes),
        "numbers": outcome.numbers,
    }


def environment() -> dict[str, str]:
    """Return the versions and the number of cores that timings depend on."""
    return {
        "holdfast": __version__,
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "scipy": version("scipy"),
        "scikit-learn": version("scikit-learn"),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
    }


def write(experiment: Experiment, entry: Mapping[str, Any], folder: Path, code: str) -> list[Path]:
    """Write JSON, figure and page of a run into `folder`; return the files written.

    `code` is the digest of the experiment as it is now.
    """
    folder.mkdir(parents=True, exist_ok=True)
    json_path = folder / f"{experiment.id}.json"
    text = json.dumps(entry, indent=1, ensure_ascii=False, allow_nan=False)
    json_path.write_text(text + "\n", encoding="utf-8")
    figures = save(experiment.draw(entry["numbers"]), folder / experiment.id)
    page_path = folder / f"{experiment.id}.md"
    page_path.write_text(page(entry, code), encoding="utf-8")
    return [json_path, *figures, page_path]


def page(entry: Mapping[str, Any], code: str) -> str:
    """Return the Markdown page of a run; `code` is the digest of its experiment as it is now."""
    id = entry["id"]
    claims = claims_of(entry)
    parts = [
        f"# {id}: {entry['title']}",
        f"{named(entry['paper'])}. Run it yourself: `{command(entry)}`.",
        f"![{entry['title']}]({id}.svg)",
        *([f"*{entry['caption']}*"] if entry.get("caption") else []),
        "## Setting",
        table(("", "paper", "here"), entry["settings"]),
    ]
    if entry["comparison"]:
        parts += ["## Numbers", table(("", "paper", "here"), entry["comparison"])]
    for kind, title in SECTIONS.items():
        found = statements(claims, kind)
        if found:
            parts += [f"## {title}", verdict_table(found)]
    remarks = [*reasons(claims), *entry["notes"]]
    if remarks:
        parts += ["## What differs, and why", "\n".join(f"- {remark}" for remark in remarks)]
    since = "" if entry.get("code") == code else " " + EARLIER
    parts += ["## This run", _this_run(entry) + since]
    return "\n\n".join(parts) + "\n"


def command(entry: Mapping[str, Any]) -> str:
    """Return the command that runs what the page shows: as many repetitions, the same seed."""
    id, options = entry["id"], ""
    known = EXPERIMENTS.get(id)
    if known is None or entry["repetitions"] != known.repetitions:
        options += f" --repetitions {entry['repetitions']}"
    if entry["seed"]:
        options += f" --seed {entry['seed']}"
    return f'make reproduce ONLY="{id}{options}"' if options else f"make reproduce ONLY={id}"


def write_index(folder: Path, codes: Mapping[str, str]) -> Path:
    """Write a page that lists all runs in `folder`.

    `codes` has the digests of today's experiments: those are listed in that order and last, and a
    run whose numbers were made by other code is marked.
    """
    entries = [json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.json")]
    place = {id: position for position, id in enumerate(codes)}
    entries.sort(key=lambda entry: (place.get(entry["id"], -1), entry["id"]))
    path = folder / "index.md"
    path.write_text(index(entries, codes), encoding="utf-8")
    _write_headline(folder, entries)
    return path


def _write_headline(folder: Path, entries: Sequence[Mapping[str, Any]]) -> None:
    """Put the headline between the marks of the page above the folder, if there is such a page."""
    page_path = folder.parent / "reproductions.md"
    if not page_path.exists():
        return
    text = page_path.read_text(encoding="utf-8")
    before, first, rest = text.partition(MARKS[0])
    _, last, after = rest.partition(MARKS[1])
    if first and last:
        said = headline(entries, f"{folder.name}/")
        page_path.write_text(f"{before}{first}\n{said}\n{last}{after}", encoding="utf-8")


def index(entries: Sequence[Mapping[str, Any]], codes: Mapping[str, str]) -> str:
    """Return a Markdown page that lists runs and how many of the papers' statements hold."""
    rows = []
    total = [0] * 5
    for entry in entries:
        claims = claims_of(entry)
        link = f"[{entry['id']}]({entry['id']}.md)"
        if entry.get("code") != codes.get(entry["id"]):
            link += " (numbers of earlier code)"
        other = [claim.holds for claim in claims if claim.kind == "besides"]
        numbers = (*counts(statements(claims, "paper")), other.count(True), len(other))
        total = [a + b for a, b in zip(total, numbers, strict=True)]
        rows.append((link, named(entry["paper"]), entry["title"], *_cells(numbers)))
    rows.append(("all", "", "", *_cells(total)))
    lead = (
        "Each page shows one experiment: the paper's setting and ours, the numbers side by side, "
        "and whether each statement of the paper holds in our run. The run itself decides, by "
        "rules fixed beforehand. A statement that the noise of the run cannot decide is open."
    )
    titles = ("id", "paper", "what", "hold", "do not hold", "open", "besides: hold")
    parts = ["# The papers, reproduced", lead, headline(entries), table(titles, rows)]
    return "\n\n".join(parts) + "\n"


def _cells(numbers: Sequence[int]) -> tuple[str, ...]:
    hold, fail, unknown, other, others = numbers
    return str(hold), str(fail), str(unknown), f"{other} of {others}" if others else "–"


def _this_run(entry: Mapping[str, Any]) -> str:
    facts = entry["environment"]
    versions = ", ".join(f"{name} {value}" for name, value in facts.items() if name != "machine")
    paper = entry["paper_repetitions"]
    repetitions = f"{entry['repetitions']} repetitions"
    if paper is not None:
        repetitions += f" (paper: {paper})"
    return (
        f"{repetitions}, seed {entry['seed']}, {duration(entry)}. {facts['machine']}; "
        f"{versions}. All numbers: [{entry['id']}.json]({entry['id']}.json)."
    )


def duration(entry: Mapping[str, Any]) -> str:
    """Return how long a run took."""
    seconds = entry["seconds"]
    return "in several sittings" if seconds is None else f"{seconds} s"
