"""Paper 004 §4, Figure 1: leave-one-out against leave-cluster-out on clustered ranking data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import LeaveOneGroupOut, LeaveOneOut

from holdfast import HoldOut, KernelRidgeCV
from holdfast.kernels import Linear
from reproduce._approaches import expected_warnings
from reproduce._figures import axes, curves
from reproduce._framework import Claim, Options, Outcome, Progress, experiment
from reproduce._grouped import GroupedTask
from reproduce._measure import powers_of_two
from reproduce._parses import make_parses
from reproduce._verdicts import finite, mean_and_error, told

Floats = NDArray[np.float64]

ALPHAS = powers_of_two(-15, 14)
KERNEL = Linear().normalised()
LOO, LCO, TEST = "leave-one-out", "leave-cluster-out", "independent test groups"


def draw(numbers: Mapping[str, Any]) -> Any:
    """Return Kendall's τ_b against log₂ λ."""
    figure, ax = axes(width=7.0, height=4.2)
    curves(
        ax[0, 0],
        numbers["log2_alpha"],
        {label: numbers[label] for label in (LOO, LCO, TEST)},
        xlabel="log₂ λ",
        ylabel="mean Kendall τ_b over groups",
        bands=numbers["standard_error"],
    )
    return figure


@experiment(
    "p004-fig1",
    paper="004 Figure 1",
    title="Ranking performance by leave-one-out and by leave-cluster-out",
    draw=draw,
    repetitions=5,
    paper_repetitions=1,
    caption="Rows of a group are alike, so leave-one-out promises far more than unseen groups "
    "give, and prefers a smaller λ. Shaded: two standard errors.",
)
def clusters(options: Options, progress: Progress) -> Outcome:
    """Return the ranking performance of the dense model by two kinds of CV and on test groups.

    Every repetition draws other training and test groups.
    """
    rng = np.random.default_rng([options.seed, 0])
    runs = []
    for repetition in range(options.repetitions):
        progress(repetition, options.repetitions, "sentences")
        sizes = {"n_train": 100, "n_test": 100, "train_size": 20, "test_size": 20}
        data = make_parses(seed=int(rng.integers(2**31)), **sizes)
        task = GroupedTask(data.train(), data.test())
        runs.append(performances(task))
    numbers = {"log2_alpha": np.log2(ALPHAS).tolist(), **_summed(runs)}
    settings = [*_SETTINGS, ("data", _PAPER_DATA, f"{task.describe()} (one of the draws)")]
    return Outcome(numbers, _claims(numbers), settings, _compare(numbers), _NOTES)


def performances(task: GroupedTask) -> dict[str, Floats]:
    """Return mean τ_b over groups for each penalty, by both kinds of CV and on the test groups.

    Notes
    -----
    The model of all training rows is one experiment, which holds out the test rows.
    """
    train, (both, test) = task.train, task.together()
    model, across = _model(LeaveOneGroupOut()), _model([HoldOut(test)])
    with expected_warnings():
        model.fit(train.X, train.y, groups=train.groups)
        across.fit(both.X, both.y, groups=both.groups)
    found = {LOO: model.held_out(LeaveOneOut()), LCO: model.held_out(), TEST: across.held_out()}
    return {name: held.score("kendall_tau") for name, held in found.items()}


def _model(cv: Any) -> KernelRidgeCV:
    return KernelRidgeCV(KERNEL, alphas=ALPHAS, fit_intercept=False, cv=cv, scoring="kendall_tau")


def _summed(runs: list[dict[str, Floats]]) -> dict[str, Any]:
    """Return what is kept of the runs: mean curves, and differences with their errors.

    As in the paper, each sample chooses λ by its own curve.
    """
    curves = {label: np.array([run[label] for run in runs]) for label in (LOO, LCO, TEST)}
    alone, together, test = curves[LOO], curves[LCO], curves[TEST]
    chosen = {name: curves[name].argmax(axis=1) for name in (LOO, LCO)}
    ranked = {name: np.take_along_axis(test, at[:, None], 1)[:, 0] for name, at in chosen.items()}
    gap, gap_noise = mean_and_error(alone - together)
    widest = int(gap.argmax())
    found = {
        "gap": (gap[widest], gap_noise[widest]),
        "steps": mean_and_error((chosen[LCO] - chosen[LOO]).astype(float)),
        "better": mean_and_error(ranked[LCO] - ranked[LOO]),
    }
    return {
        **{label: curve.mean(axis=0).tolist() for label, curve in curves.items()},
        "standard_error": {
            label: [finite(value) for value in mean_and_error(curve)[1]]
            for label, curve in curves.items()
        },
        "chosen": {name: ALPHAS[at].tolist() for name, at in chosen.items()},
        "test_at_chosen": {name: float(values.mean()) for name, values in ranked.items()},
        "found": {name: [float(a), finite(float(b))] for name, (a, b) in found.items()},
    }


def _claims(numbers: Mapping[str, Any]) -> list[Claim]:
    (gap, noise), (steps, step_noise), (better, better_noise) = numbers["found"].values()
    far = [np.abs(np.subtract(numbers[name], numbers[TEST])).mean() for name in (LOO, LCO)]
    at = numbers["test_at_chosen"]
    return [
        Claim(
            "Leave-one-out clearly overestimates the ranking performance (rule: somewhere by more "
            "than 0.1; paper: over 0.3)",
            told(gap - 0.1, noise),
            f"up to {gap:.2f} ± {noise:.2f} above leave-cluster-out; mean distance to the test "
            f"groups {far[0]:.3f}, {far[1]:.3f}",
        ),
        Claim(
            "Leave-one-out prefers a smaller λ than leave-cluster-out (paper: 2⁻², 2⁴)",
            told(steps, step_noise),
            f"{steps:.1f} ± {step_noise:.1f} powers of two smaller",
        ),
        Claim(
            "The λ of leave-cluster-out ranks unseen groups better (paper: 0.38, 0.37)",
            told(better, better_noise),
            f"τ_b {at[LCO]:.3f} against {at[LOO]:.3f}, difference {better:+.3f} ± "
            f"{better_noise:.3f}",
        ),
    ]


def _compare(numbers: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    best = [f"2^{np.median(np.log2(numbers['chosen'][name])):.0f}" for name in (LOO, LCO)]
    largest = np.subtract(numbers[LOO], numbers[LCO]).max()
    at = numbers["test_at_chosen"]
    return [
        (
            "best λ, leave-one-out; leave-cluster-out (median of the draws)",
            "2⁻²; 2⁴",
            "; ".join(best),
        ),
        ("largest difference", "over 0.3", f"{largest:.2f}"),
        ("test τ_b at these λ", "0.37; 0.38", f"{at[LOO]:.3f}; {at[LCO]:.3f}"),
    ]


_PAPER_DATA = "parses of 100 + 100 sentences, at most 20 each"
_SETTINGS = (
    ("model", "dense RLS without bias", "the same"),
    ("kernel", "Tsivtsivadze et al. (2005), on parses", "normalised linear on sparse features"),
    ("λ", "2⁻¹⁵ … 2¹⁴", "the same"),
    ("draws", "one", "averaged; other training and test groups in each"),
    ("measure", "Kendall τ_b, averaged over sentences", "the same; groups without order left out"),
)
_NOTES = (
    "The parse data of the paper are not public in full; the stand-in is generated.",
    "In a first version of the stand-in, wrong links had random types, as no parser proposes them; "
    "that made ranking far too easy (τ_b 0.74 on unseen sentences) and leave-one-out was only 0.07 "
    "too high. Wrong links now follow the grammar. The change was made after that first run.",
)
