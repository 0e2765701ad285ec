"""From a system of features to a factor that is accurate, and the naive twin: training by QR.

Three factors, the cheapest that is accurate: the eigendecomposition of the Gram matrix; a Cholesky
factor of the Gram matrix with columns scaled to unit length; a QR factor of the rows. The last two
do not mix columns of different units. How accurate a factor is, is measured: V should satisfy
VᵀV + αTᵀT = Λ + α, and what is left of that at the fitted model is its `defect`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from holdfast._typing import BoolArray, FloatArray, IntArray
from holdfast.linalg import (
    Graded,
    coordinates,
    eigh,
    run_pieces,
    scaled_cholesky,
    triangle_of,
)
from holdfast.smoother.factor import FeatureFactor
from holdfast.smoother.features import Features
from holdfast.smoother.rows import FeatureRows, RowBlocks, StreamedRows, even_blocks, vector_blocks
from holdfast.smoother.scale import RowScale, Targets, Unpenalised
from holdfast.smoother.system import System

__all__ = [
    "Rows",
    "factorised",
    "measured_at",
    "normal_products",
    "reduced",
    "ridge_of_triangle",
    "single_factor",
    "stacked_triangle",
    "unpenalised_first",
]

#: A factor whose defect, relative to the fitted targets, is at most this is accurate: held-out
#: predictions then lose less than 1e-8 unless a leverage is within 1e-4 of 1.
ACCURATE = 1e-12
#: Targets that a defect is measured with, and how far apart the two penalties are.
MOST_TARGETS, DECADES = 3, 4.0

#: WᵀW times vectors (p, k).
Normal = Callable[[FloatArray], FloatArray]


class Rows(NamedTuple):
    """What is asked of the trained rows of W, wherever they are.

    Attributes
    ----------
    normal : callable
        WᵀW times vectors (p, k), from the rows themselves.
    triangle : callable
        A triangular factor of W with √ridge rows below it, by QR.
    """

    normal: Normal
    triangle: Callable[[float], Graded]


class Map(NamedTuple):
    """Coordinates W T in which the penalised Gram matrix is diagonal.

    Attributes
    ----------
    T : ndarray of shape (p, p)
    Lambda, penalised : ndarray of shape (p,)
        TᵀWᵀWT + αTᵀT = Λ + α·penalised.
    """

    T: FloatArray
    Lambda: FloatArray
    penalised: FloatArray


def _looked_at(z: FloatArray) -> FloatArray:
    """Return some of the targets, evenly spaced."""
    v = z.shape[1]
    return z[:, np.unique(np.linspace(0, v - 1, min(v, MOST_TARGETS)).astype(int))]


def _defects(
    found: Map, z: FloatArray, alphas: FloatArray, product: Callable[[FloatArray], FloatArray]
) -> FloatArray:
    """Return ‖√D (VᵀV + αTᵀT − Λ − α) β‖ / ‖√D z‖ (a,), the largest of a few targets.

    `product` gives VᵀVβ for β (q, k); z (q, v) has the unpenalised columns last.
    """
    p, q = len(found.T), len(z)
    z = _looked_at(z)
    Lambda = np.append(found.Lambda, np.ones(q - p))
    shift = np.multiply.outer(alphas, np.append(found.penalised, np.zeros(q - p)))
    D = 1.0 / (Lambda + shift)  # (a, q)
    beta = (D[:, :, None] * z).transpose(1, 0, 2)  # (q, a, k)
    flat = beta.reshape(q, -1)
    left = product(flat).reshape(beta.shape) - (Lambda + shift).T[:, :, None] * beta
    theta = found.T @ flat[:p]
    left[:p] += alphas[:, None] * (found.T.T @ theta).reshape(p, *beta.shape[1:])
    root = np.sqrt(D).T[:, :, None]
    size = np.linalg.norm(root * z[:, None], axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.linalg.norm(root * left, axis=0) / size
    return np.asarray(np.where(size > 0.0, ratio, 0.0).max(axis=1))


def _defect(found: Map, z: FloatArray, alphas: FloatArray, normal: Normal) -> FloatArray:
    """Return the defects of a map, from products of the Gram matrix of the rows with vectors."""
    T = found.T
    return _defects(found, T.T @ z, alphas, lambda beta: T.T @ normal(T @ beta))


def _penalties(least: float) -> FloatArray:
    """Return the penalties at which defects are measured."""
    return least * 10.0 ** np.array([0.0, DECADES])


def _at_one(R: Graded) -> Map:
    """Return coordinates at the one penalty of a triangle RᵀR = WᵀW + α: T = R⁻¹."""
    p = R.order.size
    T = np.empty((p, p))
    T[R.order] = solve_triangular(R.R, np.eye(p), check_finite=False)
    return Map(T, np.ones(p), np.zeros(p))


def _best_map(system: System, least: float, rows: Rows) -> Map:
    """Return coordinates for every penalty from `least` on: the cheapest that are accurate.

    Where the eigendecomposition is not, the Gram matrix itself may have lost too much: from there
    on maps are judged by the rows.
    """
    p, alphas = system.p, _penalties(least)
    gram, z, ones = system.gram[:p, :p], system.z[:p], np.ones(system.p)
    Lambda, T = eigh(gram)
    best = Map(T, np.maximum(Lambda, 0.0), ones)
    if _defect(best, z, alphas, lambda x: gram @ x).max() <= ACCURATE:
        return best
    smallest = _defect(best, z, alphas, rows.normal).max()

    def cholesky() -> Graded | None:
        R = scaled_cholesky(gram, least)
        # Without an accurate triangle its singular vectors are not worth computing.
        lost = R is None or _defect(_at_one(R), z, alphas[:1], rows.normal).max() > ACCURATE
        return None if lost else R

    for triangle in (cholesky, partial(rows.triangle, least)):
        if smallest <= ACCURATE:
            break
        R = triangle()
        if R is None:
            continue
        s, T = coordinates(R)
        found = Map(T, np.maximum(s**2 - least, 0.0), ones)
        defect = _defect(found, z, alphas, rows.normal).max()
        if not smallest <= defect:
            best, smallest = found, defect
    return best


def factorised(
    system: System,
    features: Features,
    scale: RowScale,
    unpenalised: Unpenalised,
    targets: Targets,
    least: float,
    rows: Rows,
    *,
    overwrite: bool,
) -> FeatureFactor:
    """Return the factor for every penalty from `least` on.

    Pahikkala et al. 2012 (15), (23). With `overwrite` the rows of the system, which nothing else
    may use, become those of the factor.
    """
    found, at = _best_map(system, least, rows), _penalties(least)
    return _factor(system, features, scale, unpenalised, targets, found, at, rows, overwrite)


def single_factor(
    system: System,
    features: Features,
    scale: RowScale,
    unpenalised: Unpenalised,
    targets: Targets,
    alpha: float,
    rows: Rows,
) -> FeatureFactor:
    """Return the factor at one penalty: WᵀW + αI = RᵀR and V = W R⁻¹, so that S = V Vᵀ."""
    p, at = system.p, np.array([alpha])
    gram, z = system.whole_gram[:p, :p], system.z[:p]
    best, smallest = None, np.inf
    triangles = partial(scaled_cholesky, gram, alpha), partial(rows.triangle, alpha)
    for triangle in triangles:
        R = triangle()
        if R is None:
            continue
        found = _at_one(R)
        if _defect(found, z, at, lambda x: gram @ x).max() <= ACCURATE:
            best = found
            break
        defect = _defect(found, z, at, rows.normal).max()
        if best is None or not smallest <= defect:
            best, smallest = found, defect
        if smallest <= ACCURATE:
            break
    assert best is not None
    return _factor(system, features, scale, unpenalised, targets, best, at, rows, False)


def _factor(
    system: System,
    features: Features,
    scale: RowScale,
    unpenalised: Unpenalised,
    targets: Targets,
    found: Map,
    alphas: FloatArray,
    rows: Rows,
    overwrite: bool,
) -> FeatureFactor:
    """Return the factor in some coordinates, with the defect that its own rows show."""
    (p, T), s = (system.p, found.T), unpenalised.count
    N, z = np.zeros_like(system.N), system.z.copy()
    z[:p] = T.T @ system.z[:p]
    whole = T if system.T is None else system.T @ T
    V: FeatureRows
    rotated = [(system.N, N)]
    if isinstance(system.W, StreamedRows):
        V = StreamedRows(features, system.B, scale, unpenalised, whole)
    else:
        V = system.W if overwrite else np.empty_like(system.W)
        V[:, p:] = system.W[:, p:]
        rotated.append((system.W, V))

    def work(piece: tuple[FloatArray, FloatArray, slice]) -> None:
        old, new, rows = piece
        new[rows, :p] = old[rows, :p] @ T

    run_pieces(work, [(*pair, rows) for pair in rotated for rows in even_blocks(*pair[0].shape)])
    if isinstance(V, np.ndarray):
        defect = _defects(found, z, alphas, lambda beta: normal_products(V, beta, scale.trained))
    else:  # a pass over the rows only where the sums do not say that all is well
        gram = system.whole_gram[:p, :p]
        defect = _defect(found, system.z[:p], alphas, lambda x: gram @ x)
        if defect.max() > ACCURATE:
            defect = _defect(found, system.z[:p], alphas, rows.normal)
    return FeatureFactor(
        V=V,
        Lambda=np.append(found.Lambda, np.ones(s)),
        penalised=np.append(found.penalised, np.zeros(s)),
        z=z,
        targets=targets,
        scale=scale,
        unpenalised=unpenalised,
        features=features,
        B=system.B,
        N=N,
        T=whole,
        least=float(alphas[0]),
        # Between the penalties looked at, that below counts: defects fall with the penalty.
        defect=np.stack([alphas, defect]),
    )


def measured_at(factor: FeatureFactor, least: float) -> FeatureFactor | None:
    """Return the factor for smaller penalties than it was made for, if its rows say it serves.

    None where they do not, or are not kept.
    """
    if not isinstance(factor.V, np.ndarray):
        return None
    p, V, alphas = len(factor.T), factor.V, np.append(_penalties(least)[:1], factor.defect[0])
    found = Map(factor.T, factor.Lambda[:p], factor.penalised[:p])
    trained = factor.scale.trained
    defect = _defects(found, factor.z, alphas, lambda beta: normal_products(V, beta, trained))
    if defect[0] > ACCURATE:
        return None
    return replace(factor, least=least, defect=np.stack([alphas, defect]))


def normal_products(V: FeatureRows, beta: FloatArray, trained: BoolArray) -> FloatArray:
    """Return VᵀVβ over the trained rows, a block of rows at a time."""
    total = np.zeros_like(beta)
    for part in vector_blocks(V):
        rows = V[part] if trained[part].all() else V[part] * trained[part, None]
        total += rows.T @ (rows @ beta)
    return total


# -- training by QR --------------------------------------------------------------------------------


def reduced(
    rows: RowBlocks, Ys: FloatArray, order: IntArray | None = None
) -> tuple[FloatArray, IntArray]:
    """Return the triangle (p + s, p + s + v) of (W, Ys) by QR, and the order of its columns of W.

    Block by block, longest rows first and longest columns first, as the first block has them: so
    rows and columns of any length keep their accuracy (Cox & Higham 1998). Or in the order that is
    given, which triangles of several parts must share.
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
    """Return θ (a, p + s, v) from the triangle of `reduced`: each penalty adds √α I below it."""
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
