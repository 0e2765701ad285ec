"""Parameters of kernels, how they are changed, and derivatives by their logarithms."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.gaussian_process import kernels as gp

from holdfast.exceptions import InvalidInputError, NotSupportedError
from holdfast.kernels import (
    RBF,
    Constant,
    Cosine,
    FunctionKernel,
    Laplacian,
    Linear,
    Matern,
    Normalised,
    Polynomial,
    Product,
    Scaled,
    SklearnKernel,
    Sum,
    Tanimoto,
)
from holdfast.kernels.grid import NAMED, kernel_grid
from holdfast.kernels.products import RowPair

WIDTHS = (0.2, 0.7, 0.4)
DIFFERENTIABLE = [
    RBF(0.3),
    RBF(WIDTHS),
    Matern(0.5, 0.3),
    Matern(1.5, 0.3),
    Matern(2.5, WIDTHS),
    Linear(),
    Cosine(),
    Constant(2.0),
    3.0 * RBF(0.3),
    RBF(0.3) + Matern(1.5, 0.2),
    RBF(0.3) * Matern(0.5, WIDTHS),
    0.5 * Linear() + 2.0 * (RBF(0.3) * Matern(2.5, 0.1)) + 0.7,
    RBF(0.3) * (2.0 * Linear() + 1.0) * (0.1 * RBF(WIDTHS)),
]
OTHERS = [Laplacian(0.3), Polynomial(2, 0.3), Normalised(RBF(1.0) + 1.0)]


def rows(m=9, n=6, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(m, 3)) + 2.0, rng.normal(size=(n, 3)) + 2.0, rng.normal(size=(m, n))


@pytest.mark.parametrize("kernel", DIFFERENTIABLE, ids=str)
@pytest.mark.parametrize("kind", ["dense", "sparse", "symmetric"])
def test_pullback_is_the_derivative_by_log_parameters(kernel, kind):
    X, Z, P = rows()
    if kind == "sparse":
        X, Z = sp.csr_matrix(X), sp.csr_matrix(Z)
    if kind == "symmetric":
        Z, P = None, rows(9, 9)[2]
    K, pullback = kernel.value_and_pullback(X, Z)
    np.testing.assert_allclose(K, kernel(X, Z), rtol=1e-13)
    K[:] = np.nan  # the caller may overwrite it
    found = pullback(P)
    assert tuple(found) == kernel.positive_parameters
    for name, slope in found.items():
        value = np.atleast_1d(kernel.parameters[name])
        assert slope.shape == value.shape
        for j in range(value.size):
            step = np.zeros(value.size)
            step[j] = 1e-5
            up, down = (value * np.exp(sign * step) for sign in (1.0, -1.0))
            ends = [v[0] if v.size == 1 else v for v in (up, down)]
            high, low = (np.vdot(P, kernel.with_params(**{name: end})(X, Z)) for end in ends)
            assert slope[j] == pytest.approx((high - low) / 2e-5, rel=1e-6, abs=1e-8)


def test_kernels_of_one_pair_share_its_distances(monkeypatch):
    from holdfast.kernels import products

    calls = []
    original = products.distance_matrix
    monkeypatch.setattr(
        products, "distance_matrix", lambda *args: calls.append(1) or original(*args)
    )
    X, Z, _ = rows()
    pair = RowPair(X, Z)
    for gamma in (0.1, 1.0):
        (RBF(gamma) + Matern(1.5, gamma)).value_and_pullback(pair)
    assert len(calls) == 1


@pytest.mark.parametrize("kernel", OTHERS, ids=str)
def test_kernels_without_derivatives_say_so(kernel):
    X, Z, _ = rows()
    for made in (kernel, kernel + RBF(1.0), 2.0 * kernel):
        assert not made.differentiable
        with pytest.raises(NotSupportedError, match="derivatives"):
            made.value_and_pullback(X, Z)


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
