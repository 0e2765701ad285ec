"""Seeds from users: one check for those that do not pass through scikit-learn's."""

from __future__ import annotations

from typing import Any

import numpy as np

from holdfast.exceptions import InvalidInputError

__all__ = ["generator"]


def generator(name: str, seed: Any) -> np.random.Generator:
    """Return a generator of random numbers for a whole number, a generator, or None (by chance)."""
    if isinstance(seed, np.random.Generator):
        return seed
    if isinstance(seed, np.random.RandomState):
        return np.random.default_rng(int(seed.randint(2**31)))
    whole = isinstance(seed, int | np.integer) and not isinstance(seed, bool) and seed >= 0
    if seed is not None and not whole:
        raise InvalidInputError(
            f"{name} must be a whole number from 0 up, a NumPy generator or None; got {seed!r}. "
            "Pass a number such as 0."
        )
    return np.random.default_rng(seed)
