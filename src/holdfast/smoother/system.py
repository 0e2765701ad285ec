"""Feature rows with their Gram matrix, and what follows from the sums: models and fold equations.

A `System` is the weighted problem in some coordinates, as one pass over the rows leaves it. The
model on all rows solves (WᵀW + α) θ = z. The model without the rows H solves the same equations
less the sums over H (`without_rows`), the unpenalised columns eliminated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from holdfast._typing import FloatArray, IntArray
from holdfast.exceptions import HoldOutError
from holdfast.linalg import not_definite, solve_small, subtract_outer, threads_for
from holdfast.smoother.factor import FeatureFactor
from holdfast.smoother.held import constraints
from holdfast.smoother.moments import SetSums
from holdfast.smoother.rows import FeatureRows
from holdfast.smoother.scale import Centre, Targets, Unpenalised

__all__ = ["FoldEquations", "System", "coefficients", "penalty_mask", "solve_each", "without_rows"]


@dataclass(frozen=True)
class System:
    """Rows, their Gram matrix and their products with the targets, in some coordinates.

    Attributes
    ----------
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
        About ‖W_i‖² without the unpenalised columns.
    span : callable
        From positions in the basis to columns (p, e) that span those rows of N.
    sets : SetSums or None
        Sums of held-out sets, if they were asked for.
    T : ndarray of shape (p, p) or None
        The map from features to these coordinates; None where they are the same.
    """

    W: FeatureRows
    gram: FloatArray
    z: FloatArray
    N: FloatArray
    B: Centre
    norms: FloatArray
    span: Callable[[IntArray], FloatArray]
    sets: SetSums | None = None
    T: FloatArray | None = None

    @classmethod
    def of(cls, factor: FeatureFactor, norms: FloatArray) -> System:
        """Return the system in the coordinates of a factor."""
        B, T = factor.B, factor.T
        return cls(factor.V, factor.Lambda, factor.z, factor.N, B, norms, factor.span, T=T)

    @property
    def p(self) -> int:
        """The number of coordinates under the penalty."""
        return int(self.B.shape[1])

    @property
    def whole_gram(self) -> FloatArray:
        """The Gram matrix as a matrix."""
        return np.diag(self.gram) if self.gram.ndim == 1 else self.gram

    def constraints(self, removed: IntArray) -> FloatArray:
        """Return rows (e, p) that span those rows of N; θ under the constraint is orthogonal."""
        O = constraints(self.N[:, : self.p], removed[None], span=self.span)  # noqa: E741
        return np.zeros((0, self.p)) if O is None else O[0].T


def penalty_mask(p: int, s: int) -> FloatArray:
    """Return 1 for each of p coordinates under the penalty, 0 for each of s that are not."""
    return np.repeat([1.0, 0.0], [p, s])


def solve_each(system: System, alphas: FloatArray) -> FloatArray:
    """Return θ (p + s, v) of the model on all rows, one penalty per target."""
    theta = np.empty((len(system.z), alphas.size))
    for alpha in np.unique(alphas):
        columns = np.flatnonzero(alphas == alpha)
        theta[:, columns] = _solve(system, columns, float(alpha))
    return theta


def _solve(system: System, columns: IntArray, alpha: float) -> FloatArray:
    mask, z = penalty_mask(*system.B.shape[::-1]), system.z[:, columns]
    if system.gram.ndim == 1:
        return np.asarray(z / (system.gram + alpha * mask)[:, None])
    A = system.gram + np.diag(alpha * mask)
    with threads_for(len(A)):
        factor, info = dpotrf(A, lower=1, overwrite_a=1)
    if info != 0:
        raise not_definite(alpha, info, len(A))
    return np.asarray(dpotrs(factor, z, lower=1)[0])


def coefficients(
    system: System | FeatureFactor, theta: FloatArray, targets: Targets, unpenalised: Unpenalised
) -> tuple[FloatArray, FloatArray]:
    """Return a = N θ and the coefficients of the unpenalised columns, for θ (p + s, v)."""
    p = system.B.shape[1]
    plain = theta[:p] if system.T is None else system.T @ theta[:p]
    along_columns = theta[p:] - system.B.total @ plain + targets.level
    return system.N @ theta, unpenalised.coefficients(along_columns)


@dataclass(frozen=True)
class FoldEquations:
    """(A + αI) x = rhs with N_E x = 0: the rows that are left, unpenalised columns eliminated.

    Attributes
    ----------
    A, rhs : ndarray of shape (p, p) and (p, v)
    N_E : ndarray of shape (e, p)
        Constraints, orthonormal.
    lengths : ndarray of shape (p,)
        Roots of the largest numbers that the diagonal of A was computed from.
    targets : ndarray of shape (v,)
        Lengths of the targets that rhs was computed from.
    mean, level : ndarray of shape (s, p) and (s, v)
        Features and targets of the training rows on the unpenalised columns.
    """

    A: FloatArray
    rhs: FloatArray
    N_E: FloatArray
    lengths: FloatArray
    targets: FloatArray
    mean: FloatArray
    level: FloatArray

    def in_units(self, units: FloatArray) -> FoldEquations:
        """Return the equations of coordinates that are divided by units (p,)."""
        A = self.A / units / units[:, None]
        return replace(self, A=A, rhs=self.rhs / units[:, None], lengths=self.lengths / units)

    def complete(self, x: FloatArray) -> FloatArray:
        """Return θ (a, p + s, v) from solutions x (a, p, v)."""
        if not self.level.size:
            return x
        return np.concatenate([x, self.level - self.mean @ x], axis=1)

    def centred(self, x: FloatArray) -> FloatArray:
        """Return the same for models without a level of their own."""
        return np.concatenate([x, -self.mean @ x], axis=1)


def without_rows(
    system: System,
    sums: tuple[FloatArray, FloatArray],
    corner: FloatArray,
    columns: slice,
    N_E: FloatArray,
    targets: FloatArray,
) -> FoldEquations:
    """Return the equations of all rows less those held out.

    Parameters
    ----------
    system : System
    sums : (gram, rhs)
        WᵀW and WᵀYs of the held-out rows, for these targets.
    corner : ndarray of shape (s, s)
        QᵀQ of the rows that are left.
    columns : slice
        Which targets.
    N_E : ndarray of shape (e, p)
    targets : ndarray of shape (v,)
        Lengths of these targets over all rows.
    """
    A, b = system.whole_gram - sums[0], system.z[:, columns] - sums[1]
    p, s = system.p, len(corner)
    lengths = np.sqrt(np.diag(system.whole_gram)[:p])
    if not s:
        nothing = np.zeros((0, p)), np.zeros((0, b.shape[1]))
        return FoldEquations(A, b, N_E, lengths, targets, *nothing)
    cross = A[p:, :p].copy()
    try:
        mean, level = solve_small(corner, cross), solve_small(corner, b[p:])
    except np.linalg.LinAlgError as error:
        raise HoldOutError(
            "the rows that an experiment leaves to train on weigh next to nothing beside those "
            "that it holds out. Use weights that are less far apart.",
            argument="sample_weight",
        ) from error
    A, rhs = A[:p, :p], b[:p] - cross.T @ level
    for u, v in zip(mean, cross, strict=True):
        subtract_outer(A, u, v)
    # Where heavy rows left, what was taken away for the mean counts as well.
    lengths = np.sqrt(np.square(lengths) + np.square(mean).sum(axis=0))
    return FoldEquations(A, rhs, N_E, lengths, targets, mean, level)
