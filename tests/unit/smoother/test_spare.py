"""Stacks that are filled up: spare rows and spare constraints change nothing."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from holdfast.experiments import Ragged, Tasks
from holdfast.holdout.identity import residuals
from holdfast.kernels import RBF
from holdfast.kernels.matrix import KernelRows
from holdfast.smoother import (
    FeatureSmoother,
    HeldCoordinates,
    KernelSmoother,
    Unpenalised,
    WhitenedFeatures,
)

RNG = np.random.default_rng(4)
SPARE = np.array([[False, False, True], [False, True, True], [True, True, True]])


def rows(kappa, R=None, unit=1.0):
    V = unit * 0.2 * RNG.standard_normal((3, 3, 5))
    V[SPARE] = 0.0
    Y = RNG.standard_normal((3, 3, 2))
    Y[SPARE] = 0.0
    D = RNG.uniform(0.5, 1.0, size=(2, 5))
    R = D if R is None else R
    z = RNG.standard_normal((5, 2))
    more = {"unit": np.ones(2), "length": np.ones((2, 2)), "formed": None if kappa else np.zeros(2)}
    return HeldCoordinates(V=V, out=V, D=D, R=R, O=None, z=z, Y=Y, kappa=kappa, spare=SPARE, **more)


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_spare_rows_of_a_dense_model_have_a_diagonal_of_the_size_of_others(sign, unit):
    R = sign * np.array([[1.0, 2.0, 0.5, 1.0, 1.0], [0.1, 0.1, 0.2, 0.1, 0.1]])
    held = rows(0.0, R, unit)
    assert held.definite is (sign > 0)
    for piece in (slice(0, 3), slice(1, 3)):
        found = held.gaps(piece)
        for i, k in np.ndindex(found.shape[:2]):
            V = held.V[piece][i]
            expected = (V * R[k]) @ V.T
            size = np.abs(np.diag(expected)).max()
            spare = np.flatnonzero(SPARE[piece][i])
            expected[spare, spare] = size if size > 0.0 else 1.0
            assert_allclose(found[i, k], expected, rtol=1e-12, atol=1e-14 * unit**2)


def test_spare_rows_of_features_have_a_diagonal_of_one():
    held = rows(1.0)
    found = held.gaps(slice(0, 3))
    for i, k in np.ndindex(3, 2):
        expected = np.eye(3) - (held.V[i] * held.R[k]) @ held.V[i].T
        assert_allclose(found[i, k], expected, rtol=1e-12, atol=1e-15)
    r = residuals(held, np.inf).r
    assert_array_equal(r[:, SPARE], 0.0)
    part = held.among(np.array([2, 0]))
    assert_array_equal(part.spare, SPARE[[2, 0]])
    assert_array_equal(part.gaps(slice(0, 2)), found[[2, 0]])


M = 40
X = RNG.normal(size=(M, 2))
Y = np.c_[np.sin(X[:, 0]), X[:, 1]]
HELD = [range(7), range(7, 13), range(13, 20), range(20, 26)]
REMOVED = [[0, 1, 2], [3, 4], [5, 6, 7], [8, 9]]


def tasks(removed):
    sets = [Ragged.from_arrays([np.array(s, dtype=np.int64) for s in sets]) for sets in (
        HELD, REMOVED if removed else [[]] * 4, HELD
    )]  # fmt: skip
    return Tasks(*sets, np.arange(4))


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("form", ["dense", "sparse", "sparse, removed"])
def test_sizes_side_by_side_are_what_they_are_alone(form, bias):
    weights = RNG.uniform(0.5, 2.0, size=M)
    unpenalised = Unpenalised.bias(weights, bias)
    if form == "dense":
        smoother = KernelSmoother(KernelRows(RBF(0.3), X), weights, Y, unpenalised)
    else:
        features = WhitenedFeatures.of(KernelRows(RBF(0.3), X), np.arange(16), 1e-8)
        smoother = FeatureSmoother(features, weights, Y, unpenalised)
    factor, alphas = smoother.factor(0.1), np.array([0.1, 3.0])
    assert factor.fills
    some = tasks(form.endswith("removed"))
    (filled,) = some.stacks(1, 10**6, fill=True)
    assert filled.spare is not None
    held = factor.held(filled, alphas)
    r = residuals(held, np.inf).r
    f = held.predict(r)
    for shape in some.stacks(1, 10**6):
        alone = factor.held(shape, alphas)
        r_alone = residuals(alone, np.inf).r
        f_alone = alone.predict(r_alone)
        h = shape.H.shape[1]
        for i, j in enumerate(shape.index.tolist()):
            k = filled.index.tolist().index(j)
            assert_allclose(r[:, k, :h], r_alone[:, i], rtol=1e-9, atol=1e-11)
            assert_allclose(f[:, k, :h], f_alone[:, i], rtol=1e-9, atol=1e-11)
            assert_array_equal(r[:, k, h:], 0.0)
