"""The criterion of a sparse model and its adjoint, with basis rows kept or removed.

Rows are taken to coordinates in which the penalised normal equations are the identity: with
K_BB + εI = C Cᵀ, W the weighted and centred rows K_{:B}C⁻ᵀ and WᵀW + αI = L Lᵀ,

    V = W L⁻ᵀ (and one column √w/‖√w‖ for the bias),   a = N θ with N = C⁻ᵀL⁻ᵀ.

The model without the rows H and the basis rows E is β = M(z − V_Hᵀr), z = Vᵀỹ, where M projects on
N_E β = 0 and (I − V_H M V_Hᵀ) r = ỹ_H − V_H M z (paper 000 Corollary 2 and Proposition 1). For a
criterion with ∂L/∂r = ρ on the test rows let (I − V_H M V_Hᵀ) μ = ρ and d = M V_Hᵀμ: d is the
adjoint of β. Holding rows out and removing basis rows both delete rows and columns of the saddle
matrix [[I, K̃_B], [K̃_Bᵀ, −αQ]], Q = K_BB + εI, so one formula covers both:

    ∂L/∂K̃_B = (Σ_j P_H(r_j d_jᵀ − μ_j β_jᵀ) − ỹ (Σ_j d_j)ᵀ + V Θ) Nᵀ
    ∂L/∂Q   = α/2 N Θ Nᵀ,     ∂L/∂α = ½ ⟨Θ, L⁻¹L⁻ᵀ⟩,     Θ = Σ_j d_jβ_jᵀ + β_jd_jᵀ

No Cholesky factor is differentiated, and nothing is larger than m × n.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg.blas import dtrmm
from scipy.linalg.lapack import dpotrf, dtrtri

from holdfast._typing import FloatArray, IntArray
from holdfast.linalg import Whitening, cholesky_basis, not_definite, orthonormal_rows
from holdfast.tuning.problem import Block, Problem
from holdfast.tuning.stacks import Definite

__all__ = ["SparseAdjoint", "evaluate_sparse"]


@dataclass(frozen=True)
class SparseAdjoint:
    """Derivatives of the criterion.

    Attributes
    ----------
    alpha : float
        ∂L/∂α.
    K : ndarray of shape (m, n)
        ∂L/∂K of the rows with the basis rows.
    K_BB : ndarray of shape (n, n)
        ∂L/∂K_BB, symmetric.
    """

    alpha: float
    K: FloatArray
    K_BB: FloatArray


@dataclass(frozen=True)
class _Coordinates:
    """Rows in coordinates where the penalised normal equations are the identity.

    Attributes
    ----------
    V : ndarray of shape (m, p)
        The last column is the bias, if there is one.
    Ys : ndarray of shape (m, v)
        √w y.
    z : ndarray of shape (v, p)
        ỹᵀV.
    N : ndarray of shape (n, n)
        Coefficients of basis rows from coordinates, upper triangular.
    L_inverse : ndarray of shape (n, n)
        L⁻¹, lower triangular.
    """

    V: FloatArray
    Ys: FloatArray
    z: FloatArray
    N: FloatArray
    L_inverse: FloatArray

    def constraints(self, E: IntArray) -> FloatArray | None:
        """Return orthonormal bases (b, p, e) of the rows N_E, or None if nothing is removed."""
        b, e = E.shape
        if e == 0:
            return None
        n = len(self.N)
        O = np.zeros((b, self.V.shape[1], e))  # noqa: E741  # the design's name for it
        if e == 1:
            rows = self.N[E[:, 0]]
            O[:, :n, 0] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
            return O
        for j, positions in enumerate(E):
            O[j, :n] = orthonormal_rows(self.N[positions])
        return O


def evaluate_sparse(
    problem: Problem, K: FloatArray, K_BB: FloatArray, alpha: float, gradient: bool
) -> tuple[FloatArray, SparseAdjoint | None]:
    """Return the loss of each experiment (J,) and, if asked for, the adjoint.

    Parameters
    ----------
    problem : Problem
    K : ndarray of shape (m, n)
        Kernel of the rows with the basis rows; overwritten.
    K_BB : ndarray of shape (n, n)
        Kernel of the basis rows.
    alpha : float
    gradient : bool

    Notes
    -----
    3 m n² flops for whitening, Gram matrix and coordinates, per experiment |H|² n + |H|³/3 or
    |H| n² + n³/3, whichever of |H| and n is smaller. The adjoint adds 3 m n² and
    2 n² min(J v, Σ|H|).
    """
    at = _coordinates(problem, K, K_BB, alpha)
    losses = np.empty(len(problem.tasks))
    adjoint = _Adjoint(at) if gradient else None
    for block in problem.blocks:
        _experiments(problem, at, block, losses, adjoint)
    return losses, None if adjoint is None else adjoint.finish(problem, alpha)


def _coordinates(problem: Problem, K: FloatArray, K_BB: FloatArray, alpha: float) -> _Coordinates:
    n = len(K_BB)
    w, root = problem.weights, np.sqrt(problem.weights)
    C = cholesky_basis(K_BB, problem.jitter * float(np.mean(np.diag(K_BB))))
    C_inverse = dtrtri(C, lower=1)[0]
    W = Whitening(C_inverse, inverted=True).rows(K, out=K)
    if problem.bias:
        W -= w @ W / w.sum()
    if not np.all(root == 1.0):
        W *= root[:, None]
    A = W.T @ W
    A[np.arange(n), np.arange(n)] += alpha
    L, info = dpotrf(A.T, lower=1, clean=1, overwrite_a=1)
    if info != 0:
        raise not_definite(alpha, info, n)
    L_inverse = np.asarray(dtrtri(L, lower=1)[0])
    V = Whitening(L_inverse, inverted=True).rows(W, out=W)
    if problem.bias:
        V = np.hstack([V, (root / np.linalg.norm(root))[:, None]])
    Ys = problem.Y * root[:, None]
    N = dtrmm(1.0, C_inverse, L_inverse.T, lower=1, trans_a=1)
    return _Coordinates(V, Ys, Ys.T @ V, np.asarray(N), L_inverse)


def _experiments(
    problem: Problem,
    at: _Coordinates,
    block: Block,
    losses: FloatArray,
    adjoint: _Adjoint | None,
) -> None:
    """Write the losses of one block of tasks, and hand their parts to the adjoint.

    V_M = V_H M throughout, so that M V_Hᵀ = V_Mᵀ. Small held-out sets solve |H| × |H| systems;
    large ones p × p systems T = I − V_MᵀV_M, the identity on what M takes away.
    """
    V, z, Y = at.V[block.H], at.z, at.Ys[block.H]  # (b, h, p), (v, p), (b, h, v)
    O = at.constraints(block.E)  # noqa: E741  # the design's name for it
    if O is not None:
        V -= (V @ O) @ O.swapaxes(1, 2)
        z = z - (z @ O) @ O.swapaxes(1, 2)  # (b, v, p)
    Vt = V.swapaxes(1, 2)
    h, p = V.shape[1:]
    direct = h <= p
    M = _squares(V) if direct else Vt @ V
    np.negative(M, out=M)
    M[:, np.arange(M.shape[1]), np.arange(M.shape[1])] += 1.0
    system = Definite(M)
    if direct:
        r = system.solve(Y - _products(V, z))
        beta = z - _transposed(r, V)
    else:
        beta = system.solve((z - _transposed(Y, V)).swapaxes(1, 2)).swapaxes(1, 2)
        r = Y - _products(V, beta)
    tested = block.tested(r)
    losses[block.source] = np.einsum("btv,btv->b", tested, tested) / problem.test_weight
    if adjoint is None:
        return
    rho = block.scattered(2.0 / problem.test_weight * tested)
    if direct:
        mu = system.solve(rho)
        d = _transposed(mu, V)
    else:
        d = system.solve(_transposed(rho, V).swapaxes(1, 2)).swapaxes(1, 2)
        mu = rho + _products(V, d)
    adjoint.add(block, V, r, mu, beta, d)


def _squares(V: FloatArray) -> FloatArray:
    """Return V Vᵀ (b, h, h) for V (b, h, p)."""
    if V.shape[1] == 1:
        return np.asarray(np.einsum("bhp,bhp->bh", V, V))[:, :, None]
    return np.asarray(V @ V.swapaxes(1, 2))


def _products(V: FloatArray, z: FloatArray) -> FloatArray:
    """Return V zᵀ (b, h, v) for V (b, h, p) and z (v, p) or (b, v, p)."""
    b, h, p = V.shape
    if z.ndim == 2:  # one product for all tasks
        return np.asarray(V.reshape(b * h, p) @ z.T).reshape(b, h, -1)
    if h == 1:
        return np.asarray(np.einsum("bhp,bvp->bhv", V, z))
    return np.asarray(V @ z.swapaxes(1, 2))


def _transposed(r: FloatArray, V: FloatArray) -> FloatArray:
    """Return rᵀ V (b, v, p) for r (b, h, v) and V (b, h, p)."""
    if r.shape[1] == 1:
        return np.asarray(r.swapaxes(1, 2) * V)
    return np.asarray(r.swapaxes(1, 2) @ V)


class _Adjoint:
    """Collects the sums over experiments, then returns the derivatives."""

    def __init__(self, at: _Coordinates) -> None:
        self.at = at
        p = at.V.shape[1]
        self.rows = np.zeros_like(at.V)  # Σ_j P_H (r_j d_jᵀ − μ_j β_jᵀ)
        self.Theta = np.zeros((p, p))  # Σ_j d_j β_jᵀ, before it is made symmetric
        self.d = np.zeros_like(at.z)  # Σ_j d_j

    def add(
        self,
        block: Block,
        V: FloatArray,
        r: FloatArray,
        mu: FloatArray,
        beta: FloatArray,
        d: FloatArray,
    ) -> None:
        """Take up the tasks of one block; V (b, h, p) is V_H M."""
        p = V.shape[2]
        pulled = _outer(mu, beta)  # (b, h, p)
        # Σ_v d βᵀ = V_Mᵀ (Σ_v μ βᵀ): of the two, the form with fewer rows.
        if mu.shape[1] <= mu.shape[2]:
            self.Theta += V.reshape(-1, p).T @ pulled.reshape(-1, p)
        else:
            self.Theta += d.reshape(-1, p).T @ beta.reshape(-1, p)
        self.d += d.sum(axis=0)
        part = _outer(r, d)
        part -= pulled
        if block.distinct:
            self.rows[block.H] += part
            return
        for rows, part_j in zip(block.H, part, strict=True):
            self.rows[rows] += part_j

    def finish(self, problem: Problem, alpha: float) -> SparseAdjoint:
        """Return the derivatives; the sums are used up."""
        at, n = self.at, len(self.at.N)
        Theta = self.Theta + self.Theta.T
        self.rows -= at.Ys @ self.d
        self.rows += at.V @ Theta
        K_bar = np.ascontiguousarray(self.rows[:, :n])
        inner = Theta[:n, :n].copy()
        N = np.asfortranarray(at.N)
        for factor in (K_bar, inner):  # factor Nᵀ, in place: its transpose is Fortran-ordered
            dtrmm(1.0, N, factor.T, lower=0, overwrite_b=1)
        slope = 0.5 * float(np.sum(Theta[:n, :n] * (at.L_inverse @ at.L_inverse.T)))
        K_bar *= np.sqrt(problem.weights)[:, None]
        return SparseAdjoint(slope, K_bar, 0.5 * alpha * (at.N @ inner))


def _outer(r: FloatArray, d: FloatArray) -> FloatArray:
    """Return Σ_v r dᵀ (b, h, p) for r (b, h, v) and d (b, v, p)."""
    if r.shape[2] == 1:
        return np.asarray(r * d)
    return np.asarray(r @ d)
