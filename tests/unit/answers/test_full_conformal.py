"""Full conformal intervals against models that are trained again for every target."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.model_selection import LeaveOneGroupOut

from holdfast import KernelRidgeClassifierCV, KernelRidgeCV
from holdfast.answers import full_conformal
from holdfast.exceptions import HoldfastWarning, NotSupportedError
from reference.answers import conformal_member
from tolerances import relative_difference

pytestmark = pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")
LEVELS = (0.5, 0.8, 0.95)


def data(m=32, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(m, 2))
    return X, np.sin(2 * X[:, 0]) + 0.3 * rng.standard_t(3, size=m)


def naive(estimator, X, y, new, weights=None):
    """Return a function (row, target, level) -> whether the target belongs to the set."""
    m = len(X)
    weights = np.ones(m) if weights is None else weights
    basis = None if estimator.basis is None else estimator.basis_indices_
    counted = [i for i in range(m) if weights[i] > 0 and (basis is None or i not in basis)]
    options = {
        "bias": estimator.fit_intercept,
        "basis": basis,
        "jitter": estimator.jitter_ if basis is not None else 0.0,
        "weights": np.append(weights, weights.max()),
    }

    def member(j, target, level):
        rows = np.vstack([X, new[j]])
        K = estimator.kernel_(rows, rows)
        return conformal_member(K, y, target, level, estimator.alpha_, counted, **options)

    return member


CASES = {
    "dense": {},
    "no bias": {"fit_intercept": False},
    "basis": {"basis": [0, 5, 9, 20, 21]},
    "basis, reselected": {"basis": 6, "held_out_basis": "reselect", "random_state": 0},
    "linear": {"kernel": "linear"},
    "wide": {"kernel": "poly", "degree": 2, "gamma": 1.0},
}


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weights 0 and 2"])
@pytest.mark.parametrize("case", CASES)
def test_ends_are_where_trained_models_say(case, weighted):
    """Just inside every end a target belongs to the set, just outside it does not."""
    X, y = data()
    weights = np.where(np.arange(len(y)) % 7 == 3, 0.0, 2.0) if weighted else None
    options = {"gamma": 0.5, "alphas": [0.01, 0.3], "cv": 4, **CASES[case]}
    estimator = KernelRidgeCV(**options).fit(X, y, sample_weight=weights)
    new = np.vstack([data(3, 1)[0], X[:1]])
    found = estimator.predict_interval(new, LEVELS, "full")
    member = naive(estimator, X, y, new, weights)
    step = 1e-8 * y.std()
    for j in range(len(new)):
        for i, level in enumerate(LEVELS):
            low, high = found[j, :, i]
            assert low < high
            for end, out in ((low, -1.0), (high, 1.0)):
                if np.isinf(end):
                    assert member(j, out * 1e5, level)
                    continue
                assert member(j, end - out * step, level)
                assert not member(j, end + out * step, level)
            for target in np.linspace(-3, 3, 13):
                assert member(j, target, level) == (low <= target <= high)


@pytest.mark.parametrize("basis", [None, [0, 5, 9, 20]], ids=["dense", "basis"])
def test_a_trend_is_part_of_the_model(basis):
    """At an end of the set the new row's residual is as large as another, trained with it."""
    X, y = data()
    estimator = KernelRidgeCV(gamma=0.5, alphas=[0.3], trend="linear", basis=basis).fit(X, y)
    for x in data(3, 1)[0]:
        rows, penalty = np.vstack([X, x]), 0.3
        K, Z = estimator.kernel_(rows), np.column_stack([np.ones(len(rows)), rows])
        # A dense model is one on all rows, the new one included.
        B = np.arange(len(rows)) if basis is None else np.array(basis)
        F, P = np.hstack([K[:, B], Z]), np.zeros((B.size + 3, B.size + 3))
        P[: B.size, : B.size] = penalty * (K[np.ix_(B, B)] + estimator.jitter_ * np.eye(B.size))
        for end in estimator.predict_interval(x[None], 0.8, "full")[0]:
            target = np.append(y, end)
            fitted = F @ np.linalg.lstsq(F.T @ F + P, F.T @ target, rcond=None)[0]
            e = np.abs(target - fitted)
            counted = e[:-1] if basis is None else np.delete(e[:-1], basis)
            need = int(0.2 * (counted.size + 1) + 1e-9)
            assert np.sort(counted)[-need] == pytest.approx(e[-1], rel=1e-6)


def test_far_from_the_data_the_set_may_have_holes():
    """The hull is that of a fine grid of trained models, and a warning tells of holes."""
    rng = np.random.default_rng(3)
    X = np.sort(rng.normal(size=(11, 1)), axis=0)
    y = rng.normal(size=11)
    estimator = KernelRidgeCV("linear", alphas=[0.01], fit_intercept=False).fit(X, y)
    new = np.array([[4.0], [-6.0], [12.0], [0.1]])
    grid = np.linspace(-300, 300, 1501)
    member = naive(estimator, X, y, new)
    some_holes = some_infinite = False
    for level in (0.3, 0.6, 0.9):
        inside = np.array([[member(j, t, level) for t in grid] for j in range(len(new))])
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            found = estimator.predict_interval(new, level, "full")
        holes = 0
        for (low, high), mine in zip(found, inside, strict=True):
            at = np.flatnonzero(mine)
            if at.size:
                assert (low == -np.inf) == mine[0]
                assert (high == np.inf) == mine[-1]
                if np.isfinite([low, high]).all():
                    assert low == pytest.approx(grid[at[0]], abs=0.5)
                    assert high == pytest.approx(grid[at[-1]], abs=0.5)
                holes += bool((np.diff(at) > 1).any())
        some_infinite |= bool(np.isinf(found).any())
        some_holes |= holes > 0
        told = [str(w.message) for w in said if issubclass(w.category, HoldfastWarning)]
        assert bool(told) == (holes > 0)
        if holes:
            assert f"{holes} of 4 new rows" in told[0]
    assert some_holes
    assert some_infinite


@pytest.mark.parametrize("options", [{}, {"basis": 8, "random_state": 0}], ids=["dense", "basis"])
def test_several_targets_are_each_alone(options):
    X, y = data()
    Y = np.column_stack([y, 1e3 * y[::-1], np.cos(X[:, 1])])
    options = {"gamma": 0.5, "alphas": [1e-3, 0.1, 3.0], "alpha_per_target": True, **options}
    together = KernelRidgeCV(**options).fit(X, Y)
    assert np.unique(together.alpha_).size > 1
    new = data(5, 1)[0]
    found = together.predict_interval(new, [0.5, 0.9], "full")
    assert found.shape == (5, 2, 2, 3)
    for t in range(3):
        alone = KernelRidgeCV(**{**options, "alphas": [together.alpha_[t]]}).fit(X, Y[:, t])
        expected = alone.predict_interval(new, [0.5, 0.9], "full")
        np.testing.assert_allclose(found[..., t], expected, rtol=1e-8, atol=1e-8 * Y[:, t].std())


def test_blocks_change_nothing(monkeypatch):
    X, y = data()
    estimator = KernelRidgeCV(gamma=0.5, alphas=[0.1]).fit(X, y)
    new = data(20, 1)[0]
    whole = estimator.predict_interval(new, 0.9, "full")
    pieces = lambda k, _: [slice(i, min(i + 3, k)) for i in range(0, k, 3)]  # noqa: E731
    monkeypatch.setattr(full_conformal, "row_blocks", pieces)
    assert relative_difference(estimator.predict_interval(new, 0.9, "full"), whole) < 1e-12


def test_too_few_rows_for_the_level():
    X, y = data(8)
    estimator = KernelRidgeCV(gamma=0.5, alphas=[0.1]).fit(X, y)
    found = estimator.predict_interval(X[:2], [0.85, 0.95], "full")
    assert np.isfinite(found[:, :, 0]).all()
    assert (found[:, 0, 1] == -np.inf).all()
    assert (found[:, 1, 1] == np.inf).all()


def test_what_is_refused_by_name():
    X, y = data()
    model = KernelRidgeCV(gamma=0.5, alphas=[0.1])
    model.fit(X, y, sample_weight=np.linspace(1, 2, len(y)))
    with pytest.raises(NotSupportedError, match=r"sample_weight differs .* 1 to 2"):
        model.predict_interval(X, method="full")
    grouped = KernelRidgeCV(gamma=0.5, alphas=[0.1], cv=LeaveOneGroupOut())
    grouped.fit(X, y, groups=np.arange(len(y)) // 4)
    with pytest.raises(NotSupportedError, match="whole groups"):
        grouped.predict_interval(X, method="full")
    every = KernelRidgeCV(gamma=0.5, alphas=[0.1], basis=np.arange(len(y))).fit(X, y)
    with pytest.raises(NotSupportedError, match="every row is one"):
        every.predict_interval(X, method="full")
    matrix = KernelRidgeCV("precomputed", alphas=[0.1]).fit(X @ X.T, y)
    with pytest.raises(NotSupportedError, match="precomputed"):
        matrix.predict_interval(X @ X.T, method="full")
    classifier = KernelRidgeClassifierCV(alphas=[0.1]).fit(X, y > 0)
    with pytest.raises(NotSupportedError, match="predict_interval"):
        classifier.predict_interval(X, method="full")


def test_rows_on_dask_are_refused():
    da = pytest.importorskip("dask.array")
    X, y = data()
    model = KernelRidgeCV(gamma=0.5, alphas=[0.1], basis=8, random_state=0)
    model.fit(da.from_array(X, chunks=(10, 2)), y)
    with pytest.raises(NotSupportedError, match="rows in memory"):
        model.predict_interval(X, method="full")
    here = KernelRidgeCV(gamma=0.5, alphas=[0.1], basis=8, random_state=0).fit(X, y)
    lazy = here.predict_interval(da.from_array(X, chunks=(10, 2)), method="full")
    assert relative_difference(lazy, here.predict_interval(X, method="full")) < 1e-12
