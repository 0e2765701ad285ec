"""Normal equations of some of the rows, the unpenalised columns eliminated.

(A + αI) x = rhs, under the constraint N_E x = 0 where basis rows were removed. `complete` adds back
what was eliminated. Code that solves them needs to know nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from holdfast._typing import FloatArray, IntArray
from holdfast.linalg import Accuracy, Complement, solve_small, subtract_outer
from holdfast.smoother.rows import RowBlocks
from holdfast.smoother.scale import Unpenalised

__all__ = ["Equations", "FeatureEquations", "KernelEquations", "eliminate"]


@dataclass(frozen=True)
class Equations:
    """Normal equations as a solver sees them.

    Attributes
    ----------
    A, rhs : ndarray of shape (p, p) and (p, v)
    N_E : ndarray of shape (e, p)
        Constraints, orthonormal.
    accuracy : Accuracy
        How accurately A is known, and how it should be solved.
    """

    A: FloatArray
    rhs: FloatArray
    N_E: FloatArray
    accuracy: Accuracy

    def complete(self, x: FloatArray) -> FloatArray:
        """Return the models (a, p', v) from solutions x (a, p, v)."""
        return x


@dataclass(frozen=True)
class FeatureEquations(Equations):
    """Normal equations in the space of features.

    Attributes
    ----------
    mean, level : ndarray of shape (s, p) and (s, v)
        Features and targets of the training rows on the unpenalised columns.
    rows : RowBlocks or None
        The held-out rows, if they had to be read.
    """

    mean: FloatArray
    level: FloatArray
    rows: RowBlocks | None = None

    def complete(self, x: FloatArray) -> FloatArray:
        """Return θ with the unpenalised part appended."""
        if not self.level.size:
            return x
        return np.concatenate([x, self.level - self.mean @ x], axis=1)


@dataclass(frozen=True)
class KernelEquations(Equations):
    """Normal equations in the space of training rows, orthogonal to the unpenalised columns.

    Attributes
    ----------
    train : ndarray of int
        The training rows.
    K : ndarray of shape (k, k)
        Their kernel matrix.
    root, Ys : ndarray of shape (k,) and (k, v)
        Their √w and √w y.
    unpenalised : Unpenalised
        Orthonormal on the training rows, with values for all rows.
    complement : Complement or None
        Takes coordinates back to training rows.
    """

    train: IntArray
    K: FloatArray
    root: FloatArray
    Ys: FloatArray
    unpenalised: Unpenalised
    complement: Complement | None

    def complete(self, x: FloatArray) -> FloatArray:
        """Return coefficients of the training rows, then those along the unpenalised columns."""
        c = x if self.complement is None else self.complement.lift(x)
        c = c * self.root[:, None]
        if self.complement is None:
            return np.asarray(c)
        Q = self.unpenalised.Q[self.train]
        centre = (Q * self.root[:, None]).T @ self.K  # Qᵀ√wK
        return np.concatenate([c, Q.T @ self.Ys - centre @ c], axis=1)


def eliminate(
    A: FloatArray, b: FloatArray, corner: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return (A, b, mean, level) without the last s columns, which carry no penalty.

    Parameters
    ----------
    A, b : ndarray of shape (p + s, p + s) and (p + s, v)
        WᵀW and WᵀYs of the training rows; overwritten.
    corner : ndarray of shape (s, s)
        The last block of A, computed separately: QᵀQ of the training rows.
    """
    s = len(corner)
    if not s:
        return A, b, np.zeros((0, len(A))), np.zeros((0, b.shape[1]))
    p = len(A) - s
    cross = A[p:, :p].copy()
    mean, level = solve_small(corner, cross), solve_small(corner, b[p:])
    for u, v in zip(mean, cross, strict=True):
        subtract_outer(A[:p, :p], u, v)
    return A[:p, :p], b[:p] - cross.T @ level, mean, level
