"""Feature rows φ(x) of models with fewer features than rows, computed block by block.

`BasisFeatures`: a sparse model on basis rows B, φ(x) = C⁻¹ k(B, x) with K_BB + εI = C Cᵀ
(Pahikkala et al. 2012 (14)–(15)), so that the penalty is α times the identity. Features are
whitened before any Gram matrix is formed: K_BᵀK_B would square the condition of K_BB.
`ColumnFeatures`: a linear kernel, φ(x) = x; `StandardisedColumns`: in units of the training rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, Self

import numpy as np
import scipy.sparse as sp
from scipy.linalg import lapack

from holdfast._typing import FloatArray, Index, IntArray
from holdfast.core.experiments import Ragged
from holdfast.core.lapack import (
    CHUNK,
    EPS,
    NEARLY_LOST,
    inverse_of_triangle,
    substitute,
    threads_for,
)
from holdfast.exceptions import KernelError, SingularBasisError


class KernelBlocks(Protocol):
    """Rows with their kernel: every block of the kernel matrix on demand."""

    def __len__(self) -> int:
        """Return the number of rows."""

    def block(self, rows: Index, columns: Index) -> FloatArray:
        """Return K[rows][:, columns], a fresh array."""

    def diag(self, rows: Index | None = None) -> FloatArray:
        """Return k(x, x) of those rows."""

    def take(self, rows: Index) -> Self:
        """Return the data of some rows, numbered from zero."""

    def predict_block(self, X_new: Any, columns: Index) -> FloatArray:
        """Return kernel values of new rows with those rows."""


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
    def size(self) -> int:
        """The number p of features."""
        return int(self.to_coefficients.shape[1])

    @property
    def n_basis(self) -> int | None:
        """The number n of basis rows behind the features; None if there are none."""
        return None

    @property
    def parallel(self) -> bool:
        """Whether several threads may ask for rows at the same time."""
        return True

    @property
    def learned(self) -> bool:
        """Whether features depend on which rows are trained on, basis rows apart."""
        return False

    @abstractmethod
    def rows(self, index: Index) -> FloatArray:
        """Return φ of those rows, a fresh array (k, p)."""

    def new_rows(self, X: Any) -> FloatArray:
        """Return φ of rows that are not in the data, a fresh array (k, p)."""
        raise AssertionError("these features know their own rows only")

    def span(self, removed: IntArray) -> FloatArray:
        """Return an orthonormal basis O (p, e) of those rows of N."""
        return np.asarray(np.linalg.qr(self.to_coefficients[removed].T)[0])

    def portable(self) -> Features:
        """Return the same features for new rows, without the rows of the data."""
        return self

    def trained_on(self, weights: FloatArray) -> Features:
        """Return the features of models that are trained on the rows that have a weight."""
        return self

    def units_without(self, held: Ragged) -> FloatArray:
        """Return units of features (J, p) without each of some sets of rows, over those of all."""
        raise AssertionError("only features that are learned have other units elsewhere")

    def with_kernel(self, index: IntArray) -> tuple[FloatArray, FloatArray] | None:
        """Return kernel values with the basis rows and φ, of some rows; None without a kernel."""
        return None

    @property
    def penalty_matrix(self) -> FloatArray:
        """K_BB + εI."""
        raise AssertionError("only features of basis rows have a kernel matrix")

    def at_basis(self) -> FloatArray | None:
        """Return φ of the basis rows (n, p) where no row has to be fetched for it, else None."""
        return None

    def on_basis(self, removed: IntArray, other: tuple[IntArray, float] | None) -> Features:
        """Return the features without some basis rows (by position), or on others with their ε."""
        assert not removed.size, "only features of basis rows can lose some"
        assert other is None, "only features of basis rows can change them"
        return self


def basis_epsilon(data: KernelBlocks, basis: IntArray | None, jitter: float) -> float:
    """Return the absolute shift ε: `jitter` times the mean diagonal of K_BB; 0 without basis."""
    return 0.0 if basis is None else jitter * float(np.mean(data.diag(basis)))


def whiten(K_BB: FloatArray, epsilon: float) -> FloatArray:
    """Return the lower triangular C (Fortran order) with K_BB + εI = C Cᵀ.

    Raises
    ------
    KernelError
        If `K_BB` holds values that are not finite.
    SingularBasisError
        If the factor would consist of rounding errors: nothing is repaired.

    Notes
    -----
    The pivots are the squared diagonal of C: the part of k(x_j, x_j) + ε that the basis rows before
    j do not explain.
    """
    n = len(K_BB)
    if not np.isfinite(K_BB).all():
        raise KernelError(
            f"the kernel matrix of the {n} basis rows holds {np.sum(~np.isfinite(K_BB))} values "
            "that are not finite. Check X and the kernel's parameters.",
            argument="kernel",
        )
    shifted = np.array(K_BB, dtype=np.float64, order="F")
    shifted[np.diag_indices(n)] += epsilon
    least = n * EPS * float(np.max(np.diag(shifted), initial=0.0))
    with threads_for(n):
        C, info = lapack.dpotrf(shifted, lower=1, clean=1)
    pivots = np.square(np.diag(C)[: info - 1 if info else n])
    if info or (n and pivots.min() <= least):
        index = info - 1 if info else int(pivots.argmin())
        raise SingularBasisError(
            f"the kernel matrix of the {n} basis rows plus jitter = {epsilon:.3g} is numerically "
            f"singular at basis row {index} (position in the basis). Raise `jitter`, drop "
            "duplicate basis rows, or use a less smooth kernel (a larger gamma, a Matern kernel).",
            argument="basis",
            remedies=("jitter",),
        )
    return np.asarray(C)


@dataclass(frozen=True)
class BasisFeatures(Features):
    """Whitened kernel values with the basis rows.

    Attributes
    ----------
    data : KernelBlocks
    basis : ndarray of int, shape (n,)
    C : ndarray of shape (n, n), Fortran order
        Lower triangular, K_BB + εI = C Cᵀ.
    epsilon : float
        The shift ε of K_BB, part of the model.
    inverse : ndarray of shape (n, n)
        C⁻ᵀ.

    Notes
    -----
    Cost per row: n d for the kernel, n² for whitening by substitution, which makes W Cᵀ equal to
    K_{:B} to rounding; a product with C⁻¹ promises eps cond(C).
    """

    data: KernelBlocks
    basis: IntArray
    C: FloatArray
    epsilon: float
    inverse: FloatArray

    @classmethod
    def of(cls, data: KernelBlocks, basis: IntArray, epsilon: float) -> Self:
        """Return the features of a sparse model."""
        with threads_for(basis.size):
            C = whiten(data.block(basis, basis), epsilon)
            return cls(data, basis, C, epsilon, inverse_of_triangle(C))

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

    def rows(self, index: Index) -> FloatArray:
        """Return the whitened rows."""
        return self._whitened(self.data.block(index, self.basis))

    def new_rows(self, X: Any) -> FloatArray:
        """Return the whitened kernel values of new rows."""
        return self._whitened(self.data.predict_block(X, self.basis))

    def _whitened(self, block: FloatArray) -> FloatArray:
        block = np.ascontiguousarray(block, dtype=np.float64)
        if block.size:
            substitute(self.C, block.T)  # the transpose of a C-ordered block is Fortran-ordered
        return block

    def span(self, removed: IntArray) -> FloatArray:
        """Return O (p, e) by substitution, also where basis rows are nearly equal.

        Columns of C⁻¹ of nearly equal basis rows are long and nearly parallel, and what they differ
        by is lost in their rounding errors. C O is zero but for the rows `removed`. So what these
        hold is taken from a first O, and C⁻¹ applied to it once more: no column is long then.
        """
        n, e = self.basis.size, removed.size
        right = np.zeros((e, n))
        right[np.arange(e), removed] = 1.0
        first = np.linalg.qr(self._whitened(right.copy()).T)[0]
        right[:, removed] = (self.C[removed] @ first).T
        return np.asarray(np.linalg.qr(self._whitened(right).T)[0])

    def portable(self) -> Self:
        """Return the same features, with the basis rows alone."""
        return replace(self, data=self.data.take(self.basis), basis=np.arange(self.basis.size))

    def with_kernel(self, index: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return kernel values with the basis rows and φ, of some rows."""
        K = self.data.block(index, self.basis)
        return K, self._whitened(K.copy())

    @property
    def penalty_matrix(self) -> FloatArray:
        """K_BB + εI, from its Cholesky factor."""
        return np.asarray(self.C @ self.C.T)

    def at_basis(self) -> FloatArray:
        """Return φ of the basis rows, (C − ε C⁻ᵀ): K_BB = C Cᵀ − εI."""
        return np.asarray(self.C - self.epsilon * self.inverse)

    def on_basis(self, removed: IntArray, other: tuple[IntArray, float] | None) -> Self:
        """Return the features on fewer or other basis rows, whitened by themselves."""
        if other is not None:
            return self.of(self.data, *other)
        left = np.delete(self.basis, removed)
        return self.of(self.data, left, self.epsilon) if removed.size else self


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
class MadeFeatures(Features):
    """Feature rows that another smoother has made already, after some basis rows were removed.

    Removing basis rows E is the constraint N_E θ = 0 (Pahikkala et al. 2012, Proposition 1): with
    Z an orthonormal basis of its solutions, the features φᵀZ are those of the model on B∖E.

    Attributes
    ----------
    made : callable
        From row numbers to a fresh block (k, p) of rows, without weights.
    N : ndarray of shape (n, p')
        From coordinates to the coefficients of the basis rows that are left.
    Z : ndarray of shape (p, p') or None
        Those solutions; None for the rows as they are.
    source : Features
        What the rows were made from; it makes them again where something is refitted.
    removed : ndarray of int
        Positions in its basis that are gone.
    """

    made: Callable[[Index], FloatArray]
    N: FloatArray
    Z: FloatArray | None
    source: Features
    removed: IntArray

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
        return None if self.source.n_basis is None else len(self.N)

    def rows(self, index: Index) -> FloatArray:
        """Return the rows."""
        block = self.made(index)
        return block if self.Z is None else block @ self.Z

    def on_basis(self, removed: IntArray, other: tuple[IntArray, float] | None) -> Features:
        """Return the features on fewer or other basis rows, made again from the source."""
        if other is None and self.n_basis is not None:
            left = np.delete(np.arange(self.n_basis + self.removed.size), self.removed)
            removed = np.append(self.removed, left[removed])
        return self.source.on_basis(removed, other)


@dataclass(frozen=True)
class StandardisedColumns(ColumnFeatures):
    """The columns of X, each divided by its standard deviation over the rows that are trained on.

    That unit is learned: an experiment that holds rows out has units of its own, from the sums of
    all rows less those held out. A linear model in other units is one with another penalty for each
    column, so the identity of a fixed penalty does not hold; equations of each experiment's own
    training rows do, after its columns are divided by their own units.

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

    def new_rows(self, X: Any) -> FloatArray:
        """Return rows in units, float64."""
        rows = super().new_rows(X)
        rows /= self.unit
        return rows

    def portable(self) -> Self:
        """Return the same features without rows."""
        short = replace(self, X=self.X[:0], weights=self.weights[:0])
        vars(short)["unit"] = self.unit
        return short

    def trained_on(self, weights: FloatArray) -> Self:
        """Return the columns in units of the rows that have a weight here."""
        return replace(self, weights=np.where(weights > 0, self.weights, 0.0))

    def units_without(self, held: Ragged) -> FloatArray:
        """Return units of the columns (J, d) without each of some sets of rows, over those of all.

        The sums of all rows less those of the set; columns that hardly vary without it are summed
        again.
        """
        weights = self.weights
        every = np.flatnonzero(weights > 0)
        weight, first, _ = _moments(self.X, weights, np.zeros(self.size), every)
        centre = first / weight
        total, *sums = _moments(self.X, weights, centre, every)
        found = np.empty((len(held), self.size))
        for j in range(len(held)):
            part = _moments(self.X, weights, centre, held[j])
            left = total - part[0]
            mean, second = (whole - own for whole, own in zip(sums, part[1:], strict=True))
            variance = second / left - np.square(mean / left)
            doubtful = variance <= NEARLY_LOST * sums[1] / total
            found[j] = np.sqrt(np.maximum(variance, 0.0))
            if doubtful.any():
                others = weights.copy()
                others[held[j]] = 0.0
                found[j, doubtful] = _deviation(self.X[:, doubtful], others)
        return np.asarray(found / self.unit)


def _moments(
    X: Any, weights: FloatArray, centre: FloatArray, rows: IntArray
) -> tuple[float, FloatArray, FloatArray]:
    """Return Σw, Σw(x − c) and Σw(x − c)² over some rows."""
    first, second = np.zeros(X.shape[1]), np.zeros(X.shape[1])
    step = max(1, CHUNK // max(1, X.shape[1]))
    for start in range(0, rows.size, step):
        part = rows[start : start + step]
        block = X[part]
        block = (block.toarray() if sp.issparse(block) else np.asarray(block)) - centre
        first += weights[part] @ block
        second += weights[part] @ np.square(block)
    return float(weights[rows].sum()), first, second


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
