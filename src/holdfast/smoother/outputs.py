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
from holdfast.smoother.scale import Centre

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
    u : ndarray of shape (s,)
        The unpenalised columns of any row: a bias is the same everywhere.
    """

    features: Features
    B: Centre
    T: FloatArray
    u: FloatArray

    @property
    def size(self) -> int:
        """The number p + s of coordinates."""
        return int(self.B.shape[1]) + self.u.size

    def __call__(self, X: Any) -> FloatArray:
        """Return [(φ(x) − uB)T, u]."""
        block = self.features.new_rows(X)
        if self.u.size:
            block -= self.u @ self.B.first
            block -= self.u @ self.B.rest
        block = block @ self.T
        if not self.u.size:
            return block
        return np.hstack([block, np.broadcast_to(self.u, (len(block), self.u.size))])


@dataclass(frozen=True)
class KernelOutputs(Outputs):
    """Kernel values with the trained rows, then the unpenalised columns.

    Attributes
    ----------
    data : KernelData
    rows : ndarray of int
        The trained rows.
    u : ndarray of shape (s,)
    """

    data: KernelData
    rows: IntArray
    u: FloatArray

    @property
    def size(self) -> int:
        """Trained rows and unpenalised columns."""
        return self.rows.size + self.u.size

    def __call__(self, X: Any) -> FloatArray:
        """Return [k(x, ·), u]."""
        block = self.data.predict_block(X, self.rows)
        if not self.u.size:
            return block
        return np.hstack([block, np.broadcast_to(self.u, (len(block), self.u.size))])
