"""`held_out()` after `fit` returns what `fit` computed, as long as that is small."""

import pickle

import numpy as np
import pytest
from sklearn.model_selection import GroupKFold, LeaveOneOut

from holdfast import KernelRidgeClassifierCV, KernelRidgeCV
from holdfast.answers import model as models
from holdfast.estimators import search

pytestmark = pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")

RNG = np.random.default_rng(4)
X = RNG.normal(size=(60, 3))
Y = np.c_[np.sin(X[:, 0]), X[:, 1] * X[:, 2]] + 0.1 * RNG.normal(size=(60, 2))
GROUPS = np.arange(60) // 6


@pytest.fixture
def no_second_time(monkeypatch):
    """Fail where held-out predictions are computed."""

    def refuse(*_, **__):
        raise AssertionError("computed again")

    return lambda: monkeypatch.setattr(models, "predict_with_error", refuse)


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
def test_nothing_is_computed_again(options, no_second_time):
    kind, y = (KernelRidgeCV, Y) if options else (KernelRidgeClassifierCV, GROUPS % 3)
    options = {"alphas": [0.1, 1.0, 10.0], "cv": 5, "random_state": 0, **options}
    model = kind(**options).fit(X, y, groups=GROUPS)
    wanted = model.held_out(model._problem.experiments)  # asked as any other experiments
    no_second_time()
    found = model.held_out()
    np.testing.assert_array_equal(found.alphas, wanted.alphas)
    np.testing.assert_array_equal(found.rows, wanted.rows)
    np.testing.assert_allclose(found.values, wanted.values, rtol=1e-10, atol=1e-12)
    with pytest.raises(AssertionError, match="computed again"):
        model.held_out(alphas=[2.0])


def test_an_extended_grid_is_in_the_order_of_its_penalties():
    y = X[:, 0]  # without noise the smallest penalty is best
    model = KernelRidgeCV(kernel="linear", cv=5).fit(X, y)
    assert "penalties added" in model.explain().facts
    values = model.held_out(model._problem.experiments).values
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


def test_many_are_not_kept(monkeypatch):
    monkeypatch.setattr(search, "KEPT_DOUBLES", 359)
    model = KernelRidgeCV(alphas=[0.1, 1.0, 10.0]).fit(X, Y)
    assert model._fitted_model().known is None
    assert model.held_out().values.shape == (3, 60, 2)
