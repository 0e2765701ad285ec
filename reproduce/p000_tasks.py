"""Paper 000 §6.2: the four regression tasks side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reproduce._approaches import log2_labels, mean_and_variance
from reproduce._figures import axes, curves, shared_legend
from reproduce._framework import Claim, Options, Outcome, Progress, experiment
from reproduce._verdicts import BAND, finite, log_variances, mean_and_error, told, weakest
from reproduce.datasets import load
from reproduce.p000_variance import (
    AILERONS,
    ALPHAS,
    ELEVATORS,
    POLE,
    PUMADYN,
    errors_of,
)

Floats = NDArray[np.float64]

TASKS = (AILERONS, ELEVATORS, POLE, PUMADYN)


def draw(numbers: Mapping[str, Any]) -> Any:
    """Return the variances of approach 1 on the four tasks, absolute and relative to the mean."""
    figure, ax = axes(2)
    for column, name in enumerate(("variance", "relative variance")):
        lines = {title: part[name][0] for title, part in numbers["tasks"].items()}
        x, label = numbers["log2_alpha"], f"{name} of the MSEs"
        curves(ax[0, column], x, lines, xlabel="log₂ λ", ylabel=label, log=True, legend=False)
        ax[0, column].set_title("approach 1")
    shared_legend(figure, ax)
    return figure


def decide(numbers: Mapping[str, Any], repetitions: int) -> list[Claim]:
    """Return the verdict on which task has the largest variances."""
    claims = []
    for name, how in (("variance", "as they are"), ("relative variance", "over the squared mean")):
        average = {title: part["average"][name] for title, part in numbers["tasks"].items()}
        largest = _largest_at(numbers["tasks"], name)
        pole = average.pop(POLE.title)
        next_one = max(average, key=lambda title: average[title]["log"])
        gap = pole["log"] - average[next_one]["log"]
        noise = float(np.hypot(pole["standard_error"], average[next_one]["standard_error"]))
        claims.append(
            Claim(
                f"The variances are the largest on Pole Telecomm ({how})",
                weakest([told(gap, noise), min(largest) == len(numbers["log2_alpha"])]),
                f"{np.exp(gap):.3g} times those of {next_one}, which is next, on average over λ "
                f"and approaches, known to a factor {np.exp(BAND * noise):.2g}; the largest at "
                f"{', '.join(map(str, largest))} of {len(numbers['log2_alpha'])} λ (approaches 1, "
                "2, 3; rule: on average and at every λ)",
                "at the smallest λ they are larger on Ailerons.",
                kind="paper" if name == "variance" else "besides",
            )
        )
    return claims


def _largest_at(tasks: Mapping[str, Any], name: str) -> list[int]:
    """Return at how many λ the variance of each approach is the largest on Pole Telecomm."""
    every = np.array([part[name] for part in tasks.values()])  # (tasks, 3, alphas)
    pole = list(tasks).index(POLE.title)
    return [int(count) for count in (every.argmax(axis=0) == pole).sum(axis=1)]


def averages(errors: Floats) -> dict[str, Any]:
    """Return the average log variance and relative variance, with their standard errors.

    Parameters
    ----------
    errors : array of shape (repetitions, 3, alphas)
    """
    logs, terms = log_variances(errors)
    mean = errors.mean(axis=0)
    found = {}
    for name, log, part in (
        ("variance", logs, terms),
        ("relative variance", logs - 2 * np.log(mean), terms - 2 * (errors - mean) / mean),
    ):
        noise = mean_and_error(part.reshape(len(part), -1).mean(axis=1))[1]
        found[name] = {"log": float(log.mean()), "standard_error": finite(float(noise))}
    return found


@experiment(
    "p000-tasks",
    paper="000 §6.2",
    title="Variance of ten-fold CV on the four tasks side by side",
    draw=draw,
    repetitions=100,
    paper_repetitions=100,
    caption="Left: in their own units the errors vary most on Pole Telecomm by far. Right: over "
    "the squared mean they do so from λ = 2⁻⁷ on; below, Ailerons is ahead.",
)
def tasks(options: Options, progress: Progress) -> Outcome:
    """Return the variances of the three approaches on the four tasks."""
    numbers: dict[str, Any] = {"log2_alpha": log2_labels(ALPHAS), "tasks": {}}
    for task in TASKS:
        data = load(task.data, options.folder).train()
        errors = errors_of(task, data, options, progress)
        mean, variance = mean_and_variance(errors)
        numbers["tasks"][task.title] = {
            "mean": mean.tolist(),
            "variance": variance.tolist(),
            "relative variance": (variance / mean**2).tolist(),
            "average": averages(errors),
        }
    settings = [
        (task.title, f"γ = 2^{task.log2_gamma}", f"the same; {task.split}") for task in TASKS
    ]
    return Outcome(numbers, decide(numbers, options.repetitions), settings, notes=_NOTES)


_NOTES = (
    "The targets have units of their own, so variances of their squared errors cannot be compared "
    "as they are; over the squared mean they can. The paper does not say which it means.",
)
