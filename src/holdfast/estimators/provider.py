"""Rows and basis rows for every kernel of a search, which share what they can."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from sklearn.base import clone

from holdfast._typing import FloatArray, IntArray
from holdfast.basis import Points, Selector
from holdfast.data.dask import is_dask
from holdfast.estimators.model import (
    Model,
    choose_basis,
    expanded_in,
    make_model,
    rows_with_kernel,
    selector_of,
)
from holdfast.estimators.problem import Problem
from holdfast.experiments import Tasks
from holdfast.holdout.accuracy import WORTH_A_WARNING, data_floor
from holdfast.holdout.plan import Plan
from holdfast.kernels import Kernel, Precomputed
from holdfast.kernels.grid import Candidate
from holdfast.kernels.matrix import KernelData, SharedDistances
from holdfast.kernels.parts import SharedParts, distinct_parts
from holdfast.scores.penalties import Penalties

__all__ = ["DataProvider", "Planned", "planned_candidate"]


@dataclass(frozen=True, eq=False)
class Planned:
    """A candidate on all rows, with the tasks that judge it and the plan for them.

    `seen` collects its held-out predictions, with the penalties they are for, and `added` what the
    algebra adds to them at each penalty.
    """

    model: Model
    tasks: Tasks
    plan: Plan
    seen: list[tuple[FloatArray, FloatArray]] = field(default_factory=list)
    added: dict[float, float] = field(default_factory=dict)

    def floor(self, alphas: FloatArray) -> FloatArray:
        """Return what double precision cannot represent at each penalty."""
        return data_floor(self.model.smoother, self.tasks, alphas)

    def rounding(self, alphas: FloatArray) -> FloatArray:
        """Return the predicted rounding error of held-out predictions at each penalty."""
        added = np.array([self.added.get(alpha, 0.0) for alpha in alphas.tolist()])
        return np.asarray(np.maximum(self.floor(alphas), added))

    def resolved(self, grid: Penalties) -> Penalties:
        """Return a default grid without the penalties that double precision cannot resolve."""
        if grid.unit is None:
            return grid
        floor = self.floor(grid.alphas)
        return grid.without_lowest(np.isfinite(floor) & (floor > WORTH_A_WARNING))

    def known(self, alphas: FloatArray) -> FloatArray | None:
        """Return the predictions at all of these penalties, or None where they were too many."""
        grids = [grid for grid, _ in self.seen]
        if not grids or sum(grid.size for grid in grids) != alphas.size:
            return None
        if len(grids) == 1:
            return self.seen[0][1]
        values = np.concatenate([values for _, values in self.seen])
        return np.asarray(values[np.argsort(np.concatenate(grids), kind="stable")])


class DataProvider:
    """Rows and basis rows for each candidate, sharing what can be shared."""

    def __init__(self, problem: Problem, candidates: Sequence[Candidate]) -> None:
        self.problem, self.selector = problem, selector_of(problem)
        self._once: tuple[IntArray | None, Selector | None] | None = None
        self._distances: SharedDistances | None = None
        self._parts: SharedParts | None = None
        # A choice of basis rows that looks at the kernel is made again for each candidate.
        self._same_basis = self.selector is None or not self.selector.data_dependent
        widths = [c for c in candidates if SharedDistances.serves(c.kernel)]
        rows = not (is_dask(problem.X) or isinstance(self.selector, Points))
        self._share = len(widths) > 1 and self._same_basis and rows
        parts = distinct_parts(c.kernel for c in candidates) or []
        self._terms = parts if self._same_basis and rows and len(parts) < len(candidates) else []

    def __call__(self, candidate: Candidate) -> tuple[KernelData, IntArray | None, Selector | None]:
        """Return rows with the kernel, basis rows, and the selector that chose them."""
        data = rows_with_kernel(candidate.kernel, self.problem.X, self.problem.basis)
        if self._once is None:
            selector = None if self.selector is None else clone(self.selector)
            basis = choose_basis(self.problem, selector, data)
            if self._same_basis:
                self._once = (basis, selector)
        else:
            basis, selector = self._once
        return self._shared(candidate, data, basis), basis, selector

    def _shared(self, candidate: Candidate, data: KernelData, basis: IntArray | None) -> KernelData:
        """Return the data of a candidate, through what it shares with others, if it does."""
        if isinstance(candidate.kernel, Precomputed):
            return data
        if self._terms:
            return self._of_terms(candidate.kernel, data, basis)
        if not self._share:
            return data
        if not SharedDistances.serves(candidate.kernel):
            return data
        columns = expanded_in(basis, len(data))
        if 24.0 * len(data) * columns.size > self.problem.memory:
            return data
        if self._distances is None:
            self._distances = SharedDistances.of(self.problem.X, columns)
        return self._distances.with_kernel(candidate.kernel)

    def _of_terms(self, kernel: Kernel, data: KernelData, basis: IntArray | None) -> KernelData:
        """Return the data of a sum of kernels whose matrices are shared, if there is room."""
        columns, doubles = expanded_in(basis, len(data)), 8.0 * (2 + len(self._terms))
        if doubles * len(data) * columns.size > self.problem.memory:
            return data
        if self._parts is None:
            self._parts = SharedParts.of(self._terms, self.problem.X, columns)
        return self._parts.with_kernel(kernel) or data


def planned_candidate(
    provider: DataProvider, problem: Problem, candidate: Candidate, n_alphas: int
) -> Planned:
    """Return a candidate on all rows, with the plan for its experiments."""
    data, basis, selector = provider(candidate)
    model = make_model(problem, candidate.kernel, data, basis, selector)
    tasks = model.tasks(problem.experiments)
    plan = model.plan(tasks, n_alphas)
    if selector is not None:
        plan = replace(plan, facts={**plan.facts, "choice of basis": selector.explain(len(data))})
    return Planned(model, tasks, plan)
