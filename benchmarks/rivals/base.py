"""What an adapter says of a library, and how held-out predictions are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from benchmarks.problems import Data, Floats, Problem

Asked = Mapping[str, Sequence[int]]
Answer = dict[str, Any]


class Done(NamedTuple):
    """A job that was done.

    Attributes
    ----------
    read : callable
        From what is asked (`benchmarks.naive.questions`) to the numbers; its time is not counted.
    seconds, peak_bytes : float or None
        What it took, where the library ran in a process of its own and measured itself.
    """

    read: Callable[[Asked], Answer]
    seconds: float | None = None
    peak_bytes: float | None = None


@dataclass(frozen=True)
class Rival:
    """One library.

    Attributes
    ----------
    name : str
        As in the table.
    run : callable
        Does a problem's job from its arrays.
    can : callable
        Whether it does this job, in less than minutes.
    package : str or None
        What must be installed.
    missing : callable
        Why it cannot take part here, or None.
    """

    name: str
    run: Callable[[Problem, Data], Done]
    can: Callable[[Problem], bool]
    package: str | None = None
    missing: Callable[[], str | None] = lambda: None

    def absent(self) -> str | None:
        """Return why the library cannot take part, or None."""
        if self.package is not None and find_spec(self.package) is None:
            return "not installed"
        return self.missing()


def predictions(values: Floats, data: Data, **more: float) -> Done:
    """Return a job whose result is held-out predictions of the first target, (alphas, m)."""

    def read(asked: Asked) -> Answer:
        found = [
            [values[a, data.folds[j]].tolist() for a in asked["alphas"]]
            for j in asked["experiments"]
        ]
        return {"predictions": found, **more}

    return Done(read)


def value(number: Any) -> Done:
    """Return a job whose result is one number, or a few."""
    return Done(lambda asked: {"value": np.ravel(number).tolist()})


def nothing() -> Done:
    """Return a job whose result cannot be compared: the library chooses among other models."""
    return Done(lambda asked: {})
