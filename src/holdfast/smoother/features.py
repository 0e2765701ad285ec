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
from scipy.linalg.lapack import dtrtri

from holdfast._typing import FloatArray, Index, IntArray
from holdfast.kernels.matrix import KernelData
from holdfast.linalg import Whitening, cholesky_basis, threads_for


class Features(ABC):
    """φ of every row of the data, on demand."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of rows m."""

    @property
    @abstractmethod
    def to_coefficients(self) -> FloatArray:
        """N (n, p) with a = N θ: from coordinates to coefficients of basis rows or columns."""

    @property
    def parallel(self) -> bool:
        """Whether several threads may ask for rows at the same time."""
        return True

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
        Applies C⁻ᵀ to rows of K_{:B}, by substitution.
    inverse : ndarray of shape (n, p)
        C⁻ᵀ, times the map that follows if there is one.
    T : ndarray of shape (n, p) or None
        The map that follows.

    Notes
    -----
    Per row n d for the kernel, n² for whitening and 2 n p for the map. Substitution makes W Cᵀ
    equal to K_{:B} to the last digit. A product with C⁻¹, or with C⁻ᵀT, is faster by up to half
    and promises only eps cond(C): held-out predictions were up to 3,000 times less accurate.
    """

    data: KernelData
    basis: IntArray
    whitening: Whitening
    inverse: FloatArray
    T: FloatArray | None = None

    @classmethod
    def of(cls, data: KernelData, basis: IntArray, shift: float) -> WhitenedFeatures:
        """Return the features of a sparse model; ε = `shift` is part of the model."""
        with threads_for(len(basis)):
            C = cholesky_basis(data.block(basis, basis), shift)
            inverse = np.ascontiguousarray(dtrtri(C, lower=1)[0].T)
        return cls(data, basis, Whitening(C, inverted=False), inverse)

    def __len__(self) -> int:
        """Return the number of rows m."""
        return len(self.data)

    @property
    def parallel(self) -> bool:
        """Whether the kernel is not a function of the user's, which may keep a state."""
        kernel = getattr(self.data, "kernel", None)
        return kernel is None or not kernel.accepts_objects

    @property
    def to_coefficients(self) -> FloatArray:
        """C⁻ᵀ, times the map that follows."""
        return self.inverse

    def rows(self, index: Index) -> FloatArray:
        """Return the whitened rows."""
        block = self.data.block(index, self.basis)
        block = self.whitening.rows(block, out=block)
        return block if self.T is None else block @ self.T

    def mapped(self, T: FloatArray) -> WhitenedFeatures:
        """Return the features followed by a map."""
        after = T if self.T is None else self.T @ T
        return replace(self, inverse=self.inverse @ T, T=after)


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


@dataclass(frozen=True)
class SomeRows(Features):
    """The features of some rows of the data.

    Attributes
    ----------
    features : Features
    index : ndarray of int
        Which rows.
    """

    features: Features
    index: IntArray

    def __len__(self) -> int:
        """Return the number of rows."""
        return self.index.size

    @property
    def parallel(self) -> bool:
        """Whether the features say so."""
        return self.features.parallel

    @property
    def to_coefficients(self) -> FloatArray:
        """Those of all rows."""
        return self.features.to_coefficients

    def rows(self, index: Index) -> FloatArray:
        """Return some of these rows."""
        return self.features.rows(self.index[index])

    def mapped(self, T: FloatArray) -> SomeRows:
        """Return the features followed by a map."""
        return replace(self, features=self.features.mapped(T))
