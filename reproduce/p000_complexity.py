"""What the papers say of costs: 000 Corollaries 3–5, 001, and 004, measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import KFold

from holdfast import Experiments, KernelRidgeCV
from holdfast.experiments import as_experiments
from holdfast.kernels import RBF
from holdfast.progress import Progress
from reproduce._approaches import SHIFT, expected_warnings
from reproduce._figures import axes, curves
from reproduce._framework import Claim, Options, Outcome, experiment
from reproduce._measure import one_core, timed
from reproduce._verdicts import times_between

Floats = NDArray[np.float64]

N_ROWS, N_BASIS, N_DENSE = 8000, 400, 1500
FOLDS = (4, 8, 20, 80, 400, 8000)
DENSE_FOLDS = (3, 5, 15, 50, 300, 1500)
SIZES = (100, 200, 400, 800)
COUNTS = (1, 4, 16, 64, 256)
GAMMA = 0.2


def draw(numbers: Mapping[str, Any]) -> Any:
    """Return five panels: folds, folds of a dense model, basis rows, penalties, outputs."""
    figure, ax = axes(3, 2, width=4.4)
    ax[1, 2].set_axis_off()
    for panel, (key, label) in zip(
        ax.flat[:5],
        (
            ("folds", "folds"),
            ("dense folds", "folds, dense model"),
            ("basis rows", "basis rows, leave-one-out"),
            ("penalties", "penalties, leave-one-out"),
            ("outputs", "outputs, leave-one-out"),
        ),
        strict=True,
    ):
        part = numbers[key]
        lines = {name: part[name] for name in part if name != "x"}
        curves(panel, part["x"], lines, xlabel=label, ylabel="CPU seconds", log=True)
        panel.set_xscale("log")
        panel.set_xticks(part["x"], labels=[str(x) for x in part["x"]])
        panel.xaxis.minorticks_off()
    return figure


@experiment(
    "p000-corollaries",
    paper="000 Corollaries 3–5, 001, 004",
    title="Cost of cross-validation against folds, basis rows, penalties and outputs",
    draw=draw,
    repetitions=10,
)
def costs(options: Options, progress: Progress) -> Outcome:
    """Return CPU seconds on one core; `repetitions` is the number of timings, the least counts."""
    rng = np.random.default_rng(options.seed)
    X = rng.standard_normal((N_ROWS, 5))
    Y = np.sin(X).sum(axis=1, keepdims=True) + rng.standard_normal((N_ROWS, max(COUNTS)))
    clock = _Clock(options.repetitions)
    with one_core(), expected_warnings():
        progress(0, 5, "folds")
        model = _sparse(N_BASIS, [1.0]).fit(X, Y[:, 0])
        training = clock(partial(_train, X, Y[:, 0], N_BASIS))
        folds = [clock(partial(model.held_out, _split(n, N_ROWS))) for n in FOLDS]
        progress(1, 5, "basis rows")
        alone, trained = [], []
        for n in SIZES:
            other = _sparse(n, [1.0], "spectral").fit(X, Y[:, 0])
            alone.append(clock(partial(other.held_out, alphas=[1.0])))  # not what `fit` has kept
            trained.append(clock(partial(_train, X, Y[:, 0], n)))
        progress(2, 5, "penalties")
        grids = [np.logspace(-3, 2, c) for c in COUNTS]
        spectral = _sparse(N_BASIS, [1.0], "spectral").fit(X, Y[:, 0])
        penalties = [clock(partial(spectral.held_out, alphas=grid)) for grid in grids]
        progress(3, 5, "outputs")
        outputs = []
        for v in COUNTS:
            several = _sparse(N_BASIS, [1.0], "spectral").fit(X, Y[:, :v])
            outputs.append(clock(partial(several.held_out, alphas=[1.0])))
        progress(4, 5, "dense")
        dense = KernelRidgeCV(RBF(GAMMA), alphas=[1.0], fit_intercept=False, path="spectral")
        dense.fit(X[:N_DENSE], Y[:N_DENSE, 0])
        dense_folds = [clock(partial(dense.held_out, _split(n, N_DENSE))) for n in DENSE_FOLDS]
    numbers = {
        "training": training,
        "folds": {"x": list(FOLDS), "sparse": folds, "training": [training] * len(FOLDS)},
        "dense folds": {"x": list(DENSE_FOLDS), "dense": dense_folds},
        "basis rows": {"x": list(SIZES), "leave-one-out": alone, "training": trained},
        "penalties": {"x": list(COUNTS), "leave-one-out": penalties},
        "outputs": {"x": list(COUNTS), "leave-one-out": outputs},
    }
    return Outcome(numbers, _claims(numbers), _SETTINGS, _table(numbers), _NOTES)


class _Clock:
    """Least CPU seconds of several calls, after one to warm up."""

    def __init__(self, trials: int) -> None:
        self.trials = trials

    def __call__(self, work: Callable[[], Any]) -> float:
        work()
        return min(timed(work, self.trials)[1])


def _split(n_folds: int, m: int) -> Experiments:
    """Return the folds as experiments, made beforehand: dealing rows is no part of the cost."""
    return as_experiments(KFold(n_folds), m, X=np.empty((m, 1)))


def _sparse(n: int, alphas: Sequence[float], path: str = "auto") -> KernelRidgeCV:
    return KernelRidgeCV(
        RBF(GAMMA),
        alphas=alphas,
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
    """Return the power of x that the time grows with, over the upper half of the range."""
    half = len(x) // 2
    return float(np.polyfit(np.log(x[half:]), np.log(seconds[half:]), 1)[0])


def _claims(numbers: Mapping[str, Any]) -> list[Claim]:
    training, folds = numbers["training"], np.array(numbers["folds"]["sparse"])
    dense = np.array(numbers["dense folds"]["dense"])
    powers = {key: _power(numbers[key]["x"], numbers[key]["leave-one-out"]) for key in _LINEAR}
    return [
        Claim(
            "N-fold CV takes at most about the time of training once (Corollary 3)",
            times_between(0.0, float(folds.max()) / training, 2.0),
            f"{folds.max() / training:.2f} times at most, for {FOLDS[0]} … {FOLDS[-1]} folds "
            "(rule: below 2)",
        ),
        Claim(
            "The smaller the hold-out sets, the cheaper: leave-one-out most of all (000 §5)",
            times_between(0.0, float(folds[-1] / folds[:-1].min()), 1.0),
            f"{folds[-1] / training:.2g} times training; folds of other sizes "
            f"{folds[:-1].min() / training:.2g} to {folds.max() / training:.2g}",
        ),
        Claim(
            "Dense models: the more folds, the faster (004)",
            _falls(dense),
            f"{DENSE_FOLDS[0]} … {DENSE_FOLDS[-1]} folds: "
            + ", ".join(f"{1e3 * value:.3g}" for value in dense)
            + " ms",
        ),
        *(
            Claim(
                f"Leave-one-out grows at most linearly in the number of {key} ({where})",
                times_between(0.0, 2.0 ** powers[key], 2.0**1.3),
                f"as {key}^{powers[key]:.2f} over the upper half of the range (rule: below 1.3)",
            )
            for key, where in _LINEAR.items()
        ),
        Claim(
            "Leave-one-out for n penalties costs no more than training (Corollary 4)",
            times_between(0.0, numbers["penalties"]["leave-one-out"][-1] / training, 2.0),
            f"{COUNTS[-1]} penalties: {numbers['penalties']['leave-one-out'][-1] / training:.2f} "
            f"times training with {N_BASIS} basis rows (rule: below 2)",
            "the predictions of every row at every penalty are written and scored, which is bound "
            "by memory, while training is bound by arithmetic.",
        ),
        Claim(
            "Leave-one-out for n outputs costs no more than training (Corollary 5)",
            times_between(0.0, numbers["outputs"]["leave-one-out"][-1] / training, 2.0),
            f"{COUNTS[-1]} outputs: {numbers['outputs']['leave-one-out'][-1] / training:.2f} times "
            f"training one output with {N_BASIS} basis rows (rule: below 2)",
        ),
    ]


def _falls(seconds: Floats) -> bool | None:
    """Return whether times fall: no step goes up, as far as can be told, and all steps go down."""
    steps = [times_between(0.0, float(b / a), 1.0) for a, b in pairwise(seconds)]
    return False if False in steps else times_between(0.0, float(seconds[-1] / seconds[0]), 1.0)


def _table(numbers: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    rows = [("training, CPU s", "O(mn²)", f"{numbers['training']:.3f}")]
    for key, cost in _COSTS.items():
        part = numbers[key]
        name = "dense" if key == "dense folds" else "sparse" if key == "folds" else "leave-one-out"
        cells = ", ".join(f"{x}: {s:.3g}" for x, s in zip(part["x"], part[name], strict=True))
        rows.append((f"{key}, CPU s", cost, cells))
    return rows


_LINEAR = {
    "basis rows": "Corollary 3",
    "penalties": "Corollary 4",
    "outputs": "Corollary 5",
}
_COSTS = {
    "folds": "O(min(m|H|n, mn²))",
    "dense folds": "O(m|H|²) beyond training",
    "basis rows": "O(mn)",
    "penalties": "O(cmn)",
    "outputs": "O(vmn)",
}
_SETTINGS = [
    ("sparse", "any", f"{N_ROWS:,} rows, {N_BASIS} basis rows that stay, one penalty"),
    ("dense", "any", f"{N_DENSE:,} rows"),
    ("training", "normal equations (000 (12))", "the same, in NumPy, kernel columns included"),
    ("hold-out", "after training", "held_out() of a fitted model, checks and results included"),
    ("time", "operations are counted", "CPU seconds, one core"),
]
_NOTES = (
    "The papers count operations; seconds also hold what does not grow: checks, plans, calls. "
    "Powers are therefore taken over the upper half of each range.",
)
