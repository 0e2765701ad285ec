"""The noisy sinusoid of paper 000 §6.3."""

from __future__ import annotations

import numpy as np

from reproduce.datasets._dataset import Dataset


def make_sinusoid(
    n_rows: int = 3000, noise: float = 2.0, seed: int | np.random.Generator = 0
) -> Dataset:
    """Return rows of ``y = sin(x) + noise``, x uniform on [-20, 20].

    Parameters
    ----------
    n_rows : int
        Number of rows.
    noise : float
        Standard deviation of the Gaussian noise.
    seed : int or Generator
        Source of chance.

    Notes
    -----
    Paper 000 §6.3.1 gives the interval, the noise (2) and the number of rows (3,000) and calls
    the function "a sinusoid": amplitude 1 and period 2π are our reading.
    """
    rng = np.random.default_rng(seed)
    x = rng.uniform(-20.0, 20.0, size=n_rows)
    y = np.sin(x) + noise * rng.standard_normal(n_rows)
    return Dataset(
        name="sinusoid",
        X=x[:, None],
        y=y,
        source="generated (sine of amplitude 1, period 2π, Gaussian noise)",
        feature_names=("x",),
    )
