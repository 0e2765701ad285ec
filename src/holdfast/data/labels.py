"""Labels from users, groups and classes: one known label for each row, and they can be sorted."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from holdfast._typing import AnyArray, BoolArray
from holdfast.data.values import refuse_masked
from holdfast.exceptions import InvalidInputError

__all__ = ["check_labels"]


def check_labels(name: str, labels: ArrayLike, n_rows: int) -> AnyArray:
    """Return labels as an array with one comparable, known label per row.

    Numbers, text, truth values, dates, or objects that can be sorted, called `name` in errors.
    """
    refuse_masked(name, labels)
    try:
        array = np.asarray(labels)
    except ValueError:  # ragged
        array = np.empty((0, 0), dtype=object)
    if array.shape != (n_rows,):
        raise InvalidInputError(
            f"{name} must hold one label per row, shape ({n_rows},); got shape {array.shape}.",
            argument=name,
        )
    if array.dtype.kind in "cV":
        raise InvalidInputError(
            f"{name} must hold labels that can be sorted; got dtype {array.dtype}. Use whole "
            "numbers or text.",
            argument=name,
        )
    missing = _missing(array)
    if missing.any():
        raise InvalidInputError(
            f"{name} must hold a label for every row; got {int(missing.sum())} missing, the first "
            f"in row {int(np.argmax(missing))}. Leave those rows out, or give them a label of "
            "their own.",
            argument=name,
        )
    if array.dtype.kind == "O":
        _require_sortable(name, array)
    return array


def _missing(labels: AnyArray) -> BoolArray:
    if labels.dtype.kind == "f":
        return np.isnan(labels)
    if labels.dtype.kind in "mM":
        return np.isnat(labels)
    if labels.dtype.kind == "O":
        return np.array([_is_missing(label) for label in labels], dtype=bool)
    return np.zeros(labels.shape, dtype=bool)


def _is_missing(label: Any) -> bool:
    try:
        return label is None or bool(label != label)
    except (TypeError, ValueError):  # pandas.NA has no truth value
        return True


def _require_sortable(name: str, labels: AnyArray) -> None:
    try:
        np.unique(labels)
    except TypeError as error:
        raise InvalidInputError(
            f"{name} must hold labels that can be sorted; got labels of several types ({error}). "
            "Use numbers or text throughout.",
            argument=name,
        ) from None
