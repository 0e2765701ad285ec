"""Verdicts on noisy numbers: yes, no, or open; and the noise that decides it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: A difference counts when it is this many standard errors away from nothing.
BAND = 2.0

#: Least standard error of the logarithm of a CPU time: the clock and the memory have their own.
TIMING_FLOOR = 0.01

#: What stands for the error of a single repetition in files; no logarithm or MSE here is so large.
UNKNOWN = 300.0


def told(gap: float, noise: float, band: float = BAND) -> bool | None:
    """Return whether a difference is positive: yes, no, or None where its noise hides that.

    Parameters
    ----------
    gap : float
        The difference that the statement says is positive.
    noise : float
        Its standard error.
    band : float
        Standard errors on either side of zero within which it stays open.
    """
    if not gap > band * noise:
        return False if gap < -band * noise else None
    return True


def clearly_less(log: float, noise: float, least: float) -> bool | None:
    """Return whether a ratio is below 1: yes, no, or None where its noise hides that.

    Parameters
    ----------
    log, noise : float
        Logarithm of the ratio and its standard error.
    least : float
        A share that matters: if the ratio is known to be above 1 - `least`, the answer is no,
        however many repetitions would show a difference in the end.
    """
    if told(-log, noise):
        return True
    return False if told(log - float(np.log1p(-least)), noise) else None


def weakest(verdicts: Iterable[bool | None]) -> bool | None:
    """Return whether all hold: no if one does not, None if one is open."""
    found = list(verdicts)
    return False if False in found else None if None in found else True


def between(low: float, value: float, high: float, noise: float) -> bool | None:
    """Return whether a number with this standard error lies between two limits."""
    return weakest([told(value - low, noise), told(high - value, noise)])


def timing_noise(every: Iterable[Sequence[float]]) -> float:
    """Return the standard error of the logarithm of a CPU time, from the trials of all of them.

    Notes
    -----
    Pooled over everything that a run has timed: few trials of one job say little, those of all
    jobs together say how quiet the machine was.
    """
    found = [mean_and_error(np.log(trials))[1] for trials in every]
    pooled = float(np.sqrt(np.mean(np.square(found))))
    return finite(max(pooled, TIMING_FLOOR))


def times_between(low: float, ratio: float, high: float, noise: float) -> bool | None:
    """Return whether a ratio of two CPU times lies between two limits; 0 is no limit below.

    `noise` is that of each of the two times (`timing_noise`).
    """
    with np.errstate(divide="ignore"):
        bounds = np.log([low, ratio, high])
    return between(*bounds.tolist(), noise=float(np.sqrt(2.0)) * noise)


def slope_noise(x: Sequence[float], noise: float) -> float:
    """Return the standard error of the power of x that times with this noise grow with."""
    return noise / float(np.std(np.log(x)) * np.sqrt(len(x)))


def mean_and_error(values: Floats) -> tuple[Floats, Floats]:
    """Return mean and standard error over axis 0; one value alone tells nothing of its error."""
    if len(values) < 2:
        return values.mean(axis=0), np.full(values.shape[1:], np.inf)
    return values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(len(values))


def finite(error: float) -> float:
    """Return a standard error as JSON knows it: one that is unknown is a very large number."""
    return float(min(error, UNKNOWN))


def log_variances(values: Floats) -> tuple[Floats, Floats]:
    """Return log variances over axis 0, and what each repetition adds to their errors.

    Notes
    -----
    To first order log s² differs from log σ² by the mean of (x − μ)²/σ² − 1 over the r repetitions.
    The standard error of any sum of log variances is that of the mean of the same sum of these
    terms, also where numbers share their data.
    """
    mean, variance = values.mean(axis=0), values.var(axis=0, ddof=min(1, len(values) - 1))
    variance = np.maximum(variance, np.finfo(float).tiny)
    return np.log(variance), np.square(values - mean) / variance - 1.0


def log_ratio(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Return the log of the ratio of two variances over axis 0, and its standard error.

    The last line of both is the average over the other axes: (…) + 1 flat.
    """
    first, second = log_variances(a.reshape(len(a), -1)), log_variances(b.reshape(len(b), -1))
    ratio, terms = first[0] - second[0], first[1] - second[1]
    terms = np.column_stack([terms, terms.mean(axis=1)])
    return np.append(ratio, ratio.mean()), mean_and_error(terms)[1]
