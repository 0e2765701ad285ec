"""Sums of the same kernels with other factors: the matrix of each kernel is computed once."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from holdfast._typing import FloatArray, Index, IntArray, RowData
from holdfast.kernels.base import Kernel
from holdfast.kernels.columns import OnColumns
from holdfast.kernels.compose import Scaled, Sum
from holdfast.kernels.dot import Linear
from holdfast.kernels.grid import Precomputed
from holdfast.kernels.matrix import KernelRows

__all__ = ["SharedParts", "column_factors", "distinct_parts", "factors_and_parts"]


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


def column_factors(kernel: Kernel | Precomputed, d: int) -> FloatArray | None:
    """Return f (d,) of the kernel Σ_j f_j x_j z_j: sums of linear kernels, of all columns or some.

    None for every other kernel, and where a kernel names columns that are not there.
    """
    if isinstance(kernel, Precomputed):
        return None
    factors = np.zeros(d)
    for factor, part in factors_and_parts(kernel):
        where: Any = slice(None)
        if isinstance(part, OnColumns):
            where, part = list(part.columns), part.kernel
            if max(where) >= d:
                return None
        if not isinstance(part, Linear):
            return None
        factors[where] += factor
    return factors


class SharedParts(KernelRows):
    """Rows with the matrices of some kernels with some columns, for sums that differ in factors.

    Parameters
    ----------
    kernel : Kernel
        A sum of multiples of the parts.
    X : 2-D array, scipy.sparse matrix or sequence of objects
    columns : array of row numbers
        Columns whose values are kept; others are computed when asked for.
    parts : sequence of Kernel
    values : list of arrays of shape (m, len(columns))
        Of each part.
    """

    def __init__(
        self,
        kernel: Kernel,
        X: RowData,
        columns: IntArray,
        parts: Sequence[Kernel],
        values: list[FloatArray],
    ) -> None:
        super().__init__(kernel, X)
        self._columns, self._parts, self._values = columns, parts, values

    @classmethod
    def of(cls, parts: Sequence[Kernel], X: Any, columns: IntArray) -> "SharedParts":
        """Return the matrices of all rows of X with some; see `with_kernel`."""
        values = []
        for part in parts:
            data = KernelRows(part, X)
            every = columns.size == len(data) and (columns == np.arange(columns.size)).all()
            rows = slice(0, len(data))
            values.append(data.block(rows, rows if every else columns))
        return cls(parts[0], X, columns, parts, values)

    def with_kernel(self, kernel: Kernel) -> "SharedParts | None":
        """Return the same matrices with a sum of the parts; None if the kernel is another."""
        if any(part not in self._parts for _, part in factors_and_parts(kernel)):
            return None
        return SharedParts(kernel, self.X, self._columns, self._parts, self._values)

    def block(self, rows: Index, columns: Index) -> FloatArray:
        """Return K[rows][:, columns], from the kept matrices if these are the columns."""
        rows, columns = self._index(rows), self._index(columns)
        if isinstance(columns, slice):
            columns = np.arange(len(self))[columns]
        if not np.array_equal(columns, self._columns):
            return super().block(rows, columns)
        assert isinstance(self.kernel, Kernel)
        total: FloatArray | None = None
        for factor, part in factors_and_parts(self.kernel):
            values = factor * self._values[self._parts.index(part)][rows]
            total = values if total is None else np.add(total, values, out=total)
        assert total is not None  # a sum has terms
        return total
