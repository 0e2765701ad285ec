"""Kernels from elsewhere: functions, and scikit-learn's Gaussian-process kernels."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.gaussian_process import kernels as gp

from holdfast._typing import FloatArray
from holdfast.data.rows import as_rows, numeric_rows
from holdfast.exceptions import InvalidInputError
from holdfast.kernels.base import Kernel, kernel_matrix

__all__ = ["FunctionKernel", "SklearnKernel"]

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
