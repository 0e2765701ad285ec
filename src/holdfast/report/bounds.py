"""Jackknife+ bounds of held-out rows: what `predict_interval` would have given for each.

The bounds of a row that experiment a holds out come from models trained without a and without one
other experiment b at a time: f₋ab(x) ± |r_j| for the rows j that b tests, r_j by the same model
(Barber, Candès, Ramdas & Tibshirani 2021; whole groups: Lee, Barber & Willett 2023). These are the
jackknife+ bounds of the model that never saw a, so that the share of rows inside them is an honest
check. Where there are many experiments, each meets some of the others, drawn at random: rows that
serve for the bounds are exchangeable, and fewer of them are as valid as all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from holdfast._typing import FloatArray, IntArray
from holdfast.answers.intervals import Quantiles, counted_rows, group_shares
from holdfast.answers.units import held_out_units
from holdfast.exceptions import NotSupportedError
from holdfast.experiments import Experiments, Ragged

if TYPE_CHECKING:
    from holdfast.estimators.base import CrossValidatedKernelRidge

__all__ = ["held_out_bounds", "meetings"]

#: Other experiments that each one meets at most, and at least where there are more; rows of one
#: experiment that serve for the bounds of another.
PARTNERS, FEWEST, ROWS = 100, 20, 2000
#: Seconds of a multiplication in large products, in thin ones, and of one more model.
_THICK, _THIN, _MODEL = 1e-10, 6e-8, 2e-5


def held_out_bounds(
    model: CrossValidatedKernelRidge,
    levels: tuple[float, ...],
    *,
    target: int = 0,
    seed: int = 0,
    seconds: float = np.inf,
) -> FloatArray:
    """Return jackknife+ bounds (k, 2, levels) of the rows that the experiments of `fit` test.

    Parameters
    ----------
    model : fitted regressor
    levels : tuple of float
        How often the bounds should hold.
    target : int
        Which of several targets.
    seed : int
        Of the draw of experiments that meet.
    seconds : float
        What it may take, roughly.

    Returns
    -------
    ndarray of shape (k, 2, levels)
        Infinite where too few rows serve for a level.

    Raises
    ------
    HoldOutError
        If rows are tested twice or never, or two experiments together leave nothing to train on.
    NotSupportedError
        If it would take longer, or basis rows are chosen again in every experiment.
    """
    problem, fitted = model._problem, model._fitted_model()
    every = problem.experiments
    tasks = fitted.tasks(every)
    counted_rows(tasks, problem.weights, skipped=False)
    if problem.reselects:
        raise NotSupportedError("basis rows are chosen again in every experiment.")
    rng = np.random.default_rng(seed)
    first, second = _meetings(every, fitted.smoother.sizes(tasks).p, seconds, rng)
    test = _joined(every.test, first, second)
    alpha = float(np.atleast_1d(model.alpha_)[min(target, np.size(model.alpha_) - 1)])
    found = model.held_out(
        Experiments(_joined(every.held_out, first, second, once=True), test), alphas=[alpha]
    )
    values, rows = found.values[0, :, target], test.values
    off = np.abs(found.y[rows, target] - values)
    used = problem.weights > 0
    units = held_out_units(every, problem.groups, used.size, used)
    ends = _ends(test.ptr, every.test.sizes, first, second)
    made = np.empty((every.test.values.size, 2, len(levels)))
    for a, (own, other) in enumerate(ends):
        # Meetings that serve, cut to those of positive weight and to a number that is enough.
        most = max(1, ROWS // len(own))
        kept = [_drawn(part, problem.weights[rows], most, rng) for part in other]
        at = np.concatenate(kept)
        quantiles = Quantiles(levels, at.size, group_shares(units, rows[at]))
        centre = values[np.stack(own)][np.repeat(np.arange(len(own)), [k.size for k in kept])].T
        place = slice(every.test.ptr[a], every.test.ptr[a + 1])
        made[place, 0] = quantiles.lower(centre - off[at])
        made[place, 1] = quantiles.upper(centre + off[at])
    return made


def meetings(every: Experiments, p: int, seconds: float) -> tuple[int, float]:
    """Return how many others each experiment meets, none if that would take long; and seconds.

    Parameters
    ----------
    every : Experiments
    p : int
        Features of the model; of a dense one its rows.
    seconds : float
        What it may take.
    """
    n, h = len(every), 2.0 * every.held_out.sizes.mean()
    each = _THICK * h * h * (h + p) + _THIN * h * p + _MODEL
    partners = int(min(n - 1, PARTNERS, 2 * seconds / (each * n)))
    if partners < min(n - 1, FEWEST):
        return 0, 0.0
    return partners, partners * n / 2 * each


def _meetings(
    every: Experiments, p: int, seconds: float, rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """Return pairs of experiments: all, or each with as many others in a random ring."""
    n, partners = len(every), meetings(every, p, seconds)[0]
    if not partners:
        raise NotSupportedError("it would take long.")
    if partners == n - 1:
        first, second = np.triu_indices(n, 1)
        return first.astype(np.int64), second.astype(np.int64)
    order = rng.permutation(n)
    step = np.arange(1, partners // 2 + 1)
    at = (np.arange(n)[:, None] + step) % n
    return np.repeat(order, step.size), order[at.ravel()]


def _joined(items: Ragged, first: IntArray, second: IntArray, *, once: bool = False) -> Ragged:
    """Return the items of each pair end to end; `once`: rows that both hold, once."""
    where = np.stack([first, second], axis=1).ravel()
    both = items.items(where)
    joined = Ragged(both.values, both.ptr[::2])
    if once and np.bincount(items.values).max() > 1:
        return Ragged.from_arrays(np.unique(joined[j]) for j in range(len(joined)))
    return joined


def _ends(
    ptr: IntArray, sizes: IntArray, first: IntArray, second: IntArray
) -> list[tuple[list[IntArray], list[IntArray]]]:
    """Return for each experiment where its own test rows and the others' stand, by meeting."""
    ends: list[tuple[list[IntArray], list[IntArray]]] = [([], []) for _ in sizes]
    for j, (a, b) in enumerate(zip(first.tolist(), second.tolist(), strict=True)):
        of_a = np.arange(ptr[j], ptr[j] + sizes[a])
        of_b = np.arange(ptr[j] + sizes[a], ptr[j + 1])
        for e, own, other in ((a, of_a, of_b), (b, of_b, of_a)):
            ends[e][0].append(own)
            ends[e][1].append(other)
    return ends


def _drawn(at: IntArray, weights: FloatArray, most: int, rng: np.random.Generator) -> IntArray:
    at = at[weights[at] > 0]
    return at if at.size <= most else np.sort(rng.choice(at, most, replace=False))
