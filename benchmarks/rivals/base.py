"""What an adaptor is: a name, a model, what it refuses, how to run it and how to read it.

Only `run` is timed. It starts from the rows and ends with a chosen penalty (or, for methods that
choose nothing, with held-out predictions). `read` then takes out what can be compared with
retraining; what a rival does not keep cannot be compared so closely, and the record says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from benchmarks.problems import COMMON, Data, Floats, Model, Problem


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a rival lets us see; any one of the three is enough.

    Attributes
    ----------
    predictions : ndarray of shape (alphas, m) or None
        Held-out predictions in row order.
    errors : ndarray of shape (alphas, experiments) or None
        Mean squared error of each experiment.
    best : (alpha, error) or None
        The chosen penalty and its mean squared error, averaged over experiments.
    """

    predictions: Floats | None = None
    errors: Floats | None = None
    best: tuple[float, float] | None = None


@dataclass(frozen=True, eq=False)
class Outside:
    """A result that was timed by another interpreter, with the time and memory it measured."""

    seconds: float
    peak_bytes: float
    predictions: Floats


def _accepts(problem: Problem) -> str | None:
    return None


@dataclass(frozen=True, eq=False)
class Rival:
    """One way to do the job.

    Attributes
    ----------
    name, label : str
        For the command line, and for people.
    run : callable(problem, data) -> result
        What is timed.
    read : callable(problem, data, result) -> Outcome
        Takes the answer out of the result; not timed.
    model : Model
        The model it holds rows out of.
    refuses : callable(problem) -> str or None
        Why it cannot do a problem of a kernel that it knows.
    missing : callable() -> str or None
        Why it is not there at all.
    promised : callable(result) -> float
        Bytes that it said it would take; nan if it says nothing.
    package : str
        Distribution whose version the record names.
    kernels : tuple of str
        The kernels that it knows.
    many : bool
        Whether it chooses a penalty for each of several targets.
    single : bool
        Whether it is the yardstick: one fit of one penalty, and no held-out predictions.
    """

    name: str
    label: str
    run: Callable[[Problem, Data], Any]
    read: Callable[[Problem, Data, Any], Outcome]
    model: Model = COMMON
    refuses: Callable[[Problem], str | None] = field(default=_accepts)
    missing: Callable[[], str | None] = field(default=lambda: None)
    promised: Callable[[Any], float] = field(default=lambda result: float("nan"))
    package: str = "numpy"
    kernels: tuple[str, ...] = ("rbf",)
    many: bool = False
    single: bool = False

    def declines(self, problem: Problem) -> str | None:
        """Return why it does not do this problem; None if it does."""
        if problem.kernel not in self.kernels:
            return f"is not for the {problem.kernel} kernel"
        if problem.targets > 1 and not self.many:
            return "is for one target"
        return self.refuses(problem)


def only_dense(problem: Problem) -> str | None:
    """Refuse problems with basis rows."""
    return None if problem.dense else "is for the dense model"


def needs_square(problem: Problem) -> str | None:
    """Refuse problems whose m × m kernel matrix would not fit into ordinary memory."""
    if problem.kernel == "linear" or 8.0 * problem.m**2 <= 4e9:
        return None
    return f"needs the kernel matrix of all rows, {8e-9 * problem.m**2:.0f} GB"


def needs_retraining(problem: Problem, most: int = 100) -> str | None:
    """Refuse problems with more models to retrain than anyone would wait for."""
    if problem.n_experiments <= most or problem.m * problem.n_experiments <= 10**5:
        return None
    return f"would train {problem.n_experiments:,} × {problem.n_alphas} models"
