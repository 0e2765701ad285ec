"""The report as Markdown: the words and the tables of the page, without the figures."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from holdfast.report.classes import CLASS_HEADER, class_rows
from holdfast.report.columns import COLUMN_HEADER, column_rows
from holdfast.report.growth import growth_rows, growth_words
from holdfast.report.moments import time_rows, time_words
from holdfast.report.relevance import (
    MEANING,
    relevance_header,
    relevance_rows,
    relevance_title,
    relevance_words,
)
from holdfast.report.rows import PartScore
from holdfast.report.spread import coverage_rows, coverage_words
from holdfast.report.summary import Summary
from holdfast.report.words import beliefs, count, number, size

__all__ = ["to_markdown"]

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~])")
_MAX_ROWS = 40


def to_markdown(summary: Summary) -> str:
    """Return the summary as Markdown."""
    lines = [f"# {_text(summary.title)}", "", f"**{_text(summary.answer[0])}**", ""]
    lines += [line for s in summary.answer[1:] for line in (_text(s), "")]
    lines += [line for w in summary.warnings for line in (f"> {_text(w)}", "")]
    if summary.notes:
        lines += [
            "## Notes on the data",
            "",
            *(f"- {_text(note)}" for note in summary.notes),
            "",
        ]
    believe, doubt = beliefs(summary.asked, summary.headline, summary.contrasts, summary.sure)
    for heading, told in (("What to believe", believe), ("What not to believe", doubt)):
        lines += [f"## {heading}", "", *(f"- {_text(sentence)}" for sentence in told), ""]
    lines += _asked(summary)
    if summary.columns:
        rows, others = column_rows(summary)
        lines += ["## How each column was read", "", *_table(COLUMN_HEADER, rows)]
        lines += [others, ""] if others else []
    if summary.contrasts:
        rows = [(c.name, number(c.error), number(c.alpha, 2)) for c in summary.contrasts]
        lines += ["## What is held out decides the answer", ""]
        lines += _table(("held out by", summary.headline.error_label, "best λ"), rows)
    lines += _curve(summary)
    label = summary.headline.error_label
    if summary.confusion:
        classes = summary.confusion.classes
        cells = [
            (c, *(str(n) for n in row))
            for c, row in zip(classes, summary.confusion.counts, strict=True)
        ]
        lines += ["## Held-out predictions (class down, predicted across)", ""]
        lines += _table(("", *classes), cells)
    for title, parts in (("experiment", summary.folds), (summary.asked.group, summary.groups)):
        if parts:
            lines += [f"## Error by {_text(title or 'group')}", "", *_parts(parts, label)]
    lines += _findings(summary)
    lines += _hard(summary)
    lines += _plan(summary)
    lines += _checks(summary)
    return "\n".join(lines).rstrip() + "\n"


def _asked(summary: Summary) -> list[str]:
    asked = summary.asked
    facts = [
        f"{asked.task} of {asked.target}",
        f"{count(asked.rows, 'row')}, {count(asked.features, 'feature')}",
        f"kernel {asked.kernel}, basis {asked.basis}",
        f"held out by {asked.cv}, {count(asked.experiments, 'experiment')}; "
        f"held-out basis rows: {asked.policy}",
        f"{asked.grid}, compared by {asked.metric}",
    ]
    if asked.group:
        facts.append(f"grouped by {asked.group}: {asked.n_groups:,} groups")
    if asked.weighted:
        facts.append("rows have weights")
    facts += asked.preparation
    return ["## What was asked", "", *(f"- {_text(fact)}" for fact in facts), ""]


def _curve(summary: Summary) -> list[str]:
    curve = summary.curve
    names = ["λ", curve.scale.label, "standard error"]
    columns = [curve.alphas, curve.values, curve.se]
    for name, policy in summary.policies.items():
        names.append(f"{name} basis rows")
        columns.append(policy.values)
    marks = []
    for i in range(len(curve.alphas)):
        hits = [("best", curve.best), ("1 SE", curve.one_se), ("in use", curve.chosen_index)]
        marks.append(", ".join(text for text, at in hits if at == i))
    rows = [
        (*(number(float(c[i]), 4) for c in columns), marks[i]) for i in range(len(curve.alphas))
    ]
    lines = ["## The error over the penalty", ""]
    if curve.edge:
        lines += [f"> The best penalty is the {curve.edge} of the grid: widen it.", ""]
    return lines + _table((*names, ""), rows)


def _parts(parts: Sequence[PartScore], label: str) -> list[str]:
    rows = [
        (p.label, f"{p.count:,}", number(p.score), f"{number(p.low)} to {number(p.high)}")
        for p in parts[:_MAX_ROWS]
    ]
    lines = _table(("", "predictions", label, "90 % interval"), rows)
    if len(parts) > _MAX_ROWS:
        lines += [f"The {_MAX_ROWS} hardest of {len(parts)}.", ""]
    return lines


def _findings(summary: Summary) -> list[str]:
    """Return what the sections on intervals, classes, columns, time and growth say."""
    lines: list[str] = []
    if summary.coverage:
        lines += ["## How far off a single prediction is", ""]
        lines += [_text(coverage_words(summary.coverage)), ""]
        lines += _table(("promised", "held", "mean width"), coverage_rows(summary.coverage))
    if summary.classes:
        lines += ["## Finding each class", "", *_table(CLASS_HEADER, class_rows(summary.classes))]
    if summary.relevance:
        found = summary.relevance
        lines += [f"## {relevance_title(found)}", "", _text(relevance_words(found)), ""]
        lines += _table(relevance_header(found), relevance_rows(found)[:_MAX_ROWS])
        lines += [MEANING, ""]
    if summary.time:
        lines += ["## Over time", "", _text(time_words(summary.time)), ""]
        lines += _table(
            (f"middle of the stretch ({summary.time.name})", summary.time.label, "mean residual"),
            time_rows(summary.time),
        )
    if summary.growth:
        lines += ["## Would more rows help?", ""]
    for growth in summary.growth.values():
        lines += [_text(growth_words(growth)), ""]
        lines += _table((growth.unit, growth.label, "spread over draws"), growth_rows(growth))
    return lines


def _hard(summary: Summary) -> list[str]:
    rows = [
        (
            str(h.row),
            h.group or "",
            h.y if isinstance(h.y, str) else number(h.y, 4),
            h.prediction if isinstance(h.prediction, str) else number(h.prediction, 4),
            number(h.error),
            number(h.leverage, 2),
        )
        for h in summary.hardest
    ]
    header = ("row", "group", "actual", "held-out prediction", "error", "leverage")
    return ["## Rows that are hardest to predict", "", *_table(header, rows)]


def _plan(summary: Summary) -> list[str]:
    rows = [
        (
            c.path + (" (taken)" if c.taken else ""),
            number(c.seconds),
            f"{c.ratio:.2f}",
            size(c.megabytes),
        )
        for c in summary.plan.costs
    ]
    header = ("path", "seconds, estimated", "× cheapest", "memory")
    return [
        "## The plan and its cost",
        "",
        *_table(header, rows),
        f"Taken: {_text(summary.plan.why)}.",
        "",
    ]


def _checks(summary: Summary) -> list[str]:
    lines = ["## Checks and how to repeat it", ""]
    found = summary.certificate
    if found:
        lines.append(f"- {found.words}")
    if summary.inside:
        lines.append(f"- {_text(summary.inside.words(summary.headline.error_label))}")
    repeat = summary.repeat
    lines.append(f"- seed {repeat.seed}")
    if repeat.data:
        lines.append(f"- data {_text(repeat.data)}")
    if repeat.checksum:
        lines.append(f"- sha256 {repeat.checksum}")
    lines.append("- " + ", ".join(f"{name} {version}" for name, version in repeat.versions))
    if repeat.command:
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", repeat.command)), default=0))
        lines += ["", fence, repeat.command, fence]
    return lines


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(_text(cell) for cell in cells) + " |"

    return [line(header), "|" + "---|" * len(header), *(line(row) for row in rows), ""]


def _text(text: str) -> str:
    """Return text that Markdown shows as it is, in one line."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))
