"""Columns of X in units of their standard deviation over the rows that are trained on.

That unit is learned: an experiment that holds rows out has units of its own, from the sums of all
rows less those held out. A linear model in other units is one with another penalty for each column,
so the identity of a fixed penalty does not hold; equations of each experiment's own training rows
do, after its columns are divided by their own units.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from holdfast._typing import FloatArray, Index, IntArray
from holdfast.experiments import Ragged
from holdfast.smoother.features import ColumnFeatures

__all__ = ["StandardisedColumns"]

EPS = float(np.finfo(np.float64).eps)
#: A variance that is a smaller share of that of all rows is computed again from its own rows.
SHARE = 1e-4
#: Rows that are summed at once.
BLOCK_ROWS = 4096


@dataclass(frozen=True)
class StandardisedColumns(ColumnFeatures):
    """The columns of X, each divided by a standard deviation.

    Attributes
    ----------
    X : ndarray or sparse matrix of shape (m, d)
    weights : ndarray of shape (m,)
        Row weights of the standard deviations, zero for rows that are not trained on.
    """

    weights: FloatArray

    @property
    def learned(self) -> bool:
        """True: other training rows, other units."""
        return True

    @cached_property
    def unit(self) -> FloatArray:
        """What each column is divided by (d,), one for a column that does not vary."""
        return _deviation(self.X, self.weights)

    @property
    def to_coefficients(self) -> FloatArray:
        """Coefficients of the columns as they are, from those of the columns in units."""
        return np.diag(1.0 / self.unit)

    @property
    def size(self) -> int:
        """The number of columns."""
        return int(self.X.shape[1])

    def new_rows(self, X: Any) -> FloatArray:
        """Return rows in units, float64."""
        rows = super().new_rows(X)
        rows /= self.unit
        return rows

    def portable(self) -> StandardisedColumns:
        """Return the same features without rows."""
        short = replace(self, X=self.X[:0], weights=self.weights[:0])
        vars(short)["unit"] = self.unit
        return short

    def retrained(self, weights: FloatArray) -> StandardisedColumns:
        """Return the columns in units of the rows that have a weight here."""
        return replace(self, weights=np.where(weights > 0, self.weights, 0.0))

    def units_without(self, held: Ragged) -> FloatArray:
        """Return units of the columns (J, d) without each of some sets of rows, over those of all.

        The sums of all rows less those of the set; columns that hardly vary without it are summed
        again.
        """
        weights = self.weights
        centre, total, *sums = self._sums
        found = np.empty((len(held), self.size))
        for j in range(len(held)):
            H = held[j]
            part = _moments(self.X, weights, centre, H)
            weight = total - part[0]
            mean, second = (whole - own for whole, own in zip(sums, part[1:], strict=True))
            variance = second / weight - np.square(mean / weight)
            doubtful = variance <= SHARE * sums[1] / total
            found[j] = np.sqrt(np.maximum(variance, 0.0))
            if doubtful.any():
                left = weights.copy()
                left[H] = 0.0
                found[j, doubtful] = _deviation(self.X[:, doubtful], left)
        return np.asarray(found / self.unit)

    @cached_property
    def _sums(self) -> tuple[FloatArray, float, FloatArray, FloatArray]:
        """The mean of each column, Σw, and the first two moments about that mean."""
        every = np.flatnonzero(self.weights > 0)
        weight, first, _ = _moments(self.X, self.weights, np.zeros(self.size), every)
        centre = first / weight
        return centre, *_moments(self.X, self.weights, centre, every)


def _moments(
    X: Any, weights: FloatArray, centre: FloatArray, rows: IntArray
) -> tuple[float, FloatArray, FloatArray]:
    """Return Σw, Σw(x − c) and Σw(x − c)² over some rows."""
    first, second = np.zeros(X.shape[1]), np.zeros(X.shape[1])
    for start in range(0, rows.size, BLOCK_ROWS):
        part = rows[start : start + BLOCK_ROWS]
        block = _dense(X, part) - centre
        first += weights[part] @ block
        second += weights[part] @ np.square(block)
    return float(weights[rows].sum()), first, second


def _dense(X: Any, rows: Index) -> FloatArray:
    block = X[rows]
    return np.asarray(block.toarray() if sp.issparse(block) else block, dtype=np.float64)


def _deviation(X: Any, weights: FloatArray) -> FloatArray:
    """Return the standard deviation of each column, one where it does not vary to rounding."""
    rows = np.flatnonzero(weights > 0)
    total, first, _ = _moments(X, weights, np.zeros(X.shape[1]), rows)
    mean = first / total
    _, drift, second = _moments(X, weights, mean, rows)
    variance = np.maximum(second / total - np.square(drift / total), 0.0)
    # What rounding leaves of a column that does not vary (as in scikit-learn).
    least = rows.size * EPS * variance + np.square(rows.size * mean * EPS)
    return np.where(variance <= least, 1.0, np.sqrt(variance))
