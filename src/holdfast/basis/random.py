"""Basis rows by chance alone, or by the user's own hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdfast.basis.base import Floats, Pool, Rows, Selector, how_many
from holdfast.exceptions import InvalidInputError

if TYPE_CHECKING:
    from holdfast.experiments import Experiments
    from holdfast.gram import KernelData


class Random(Selector):
    """Rows drawn uniformly without replacement.

    Parameters
    ----------
    n : int or float
        How many rows, or which fraction of them.

    Notes
    -----
    The choice knows nothing of the data, so holding rows out afterwards (``"remove"``) leaves a
    random choice from the training rows: the estimate is unbiased (paper 000, §6.2).
    """

    data_dependent: ClassVar[bool] = False
    nested: ClassVar[bool] = True

    def __init__(self, n: int | float = 0.1) -> None:
        self.n = n

    def _choose(self, pool: Pool) -> Rows:
        m = len(pool)
        return pool.rng.choice(m, size=how_many(self.n, m), replace=False).astype(np.int64)


class Fixed(Selector):
    """The user's own basis rows.

    Parameters
    ----------
    rows : sequence of int or of bool
        Positions of the basis rows (negative ones count from the end), or a boolean mask with
        one value per row. The order is kept; duplicates are refused.

    Notes
    -----
    holdfast cannot know how the rows were chosen: if it was by looking at the data, the remark on
    ``data_dependent`` selectors applies (paper 000, §6.3.2). Rows of weight zero are allowed.
    """

    data_dependent: ClassVar[bool] = False

    def __init__(self, rows: ArrayLike) -> None:
        self.rows = rows

    def select(
        self,
        data: KernelData,
        y: Floats | None = None,
        weights: Floats | None = None,
        groups: NDArray[Any] | None = None,
        experiments: Experiments | None = None,
        rng: np.random.Generator | int | None = None,
    ) -> Rows:
        """Return the given positions, checked against the number of rows."""
        return check_rows(self.rows, len(data))

    def _choose(self, pool: Pool) -> Rows:
        """Return where the given rows stand in the pool, for a selector that starts from them."""
        given = check_rows(self.rows, pool.total)
        idle = np.setdiff1d(given, pool.rows)
        if len(idle):
            raise InvalidInputError(
                f"rows of weight zero cannot be started from: {_some(idle)}. Leave them out."
            )
        return np.searchsorted(pool.rows, given).astype(np.int64)


def check_rows(rows: ArrayLike, m: int) -> Rows:
    """Return positions 0 … m-1 as an int64 array, or raise and say which are unusable."""
    given = _as_vector(rows)
    if given.dtype == np.bool_:
        if len(given) != m:
            raise InvalidInputError(
                f"basis given as a boolean mask must have one value for each of the {m} rows, "
                f"got {len(given)}."
            )
        given = np.flatnonzero(given)
    if len(given) == 0:
        raise InvalidInputError(
            "basis names no rows; give at least one, or basis=None for the dense model."
        )
    outside = given[(given < -m) | (given >= m)]
    if len(outside):
        raise InvalidInputError(
            f"basis rows must lie in 0 … {m - 1} (the data have {m} rows); out of range: "
            f"{_some(outside)}."
        )
    positions = np.where(given < 0, given + m, given).astype(np.int64)
    values, counts = np.unique(positions, return_counts=True)
    if len(values) < len(positions):
        raise InvalidInputError(
            f"basis rows must be distinct; given more than once: {_some(values[counts > 1])}. "
            "Use numpy.unique on them."
        )
    return positions


def _as_vector(rows: ArrayLike) -> NDArray[Any]:
    given = np.asarray(rows)
    if given.ndim != 1:
        raise InvalidInputError(
            f"basis rows must be a one-dimensional sequence of row positions, got shape "
            f"{given.shape}."
        )
    if given.size == 0:
        return given.astype(np.int64)
    whole = given.dtype.kind in "iub" or (
        given.dtype.kind == "f" and bool(np.all(np.isfinite(given) & (given == np.round(given))))
    )
    if not whole:
        raise InvalidInputError(
            f"basis rows must be whole numbers (positions) or booleans (a mask), got dtype "
            f"{given.dtype}. Labels are not looked up: convert them to positions first."
        )
    return given if given.dtype.kind == "b" else given.astype(np.int64)


def _some(values: NDArray[Any]) -> str:
    shown = ", ".join(str(int(value)) for value in values[:5])
    return shown + (f" and {len(values) - 5} more" if len(values) > 5 else "")
