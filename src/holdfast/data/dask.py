"""Dask collections: the one door to Dask for data; it is imported only when one arrives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from holdfast._typing import AnyArray, FloatArray
from holdfast.data.indices import row_index
from holdfast.data.values import LARGEST, require_numbers
from holdfast.data.watched import compute
from holdfast.exceptions import InvalidInputError, MissingDependencyError

__all__ = ["as_dask_rows", "gather", "is_dask", "local", "on_rows", "parts_here"]


#: More chunks than this, of fewer bytes on average, are put together.
MANY_CHUNKS, SMALL_CHUNK = 32, 2**20


def is_dask(X: Any) -> bool:
    """Whether X is a Dask collection, without importing Dask."""
    return type(X).__module__.split(".")[0] in ("dask", "dask_expr") and hasattr(X, "dask")


def local(values: Any) -> Any:
    """Return a small Dask collection as what it holds; anything else as it is."""
    return compute(values)[0] if is_dask(values) else values


def gather(X: Any, rows: slice | ArrayLike) -> Any:
    """Return some rows here, in the order asked for: those of a Dask array become an array."""
    index = row_index(rows, X.shape[0])
    if not is_dask(X):
        return X[index]
    if isinstance(index, slice):
        return np.asarray(compute(X[index])[0])
    wanted, back = np.unique(index, return_inverse=True)  # Dask takes rows best in their order
    return np.asarray(compute(X[wanted])[0])[back]


def parts_here(X: Any) -> Iterator[Any]:
    """Yield rows that are here: the chunks of a Dask array one after the other, or all rows."""
    if not is_dask(X):
        yield X
        return
    for chunk in X.to_delayed().ravel():
        yield np.asarray(chunk.compute())


def on_rows(
    function: Callable[[Any, Any], AnyArray],
    X: Any,
    constants: Any,
    *,
    columns: int | None,
    dtype: Any = np.float64,
) -> Any:
    """Return ``function(rows, constants)``: at once for an array, chunk by chunk for a Dask array.

    The function goes from rows (k, ·) to values (k, columns), or (k,) where `columns` is None. One
    copy of the constants serves all chunks.
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
            f"{shape}. Use X.reshape(-1, 1) for one feature.",
            argument="X",
        )
    if not isinstance(rows._meta, np.ndarray):
        raise InvalidInputError(
            "the chunks of a Dask array must be NumPy arrays; got "
            f"{type(rows._meta).__name__}. Convert them: X.map_blocks(lambda c: c.toarray()).",
            argument="X",
        )
    if rows.dtype.kind not in "biuf":
        require_numbers("X", np.zeros((0, rows.shape[1]), dtype=rows.dtype))  # has the sentence
    if rows.numblocks[1] > 1:
        rows = rows.rechunk({1: -1})  # type: ignore[no-untyped-call]  # dask is partly typed
    if rows.dtype not in (np.float64, np.float32):
        rows = rows.astype(np.float64)
    return _surveyed(rows) if check else rows


def _surveyed(rows: Any) -> Any:
    """Return the rows with the sizes of their chunks, after making sure that they are finite."""
    import dask.array as da
    from dask.delayed import delayed

    count = delayed(_count, pure=False)
    found = compute(*[count(part) for part in rows.to_delayed().ravel()])
    sizes, bad = [size for size, _ in found], [first for _, first in found]
    for start, first in zip(np.cumsum([0, *sizes]), bad, strict=False):
        if first >= 0:
            raise InvalidInputError(
                f"X must be finite; the Dask array holds NaN, infinity, masked values or numbers "
                f"beyond {LARGEST:g}, first in row {start + first}. Fill such values in or leave "
                "those rows out.",
                argument="X",
            )
    if not sum(sizes):
        raise InvalidInputError(
            "X must hold at least one row; the Dask array is empty.", argument="X"
        )
    chunks = (tuple(sizes), rows.chunks[1])
    known = da.Array(rows.dask, rows.name, chunks, dtype=rows.dtype, meta=rows._meta)  # type: ignore[no-untyped-call]  # dask is partly typed
    if len(sizes) > MANY_CHUNKS and known.nbytes < len(sizes) * SMALL_CHUNK:
        # A task for a few rows costs more than their sums.
        return known.rechunk({0: max(1, SMALL_CHUNK // max(1, known.nbytes // sum(sizes)))})  # type: ignore[no-untyped-call]  # dask is partly typed
    return known


def _count(X: Any) -> tuple[int, int]:
    """Return the number of rows of a chunk, and its first row that is not usable or −1."""
    if isinstance(X, np.ma.MaskedArray):
        X = np.where(np.ma.getmaskarray(X), np.nan, np.asarray(X))  # hidden is missing
    sizes: FloatArray = np.abs(np.asarray(X, dtype=np.float64))
    usable = np.asarray((sizes <= LARGEST).all(axis=1))  # nan compares false
    return len(usable), -1 if usable.all() else int(np.argmin(usable))
