"""A kernel that looks at some columns only: bands of features, and kernels beside a trend."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from holdfast._typing import FloatArray, RowData
from holdfast.data.rows import numeric_pair, numeric_rows
from holdfast.exceptions import InvalidInputError
from holdfast.kernels.base import Kernel, Pullback
from holdfast.kernels.products import RowPair

__all__ = ["OnColumns"]


@dataclass(frozen=True, repr=False)
class OnColumns(Kernel):
    """The kernel of some columns of the rows, as if there were no others.

    Parameters
    ----------
    kernel : Kernel
    columns : range, slice with an end, or iterable of int
        Numbers of the columns, counted from 0.

    Examples
    --------
    >>> from holdfast.kernels import RBF, Linear, OnColumns
    >>> k = OnColumns(RBF(gamma=0.5), range(2)) + OnColumns(Linear(), [2])
    >>> k([[0.0, 0.0, 1.0], [1.0, 0.0, 3.0]]).round(3).tolist()
    [[2.0, 3.607], [3.607, 10.0]]
    """

    kernel: Kernel
    columns: tuple[int, ...]
    _has_pullback: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not isinstance(self.kernel, Kernel):
            raise InvalidInputError(
                f"kernel must be a kernel object; got {self.kernel!r}. Take one of "
                "holdfast.kernels, such as RBF(gamma=0.5).",
                argument="kernel",
            )
        object.__setattr__(self, "columns", _numbers(self.columns))

    def __repr__(self) -> str:
        first, last = self.columns[0], self.columns[-1]
        told: Any = list(self.columns)
        if self.columns == tuple(range(first, last + 1)):
            told = range(first, last + 1)
        return f"OnColumns({self.kernel!r}, {told!r})"

    @property
    def parts(self) -> dict[str, Kernel]:
        """The kernel itself."""
        return {"kernel": self.kernel}

    @property
    def accepts_objects(self) -> bool:
        """False: rows have columns."""
        return False

    @property
    def feature_parameters(self) -> tuple[str, ...]:
        """None: widths of single features are those of all columns."""
        return ()

    def _own_parameters(self) -> dict[str, Any]:
        return {}  # columns are no number to search for

    def __call__(self, X: Any, Z: Any = None) -> FloatArray:
        """Return kernel values of every row of X with every row of Z (default: X)."""
        rows, others = numeric_pair(X, Z)
        return self.kernel(self._taken(rows), None if others is None else self._taken(others))

    def diag(self, X: Any) -> FloatArray:
        """Return kernel values k(x, x) of every row, shape (len(X),)."""
        return self.kernel.diag(self._taken(numeric_rows(X)))

    def _pulled(self, pair: RowPair) -> tuple[FloatArray, Pullback]:
        Z = None if pair.Z is None else self._taken(pair.Z)
        K, pull = self.kernel.value_and_pullback(RowPair(self._taken(pair.X), Z))
        return K, lambda P: {f"kernel__{name}": slope for name, slope in pull(P).items()}

    def _taken(self, X: RowData) -> RowData:
        if max(self.columns) >= X.shape[1]:
            raise InvalidInputError(
                f"columns must lie among the {X.shape[1]} columns of X; got {max(self.columns)}. "
                "Count them from 0.",
                argument="columns",
            )
        return X[:, list(self.columns)]


def _numbers(columns: Any) -> tuple[int, ...]:
    """Return column numbers, each once and none negative."""
    if isinstance(columns, slice) and columns.stop is not None:
        columns = range(columns.start or 0, columns.stop, columns.step or 1)
    values = list(columns) if isinstance(columns, Iterable) else []
    whole = all(isinstance(j, int | np.integer) and not isinstance(j, bool) for j in values)
    if not values or not whole or min(values) < 0 or len(set(values)) < len(values):
        raise InvalidInputError(
            "columns must be different whole numbers from 0 on, such as range(10) or [0, 3]; got "
            f"{columns!r}.",
            argument="columns",
        )
    return tuple(int(j) for j in values)
