"""The problems: sizes, data, basis rows, split and penalties, frozen so that records compare.

A problem is a name and a few numbers; `generate` turns it into arrays, always the same ones. The
sets: "full" has the jobs that the project measures itself by, some of them with a target, "small"
is the same in minutes, "smoke" only shows that everything runs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
Split = Literal["loo", "folds", "groups"]
Policy = Literal["keep", "remove"]
Kernel = Literal["rbf", "linear"]

SEED = 0

#: ε of a sparse model, the estimator's default; the RBF kernel has a diagonal of ones.
JITTER = 1e-10


@dataclass(frozen=True)
class Model:
    """Which model is held out: the fate of held-out basis rows, a free bias or none, and ε."""

    policy: Policy
    bias: bool
    jitter: float = JITTER


#: What every rival can do. Rivals keep held-out basis rows in the basis and have no free bias.
COMMON = Model("keep", bias=False)
#: The same for libraries that know no ε.
UNSHIFTED = Model("keep", bias=False, jitter=0.0)
#: What the estimator does unless told otherwise.
DEFAULT = Model("remove", bias=True)


@dataclass(frozen=True)
class Problem:
    """One job of cross-validation.

    Attributes
    ----------
    name : str
    m, d : int
        Rows and features.
    n : int or None
        Basis rows; None for the dense model.
    split : {"loo", "folds", "groups"}
        Leave-one-out, contiguous folds, or groups scattered over the rows.
    parts : int
        Number of folds or groups; ignored for leave-one-out.
    n_alphas : int
        Penalties, evenly spaced in logarithm from 1e-6 to 1e3.
    kernel : {"rbf", "linear"}
        A linear problem is ridge regression on the features.
    targets : int
        Columns of y; with several, each has a penalty of its own.
    target : str
        What the project wants, as a ratio to one plain fit; for people to read.
    limit : float or None
        The same as a number.
    """

    name: str
    m: int
    n: int | None
    split: Split
    n_alphas: int
    parts: int = 0
    d: int = 20
    kernel: Kernel = "rbf"
    targets: int = 1
    target: str = ""
    limit: float | None = None

    @property
    def dense(self) -> bool:
        """Whether all rows are basis rows."""
        return self.n is None

    @property
    def gamma(self) -> float:
        """Width of the RBF kernel."""
        return 1.0 / self.d

    @property
    def alphas(self) -> Floats:
        """Penalties, increasing."""
        return np.logspace(-6, 3, self.n_alphas)

    @property
    def n_experiments(self) -> int:
        """How many held-out sets there are."""
        return self.m if self.split == "loo" else self.parts

    def __str__(self) -> str:
        model = "dense" if self.dense else f"n = {self.n:,}"
        size = f"m = {self.m:,}, d = {self.d}, {'ridge' if self.kernel == 'linear' else model}"
        size += f", {self.targets:,} targets" if self.targets > 1 else ""
        parts = {
            "loo": "leave-one-out",
            "folds": f"{self.parts}-fold",
            "groups": f"{self.parts} groups of {self.m // max(self.parts, 1)}",
        }
        return f"{parts[self.split]} × {self.n_alphas} λ, {size}"


@dataclass(frozen=True, eq=False)
class Data:
    """The arrays of a problem.

    Attributes
    ----------
    X : ndarray of shape (m, d)
    y : ndarray of shape (m,), or (m, targets) if there are several
    basis : ndarray of int, shape (n,), or None
    labels : ndarray of int, shape (m,)
        Which held-out set each row belongs to.
    """

    X: Floats
    y: Floats
    basis: Rows | None
    labels: Rows

    @property
    def first(self) -> Floats:
        """The first target, which stands for all when answers are compared."""
        return self.y if self.y.ndim == 1 else self.y[:, 0]

    def experiments(self) -> list[Rows]:
        """Return the held-out sets, each tested whole, in the order of their labels."""
        order = np.argsort(self.labels, kind="stable")
        ends = np.cumsum(np.bincount(self.labels))
        return np.split(order, ends[:-1])


def generate(problem: Problem) -> Data:
    """Return the data of a problem: a smooth function of half of the features, plus noise.

    The basis rows are those that scikit-learn's `Nystroem` draws with the same seed, so that all
    rivals fit the same model.
    """
    rng = np.random.default_rng(SEED)
    X = rng.standard_normal((problem.m, problem.d))
    y = np.sin(X[:, : problem.d // 2 + 1]).sum(axis=1)
    if problem.targets == 1:
        y += 0.5 * rng.standard_normal(problem.m)
    else:
        y = y[:, None] + 0.5 * rng.standard_normal((problem.m, problem.targets))
    basis = None
    if problem.n is not None:
        # The legacy generator on purpose: it is the one that Nystroem uses.
        legacy = np.random.RandomState(SEED)
        basis = legacy.permutation(problem.m)[: problem.n].astype(np.int64)
    if problem.split == "loo":
        labels = np.arange(problem.m)
    else:
        sizes = [part.size for part in np.array_split(np.arange(problem.m), problem.parts)]
        labels = np.repeat(np.arange(problem.parts), sizes)  # the folds of scikit-learn's KFold
        if problem.split == "groups":
            labels = rng.permutation(labels)
    return Data(X, y, basis, labels)


_LARGE, _MEDIUM = {"m": 50_000, "n": 1_000}, {"m": 5_000, "n_alphas": 20}

FULL = (
    Problem("sparse-loo-50k", **_LARGE, split="loo", n_alphas=30, target="≤ 3.5", limit=3.5),
    Problem(
        "sparse-10fold-50k",
        **_LARGE,
        split="folds",
        parts=10,
        n_alphas=30,
        target="≤ 2.8",
        limit=2.8,
    ),
    Problem(
        "sparse-groups-50k",
        **_LARGE,
        split="groups",
        parts=500,
        n_alphas=30,
        target="≤ 4.5",
        limit=4.5,
    ),
    Problem("sparse-loo-5k-500", **_MEDIUM, n=500, split="loo", target="≤ 4", limit=4.0),
    Problem("sparse-loo-5k-1000", **_MEDIUM, n=1_000, split="loo", target="≤ 4.5", limit=4.5),
    Problem("sparse-loo-5k-2000", **_MEDIUM, n=2_000, split="loo", target="≤ 6.5", limit=6.5),
    Problem("dense-5fold-2k", 2_000, None, "folds", 100, parts=5, target="≤ 20", limit=20.0),
    Problem("dense-loo-2k", 2_000, None, "loo", 100, target="≤ 12", limit=12.0),
    Problem("sparse-loo-20k", 20_000, 400, "loo", 30),
    Problem("sparse-10fold-20k", 20_000, 400, "folds", 30, parts=10),
    Problem("dense-loo-1k-20", 1_000, None, "loo", 20),
    Problem("dense-loo-2k-20", 2_000, None, "loo", 20),
    Problem("dense-5fold-1k-20", 1_000, None, "folds", 20, parts=5),
    Problem("dense-5fold-2k-20", 2_000, None, "folds", 20, parts=5),
)

SMALL = (
    Problem("sparse-loo-small", 10_000, 300, "loo", 30),
    Problem("sparse-10fold-small", 10_000, 300, "folds", 30, parts=10),
    Problem("sparse-groups-small", 10_000, 300, "groups", 30, parts=200),
    Problem("dense-5fold-small", 800, None, "folds", 50, parts=5),
    Problem("dense-loo-small", 800, None, "loo", 50),
)

SMOKE = (
    Problem("sparse-loo-smoke", 300, 20, "loo", 3, d=4),
    Problem("sparse-folds-smoke", 300, 20, "folds", 3, parts=5, d=4),
    Problem("sparse-groups-smoke", 300, 20, "groups", 3, parts=30, d=4),
    Problem("dense-folds-smoke", 120, None, "folds", 3, parts=4, d=4),
    Problem("dense-loo-smoke", 120, None, "loo", 3, d=4),
)

_RIDGE = {"m": 50_000, "n": None, "n_alphas": 20, "d": 200, "kernel": "linear"}
_SPARSE = {"m": 20_000, "n": 500, "n_alphas": 30}

#: The jobs of `benchmarks.speed`: every library where it does the same job.
SPEED = (
    Problem("speed-dense-loo", 1_500, None, "loo", 20),
    Problem("speed-dense-5fold", 1_500, None, "folds", 20, parts=5),
    Problem("speed-sparse-loo", **_SPARSE, split="loo"),
    Problem("speed-sparse-10fold", **_SPARSE, split="folds", parts=10),
    Problem("speed-sparse-groups", **_SPARSE, split="groups", parts=200),
    Problem("speed-ridge-loo", **_RIDGE, split="loo"),
    Problem("speed-ridge-10fold", **_RIDGE, split="folds", parts=10),
    Problem("speed-ridge-groups", **_RIDGE, split="groups", parts=500),
    Problem("speed-targets-300", 300, None, "folds", 10, parts=5, targets=1_000),
    Problem("speed-targets-300-wide", 300, None, "folds", 10, parts=5, targets=100_000),
    Problem("speed-targets-5k", 5_000, None, "folds", 10, parts=5, targets=1_000),
    Problem("speed-targets-ridge", 5_000, None, "loo", 10, d=100, kernel="linear", targets=1_000),
)

#: The same in seconds.
QUICK = tuple(
    replace(
        problem,
        name=problem.name.replace("speed", "quick"),
        m=48,
        n=None if problem.dense else 9,
        d=6,
        n_alphas=3,
        parts=min(problem.parts, 6),
        targets=min(problem.targets, 4),
    )
    for problem in SPEED
)

SETS: dict[str, tuple[Problem, ...]] = {
    "full": FULL,
    "small": SMALL,
    "smoke": SMOKE,
    "speed": SPEED,
    "quick": QUICK,
}
PROBLEMS: dict[str, Problem] = {problem.name: problem for s in SETS.values() for problem in s}
