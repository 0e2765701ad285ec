"""A dense model at one penalty, by an inverse (Cawley and Talbot 2004, An et al. 2007).

With G = (√wK√w + αI)⁻¹ on the complement of the unpenalised columns, I − S = αG.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from holdfast._typing import FloatArray, IntArray
from holdfast.experiments import Shape, Tasks
from holdfast.linalg import solve_small
from holdfast.smoother.factor import EPS, Factor, formed_share
from holdfast.smoother.held import LOOKS, Held, noise
from holdfast.smoother.scale import RowScale, Targets, Unpenalised

__all__ = ["SIDES", "HeldInverse", "InverseFactor"]

#: Random targets that lengths are estimated from; the first of them serve as looks.
SIDES = 8


@dataclass(frozen=True)
class HeldInverse(Held):
    """A dense model at one penalty, by its inverse G: I − S = αG (An et al. 2007).

    Attributes
    ----------
    H : ndarray of int, shape (b, h)
        Held-out rows, numbered among the trained rows.
    c : ndarray of shape (m, v)
        Coefficients G √w y of the model on all rows.
    kernel : callable
        From row numbers (b, k) to their kernel values with the trained rows, (b, k, m).
    rows : Shape
        The tasks, in row numbers of the data.
    root : ndarray of shape (m,)
        √w of the trained rows.
    Q, U_T : ndarray of shape (m, s) and (b, t, s)
        Unpenalised columns: of the trained rows times √w, and of the test rows.
    centre, level : ndarray of shape (s, m) and (s, v)
        Qᵀ√wK and Qᵀ√w y.
    Ys : ndarray of shape (m, v)
        √w y.
    G : ndarray of shape (m, m)
        Over the trained rows.
    random : ndarray of shape (m, SIDES)
        G g for random targets g.
    unit, length : ndarray of shape (1,) and (1, v)
    formed : float
        What forming G adds to rounding errors, in the same unit.
    """

    H: IntArray
    c: FloatArray
    kernel: Callable[[IntArray], FloatArray]
    rows: Shape
    root: FloatArray
    Q: FloatArray
    U_T: FloatArray
    centre: FloatArray
    level: FloatArray
    Ys: FloatArray
    G: FloatArray
    random: FloatArray
    unit: FloatArray
    length: FloatArray
    formed: float

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(1, b, h, v)."""
        return 1, *self.H.shape, self.c.shape[1]

    @property
    def row_size(self) -> int:
        """1: the matrices are parts of G, and no product forms them."""
        return 1

    def errors(self, room: FloatArray | None = None) -> FloatArray:
        """Return the dual coefficients of the held-out rows."""
        found = np.empty((1, *self.H.shape, self.c.shape[1])) if room is None else room
        found[0] = self.c[self.H]
        return found

    def moved(self, r: FloatArray, errors: FloatArray) -> FloatArray:
        """Return about the length of G_{·H} r: the root mean square of (G g)_Hᵀr."""
        sides = self.random[self.H].swapaxes(1, 2) @ r[0]  # (b, SIDES, v)
        return np.asarray(np.sqrt(np.square(sides).mean(axis=1))[None])

    def looks(self) -> FloatArray:
        """Return (G g)_H for random targets g."""
        own = self.formed * noise(self.H.shape[1])
        return np.asarray((self.random[self.H][..., :LOOKS] + own)[None])

    def reach(self) -> FloatArray:
        """Return the length of G k_x, and what forming G adds along k_x, off its mean."""
        values = (self.kernel(self.rows.T) - self.U_T @ self.centre) * self.root
        own = self.formed * np.linalg.norm(values, axis=2)
        return np.asarray((np.linalg.norm(values @ self.G, axis=2) + own)[None])

    def gaps(self, piece: slice) -> FloatArray:
        """Return G_HH (g, 1, h, h)."""
        H = self.H[piece]
        places = (H * len(self.G))[:, :, None] + H[:, None]
        return self.G.ravel().take(places)[:, None]

    def coefficients(self, r: FloatArray) -> FloatArray:
        """Return c' = c − G_{·H} r (b, m, v): zero on H."""
        c = self.G[self.H].swapaxes(1, 2) @ r[0]
        np.subtract(self.c, c, out=c)
        np.put_along_axis(c, self.H[:, :, None], 0.0, axis=1)
        return np.asarray(c)

    def predict(self, r: FloatArray) -> FloatArray:
        """Return predictions by the coefficients c', so that nothing cancels at huge penalties."""
        weights = self.coefficients(r)
        weights *= self.root[:, None]
        fitted = self.kernel(self.rows.T) @ weights  # (b, t, v)
        if self.level.size:
            fitted += self.U_T @ self.levels(weights)
        return np.asarray(fitted[None])

    def levels(self, weights: FloatArray) -> FloatArray:
        """Return the unpenalised part (b, s, v), in coordinates along Q, from √w c' (b, m, v).

        Over the rows that are left Qᵀ(y − Kc' − Qδ) = 0, because Qᵀc' = 0; δ is returned.
        """
        inside = self.kernel(self.rows.H) @ weights
        Q_H = self.Q[self.H].swapaxes(1, 2)  # (b, s, h)
        left = self.level - Q_H @ self.Ys[self.H]
        left = left - (self.centre @ weights - Q_H * self.root[self.H][:, None] @ inside)
        corner = np.eye(self.Q.shape[1]) - Q_H @ Q_H.swapaxes(1, 2)
        return solve_small(corner, left)


@dataclass(frozen=True)
class InverseFactor(Factor):
    """A dense model at one penalty, by G = (√wK√w + αI)⁻¹ on the complement of Q.

    Attributes
    ----------
    G : ndarray of shape (k, k)
        Over the k trained rows.
    random : ndarray of shape (k, SIDES)
        G g for random targets g.
    alpha : float
    K : ndarray of shape (m, m)
        The kernel matrix.
    c : ndarray of shape (k, v)
        G times √w y of the trained rows.
    centre : ndarray of shape (s, k)
        Qᵀ√wK, for the unpenalised part.
    rounding : float
        Rounding errors of the inverted matrix, in units of eps.
    targets : Targets
    scale : RowScale
    unpenalised : Unpenalised
    """

    G: FloatArray
    random: FloatArray
    alpha: float
    K: FloatArray
    c: FloatArray
    centre: FloatArray
    rounding: float
    targets: Targets
    scale: RowScale
    unpenalised: Unpenalised

    @property
    def size(self) -> int:
        """How many numbers a row takes: a row of G, and as many coefficients per target."""
        return len(self.G) * (1 + self.n_targets)

    def row_size(self, tasks: Tasks) -> int:
        """Return the same for these tasks: what they hold out takes a part of G and no rows."""
        same = np.array_equal(tasks.held.values, tasks.test.values)
        return int(tasks.held.sizes.max(initial=0)) + SIDES if same else self.size

    def select(self, columns: slice | IntArray) -> InverseFactor:
        """Return the same factor for some of the targets."""
        return replace(self, c=self.c[:, columns], targets=self.targets.select(columns))

    def held(self, shape: Shape, alphas: FloatArray) -> HeldInverse:
        """Return the smoother on the rows of stacked tasks; `alphas` holds the penalty of G."""
        live = self.scale.trained
        columns = slice(None) if self.scale.everything else live
        place = np.cumsum(live) - 1  # where each trained row stands among the trained rows
        H, Q, Ys = place[shape.H], self.unpenalised.Q[live], self.targets.Ys[live]
        root, length = self.scale.root[live], np.linalg.norm(self.c, axis=0)[None]
        largest = np.abs(self.G.diagonal()).max(initial=0.0, keepdims=True)
        return HeldInverse(
            H=H,
            c=self.c,
            kernel=lambda rows: self.K[rows][..., columns],
            rows=shape,
            root=root,
            Q=Q,
            U_T=self.unpenalised.U[shape.T],
            centre=self.centre,
            level=Q.T @ Ys,
            Ys=Ys,
            G=self.G,
            random=self.random,
            unit=np.array([EPS * self.rounding]),
            length=length,
            formed=float(formed_share(largest, self.rounding, self.targets, self.scale, length)[0]),
        )

    def leverages(self, alpha: float) -> FloatArray:
        """Return S_ii = 1 − αG_ii."""
        found = np.zeros(len(self.K))
        found[self.scale.trained] = 1.0 - self.alpha * self.G.diagonal()
        return np.clip(found, 0.0, 1.0)
