"""The criterion of dense and sparse models, and its adjoint: the derivatives by kernel values.

**Dense models.** With K̃ = √w K √w + αI and G its inverse (on the complement of the unpenalised
columns Q), the dual coefficients are c = G ỹ, ỹ = √w y, and the held-out residuals r = G_HH⁻¹ c_H
(Cawley and Talbot 2004, §2.6; Tanaka and Imai 2019, (14); Pahikkala et al. 2006, (9)). For a
criterion with ∂L/∂r = ρ on the test rows, let G_HH μ = ρ. Because dG = −G dK̃ G, also on that
complement,

    ∂L/∂K̃ = Σ_j G_{:H} μ_j (G_{:H} r_j − c)ᵀ

which is a product of two matrices with a column per experiment and target where experiments are
few, and G Ω G − (Gμ)cᵀ, with Ω made of the blocks μ_j r_jᵀ, where they are many (leave-one-out).

A criterion of the distribution of the tested rows also depends on I − S_HH = αG_HH itself. With the
adjoint −Ψ_j of that matrix (`holdfast.tuning.solved`), the blocks of Ω gain αΨ_j, and ∂L/∂α loses
⟨Ψ_j, G_HH⟩.

**Sparse models**, with basis rows kept or removed. Rows are taken to coordinates in which the
penalised normal equations are the identity: with K_BB + εI = C Cᵀ, W the weighted and centred rows
K_{:B}C⁻ᵀ and WᵀW + αI = L Lᵀ,

    V = W L⁻ᵀ (and the unpenalised columns Q),   a = N β with N = C⁻ᵀL⁻ᵀ.

The model without the rows H and the basis rows E is β = M(z − V_Hᵀr), z = Vᵀỹ, where M = I − OOᵀ
projects on N_E β = 0 and (I − V_H M V_Hᵀ) r = ỹ_H − V_H M z (Pahikkala et al. 2012 Corollary 2 and
Proposition 1). For a criterion with ∂L/∂r = ρ on the test rows let (I − V_H M V_Hᵀ) μ = ρ and
d = M V_Hᵀμ: d is the adjoint of β. Holding rows out and removing basis rows both delete rows and
columns of the saddle matrix [[I, K̃_B], [K̃_Bᵀ, −α(K_BB + εI)]], so one formula covers both:

    ∂L/∂K̃_B = (Σ_j P_H(r_j d_jᵀ − μ_j β_jᵀ) − ỹ (Σ_j d_j)ᵀ + V Θ) Nᵀ
    ∂L/∂K_BB = α/2 N Θ Nᵀ,    ∂L/∂α = ½ ⟨Θ, L⁻¹L⁻ᵀ⟩,     Θ = Σ_j d_jβ_jᵀ + β_jd_jᵀ

A criterion of the distribution also depends on I − V_H M V_Hᵀ itself. With the adjoint −Ψ_j of that
matrix the first sum gains 2Ψ_j V_H M and Θ loses 2 M V_HᵀΨ_j V_H M. No Cholesky factor is
differentiated, and nothing is larger than m × n.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from holdfast._typing import FloatArray
from holdfast.exceptions import KernelError
from holdfast.smoother import FeatureSmoother, HeldCoordinates, KernelSmoother
from holdfast.smoother.factor import FeatureFactor
from holdfast.smoother.features import KnownColumns
from holdfast.smoother.inverse import HeldInverse, InverseFactor
from holdfast.tuning.losses import walk
from holdfast.tuning.solved import Slopes, Solved

if TYPE_CHECKING:
    from holdfast.tuning.criterion import Criterion

__all__ = ["evaluate_dense", "evaluate_sparse"]


def evaluate_dense(
    criterion: Criterion, K: FloatArray, alpha: float, gradient: bool
) -> tuple[FloatArray, tuple[float, FloatArray] | None]:
    """Return the loss of each experiment (experiments,) and, if asked for, ∂L/∂α and ∂L/∂K.

    Of the latter (m, m) only the sum with its transpose has a meaning.

    Notes
    -----
    m³ flops for the inverse and Σ |H|³/3 for the held-out systems; the adjoint adds
    2 m² min(v times experiments, Σ|H|), that of a distribution 2 m² Σ|H| and 2 m Σ|H|². Experiments
    past the promise are trained from scratch, as the estimator does; the gradient is as it is.
    """
    problem = criterion.problem
    smoother = KernelSmoother(K, problem.weights, problem.Y, criterion.unpenalised)
    factor = smoother.single(alpha)
    if not isinstance(factor, InverseFactor):
        raise KernelError(
            f"the kernel matrix is not positive definite at alpha = {alpha:.3g}: its rounding "
            "errors are larger than the penalty. Use larger alphas, or scale the features.",
            argument="kernel",
            remedies=("alphas",),
        )
    adjoint = _OfDense(factor, criterion) if gradient else None
    losses = walk(criterion, smoother, factor, alpha, alpha, adjoint)
    return losses, None if adjoint is None else adjoint.finish()


class _OfDense:
    """Collects ∂L/∂K̃ task by task, in the cheaper of the two forms, over the trained rows."""

    def __init__(self, factor: InverseFactor, criterion: Criterion) -> None:
        self.G, self.c, self.penalty, self.scale = factor.G, factor.c, factor.alpha, factor.scale
        held = criterion.tasks.held.sizes
        # A distribution takes a column for each held-out row, however few the experiments are.
        self.low_rank = criterion.loss.separate and len(held) * self.c.shape[1] < int(held.sum())
        self.left: list[FloatArray] = []
        self.right: list[FloatArray] = []
        # Ω G, and Σ_j μ_j: only rows that are held out are not zero
        self.middle = np.zeros((0, 0)) if self.low_rank else np.zeros_like(self.G)
        self.mu = np.zeros_like(self.c)
        self.alpha = 0.0  # what ∂L/∂α has beside the trace of ∂L/∂K̃

    def add(self, found: Solved, slopes: Slopes) -> None:
        """Add the tasks of one block."""
        block, r, mu = found.block, found.r, found.pull_residuals(slopes)
        assert isinstance(found.held, HeldInverse)
        H = found.held.H
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
        block.add_rows(self.middle, part, H)
        block.add_rows(self.mu, mu, H)

    def finish(self) -> tuple[float, FloatArray]:
        """Return ∂L/∂α and ∂L/∂K."""
        if self.low_rank:
            K_bar = np.asarray(np.hstack(self.left) @ np.hstack(self.right).T)
        else:
            K_bar = self.G @ self.middle
            K_bar -= (self.G @ self.mu) @ self.c.T
        slope, live = float(np.trace(K_bar)) + self.alpha, self.scale.trained
        root = self.scale.root[live]
        K_bar *= root[:, None]
        K_bar *= root
        if self.scale.everything:
            return slope, K_bar
        whole = np.zeros((live.size, live.size))  # rows without weight change nothing
        whole[np.ix_(live, live)] = K_bar
        return slope, whole


def evaluate_sparse(
    criterion: Criterion, K: FloatArray, K_BB: FloatArray, alpha: float, gradient: bool
) -> tuple[FloatArray, tuple[float, FloatArray, FloatArray] | None]:
    """Return the loss of each experiment (experiments,), and if asked for ∂L/∂α, ∂L/∂K, ∂L/∂K_BB.

    K (m, n) is the kernel of the rows with the basis rows, K_BB (n, n) that of the basis rows.

    Notes
    -----
    3 m n² flops for whitening, Gram matrix and coordinates, per experiment |H|² n + |H|³/3 or
    |H| n² + n³/3, whichever of |H| and n is smaller. The adjoint adds 3 m n² and
    2 n² min(v times experiments, Σ|H|). Experiments past the promise are trained from scratch, as
    the estimator does; their part of the gradient is as accurate as it is.
    """
    problem = criterion.problem
    epsilon = problem.jitter * float(np.mean(np.diag(K_BB)))
    features = KnownColumns.of(K, K_BB, epsilon)
    smoother = FeatureSmoother(features, problem.weights, problem.Y, criterion.unpenalised)
    factor = smoother.single(alpha)
    adjoint = _OfSparse(factor) if gradient else None
    losses = walk(criterion, smoother, factor, alpha, 1.0, adjoint)
    return losses, None if adjoint is None else adjoint.finish(alpha)


class _OfSparse:
    """Collects the sums over experiments, then returns the derivatives."""

    def __init__(self, factor: FeatureFactor) -> None:
        assert isinstance(factor.V, np.ndarray)
        self.V, self.N, self.T, self.Ys = factor.V, factor.N, factor.T, factor.targets.Ys
        self.root = factor.scale.root * factor.scale.trained
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
        block.add_rows(self.rows, part, block.shape.H)

    def finish(self, alpha: float) -> tuple[float, FloatArray, FloatArray]:
        """Return the derivatives by α, K and K_BB; overwrites the sums."""
        n = len(self.N)
        Theta = self.Theta + self.Theta.T
        self.rows -= self.Ys @ self.d
        self.rows += self.V @ Theta
        N, inner = self.N[:, :n], Theta[:n, :n]
        K_bar = self.rows[:, :n] @ N.T
        slope = 0.5 * float(np.sum(inner * (self.T.T @ self.T)))
        K_bar *= self.root[:, None]
        return slope, K_bar, 0.5 * alpha * (N @ inner @ N.T)
