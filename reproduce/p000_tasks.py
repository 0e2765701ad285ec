"""Paper 000 §6.2: the four regression tasks side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from holdfast.basis import Random
from holdfast.progress import Progress
from reproduce._approaches import log2_labels, mean_and_variance, three_approaches
from reproduce._figures import axes, curves
from reproduce._framework import Claim, Options, Outcome, experiment, told
from reproduce.datasets import load
from reproduce.p000_variance import (
    AILERONS,
    ALPHAS,
    ELEVATORS,
    N_BASIS,
    POLE,
    PUMADYN,
    variance_noise,
)

TASKS = (AILERONS, ELEVATORS, POLE, PUMADYN)


def draw(numbers: Mapping[str, Any]) -> Any:
    """Return the variances of approach 1 on the four tasks, absolute and relative to the mean."""
    figure, ax = axes(2)
    for column, name in enumerate(("variance", "relative variance")):
        lines = {title: part[name][0] for title, part in numbers["tasks"].items()}
        x, label = numbers["log2_alpha"], f"{name} of the MSEs, approach 1"
        curves(ax[0, column], x, lines, xlabel="log₂ λ", ylabel=label, log=True)
    return figure


def decide(numbers: Mapping[str, Any], repetitions: int) -> list[Claim]:
    """Return the verdict on which task has the largest variances."""
    claims = []
    for name, how in (("variance", "as they are"), ("relative variance", "over the squared mean")):
        median = {title: float(np.median(part[name])) for title, part in numbers["tasks"].items()}
        others = {title: value for title, value in median.items() if title != POLE.title}
        next_one = max(others, key=others.__getitem__)
        ratio = median[POLE.title] / others[next_one]
        claims.append(
            Claim(
                f"The variances are the largest on Pole Telecomm ({how})",
                told(float(np.log(ratio)), variance_noise(repetitions)),
                f"median over λ and approaches {ratio:.3g} times that of {next_one}, which is next",
            )
        )
    return claims


@experiment(
    "p000-tasks",
    paper="000 §6.2",
    title="Variance of ten-fold CV on the four tasks side by side",
    draw=draw,
    repetitions=20,
    paper_repetitions=100,
    decide=decide,
)
def tasks(options: Options, progress: Progress) -> Outcome:
    """Return the variances of the three approaches on the four tasks."""
    numbers: dict[str, Any] = {"log2_alpha": log2_labels(ALPHAS), "tasks": {}}
    for step, task in enumerate(TASKS):
        data = load(task.data, options.folder).train()
        X, y = np.asarray(data.X, dtype=np.float64), task.scale * data.y
        rng = np.random.default_rng([options.seed, step])
        errors = []
        for repetition in range(options.repetitions):
            done = step * options.repetitions + repetition
            progress(done, len(TASKS) * options.repetitions, task.title)
            gamma = 2.0**task.log2_gamma
            errors.append(three_approaches(X, y, gamma, N_BASIS, ALPHAS, Random, rng))
        mean, variance = mean_and_variance(np.array(errors))
        numbers["tasks"][task.title] = {
            "mean": mean.tolist(),
            "variance": variance.tolist(),
            "relative variance": (variance / mean**2).tolist(),
        }
    settings = [
        (task.title, f"γ = 2^{task.log2_gamma}", f"the same; {task.split}") for task in TASKS
    ]
    return Outcome(numbers, decide(numbers, options.repetitions), settings, notes=_NOTES)


_NOTES = (
    "The targets have units of their own, so variances of their squared errors cannot be compared "
    "as they are; over the squared mean they can. The paper does not say which it means.",
)
