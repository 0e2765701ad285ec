"""Rows that live in a Dask cluster, seen as rows with a kernel.

Dask is imported only when a Dask collection arrives.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from holdfast.exceptions import InvalidInputError, MissingDependencyError
from holdfast.gram import Index, KernelData, KernelRows
from holdfast.kernels import Kernel
from holdfast.kernels.rows import FloatArray


def is_dask(X: Any) -> bool:
    """Whether X is a Dask collection, without importing Dask."""
    return type(X).__module__.split(".")[0] in ("dask", "dask_expr") and hasattr(X, "dask")


def local(values: Any) -> Any:
    """Return a small Dask collection as what it holds; anything else as it is."""
    return values.compute() if is_dask(values) else values


def as_dask_rows(X: Any, *, check: bool) -> Any:
    """Return a Dask frame or array as an array with known chunks of whole rows.

    With `check`, one pass over the rows makes sure that they are finite.
    """
    try:
        import dask.array as da
    except ImportError:
        raise MissingDependencyError(
            "Dask input needs dask, which is not installed: pip install holdfast[dask]."
        ) from None
    rows = X.to_dask_array(lengths=True) if hasattr(X, "to_dask_array") else X
    if rows.ndim != 2:
        raise InvalidInputError(f"X must have two dimensions; got {rows.ndim}.")
    if np.isnan(rows.shape[0]) and check:
        rows = rows.compute_chunk_sizes()
    if rows.numblocks[1] > 1:
        rows = rows.rechunk({1: -1})
    if rows.dtype not in (np.float64, np.float32):
        rows = rows.astype(np.float64)
    if check and not bool(da.isfinite(rows).all().compute()):
        raise InvalidInputError("X must be finite; the Dask array holds NaN or infinity.")
    return rows


@dataclass(frozen=True)
class DaskRows(KernelData):
    """Rows of a Dask array with a kernel; blocks come to the client when asked for."""

    kernel: Kernel
    X: Any

    def __len__(self) -> int:
        """Return the number of rows m."""
        return int(self.X.shape[0])

    def _local(self, rows: Index) -> FloatArray:
        index = rows if isinstance(rows, slice) else np.asarray(rows)
        return np.asarray(self.X[index].compute())

    def block(self, rows: Index, columns: Index) -> FloatArray:
        """Return K[rows][:, columns]."""
        return KernelRows(self.kernel, self._local(columns)).predict_block(
            self._local(rows), slice(None)
        )

    def diag(self, rows: Index | None = None) -> FloatArray:
        """Return k(x, x) of those rows."""
        return KernelRows(self.kernel, self._local(slice(None) if rows is None else rows)).diag()

    def take(self, rows: Index) -> KernelRows:
        """Return those rows, brought to the client."""
        return KernelRows(self.kernel, self._local(rows))

    def predict_block(self, X_new: Any, columns: Index) -> FloatArray:
        """Return kernel values of new rows with those rows of the data."""
        return self.take(columns).predict_block(X_new, slice(None))


@dataclass(frozen=True)
class CrossRows(KernelData):
    """Rows against a fixed set of other rows: the only columns are those of `Z`."""

    kernel: Kernel
    X: Any
    Z: FloatArray

    def __len__(self) -> int:
        """Return the number of rows m."""
        return int(self.X.shape[0])

    def block(self, rows: Index, columns: Index) -> FloatArray:
        """Return the kernel of those rows with all of Z."""
        index = rows if isinstance(rows, slice) else np.asarray(rows)
        return KernelRows(self.kernel, self.Z).predict_block(
            np.asarray(local(self.X[index])), slice(None)
        )

    def diag(self, rows: Index | None = None) -> FloatArray:
        """Return k(x, x) of those rows."""
        index = slice(None) if rows is None else rows
        return KernelRows(self.kernel, np.asarray(local(self.X[index]))).diag()

    def take(self, rows: Index) -> CrossRows:
        """Return those rows against the same Z."""
        return replace(self, X=local(self.X[rows]))

    def predict_block(self, X_new: Any, columns: Index) -> FloatArray:
        """Return the kernel of new rows with Z."""
        return KernelRows(self.kernel, self.Z).predict_block(X_new, columns)
