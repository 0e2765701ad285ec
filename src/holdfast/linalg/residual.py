"""The |H| × |H| systems of the held-out residuals, for many held-out sets and many alphas.

With rows V_H of a smoother in coordinates where the penalised normal equations are diagonal, and
D = 1/(Lambda + alpha · penalised), the held-out residuals R solve, for each set H and each alpha,

    primal:  (I − V_H M V_Hᵀ) R = E          dual:  (V_H D V_Hᵀ) R = E

(Pahikkala et al. 2006 Theorem 1, Tanaka & Imai 2019 Theorem 1). M is D, or with removed basis rows

    M = D − D O (Oᵀ D O)⁻¹ Oᵀ D

where O (p, e) is an orthonormal basis of the span of the constraint rows. The second term acts on
the held-out rows alone: with Oᵀ D O = L Lᵀ and K = L⁻¹ Oᵀ D V_Hᵀ (e, h) it is

    I − V_H M V_Hᵀ = I − V_H D V_Hᵀ + Kᵀ K

so that removal costs one product to set up and nothing of size p afterwards.
"""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from holdfast._typing import FloatArray
from holdfast.linalg.products import weighted_products
from holdfast.linalg.threads import PIECE_DOUBLES


@dataclass(frozen=True)
class HeldOutRows:
    """Held-out sets of one size, and what removal needs, gathered piece by piece.

    Attributes
    ----------
    V : (m, p) or (b, h, p) float64
        Rows of the smoother: all of them (then `rows` says which), or already stacked.
    rows : (b, h) int or None
        Indices of the held-out rows in `V`.
    O : (b, p, e) float64 or None
        Orthonormal constraints of each set.
    dual : bool
        Which of the two systems is meant.
    """

    V: FloatArray
    rows: npt.NDArray[np.int64] | None = None
    O: FloatArray | None = None  # noqa: E741  # the name the design gives it
    dual: bool = False

    @property
    def shape(self) -> tuple[int, int, int]:
        """The number of sets, rows in each, and coordinates: (b, h, p)."""
        b, h = self.V.shape[:2] if self.rows is None else self.rows.shape
        return int(b), int(h), int(self.V.shape[-1])

    def take(self, sets: npt.NDArray[np.intp] | npt.NDArray[np.bool_]) -> "HeldOutRows":
        """Return some of the sets: those that conjugate gradients left unsolved, for example."""
        constraints = None if self.O is None else self.O[sets]
        if self.rows is None:
            return replace(self, V=self.V[sets], O=constraints)
        return replace(self, rows=self.rows[sets], O=constraints)

    def stacked(self, piece: slice) -> FloatArray:
        """Return V_H (g, h, p) of a piece of the sets."""
        return self.V[piece] if self.rows is None else self.V[self.rows[piece]]

    def removal(self, V: FloatArray, D: FloatArray, piece: slice) -> FloatArray | None:
        """Return K (g, a, e, h), or None without constraints; `V` is that of the same piece."""
        if self.O is None or self.O.shape[2] == 0:
            return None
        Ot = np.ascontiguousarray(self.O[piece].swapaxes(1, 2))
        g, e, p = Ot.shape
        a, h = D.shape[0], V.shape[1]
        OtDO = weighted_products(Ot, D)
        DO = (D[None, :, None, :] * Ot[:, None]).reshape(g, a * e, p)
        K = (DO @ V.swapaxes(1, 2)).reshape(g, a, e, h)
        if e == 1:
            return np.asarray(K / np.sqrt(OtDO))
        return np.asarray(np.linalg.solve(np.linalg.cholesky(OtDO), K))

    def pieces(self, doubles_per_set: int) -> list[slice]:
        """Return slices of the sets whose temporaries stay in cache."""
        b = self.shape[0]
        step = max(1, PIECE_DOUBLES // max(1, doubles_per_set))
        return [slice(i, min(i + step, b)) for i in range(0, b, step)]
