"""The criterion of a dense model and its adjoint.

With K̃ = √w K √w + αI and G its inverse (on the complement of the unpenalised columns Q), the dual
coefficients are c = G ỹ, ỹ = √w y, and the held-out residuals r = G_HH⁻¹ c_H (Cawley and Talbot
2004, §2.6; Tanaka and Imai 2019, (14); Pahikkala et al. 2006, (9)). For a criterion with ∂L/∂r = ρ
on the test rows, let G_HH μ = ρ. Because dG = −G dK̃ G, also on that complement,

    ∂L/∂K̃ = Σ_j G_{:H} μ_j (G_{:H} r_j − c)ᵀ

which is a product of two matrices with a column per experiment and target where experiments are
few, and G Ω G − (Gμ)cᵀ, with Ω made of the blocks μ_j r_jᵀ, where they are many (leave-one-out).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from holdfast._typing import FloatArray, IntArray
from holdfast.holdout.identity import HeldSystem
from holdfast.smoother import KernelSmoother
from holdfast.smoother.factor import InverseFactor
from holdfast.tuning.problem import Problem

__all__ = ["DenseAdjoint", "evaluate_dense"]


@dataclass(frozen=True)
class DenseAdjoint:
    """Derivatives of the criterion.

    Attributes
    ----------
    alpha : float
        ∂L/∂α.
    K : ndarray of shape (m, m)
        ∂L/∂K, not symmetric: only its sum with its transpose has a meaning.
    """

    alpha: float
    K: FloatArray


def evaluate_dense(
    problem: Problem, K: FloatArray, alpha: float, gradient: bool
) -> tuple[FloatArray, DenseAdjoint | None]:
    """Return the loss of each experiment (experiments,) and, if asked for, the adjoint.

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
    2 m² min(v times experiments, Σ|H|).
    """
    smoother = KernelSmoother(K, problem.weights, problem.Y, problem.unpenalised)
    factor = smoother.factor(alpha)
    assert isinstance(factor, InverseFactor)
    losses = np.empty(len(problem.tasks))
    adjoint = _Adjoint(factor.G, factor.c, problem) if gradient else None
    for block in problem.blocks:
        held = factor.held(block.shape, np.array([alpha]))
        system = HeldSystem(held)
        r = system.solve(held.errors()[0])
        tested = block.tested(r)
        losses[block.source] = np.einsum("btv,btv->b", tested, tested) / problem.test_weight
        if adjoint is not None:
            mu = system.solve(block.scattered(2.0 / problem.test_weight * tested))
            adjoint.add(block.H, r, mu, block.distinct)
    if adjoint is None:
        return losses, None
    root = smoother.scale.root
    K_bar = adjoint.finish()
    slope = float(np.trace(K_bar))
    K_bar *= root[:, None]
    K_bar *= root
    return losses, DenseAdjoint(slope, K_bar)


class _Adjoint:
    """Collects ∂L/∂K̃ task by task, in the cheaper of the two forms."""

    def __init__(self, G: FloatArray, c: FloatArray, problem: Problem) -> None:
        self.G, self.c = G, c
        held = problem.tasks.held.sizes
        self.low_rank = len(held) * c.shape[1] < int(held.sum())
        self.left: list[FloatArray] = []
        self.right: list[FloatArray] = []
        # Ω G, and Σ_j μ_j: only rows that are held out are not zero
        self.middle = np.zeros((0, 0)) if self.low_rank else np.zeros_like(G)
        self.mu = np.zeros_like(c)

    def add(self, H: IntArray, r: FloatArray, mu: FloatArray, distinct: bool) -> None:
        """Add the tasks of one block."""
        if self.low_rank:
            for rows, r_j, mu_j in zip(H, r, mu, strict=True):
                columns = self.G[rows].T
                self.left.append(columns @ mu_j)
                self.right.append(columns @ r_j - self.c)
            return
        if H.shape[1] == 1:
            part = np.einsum("bhv,bhv->bh", mu, r)[:, :, None] * self.G[H]
        else:
            part = (mu @ r.swapaxes(1, 2)) @ self.G[H]
        if distinct:
            self.middle[H] += part
            self.mu[H] += mu
            return
        for rows, part_j, mu_j in zip(H, part, mu, strict=True):
            self.middle[rows] += part_j
            self.mu[rows] += mu_j

    def finish(self) -> FloatArray:
        """Return ∂L/∂K̃."""
        if self.low_rank:
            return np.asarray(np.hstack(self.left) @ np.hstack(self.right).T)
        K_bar = self.G @ self.middle
        K_bar -= (self.G @ self.mu) @ self.c.T
        return K_bar
