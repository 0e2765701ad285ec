"""Write what a run gave: JSON, figure (PNG and SVG) and a short Markdown page."""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from reproduce._figures import save
from reproduce._framework import Claim, Experiment, Options, Outcome

EARLIER = "The code of the experiment has changed since this run: numbers and verdicts are earlier."
PAPERS = {
    "000": "Pahikkala et al. 2012",
    "001": "Pahikkala et al. 2009",
    "002": "Cawley and Talbot 2004",
    "003": "Tanaka and Imai 2019",
    "004": "Pahikkala et al. 2006",
}
VERDICTS = {True: "holds", False: "**does not hold**", None: "*cannot be told*"}


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
        "holdfast": version("holdfast"),
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
    claims = [Claim(**claim) for claim in entry["claims"]]
    parts = [
        f"# {id}: {entry['title']}",
        f"{_named(entry['paper'])}. Run it yourself: `make reproduce ONLY={id}`.",
        f"![{entry['title']}]({id}.svg)",
        "## Setting",
        table(("", "paper", "here"), entry["settings"]),
    ]
    if entry["comparison"]:
        parts += ["## Numbers", table(("", "paper", "here"), entry["comparison"])]
    stated, ours = [c for c in claims if not c.ours], [c for c in claims if c.ours]
    parts += ["## What the paper says, and whether it holds here", _claims(stated)]
    if ours:
        parts += ["## What we checked besides", _claims(ours)]
    remarks = [*_reasons(claims), *entry["notes"]]
    if remarks:
        parts += ["## What differs, and why", "\n".join(f"- {remark}" for remark in remarks)]
    since = "" if entry.get("code") == code else " " + EARLIER
    parts += ["## This run", _this_run(entry) + since]
    return "\n\n".join(parts) + "\n"


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
    return path


def index(entries: Sequence[Mapping[str, Any]], codes: Mapping[str, str]) -> str:
    """Return a Markdown page that lists runs and how many of the paper's claims held."""
    rows = []
    for entry in entries:
        verdicts = [claim["holds"] for claim in entry["claims"] if not claim.get("ours")]
        link = f"[{entry['id']}]({entry['id']}.md)"
        if entry.get("code") != codes.get(entry["id"]):
            link += " (numbers of earlier code)"
        counts = (str(verdicts.count(outcome)) for outcome in (True, False, None))
        rows.append((link, _named(entry["paper"]), entry["title"], *counts))
    total = [sum(int(row[column]) for row in rows) for column in (3, 4, 5)]
    rows.append(("all", "", "", *map(str, total)))
    head = "# The papers, reproduced"
    lead = (
        "Each page shows one experiment: the paper's setting and ours, the numbers side by side, "
        "and whether each statement of the paper holds in our run. Statements are decided by the "
        "run itself, by rules fixed beforehand; one that does not hold is reported as such, and so "
        "is one that the noise of the run leaves open."
    )
    titles = ("id", "paper", "what", "hold", "do not hold", "cannot be told")
    return "\n\n".join([head, lead, table(titles, rows)]) + "\n"


def _named(paper: str) -> str:
    """Return where something stands with the names of authors for the numbers of papers."""
    return re.sub(r"\b00[0-4]\b", lambda number: PAPERS[number[0]], paper)


def table(head: tuple[str, ...], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += [
        "| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in rows
    ]
    return "\n".join(lines)


def _claims(claims: list[Claim]) -> str:
    rows = [(c.text, VERDICTS[c.holds], c.evidence) for c in claims]
    return table(("claim", "here", "evidence"), rows)


def _reasons(claims: list[Claim]) -> list[str]:
    """Return why claims do not hold, each reason once with all the claims that it is for."""
    failed: dict[str, list[str]] = {}
    for claim in claims:
        if claim.holds is False and claim.why:
            failed.setdefault(claim.why, []).append(claim.text)
    return [f"*{'; '.join(texts)}*: {why}" for why, texts in failed.items()]


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
