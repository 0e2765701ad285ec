"""How `StandardScaler` before a linear model is repeated inside each experiment."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast._typing import FloatArray

__all__ = ["Scaling"]


@dataclass(frozen=True, eq=False)
class Scaling:
    """Columns in units of their standard deviation over the training rows.

    Attributes
    ----------
    weights : ndarray of shape (m,)
        Row weights of the standard deviation.
    """

    weights: FloatArray
