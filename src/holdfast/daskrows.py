"""Rows that live in a Dask cluster, seen as rows with a kernel.

Dask is imported only when a Dask collection arrives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast.exceptions import InvalidInputError, MissingDependencyError
from holdfast.first_pass import row_blocks
from holdfast.gram import Index, KernelData, KernelRows, row_index
from holdfast.kernels import Kernel
from holdfast.kernels.rows import FloatArray


def is_dask(X: Any) -> bool:
    """Whether X is a Dask collection, without importing Dask."""
    return type(X).__module__.split(".")[0] in ("dask", "dask_expr") and hasattr(X, "dask")


def local(values: Any) -> Any:
    """Return a small Dask collection as what it holds; anything else as it is."""
    return values.compute() if is_dask(values) else values


def gather(X: Any, rows: Index) -> npt.NDArray[Any]:
    """Return rows of a Dask array, in the order asked for, as an array on the client."""
    index = row_index(rows, X.shape[0])
    if isinstance(index, slice):
        return np.asarray(X[index].compute())
    wanted, back = np.unique(index, return_inverse=True)  # Dask takes rows best in their order
    return np.asarray(X[wanted].compute())[back]


def on_rows(
    function: Callable[[Any, Any], npt.NDArray[Any]],
    X: Any,
    constants: Any,
    *,
    columns: int | None,
    dtype: Any = np.float64,
) -> Any:
    """Return ``function(rows, constants)``: at once for an array, chunk by chunk for a Dask array.

    Parameters
    ----------
    function : callable
        From rows (k, ·) to values (k, columns), or (k,) where `columns` is None.
    X : array or Dask array
    constants : object
        One copy of it serves all chunks.
    columns : int or None
    dtype : data type of the values
    """
    if not is_dask(X):
        return function(X, constants)
    from dask.delayed import delayed

    shape: dict[str, Any] = {"chunks": (X.chunks[0], (columns,))}
    if columns is None:
        shape = {"chunks": (X.chunks[0],), "drop_axis": 1}
    shared = delayed(constants, traverse=False)
    meta = np.empty((0,) if columns is None else (0, 0), dtype=dtype)
    return X.map_blocks(
        _apply, function=function, constants=shared, dtype=dtype, meta=meta, **shape
    )


def _apply(X: Any, *, function: Callable[[Any, Any], Any], constants: Any) -> Any:
    return function(X, constants)


def as_dask_rows(X: Any, *, check: bool) -> Any:
    """Return a Dask array or frame as an array in chunks of whole rows.

    With `check`, one pass over the rows makes sure that they are finite numbers and finds the
    sizes of chunks that are not known; without, nothing is computed.
    """
    try:
        import dask.array as da
    except ImportError:
        raise MissingDependencyError(
            "Dask input needs dask, which is not installed: pip install 'holdfast[dask]'."
        ) from None
    rows = X.to_dask_array() if hasattr(X, "to_dask_array") else X
    if not isinstance(rows, da.Array) or rows.ndim != 2:
        shape = f"{rows.ndim} dimensions" if isinstance(rows, da.Array) else type(X).__name__
        raise InvalidInputError(
            "X must be a Dask array of two dimensions or a Dask frame; got "
            f"{shape}. Use X.reshape(-1, 1) for one feature."
        )
    if not isinstance(rows._meta, np.ndarray):
        raise InvalidInputError(
            "the chunks of a Dask array must be NumPy arrays; got "
            f"{type(rows._meta).__name__}. Convert them: X.map_blocks(lambda c: c.toarray())."
        )
    if rows.numblocks[1] > 1:
        rows = rows.rechunk({1: -1})  # type: ignore[no-untyped-call]  # dask is partly typed
    if rows.dtype not in (np.float64, np.float32):
        rows = rows.astype(np.float64)
    return _surveyed(rows) if check else rows


def _surveyed(rows: Any) -> Any:
    """Return the rows with the sizes of their chunks, after making sure that they are finite."""
    import dask.array as da
    from dask.base import compute
    from dask.delayed import delayed

    count = delayed(_count, pure=False)
    found = compute(*[count(part) for part in rows.to_delayed().ravel()])  # type: ignore[no-untyped-call]  # dask is partly typed
    sizes, bad = [size for size, _ in found], [first for _, first in found]
    for start, first in zip(np.cumsum([0, *sizes]), bad, strict=False):
        if first >= 0:
            raise InvalidInputError(
                f"X must be finite; the Dask array holds NaN or infinity, first in row "
                f"{start + first}. Fill such values in or leave those rows out."
            )
    if not sum(sizes):
        raise InvalidInputError("X must hold at least one row; the Dask array is empty.")
    chunks = (tuple(sizes), rows.chunks[1])
    return da.Array(rows.dask, rows.name, chunks, dtype=rows.dtype, meta=rows._meta)  # type: ignore[no-untyped-call]  # dask is partly typed


def _count(X: Any) -> tuple[int, int]:
    """Return the number of rows of a chunk, and its first row that is not finite or −1."""
    finite = np.isfinite(np.asarray(X)).all(axis=1)
    return len(finite), -1 if finite.all() else int(np.argmin(finite))


@dataclass(frozen=True)
class DaskRows(KernelData):
    """Rows of a Dask array with a kernel.

    Blocks of consecutive rows are computed where the rows are, and only kernel values come to
    the client; of rows taken one by one, the rows come.
    """

    kernel: Kernel
    X: Any

    def __len__(self) -> int:
        """Return the number of rows m."""
        return int(self.X.shape[0])

    def gather(self, rows: Index) -> KernelRows:
        """Return those rows, brought to the client."""
        return KernelRows(self.kernel, gather(self.X, rows))

    def block(self, rows: Index, columns: Index) -> FloatArray:
        """Return K[rows][:, columns]."""
        Z = self.gather(columns)
        if not isinstance(rows, slice):
            same = not isinstance(columns, slice) and np.array_equal(rows, columns)
            return Z.block(slice(None), slice(None)) if same else self._against(rows, Z)
        values = on_rows(cross_kernel, self.X[rows], Z, columns=len(Z))
        return np.asarray(values.compute())

    def _against(self, rows: Index, Z: KernelRows) -> FloatArray:
        return Z.predict_block(gather(self.X, rows), slice(None))

    def diag(self, rows: Index | None = None) -> FloatArray:
        """Return k(x, x) of those rows."""
        if rows is not None:
            return self.gather(rows).diag()
        return np.asarray(on_rows(diagonal, self.X, self.kernel, columns=None).compute())

    def take(self, rows: Index) -> DaskRows:
        """Return the data restricted to those rows, which stay where they are."""
        return DaskRows(self.kernel, self.X[row_index(rows, len(self))])

    def predict_block(self, X_new: Any, columns: Index) -> FloatArray:
        """Return kernel values of new rows with those rows of the data."""
        return self.gather(columns).predict_block(X_new, slice(None))


def cross_kernel(X: FloatArray, constants: KernelRows) -> FloatArray:
    """Return the kernel of rows with the rows of `constants`."""
    return constants.predict_block(X, slice(None))


def expand(X: FloatArray, constants: tuple[KernelData, FloatArray, FloatArray]) -> FloatArray:
    """Return the values of a model given as (basis rows, coefficients, intercept)."""
    basis, coef, intercept = constants
    values = np.empty((X.shape[0], coef.shape[1]))
    for block in row_blocks(X.shape[0], len(basis)):
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

    def _rows(self, rows: Index) -> npt.NDArray[Any]:
        if is_dask(self.X):
            return gather(self.X, rows)
        return np.asarray(self.X[row_index(rows, len(self))])

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
