"""What basis rows that leave take with them, in the coordinates of a factor."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from holdfast._typing import FloatArray, IntArray
from holdfast.smoother.features import Features

__all__ = ["Span"]


@dataclass(frozen=True)
class Span:
    """Bases of the rows N_E, from the features themselves.

    A map of all rows of N at once has rounded away what two nearly equal basis rows differ by. Here
    the difference is taken first.

    Attributes
    ----------
    features : Features
    T : ndarray of shape (p, p) or None
        The map from features to coordinates.
    basis : ndarray of int or None
        Which basis rows are numbered from 0 on; None for all.
    """

    features: Features
    T: FloatArray | None
    basis: IntArray | None = None

    def __call__(self, removed: IntArray) -> FloatArray:
        """Return columns (p, e) that span those rows of N."""
        O = self.features.span(removed if self.basis is None else self.basis[removed])  # noqa: E741
        return O if self.T is None else np.asarray(self.T.T @ O)
