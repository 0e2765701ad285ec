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
from reproduce.datasets import make_sinusoid

Floats = NDArray[np.float64]

ALPHAS = np.logspace(-3, 1, 9)
N_ROWS, N_TEST = 40, 500
GAMMA = 0.05
LOO, LESS, FULL = "leave-one-out", "new rows, one row less", "new rows, all rows"


def draw(numbers: Mapping[str, Any]) -> Any:
    """Return the mean errors against the penalty."""
    figure, ax = axes(width=6.0, height=4.0)
    lines = {name: numbers["mean"][name] for name in (LOO, LESS, FULL)}
    curves(ax[0, 0], numbers["alpha"], lines, xlabel="λ", ylabel="mean squared error", log=True)
    ax[0, 0].set_xscale("log")
    return figure


@experiment(
    "p002-lemma1",
    paper="002 Lemma 1",
    title="Leave-one-out as an estimate of the error of a model of one row less",
    draw=draw,
    repetitions=1000,
)
def lemma(options: Options, progress: Progress) -> Outcome:
    """Return mean errors over samples: leave-one-out, and new rows with ℓ − 1 and ℓ rows."""
    rng = np.random.default_rng(options.seed)
    errors = []
    for repetition in range(options.repetitions):
        progress(repetition, options.repetitions, "samples")
        errors.append(_errors(rng))
    found = np.array(errors)  # (repetitions, 3, alphas)
    mean = found.mean(axis=0)
    gaps = found[:, 0] - found[:, 1]
    noise = gaps.std(axis=0, ddof=min(1, len(gaps) - 1)) / np.sqrt(len(gaps))
    z = np.abs(gaps.mean(axis=0)) / np.maximum(noise, np.finfo(float).tiny)
    share = np.abs(gaps.mean(axis=0)) / mean[1]
    numbers = {
        "alpha": ALPHAS.tolist(),
        "mean": dict(zip((LOO, LESS, FULL), mean.tolist(), strict=True)),
        "standard_error_of_the_difference": noise.tolist(),
    }
    claim = Claim(
        "The expectation of the leave-one-out error on ℓ rows is that of the error with ℓ − 1 rows",
        None if len(errors) < 10 else bool(z.max() < 4.0),
        f"largest difference {z.max():.1f} standard errors (rule: below 4), at most "
        f"{100 * share.max():.2g} % over {ALPHAS.size} λ",
    )
    return Outcome(numbers, [claim], _SETTINGS, notes=_NOTES)


def _errors(rng: np.random.Generator) -> Floats:
    """Return leave-one-out error and error on new rows with one row less and all, (3, alphas)."""
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
