"""Paper 004 §4, Figure 1: leave-one-out against leave-cluster-out on clustered ranking data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from sklearn.model_selection import LeaveOneGroupOut

from holdfast import KernelRidgeCV
from holdfast.kernels import RBF, Kernel, Linear
from reproduce._approaches import expected_warnings
from reproduce._figures import axes, curves, shared_legend
from reproduce._framework import Claim, Options, Outcome, Progress, experiment
from reproduce._grouped import GroupedTask, kernel_values, why_not
from reproduce._measure import mean_tau_over_groups, powers_of_two
from reproduce._verdicts import finite, mean_and_error, told
from reproduce.datasets import DataNotFoundError, Dataset, load, make_parses

Floats = NDArray[np.float64]

ALPHAS = powers_of_two(-15, 14)
MOST_ROWS = 20  # of one group, as in the paper
KERNEL = Linear().normalised()
LOO, LCO, TEST = "leave-one-out", "leave-cluster-out", "independent test groups"


def draw(numbers: Mapping[str, Any]) -> Any:
    """Return one panel per data set: Kendall's τ_b against log₂ λ."""
    names = list(numbers["tasks"])
    figure, ax = axes(2, -(-len(names) // 2), height=3.2)
    for panel in ax.flat[len(names) :]:
        panel.set_axis_off()
    for panel, name in zip(ax.flat, names, strict=False):
        part = numbers["tasks"][name]
        curves(
            panel,
            numbers["log2_alpha"],
            {label: part[label] for label in (LOO, LCO, TEST)},
            xlabel="log₂ λ",
            ylabel="mean Kendall τ_b over groups",
            title=name,
            legend=False,
            bands=part.get("standard_error"),
        )
    shared_legend(figure, ax)
    return figure


class Source(NamedTuple):
    """Where draws of training and test groups come from, and their kernel."""

    title: str
    draw: Callable[[np.random.Generator], GroupedTask]
    kernel: Kernel


def stand_in(rng: np.random.Generator) -> GroupedTask:
    """Return newly generated sentences, as many as in the paper."""
    seed = int(rng.integers(2**31))
    sizes = {"n_train": 100, "n_test": 100, "train_size": 20, "test_size": 20}
    data = make_parses("parse_stand_in_100", seed=seed, **sizes)
    return GroupedTask("stand-in", data.train(), data.test())


def split(title: str, data: Dataset, n_train: int, most: int) -> Callable[..., GroupedTask]:
    """Return what draws `n_train` training groups and as many test groups, of `most` rows each."""
    assert data.groups is not None
    names = np.unique(data.groups)

    def draw(rng: np.random.Generator) -> GroupedTask:
        chosen = rng.permutation(names)[: 2 * n_train]
        parts = []
        for half in (chosen[:n_train], chosen[n_train:]):
            rows = [rng.permutation(np.flatnonzero(data.groups == group))[:most] for group in half]
            parts.append(data.take(np.sort(np.concatenate(rows))))
        return GroupedTask(title, *parts)

    return draw


def sources(folder: Any) -> tuple[list[Source], list[str]]:
    """Return the data that are at hand, and a note for each that is not."""
    found, notes = [Source("stand-in", stand_in, KERNEL)], []
    for title, name, n_train, kernel in _REAL:
        try:
            data = load(name, folder)
        except DataNotFoundError as error:
            notes.append(f"Not run: {title}. {error}")
            continue
        if isinstance(kernel, RBF):
            data = replace(data, X=(data.X - data.X.mean(axis=0)) / data.X.std(axis=0))
        found.append(Source(title, split(title, data, n_train, MOST_ROWS), kernel))
    return found, notes


def decide(numbers: Mapping[str, Any], repetitions: int) -> list[Claim]:
    """Return the verdicts on all data sets."""
    claims: list[Claim] = []
    for title, part in numbers["tasks"].items():
        claims += _claims(title, part)
    return claims


@experiment(
    "p004-fig1",
    paper="004 Figure 1",
    title="Ranking performance by leave-one-out and by leave-cluster-out",
    draw=draw,
    repetitions=5,
    paper_repetitions=1,
    caption="Where rows of a group are alike (stand-in, voices), leave-one-out promises far more "
    "than unseen groups give, and prefers a smaller λ. Shaded: two standard errors.",
)
def clusters(options: Options, progress: Progress) -> Outcome:
    """Return the ranking performance of the dense model by two kinds of CV and on test groups.

    Every repetition draws other training and test groups.
    """
    numbers: dict[str, Any] = {"log2_alpha": np.log2(ALPHAS).tolist(), "tasks": {}}
    settings = list(_SETTINGS)
    comparison: list[tuple[str, str, str]] = []
    found, missing = sources(options.folder)
    for step, source in enumerate(found):
        rng = np.random.default_rng([options.seed, step])
        runs, ratios = [], []
        for repetition in range(options.repetitions):
            progress(
                step * options.repetitions + repetition,
                len(found) * options.repetitions,
                source.title,
            )
            task = source.draw(rng)
            runs.append(performances(task.train, task.test, source.kernel))
            alike = kernel_values(task.train, source.kernel, np.arange(len(task.train)))
            ratios.append(alike["k_inside"] / alike["k_outside"])
        curves_of = {label: np.array([run[label] for run in runs]) for label in (LOO, LCO, TEST)}
        part = _part(curves_of)
        part["kernel_within_to_between"] = float(np.mean(ratios))
        part["why"] = why_not(task, float(np.mean(ratios)), paper_groups=100)
        numbers["tasks"][source.title] = part
        settings.append((source.title, _PAPER_DATA, f"{task.describe()} (one of the draws)"))
        comparison += _compare(source.title, part)
    claims = decide(numbers, options.repetitions)
    return Outcome(numbers, claims, settings, comparison, [*_NOTES, *missing])


def performances(train: Dataset, test: Dataset, kernel: Kernel) -> dict[str, Floats]:
    """Return mean τ_b over groups for each penalty, by both kinds of CV and on the test groups."""
    assert train.groups is not None
    assert test.groups is not None
    model = KernelRidgeCV(kernel=kernel, alphas=ALPHAS, fit_intercept=False)
    with expected_warnings():
        model.fit(train.X, train.y)
    alone = model.held_out().matrix()[:, :, 0]
    together = model.held_out(cv=LeaveOneGroupOut(), groups=train.groups).matrix()[:, :, 0]
    return {
        LOO: mean_tau_over_groups(train.y, alone, train.groups),
        LCO: mean_tau_over_groups(train.y, together, train.groups),
        TEST: mean_tau_over_groups(test.y, predict_path(train, test, kernel), test.groups),
    }


def predict_path(train: Dataset, test: Dataset, kernel: Kernel) -> Floats:
    """Return predictions for the test rows by the model of all training rows, (alphas, rows)."""
    Lambda, V = linalg.eigh(kernel(train.X), driver="evd")
    paths = V @ ((V.T @ train.y)[:, None] / (np.maximum(Lambda, 0.0)[:, None] + ALPHAS))
    predictions: Floats = (kernel(test.X, train.X) @ paths).T
    return predictions


def _part(curves: Mapping[str, Floats]) -> dict[str, Any]:
    """Return what is kept of curves (draws, alphas): means, and differences with their errors.

    As in the paper, each sample chooses λ by its own curve.
    """
    alone, together, test = curves[LOO], curves[LCO], curves[TEST]
    chosen = {name: curves[name].argmax(axis=1) for name in (LOO, LCO)}
    ranked = {name: np.take_along_axis(test, at[:, None], 1)[:, 0] for name, at in chosen.items()}
    gap, gap_noise = mean_and_error(alone - together)
    widest = int(gap.argmax())
    steps = (chosen[LCO] - chosen[LOO]).astype(float)
    found = {
        "gap": (gap[widest], gap_noise[widest]),
        "steps": mean_and_error(steps),
        "better": mean_and_error(ranked[LCO] - ranked[LOO]),
    }
    return {
        **{label: curve.mean(axis=0).tolist() for label, curve in curves.items()},
        "standard_error": {
            label: [finite(value) for value in mean_and_error(curve)[1]]
            for label, curve in curves.items()
        },
        "gap": gap.tolist(),
        "standard_error_of_the_gap": [finite(value) for value in gap_noise],
        "chosen": {name: ALPHAS[at].tolist() for name, at in chosen.items()},
        "test_at_chosen": {name: float(values.mean()) for name, values in ranked.items()},
        "found": {name: [float(a), finite(float(b))] for name, (a, b) in found.items()},
    }


def _claims(title: str, part: Mapping[str, Any]) -> list[Claim]:
    """Return the verdicts on one data set."""
    (gap, noise), (steps, step_noise), (better, better_noise) = part["found"].values()
    far = [np.abs(np.subtract(part[name], part[TEST])).mean() for name in (LOO, LCO)]
    at = part["test_at_chosen"]
    said = [
        (
            "Leave-one-out clearly overestimates the ranking performance (rule: somewhere by more "
            "than 0.1; paper: over 0.3)",
            told(gap - 0.1, noise),
            f"up to {gap:.2f} ± {noise:.2f} above leave-cluster-out{_below(part)}; mean distance "
            f"to the test groups {far[0]:.3f}, {far[1]:.3f}",
            part["why"],
        ),
        (
            "Leave-one-out prefers a smaller λ than leave-cluster-out (paper: 2⁻², 2⁴)",
            told(steps, step_noise),
            f"{steps:.1f} ± {step_noise:.1f} powers of two smaller",
            part["why"],
        ),
        (
            "The λ of leave-cluster-out ranks unseen groups better (paper: 0.38, 0.37)",
            told(better, better_noise),
            f"τ_b {at[LCO]:.3f} against {at[LOO]:.3f}, difference {better:+.3f} ± "
            f"{better_noise:.3f}",
            part["why"],
        ),
    ]
    kind: Literal["paper", "besides"] = "paper" if title == "stand-in" else "besides"
    return [Claim(*one, title, kind) for one in said]


def _below(part: Mapping[str, Any]) -> str:
    """Return where leave-one-out lies below leave-cluster-out by two standard errors."""
    gap, noise = np.array(part["gap"]), np.array(part["standard_error_of_the_gap"])
    below = np.flatnonzero(gap < -2.0 * noise)
    if not below.size:
        return ""
    first, last = (np.log2(ALPHAS[i]) for i in (below[0], below[-1]))
    where = f"{below.size} λ in 2^{first:.0f} … 2^{last:.0f}"
    return f", and below it by up to {-gap.min():.2f} at {where}"


def _compare(title: str, part: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    powers = {name: np.log2(values) for name, values in part["chosen"].items()}
    said = [f"2^{np.median(powers[name]):.0f}" for name in (LOO, LCO)]
    at = part["test_at_chosen"]
    return [
        (
            f"{title}: best λ, leave-one-out; leave-cluster-out (median of the draws)",
            "2⁻²; 2⁴",
            "; ".join(said),
        ),
        (f"{title}: largest difference", "over 0.3", f"{max(part['gap']):.2f}"),
        (f"{title}: test τ_b at these λ", "0.37; 0.38", f"{at[LOO]:.3f}; {at[LCO]:.3f}"),
    ]


# Title, data set, training groups of a draw (as many are tested on), kernel.
_REAL: tuple[tuple[str, str, int, Kernel], ...] = (
    ("public parse sample", "parse_rank_rlscore", 21, KERNEL),
    ("web queries", "lightgbm_rank", 100, KERNEL),
    ("voices of patients", "parkinsons", 21, RBF(0.05)),
)
_PAPER_DATA = "parses of 100 + 100 sentences, at most 20 each"
_SETTINGS = (
    ("model", "dense RLS without bias", "the same"),
    ("kernel", "Tsivtsivadze et al. (2005), on parses", "normalised linear on sparse features"),
    ("λ", "2⁻¹⁵ … 2¹⁴", "the same"),
    ("draws", "one", "averaged; other training and test groups in each"),
    ("measure", "Kendall τ_b, averaged over sentences", "the same; groups without order left out"),
)
_NOTES = (
    "The parse data of the paper are not public in full; the stand-in is generated, the public "
    "sample is a small part of the authors' later data, the web queries are another kind of "
    "ranking data altogether. The voices are recordings of 42 patients over half a year (UCI "
    "Parkinsons Telemonitoring): recordings of one patient are alike, and so are their scores; the "
    "kernel there is Gaussian on standardised columns, γ = 0.05.",
    "In a first version of the stand-in, wrong links had random types, as no parser proposes them; "
    "that made ranking far too easy (τ_b 0.74 on unseen sentences) and leave-one-out was only 0.07 "
    "too high. Wrong links now follow the grammar. The change was made after that first run.",
)
