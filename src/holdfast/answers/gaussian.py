"""The Gaussian view: how likely the held-out targets were.

With noise variance σ²/w and prior covariance (σ²/α)k the held-out targets are normal about their
predictions, with the covariances of `holdfast.holdout.spread`. The log density of a group is

    −½(|H| log 2πσ² + log det C + rᵀC⁻¹r/σ²),      C = (I − S_HH)⁻¹

(Rasmussen & Williams 2006, §5.4.2; for groups Ginsbourger & Schärer 2024), and σ̂² = Σ rᵀC⁻¹r / Σ|H|
makes their sum largest. CRPS of a normal distribution: Gneiting & Raftery 2007, (21).
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from holdfast._typing import FloatArray, IntArray
from holdfast.holdout.spread import Spread
from holdfast.scores.scoring import Scores, summarise

__all__ = [
    "crps",
    "crps_slopes",
    "density_rows",
    "density_scores",
    "log_densities",
    "standard_deviations",
]


def log_densities(spread: Spread) -> FloatArray:
    """Return the joint log density (a, J, v) of the test rows of each experiment."""
    noise = spread.noise[:, None]
    n = spread.count[None, :, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        level = np.log(2.0 * np.pi * noise) + 2.0 * np.log(spread.unit)
        found = n * level + spread.log_det[..., None] + spread.square / noise
    return np.asarray(-0.5 * found)


def standard_deviations(spread: Spread) -> FloatArray:
    """Return the standard deviation (a, k, v) of each tested row's target."""
    return np.sqrt(spread.variance[..., None] * spread.noise[:, None]) * spread.unit


def crps(errors: FloatArray, std: FloatArray) -> FloatArray:
    """Return the continuous ranked probability score of normal distributions; smaller is better."""
    z = errors / std
    density = np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi)
    return np.asarray(std * (z * (2.0 * ndtr(z) - 1.0) + 2.0 * density - 1.0 / np.sqrt(np.pi)))


def crps_slopes(errors: FloatArray, std: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the derivatives of `crps` by the error and by the standard deviation."""
    z = errors / std
    density = np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi)
    return 2.0 * ndtr(z) - 1.0, 2.0 * density - 1.0 / np.sqrt(np.pi)


def density_rows(name: str, spread: Spread, errors: FloatArray, owners: IntArray) -> FloatArray:
    """Return values (a, k, v) of the test rows whose mean is the score of `density_scores`.

    Rows that are tested together share their joint log density equally.
    """
    if name == "log_density":
        share = log_densities(spread) / np.maximum(1, spread.count)[:, None]
        return np.asarray(share[:, owners])
    return -crps(errors, standard_deviations(spread))


def density_scores(
    name: str, spread: Spread, errors: FloatArray, owners: IntArray, weights: FloatArray
) -> Scores:
    """Return the scores "log_density" or "crps" of held-out predictions; greater is better.

    Parameters
    ----------
    name : {"log_density", "crps"}
        Mean log density per row (of joint densities where an experiment tests several rows), or
        minus the weighted mean CRPS.
    spread : Spread
    errors : ndarray of shape (a, k, v)
    owners : ndarray of int, shape (k,)
        The experiment of each test row.
    weights : ndarray of shape (k,)
        Weights of the test rows; those of weight zero are left out.
    """
    if name == "log_density":
        total = log_densities(spread)  # (a, J, v)
        size = spread.count.astype(float)
    else:
        values = -crps(errors, standard_deviations(spread)) * weights[None, :, None]
        size = np.bincount(owners, weights=weights, minlength=spread.count.size)
        values = np.where(weights[:, None] > 0, values, 0.0)
        total = np.add.reduceat(values, np.searchsorted(owners, np.arange(size.size)), axis=1)
    used = size > 0
    by_target = total[:, used].sum(axis=1) / size.sum()  # (a, v)
    splits = np.full((len(total), size.size, total.shape[2]), np.nan)
    splits[:, used] = total[:, used] / size[used, None]
    return summarise(by_target, splits)
