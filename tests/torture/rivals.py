"""What others answer on the same problems, each judged by the exact answer of its own model.

`RidgeCV` leaves single rows out of a linear model. `GridSearchCV` over `KernelRidge` retrains for
every held-out set and penalty; its model has neither a bias nor basis rows. The package answers the
same questions with the path that its planner takes. ``python -m torture.rivals`` writes the table
of docs/accuracy.md.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import GridSearchCV

from torture.families import Problem, problem
from torture.measure import answered, fitted
from torture.truth import truth

Floats = NDArray[np.float64]

PAGE = Path(__file__).parents[2] / "docs" / "accuracy.md"
SEEDS = range(10)
#: What the page calls each family.
TITLES = {
    "units": "columns in units 1 … 1e12",
    "small_and_large_units": "columns in units 1e-6 … 1e12",
    "correlated_units": "correlated columns, units 1 … 1e9",
    "time_stamps": "a time stamp among the columns",
    "offsets": "columns up to 1e8 away from zero, targets too",
    "rare_columns": "columns non-zero in one or two rows",
    "leverage": "one row of leverage 1 − 10⁻ᵏ, k = 1 … 14",
    "duplicates": "duplicate rows and columns",
    "wild_weights": "weights 1e-6 … 1e6, and 0",
    "target_sizes": "targets of size 1e-70 … 1e70",
    "wide_penalties": "λ over 24 decades",
    "folds": "disjoint folds and groups, units 1 … 1e9",
    "more_columns_than_rows": "more columns than rows, units 1 … 1e3",
    "several_targets": "three targets of size 1e-8 … 1e8",
    "smooth_kernel": "sparse, a smooth kernel",
    "duplicate_basis": "sparse, near-duplicate basis rows",
    "cubic_with_outlier": "sparse, an outlier under a cubic kernel",
    "sparse_wild_weights": "sparse, weights 1e-6 … 1e6",
    "sparse_folds": "sparse, disjoint folds and groups",
    "sparse_wide_penalties": "sparse, λ over 24 decades",
    "every_row": "sparse, leave-one-out, one row far away",
    "dense_kernel": "dense, a smooth kernel",
    "dense_folds": "dense, disjoint folds and groups",
    "dense_wide_penalties": "dense, λ over 24 decades",
    "dense_duplicates": "dense, duplicate rows",
    "dense_wild_weights": "dense, weights 1e-6 … 1e6, and 0",
    "dense_outlier": "dense, an outlier under a cubic kernel",
}


@dataclass(frozen=True)
class Pair:
    """The largest errors of a rival and of the package on one problem, over all penalties."""

    rival: float
    ours: float


def ridge_cv(p: Problem) -> Pair | None:
    """Return the errors of leave-one-out by `RidgeCV`.

    None where the kernel is not linear, or no row is held out alone.
    """
    if p.kernel["kernel"] != "linear" or not any(len(held) == 1 for held in p.sets):
        return None
    weights = np.ones(len(p.X)) if p.weights is None else p.weights
    kept = np.flatnonzero(weights)  # RidgeCV divides by the root of the weight
    single = np.isin(kept, [int(held[0]) for held in p.sets if len(held) == 1])
    problem = replace(
        p, X=p.X[kept], y=p.y[kept], weights=None if p.weights is None else weights[kept],
        sets=[np.array([row]) for row in np.flatnonzero(single)],
    )  # fmt: skip
    return _pair(problem, _by_ridge_cv)


def grid_search(p: Problem) -> Pair:
    """Return the errors of `GridSearchCV(KernelRidge)`, without bias and basis rows."""
    return _pair(replace(p, basis=None, policy="remove", bias=False), _by_grid_search)


def _pair(p: Problem, rival: Callable[[Problem], Floats]) -> Pair:
    p = replace(p, y=p.y.reshape(len(p.y), -1)[:, 0])
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        theirs = rival(p)
        model = fitted(p, "auto")
        judge = truth(p, model)
        ours = np.stack([values for values, _ in answered(model, p.alphas)])
    errors = [judge.error(values) for values in (theirs[:, :, None], ours)]
    return Pair(*(float(np.max(np.where(np.isnan(e), np.inf, e))) for e in errors))


def _by_ridge_cv(p: Problem) -> Floats:
    """Return held-out predictions (alphas, test rows)."""
    model = RidgeCV(
        alphas=p.alphas, fit_intercept=p.bias, scoring="neg_mean_squared_error",
        store_cv_results=True,
    )  # fmt: skip
    model.fit(p.X, p.y, sample_weight=p.weights)
    return model.cv_results_.T[:, np.concatenate(p.sets)]


def _by_grid_search(p: Problem) -> Floats:
    """Return held-out predictions (alphas, test rows) of the models that the search trains.

    A kernel that is not linear is given as the values that everybody starts from.
    """
    X, kernel = p.X, "linear"
    if p.kernel["kernel"] != "linear":
        X, kernel = np.asarray(fitted(p, "per_fold").kernel_(p.X)), "precomputed"
    every = np.arange(len(p.X))
    found: dict[float, list[Floats]] = {float(alpha): [] for alpha in p.alphas}

    def keep(model: KernelRidge, rows: Floats, _: Floats) -> float:
        found[float(model.alpha)].append(model.predict(rows))
        return 0.0

    search = GridSearchCV(
        KernelRidge(kernel=kernel), {"alpha": [float(a) for a in p.alphas]}, scoring=keep,
        cv=[(np.setdiff1d(every, held), held) for held in p.sets], refit=False, error_score="raise",
    )  # fmt: skip
    search.fit(X, p.y, **({} if p.weights is None else {"sample_weight": p.weights}))
    return np.array([np.concatenate(parts) for parts in found.values()])


def _line(family: str) -> str:
    """Return a line of the table: the largest errors of some problems of a family."""
    problems = [problem(family, seed) for seed in SEEDS]
    cells = []
    for pairs in ([ridge_cv(p) for p in problems], [grid_search(p) for p in problems]):
        known = [(pair.rival, pair.ours) for pair in pairs if pair is not None]
        cells += [f"{worst:.0e}" for worst in np.max(known, axis=0)] if known else ["—", "—"]
    return f"| {TITLES[family]} | {' | '.join(cells)} |"


def main() -> None:
    """Write the table into the page."""
    head = "| data | `RidgeCV` | holdfast | `GridSearchCV(KernelRidge)` | holdfast |\n"
    table = head + "| --- | --- | --- | --- | --- |\n" + "\n".join(map(_line, TITLES))
    before, begin, rest = PAGE.read_text("utf-8").partition("<!-- rivals: begin -->\n")
    _, end, after = rest.partition("\n<!-- rivals: end -->")
    PAGE.write_text(f"{before}{begin}{table}{end}{after}", "utf-8")


if __name__ == "__main__":
    main()
