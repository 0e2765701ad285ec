"""Kernels of the inner product x·z."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from holdfast._typing import FloatArray, RowData
from holdfast.exceptions import InvalidInputError
from holdfast.kernels.base import VectorKernel
from holdfast.kernels.checks import finite_number, positive_number
from holdfast.kernels.products import float64_rows, inner_products, row_norms_squared

__all__ = ["Cosine", "Linear", "Polynomial", "Sigmoid"]


@dataclass(frozen=True)
class Linear(VectorKernel):
    """The inner product x·z."""

    def _matrix(self, X: RowData, Z: RowData | None) -> FloatArray:
        return inner_products(X, Z)

    def _diagonal(self, X: RowData) -> FloatArray:
        return row_norms_squared(X)


@dataclass(frozen=True)
class Polynomial(VectorKernel):
    """The power (gamma x·z + coef0)^degree.

    Parameters
    ----------
    degree : int, default 3
        Whole number, at least 1.
    gamma : float, default 1.0
        Positive factor of the inner product.
    coef0 : float, default 1.0
        Constant term; the kernel is positive semidefinite when it is not negative.
    """

    degree: int = 3
    gamma: float = 1.0
    coef0: float = 1.0

    def __post_init__(self) -> None:
        degree = finite_number("degree", self.degree)
        if degree < 1 or degree != int(degree):
            raise InvalidInputError(
                f"degree must be a whole number >= 1; got {self.degree!r}: give degree=2, 3, …"
            )
        object.__setattr__(self, "degree", int(degree))
        object.__setattr__(self, "gamma", positive_number("gamma", self.gamma))
        object.__setattr__(self, "coef0", finite_number("coef0", self.coef0))

    @property
    def positive_semidefinite(self) -> bool:
        """Whether the constant term is non-negative."""
        return self.coef0 >= 0.0

    def _matrix(self, X: RowData, Z: RowData | None) -> FloatArray:
        return inner_products(X, Z, self._finish)

    def _diagonal(self, X: RowData) -> FloatArray:
        values = row_norms_squared(X)
        self._finish(values)
        return values

    def _finish(self, values: FloatArray) -> None:
        values *= self.gamma
        values += self.coef0
        # Repeated squaring: only products, many times faster than a real power.
        bits = f"{self.degree:b}"[1:]
        base = values.copy() if "1" in bits else values
        for bit in bits:
            values *= values
            if bit == "1":
                values *= base


@dataclass(frozen=True)
class Sigmoid(VectorKernel):
    """The hyperbolic tangent tanh(gamma x·z + coef0); not positive semidefinite.

    Parameters
    ----------
    gamma : float, default 1.0
        Positive factor of the inner product.
    coef0 : float, default 1.0
        Constant term.
    """

    gamma: float = 1.0
    coef0: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "gamma", positive_number("gamma", self.gamma))
        object.__setattr__(self, "coef0", finite_number("coef0", self.coef0))

    @property
    def positive_semidefinite(self) -> bool:
        """False: a kernel matrix may have negative eigenvalues."""
        return False

    def _matrix(self, X: RowData, Z: RowData | None) -> FloatArray:
        return inner_products(X, Z, self._finish)

    def _diagonal(self, X: RowData) -> FloatArray:
        values = row_norms_squared(X)
        self._finish(values)
        return values

    def _finish(self, values: FloatArray) -> None:
        values *= self.gamma
        values += self.coef0
        np.tanh(values, out=values)


@dataclass(frozen=True)
class Cosine(VectorKernel):
    """The cosine x·z / (|x| |z|); zero with a row of zeros, as in scikit-learn."""

    def _matrix(self, X: RowData, Z: RowData | None) -> FloatArray:
        return inner_products(X, Z, prepare=_unit_rows)

    def _diagonal(self, X: RowData) -> FloatArray:
        return (_largest_entries(X) > 0.0).astype(np.float64)


def _unit_rows(X: RowData) -> RowData:
    """Return the rows divided by their lengths; rows of zeros stay as they are."""
    # Divided by the largest entry first: squares of tiny or huge entries would under- or overflow.
    largest = _largest_entries(X)
    largest[largest == 0.0] = 1.0
    scaled = _divided_rows(float64_rows(X), largest)
    lengths = np.sqrt(row_norms_squared(scaled))
    lengths[lengths == 0.0] = 1.0
    return _divided_rows(scaled, lengths)


def _largest_entries(X: RowData) -> FloatArray:
    """Return the largest absolute value of every row, shape (len(X),)."""
    if X.shape[1] == 0 or X.shape[0] == 0:
        return np.zeros(X.shape[0])
    if sp.issparse(X):
        return np.asarray(abs(float64_rows(X)).max(axis=1).toarray().ravel(), dtype=np.float64)
    # Converted after the search: X is not copied, and −low cannot overflow an integer type.
    high: FloatArray = X.max(axis=1).astype(np.float64)
    low: FloatArray = X.min(axis=1).astype(np.float64)
    return np.maximum(high, -low)


def _divided_rows(X: RowData, divisors: FloatArray) -> RowData:
    """Return the rows divided by one number each; sparse rows stay sparse."""
    if not sp.issparse(X):
        return X / divisors[:, np.newaxis]
    divided = X.copy()
    divided.data /= np.repeat(divisors, np.diff(X.indptr))
    return divided
