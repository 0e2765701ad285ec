"""Seeds from users."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from holdfast.exceptions import InvalidInputError

__all__ = ["seed_of"]


def seed_of(random_state: Any) -> int:
    """Return a seed from what scikit-learn's ``check_random_state`` takes, or a NumPy generator.

    None: the next number of NumPy's global generator, which ``np.random.seed`` sets.
    """
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31))
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool):
        if random_state >= 0:
            return int(random_state)
    elif random_state is None or isinstance(random_state, np.random.RandomState):
        return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
    raise InvalidInputError(
        "random_state must be None, a whole number from 0 up, a RandomState or a NumPy generator; "
        f"got {random_state!r}.",
        argument="random_state",
    )
