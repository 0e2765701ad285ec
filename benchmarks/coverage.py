"""How often an interval around a cross-validation score holds the error of the fitted model.

    python -m benchmarks.coverage                        # small: a few minutes
    python -m benchmarks.coverage --sims 1000 --partitions 50
    python -m benchmarks.coverage --smoke                # tiny, to see that it runs

Data are drawn again and again from a known law, a model is fitted to each draw, and its error on
new rows is computed from the law. Intervals of level 90 % should hold it nine times in ten:

- `folds`: score ± 1.64 standard errors over the ten folds, which is what most people report;
- `asymptotic`, `corrected`, `nested`: `model.score_interval`.

Prints a table with Monte-Carlo errors, how often the model is worse or better than the interval
says, and the mean width of the intervals relative to `asymptotic`.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.stats import norm
from sklearn.model_selection import GroupKFold
from threadpoolctl import threadpool_limits

from holdfast import KernelRidgeClassifierCV, KernelRidgeCV

LEVEL = 0.9
METHODS = ("folds", "asymptotic", "corrected", "nested")

Draw = Callable[[np.random.Generator], tuple[object, float]]


def many_columns(rng: np.random.Generator) -> tuple[KernelRidgeCV, float]:
    """Linear ridge, 80 rows and 60 columns: far from the asymptotic regime."""
    beta = np.zeros(60)
    beta[:5] = 1.0
    X = rng.normal(size=(80, 60))
    y = X @ beta + rng.normal(size=80)
    model = KernelRidgeCV("linear", alphas=[0.5], cv=10).fit(X, y)
    coef = model.dual_coef_ @ X
    return model, -(float(np.sum((coef - beta) ** 2)) + model.intercept_**2 + 1.0)


def smooth(rng: np.random.Generator) -> tuple[KernelRidgeCV, float]:
    """A smooth curve, 200 rows, RBF kernel: a stable model."""
    X = rng.uniform(-3, 3, size=(200, 1))
    y = np.sin(X[:, 0]) + 0.5 * rng.normal(size=200)
    model = KernelRidgeCV(gamma=0.5, alphas=[1.0], cv=10).fit(X, y)
    new = np.linspace(-3, 3, 2001)[:, None]
    return model, -(float(np.mean((model.predict(new) - np.sin(new[:, 0])) ** 2)) + 0.25)


def two_classes(rng: np.random.Generator) -> tuple[KernelRidgeClassifierCV, float]:
    """Accuracy of a linear classifier, 80 rows and 30 columns."""
    beta = np.zeros(30)
    beta[:4] = 0.8
    X = rng.normal(size=(80, 30))
    labels = rng.random(80) < norm.cdf(X @ beta)
    model = KernelRidgeClassifierCV("linear", alphas=[1.0], cv=10).fit(X, labels)
    new = rng.normal(size=(20_000, 30))
    return model, float(np.mean(model.predict(new) == (rng.random(20_000) < norm.cdf(new @ beta))))


def groups(rng: np.random.Generator) -> tuple[KernelRidgeCV, float]:
    """Forty groups of five rows that share an offset: a new row comes from a new group."""
    group = np.repeat(np.arange(40), 5)
    X = rng.normal(size=(200, 3)) + rng.normal(size=(40, 3))[group]
    y = X[:, 0] + rng.normal(size=40)[group] + rng.normal(size=200)
    model = KernelRidgeCV("linear", alphas=[1.0], cv=GroupKFold(10)).fit(X, y, groups=group)
    gap = model.dual_coef_ @ X - np.array([1.0, 0.0, 0.0])
    return model, -(2.0 * float(gap @ gap) + model.intercept_**2 + 2.0)


DRAWS: dict[str, Draw] = {
    "many columns (80 × 60), squared error": many_columns,
    "smooth curve (200 rows), squared error": smooth,
    "two classes (80 × 30), accuracy": two_classes,
    "40 groups of 5, squared error": groups,
}


def interval(model: object, method: str, partitions: int, seed: int) -> tuple[float, float]:
    if method == "folds":
        results = model.cv_results_  # type: ignore[attr-defined]
        splits = np.array([results[f"split{j}_test_score"][0] for j in range(10)])
        wide = norm.ppf(0.5 + LEVEL / 2) * splits.std(ddof=1) / np.sqrt(10)
        return float(splits.mean() - wide), float(splits.mean() + wide)
    found = model.score_interval(  # type: ignore[attr-defined]
        LEVEL, method, n_partitions=partitions, random_state=seed
    )
    return found.low, found.high


def study(draw: Draw, sims: int, partitions: int) -> dict[str, dict[str, float]]:
    ends = {method: np.empty((sims, 2)) for method in METHODS}
    truth = np.empty(sims)
    for seed in range(sims):
        model, truth[seed] = draw(np.random.default_rng(seed))
        for method in METHODS:
            ends[method][seed] = interval(model, method, partitions, seed)
    width = {method: float(np.mean(np.diff(e, axis=1))) for method, e in ends.items()}
    return {
        method: {
            "coverage": float(np.mean((e[:, 0] <= truth) & (truth <= e[:, 1]))),
            "below": float(np.mean(truth < e[:, 0])),
            "above": float(np.mean(truth > e[:, 1])),
            "width": width[method] / width["asymptotic"],
        }
        for method, e in ends.items()
    }


def table(record: dict[str, dict[str, dict[str, float]]], sims: int) -> str:
    lines = ["| data and model | method | holds the error | worse | better | width |"]
    lines.append("|---|---|---|---|---|---|")
    for name, methods in record.items():
        for method, found in methods.items():
            c = found["coverage"]
            error = np.sqrt(max(c * (1 - c), 1 / sims) / sims)
            lines.append(
                f"| {name} | {method} | {c:.1%} ± {error:.1%} | {found['below']:.1%} | "
                f"{found['above']:.1%} | {found['width']:.2f} |"
            )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sims", type=int, default=100, help="draws of the data")
    parser.add_argument("--partitions", type=int, default=10, help="random partitions of each")
    parser.add_argument("--smoke", action="store_true", help="tiny")
    parser.add_argument("--json", type=Path, help="where the figures go")
    arguments = parser.parse_args()
    sims, partitions = (2, 1) if arguments.smoke else (arguments.sims, arguments.partitions)
    record = {}
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, draw in DRAWS.items():
            record[name] = study(draw, sims, partitions)
            print(table({name: record[name]}, sims), flush=True)
    print(f"\n{sims} draws, {partitions} partitions, level {LEVEL:.0%}\n")
    print(table(record, sims))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(record, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
