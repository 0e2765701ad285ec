"""The check of a fit against retraining, and how to repeat it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from holdfast.exceptions import NotSupportedError
from holdfast.report.blocks import Block, Code, facts
from holdfast.report.context import Case

__all__ = ["Certificate", "Repeat", "certificate", "check_words", "promise", "repeat_blocks"]

VERIFY_SEED = 0
#: Experiments that are retrained where that takes little; rows × features² of all of them.
USUAL, _MOST_DENSE, _MOST_BASIS = 5, 5e9, 2e10


@dataclass(frozen=True)
class Certificate:
    """What `verify` found."""

    experiments: int  #: How many experiments were retrained, at how many penalties
    alphas: int
    #: The largest deviation of a fast prediction from a retrained one, at the chosen penalty
    #: and at any
    chosen_relative_error: float
    max_relative_error: float
    seed: int  #: Seed of the draw of experiments
    verified: bool  #: Whether the deviations are small enough
    words: str  #: The same in a sentence or two


@dataclass(frozen=True)
class Repeat:
    """How to do it again: the command, libraries, the seed of basis rows, the file, its sha256."""

    command: str | None
    versions: tuple[tuple[str, str], ...]
    seed: int
    data: str | None
    checksum: str | None


def certificate(case: Case, n_experiments: int | None) -> Certificate | None:
    """Return how far retrained experiments lie from the fast ones.

    Parameters
    ----------
    case : Case
    n_experiments : int or None
        None: five, or fewer where that would take long.
    """
    if n_experiments is None:
        most = _MOST_BASIS if case.model._problem.on_basis else _MOST_DENSE
        n_experiments = int(np.clip(most * case.ask.patience / case.work, 1, USUAL))
    if n_experiments < 1:
        return None
    try:
        found = case.model.verify(n_experiments, random_state=VERIFY_SEED)
    except NotSupportedError as error:
        case.notes.append(str(error))
        return None
    return Certificate(
        int(found.experiments.size),
        int(found.alphas.size),
        float(found.chosen_relative_error),
        float(found.max_relative_error),
        VERIFY_SEED,
        found.verified,
        found.words(),
    )


def check_words(found: Certificate | None) -> str:
    """Return what retraining showed."""
    if found is None:
        return "No experiment was retrained for comparison."
    return f"{found.words[0].upper()}{found.words[1:]}"


def promise(found: Certificate | None) -> str:
    """Return what the numbers are, as far as they were checked by retraining."""
    exact = "that of a model retrained without the held-out rows, to rounding"
    if found is None:
        return f"By its algebra every held-out number here is {exact}; none was checked."
    if found.verified:
        return f"Every held-out number here is {exact}; {found.experiments:,} were checked."
    return "The check against retraining failed: do not rely on the numbers here."


def repeat_blocks(repeat: Repeat) -> tuple[Block, ...]:
    """Return how to repeat it."""
    told = facts(
        [
            ("Seed", str(repeat.seed)),
            ("Data", repeat.data or ""),
            ("sha256 of the data", repeat.checksum or ""),
            ("Versions", ", ".join(f"{name} {v}" for name, v in repeat.versions)),
        ]
    )
    return (Code(repeat.command), told) if repeat.command else (told,)
