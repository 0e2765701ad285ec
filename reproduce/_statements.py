"""From decided claims to what a reader wants to know: which statements of the papers hold.

A statement may be decided in several cases (two kernels, say); it holds if it holds in every one.
Only what a paper states, in the paper's own setting, is counted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from reproduce._framework import Claim
from reproduce._verdicts import weakest

PAPERS = {
    "000": "Pahikkala et al. 2012",
    "001": "Pahikkala et al. 2009",
    "002": "Cawley and Talbot 2004",
    "003": "Tanaka and Imai 2019",
    "004": "Pahikkala et al. 2006",
}
VERDICTS = {True: "holds", False: "**does not hold**", None: "*open*"}


class Statement(NamedTuple):
    """A statement and all the cases it was decided in."""

    text: str
    claims: list[Claim]

    @property
    def holds(self) -> bool | None:
        """Whether it holds in every case; None where one is open and none fails."""
        return weakest(claim.holds for claim in self.claims)


def statements(claims: Sequence[Claim], kind: str) -> list[Statement]:
    """Return the statements of one kind, each with its cases, in the order of the claims."""
    found: dict[str, list[Claim]] = {}
    for claim in claims:
        if claim.kind == kind:
            found.setdefault(claim.text, []).append(claim)
    return [Statement(text, cases) for text, cases in found.items()]


def counts(found: Sequence[Statement]) -> tuple[int, int, int]:
    """Return how many statements hold, how many do not, and how many are open."""
    verdicts = [statement.holds for statement in found]
    return verdicts.count(True), verdicts.count(False), verdicts.count(None)


def claims_of(entry: Mapping[str, Any]) -> list[Claim]:
    """Return the claims of a record."""
    return [Claim(**claim) for claim in entry["claims"]]


def named(paper: str) -> str:
    """Return where something stands with the names of authors for the numbers of papers."""
    return re.sub(r"\b00[0-4]\b", lambda number: PAPERS[number[0]], paper)


def verdict_table(found: Sequence[Statement]) -> str:
    """Return tables of statements: of single ones, and of those with a column for each case."""
    single = [one for one in found if len(one.claims) == 1]
    several = [one for one in found if len(one.claims) > 1]
    parts = []
    if single:
        rows = [
            (_full(one.claims[0]), VERDICTS[one.holds], one.claims[0].evidence) for one in single
        ]
        parts.append(table(("statement", "here", "evidence"), rows))
    if several:
        cases = list(dict.fromkeys(claim.case for one in several for claim in one.claims))
        lines = []
        for statement in several:
            by_case = {claim.case: claim for claim in statement.claims}
            lines.append((statement.text, *(_cell(by_case.get(case)) for case in cases)))
        parts.append(table(("statement", *cases), lines))
    return "\n\n".join(parts)


def _full(claim: Claim) -> str:
    """Return a statement with its case."""
    return f"{claim.text} ({claim.case})" if claim.case else claim.text


def _cell(claim: Claim | None) -> str:
    return "–" if claim is None else f"{VERDICTS[claim.holds]}: {claim.evidence}"


def reasons(claims: Sequence[Claim]) -> list[str]:
    """Return why claims do not hold, each reason once with all the claims that it is for."""
    failed: dict[str, list[str]] = {}
    for claim in claims:
        if claim.holds is False and claim.why:
            failed.setdefault(claim.why, []).append(_full(claim))
    return [f"*{'; '.join(texts)}*: {why}" for why, texts in failed.items()]


def headline(entries: Sequence[Mapping[str, Any]], pages: str = "") -> str:
    """Return how many statements hold in the papers' own settings, and which do not, and why.

    `pages` is put before the addresses of the pages.
    """
    every = [(entry, one) for entry in entries for one in statements(claims_of(entry), "paper")]
    hold, fail, unknown = counts([one for _, one in every])
    text = (
        f"The papers make {len(every)} statements that can be checked. In the papers' own settings "
        f"{hold} hold, {fail} do not, and {unknown} stay open."
    )
    parts = [text]
    for verdict, head in ((False, "These do not hold:"), (None, "These stay open:")):
        lines = [
            f"- {named(entry['paper'])}, [{entry['id']}]({pages}{entry['id']}.md): {one.text}."
            + _because(one)
            for entry, one in every
            if one.holds is verdict
        ]
        if lines:
            parts.append("\n".join([head, "", *lines]))
    return "\n\n".join(parts)


def _because(statement: Statement) -> str:
    """Return why a statement does not hold, or the numbers that leave it open."""
    for claim in statement.claims:
        if claim.holds is statement.holds:
            if claim.holds is False and claim.why:
                return f" {claim.why[0].upper()}{claim.why[1:]}"
            where = f" ({claim.case})" if claim.case else ""
            return f" Here{where}: {claim.evidence}."
    return ""


def table(head: tuple[str, ...], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += [
        "| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in rows
    ]
    return "\n".join(lines)
