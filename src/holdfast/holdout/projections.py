r"""Sets that are unions of pieces: products with all pieces at once, and projections.

Removed basis rows are constraints n_E u = 0, one row of unit length each. Vectors that meet them
are those of Π = I − n_Eᵀ P_EE⁻¹ n_E with P = n nᵀ. Sets E that are unions of a few pieces share the
products with the pieces, and all sets are projected together.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from holdfast._typing import BoolArray, FloatArray, IntArray
from holdfast.exceptions import KernelError
from holdfast.experiments import Ragged
from holdfast.linalg import shifted_inverse

__all__ = ["Members", "Projection", "projections"]

#: Constraints of which the others leave less than this have lost digits that a QR would keep.
LEAST_PIVOT = 1e-4

T = TypeVar("T", np.float32, np.float64)


class Members:
    """Which sets hold which pieces, so that products of all pieces are one call.

    Parameters
    ----------
    inside : ndarray of bool, shape (sets, pieces)
    slots : int
        Pieces that each set has room for, if more than the largest set needs.

    Attributes
    ----------
    which : list of ndarray of int
        For each piece the sets that hold it.
    sets : ndarray of int, shape (pieces, most)
        The same, filled up with any set.
    back : ndarray of int, shape (sets, slots)
        Where the products of a set with its pieces are among those of all pieces, filled up with
        the number of a last one, which is zero.
    slot : ndarray of int, shape (pieces, most)
        Where the sets of a piece have it among the slots of all sets.
    """

    def __init__(self, inside: BoolArray, slots: int = 0) -> None:
        self.inside = inside
        n, pieces = inside.shape
        self.which = [np.flatnonzero(column) for column in inside.T]
        count = inside.sum(axis=0)
        most, slots = int(count.max(initial=0)), int(inside.sum(axis=1).max(initial=slots))
        piece, sets = np.nonzero(inside.T)
        number = np.arange(piece.size) - (np.cumsum(count) - count)[piece]
        slot = (np.cumsum(inside, axis=1) - 1)[sets, piece]
        self.sets, self.slot = (np.zeros((pieces, most), dtype=np.intp) for _ in range(2))
        self.sets[piece, number], self.slot[piece, number] = sets, sets * slots + slot
        self.back = np.full((n, slots), pieces * most)
        self.back[sets, slot] = piece * most + number

    def times(self, U: NDArray[T], matrices: NDArray[T]) -> NDArray[T]:
        """Return the products (k, v, q) of U (sets, v, p) with the matrix (p, q) of each piece.

        One for each piece and each set that holds it, where `back` has it, and zero at the end.
        """
        return self._products(U[self.sets], matrices)

    def _products(self, U: NDArray[T], matrices: NDArray[T]) -> NDArray[T]:
        pieces, most, v, p = U.shape
        q = matrices.shape[2]
        found = np.empty((pieces * most + 1, v, q), dtype=U.dtype)
        found[-1] = 0.0
        each = found[:-1].reshape(pieces, most * v, q)
        np.matmul(U.reshape(pieces, most * v, p), matrices, out=each)
        return found

    def spread(self, U: NDArray[T], matrices: NDArray[T]) -> NDArray[T]:
        """Return the same for vectors of each set and slot, U (sets, slots, v, e)."""
        return self._products(U.reshape(-1, *U.shape[2:])[self.slot], matrices)

    def total(self, products: NDArray[T]) -> NDArray[T]:
        """Return the sums over the pieces of each set, (sets, v, q)."""
        if not self.back.shape[1]:
            return np.zeros((len(self.back), *products.shape[1:]), dtype=products.dtype)
        found: NDArray[T] = products[self.back[:, 0]]
        for slot in self.back.T[1:]:
            found += products[slot]
        return found


@dataclass(frozen=True)
class Projection(Generic[T]):
    """Π = I − n_Eᵀ P_EE⁻¹ n_E of each set, in double or in single precision.

    Removed basis rows are unions of pieces, too. Each set has as many slots as one set has pieces
    at most, all as large as the largest piece; what a set does not fill counts nothing.

    Attributes
    ----------
    n : ndarray of shape (pieces, e, p)
        Constraints, piece by piece, filled up with zeros.
    members : Members
        The pieces of each set.
    inverse : ndarray of shape (sets, slots e, slots e)
        P_EE⁻¹.
    """

    n: NDArray[T]
    members: Members
    inverse: NDArray[T]

    def single(self) -> Projection[np.float32]:
        """Return the same in single precision."""
        n, inverse = self.n.astype(np.float32), self.inverse.astype(np.float32)
        return Projection(n, self.members, inverse)

    def select(self, sets: IntArray) -> Projection[T]:
        """Return the same for some of the sets, in their order."""
        if sets.size == len(self.inverse):
            return self
        slots = self.members.back.shape[1]  # as many as the inverses have
        return Projection(self.n, Members(self.members.inside[sets], slots), self.inverse[sets])

    def __call__(self, U: NDArray[T]) -> NDArray[T]:
        """Return Π U for U (sets, v, p)."""
        (sets, v, _), slots = U.shape, self.members.back.shape[1]
        if not slots:
            return U
        along = self.members.times(U, self.n.swapaxes(1, 2))[self.members.back]
        flat = along.swapaxes(1, 2).reshape(sets, v, -1) @ self.inverse
        weights = flat.reshape(sets, v, slots, -1).swapaxes(1, 2)
        return np.asarray(U - self.members.total(self.members.spread(weights, self.n)))


def projections(
    n: FloatArray, P: FloatArray, removed: Ragged
) -> tuple[Projection[np.float64], BoolArray]:
    """Return the projections, and for which sets they have their digits; P = n nᵀ."""
    fill = len(n) - 1  # a row of zeros
    pieces, some = removed.atoms, Members(removed.has_atoms())
    rows = np.full((len(pieces), int(pieces.sizes.max(initial=0))), fill)
    rows[np.arange(rows.shape[1]) < pieces.sizes[:, None]] = pieces.values
    P = P[pieces.values][:, pieces.values]
    spans = [slice(*edges) for edges in pairwise(pieces.ptr.tolist())]
    slots, e = some.back.shape[1], rows.shape[1]
    inverse = np.zeros((len(removed), slots, e, slots, e))
    alone = [_inverse(P[span, span]) for span in spans]
    for j, inside in enumerate(some.inside):
        mine = np.flatnonzero(inside).tolist()
        if mine:
            _put_inverse(inverse[j], P, [spans[k] for k in mine], alone[mine[0]])
    flat = inverse.reshape(len(removed), slots * e, slots * e)
    # A diagonal entry is 1 over what the other constraints leave of this one.
    good = (np.diagonal(flat, axis1=1, axis2=2) * LEAST_PIVOT <= 1.0).all(axis=1)
    return Projection(n[rows], some, flat), np.asarray(good)


def _inverse(A: FloatArray) -> FloatArray:
    """Return the inverse of a matrix, NaN if that is not positive definite."""
    try:
        return shifted_inverse(A.copy(), 0.0)
    except KernelError:
        return np.full_like(A, np.nan)


def _put_inverse(found: FloatArray, P: FloatArray, spans: list[slice], inverse: FloatArray) -> None:
    """Write the inverse of P on some spans of rows into `found` (slots, e, slots, e).

    Span by span, from that on the first of them: the inverse grows by a border, so that no matrix
    larger than a span is inverted.
    """
    sizes = [span.stop - span.start for span in spans]
    for number, span in enumerate(spans[1:]):
        side = np.concatenate([P[before, span] for before in spans[: number + 1]])
        left = inverse @ side
        corner = _inverse(P[span, span] - side.T @ left)
        border, old = left @ corner, len(left)
        grown = np.empty((old + len(corner), old + len(corner)))
        grown[:old, :old], grown[old:, old:] = inverse + border @ left.T, corner
        grown[:old, old:], grown[old:, :old] = -border, -border.T
        inverse = grown
    at = np.cumsum([0, *sizes]).tolist()
    for i, h in enumerate(sizes):
        for j, k in enumerate(sizes):
            found[i, :h, j, :k] = inverse[at[i] : at[i + 1], at[j] : at[j + 1]]
