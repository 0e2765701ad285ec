"""Rows together with further points: basis vectors that are not rows of the data."""

from typing import Any

import numpy as np

from holdfast._typing import FloatArray, Index, RowData
from holdfast.data.indices import row_index
from holdfast.data.rows import as_rows, take_rows
from holdfast.kernels.base import Kernel
from holdfast.kernels.matrix import KernelData, KernelRows

__all__ = ["RowsAndPoints"]


class RowsAndPoints(KernelData):
    """m rows and n points with a kernel; the points are numbered m, m + 1, … after the rows.

    Parameters
    ----------
    kernel : Kernel
    X : 2-D array, scipy.sparse matrix or sequence of objects
        The rows.
    Z : of the same kind
        The points. `len` and slices do not reach them: only their numbers do, so nothing that
        goes through all rows ever meets one.
    """

    def __init__(self, kernel: Kernel, X: Any, Z: Any) -> None:
        self.kernel = kernel
        self._rows, self._points = KernelRows(kernel, X), KernelRows(kernel, as_rows(Z))

    def __len__(self) -> int:
        """Return the number of rows m, without the points."""
        return len(self._rows)

    def __repr__(self) -> str:
        """Return the kernel and the numbers of rows and points."""
        return f"RowsAndPoints({self.kernel!r}, {len(self)} rows, {len(self._points)} points)"

    def block(self, rows: Index, columns: Index) -> FloatArray:
        """Return the matrix K[rows][:, columns], where numbers from m on name points."""
        (rows_of, rows), (columns_of, columns) = self._place(rows), self._place(columns)
        if rows_of is columns_of:
            return rows_of.block(rows, columns)
        return columns_of.predict_block(take_rows(rows_of.X, rows), columns)

    def diag(self, rows: Index | None = None) -> FloatArray:
        """Return values k(x, x) of those rows or points (default: all rows)."""
        if rows is None:
            return self._rows.diag()
        source, index = self._place(rows)
        return source.diag(index)

    def take(self, rows: Index) -> KernelRows:
        """Return those rows or points alone, numbered from zero."""
        source, index = self._place(rows)
        return source.take(index)

    def predict_block(self, X_new: Any, columns: Index) -> FloatArray:
        """Return kernel values of new rows with those rows or points."""
        source, index = self._place(columns)
        return source.predict_block(X_new, index)

    @property
    def X(self) -> RowData:
        """The rows, without the points."""
        return self._rows.X

    def _place(self, index: Index) -> tuple[KernelRows, Index]:
        """Return where those numbers stand: among the rows or the points, and which there."""
        m = len(self)
        if isinstance(index, slice):
            return self._rows, index
        numbers = row_index(index, m + len(self._points))
        if isinstance(numbers, slice) or not numbers.size or numbers.max() < m:
            return self._rows, numbers
        assert numbers.min() >= m, "rows and points are asked for separately"
        return self._points, np.asarray(numbers - m)
