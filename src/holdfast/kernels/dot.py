"""Kernels of the inner product x·z."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from holdfast._typing import FloatArray, RowData
from holdfast.data.values import check_positive
from holdfast.exceptions import InvalidInputError
from holdfast.kernels.base import VectorKernel, finite_number
from holdfast.kernels.products import (
    fill_blocks,
    float64_rows,
    inner_products,
    multiply,
    row_norms_squared,
)

__all__ = ["Cosine", "Linear", "Polynomial", "Tanimoto"]


@dataclass(frozen=True)
class Linear(VectorKernel):
    """The inner product x·z."""

    def column_factors(self, d: int) -> FloatArray:
        """Return ones, shape (d,)."""
        return np.ones(d)

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
        Constant term, not negative.
    """

    degree: int = 3
    gamma: float = 1.0
    coef0: float = 1.0
    _positive: ClassVar[tuple[str, ...]] = ("gamma",)

    def __post_init__(self) -> None:
        degree = finite_number("degree", self.degree)
        if degree < 1 or degree != int(degree):
            raise InvalidInputError(
                f"degree must be a whole number >= 1; got {self.degree!r}: give degree=2, 3, …",
                argument="degree",
            )
        object.__setattr__(self, "degree", int(degree))
        object.__setattr__(self, "gamma", check_positive("gamma", self.gamma))
        object.__setattr__(self, "coef0", check_positive("coef0", self.coef0, zero=True))

    @classmethod
    def scaled_by_gamma(cls, X: RowData) -> FloatArray:
        """Return the squared lengths of the rows."""
        return row_norms_squared(X)

    def _matrix(self, X: RowData, Z: RowData | None) -> FloatArray:
        return inner_products(X, Z, self._finish)

    def _diagonal(self, X: RowData) -> FloatArray:
        values = row_norms_squared(X)
        self._finish(values)
        return values

    def _finish(self, values: FloatArray) -> None:
        """Turn x·z into kernel values, in place."""
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
class Cosine(VectorKernel):
    """The cosine x·z / (|x| |z|); zero with a row of zeros, as in scikit-learn."""

    def _matrix(self, X: RowData, Z: RowData | None) -> FloatArray:
        return inner_products(X, Z, prepare=_unit_rows)

    def _diagonal(self, X: RowData) -> FloatArray:
        return (_largest_entries(X) > 0.0).astype(np.float64)


@dataclass(frozen=True)
class Tanimoto(VectorKernel):
    """The share x·z / (|x|² + |z|² − x·z) of what two non-negative rows have in common.

    Of rows of bits, such as the fingerprints of molecules, it is the number of bits that both have
    over the number that at least one has. Counts and other non-negative numbers work too.

    Notes
    -----
    Between zero and one, and one for equal rows. A row of zeros has one with another row of
    zeros and zero with all others. Positive semidefinite: with s = x·z and n = |x|² + |z|² ≥ 2s
    it is the sum of (s/n)ʲ over j ≥ 1, sʲ is a product of inner products, and n⁻ʲ the integral
    of tʲ⁻¹ exp(−t|x|²) exp(−t|z|²) / (j−1)! over t > 0, which makes both factors positive
    semidefinite (for bits Gower 1971; Ralaivola et al. 2005, *Graph kernels for chemical
    informatics*).

    Cost: one product of the rows, 2·m·n·d flops. Sparse rows stay sparse.

    Examples
    --------
    >>> from holdfast.kernels import Tanimoto
    >>> Tanimoto()([[1, 1, 0, 1], [0, 1, 1, 1], [0, 0, 0, 0]]).tolist()
    [[1.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """

    def _matrix(self, X: RowData, Z: RowData | None) -> FloatArray:
        Z_ready = _non_negative(X if Z is None else Z)
        norms = row_norms_squared(Z_ready)

        def evaluate(block: FloatArray, rows: slice, columns: slice) -> None:
            X_ready = Z_ready[rows] if Z is None else _non_negative(X[rows])
            multiply(X_ready, Z_ready[columns], block)
            union = np.add.outer(row_norms_squared(X_ready), norms[columns])
            union -= block
            empty = union == 0.0
            union[empty] = 1.0
            block /= union
            block[empty] = 1.0
            if Z is None:
                np.fill_diagonal(block, 1.0)

        return fill_blocks(X, Z, evaluate)

    def _diagonal(self, X: RowData) -> FloatArray:
        return np.ones(X.shape[0])


def _non_negative(X: RowData) -> RowData:
    """Return the rows as float64, if no entry is negative."""
    values = X.data if sp.issparse(X) else X
    if values.size and values.min() < 0:
        raise InvalidInputError(
            f"Tanimoto needs rows of non-negative numbers; got {values.min()}: give bits or "
            "counts, not centred or scaled columns.",
            argument="X",
        )
    return float64_rows(X)


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
