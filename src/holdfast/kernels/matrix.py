"""Rows together with their kernel: every block of the kernel matrix on demand, checked.

Selectors, features and hold-out computations see data only through `KernelData`; nothing here
builds the whole m × m matrix unless all its columns are asked for.
"""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from holdfast._typing import BoolArray, FloatArray, Index, IntArray, RowData
from holdfast.core.lapack import CHUNK
from holdfast.data.indices import as_slice, row_index
from holdfast.data.rows import as_rows
from holdfast.exceptions import InvalidInputError, KernelError
from holdfast.kernels.base import Kernel, VectorKernel, kernel_matrix, require_finite

__all__ = [
    "KernelData",
    "KernelRows",
    "PrecomputedRows",
    "RowsAndPoints",
]


# How asymmetric a precomputed matrix may be, relative to its largest entry.
_ASYMMETRY = 1e-8


class KernelData(ABC):
    """The kernel matrix K of m rows, seen block by block."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of rows m."""

    @abstractmethod
    def block(self, rows: Index, columns: Index) -> FloatArray:
        """Return the matrix K[rows][:, columns], freshly allocated, float64, C-contiguous, finite.

        Parameters
        ----------
        rows, columns : slice, array of row numbers or boolean mask of length m
            Both number the same m rows.
        """

    @abstractmethod
    def diag(self, rows: Index | None = None) -> FloatArray:
        """Return values k(x, x) of those rows (default: all), without the whole matrix."""

    @abstractmethod
    def take(self, rows: Index) -> "KernelData":
        """Return the data restricted to those rows, in that order, and numbered from zero."""

    @abstractmethod
    def predict_block(self, X_new: Any, columns: Index) -> FloatArray:
        """Return kernel values of new rows with those rows of the data."""

    def brought(self, rows: Index) -> "KernelRows | None":
        """Return a copy of those rows if these are elsewhere; None: they are here."""
        return None

    def has_column(self) -> BoolArray:
        """Return for each row whether it can be asked for as a column."""
        return np.ones(len(self), dtype=bool)

    def _index(self, index: Index) -> Index:
        """Return the index with masks and lists turned into checked row numbers."""
        return row_index(index, len(self))


class KernelRows(KernelData):
    """Rows and a kernel object; every block is computed when asked for."""

    def __init__(self, kernel: Kernel, X: Any) -> None:
        self.kernel = kernel
        self.X: RowData = X if type(X) is np.ndarray and X.ndim == 2 else as_rows(X)
        # Kernels of vectors need not look at numbers again, nor at what they have made of them.
        self._numeric = isinstance(kernel, VectorKernel) and self.X.dtype.kind == "f"

    def __len__(self) -> int:
        """Return the number of rows m."""
        return int(self.X.shape[0])

    def __repr__(self) -> str:
        """Return the kernel and number of rows."""
        return f"KernelRows({self.kernel!r}, {len(self)} rows)"

    def block(self, rows: Index, columns: Index) -> FloatArray:
        """Return the matrix K[rows][:, columns]; exactly symmetric when both are the same."""
        if isinstance(rows, slice) or isinstance(columns, slice):
            same = isinstance(rows, slice) and isinstance(columns, slice) and rows == columns
        else:
            same = rows is columns or np.array_equal(rows, columns)
        m = self.X.shape[0]
        X = self.X[row_index(rows, m)]
        return self._evaluate(X, None if same else self.X[row_index(columns, m)], self._numeric)

    def diag(self, rows: Index | None = None) -> FloatArray:
        """Return values k(x, x) of those rows (default: all)."""
        X = self.X if rows is None else self.X[self._index(rows)]
        with np.errstate(over="ignore", invalid="ignore"):
            values = self.kernel.diag(X)
        return kernel_matrix(values, X.shape[:1], repr(self.kernel), copy=False)

    def take(self, rows: Index) -> "KernelRows":
        """Return the data restricted to those rows, in that order."""
        return KernelRows(self.kernel, self.X[self._index(rows)])

    def predict_block(self, X_new: Any, columns: Index) -> FloatArray:
        """Return kernel values of new rows with those rows of the data."""
        return self._evaluate(as_rows(X_new), self.X[self._index(columns)])

    def _evaluate(self, X: RowData, Z: RowData | None, numeric: bool = False) -> FloatArray:
        # Overflow shows as inf or NaN in the result, which the checks below report.
        with np.errstate(over="ignore", invalid="ignore"):
            if numeric and isinstance(self.kernel, VectorKernel):
                values = self.kernel._matrix(X, Z)
                require_finite(values, self.kernel)
                return values
            values = self.kernel(X, Z)
        shape = (X.shape[0], X.shape[0] if Z is None else Z.shape[0])
        return kernel_matrix(values, shape, self.kernel, copy=False)


class PrecomputedRows(KernelData):
    """A kernel matrix computed elsewhere.

    Parameters
    ----------
    K : array of shape (m, m), or (m, n) together with `columns`
        The square form must be symmetric.
    columns : array of n row numbers, optional
        Which rows the columns of K stand for; then only these can be asked for as columns.
    """

    def __init__(self, K: Any, columns: npt.ArrayLike | None = None) -> None:
        self._K = _real_matrix(K)
        n_rows, n_columns = self._K.shape
        self._rows: IntArray = np.arange(n_rows)  # rows of the data -> rows of _K
        if columns is None:
            if n_rows != n_columns:
                raise InvalidInputError(
                    f"a precomputed kernel must be square; got shape {self._K.shape}: pass K(X, X) "
                    "of all rows, or name the rows its columns stand for (columns=…).",
                    argument="X",
                )
            _require_symmetric(self._K, self._rows)
            self._columns = self._rows  # rows of the data -> columns of _K, −1: not there
            return
        index = np.arange(n_rows)[row_index(columns, n_rows)]
        if index.shape != (n_columns,) or np.unique(index).size != index.size:
            raise InvalidInputError(
                f"columns must name one row, each once, for each of the {n_columns} columns of K; "
                f"got {index.size} numbers, {np.unique(index).size} of them different.",
                argument="columns",
            )
        _require_symmetric(self._K[index], index)
        self._columns = np.full(n_rows, -1)
        self._columns[index] = np.arange(n_columns)

    def __len__(self) -> int:
        """Return the number of rows m."""
        return int(self._rows.size)

    def __repr__(self) -> str:
        """Return the shape of the matrix."""
        return f"PrecomputedRows({len(self)} rows of a {self._K.shape} matrix)"

    def block(self, rows: Index, columns: Index) -> FloatArray:
        """Return the matrix K[rows][:, columns]."""
        return self._part(self._K, self._rows[self._index(rows)], self._matrix_columns(columns))

    def diag(self, rows: Index | None = None) -> FloatArray:
        """Return values of the diagonal for those rows (default: all)."""
        rows = slice(None) if rows is None else rows
        values = self._K[self._rows[self._index(rows)], self._matrix_columns(rows)]
        return kernel_matrix(values, values.shape, "precomputed", copy=False)

    def has_column(self) -> BoolArray:
        """Return for each row whether the matrix has a column for it."""
        return self._columns >= 0

    def take(self, rows: Index) -> "PrecomputedRows":
        """Return the data restricted to those rows, in that order, without copying the matrix."""
        index = self._index(rows)
        taken = object.__new__(PrecomputedRows)
        taken._K = self._K
        taken._rows, taken._columns = self._rows[index], self._columns[index]
        return taken

    def predict_block(self, X_new: Any, columns: Index) -> FloatArray:
        """Return kernel values of new rows with those rows of the data, cut from a matrix of them.

        The columns of that matrix are laid out as those of K or as the m rows.
        """
        new = _real_matrix(X_new)
        if new.shape[1] == self._K.shape[1]:
            index = self._matrix_columns(columns)
        elif new.shape[1] == len(self):
            index = np.arange(len(self))[self._index(columns)]
        else:
            widths = sorted({self._K.shape[1], len(self)})
            raise InvalidInputError(
                "with a precomputed kernel, X must be the kernel of the new rows with the training "
                f"rows, {' or '.join(map(str, widths))} columns wide; got {new.shape[1]} columns.",
                argument="X",
            )
        return self._part(new, np.arange(new.shape[0]), index)

    def _matrix_columns(self, columns: Index) -> IntArray:
        rows = np.arange(len(self))[self._index(columns)]
        found = self._columns[rows]
        if (found < 0).any():
            missing = rows[found < 0]
            raise InvalidInputError(
                f"the precomputed kernel has no column for row {missing[0]} ({missing.size} rows "
                "missing): use only rows named in columns, or pass the square matrix."
            )
        return found

    @staticmethod
    def _part(K: npt.NDArray[Any], rows: IntArray, columns: IntArray) -> FloatArray:
        i, j = as_slice(rows), as_slice(columns)
        # Four cases, one aim: no temporary larger than the block itself.
        if isinstance(j, slice):
            part = K[i, j]
        else:
            part = K[i].take(j, axis=1) if isinstance(i, slice) else K[np.ix_(i, j)]
        shared = np.may_share_memory(part, K)
        return kernel_matrix(part, part.shape, "precomputed", copy=shared)


class RowsAndPoints(KernelData):
    """m rows X and n points Z with a kernel; the points are numbered m, m + 1, … after the rows.

    `len` and slices do not reach the points: only their numbers do, so nothing that goes through
    all rows ever meets one.
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
        return columns_of.predict_block(rows_of.X[rows], columns)

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


def _real_matrix(K: Any) -> npt.NDArray[Any]:
    if sp.issparse(K):
        raise InvalidInputError(
            "a precomputed kernel must be a dense 2-D array; got a scipy.sparse matrix: use "
            "K.toarray().",
            argument="X",
        )
    matrix = np.asarray(K)
    if matrix.ndim != 2 or matrix.dtype.kind not in "biufO":
        raise InvalidInputError(
            "a precomputed kernel must be a 2-D array of real numbers; got shape "
            f"{matrix.shape}, dtype {matrix.dtype}.",
            argument="X",
        )
    if matrix.dtype.kind != "O":
        return matrix
    try:
        return matrix.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"a precomputed kernel must hold numbers; got an entry that is not a number ({error}).",
            argument="X",
        ) from error


def _require_symmetric(K: npt.NDArray[Any], names: IntArray) -> None:
    """Raise KernelError when |K − Kᵀ| exceeds the tolerance times the largest |K|.

    `names` are the numbers of the rows that K stands for.
    """
    m = K.shape[0]
    step = max(1, CHUNK // max(1, m))
    largest, worst, where = 0.0, 0.0, (0, 0)
    for start in range(0, m, step):
        rows = slice(start, start + step)
        # Only columns from this block on: those before it were compared with earlier blocks.
        below = K[start:, rows].T.astype(np.float64, order="C")
        right = kernel_matrix(K[rows, start:], below.shape, "precomputed", copy=True)
        require_finite(below, "precomputed")
        largest = max(largest, float(np.abs(below).max()), float(right.max()), -float(right.min()))
        right -= below
        np.abs(right, out=right)
        position = int(right.argmax())
        if right.flat[position] > worst:
            worst = float(right.flat[position])
            where = (start + position // (m - start), start + position % (m - start))
    # A matrix computed in float32 can only be symmetric to its own precision.
    precision = 16 * np.finfo(K.dtype).eps if K.dtype.kind == "f" else 0.0
    if worst > max(_ASYMMETRY, precision) * largest:
        i, j = names[where[0]], names[where[1]]
        raise KernelError(
            f"a precomputed kernel must be symmetric; got values for rows {i} and {j} that differ "
            f"by {worst:.3g} (largest entry {largest:.3g}): pass K(X, X), or its symmetric part "
            "(K + K.T) / 2 if the difference is noise.",
            argument="X",
        )
