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

#: What the package promises: its algebra adds at most this, over the yardstick, …
PROMISE = 1e-6
#: … beside this many times the rounding error that it predicts, or the error of retraining.
TIMES = 10.0
#: Errors below this count as this where two are compared: both round their answers.
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


def yardstick_error(got: ArrayLike, exact: ArrayLike, y: ArrayLike) -> float:
    """Return the largest error over max(spread of y, |exact − mean of y|), targets last."""
    a, b, targets = (np.asarray(values, dtype=float) for values in (got, exact, y))
    assert a.shape == b.shape, f"shapes {a.shape} and {b.shape}"
    size = np.maximum(targets.std(axis=0), np.abs(b - targets.mean(axis=0)))
    return float((np.abs(a - b) / size).max())


def allowed(rounding: float, retrained: float = 0.0) -> float:
    """Return how large an error may be, given what was predicted and what retraining has."""
    return max(PROMISE + TIMES * rounding, TIMES * retrained)


def assert_close(
    got: ArrayLike, expected: ArrayLike, comparison: Comparison, context: object = ""
) -> None:
    """Assert that two arrays agree as closely as the comparison asks."""
    difference = relative_difference(got, expected)
    assert difference <= tolerance(comparison), f"{difference:.1e} apart ({comparison}) {context}"
