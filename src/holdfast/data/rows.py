"""Rows of data: what a kernel can be evaluated on.

| given as | kept as | a row is |
|---|---|---|
| 2-D array, data frame, list of equal-length lists of numbers | 2-D ndarray | a vector |
| scipy.sparse matrix or array | canonical CSR | a sparse vector |
| any other sequence (strings, graphs, ragged lists) | 1-D object array | an object |
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from holdfast._typing import RowData
from holdfast.exceptions import InvalidInputError

__all__ = [
    "as_rows",
    "numeric_pair",
    "numeric_rows",
]


def as_rows(X: Any) -> RowData:
    """Return rows as a 2-D ndarray, a canonical CSR matrix or a 1-D object array.

    Nothing is copied when X already has one of these forms, and no number is converted:
    float32 and integers become float64 only inside a kernel, block by block.
    """
    if sp.issparse(X):
        return _canonical_csr(X)
    if isinstance(X, str | bytes) or not hasattr(X, "__len__"):
        raise InvalidInputError(
            "X must be a 2-D array, a scipy.sparse matrix or a sequence of objects; "
            f"got {type(X).__name__}.",
            argument="X",
        )
    if isinstance(X, np.ndarray) or hasattr(X, "__array__"):
        return _array_rows(np.asarray(X))
    return _sequence_rows(X)


def _array_rows(array: npt.NDArray[Any]) -> RowData:
    if array.ndim == 2:
        return array
    if array.ndim == 1 and array.dtype.kind in "OUST":
        return array.astype(object, copy=False)
    if array.ndim == 1:
        raise InvalidInputError(
            f"X must be 2-D (rows, features); got a 1-D array of {array.shape[0]} numbers: use "
            "X.reshape(-1, 1) for one feature, X.reshape(1, -1) for one row.",
            argument="X",
        )
    raise InvalidInputError(
        f"X must be 2-D (rows, features); got an array of shape {array.shape}: reshape it, or "
        "pass a list with one object per row to a kernel that is a callable.",
        argument="X",
    )


def _sequence_rows(X: Iterable[Any]) -> RowData:
    items = list(X)
    try:
        array = np.asarray(items)
    except ValueError:  # ragged: one object per row
        return _object_rows(items)
    if array.ndim == 2 and array.dtype.kind in "biuf":
        return array
    if array.ndim == 1 and array.dtype.kind in "biufc" and items:
        return _array_rows(array)
    return _object_rows(items)


def _object_rows(items: list[Any]) -> npt.NDArray[np.object_]:
    rows = np.empty(len(items), dtype=object)
    # Item by item: assigning the whole list would make numpy unpack equal-length rows.
    for i, item in enumerate(items):
        rows[i] = item
    return rows


def _canonical_csr(X: Any) -> Any:
    csr = X.tocsr()
    if not csr.has_canonical_format:
        csr = csr.copy()  # X belongs to the caller
        csr.sum_duplicates()
    return csr


def numeric_rows(X: Any) -> RowData:
    """Return rows as real numbers: 2-D ndarray (float, integer or bool) or CSR.

    Raises
    ------
    InvalidInputError
        If the rows are objects, complex numbers or text.
    """
    rows = as_rows(X)
    if rows.ndim != 2:
        raise InvalidInputError(
            "this kernel needs numeric rows, X 2-D of shape (rows, features); got "
            f"{rows.shape[0]} objects: use a callable kernel, or turn the objects into vectors.",
            argument="X",
        )
    if rows.dtype.kind in "biuf":
        return rows
    if rows.dtype.kind == "c":
        raise InvalidInputError(
            "X must be real. Complex data not supported: pass its parts.", argument="X"
        )
    try:
        return rows.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"X must hold numbers; got dtype {rows.dtype} with values that are not numbers "
            f"({error}): encode them as numbers first.",
            argument="X",
        ) from error


def numeric_pair(X: Any, Z: Any = None) -> tuple[RowData, RowData | None]:
    """Return X and Z as numeric rows of the same width; Z is None when it is X or not given."""
    symmetric = Z is None or Z is X
    X = numeric_rows(X)
    if symmetric:
        return X, None
    Z = numeric_rows(Z)
    if Z.shape[1] != X.shape[1]:
        raise InvalidInputError(
            f"X and Z must have the same number of features; got {X.shape[1]} and {Z.shape[1]}: "
            "pass the columns the model was trained on.",
            argument="X",
        )
    return X, Z
