"""A smoother in coordinates where the penalty is diagonal: factorise once, ask many questions.

With D = 1/(Λ + α·penalised), coordinates V_i of each row and z = Vᵀ√w y, the model on all rows has
fitted values ŷ_i = out_i · D z, and the model without the rows H is β = M(z − V_Hᵀr_H)
(`holdfast.smoother.held`). There are three kinds:

- `FeatureFactor`: S = V D Vᵀ and out = V. From the spectrum of the Gram matrix it holds for every
  α; from a Cholesky factorisation for one (Cawley and Talbot 2004): Λ = 1, D = 1.
- `KernelFactor`: a dense model by its spectrum (Tanaka and Imai 2019 (16)).
  I − S = α V D' Vᵀ with D' = D, zero at the unpenalised columns, and out = V·Λ: no subtraction from
  the identity, so nothing cancels at tiny α.
- `holdfast.smoother.inverse`: a dense model at one α by G = (K + αI)⁻¹, I − S = αG.

A factor is a value: nothing in it changes, and it knows its own rounding errors (`unit`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Self

import numpy as np

from holdfast._typing import FloatArray, IntArray
from holdfast.experiments import Shape, Tasks
from holdfast.linalg import reciprocal_shifts
from holdfast.smoother.features import Features
from holdfast.smoother.held import (
    Held,
    HeldCoordinates,
    constraints,
    same_rows,
    scaled_products,
)
from holdfast.smoother.rows import FeatureRows, StreamedRows, vector_blocks
from holdfast.smoother.scale import Centre, RowScale, Targets, Unpenalised

__all__ = [
    "EPS",
    "INVERSE_SHARE",
    "SPECTRUM_SHARE",
    "Alone",
    "Coordinates",
    "Factor",
    "FeatureFactor",
    "KernelFactor",
    "formed_share",
]

EPS = float(np.finfo(np.float64).eps)
#: Errors of an eigendecomposition as a share of its bound eps ‖A‖, and of Cholesky factorisations
#: of the same matrix: measured on real data, at most 0.15 and a fifth of that.
SPECTRUM_SHARE, INVERSE_SHARE = 0.2, 0.1


class Alone(NamedTuple):
    """What predictions of single rows by the models without them are made of.

    Attributes
    ----------
    errors : ndarray of shape (a, b, v)
        e_i, up to the same factor as `gap`; for rows that are not held out, what is predicted.
    gap : ndarray of shape (b, a)
        1 − S_ii, up to a factor.
    reach : ndarray of shape (b, a)
        How much rounding errors grow on the way to a prediction.
    moved : ndarray of shape (b, a)
        How far the model moves per unit of held-out residual.
    """

    errors: FloatArray
    gap: FloatArray
    reach: FloatArray
    moved: FloatArray


class Factor(ABC):
    """A factorised smoother, from which its values on any rows follow.

    Attributes
    ----------
    scale : RowScale
    targets : Targets
    """

    scale: RowScale
    targets: Targets

    @property
    @abstractmethod
    def size(self) -> int:
        """How many numbers a row takes."""

    def row_size(self, tasks: Tasks) -> int:
        """Return how many numbers a row of these tasks takes."""
        return self.size

    @property
    def parallel(self) -> bool:
        """Whether several threads may ask for rows at the same time."""
        return True

    @property
    def n_targets(self) -> int:
        """The number v of targets."""
        return self.targets.count

    @abstractmethod
    def select(self, columns: slice | IntArray) -> Self:
        """Return the same factor for some of the targets."""

    @abstractmethod
    def held(self, shape: Shape, alphas: FloatArray) -> Held:
        """Return the smoother on the rows of stacked tasks."""

    @abstractmethod
    def leverages(self, alpha: float) -> FloatArray:
        """Return S_ii of every row (m,); 0 for rows that are not trained on."""


@dataclass(frozen=True)
class Coordinates(Factor):
    """What factors in coordinates have in common.

    Attributes
    ----------
    V : ndarray or StreamedRows of shape (m, p)
        Coordinates of the rows, times √w. Rows of weight zero hold their output coordinates.
    Lambda : ndarray of shape (p,)
        Eigenvalues; 1 for the unpenalised columns, which come last.
    penalised : ndarray of shape (p,)
        1 where α adds to Λ, else 0.
    z : ndarray of shape (p, v)
        Vᵀ√w y.
    targets : Targets
    scale : RowScale
    unpenalised : Unpenalised
    """

    V: FeatureRows
    Lambda: FloatArray
    penalised: FloatArray
    z: FloatArray
    targets: Targets
    scale: RowScale
    unpenalised: Unpenalised

    kappa: ClassVar[float]

    @property
    def size(self) -> int:
        """The number p of coordinates."""
        return int(self.Lambda.size)

    def select(self, columns: slice | IntArray) -> Self:
        """Return the same factor for some of the targets."""
        return replace(self, z=self.z[:, columns], targets=self.targets.select(columns))

    @property
    def parallel(self) -> bool:
        """Whether rows are kept, or their features may be made side by side."""
        return not isinstance(self.V, StreamedRows) or self.V.features.parallel

    def D(self, alphas: FloatArray) -> FloatArray:
        """Return 1/(Λ + α·penalised), shape (a, p)."""
        return reciprocal_shifts(self.Lambda, alphas, self.penalised)

    def d(self, alpha: float) -> FloatArray:
        """Return the same at one penalty, shape (p,)."""
        return reciprocal_shifts(self.Lambda, alpha, self.penalised)

    @abstractmethod
    def R(self, D: FloatArray) -> FloatArray:
        """Return the diagonal of the residual map."""

    @abstractmethod
    def unit(self, alphas: FloatArray) -> FloatArray:
        """Return the rounding errors of the factor (a,), relative to the length of a model."""

    @abstractmethod
    def length(self, D: FloatArray) -> FloatArray:
        """Return the length of the model on all rows (a, v)."""

    def formed(self, D: FloatArray, length: FloatArray) -> FloatArray:
        """Return what forming G = V R Vᵀ adds to rounding errors (a,)."""
        return np.zeros(len(D))

    @abstractmethod
    def outputs(self, rows: IntArray, V: FloatArray) -> FloatArray:
        """Return the output coordinates of rows from V[rows]; may be `V` itself."""

    def _constraints(self, shape: Shape, root: FloatArray | None) -> FloatArray | None:
        return None

    def held(self, shape: Shape, alphas: FloatArray) -> HeldCoordinates:
        """Return the smoother on the rows of stacked tasks."""
        D, z = self.D(alphas), self.z
        V, Y, itself = self.V[shape.H], self.targets.Ys[shape.H], same_rows(shape)
        tested = V if itself else self.V[shape.T]
        length = self.length(D)
        root = np.sqrt(D[0]) if alphas.size == 1 and self.kappa else None
        if root is not None:
            for rows in (V,) if itself else (V, tested):
                rows *= root
            D, z = np.ones_like(D), root[:, None] * z
        return HeldCoordinates(
            V=V,
            out=self.outputs(shape.T, tested),
            D=D,
            R=self.R(D),
            O=self._constraints(shape, root),
            z=z,
            Y=Y,
            kappa=self.kappa,
            unit=self.unit(alphas),
            length=length,
            formed=self.formed(D, length),
            root=root,
        )

    def alone(self, shape: Shape, alphas: FloatArray) -> Alone:
        """Return what tasks need that test one row and hold out that row or none, all α at once.

        Products of squared coordinates with D (Pahikkala et al. 2006 (10)).
        """
        rows = shape.T[:, 0]
        D, V = self.D(alphas), self.V[rows]
        root = self.scale.root[rows][:, None]
        if not shape.H.size:
            fitted = scaled_products(self.outputs(rows, V), D, self.z)
            return Alone(fitted, *self._reach(V, D, root))
        return self._gap(shape, rows, V, D, root)

    @abstractmethod
    def _reach(
        self, V: FloatArray, D: FloatArray, root: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return gap, reach and moved (b, a) of rows V (b, p) that are not held out."""

    @abstractmethod
    def _gap(
        self, shape: Shape, rows: IntArray, V: FloatArray, D: FloatArray, root: FloatArray
    ) -> Alone:
        """Return what single rows need that are held out."""

    def squares(self, d: FloatArray) -> FloatArray:
        """Return Σ_j V_ij² d_j of every row (m,)."""
        parts = [np.square(self.V[rows]) @ d for rows in vector_blocks(self.V)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def leverages(self, alpha: float) -> FloatArray:
        """Return S_ii in O(mp): Σ_j V_ij² R_j for κ = 1, 1 − α Σ_j V_ij² R_j for κ = 0."""
        form = self.squares(self.R(self.d(alpha)))
        diagonal = form if self.kappa else 1.0 - alpha * form
        np.minimum(np.maximum(diagonal, 0.0, out=diagonal), 1.0, out=diagonal)  # np.clip is slower
        return diagonal if self.scale.everything else np.where(self.scale.trained, diagonal, 0.0)


@dataclass(frozen=True)
class FeatureFactor(Coordinates):
    """S = V D Vᵀ: models of features, sparse or linear.

    Attributes
    ----------
    features : Features
    B : Centre
        The features' part along the unpenalised columns, before the map T.
    N : ndarray of shape (n, p)
        Coefficients of the basis rows, or of the columns of X, from coordinates.
    T : ndarray of shape (p', p')
        θ = T β for the penalised coordinates β, where the penalty is α‖θ‖².
    least : float
        The smallest penalty that it was made for.
    defect : ndarray of shape (2, k)
        Penalties, increasing, and what is left there of VᵀV + αTᵀT = Λ + α at the fitted model,
        relative to the fitted targets.
    basis : ndarray of int or None
        Which basis rows the rows of N belong to; None: all of them.
    """

    features: Features
    B: Centre
    N: FloatArray
    T: FloatArray
    least: float
    defect: FloatArray
    basis: IntArray | None = None

    kappa: ClassVar[float] = 1.0

    def R(self, D: FloatArray) -> FloatArray:
        """Return D."""
        return D

    def unit(self, alphas: FloatArray) -> FloatArray:
        """Return the measured defect, and 4 eps."""
        at, found = self.defect
        rho = found[np.maximum(np.searchsorted(at, alphas, side="right") - 1, 0)]
        return np.asarray(rho + 4.0 * EPS)

    def length(self, D: FloatArray) -> FloatArray:
        """Return ‖√D z‖."""
        return np.asarray(np.sqrt(D @ np.square(self.z)))

    def outputs(self, rows: IntArray, V: FloatArray) -> FloatArray:
        """Return V without the weights."""
        return V if self.scale.uniform else V / self.scale.root[rows][..., None]

    def span(self, removed: IntArray) -> FloatArray:
        """Return columns (p', e) that span those rows of N.

        From the features themselves: the map T has rounded away what two nearly equal basis rows
        differ by. So the difference is taken first.
        """
        numbers = removed if self.basis is None else self.basis[removed]
        return np.asarray(self.T.T @ self.features.span(numbers))

    def _constraints(self, shape: Shape, root: FloatArray | None) -> FloatArray | None:
        return constraints(self.N, shape.E, root, self.span)

    def _reach(
        self, V: FloatArray, D: FloatArray, root: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        reach = np.sqrt((V * V) @ D.T)
        return np.ones_like(reach), reach / root, np.zeros_like(reach)

    def _gap(
        self, shape: Shape, rows: IntArray, V: FloatArray, D: FloatArray, root: FloatArray
    ) -> Alone:
        fitted = scaled_products(V, D, self.z)  # (a, b, v), times √w
        leverage = (V * V) @ D.T
        O = self._constraints(shape, None)  # noqa: E741
        if O is not None:
            o = O[:, :, 0]
            oDo, VDo = (o * o) @ D.T, (V * o) @ D.T
            fitted -= (VDo / oDo).T[:, :, None] * scaled_products(o, D, self.z)
            leverage -= VDo * VDo / oDo
        gap, moved = 1.0 - leverage, np.sqrt(np.maximum(leverage, 0.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            reach = moved / (np.maximum(gap, 0.0) * root)
        return Alone(self.targets.Ys[rows] - fitted, gap, reach, moved)


@dataclass(frozen=True)
class KernelFactor(Coordinates):
    """I − S = α V D' Vᵀ: dense models.

    Attributes
    ----------
    rounding : float
        Rounding errors of the decomposed matrix, in units of eps.
    """

    rounding: float

    kappa: ClassVar[float] = 0.0

    @property
    def eigenvectors(self) -> FloatArray:
        """V of the rows that are trained on, without the unpenalised columns."""
        return self.trained_rows[:, : np.count_nonzero(self.penalised)]

    def R(self, D: FloatArray) -> FloatArray:
        """Return D with zeros for the unpenalised columns, which S reproduces exactly."""
        return D * self.penalised

    def unit(self, alphas: FloatArray) -> FloatArray:
        """Return the errors of the decomposed matrix: backward stable, and no more."""
        return np.full(alphas.size, EPS * self.rounding)

    def length(self, D: FloatArray) -> FloatArray:
        """Return ‖c‖."""
        return np.asarray(np.sqrt(np.square(self.R(D)) @ np.square(self.z)))

    def formed(self, D: FloatArray, length: FloatArray) -> FloatArray:
        """Return what forming G adds, which heavy rows feel, in units of the other errors."""
        largest = np.abs(self.R(D)).max(axis=1)
        return formed_share(largest, self.rounding, self.targets, self.scale, length)

    def outputs(self, rows: IntArray, V: FloatArray) -> FloatArray:
        """Return V·Λ without the weights; rows of weight zero already hold their outputs."""
        out = V * self.Lambda
        if not self.scale.uniform:
            out /= self.scale.root[rows][..., None]
            out = np.where(self.scale.trained[rows][..., None], out, V)
        return np.asarray(out)

    def _reach(
        self, V: FloatArray, D: FloatArray, root: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        reach = np.sqrt(np.square(V * self.Lambda) @ np.square(self.R(D)).T)
        return np.ones_like(reach), reach / root, np.zeros_like(reach)

    def _gap(
        self, shape: Shape, rows: IntArray, V: FloatArray, D: FloatArray, root: FloatArray
    ) -> Alone:
        R, squares = self.R(D), V * V
        gap, moved = squares @ R.T, np.sqrt(squares @ np.square(R).T)
        with np.errstate(divide="ignore", invalid="ignore"):
            # ‖G_i‖ / G_ii
            reach = (moved + self.formed(D, self.length(D))) / (np.abs(gap) * root)
        return Alone(scaled_products(V, R, self.z), gap, reach, moved)

    @property
    def trained_rows(self) -> FloatArray:
        """V of the rows that are trained on."""
        V = np.asarray(self.V)
        return V if self.scale.everything else V[self.scale.trained]


def formed_share(
    G: FloatArray, rounding: float, targets: Targets, scale: RowScale, length: FloatArray
) -> FloatArray:
    """Return ‖G‖ (‖√w y‖ + ‖√w‖ σ_y) / (rounding ‖c‖) (a,), the largest over the targets.

    Errors of G meet the targets, and the held-out residuals, which are about as large as their
    spread even where the targets of heavy rows happen to be small.
    """
    sizes = np.linalg.norm(targets.Ys, axis=0)
    sizes += np.linalg.norm(scale.root[scale.trained]) * targets.spread
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = (sizes / length).max(axis=1) / rounding
    return np.where(np.isfinite(ratio), ratio, 0.0) * G
