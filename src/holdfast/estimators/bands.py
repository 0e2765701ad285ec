"""Weights of several kernels: draws, and the best of them for each target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from holdfast._typing import FloatArray, IntArray
from holdfast.answers.problem import Goal, Problem
from holdfast.answers.rows import DataProvider, rows_with_kernel, warn_of_selection
from holdfast.data.values import require_numbers
from holdfast.estimators.search import Planned, together
from holdfast.exceptions import InvalidInputError
from holdfast.kernels import Kernel, Precomputed, Scaled, Sum
from holdfast.kernels.grid import Candidate
from holdfast.kernels.shared import distinct_parts, factors_and_parts
from holdfast.kernels.typical import total_eigenvalue
from holdfast.progress import report

__all__ = [
    "Bands",
    "TargetChoice",
    "checked_weights",
    "chosen_for_targets",
    "drawn_weights",
    "same_problem",
    "total_eigenvalues",
]

#: Weights below this share of all are none: a step along the logarithm never reaches zero.
NOTHING = 1e-4
#: How far steps may lead a weight, in either direction, and the penalty beyond its grid.


@dataclass(frozen=True, eq=False)
class Bands:
    """Kernels with names, and what divides each where weights are shares.

    Attributes
    ----------
    kernels : dict of str to Kernel
    units : ndarray of shape (kernels,)
        The mean variance that each kernel gives to a row; ones where weights are factors.
    """

    kernels: Mapping[str, Kernel]
    units: FloatArray

    @classmethod
    def of(
        cls,
        kernels: Mapping[str, Kernel],
        X: Any = None,
        weights: FloatArray | None = None,
        *,
        centred: bool = True,
        scaled: bool = False,
    ) -> Self:
        """Return kernels with their units on these rows, if they are to be scaled."""
        units = np.ones(len(kernels))
        if scaled and weights is not None:
            for b, kernel in enumerate(kernels.values()):
                total = total_eigenvalue(
                    rows_with_kernel(kernel, X, None), weights, centred=centred
                )
                units[b] = total / float(weights.sum())
        return cls(kernels, units)

    def candidate(self, weights: FloatArray) -> Candidate:
        """Return the sum with these weights; kernels of weight zero are left out."""
        parts = tuple(
            kernel if weight == unit else Scaled(kernel, float(weight / unit))
            for kernel, weight, unit in zip(self.kernels.values(), weights, self.units, strict=True)
            if weight > 0
        )
        kernel = parts[0] if len(parts) == 1 else Sum(parts)
        return Candidate(kernel, {"kernel": kernel, "weights": tuple(weights.tolist())})


def checked_weights(draws: ArrayLike, count: int) -> FloatArray:
    """Return a user's weights as (n, kernels), each row adding up to one."""
    values = np.atleast_2d(np.asarray(require_numbers("draws", draws), dtype=np.float64))
    if values.ndim != 2 or values.shape[1] != count or not len(values):
        raise InvalidInputError(
            f"draws must have one column for each of the {count} kernels; got shape "
            f"{np.shape(draws)}.",
            argument="draws",
        )
    if not np.isfinite(values).all() or values.min() < 0 or not (values.sum(axis=1) > 0).all():
        raise InvalidInputError(
            "draws must be finite and not negative, and some of each row positive.",
            argument="draws",
        )
    return np.asarray(values / values.sum(axis=1, keepdims=True))


def drawn_weights(count: int, n_draws: int, concentration: Any, seed: int) -> FloatArray:
    """Return the centre of the simplex, its corners, and random weights: (n_draws, kernels)."""
    levels = np.atleast_1d(np.asarray(require_numbers("concentration", concentration), dtype=float))
    if levels.ndim != 1 or not levels.size or not (np.isfinite(levels) & (levels > 0)).all():
        raise InvalidInputError(
            f"concentration must be positive numbers; got {concentration!r}.",
            argument="concentration",
        )
    if count == 1:
        return np.ones((1, 1))
    fixed = np.vstack([np.full((1, count), 1.0 / count), np.eye(count)])[:n_draws]
    rng = np.random.default_rng(seed)
    drawn = [
        rng.dirichlet(np.full(count, levels[i % levels.size])) for i in range(n_draws - len(fixed))
    ]
    weights = np.vstack([fixed, *drawn]) if drawn else fixed
    weights[weights < NOTHING] = 0.0
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def total_eigenvalues(problem: Problem, kernels: Sequence[Kernel | Precomputed]) -> FloatArray:
    """Return the sum of the eigenvalues of each kernel, which are sums of the same few."""
    parts = distinct_parts(kernels)
    assert parts is not None  # kernels of a mixture are functions of rows
    own = [
        total_eigenvalue(
            rows_with_kernel(part, problem.X, problem.basis), problem.weights, centred=problem.bias
        )
        for part in parts
    ]
    return np.array(
        [
            sum(factor * own[parts.index(part)] for factor, part in factors_and_parts(kernel))
            for kernel in kernels
            if isinstance(kernel, Kernel)
        ]
    )


def same_problem(problem: Problem) -> dict[str, Any]:
    """Return the parameters of a `KernelRidgeCV` that has this problem when fitted to its rows."""
    trend = None
    if problem.trend is not None:
        trend = problem.trend.function or list(problem.trend.columns or ())
    return {
        "cv": problem.experiments,
        "basis": problem.basis,
        "held_out_basis": problem.policy,
        "fit_intercept": problem.bias,
        "trend": trend,
        "jitter": problem.jitter,
        "path": problem.path,
        "memory_limit": problem.memory,
        "random_state": problem.seed,
    }


# -- weights for each target -----------------------------------------------------------------------


class TargetChoice(NamedTuple):
    """What each target chose.

    Attributes
    ----------
    draw : ndarray of int, shape (v,)
    alpha : ndarray of int, shape (v,)
        Its place in the grid.
    """

    draw: IntArray
    alpha: IntArray


def chosen_for_targets(
    problem: Problem,
    candidates: Sequence[Candidate],
    alphas: FloatArray,
    goal: Goal,
) -> TargetChoice:
    """Return the best draw of each target, with a penalty of its own or one for all.

    Notes
    -----
    One factorisation for each draw. Beside it only the best score so far of each penalty and
    target is kept, and which draw that was.
    """
    v, each_target = problem.Y.shape[1], replace(goal, per_target=True)
    best, draw = np.full((alphas.size, v), -np.inf), np.zeros((alphas.size, v), dtype=np.int64)
    provider = DataProvider(problem, candidates)
    warn_of_selection(problem, provider.selector)
    waiting, count = list(candidates), 1
    while waiting:
        i = len(candidates) - len(waiting)
        report(i, len(candidates), "kernels")
        some = [Planned.of(provider, each_target, c, alphas.size) for c in waiting[:count]]
        for k, found in enumerate(together(some, [alphas] * len(some))):
            each = found.per_target if goal.pooled else found.per_target_mean
            if each is None:  # one target
                each = (found.pooled if goal.pooled else found.mean)[:, None]
            better = each > best
            best[better], draw[better] = each[better], i + k
        count = some[0].at_once()
        del waiting[: len(some)]
    if not np.isfinite(best.max(axis=0)).all():
        raise InvalidInputError(
            "the score of some target is undefined for every penalty and every weight; choose "
            "another scoring.",
            argument="scoring",
        )
    index = best.argmax(axis=0)
    if not goal.per_target:
        index = np.full(v, int(best.mean(axis=1).argmax()))
    return TargetChoice(draw[index, np.arange(v)], index)
