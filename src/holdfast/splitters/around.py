"""What the splitters share: coordinates, and experiments that test the centre of what they hold."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from holdfast._typing import AnyArray, FloatArray, IntArray
from holdfast.exceptions import HoldOutError, InvalidInputError
from holdfast.experiments.experiment import Experiments
from holdfast.experiments.ragged import Ragged
from holdfast.experiments.splitter import Splitter, count_rows

#: Rows whose neighbourhoods are looked up together.
BLOCK_ROWS = 1024


class AroundRows(Splitter):
    """Hold out the neighbourhood of a row and test that row, for every row."""

    @abstractmethod
    def _held_out(self, n_rows: int) -> Ragged:
        """Return the neighbourhood of each row, ascending."""

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of rows.

        Parameters
        ----------
        X : array-like of shape (m, ...), optional
            The rows, for a splitter that does not know their number itself.
        y : array-like of shape (m,), optional
            Counted if X is None.
        groups : ignored
        """
        return count_rows(X, y)

    def _experiments(self, n_rows: int) -> Experiments:
        centres = Ragged(np.arange(n_rows), np.arange(n_rows + 1))
        return Experiments(self._held_out(n_rows), centres)


def blocks(n_rows: int) -> Iterator[tuple[slice, sp.csr_array]]:
    """Yield blocks of rows, each with the matrix that says that a row is near itself."""
    itself = sp.eye_array(n_rows, format="csr", dtype=bool)
    for start in range(0, n_rows, BLOCK_ROWS):
        rows = slice(start, min(n_rows, start + BLOCK_ROWS))
        yield rows, itself[rows]


def gathered(near: Iterable[sp.csr_array], n_rows: int, given: str) -> Ragged:
    """Return the neighbourhoods of all rows.

    Parameters
    ----------
    near : iterable of sparse matrices of shape (block, n_rows)
        Who is near the rows of each block.
    n_rows : int
    given : str
        What the user asked for, for an error.
    """
    parts: list[Ragged] = []
    for block in near:
        block.sort_indices()
        leave_some(np.diff(block.indptr), n_rows, given, first=sum(map(len, parts)))
        parts.append(Ragged(block.indices.astype(np.int64), block.indptr.astype(np.int64)))
    return Ragged.joined(parts)


def leave_some(sizes: IntArray, n_rows: int, given: str, first: int = 0) -> None:
    """Raise if an experiment holds out all rows; before a list of all pairs is written."""
    if (sizes >= n_rows).any():
        raise HoldOutError(
            f"{given} holds out all {n_rows} rows in experiment "
            f"{first + int(np.argmax(sizes >= n_rows))}: nothing is left to train on. Choose a "
            "smaller value, or pass more rows.",
            argument=given.partition("=")[0],
        )


def check_coordinates(coordinates: ArrayLike, n_rows: int | None = None) -> FloatArray:
    """Return coordinates as finite numbers, shape (n_rows, d); a single column may come flat."""
    raw: AnyArray = np.empty(())
    found: FloatArray = np.empty(())
    with suppress(TypeError, ValueError):  # ragged, or not numbers
        raw = np.asarray(coordinates)
        if raw.dtype.kind in "biufO":  # a time would become nanoseconds without a word
            found = raw.astype(np.float64)
    found = found[:, None] if found.ndim == 1 else found
    if found.ndim != 2 or not found.shape[1]:
        raise InvalidInputError(
            "coordinates must be numbers of shape (rows, dimensions), or (rows,) for one; got "
            f"{type(coordinates).__name__}, shape {raw.shape}, dtype {raw.dtype}. Convert times to "
            "numbers of your unit, such as (t - t[0]) / numpy.timedelta64(1, 'D').",
            argument="coordinates",
        )
    if n_rows not in (None, len(found)):
        raise InvalidInputError(
            f"coordinates must hold one point for each of the {n_rows} rows; got {len(found)} "
            "points. Make the splitter with the coordinates of exactly the rows that are split.",
            argument="coordinates",
        )
    finite = np.isfinite(found).all(axis=1)
    if not finite.all():
        raise InvalidInputError(
            f"coordinates must be finite; got {found[~finite][0]} in row "
            f"{int(np.argmin(finite))}. Leave out rows without a known place.",
            argument="coordinates",
        )
    return np.ascontiguousarray(found)
