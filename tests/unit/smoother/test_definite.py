"""Kernel matrices that are not positive semidefinite are refused, whatever their unit."""

import numpy as np
import pytest

from holdfast import KernelRidgeCV
from holdfast.exceptions import KernelError

RNG = np.random.default_rng(4)
V = np.linalg.qr(RNG.normal(size=(12, 12)))[0]
Y = RNG.normal(size=12)


def fit(eigenvalues, unit):
    K = unit * (V * eigenvalues) @ V.T
    grid = unit * np.array([1e-3, 1.0, 1e3])
    return KernelRidgeCV(kernel="precomputed", alphas=grid, path="spectral").fit((K + K.T) / 2, Y)


@pytest.mark.parametrize("unit", [1e-12, 1.0, 1e12])
def test_negative_eigenvalues_are_refused(unit):
    # Two of them: taking the bias out can take one away.
    with pytest.raises(KernelError, match="not positive semidefinite"):
        fit(np.r_[-1e-6, -1e-6, np.linspace(0.1, 1.0, 10)], unit)


@pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")
@pytest.mark.parametrize("unit", [1e-12, 1.0, 1e12])
def test_eigenvalues_of_zero_are_not(unit):
    eigenvalues = np.r_[np.zeros(5), np.linspace(0.1, 1.0, 7)]
    here, there = fit(eigenvalues, unit), fit(eigenvalues, 1.0)
    np.testing.assert_allclose(here.held_out().values, there.held_out().values, atol=1e-9)
