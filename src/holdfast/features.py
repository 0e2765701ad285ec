"""Feature rows of models with fewer features than rows, computed block by block.

`WhitenedFeatures`: a sparse model on basis rows B, φ(x) = C⁻¹ k(B, x) with K_BB + εI = C Cᵀ
(paper 000 (14)–(15)). `ColumnFeatures`: a linear kernel, φ(x) = x. Both can be followed by a linear
map of the features, which is how rotated coordinates are streamed without keeping m × p numbers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg.lapack import dtrtri

from holdfast.experiments import IntArray
from holdfast.gram import KernelData
from holdfast.linalg import Whitening, cholesky_basis

FloatArray = NDArray[np.float64]
Index = slice | IntArray


class Features(ABC):
    """φ of every row of the data, on demand."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of rows m."""

    @property
    @abstractmethod
    def to_coefficients(self) -> FloatArray:
        """N (n, p) with a = N θ: from coordinates to coefficients of basis rows or columns."""

    @abstractmethod
    def rows(self, index: Index) -> FloatArray:
        """Return φ of those rows, a fresh array (k, p)."""

    @abstractmethod
    def mapped(self, T: FloatArray) -> Self:
        """Return the features φ(x)ᵀT."""


@dataclass(frozen=True)
class WhitenedFeatures(Features):
    """Whitened kernel values with the basis rows.

    Attributes
    ----------
    data : KernelData
    basis : ndarray of int, shape (n,)
    whitening : Whitening
        Applies C⁻ᵀ to rows of K_{:B}.
    inverse : ndarray of shape (n, p)
        C⁻ᵀ, times the map that follows if there is one.
    plain : bool
        Whether no map follows.

    Notes
    -----
    Per row n d for the kernel and n² for whitening, or 2 n p with a map: k C⁻ᵀ T is one product.
    """

    data: KernelData
    basis: IntArray
    whitening: Whitening
    inverse: FloatArray
    plain: bool = True

    @classmethod
    def of(cls, data: KernelData, basis: IntArray, shift: float) -> WhitenedFeatures:
        """Return the features of a sparse model; ε = `shift` is part of the model."""
        C = cholesky_basis(data.block(basis, basis), shift)
        inverse = np.ascontiguousarray(dtrtri(C, lower=1)[0].T)
        return cls(data, basis, Whitening.prepare(C, len(data)), inverse)

    def __len__(self) -> int:
        """Return the number of rows m."""
        return len(self.data)

    @property
    def to_coefficients(self) -> FloatArray:
        """C⁻ᵀ, times the map that follows."""
        return self.inverse

    def rows(self, index: Index) -> FloatArray:
        """Return the whitened rows."""
        block = self.data.block(index, self.basis)
        if self.plain:
            return self.whitening.rows(block, out=block)
        return np.asarray(block @ self.inverse)

    def mapped(self, T: FloatArray) -> WhitenedFeatures:
        """Return the features followed by a map."""
        return replace(self, inverse=self.inverse @ T, plain=False)


@dataclass(frozen=True)
class ColumnFeatures(Features):
    """The columns of X: a linear kernel in primal form.

    Attributes
    ----------
    X : ndarray or sparse matrix of shape (m, d)
        A sparse matrix is made dense a block of rows at a time.
    T : ndarray of shape (d, p) or None
        The map that follows.
    """

    X: Any
    T: FloatArray | None = None

    def __len__(self) -> int:
        """Return the number of rows m."""
        return int(self.X.shape[0])

    @property
    def to_coefficients(self) -> FloatArray:
        """The map, or the identity."""
        return np.eye(self.X.shape[1]) if self.T is None else self.T

    def rows(self, index: Index) -> FloatArray:
        """Return rows of X as float64."""
        block = self.X[index]
        dense = block.toarray() if sp.issparse(block) else block
        dense = np.array(dense, dtype=np.float64, order="C")
        return dense if self.T is None else dense @ self.T

    def mapped(self, T: FloatArray) -> ColumnFeatures:
        """Return the features followed by a map."""
        return replace(self, T=T if self.T is None else self.T @ T)
