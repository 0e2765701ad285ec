"""Paper 002 §2.5, Lemma 1: leave-one-out is an almost unbiased estimate of the error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast import KernelRidgeCV
from holdfast.kernels import RBF
from holdfast.progress import Progress
from reproduce._approaches import expected_warnings
from reproduce._figures import axes, curves
from reproduce._framework import Claim, Options, Outcome, experiment
from reproduce._repeat import repeated
from reproduce._verdicts import finite, mean_and_error, told, weakest
from reproduce.datasets import make_sinusoid

Floats = NDArray[np.float64]

ALPHAS = np.logspace(-3, 1, 9)
N_ROWS, N_TEST = 40, 500
GAMMA = 0.05
SAME = 0.05  # errors that differ by less are about the same
LOO, LESS, FULL = "leave-one-out", "new rows, one row less", "new rows, all rows"


def draw(numbers: Mapping[str, Any]) -> Any:
    """Return the mean errors against the penalty."""
    figure, ax = axes(width=6.0, height=4.0)
    lines = {name: numbers["mean"][name] for name in (LOO, LESS, FULL)}
    curves(ax[0, 0], numbers["alpha"], lines, xlabel="λ", ylabel="mean squared error")
    ax[0, 0].set_xscale("log")
    return figure


@experiment(
    "p002-lemma1",
    paper="002 Lemma 1",
    title="Leave-one-out as an estimate of the error of a model of one row less",
    draw=draw,
    repetitions=4000,
)
def lemma(options: Options, progress: Progress) -> Outcome:
    """Return mean errors over samples: leave-one-out, and new rows with ℓ − 1 and ℓ rows."""
    found = repeated(_errors, options, progress, "samples")  # (repetitions, 3, alphas)
    mean = found.mean(axis=0)
    gap, noise = mean_and_error(found[:, 0] - found[:, 1])
    share, error = np.abs(gap) / mean[1], noise / mean[1]
    numbers = {
        "alpha": ALPHAS.tolist(),
        "mean": dict(zip((LOO, LESS, FULL), mean.tolist(), strict=True)),
        "standard_error_of_the_difference": [finite(value) for value in noise],
    }
    claim = Claim(
        "The expectation of the leave-one-out error on ℓ rows is that of the error with ℓ − 1 rows",
        weakest(map(told, SAME - share, error)),
        f"largest difference {100 * share.max():.2g} % over {ALPHAS.size} λ, standard error at "
        f"most {100 * error.max():.2g} % (rule: below {100 * SAME:.0f} % at every λ)",
    )
    return Outcome(numbers, [claim], _SETTINGS, notes=_NOTES)


def _errors(seed: list[int]) -> Floats:
    """Return leave-one-out error and error on new rows with one row less and all, (3, alphas)."""
    rng = np.random.default_rng(seed)
    data, new = make_sinusoid(N_ROWS, seed=rng), make_sinusoid(N_TEST, seed=rng)
    with expected_warnings():
        model = KernelRidgeCV(gamma=GAMMA, alphas=ALPHAS).fit(data.X, data.y)
    found = [model.held_out().matrix()[:, :, 0] - data.y]
    for rows in (N_ROWS - 1, N_ROWS):
        found.append(path(data.X[:rows], data.y[:rows], new.X) - new.y)
    return np.stack([np.square(part).mean(axis=1) for part in found])


def path(X: Floats, y: Floats, new: Floats) -> Floats:
    """Return predictions for new rows at every penalty, (alphas, rows), by the printed system.

    Notes
    -----
    Paper 002 §2.2: the dense machine with bias, λ = 1/(2γ).
    """
    kernel, m = RBF(GAMMA), len(y)
    system = np.ones((ALPHAS.size, m + 1, m + 1))
    system[:, :m, :m] = kernel(X) + ALPHAS[:, None, None] * np.eye(m)
    system[:, m, m] = 0.0
    right = np.r_[y, 0.0]
    solution = np.linalg.solve(system, np.broadcast_to(right[:, None], (ALPHAS.size, m + 1, 1)))
    values: Floats = solution[:, :m, 0] @ kernel(new, X).T + solution[:, m]
    return values


_SETTINGS = [
    ("data", "any", "the sinusoid of paper 000 §6.3.1, ℓ = 40 rows, new in every repetition"),
    ("model", "least-squares support vector machine", f"the same, dense, γ = {GAMMA}, with bias"),
    ("error of ℓ − 1 rows", "an expectation", f"{N_TEST:,} new rows for each sample"),
]
_NOTES = (
    "The lemma is a theorem and needs no experiment; this shows how much is meant by “almost”: the "
    "error of the model of all ℓ rows is the third curve.",
)
