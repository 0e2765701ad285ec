"""Weights of several kernels: draws, steps along the gradient, and what a kernel is worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from holdfast._typing import AnyArray, FloatArray, IntArray
from holdfast.answers.model import Model, make_model
from holdfast.answers.problem import Goal, Problem
from holdfast.answers.rows import DataProvider, rows_with_kernel, warn_of_selection
from holdfast.data.frames import make_frame
from holdfast.data.values import require_numbers
from holdfast.estimators.search import Planned, together
from holdfast.exceptions import InvalidInputError
from holdfast.kernels import Constant, Kernel, Precomputed, Scaled, Sum
from holdfast.kernels.base import Pullback
from holdfast.kernels.grid import Candidate
from holdfast.kernels.products import RowPair
from holdfast.kernels.shared import distinct_parts, factors_and_parts
from holdfast.kernels.typical import total_eigenvalue
from holdfast.progress import report

__all__ = [
    "Bands",
    "KernelImportance",
    "TargetChoice",
    "checked_weights",
    "chosen_for_targets",
    "drawn_weights",
    "importance",
    "same_problem",
    "stepped_weights",
    "total_eigenvalues",
]

#: Weights below this share of all are none: a step along the logarithm never reaches zero.
NOTHING = 1e-4
#: Where steps start from a weight of zero, they start from this share.
LEAST = 1e-2
#: How far steps may lead a weight, in either direction, and the penalty beyond its grid.
FARTHEST, BEYOND = np.log(1e5), np.log(1e2)
#: Penalties that are looked at before the first step.
FIRST_LOOKS = 8


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


# -- steps along the gradient ----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Fixed(Kernel):
    """A kernel whose parameters stay, and whose matrices are kept."""

    kernel: Kernel
    known: dict[int, tuple[RowPair, FloatArray]] = field(default_factory=dict)
    _has_pullback: ClassVar[bool] = True

    def _own_parameters(self) -> dict[str, Any]:
        return {}

    def __call__(self, X: Any, Z: Any = None) -> FloatArray:
        return self.kernel(X, Z)

    def diag(self, X: Any) -> FloatArray:
        return self.kernel.diag(X)

    def _pulled(self, pair: RowPair) -> tuple[FloatArray, Pullback]:
        if id(pair) not in self.known:  # the pair is kept too, so that its id stays its own
            self.known[id(pair)] = pair, self.kernel(pair.X, pair.Z)
        return self.known[id(pair)][1], lambda P: {}


def stepped_weights(
    problem: Problem, bands: Bands, start: FloatArray, alphas: FloatArray, n_steps: int
) -> FloatArray:
    """Return weights with a smaller held-out squared error than where they start.

    Parameters
    ----------
    problem : Problem
    bands : Bands
    start : ndarray of shape (kernels,)
        Weights to start from; those of zero start from a small share.
    alphas : ndarray of shape (a,)
        The grid of penalties; the best of a few of them, evenly spaced, is where steps start.
    n_steps : int
        At most this many evaluations of the gradient.

    Notes
    -----
    L-BFGS on log α and log w_b, which share one scale: the first weight stays as it is.
    """
    from holdfast.tuning.criterion import Criterion
    from holdfast.tuning.minimise import Run

    weights = np.maximum(start, LEAST)
    weights /= weights.sum()
    kernel = Sum(
        tuple(
            Scaled(_Fixed(own), float(weight / unit))
            for own, weight, unit in zip(bands.kernels.values(), weights, bands.units, strict=True)
        )
    )
    criterion = Criterion.on(problem, kernel)
    first = np.array([np.log(kernel.parameters[name]) for name in criterion.coordinates.names])
    some = alphas[np.unique(np.linspace(0, alphas.size - 1, FIRST_LOOKS).astype(int))]
    points = [np.append(np.log(alpha), first) for alpha in some]
    limits = np.column_stack([points[0] - FARTHEST, points[0] + FARTHEST])
    limits[0] = np.log(alphas[0]) - BEYOND, np.log(alphas[-1]) + BEYOND
    run = Run(criterion, limits, len(points) + n_steps)
    run.search(run.descend, points, n_starts=1)
    assert run.best is not None
    made = criterion.coordinates.kernel_at(run.best[0])
    factors = np.array([factor for factor, _ in factors_and_parts(made)])
    found = factors * bands.units
    found[found < NOTHING * found.sum()] = 0.0
    return np.asarray(found / found.sum())


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


# -- what a kernel is worth ------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class KernelImportance:
    """What each kernel of a sum adds to the held-out R².

    Attributes
    ----------
    names : ndarray of shape (kernels,)
    weights : ndarray of shape (kernels,) or (kernels, v)
        Shares of the kernels in the sum.
    r2 : ndarray of shape (v,)
        Held-out R² of each target with all kernels.
    r2_without : ndarray of shape (kernels, v)
        The same without one kernel; the others and the penalty are unchanged.
    """

    names: AnyArray
    weights: FloatArray
    r2: FloatArray
    r2_without: FloatArray

    @property
    def delta(self) -> FloatArray:
        """R² with all kernels minus R² without one, shape (kernels, v)."""
        return np.asarray(self.r2 - self.r2_without)

    def to_frame(self, library: str | None = None) -> Any:
        """Return a table: kernel, target, weight, R², R² without the kernel, and the difference.

        Parameters
        ----------
        library : {"pandas", "polars"} or None
            Whose frame; None: pandas.
        """
        B, v = self.r2_without.shape
        weights = self.weights if self.weights.ndim == 2 else np.repeat(self.weights[:, None], v, 1)
        columns: dict[str, AnyArray] = {
            "kernel": np.repeat(self.names, v),
            "target": np.tile(np.arange(v), B),
            "weight": weights.ravel(),
            "r2": np.tile(self.r2, B),
            "r2_without": self.r2_without.ravel(),
            "delta": self.delta.ravel(),
        }
        return make_frame(columns, library)


def importance(
    model: Model, kernel: Kernel, kernels: Sequence[Kernel], alphas: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return held-out R² (v,) of a model, and of those without one of some kernels (kernels, v)."""
    full = _held_out_r2(model, alphas)
    without = np.empty((len(kernels), full.size))
    terms = factors_and_parts(kernel)
    for b, gone in enumerate(kernels):
        left = tuple(Scaled(part, factor) for factor, part in terms if part != gone)
        if len(left) == len(terms):
            without[b] = full
            continue
        without[b] = _held_out_r2(_with_kernel(model, left, alphas), alphas)
        report(b + 1, len(kernels), "kernels left out")
    return full, without


def _with_kernel(model: Model, terms: tuple[Kernel, ...], alphas: FloatArray) -> Model:
    """Return the model of a sum; without any term, that of the unpenalised columns alone."""
    kernel, problem = Sum(terms or (Constant(1e-12 * float(alphas.min())),)), model.problem
    return make_model(problem, kernel, None, model.basis, model.selector)


def _held_out_r2(model: Model, alphas: FloatArray) -> FloatArray:
    """Return the held-out R² of each target at its penalty."""
    tasks = model.tasks(model.problem.experiments)
    rows = tasks.test.values
    f, y = model.at(tasks, alphas), model.problem.Y[rows]
    w = model.problem.weights[rows][:, None]
    centre = (w * y).sum(axis=0) / w.sum()
    return np.asarray(1.0 - (w * (y - f) ** 2).sum(axis=0) / (w * (y - centre) ** 2).sum(axis=0))
