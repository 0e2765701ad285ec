"""What an experiment of a paper is here, and the table of all of them.

An experiment is one function, registered under an id (`experiment`), that takes `Options` and a
progress callback and gives back an `Outcome`: numbers that go to JSON as they are, settings and
numbers side by side with the paper's, and claims, each decided by the run itself.
A second function draws the figure from the numbers alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Any, Literal

from holdfast.exceptions import InvalidInputError
from holdfast.progress import Progress

Numbers = dict[str, Any]
SideBySide = Sequence[tuple[str, str, str]]


@dataclass(frozen=True)
class Options:
    """What the person who runs an experiment may choose.

    Attributes
    ----------
    repetitions : int
        How often the random part is repeated; what is repeated is the experiment's own matter.
    seed : int
        Source of all chance.
    folder : path or None
        Where data files are; None: ``HOLDFAST_DATA``.
    kept : path or None
        File of the repetitions that are finished (`reproduce._repeat`); None: nothing is kept.
    """

    repetitions: int
    seed: int = 0
    folder: str | os.PathLike[str] | None = None
    kept: Path | None = None


@dataclass(frozen=True)
class Claim:
    """A statement of a paper, or a check of our own, and whether this run bears it out.

    Attributes
    ----------
    text : str
        The statement.
    holds : bool or None
        Decided from the numbers of the run, by a rule fixed before the run. None: the numbers
        are too noisy to tell.
    evidence : str
        The numbers that decide it.
    why : str
        Why it does not hold, as far as we know; shown only then.
    case : str
        Where a statement is decided several times, which of these this is: a kernel, a data set, a
        reading. The statement holds if it holds in every case.
    kind : {"paper", "besides", "ours"}
        ``"paper"``: a statement of the paper in the paper's own setting; only these are counted.
        ``"besides"``: the same for another reading of what the paper leaves open, or on other
        data. ``"ours"``: a check of our own, which no paper states.
    """

    text: str
    holds: bool | None
    evidence: str
    why: str = ""
    case: str = ""
    kind: Literal["paper", "besides", "ours"] = "paper"


@dataclass(frozen=True)
class Outcome:
    """What a run gives back.

    Attributes
    ----------
    numbers : dict
        Everything measured; only what JSON knows (dict, list, str, float, int, bool, None).
    claims : sequence of Claim
        The paper's statements, decided.
    settings : sequence of (what, paper, ours)
        The two settings side by side.
    comparison : sequence of (what, paper, ours)
        The paper's printed numbers beside ours.
    notes : sequence of str
        What a reader must know: what differs and why, what the paper leaves open.
    """

    numbers: Numbers
    claims: Sequence[Claim]
    settings: SideBySide
    comparison: SideBySide = ()
    notes: Sequence[str] = ()


Run = Callable[[Options, Progress], Outcome]
Decide = Callable[[Mapping[str, Any], int], Sequence[Claim]]
Draw = Callable[[Mapping[str, Any]], Any]


@dataclass(frozen=True)
class Experiment:
    """One entry of the table.

    Attributes
    ----------
    id : str
        Such as ``"p000-fig1"``: paper and figure or table.
    paper : str
        Where in which paper.
    title : str
        What is measured, in a line.
    run, draw : callable
        Options and progress to outcome; numbers to a matplotlib figure.
    repetitions : int
        Default number of repetitions: minutes on two cores.
    paper_repetitions : int or None
        The paper's number, where it gives one.
    decide : callable or None
        Numbers and repetitions to claims, for long experiments: ``--again`` then decides the
        claims again without running.
    caption : str
        What to see in the figure, in a sentence or two.
    """

    id: str
    paper: str
    title: str
    run: Run
    draw: Draw
    repetitions: int
    paper_repetitions: int | None = None
    decide: Decide | None = None
    caption: str = ""


EXPERIMENTS: dict[str, Experiment] = {}


def experiment(
    id: str,
    *,
    paper: str,
    title: str,
    draw: Draw,
    repetitions: int = 1,
    paper_repetitions: int | None = None,
    decide: Decide | None = None,
    caption: str = "",
) -> Callable[[Run], Run]:
    """Return a decorator that registers a function as the experiment `id`."""

    def register(run: Run) -> Run:
        if id in EXPERIMENTS:
            raise InvalidInputError(f"Two experiments are called {id!r}.")
        EXPERIMENTS[id] = Experiment(
            id, paper, title, run, draw, repetitions, paper_repetitions, decide, caption
        )
        return run

    return register


def silent(done: int, total: int, text: str) -> None:
    """Take no note of progress."""


def besides(decide: Decide) -> Decide:
    """Return the same verdicts as those of another reading, which are not counted."""

    @wraps(decide)
    def decided(numbers: Mapping[str, Any], repetitions: int) -> Sequence[Claim]:
        return [replace(claim, kind="besides") for claim in decide(numbers, repetitions)]

    return decided
