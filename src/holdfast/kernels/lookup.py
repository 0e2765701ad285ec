"""Kernel values that are looked up in a matrix: rows are numbers of its rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from holdfast._typing import FloatArray, IntArray
from holdfast.data.rows import numeric_rows
from holdfast.exceptions import InvalidInputError
from holdfast.kernels.base import Kernel

__all__ = ["Lookup"]


@dataclass(frozen=True, eq=False, repr=False)
class Lookup(Kernel):
    """A kernel whose values are in a matrix: rows of X are row numbers of that matrix.

    For what has a matrix and no columns: relationships between animals, similarities of sequences.
    Unlike ``kernel="precomputed"`` the matrix may hold more than the training rows, so predictions
    for the others need only their numbers. Since it knows k(x, x), standard deviations and full
    conformal intervals work too.

    Parameters
    ----------
    matrix : array-like of shape (n, n)
        Symmetric and positive semidefinite. A copy is kept.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.kernels import Lookup
    >>> kernel = Lookup([[1.0, 0.5, 0.0], [0.5, 1.0, 0.25], [0.0, 0.25, 1.0]])
    >>> kernel([[0], [2]], [[1]]).tolist()
    [[0.5], [0.25]]
    """

    matrix: FloatArray

    def __post_init__(self) -> None:
        try:
            matrix = np.array(self.matrix, dtype=np.float64)
        except (TypeError, ValueError):
            matrix = np.empty(0)
        square = matrix.ndim == 2 and matrix.shape[0] == matrix.shape[1] and matrix.size
        if not square or not np.isfinite(matrix).all():
            raise InvalidInputError(
                f"matrix must be square and hold finite numbers; got shape {matrix.shape}. Pass "
                "the kernel values of all rows with all rows.",
                argument="matrix",
            )
        largest = np.abs(matrix).max()
        if np.abs(matrix - matrix.T).max() > 1e-10 * largest:
            raise InvalidInputError(
                "matrix must be symmetric: k(x, z) is k(z, x). Pass (matrix + matrix.T) / 2 if "
                "that is what is meant.",
                argument="matrix",
            )
        matrix.flags.writeable = False
        object.__setattr__(self, "matrix", matrix)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Lookup):
            return NotImplemented
        return self is other or np.array_equal(self.matrix, other.matrix)

    def __hash__(self) -> int:
        """Hash of the size and the first row, which equal matrices share."""
        return hash((type(self), len(self.matrix), self.matrix[0].tobytes()))

    def __repr__(self) -> str:
        """Return the size, not the numbers."""
        return f"Lookup(<{len(self.matrix):,} × {len(self.matrix):,} matrix>)"

    def _own_parameters(self) -> dict[str, Any]:
        return {}

    @property
    def positive_semidefinite(self) -> bool:
        """True: the caller promises it."""
        return True

    def __call__(self, X: Any, Z: Any = None) -> FloatArray:
        """Return kernel values of every row of X with every row of Z (default: X)."""
        rows = self._numbers(X)
        return self.matrix[np.ix_(rows, rows if Z is None else self._numbers(Z))]

    def diag(self, X: Any) -> FloatArray:
        """Return kernel values k(x, x) of every row, shape (len(X),)."""
        rows = self._numbers(X)
        return self.matrix[rows, rows]

    def _numbers(self, X: Any) -> IntArray:
        """Return the row numbers in the only column of X."""
        given = numeric_rows(X)
        if given.shape[1] != 1:
            raise InvalidInputError(
                f"X must have one column, row numbers of the kernel matrix; got {given.shape[1]} "
                "columns. Pass numbers.reshape(-1, 1).",
                argument="X",
            )
        column = np.asarray(given.toarray() if sp.issparse(given) else given)[:, 0]
        wrong = (column != np.floor(column)) | (column < 0) | (column >= len(self.matrix))
        if wrong.any():
            raise InvalidInputError(
                f"X must hold row numbers of the kernel matrix, from 0 to {len(self.matrix) - 1}; "
                f"got {column[wrong][0]:g}. Pass them as they are, neither centred nor scaled.",
                argument="X",
            )
        return column.astype(np.int64)
