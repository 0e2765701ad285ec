"""Influence and coefficients of several targets; pickles of what questions give back."""

import pickle
import warnings

import numpy as np
import pytest

from holdfast import KernelRidgeCV

RNG = np.random.default_rng(7)
X = RNG.normal(size=(40, 3))
Y = np.column_stack([X[:, 0] + 0.05 * RNG.normal(size=40), RNG.normal(size=40), np.sin(X[:, 1])])
WEIGHTS = RNG.uniform(0.2, 3.0, size=40)
WEIGHTS[[3, 17]] = 0.0
GROUPS = np.arange(40) % 7
ALPHAS = np.array([1e-3, 1e-1, 10.0])
EACH = {"alphas": ALPHAS, "alpha_per_target": True}


@pytest.mark.parametrize("basis", [None, np.arange(0, 40, 2)], ids=["dense", "basis"])
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weights"])
@pytest.mark.parametrize("groups", [None, GROUPS], ids=["rows", "groups"])
@pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")
def test_every_target_has_the_influence_of_its_own_penalty(basis, kernel, weights, groups):
    same = {"kernel": kernel, "gamma": 0.3, "basis": basis, "cv": 5}
    model = KernelRidgeCV(**EACH, **same).fit(X, Y, sample_weight=weights)
    assert np.unique(model.alpha_).size > 1
    found = model.influence(groups)
    frame = found.to_frame("pandas")
    for t, alpha in enumerate(model.alpha_):
        alone = KernelRidgeCV(alphas=[alpha], **same).fit(X, Y[:, t], sample_weight=weights)
        expected = alone.influence(groups)
        for name in ("leverage", "residual", "cook"):
            own = getattr(found, name)[:, t]
            np.testing.assert_allclose(own, getattr(expected, name), rtol=1e-7, atol=1e-9)
            np.testing.assert_array_equal(frame.loc[frame["target"] == t, name], own)


def test_one_penalty_for_all_targets_has_one_leverage():
    found = KernelRidgeCV(alphas=[0.1]).fit(X, Y).influence()
    assert found.leverage.shape == (40,)
    assert len(found.to_frame("pandas")) == 120


@pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")
def test_coefficients_without_rows_have_the_shape_of_the_fitted_ones():
    model = KernelRidgeCV("linear", **EACH).fit(X, Y)
    left = model.coef_without([1, 2])
    assert left.coef.shape == model.coef_.shape == (3, 3)
    np.testing.assert_allclose(
        X[:5] @ left.coef.T + left.intercept, model.predict_without([1, 2], X[:5]), rtol=1e-9
    )
    flat = KernelRidgeCV("linear", alphas=[0.1]).fit(X, Y[:, 0])
    assert flat.coef_without([1, 2]).coef.shape == flat.coef_.shape == (3,)


def test_influence_can_be_pickled():
    found = KernelRidgeCV(alphas=[0.1]).fit(X, Y).influence(GROUPS)
    again = pickle.loads(pickle.dumps(found))
    np.testing.assert_array_equal(again.cook, found.cook)


@pytest.mark.filterwarnings("ignore::holdfast.exceptions.HoldfastWarning")
@pytest.mark.parametrize("basis", [None, 8])
@pytest.mark.parametrize("value", [0.0, 1.0, 1 / 3])
def test_no_row_moves_the_model_of_a_constant_target(value, basis):
    model = KernelRidgeCV(alphas=[0.1], basis=basis, random_state=0)
    found = model.fit(X, np.full(len(X), value)).influence()
    assert (found.cook == 0).all()
    assert (found.residual == 0).all()
    assert "none of them moves" in repr(found)
    both = model.fit(X, np.c_[np.full(len(X), value), Y[:, 0]]).influence()
    assert (both.cook[:, 0] == 0).all()
    assert (both.cook[:, 1] > 0).all()
    assert "moves the model most" in repr(both)


def test_a_pickle_of_held_out_predictions():
    found = KernelRidgeCV(alphas=[0.1]).fit(X, Y).held_out()
    again = pickle.loads(pickle.dumps(found))
    np.testing.assert_array_equal(again.values, found.values)
    np.testing.assert_allclose(again.std, found.std, rtol=1e-10)
    known = pickle.loads(pickle.dumps(found))
    np.testing.assert_array_equal(known.std, found.std)


@pytest.mark.parametrize("method", ["plus", "gaussian"])
def test_intervals_of_a_frame_say_nothing_of_names(method):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = KernelRidgeCV(gamma=0.3, alphas=[0.1]).fit(frame, Y[:, 0])
    plain = KernelRidgeCV(gamma=0.3, alphas=[0.1]).fit(X, Y[:, 0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = model.predict_interval(frame, method=method)
    np.testing.assert_allclose(found, plain.predict_interval(X, method=method), rtol=1e-12)
