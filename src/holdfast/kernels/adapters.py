"""Kernels from elsewhere: functions, scikit-learn's GP kernels, values in a matrix."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.gaussian_process import kernels as gp

from holdfast._typing import FloatArray, IntArray
from holdfast.data.rows import as_rows, numeric_rows
from holdfast.exceptions import InvalidInputError
from holdfast.kernels.base import Kernel
from holdfast.kernels.checks import kernel_matrix

__all__ = ["FunctionKernel", "Lookup", "SklearnKernel"]

# Rows per call when only the diagonal is wanted: few calls of a vectorised function, and still
# a small share of the evaluations that a fit needs anyway.
_DIAGONAL_BLOCK = 8


@dataclass(frozen=True)
class FunctionKernel(Kernel):
    """A kernel computed by a function `func(X, Z, **params)` that returns the whole matrix.

    Parameters
    ----------
    func : callable
        Takes two sets of rows as `as_rows` gives them (2-D array, CSR, or 1-D object array
        of strings, graphs, …) and returns an array of shape (len(X), len(Z)). It must be
        symmetric, positive semidefinite, and a function of the pairs of rows alone, since it is
        called on parts of the data.
    params : mapping, optional
        Keyword arguments passed on at every call.
    """

    func: Callable[..., Any]
    params: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not callable(self.func):
            raise InvalidInputError(
                f"func must be callable as func(X, Z); got {self.func!r}.", argument="func"
            )
        object.__setattr__(self, "params", dict(self.params))

    def __hash__(self) -> int:
        """Hash of the function alone: equal kernels share it, and params need not be hashable."""
        return hash((type(self), self.func))

    def _own_parameters(self) -> dict[str, Any]:
        return dict(self.params)

    def _rebuilt(self, own: Mapping[str, Any], parts: Mapping[str, Kernel]) -> Self:
        return replace(self, params={**self.params, **own})

    @property
    def accepts_objects(self) -> bool:
        """True: the function decides what it can read."""
        return True

    @property
    def name(self) -> str:
        """The function's name, for messages."""
        return getattr(self.func, "__name__", repr(self.func))

    def __call__(self, X: Any, Z: Any = None) -> FloatArray:
        """Return kernel values of every row of X with every row of Z (default: X)."""
        X = as_rows(X)
        Z = X if Z is None else as_rows(Z)
        shape = (X.shape[0], Z.shape[0])
        if 0 in shape:  # functions seldom foresee an empty set of rows
            return np.empty(shape)
        values = self.func(X, Z, **self.params)
        # A copy: the function may return an array of its own, which must not be overwritten.
        return kernel_matrix(values, shape, self.name, copy=True)

    def diag(self, X: Any) -> FloatArray:
        """Return kernel values k(x, x) of every row, from small diagonal blocks."""
        X = as_rows(X)
        diagonal = np.empty(X.shape[0])
        for start in range(0, X.shape[0], _DIAGONAL_BLOCK):
            rows = slice(start, start + _DIAGONAL_BLOCK)
            diagonal[rows] = self(X[rows]).diagonal()
        return diagonal


@dataclass(frozen=True)
class SklearnKernel(Kernel):
    """A kernel from `sklearn.gaussian_process.kernels`, with its current parameters.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Copied. `WhiteKernel` is refused: its value is not a function of two rows, and the penalty
        `alpha` takes its place.
    """

    kernel: gp.Kernel

    def __post_init__(self) -> None:
        if not isinstance(self.kernel, gp.Kernel):
            raise InvalidInputError(
                "kernel must be an object of sklearn.gaussian_process.kernels; got "
                f"{self.kernel!r}.",
                argument="kernel",
            )
        parts = [self.kernel, *self.kernel.get_params(deep=True).values()]
        if any(isinstance(part, gp.WhiteKernel) for part in parts):
            raise InvalidInputError(
                f"kernel must be a function of two rows; got {self.kernel!r} with a WhiteKernel: "
                "leave it out, the penalty alpha takes its place.",
                argument="kernel",
            )
        object.__setattr__(self, "kernel", clone(self.kernel))

    def _own_parameters(self) -> dict[str, Any]:
        return dict(self.kernel.get_params(deep=True))

    def _rebuilt(self, own: Mapping[str, Any], parts: Mapping[str, Kernel]) -> Self:
        return type(self)(clone(self.kernel).set_params(**own))

    @property
    def accepts_objects(self) -> bool:
        """Whether scikit-learn's kernel accepts them."""
        return not self.kernel.requires_vector_input

    def __hash__(self) -> int:
        """Hash of the printed form: scikit-learn's kernels define equality but no hash."""
        return hash((type(self), repr(self.kernel)))

    def __call__(self, X: Any, Z: Any = None) -> FloatArray:
        """Return kernel values of every row of X with every row of Z (default: X)."""
        X = self._rows(X)
        Z = X if Z is None else self._rows(Z)
        shape = (X.shape[0], Z.shape[0])
        if 0 in shape:
            return np.empty(shape)
        return kernel_matrix(self.kernel(X, Z), shape, repr(self.kernel), copy=True)

    def diag(self, X: Any) -> FloatArray:
        """Return kernel values k(x, x) of every row, shape (len(X),)."""
        X = self._rows(X)
        return kernel_matrix(self.kernel.diag(X), X.shape[:1], repr(self.kernel), copy=True)

    def _rows(self, X: Any) -> Any:
        rows = numeric_rows(X) if self.kernel.requires_vector_input else as_rows(X)
        if sp.issparse(rows):
            raise InvalidInputError(
                "X must be dense for a kernel of sklearn.gaussian_process; got a scipy.sparse "
                "matrix: use holdfast's RBF, Matern, Polynomial or Linear, which keep it sparse.",
                argument="X",
            )
        return rows


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
