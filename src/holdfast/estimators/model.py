"""From a problem and a kernel to its smoother, its basis rows and its held-out values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from sklearn.base import clone

from holdfast import holdout
from holdfast._typing import FloatArray, IntArray
from holdfast.basis import Fixed, Points, Selector
from holdfast.basis.resolve import as_selector, resolve_basis
from holdfast.cluster import DaskRows, DaskSource, cluster_features
from holdfast.data.dask import is_dask
from holdfast.data.indices import row_numbers
from holdfast.estimators.problem import Problem
from holdfast.exceptions import (
    InvalidInputError,
    NotSupportedError,
    SelectionBiasWarning,
    warn,
)
from holdfast.experiments import Experiments, Tasks, resolve
from holdfast.holdout import Predicted
from holdfast.holdout.models import HeldOutModels
from holdfast.holdout.plan import Plan, make_plan
from holdfast.kernels import Kernel, Linear, Precomputed, Scaled
from holdfast.kernels.matrix import KernelData, KernelRows, PrecomputedRows
from holdfast.kernels.points import RowsAndPoints
from holdfast.progress import report
from holdfast.smoother import (
    FeatureSmoother,
    OtherBasis,
    Smoother,
    basis_epsilon,
)
from holdfast.smoother.make import make_smoother, require_symmetric
from holdfast.smoother.standardise import StandardisedColumns

__all__ = [
    "LeftOut",
    "Model",
    "choose_basis",
    "expanded_in",
    "linear_factor",
    "make_model",
    "redrawn",
    "rows_with_kernel",
    "selector_of",
]


class LeftOut(NamedTuple):
    """What the experiments of the fit say at the chosen penalty, whichever rows are new.

    Attributes
    ----------
    tasks : Tasks
    errors : ndarray of shape (k, v)
        Targets minus held-out predictions of the test rows, laid end to end.
    models : HeldOutModels
    """

    tasks: Tasks
    errors: FloatArray
    models: HeldOutModels


@dataclass(frozen=True, eq=False)
class Model:
    """One kernel on all rows of a problem.

    Attributes
    ----------
    problem : Problem
    data : KernelData
        Rows with the kernel.
    basis : ndarray of int or None
        Basis rows; None for a dense model.
    epsilon : float
        The absolute shift ε of K_BB; 0 for a dense model.
    smoother : Smoother
    selector : Selector or None
        What chose the basis rows, with its fitted attributes.
    draw : int
        Which draw of the basis rows this is; 0 is that of `fit`.
    known : (Problem, ndarray of shape (a, test rows, v)) or None
        Held-out predictions of the experiments of a problem at all its penalties, if they are few
        enough to be kept. They answer for that very problem: another policy is another problem.
    chosen : ndarray of shape (v,) or None
        The penalty of each target that `fit` chose.
    """

    problem: Problem
    data: KernelData
    basis: IntArray | None
    epsilon: float
    smoother: Smoother
    selector: Selector | None = None
    draw: int = 0
    known: tuple[Problem, FloatArray] | None = None
    chosen: FloatArray | None = None

    def known_for(self, problem: Problem) -> FloatArray | None:
        """Return the held-out predictions kept for this problem, if there are any."""
        if self.known is None or self.known[0] is not problem:
            return None
        return self.known[1].copy()

    def left_out(self) -> LeftOut:
        """Return the held-out models of the fit at the chosen penalty.

        They are a value of the model: kept once they are made, unless their coefficients would take
        more than a quarter of the memory limit.
        """
        tasks = len(self.problem.experiments)
        doubles = self.problem.Y.shape[1] * tasks * self.smoother.order
        small = 8.0 * doubles <= self.problem.memory / 4.0
        return self._left_out if small else self._make_left_out()

    @cached_property
    def _left_out(self) -> LeftOut:
        return self._make_left_out()

    def _make_left_out(self) -> LeftOut:
        assert self.chosen is not None  # set by every fit
        tasks, alphas = self.tasks(self.problem.experiments), self.chosen
        grid, index = np.unique(alphas, return_inverse=True)
        values = self.held_out(tasks, grid, self.plan(tasks, grid.size).path)
        values = values[index, :, np.arange(alphas.size)].T
        errors = self.problem.Y[tasks.test.values] - values
        return LeftOut(tasks, errors, self.held_models(tasks, alphas))

    @property
    def alphas(self) -> FloatArray:
        """The penalties to compare, shape (a,)."""
        return self.problem.alphas

    @property
    def reselects(self) -> bool:
        """Whether the basis is chosen again for each experiment."""
        return self.problem.reselects

    def tasks(self, experiments: Experiments) -> Tasks:
        """Return the tasks that experiments become under the policy."""
        weights, policy = self.problem.weights, self.problem.policy
        return resolve(experiments, weights=weights, basis=self.basis, policy=policy)

    def plan(self, tasks: Tasks, n_alphas: int) -> Plan:
        """Return which path the tasks take."""
        return make_plan(tasks, self.smoother.sizes(tasks), n_alphas, self.problem.path)

    def held_out(
        self, tasks: Tasks, alphas: FloatArray, path: str, columns: slice = slice(None)
    ) -> FloatArray:
        """Return held-out predictions (a, k, v)."""
        return self.judged(tasks, alphas, path, columns).values

    def judged(
        self, tasks: Tasks, alphas: FloatArray, path: str, columns: slice = slice(None)
    ) -> Predicted:
        """Return held-out predictions with what the algebra adds to them."""
        if self.reselects:
            values = self._reselected(tasks, alphas, columns)
            found = Predicted(values, np.zeros((alphas.size, len(tasks))))
        else:
            found = holdout.judged(self.smoother, tasks, alphas, path, columns)
        if self.problem.bias and self.problem.labels.ndim == 1:
            _without_some_class(self.problem, tasks, found.values, columns)
        return found

    def _reselected(self, tasks: Tasks, alphas: FloatArray, columns: slice) -> FloatArray:
        """Return predictions of models whose basis rows come from their own training rows.

        All targets take part in the choice, whichever columns are predicted. There is only one
        path: training from scratch.
        """
        smoother, parts = self.smoother, []
        for j in range(len(tasks)):
            basis = self.chosen_basis(tasks.held[j])
            parts.append(
                smoother.retrain(
                    tasks.held[j], tasks.removed[j], tasks.test[j], alphas, columns, basis
                )
            )
            report(j + 1, len(tasks), "retraining on reselected basis rows")
        values = np.concatenate(parts, axis=1)
        return smoother.restore(values, tasks.test.values, columns)

    def chosen_basis(self, held: IntArray) -> OtherBasis:
        """Return the basis rows that are chosen without some rows.

        Seeded by the rows themselves: the same hold-out gives the same basis anywhere.
        """
        problem = self.problem
        weights = problem.weights.copy()
        weights[held] = 0.0
        train = np.flatnonzero(weights > 0)
        seed = [problem.seed, crc32(np.sort(held).tobytes()), *([self.draw] if self.draw else [])]
        chosen = resolve_basis(
            clone(problem.basis) if isinstance(problem.basis, Selector) else problem.basis,
            self.data.take(train),
            problem.Y[train],
            weights[train],
            None if problem.groups is None else problem.groups[train],
            None,
            np.random.default_rng(seed),
        )
        assert chosen is not None
        rows = train[chosen]
        return OtherBasis(rows, basis_epsilon(self.data, rows, problem.jitter))

    def held_models(self, tasks: Tasks, alphas: FloatArray) -> HeldOutModels:
        """Return the models of some tasks as coefficients, one penalty for each target."""
        basis = self.chosen_basis if self.reselects else None
        return HeldOutModels(self.smoother, tasks, alphas, basis)


def _without_some_class(problem: Problem, tasks: Tasks, values: FloatArray, columns: slice) -> None:
    """Write −1 (or +1) for classes that no (or every) training row of an experiment has.

    The model of a constant target is that constant. Computed values differ from it by their
    rounding, and scores of an order would follow that.
    """
    held, owners, trained = tasks.held, tasks.test.owners, problem.weights > 0
    for j, target in enumerate(problem.Y[:, columns].T):
        for sign in (1.0, -1.0):
            members = trained & (target == sign)
            left_out = np.bincount(held.owners, weights=members[held.values], minlength=len(tasks))
            gone = left_out == np.count_nonzero(members)
            if gone.any():
                values[:, gone[owners], j] = -sign


def make_model(
    problem: Problem,
    kernel: Kernel | Precomputed,
    data: KernelData,
    basis: IntArray | None,
    selector: Selector | None = None,
) -> Model:
    """Return the model of a kernel on all rows of a problem."""
    require_symmetric(kernel, data)
    epsilon = basis_epsilon(data, basis, problem.jitter)
    unpenalised = problem.unpenalised
    smoother: Smoother
    if isinstance(data, DaskRows):
        features = cluster_features(data, basis, epsilon)
        smoother = FeatureSmoother(
            features,
            problem.weights,
            problem.Y,
            unpenalised,
            problem.memory,
            partial(DaskSource, X=data.X),
        )
    elif problem.standardize:
        columns = StandardisedColumns(problem.X, problem.weights)
        smoother = FeatureSmoother(columns, problem.weights, problem.Y, unpenalised, problem.memory)
    else:
        smoother = make_smoother(
            kernel,
            data,
            problem.X,
            problem.weights,
            problem.Y,
            unpenalised,
            basis=basis,
            epsilon=epsilon,
            memory=problem.memory,
        )
    return Model(problem, data, basis, epsilon, smoother, selector)


def expanded_in(basis: IntArray | None, m: int) -> IntArray:
    """Return the rows that a model has coefficients of: its basis rows, or all m."""
    return np.arange(m) if basis is None else basis


def linear_factor(kernel: Kernel | Precomputed) -> float | None:
    """Return c of the kernel c x·z, or None for a kernel that is not linear."""
    if isinstance(kernel, Scaled):
        inner = linear_factor(kernel.kernel)
        return None if inner is None else kernel.factor * inner
    return 1.0 if isinstance(kernel, Linear) else None


def rows_with_kernel(kernel: Kernel | Precomputed, X: Any, basis: Any) -> KernelData:
    """Return rows and kernel as one object; an m × n precomputed kernel needs its basis rows."""
    if isinstance(basis, Points):
        return _with_points(kernel, X, basis)
    if not isinstance(kernel, Precomputed):
        return DaskRows(kernel, X) if is_dask(X) else KernelRows(kernel, X)
    if is_dask(X):
        raise NotSupportedError(
            'kernel="precomputed" takes an array in memory; got a Dask array. Pass the rows '
            "themselves with a kernel, or X.compute().",
            argument="kernel",
        )
    if X.shape[0] == X.shape[1]:
        return PrecomputedRows(X)
    rows = basis.rows if isinstance(basis, Fixed) else basis
    if rows is None or np.ndim(rows) != 1:
        raise InvalidInputError(
            "a precomputed kernel must be a square matrix of all rows; got shape "
            f"{X.shape}. For a kernel with the basis rows only, name them: basis=[row numbers].",
            argument="X",
            remedies=("basis",),
        )
    columns = row_numbers("basis", rows, X.shape[0], mask=True, error=InvalidInputError)
    if columns.size != X.shape[1]:
        raise InvalidInputError(
            f"basis must name one row for each of the {X.shape[1]} columns of the precomputed "
            f"kernel; got {columns.size} rows. Pass the kernel of all rows with the basis rows.",
            argument="basis",
        )
    return PrecomputedRows(X, columns=columns)


def _with_points(kernel: Kernel | Precomputed, X: Any, basis: Points) -> RowsAndPoints:
    """Return rows and kernel together with basis vectors that are no rows."""
    if isinstance(kernel, Precomputed):
        raise NotSupportedError(
            'kernel="precomputed" has no values for points that are no rows. Pass the rows with a '
            "kernel, or basis=[row numbers]; points may stand among the rows with weight zero.",
            argument="kernel",
            remedies=("basis",),
        )
    if is_dask(X):
        raise NotSupportedError(
            "Points are for rows in memory; got a Dask array. Pass basis=[row numbers] or a number "
            "of rows, or X.compute().",
            argument="basis",
        )
    return RowsAndPoints(kernel, X, basis.points(X))


def selector_of(problem: Problem) -> Selector | None:
    """Return the selector of basis rows; warn if its choice biases the held-out scores."""
    selector = as_selector(problem.basis, problem.X.shape[0])
    if selector is None:
        return None
    if problem.policy == "reselect":
        if isinstance(selector, Fixed | Points) or "experiments" in selector.needs:
            raise NotSupportedError(
                'held_out_basis="reselect" chooses basis rows again from the training rows of '
                f"each experiment, which {type(selector).__name__} does not allow. Pass a "
                "number of rows or another selector.",
                argument="held_out_basis",
            )
    elif selector.data_dependent:
        warn(
            f"{type(selector).__name__} chose the basis rows by looking at rows that are "
            "later held out, so the held-out scores may be optimistic: use "
            'held_out_basis="reselect" for an estimate without that bias.',
            SelectionBiasWarning,
            argument="held_out_basis",
        )
    return selector


def redrawn(model: Model, kernel: Kernel | Precomputed, draw: int) -> Model:
    """Return the model with another draw of its basis rows, or of those of each experiment."""
    problem = model.problem
    if draw == 0:
        return model
    if model.reselects:
        return replace(model, draw=draw, known=None)
    selector = as_selector(problem.basis, problem.weights.size)
    assert selector is not None
    data = rows_with_kernel(kernel, problem.X, problem.basis)
    basis = choose_basis(problem, clone(selector), data, draw)
    return replace(make_model(problem, kernel, data, basis), draw=draw)


def choose_basis(
    problem: Problem, selector: Selector | None, data: KernelData, draw: int = 0
) -> IntArray | None:
    """Return the basis rows of the model on all rows, or None for a dense model."""
    return resolve_basis(
        selector,
        data,
        problem.Y,
        problem.weights,
        problem.groups,
        problem.experiments,
        np.random.default_rng([problem.seed, draw] if draw else problem.seed),
    )
