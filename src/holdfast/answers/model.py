"""A kernel on all rows of the training data: its smoother, and held-out values from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any
from zlib import crc32

import numpy as np
from sklearn.base import clone

from holdfast._typing import FloatArray, IntArray
from holdfast.answers.rows import rows_with_kernel
from holdfast.answers.training import TrainingData
from holdfast.basis import Selector
from holdfast.basis.resolve import resolve_basis
from holdfast.core.data import WeightedData
from holdfast.core.experiments import Experiments, Tasks, resolve
from holdfast.core.features import basis_epsilon
from holdfast.core.models import HeldOutModels
from holdfast.core.plan import Plan, make_plan
from holdfast.core.predict import Prediction, predict_with_error
from holdfast.core.smoother import OtherBasis, Smoother
from holdfast.kernels import Kernel, Precomputed
from holdfast.kernels.matrix import KernelData
from holdfast.kernels.smoothers import make_smoother, require_symmetric
from holdfast.progress import report

__all__ = ["Model", "at_own_penalty", "make_model"]


@dataclass(frozen=True, eq=False)
class Model:
    """One kernel on all rows of the training data. A pickle of it holds no factors.

    Attributes
    ----------
    training : TrainingData
    kernel : Kernel or Precomputed
    data : KernelData
        Rows with the kernel.
    basis : ndarray of int or None
        Basis rows; None for a dense model.
    epsilon : float
        The absolute shift ε of K_BB; 0 for a dense model.
    selector : Selector or None
        What chose the basis rows, with its fitted attributes.
    known : ndarray of shape (a, test rows, v) or None
        Held-out predictions of the training data's experiments at all its penalties, if they are
        few enough to be kept.
    rounding : ndarray of shape (a,) or None
        Their estimated rounding error at each penalty.
    made : Smoother or None
        The smoother, if it was made already.
    """

    training: TrainingData
    kernel: Kernel | Precomputed
    data: KernelData
    basis: IntArray | None
    epsilon: float
    selector: Selector | None = None
    known: FloatArray | None = None
    rounding: FloatArray | None = None
    made: Smoother | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        parts = self.training, self.kernel, None, self.basis, self.selector
        return make_model, parts

    @cached_property
    def smoother(self) -> Smoother:
        """The smoother of all rows."""
        if self.made is not None:
            return self.made
        training = self.training
        return make_smoother(
            self.kernel,
            self.data,
            training.X,
            WeightedData.of(training.Y, training.weights, training.unpenalised),
            basis=self.basis,
            epsilon=self.epsilon,
            memory=training.memory,
            standardize=training.standardize,
        )

    # -- other models ------------------------------------------------------------------------------

    def on(self, training: TrainingData) -> Model:
        """Return this model on data that differ in what the smoother does not depend on."""
        return replace(self, training=training, known=None, rounding=None, made=self.smoother)

    def with_targets(self, Y: FloatArray) -> Model | None:
        """Return this model for other targets (m, c), by the same factors; None: not in memory.

        Basis rows that each experiment chooses again are those of the targets as they were.
        """
        other = self.smoother.with_targets(Y)
        if other is None:
            return None
        training = self.training if self.training.reselects else replace(self.training, Y=Y)
        return replace(self, training=training, known=None, rounding=None, made=other)

    # -- held-out values ---------------------------------------------------------------------------

    def tasks(self, experiments: Experiments, *, all_tested: bool = False) -> Tasks:
        """Return the tasks that experiments become under the policy.

        With `all_tested` also those of rows that "skip" never tests: their models are of interest
        too.
        """
        weights, policy = self.training.weights, self.training.policy
        if all_tested and policy == "skip":
            policy = "train"
        return resolve(experiments, weights=weights, basis=self.basis, policy=policy)

    def plan(self, tasks: Tasks, n_alphas: int, times: int = 1) -> Plan:
        """Return which path the tasks take; others like them may follow, `times` in all."""
        return make_plan(tasks, self.smoother.sizes(tasks), n_alphas, self.training.path, times)

    def held_out(self, tasks: Tasks, alphas: FloatArray, path: str | None = None) -> FloatArray:
        """Return held-out predictions (a, k, v), by the path of the plan unless one is named."""
        return self.predict_with_error(
            tasks, alphas, path or self.plan(tasks, alphas.size).path
        ).values

    def at(self, tasks: Tasks, alphas: FloatArray, times: int = 1) -> FloatArray:
        """Return held-out predictions (k, v), each target at its own penalty (v,)."""
        path = self.plan(tasks, np.unique(alphas).size, times).path
        predict = partial(self.held_out, tasks, path=path)
        return at_own_penalty(predict, alphas, self.training.Y.shape[1])

    def predict_with_error(
        self, tasks: Tasks, alphas: FloatArray, path: str, columns: slice = slice(None)
    ) -> Prediction:
        """Return held-out predictions with their estimated rounding errors."""
        if self.training.reselects:
            values = self._reselected(tasks, alphas, columns)
            found = Prediction(values, np.zeros((alphas.size, len(tasks))))
        else:
            found = predict_with_error(self.smoother, tasks, alphas, path, columns)
        if self.training.bias and self.training.coded:
            _without_some_class(self.training, tasks, found.values, columns)
        return found

    def held_models(self, tasks: Tasks, alphas: FloatArray) -> HeldOutModels:
        """Return the models of some tasks as coefficients, one penalty for each target."""
        basis = self.chosen_basis if self.training.reselects else None
        return HeldOutModels(self.smoother, tasks, alphas, basis)

    def _reselected(self, tasks: Tasks, alphas: FloatArray, columns: slice) -> FloatArray:
        """Return predictions of models whose basis rows come from their own training rows.

        All targets take part in the choice, whichever columns are predicted. There is only one
        path: refitting.
        """
        smoother, parts = self.smoother, []
        for j in range(len(tasks)):
            held, removed, test = tasks.held[j], tasks.removed[j], tasks.test[j]
            basis = self.chosen_basis(held)
            parts.append(smoother.refit(held, removed, test, alphas, columns, basis))
            report(j + 1, len(tasks), "refits on reselected basis rows")
        return np.concatenate(parts, axis=1)

    def chosen_basis(self, held: IntArray) -> OtherBasis:
        """Return the basis rows that are chosen without some rows.

        Seeded by the rows themselves: the same hold-out gives the same basis anywhere.
        """
        training = self.training
        weights = training.weights.copy()
        weights[held] = 0.0
        train = np.flatnonzero(weights > 0)
        seed = [training.seed, crc32(np.sort(held).tobytes())]
        chosen = resolve_basis(
            clone(training.basis) if isinstance(training.basis, Selector) else training.basis,
            self.data.take(train),
            training.Y[train],
            weights[train],
            None if training.groups is None else training.groups[train],
            None,
            np.random.default_rng(seed),
        )
        assert chosen is not None
        rows = train[chosen]
        return OtherBasis(rows, basis_epsilon(self.data, rows, training.jitter))


def make_model(
    training: TrainingData,
    kernel: Kernel | Precomputed,
    data: KernelData | None,
    basis: IntArray | None,
    selector: Selector | None = None,
) -> Model:
    """Return the model of a kernel on all rows of the training data."""
    if data is None:
        data = rows_with_kernel(kernel, training.X, training.basis)
    require_symmetric(kernel, data)
    epsilon = basis_epsilon(data, basis, training.jitter)
    return Model(training, kernel, data, basis, epsilon, selector)


def at_own_penalty(
    predict: Callable[[FloatArray], FloatArray], alphas: FloatArray | float, v: int
) -> FloatArray:
    """Return predictions (k, v), each target at its own penalty, from a function of a grid."""
    grid, index = np.unique(np.broadcast_to(np.asarray(alphas), v), return_inverse=True)
    values = predict(grid)
    return np.ascontiguousarray(values[index.ravel(), :, np.arange(v)].T)


def _without_some_class(
    training: TrainingData, tasks: Tasks, values: FloatArray, columns: slice
) -> None:
    """Write −1 (or +1) for classes that no (or every) training row of an experiment has.

    The model of a constant target is that constant. Computed values differ from it by their
    rounding, and scores of an order would follow that.
    """
    held, owners, trained = tasks.held, tasks.test.owners, training.weights > 0
    for j, target in enumerate(training.Y[:, columns].T):
        for sign in (1.0, -1.0):
            members = trained & (target == sign)
            left_out = np.bincount(held.owners, weights=members[held.values], minlength=len(tasks))
            gone = left_out == np.count_nonzero(members)
            if gone.any():
                values[:, gone[owners], j] = -sign
