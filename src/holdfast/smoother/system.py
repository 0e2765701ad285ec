"""Feature rows with their Gram matrix, in some coordinates, and the model on all of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from holdfast._typing import FloatArray, IntArray
from holdfast.linalg import (
    not_definite,
    run_pieces,
    threads_for,
)
from holdfast.smoother.blocks import even_blocks
from holdfast.smoother.features import Features
from holdfast.smoother.held import constraints
from holdfast.smoother.moments import SetSums
from holdfast.smoother.rows import (
    FeatureRows,
    StreamedRows,
)
from holdfast.smoother.scale import Centre, Unpenalised
from holdfast.smoother.span import Span

__all__ = ["FeatureSystem", "coefficients", "penalty_mask", "solve", "solve_each", "transform"]


@dataclass(frozen=True)
class FeatureSystem:
    """Rows, their Gram matrix and their products with the targets, in some coordinates.

    Attributes
    ----------
    features : Features
        What rows and coefficients come from.
    W : ndarray or StreamedRows of shape (m, p + s)
        Feature rows times √w (unscaled where w = 0), the unpenalised columns last.
    gram : ndarray of shape (p + s, p + s), or (p + s,) when diagonal
        WᵀW over the trained rows. The unpenalised columns are orthonormal and orthogonal to the
        others.
    z : ndarray of shape (p + s, v)
        WᵀYs.
    N : ndarray of shape (n, p + s)
        Published coefficients from coordinates: a = N θ. Rows belong to basis rows (N = C⁻ᵀ) or
        to input features (linear kernel). Zero in the unpenalised columns.
    B : Centre
        Qᵀ√wΦ: features on the unpenalised columns, before the map T.
    norms : ndarray of shape (m,)
        ‖W_i‖² without the unpenalised columns, approximate: before the last correction of B.
    sets : SetSums or None
        Sums of held-out sets, if they were asked for and while W is as it was made.
    T : ndarray of shape (p, p) or None
        The map from features to these coordinates; None where they are the same.
    least : float
        The smallest penalty for which a diagonal Gram matrix has enough digits.
    promise : float
        The relative error of predictions that the diagonal Gram matrix promises there.
    """

    features: Features
    W: FeatureRows
    gram: FloatArray
    z: FloatArray
    N: FloatArray
    B: Centre
    norms: FloatArray
    sets: SetSums | None = None
    T: FloatArray | None = None
    least: float = 0.0
    promise: float = 0.0

    @property
    def p(self) -> int:
        """The number of coordinates under the penalty."""
        return int(self.B.shape[1])

    @property
    def diagonal(self) -> bool:
        """Whether the Gram matrix is diagonal: the coordinates are its eigenvectors."""
        return self.gram.ndim == 1

    @property
    def span(self) -> Span:
        """What rows of N span."""
        return Span(self.features, self.T)

    def constraints(self, removed: IntArray) -> FloatArray:
        """Return rows (e, p) that span those rows of N: no θ under the constraint has a part."""
        O = constraints(self.N[:, : self.p], removed[None], span=self.span)  # noqa: E741
        return np.zeros((0, self.p)) if O is None else O[0].T

    @property
    def support(self) -> float:
        """How many rows carry the sums: all of them, or fewer where some are much longer."""
        return carried_by(self.norms)

    def support_without(self, held: IntArray) -> float:
        """Return the same for the rows that are not held out."""
        left = self.norms.copy()
        left[held] = 0.0
        return carried_by(left)

    @property
    def whole_gram(self) -> FloatArray:
        """The Gram matrix as a matrix."""
        return np.diag(self.gram) if self.diagonal else self.gram


def carried_by(norms: FloatArray) -> float:
    """Return how many rows carry sums over all of them, from their ‖W_i‖²."""
    longest = float(norms.max(initial=0.0))
    return max(1.0, float(norms.sum()) / longest) if longest > 0 else 1.0


def penalty_mask(p: int, s: int) -> FloatArray:
    """Return 1 for each of p coordinates under the penalty, 0 for each of s that are not."""
    return np.repeat([1.0, 0.0], [p, s])


def transform(system: FeatureSystem, T: FloatArray, *, overwrite: bool = False) -> FeatureSystem:
    """Return the system in the features W T, with T (p, p) on the coordinates under the penalty.

    The Gram matrix is left for the caller to replace. With `overwrite` the new rows take the memory
    of the old ones, and `system` must not be used again; otherwise it is unchanged.
    """
    p = system.p
    N, z = np.zeros_like(system.N), system.z.copy()
    rotated = [(system.N, N)]
    with threads_for(z.shape[1]):  # idle threads would keep spinning beside the pieces
        z[:p] = T.T @ system.z[:p]
    with threads_for(p):
        whole = T if system.T is None else system.T @ T
    W: FeatureRows
    if isinstance(system.W, StreamedRows):
        W = replace(system.W, T=whole)
    else:
        W = system.W if overwrite else np.empty_like(system.W)
        W[:, p:] = system.W[:, p:]
        rotated.append((system.W, W))

    def work(piece: tuple[FloatArray, FloatArray, slice]) -> None:
        old, new, rows = piece
        new[rows, :p] = old[rows, :p] @ T

    run_pieces(work, [(*pair, rows) for pair in rotated for rows in even_blocks(*pair[0].shape)])
    return replace(system, W=W, N=N, z=z, sets=None, T=whole)


def solve(system: FeatureSystem, columns: slice | IntArray, alpha: float) -> FloatArray:
    """Return θ (p + s, v) of the model on all rows, for some of the targets."""
    mask, z = penalty_mask(*system.B.shape[::-1]), system.z[:, columns]
    if system.diagonal:
        return np.asarray(z / (system.gram + alpha * mask)[:, None])
    A = system.gram + np.diag(alpha * mask)
    with threads_for(len(A)):
        factor, info = dpotrf(A, lower=1, overwrite_a=1)
    if info != 0:
        raise not_definite(alpha, info, len(A))
    return np.asarray(dpotrs(factor, z, lower=1)[0])


def coefficients(
    system: FeatureSystem, theta: FloatArray, level: FloatArray, unpenalised: Unpenalised
) -> tuple[FloatArray, FloatArray]:
    """Return a = N θ and the coefficients of the unpenalised columns; `level` is that of y."""
    p = system.p
    plain = theta[:p] if system.T is None else system.T @ theta[:p]
    along_columns = theta[p:] - system.B.total @ plain + level
    return system.N @ theta, unpenalised.coefficients(along_columns)


def solve_each(system: FeatureSystem, alphas: FloatArray) -> FloatArray:
    """Return θ (p + s, v) of the model on all rows, one penalty per target."""
    theta = np.empty((len(system.z), alphas.size))
    for alpha in np.unique(alphas):
        columns = np.flatnonzero(alphas == alpha)
        theta[:, columns] = solve(system, columns, float(alpha))
    return theta
