"""`held_out()` after `fit` returns what `fit` computed, as long as that is small."""

import pickle

import numpy as np
import pytest
from sklearn.model_selection import GroupKFold, LeaveOneOut

from holdfast import KernelRidgeClassifierCV, KernelRidgeCV

pytestmark = pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")

RNG = np.random.default_rng(4)
X = RNG.normal(size=(60, 3))
Y = np.c_[np.sin(X[:, 0]), X[:, 1] * X[:, 2]] + 0.1 * RNG.normal(size=(60, 2))
GROUPS = np.arange(60) // 6


@pytest.mark.parametrize(
    "options",
    [
        {"cv": LeaveOneOut()},
        {"basis": 20, "cv": GroupKFold(5)},
        {"gamma": [0.1, 1.0]},
        {"basis": 10, "cv": 4, "held_out_basis": "skip"},
        {},
    ],
    ids=["dense", "groups", "widths", "skip", "classes"],
)
def test_what_is_kept_is_what_would_be_computed(options):
    kind, y = (KernelRidgeCV, Y) if options else (KernelRidgeClassifierCV, GROUPS % 3)
    options = {"alphas": [0.1, 1.0, 10.0], "cv": 5, "random_state": 0, **options}
    model = kind(**options).fit(X, y, groups=GROUPS)
    wanted = model.held_out(model._training.experiments)  # asked as any other experiments
    found = model.held_out()
    np.testing.assert_array_equal(found.alphas, wanted.alphas)
    np.testing.assert_array_equal(found.rows, wanted.rows)
    np.testing.assert_allclose(found.values, wanted.values, rtol=1e-10, atol=1e-12)


def test_an_extended_grid_is_in_the_order_of_its_penalties():
    y = X[:, 0]  # without noise the smallest penalty is best
    model = KernelRidgeCV(kernel="linear", cv=5).fit(X, y)
    assert "penalties added" in model.explain().facts
    values = model.held_out(model._training.experiments).values
    np.testing.assert_allclose(model.held_out().values, values, rtol=1e-8, atol=1e-12)


def test_changing_the_result_changes_nothing_else():
    model = KernelRidgeCV(alphas=[0.1, 1.0, 10.0]).fit(X, Y)
    first = model.held_out()
    first.values[...] = 0.0
    assert np.abs(model.held_out().values).max() > 0.1


def test_a_copy_computes_them_when_asked():
    model = KernelRidgeCV(alphas=[0.1, 1.0, 10.0]).fit(X, Y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_allclose(again.held_out().values, model.held_out().values, rtol=1e-10)
