"""How sure the coefficients of a trend are if the noise of neighbouring rows is correlated.

A coefficient is linear in the targets, c = Py, so that its covariance is P Cov(y) Pᵀ. Wood (2024,
"On neighbourhood cross validation") estimates what Cov(y) has within neighbourhoods by products of
residuals, and takes residuals of models that never saw the neighbourhood: those of the fit are too
small, because the fit follows correlated noise. With N(i) what is held out to test row i,

    V = Σ_i Σ_{j∈N(i)} p_i p_jᵀ r_i r_j,

made symmetric, and without negative eigenvalues. Where whole groups are held out this is the
jackknife estimate that is robust to clusters (CR3); row by row, to unequal variances (HC3).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from holdfast._typing import FloatArray
from holdfast.answers.fitted import Fitted
from holdfast.exceptions import HoldOutError, NotSupportedError
from holdfast.experiments import Experiments
from holdfast.experiments.splits import check_groups

__all__ = ["trend_covariance"]

#: Columns of the identity that are targets at once.
BLOCK = 256


def trend_covariance(fitted: Fitted, cv: Any = None, groups: ArrayLike | None = None) -> FloatArray:
    """Return the covariance (s, s), or (v, s, s), of the coefficients of the trend."""
    problem, m = fitted.problem, fitted.problem.weights.size
    experiments = problem.experiments
    if cv is not None:
        known = problem.groups if groups is None else check_groups(groups, m)
        experiments = fitted.experiments_of(cv, known)
    tasks = fitted.model.tasks(experiments)
    tested = np.bincount(tasks.test.values, minlength=m)[problem.weights > 0]
    if (tested != 1).any():
        raise HoldOutError(
            "cv must test every row once, with its neighbourhood held out; got rows that are "
            f"tested {tested.min()} to {tested.max()} times. Pass LeaveNeighbourhoodOut, HBlock or "
            "LeaveOneGroupOut.",
            argument="cv",
        )
    errors = np.zeros(problem.Y.shape)
    errors[tasks.test.values] = problem.Y[tasks.test.values] - fitted.model.at(tasks, fitted.alphas)
    together = _neighbours(experiments, m)
    grid, index = np.unique(fitted.alphas, return_inverse=True)
    maps = [_of_targets(fitted, float(alpha)) for alpha in grid]
    found = [_without_negative(maps[i] * r, together) for i, r in zip(index, errors.T, strict=True)]
    return found[0] if problem.flat else np.stack(found)


def _neighbours(experiments: Experiments, m: int) -> sp.csr_array:
    """Return, for pairs of rows, how often one is held out to test the other, out of twice."""
    shape = len(experiments), m
    held, test = (
        sp.csr_array((np.ones(part.values.size), (part.owners, part.values)), shape=shape)
        for part in (experiments.held_out, experiments.test)
    )
    one_way = test.T @ held
    return 0.5 * (one_way + one_way.T)


def _of_targets(fitted: Fitted, alpha: float) -> FloatArray:
    """Return P (s, m), from targets to coefficients of the trend: unit vectors are the targets."""
    m, bias = fitted.problem.weights.size, int(fitted.problem.bias)
    found = np.empty((m, fitted.model.smoother.unpenalised.count))
    for start in range(0, m, BLOCK):
        rows = np.arange(start, min(m, start + BLOCK))
        units = np.zeros((m, rows.size))
        units[rows, np.arange(rows.size)] = 1.0
        model = fitted.model.retargeted(units)
        if model is None:
            raise NotSupportedError(
                "trend_covariance needs the rows in memory; this model was fitted on a Dask "
                "collection. Fit it on X.compute()."
            )
        found[rows] = model.smoother.fit(np.full(rows.size, alpha)).unpenalised.T
    return found[:, bias:].T


def _without_negative(moved: FloatArray, together: sp.csr_array) -> FloatArray:
    """Return Σ_ij together_ij moved_i moved_jᵀ, the nearest matrix without negative eigenvalues."""
    values, vectors = np.linalg.eigh(moved @ (together @ moved.T))
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)
