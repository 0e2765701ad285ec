"""The data behind a criterion: rows, targets and experiments, prepared once for all widths.

Rows without weight are neither trained on nor counted, so they are left out, except as basis rows.
The experiments become stacks of tasks of one shape, because every evaluation goes through them.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from holdfast._typing import FloatArray, IntArray, RowData
from holdfast.answers.problem import Problem as FitProblem
from holdfast.answers.rows import choose_basis, rows_with_kernel
from holdfast.basis import Points
from holdfast.basis.resolve import as_selector
from holdfast.data.rows import take_rows
from holdfast.estimators.base import CrossValidatedKernelRidge
from holdfast.exceptions import (
    HoldOutError,
    InvalidInputError,
    NotSupportedError,
    SelectionBiasWarning,
)
from holdfast.experiments import Experiments, Ragged, Shape, Tasks, resolve
from holdfast.kernels import Kernel, Precomputed
from holdfast.scores.scoring import resolve_scoring
from holdfast.smoother import Unpenalised
from holdfast.tuning.coordinates import n_kernels
from holdfast.tuning.goals import GOALS, Goal

__all__ = ["Block", "Problem", "make_problem"]

#: Doubles that the held-out rows of one stack of tasks may take.
STACK_DOUBLES = 2**21


@dataclass(frozen=True)
class Block:
    """Tasks of one shape, stacked.

    Attributes
    ----------
    shape : Shape
        Rows held out and tested, positions in the basis that are removed.
    where : ndarray of int, shape (b, t), or None
        Places in H of the rows that are tested; None: all of H, in order.
    distinct : bool
        Whether no row is in two of the held-out sets.
    """

    shape: Shape
    where: IntArray | None
    distinct: bool

    @property
    def H(self) -> IntArray:
        """Held-out rows (b, h)."""
        return self.shape.H

    @property
    def source(self) -> IntArray:
        """The experiments (b,)."""
        return self.shape.index

    def tested(self, values: FloatArray) -> FloatArray:
        """Return the values (b, t, v) of the tested rows among those of H (b, h, v)."""
        if self.where is None:
            return values
        return np.asarray(np.take_along_axis(values, self.where[:, :, None], axis=1))

    def scattered(self, values: FloatArray) -> FloatArray:
        """Return (b, h, v) with values (b, t, v) at the tested rows of H and zero elsewhere."""
        if self.where is None:
            return values
        spread = np.zeros((*self.H.shape, values.shape[2]))
        np.put_along_axis(spread, self.where[:, :, None], values, axis=1)
        return spread


@dataclass(frozen=True, eq=False)
class Problem:
    """Rows, targets and experiments of a model whose kernel and penalty are still to be found.

    Attributes
    ----------
    kernel : Kernel
        The family of kernels.
    X : rows of shape (m, d)
        Rows with weight.
    Z : rows of shape (n, d) or None
        Basis rows; None for a dense model.
    Y : ndarray of shape (m, v)
        Targets, without their weighted mean if there is a bias.
    weights : ndarray of shape (m,)
    bias : bool
    jitter : float
        ε relative to the mean diagonal of K_BB.
    tasks : Tasks
        Experiments after the policy for basis rows, in the row numbers of X.
    blocks : tuple of Block
    counts : ndarray of shape (m,)
        How much each row counts where it is tested: its weight, or one.
    basis : ndarray of int or None
        Basis rows, numbered as the user's rows.
    experiments : Experiments
        As the user gave them.
    estimator : estimator
        One with the user's parameters.
    codes : ndarray of shape (all rows, v)
        Targets as given; ±1 for a classifier.
    goal : Goal
        What is minimised.
    """

    kernel: Kernel
    X: RowData
    Z: RowData | None
    Y: FloatArray
    weights: FloatArray
    bias: bool
    jitter: float
    tasks: Tasks
    blocks: tuple[Block, ...]
    counts: FloatArray
    basis: IntArray | None
    experiments: Experiments
    estimator: Any
    codes: FloatArray
    goal: Goal

    @property
    def unpenalised(self) -> Unpenalised:
        """The bias, if there is one."""
        return Unpenalised.bias(self.weights, self.bias)

    @property
    def n_features(self) -> int:
        """Number of features d."""
        return int(self.X.shape[1])

    @property
    def test_weight(self) -> float:
        """What all test rows count, times the number of targets."""
        total = float(self.counts[self.tasks.test.values].sum())
        return total * int(self.Y.shape[1])

    @property
    def share(self) -> FloatArray:
        """Share of each experiment in what all test rows count; the shares add up to one."""
        test = self.tasks.test
        counts = np.bincount(test.owners, self.counts[test.values], minlength=len(test))
        return np.asarray(counts / counts.sum())


def make_problem(
    model: Any,
    X: Any,
    y: Any,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
) -> Problem:
    """Return the problem of fitting `model` to these rows.

    Parameters
    ----------
    model : KernelRidgeCV, KernelRidgeClassifierCV, or dict of parameters of a KernelRidgeCV
        Gives kernel, basis, hold-out, policy, intercept and jitter; it is not changed.
    X, y, sample_weight, groups
        As in ``fit``.
    """
    estimator = _estimator(model)
    _check_kernel(estimator)
    training, (candidate,) = estimator._prepare(X, y, sample_weight, groups)
    goal = _goal(estimator)
    if goal.of_law:
        resolve_scoring(goal.scoring, classes=estimator._classes)  # refuses classifiers
    kernel = cast(Kernel, candidate.kernel)
    rows, Y, weights, experiments = training.X, training.Y, training.weights, training.experiments
    if not (
        estimator.cv is None or isinstance(estimator.cv, int) or hasattr(estimator.cv, "split")
    ):
        estimator.cv = experiments  # an iterator is used up by now
    basis = _basis(training, kernel)
    live = weights > 0
    tasks = resolve(experiments, weights=weights, basis=basis, policy=training.policy)
    tasks = _counted(tasks, live)
    w = weights[live]
    X_live, Z = take_rows(rows, np.flatnonzero(live)), None
    if basis is None:
        _check_memory(w.size, training.memory, 5 + n_kernels(kernel))
    else:
        Z = take_rows(rows, basis)
    return Problem(
        kernel=kernel,
        X=X_live,
        Z=Z,
        Y=Y[live] - (w @ Y[live] / w.sum()) * estimator.fit_intercept,
        weights=w,
        bias=bool(estimator.fit_intercept),
        jitter=float(estimator.jitter),
        tasks=tasks,
        blocks=_blocks(tasks, (w.size if Z is None else Z.shape[0]) + 1),
        counts=w if goal.weighted else np.ones_like(w),
        basis=basis,
        experiments=experiments,
        estimator=estimator,
        codes=Y,
        goal=goal,
    )


def _estimator(model: Any) -> Any:
    if isinstance(model, dict):
        from holdfast.estimators.regression import KernelRidgeCV

        model = KernelRidgeCV(**model)
    if not isinstance(model, CrossValidatedKernelRidge):
        raise InvalidInputError(
            "model must be a KernelRidgeCV, a KernelRidgeClassifierCV or a dict of their "
            f"parameters; got {type(model).__name__}."
        )
    # Not sklearn's clone: it cannot copy an iterator of splits.
    estimator = type(model)(**model.get_params(deep=False))
    estimator._validate_params()
    if isinstance(estimator.gamma, str):  # "search": finding the width is what tuning does
        estimator.gamma = None
    _goal(estimator)
    if estimator.alpha_per_target:
        raise NotSupportedError(
            "tuning finds one alpha for all targets; got alpha_per_target=True. Tune with "
            "alpha_per_target=False, then result.estimator(alpha_per_target=True) refines alpha."
        )
    return estimator


def _goal(estimator: Any) -> Goal:
    """Return what the estimator's score asks to minimise."""
    scoring = "neg_mean_squared_error" if estimator.scoring is None else estimator.scoring
    if not isinstance(scoring, str) or scoring not in GOALS:
        raise NotSupportedError(
            "tuning minimises the held-out mean squared error (scoring=None), or maximises "
            f'"log_density" or "crps"; got scoring={estimator.scoring!r}. Take one of these, or '
            "search a grid of gammas with KernelRidgeCV, which takes any score."
        )
    return GOALS[scoring]


def _check_kernel(estimator: Any) -> None:
    """Refuse kernels without a gamma, and more than one kernel."""
    candidates = estimator._candidates()
    if len(candidates) > 1:
        raise InvalidInputError(
            "tuning starts from one kernel; got a list of kernels or gammas. Pass one kernel, and "
            "start=… for several starting points."
        )
    kernel = candidates[0].kernel
    if isinstance(kernel, Precomputed) or kernel.accepts_objects:
        raise NotSupportedError(
            f"kernel={estimator.kernel!r} has no gamma to tune. Use RBF, Matern or another kernel "
            "with a gamma, or compare several kernels on a grid with KernelRidgeCV."
        )


def _basis(training: FitProblem, kernel: Kernel) -> IntArray | None:
    """Return the basis rows, chosen once: the criterion is a function of alpha and gamma alone."""
    selector = as_selector(training.basis, training.X.shape[0])
    if selector is None:
        return None
    if training.policy in ("reselect", "train"):
        raise NotSupportedError(
            f'tuning takes held_out_basis="remove", "keep" or "skip"; got '
            f'"{training.policy}". Tune with "remove", then judge the result with '
            f'result.estimator(held_out_basis="{training.policy}", basis=...).'
        )
    if selector.data_dependent:
        warnings.warn(
            f"{type(selector).__name__} chose the basis rows once, with the kernel as given and "
            "by looking at rows that are later held out: the tuned criterion may be optimistic.",
            SelectionBiasWarning,
            stacklevel=4,
        )
    if isinstance(selector, Points):
        raise NotSupportedError(
            "tuning takes basis rows; got Points, which are no rows. Tune with basis=[row "
            "numbers] or a number of rows, then pass the points with the gamma that was found."
        )
    data = rows_with_kernel(kernel, training.X, training.basis)
    return choose_basis(training, selector, data)


def _check_memory(m: int, memory: float, matrices: int) -> None:
    # the values of each kernel, slopes, distances, G, and two products of the adjoint
    size = 8.0 * matrices * m**2
    if size > memory:
        raise InvalidInputError(
            f"tuning a dense model of {m} rows needs {1e-9 * size:.3g} GB, more than the "
            f"{memory / 1e9:.3g} GB it may take. Pass basis=1000 (or another number of basis "
            "rows), or raise memory_limit."
        )


def _counted(tasks: Tasks, live: Any) -> Tasks:
    """Return the tasks with only test rows that have weight, rows numbered among those."""
    test = tasks.test.filter(live[tasks.test.values])
    left = np.flatnonzero(test.sizes > 0)
    if not left.size:
        raise HoldOutError("no test row of cv has weight; give some of them a sample_weight.")
    number = np.cumsum(live) - 1
    held, test, removed = (part.items(left) for part in (tasks.held, test, tasks.removed))
    return Tasks(
        Ragged(number[held.values], held.ptr),
        removed,
        Ragged(number[test.values], test.ptr),
        tasks.source[left],
    )


def _blocks(tasks: Tasks, p: int) -> tuple[Block, ...]:
    """Return the tasks in stacks of one shape, each of bounded size."""
    found = []
    for shape in tasks.shapes():
        h = max(1, shape.H.shape[1])
        step = max(1, STACK_DOUBLES // (h * p))
        for start in range(0, len(shape.index), step):
            part = slice(start, start + step)
            stack = shape.cut(part)
            distinct = np.unique(stack.H).size == stack.H.size
            found.append(Block(stack, _places(stack.H, stack.T), distinct))
    return tuple(found)


def _places(H: IntArray, T: IntArray) -> IntArray | None:
    """Return where in H (b, h) the rows T (b, t) are; None when they are the same rows."""
    if H.shape == T.shape and np.array_equal(H, T):
        return None
    order = np.argsort(H, axis=1)
    # One search for all tasks: each task's rows are lifted above those of the task before.
    lift = (np.arange(len(H)) * (max(H.max(initial=0), T.max()) + 1))[:, None]
    ranked = (np.take_along_axis(H, order, axis=1) + lift).ravel()
    wanted = (T + lift).ravel()
    found = np.searchsorted(ranked, wanted) - np.repeat(np.arange(len(H)), T.shape[1]) * H.shape[1]
    return np.take_along_axis(order, found.reshape(T.shape), axis=1)
