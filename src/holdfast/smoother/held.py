"""I − S on held-out rows, the residuals there, and predictions without those rows.

Tasks of one shape (held-out rows H, removed basis rows E, test rows T) are stacked. A `Held` knows
the smoother S on those rows, and not what it is used for: `errors` are e_H = (y − ŷ)_H of the model
on all rows, `gaps` are the matrices I − S_HH, and `predict` gives the predictions for T of the
model whose targets on H were lowered by r, which is the model without H when r are its held-out
residuals (`holdfast.holdout`).

Removed basis rows. A model on B∖E is the same problem under the constraint N_E β = 0, where row j
of N gives the coefficient of basis row j (Pahikkala et al. 2012, Proposition 1). With O an
orthonormal basis of the span of the rows N_E,

    M = D − D O (OᵀDO)⁻¹ OᵀD

takes the place of D everywhere. On the held-out rows alone, with OᵀDO = L Lᵀ and J = L⁻¹OᵀDV_Hᵀ,
that is I − V_H M V_Hᵀ = I − V_H D V_Hᵀ + JᵀJ: nothing of size p is left. At a single penalty the
coordinates are scaled by √D instead. There D = 1, L is the identity, and M = I − OOᵀ.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from holdfast._typing import BoolArray, FloatArray, IntArray
from holdfast.experiments import Shape
from holdfast.linalg import (
    orthonormal_stacks,
    run_pieces,
    solve_small,
    weighted_products,
    whitened_products,
)
from holdfast.smoother.span import Span

__all__ = ["Held", "HeldCoordinates", "HeldInverse", "constraints", "fitted_size", "same_rows"]

#: Doubles in the largest temporary of one piece of work. Two megabytes is more than a core's own
#: cache holds, but with smaller pieces threads wait for the interpreter: a quarter of it took up to
#: twice as long on two cores, four times as much gained nothing.
PIECE_DOUBLES = 2**18


class Held(ABC):
    """The smoother on the held-out rows of b stacked tasks, for a penalties and v targets."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int, int, int]:
        """(a, b, h, v)."""

    @abstractmethod
    def errors(self) -> FloatArray:
        """Return e_H (a, b, h, v), up to the same factor as `gaps`."""

    @abstractmethod
    def gaps(self, piece: slice) -> FloatArray:
        """Return I − S_HH (g, a, h, h) of some of the tasks, up to a factor; a fresh array."""

    @abstractmethod
    def predict(self, r: FloatArray) -> FloatArray:
        """Return predictions (a, b, t, v) of the models with held-out residuals r (a, b, h, v)."""

    @property
    @abstractmethod
    def row_size(self) -> int:
        """Length of the products that form I − S_HH, which decides how many tasks make a piece."""

    #: A pivot of I − S_HH no larger than this has lost too many digits.
    weak: float = 0.0

    @property
    def targets(self) -> FloatArray | None:
        """√w y (b, h, v) of the held-out rows, if predictions are what residuals leave of them."""
        return None

    @property
    def size(self) -> FloatArray:
        """‖√D z‖ (a, v), the length of all fitted targets; asked for where `targets` are."""
        raise AssertionError("only where predictions are what residuals leave of targets")

    #: √w (b, h) of the held-out rows; None where all are 1.
    row_root: FloatArray | None = None

    @property
    def definite(self) -> bool:
        """Whether I − S_HH is positive definite: always, unless the kernel is indefinite."""
        return True

    def pieces(self, doubles_per_task: int) -> list[slice]:
        """Return slices of the tasks, so small that their temporaries stay in cache."""
        b = self.shape[1]
        step = max(1, PIECE_DOUBLES // max(1, doubles_per_task))
        return [slice(i, min(i + step, b)) for i in range(0, b, step)]


@dataclass(frozen=True)
class HeldCoordinates(Held):
    """The smoother in coordinates where the penalised normal equations are diagonal.

    I − S = κI + (1 − 2κ) V R Vᵀ. κ = 1 where S = V D Vᵀ is known; κ = 0 where I − S itself is known
    (dense models, up to the factor α), so that nothing cancels at tiny penalties.

    Attributes
    ----------
    V : ndarray of shape (b, h, p)
        Rows of the factor.
    out : ndarray of shape (b, t, p)
        Output coordinates of the test rows: f = out · β.
    D, R : ndarray of shape (a, p)
        1/(Λ + α·penalised), and the diagonal of the residual map.
    O : ndarray of shape (b, p, e) or None
        A basis of the constraints, orthonormal.
    z : ndarray of shape (p, v)
    Y : ndarray of shape (b, h, v)
        √w y on the held-out rows.
    kappa : float
    weak : float
        A pivot of I − S_HH no larger than this has lost too many digits.
    spare : ndarray of bool, shape (b, h), or None
        Rows that only fill up sets of different sizes: V and Y are zero there, I − S_HH is that of
        the identity, and so residuals are zero. Spare columns of O are zero as well.
    root : ndarray of shape (p,) or None
        √D of the one penalty, if the coordinates are scaled by it: D and R are ones then.
    row_root : ndarray of shape (b, h) or None
        √w of the held-out rows; None where all are 1.
    """

    V: FloatArray
    out: FloatArray
    D: FloatArray
    R: FloatArray
    O: FloatArray | None  # noqa: E741  # the notation's name for it
    z: FloatArray
    Y: FloatArray
    kappa: float
    weak: float = 0.0
    spare: BoolArray | None = None
    root: FloatArray | None = None
    row_root: FloatArray | None = None

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(a, b, h, v)."""
        return len(self.D), self.V.shape[0], self.V.shape[1], self.z.shape[1]

    @property
    def row_size(self) -> int:
        """The number p of coordinates."""
        return int(self.D.shape[1])

    def at(self, alphas: IntArray) -> HeldCoordinates:
        """Return the same for some of the penalties."""
        return replace(self, D=self.D[alphas], R=self.R[alphas])

    def among(self, sets: IntArray) -> HeldCoordinates:
        """Return the same for some of the tasks."""
        V = self.V[sets]
        return replace(
            self,
            V=V,
            out=V if self.tests_itself else self.out[sets],
            O=None if self.O is None else self.O[sets],
            Y=self.Y[sets],
            spare=None if self.spare is None else self.spare[sets],
            row_root=None if self.row_root is None else self.row_root[sets],
        )

    @property
    def targets(self) -> FloatArray | None:
        """√w y where S is known; I − S itself cancels nothing."""
        return self.Y if self.kappa else None

    @cached_property
    def size(self) -> FloatArray:
        """‖√D z‖ (a, v)."""
        return fitted_size(self.D, self.z)

    @property
    def tests_itself(self) -> bool:
        """Whether what is predicted are the held-out rows, all of weight 1."""
        return self.out is self.V

    @cached_property
    def definite(self) -> bool:
        """Whether no eigenvalue of the kernel, shifted by the penalty, is negative."""
        return bool(self.R.min(initial=0.0) >= 0.0)

    def errors(self) -> FloatArray:
        """Return y − ŷ on the held-out rows; with κ = 0 the dual coefficients."""
        (a, b, h, v), p = self.shape, self.D.shape[1]
        beta = (self.R[:, None] * self.z.T).reshape(a * v, p)
        fitted = (self.V.reshape(b * h, p) @ beta.T).reshape(b, h, a, v).transpose(2, 0, 1, 3)
        errors = np.ascontiguousarray(self.kappa * self.Y - fitted if self.kappa else fitted)
        if self._removed is not None:
            J, t = self._removed
            errors += (J.swapaxes(2, 3) @ t).swapaxes(0, 1)
        return errors

    def gaps(self, piece: slice) -> FloatArray:
        """Return I − S_HH (g, a, h, h)."""
        V, h = self.V[piece], self.V.shape[1]
        if not self.definite:
            M = np.asarray((V[:, None] * self.R[:, None]) @ V[:, None].swapaxes(2, 3))
            self._fill(M, piece)
            return M
        M = weighted_products(V, self.R if self.root is None else None)
        self._fill(M, piece)
        if self.kappa:
            np.negative(M, out=M)
            M[..., np.arange(h), np.arange(h)] += self.kappa
        J = self.removal(piece)
        if J is not None:
            M += J.swapaxes(2, 3) @ J
        return M

    def _fill(self, M: FloatArray, piece: slice) -> None:
        """Put a diagonal, of the size of the others, where nothing is held out and κ = 0."""
        if self.spare is not None and not self.kappa:
            sizes = np.abs(np.diagonal(M, axis1=2, axis2=3)).max(axis=2)  # (g, a)
            task, row = np.nonzero(self.spare[piece])
            M[task, :, row, row] = np.where(sizes > 0.0, sizes, 1.0)[task]

    def leverages(self, alphas: IntArray | slice) -> FloatArray:
        """Return S_ii (b h, a) of the held-out rows, before removal, for some of the penalties."""
        rows = self.V.reshape(-1, self.V.shape[2])
        return np.asarray((rows * rows) @ self.R[alphas].T)

    def removal(self, piece: slice, alphas: IntArray | slice = slice(None)) -> FloatArray | None:
        """Return J (g, a, e, h), or None without constraints."""
        return None if self._removed is None else self._removed[0][piece, alphas]

    @cached_property
    def _removed(self) -> tuple[FloatArray, FloatArray] | None:
        """J (b, a, e, h) and L⁻¹OᵀDz (b, a, e, v), or None without constraints."""
        if self.O is None:
            return None
        (a, b, h, v), (p, e) = self.shape, self.O.shape[1:]
        O = self.O  # noqa: E741
        if self.root is not None:
            J, t = (self.V @ O).swapaxes(1, 2), O.swapaxes(1, 2) @ self.z
            return np.ascontiguousarray(J)[:, None], t[:, None]
        J, t = np.empty((b, a, e, h)), np.empty((b, a, e, v))

        def work(piece: slice) -> None:
            Ot = O[piece].swapaxes(1, 2)
            z = np.broadcast_to(self.z.T, (len(Ot), v, p))
            rows = whitened_products(Ot, np.concatenate([self.V[piece], z], axis=1), self.D)
            J[piece], t[piece] = rows[..., :h], rows[..., h:]

        run_pieces(work, self.pieces((e + h + v) * max(p, a * e)))
        return J, t

    def constrained_rows(self) -> FloatArray:
        """Return V_H (I − OOᵀ), which is V_H M where D = 1, shape (b, h, p)."""
        if self.O is None:
            return self.V
        return np.asarray(self.V - (self.V @ self.O) @ self.O.swapaxes(1, 2))

    def constrained(self, rows: FloatArray) -> FloatArray:
        """Return rows·M (b, a, k, p) for rows (b, k, p)."""
        moved = rows[:, None] * self.D[:, None]
        if self.O is not None:
            moved -= removed_part(self.O, None if self.root is not None else self.D, moved)
        return np.asarray(moved)

    def betas(self, r: FloatArray, piece: slice) -> FloatArray:
        """Return β = M (z − V_Hᵀ r), the held-out models themselves, shape (g, a, v, p)."""
        beta = self._betas(r, piece)
        if self.root is not None:
            beta *= self.root
        return beta

    def _betas(self, r: FloatArray, piece: slice) -> FloatArray:
        """Return the same in the coordinates of V, which may be scaled."""
        a, _, h, v = self.shape
        V = self.V[piece]
        moved = r[:, piece].transpose(1, 0, 3, 2).reshape(len(V), a * v, h) @ V
        beta = self.z.T - moved.reshape(len(V), a, v, -1)
        D = None
        if self.root is None:
            D = self.D
            beta *= D[:, None]
        if self.O is not None:
            beta -= removed_part(self.O[piece], D, beta)
        return np.asarray(beta)

    def predict(self, r: FloatArray) -> FloatArray:
        """Return out · β: two products per task for all penalties."""
        (a, b, h, v), p = self.shape, self.D.shape[1]
        predictions = np.empty((a, b, self.out.shape[1], v))

        def work(piece: slice) -> None:
            beta = self._betas(r, piece)
            f = beta.reshape(len(beta), a * v, p) @ self.out[piece].swapaxes(1, 2)
            predictions[:, piece] = f.reshape(len(beta), a, v, -1).transpose(1, 0, 3, 2)

        run_pieces(work, self.pieces(p * (h + 2 * a * v)))
        return predictions


def removed_part(
    O: FloatArray,  # noqa: E741
    D: FloatArray | None,
    beta: FloatArray,
) -> FloatArray:
    """Return D O (OᵀDO)⁻¹ Oᵀ β for β (g or 1, a, v, p): what the constraint takes away.

    None stands for D = I, O being orthonormal.
    """
    g, (_, a, v, p) = len(O), beta.shape
    Ot = O.swapaxes(1, 2)
    weight: FloatArray = (beta.reshape(-1, a * v, p) @ O).reshape(g, a, v, -1)
    if D is not None:
        inner = _definite_products(np.ascontiguousarray(Ot), D)  # (g, a, e, e)
        weight = solve_small(inner, weight.swapaxes(2, 3)).swapaxes(2, 3)
    taken: FloatArray = weight.reshape(g, a * v, -1) @ Ot
    taken = taken.reshape(g, a, v, p)
    if D is not None:
        taken *= D[:, None]
    return taken


def _definite_products(Ot: FloatArray, D: FloatArray) -> FloatArray:
    """Return OᵀDO (g, a, e, e), with ones on the diagonal for columns of zeros: no constraints."""
    products = weighted_products(Ot, D)
    diagonal = np.einsum("gaee->gae", products)
    diagonal[diagonal == 0.0] = 1.0
    return products


def constraints(
    N: FloatArray | None,
    E: IntArray,
    spare: BoolArray | None = None,
    d: FloatArray | None = None,
    span: Span | None = None,
) -> FloatArray | None:
    """Return O (b, p, e): orthonormal bases of the rows N_E; None if nothing is removed.

    With d (p,) of the rows N_E diag(d). Columns are zero where `spare` (b, e) says that a position
    only fills up a stack. Rows that nearly depend on each other are asked of `span`.
    """
    e = E.shape[1]
    if e == 0:
        return None
    assert N is not None, "only a model on basis rows can lose some"
    if e == 1:  # one row each: normalise all at once
        rows = N[E[:, 0]] if d is None else N[E[:, 0]] * d
        return np.asarray((rows / np.linalg.norm(rows, axis=1, keepdims=True))[:, :, None])
    return orthonormal_stacks(N, E, spare, d, span)


def fitted_size(D: FloatArray, z: FloatArray) -> FloatArray:
    """Return ‖√D z‖ (a, v), which is √(yᵀSy): no prediction of √w y is longer."""
    return np.asarray(np.sqrt(np.abs(D) @ np.square(z)))


def same_rows(shape: Shape) -> bool:
    """Whether the tasks test the rows that they hold out, in the same order."""
    return shape.H.shape == shape.T.shape and np.array_equal(shape.H, shape.T)


@dataclass(frozen=True)
class HeldInverse(Held):
    """A dense model at one penalty, by its inverse G: I − S = αG (An et al. 2007).

    Attributes
    ----------
    G_H : ndarray of shape (b, h, m)
        Rows of G, over the trained rows.
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
    """

    G_H: FloatArray
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

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(1, b, h, v)."""
        return 1, *self.H.shape, self.c.shape[1]

    @property
    def row_size(self) -> int:
        """1: the matrices are parts of G, and no product forms them."""
        return 1

    def errors(self) -> FloatArray:
        """Return the dual coefficients of the held-out rows."""
        return np.ascontiguousarray(self.c[self.H][None])

    def gaps(self, piece: slice) -> FloatArray:
        """Return G_HH (g, 1, h, h)."""
        rows = np.take_along_axis(self.G_H[piece], self.H[piece, None], axis=2)
        return np.ascontiguousarray(rows)[:, None]

    def coefficients(self, r: FloatArray) -> FloatArray:
        """Return c' = c − G_{·H} r (b, m, v): zero on H."""
        c = self.G_H.swapaxes(1, 2) @ r[0]
        np.subtract(self.c, c, out=c)
        np.put_along_axis(c, self.H[:, :, None], 0.0, axis=1)
        return np.asarray(c)

    def predict(self, r: FloatArray) -> FloatArray:
        """Return predictions by the coefficients c', so that nothing cancels at huge penalties."""
        weights = self.coefficients(r)
        weights *= self.root[:, None]
        fitted = self.kernel(self.rows.T) @ weights  # (b, t, v)
        if self.level.size:
            fitted += self.U_T @ self._levels(weights, fitted)
        return np.asarray(fitted[None])

    def _levels(self, weights: FloatArray, fitted: FloatArray) -> FloatArray:
        """Return the unpenalised part (b, s, v), in coordinates along Q.

        Over the rows that are left Qᵀ(y − Kc' − Qδ) = 0, because Qᵀc' = 0; δ is returned.
        """
        return self.levels(weights, fitted if same_rows(self.rows) else None)

    def levels(self, weights: FloatArray, inside: FloatArray | None = None) -> FloatArray:
        """Return the same from coefficients √w c' (b, m, v); `inside` is K c' on H, if known."""
        if inside is None:
            inside = self.kernel(self.rows.H) @ weights
        Q_H = self.Q[self.H].swapaxes(1, 2)  # (b, s, h)
        left = self.level - Q_H @ self.Ys[self.H]
        left = left - (self.centre @ weights - Q_H * self.root[self.H][:, None] @ inside)
        corner = np.eye(self.Q.shape[1]) - Q_H @ Q_H.swapaxes(1, 2)
        return solve_small(corner, left)
