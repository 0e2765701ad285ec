"""What the papers say of costs: 000 Corollaries 3–5, 001, 002 and 004, measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import KFold

from holdfast import HoldOut, KernelRidgeCV
from holdfast.kernels import RBF
from reproduce._approaches import SHIFT, expected_warnings
from reproduce._baselines import cawley_talbot
from reproduce._figures import axes, curves
from reproduce._framework import Claim, Options, Outcome, Progress, experiment
from reproduce._measure import Clock, one_core
from reproduce._verdicts import slope_noise, times_between, told

Floats = NDArray[np.float64]

N_ROWS, N_BASIS, N_DENSE = 8000, 400, 1500
FOLDS = (4, 8, 20, 80, 400, 8000)
DENSE_FOLDS = (3, 5, 15, 50, 300, 1500)
SIZES = (100, 200, 400, 800)
COUNTS = (1, 4, 16, 64, 256)
HELD = (25, 50, 100, 200, 400, 800, 1600, 3200)
ROWS = (1000, 2000, 4000, 8000)
DENSE_OUTPUTS = (1, 4, 16, 64)
GAMMA = 0.2

#: Panels of the figure: what varies, and its label.
PANELS = {
    "folds": "folds",
    "dense folds": "folds, dense model",
    "one hold-out": "rows of one hold-out",
    "basis rows": "basis rows, leave-one-out",
    "penalties": "penalties, leave-one-out",
    "outputs": "outputs, leave-one-out",
    "outputs trained": "outputs, training",
    "dense outputs": "outputs, dense model",
    "rows, Cawley and Talbot": "rows, Cawley and Talbot",
}


def draw(numbers: Mapping[str, Any]) -> Any:
    """Return a panel for everything that varies."""
    shown = [key for key in PANELS if key in numbers]
    figure, ax = axes(3, -(-len(shown) // 3), width=4.4)
    for panel in ax.flat[len(shown) :]:
        panel.set_axis_off()
    for panel, key in zip(ax.flat, shown, strict=False):
        part = numbers[key]
        lines = {name: part[name] for name in part if name != "x"}
        curves(panel, part["x"], lines, xlabel=PANELS[key], ylabel="CPU seconds", log=True)
        panel.set_xscale("log")
        panel.set_xticks(part["x"], labels=[str(x) for x in part["x"]], fontsize="small")
        panel.xaxis.minorticks_off()
    return figure


def decide(numbers: Mapping[str, Any], repetitions: int) -> list[Claim]:
    """Return the verdicts, from least CPU seconds."""
    return [*_fold_claims(numbers), *_growth_claims(numbers), *_share_claims(numbers)]


@experiment(
    "p000-corollaries",
    paper="000 Corollaries 3–5, 001, 002, 004",
    title="Cost of cross-validation: folds, rows held out, basis rows, penalties, outputs",
    draw=draw,
    repetitions=10,
    caption="Cross-validation of a trained model never costs much more than training it; the fewer "
    "rows are held out at a time, the cheaper it is.",
)
def costs(options: Options, progress: Progress) -> Outcome:
    """Return CPU seconds on one core; `repetitions` is the number of timings, the least counts."""
    rng = np.random.default_rng(options.seed)
    X = rng.standard_normal((N_ROWS, 5))
    Y = np.sin(X).sum(axis=1, keepdims=True) + rng.standard_normal((N_ROWS, max(COUNTS)))
    clock = Clock(options.repetitions)
    with one_core(), expected_warnings():
        progress(0, 3, "sparse")
        numbers = _sparse_times(X, Y, clock)
        progress(1, 3, "dense")
        numbers |= _dense_times(X[:N_DENSE], Y[:N_DENSE], clock)
        progress(2, 3, "Cawley and Talbot")
        numbers |= _printed_times(X, Y[:, 0], clock)
    numbers["timing_noise"] = clock.noise
    claims = decide(numbers, options.repetitions)
    return Outcome(numbers, claims, _SETTINGS, _table(numbers), _NOTES)


def _sparse_times(X: Floats, Y: Floats, clock: Clock) -> dict[str, Any]:
    """Return times of a model on basis rows that stay when they are held out."""
    y, least = Y[:, 0], clock.least
    model = _sparse(N_BASIS, "auto").fit(X, y)
    spectral = _sparse(N_BASIS).fit(X, y)
    training = least(partial(_train, X, y, N_BASIS))
    alone, trained = [], []
    for n in SIZES:
        other = _sparse(n).fit(X, y)
        alone.append(least(partial(other.held_out, alphas=[1.0])))  # not what `fit` has kept
        trained.append(least(partial(_train, X, y, n)))
    outputs = []
    for v in COUNTS:
        several = _sparse(N_BASIS).fit(X, Y[:, :v])
        outputs.append(least(partial(several.held_out, alphas=[1.0])))
    grids = [np.logspace(-3, 2, c) for c in COUNTS]
    return {
        "training": training,
        "folds": {
            "x": list(FOLDS),
            "cross-validation": [least(partial(model.held_out, _split(n, N_ROWS))) for n in FOLDS],
            "training": [training] * len(FOLDS),
        },
        "one hold-out": {
            "x": list(HELD),
            "one hold-out": [
                least(partial(spectral.held_out, [HoldOut(np.arange(h))], alphas=[1.0]))
                for h in HELD
            ],
        },
        "basis rows": {"x": list(SIZES), "leave-one-out": alone, "training": trained},
        "penalties": {
            "x": list(COUNTS),
            "leave-one-out": [least(partial(spectral.held_out, alphas=grid)) for grid in grids],
        },
        "outputs": {"x": list(COUNTS), "leave-one-out": outputs},
        "outputs trained": {
            "x": list(COUNTS),
            "training": [least(partial(_train, X, Y[:, :v], N_BASIS)) for v in COUNTS],
        },
    }


def _dense_times(X: Floats, Y: Floats, clock: Clock) -> dict[str, Any]:
    """Return times of the dense model."""
    dense = KernelRidgeCV(RBF(GAMMA), alphas=[1.0], fit_intercept=False, path="spectral")
    dense.fit(X, Y[:, 0])
    folds = [clock.least(partial(dense.held_out, _split(n, N_DENSE))) for n in DENSE_FOLDS]
    outputs = [clock.least(partial(clone(dense).fit, X, Y[:, :v])) for v in DENSE_OUTPUTS]
    return {
        "dense folds": {"x": list(DENSE_FOLDS), "cross-validation": folds},
        "dense outputs": {"x": list(DENSE_OUTPUTS), "training and leave-one-out": outputs},
    }


def _printed_times(X: Floats, y: Floats, clock: Clock) -> dict[str, Any]:
    """Return times of Cawley and Talbot's leave-one-out, without the kernel columns."""
    K = RBF(GAMMA)(X, X[:N_BASIS])
    K_BB = K[:N_BASIS] + SHIFT * np.eye(N_BASIS)
    times = [clock.least(partial(cawley_talbot, K[:m], K_BB, y[:m], 1.0)) for m in ROWS]
    return {"rows, Cawley and Talbot": {"x": list(ROWS), "leave-one-out": times}}


def _split(n_folds: int, m: int) -> KFold | None:
    """Return the folds; None is leave-one-out, as in the constructor."""
    return None if n_folds == m else KFold(n_folds)


def _sparse(n: int, path: str = "spectral") -> KernelRidgeCV:
    return KernelRidgeCV(
        RBF(GAMMA),
        alphas=[1.0],
        basis=np.arange(n),
        held_out_basis="keep",
        jitter=SHIFT,
        fit_intercept=False,
        path=path,
    )


def _train(X: Floats, y: Floats, n: int) -> Floats:
    """Train by the normal equations, as plainly as it can be done (000 (12))."""
    K = RBF(GAMMA)(X, X[:n])
    A = K.T @ K + (K[:n] + SHIFT * np.eye(n))
    return np.asarray(np.linalg.solve(A, K.T @ y))


def _power(x: Sequence[float], seconds: Sequence[float]) -> float:
    """Return the power of x that the time grows with."""
    return float(np.polyfit(np.log(x), np.log(seconds), 1)[0])


def _fold_claims(numbers: Mapping[str, Any]) -> list[Claim]:
    """Return the verdicts on folds."""
    training, folds = numbers["training"], np.array(numbers["folds"]["cross-validation"])
    dense, noise = np.array(numbers["dense folds"]["cross-validation"]), numbers["timing_noise"]
    names = numbers["folds"]["x"]
    return [
        Claim(
            "N-fold CV takes at most about the time of training once (000 Corollary 3)",
            times_between(0.0, float(folds.max()) / training, 2.0, noise),
            f"{folds.max() / training:.2f} times at most, for {names[0]} … {names[-1]} folds "
            "(rule: below 2)",
        ),
        Claim(
            "The smaller the hold-out sets, the cheaper: leave-one-out most of all (000 §5)",
            times_between(0.0, float(folds[-1] / folds[:-1].min()), 1.0, noise),
            f"{folds[-1] / training:.2g} times training; folds of other sizes "
            f"{folds[:-1].min() / training:.2g} to {folds.max() / training:.2g}",
        ),
        Claim(
            "Dense models: the more folds, the faster (004 §3)",
            _falls(dense, noise),
            f"{numbers['dense folds']['x'][0]} … {numbers['dense folds']['x'][-1]} folds: "
            + ", ".join(f"{1e3 * value:.3g}" for value in dense)
            + " ms",
        ),
    ]


def _growth_claims(numbers: Mapping[str, Any]) -> list[Claim]:
    """Return the verdicts on how times grow."""
    claims = []
    for key, line, part, most, text in _GROWTH:
        x, seconds = np.array(numbers[key]["x"]), np.array(numbers[key][line])
        some = part(x)
        power = _power(x[some], seconds[some])
        noise = slope_noise(x[some].tolist(), numbers["timing_noise"])
        claims.append(
            Claim(
                text,
                told(most + SLACK - power, noise),
                f"as the power {power:.2f} from {x[some][0]} to {x[some][-1]} (rule: below "
                f"{most + SLACK:g})",
                "the powers are of seconds, which hold more than the operations that are counted.",
            )
        )
    return claims


def _share_claims(numbers: Mapping[str, Any]) -> list[Claim]:
    """Return the verdicts on penalties and outputs beside training."""
    training, noise = numbers["training"], numbers["timing_noise"]
    most = numbers["penalties"]["x"][-1]
    operations = 2 * most / N_BASIS  # 2cmn multiplications against mn²
    penalties = numbers["penalties"]["leave-one-out"][-1] / training
    outputs = numbers["outputs"]["leave-one-out"][-1] / training
    trained, dense = numbers["outputs trained"], numbers["dense outputs"]
    more = trained["training"][-1] / trained["training"][0]
    dense_times = dense["training and leave-one-out"]
    return [
        Claim(
            "Leave-one-out for n penalties costs no more than training (000 Corollary 4)",
            operations < 2.0,
            f"{most} penalties, {N_BASIS} basis rows: 2cmn multiplications are {operations:.2f} "
            f"times mn² (rule: below 2); in seconds {penalties:.2f} times, as every prediction is "
            "also written and scored",
        ),
        Claim(
            "Leave-one-out for n outputs costs no more than training (000 Corollary 5)",
            times_between(0.0, outputs, 2.0, noise),
            f"{numbers['outputs']['x'][-1]} outputs: {outputs:.2f} times training one output with "
            f"{N_BASIS} basis rows (rule: below 2)",
        ),
        Claim(
            "Training v outputs takes O(mn(n + v)): they do not dominate while v < n (000 §5)",
            times_between(0.0, more, 2.0, noise),
            f"{trained['x'][-1]} outputs take {more:.2f} times as long as one (rule: below 2)",
        ),
        Claim(
            "A dense model is trained for several outputs at about the cost of one (004 §2)",
            times_between(0.0, dense_times[-1] / dense_times[0], 2.0, noise),
            f"{dense['x'][-1]} outputs take {dense_times[-1] / dense_times[0]:.2f} times as long "
            "as one, leave-one-out included (rule: below 2)",
        ),
    ]


def _falls(seconds: Floats, noise: float) -> bool | None:
    """Return whether times fall: no step goes up, as far as can be told, and all steps go down."""
    steps = [times_between(0.0, float(b / a), 1.0, noise) for a, b in pairwise(seconds)]
    if False in steps:
        return False
    return times_between(0.0, float(seconds[-1] / seconds[0]), 1.0, noise)


def _table(numbers: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    rows = [("training, CPU s", "O(mn²)", f"{numbers['training']:.3f}")]
    for key, cost in _COSTS.items():
        part = numbers[key]
        line = next(name for name in part if name != "x")
        cells = ", ".join(f"{x}: {s:.3g}" for x, s in zip(part["x"], part[line], strict=True))
        rows.append((f"{PANELS[key]}, CPU s", cost, cells))
    return rows


def _upper(x: NDArray[Any]) -> NDArray[np.bool_]:
    """Return the upper half of a range: below, calls and checks take the time."""
    return np.arange(x.size) >= x.size // 2


def _small_sets(x: NDArray[Any]) -> NDArray[np.bool_]:
    return np.asarray(x <= N_BASIS)


def _large_sets(x: NDArray[Any]) -> NDArray[np.bool_]:
    return np.asarray(x >= N_BASIS)


SLACK = 0.3  # a power of seconds may be so much above that of operations
_LOO = "leave-one-out"
# What varies, which times, over which part of the range, the power stated, and the statement.
_GROWTH: tuple[tuple[str, str, Callable[..., NDArray[np.bool_]], float, str], ...] = (
    (
        "one hold-out",
        "one hold-out",
        _small_sets,
        2.0,
        "One hold-out of |H| < n rows takes O(|H|²n) once the model is trained (000 §5, 001)",
    ),
    (
        "one hold-out",
        "one hold-out",
        _large_sets,
        1.0,
        "One hold-out of |H| > n rows takes O(|H|n²) once the model is trained (000 §5)",
    ),
    (
        "basis rows",
        _LOO,
        _upper,
        1.0,
        "Leave-one-out grows at most linearly in the number of basis rows (000 Corollary 3, 001)",
    ),
    (
        "penalties",
        _LOO,
        _upper,
        1.0,
        "Leave-one-out grows at most linearly in the number of penalties (000 Corollary 4)",
    ),
    (
        "outputs",
        _LOO,
        _upper,
        1.0,
        "Leave-one-out grows at most linearly in the number of outputs (000 Corollary 5)",
    ),
    (
        "rows, Cawley and Talbot",
        _LOO,
        _upper,
        1.0,
        "Exact leave-one-out of ℓ rows takes O(ℓn²), linear in ℓ (002 §2.6)",
    ),
)
_COSTS = {
    "folds": "O(min(m|H|n, mn²))",
    "dense folds": "O(m|H|²) beyond training",
    "one hold-out": "O(min(|H|²n, |H|n²)); 2009: O(|H|³ + |H|²n)",
    "basis rows": "O(mn)",
    "penalties": "O(cmn)",
    "outputs": "O(vmn)",
    "outputs trained": "O(mn(n + v))",
    "dense outputs": "O(m³ + vm²)",
    "rows, Cawley and Talbot": "O(ℓn²)",
}
_SETTINGS = [
    ("sparse", "any", f"{N_ROWS:,} rows, {N_BASIS} basis rows that stay, one penalty"),
    ("dense", "any", f"{N_DENSE:,} rows"),
    ("training", "normal equations (000 (12))", "the same, in NumPy, kernel columns included"),
    ("hold-out", "after training", "held_out() of a fitted model, checks and results included"),
    ("time", "operations are counted", "CPU seconds, one core, the least of several"),
]
_NOTES = (
    "The papers count operations; seconds also hold what does not grow: checks, plans, calls. "
    "Powers are therefore taken over the upper half of each range, with some slack.",
    "Pahikkala et al. 2009 give O(m³/N² + m²n/N) for N folds, which is N times the cost of one "
    "hold-out of m/N rows by their formula; 2012 improve it to O(min(m²n/N, mn²)).",
)
