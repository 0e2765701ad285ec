"""What an experiment of a paper is here, and the table of all of them.

An experiment is one function, registered under an id (`experiment`), that takes `Options` and a
progress callback and gives back an `Outcome`: numbers that go to JSON as they are, settings and
numbers side by side with the paper's, and claims, each decided by the run itself.
A second function draws the figure from the numbers alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Progress = Callable[[int, int, str], None]
SideBySide = Sequence[tuple[str, str, str]]
FEW = 3  # repetitions that are not worth further processes


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
    """

    repetitions: int
    seed: int = 0
    folder: str | os.PathLike[str] | None = None


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
        A statement of the paper in the paper's own setting, which is counted; the same for another
        reading or on other data; or a check of our own.
    """

    text: str
    holds: bool | None
    evidence: str
    why: str = ""
    case: str = ""
    kind: Literal["paper", "besides", "ours"] = "paper"


@dataclass(frozen=True)
class Outcome:
    """What a run gives back: numbers, decided claims, and rows of (what, paper, ours).

    Attributes
    ----------
    numbers : dict
        Everything that the figure shows; only what JSON knows.
    claims : sequence of Claim
    settings, comparison : sequence of (what, paper, ours)
        The two settings, and the paper's printed numbers beside ours.
    notes : sequence of str
        What a reader must know: what differs and why, what the paper leaves open.
    """

    numbers: dict[str, Any]
    claims: Sequence[Claim]
    settings: SideBySide
    comparison: SideBySide = ()
    notes: Sequence[str] = ()


Run = Callable[[Options, Progress], Outcome]
Draw = Callable[[Mapping[str, Any]], Any]


@dataclass(frozen=True)
class Experiment:
    """One entry of the table.

    Attributes
    ----------
    id, paper, title, caption : str
        Such as ``"p000-fig1"``; where in which paper; what is measured; what to see.
    run, draw : callable
        Options and progress to outcome; numbers to a matplotlib figure.
    repetitions : int
        Default number of repetitions: minutes on two cores.
    paper_repetitions : int or None
        The paper's number, where it gives one.
    """

    id: str
    paper: str
    title: str
    run: Run
    draw: Draw
    repetitions: int = 1
    paper_repetitions: int | None = None
    caption: str = ""


EXPERIMENTS: dict[str, Experiment] = {}


def experiment(id: str, *, paper: str, title: str, **more: Any) -> Callable[[Run], Run]:
    """Return a decorator that registers a function as the experiment `id`."""

    def register(run: Run) -> Run:
        EXPERIMENTS[id] = Experiment(id, paper, title, run, **more)
        return run

    return register


def silent(done: int, total: int, text: str) -> None:
    """Take no note of progress."""


def repeated(
    work: Callable[[list[int]], Floats], options: Options, progress: Progress, text: str
) -> Floats:
    """Return what `work` gives for the seed of each repetition, one after the other along axis 0.

    The repetitions run on all cores, one BLAS thread each; few of them run here.
    """
    calls = (delayed(work)([options.seed, number]) for number in range(options.repetitions))
    jobs = -1 if options.repetitions > FEW else 1
    done: list[Floats] = []
    for values in Parallel(n_jobs=jobs, return_as="generator")(calls):
        done.append(values)
        progress(len(done), options.repetitions, text)
    return np.array(done)
