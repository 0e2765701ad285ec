"""What the experiments of paper 002 share: its hyper-parameters and the choice of our own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import KFold

from holdfast import KernelRidgeCV, tune
from holdfast.basis import FeatureVectors
from holdfast.kernels import RBF
from reproduce._approaches import chosen, expected_warnings

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Reading:
    """One way to read a pair of printed hyper-parameters."""

    label: str
    gamma: float  # of exp(-gamma |x - x'|²)
    alpha: float  # the penalty λ


def ten_fold_squares(X: Floats, y: Floats, reading: Reading, seed: int) -> Floats:
    """Return the squared error of each row, held out in ten folds, by the dense model with bias."""
    folds = KFold(10, shuffle=True, random_state=seed)
    model = KernelRidgeCV(gamma=reading.gamma, alphas=[reading.alpha], cv=folds)
    with expected_warnings():
        model.fit(X, y)
    squares: Floats = np.square(model.held_out().matrix()[0, :, 0] - y)
    return squares


def choose(X: Floats, y: Floats, start: Reading, seed: int) -> Reading:
    """Return the hyper-parameters with the lowest ten-fold error, found as the paper did.

    Notes
    -----
    Nelder–Mead on the logarithms of both (paper 002 §3.1), from `start`.
    """
    folds = KFold(10, shuffle=True, random_state=seed)
    model = KernelRidgeCV(gamma=start.gamma, alphas=[start.alpha], cv=folds)
    with expected_warnings():
        found = tune(model, X, y, bounds={"alpha": (1e-6, 1e3)}, n_starts=1).params
    return Reading("chosen here by Nelder–Mead", found["gamma"], found["alpha"])


def select(
    X: Floats, y: Floats, gamma: float, selector: FeatureVectors, seed: int = 0
) -> tuple[Rows, Floats]:
    """Return the feature vectors in the order chosen, and the error after each."""
    model = chosen(selector, RBF(gamma), X, y, seed)
    return model.basis_indices_, model.basis_selector_.errors_
