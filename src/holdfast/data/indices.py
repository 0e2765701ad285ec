"""The one check of row numbers that users pass.

Rows are counted from 0. A negative number never means "from the end": in a list of row numbers it
is almost always a mistake, such as the −1 of an index that was not found.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from holdfast._typing import AnyArray, Index, IntArray
from holdfast.data.values import refuse_masked
from holdfast.exceptions import HoldOutError, InvalidInputError

__all__ = ["as_slice", "row_index", "row_numbers"]


def row_numbers(
    name: str,
    rows: ArrayLike,
    n_rows: int | None = None,
    *,
    mask: bool = False,
    error: type[InvalidInputError] = HoldOutError,
) -> IntArray:
    """Return row numbers as int64: integers, distinct, not negative and, if given, below `n_rows`.

    With `mask`, a boolean mask with one value for each of `n_rows` rows is accepted as well. `name`
    is what the rows are called in errors, its last word the argument, and `error` what is raised.
    """
    refused = partial(error, argument=name.split()[-1])  # test of experiment 3 of cv
    array = _vector(name, rows, mask, refused)
    if array.dtype.kind == "b":
        if array.size != n_rows:
            raise refused(
                f"{name} given as a boolean mask must have one value for each of the {n_rows} "
                f"rows; got {array.size}."
            )
        return np.flatnonzero(array)
    if array.size and array.dtype.kind == "u" and array.max() > np.iinfo(np.int64).max:
        raise refused(
            f"{name} must hold row numbers below 2**63; got {array.max()}. Count rows from 0."
        )
    indices = array.astype(np.int64)
    last = "the last row" if n_rows is None else f"{n_rows - 1}"
    if indices.size and (indices.min() < 0 or (n_rows is not None and indices.max() >= n_rows)):
        outside = (indices < 0) if n_rows is None else (indices < 0) | (indices >= n_rows)
        known = "" if n_rows is None else f" (the data have {n_rows} rows)"
        raise refused(
            f"{name} must hold row numbers from 0 to {last}{known}; got {_some(indices[outside])}. "
            "Count rows from 0; negative numbers do not count from the end."
        )
    ascending = bool((indices[1:] > indices[:-1]).all())  # usually so, and cheap to test
    if not ascending and np.unique(indices).size != indices.size:
        values, count = np.unique(indices, return_counts=True)
        raise refused(
            f"{name} must not name a row twice; got row {values[count > 1][0]} "
            f"{count[count > 1][0]} times. Remove the repeated row numbers (numpy.unique)."
        )
    return indices


def _vector(
    name: str, rows: ArrayLike, mask: bool, refused: Callable[..., InvalidInputError]
) -> AnyArray:
    refuse_masked(name, rows, refused)
    try:
        array = np.asarray(rows)
    except ValueError:  # ragged
        array = np.empty((0, 0), dtype=object)
    if array.ndim == 1 and not array.size:
        return array.astype(np.int64)
    if array.ndim != 1 or array.dtype.kind not in ("iub" if mask else "iu"):
        allowed = "integer row numbers or a boolean mask" if mask else "integer row numbers"
        raise refused(
            f"{name} must be a one-dimensional array of {allowed}; got shape {array.shape} and "
            f"dtype {array.dtype}. Pass positions, not labels{'' if mask else ' or masks'}."
        )
    return array


def _some(values: IntArray) -> str:
    shown = ", ".join(str(value) for value in values[:5])
    return shown + (f" and {values.size - 5} more" if values.size > 5 else "")


def row_index(index: slice | ArrayLike, n_rows: int) -> Index:
    """Return a slice as it is, anything else as row numbers in 0 … n_rows − 1, in their order.

    For code that asks for blocks of rows: a mask of length `n_rows` is allowed, and so is a row
    that is named twice.
    """
    if isinstance(index, slice):
        return index
    array = np.asarray(index)
    if array.ndim == 1 and array.dtype == np.bool_ and array.shape[0] == n_rows:
        return np.flatnonzero(array)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise InvalidInputError(
            f"rows must be a slice, a 1-D array of integers or a boolean mask of length {n_rows}; "
            f"got an array of shape {array.shape} and dtype {array.dtype}.",
            argument="rows",
        )
    if array.size and (array.min() < 0 or array.max() >= n_rows):
        wrong = array[(array < 0) | (array >= n_rows)][0]
        raise InvalidInputError(
            f"rows must lie between 0 and {n_rows - 1}; got {wrong}: number the rows from zero.",
            argument="rows",
        )
    return array.astype(np.int64, copy=False)


def as_slice(rows: IntArray) -> Index:
    """Return consecutive rows as a slice, which gives a view where an array gives a copy."""
    if rows.size and rows[-1] - rows[0] == rows.size - 1 and (np.diff(rows) == 1).all():
        return slice(int(rows[0]), int(rows[-1]) + 1)
    return rows
