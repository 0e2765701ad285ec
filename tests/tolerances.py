"""How close is close: one function owns the tolerances of the exactness tests.

A comparison names what is compared, not a number. Differences are norm-wise: the largest
difference over the largest expected value, so that a prediction that happens to be near zero
does not ask for digits that no arithmetic has.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

Comparison = Literal["retraining", "law", "printed"]

#: Holdfast may be this many times less accurate than whitened retraining in float64, …
ORACLE_FACTOR = 30.0
#: … where errors below this count as this (both round their answers).
ORACLE_FLOOR = 1e-14


def tolerance(comparison: Comparison) -> float:
    """Return the largest relative difference that a comparison allows.

    ``"retraining"``: held-out predictions of a well-conditioned model against really training
    again. ``"law"``: two runs of the package that must agree. ``"printed"``: formulas of the
    papers as printed, which lose digits of their own, on a well-conditioned model.
    """
    return {"retraining": 1e-10, "law": 1e-10, "printed": 1e-8}[comparison]


def relative_difference(got: ArrayLike, expected: ArrayLike) -> float:
    """Return max |got − expected| / max |expected| for arrays of one shape."""
    a, b = np.asarray(got, dtype=float), np.asarray(expected, dtype=float)
    assert a.shape == b.shape, f"shapes {a.shape} and {b.shape}"
    assert b.size, "nothing to compare"
    scale = np.abs(b).max()
    return float(np.abs(a - b).max() / (scale if scale > 0 else 1.0))


def assert_close(
    got: ArrayLike, expected: ArrayLike, comparison: Comparison, context: object = ""
) -> None:
    """Assert that two arrays agree as closely as the comparison asks."""
    difference = relative_difference(got, expected)
    assert difference <= tolerance(comparison), f"{difference:.1e} apart ({comparison}) {context}"
