"""Basis rows chosen at random, or by the user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdfast._typing import FloatArray, IntArray
from holdfast.basis.base import Pool, Selector, how_many
from holdfast.data.indices import row_numbers
from holdfast.exceptions import InvalidInputError

if TYPE_CHECKING:
    from holdfast.experiments import Experiments
    from holdfast.kernels.matrix import KernelData


class Random(Selector):
    """Rows drawn uniformly without replacement.

    Parameters
    ----------
    n : int or float
        How many rows, or which fraction of them.

    Notes
    -----
    The choice does not depend on the data, so holding rows out afterwards (``"remove"``) leaves a
    random choice from the training rows: the estimate is unbiased (Pahikkala et al. 2012, §6.2).
    """

    data_dependent: ClassVar[bool] = False
    nested: ClassVar[bool] = True

    def __init__(self, n: int | float = 0.1) -> None:
        self.n = n

    def _choose(self, pool: Pool) -> IntArray:
        m = len(pool)
        return pool.rng.choice(m, size=how_many(self.n, m), replace=False).astype(np.int64)


class Fixed(Selector):
    """The user's own basis rows.

    Parameters
    ----------
    rows : sequence of int or of bool
        Positions of the basis rows, counted from 0, or a boolean mask with one value per row. The
        order is kept; duplicates are refused.

    Notes
    -----
    holdfast cannot know how the rows were chosen: if it was by looking at the data, the remark on
    ``data_dependent`` selectors applies (Pahikkala et al. 2012, §6.3.2). Rows of weight zero are
    allowed.
    """

    data_dependent: ClassVar[bool] = False

    def __init__(self, rows: ArrayLike) -> None:
        self.rows = rows

    def select(
        self,
        data: KernelData,
        y: FloatArray | None = None,
        weights: FloatArray | None = None,
        groups: NDArray[Any] | None = None,
        experiments: Experiments | None = None,
        rng: np.random.Generator | int | None = None,
    ) -> IntArray:
        """Return the given positions, checked against the number of rows."""
        return check_rows(self.rows, len(data))

    def _choose(self, pool: Pool) -> IntArray:
        """Return where the given rows stand in the pool, for a selector that starts from them."""
        given = check_rows(self.rows, pool.total)
        idle = np.setdiff1d(given, pool.rows)
        if len(idle):
            raise InvalidInputError(
                f"rows of weight zero cannot be started from: {_some(idle)}. Leave them out."
            )
        return np.searchsorted(pool.rows, given).astype(np.int64)


def check_rows(rows: ArrayLike, m: int) -> IntArray:
    """Return row numbers 0 … m-1 or a mask as row numbers, at least one, each named once."""
    found = row_numbers("basis", rows, m, mask=True, error=InvalidInputError)
    if not found.size:
        raise InvalidInputError(
            "basis names no rows; give at least one, or basis=None for the dense model."
        )
    return found


def _some(values: IntArray) -> str:
    shown = ", ".join(str(int(value)) for value in values[:5])
    return shown + (f" and {len(values) - 5} more" if len(values) > 5 else "")
