"""Stacked experiments at one penalty: residuals, the distribution of tested rows, the way back.

With A = I − S_HH the held-out residuals are r = A⁻¹e, and the targets of the tested rows T ⊂ H have
the covariance C = (A⁻¹)_TT in units of the noise variance (`holdfast.holdout.spread`). A loss that
depends on r_T and C has ∂L/∂r = ρ and ∂L/∂C = Γ. Because dA⁻¹ = −A⁻¹ dA A⁻¹,

    dL = μᵀ(de − dA r) − ⟨Ψ, dA⟩,     A μ = P_Tρ,     Ψ = A⁻¹P_T Γ P_TᵀA⁻¹

Ψ is never formed. Adjoints need Ψ times the rows that A is made of, and where the tested rows are
the held-out ones that is a few solves: C⁻¹ = A, C⁻¹r = e, so neither C nor C⁻¹ is formed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from holdfast._typing import FloatArray, IntArray
from holdfast.experiments import Shape
from holdfast.holdout.identity import HeldSystem
from holdfast.linalg import Definite
from holdfast.smoother import Held

__all__ = ["Block", "CovarianceSlope", "Slopes", "Solved"]


@dataclass(frozen=True)
class Block:
    """Tasks of one shape, stacked.

    Attributes
    ----------
    shape : Shape
        Rows held out and tested, positions in the basis that are removed.
    where : ndarray of int, shape (b, t), or None
        Places in H of the rows that are tested; None: all of H, in order.
    distinct : bool
        Whether no row is in two of the held-out sets.
    """

    shape: Shape
    where: IntArray | None
    distinct: bool

    @classmethod
    def of(cls, shape: Shape) -> Block:
        """Return stacked tasks whose tested rows are all held out."""
        H, T, where = shape.H, shape.T, None
        if not np.array_equal(H, T):
            order = np.argsort(H, axis=1)
            each = zip(H, T, order, strict=True)
            where = np.array([o[np.searchsorted(held, rows, sorter=o)] for held, rows, o in each])
        return cls(shape, where, np.unique(H).size == H.size)

    def tested(self, values: FloatArray) -> FloatArray:
        """Return the values (b, t, v) of the tested rows among those of H (b, h, v)."""
        if self.where is None:
            return values
        return np.asarray(np.take_along_axis(values, self.where[:, :, None], axis=1))

    def scattered(self, values: FloatArray) -> FloatArray:
        """Return (b, h, v) with values (b, t, v) at the tested rows of H and zero elsewhere."""
        if self.where is None:
            return values
        spread = np.zeros((*self.shape.H.shape, values.shape[2]))
        np.put_along_axis(spread, self.where[:, :, None], values, axis=1)
        return spread

    def add_rows(self, total: FloatArray, part: FloatArray, H: IntArray) -> None:
        """Add (b, h, k) to the held-out rows of `total`, which have the numbers H there."""
        if self.distinct:
            total[H] += part
            return
        for rows, own in zip(H, part, strict=True):
            total[rows] += own


class CovarianceSlope(NamedTuple):
    """∂L/∂C = level C⁻¹ − Σ_v τ_v q_v q_vᵀ + diag(own), with q = C⁻¹r.

    The derivatives by log det C, by rᵀC⁻¹r of each target (v,), and by the variance of each tested
    row (b, t).
    """

    level: float
    tau: FloatArray
    own: FloatArray | None = None


class Slopes(NamedTuple):
    """∂L/∂r (b, t, v) of the tested rows, and ∂L/∂C if the loss depends on it."""

    residual: FloatArray
    covariance: CovarianceSlope | None = None


class Solved:
    """Stacked experiments with their systems factorised.

    Parameters
    ----------
    block : Block
    held : Held
        The smoother on their rows, at one penalty.
    scale : float
        I − S_HH over the matrices `held.gaps`: α for a dense model, 1 for a sparse one.

    Attributes
    ----------
    system : HeldSystem
    r, tested : ndarray of shape (b, h, v) and (b, t, v)
        Held-out residuals, in units of √w y, and those of the tested rows.
    """

    def __init__(self, block: Block, held: Held, scale: float) -> None:
        self.block, self.held, self.scale = block, held, scale
        self.system = HeldSystem(held)
        self._errors = held.errors()[0]
        self.r = self.system.solve(self._errors)
        self.tested = block.tested(self.r)
        self._whole = block.where is None  # the tested rows are the held-out ones

    # -- the distribution of the tested rows -------------------------------------------------------

    @cached_property
    def _columns(self) -> FloatArray:
        """A⁻¹P_T, shape (b, h, t)."""
        b, t = self.block.shape.T.shape
        ones = np.broadcast_to(np.eye(t), (b, t, t))
        return self.system.solve(self.block.scattered(ones)) / self.scale

    @cached_property
    def _covariance(self) -> Definite:
        """C (b, t, t), factorised."""
        return Definite(self.block.tested(self._columns))

    @property
    def log_det(self) -> FloatArray:
        """Logarithm of det C, shape (b,)."""
        if not self._whole:
            return self._covariance.log_det
        return np.asarray(-self.system.log_det - self.r.shape[1] * np.log(self.scale))

    @cached_property
    def weighted(self) -> FloatArray:
        """The vectors q = C⁻¹r of the tested rows, shape (b, t, v)."""
        if not self._whole:
            return self._covariance.solve(self.tested)
        return np.asarray(self.scale * self._errors)

    @cached_property
    def variances(self) -> FloatArray:
        """The diagonal of C, shape (b, t)."""
        if not self._whole:
            return np.array(np.einsum("btt->bt", self.block.tested(self._columns)))
        return self.system.inverse_diagonal() / self.scale

    # -- the way back ------------------------------------------------------------------------------

    def pull_residuals(self, slopes: Slopes) -> FloatArray:
        """Return `scale` times μ, shape (b, h, v): the solution for the matrices `held.gaps`."""
        return self.system.solve(self.block.scattered(slopes.residual))

    def pull_covariance(self, slope: CovarianceSlope, rows: FloatArray) -> FloatArray:
        """Return Ψ times rows (b, h, k)."""
        if not self._whole:
            return self._pull_part(slope, rows)
        X = self.system.solve(rows) / self.scale
        taken = self.r @ (slope.tau[:, None] * (self.r.swapaxes(1, 2) @ rows))
        found = slope.level * X - taken
        if slope.own is not None:
            found += self.system.solve(slope.own[:, :, None] * X) / self.scale
        return np.asarray(found)

    def _pull_part(self, slope: CovarianceSlope, rows: FloatArray) -> FloatArray:
        """Return the same where only a part of the held-out rows is tested."""
        X = self._columns.swapaxes(1, 2) @ rows  # (b, t, k)
        q = self.weighted
        inner = slope.level * self._covariance.solve(X)
        inner -= q @ (slope.tau[:, None] * (q.swapaxes(1, 2) @ X))
        if slope.own is not None:
            inner += slope.own[:, :, None] * X
        return np.asarray(self._columns @ inner)
