"""Multi-label targets: a matrix of 0 and 1, a column for each label that a row may have."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from holdfast._typing import FloatArray
from holdfast.estimators.inputs import check_length
from holdfast.exceptions import InvalidInputError

__all__ = ["check_label_matrix", "is_label_matrix"]


def is_label_matrix(y: Any) -> bool:
    """Return whether targets are several columns of numbers or truth values."""
    if sp.issparse(y):
        return True
    try:
        values = np.asarray(y)
    except ValueError:  # ragged
        return False
    return values.ndim == 2 and values.shape[1] > 1 and values.dtype.kind in "biuf"


def check_label_matrix(y: Any, n_rows: int, weights: FloatArray) -> FloatArray:
    """Return labels (m, v) as −1 and +1.

    Raises
    ------
    InvalidInputError
        If there is anything but 0 and 1, or no row of positive weight has any label.
    """
    values = y.toarray() if sp.issparse(y) else np.asarray(y)
    check_length("y", values, n_rows)
    if not values.shape[1]:
        raise InvalidInputError("y must have a column for each label; got none.", argument="y")
    wrong = (values != 0) & (values != 1)
    if wrong.any():
        row, column = np.argwhere(wrong)[0].tolist()
        raise InvalidInputError(
            "y must be one column of labels, or for multi-label targets a matrix of 0 and 1; got "
            f"{values[row, column]} in row {row}, column {column} of an array of shape "
            f"{values.shape}. Pass a 1d array of classes, or say with 0 and 1 which labels each "
            "row has.",
            argument="y",
        )
    if not values[weights > 0].any():
        raise InvalidInputError(
            "y must hold a label for some row of positive weight; got 0 everywhere. Add rows that "
            "have labels.",
            argument="y",
        )
    return np.where(values == 1, 1.0, -1.0)
