"""Factors that do not square: triangular R with RᵀR = WᵀW + ridge, and coordinates from it.

An eigendecomposition of WᵀW knows its small eigenvalues only to eps times the largest. Where
columns have different units, or directions very different support, that is not enough. A triangular
factor keeps the accuracy of every column. It comes from a Cholesky factorisation of the Gram matrix
with columns scaled to unit length, as long as that matrix is well conditioned, and otherwise from a
QR factorisation of W itself, block by block. Its singular values are the square roots of the
eigenvalues, and are never squared.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack, solve_triangular, svd

from holdfast._typing import FloatArray, IntArray

__all__ = ["Graded", "coordinates", "scaled_cholesky", "stacked_qr", "triangle_of"]


class Graded(NamedTuple):
    """A triangular factor with columns in the order of their lengths, longest first.

    Attributes
    ----------
    R : ndarray of shape (p, p)
        Upper triangular, RᵀR = (WᵀW + ridge I) with rows and columns in `order`.
    order : ndarray of int, shape (p,)
    """

    R: FloatArray
    order: IntArray

    def unordered(self) -> FloatArray:
        """Return R with its columns where those of W are; no longer triangular."""
        R = np.empty_like(self.R)
        R[:, self.order] = self.R
        return R


def triangle_of(A: FloatArray) -> FloatArray:
    """Return the triangular factor of a QR factorisation."""
    return np.asarray(np.linalg.qr(A, mode="r"), dtype=np.float64)


def scaled_cholesky(gram: FloatArray, ridge: float) -> Graded | None:
    """Return the factor of gram + ridge I, or None if it is singular to working precision.

    Scaling columns to unit length first makes the result independent of their units: the errors
    are eps times the condition of the *scaled* matrix.
    """
    p = len(gram)
    lengths = np.sqrt(np.maximum(np.diag(gram), 0.0) + ridge)
    order = np.argsort(-lengths, kind="stable")
    ordered = lengths[order]
    scaled = gram[np.ix_(order, order)] / ordered / ordered[:, None]
    scaled[np.diag_indices(p)] = 1.0
    R, info = lapack.dpotrf(scaled, lower=0, clean=1)
    if info != 0:
        return None
    return Graded(np.asarray(R) * ordered, order)


def stacked_qr(blocks: Iterable[FloatArray], p: int, ridge: float) -> Graded:
    """Return the factor of W given in blocks of rows, by QR: 2 m p² flops, memory of one block.

    The triangular factor of a few blocks is stacked on the next one (TSQR). Within a block the
    longest rows come first, which keeps rows of small weight accurate.
    """
    R: FloatArray = np.sqrt(ridge) * np.eye(p)
    for block in blocks:
        stacked = np.vstack([R, block])
        size = np.abs(stacked).max(axis=1, initial=0.0)
        R = triangle_of(stacked[np.argsort(-size, kind="stable")])
        if len(R) < p:
            R = np.vstack([R, np.zeros((p - len(R), p))])
    lengths = np.sqrt(np.square(R).sum(axis=0))
    order = np.argsort(-lengths, kind="stable")
    return Graded(triangle_of(R[:, order]), order)


def coordinates(factor: Graded) -> tuple[FloatArray, FloatArray]:
    """Return singular values s (ascending) and T with (W T)ᵀ(W T) = s² − ridge |T|², TᵀT = I.

    R = u s vᵀ, and T = R⁻¹ u s equals v in exact arithmetic; computed that way, W T is consistent
    with each singular value to rounding. One SVD of size p.
    """
    R, order = factor
    u, s, _ = svd(R, lapack_driver="gesdd", check_finite=False)
    T = np.empty_like(u)
    T[order] = solve_triangular(R, u * s, check_finite=False)
    return s[::-1].copy(), np.ascontiguousarray(T[:, ::-1])
