"""Kernels that have something in common: distances, or matrices of parts, are computed once."""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from holdfast._typing import FloatArray, Index, IntArray, RowData
from holdfast.data.rows import as_rows
from holdfast.kernels.base import Kernel
from holdfast.kernels.compose import Scaled, Sum
from holdfast.kernels.grid import Precomputed
from holdfast.kernels.matrix import KernelRows
from holdfast.kernels.products import distance_matrix
from holdfast.kernels.stationary import RBF, Euclidean

__all__ = ["SharedDistances", "SharedParts", "distinct_parts", "factors_and_parts"]


class _Shared(KernelRows):
    """Rows for which something is kept of some columns; others are computed when asked for."""

    def __init__(self, kernel: Kernel, X: RowData, columns: IntArray) -> None:
        super().__init__(kernel, X)
        self._columns = columns

    def block(self, rows: Index, columns: Index) -> FloatArray:
        """Return K[rows][:, columns], from what is kept if these are the columns."""
        rows, columns = self._index(rows), self._index(columns)
        if isinstance(columns, slice):
            columns = np.arange(len(self))[columns]
        if not np.array_equal(columns, self._columns):
            return super().block(rows, columns)
        return self._from_kept(rows)

    @abstractmethod
    def _from_kept(self, rows: Index) -> FloatArray:
        """Return kernel values of some rows with the kept columns."""


def _all_rows(columns: IntArray, m: int) -> bool:
    return columns.size == m and bool((columns == np.arange(m)).all())


class SharedDistances(_Shared):
    """Rows with their squared distances (m, columns) to some, for kernels of different width."""

    def __init__(self, kernel: Euclidean, X: RowData, columns: IntArray, D2: FloatArray) -> None:
        super().__init__(kernel, X, columns)
        self._profile, self._D2 = kernel, D2

    @staticmethod
    def serves(kernel: Kernel | Precomputed) -> bool:
        """Whether a kernel is a function of the squared distance with one width."""
        return isinstance(kernel, Euclidean) and isinstance(kernel.gamma, float)

    @classmethod
    def of(cls, X: Any, columns: IntArray) -> "SharedDistances":
        """Return the squared distances of all rows of X to some; see `with_kernel`."""
        rows = as_rows(X)
        Z = None if _all_rows(columns, rows.shape[0]) else rows[columns]
        return cls(RBF(), rows, columns, distance_matrix(rows, Z))

    def with_kernel(self, kernel: Kernel | Precomputed) -> "SharedDistances":
        """Return the same distances with a kernel."""
        assert isinstance(kernel, Euclidean)
        return SharedDistances(kernel, self.X, self._columns, self._D2)

    def _from_kept(self, rows: Index) -> FloatArray:
        part = self._D2[rows]
        out = None if part.base is not None else part
        return self._profile.from_squared_distances(part, out=out)


class SharedParts(_Shared):
    """Rows with the matrices (m, columns) of some kernels, for sums that differ in factors."""

    def __init__(
        self,
        kernel: Kernel,
        X: RowData,
        columns: IntArray,
        parts: Sequence[Kernel],
        values: list[FloatArray],
    ) -> None:
        super().__init__(kernel, X, columns)
        self._parts, self._values = parts, values

    @classmethod
    def of(cls, parts: Sequence[Kernel], X: Any, columns: IntArray) -> "SharedParts":
        """Return the matrices of all rows of X with some; see `with_kernel`."""
        rows = slice(0, len(KernelRows(parts[0], X)))
        asked = rows if _all_rows(columns, rows.stop) else columns
        values = [KernelRows(part, X).block(rows, asked) for part in parts]
        return cls(parts[0], X, columns, parts, values)

    def with_kernel(self, kernel: Kernel) -> "SharedParts | None":
        """Return the same matrices with a sum of the parts; None if the kernel is another."""
        if any(part not in self._parts for _, part in factors_and_parts(kernel)):
            return None
        return SharedParts(kernel, self.X, self._columns, self._parts, self._values)

    def _from_kept(self, rows: Index) -> FloatArray:
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
        found += [part for _, part in factors_and_parts(kernel) if part not in found]
    return list(dict.fromkeys(found))
