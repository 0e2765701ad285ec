"""Examples for docs/formulas.md: what a function returns, and the same written naively in NumPy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

EXAMPLES: dict[str, Callable[[], None]] = {}


def example(*names: str):
    """Register an example of the functions with these names, below `holdfast`."""

    def register(function):
        for name in names:
            assert f"holdfast.{name}" not in EXAMPLES, name
            EXAMPLES[f"holdfast.{name}"] = function
        return function

    return register


def same(left, right, digits: int = 9) -> None:
    """Assert that two arrays agree, relative to the largest entry of the second."""
    right = np.asarray(right, dtype=float)
    scale = max(np.abs(right).max(initial=0.0), 1e-300)
    np.testing.assert_allclose(left, right, rtol=0, atol=10.0**-digits * scale)
