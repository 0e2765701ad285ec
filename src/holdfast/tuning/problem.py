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
from holdfast.experiments import Ragged, Tasks, resolve
from holdfast.kernels import Kernel, Precomputed
from holdfast.scores.scoring import resolve_scoring
from holdfast.smoother import Unpenalised
from holdfast.tuning.losses import LOSSES, Loss
from holdfast.tuning.solved import Block

__all__ = ["Problem", "make_problem"]

#: Doubles that the held-out and tested rows of one stack of tasks may take.
STACK_DOUBLES = 2**22


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
    unpenalised : Unpenalised
        The bias, if there is one, and the trend.
    jitter : float
        ε relative to the mean diagonal of K_BB.
    tasks : Tasks
        Experiments after the policy for basis rows, in the row numbers of X.
    blocks : tuple of Block
    counts : ndarray of shape (m,)
        How much each row counts where it is tested: its weight, or one.
    basis : ndarray of int or None
        Basis rows, numbered as the user's rows.
    estimator : estimator
        One with the user's parameters.
    loss : subclass of Loss
        What is minimised.
    """

    kernel: Kernel
    X: RowData
    Z: RowData | None
    Y: FloatArray
    weights: FloatArray
    unpenalised: Unpenalised
    jitter: float
    tasks: Tasks
    blocks: tuple[Block, ...]
    counts: FloatArray
    basis: IntArray | None
    estimator: Any
    loss: type[Loss]

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
    loss = _loss(estimator)
    if not loss.separate:
        resolve_scoring(estimator.scoring, classes=estimator._classes)  # refuses classifiers
    if not (
        estimator.cv is None or isinstance(estimator.cv, int) or hasattr(estimator.cv, "split")
    ):
        estimator.cv = training.experiments  # an iterator is used up by now
    kernel = cast(Kernel, candidate.kernel)
    basis = _basis(training, kernel)
    live, bias = training.weights > 0, bool(estimator.fit_intercept)
    tasks = resolve(
        training.experiments, weights=training.weights, basis=basis, policy=training.policy
    )
    tasks = _counted(tasks, live)
    w, Y = training.weights[live], training.Y[live]
    if basis is None:
        _check_memory(w.size, training.memory, kernel)
    return Problem(
        kernel=kernel,
        X=take_rows(training.X, np.flatnonzero(live)),
        Z=None if basis is None else take_rows(training.X, basis),
        Y=Y - (w @ Y / w.sum()) * bias,
        weights=w,
        unpenalised=training.unpenalised.take(live).retrained(w),
        jitter=float(estimator.jitter),
        tasks=tasks,
        blocks=_blocks(tasks, (w.size if basis is None else basis.size) + 1),
        counts=w if loss.weighted else np.ones_like(w),
        basis=basis,
        estimator=estimator,
        loss=loss,
    )


def _estimator(model: Any) -> Any:
    if isinstance(model, dict):
        from holdfast.estimators.regression import KernelRidgeCV

        model = KernelRidgeCV(**model)
    if not isinstance(model, CrossValidatedKernelRidge):
        raise InvalidInputError(
            "model must be a KernelRidgeCV, a KernelRidgeClassifierCV or a dict of their "
            f"parameters; got {type(model).__name__}.",
            argument="model",
        )
    # Not sklearn's clone: it cannot copy an iterator of splits.
    estimator = type(model)(**model.get_params(deep=False))
    estimator._validate_params()
    if isinstance(estimator.gamma, str):  # "search": finding the width is what tuning does
        estimator.gamma = None
    _loss(estimator)
    if estimator.alpha_per_target:
        raise NotSupportedError(
            "tuning finds one alpha for all targets; got alpha_per_target=True. Tune with "
            "alpha_per_target=False, then result.estimator(alpha_per_target=True) refines alpha.",
            argument="alpha_per_target",
        )
    return estimator


def _loss(estimator: Any) -> type[Loss]:
    """Return what the estimator's score asks to minimise."""
    scoring = "neg_mean_squared_error" if estimator.scoring is None else estimator.scoring
    if not isinstance(scoring, str) or scoring not in LOSSES:
        raise NotSupportedError(
            "tuning minimises the held-out mean squared error (scoring=None), or maximises "
            f'"log_density" or "crps"; got scoring={estimator.scoring!r}. Take one of these, or '
            "search a grid of gammas with KernelRidgeCV, which takes any score.",
            argument="scoring",
        )
    return LOSSES[scoring]


def _check_kernel(estimator: Any) -> None:
    """Refuse kernels without a gamma, and more than one kernel."""
    candidates = estimator._candidates()
    if len(candidates) > 1:
        raise InvalidInputError(
            "tuning starts from one kernel; got a list of kernels or gammas. Pass one kernel, and "
            "start=… for several starting points.",
            argument="kernel",
        )
    kernel = candidates[0].kernel
    if isinstance(kernel, Precomputed) or kernel.accepts_objects:
        raise NotSupportedError(
            f"kernel={estimator.kernel!r} has no gamma to tune. Use RBF, Matern or another kernel "
            "with a gamma, or compare several kernels on a grid with KernelRidgeCV.",
            argument="kernel",
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
            f'result.estimator(held_out_basis="{training.policy}", basis=...).',
            argument="held_out_basis",
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
            "tuning takes basis rows; got Points, which are not rows. Tune with basis=[row "
            "numbers] or a number of rows, then pass the points with the gamma that was found.",
            argument="basis",
        )
    data = rows_with_kernel(kernel, training.X, training.basis)
    return choose_basis(training, selector, data)


def _check_memory(m: int, memory: float, kernel: Kernel) -> None:
    # the values of each kernel, slopes, distances, G, and two products of the adjoint
    size = 8.0 * (5 + _n_kernels(kernel)) * m**2
    if size > memory:
        raise InvalidInputError(
            f"tuning a dense model of {m} rows needs {1e-9 * size:.3g} GB, more than the "
            f"{memory / 1e9:.3g} GB it may take. Pass basis=1000 (or another number of basis "
            "rows), or raise memory_limit.",
            argument="basis",
            remedies=("memory_limit",),
        )


def _n_kernels(kernel: Kernel) -> int:
    """Return how many kernels a kernel is made of, itself included."""
    return 1 + sum(_n_kernels(part) for part in kernel.parts.values())


def _counted(tasks: Tasks, live: Any) -> Tasks:
    """Return the tasks with only test rows that have weight, rows numbered among those."""
    test = tasks.test.filter(live[tasks.test.values])
    left = np.flatnonzero(test.sizes > 0)
    if not left.size:
        raise HoldOutError(
            "no test row of cv has weight; give some of them a sample_weight.", argument="cv"
        )
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
    return tuple(
        Block(stack, _places(stack.H, stack.T), np.unique(stack.H).size == stack.H.size)
        for stack in tasks.stacks(p, STACK_DOUBLES)
    )


def _places(H: IntArray, T: IntArray) -> IntArray | None:
    """Return where in H (b, h) the rows T (b, t) are; None when they are the same rows."""
    if np.array_equal(H, T):
        return None
    order = np.argsort(H, axis=1)
    each = zip(H, T, order, strict=True)
    return np.array([o[np.searchsorted(held, rows, sorter=o)] for held, rows, o in each])
