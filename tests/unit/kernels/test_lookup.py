"""Kernel values looked up in a matrix: the same models as with a precomputed kernel."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import holdfast
from holdfast import KernelRidgeCV
from holdfast.exceptions import InvalidInputError
from holdfast.kernels import RBF, Lookup

pytestmark = pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")
RNG = np.random.default_rng(0)
PLACES = RNG.normal(size=(50, 2))
K = RBF(gamma=0.3)(PLACES)
TRAIN, NEW = np.arange(10, 50), np.arange(10)
Y = np.sin(PLACES[:, 0]) + 0.1 * RNG.normal(size=50)


def test_values():
    kernel, rows = Lookup(K), RNG.integers(0, 50, size=(7, 1))
    np.testing.assert_array_equal(kernel(rows, TRAIN[:, None]), K[np.ix_(rows[:, 0], TRAIN)])
    np.testing.assert_array_equal(kernel(sp.csr_array(rows)), K[np.ix_(rows[:, 0], rows[:, 0])])
    np.testing.assert_array_equal(kernel.diag(rows), np.diag(K)[rows[:, 0]])
    kernel(rows)[:] = 0.0  # free to be overwritten
    np.testing.assert_array_equal(kernel.matrix, K)


@pytest.mark.filterwarnings("ignore:The targets that fit")
@pytest.mark.parametrize("basis", [None, [0, 3, 20]])
def test_models_are_those_of_the_rows_themselves(basis):
    options = {"alphas": [0.01, 0.1, 1.0], "cv": 5, "basis": basis}
    found = KernelRidgeCV(Lookup(K), **options).fit(TRAIN[:, None], Y[TRAIN])
    same = KernelRidgeCV(RBF(gamma=0.3), **options).fit(PLACES[TRAIN], Y[TRAIN])
    np.testing.assert_allclose(found.held_out().values, same.held_out().values, rtol=1e-9)
    mine = found.predict(NEW[:, None], return_std=True)
    theirs = same.predict(PLACES[NEW], return_std=True)
    np.testing.assert_allclose(mine, theirs, rtol=1e-9)
    for method in ("plus", "full"):
        bounds = found.predict_interval(NEW[:, None], method=method)
        np.testing.assert_allclose(bounds, same.predict_interval(PLACES[NEW], method=method))


def test_a_sum_with_another_kernel():
    kernel = Lookup(K) + 0.5
    model = KernelRidgeCV(kernel, alphas=[0.1]).fit(TRAIN[:, None], Y[TRAIN])
    again = KernelRidgeCV("precomputed", alphas=[0.1]).fit(K[np.ix_(TRAIN, TRAIN)] + 0.5, Y[TRAIN])
    expected = again.predict(K[np.ix_(NEW, TRAIN)] + 0.5)
    np.testing.assert_allclose(model.predict(NEW[:, None]), expected, rtol=1e-9)


def test_it_is_a_value(tmp_path):
    kernel = Lookup(K)
    assert clone(kernel) is kernel
    assert kernel == Lookup(K.tolist()) == pickle.loads(pickle.dumps(kernel))
    assert hash(kernel) == hash(Lookup(K))
    assert kernel != Lookup(K + np.eye(50))
    assert kernel != "linear"
    assert repr(kernel) == "Lookup(<50 × 50 matrix>)"
    assert kernel.parameters == {}
    with pytest.raises(ValueError, match="read-only"):
        kernel.matrix[0] = 1.0
    model = KernelRidgeCV(kernel, alphas=[0.1]).fit(TRAIN[:, None], Y[TRAIN])
    model.save(tmp_path / "m.holdfast")
    again = holdfast.load(tmp_path / "m.holdfast")
    assert again.kernel_ == kernel
    np.testing.assert_array_equal(again.predict(NEW[:, None]), model.predict(NEW[:, None]))


@pytest.mark.parametrize(
    ("matrix", "words"),
    [
        (K[:4], r"square .* \(4, 50\)"),
        (K[0], "square"),
        (np.empty((0, 0)), "square"),
        ([[np.nan]], "finite"),
        ([["a"]], "square"),
        ([[1.0, 0.5], [0.4, 1.0]], "symmetric"),
    ],
)
def test_matrices_that_are_refused(matrix, words):
    with pytest.raises(InvalidInputError, match=words):
        Lookup(matrix)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([[50]], "from 0 to 49; got 50"),
        ([[-1]], "got -1"),
        ([[0.5]], "got 0.5"),
        ([[0, 1]], "one column"),
    ],
)
def test_rows_that_are_no_row_numbers(rows, words):
    with pytest.raises(InvalidInputError, match=words):
        Lookup(K)(rows)
