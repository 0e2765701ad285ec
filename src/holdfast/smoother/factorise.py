"""From a system of features to factors that have enough digits.

Where its condition allows it, the eigendecomposition of the Gram matrix is used. Where columns have
different units, rows very different weights, or directions very different support, a triangular
factor that does not square takes its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from holdfast._typing import BoolArray, FloatArray, IntArray
from holdfast.linalg import (
    Accuracy,
    Graded,
    coordinates,
    scaled_cholesky,
    stacked_qr,
    triangle_of,
)
from holdfast.smoother.factor import FeatureFactor
from holdfast.smoother.rows import FeatureRows, RowBlocks, vector_blocks
from holdfast.smoother.scale import RowScale
from holdfast.smoother.system import FeatureSystem, penalty_mask, solve, transform

__all__ = [
    "ENOUGH",
    "FLOOR",
    "Diagonal",
    "diagonalise",
    "feature_factor",
    "held_promise",
    "reduced",
    "remainder",
    "ridge_by_qr",
    "ridge_of_triangle",
    "rotate",
    "settled",
    "single_factor",
    "single_promise",
    "stacked_triangle",
    "subtracted",
    "summed",
    "unpenalised_first",
]

#: Gives Vᵀ(Ys − Vβ) over the trained rows, wherever those are.
Remainder = Callable[[FeatureRows, FloatArray], FloatArray]

#: Rounding errors of sums, and the largest relative error for which no better factor is made.
ROUNDING, ENOUGH = 4 * float(np.finfo(np.float64).eps), 1e-12
#: Equations are solved only if this share of each pivot, over the number of rows, is left.
FLOOR = ROUNDING / ENOUGH
#: Rows with a smaller 1 − leverage are predicted by training from scratch: eps over it is lost.
WEAK = 1e-3
#: Rows this many times longer than most are fitted first, so that their size costs others no digit.
LONGER = 10.0


def subtracted(diagonal: FloatArray, mean: FloatArray, floor: float, rotated: bool) -> Accuracy:
    """Return how well the Gram matrix of all rows less some is known, from the diagonal of all.

    Each column by itself. Where the `mean` (s, p) of the rows that are left is far from that of
    all, because heavy rows left, what was taken away for it counts as well: I − Q_HᵀQ_H, by which
    it was divided, has cancelled. In rows that were rotated, every column has the rounding errors
    of the largest, times its own size in the matrix.
    """
    size = diagonal + np.square(mean).sum(axis=0)
    return Accuracy(np.sqrt(size * size.max(initial=0.0)) if rotated else size, floor)


def summed(gram: FloatArray, mean: FloatArray, n_rows: int, rotated: bool) -> Accuracy:
    """Return how well the Gram matrix of some rows is known, a sum over these rows alone.

    Each column by itself; but where a rotation has mixed the columns, the rounding errors of the
    largest are in all of them. Rows that were far from their own `mean` (s, p), because rows that
    left had moved the mean of all, have the rounding errors of that distance. Where those are too
    large beside the spread of the rows, no penalty makes up for them.
    """
    squares, diagonal = np.square(mean).sum(axis=0), np.diag(gram)
    lost = n_rows * (ROUNDING / ENOUGH) ** 2 * squares > diagonal
    size = np.where(lost, np.inf, np.maximum(diagonal, FLOOR * squares))
    known_to = Accuracy(size, FLOOR / n_rows)
    return known_to.mixed(len(gram)) if rotated else known_to


def feature_factor(system: FeatureSystem, Ys: FloatArray, scale: RowScale) -> FeatureFactor:
    """Return the factor of a rotated system, which holds for every penalty from `least` on."""
    mask = penalty_mask(*system.B.shape[::-1])
    # The digits that holding rows out costs come on top of those that the factor has lost.
    weak = float(weakest(system.promise))
    return FeatureFactor(
        system.W, system.gram, mask, system.z, Ys, scale, system.N, weak=weak, span=system.span
    )


def settled(
    system: FeatureSystem, beta: FloatArray, known: FloatArray, scale: RowScale, left: Remainder
) -> FeatureSystem:
    """Return the system with z = VᵀYs free of the errors of rows much longer than others.

    Such rows are fitted almost exactly. For any model β, z = VᵀVβ + Vᵀ(Ys − Vβ). The first part is
    `known` without a sum over rows, and the products in the second are small: `left` sums them in a
    pass over the rows. Where no row is much longer, the system is returned unchanged.
    """
    norms = system.norms[scale.trained]
    if norms.max() <= LONGER**2 * np.median(norms):
        return system
    return replace(system, z=known + left(system.W, beta))


def rotate(
    system: FeatureSystem,
    found: Diagonal,
    least: float,
    scale: RowScale,
    left: Remainder,
    *,
    overwrite: bool = False,
) -> FeatureSystem:
    """Return the system in coordinates that diagonalise it, with z settled there.

    With `overwrite` the new rows take the memory of the old ones.
    """
    rotated = found.applied(transform(system, found.T, overwrite=overwrite))
    beta = solve(rotated, slice(None), min(least, 1.0))
    return settled(rotated, beta, rotated.gram[:, None] * beta, scale, left)


def remainder(V: FeatureRows, beta: FloatArray, Ys: FloatArray, trained: BoolArray) -> FloatArray:
    """Return Vᵀ(Ys − Vβ) over the trained rows."""
    z = np.zeros((V.shape[1], Ys.shape[1]))
    for part in vector_blocks(V):
        rows = V[part]
        z += rows.T @ ((Ys[part] - rows @ beta) * trained[part, None])
    return z


class Diagonal(NamedTuple):
    """Coordinates in which the Gram matrix is diagonal.

    Attributes
    ----------
    gram : ndarray of shape (p + s,)
        The diagonal.
    T : ndarray of shape (p, p)
        From the features to the coordinates.
    least, promise : float
        The smallest penalty that they serve, and the relative error they promise there.
    """

    gram: FloatArray
    T: FloatArray
    least: float
    promise: float

    def applied(self, system: FeatureSystem) -> FeatureSystem:
        """Return a system, whose rows were transformed already, with its diagonal Gram matrix."""
        return replace(system, gram=self.gram, least=self.least, promise=self.promise)


def diagonalise(
    system: FeatureSystem,
    spectrum: tuple[FloatArray, FloatArray] | None,
    blocks: Callable[[], Iterable[FloatArray]],
    least: float,
) -> Diagonal:
    """Return T such that W T has a diagonal Gram matrix.

    Parameters
    ----------
    system : FeatureSystem
    spectrum : (Lambda, V) or None
        Eigendecomposition of the Gram matrix, if it is not diagonal yet.
    blocks : callable
        Gives the trained rows of W under the penalty, block by block.
    least : float
        The smallest penalty that will be asked for.

    Notes
    -----
    The eigendecomposition WᵀW = T Λ Tᵀ gives V = W T (Pahikkala et al. 2012 (15), (23))
    where the eigenvalues show that this has enough digits; a rotation changes no norm, so every
    path may use the rotated rows. Otherwise a triangular factor that does not square
    (`holdfast.linalg.graded`) serves penalties from `least` on.
    """
    p, m = system.p, system.support
    gram = system.whole_gram[:p, :p]
    if spectrum is not None:
        Lambda, T = spectrum
        promised = promise(float(Lambda[-1]), max(float(Lambda[0]), 0.0), least, m)
        if promised <= ENOUGH:
            return Diagonal(_diagonal(system, Lambda), T, 0.0, promised)
    R = triangular(gram, blocks, least, m)
    s, T = coordinates(R)
    return Diagonal(_diagonal(system, s**2 - least), T, least, R.promise(m))


def triangular(
    gram: FloatArray, blocks: Callable[[], Iterable[FloatArray]], ridge: float, m: float
) -> Graded:
    """Return R with RᵀR = WᵀW + ridge I: by Cholesky where its digits are enough, else by QR."""
    found = scaled_cholesky(gram, ridge)
    if found is not None and found.promise(m) <= ENOUGH:
        return found
    return stacked_qr(blocks(), len(gram), ridge)


def promise(largest: float, smallest: float, alpha: float, m: float) -> float:
    """Return the relative error that normal equations of m rows promise at a penalty.

    Their condition times eps, divided by the number of rows. That was measured: the part of the
    targets along a direction falls with the support of the direction.
    """
    if not np.isfinite(alpha):  # nothing was said about penalties
        return 0.0
    return ROUNDING * (largest + alpha) / ((smallest + alpha) * m)


def weakest(promised: FloatArray | float) -> FloatArray:
    """Return the smallest 1 − leverage that may be used, from what the factor has lost already."""
    return np.maximum(WEAK, np.asarray(promised) / (10 * ENOUGH))


def held_promise(promised: FloatArray) -> FloatArray:
    """Return the relative errors of held-out predictions from those of the factor.

    Rows that would lose more are trained anew.
    """
    return np.asarray(np.maximum(promised, ROUNDING) / np.minimum(weakest(promised), 1.0))


def single_promise(Lambda: FloatArray, alphas: FloatArray, m: float) -> FloatArray:
    """Return what `single_factor` promises at each penalty, from the spectrum of WᵀW.

    Where a Cholesky factorisation would lose too much, a QR factorisation loses the root of it.
    """
    condition = (Lambda.max(initial=0.0) + alphas) / (Lambda.min(initial=np.inf) + alphas)
    squared = ROUNDING * condition / m
    return np.asarray(np.where(squared <= ENOUGH, squared, ROUNDING * np.sqrt(condition) / m))


def _diagonal(system: FeatureSystem, Lambda: FloatArray) -> FloatArray:
    """Return the diagonal of the Gram matrix, with ones for the unpenalised columns."""
    gram = np.ones(len(system.z))
    gram[: system.p] = np.maximum(Lambda, 0.0)
    return gram


def single_factor(
    system: FeatureSystem,
    blocks: Callable[[], Iterable[FloatArray]],
    alpha: float,
    Ys: FloatArray,
    scale: RowScale,
    left: Remainder,
) -> FeatureFactor:
    """Return the factor at one penalty: WᵀW + αI = RᵀR and V = W R⁻¹, so that S = V Vᵀ."""
    p, size = system.p, len(system.z)
    R = triangular(system.whole_gram[:p, :p], blocks, alpha, system.support)
    T = np.empty((p, p))
    T[R.order] = solve_triangular(R.R, np.eye(p), check_finite=False)
    scaled = transform(system, T)
    known = scaled.z.copy()  # VᵀV = I − αTᵀT
    known[:p] -= alpha * (T.T @ (T @ scaled.z[:p]))
    scaled = settled(scaled, scaled.z, known, scale, left)
    one, none = np.ones(size), np.zeros(size)
    # Rows that were rotated before have lost what the rotation promised, whatever R says now.
    weak = float(weakest(max(R.promise(system.support), system.promise)))
    return FeatureFactor(scaled.W, one, none, scaled.z, Ys, scale, scaled.N, T, weak, scaled.span)


def ridge_by_qr(rows: RowBlocks, Ys: FloatArray, alphas: FloatArray, p: int) -> FloatArray:
    """Return θ (a, p + s, v) by QR of the augmented system: nothing is squared.

    W and y are reduced to a triangle once, block by block; each penalty adds √α I below it.
    """
    R, order = reduced(rows, Ys)
    return ridge_of_triangle(R, alphas, p, order)


def reduced(
    rows: RowBlocks, Ys: FloatArray, order: IntArray | None = None
) -> tuple[FloatArray, IntArray]:
    """Return the triangle (p + s, p + s + v) of (W, Ys) by QR, and the order of its columns of W.

    Block by block, longest rows first and longest columns first, as the first block has them: so
    rows and columns of any length keep digits of their own (Cox & Higham 1998). Or in the order
    that is given, which triangles of several parts must share.
    """
    size, v = rows.shape[1], Ys.shape[1]
    R: FloatArray = np.zeros((0, size + v))
    for part, W in rows:
        if order is None:
            order = np.argsort(-np.abs(W).max(axis=0), kind="stable")
        R = stacked_triangle([R, np.hstack([W[:, order], Ys[part]])], size)
    assert order is not None, "there are rows to train on"
    return R, order


def unpenalised_first(p: int, s: int) -> IntArray:
    """Return an order of p + s columns: the last s, which are unpenalised, come first."""
    return np.roll(np.arange(p + s), s)


def stacked_triangle(parts: Sequence[FloatArray], size: int) -> FloatArray:
    """Return the triangle of stacked rows; the first `size` columns say which are longest."""
    stacked = np.vstack(parts)
    longest = np.argsort(-np.abs(stacked[:, :size]).max(axis=1), kind="stable")
    return triangle_of(stacked[longest])[:size]


def ridge_of_triangle(R: FloatArray, alphas: FloatArray, p: int, order: IntArray) -> FloatArray:
    """Return θ (a, p + s, v) from the triangle of `reduced`, whose columns have this order."""
    size, v = order.size, R.shape[1] - order.size
    models = np.empty((alphas.size, size, v))
    # Rows √α in the order of the columns: so a column without any entry keeps a θ of exactly zero.
    penalised, penalty = np.flatnonzero(order < p), np.zeros((p, size + v))
    for a, alpha in enumerate(alphas):
        penalty[np.arange(p), penalised] = np.sqrt(alpha)
        full = stacked_triangle([R, penalty], size)
        theta = solve_triangular(full[:, :size], full[:, size:], check_finite=False)
        models[a, order] = theta
    return models
