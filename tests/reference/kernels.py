"""Plain kernels: one function of two vectors each, and a double loop over rows.

``gamma`` is a number or one number per feature. Matern kernels have length scale
1/sqrt(2 gamma), so that gamma means what it means for the RBF kernel, their limit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Gamma = float | ArrayLike


def linear(x: Floats, z: Floats) -> float:
    """Return x'z."""
    return float(np.sum(x * z))


def poly(x: Floats, z: Floats, degree: float, gamma: float, coef0: float) -> float:
    """Return (gamma x'z + coef0)^degree."""
    return float((gamma * linear(x, z) + coef0) ** degree)


def rbf(x: Floats, z: Floats, gamma: Gamma) -> float:
    """Return exp(-s), s = sum_j gamma_j (x_j - z_j)^2."""
    return math.exp(-_squared_distance(x, z, gamma))


def laplacian(x: Floats, z: Floats, gamma: Gamma) -> float:
    """Return exp(-sum_j gamma_j |x_j - z_j|)."""
    return math.exp(-float(np.sum(np.asarray(gamma) * np.abs(x - z))))


def matern12(x: Floats, z: Floats, gamma: Gamma) -> float:
    """Return exp(-r), r = distance over length scale = sqrt(2 s)."""
    return math.exp(-_scaled_distance(x, z, gamma))


def matern32(x: Floats, z: Floats, gamma: Gamma) -> float:
    """Return (1 + t) exp(-t), t = sqrt(3) r."""
    t = math.sqrt(3.0) * _scaled_distance(x, z, gamma)
    return (1.0 + t) * math.exp(-t)


def matern52(x: Floats, z: Floats, gamma: Gamma) -> float:
    """Return (1 + t + t^2/3) exp(-t), t = sqrt(5) r."""
    t = math.sqrt(5.0) * _scaled_distance(x, z, gamma)
    return (1.0 + t + t * t / 3.0) * math.exp(-t)


def cosine(x: Floats, z: Floats) -> float:
    """Return x'z / (|x| |z|), zero when either is zero."""
    return normalised(x, z, kernel=linear)


def normalised(x: Floats, z: Floats, kernel: Callable[..., float], **params: Any) -> float:
    """Return k(x, z) / sqrt(k(x, x) k(z, z)) (Pahikkala et al. 2012 §6.4), or zero."""
    scale = math.sqrt(kernel(x, x, **params)) * math.sqrt(kernel(z, z, **params))
    return kernel(x, z, **params) / scale if scale else 0.0


KERNELS: dict[str, Callable[..., float]] = {
    "linear": linear,
    "poly": poly,
    "rbf": rbf,
    "laplacian": laplacian,
    "matern12": matern12,
    "matern32": matern32,
    "matern52": matern52,
    "cosine": cosine,
}


def gram(
    name: str | Callable[..., float], X: ArrayLike, Z: ArrayLike | None = None, /, **params: Any
) -> Floats:
    """Return the matrix of k(x, z) for rows x of X and z of Z (X itself by default)."""
    k = KERNELS[name] if isinstance(name, str) else name
    rows = np.asarray(X, dtype=np.float64)
    columns = rows if Z is None else np.asarray(Z, dtype=np.float64)
    return np.array([[k(x, z, **params) for z in columns] for x in rows], dtype=np.float64)


def _squared_distance(x: Floats, z: Floats, gamma: Gamma) -> float:
    return float(np.sum(np.asarray(gamma) * (x - z) ** 2))


def _scaled_distance(x: Floats, z: Floats, gamma: Gamma) -> float:
    return math.sqrt(2.0 * _squared_distance(x, z, gamma))
