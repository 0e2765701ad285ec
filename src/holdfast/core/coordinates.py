"""Coordinates in which the penalised Gram matrix of features is diagonal, and their accuracy.

Three ways, the cheapest that is accurate: the eigendecomposition of the Gram matrix; a Cholesky
factor of the Gram matrix with columns scaled to unit length; a QR factor of the rows. The last two
do not mix columns of different units: an eigendecomposition of WᵀW knows its small eigenvalues only
to eps times the largest, the singular values of a triangle are never squared.

How accurate coordinates are is measured: V = W T should satisfy VᵀV + αTᵀT = Λ + α, and what is
left of that at the fitted model is the rounding error of the factor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from holdfast._typing import FloatArray, IntArray
from holdfast.core.lapack import EPS, SOME_TARGETS, eigh, evenly_spaced, threads_for

#: Coordinates whose measured error is at most this are accurate.
ACCURATE = 1e-12

#: From vectors (p, k) to WᵀW times them.
Normal = Callable[[FloatArray], FloatArray]


class Coordinates(NamedTuple):
    """A map to coordinates, TᵀWᵀWT + αTᵀT = Λ + α; or I, for one penalty only.

    Attributes
    ----------
    T : ndarray of shape (p, p)
    Lambda : ndarray of shape (p,)
        Ones, for one penalty only.
    only : bool
    rounding : float
        What is left of these equations at the fitted model, relative to its length.
    """

    T: FloatArray
    Lambda: FloatArray
    only: bool
    rounding: float = np.inf


class Triangle(NamedTuple):
    """An upper triangular R with RᵀR = (WᵀW + ridge) with rows and columns in `order`."""

    R: FloatArray
    order: IntArray


def for_every_penalty(
    gram: FloatArray,
    z: FloatArray,
    least: float,
    normal: Normal,
    rows: Callable[[float], Triangle],
) -> Coordinates:
    """Return coordinates for every penalty from `least` on: the cheapest that are accurate.

    Parameters
    ----------
    gram : ndarray of shape (p, p)
        WᵀW.
    z : ndarray of shape (p, v)
        WᵀYs.
    least : float
    normal : callable
        WᵀW times vectors, from the rows themselves if they are kept.
    rows : callable
        The triangle of the rows with √ridge rows below them, by QR.
    """

    def spectrum() -> Coordinates:
        Lambda, T = eigh(gram)
        return Coordinates(T, np.maximum(Lambda, 0.0), only=False)

    def cholesky() -> Coordinates | None:
        triangle = scaled_cholesky(gram, least)
        return None if triangle is None else _singular_vectors(triangle, least)

    def qr() -> Coordinates:
        return _singular_vectors(rows(least), least)

    return _first_accurate((spectrum, cholesky, qr), z, least, normal)


def at_one_penalty(
    gram: FloatArray,
    z: FloatArray,
    alpha: float,
    normal: Normal,
    rows: Callable[[float], Triangle],
) -> Coordinates:
    """Return coordinates at one penalty, where S = V Vᵀ: T = R⁻¹ with RᵀR = WᵀW + α."""

    def cholesky() -> Coordinates | None:
        triangle = scaled_cholesky(gram, alpha)
        return None if triangle is None else _inverse(triangle)

    return _first_accurate((cholesky, lambda: _inverse(rows(alpha))), z, alpha, normal)


def _first_accurate(
    ways: Iterable[Callable[[], Coordinates | None]], z: FloatArray, alpha: float, normal: Normal
) -> Coordinates:
    """Return the first coordinates that are accurate, or the most accurate of all."""
    best: Coordinates | None = None
    for way in ways:
        found = way()
        if found is None:
            continue
        found = found._replace(rounding=measured(found, z, alpha, normal) + 4.0 * EPS)
        if best is None or not best.rounding <= found.rounding:
            best = found
        if best.rounding <= ACCURATE:
            break
    assert best is not None, "a QR factor always exists"
    return best


def measured(found: Coordinates, z: FloatArray, alpha: float, normal: Normal) -> float:
    """Return ‖√D (VᵀV + αTᵀT − Λ − α) β‖ / ‖√D z‖, the largest of a few targets."""
    T, Lambda = found.T, found.Lambda
    z = T.T @ z[:, evenly_spaced(z.shape[1], SOME_TARGETS)]
    total = (Lambda if found.only else Lambda + alpha)[:, None]
    theta = T @ (z / total)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        left = T.T @ (normal(theta) + alpha * theta) - z
        sizes = np.linalg.norm(z / np.sqrt(total), axis=0)
        ratio = np.linalg.norm(left / np.sqrt(total), axis=0) / sizes
    return float(np.where(sizes > 0.0, ratio, 0.0).max(initial=0.0))


def scaled_cholesky(gram: FloatArray, ridge: float) -> Triangle | None:
    """Return the triangle of gram + ridge I, or None if it is singular to working precision.

    Scaling columns to unit length first makes the result independent of their units: the errors
    are eps times the condition of the *scaled* matrix.
    """
    lengths = np.sqrt(np.maximum(np.diag(gram), 0.0) + ridge)
    order = np.argsort(-lengths, kind="stable")
    ordered = lengths[order]
    scaled = gram[np.ix_(order, order)] / ordered / ordered[:, None]
    scaled[np.diag_indices(len(gram))] = 1.0
    try:
        with threads_for(len(gram)):
            L = np.linalg.cholesky(scaled)
    except np.linalg.LinAlgError:
        return None
    return Triangle(np.asarray(L.T * ordered), order)


def triangle_of_rows(blocks: Iterable[FloatArray], p: int, ridge: float) -> Triangle:
    """Return the triangle of W given in blocks of rows, by QR: 2 m p² flops, memory of one block.

    The triangular factor of a few blocks is stacked on the next one (TSQR). Within a block the
    longest rows come first, which keeps rows of small weight accurate.
    """
    R: FloatArray = np.sqrt(ridge) * np.eye(p)
    for block in blocks:
        stacked = np.vstack([R, block])
        size = np.abs(stacked).max(axis=1, initial=0.0)
        R = np.asarray(np.linalg.qr(stacked[np.argsort(-size, kind="stable")], mode="r"))
    lengths = np.sqrt(np.square(R).sum(axis=0))
    order = np.argsort(-lengths, kind="stable")
    return Triangle(np.asarray(np.linalg.qr(R[:, order], mode="r")), order)


def _singular_vectors(triangle: Triangle, ridge: float) -> Coordinates:
    """Return T = R⁻¹ U s with R = U s Vᵀ: V in exact arithmetic, true to each singular value."""
    R, order = triangle
    U, s, _ = np.linalg.svd(R)
    T = np.empty_like(U)
    with np.errstate(divide="ignore", invalid="ignore"):
        T[order] = solve_triangular(R, U * s, check_finite=False)
    return Coordinates(T, np.maximum(np.square(s) - ridge, 0.0), only=False)


def _inverse(triangle: Triangle) -> Coordinates:
    """Return T = R⁻¹."""
    p = len(triangle.R)
    T = np.empty((p, p))
    T[triangle.order] = solve_triangular(triangle.R, np.eye(p), check_finite=False)
    return Coordinates(T, np.ones(p), only=True)
