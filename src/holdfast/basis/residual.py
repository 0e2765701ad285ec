"""The part of a kernel matrix that the chosen rows do not explain, column by column.

After rows B are chosen, Δ = K - K_{:B} K_BB⁻¹ K_{B:} = K - F Fᵀ is what is left: a partial
Cholesky factorisation. Its diagonal holds the squared distances of all rows, in the feature space
of the kernel, from the span of B. Only F (m × |B|) and the diagonal are stored.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from holdfast._typing import FloatArray, IntArray
from holdfast.kernels.matrix import KernelData

_EPS = float(np.finfo(np.float64).eps)


class Residual:
    """Partial Cholesky factorisation of a kernel matrix, to which chosen rows are added.

    Parameters
    ----------
    data : KernelData
        The m rows and their kernel.
    capacity : int
        Columns to make room for at first; more are made when needed.
    """

    def __init__(self, data: KernelData, capacity: int = 32) -> None:
        self.data = data
        self.diagonal: FloatArray = data.diag()
        self.gap: FloatArray = np.maximum(self.diagonal, 0.0)  # diagonal of Δ, rounding cut off
        self.size = 0
        self._F: FloatArray = np.empty((len(data), max(1, capacity)), order="F")

    @property
    def F(self) -> FloatArray:
        """The factor (m, size)."""
        return self._F[:, : self.size]

    def floor(self) -> FloatArray:
        """Return the rounding error of ``gap`` after ``size`` subtractions from k_ii."""
        return 16 * (self.size + 1) * _EPS * np.abs(self.diagonal)

    def block(self, rows: IntArray | slice, columns: IntArray) -> FloatArray:
        """Return Δ[rows][:, columns]."""
        K: FloatArray = self.data.block(rows, columns)
        if self.size:
            K -= self.F[rows] @ self.F[columns].T
        return K

    def add(self, rows: IntArray) -> None:
        """Add these rows to B, O(m size |rows|); they must be independent of B and each other.

        Raises
        ------
        numpy.linalg.LinAlgError
            If they are not.
        """
        self.extend(rows, self.block(slice(None), rows))

    def extend(self, rows: IntArray, columns: FloatArray) -> None:
        """Add these rows to B when Δ[:, rows] (m, |rows|) is known already."""
        L = scipy.linalg.cholesky(columns[rows], lower=True, check_finite=False)
        new = scipy.linalg.solve_triangular(L, columns.T, lower=True, check_finite=False).T
        end = self.size + len(rows)
        if end > self._F.shape[1]:
            grown = np.empty((len(self._F), max(end, 2 * self._F.shape[1])), order="F")
            grown[:, : self.size] = self.F
            self._F = grown
        self._F[:, self.size : end] = new
        self.size = end
        self.gap = np.maximum(self.gap - np.square(new).sum(axis=1), 0.0)
        self.gap[rows] = 0.0
