"""Kernels that have something in common: distances, or matrices of parts, are computed once."""

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from holdfast._typing import FloatArray, Index, IntArray, RowData
from holdfast.kernels.base import Kernel
from holdfast.kernels.compose import Scaled, Sum
from holdfast.kernels.grid import Precomputed
from holdfast.kernels.matrix import KernelRows
from holdfast.kernels.products import distance_matrix
from holdfast.kernels.stationary import RBF, Euclidean

__all__ = [
    "Distances",
    "SharedRows",
    "common_parts",
    "distinct_parts",
    "factors_and_parts",
]


class Distances:
    """Stands for the squared distances of rows, from which several kernels follow."""

    @staticmethod
    def serve(kernel: Kernel | Precomputed) -> bool:
        """Whether a kernel is a function of the squared distance with one width."""
        return isinstance(kernel, Euclidean) and isinstance(kernel.gamma, float)


#: What is kept: matrices of these kernels, or squared distances alone.
Parts = Sequence[Kernel] | Distances


def common_parts(kernels: Sequence[Kernel | Precomputed]) -> Parts | None:
    """Return what is worth to be kept for these kernels: parts of their sums, or distances."""
    parts = distinct_parts(kernels)
    if parts is not None and len(parts) < len(kernels):
        return parts
    return Distances() if sum(map(Distances.serve, kernels)) > 1 else None


class SharedRows(KernelRows):
    """Rows with matrices (m, columns) that kernels have in common.

    Sums that differ in their factors share the matrices of their parts, kernels that differ in
    their width the squared distances. Other columns are computed when asked for.
    """

    def __init__(
        self,
        kernel: Kernel,
        X: RowData,
        columns: IntArray,
        parts: Parts,
        values: list[FloatArray],
    ) -> None:
        super().__init__(kernel, X)
        self._columns, self._parts, self._values = columns, parts, values

    @classmethod
    def of(cls, parts: Parts, X: Any, columns: IntArray) -> "SharedRows":
        """Return what is kept of all rows of X with some; see `with_kernel`."""
        rows = KernelRows(RBF() if isinstance(parts, Distances) else parts[0], X)
        m = len(rows)
        every = columns.size == m and bool((columns == np.arange(m)).all())
        if isinstance(parts, Distances):
            values = [distance_matrix(rows.X, None if every else rows.X[columns])]
        else:
            asked = slice(0, m), slice(0, m) if every else columns
            values = [KernelRows(part, X).block(*asked) for part in parts]
        return cls(rows.kernel, X, columns, parts, values)

    def with_kernel(self, kernel: Kernel) -> "SharedRows | None":
        """Return the same with another kernel; None if it does not follow from what is kept."""
        if isinstance(self._parts, Distances):
            known = self._parts.serve(kernel)
        else:
            known = all(part in self._parts for _, part in factors_and_parts(kernel))
        if not known:
            return None
        return SharedRows(kernel, self.X, self._columns, self._parts, self._values)

    def block(self, rows: Index, columns: Index) -> FloatArray:
        """Return K[rows][:, columns], from what is kept if these are the columns."""
        rows, columns = self._index(rows), self._index(columns)
        if isinstance(columns, slice):
            columns = np.arange(len(self))[columns]
        if not np.array_equal(columns, self._columns):
            return super().block(rows, columns)
        if isinstance(self._parts, Distances):
            assert isinstance(self.kernel, Euclidean)
            D2 = self._values[0][rows]
            return self.kernel.from_squared_distances(D2, out=None if D2.base is not None else D2)
        terms = (
            factor * self._values[self._parts.index(part)][rows]
            for factor, part in factors_and_parts(self.kernel)
        )
        return reduce(lambda total, values: np.add(total, values, out=total), terms)


def factors_and_parts(kernel: Kernel) -> list[tuple[float, Kernel]]:
    """Return the kernel as a sum of multiples: (factor, kernel) of each term."""
    if isinstance(kernel, Sum):
        return [term for part in kernel.kernels for term in factors_and_parts(part)]
    if isinstance(kernel, Scaled):
        inner = factors_and_parts(kernel.kernel)
        return [(kernel.factor * factor, part) for factor, part in inner]
    return [(1.0, kernel)]


def distinct_parts(kernels: Iterable[Kernel | Precomputed]) -> list[Kernel] | None:
    """Return the kernels that others are sums of, each once; None if some kernel has no such."""
    found: list[Kernel] = []
    for kernel in kernels:
        if isinstance(kernel, Precomputed):
            return None
        for _, part in factors_and_parts(kernel):
            if part not in found:
                found.append(part)
    return found
