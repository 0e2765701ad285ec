"""Any model as one product: f(x) = v(x) · coefficients, for rows that a model has never met.

A smoother gives its `Outputs`, the map from rows to v(x), and coefficients in the same coordinates
(`Smoother.model`, `Smoother.held_models`). Many models, such as the held-out models of all
experiments, then predict by one matrix product.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast._typing import FloatArray, IntArray
from holdfast.kernels.matrix import KernelData
from holdfast.smoother.features import Features
from holdfast.smoother.scale import Centre, NewColumns

__all__ = ["FeatureOutputs", "KernelOutputs", "Outputs"]


class Outputs(ABC):
    """From rows to v(x), shape (k, q). Small, without the training rows that it does not need."""

    @property
    @abstractmethod
    def size(self) -> int:
        """The number q of coordinates."""

    @abstractmethod
    def __call__(self, X: Any) -> FloatArray:
        """Return v(x) of new rows, a fresh array (k, q)."""


@dataclass(frozen=True)
class FeatureOutputs(Outputs):
    """Features without their part along the unpenalised columns, then those columns.

    Attributes
    ----------
    features : Features
    B : Centre
        The features' part along the unpenalised columns.
    T : ndarray of shape (p, p)
        The map that follows.
    columns : NewColumns
        The unpenalised columns u(x).
    """

    features: Features
    B: Centre
    T: FloatArray
    columns: NewColumns

    @property
    def size(self) -> int:
        """The number p + s of coordinates."""
        return int(self.B.shape[1]) + self.columns.count

    def __call__(self, X: Any) -> FloatArray:
        """Return [(φ(x) − uB)T, u]."""
        block, u = self.features.new_rows(X), self.columns(X)
        if u.size:
            block -= u @ self.B.first
            block -= u @ self.B.rest
        return _beside(block @ self.T, u)


@dataclass(frozen=True)
class KernelOutputs(Outputs):
    """Kernel values with the trained rows, then the unpenalised columns.

    Attributes
    ----------
    data : KernelData
    rows : ndarray of int
        The trained rows.
    columns : NewColumns
        The unpenalised columns u(x).
    """

    data: KernelData
    rows: IntArray
    columns: NewColumns

    @property
    def size(self) -> int:
        """Trained rows and unpenalised columns."""
        return self.rows.size + self.columns.count

    def __call__(self, X: Any) -> FloatArray:
        """Return [k(x, ·), u]."""
        return _beside(self.data.predict_block(X, self.rows), self.columns(X))


def _beside(block: FloatArray, u: FloatArray) -> FloatArray:
    """Return the block (k, p) followed by u (k, s), or (1, s) for every row."""
    if not u.shape[1]:
        return block
    return np.hstack([block, np.broadcast_to(u, (len(block), u.shape[1]))])
