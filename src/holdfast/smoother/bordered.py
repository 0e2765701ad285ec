"""A dense model trained from scratch: the optimality conditions of the LS-SVM, solved by LU.

One bordered system for each penalty (Cawley and Talbot 2004). Solutions are refined once, with what
is left of the equations in the longest floating-point numbers that the machine has, so that the
naive twin of all other ways does not lose the accuracy that it is there to check.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dgetrf, dgetrs

from holdfast._typing import FloatArray

__all__ = ["Bordered"]

#: 80 bits on most processors; where these are 64, refinement helps less, and harms nothing.
Long = np.longdouble
LongArray = NDArray[np.longdouble]

#: Numbers that are converted at a time.
AT_ONCE = 2**20


@dataclass(frozen=True)
class Bordered:
    """√wK√w c + αc + √wU δ = √w y and (√wU)ᵀc = 0.

    Attributes
    ----------
    K : ndarray of shape (n, n)
        Kernel values of the training rows.
    U : ndarray of shape (n, s)
        Unpenalised columns.
    y : ndarray of shape (n, v)
    weights : ndarray of shape (n,)
    """

    K: FloatArray
    U: FloatArray
    y: FloatArray
    weights: FloatArray

    def predictions(self, K: FloatArray, U: FloatArray, alphas: FloatArray) -> FloatArray:
        """Return f (a, t, v) on rows with kernel values (t, n) and unpenalised columns (t, s)."""
        root = np.sqrt(self.weights)[:, None]
        long_root = np.sqrt(self.weights.astype(Long))[:, None]
        n, s = self.U.shape
        border = np.zeros((n + s, n + s))
        border[:n, :n] = self.K * root * root.T
        border[:n, n:] = self.U * root
        border[n:, :n] = border[:n, n:].T
        models = np.hstack([self._model(border, long_root, alpha) for alpha in alphas.tolist()])
        f = product(K, long_root * models[:n]) + product(U, models[n:])
        return f.astype(np.float64).reshape(len(K), alphas.size, -1).swapaxes(0, 1)

    def _model(self, border: FloatArray, root: LongArray, alpha: float) -> LongArray:
        """Return c and δ (n + s, v)."""
        n = len(self.K)
        system = border.copy(order="F")
        system[np.arange(n), np.arange(n)] += alpha
        factor, pivots, info = dgetrf(system, overwrite_a=1)
        if info:
            raise np.linalg.LinAlgError("singular matrix")
        sides = np.zeros((len(border), self.y.shape[1]))
        sides[:n] = root * self.y
        model = dgetrs(factor, pivots, sides)[0].astype(Long)
        left = self._left(model, root, alpha).astype(np.float64)
        return np.asarray(model + dgetrs(factor, pivots, left)[0])

    def _left(self, model: LongArray, root: LongArray, alpha: float) -> LongArray:
        """Return what is left of the equations."""
        n = len(self.K)
        a = root * model[:n]
        rows = root * (self.y - product(self.K, a) - product(self.U, model[n:]))
        return np.vstack([rows - Long(alpha) * model[:n], -product(self.U.T, a)])


def product(A: FloatArray, x: LongArray) -> LongArray:
    """Return A x, some rows of A at a time."""
    step = max(1, AT_ONCE // max(1, A.shape[1]))
    parts = [A[start : start + step].astype(Long) @ x for start in range(0, len(A), step)]
    return np.vstack(parts) if parts else np.zeros((0, x.shape[1]), dtype=Long)
