"""What a careful reader would ask about the data before trusting the answer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.tables.preparation import TablePreparation
from holdfast.tables.table import Roles, Table

__all__ = ["Note", "Question", "notes_on"]

# From here on a column "predicts the target almost alone".
_ALONE = 0.99
_AUTOCORRELATION = 0.6
# From this share on, a column that is filled in is mostly made up.
_MOSTLY_MISSING = 0.5
_WHO = re.compile(
    r"(^|[_\W])(subject|patient|person|participant|proband|user|customer|client|animal|student|"
    r"child|family|household|group|cluster|batch|site|hospital|school|device|sensor|machine|id)"
    r"(?=$|[_\W\d])",
    re.I,
)
_MOST_COLUMNS = 400  # of which the slower questions are asked
_MOST_RANKS = 2e6


@dataclass(frozen=True)
class Note:
    """Something to think about, in a sentence or two."""

    text: str
    say: tuple[tuple[str, object], ...] = ()  #: Arguments that would change it, with values


@dataclass(frozen=True, eq=False)
class Question:
    """What is known about the data and the question."""

    table: Table
    roles: Roles
    preparation: TablePreparation  #: Fitted
    X: NDArray[np.float64]  #: The features
    y: NDArray[Any]  #: Numbers, or classes
    classify: bool
    by_time: bool  #: Whether rows are held out in order of time
    by_group: bool  #: Whether whole groups are held out


def notes_on(question: Question) -> tuple[Note, ...]:
    """Return notes on the data and the question, a sentence or two each; the gravest first."""
    return (
        *_leaks(question),
        *_duplicates(question),
        *_groups(question),
        *_time(question),
        *_classes(question),
        *_missing(question),
        *_identifiers(question),
    )


def _missing(question: Question) -> list[Note]:
    m = question.table.n_rows
    return [
        Note(
            f"The column {name!r} has no value in {100 * count / m:.0f} % of the rows, and one "
            "value was filled in there. Leave it out unless the few values matter.",
            (("drop", name),),
        )
        for name, count in question.table.missing(question.preparation.columns_).items()
        if count >= _MOSTLY_MISSING * m
    ]


def _identifiers(question: Question) -> list[Note]:
    said = [
        Note(f"The column {name!r} {why}. It was left out.")
        for name, why in question.preparation.left_out_.items()
        if name != question.roles.time
    ]
    for name in question.preparation.columns_:
        reading = question.table.readings[name]
        if not re.search(r"(^|[_\W])id$|^id([_\W]|$)", name, re.I) or reading.kind != "number":
            continue
        values = reading.values
        if np.array_equal(values, np.floor(values)) and len(np.unique(values)) == len(values):
            said.append(
                Note(
                    f"The column {name!r} looks like an identifier, a different whole number in "
                    "every row. Leave it out.",
                    (("drop", name),),
                )
            )
    return said


def _duplicates(question: Question) -> list[Note]:
    table, m = question.table, len(question.y)
    columns = [table.readings[name] for name in question.preparation.columns_[:_MOST_COLUMNS]]
    numbers = [reading for reading in columns if reading.kind == "number"]
    finest = max(numbers, key=lambda reading: reading.n_different, default=None)
    if finest is None or finest.n_different <= min(50, m / 4):
        return []  # few combinations: equal rows are no news
    _, codes, counts = np.unique(finest.values, return_inverse=True, return_counts=True)
    rows = np.flatnonzero(counts[codes] > 1)  # no others can be equal
    classes = np.unique(question.y[rows], return_inverse=True)[1]
    pairs = zip(question.X[rows], classes, strict=True)
    count = len(rows) - len({hash((row.tobytes(), code)) for row, code in pairs})
    if not count:
        return []
    told = f"{count:,} {'row repeats' if count == 1 else 'rows repeat'} another row exactly"
    if question.by_group:
        return [Note(f"{told}, target included.")]
    return [
        Note(
            f"{told}, target included. A copy in the training rows gives the answer away: remove "
            "copies, or hold them out together with a group column."
        )
    ]


def _leaks(question: Question) -> list[Note]:
    strength = _alone(question.X, question.y, question.classify)
    columns = [c for c, made in question.preparation.features_of().items() for _ in made]
    best: dict[str, float] = {}
    for j in np.argsort(-strength, kind="stable")[:5]:
        if strength[j] >= _ALONE:
            best.setdefault(columns[j], float(strength[j]))
    target = repr(question.roles.target)
    return [
        Note(
            f"The column {column!r} "
            + (
                f"separates the classes of {target} almost alone"
                if question.classify
                else f"predicts {target} almost alone (rank correlation {value:.3f})"
            )
            + ". If it is known only after the target, or made from it, it is a leak: drop it.",
            (("drop", column),),
        )
        for column, value in best.items()
    ]


def _alone(X: NDArray[np.float64], y: NDArray[Any], classify: bool) -> NDArray[np.float64]:
    """Return how well each feature alone tells the target, between 0 and 1.

    The rank correlation with a number, and |2 AUC − 1| for the class that it separates best.
    """
    from scipy.stats import rankdata

    m, d = X.shape
    # Ranks of every column of a wide table are much work; some thousand rows tell enough.
    n = min(m, max(200, int(_MOST_RANKS / d)))
    rows = np.unique(np.linspace(0, m - 1, n).astype(int))
    y = y[rows]
    ranks = rankdata(X[rows], axis=0) - (len(rows) + 1) / 2
    if not classify:
        aim = rankdata(y.astype(float)) - (len(rows) + 1) / 2
        size = np.sqrt((ranks**2).sum(axis=0) * (aim**2).sum())
        return np.asarray(np.abs(aim @ ranks) / np.where(size > 0, size, np.inf))
    classes, counts = np.unique(y, return_counts=True)
    strength = np.zeros(d)
    for c, k in zip(classes, counts, strict=True):
        if min(k, len(y) - k) >= 3 and len(classes) <= 20:
            separation = 2 * np.abs((y == c).astype(float) @ ranks) / (k * (len(y) - k))
            strength = np.maximum(strength, separation)
    return strength


def _groups(question: Question) -> list[Note]:
    if question.roles.group is not None:
        return []
    table, m = question.table, question.table.n_rows
    candidates = []
    for name in [*question.preparation.columns_, *question.preparation.left_out_][:_MOST_COLUMNS]:
        reading = table.readings[name]
        if reading.kind == "category":
            codes = reading.values.astype(np.int64)
        elif reading.kind == "number" and np.array_equal(reading.values, np.floor(reading.values)):
            codes = np.unique(reading.values, return_inverse=True)[1]
        else:
            continue
        n = int(codes.max()) + 1
        if 5 <= n <= m / 2:
            candidates.append((name, codes, n))
    for name, codes, n in sorted(candidates, key=lambda item: -item[2]):
        trait = _trait(question, name, codes, n)
        if trait or _WHO.search(name):
            why = f"; {trait!r} is the same in all rows of one" if trait else ""
            return [
                Note(
                    f"Rows repeat in groups: {name!r} has {n:,} values for {m:,} rows{why}. If new "
                    f"rows will come from new {name!r} values, hold out whole groups.",
                    (("group", name),),
                )
            ]
    return []


def _trait(question: Question, name: str, codes: NDArray[np.int64], n: int) -> str | None:
    """Return a column of numbers that each group has one value of, and nearly each its own."""
    table = question.table
    others = [c for c in question.preparation.columns_ if table.readings[c].kind == "number"]
    for other in others[:_MOST_COLUMNS]:
        if other == name:
            continue
        values = np.unique(table.readings[other].values, return_inverse=True)[1]
        k = int(values.max()) + 1
        # More values than could be chance, fewer than rows, and one for each group.
        if max(5, n / 2) < k <= n and len(np.unique(codes * k + values)) == n:
            return other
    return None


def _time(question: Question) -> list[Note]:
    if question.by_time:
        return []
    table = question.table
    dated = [n for n, r in table.readings.items() if r.kind == "date"]
    if dated:
        name = question.roles.time or dated[0]
        return [
            Note(
                f"The data have a time ({name!r}), and rows are held out without regard to it: the "
                "model is tested on rows that lie between its training rows. If it is to predict "
                "the future, hold out steps in time.",
                (("cv", "time:5"), ("time", name)),
            )
        ]
    if question.by_group or question.classify or question.roles.group is not None:
        return []
    y = question.y.astype(float)
    y = y - y.mean()
    size = float((y**2).sum())
    if len(y) < 30 or size == 0:
        return []
    steps = np.diff(y)
    if (steps >= 0).all() or (steps <= 0).all():
        return []  # sorted by the target: no time
    r = float((y[1:] * y[:-1]).sum() / size)
    if r < _AUTOCORRELATION:
        return []
    return [
        Note(
            "Neighbouring rows of the file resemble each other (the target's correlation with the "
            f"row before is {r:.2f}), and rows are held out without regard to their order. If the "
            "order is one of time or place, hold out steps in time, or whole groups.",
            (("cv", "time:5"),),
        )
    ]


def _classes(question: Question) -> list[Note]:
    if question.classify:
        return []
    values = np.unique(question.y)
    if len(values) != 2:
        return []
    low, high = (f"{float(v):g}" for v in values)
    return [
        Note(
            f"The target {question.roles.target!r} has two values, {low} and {high}, and is "
            "fitted as a number. To predict classes, ask for a classifier.",
            (("classify", True),),
        )
    ]
