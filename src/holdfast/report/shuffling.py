"""Held-out losses with each column shuffled among the held-out rows.

Each held-out row is predicted by the model that never saw it, first as it is, then with the values
of one column taken from another held-out row: permutation importance (Breiman 2001; Fisher, Rudin &
Dominici 2019) of held-out models. These are coefficients (`holdfast.holdout.models`), and shuffled
rows are new rows to them. If many more rows are held out than there are features, training a model
is faster than deriving it, and it is trained.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from holdfast._typing import BoolArray, FloatArray, IntArray
from holdfast.experiments import Tasks
from holdfast.holdout.models import HeldOutModels, predict_with

if TYPE_CHECKING:
    from holdfast.answers.held_out import HeldOutPredictions
    from holdfast.estimators.base import CrossValidatedKernelRidge

__all__ = ["Shuffle", "plan_shuffle", "rises", "shuffled_losses"]

#: Multiplications for the held-out models, and for their predictions; what a kernel value costs
#: beside its columns.
MOST_WORK, KERNEL_VALUE = 1e10, 20
#: Shuffles where there is time for all rows, and at least; rows at least, where there are more.
SHUFFLES, FEWEST, LEAST_ROWS = 5, 2, 100


@dataclass(frozen=True, eq=False)
class Shuffle:
    """Held-out rows, made as they are and then with each column shuffled in turn.

    Rows are made a slice at a time, as `HeldOutModels.predict` asks for them.
    """

    X: FloatArray
    columns: Sequence[IntArray]  #: The features that change rows together
    tasks: Tasks  #: The held-out models
    rows: IntArray  #: Rows to predict, and the task of each
    owner: IntArray
    donors: IntArray  #: The row that gives its value
    trained: bool  #: Whether the models are trained again

    @property
    def shape(self) -> tuple[int, int]:
        """Rows of all blocks: as they are, then the shuffles of each column; and features."""
        return (1 + len(self.columns) * len(self.donors)) * self.rows.size, self.X.shape[1]

    def __getitem__(self, part: slice) -> FloatArray:
        block, at = np.divmod(np.arange(part.start, part.stop), self.rows.size)
        made = self.X[self.rows[at]]
        for b in np.unique(block[block > 0]).tolist():
            column, shuffle = divmod(b - 1, len(self.donors))
            mine, features = np.flatnonzero(block == b), self.columns[column]
            donors = self.donors[shuffle, at[mine]]
            made[mine[:, None], features] = self.X[donors[:, None], features]
        return made


def plan_shuffle(
    model: CrossValidatedKernelRidge, columns: Sequence[IntArray], seed: int, patience: float = 1.0
) -> Shuffle | None:
    """Return as many held-out rows and shuffles as a report has time for; None: too few.

    Parameters
    ----------
    model : fitted estimator
    columns : sequence of ndarray of int
        The features that change rows together.
    seed : int
        Of shuffles, and of experiments and rows where not all are taken.
    patience : float
        How much more work than by default is allowed.
    """
    most = MOST_WORK * patience
    problem, fitted = model._problem, model._fitted_model()
    rng = np.random.default_rng(seed)
    every = fitted.tasks(problem.experiments)
    sizes = fitted.smoother.sizes(every)
    each = problem.X.shape[1] + KERNEL_VALUE + (sizes.p if sizes.form == "features" else 0)
    h, order = every.held.sizes.astype(float), rng.permutation(len(every))
    costs, retrain = h * h * (h + sizes.p), float(sizes.m) * sizes.p * each
    trained = sizes.form == "features" and retrain < costs.mean()
    chosen = order[np.cumsum(np.full(h.size, retrain) if trained else costs[order]) <= most]
    if not chosen.size or problem.reselects:
        return None
    tasks = every.select(np.sort(chosen))
    counted = np.flatnonzero(problem.weights[tasks.test.values] > 0)

    def work(rows: int, shuffles: int) -> float:
        models = 1 if trained else min(len(tasks), rows)
        per_row = float(sizes.p) * (each + sizes.v * models)
        return float((1 + len(columns) * shuffles) * rows * per_row)

    # More rows tell more than more shuffles of the same rows.
    k, shuffles = counted.size, SHUFFLES
    while shuffles > FEWEST and work(k, shuffles) > most:
        shuffles -= 1
    while k and work(k, shuffles) > most:
        k = 9 * k // 10
    if k < max(4, min(counted.size, LEAST_ROWS)):
        return None
    picked = np.sort(rng.permutation(counted)[:k])
    used, owner = np.unique(tasks.test.owners[picked], return_inverse=True)
    rows = tasks.test.values[picked]
    different, place = np.unique(rows, return_inverse=True)
    donors = [_next_in_a_ring(different, rng)[place] for _ in range(shuffles)]
    return Shuffle(problem.X, columns, tasks.select(used), rows, owner, np.stack(donors), trained)


def _next_in_a_ring(rows: IntArray, rng: np.random.Generator) -> IntArray:
    """Return for each row the next one in a random ring: none keeps its own value."""
    order = rng.permutation(rows.size)
    donors = np.empty_like(rows)
    donors[order] = rows[np.roll(order, -1)]
    return donors


def shuffled_losses(
    model: CrossValidatedKernelRidge, held: HeldOutPredictions, shuffle: Shuffle, target: int
) -> tuple[FloatArray, FloatArray]:
    """Return losses (k,) of rows as they are, and means over shuffles (columns, k).

    A loss is a squared error, or 1 where a class is wrong.

    Parameters
    ----------
    model : fitted estimator
    held : HeldOutPredictions
        At the penalty of the models.
    shuffle : Shuffle
    target : int
        Which of several targets.
    """
    k, v = shuffle.rows.size, model._problem.Y.shape[1]
    values = _predictions(model, shuffle, np.full(v, float(held.alphas[0]))).reshape(-1, k, v)
    if held.classes is None:
        losses = np.square(values[:, :, target] - held.y[shuffle.rows, target])
    else:
        wrong = replace(held, values=values).labels() != held.y[shuffle.rows]
        losses = wrong.astype(np.float64)
    return losses[0], losses[1:].reshape(len(shuffle.columns), -1, k).mean(axis=1)


def _predictions(
    model: CrossValidatedKernelRidge, shuffle: Shuffle, alphas: FloatArray
) -> FloatArray:
    """Return predictions (rows of all blocks, v), each by the model of its own experiment."""
    fitted, k = model._fitted_model(), shuffle.rows.size
    values = np.empty((shuffle.shape[0], alphas.size))
    if shuffle.trained:
        smoother = fitted.smoother
        by_block = values.reshape(-1, k, alphas.size)
        for j, own, factor, coefficients in _Trained(smoother, shuffle.tasks, alphas).retrained():
            mine = np.flatnonzero(shuffle.owner == j)
            part = replace(shuffle, rows=shuffle.rows[mine], donors=shuffle.donors[:, mine])
            model_of = own.outputs(factor), coefficients * smoother.targets.unit
            found = predict_with(part, model_of)
            by_block[:, mine] = found.reshape(-1, mine.size, alphas.size)
        return values
    for rows, found in fitted.held_models(shuffle.tasks, alphas).predict(shuffle):
        at = np.arange(rows.start, rows.stop)
        values[rows] = found[:, at - rows.start, shuffle.owner[at % k]].T
    return values


class _Trained(HeldOutModels):
    """Held-out models that are all trained again."""

    @cached_property
    def again(self) -> BoolArray:
        return np.ones(len(self), dtype=bool)


def rises(
    before: FloatArray, after: FloatArray, weights: FloatArray, unit: IntArray, *, root: bool
) -> tuple[float, FloatArray, FloatArray]:
    """Return the error, its rises (n,), and their standard errors over independent units.

    Parameters
    ----------
    before, after : ndarray of shape (k,) and (n, k)
        Losses as they are, and with each column shuffled.
    weights : ndarray of shape (k,)
    unit : ndarray of int, shape (k,)
        What each loss belongs to, counted from 0: units are independent, their losses are not.
    root : bool
        Whether the error is the root of the mean loss.

    Notes
    -----
    The difference of two roots, √b − √a, by its linear part: a loss ℓ moves √a by (ℓ − a)/(2√a).
    """
    share = weights / weights.sum()
    losses = np.vstack([before, after])
    means = losses @ share
    moved = (losses - means[:, None]) * share
    if root:
        means = np.sqrt(means)
        moved /= np.where(means > 0, 2 * means, 1.0)[:, None]
    n = int(unit.max()) + 1
    sums = np.array([np.bincount(unit, row, n) for row in moved[1:] - moved[0]])
    factor = n / (n - 1) if n > 1 else np.nan
    return float(means[0]), means[1:] - means[0], np.sqrt(factor * np.square(sums).sum(axis=1))
