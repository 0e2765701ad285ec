"""The Gaussian view: how likely the held-out targets were.

With noise variance σ²/w and prior covariance (σ²/α)k the held-out targets are normal about their
predictions, with the covariances of `holdfast.core.gaussian`. The log density of a group is

    −½(|H| log 2πσ² + log det C + rᵀC⁻¹r/σ²),      C = (I − S_HH)⁻¹

(Rasmussen & Williams 2006, §5.4.2; for groups Ginsbourger & Schärer 2024), and σ̂² = Σ rᵀC⁻¹r / Σ|H|
makes their sum largest.
"""

from __future__ import annotations

import numpy as np

from holdfast._typing import FloatArray, IntArray
from holdfast.core.gaussian import SecondMoments

__all__ = [
    "density_rows",
    "density_splits",
    "log_densities",
    "standard_deviations",
]


def log_densities(moments: SecondMoments) -> FloatArray:
    """Return the joint log density (a, J, v) of the test rows of each experiment."""
    noise = moments.noise[:, None]
    n = moments.count[None, :, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        level = np.log(2.0 * np.pi * noise)
        found = n * level + moments.log_det[..., None] + moments.square / noise
    return np.asarray(-0.5 * found)


def standard_deviations(moments: SecondMoments) -> FloatArray:
    """Return the standard deviation (a, k, v) of each tested row's target."""
    return np.sqrt(moments.variance[..., None] * moments.noise[:, None])


def density_rows(moments: SecondMoments, owners: IntArray) -> FloatArray:
    """Return values (a, k, v) of the test rows whose mean is the score of `density_splits`.

    Rows that are tested together share their joint log density equally.
    """
    share = log_densities(moments) / np.maximum(1, moments.count)[:, None]
    return np.asarray(share[:, owners])


def density_splits(moments: SecondMoments) -> tuple[FloatArray, FloatArray]:
    """Return the score "log_density" of each target, pooled (a, v) and by experiment (a, J, v).

    The mean log density per row, of joint densities where an experiment tests several rows; nan
    for an experiment that tests none.
    """
    total, size = log_densities(moments), moments.count.astype(float)  # (a, J, v)
    used = size > 0
    splits = np.full(total.shape, np.nan)
    splits[:, used] = total[:, used] / size[used, None]
    return total[:, used].sum(axis=1) / size.sum(), splits
