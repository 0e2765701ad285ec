"""Coordinates of the rows, checked."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from holdfast._typing import FloatArray
from holdfast.exceptions import InvalidInputError


def check_coordinates(coordinates: ArrayLike, n_rows: int) -> FloatArray:
    """Return coordinates as finite numbers, shape (n_rows, d)."""
    found = as_columns(coordinates)
    if len(found) != n_rows:
        raise InvalidInputError(
            f"coordinates must hold one point for each of the {n_rows} rows; got {len(found)} "
            "points. Make the splitter with the coordinates of exactly the rows that are split."
        )
    finite = np.isfinite(found).all(axis=1)
    if not finite.all():
        raise InvalidInputError(
            f"coordinates must be finite; got {found[~finite][0]} in row "
            f"{int(np.argmin(finite))}. Leave out rows without a known place."
        )
    return found


def as_columns(coordinates: ArrayLike) -> FloatArray:
    """Return coordinates as an array (m, d); a single column may come flat."""
    problem = "coordinates must be numbers of shape (rows, dimensions), or (rows,) for one; got "
    given: Any = coordinates
    try:
        raw = np.asarray(given)
        if raw.dtype.kind in "mM":  # a time would become nanoseconds without a word
            raise InvalidInputError(
                f"{problem}dtype {raw.dtype}. Convert times to numbers of your unit, such as "
                "(t - t[0]) / numpy.timedelta64(1, 'D')."
            )
        found = raw.astype(np.float64)
    except (TypeError, ValueError) as error:
        if isinstance(error, InvalidInputError):
            raise
        raise InvalidInputError(
            f"{problem}{type(given).__name__} that does not convert ({error}). Pass an array."
        ) from None
    if found.ndim == 1:
        found = found[:, None]
    if found.ndim != 2 or not found.shape[1]:
        raise InvalidInputError(f"{problem}shape {found.shape}. Reshape them to one row per point.")
    return np.ascontiguousarray(found)
