"""A summary in blocks: the report from top to bottom, in any format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.report import answer, checks, penalty, where
from holdfast.report.blocks import (
    Beside,
    Block,
    Bullets,
    Code,
    Heading,
    Note,
    Report,
    Section,
    Table,
    Text,
    table,
)
from holdfast.report.classes import class_section
from holdfast.report.growth import growth_section
from holdfast.report.made_of import made_of_blocks, policies_table
from holdfast.report.moments import repeated_words, time_section
from holdfast.report.relevance import relevance_section
from holdfast.report.spread import coverage_section
from holdfast.report.summary import Summary
from holdfast.report.sure import sure_facts

if TYPE_CHECKING:
    from holdfast.tables.account import ColumnAccount

__all__ = ["answer_blocks", "check_blocks", "columns_table", "notes_block", "told"]


def told(summary: Summary) -> Report:
    """Return a summary in blocks."""
    head, asked = summary.headline, summary.asked
    version = dict(summary.repeat.versions).get("holdfast", "")
    return Report(
        summary.title,
        (
            *answer_blocks(summary),
            Beside(answer.beliefs(asked, head, summary.contrasts, summary.sure)),
            *notes_block(summary.notes),
            *(Note(warning) for warning in summary.warnings),
        ),
        tuple(_sections(summary)),
        summary.slider,
        f"Made by holdfast {version}. {checks.promise(summary.certificate)}",
    )


def answer_blocks(summary: Summary) -> tuple[Block, ...]:
    """Return the answer: in a sentence, in numbers, and what goes with it."""
    first, *others = summary.answer
    if summary.time and (repeated := repeated_words(summary.time)):
        others.append(repeated)
    numbers = answer.key_figures(summary.headline, summary.sure)
    return (Text(first, strong=True), numbers, *(Text(sentence) for sentence in others))


def check_blocks(summary: Summary) -> tuple[Text, ...]:
    """Return what retraining showed, and what the preparation of columns costs."""
    found, inside = summary.certificate, summary.inside
    told = checks.check_words(found)
    if found is not None:
        told += (
            f" The experiments were drawn at random (seed {found.seed}) and compared at "
            f"{answer.count(found.alphas, 'penalty value')}."
        )
    checked = Text(told, strong=found is not None and not found.verified)
    if inside is None:
        return (checked,)
    return checked, Text(inside.words(summary.headline.error_label))


def notes_block(notes: Sequence[str]) -> tuple[Bullets, ...]:
    """Return the notes on the data, if there are any."""
    return (Bullets("Notes on the data", tuple(notes), "note"),) if notes else ()


def columns_table(columns: Sequence[ColumnAccount]) -> tuple[Table | Text, ...]:
    """Return how each column was read."""
    from holdfast.tables.account import shown

    chosen, others = shown(tuple(columns))
    rows = [
        (
            c.name or "(no name)",
            c.role,
            c.kind,
            f"{c.missing:,}" if c.missing else "",
            f"{c.levels:,}" if c.levels else "",
            c.became,
        )
        for c in chosen
    ]
    header = ("column", "role", "kind", "missing", "levels", "how it is used")
    made = table("Every column of the data, as it was read", header, rows)
    return (made, Text(others)) if others else (made,)


def _sections(summary: Summary) -> list[Section]:
    """Return the sections in order: findings first, how they were found in a fold at the end."""
    asked, label = summary.asked, summary.headline.error_label
    found = []
    if summary.contrasts:
        found.append(answer.contrast_section(summary.contrasts, label))
    found.append(penalty.curve_section(summary.curve, summary.shell))
    found.append(where.rows_section(summary.rows, summary.confusion, asked.target))
    if summary.folds or summary.groups:
        parts = summary.folds, summary.groups
        found.append(where.parts_section(*parts, label, asked.group or "group"))
    if summary.coverage:
        found.append(coverage_section(summary.coverage, asked.target))
    if summary.classes:
        found.append(class_section(summary.classes, summary.probabilities))
    if summary.trend or summary.bands:
        blocks = made_of_blocks(summary.trend, summary.bands)
        found.append(Section("made", "What the model is made of", blocks))
    if summary.relevance:
        found.append(relevance_section(summary.relevance))
    if summary.time:
        found.append(time_section(summary.time))
    if summary.growth:
        found.append(growth_section(summary.growth, summary.headline.value))
    classes = summary.confusion is not None
    hard = where.hard_section(summary.hardest, summary.leverage, asked.group, classes=classes)
    repeat = Section("repeat", "How to repeat it", checks.repeat_blocks(summary.repeat))
    return [
        *found,
        hard,
        repeat,
        Section("details", "How it was done", _details(summary), folded=True),
    ]


def _details(summary: Summary) -> tuple[Block, ...]:
    """Return the model, columns, checks, and costs: what few readers look for."""
    blocks: list[Block] = [Heading("What was asked"), answer.asked_facts(summary.asked)]
    if summary.columns:
        blocks += [Heading("How each column was read"), *columns_table(summary.columns)]
    if summary.sure and summary.sure.method:
        blocks += [Heading("How the certainty was found"), sure_facts(summary.sure)]
    blocks += [Heading("Checked against real retraining"), *check_blocks(summary)]
    if summary.policies:
        label, used = summary.curve.scale.label, summary.asked.policy
        blocks.append(Heading("What may happen to held-out basis rows"))
        blocks.append(policies_table(summary.policies, label, used))
    return (*blocks, Heading("The plan and its cost"), Code(str(summary.plan)))
