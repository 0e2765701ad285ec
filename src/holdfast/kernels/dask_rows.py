"""Rows that live in a Dask cluster, seen as rows with a kernel."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from holdfast._typing import AnyArray, FloatArray, Index
from holdfast.core.rows import row_chunks
from holdfast.data.dask import gather, local, on_rows
from holdfast.data.indices import row_index
from holdfast.kernels import Kernel
from holdfast.kernels.matrix import KernelData, KernelRows


@dataclass(frozen=True)
class DaskRows(KernelData):
    """Rows of a Dask array with a kernel.

    Blocks of consecutive rows are computed where the rows are, and only kernel values come to the
    client. Rows that are not consecutive are brought to the client themselves.
    """

    kernel: Kernel
    X: Any
    _brought: dict[bytes, KernelRows] = field(default_factory=dict, compare=False, repr=False)

    def __len__(self) -> int:
        """Return the number of rows m."""
        return int(self.X.shape[0])

    def gather(self, rows: Index) -> KernelRows:
        """Return those rows, brought to the client; the last are kept, as every read takes time."""
        if isinstance(rows, slice):
            return KernelRows(self.kernel, gather(self.X, rows))
        key = np.asarray(rows).tobytes()
        if key not in self._brought:
            self._brought.clear()
            self._brought[key] = KernelRows(self.kernel, gather(self.X, rows))
        return self._brought[key]

    def block(self, rows: Index, columns: Index) -> FloatArray:
        """Return K[rows][:, columns]."""
        Z = self.gather(columns)
        if not isinstance(rows, slice):
            same = not isinstance(columns, slice) and np.array_equal(rows, columns)
            return Z.block(slice(None), slice(None)) if same else self._against(rows, Z)
        values = on_rows(cross_kernel, self.X[rows], Z, columns=len(Z))
        return np.asarray(local(values))

    def _against(self, rows: Index, Z: KernelRows) -> FloatArray:
        return Z.predict_block(gather(self.X, rows), slice(None))

    def diag(self, rows: Index | None = None) -> FloatArray:
        """Return k(x, x) of those rows."""
        if rows is not None:
            return self.gather(rows).diag()
        return np.asarray(local(on_rows(diagonal, self.X, self.kernel, columns=None)))

    def take(self, rows: Index) -> DaskRows:
        """Return the data restricted to those rows, which stay where they are."""
        return DaskRows(self.kernel, self.X[row_index(rows, len(self))])

    def predict_block(self, X_new: Any, columns: Index) -> FloatArray:
        """Return kernel values of new rows with those rows of the data."""
        return self.gather(columns).predict_block(X_new, slice(None))

    def brought(self, rows: Index) -> KernelRows:
        """Return those rows, to predict with when the cluster is gone."""
        return self.gather(rows)


def cross_kernel(X: FloatArray, constants: KernelRows) -> FloatArray:
    """Return the kernel of rows with the rows of `constants`."""
    return constants.predict_block(X, slice(None))


def expand(X: FloatArray, constants: tuple[KernelData, FloatArray, FloatArray]) -> FloatArray:
    """Return the values of a model given as (basis rows, coefficients, intercept)."""
    basis, coef, intercept = constants
    values = np.empty((X.shape[0], coef.shape[1]))
    for block in row_chunks(X.shape[0], len(basis)):
        values[block] = basis.predict_block(X[block], slice(None)) @ coef + intercept
    return values


def diagonal(X: FloatArray, constants: Kernel) -> FloatArray:
    """Return k(x, x) of each row."""
    return KernelRows(constants, X).diag()


@dataclass(frozen=True)
class CrossRows(KernelData):
    """Rows against a fixed set of other rows: the only columns are those of `Z`."""

    kernel: Kernel
    X: Any
    Z: FloatArray

    def __len__(self) -> int:
        """Return the number of rows m."""
        return int(self.X.shape[0])

    def _rows(self, rows: Index) -> AnyArray:
        return np.asarray(gather(self.X, rows))

    def block(self, rows: Index, columns: Index) -> FloatArray:
        """Return the kernel of those rows with all of Z."""
        return KernelRows(self.kernel, self.Z).predict_block(self._rows(rows), slice(None))

    def diag(self, rows: Index | None = None) -> FloatArray:
        """Return k(x, x) of those rows."""
        return KernelRows(self.kernel, self._rows(slice(None) if rows is None else rows)).diag()

    def take(self, rows: Index) -> CrossRows:
        """Return those rows against the same Z."""
        return replace(self, X=self._rows(rows))

    def predict_block(self, X_new: Any, columns: Index) -> FloatArray:
        """Return the kernel of new rows with Z."""
        return KernelRows(self.kernel, self.Z).predict_block(X_new, slice(None))
