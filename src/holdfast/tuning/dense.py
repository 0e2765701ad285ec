"""The criterion of a dense model and its adjoint.

With K̃ = √w K √w + αI and G its inverse (on the complement of the unpenalised columns Q), the dual
coefficients are c = G ỹ, ỹ = √w y, and the held-out residuals r = G_HH⁻¹ c_H (Cawley and Talbot
2004, §2.6; Tanaka and Imai 2019, (14); Pahikkala et al. 2006, (9)). For a criterion with ∂L/∂r = ρ
on the test rows, let G_HH μ = ρ. Because dG = −G dK̃ G, also on that complement,

    ∂L/∂K̃ = Σ_j G_{:H} μ_j (G_{:H} r_j − c)ᵀ

which is a product of two matrices with a column per experiment and target where experiments are
few, and G Ω G − (Gμ)cᵀ, with Ω made of the blocks μ_j r_jᵀ, where they are many (leave-one-out).

A criterion of the distribution of the tested rows also depends on I − S_HH = αG_HH itself. With the
adjoint −Ψ_j of that matrix (`holdfast.tuning.solved`), the blocks of Ω gain αΨ_j, and ∂L/∂α loses
⟨Ψ_j, G_HH⟩.
"""

from __future__ import annotations

import numpy as np

from holdfast._typing import FloatArray
from holdfast.exceptions import KernelError
from holdfast.smoother import KernelSmoother
from holdfast.smoother.inverse import InverseFactor
from holdfast.tuning.losses import walk
from holdfast.tuning.problem import Problem
from holdfast.tuning.solved import Slopes, Solved

__all__ = ["evaluate_dense"]


def evaluate_dense(
    problem: Problem, K: FloatArray, alpha: float, gradient: bool
) -> tuple[FloatArray, tuple[float, FloatArray] | None]:
    """Return the loss of each experiment (experiments,) and, if asked for, ∂L/∂α and ∂L/∂K.

    Of the latter (m, m) only the sum with its transpose has a meaning.

    Parameters
    ----------
    problem : Problem
    K : ndarray of shape (m, m)
        Kernel of the rows.
    alpha : float
    gradient : bool

    Notes
    -----
    m³ flops for the inverse and Σ |H|³/3 for the held-out systems; the adjoint adds
    2 m² min(v times experiments, Σ|H|), that of a distribution 2 m² Σ|H| and 2 m Σ|H|². Experiments
    past the promise are trained from scratch, as the estimator does; the gradient is as it is.
    """
    smoother = KernelSmoother(K, problem.weights, problem.Y, problem.unpenalised)
    factor = smoother.single(alpha)
    if not isinstance(factor, InverseFactor):
        raise KernelError(
            f"the kernel matrix is not positive definite at alpha = {alpha:.3g}: its rounding "
            "errors are larger than the penalty. Use larger alphas, or scale the features.",
            argument="kernel",
            remedies=("alphas",),
        )
    adjoint = _Adjoint(factor, problem) if gradient else None
    losses = walk(problem, smoother, factor, alpha, alpha, adjoint)
    if adjoint is None:
        return losses, None
    root = smoother.scale.root
    K_bar = adjoint.finish()
    slope = float(np.trace(K_bar)) + adjoint.alpha
    K_bar *= root[:, None]
    K_bar *= root
    return losses, (slope, K_bar)


class _Adjoint:
    """Collects ∂L/∂K̃ task by task, in the cheaper of the two forms."""

    def __init__(self, factor: InverseFactor, problem: Problem) -> None:
        self.G, self.c, self.penalty = factor.G, factor.c, factor.alpha
        held = problem.tasks.held.sizes
        # A distribution takes a column for each held-out row, however few the experiments are.
        self.low_rank = problem.loss.separate and len(held) * self.c.shape[1] < int(held.sum())
        self.left: list[FloatArray] = []
        self.right: list[FloatArray] = []
        # Ω G, and Σ_j μ_j: only rows that are held out are not zero
        self.middle = np.zeros((0, 0)) if self.low_rank else np.zeros_like(self.G)
        self.mu = np.zeros_like(self.c)
        self.alpha = 0.0  # what ∂L/∂α has beside the trace of ∂L/∂K̃

    def add(self, found: Solved, slopes: Slopes) -> None:
        """Add the tasks of one block."""
        block, r, mu = found.block, found.r, found.pull_residuals(slopes)
        H = block.shape.H
        if self.low_rank:
            for rows, r_j, mu_j in zip(H, r, mu, strict=True):
                columns = self.G[rows].T
                self.left.append(columns @ mu_j)
                self.right.append(columns @ r_j - self.c)
            return
        part = (mu @ r.swapaxes(1, 2)) @ self.G[H]
        if slopes.covariance is not None:
            pulled = found.pull_covariance(slopes.covariance, self.penalty * self.G[H])
            self.alpha -= float(np.take_along_axis(pulled, H[:, :, None], 2).sum()) / self.penalty
            part += pulled
        block.add_rows(self.middle, part)
        block.add_rows(self.mu, mu)

    def finish(self) -> FloatArray:
        """Return ∂L/∂K̃."""
        if self.low_rank:
            return np.asarray(np.hstack(self.left) @ np.hstack(self.right).T)
        K_bar = self.G @ self.middle
        K_bar -= (self.G @ self.mu) @ self.c.T
        return K_bar
