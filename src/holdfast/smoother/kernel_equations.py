"""The equations of some rows of a dense model, on the complement of the unpenalised columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from holdfast._typing import FloatArray, IntArray
from holdfast.linalg import Complement, submatrix, threads_for
from holdfast.smoother.factor import EPS
from holdfast.smoother.scale import RowScale, Targets, Unpenalised

__all__ = ["KernelEquations", "deflated_kernel"]


@dataclass(frozen=True)
class KernelEquations:
    """(A + αI) x = rhs in the space of training rows, orthogonal to the unpenalised columns.

    Attributes
    ----------
    A, rhs : ndarray of shape (n, n) and (n, v)
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

    A: FloatArray
    rhs: FloatArray
    train: IntArray
    K: FloatArray
    root: FloatArray
    Ys: FloatArray
    unpenalised: Unpenalised
    complement: Complement | None

    @classmethod
    def of(
        cls,
        K: FloatArray,
        scale: RowScale,
        unpenalised: Unpenalised,
        train: IntArray,
        Ys: FloatArray,
    ) -> KernelEquations:
        """Return the equations of some rows, from their own kernel; Ys (k, v) are their √w y."""
        weights = np.zeros(len(K))
        weights[train] = np.square(scale.root[train])
        if train.size < int(scale.trained.sum()):
            unpenalised = unpenalised.retrained(weights)
        part = K if train.size == len(K) else submatrix(K, train, train)
        A, complement = deflated_kernel(part, weights[train], unpenalised.take(train))
        rhs = Ys if complement is None else complement.project(Ys)
        return cls(A, rhs, train, part, scale.root[train], Ys, unpenalised, complement)

    def left(self, x: FloatArray, alphas: FloatArray, targets: Targets) -> FloatArray:
        """Return what is left of the equations at models x (k, n, v), over the spread of y (k,).

        The residual, which is measured, and rounding errors of forming A, about eps d dᵀ where d²
        is its diagonal. The largest of a few targets.
        """
        some = targets.some()
        x, spread = x[..., some], targets.spread[some]
        g = self.rhs[:, some] - self.A @ x - alphas[:, None, None] * x
        own = np.abs(np.diag(self.K)) * np.square(self.root)  # before the columns were taken out
        d = np.sqrt(np.maximum(own[len(own) - len(self.A) :], np.abs(np.diag(self.A))))
        formed = d.max(initial=0.0) * np.linalg.norm(d[:, None] * x, axis=1)
        return np.asarray(((np.linalg.norm(g, axis=1) + EPS * formed) / spread).max(axis=1))

    def complete(self, x: FloatArray) -> FloatArray:
        """Return coefficients of the training rows, then those along the unpenalised columns."""
        models, s = self.centred(x), self.unpenalised.count
        if s:
            models[:, -s:] += self.unpenalised.Q[self.train].T @ self.Ys
        return models

    def centred(self, x: FloatArray) -> FloatArray:
        """Return the same for models whose targets have no part along these columns."""
        c = x if self.complement is None else self.complement.lift(x)
        c = c * self.root[:, None]
        if self.complement is None:
            return np.asarray(c)
        Q = self.unpenalised.Q[self.train]
        centre = (Q * self.root[:, None]).T @ self.K  # Qᵀ√wK
        return np.concatenate([c, -(centre @ c)], axis=1)


def deflated_kernel(
    K: FloatArray, weights: FloatArray, unpenalised: Unpenalised
) -> tuple[FloatArray, Complement | None]:
    """Return √w K √w over the trained rows, without the unpenalised directions; a fresh array."""
    live, root = weights > 0, np.sqrt(weights)
    A = K if live.all() else K[np.ix_(live, live)]
    if not np.all(root[live] == 1.0):
        A = A * root[live, None] * root[live]
    if not unpenalised.count:
        return (A.copy() if A is K else A), None
    complement = Complement(unpenalised.Q[live].T)
    with threads_for(unpenalised.count):  # idle threads would keep spinning beside what follows
        return complement.reduce(A), complement
