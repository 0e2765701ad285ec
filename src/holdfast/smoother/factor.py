"""A smoother in coordinates where the penalty is diagonal: factorise once, ask many questions.

With D = 1/(Λ + α·penalised), coordinates V_i of each row and z = Vᵀ√w y, the model on all rows has
fitted values ŷ_i = out_i · D z, and the model without the rows H is β = M(z − V_Hᵀr_H)
(`holdfast.smoother.held`). There are three kinds:

- `FeatureFactor`: S = V D Vᵀ and out = V. From the spectrum of the Gram matrix it holds for every
  α; from a Cholesky factorisation for one (Cawley and Talbot 2004): Λ = 1, D = 1.
- `KernelFactor`: a dense model by its spectrum (Tanaka and Imai 2019 (16)).
  I − S = α V D' Vᵀ with D' = D, zero at the unpenalised columns, and out = V·Λ: no subtraction from
  the identity, so nothing cancels at tiny α.
- `InverseFactor`: a dense model at one α by G = (K + αI)⁻¹, I − S = αG.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, NamedTuple, Self

import numpy as np

from holdfast._typing import FloatArray, IntArray
from holdfast.experiments import Shape
from holdfast.linalg import reciprocal_shifts
from holdfast.smoother.held import (
    Held,
    HeldCoordinates,
    HeldInverse,
    constraints,
    fitted_size,
    same_rows,
)
from holdfast.smoother.rows import FeatureRows, StreamedRows, vector_blocks
from holdfast.smoother.scale import RowScale, Unpenalised
from holdfast.smoother.span import Span

__all__ = ["Alone", "Factor", "FeatureFactor", "InverseFactor", "KernelFactor"]


class Alone(NamedTuple):
    """What predictions of single rows by the models without them are made of.

    Attributes
    ----------
    fitted : ndarray of shape (a, b, v)
        Predictions by the model on all rows (but without removed basis rows).
    lift : ndarray of shape (b, a)
        How much they fall per unit of held-out residual.
    gap : ndarray of shape (b, a)
        1 − S_ii, up to a factor.
    errors : ndarray of shape (a, b, v)
        e_i, up to the same factor.
    weak : float
        A gap no larger than this has lost too many digits.
    size : ndarray of shape (a, v)
        ‖√D z‖: the length of all fitted targets, in the coordinates that predictions come from.
    """

    fitted: FloatArray
    lift: FloatArray
    gap: FloatArray
    errors: FloatArray
    weak: float
    size: FloatArray


class Factor(ABC):
    """A factorised smoother, from which its values on any rows follow."""

    @property
    @abstractmethod
    def size(self) -> int:
        """How many numbers a row takes."""

    @property
    def parallel(self) -> bool:
        """Whether several threads may ask for rows at the same time."""
        return True

    @property
    def fills(self) -> bool:
        """Whether stacks may be filled up: tasks of different sizes side by side."""
        return False

    @property
    @abstractmethod
    def n_targets(self) -> int:
        """The number v of targets."""

    @abstractmethod
    def select(self, columns: slice | IntArray) -> Self:
        """Return the same factor for some of the targets."""

    @abstractmethod
    def held(self, shape: Shape, alphas: FloatArray) -> Held:
        """Return the smoother on the rows of stacked tasks."""

    def alone(self, shape: Shape, alphas: FloatArray) -> Alone | None:
        """Return what tasks need that test one row and hold out that row or none, all α at once.

        None where the general way is just as fast.
        """
        return None

    def relaxed(self) -> Self:
        """Return the same factor without a limit on what leverages may cost."""
        return self

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
    Ys : ndarray of shape (m, v)
        √w y.
    scale : RowScale
    N : ndarray of shape (n, p) or None
        Coefficients of the basis rows from coordinates, for removal.
    T : ndarray of shape (p', p') or None
        θ = T β for the penalised coordinates β, where the penalty is α‖θ‖²; None if θ = β.
    weak : float
        1 − S_ii, or a pivot of I − S_HH, no larger than this has lost too many digits: a leverage h
        loses eps/(1 − h), whatever the factor.
    span : Span or None
        What rows of N span, where they nearly depend on each other.
    """

    V: FeatureRows
    Lambda: FloatArray
    penalised: FloatArray
    z: FloatArray
    Ys: FloatArray
    scale: RowScale
    N: FloatArray | None = None
    T: FloatArray | None = None
    weak: float = 1e-3
    span: Span | None = None

    kappa: ClassVar[float]

    @property
    def size(self) -> int:
        """The number p of coordinates."""
        return int(self.Lambda.size)

    @property
    def n_targets(self) -> int:
        """The number v of targets."""
        return int(self.z.shape[1])

    def select(self, columns: slice | IntArray) -> Self:
        """Return the same factor for some of the targets."""
        return replace(self, z=self.z[:, columns], Ys=self.Ys[:, columns])

    def relaxed(self) -> Self:
        """Return the same factor without a limit on what leverages may cost."""
        return replace(self, weak=0.0)

    @property
    def fills(self) -> bool:
        """Whether rows are kept, so that a spare one costs nothing to fetch."""
        return isinstance(self.V, np.ndarray)

    @property
    def parallel(self) -> bool:
        """Whether rows are kept, or their features may be made side by side."""
        return not isinstance(self.V, StreamedRows) or self.V.features.parallel

    def D(self, alphas: FloatArray) -> FloatArray:
        """Return 1/(Λ + α·penalised), shape (a, p); not to be changed, the last one is kept."""
        asked = alphas.tobytes()
        found = self._last.get(asked)
        if found is None:
            found = reciprocal_shifts(self.Lambda, alphas, self.penalised)
            found.flags.writeable = False
            self._last.clear()
            self._last[asked] = found
        return found

    def d(self, alpha: float) -> FloatArray:
        """Return the same at one penalty, shape (p,)."""
        return reciprocal_shifts(self.Lambda, alpha, self.penalised)

    @cached_property
    def _last(self) -> dict[bytes, FloatArray]:
        """The last D, by its penalties."""
        return {}

    @abstractmethod
    def R(self, D: FloatArray) -> FloatArray:
        """Return the diagonal of the residual map."""

    @abstractmethod
    def outputs(self, rows: IntArray, V: FloatArray) -> FloatArray:
        """Return the output coordinates of rows from V[rows]; may be `V` itself."""

    def held(self, shape: Shape, alphas: FloatArray) -> HeldCoordinates:
        """Return the smoother on the rows of stacked tasks."""
        D, z, spare = self.D(alphas), self.z, shape.spare
        V, Y, itself = self.V[shape.H], self.Ys[shape.H], same_rows(shape)
        tested = V if itself else self.V[shape.T]
        if spare is not None:
            V[spare.H] = 0.0
            Y[spare.H] = 0.0
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
            O=constraints(self.N, shape.E, None if spare is None else spare.E, root, self.span),
            z=z,
            Y=Y,
            kappa=self.kappa,
            weak=self.weak * self.kappa,
            spare=None if spare is None else spare.H,
            root=root,
            row_root=None if self.scale.uniform else self.scale.root[shape.H],
        )

    def alone(self, shape: Shape, alphas: FloatArray) -> Alone:
        """Return this from products of squared coordinates with D (Pahikkala et al. 2006 (10))."""
        rows = shape.T[:, 0]
        D, V = self.D(alphas), self.V[rows]
        out = self.outputs(rows, V)
        root = self.scale.root[rows][:, None]
        fitted = times(out, D, self.z)  # (a, b, v)
        lift = (V * out) @ D.T  # (b, a): out_i · D V_i
        O = constraints(self.N, shape.E)  # noqa: E741
        if O is not None:
            o = O[:, :, 0]
            oDo, VDo = (o * o) @ D.T, (V * o) @ D.T
            outDo = VDo / root  # only models of features lose basis rows, and there out = V / root
            fitted -= (outDo / oDo).T[:, :, None] * times(o, D, self.z)
            lift -= outDo * VDo / oDo
        gap, errors = self._gap(rows, V, D, fitted, lift)
        # With κ = 0 the gap comes without a subtraction: it may be tiny, and negative if the kernel
        # is indefinite.
        weak = self.weak if self.kappa else -np.inf
        return Alone(fitted, lift, gap, errors, weak, fitted_size(D, self.z))

    @abstractmethod
    def _gap(
        self, rows: IntArray, V: FloatArray, D: FloatArray, fitted: FloatArray, lift: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return gap (b, a) and errors (a, b, v) of single rows."""

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


class FeatureFactor(Coordinates):
    """S = V D Vᵀ: models of features, sparse or linear."""

    kappa: ClassVar[float] = 1.0

    def R(self, D: FloatArray) -> FloatArray:
        """Return D."""
        return D

    def outputs(self, rows: IntArray, V: FloatArray) -> FloatArray:
        """Return V without the weights."""
        return V if self.scale.uniform else V / self.scale.root[rows][..., None]

    def _gap(
        self, rows: IntArray, V: FloatArray, D: FloatArray, fitted: FloatArray, lift: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        root = self.scale.root[rows][:, None]
        return 1.0 - lift * root, self.Ys[rows] - fitted * root


class KernelFactor(Coordinates):
    """I − S = α V D' Vᵀ: dense models."""

    kappa: ClassVar[float] = 0.0

    @property
    def eigenvectors(self) -> FloatArray:
        """V of the rows that are trained on, without the unpenalised columns."""
        return self.trained_rows[:, : np.count_nonzero(self.penalised)]

    def R(self, D: FloatArray) -> FloatArray:
        """Return D with zeros for the unpenalised columns, which S reproduces exactly."""
        return D * self.penalised

    def outputs(self, rows: IntArray, V: FloatArray) -> FloatArray:
        """Return V·Λ without the weights; rows of weight zero already hold their outputs."""
        out = V * self.Lambda
        if not self.scale.uniform:
            out /= self.scale.root[rows][..., None]
            out = np.where(self.scale.trained[rows][..., None], out, V)
        return np.asarray(out)

    def _gap(
        self, rows: IntArray, V: FloatArray, D: FloatArray, fitted: FloatArray, lift: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        R = self.R(D)
        return (V * V) @ R.T, times(V, R, self.z)

    def inverse_rows(self, rows: IntArray, alphas: FloatArray) -> FloatArray:
        """Return rows of G = V R Vᵀ (a, h, n) over the trained rows, which number them."""
        V, R = self.trained_rows, self.R(self.D(alphas))
        return np.asarray((R[:, None] * V[rows]) @ V.T)

    def inverse_times(self, x: FloatArray, alphas: FloatArray) -> FloatArray:
        """Return G x for x (a, n, v)."""
        V, R = self.trained_rows, self.R(self.D(alphas))
        return np.asarray(V @ (R[:, :, None] * (V.T @ x)))

    @property
    def trained_rows(self) -> FloatArray:
        """V of the rows that are trained on."""
        V = np.asarray(self.V)
        return V if self.scale.everything else V[self.scale.trained]


def times(rows: FloatArray, D: FloatArray, z: FloatArray) -> FloatArray:
    """Return rows · D z for every α, shape (a, b, v), as one product."""
    a, p = D.shape
    scaled = (D[:, None] * z.T).reshape(-1, p)  # (a v, p)
    return np.ascontiguousarray((rows @ scaled.T).reshape(-1, a, z.shape[1]).swapaxes(0, 1))


@dataclass(frozen=True)
class InverseFactor(Factor):
    """A dense model at one penalty, by G = (√wK√w + αI)⁻¹ on the complement of Q.

    Attributes
    ----------
    G : ndarray of shape (k, k)
        Over the k trained rows.
    alpha : float
    K : ndarray of shape (m, m)
        The kernel matrix.
    Ys, c : ndarray of shape (k, v)
        √w y of the trained rows, and G times it.
    centre : ndarray of shape (s, k)
        Qᵀ√wK, for the unpenalised part.
    scale : RowScale
    unpenalised : Unpenalised
    """

    G: FloatArray
    alpha: float
    K: FloatArray
    Ys: FloatArray
    c: FloatArray
    centre: FloatArray
    scale: RowScale
    unpenalised: Unpenalised

    @property
    def size(self) -> int:
        """How many numbers a row takes: a row of G, and as many coefficients per target."""
        return len(self.G) * (1 + self.n_targets)

    @property
    def n_targets(self) -> int:
        """The number v of targets."""
        return int(self.Ys.shape[1])

    def select(self, columns: slice | IntArray) -> InverseFactor:
        """Return the same factor for some of the targets."""
        return replace(self, Ys=self.Ys[:, columns], c=self.c[:, columns])

    def held(self, shape: Shape, alphas: FloatArray) -> HeldInverse:
        """Return the smoother on the rows of stacked tasks; `alphas` holds the penalty of G."""
        live = self.scale.trained
        columns = slice(None) if self.scale.everything else live
        place = np.cumsum(live) - 1  # where each trained row stands among the trained rows
        H, Q = place[shape.H], self.unpenalised.Q[live]
        return HeldInverse(
            G_H=self.G[H],
            H=H,
            c=self.c,
            kernel=lambda rows: self.K[rows][..., columns],
            rows=shape,
            root=self.scale.root[live],
            Q=Q,
            U_T=self.unpenalised.U[shape.T],
            centre=self.centre,
            level=Q.T @ self.Ys,
            Ys=self.Ys,
        )

    def inverse_rows(self, rows: IntArray, alphas: FloatArray) -> FloatArray:
        """Return rows of G (1, h, n) over the trained rows, which number them."""
        return self.G[rows][None]

    def inverse_times(self, x: FloatArray, alphas: FloatArray) -> FloatArray:
        """Return G x for x (1, n, v)."""
        return np.asarray(self.G @ x)

    def leverages(self, alpha: float) -> FloatArray:
        """Return S_ii = 1 − αG_ii."""
        found = np.zeros(len(self.K))
        found[self.scale.trained] = 1.0 - self.alpha * self.G.diagonal()
        return np.clip(found, 0.0, 1.0)
