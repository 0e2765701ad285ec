"""How much of the data each experiment leaves to train on.

Hold-out identities take the held-out rows away from sums over all rows. Their rounding errors are
eps times the size of *all* rows, while the answer depends on the training rows alone: where the
held-out rows carry most of the data (the first folds of a time series, one far-away group, an
outlier), the difference has lost digits that training on the few rows that are left keeps. That
is also the cheaper way then, so such experiments are trained directly on every path.

Likewise, coordinates that whiten all basis rows carry rounding errors in proportion to the
condition of K_BB. A model that loses many basis rows is often far better conditioned; it is
whitened by itself and fitted from scratch, at the price of one fit of the smaller model.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from holdfast._typing import BoolArray, FloatArray, IntArray
from holdfast.experiments import Tasks
from holdfast.holdout.sums import RowBlocks, weighted_sum
from holdfast.smoother.systems import DualSystem, PrimalSystem

#: Experiments that leave less than this share of the trace are trained on what they leave. Half
#: is where summing the rows that are left becomes cheaper than subtracting the others. A dense
#: system loses more, cond(K + αI) in place of that of the training rows, and is dearer per row.
LEAST_SHARE_PRIMAL, LEAST_SHARE_DUAL = 0.5, 0.75

#: Models that lose at least this share of their basis rows are whitened by themselves.
MOST_BASIS_REMOVED = 0.25


def few_left(
    system: PrimalSystem | DualSystem,
    tasks: Tasks,
    moment: Callable[[IntArray], float] | None = None,
) -> BoolArray:
    """Return for each task whether so little is left that it should be trained directly.

    Parameters
    ----------
    system : PrimalSystem or DualSystem
    tasks : Tasks
    moment : callable or None
        From held-out rows H to ‖s_H‖², where the rows of the system are out of reach.

    Notes
    -----
    The share is that of the trace of the Gram matrix of weighted, centred features. Without the
    held-out rows it has lost their part T_H and, because the mean moves, ‖s_H‖²/(1 − ω), where
    s_H = Σ_H q_i W_i and ω = Σ_H q_i². ‖s_H‖² ≤ ω T_H bounds that without s_H, so that ordinary
    folds cost one sum over the held-out rows.
    """
    dual = isinstance(system, DualSystem)
    norms, own = _dual(system) if isinstance(system, DualSystem) else _primal(system)
    moment = own if moment is None else moment
    held, scale = tasks.held, system.scale
    spare = 1.0 - (LEAST_SHARE_DUAL if dual else LEAST_SHARE_PRIMAL)
    spare *= float(norms[scale.trained].sum())

    def sums(values: FloatArray) -> FloatArray:
        weights = values[held.values]
        return np.bincount(held.owners, weights=weights, minlength=len(tasks)).astype(float)

    lost = sums(norms)
    if not system.bias:
        return np.asarray(lost > spare)
    left = np.maximum(1.0 - sums(scale.q**2), np.finfo(float).tiny)
    few = lost > left * spare  # the bound: nothing else needs s_H
    for j in np.flatnonzero(few).tolist():
        few[j] = lost[j] + moment(held[j]) / left[j] > spare
    return few


def basis_shrinks(tasks: Tasks, n_basis: int) -> BoolArray:
    """Return for each task whether so much of the basis leaves that it should be trained anew."""
    return np.asarray(tasks.removed.sizes >= MOST_BASIS_REMOVED * n_basis)


def _primal(system: PrimalSystem) -> tuple[FloatArray, Callable[[IntArray], float]]:
    """Return ‖W_i‖² of every row without the bias column, and ‖s_H‖² for held-out rows H."""

    def moment(held: IntArray) -> float:
        s = weighted_sum(RowBlocks(system.W, held), system.scale.q[held])[system.inner]
        return float(s @ s)

    return system.norms, moment


def _dual(system: DualSystem) -> tuple[FloatArray, Callable[[IntArray], float]]:
    """Return the same from the kernel matrix: W_i = √w_i (φ(x_i) − Σ_j p_j φ(x_j)), p = w/Σw."""
    K, root = system.K, system.scale.root
    share = system.scale.q**2 if system.bias else np.zeros(len(K))
    to_mean = K @ share
    centre = float(share @ to_mean)
    norms = np.abs(np.diag(K) - 2.0 * to_mean + centre) * root**2  # an indefinite K has signs

    def moment(held: IntArray) -> float:
        g = system.scale.q[held] * root[held]
        total = float(g.sum())
        inside = g @ (K[np.ix_(held, held)] @ g)
        return abs(float(inside - 2.0 * total * (g @ to_mean[held]) + total**2 * centre))

    return norms, moment
