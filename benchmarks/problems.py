"""The jobs: what is asked, of how many rows, and the data, always the same ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
Job = Literal[
    "cross-validate",
    "search",
    "classify",
    "nested",
    "permutation",
    "interval",
    "drop-in",
    "mixture",
]

BANDS = 3
NEW_ROWS = 200
N_PERMUTATIONS = 100
OUTER_FOLDS = 5


@dataclass(frozen=True)
class Problem:
    """One job on so many rows.

    Attributes
    ----------
    name : str
    job : str
        ``"cross-validate"`` chooses among penalties by held-out scores and fits the best model;
        the other jobs add a question to that, or choose more.
    m, d : int
        Rows and columns.
    kernel : {"linear", "rbf"}
    n : int or None
        Basis rows; None for all of them.
    split : {"loo", "folds", "groups"}
        Leave-one-out, contiguous folds, or groups scattered over the rows.
    parts : int
        How many folds or groups.
    n_alphas : int
        Penalties, evenly spaced in logarithm.
    targets : int
        Columns of y, each with a penalty of its own.
    draws : int
        Weights of several kernels to compare.
    """

    name: str
    m: int
    d: int
    kernel: Literal["linear", "rbf"] = "rbf"
    job: Job = "cross-validate"
    n: int | None = None
    split: Literal["loo", "folds", "groups"] = "loo"
    parts: int = 0
    n_alphas: int = 30
    targets: int = 1
    draws: int = 0

    @property
    def gamma(self) -> float:
        """Width of the RBF kernel."""
        return 1.0 / self.d

    @property
    def alphas(self) -> Floats:
        """Penalties, increasing."""
        return np.logspace(-4, 3, self.n_alphas)

    @property
    def bias(self) -> bool:
        """Whether the models have an unpenalised bias: kernel ridge of other libraries has none."""
        return self.kernel == "linear"

    @property
    def experiments(self) -> int:
        """How many held-out sets there are."""
        return self.m if self.split == "loo" else self.parts

    def tiny(self) -> Problem:
        """Return a problem of the same kind that takes milliseconds."""
        return replace(
            self,
            m=60,
            d=6,
            n=None if self.n is None else 10,
            parts=min(self.parts, 5),
            n_alphas=min(self.n_alphas, 3),
            targets=min(self.targets, 3),
            draws=min(self.draws, 4),
        )

    def __str__(self) -> str:
        split = {
            "loo": "leave-one-out",
            "folds": f"{self.parts} folds",
            "groups": f"{self.parts:,} groups of {self.m // max(self.parts, 1):,} rows",
        }[self.split]
        model = "linear" if self.kernel == "linear" else "RBF kernel"
        basis = f", {self.n:,} basis rows" if self.n else ""
        many = f", {self.targets:,} targets" if self.targets > 1 else ""
        penalties = f"{split} × {self.n_alphas} penalties"
        what = {
            "cross-validate": penalties,
            "search": f"{split}, penalty and width",
            "classify": f"{penalties}, four classes",
            "nested": f"nested, {OUTER_FOLDS} outer folds, {penalties} inside",
            "permutation": f"{N_PERMUTATIONS} permutations, {split}, one penalty",
            "interval": f"jackknife+ intervals of {NEW_ROWS} new rows, one penalty",
            "drop-in": f"cross_val_predict, {split}, one penalty",
            "mixture": f"{self.draws} weights of three kernels, {penalties}",
        }[self.job]
        return f"{what}: {model}{basis}, {self.m:,} × {self.d}{many}"


@dataclass(frozen=True, eq=False)
class Data:
    """The arrays of a problem.

    Attributes
    ----------
    X, y : ndarray
        Rows and target, or targets as columns.
    labels : ndarray of int
        The held-out set of each row.
    basis : ndarray of int or None
    new : ndarray
        Rows that no model has seen.
    weights : ndarray of shape (draws, BANDS)
        Weights of the kernels of a mixture.
    """

    X: Floats
    y: Floats
    labels: Rows
    basis: Rows | None
    new: Floats
    weights: Floats

    @cached_property
    def folds(self) -> list[Rows]:
        """The held-out rows of each experiment."""
        order = np.argsort(self.labels, kind="stable")
        return np.split(order, np.flatnonzero(np.diff(self.labels[order])) + 1)


def generate(problem: Problem) -> Data:
    """Return the arrays of a problem, the same at every call."""
    rng = np.random.default_rng(0)
    m, d = problem.m, problem.d
    X = rng.standard_normal((m + NEW_ROWS, d))
    waves = np.sin(X @ rng.standard_normal((d, problem.targets)) / np.sqrt(d) * 2.0)
    Y = waves + 0.5 * rng.standard_normal((m + NEW_ROWS, problem.targets))
    y: Floats = Y[:m, 0] if problem.targets == 1 else Y[:m]
    if problem.job == "classify":
        y = np.searchsorted(np.quantile(y, (0.25, 0.5, 0.75)), y)
    labels = {
        "loo": np.arange(m),
        "folds": np.arange(m) * problem.parts // m,
        "groups": rng.permutation(np.arange(m) % max(problem.parts, 1)),
    }[problem.split]
    basis = None if problem.n is None else np.sort(rng.choice(m, problem.n, replace=False))
    weights = rng.dirichlet(np.ones(BANDS), size=problem.draws)
    return Data(X[:m], y, labels, basis, X[m:], weights)


#: The jobs of the table, from small to large within each kind.
TABLE = (
    Problem("linear-100", 100, 10, "linear"),
    Problem("linear-1000", 1_000, 8, "linear"),
    Problem("linear-10000", 10_000, 8, "linear"),
    Problem("linear-100000", 100_000, 8, "linear"),
    Problem("linear-100000-wide", 100_000, 50, "linear"),
    Problem("linear-folds", 20_000, 100, "linear", split="folds", parts=10),
    Problem("linear-groups", 20_000, 100, "linear", split="groups", parts=200),
    Problem("linear-targets", 5_000, 100, "linear", n_alphas=10, targets=1_000),
    Problem("dense-100", 100, 10),
    Problem("dense-300", 300, 10),
    Problem("dense-1000", 1_000, 10),
    Problem("dense-4000", 4_000, 10),
    Problem("dense-folds-100", 100, 10, split="folds", parts=5),
    Problem("dense-folds-300", 300, 10, split="folds", parts=5),
    Problem("dense-folds-1000", 1_000, 10, split="folds", parts=5),
    Problem("dense-groups-1000", 1_000, 10, split="groups", parts=50),
    Problem("dense-targets", 300, 20, split="folds", parts=5, n_alphas=10, targets=1_000),
    Problem("dense-targets-loo", 300, 20, targets=3_000),
    Problem("basis-5000", 5_000, 20, n=300),
    Problem("basis-20000", 20_000, 20, n=500),
    Problem("basis-folds", 20_000, 20, n=500, split="folds", parts=10),
    Problem("basis-groups", 20_000, 20, n=500, split="groups", parts=200),
    Problem("search-300", 300, 10, job="search", split="folds", parts=5),
    Problem("search-1000", 1_000, 10, job="search", split="folds", parts=5),
    Problem("classify-linear", 1_000, 20, "linear", job="classify"),
    Problem("classify-linear-10000", 10_000, 20, "linear", job="classify"),
    Problem("nested-300", 300, 10, job="nested", split="folds", parts=5, n_alphas=10),
    Problem("nested-1000", 1_000, 10, job="nested", split="folds", parts=5, n_alphas=10),
    Problem("permutation-300", 300, 10, job="permutation", split="folds", parts=5, n_alphas=1),
    Problem("interval-300", 300, 10, job="interval", n_alphas=1),
    Problem("interval-1000", 1_000, 10, job="interval", n_alphas=1),
    Problem("drop-in-300", 300, 10, job="drop-in", n_alphas=1),
    Problem("drop-in-linear", 2_000, 30, "linear", job="drop-in", n_alphas=1),
    Problem(
        "bands-narrow", 1_000, 180, "linear", job="mixture", split="folds", parts=5, n_alphas=10,
        targets=100, draws=5,
    ),
    Problem(
        "bands-wide", 1_000, 1_200, "linear", job="mixture", split="folds", parts=5, n_alphas=10,
        targets=100, draws=5,
    ),
)  # fmt: skip

#: One of each kind, in milliseconds.
SMOKE = tuple(
    problem.tiny()
    for problem in TABLE
    if problem.name
    in {
        "linear-100", "linear-folds", "linear-groups", "linear-targets", "dense-100",
        "dense-folds-100", "dense-groups-1000", "basis-5000", "basis-folds", "search-300",
        "classify-linear", "nested-300", "permutation-300", "interval-300",
        "drop-in-300", "bands-narrow",
    }
)  # fmt: skip

PROBLEMS = {problem.name: problem for problem in TABLE}
