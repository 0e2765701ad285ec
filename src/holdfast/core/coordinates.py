"""Coordinates in which the penalised Gram matrix of features is diagonal, and their accuracy.

Two ways: the eigendecomposition of the Gram matrix, and where that is not accurate a Cholesky
factor of it. The first knows small eigenvalues only to eps times the largest; the second does not
mix columns of different units.

How accurate coordinates are is measured: V = W T should satisfy VᵀV + αTᵀT = Λ + α, and what is
left of that at the fitted model is the rounding error of the factor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from holdfast._typing import FloatArray
from holdfast.core.lapack import EPS, SOME_TARGETS, eigh, evenly_spaced, submatrix, triangle

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


def for_every_penalty(gram: FloatArray, z: FloatArray, least: float, normal: Normal) -> Coordinates:
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
    """

    def cholesky() -> Coordinates | None:
        """Return T = R⁻¹ U s with R = U s Vᵀ: V in exact arithmetic, longest columns first."""
        order = np.argsort(-np.diag(gram), kind="stable")
        R = triangle(submatrix(gram, order, order), least)
        if R is None:
            return None
        U, s, _ = np.linalg.svd(R)
        T = np.empty_like(U)
        with np.errstate(divide="ignore", invalid="ignore"):
            T[order] = solve_triangular(R, U * s, check_finite=False)
        return Coordinates(T, np.maximum(np.square(s) - least, 0.0), only=False)

    return _first_accurate((partial(spectrum, gram), cholesky), z, least, normal)


def at_one_penalty(gram: FloatArray, z: FloatArray, alpha: float, normal: Normal) -> Coordinates:
    """Return coordinates at one penalty, where S = V Vᵀ: T = R⁻¹ with RᵀR = WᵀW + α.

    A Gram matrix that its rounding errors make indefinite has none; its spectrum serves any.
    """

    def cholesky() -> Coordinates | None:
        R = triangle(gram, alpha)
        if R is None:
            return None
        T = solve_triangular(R, np.eye(len(R)), check_finite=False)
        return Coordinates(T, np.ones(len(T)), only=True)

    return _first_accurate((cholesky, partial(spectrum, gram)), z, alpha, normal)


def _first_accurate(
    ways: Iterable[Callable[[], Coordinates | None]], z: FloatArray, alpha: float, normal: Normal
) -> Coordinates:
    """Return the first coordinates that are accurate, or the most accurate of all."""
    best: Coordinates | None = None
    for way in ways:
        candidate = way()
        if candidate is None:
            continue
        candidate = candidate._replace(rounding=measured(candidate, z, alpha, normal) + 4.0 * EPS)
        if best is None or not best.rounding <= candidate.rounding:
            best = candidate
        if best.rounding <= ACCURATE:
            break
    assert best is not None, "every matrix has a spectrum"
    return best


def measured(coordinates: Coordinates, z: FloatArray, alpha: float, normal: Normal) -> float:
    """Return ‖√D (VᵀV + αTᵀT − Λ − α) β‖ / ‖√D z‖, the largest of a few targets."""
    T, Lambda = coordinates.T, coordinates.Lambda
    z = T.T @ z[:, evenly_spaced(z.shape[1], SOME_TARGETS)]
    total = (Lambda if coordinates.only else Lambda + alpha)[:, None]
    theta = T @ (z / total)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        left = T.T @ (normal(theta) + alpha * theta) - z
        sizes = np.linalg.norm(z / np.sqrt(total), axis=0)
        ratio = np.linalg.norm(left / np.sqrt(total), axis=0) / sizes
    return float(np.where(sizes > 0.0, ratio, 0.0).max(initial=0.0))


def spectrum(gram: FloatArray) -> Coordinates:
    """Return the eigenvectors of the Gram matrix."""
    Lambda, T = eigh(gram)
    return Coordinates(T, np.maximum(Lambda, 0.0), only=False)
