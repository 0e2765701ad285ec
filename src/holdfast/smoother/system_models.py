"""Models of a system of features as coefficients, and what a Gaussian view needs of them."""

from __future__ import annotations

import numpy as np

from holdfast._typing import FloatArray
from holdfast.smoother.blocks import row_blocks
from holdfast.smoother.factor import FeatureFactor
from holdfast.smoother.features import Features
from holdfast.smoother.held import Held, HeldCoordinates
from holdfast.smoother.outputs import FeatureOutputs
from holdfast.smoother.scale import Unpenalised
from holdfast.smoother.system import FeatureSystem

__all__ = ["feature_models", "feature_outputs", "half_residuals"]


def feature_outputs(
    system: FeatureSystem, features: Features, unpenalised: Unpenalised
) -> FeatureOutputs:
    """Return v(x) in the coordinates of a system."""
    return FeatureOutputs(features, system.B, system.T, unpenalised.anywhere())


def feature_models(held: Held, r: FloatArray) -> FloatArray:
    """Return β (b, v, p + s) of the models with held-out residuals r."""
    assert isinstance(held, HeldCoordinates)
    return held.betas(r, slice(None))[:, 0]


def half_residuals(factor: FeatureFactor, alpha: float) -> FloatArray:
    """Return (I − S)^½ √w y (m, v), block by block."""
    D = factor.d(alpha)
    left = np.sqrt(alpha * D) * factor.penalised  # the root of 1 − Λ/(Λ + α)
    moved = (D / (1.0 + left))[:, None] * factor.z
    values = factor.Ys.copy()
    for rows in row_blocks(*factor.V.shape):
        values[rows] -= factor.V[rows] @ moved
    values[~factor.scale.trained] = 0.0
    return values
