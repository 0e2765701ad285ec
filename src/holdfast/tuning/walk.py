"""The walk over the experiments of a criterion: their losses, and what the adjoint needs of them.

Slopes of the squared error are known stack by stack. Those of a law need the noise variance, which
all experiments share: then the adjoint takes a second walk, and systems are factorised again rather
than kept.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from holdfast._typing import FloatArray
from holdfast.smoother import Smoother
from holdfast.smoother.factor import Factor
from holdfast.tuning.losses import LOSSES
from holdfast.tuning.problem import Block, Problem
from holdfast.tuning.solved import Slopes, Solved

__all__ = ["Adjoint", "walk"]


class Adjoint(Protocol):
    """Collects the derivatives by the kernel."""

    def add(self, found: Solved, slopes: Slopes) -> None:
        """Add those of stacked experiments."""


def walk(
    problem: Problem,
    smoother: Smoother,
    factor: Factor,
    alpha: float,
    scale: float,
    adjoint: Adjoint | None,
) -> FloatArray:
    """Return what each experiment adds to the criterion (experiments,), and tell the adjoint.

    Parameters
    ----------
    problem : Problem
    smoother, factor : Smoother, Factor
        Of all rows, at this penalty.
    alpha, scale : float
        The penalty, and what I − S_HH is in units of (`Solved`).
    adjoint : Adjoint or None

    Notes
    -----
    Experiments whose error passes the promise are trained from scratch, as the estimator does.
    """
    lost = np.zeros(len(problem.tasks), dtype=bool)
    loss = LOSSES[problem.goal.scoring](problem, smoother)

    def solved(block: Block) -> Solved:
        return Solved(block, factor.held(block.shape, np.array([alpha])), scale)

    for block in problem.blocks:
        found = solved(block)
        loss.add(found)
        root = factor.scale.root[block.H]
        lost[block.source] |= found.system.lost(factor.targets.spread, root)
        if adjoint is not None and loss.separate:
            adjoint.add(found, loss.slopes(found))
    if lost.any():
        loss.train(np.flatnonzero(lost), alpha)
    contributions = loss.contributions()
    if adjoint is not None and not loss.separate:
        for block in problem.blocks:
            found = solved(block)
            adjoint.add(found, loss.slopes(found))
    return contributions
