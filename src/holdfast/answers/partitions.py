"""The error of cross-validation from random partitions (Bates, Hastie & Tibshirani 2024).

Many random partitions into K folds; within each, the K(K − 1)/2 models without two folds show how
far an inner cross-validation estimate lies from the error on the rows left out of it. A model
without two folds is a held-out model: sums of Gram matrices again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np

from holdfast._typing import AnyArray, FloatArray, IntArray
from holdfast.answers.fitted import Fitted
from holdfast.core.experiments import Experiments, Ragged
from holdfast.exceptions import HoldOutError, InvalidInputError
from holdfast.progress import report
from holdfast.scores.errors import Estimate

__all__ = ["nested_estimate", "partitions", "planned_seconds", "random_folds"]


def random_folds(fitted: Fitted, n_splits: int, seed: Sequence[int]) -> list[IntArray]:
    """Return the rows of each fold of a random partition of the units of a fitted model."""
    training = fitted.training
    labels = None if fitted.objective.classes is None else training.labels
    return partitions(fitted.units.code, labels, training.weights, n_splits, seed)


def partitions(
    unit: IntArray,
    labels: AnyArray | None,
    weights: FloatArray,
    n_splits: int,
    seed: int | Sequence[int],
) -> list[IntArray]:
    """Return the rows of each fold of a random partition of the rows that have weight.

    Rows of one unit stay together. Where units are rows, classes are spread evenly over the folds.
    """
    rng, live = np.random.default_rng(seed), np.flatnonzero(weights > 0)
    codes, first = np.unique(unit[live], return_index=True)
    if codes.size < n_splits:
        raise InvalidInputError(
            f"n_splits must be at most the number of rows, or groups, with weight ({codes.size}); "
            f'got {n_splits}. Use fewer n_splits, or method="asymptotic".',
            argument="n_splits",
        )
    order = rng.permutation(codes.size)
    if labels is not None and codes.size == live.size:
        order = order[np.argsort(labels[live[first]][order], kind="stable")]
    fold = np.empty(codes.size, dtype=np.int64)
    # Where the deal starts is random as well: no fold gets all the remainders.
    fold[order] = rng.permutation(n_splits)[np.arange(codes.size) % n_splits]
    of_row = fold[np.searchsorted(codes, unit[live])]
    return [live[of_row == k] for k in range(n_splits)]


def planned_seconds(by: Fitted, models: Sequence[Fitted], K: int, n_partitions: int) -> float:
    """Return about how long random partitions of `by` take: the same on every machine."""
    made = Ragged.from_arrays(_sets(random_folds(by, K, [0, 0]), list(combinations(range(K), 2))))
    seconds = 0.0
    for model in models:
        tasks = model.model.tasks(Experiments(made, made))
        plan = model.model.plan(tasks, np.unique(model.alphas).size, n_partitions)
        seconds += sum(cost.seconds for cost in plan.costs if cost.path == plan.path)
    return n_partitions * seconds


def nested_estimate(
    fitted: Fitted,
    predict: Callable[[Experiments], tuple[Experiments, IntArray, FloatArray]],
    mean_and_variance: Callable[[FloatArray, IntArray], tuple[FloatArray, FloatArray]],
    K: int,
    n_partitions: int,
    seed: int,
) -> Estimate:
    """Return the estimate of Bates, Hastie and Tibshirani (2024), Algorithm 1 and section 4.3.

    Parameters
    ----------
    fitted : Fitted
    predict : callable
        From experiments to what was tested, of which experiment, and predictions (k, v).
    mean_and_variance : callable
        From predictions and their rows to the mean (c,) over rows and its plain variance.
    K, n_partitions, seed : int
    """
    if K < 3:
        raise InvalidInputError(
            f'method="nested" needs n_splits of at least 3, to leave two folds out; got {K}.',
            argument="method",
        )
    pairs = list(combinations(range(K), 2))
    inner: list[FloatArray] = []  # for each outer fold: the mean of the inner values,
    outer: list[FloatArray] = []  # the variance of the mean of its own, …
    squares: list[FloatArray] = []
    plain: list[FloatArray] = []
    whole: list[FloatArray] = []
    for n in range(n_partitions):  # one by one: its folds are what all its sets are made of
        folds = random_folds(fitted, K, [seed, n])
        made = Ragged.from_arrays(_sets(folds, pairs))
        tested, source, values = predict(Experiments(made, made))
        of = _by_model(tested, source, values, K, pairs, folds)
        rows, predictions = zip(*(of[k, k] for k in range(K)), strict=True)
        whole.append(mean_and_variance(np.concatenate(predictions), np.concatenate(rows))[0])
        for k in range(K):
            others = [of[j, k] for j in range(K) if j != k]
            in_mean, in_variance = mean_and_variance(
                np.concatenate([p for _, p in others]), np.concatenate([r for r, _ in others])
            )
            out_mean, out_variance = mean_and_variance(of[k, k][1], of[k, k][0])
            inner.append(in_mean)
            outer.append(out_variance)
            squares.append(np.square(in_mean - out_mean))
            plain.append(in_variance)
        report(n + 1, n_partitions, "random partitions")
    if np.isnan(outer).any():
        raise InvalidInputError(
            "every fold needs at least two rows, or groups, to have an error of its own. Use "
            "fewer n_splits.",
            argument="n_splits",
        )
    ncv, cv = np.mean(inner, axis=0), np.mean(whole, axis=0)
    bias = (1.0 + (K - 2) / K) * (ncv - cv)
    base = np.mean(plain, axis=0)  # of (K − 1)/K of the rows
    excess = np.maximum(np.mean(squares, axis=0) - np.mean(outer, axis=0), 0.0)
    ratio = np.divide(excess, base, out=np.ones_like(base), where=base > 0)
    inflation = np.clip(np.sqrt(ratio), 1.0, np.sqrt(K))
    se = np.sqrt(base * (K - 1) / K) * inflation
    return Estimate(ncv - bias, se, bias=bias, inflation=inflation)


def _sets(folds: list[IntArray], pairs: list[tuple[int, int]]) -> list[IntArray]:
    """Return the folds, and the unions of two."""
    return [*folds, *(np.concatenate([folds[i], folds[j]]) for i, j in pairs)]


def _by_model(
    tested: Experiments,
    source: IntArray,
    values: FloatArray,
    K: int,
    pairs: list[tuple[int, int]],
    folds: list[IntArray],
) -> dict[tuple[int, int], tuple[IntArray, FloatArray]]:
    """Return (test rows, predictions) of fold i by the model without folds i and j."""
    fold_of = np.empty(max(int(rows.max()) for rows in folds) + 1, dtype=np.int64)
    for k, rows in enumerate(folds):
        fold_of[rows] = k
    place = {int(number): j for j, number in enumerate(source)}
    ptr, rows_of = tested.test.ptr, tested.test
    found = {}
    for number, (i, j) in enumerate([*((k, k) for k in range(K)), *pairs]):
        at = place.get(number)
        if at is None:  # held_out_basis="skip" left nothing to test
            raise HoldOutError(
                "a fold of a random partition has no row to test: all its rows are basis rows. "
                "Use fewer n_splits.",
                argument="n_splits",
            )
        rows, part = rows_of[at], values[ptr[at] : ptr[at + 1]]
        mine = fold_of[rows] == i
        found[i, j] = rows[mine], part[mine]
        if i != j:
            found[j, i] = rows[~mine], part[~mine]
    return found
