"""The covariance of held-out residuals of different experiments.

Under the Gaussian view the residuals of an experiment are r_H = G_HH⁻¹G_H· √w y with G = I − S, and
√w y has the covariance σ²G⁻¹ (apart from the unpenalised columns, which G does not see). So

    cov(r_H, r_H') = σ² G_HH⁻¹ G_HH' G_H'H'⁻¹

(Ginsbourger & Schärer 2024): residuals of different experiments are correlated, and a Q–Q plot of
them as they are says little. Through the root of G no difference of nearly equal numbers is formed.
"""

from __future__ import annotations

import numpy as np

from holdfast._typing import FloatArray
from holdfast.exceptions import NotSupportedError
from holdfast.experiments import Tasks
from holdfast.smoother import Smoother

__all__ = ["residual_covariance"]


def residual_covariance(smoother: Smoother, tasks: Tasks, alpha: float) -> FloatArray:
    """Return the covariance (k, k) of the residuals of all test rows, in units of σ².

    Rows of weight zero have no residual of known variance: nan.

    Raises
    ------
    NotSupportedError
        If basis rows leave with the rows that are held out, so that each experiment has a model of
        its own, or rows are on a cluster.
    """
    if tasks.removed.values.size:
        raise NotSupportedError(
            "residual_covariance is for experiments that share one model, and basis rows leave "
            'with the rows that are held out. Fit with held_out_basis="keep", or a dense model.',
            argument="held_out_basis",
        )
    root = smoother.scale.root
    whole = smoother.retargeted(np.diag(1.0 / root))
    if whole is None:
        raise NotSupportedError(
            "residual_covariance needs rows in memory; got rows that are not kept there."
        )
    half = whole.half_residuals(alpha) * whole.targets.unit  # the root of I − S
    G = half @ half
    rows = tasks.test.values
    found = np.empty((rows.size, root.size))
    for j in range(len(tasks)):
        held, test = tasks.held[j], tasks.test[j]
        solved = np.linalg.solve(G[np.ix_(held, held)], half[held])
        outside = half[test] - G[np.ix_(test, held)] @ solved  # of rows that stay in training
        inside = np.isin(test, held)
        order = np.argsort(held)
        outside[inside] = solved[order[np.searchsorted(held[order], test[inside])]]
        found[tasks.test.ptr[j] : tasks.test.ptr[j + 1]] = outside
    found /= root[rows, None]
    found[~smoother.scale.trained[rows]] = np.nan
    return np.asarray(found @ found.T)
