"""Everyday lines with `holdfast.model_selection` and with `sklearn.model_selection`.

    OPENBLAS_NUM_THREADS=1 python benchmarks/drop_ins.py [rows ...]

prints the table of docs/model_selection.md: how many times the processor time of ours scikit-learn
takes, the least of three rounds each, in turn, and the largest difference over the standard
deviation of the numbers. Lines that solve with all pairs of rows are left out above 2,000 rows, and
those with a model for each row above 200.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import sklearn.model_selection as theirs
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression, Ridge, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

import holdfast.model_selection as ours

ALPHAS = np.logspace(-3, 3, 7)
LOO = theirs.LeaveOneOut()
MSE = "neg_mean_squared_error"
PROCESS = GaussianProcessRegressor(RBF(3.0) + WhiteKernel(0.1), optimizer=None)
CENTRED = GaussianProcessRegressor(RBF(3.0), alpha=0.1, optimizer=None, normalize_y=True)
GAUSS = KernelRidge(kernel="rbf", alpha=0.1)
SCALED = make_pipeline(StandardScaler(), Ridge())
SOME = ColumnTransformer([("p", PolynomialFeatures(2), [0, 1])], remainder="passthrough")
LOG = TransformedTargetRegressor(Ridge(), func=np.arctan, inverse_func=np.tan)
MOST = {"pairs": 2_000, "single": 200, "": 10**9}

#: What a line is called, how it grows, and the line.
LINES: dict[str, tuple[str, Callable[..., Any]]] = {
    "cross_val_score(Ridge, cv=5)": ("", lambda M, X, y, g: M.cross_val_score(Ridge(), X, y, cv=5)),
    "cross_val_predict(LinearRegression, cv=10)": (
        "",
        lambda M, X, y, g: M.cross_val_predict(LinearRegression(), X, y, cv=10),
    ),
    "cross_val_score(StandardScaler + Ridge, cv=10)": (
        "",
        lambda M, X, y, g: M.cross_val_score(SCALED, X, y, cv=10),
    ),
    "cross_validate(PolynomialFeatures + Ridge, train scores)": (
        "",
        lambda M, X, y, g: M.cross_validate(
            make_pipeline(PolynomialFeatures(2), Ridge()), X, y, return_train_score=True
        )["train_score"],
    ),
    "cross_val_score(ColumnTransformer + Ridge, cv=5)": (
        "",
        lambda M, X, y, g: M.cross_val_score(make_pipeline(SOME, Ridge()), X, y, cv=5),
    ),
    "cross_val_score(TransformedTargetRegressor(Ridge), cv=5)": (
        "",
        lambda M, X, y, g: M.cross_val_score(LOG, X, y, cv=5),
    ),
    "cross_val_score(RidgeClassifier, cv=5)": (
        "",
        lambda M, X, y, g: M.cross_val_score(RidgeClassifier(), X, y > 0, cv=5),
    ),
    "cross_val_predict(Ridge, cv=LeaveOneGroupOut())": (
        "",
        lambda M, X, y, g: M.cross_val_predict(
            Ridge(), X, y, cv=theirs.LeaveOneGroupOut(), groups=g
        ),
    ),
    "GridSearchCV(Ridge), 20 penalties": (
        "",
        lambda M, X, y, g: M.GridSearchCV(
            Ridge(), {"alpha": np.logspace(-3, 3, 20)}, cv=5
        ).fit(X, y).cv_results_["mean_test_score"],
    ),
    "GridSearchCV(StandardScaler + Ridge), 7 penalties": (
        "",
        lambda M, X, y, g: M.GridSearchCV(SCALED, {"ridge__alpha": ALPHAS}, cv=5)
        .fit(X, y)
        .cv_results_["mean_test_score"],
    ),
    "permutation_test_score(Ridge), 100 permutations": (
        "",
        lambda M, X, y, g: M.permutation_test_score(Ridge(), X, y, n_permutations=100)[1],
    ),
    "cross_val_score(KernelRidge, cv=5)": (
        "pairs",
        lambda M, X, y, g: M.cross_val_score(GAUSS, X, y, cv=5),
    ),
    "cross_val_predict(KernelRidge, cv=LeaveOneGroupOut())": (
        "pairs",
        lambda M, X, y, g: M.cross_val_predict(GAUSS, X, y, cv=theirs.LeaveOneGroupOut(), groups=g),
    ),
    "GridSearchCV(KernelRidge), 7 penalties × 3 widths": (
        "pairs",
        lambda M, X, y, g: M.GridSearchCV(
            KernelRidge(kernel="rbf"), {"alpha": ALPHAS, "gamma": [0.01, 0.1, 1.0]}, cv=5
        ).fit(X, y).cv_results_["mean_test_score"],
    ),
    "cross_val_score(GaussianProcessRegressor, cv=5)": (
        "pairs",
        lambda M, X, y, g: M.cross_val_score(PROCESS, X, y, cv=5),
    ),
    "cross_val_predict(GaussianProcessRegressor, normalize_y, cv=10)": (
        "pairs",
        lambda M, X, y, g: M.cross_val_predict(CENTRED, X, y, cv=10),
    ),
    "cross_val_score(Ridge, cv=LeaveOneOut())": (
        "single",
        lambda M, X, y, g: M.cross_val_score(Ridge(), X, y, cv=LOO, scoring=MSE),
    ),
    "cross_val_predict(KernelRidge, cv=LeaveOneOut())": (
        "single",
        lambda M, X, y, g: M.cross_val_predict(GAUSS, X, y, cv=LOO),
    ),
}  # fmt: skip


def main() -> None:
    warnings.simplefilter("ignore")
    sizes = [int(text) for text in sys.argv[1:]] or [100, 1_500, 20_000]
    table: dict[str, list[str]] = {name: [] for name in LINES}
    worst = 0.0
    for m in sizes:
        rng = np.random.default_rng(0)
        X = rng.normal(size=(m, 8))
        y, groups = np.sin(X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=m), np.arange(m) % 20
        for name, (growth, line) in LINES.items():
            if m > MOST[growth]:
                table[name].append("–")
                continue
            seconds: dict[Any, list[float]] = {ours: [], theirs: []}
            found = {}
            for _ in range(3):
                for module in (ours, theirs):
                    start = time.process_time()
                    found[module] = np.asarray(line(module, X, y, groups), dtype=float)
                    seconds[module].append(time.process_time() - start)
            gap = np.abs(found[ours] - found[theirs]).max() / (np.std(found[theirs]) or 1.0)
            worst = max(worst, float(gap))
            table[name].append(f"{min(seconds[theirs]) / min(seconds[ours]):.1f}")
    print("| line |", " | ".join(f"{m:,} rows" for m in sizes), "|\n|---|" + "---:|" * len(sizes))
    for name, cells in table.items():
        print(f"| `{name}` |", " | ".join(cells), "|")
    print(f"\nLargest difference: {worst:.0e} standard deviations of the numbers.")


if __name__ == "__main__":
    main()
