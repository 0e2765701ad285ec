"""I − S on held-out rows, the residuals there, and predictions without those rows.

Tasks of one shape (held-out rows H, removed basis rows E, test rows T) are stacked. A `Held` knows
the smoother S on those rows, and not what it is used for: `errors` are e_H = (y − ŷ)_H of the model
on all rows, `gaps` are the matrices I − S_HH, and `predict` gives the predictions for T of the
model whose targets on H were lowered by r, which is the model without H when r are its held-out
residuals (`holdfast.holdout`). `looks` are right-hand sides made of rounding errors of a typical
size: solved like the others, they show how much those errors grow (`holdfast.holdout.accuracy`).

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
from functools import cached_property, lru_cache

import numpy as np

from holdfast._typing import FloatArray, IntArray
from holdfast.experiments import Shape
from holdfast.linalg import (
    orthonormal_stacks,
    run_pieces,
    solve_small,
    weighted_products,
    whitened_products,
)
from holdfast.smoother.scale import SOME

__all__ = [
    "LOOKS",
    "Held",
    "HeldCoordinates",
    "constraints",
    "noise",
    "same_rows",
    "scaled_products",
]

#: Doubles in the largest temporary of one piece of work. Two megabytes is more than a core's own
#: cache holds, but with smaller pieces threads wait for the interpreter: a quarter of it took up to
#: twice as long on two cores, four times as much gained nothing.
PIECE_DOUBLES = 2**18
#: Right-hand sides of rounding errors: one alone may be nearly orthogonal to what grows most.
LOOKS = 3
#: From this many columns on, a product for each D is faster than one for all with a copy of each.
WIDE = 64


@lru_cache(maxsize=64)
def noise(size: int, count: int = LOOKS) -> FloatArray:
    """Return standard normal numbers (size, count), the same every time, not to be changed."""
    numbers = np.random.default_rng(0).standard_normal((count, size)).T
    numbers.flags.writeable = False
    return numbers


def scaled_products(
    rows: FloatArray, D: FloatArray, z: FloatArray, room: FloatArray | None = None
) -> FloatArray:
    """Return rows · D z (a, b, v), in `room` if there is any.

    For rows (b, p), diagonals D (a, p) and z (p, v).
    """
    (a, p), (b, v) = D.shape, (len(rows), z.shape[1])
    if v < WIDE:
        side_by_side = rows @ (D.T[:, :, None] * z[:, None]).reshape(p, a * v)
        turned = side_by_side.reshape(b, a, v).swapaxes(0, 1)
        if room is None:
            return np.ascontiguousarray(turned)
        room[:] = turned
        return room
    found = np.empty((a, b, v)) if room is None else room
    for d, out in zip(D, found, strict=True):
        left, right = (rows * d, z) if b < v else (rows, d[:, None] * z)
        np.matmul(left, right, out=out)
    return found


class Held(ABC):
    """The smoother on the held-out rows of b stacked tasks, for a penalties and v targets."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int, int, int]:
        """(a, b, h, v)."""

    @abstractmethod
    def errors(self, room: FloatArray | None = None) -> FloatArray:
        """Return e_H (a, b, h, v), up to the same factor as `gaps`, in `room` if there is any."""

    #: Rounding errors of the factor, relative to the length of a model, (a,); and the length of the
    #: model on all rows, (a, v).
    unit: FloatArray
    length: FloatArray

    @abstractmethod
    def moved(self, r: FloatArray, errors: FloatArray) -> FloatArray:
        """Return how far the models without rows lie from that on all rows (a, b, v)."""

    @property
    def needs_errors(self) -> bool:
        """Whether `moved` looks at the errors."""
        return False

    @abstractmethod
    def looks(self) -> FloatArray:
        """Return right-hand sides (a, b, h, LOOKS) of rounding errors, one for each length."""

    @abstractmethod
    def reach(self) -> FloatArray:
        """Return how much such errors grow on the way to f of the test rows (a, b, t).

        By the model on all rows: what rows that are not held out have of their own.
        """

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
    unit, length : ndarray of shape (a,) and (a, v)
        Rounding errors of the factor, and the length of the model on all rows.
    formed : ndarray of shape (a,)
        What forming G adds to these errors, in the same unit; zero where κ = 1.
    root : ndarray of shape (p,) or None
        √D of the one penalty, if the coordinates are scaled by it: D and R are ones then.
    """

    V: FloatArray
    out: FloatArray
    D: FloatArray
    R: FloatArray
    O: FloatArray | None  # noqa: E741  # the notation's name for it
    z: FloatArray
    Y: FloatArray
    kappa: float
    unit: FloatArray
    length: FloatArray
    formed: FloatArray
    root: FloatArray | None = None

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
        return replace(
            self,
            D=self.D[alphas],
            R=self.R[alphas],
            unit=self.unit[alphas],
            length=self.length[alphas],
            formed=self.formed[alphas],
        )

    def among(self, sets: IntArray) -> HeldCoordinates:
        """Return the same for some of the tasks."""
        return replace(
            self,
            V=self.V[sets],
            out=self.out[sets],
            O=None if self.O is None else self.O[sets],
            Y=self.Y[sets],
        )

    @cached_property
    def definite(self) -> bool:
        """Whether no eigenvalue of the kernel, shifted by the penalty, is negative."""
        return bool(self.R.min(initial=0.0) >= 0.0)

    def _times(self, z: FloatArray, room: FloatArray | None = None) -> FloatArray:
        """Return V R z (a, b, h, k) for z (p, k)."""
        a, b, h, _ = self.shape
        rows = self.V.reshape(b * h, self.row_size)
        if room is None:
            return scaled_products(rows, self.R, z).reshape(a, b, h, z.shape[1])
        scaled_products(rows, self.R, z, room[:, 0])  # there is one task
        return room

    def errors(self, room: FloatArray | None = None) -> FloatArray:
        """Return y − ŷ on the held-out rows; with κ = 0 the dual coefficients."""
        fitted = self._times(self.z, room)
        if not self.kappa:
            return fitted  # a dense model has no basis rows to remove
        errors = np.ascontiguousarray(self.Y - fitted)
        if self._removed is not None:
            J, t = self._removed
            errors += (J.swapaxes(2, 3) @ t).swapaxes(0, 1)
        return errors

    @property
    def needs_errors(self) -> bool:
        """Whether `moved` looks at the errors: with κ = 1."""
        return bool(self.kappa)

    def moved(self, r: FloatArray, errors: FloatArray) -> FloatArray:
        """Return ‖√D V_Hᵀr‖, the root of rᵀ(r − e); with κ = 0 the length of G_{·H} r."""
        if self.kappa:
            return np.asarray(np.sqrt(np.maximum((r * (r - errors)).sum(axis=2), 0.0)))
        a, b, h, v = self.shape
        some = np.unique(np.linspace(0, v - 1, min(v, SOME)).astype(np.int64))
        rows = r[..., some].transpose(1, 0, 3, 2).reshape(b, a * some.size, h) @ self.V
        found = rows.reshape(b, a, some.size, -1) * self.R[:, None]
        lengths = np.linalg.norm(found, axis=3).swapaxes(0, 1)  # (a, b, some)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.nan_to_num(lengths / self.length[:, None, some]).max(axis=2, keepdims=True)
        return np.asarray(share * self.length[:, None])

    def looks(self) -> FloatArray:
        """Return √S_ii times random numbers; with κ = 0, (G g)_H for random targets g."""
        a, b, h, _ = self.shape
        if not self.kappa:
            found = self._times(noise(self.row_size))
            return np.ascontiguousarray(found + self.formed[:, None, None, None] * noise(h))
        reach = np.sqrt(self.leverages(slice(None))).reshape(b, h, a)
        return np.ascontiguousarray(reach.transpose(2, 0, 1)[..., None] * noise(h))

    def reach(self) -> FloatArray:
        """Return √(out² D); with κ = 0 the length of G k_x, √(out² R²)."""
        D = self.D if self.kappa else np.square(self.R)
        flat = np.square(self.out).reshape(-1, self.row_size) @ D.T
        return np.sqrt(flat).reshape(*self.out.shape[:2], -1).transpose(2, 0, 1)

    def gaps(self, piece: slice) -> FloatArray:
        """Return I − S_HH (g, a, h, h)."""
        V, h = self.V[piece], self.V.shape[1]
        if not self.definite:
            M = np.asarray((V[:, None] * self.R[:, None]) @ V[:, None].swapaxes(2, 3))
            return M
        M = weighted_products(V, self.R if self.root is None else None)
        if self.kappa:
            np.negative(M, out=M)
            M[..., np.arange(h), np.arange(h)] += self.kappa
        J = self.removal(piece)
        if J is not None:
            M += J.swapaxes(2, 3) @ J
        return M

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
        inner = weighted_products(np.ascontiguousarray(Ot), D)  # (g, a, e, e)
        weight = solve_small(inner, weight.swapaxes(2, 3)).swapaxes(2, 3)
    taken: FloatArray = weight.reshape(g, a * v, -1) @ Ot
    taken = taken.reshape(g, a, v, p)
    if D is not None:
        taken *= D[:, None]
    return taken


def constraints(
    N: FloatArray | None,
    E: IntArray,
    d: FloatArray | None = None,
    span: Callable[[IntArray], FloatArray] | None = None,
) -> FloatArray | None:
    """Return O (b, p, e): orthonormal bases of the rows N_E; None if nothing is removed.

    With d (p,) of the rows N_E diag(d). Rows that nearly depend on each other are asked of `span`.
    """
    e = E.shape[1]
    if e == 0:
        return None
    assert N is not None, "only a model on basis rows can lose some"
    if e == 1:  # one row each: normalise all at once
        rows = N[E[:, 0]] if d is None else N[E[:, 0]] * d
        return np.asarray((rows / np.linalg.norm(rows, axis=1, keepdims=True))[:, :, None])
    return orthonormal_stacks(N, E, d, span)


def same_rows(shape: Shape) -> bool:
    """Whether the tasks test the rows that they hold out, in the same order."""
    return shape.H.shape == shape.T.shape and np.array_equal(shape.H, shape.T)
