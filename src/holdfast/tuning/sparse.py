"""The criterion of a sparse model and its adjoint, with basis rows kept or removed.

Rows are taken to coordinates in which the penalised normal equations are the identity: with
K_BB + εI = C Cᵀ, W the weighted and centred rows K_{:B}C⁻ᵀ and WᵀW + αI = L Lᵀ,

    V = W L⁻ᵀ (and the unpenalised columns Q),   a = N β with N = C⁻ᵀL⁻ᵀ.

The model without the rows H and the basis rows E is β = M(z − V_Hᵀr), z = Vᵀỹ, where M = I − OOᵀ
projects on N_E β = 0 and (I − V_H M V_Hᵀ) r = ỹ_H − V_H M z (Pahikkala et al. 2012 Corollary 2 and
Proposition 1). For a criterion with ∂L/∂r = ρ on the test rows let (I − V_H M V_Hᵀ) μ = ρ and
d = M V_Hᵀμ: d is the adjoint of β. Holding rows out and removing basis rows both delete rows and
columns of the saddle matrix [[I, K̃_B], [K̃_Bᵀ, −α(K_BB + εI)]], so one formula covers both:

    ∂L/∂K̃_B = (Σ_j P_H(r_j d_jᵀ − μ_j β_jᵀ) − ỹ (Σ_j d_j)ᵀ + V Θ) Nᵀ
    ∂L/∂K_BB = α/2 N Θ Nᵀ,    ∂L/∂α = ½ ⟨Θ, L⁻¹L⁻ᵀ⟩,     Θ = Σ_j d_jβ_jᵀ + β_jd_jᵀ

A criterion of the distribution of the tested rows also depends on I − V_H M V_Hᵀ itself. With the
adjoint −Ψ_j of that matrix (`holdfast.tuning.solved`), the first sum gains 2Ψ_j V_H M and Θ loses
2 M V_HᵀΨ_j V_H M. No Cholesky factor is differentiated, and nothing is larger than m × n.
"""

from __future__ import annotations

import numpy as np

from holdfast._typing import FloatArray
from holdfast.smoother import FeatureSmoother, HeldCoordinates
from holdfast.smoother.factor import FeatureFactor
from holdfast.smoother.features import KnownColumns
from holdfast.tuning.losses import walk
from holdfast.tuning.problem import Problem
from holdfast.tuning.solved import Slopes, Solved

__all__ = ["evaluate_sparse"]


def evaluate_sparse(
    problem: Problem, K: FloatArray, K_BB: FloatArray, alpha: float, gradient: bool
) -> tuple[FloatArray, tuple[float, FloatArray, FloatArray] | None]:
    """Return the loss of each experiment (experiments,), and if asked for ∂L/∂α, ∂L/∂K, ∂L/∂K_BB.

    Parameters
    ----------
    problem : Problem
    K : ndarray of shape (m, n)
        Kernel of the rows with the basis rows.
    K_BB : ndarray of shape (n, n)
        Kernel of the basis rows.
    alpha : float
    gradient : bool

    Notes
    -----
    3 m n² flops for whitening, Gram matrix and coordinates, per experiment |H|² n + |H|³/3 or
    |H| n² + n³/3, whichever of |H| and n is smaller. The adjoint adds 3 m n² and
    2 n² min(v times experiments, Σ|H|). Experiments past the promise are trained from scratch, as
    the estimator does; their part of the gradient is as accurate as it is.
    """
    epsilon = problem.jitter * float(np.mean(np.diag(K_BB)))
    features = KnownColumns.of(K, K_BB, epsilon)
    smoother = FeatureSmoother(features, problem.weights, problem.Y, problem.unpenalised)
    factor = smoother.single(alpha)
    adjoint = _Adjoint(factor) if gradient else None
    losses = walk(problem, smoother, factor, alpha, 1.0, adjoint)
    return losses, None if adjoint is None else adjoint.finish(problem, alpha)


class _Adjoint:
    """Collects the sums over experiments, then returns the derivatives."""

    def __init__(self, factor: FeatureFactor) -> None:
        assert isinstance(factor.V, np.ndarray)
        self.V, self.N, self.T, self.Ys = factor.V, factor.N, factor.T, factor.targets.Ys
        m, p = self.V.shape
        self.rows = np.zeros((m, p))  # Σ_j P_H (r_j d_jᵀ − μ_j β_jᵀ)
        self.Theta = np.zeros((p, p))  # Σ_j d_j β_jᵀ, before it is made symmetric
        self.d = np.zeros((factor.n_targets, p))  # Σ_j d_j

    def add(self, found: Solved, slopes: Slopes) -> None:
        """Add the tasks of one block."""
        block, held, r, mu = found.block, found.held, found.r, found.pull_residuals(slopes)
        assert isinstance(held, HeldCoordinates)
        V, p = held.constrained_rows(), held.row_size
        beta = held.betas(r[None], slice(0, len(V)))[:, 0]  # (b, v, p)
        d = mu.swapaxes(1, 2) @ V  # (b, v, p)
        pulled = mu @ beta  # (b, h, p)
        # Σ_v d βᵀ = V_Mᵀ (Σ_v μ βᵀ): of the two, the form with fewer rows.
        if mu.shape[1] <= mu.shape[2]:
            self.Theta += V.reshape(-1, p).T @ pulled.reshape(-1, p)
        else:
            self.Theta += d.reshape(-1, p).T @ beta.reshape(-1, p)
        self.d += d.sum(axis=0)
        part = r @ d - pulled
        if slopes.covariance is not None:
            pulled = found.pull_covariance(slopes.covariance, V)
            self.Theta -= V.reshape(-1, p).T @ pulled.reshape(-1, p)
            part += 2.0 * pulled
        block.add_rows(self.rows, part)

    def finish(self, problem: Problem, alpha: float) -> tuple[float, FloatArray, FloatArray]:
        """Return the derivatives; overwrites the sums."""
        n = len(self.N)
        Theta = self.Theta + self.Theta.T
        self.rows -= self.Ys @ self.d
        self.rows += self.V @ Theta
        N, inner = self.N[:, :n], Theta[:n, :n]
        K_bar = self.rows[:, :n] @ N.T
        slope = 0.5 * float(np.sum(inner * (self.T.T @ self.T)))
        K_bar *= np.sqrt(problem.weights)[:, None]
        return slope, K_bar, 0.5 * alpha * (N @ inner @ N.T)
