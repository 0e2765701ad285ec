"""What a careful reader would ask about the data before believing the answer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.tables.preparation import TablePreparation
from holdfast.tables.roles import Roles
from holdfast.tables.table import Table

__all__ = ["Question", "notes_on"]

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


@dataclass(frozen=True, eq=False)
class Question:
    """What is known about the data and the question.

    Attributes
    ----------
    table : Table
    roles : Roles
    preparation : TablePreparation
        Fitted.
    X : ndarray of shape (m, d)
        The features.
    y : ndarray of shape (m,)
        Numbers, or classes.
    classify : bool
    by_time : bool
        Whether rows are held out in order of time.
    by_group : bool
        Whether whole groups are held out.
    """

    table: Table
    roles: Roles
    preparation: TablePreparation
    X: NDArray[np.float64]
    y: NDArray[Any]
    classify: bool
    by_time: bool
    by_group: bool


def notes_on(question: Question) -> tuple[str, ...]:
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


def _missing(question: Question) -> list[str]:
    m = question.table.n_rows
    return [
        f"The column {name!r} has no value in {count / m:.0%} of the rows, and one value was "
        f"filled in there. Leave it out with drop=[{name!r}] unless the few values matter."
        for name, count in question.table.missing(question.preparation.columns_).items()
        if count >= _MOSTLY_MISSING * m
    ]


def _identifiers(question: Question) -> list[str]:
    said = [
        f"The column {name!r} {why}. It was left out."
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
                f"The column {name!r} looks like an identifier, a different whole number in every "
                f"row. Leave it out with drop=[{name!r}]."
            )
    return said


def _duplicates(question: Question) -> list[str]:
    X, y = question.X, question.y
    m = len(y)
    # A random projection finds candidates without comparing all pairs of rows; a sum of products
    # depends on the order of summation only, which is the same for equal rows.
    mark = np.einsum("ij,j->i", X, np.random.default_rng(0).normal(size=X.shape[1]))
    codes = np.unique(y, return_inverse=True)[1].astype(float)
    continuous = [
        name
        for name in question.preparation.columns_
        if question.table.readings[name].kind == "number"
    ][:_MOST_COLUMNS]
    if not any(question.table.readings[n].n_different() > min(50, m / 4) for n in continuous):
        return []  # few combinations: equal rows are no news
    order = np.lexsort((codes, mark))
    same = (np.diff(mark[order]) == 0) & (np.diff(codes[order]) == 0)
    at = np.flatnonzero(same)
    if at.size and at.size <= 200_000:
        at = at[(X[order[at]] == X[order[at + 1]]).all(axis=1)]
    if not at.size:
        return []
    told = f"{at.size:,} {'row repeats' if at.size == 1 else 'rows repeat'} another row exactly"
    if question.by_group:
        return [f"{told}, target included."]
    return [
        f"{told}, target included. A copy in the training rows tells the answer: remove copies, or "
        "hold them out together with a group column."
    ]


def _leaks(question: Question) -> list[str]:
    X, y = question.X, question.y
    names = question.preparation.get_feature_names_out()
    strength = _alone(X, y, question.classify)
    said = []
    features = question.preparation.features_of()
    owner = {feature: column for column, made in features.items() for feature in made}
    seen: set[str] = set()
    for j in np.argsort(-strength, kind="stable")[:5]:
        if not strength[j] >= _ALONE:
            break
        column = owner[str(names[j])]
        if column in seen:
            continue
        seen.add(column)
        how = (
            f"separates the classes of {question.roles.target!r} almost alone"
            if question.classify
            else f"predicts {question.roles.target!r} almost alone (rank or linear correlation "
            f"{strength[j]:.3f})"
        )
        said.append(
            f"The column {column!r} {how}. If it is known only after the target, or made of it, it "
            f"is a leak: leave it out with drop=[{column!r}]."
        )
    return said


def _alone(X: NDArray[np.float64], y: NDArray[Any], classify: bool) -> NDArray[np.float64]:
    """Return how well each feature alone tells the target, between 0 and 1."""
    m, d = X.shape
    strength = np.zeros(d)
    # Ranks of every column of a wide table are much work; some thousand rows tell enough.
    n = min(m, max(200, int(_MOST_RANKS / d)))
    rows = np.unique(np.linspace(0, m - 1, n).astype(int))
    y = y[rows]
    targets: list[NDArray[np.float64]]
    if classify:
        classes = np.unique(y)
        targets = [
            (y == c).astype(float) for c in (classes if 2 < len(classes) <= 20 else classes[:1])
        ]
    else:
        targets = [y.astype(float)]
    for start in range(0, d, 1000):
        part = X[rows, start : start + 1000]
        ranks = _ranks(part)
        for target in targets:
            if classify:
                found = _separation(ranks, target)
            else:
                found = np.maximum(
                    _correlation(part, target), _correlation(ranks, _ranks(target[:, None])[:, 0])
                )
            strength[start : start + 1000] = np.maximum(strength[start : start + 1000], found)
    return strength


def _ranks(part: NDArray[np.float64]) -> NDArray[np.float64]:
    from scipy.stats import rankdata

    return np.asarray(rankdata(part, axis=0), dtype=float)


def _correlation(part: NDArray[np.float64], target: NDArray[np.float64]) -> NDArray[np.float64]:
    centred, aim = part - part.mean(axis=0), target - target.mean()
    size = np.sqrt((centred**2).sum(axis=0) * (aim**2).sum())
    return np.asarray(np.abs(centred.T @ aim) / np.where(size > 0, size, np.inf))


def _separation(ranks: NDArray[np.float64], member: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return |2 AUC − 1| of every column for one class against the others."""
    n, k = len(member), float(member.sum())
    if min(k, n - k) < 3:
        return np.zeros(ranks.shape[1])
    area = (member @ ranks - k * (k + 1) / 2) / (k * (n - k))
    return np.asarray(np.abs(2 * area - 1), dtype=float)


def _groups(question: Question) -> list[str]:
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
                f"Rows repeat in groups: {name!r} has {n:,} values for {m:,} rows{why}. If new "
                f"rows will come from new {name!r} values, hold out whole groups with "
                f"group={name!r}."
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


def _time(question: Question) -> list[str]:
    if question.by_time:
        return []
    table = question.table
    dated = [n for n, r in table.readings.items() if r.kind == "date"]
    if dated:
        name = question.roles.time or dated[0]
        return [
            f"The data have a time ({name!r}), and rows are held out without regard to it: the "
            "model is tested on rows that lie between its training rows. If it is to predict the "
            f"future, say cv='time:5' with time={name!r}."
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
        f"Neighbouring rows of the file resemble each other (the target's correlation with the row "
        f"before is {r:.2f}), and rows are held out without regard to their order. If the order is "
        "one of time or place, say cv='time:5', or hold out whole groups with group='…'."
    ]


def _classes(question: Question) -> list[str]:
    if question.classify:
        return []
    values = np.unique(question.y)
    if len(values) != 2:
        return []
    low, high = (f"{float(v):g}" for v in values)
    return [
        f"The target {question.roles.target!r} has two values, {low} and {high}, and is fitted as "
        "a number. To predict classes, say classify=True."
    ]
