"""Paper 004 §4, Figure 1: leave-one-out against leave-cluster-out on clustered ranking data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from sklearn.model_selection import LeaveOneGroupOut

from holdfast import KernelRidgeCV
from holdfast.kernels import Linear
from holdfast.progress import Progress
from reproduce._approaches import expected_warnings
from reproduce._figures import axes, curves, shared_legend
from reproduce._framework import Claim, Options, Outcome, experiment
from reproduce._grouped import GroupedTask, kernel_values, real_tasks, why_not
from reproduce._measure import mean_tau_over_groups, powers_of_two
from reproduce.datasets import Dataset, load

Floats = NDArray[np.float64]

ALPHAS = powers_of_two(-15, 14)
KERNEL = Linear().normalised()
LOO, LCO, TEST = "leave-one-out", "leave-cluster-out", "independent test groups"


def draw(numbers: Mapping[str, Any]) -> Any:
    """Return one panel per data set: Kendall's τ_b against log₂ λ."""
    names = list(numbers["tasks"])
    figure, ax = axes(len(names))
    for column, name in enumerate(names):
        part = numbers["tasks"][name]
        curves(
            ax[0, column],
            numbers["log2_alpha"],
            {label: part[label] for label in (LOO, LCO, TEST)},
            xlabel="log₂ λ",
            ylabel="mean Kendall τ_b over groups",
            title=name,
            legend=False,
        )
    shared_legend(figure, ax)
    return figure


@experiment(
    "p004-fig1",
    paper="004 Figure 1",
    title="Ranking performance by leave-one-out and by leave-cluster-out",
    draw=draw,
)
def clusters(options: Options, progress: Progress) -> Outcome:
    """Return the ranking performance of the dense model by two kinds of CV and on test groups."""
    numbers: dict[str, Any] = {"log2_alpha": np.log2(ALPHAS).tolist(), "tasks": {}}
    claims: list[Claim] = []
    settings = list(_SETTINGS)
    comparison: list[tuple[str, str, str]] = []
    real, missing = real_tasks(options.folder)
    tasks = [stand_in(), *real]
    for step, task in enumerate(tasks):
        title = task.title
        progress(step, len(tasks), title)
        part = performances(task.train, task.test)
        numbers["tasks"][title] = {label: curve.tolist() for label, curve in part.items()}
        alike = kernel_values(task.train, KERNEL, np.arange(len(task.train)))
        ratio = alike["k_inside"] / alike["k_outside"]
        numbers["tasks"][title]["kernel_within_to_between"] = ratio
        claims += _claims(title, part, why_not(task, ratio))
        settings.append((title, _PAPER_DATA, task.describe()))
        comparison += _compare(title, part)
    return Outcome(numbers, claims, settings, comparison, [*_NOTES, *missing])


def stand_in() -> GroupedTask:
    """Return the generated stand-in for the parse data of paper 004."""
    data = load("parse_stand_in_100")
    return GroupedTask("stand-in", data.train(), data.test())


def performances(train: Dataset, test: Dataset) -> dict[str, Floats]:
    """Return mean τ_b over groups for each penalty, by both kinds of CV and on the test groups."""
    assert train.groups is not None
    assert test.groups is not None
    model = KernelRidgeCV(kernel=KERNEL, alphas=ALPHAS, fit_intercept=False)
    with expected_warnings():
        model.fit(train.X, train.y)
    alone = model.held_out().matrix()[:, :, 0]
    together = model.held_out(cv=LeaveOneGroupOut(), groups=train.groups).matrix()[:, :, 0]
    return {
        LOO: mean_tau_over_groups(train.y, alone, train.groups),
        LCO: mean_tau_over_groups(train.y, together, train.groups),
        TEST: mean_tau_over_groups(test.y, predict_path(train, test), test.groups),
    }


def predict_path(train: Dataset, test: Dataset) -> Floats:
    """Return predictions for the test rows by the model of all training rows, (alphas, rows)."""
    Lambda, V = linalg.eigh(KERNEL(train.X), driver="evd")
    paths = V @ ((V.T @ train.y)[:, None] / (np.maximum(Lambda, 0.0)[:, None] + ALPHAS))
    predictions: Floats = (KERNEL(test.X, train.X) @ paths).T
    return predictions


def _best(curve: Floats) -> int:
    return int(np.argmax(curve))


def _claims(title: str, part: dict[str, Floats], why: str) -> list[Claim]:
    alone, together, test = part[LOO], part[LCO], part[TEST]
    gap = float((alone - together).max())
    i, j = _best(alone), _best(together)
    far = float(np.abs(alone - test).mean()), float(np.abs(together - test).mean())
    return [
        Claim(
            f"{title}: leave-one-out clearly overestimates the ranking performance",
            gap > 0.1,
            f"up to {gap:.2f} above leave-cluster-out (paper: over 0.3; rule: above 0.1); mean "
            f"distance to the test groups {far[0]:.3f} and {far[1]:.3f}",
            why,
        ),
        Claim(
            f"{title}: leave-one-out prefers a smaller λ than leave-cluster-out",
            i < j,
            f"2^{np.log2(ALPHAS[i]):.0f} and 2^{np.log2(ALPHAS[j]):.0f} (paper: 2⁻² and 2⁴)",
            why,
        ),
        Claim(
            f"{title}: the λ of leave-cluster-out ranks unseen groups at least as well",
            bool(test[j] >= test[i]),
            f"τ_b on the test groups {test[j]:.3f} against {test[i]:.3f} (paper: 0.38, 0.37)",
            "the two λ rank the unseen groups almost equally well, here as in the paper.",
        ),
    ]


def _compare(title: str, part: dict[str, Floats]) -> list[tuple[str, str, str]]:
    alone, together, test = part[LOO], part[LCO], part[TEST]
    i, j = _best(alone), _best(together)
    return [
        (
            f"{title}: best λ, leave-one-out; leave-cluster-out",
            "2⁻²; 2⁴",
            f"2^{np.log2(ALPHAS[i]):.0f}; 2^{np.log2(ALPHAS[j]):.0f}",
        ),
        (f"{title}: largest difference", "over 0.3", f"{(alone - together).max():.2f}"),
        (f"{title}: test τ_b at these λ", "0.37; 0.38", f"{test[i]:.3f}; {test[j]:.3f}"),
    ]


_PAPER_DATA = "parses of 100 + 100 sentences, at most 20 each"
_SETTINGS = (
    ("model", "dense RLS without bias", "the same"),
    ("kernel", "Tsivtsivadze et al. (2005), on parses", "normalised linear on sparse features"),
    ("λ", "2⁻¹⁵ … 2¹⁴", "the same"),
    ("measure", "Kendall τ_b, averaged over sentences", "the same; groups without order left out"),
)
_NOTES = (
    "The parse data of the paper are not public in full; the stand-in is generated, the public "
    "sample is a small part of the authors' later data, the web queries are another kind of "
    "ranking data altogether.",
    "In a first version of the stand-in, wrong links had random types, as no parser proposes them; "
    "that made ranking far too easy (τ_b 0.74 on unseen sentences) and leave-one-out was only 0.07 "
    "too high. Wrong links now follow the grammar. The change was made after that first run.",
)
