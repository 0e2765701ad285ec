"""Ways of holding rows out: single rows, folds, whole groups, steps in time."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.app.columns import Task
from holdfast.app.words import BadData, BadOption, count, quoted

__all__ = ["Holding", "fold_cv", "make_holding"]

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Holding:
    """A way of holding out rows, of one task."""

    kind: str  #: "rows", "groups" or "time"
    words: str  #: What follows "held out:"
    short: str  #: The same as a label
    cv: Any
    groups: Array | None = None
    times: Array | None = None
    folds: int | None = None  #: None: each row, or group, by itself


def make_holding(
    task: Task,
    asked: str | None = None,
    *,
    groups: Array | None = None,
    times: Array | None = None,
    name: str = "",
    seed: int = 0,
) -> Holding:
    """Return the way of holding out that was asked for, or that fits the task.

    Parameters
    ----------
    task : Task
    asked : str, optional
        ``loo``, a number of folds, ``groups``, ``groups:5`` or ``time:5``.
    groups, times : ndarray, optional
        Instead of those of the task.
    name : str
        Of the groups.
    seed : int
        Of random folds.
    """
    asked = (asked or "").strip().lower()
    matched = re.fullmatch(r"(loo|groups|time)?:?(\d+)?", asked)
    if not matched:
        raise BadOption(f"--cv: {asked!r} is none of loo, 10, groups, groups:5, time:5.")
    kind, folds = matched[1], int(matched[2]) if matched[2] else None
    groups = task.groups if groups is None else groups
    times = task.times if times is None else times
    name = name or (task.group or "group")
    if kind is None and folds is None:
        if groups is not None and times is not None:
            raise BadOption(
                "--group and --time both say how to hold out: add --cv groups or time:5."
            )
        kind = "groups" if groups is not None else "time" if times is not None else None
    if kind == "groups" and groups is None:
        raise BadOption(
            "--cv groups needs --group, the column that says which rows belong together."
        )
    if folds is not None and folds < 2:
        raise BadOption(f"--cv: at least 2 folds are needed; got {folds}.")
    if kind == "time":
        return _steps(task, times, folds or 5)
    if kind != "loo" and groups is not None:
        return _of_groups(groups, name, folds)
    return _of_rows(task, kind, folds, seed)


def fold_cv(kind: str, folds: int | None, times: Any, seed: int, *, classify: bool) -> Any:
    """Return the splitter of a way of holding out; None: each row by itself."""
    from sklearn.model_selection import GroupKFold, KFold, LeaveOneGroupOut, StratifiedKFold

    from holdfast.splitters import TimeSteps

    if kind == "time":
        return TimeSteps(times, folds or 5)
    if kind == "groups":
        return LeaveOneGroupOut() if folds is None else GroupKFold(folds)
    if folds is None:
        return None
    kfold = StratifiedKFold if classify else KFold
    return kfold(folds, shuffle=True, random_state=seed)


def _steps(task: Task, times: Array | None, folds: int) -> Holding:
    m = len(task.y)
    times = np.arange(m, dtype=float) if times is None else times
    if m < 2 * (folds + 1):
        raise BadOption(f"--cv time:{folds}: {count(m, 'row')} are too few for {folds} steps.")
    words = f"{folds} steps in time, each predicted from what came before"
    cv = fold_cv("time", folds, times, 0, classify=False)
    return Holding("time", words, "later rows", cv, times=times, folds=folds)


def _of_groups(groups: Array, name: str, folds: int | None) -> Holding:
    n = len(np.unique(groups))
    if folds is None and n > 1000:
        folds = 20
    if folds is not None and folds > n:
        raise BadOption(f"--cv: {folds} folds need as many groups; there are {n}.")
    words = f"one {quoted(name)} at a time, with all its rows"
    if folds is not None:
        words = f"{folds} folds of whole {quoted(name)}s"
    cv = fold_cv("groups", folds, None, 0, classify=False)
    return Holding("groups", words, f"whole {name}s", cv, groups=groups, folds=folds)


def _of_rows(task: Task, kind: str | None, folds: int | None, seed: int) -> Holding:
    m = len(task.y)
    if m < 3:
        raise BadData(f"{count(m, 'row')} with a target: too few to hold any out.")
    if folds is None and (kind == "loo" or not task.classify):
        return Holding("rows", "one row at a time, by a model of all others", "single rows", None)
    there, what = m, "rows"
    if task.classify:
        there = int(np.unique(task.y, return_counts=True)[1].min())
        what = "rows of each class"
        folds = folds or min(10, there)
    assert folds is not None
    if folds > there:
        raise BadOption(f"--cv: {folds} folds need as many {what}; there are {there:,}.")
    cv = fold_cv("rows", folds, None, seed, classify=task.classify)
    return Holding("rows", f"{folds} random folds", f"{folds} random folds", cv, folds=folds)
