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
from holdfast.exceptions import InvalidInputError
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
    made, _ = _experiments(random_folds(by, K, [0, 0]))
    seconds = 0.0
    for model in models:
        tasks = model.model.tasks(made)
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
    whole = []  # of each partition: the mean over all rows
    folds = []  # of each fold k: mean and variance on the rows outside, and on its own rows
    for n in range(n_partitions):  # one by one: its folds are what all its sets are made of
        made, pair = _experiments(random_folds(fitted, K, [seed, n]))
        tested, source, values = predict(made)
        rows, (one, other) = tested.test.values, pair[source[tested.test.owners]].T
        fold = np.full(fitted.training.weights.size, -1)
        fold[rows[one == other]] = one[one == other]
        # Each prediction is of a row in fold `own`, by the model without that and fold `without`.
        own = fold[rows]
        without = np.where(own == one, other, one)
        single = own == without
        whole.append(mean_and_variance(values[single], rows[single])[0])
        for k in range(K):
            outside, inside = (without == k) & ~single, (without == k) & single
            inner = mean_and_variance(values[outside], rows[outside])
            folds.append((*inner, *mean_and_variance(values[inside], rows[inside])))
        report(n + 1, n_partitions, "random partitions")
    in_mean, plain, out_mean, outer = np.array(folds).swapaxes(0, 1)
    if np.isnan(outer).any():
        raise InvalidInputError(
            "every fold needs at least two rows, or groups, to have an error of its own. Use "
            "fewer n_splits.",
            argument="n_splits",
        )
    ncv, cv = in_mean.mean(axis=0), np.mean(whole, axis=0)
    bias = (1.0 + (K - 2) / K) * (ncv - cv)
    base = plain.mean(axis=0)  # of (K − 1)/K of the rows
    excess = np.maximum((np.square(in_mean - out_mean) - outer).mean(axis=0), 0.0)
    ratio = np.divide(excess, base, out=np.ones_like(base), where=base > 0)
    inflation = np.clip(np.sqrt(ratio), 1.0, np.sqrt(K))
    se = np.sqrt(base * (K - 1) / K) * inflation
    return Estimate(ncv - bias, se, bias=bias, inflation=inflation)


def _experiments(folds: list[IntArray]) -> tuple[Experiments, IntArray]:
    """Return experiments without one fold, and without two; which folds (n, 2) each is without."""
    pairs = list(combinations(range(len(folds)), 2))
    made = Ragged.from_arrays([*folds, *(np.append(folds[i], folds[j]) for i, j in pairs)])
    return Experiments(made, made), np.array([*((k, k) for k in range(len(folds))), *pairs])
