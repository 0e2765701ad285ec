"""Gradients of the exact held-out error: their price, and what tuning every length-scale brings.

    python benchmarks/gradient.py                    # everything, writes gradient.json
    python benchmarks/gradient.py --smoke            # tiny, to see that it runs
    python benchmarks/gradient.py --json path.json

Price: CPU time of value and gradient together over the time of the value alone, for dense and
sparse models, leave-one-out, ten folds and groups of ten, with 5 and 50 length-scales. The value
is also set against a `KernelRidgeCV` fit at one alpha. One BLAS thread, the median of several runs.

Worth: Friedman's first problem, five relevant features of 20, noise of variance 1: the
isotropic 20 × 20 grid of (gamma, alpha) against L-BFGS with one gamma per feature, by exact
cross-validation error and by the error on new rows.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.model_selection import LeaveOneGroupOut
from threadpoolctl import threadpool_limits

from holdfast import KernelRidgeCV
from holdfast.kernels import RBF
from holdfast.tuning import tune
from holdfast.tuning.criterion import Criterion

SEED = 0


def seconds(call: Callable[[], object], repeats: int) -> float:
    call()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return float(np.median(times))


def price(m: int, n: int | None, d: int, cv: object, repeats: int) -> dict[str, object]:
    rng = np.random.default_rng(SEED)
    X = rng.normal(size=(m, d))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=m)
    groups = np.arange(m) // 10
    model = KernelRidgeCV(RBF(1 / d), basis=n, cv=cv, alphas=[0.1], random_state=SEED)
    criterion = Criterion.of(model, X, y, groups=groups, ard=True)
    point = np.log(np.append(0.1, np.full(d, 1 / d)))
    value = seconds(lambda: criterion.evaluate(point, gradient=False), repeats)
    both = seconds(lambda: criterion.evaluate(point), repeats)
    fit = seconds(lambda: model.fit(X, y, groups=groups), 1)
    record = {
        "rows": m,
        "basis": n,
        "length_scales": d,
        "cv": "loo" if cv is None else "groups of 10" if cv != 10 else "10-fold",
        "value_s": value,
        "gradient_s": both,
        "ratio": both / value,
        "fit_at_one_alpha_s": fit,
    }
    print(
        f"{m} rows, {'dense' if n is None else f'{n} basis rows'}, {d} length-scales, "
        f"{record['cv']}: value {value:.3f} s, with gradient {both:.3f} s, "
        f"ratio {both / value:.2f} (KernelRidgeCV at one alpha {fit:.3f} s)",
        flush=True,
    )
    return record


def worth(m: int, n: int | None, d: int, size: int) -> dict[str, object]:
    X, y = make_friedman1(n_samples=m, n_features=d, noise=1.0, random_state=SEED)
    X_new, y_new = make_friedman1(n_samples=4000, n_features=d, noise=1.0, random_state=SEED + 1)
    model = KernelRidgeCV("rbf", basis=n, cv=10, random_state=SEED)

    start = time.process_time()
    grid = {"gamma": np.logspace(-4, 1, size), "alphas": np.logspace(-6, 2, size)}
    isotropic = KernelRidgeCV("rbf", basis=n, cv=10, random_state=SEED, **grid).fit(X, y)
    grid_time = time.process_time() - start

    start = time.process_time()
    result = tune(model, X, y, ard=True, flatness=False)
    tune_time = time.process_time() - start
    result_with = tune(model, X, y, ard=True, start=(result.alpha, result.gamma))
    ard = result.estimator().fit(X, y)
    irrelevant = result_with.irrelevant
    assert irrelevant is not None
    record = {
        "rows": m,
        "basis": n,
        "features": d,
        "grid": {
            "cv_error": -isotropic.best_score_,
            "test_error": float(np.mean((isotropic.predict(X_new) - y_new) ** 2)),
            "alpha": isotropic.alpha_,
            "gamma": isotropic.best_params_["gamma"],
            "seconds": grid_time,
        },
        "ard": {
            "cv_error": result.criterion,
            "test_error": float(np.mean((ard.predict(X_new) - y_new) ** 2)),
            "alpha": result.alpha,
            "gamma": result.gamma.tolist(),
            "evaluations": result.n_evaluations,
            "seconds": tune_time,
        },
        "relevant_found": int((~irrelevant[:5]).sum()),
        "irrelevant_found": int(irrelevant[5:].sum()),
        "irrelevant": d - 5,
    }
    print(
        f"Friedman 1, {m} rows, {d} features, {'dense' if n is None else f'{n} basis rows'}: "
        f"isotropic {size} x {size} grid CV {record['grid']['cv_error']:.3f}, "
        f"test {record['grid']['test_error']:.3f} ({grid_time:.1f} s); "
        f"ARD CV {result.criterion:.3f}, test {record['ard']['test_error']:.3f} "
        f"({result.n_evaluations} evaluations, {tune_time:.1f} s); relevant features kept "
        f"{record['relevant_found']} of 5, irrelevant ones found {record['irrelevant_found']} of "
        f"{d - 5}; noise variance 1",
        flush=True,
    )
    return record


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="tiny problems")
    parser.add_argument("--json", default="gradient.json", help="where the figures go")
    arguments = parser.parse_args()
    smoke = arguments.smoke
    sizes = [(60, None), (80, 10)] if smoke else [(1000, None), (2000, None), (5000, 300)]
    scales = (2, 5) if smoke else (5, 50)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        prices = [
            price(m, n, d, cv, 1 if smoke else 5)
            for m, n in sizes
            for d in scales
            for cv in (None, 10, LeaveOneGroupOut())
        ]
        tunings = [
            worth(100 if smoke else 1000, n, 8 if smoke else 20, 4 if smoke else 20)
            for n in (None, 20 if smoke else 300)
        ]
    worst = max(float(record["ratio"]) for record in prices)
    print(f"largest ratio {worst:.2f}")
    figures = {"price": prices, "worth": tunings, "largest_ratio": worst}
    Path(arguments.json).write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
