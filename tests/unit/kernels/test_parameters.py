"""Parameters of kernels and how they are changed."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process import kernels as gp

from holdfast.exceptions import InvalidInputError
from holdfast.kernels import (
    RBF,
    FunctionKernel,
    Linear,
    Matern,
    Normalised,
    Product,
    Scaled,
    SklearnKernel,
    Sum,
    Tanimoto,
)
from holdfast.kernels.grid import NAMED, kernel_grid


@pytest.mark.parametrize("name", list(NAMED))
def test_every_named_kernel_is_made_and_changed_from_one_table(name):
    expected = {"gamma": 0.5, "degree": 2, "coef0": 0.25}
    (found,) = kernel_grid(name, **expected, kernel_params=None, n_features=3)
    kernel = found.kernel
    for argument in NAMED[name].arguments:
        assert kernel.parameters[argument] == expected[argument]
    for parameter in kernel.positive_parameters:
        assert kernel.with_params(**{parameter: 3.0}).parameters[parameter] == 3.0
    assert kernel.with_params() == kernel


def test_parameters_of_parts_and_their_change():
    kernel = 0.5 * RBF(0.3) + Product((Matern(1.5, 0.2), Linear() + 1.0)) + Normalised(RBF(2.0))
    assert kernel.parameters == {
        "k1__factor": 0.5,
        "k1__kernel__gamma": 0.3,
        "k2__k1__nu": 1.5,
        "k2__k1__gamma": 0.2,
        "k2__k2__k2__value": 1.0,
        "k3__kernel__gamma": 2.0,
    }
    changed = kernel.with_params(k1__kernel__gamma=9.0, k2__k2__k2__value=4.0)
    assert changed == Sum(
        (Scaled(RBF(9.0), 0.5), Matern(1.5, 0.2) * (Linear() + 4.0), Normalised(RBF(2.0)))
    )
    assert kernel.parameters["k1__kernel__gamma"] == 0.3
    assert "k2__k1__nu" not in kernel.positive_parameters


def test_parameters_of_adapters():
    def overlap(X, Z, scale=1.0):
        return scale * np.minimum.outer(X[:, 0], Z[:, 0])

    kernel = FunctionKernel(overlap, {"scale": 2.0})
    assert kernel.with_params(scale=3.0) == FunctionKernel(overlap, {"scale": 3.0})
    wrapped = SklearnKernel(gp.RBF(0.5) + gp.ConstantKernel(2.0))
    changed = wrapped.with_params(k1__length_scale=4.0)
    assert changed == SklearnKernel(gp.RBF(4.0) + gp.ConstantKernel(2.0))


def test_unknown_and_impossible_parameters_are_refused():
    with pytest.raises(InvalidInputError, match="no parameter 'width'; its parameters: gamma"):
        RBF(1.0).with_params(width=2.0)
    with pytest.raises(InvalidInputError, match="k1__gamma"):
        (RBF(1.0) + Linear()).with_params(gamma=2.0)
    with pytest.raises(InvalidInputError, match="none"):
        Tanimoto().with_params(gamma=2.0)
    with pytest.raises(InvalidInputError, match="gamma must be"):
        RBF(1.0).with_params(gamma=-2.0)
