"""Answers against scikit-learn's own loops, on the largest problem that these finish in time.

    python -m benchmarks.loops [--seconds 120] [--answers pairs ...]

Each answer is asked of a dense RBF model without a bias, which is scikit-learn's `KernelRidge`, in
the way that a user of scikit-learn would write it: `cross_val_predict`, `GridSearchCV` and
`learning_curve` where they serve, else a loop over splits. The number of rows doubles until the
loop takes a thirtieth of `--seconds`; then it runs once more with as many rows as the growth
allows, half way between the one that was measured and that of m³ for each fit. Here fit and answer
are asked for the same rows, and the largest deviation is relative to the largest value. Times are
those of the processor: run with one BLAS thread.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import (
    GridSearchCV,
    LeaveOneGroupOut,
    LeaveOneOut,
    LeavePOut,
    ShuffleSplit,
    cross_val_predict,
    learning_curve,
)

from holdfast import HoldOut, KernelRidgeCV
from holdfast.exceptions import GridEdgeWarning
from holdfast.splitters import LeaveNeighbourhoodOut, SpatialBlocks

ALPHA, GAMMA, LEVEL = 0.1, 1.0, 0.9
ALPHAS = np.logspace(-3, 1, 9)
SHARES = np.linspace(0.1, 1.0, 10)
#: Rows of a group, and neighbours in a buffer, about.
GROUP, NEIGHBOURS = 8, 20

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Data:
    """Rows in the square (-1, 1)², with targets, groups and new rows."""

    X: Floats
    y: Floats
    groups: NDArray[np.int64]
    X_new: Floats

    @classmethod
    def of(cls, m: int) -> Data:
        """Return m rows, the same ones every time."""
        rng = np.random.default_rng(0)
        X, X_new = rng.uniform(-1, 1, size=(2, m, 2))
        y = np.sin(4 * X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=m)
        return cls(X, y, np.arange(m) // GROUP, X_new)

    @property
    def buffer(self) -> LeaveNeighbourhoodOut:
        """Hold out a disc of about `NEIGHBOURS` rows and test its centre."""
        radius = np.sqrt(4.0 * NEIGHBOURS / (np.pi * len(self.X)))
        return LeaveNeighbourhoodOut(self.X, radius)


MODEL = KernelRidge(kernel="rbf", gamma=GAMMA, alpha=ALPHA)


def fitted(data: Data, **params: Any) -> KernelRidgeCV:
    """Return our model of the rows, fitted."""
    params = {"gamma": GAMMA, "alphas": [ALPHA], "fit_intercept": False, **params}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GridEdgeWarning)  # scikit-learn has the same grid
        return KernelRidgeCV(**params).fit(data.X, data.y)


# -- each answer by a loop, and here ---------------------------------------------------------------


def jackknife_loop(data: Data) -> Floats:
    """Bounds of jackknife+ for as many new rows as there are rows."""
    m = len(data.X)
    low, high = np.empty((m, m)), np.empty((m, m))
    for train, (i,) in LeaveOneOut().split(data.X):
        model = clone(MODEL).fit(data.X[train], data.y[train])
        error = abs(data.y[i] - model.predict(data.X[[i]])[0])
        f = model.predict(data.X_new)
        low[i], high[i] = f - error, f + error
    rank = int(np.ceil(LEVEL * (m + 1)))
    if rank > m:
        return np.full((m, 2), [-np.inf, np.inf])
    return np.stack([np.sort(low, axis=0)[m - rank], np.sort(high, axis=0)[rank - 1]], axis=1)


def jackknife_here(data: Data) -> Floats:
    """Bounds of jackknife+."""
    return fitted(data).predict_interval(data.X_new, LEVEL)


def buffered_loop(data: Data) -> Floats:
    """Predictions by models without a neighbourhood, `cross_val_predict`."""
    return np.asarray(cross_val_predict(MODEL, data.X, data.y, cv=data.buffer))


def buffered_here(data: Data) -> Floats:
    """Predictions by models without a neighbourhood."""
    return fitted(data, cv=data.buffer).held_out().matrix()[0, :, 0]


def search_loop(data: Data) -> Floats:
    """Scores of nine penalties over spatial blocks, `GridSearchCV`."""
    blocks = SpatialBlocks(data.X, 0.25)
    search = GridSearchCV(
        MODEL, {"alpha": ALPHAS}, cv=blocks, scoring="neg_mean_squared_error", refit=True
    )
    return np.asarray(search.fit(data.X, data.y).cv_results_["mean_test_score"])


def search_here(data: Data) -> Floats:
    """Scores of nine penalties over spatial blocks."""
    blocks = SpatialBlocks(data.X, 0.25)
    model = fitted(data, alphas=ALPHAS, cv=blocks, pooled=False)
    return np.asarray(model.cv_results_["mean_test_score"])


def pairs_loop(data: Data) -> Floats:
    """Concordance of all pairs, both rows held out, `LeavePOut(2)`."""
    right = total = 0.0
    for train, (i, j) in LeavePOut(2).split(data.X):
        f = clone(MODEL).fit(data.X[train], data.y[train]).predict(data.X[[i, j]])
        if data.y[i] != data.y[j]:
            right += 0.5 * (1.0 + np.sign(f[0] - f[1]) * np.sign(data.y[i] - data.y[j]))
            total += 1.0
    return np.array([right / total])


def pairs_here(data: Data) -> Floats:
    """Concordance of all pairs."""
    return fitted(data).leave_pair_out().concordance


def influence_loop(data: Data) -> Floats:
    """Change of all fitted values when a group leaves, summed squares."""
    whole = clone(MODEL).fit(data.X, data.y).predict(data.X)
    found = []
    for train, _ in LeaveOneGroupOut().split(data.X, data.y, data.groups):
        f = clone(MODEL).fit(data.X[train], data.y[train]).predict(data.X)
        found.append(np.sum((whole - f) ** 2))
    return np.array(found) / np.max(found)


def influence_here(data: Data) -> Floats:
    """Cook's distances, which are those sums over the same number."""
    cook = fitted(data).influence(data.groups).cook
    return cook / cook.max()


def curve_loop(data: Data) -> Floats:
    """Errors of ten training sizes and ten splits, `learning_curve`."""
    *_, scores = learning_curve(
        MODEL,
        data.X,
        data.y,
        train_sizes=SHARES,
        cv=ShuffleSplit(10, random_state=0),
        scoring="neg_mean_squared_error",
    )
    return np.asarray(scores)


def curve_here(data: Data) -> Floats:
    """Errors of the same draws."""
    splits = list(ShuffleSplit(10, random_state=0).split(data.X))
    sizes = (SHARES * len(splits[0][0])).astype(int)
    every = np.arange(len(data.X))
    sets = [HoldOut(np.setdiff1d(every, train[:n]), test) for n in sizes for train, test in splits]
    held = fitted(data).held_out(sets)
    errors = [
        -np.mean((data.y[e.test] - f[0, :, 0]) ** 2)
        for e, f in zip(held.experiments, held.predictions, strict=True)
    ]
    return np.array(errors).reshape(sizes.size, len(splits))


Ask = Callable[[Data], Floats]
#: What it is called, the power of the rows that its loop takes, the loop, and here.
ANSWERS: dict[str, tuple[str, float, Ask, Ask]] = {
    "jackknife": ("jackknife+ for as many new rows", 4, jackknife_loop, jackknife_here),
    "buffer": ("leave-one-out with a buffer of 20 rows", 4, buffered_loop, buffered_here),
    "search": ("nine penalties over spatial blocks", 3, search_loop, search_here),
    "pairs": ("all pairs", 5, pairs_loop, pairs_here),
    "influence": ("influence of groups of 8 rows", 4, influence_loop, influence_here),
    "curve": ("learning curve, 10 sizes, 10 splits", 3, curve_loop, curve_here),
}
#: Where the doubling starts, and the share of the time from which on the growth is believed.
START, ENOUGH = 32, 1 / 30


def timed(ask: Ask, data: Data) -> tuple[float, Floats]:
    """Return seconds of the processor and the answer."""
    start = time.process_time()
    found = ask(data)
    return time.process_time() - start, found


def largest(ask: Ask, power: float, seconds: float) -> int:
    """Return the number of rows that the loop is expected to finish in time.

    Its time grows with this power of the number of rows in the end, and more slowly before.
    """
    m, taken = START, timed(ask, Data.of(START))[0]
    while True:
        again = timed(ask, Data.of(2 * m))[0]
        growth = 0.5 * (power + np.log2(max(again, 1e-9) / max(taken, 1e-9)))  # time ~ rows^growth
        m, taken = 2 * m, again
        if taken > ENOUGH * seconds:
            return max(START, int(m * (seconds / taken) ** (1.0 / growth)) // GROUP * GROUP)


def main(arguments: list[str] | None = None) -> list[dict[str, Any]]:
    """Print the table, and return its rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--answers", nargs="+", choices=ANSWERS, default=list(ANSWERS))
    options = parser.parse_args(arguments)
    print(f"{'answer':<40}{'rows':>7}{'loop, s':>10}{'here, s':>10}{'faster':>9}{'deviation':>11}")
    rows = []
    for name in options.answers:
        words, power, loop, here = ANSWERS[name]
        data = Data.of(largest(loop, power, options.seconds))
        slow, expected = timed(loop, data)
        fast, found = min((timed(here, data) for _ in range(3)), key=lambda pair: pair[0])
        finite = np.isfinite(expected)
        assert (np.isfinite(found) == finite).all()
        error = np.abs(found - expected)[finite].max(initial=0.0) / np.abs(expected)[finite].max(
            initial=1e-300
        )
        rows.append({"answer": name, "rows": len(data.X), "loop": slow, "here": fast})
        rows[-1]["deviation"] = float(error)
        print(
            f"{words:<40}{len(data.X):>7}{slow:>10.1f}{fast:>10.3f}{slow / fast:>9.0f}"
            f"{error:>11.0e}",
            flush=True,
        )
    return rows


if __name__ == "__main__":
    main()
