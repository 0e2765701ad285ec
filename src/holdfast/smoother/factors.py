"""A smoother in coordinates where the penalty is diagonal: factorise once, ask many questions.

With D = 1/(Λ + α·penalised), coordinates V_i of each training row and z = Vᵀ√w y, both systems
have

    fitted values   ŷ_i = out_i · D z
    residual map    primal: I − S = I − V D Vᵀ
                    dual:   I − S = α V D' Vᵀ          D' = D, 0 at the bias

and one pair of formulas answers every hold-out question (papers 000 Corollary 2, 002 §2.6,
003 (16), 004 (9)):

    r_H = (I − S_HH)⁻¹ (y − ŷ)_H      held-out residuals
    f_T = out_T · D (z − V_Hᵀ r_H)    predictions anywhere by the model without H

where `out` is V itself (primal) or V·Λ (dual). The dual form has no subtraction from the identity,
so nothing cancels at tiny α; the second formula has none at huge α.

`spectral_*` factors hold for every α. `single_primal` holds for one α and costs a Cholesky
factorisation instead of an eigendecomposition (paper 002): Λ = 1, D = 1. For dense models see
`holdfast.holdout.inverse`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import lapack, solve_triangular

from holdfast._typing import FloatArray, IntArray
from holdfast.exceptions import KernelError
from holdfast.linalg import Deflation, eigh, not_definite
from holdfast.smoother.moments import RowScale
from holdfast.smoother.systems import (
    DualSystem,
    FeatureRows,
    PrimalSystem,
    StreamedRows,
    rotate,
    transform,
)


@dataclass(frozen=True)
class Factor:
    """Rows of a smoother in coordinates where the penalised normal equations are diagonal.

    Attributes
    ----------
    V : ndarray or StreamedRows of shape (m, p)
        Coordinates of the rows, times √w. Rows of weight zero hold their output coordinates.
    Lambda : ndarray of shape (p,)
        Eigenvalues; the bias, if any, is the last coordinate and has 1.
    penalised : ndarray of shape (p,)
        1 where α adds to Λ, else 0.
    scale : RowScale
    dual : bool
        Whether I − S is α V D' Vᵀ (dense models) or I − V D Vᵀ.
    bias : bool
    N : ndarray of shape (n, p) or None
        Coefficients of the basis rows from coordinates, for removal.
    z : ndarray of shape (p, v) or None
        Vᵀ√w Y of all targets; None: see `project`.
    """

    V: FeatureRows
    Lambda: FloatArray
    penalised: FloatArray
    scale: RowScale
    dual: bool
    bias: bool
    N: FloatArray | None = None
    z: FloatArray | None = None

    @property
    def parallel(self) -> bool:
        """Whether several threads may ask for rows at the same time."""
        return not isinstance(self.V, StreamedRows) or self.V.features.parallel

    def D(self, alphas: FloatArray) -> FloatArray:
        """Return 1/(Λ + α·penalised), shape (a, p)."""
        shifted = self.Lambda + alphas[:, None] * self.penalised
        if self.Lambda.min() < 0:  # an indefinite kernel, declared as such
            _check_shift(shifted, alphas)
        return np.asarray(1.0 / shifted)

    def residual_D(self, D: FloatArray) -> FloatArray:
        """Return the diagonal of the residual map: D, without the bias in the dual form."""
        if not (self.dual and self.bias):
            return D
        D = D.copy()
        D[:, -1] = 0.0
        return D

    def project(self, Ys: FloatArray, columns: slice) -> FloatArray:
        """Return z = Vᵀ√w Y for some targets, given √w Y of those targets."""
        if self.z is not None:
            return self.z[:, columns]
        assert not isinstance(self.V, StreamedRows)
        return np.asarray(self.V.T @ Ys)

    def outputs(self, rows: IntArray, V: FloatArray) -> FloatArray:
        """Return the unscaled output coordinates of rows from V[rows]: f = out · D (z − V_Hᵀ r_H).

        May be `V` itself; do not overwrite.
        """
        root, trained = self.scale.root[rows][..., None], self.scale.trained[rows][..., None]
        if not self.dual:
            return V if self.scale.uniform else V / root
        return np.asarray(np.where(trained, V * (self.Lambda / root), V))


def spectral_primal(system: PrimalSystem) -> Factor:
    """Return the factor of a primal system for every α."""
    rotated = rotate(system)
    return Factor(
        V=rotated.W,
        Lambda=rotated.gram,
        penalised=rotated.penalised,
        scale=rotated.scale,
        dual=False,
        bias=rotated.bias,
        N=rotated.N,
        z=rotated.z,
    )


def single_primal(system: PrimalSystem, alpha: float) -> Factor:
    """Return the factor of a primal system for one α, by Cholesky: V = W L⁻ᵀ, S = V Vᵀ."""
    gram = np.diag(system.gram) if system.gram.ndim == 1 else system.gram
    inner = gram[system.inner, system.inner]
    L = _cholesky(inner + alpha * np.eye(len(inner)), alpha)
    inverse = solve_triangular(L, np.eye(len(L)), lower=True, check_finite=False)
    scaled = transform(system, inverse.T)
    one, none = np.ones(scaled.z.shape[0]), np.zeros(scaled.z.shape[0])
    return Factor(
        scaled.W, one, none, scaled.scale, dual=False, bias=scaled.bias, N=scaled.N, z=scaled.z
    )


def spectral_dual(system: DualSystem) -> Factor:
    """Return the factor of a dense model for every α, from one eigendecomposition.

    Notes
    -----
    Papers 003 (16) and 004 (4). With a bias the direction q is deflated by a Householder
    reflection first, so the null vector q never mixes with the null space of K. Cost: one
    eigendecomposition of size m; memory two m × m matrices.
    """
    K, deflation = deflated_kernel(system)
    Lambda, V = eigh(K, overwrite=True)
    if system.definite:
        # Rounding is relative to the kernel before the bias was taken out of it.
        _check_definite(Lambda, float(system.scale.root**2 @ np.abs(np.diag(system.K))))
        Lambda = np.maximum(Lambda, 0.0)
    penalised = np.ones(Lambda.size)
    if deflation is not None:
        V = _with_bias(deflation.lift(V), system)
        Lambda, penalised = np.append(Lambda, 1.0), np.append(penalised, 0.0)
    factor = Factor(V, Lambda, penalised, system.scale, dual=True, bias=system.bias)
    return _all_rows(factor, system)


def deflated_kernel(system: DualSystem) -> tuple[FloatArray, Deflation | None]:
    """Return √w K √w over the trained rows, without the direction q if there is a bias."""
    live, root = system.scale.trained, system.scale.root
    K = system.K.copy() if live.all() else system.K[np.ix_(live, live)]
    if not np.all(root == 1.0):
        K *= root[live, None]
        K *= root[None, live]
    if not system.bias:
        return K, None
    deflation = Deflation(system.scale.q[live])
    return deflation.symmetric(K), deflation


def _with_bias(V: FloatArray, system: DualSystem) -> FloatArray:
    return np.hstack([V, system.scale.q[system.scale.trained, None]])


def _all_rows(factor: Factor, system: DualSystem) -> Factor:
    """Return the factor with a row for every row of the data, also those of weight zero."""
    live = system.scale.trained
    if live.all():
        return factor
    m, p = live.size, factor.Lambda.size
    extra = output_rows(factor, system.K[np.ix_(live, live)], system.K[np.ix_(~live, live)])
    assert isinstance(factor.V, np.ndarray)  # a dense model is never streamed
    V = np.empty((m, p))
    V[live], V[~live] = factor.V, extra
    return replace(factor, V=V)


def output_rows(factor: Factor, K_train: FloatArray, K_new: FloatArray) -> FloatArray:
    """Return output coordinates of new rows of a dense model.

    Parameters
    ----------
    factor : Factor
        Dual factor with one row of V per trained row.
    K_train : ndarray of shape (m, m)
        Kernel of the trained rows with each other.
    K_new : ndarray of shape (k, m)
        Kernel of the new rows with the trained rows.

    Notes
    -----
    The dual coefficients are c = V D z, so f(x) = k(x, ·)√w V D z + bias, and the bias follows
    from the optimality conditions multiplied by q: its coordinates are −qᵀ√wK√w V/‖√w‖.
    """
    assert isinstance(factor.V, np.ndarray)  # a dense model is never streamed
    scale = factor.scale
    root, q = scale.root[scale.trained], scale.q[scale.trained]
    if not factor.bias:
        return np.asarray((K_new * root) @ factor.V)
    V = factor.V[:, :-1]
    centre = ((q * root) @ K_train * root) @ V / scale.norm
    rows = np.empty((K_new.shape[0], factor.V.shape[1]))
    rows[:, :-1] = (K_new * root) @ V - centre
    rows[:, -1] = 1.0 / scale.norm
    return rows


def _cholesky(A: FloatArray, alpha: float) -> FloatArray:
    L, info = lapack.dpotrf(A, lower=1, clean=1)
    if info != 0:
        raise not_definite(alpha, info, len(A))
    return np.asarray(L)


def _check_shift(shifted: FloatArray, alphas: FloatArray) -> None:
    """Refuse a penalty that meets a negative eigenvalue: K + αI is singular there."""
    nearest = np.abs(shifted).min(axis=1)
    if (nearest < 1e-10 * np.abs(shifted).max()).any():
        raise KernelError(
            f"the kernel is indefinite and has an eigenvalue at −{alphas[np.argmin(nearest)]:.3g}, "
            "so the system at that alpha is singular. Use other alphas, or a positive "
            "semidefinite kernel."
        )


def _check_definite(Lambda: FloatArray, trace: float) -> None:
    """Refuse an indefinite kernel matrix: the penalised problem has no minimum there."""
    low, high = float(Lambda[0]), float(np.abs(Lambda).max())
    if low < -100.0 * np.finfo(float).eps * max(Lambda.size * high, trace):
        raise KernelError(
            "the kernel matrix is not positive semidefinite: its smallest eigenvalue is "
            f"{low:.3g} against a largest of {high:.3g}, so kernel least squares has no minimum. "
            "Use a positive semidefinite kernel, computed in float64."
        )
