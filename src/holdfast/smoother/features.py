"""Feature rows of models with fewer features than rows, computed block by block.

`WhitenedFeatures`: a sparse model on basis rows B, φ(x) = C⁻¹ k(B, x) with K_BB + εI = C Cᵀ
(Pahikkala et al. 2012 (14)–(15)). `ColumnFeatures`: a linear kernel, φ(x) = x. Both can be followed
by a linear map of the features, which is how rotated coordinates are streamed without keeping m × p
numbers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from scipy.linalg.lapack import dtrtri

from holdfast._typing import FloatArray, Index, IntArray
from holdfast.experiments import Ragged
from holdfast.kernels.matrix import KernelData
from holdfast.linalg import Whitening, cholesky_basis, orthonormal_rows, threads_for


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

    @property
    def size(self) -> int:
        """The number p of features."""
        return int(self.to_coefficients.shape[1])

    @property
    def n_basis(self) -> int | None:
        """The number of basis rows behind the features; None if there are none."""
        return None

    @property
    def learned(self) -> bool:
        """Whether features depend on which rows are trained on, basis rows apart."""
        return False

    def retrained(self, weights: FloatArray) -> Features:
        """Return the features of models that are trained on the rows that have a weight."""
        return self

    def units_without(self, held: Ragged) -> FloatArray:
        """Return units of features (J, p) without each of some sets of rows, over those of all."""
        raise AssertionError("only features that are learned have other units elsewhere")

    def with_kernel(self, index: IntArray) -> tuple[FloatArray, FloatArray] | None:
        """Return kernel values with the basis rows and φ, of some rows; None without a kernel."""
        return None

    def at_basis(self) -> FloatArray | None:
        """Return φ of the basis rows (n, p) where no row has to be fetched for it, else None."""
        return None

    @property
    def penalty_matrix(self) -> FloatArray:
        """K_BB + εI."""
        raise AssertionError("only features of basis rows have a kernel matrix")

    def span(self, removed: IntArray) -> FloatArray:
        """Return O (p, e), orthonormal columns that span those rows of N."""
        return orthonormal_rows(self.to_coefficients[removed])

    @abstractmethod
    def rows(self, index: Index) -> FloatArray:
        """Return φ of those rows, a fresh array (k, p)."""

    def new_rows(self, X: Any) -> FloatArray:
        """Return φ of rows that are not in the data, a fresh array (k, p)."""
        raise AssertionError("these features know their own rows only")

    def portable(self) -> Features:
        """Return the same features for new rows, without the rows of the data."""
        return self

    def without(self, removed: IntArray) -> Features:
        """Return the features of the model without some of its basis rows, given by position."""
        assert not removed.size, "only features of basis rows can lose some"
        return self

    def on(self, basis: IntArray, epsilon: float) -> Features:
        """Return the features of the same rows on other basis rows."""
        raise AssertionError("only features of basis rows can change them")

    def changed(self, removed: IntArray, basis: tuple[IntArray, float] | None) -> Features:
        """Return the features on other basis rows, with their ε, or else without some."""
        return self.without(removed) if basis is None else self.on(*basis)


@dataclass(frozen=True)
class WhitenedFeatures(Features):
    """Whitened kernel values with the basis rows.

    Attributes
    ----------
    data : KernelData
    basis : ndarray of int, shape (n,)
    whitening : Whitening
        Applies C⁻ᵀ to rows of K_{:B}, by substitution.
    epsilon : float
        The shift ε of K_BB, part of the model.
    inverse : ndarray of shape (n, n)
        C⁻ᵀ.

    Notes
    -----
    Cost per row: n d for the kernel, n² for whitening. Substitution makes W Cᵀ equal to K_{:B} to
    rounding. A product with C⁻¹ is faster by up to half and promises only eps cond(C): held-out
    predictions were up to 3,000 times less accurate.
    """

    data: KernelData
    basis: IntArray
    whitening: Whitening
    epsilon: float
    inverse: FloatArray

    @classmethod
    def of(cls, data: KernelData, basis: IntArray, epsilon: float) -> WhitenedFeatures:
        """Return the features of a sparse model."""
        with threads_for(basis.size):
            whitening, inverse = whiten(data.block(basis, basis), epsilon)
        return cls(data, basis, whitening, epsilon, inverse)

    def __len__(self) -> int:
        """Return the number of rows m."""
        return len(self.data)

    @property
    def parallel(self) -> bool:
        """Whether the kernel is one of ours: a user's function may keep a state."""
        kernel = getattr(self.data, "kernel", None)
        return kernel is None or not kernel.accepts_objects

    @property
    def to_coefficients(self) -> FloatArray:
        """C⁻ᵀ."""
        return self.inverse

    @property
    def n_basis(self) -> int:
        """The number n of basis rows."""
        return int(self.basis.size)

    def span(self, removed: IntArray) -> FloatArray:
        """Return O (p, e) by substitution."""
        return self.whitening.span(removed)

    def with_kernel(self, index: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return kernel values with the basis rows and φ, of some rows."""
        K = self.data.block(index, self.basis)
        return K, self.whitening.rows(K)

    def at_basis(self) -> FloatArray:
        """Return φ of the basis rows, (C − ε C⁻ᵀ): K_BB = C Cᵀ − εI."""
        return np.asarray(self.whitening.factor - self.epsilon * self.inverse)

    @property
    def penalty_matrix(self) -> FloatArray:
        """K_BB + εI, from its Cholesky factor."""
        return np.asarray(self.whitening.factor @ self.whitening.factor.T)

    def without(self, removed: IntArray) -> WhitenedFeatures:
        """Return the features of the model on the other basis rows, whitened by itself."""
        if not removed.size:
            return self
        return self.on(np.delete(self.basis, removed), self.epsilon)

    def on(self, basis: IntArray, epsilon: float) -> WhitenedFeatures:
        """Return the features of the same rows on other basis rows."""
        return WhitenedFeatures.of(self.data, basis, epsilon)

    def rows(self, index: Index) -> FloatArray:
        """Return the whitened rows."""
        return self._whitened(self.data.block(index, self.basis))

    def new_rows(self, X: Any) -> FloatArray:
        """Return the whitened kernel values of new rows."""
        return self._whitened(self.data.predict_block(X, self.basis))

    def portable(self) -> WhitenedFeatures:
        """Return the same features, with the basis rows alone."""
        return replace(self, data=self.data.take(self.basis), basis=np.arange(self.basis.size))

    def _whitened(self, block: FloatArray) -> FloatArray:
        return self.whitening.rows(block, out=block)


def whiten(K_BB: FloatArray, epsilon: float) -> tuple[Whitening, FloatArray]:
    """Return what takes kernel values to whitened features, and C⁻ᵀ, from K_BB + εI = C Cᵀ."""
    with threads_for(len(K_BB)):
        C = cholesky_basis(K_BB, epsilon)
        return Whitening(C), np.ascontiguousarray(dtrtri(C, lower=1)[0].T)


def basis_epsilon(data: KernelData, basis: IntArray | None, jitter: float) -> float:
    """Return the absolute shift ε: `jitter` times the mean diagonal of K_BB; 0 without basis."""
    return 0.0 if basis is None else jitter * float(np.mean(data.diag(basis)))


@dataclass(frozen=True)
class KnownColumns(Features):
    """Whitened features of a kernel whose columns with the basis rows are in memory.

    Attributes
    ----------
    K : ndarray of shape (m, n)
    K_BB : ndarray of shape (n, n)
        Kernel of the basis rows.
    epsilon : float
        ε on the diagonal of K_BB.
    whitening : Whitening
    inverse : ndarray of shape (n, n)
        C⁻ᵀ.
    """

    K: FloatArray
    K_BB: FloatArray
    epsilon: float
    whitening: Whitening
    inverse: FloatArray

    @classmethod
    def of(cls, K: FloatArray, K_BB: FloatArray, epsilon: float) -> KnownColumns:
        """Return the features of a sparse model."""
        return cls(K, K_BB, epsilon, *whiten(K_BB, epsilon))

    def without(self, removed: IntArray) -> KnownColumns:
        """Return the features of the model on the other basis rows, whitened by itself."""
        if not removed.size:
            return self
        left = np.delete(np.arange(self.n_basis), removed)
        return KnownColumns.of(self.K[:, left], self.K_BB[np.ix_(left, left)], self.epsilon)

    def __len__(self) -> int:
        """Return the number of rows m."""
        return len(self.K)

    @property
    def to_coefficients(self) -> FloatArray:
        """C⁻ᵀ."""
        return self.inverse

    @property
    def n_basis(self) -> int:
        """The number n of basis rows."""
        return int(self.K.shape[1])

    def span(self, removed: IntArray) -> FloatArray:
        """Return O (p, e) by substitution."""
        return self.whitening.span(removed)

    def rows(self, index: Index) -> FloatArray:
        """Return the whitened rows."""
        return self.whitening.rows(self.K[index])


@dataclass(frozen=True)
class ColumnFeatures(Features):
    """The columns of X: a linear kernel in primal form.

    Attributes
    ----------
    X : ndarray or sparse matrix of shape (m, d)
        A sparse matrix is made dense a block of rows at a time.
    """

    X: Any

    def __len__(self) -> int:
        """Return the number of rows m."""
        return int(self.X.shape[0])

    @property
    def to_coefficients(self) -> FloatArray:
        """The identity."""
        return np.eye(self.X.shape[1])

    @property
    def size(self) -> int:
        """The number of columns."""
        return int(self.X.shape[1])

    def rows(self, index: Index) -> FloatArray:
        """Return rows of X as float64."""
        return self.new_rows(self.X[index])

    def new_rows(self, X: Any) -> FloatArray:
        """Return the columns of new rows as float64."""
        dense = X.toarray() if sp.issparse(X) else X
        return np.array(dense, dtype=np.float64, order="C")

    def portable(self) -> Self:
        """Return the same features without rows."""
        return replace(self, X=self.X[:0])


@dataclass(frozen=True)
class WeightedColumns(ColumnFeatures):
    """√f_j x_j: sums of linear kernels of some columns, Σ_j f_j x_j z_j. Columns of f_j = 0 go.

    Attributes
    ----------
    X : ndarray or sparse matrix of shape (m, d)
    factors : ndarray of shape (d,)
    """

    factors: FloatArray

    @property
    def to_coefficients(self) -> FloatArray:
        """Coefficients of all columns as they are, from those of the columns in use."""
        return np.diag(np.sqrt(self.factors))[:, self.factors > 0]

    @property
    def size(self) -> int:
        """The number of columns in use."""
        return int(np.count_nonzero(self.factors))

    def new_rows(self, X: Any) -> FloatArray:
        """Return the columns in use, times √f, as float64."""
        used = np.flatnonzero(self.factors)
        every = used.size == self.factors.size
        rows = super().new_rows(X if every else X[:, used])
        rows *= np.sqrt(self.factors[used])
        return rows


@dataclass(frozen=True)
class ReadyFeatures(Features):
    """Feature rows that another smoother has made already, after some basis rows were removed.

    Removing basis rows E is the constraint N_E θ = 0 (Pahikkala et al. 2012, Proposition 1): with
    Z an orthonormal basis of its solutions, the features φᵀZ are those of the model on B∖E.

    Attributes
    ----------
    made : callable
        From row numbers to a fresh block (k, p) of rows, without weights.
    N : ndarray of shape (n, p)
        From coordinates to the coefficients of the basis rows that are left.
    Z : ndarray of shape (p, p') or None
        Orthonormal: those solutions, or other coordinates; None for the rows as they are.
    source : Features
        What the rows were made from; it makes them again where something is trained from scratch.
    removed : ndarray of int
        Positions in its basis that are gone.
    spanned : callable
        From positions in the basis of `source` to columns (p, e) that span those rows of its N.
    """

    made: Callable[[Index], FloatArray]
    N: FloatArray
    Z: FloatArray | None
    source: Features
    removed: IntArray
    spanned: Callable[[IntArray], FloatArray]

    def __len__(self) -> int:
        """Return the number of rows m."""
        return len(self.source)

    @property
    def to_coefficients(self) -> FloatArray:
        """N."""
        return self.N

    @property
    def n_basis(self) -> int | None:
        """The number of basis rows that are left."""
        known = self.source.n_basis
        return None if known is None else known - self.removed.size

    def span(self, removed: IntArray) -> FloatArray:
        """Return O (p, e); as accurate as the source has it, as long as its basis is whole."""
        if self.removed.size:
            return super().span(removed)
        known = self.spanned(removed)
        return known if self.Z is None else np.asarray(self.Z.T @ known)

    def rows(self, index: Index) -> FloatArray:
        """Return the rows."""
        block = self.made(index)
        return block if self.Z is None else block @ self.Z

    def without(self, removed: IntArray) -> Features:
        """Return the features on the other basis rows, made again and whitened by themselves."""
        if self.n_basis is None:
            return self.source.without(removed)
        left = np.delete(np.arange(self.n_basis + self.removed.size), self.removed)
        return self.source.without(np.append(self.removed, left[removed]))

    def on(self, basis: IntArray, epsilon: float) -> Features:
        """Return the features of the same rows on other basis rows."""
        return self.source.on(basis, epsilon)
