"""The smoother on held-out rows: I − S_HH, the errors e_H of the model on all rows, and probes.

Tasks of one shape (held-out rows H, removed basis rows E, test rows T) are stacked. A block knows
the smoother S on those rows, and not what it is used for. Everything is truly scaled: rows times
√w, I − S_HH itself. Features know S = V D Vᵀ; dense models know I − S = V R Vᵀ with R = α D, so
that nothing cancels at tiny penalties. `probes` are right-hand sides made of rounding errors of
unit size: solved like the others, they show how much those errors grow (`holdfast.core.accuracy`).

Removed basis rows. A model on B∖E is the same problem under the constraint N_E β = 0, where row j
of N gives the coefficient of basis row j (Pahikkala et al. 2012, Proposition 1). With O an
orthonormal basis of the span of the rows N_E,

    M = D − D O (OᵀDO)⁻¹ OᵀD

takes the place of D everywhere. On the held-out rows alone, with OᵀDO = L Lᵀ and J = L⁻¹OᵀDV_Hᵀ,
that is I − V_H M V_Hᵀ = I − V_H D V_Hᵀ + JᵀJ: nothing of size p is left.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from holdfast._typing import BoolArray, FloatArray, IntArray
from holdfast.core.lapack import CHUNK, noise, run_pieces


def scaled_products(rows: FloatArray, D: FloatArray, z: FloatArray) -> FloatArray:
    """Return rows · D z (a, b, v) for rows (b, p), diagonals D (a, p) and z (p, v)."""
    (a, p), (b, v) = D.shape, (len(rows), z.shape[1])
    side_by_side = rows @ (D.T[:, :, None] * z[:, None]).reshape(p, a * v)
    return np.ascontiguousarray(side_by_side.reshape(b, a, v).swapaxes(0, 1))


def weighted_products(V: FloatArray, D: FloatArray) -> FloatArray:
    """Return V D Vᵀ (g, a, h, h) for V (g, h, p) and diagonals D (a, p)."""
    g, h, _ = V.shape
    M, scaled = np.empty((g, len(D), h, h)), np.empty_like(V)
    for k, d in enumerate(D):
        np.multiply(V, d, out=scaled)
        np.matmul(scaled, V.swapaxes(1, 2), out=M[:, k])
    return M


def _with_spare(A: FloatArray, spare: BoolArray | None, piece: slice) -> FloatArray:
    """Return matrices (g, a, k, k) with ones on the diagonal where tasks are padded by zeros."""
    if spare is not None:
        diagonal = np.arange(A.shape[-1])
        A[..., diagonal, diagonal] += spare[piece, None]
    return A


@dataclass(frozen=True)
class HeldOutBlock(ABC):
    """The smoother on the held-out rows of b stacked tasks, for a penalties and v targets.

    Attributes
    ----------
    V : ndarray of shape (b, h, p)
        Rows of the factor, times √w.
    D, R : ndarray of shape (a, p)
        1/(Λ + α·penalised), and the diagonal of S (features) or I − S (dense models).
    z : ndarray of shape (p, v)
        Vᵀ√w y of all rows.
    """

    V: FloatArray
    D: FloatArray
    R: FloatArray
    z: FloatArray

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(a, b, h, v)."""
        return len(self.D), self.V.shape[0], self.V.shape[1], self.z.shape[1]

    @property
    def size(self) -> int:
        """The number p of coordinates."""
        return int(self.D.shape[1])

    @abstractmethod
    def errors(self) -> FloatArray:
        """Return e_H = √w (y − ŷ) on the held-out rows, (a, b, h, v)."""

    @abstractmethod
    def gaps(self, piece: slice) -> FloatArray:
        """Return I − S_HH (g, a, h, h) of some of the tasks, a fresh array."""

    @abstractmethod
    def probes(self) -> FloatArray:
        """Return rounding errors of unit size on the held-out rows, (a, b, h, N_PROBES)."""

    def betas(self, r: FloatArray, piece: slice) -> FloatArray:
        """Return the models M (z − V_Hᵀ r) of some tasks (g, a, v, p), for r (a, b, h, v)."""
        a, _, h, v = self.shape
        V = self.V[piece]
        moved = r[:, piece].transpose(1, 0, 3, 2).reshape(len(V), a * v, h) @ V
        beta = self.z.T - moved.reshape(len(V), a, v, -1)
        beta *= self.D[:, None]
        return self._without_removed(beta, piece)

    def constrained(self, rows: FloatArray) -> FloatArray:
        """Return rows·M (b, a, k, p) for rows (b, k, p)."""
        return self._without_removed(rows[:, None] * self.D[:, None], slice(None))

    def _without_removed(self, beta: FloatArray, piece: slice) -> FloatArray:
        """Return models (g, a, v, p), multiplied by D, under the constraints; overwrites them."""
        return beta

    def pieces(self, doubles_per_task: int) -> list[slice]:
        """Return slices of the tasks, so small that their temporaries stay in the cache."""
        b, step = self.shape[1], max(1, CHUNK // 2 // max(1, doubles_per_task))
        return [slice(i, min(i + step, b)) for i in range(0, b, step)]

    def predict(self, r: FloatArray, out: FloatArray) -> FloatArray:
        """Return f = out · β (a, b, t, v) of the models with held-out residuals r.

        `out` (b, t, p) holds the output coordinates of the test rows.
        """
        (a, b, h, v), p = self.shape, self.size
        predictions = np.empty((a, b, out.shape[1], v))

        def work(piece: slice) -> None:
            beta = self.betas(r, piece)
            f = beta.reshape(len(beta), a * v, p) @ out[piece].swapaxes(1, 2)
            predictions[:, piece] = f.reshape(len(beta), a, v, -1).transpose(1, 0, 3, 2)

        run_pieces(work, self.pieces(p * (h + 2 * a * v)))
        return predictions


@dataclass(frozen=True)
class KernelBlock(HeldOutBlock):
    """Dense models: I − S = V R Vᵀ with R = αD, zero at the unpenalised columns.

    Attributes
    ----------
    noise_z : ndarray of shape (p, N_PROBES)
        Vᵀg for random errors g of the equations of all rows.
    spare : ndarray of bool, shape (b, h), or None
        Where rows of stacked tasks are padding.
    """

    noise_z: FloatArray
    spare: BoolArray | None = None

    def errors(self) -> FloatArray:
        """Return V R z."""
        return self._times(self.z)

    def _times(self, z: FloatArray) -> FloatArray:
        a, b, h, _ = self.shape
        rows = self.V.reshape(b * h, self.size)
        return scaled_products(rows, self.R, z).reshape(a, b, h, z.shape[1])

    def gaps(self, piece: slice) -> FloatArray:
        """Return V R Vᵀ."""
        return _with_spare(weighted_products(self.V[piece], self.R), self.spare, piece)

    def probes(self) -> FloatArray:
        """Return (I − S)g: what a unit error of the equations does to the errors."""
        return self._times(self.noise_z)


@dataclass(frozen=True)
class FeatureBlock(HeldOutBlock):
    """Models of features: S = V M Vᵀ, with M = D unless basis rows are removed.

    Attributes
    ----------
    Y : ndarray of shape (b, h, v)
        √w y on the held-out rows.
    O : ndarray of shape (b, p, e) or None
        A basis of the constraints, orthonormal; zero where `spare_removed`.
    spare_removed : ndarray of bool, shape (b, e), or None
        Where constraints of stacked tasks are padding.
    """

    Y: FloatArray
    O: FloatArray | None  # noqa: E741  # the notation's name for it
    spare_removed: BoolArray | None = None

    def among(self, sets: IntArray) -> FeatureBlock:
        """Return the same for some of the tasks."""
        parts = {"V": self.V, "Y": self.Y, "O": self.O, "spare_removed": self.spare_removed}
        some = {name: None if part is None else part[sets] for name, part in parts.items()}
        return replace(self, **some)  # type: ignore[arg-type]  # V and Y are never None

    def errors(self) -> FloatArray:
        """Return √w y − V M z."""
        a, b, h, v = self.shape
        fitted = scaled_products(self.V.reshape(b * h, self.size), self.D, self.z)
        errors = np.ascontiguousarray(self.Y - fitted.reshape(a, b, h, v))
        if self._removed is not None:
            J, t = self._removed
            errors += (J.swapaxes(2, 3) @ t).swapaxes(0, 1)
        return errors

    def gaps(self, piece: slice) -> FloatArray:
        """Return I − V M Vᵀ."""
        M, h = weighted_products(self.V[piece], self.D), self.V.shape[1]
        np.negative(M, out=M)
        M[..., np.arange(h), np.arange(h)] += 1.0
        J = self.removal(piece)
        if J is not None:
            M += J.swapaxes(2, 3) @ J
        return M

    def probes(self, alphas: IntArray | slice = slice(None)) -> FloatArray:
        """Return √S_ii times random numbers, S before the removal, at some of the penalties."""
        _, b, h, _ = self.shape
        rows = self.V.reshape(-1, self.size)
        reach = np.sqrt((rows * rows) @ self.D[alphas].T).reshape(b, h, -1)
        return np.ascontiguousarray(reach.transpose(2, 0, 1)[..., None] * noise(h))

    def removal(self, piece: slice, alphas: IntArray | slice = slice(None)) -> FloatArray | None:
        """Return J (g, a, e, h) of some tasks and penalties, or None without constraints."""
        return None if self._removed is None else self._removed[0][piece, alphas]

    @cached_property
    def _removed(self) -> tuple[FloatArray, FloatArray] | None:
        """J (b, a, e, h) and L⁻¹OᵀDz (b, a, e, v), or None without constraints."""
        if self.O is None:
            return None
        (a, b, h, v), (p, e) = self.shape, self.O.shape[1:]
        O = self.O  # noqa: E741
        J, t = np.empty((b, a, e, h)), np.empty((b, a, e, v))

        def work(piece: slice) -> None:
            Ot, g = O[piece].swapaxes(1, 2), len(O[piece])
            OD = (Ot[:, None] * self.D[:, None]).reshape(g, a * e, p)
            sides = [OD @ self.V[piece].swapaxes(1, 2), OD @ self.z]
            rows = np.concatenate(sides, axis=2).reshape(g, a, e, h + v)
            inner = _with_spare((OD @ O[piece]).reshape(g, a, e, e), self.spare_removed, piece)
            try:
                L = np.linalg.cholesky(inner)
            except np.linalg.LinAlgError:  # D is many decades wide
                scaled = np.sqrt(self.D)[:, :, None] * O[piece, None]
                R = np.asarray(np.linalg.qr(scaled, mode="r"))
                L = _with_spare(R, self.spare_removed, piece).swapaxes(2, 3)
            both = np.linalg.solve(L, rows)
            J[piece], t[piece] = both[..., :h], both[..., h:]

        run_pieces(work, self.pieces((e + h + v) * max(p, a * e) + a * e * p))
        return J, t

    def _without_removed(self, beta: FloatArray, piece: slice) -> FloatArray:
        """Subtract D O (OᵀDO)⁻¹ Oᵀ β."""
        if self.O is not None:
            O = self.O[piece][:, None]  # noqa: E741
            OD = O.swapaxes(2, 3) * self.D[:, None]  # (g, a, e, p)
            inner = _with_spare(OD @ O, self.spare_removed, piece)
            weight = np.linalg.solve(inner, (beta @ O).swapaxes(2, 3))  # (g, a, e, v)
            beta -= weight.swapaxes(2, 3) @ OD
        return beta
