"""Held-out predictions of a dense model from one inverse for each penalty.

An et al. (2007), paper 003 (14). With G = (K + αI)⁻¹ the model has the coefficients c = G y, and
without the rows H the others have

    c' = c − G_{·H} r_H,      G_HH r_H = c_H

(c'_H = 0: r_H are the held-out residuals). Predictions are those of the model with c', so that
nothing cancels at huge α. Rows are scaled by √w, and with a bias G is the inverse on what is
orthogonal to q = √w/‖√w‖: Gq = 0, so qᵀc = qᵀc' = 0.

Cost per α: m³ for the inverse, Σ_H |H|³/3 + 4|H| m v for v targets. The choice for a few
penalties; for more, one eigendecomposition or reduction serves them all.
"""

from __future__ import annotations

import numpy as np

from holdfast._typing import FloatArray
from holdfast.experiments import Shape, Tasks
from holdfast.holdout.spectral import STACK_DOUBLES
from holdfast.linalg import run_pieces, shifted_inverse, solve_systems
from holdfast.progress import Counter
from holdfast.smoother.factors import deflated_kernel
from holdfast.smoother.systems import DualSystem


def predict(system: DualSystem, Y: FloatArray, tasks: Tasks, alpha: float) -> FloatArray:
    """Return held-out predictions of all tasks at one penalty, shape (test rows, targets).

    Parameters
    ----------
    system : DualSystem
        Of a kernel that is positive semidefinite.
    Y : ndarray of shape (m, v)
    tasks : Tasks
    alpha : float
    """
    G = inverse(system, alpha)
    live, scale = system.scale.trained, system.scale
    root, q = scale.root[live], scale.q[live]
    Ys = scale.targets(Y)[live]
    c = G @ Ys
    place = np.cumsum(live) - 1  # of a trained row among the trained rows
    columns = slice(None) if live.all() else live
    centre = ((scale.q * scale.root) @ system.K)[columns] if system.bias else None  # qᵀ√wK
    predictions = np.empty((tasks.test.values.size, Y.shape[1]))
    done = Counter(len(tasks), "held-out experiments")

    def work(part: Shape) -> None:
        H = place[part.H]  # (b, h)
        G_H, c_H = G[H], c[H]  # (b, h, m) and (b, h, v)
        r = c_H
        if H.shape[1]:
            M = np.ascontiguousarray(np.take_along_axis(G_H, H[:, None], axis=2))
            r = solve_systems(M[:, None], c_H[:, None])[:, 0]
        weights = G_H.swapaxes(1, 2) @ r  # becoming c', (b, m, v)
        np.subtract(c, weights, out=weights)
        np.put_along_axis(weights, H[:, :, None], 0.0, axis=1)
        weights *= root[:, None]
        fitted = system.K[part.T][..., columns] @ weights  # (b, t, v)
        if centre is not None:
            # Over the rows that are left, qᵀ(y − Kc' − b√w) = α qᵀc' = 0 gives the bias b.
            same = part.H.shape == part.T.shape and np.array_equal(part.H, part.T)
            inside = fitted if same else system.K[part.H][..., columns] @ weights
            q_H = q[H][:, None]  # (b, 1, h)
            level = q @ Ys - (q_H @ Ys[H])[:, 0]
            level -= centre @ weights - (q_H * root[H][:, None] @ inside)[:, 0]
            level /= scale.norm * (1.0 - np.square(q_H).sum(axis=2))
            fitted += level[:, None]
        predictions[part.out] = fitted
        done.add(len(part.index))

    run_pieces(work, tasks.stacks(G.shape[0] * (1 + Y.shape[1]), STACK_DOUBLES))
    return predictions


def inverse(system: DualSystem, alpha: float) -> FloatArray:
    """Return G over the trained rows: I − S = αG."""
    K, deflation = deflated_kernel(system)
    G = shifted_inverse(K, alpha)
    return G if deflation is None else deflation.lift_symmetric(G)
