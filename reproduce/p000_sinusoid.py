"""Paper 000 §6.3.1, Figures 5 and 6: a noisy sinusoid, new data in every repetition."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast import KernelRidgeCV
from holdfast.basis import Random, Selector
from reproduce._approaches import (
    SHIFT,
    cv_mse,
    expected_warnings,
    log2_labels,
    moments,
    standard_errors,
    three_approaches,
)
from reproduce._figures import COLOURS, axes, mean_and_variance, shared_legend
from reproduce._framework import Claim, Options, Outcome, Progress, experiment, repeated
from reproduce._measure import powers_of_two
from reproduce._verdicts import BAND, between, clearly_less, finite, mean_and_error, told, weakest
from reproduce.datasets import make_sinusoid
from reproduce.p000_variance import MATTERS, draw_ratios, ratio_text, ratios_of

Floats = NDArray[np.float64]

ALPHAS = powers_of_two(-5, 14)
AROUND = (ALPHAS >= 2.0**3) & (ALPHAS <= 2.0**7)  # around 2⁵
SEEN = 0.01  # overfitting by this share of the lowest error is easily observed
N_BASIS = 270
GAMMA = 1.0  # our reading
TESTED = 3000 / 2730  # rows tested by approaches 1 and 3, over those of approach 2
PRELIMINARY_SEED = 2**20  # its data are used for nothing else


def preliminary() -> float:
    """Return the penalty with the lowest leave-one-out error on a separate sample.

    Notes
    -----
    The paper speaks of "a preliminary experiment". This is ours, on data that no figure uses.
    """
    data = make_sinusoid(seed=PRELIMINARY_SEED)
    errors = cv_mse(
        data.X, data.y, ALPHAS, gamma=GAMMA, basis=N_BASIS, jitter=SHIFT, random_state=0
    )
    return float(ALPHAS[errors.argmin()])


def settings(n_basis: str) -> list[tuple[str, str, str]]:
    """Return the settings that Figures 5, 6 and 7 share."""
    return [
        (
            "data",
            "sinusoid + N(0, 2²), 3,000 x uniform on [−20, 20]",
            "the same, y = sin x + noise",
        ),
        ("amplitude and period", "not printed", "1 and 2π"),
        ("kernel", "Gaussian, γ not printed", "Gaussian, γ = 1"),
        ("λ", "range not printed; the best, 2⁵, is “in the middle”", "2⁻⁵ … 2¹⁴"),
        ("basis rows", n_basis, "the same"),
        ("shift of the diagonal", "10⁻⁷ on all of K (§6.2)", "10⁻⁷ on K_BB"),
    ]


UNIT_NOTE = (
    "The paper does not print γ. γ = 1 is the plainest reading (Tanaka and Imai 2019, §6, use it "
    "for such data), and it fits what the paper tells: the best λ lies near 2⁵ and small λ overfit "
    "visibly."
)


def draw_example(numbers: Mapping[str, Any]) -> Any:
    """Return the sample, its basis rows, the target function and the learned one."""
    figure, ax = axes(width=8.0, height=4.0)
    sample, grid = numbers["sample"], numbers["grid"]
    inside = np.array(sample["basis"], dtype=bool)
    x, y = np.array(sample["x"]), np.array(sample["y"])
    ax = ax[0, 0]
    ax.plot(x[~inside], y[~inside], "o", mfc="none", mec="0.75", ms=3, label="data")
    ax.plot(x[inside], y[inside], "o", color="0.35", ms=3, label="basis rows")
    ax.plot(grid["x"], grid["target"], "--", color=COLOURS[1], label="target function")
    ax.plot(grid["x"], grid["learned"], "-", color=COLOURS[0], label="learned function")
    ax.set(xlabel="x", ylabel="y")
    ax.legend(frameon=False, fontsize="small", ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1))
    return figure


@experiment(
    "p000-fig5",
    paper="000 Figure 5",
    title="The sinusoid: a sample and a learned function",
    draw=draw_example,
    caption="The noise is far larger than the sinusoid, and still the learned function follows it.",
)
def example(options: Options, progress: Progress) -> Outcome:
    """Return one sample with 300 basis rows and the function learned from it."""
    progress(0, 1, "fit")
    data = make_sinusoid(seed=options.seed)
    model = KernelRidgeCV(
        alphas=ALPHAS,
        gamma=GAMMA,
        basis=300,
        jitter=SHIFT,
        fit_intercept=False,
        random_state=options.seed,
    )
    with expected_warnings():
        model.fit(data.X, data.y)
    x = np.linspace(-20.0, 20.0, 401)
    target, learned = np.sin(x), model.predict(x[:, None])
    inside = np.zeros(len(data), dtype=bool)
    inside[model.basis_indices_] = True
    error = float(np.sqrt(np.mean((learned - target) ** 2)))
    numbers = {
        "alpha": float(model.alpha_),
        "rmse_to_target_function": error,
        "sample": {
            "x": data.X[:, 0].round(4).tolist(),
            "y": data.y.round(4).tolist(),
            "basis": inside.tolist(),
        },
        "grid": {"x": x.tolist(), "target": target.tolist(), "learned": learned.tolist()},
    }
    claim = Claim(
        "The learned function follows the target function, not the noise",
        error < 0.5,
        f"root mean square distance {error:.3f} (rule: below 0.5; the noise is 2, the sine 0.71)",
    )
    return Outcome(numbers, [claim], settings("300"), notes=[UNIT_NOTE])


def draw_curves(numbers: Mapping[str, Any]) -> Any:
    """Return mean, variance and ratios of variances against log₂ λ."""
    figure, ax = axes(3, width=4.4)
    mean_and_variance(ax[0], numbers, numbers["log2_alpha"])
    draw_ratios(ax[0, 2], numbers["log2_alpha"], numbers["variance_ratios"])
    shared_legend(figure, ax)
    return figure


def decide(numbers: Mapping[str, Any], repetitions: int) -> list[Claim]:
    """Return the verdicts, from differences within repetitions and ratios of variances."""
    lowest = np.array(numbers["mean"]).min(axis=1, keepdims=True)
    ends = np.array(numbers["ends"]) / lowest  # (3, 2), relative to the lowest error
    noise = np.array(numbers["standard_error_of_ends"]) / lowest
    elsewhere, error = numbers["elsewhere"], numbers["standard_error_of_elsewhere"]
    ratios = numbers["variance_ratios"]
    best = ", ".join(f"2^{value:.0f}" for value in numbers["best_log2_alpha"])
    return [
        *(
            Claim(
                text,
                weakest(map(told, ends[:, end] - SEEN, noise[:, end])),
                f"error at {at} above the lowest, by approach: "
                + ", ".join(f"{100 * value:.2g} %" for value in ends[:, end])
                + f"; standard error at most {100 * float(noise[:, end].max()):.2g} % (rule: above "
                f"{100 * SEEN:.0f} %)",
                "with this width small λ hardly overfit, however many the repetitions.",
            )
            for end, text, at in (
                (0, "Small λ overfit, which one can easily observe", "2⁻⁵"),
                (1, "Large λ underfit", "2¹⁴"),
            )
        ),
        Claim(
            "The best λ is around 2⁵",
            weakest(map(told, elsewhere, error)),
            f"best at {best}; outside 2³ … 2⁷ the error is higher by "
            + ", ".join(f"{a:.2g} ± {b:.1g}" for a, b in zip(elsewhere, error, strict=True)),
            "the best λ depends on the kernel width, which the paper does not print.",
        ),
        _not_always_smaller(ratios["3 to 1"]),
        Claim(
            "The variance is largest if the basis never changes (approach 2)",
            weakest(
                told(ratios[pair]["mean"], ratios[pair]["standard_error"])
                for pair in ("2 to 1", "2 to 3")
            ),
            "; ".join(ratio_text(ratios[pair]) for pair in ("2 to 1", "2 to 3")),
        ),
        _fewer_rows(ratios["2 to 1"]),
    ]


def _not_always_smaller(ratio: Mapping[str, Any]) -> Claim:
    """Return the verdict on approach 3 not having the smaller variance for all λ.

    It need not be larger anywhere: the statement fails only if it is smaller everywhere.
    """
    logs, noise = np.array(ratio["by_lambda"]), np.array(ratio["standard_error_by_lambda"])
    smaller = [clearly_less(log, error, MATTERS) for log, error in zip(logs, noise, strict=True)]
    return Claim(
        "A new basis in each round (approach 3) does not lower the variance for all λ",
        True if False in smaller else None if None in smaller else False,
        f"ratio 3 to 1 from {np.exp(logs.min()):.3f} to {np.exp(logs.max()):.3f}, known to a "
        f"factor {np.exp(BAND * noise.max()):.2g} or better; lower at {smaller.count(True)} of "
        f"{len(smaller)} λ by more than two standard errors, and certainly not lower by "
        f"{100 * MATTERS:.0f} % at {smaller.count(False)} others",
    )


def _fewer_rows(ratio: Mapping[str, Any]) -> Claim:
    """Return the verdict on why approach 2 varies more: a tenth of the rows is never tested."""
    half = float(np.sqrt(TESTED))
    return Claim(
        "The larger variance of approach 2 is that of testing a tenth fewer rows",
        between(np.log(half), ratio["mean"], np.log(TESTED * half), ratio["standard_error"]),
        f"{ratio_text(ratio)}; 3,000 rows tested over 2,730 is {TESTED:.3f} (rule: nearer to that "
        f"than to 1, {half:.3f} to {TESTED * half:.3f})",
    )


@experiment(
    "p000-fig6",
    paper="000 Figure 6",
    title="Mean and variance of ten-fold CV, sinusoid, 270 basis rows",
    draw=draw_curves,
    repetitions=1000,
    paper_repetitions=1000,
    caption="Left: the three estimates have the same mean, lowest near λ = 2⁴. Right: a new basis "
    "in each round (3) does not lower the variance here; a basis that is never tested (2) raises "
    "it, by about the tenth of the rows that it does not test. Shaded: two standard errors.",
)
def sinusoid(options: Options, progress: Progress) -> Outcome:
    """Return mean and variance over repetitions with γ = 1."""
    work = partial(one_repetition, (N_BASIS,), Random)
    errors = repeated(work, options, progress, "sinusoid")[:, 0]
    mean, variance = moments(errors)
    at_best = np.take_along_axis(errors, mean.argmin(axis=1)[None, :, None], axis=2)
    ends, noise = mean_and_error(errors[:, :, [0, -1]] - at_best)
    elsewhere, error = mean_and_error(_best(errors, ~AROUND) - _best(errors, AROUND))
    numbers = {
        "log2_alpha": log2_labels(ALPHAS),
        "mean": mean.tolist(),
        "variance": variance.tolist(),
        "standard_error": standard_errors(errors),
        "best_log2_alpha": [float(np.log2(ALPHAS[i])) for i in mean.argmin(axis=1)],
        "ends": ends.tolist(),
        "standard_error_of_ends": [[finite(value) for value in row] for row in noise],
        "elsewhere": elsewhere.tolist(),
        "standard_error_of_elsewhere": [finite(value) for value in error],
        "variance_ratios": ratios_of(errors, ((3, 1), (2, 1), (2, 3))),
    }
    best = ", ".join(f"2^{value:.0f}" for value in numbers["best_log2_alpha"])
    return Outcome(
        numbers,
        decide(numbers, options.repetitions),
        settings("300, 270 left (approach 1); 270 (2 and 3)"),
        [("best λ", "around 2⁵", f"{best} (approaches 1, 2, 3)")],
        [UNIT_NOTE],
    )


def one_repetition(
    sizes: Sequence[int], selector: Callable[[int], Selector], seed: list[int]
) -> Floats:
    """Return the errors of the three approaches on one sample, (sizes, 3, alphas)."""
    rng = np.random.default_rng(seed)
    data = make_sinusoid(seed=rng)
    errors = [three_approaches(data.X, data.y, GAMMA, n, ALPHAS, selector, rng) for n in sizes]
    return np.array(errors)


def _best(errors: Floats, where: NDArray[np.bool_]) -> Floats:
    """Return the errors (repetitions, 3) at the best of these λ, the same in all repetitions."""
    some = errors[:, :, where]
    best = some.mean(axis=0).argmin(axis=1)
    return np.take_along_axis(some, best[None, :, None], axis=2)[:, :, 0]
