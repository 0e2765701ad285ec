"""Rows and basis rows for every kernel of a search, which share what they can."""

from __future__ import annotations

from collections.abc import Sequence

from sklearn.base import clone

from holdfast._typing import IntArray
from holdfast.basis import Points, Selector
from holdfast.data.dask import is_dask
from holdfast.estimators.model import choose_basis, expanded_in, rows_with_kernel, selector_of
from holdfast.estimators.problem import Problem
from holdfast.kernels import Precomputed
from holdfast.kernels.grid import Candidate
from holdfast.kernels.matrix import KernelData, SharedDistances

__all__ = ["DataProvider"]


class DataProvider:
    """Rows and basis rows for each candidate, sharing what can be shared."""

    def __init__(self, problem: Problem, candidates: Sequence[Candidate]) -> None:
        self.problem, self.selector = problem, selector_of(problem)
        self._once: tuple[IntArray | None, Selector | None] | None = None
        self._distances: SharedDistances | None = None
        # A choice of basis rows that looks at the kernel is made again for each candidate.
        self._same_basis = self.selector is None or not self.selector.data_dependent
        widths = [c for c in candidates if SharedDistances.serves(c.kernel)]
        rows = not (is_dask(problem.X) or isinstance(self.selector, Points))
        self._share = len(widths) > 1 and self._same_basis and rows

    def __call__(self, candidate: Candidate) -> tuple[KernelData, IntArray | None, Selector | None]:
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
        """Return the data of a candidate, through shared distances if it can use them."""
        if not self._share or isinstance(candidate.kernel, Precomputed):
            return data
        if not SharedDistances.serves(candidate.kernel):
            return data
        columns = expanded_in(basis, len(data))
        if 24.0 * len(data) * columns.size > self.problem.memory:
            return data
        if self._distances is None:
            self._distances = SharedDistances.of(self.problem.X, columns)
        return self._distances.with_kernel(candidate.kernel)
