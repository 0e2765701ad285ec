"""Metrics of scikit-learn for many targets at once, without the checks of each call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.metrics import mean_absolute_error, mean_squared_error, r2_score

from holdfast._typing import FloatArray

__all__ = ["Measure", "measure_of", "r2"]

#: From targets and predictions (t, n) to one number for each column.
Measure = Callable[[FloatArray, FloatArray], FloatArray]


def r2(truth: FloatArray, values: FloatArray) -> FloatArray:
    """Return R² of each column, for two rows or more."""
    rest = np.square(truth - values).sum(axis=0)
    spread = np.square(truth - truth.mean(axis=0)).sum(axis=0)
    # As `r2_score`: constant targets are predicted perfectly, or not at all.
    flat = spread == 0.0
    score = 1.0 - rest / np.where(flat, 1.0, spread)
    return np.where(flat, np.where(rest == 0.0, 1.0, 0.0), score)


MEASURES: dict[Any, Measure] = {
    r2_score: r2,
    mean_squared_error: lambda truth, values: np.square(truth - values).mean(axis=0),
    mean_absolute_error: lambda truth, values: np.abs(truth - values).mean(axis=0),
}


def measure_of(scorer: Any) -> Measure | None:
    """Return the function that a scorer of a regressor is, if it is known here."""
    if type(scorer).__name__ == "_PassthroughScorer":  # the default
        return r2
    sign, measure = getattr(scorer, "_sign", 1), MEASURES.get(getattr(scorer, "_score_func", None))
    if measure is None or scorer._kwargs:
        return None
    return lambda truth, values: sign * measure(truth, values)
