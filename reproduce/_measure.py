"""Timing and small statistics that several experiments share."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from reproduce._verdicts import timing_noise

Floats = NDArray[np.float64]
T = TypeVar("T")


def powers_of_two(first: int, last: int) -> Floats:
    """Return 2^first … 2^last."""
    return np.exp2(np.arange(first, last + 1, dtype=np.float64))


@contextmanager
def one_core() -> Iterator[None]:
    """Let the numerical libraries use one core, as the papers' timings did."""
    with threadpool_limits(limits=1):
        yield


def timed(work: Callable[[], T], trials: int = 1) -> tuple[T, list[float]]:
    """Return what `work` gives back and the CPU seconds that each of `trials` calls took.

    Notes
    -----
    CPU time, as in paper 000: it does not grow when other programs want the machine too.
    """
    seconds = []
    for _ in range(trials):
        start = time.process_time()
        result = work()
        seconds.append(time.process_time() - start)
    return result, seconds


class Clock:
    """A clock that times jobs several times each, and knows the noise of what it has timed.

    Parameters
    ----------
    trials : int
        How often each job is timed.
    """

    def __init__(self, trials: int) -> None:
        self.trials = trials
        self.every: list[list[float]] = []

    def __call__(self, work: Callable[[], T]) -> tuple[T, list[float]]:
        """Return what a job gives back and the CPU seconds of its trials."""
        result, seconds = timed(work, self.trials)
        self.every.append(seconds)
        return result, seconds

    @property
    def noise(self) -> float:
        """Standard error of the logarithm of a time, pooled over all jobs."""
        return timing_noise(self.every)


def relative_difference(a: Floats, b: Floats) -> float:
    """Return ``|a - b| / |b|`` in the Euclidean norm."""
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))
