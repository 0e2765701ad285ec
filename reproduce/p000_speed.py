"""Paper 000 §6.1, Table 1: time of training, leave-one-out and the choice of λ."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast import KernelRidgeCV
from holdfast.kernels import RBF
from reproduce._approaches import SHIFT, expected_warnings
from reproduce._baselines import cawley_talbot, cawley_talbot_printed
from reproduce._figures import axes, curves
from reproduce._framework import Claim, Options, Outcome, Progress, experiment
from reproduce._measure import Clock, one_core, powers_of_two
from reproduce._verdicts import between, slope_noise, times_between, weakest

Floats = NDArray[np.float64]

N_ROWS = 5000
SIZES = (500, 1000, 1500, 2000, 2500)
ALPHAS = powers_of_two(-10, 9)  # 20 candidates
ONE = ALPHAS[10:11]
GAMMA = 0.2
CT, NEW, PRINTED = "Cawley and Talbot", "all λ from one training", "Cawley and Talbot, as printed"
TICK = 1e-6  # seconds: less cannot be told from nothing
ALONE, KERNEL = "leave-one-out alone", "kernel columns"

# Table 1 of the paper, CPU seconds: its methods 1 and 2.
PAPER = {
    f"one λ, {CT}": (0.707, 2.482, 5.435, 9.625, 15.891),
    f"one λ, {NEW}": (1.287, 5.119, 11.813, 22.558, 38.589),
    ALONE: (0.007, 0.014, 0.022, 0.029, 0.036),
    f"20 λ, {CT}": (14.163, 49.652, 108.732, 192.529, 317.873),
    f"20 λ, {NEW}": (1.428, 5.402, 12.258, 23.139, 39.326),
}
OTHERS = (f"one λ, {PRINTED}", f"20 λ, {PRINTED}", KERNEL)


def draw(numbers: Mapping[str, Any]) -> Any:
    """Return times against the number of basis rows, and the two ratios beside the paper's."""
    figure, ax = axes(2, height=4.4)
    seconds = numbers["seconds"]
    curves(ax[0, 0], numbers["n"], seconds, xlabel="basis rows", ylabel="CPU seconds", log=True)
    ratios = {
        "one λ, here": numbers["ratio_one"],
        "one λ, here, printed formula": numbers["ratio_one_printed"],
        "one λ, paper": numbers["paper_ratio_one"],
        "20 λ, here": numbers["ratio_grid"],
        "20 λ, here, printed formula": numbers["ratio_grid_printed"],
        "20 λ, paper": numbers["paper_ratio_grid"],
    }
    label = f"{NEW} / {CT}"
    curves(ax[0, 1], numbers["n"], ratios, xlabel="basis rows", ylabel=label, log=True)
    for panel in ax[0]:  # six curves leave no room inside
        below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.16), "ncols": 2}
        panel.legend(frameon=False, fontsize="small", **below)
    return figure


def decide(numbers: Mapping[str, Any], repetitions: int) -> list[Claim]:
    """Return the verdicts, from the times of both methods without the kernel columns."""
    seconds, noise = numbers["without_kernel"], numbers["timing_noise"]
    alone = np.array(seconds[ALONE])
    share = float((alone / seconds[f"20 λ, {NEW}"]).max())
    whole = float(np.max(np.divide(seconds[f"20 λ, {NEW}"], seconds[f"one λ, {NEW}"])))
    again = np.divide(seconds[f"20 λ, {CT}"], seconds[f"one λ, {CT}"])
    slopes = [_slope(numbers["n"], seconds[f"one λ, {name}"]) for name in (CT, NEW)]
    power_noise = slope_noise(numbers["n"], noise)
    twice = np.array(numbers["ratio_one"])
    return [
        Claim(
            "Both methods scale quadratically in the number of basis rows",
            weakest(between(1.6, slope, 2.4, power_noise) for slope in slopes),
            f"time grows as n^{slopes[0]:.2f} ({CT}) and n^{slopes[1]:.2f} ({NEW}); rule: 1.6 to "
            "2.4",
        ),
        Claim(
            f"For one λ, “{NEW}” takes about twice as long as {CT}",
            weakest(times_between(1.5, ratio, 3.0, noise) for ratio in twice),
            f"n = 500 … 2,500: {_list(twice)} times (paper: {_list(numbers['paper_ratio_one'])}; "
            "rule: 1.5 to 3)",
            "for one λ the planner takes a shorter way than the paper's (one Cholesky "
            "factorisation, no eigendecomposition); against the formula as printed it is "
            f"{_list(numbers['ratio_one_printed'])} times as long.",
        ),
        Claim(
            "Leave-one-out takes negligible time once the caches are there",
            times_between(0.0, share, 0.05, noise),
            f"at most {100 * share:.1f} % of the time of the whole (rule: below 5 %)",
        ),
        Claim(
            f"“{NEW}”: choosing from 20 λ takes about as long as one leave-one-out run",
            times_between(0.0, whole, 2.0, noise),
            f"at most {whole:.2f} times as long (rule: below 2)",
            "for one λ the planner takes a shorter way, so one run is much cheaper than the "
            "paper's; the choice among 20 is not slower for it.",
        ),
        Claim(
            f"{CT}: choosing from 20 λ takes 20 times as long as one run",
            weakest(times_between(15.0, ratio, 25.0, noise) for ratio in again),
            f"{_list(again)} times (rule: 15 to 25)",
        ),
    ]


def _slope(n: Sequence[float], seconds: Sequence[float]) -> float:
    """Return the power of n that the time grows with."""
    return float(np.polyfit(np.log(n), np.log(seconds), 1)[0])


@experiment(
    "p000-table1",
    paper="000 Table 1",
    title="Time of leave-one-out and of choosing λ from 20 values",
    draw=draw,
    repetitions=3,
    caption="Left: choosing from 20 λ costs Cawley and Talbot's method 20 runs, and hardly more "
    "than one run if all λ share one training. Right: the ratios beside the paper's.",
)
def speed(options: Options, progress: Progress) -> Outcome:
    """Return the times of both methods on one core; `repetitions` is the number of timings."""
    rng = np.random.default_rng(options.seed)
    X = rng.standard_normal((N_ROWS, 5))
    y = np.sin(X).sum(axis=1) + rng.standard_normal(N_ROWS)
    seconds: dict[str, list[float]] = {line: [] for line in (*PAPER, *OTHERS)}
    clock = Clock(options.repetitions)
    with one_core(), expected_warnings():
        for step, n in enumerate(SIZES):
            progress(step, len(SIZES), f"{n} basis rows")
            basis = rng.choice(N_ROWS, size=n, replace=False)
            for line, job in _methods(X, y, basis).items():
                seconds[line].append(min(clock(job)[1]))
    numbers = {**_numbers(seconds), "timing_noise": clock.noise}
    claims = decide(numbers, options.repetitions)
    return Outcome(numbers, claims, _SETTINGS, _comparison(numbers), _NOTES)


def _methods(X: Floats, y: Floats, basis: NDArray[np.int64]) -> dict[str, Callable[[], Any]]:
    """Return what is timed."""
    kernel = RBF(GAMMA)
    # The paper's third line presupposes its caches, which are those of the spectral path.
    cached = _model(kernel, basis, ALPHAS, "spectral").fit(X, y)

    def baseline(alphas: Floats, method: Callable[..., Floats] = cawley_talbot) -> None:
        K_mB = kernel(X, X[basis])
        K_BB = K_mB[basis] + SHIFT * np.eye(basis.size)
        for alpha in alphas:
            method(K_mB, K_BB, y, float(alpha))

    return {
        KERNEL: lambda: kernel(X, X[basis]),
        f"one λ, {PRINTED}": lambda: baseline(ONE, cawley_talbot_printed),
        f"one λ, {CT}": lambda: baseline(ONE),
        f"one λ, {NEW}": lambda: _model(kernel, basis, ONE, "auto").fit(X, y),
        f"20 λ, {PRINTED}": lambda: baseline(ALPHAS, cawley_talbot_printed),
        f"20 λ, {CT}": lambda: baseline(ALPHAS),
        f"20 λ, {NEW}": lambda: _model(kernel, basis, ALPHAS, "auto").fit(X, y),
        ALONE: lambda: cached.held_out(alphas=ALPHAS[-1:]),
    }


def _model(kernel: RBF, basis: NDArray[np.int64], alphas: Floats, path: str) -> KernelRidgeCV:
    return KernelRidgeCV(
        kernel=kernel,
        basis=basis,
        alphas=alphas,
        held_out_basis="keep",
        jitter=SHIFT,
        fit_intercept=False,
        path=path,
    )


def _numbers(seconds: dict[str, list[float]]) -> dict[str, Any]:
    """Return times and their ratios; ratios are of times without the kernel columns."""
    columns = np.array(seconds[KERNEL])
    bare = {
        line: np.maximum(np.array(values) - (line != ALONE) * columns, TICK).tolist()
        for line, values in seconds.items()
        if line != KERNEL
    }

    def ratio(table: Mapping[str, Sequence[float]], what: str, other: str = CT) -> list[float]:
        return [float(v) for v in np.divide(table[f"{what}, {NEW}"], table[f"{what}, {other}"])]

    return {
        "n": list(SIZES),
        "seconds": seconds,
        "without_kernel": bare,
        "ratio_one": ratio(bare, "one λ"),
        "ratio_one_printed": ratio(bare, "one λ", PRINTED),
        "ratio_grid": ratio(bare, "20 λ"),
        "ratio_grid_printed": ratio(bare, "20 λ", PRINTED),
        "paper_ratio_one": ratio(PAPER, "one λ"),
        "paper_ratio_grid": ratio(PAPER, "20 λ"),
    }


def _comparison(numbers: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    rows = []
    for line in (*PAPER, *OTHERS):
        paper = _list(PAPER[line]) if line in PAPER else "–"
        rows.append((f"{line}, CPU s", paper, _list(numbers["seconds"][line])))
    for what, label in (("one", "one λ"), ("grid", "20 λ")):
        paper_ratio = _list(numbers[f"paper_ratio_{what}"])
        for end, other in (("", CT), ("_printed", PRINTED)):
            ours = _list(numbers[f"ratio_{what}{end}"])
            rows.append((f"{label}, {NEW} / {other}", paper_ratio, ours))
    return rows


def _list(values: Any) -> str:
    return ", ".join(f"{value:.3g}" for value in values)


_SETTINGS = [
    ("rows, basis rows", "5,000; 500, 1,000, 1,500, 2,000, 2,500", "the same"),
    ("data", "artificial, not described", "5 Gaussian features, sum of sines plus noise"),
    ("kernel", "not printed", f"Gaussian, γ = {GAMMA}"),
    ("λ", "20 values, not printed", "2⁻¹⁰ … 2⁹"),
    (CT, "its method 1: once per λ, NumPy", "two ways: see below"),
    (NEW, "its method 2: Proposition 1, NumPy", 'KernelRidgeCV, held_out_basis="keep", auto'),
    ("what is timed", "training and leave-one-out", "the same with the kernel columns"),
    ("ratios", "without the kernel, as 20 λ take 20 times as long", "without the kernel columns"),
    ("time", "CPU time, one core of an AMD Phenom II X6 1090T", "CPU time, one core"),
]

_NOTES = (
    "The paper does not say how it programmed the method of Cawley and Talbot. “As printed” forms "
    "C⁻¹ and Z C⁻¹, as they write it; the other line replaces them by a Cholesky factor and a "
    "triangular solve and needs about half the arithmetic, so ratios to it are taken to another "
    "yardstick than the paper's.",
    "Seconds of 2012 and of today cannot be compared; ratios can. In each table cell the numbers "
    "are for 500, 1,000, 1,500, 2,000 and 2,500 basis rows. Of several timings the shortest "
    "counts.",
    "holdfast whitens the features first, which keeps it accurate, and its times include what an "
    "estimator does besides: checks of the input, scores for every λ, the choice of λ and the "
    "final coefficients.",
)
