"""A smoother in coordinates where the penalty is diagonal: factorise once, ask many questions.

With D = 1/(Λ + α·penalised), coordinates V_i of each row and z = Vᵀ√w y, the model on all rows is
f = out · D z, and the model without the rows H is f = out · M(z − V_Hᵀ r_H). There are two kinds:

- `FeatureFactor`: S = V D Vᵀ and out = V/√w. From the spectrum of the Gram matrix it holds for
  every α; from a Cholesky factor for one (Cawley and Talbot 2004), where D = 1.
- `KernelFactor`: I − S = α V D Vᵀ, zero at the unpenalised columns. From the spectrum K̃ = VΛVᵀ it
  holds for every α (Tanaka and Imai 2019 (16)); at one α, with K̃ + αI = LLᵀ, V = L⁻ᵀ and D = 1
  (An et al. 2007).

A factor is a value, and knows the size of its own rounding errors (`size_of_errors`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np

from holdfast._typing import BoolArray, FloatArray, Index, IntArray
from holdfast.core.accuracy import CAUTION
from holdfast.core.block import FeatureBlock, HeldOutBlock, KernelBlock
from holdfast.core.data import WeightedData
from holdfast.core.experiments import Shape
from holdfast.core.features import Features
from holdfast.core.folds import Complement
from holdfast.core.lapack import NEARLY_LOST, noise
from holdfast.core.rows import FeatureRows, StreamedRows, row_chunks


class SingleRows(NamedTuple):
    """The smoother on rows that are held out one by one.

    Attributes
    ----------
    errors : ndarray of shape (a, b, v) or None
        √w (y − ŷ) of the model on all rows; None if they were not asked for.
    gap : ndarray of shape (a, b)
        1 − S_ii.
    amplification : ndarray of shape (a, b)
        How much rounding errors of unit size grow on the way to the held-out residual, or a bound.
    """

    errors: FloatArray | None
    gap: FloatArray
    amplification: FloatArray


@dataclass(frozen=True)
class Factor(ABC):
    """What factors have in common.

    Attributes
    ----------
    data : WeightedData
    V : ndarray or StreamedRows of shape (m, p)
        Coordinates of the rows times √w, the unpenalised columns last.
    Lambda : ndarray of shape (p,)
    penalised : ndarray of shape (p,)
        1 where α adds to Λ, 0 for the unpenalised columns.
    z : ndarray of shape (p, v)
        Vᵀ√w y.
    rounding : float
        Rounding errors of the factor, relative to the length of a model.
    least : float
        The smallest penalty that it serves.
    only : bool
        Whether it serves no other.
    """

    data: WeightedData
    V: FeatureRows
    Lambda: FloatArray
    penalised: FloatArray
    z: FloatArray
    rounding: float
    least: float
    only: bool

    @property
    def size(self) -> int:
        """The number p of coordinates."""
        return int(self.Lambda.size)

    @property
    def parallel(self) -> bool:
        """Whether several threads may ask for rows at the same time."""
        return not isinstance(self.V, StreamedRows) or self.V.features.parallel

    def select(self, columns: slice | IntArray) -> Self:
        """Return the same factor for some of the targets."""
        if isinstance(columns, slice) and columns == slice(None):
            return self
        return replace(self, z=self.z[:, columns], data=self.data.select(columns))

    def with_targets(self, data: WeightedData, z: FloatArray) -> Self:
        """Return the same factor for other targets."""
        return replace(self, data=data, z=z)

    def D(self, alphas: FloatArray) -> FloatArray:
        """Return 1/(Λ + α·penalised), shape (a, p); ones where the factor serves one penalty."""
        if self.only:
            return np.ones((alphas.size, self.size))
        return np.asarray(1.0 / (self.Lambda + np.multiply.outer(alphas, self.penalised)))

    def size_of_errors(self, alphas: FloatArray) -> FloatArray:
        """Return how large rounding errors are before they grow, over the std of y (a,)."""
        lengths = (self.length(alphas) / self.data.targets.std).max(axis=1)
        return np.asarray(CAUTION * self.rounding * lengths)

    @abstractmethod
    def length(self, alphas: FloatArray) -> FloatArray:
        """Return the length of the model on all rows (a, v) that `rounding` is relative to."""

    @abstractmethod
    def block(self, shape: Shape, alphas: FloatArray) -> HeldOutBlock:
        """Return the smoother on the held-out rows of stacked tasks."""

    @abstractmethod
    def single_rows(
        self,
        rows: Index,
        removed: IntArray | None,
        alphas: FloatArray,
        scaled: FloatArray | None,
        limits: FloatArray,
    ) -> SingleRows:
        """Return the smoother on rows that are held out one by one, a basis row with each or none.

        Parameters
        ----------
        rows, removed
        alphas : ndarray of shape (a,)
        scaled : ndarray of shape (a v, p) or None
            What `scaled_z` gives: D z for all penalties. None: no errors are needed.
        limits : ndarray of shape (a,)
            Where no row can amplify rounding errors by more, a bound is all that is asked for.
        """

    @abstractmethod
    def errors_of(self, rows: Index, fitted: FloatArray) -> FloatArray:
        """Return √w (y − ŷ) (b, v) from the product of rows of V with what `scaled_z` gives.

        The product may be overwritten.
        """

    @abstractmethod
    def scale(self, alphas: FloatArray) -> FloatArray:
        """Return d (a, p): rows of V times d z are fitted values, or errors."""

    def scaled_z(self, alphas: FloatArray) -> FloatArray:
        """Return d z for all penalties, (a v, p) in C order."""
        d, z = self.scale(alphas), self.z
        return np.ascontiguousarray(d[:, None] * z.T).reshape(-1, len(z))

    @abstractmethod
    def outputs(self, rows: IntArray) -> FloatArray:
        """Return out (…, p) of rows of the data: f = out · β."""

    @abstractmethod
    def amplification(self, out: FloatArray, alphas: FloatArray) -> FloatArray:
        """Return how much unit rounding errors grow on the way to f on rows out (…, p): (…, a)."""

    @abstractmethod
    def leverages(self, alpha: float) -> FloatArray:
        """Return S_ii of every row (m,); 0 for rows that are not trained on."""

    def _squares(self, d: FloatArray) -> FloatArray:
        """Return Σ_j V_ij² d_j of every row (m,)."""
        parts = [np.square(self.V[rows]) @ d for rows in row_chunks(*self.V.shape)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _by_row(self, V: FloatArray, scaled: FloatArray, a: int) -> FloatArray:
        """Return V times D z of every penalty, (a, b, v)."""
        if len(scaled) == a:  # one target: already in place
            return np.asarray((scaled @ V.T)[:, :, None])
        return (scaled @ V.T).reshape(a, -1, len(V)).swapaxes(1, 2)

    def _trained_only(self, diagonal: FloatArray) -> FloatArray:
        weights = self.data.weights
        diagonal = np.clip(diagonal, 0.0, 1.0)
        return diagonal if weights.all_trained else np.where(weights.trained, diagonal, 0.0)


@dataclass(frozen=True)
class FeatureFactor(Factor):
    """S = V D Vᵀ: models of features, sparse or linear.

    Attributes
    ----------
    features : Features
    B : ndarray of shape (s, p')
        The features' part along the unpenalised columns, before the map T.
    N : ndarray of shape (n, p)
        Coefficients of the basis rows, or of the columns of X, from coordinates.
    T : ndarray of shape (p', p')
        θ = T β for the penalised coordinates β, where the penalty is α‖θ‖².
    basis : ndarray of int or None
        Which basis rows the rows of N belong to; None: all of them.
    """

    features: Features
    B: FloatArray
    N: FloatArray
    T: FloatArray
    basis: IntArray | None = None

    def length(self, alphas: FloatArray) -> FloatArray:
        """Return ‖√D z‖."""
        return np.asarray(np.sqrt(self.D(alphas) @ np.square(self.z)))

    def block(self, shape: Shape, alphas: FloatArray) -> FeatureBlock:
        """Return the smoother on the held-out rows of stacked tasks."""
        D, V, Y = self.D(alphas), self.V[shape.H], self.data.targets.Ys[shape.H]
        if shape.spare is not None:
            V[shape.spare], Y[shape.spare] = 0.0, 0.0
        O = self.constraints(shape.E, shape.spare_removed)  # noqa: E741
        return FeatureBlock(V, D, D, self.z, Y, O, shape.spare_removed)

    def constraints(self, E: IntArray, spare: BoolArray | None = None) -> FloatArray | None:
        """Return O (b, p, e), orthonormal bases of the rows N_E; None if none are removed.

        Zero where `spare` (b, e).

        Rows of N that nearly depend on each other are asked of the features: products with the map
        to coordinates have rounded away what those differ by.
        """
        e = E.shape[1]
        if e == 0:
            return None
        rows = self.N[E]
        if e == 1:  # normalise all at once
            return np.asarray((rows / np.linalg.norm(rows, axis=2, keepdims=True)).swapaxes(1, 2))
        spare = np.zeros(E.shape, dtype=bool) if spare is None else spare
        rows[spare] = 0.0
        O, R = np.linalg.qr(rows.swapaxes(1, 2))  # noqa: E741
        O.swapaxes(1, 2)[spare] = 0.0
        with np.errstate(all="ignore"):  # what is left of a row when those before it are taken away
            share = np.abs(np.diagonal(R, axis1=1, axis2=2)) / np.linalg.norm(R, axis=1)
        for j in np.flatnonzero(~(spare | (share >= NEARLY_LOST)).all(axis=1)).tolist():
            removed = E[j][~spare[j]]
            removed = removed if self.basis is None else self.basis[removed]
            O[j] = 0.0
            O[j, : len(self.T), : removed.size] = self._span(removed)
        return np.asarray(O)

    def _span(self, removed: IntArray) -> FloatArray:
        """Return an orthonormal basis of the constraints of basis rows, from the features."""
        return np.asarray(np.linalg.qr(self.T.T @ self.features.span(removed))[0])

    def scale(self, alphas: FloatArray) -> FloatArray:
        """Return D."""
        return self.D(alphas)

    def single_rows(
        self,
        rows: Index,
        removed: IntArray | None,
        alphas: FloatArray,
        scaled: FloatArray | None,
        limits: FloatArray,
    ) -> SingleRows:
        """Return the smoother on single rows: products of squared coordinates with D."""
        a, D, V, errors = alphas.size, self.D(alphas), self.V[rows], None
        gap = D @ (V * V).T
        if scaled is not None:
            errors = self._by_row(V, scaled, a)
        if removed is not None:
            O = self.constraints(removed[:, None])  # noqa: E741
            assert O is not None
            o = O[:, :, 0]
            oDo, VDo = D @ (o * o).T, D @ (V * o).T
            gap -= VDo * VDo / oDo
            if errors is not None and scaled is not None:
                errors = errors - (VDo / oDo)[..., None] * self._by_row(o, scaled, a)
        np.subtract(1.0, gap, out=gap)
        if errors is not None:
            errors = self.errors_of(rows, errors)
        with np.errstate(divide="ignore", invalid="ignore"):  # √S_ii is one at most
            largest = 1.0 / np.maximum(gap.min(axis=1), 0.0)
            if (largest <= limits).all():
                return SingleRows(errors, gap, np.broadcast_to(largest[:, None], gap.shape))
            return SingleRows(errors, gap, np.sqrt(np.abs(1.0 - gap)) / np.abs(gap))

    def errors_of(self, rows: Index, fitted: FloatArray) -> FloatArray:
        """Return √w y less what is fitted."""
        return np.subtract(self.data.targets.Ys[rows], fitted, out=fitted)

    def outputs(self, rows: IntArray) -> FloatArray:
        """Return V without the weights."""
        weights, V = self.data.weights, self.V[rows]
        return V if weights.uniform else V / weights.root[rows][..., None]

    def amplification(self, out: FloatArray, alphas: FloatArray) -> FloatArray:
        """Return √(out² D)."""
        return np.asarray(np.sqrt(np.square(out) @ self.D(alphas).T))

    def leverages(self, alpha: float) -> FloatArray:
        """Return Σ_j V_ij² D_j."""
        return self._trained_only(self._squares(self.D(np.array([alpha]))[0]))


@dataclass(frozen=True)
class KernelFactor(Factor):
    """I − S = α V D Vᵀ over the penalised coordinates: dense models.

    Attributes
    ----------
    new_outputs : callable
        From rows of the data to their output coordinates, from their kernel values.
    complement : Complement
        Of the unpenalised columns, where the equations are.
    lengths : ndarray of shape (n − s,) or None
        Lengths of the rows of the Cholesky factor, for one penalty: equations have rounding errors
        in proportion, so that heavy rows cost light ones nothing. A spectrum mixes them all.
    """

    new_outputs: Callable[[Factor, IntArray], FloatArray]
    complement: Complement
    lengths: FloatArray | None = None

    def R(self, alphas: FloatArray) -> FloatArray:
        """Return D on the penalised coordinates: dual coefficients are c = V R z."""
        return np.asarray(self.D(alphas) * self.penalised)

    @cached_property
    def _trained(self) -> FloatArray:
        """V of the rows that are trained on."""
        V, weights = np.asarray(self.V), self.data.weights
        return V if weights.all_trained else V[weights.trained]

    @cached_property
    def equation_errors(self) -> FloatArray:
        """Random errors of the equations of the trained rows (n, N_PROBES)."""
        if self.lengths is None:
            return noise(len(self._trained))
        return self.complement.lift(self.lengths[:, None] * noise(self.lengths.size))

    @cached_property
    def noise_z(self) -> FloatArray:
        """Vᵀg for these errors g."""
        return np.asarray(self._trained.T @ self.equation_errors)

    def length(self, alphas: FloatArray) -> FloatArray:
        """Return ‖c‖, each coefficient times the length of its equation where that is known."""
        R = self.R(alphas)
        if self.lengths is None:  # V is orthonormal
            return np.asarray(np.sqrt(np.square(R) @ np.square(self.z)))
        c = self.complement.project(self._trained @ (R[:, :, None] * self.z))
        return np.asarray(np.linalg.norm(self.lengths[:, None] * c, axis=1))

    def block(self, shape: Shape, alphas: FloatArray) -> KernelBlock:
        """Return the smoother on the held-out rows of stacked tasks."""
        D = self.D(alphas)
        R, V = D * self.penalised * alphas[:, None], np.asarray(self.V)[shape.H]
        if shape.spare is not None:
            V[shape.spare] = 0.0
        return KernelBlock(V, D, R, self.z, self.noise_z, shape.spare)

    def scale(self, alphas: FloatArray) -> FloatArray:
        """Return α R."""
        return self.R(alphas) * alphas[:, None]

    def single_rows(
        self,
        rows: Index,
        removed: IntArray | None,
        alphas: FloatArray,
        scaled: FloatArray | None,
        limits: FloatArray,
    ) -> SingleRows:
        """Return the smoother on single rows; amplification is ‖G_i‖ / G_ii, G = V R Vᵀ."""
        V, errors = np.asarray(self.V)[rows], None
        squares, R = V * V, self.R(alphas)
        G = R @ squares.T
        if scaled is not None:
            errors = self._by_row(V, scaled, alphas.size)
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.only:  # the squared length of row i of VVᵀ; of random numbers about as long
                amplification = np.linalg.norm(V @ self.noise_z, axis=1)[None] / np.abs(G)
            else:  # ‖G_i‖² is at most G_ii times the largest of R
                largest = np.sqrt(R.max(axis=1) / np.maximum(G.min(axis=1), 0.0))
                amplification = np.broadcast_to(largest[:, None], G.shape)
                if not (largest <= limits).all():
                    amplification = np.sqrt(np.square(R) @ squares.T) / np.abs(G)
        G *= alphas[:, None]
        return SingleRows(errors, G, amplification)

    def errors_of(self, rows: Index, fitted: FloatArray) -> FloatArray:
        """Return the product itself: nothing is subtracted."""
        return fitted

    def outputs(self, rows: IntArray) -> FloatArray:
        """Return V Λ without the weights; kernel values times V where that is not the spectrum."""
        weights = self.data.weights
        if self.only or not weights.trained[rows].all():
            return self.new_outputs(self, rows)
        out = np.asarray(self.V)[rows] * self.Lambda
        return np.asarray(out if weights.uniform else out / weights.root[rows][..., None])

    def amplification(self, out: FloatArray, alphas: FloatArray) -> FloatArray:
        """Return the length of G k_x, √(out² R²)."""
        if self.only:  # out Vᵀ, estimated by random numbers
            lengths = np.sqrt(np.square(out @ self.noise_z).mean(axis=-1))
            return np.asarray(lengths[..., None])
        return np.asarray(np.sqrt(np.square(out) @ np.square(self.R(alphas)).T))

    def leverages(self, alpha: float) -> FloatArray:
        """Return 1 − α Σ_j V_ij² R_j."""
        return self._trained_only(1.0 - alpha * self._squares(self.R(np.array([alpha]))[0]))

    def duals(self, beta: FloatArray) -> FloatArray:
        """Return √w-scaled dual coefficients V β over the penalised coordinates, (…, n)."""
        p = int(np.count_nonzero(self.penalised))
        duals = beta.reshape(-1, self.size)[:, :p] @ self._trained[:, :p].T  # one product for all
        return np.asarray(duals.reshape(*beta.shape[:-1], -1))
