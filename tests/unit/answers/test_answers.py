"""Answers: ranks, blocks, refusals, frames, and what people look at."""

from __future__ import annotations

import pickle
import tracemalloc

import numpy as np
import pytest
from sklearn.model_selection import KFold, LeaveOneGroupOut, ShuffleSplit

from holdfast import KernelRidgeClassifierCV, KernelRidgeCV
from holdfast.exceptions import HoldOutError, InvalidInputError, NotSupportedError
from tolerances import relative_difference

pytestmark = pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")

ALPHAS = np.logspace(-4, 1, 6)


def data(m=90, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(m, 2))
    return X, np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=m), np.arange(m) // 9


@pytest.fixture(scope="module")
def model():
    X, y, _ = data()
    return KernelRidgeCV(gamma=0.5, alphas=ALPHAS, basis=25, random_state=0).fit(X, y)


# -- ranks -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("m", [9, 19, 99])
def test_ranks_have_no_rounding_errors(m):
    """The intercept alone, constant but for rounding: jackknife+ of m numbers, by counting."""
    y = np.random.default_rng(m).permutation(m).astype(float)
    estimator = KernelRidgeCV("linear", alphas=[1.0]).fit(np.zeros((m, 1)), y)
    without = (y.sum() - y) / (m - 1)
    low, high = np.sort(without - np.abs(y - without)), np.sort(without + np.abs(y - without))
    percent = np.arange(1, 100)
    found = estimator.predict_interval(np.zeros((1, 1)), list(percent / 100))
    rank = np.array([-(-int(p) * (m + 1) // 100) for p in percent])  # the ceiling, in integers
    beyond = np.r_[-np.inf, low], np.r_[high, np.inf]
    np.testing.assert_allclose(found[0, 0], beyond[0][np.maximum(m + 1 - rank, 0)], atol=1e-11)
    np.testing.assert_allclose(found[0, 1], beyond[1][rank - 1], atol=1e-11)


# -- blocks ----------------------------------------------------------------------------------------


def test_memory_does_not_grow_with_the_new_rows():
    X, y, _ = data(1500)
    estimator = KernelRidgeCV(gamma=0.5, alphas=[0.1], basis=30, random_state=0).fit(X, y)
    peaks = []
    for k in (3000, 12000):
        new = data(k, 1)[0]
        tracemalloc.start()
        found = estimator.predict_interval(new)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert relative_difference(estimator.predict_interval(new[-5:]), found[-5:]) < 1e-12
    assert peaks[1] < 1.3 * peaks[0]
    assert peaks[1] < 12000 * 1500 * 8  # what all pairs of rows would take


# -- coverage --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("groups", [False, True], ids=["rows", "groups"])
def test_coverage(groups):
    """Level 0.8, 100 data sets: jackknife+ holds at least 0.6 of the time, about 0.8 in fact."""
    rng, covered = np.random.default_rng(5), []
    for _ in range(100):
        m, k = 60, 40
        label = np.arange(m + k) // 5 if groups else np.arange(m + k)
        X = rng.uniform(-2, 2, size=(m + k, 1))
        shift = 0.5 * rng.normal(size=label.max() + 1)[label] if groups else 0.0
        y = np.sin(2 * X[:, 0]) + shift + 0.3 * rng.standard_t(3, size=m + k)
        cv = LeaveOneGroupOut() if groups else None
        estimator = KernelRidgeCV(gamma=1.0, alphas=ALPHAS, cv=cv)
        estimator.fit(X[:m], y[:m], groups=label[:m] if groups else None)
        low, high = estimator.predict_interval(X[m:], 0.8).T
        covered.append(np.mean((low <= y[m:]) & (y[m:] <= high)))
    assert 0.76 <= np.mean(covered) <= 0.9


# -- refusals --------------------------------------------------------------------------------------


def test_refusals(model):
    X, y, groups = data()
    for level in (0, 1, -0.5, [0.5, 1.5], []):
        with pytest.raises(InvalidInputError, match="level"):
            model.predict_interval(X, level)
    with pytest.raises(InvalidInputError, match="method"):
        model.predict_interval(X, method="bayes")
    repeated = KernelRidgeCV(alphas=ALPHAS, cv=ShuffleSplit(3, random_state=0)).fit(X, y)
    with pytest.raises(HoldOutError, match="test every row once"):
        repeated.predict_interval(X)
    with pytest.raises(InvalidInputError, match="groups"):
        model.influence(groups[:-1])
    known = KernelRidgeCV("precomputed", alphas=ALPHAS, cv=3).fit(X @ X.T, y)
    with pytest.raises(NotSupportedError, match=r"k\(x, x\)"):
        known.predict(X @ X.T, return_std=True)


def test_classifiers_refuse_laws_of_numbers():
    X, y, groups = data()
    classifier = KernelRidgeClassifierCV(alphas=ALPHAS, cv=3).fit(X, y > 0)
    with pytest.raises(NotSupportedError, match="regression"):
        classifier.predict_interval(X)
    with pytest.raises(NotSupportedError, match="regression"):
        classifier.held_out().log_density()
    with pytest.raises(InvalidInputError, match="log_density"):
        KernelRidgeClassifierCV(scoring="log_density").fit(X, y > 0)
    assert classifier.influence(groups).cook.shape == (10,)


# -- results ---------------------------------------------------------------------------------------


def test_frames_and_words(model):
    pytest.importorskip("pandas")
    X, y, groups = data()
    found = model.influence(groups)
    frame = found.to_frame()
    assert list(frame.columns) == ["group", "leverage", "residual", "cook"]
    assert "10 groups" in repr(found)
    assert "25 dual coefficients" in repr(model.coef_without([1, 2]))
    assert "row" in model.influence().to_frame().columns
    two = KernelRidgeCV(alphas=ALPHAS, cv=3).fit(X, np.column_stack([y, -y]))
    assert "target" in two.influence().to_frame().columns


def test_held_out_predictions_can_be_pickled(model):
    found = model.held_out()
    again = pickle.loads(pickle.dumps(found))
    assert (again.std == found.std).all()
    copy = pickle.loads(pickle.dumps(model))
    assert copy.noise_variance_ == pytest.approx(model.noise_variance_, rel=1e-10)
    new = data(5, 1)[0]
    assert relative_difference(copy.predict_interval(new), model.predict_interval(new)) < 1e-10


@pytest.mark.parametrize("cv", [None, KFold(5)])
@pytest.mark.parametrize("path", ["auto", "spectral"])
def test_permuted_targets_of_light_rows(cv, path):
    """Weights far apart: the promise holds for targets that take the place of others too."""
    X, y, _ = data(30)
    w = np.where(np.arange(30) < 3, 1e-9, 1.0)
    options = {"gamma": 0.5, "alphas": ALPHAS[2:], "cv": cv}
    seen = []

    def watch(estimator, p, targets):
        seen.append((targets, p))
        return 0.0

    KernelRidgeCV(**options, path=path, scoring=watch).fit(X, y, sample_weight=w).permutation_test(
        3, random_state=0
    )
    seen = [(t, p) for t, p in seen if t.shape == (30,) and not np.array_equal(t, y)]
    assert len(seen) == 3 * 4
    for number, (targets, values) in enumerate(seen):
        again = KernelRidgeCV(**options, path="refit").fit(X, targets, sample_weight=w)
        expected = again.held_out().matrix()[number % 4, :, 0]
        size = np.maximum(y.std(), np.abs(expected - y.mean()))
        assert (np.abs(values - expected) / size).max() < 1e-8


def test_dask_rows_predict_without_them():
    da = pytest.importorskip("dask.array")
    X, y, _ = data()
    here = KernelRidgeCV(gamma=0.5, alphas=ALPHAS, basis=20, random_state=0).fit(X, y)
    there = KernelRidgeCV(gamma=0.5, alphas=ALPHAS, basis=20, random_state=0)
    there.fit(da.from_array(X, chunks=(40, 2)), y)
    new = data(12, 1)[0]
    lazy = da.from_array(new, chunks=(5, 2))
    for rows in ([3], [1, 2, 50], np.arange(70)):
        expected = here.predict_without(rows, new)
        assert relative_difference(there.predict_without(rows, new), expected) < 1e-8
        found = there.predict_without(rows, lazy)
        assert hasattr(found, "compute")
        assert relative_difference(found.compute(), expected) < 1e-8
        assert relative_difference(here.predict_without(rows, lazy).compute(), expected) < 1e-8
        dual = there.coef_without(rows).dual_coef
        assert relative_difference(dual, here.coef_without(rows).dual_coef) < 1e-6
    expected = here.predict_interval(new)
    assert relative_difference(there.predict_interval(lazy), expected) < 1e-8
    assert relative_difference(there.noise_variance_, here.noise_variance_) < 1e-8
    std = there.predict(lazy, return_std=True)[1]
    assert relative_difference(std, here.predict(new, return_std=True)[1]) < 1e-8
    assert relative_difference(there.influence().cook, here.influence().cook) < 1e-7


# -- displays --------------------------------------------------------------------------------------


def test_displays(model):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from holdfast.displays import InfluenceDisplay

    groups = data()[2]
    shown = InfluenceDisplay.from_estimator(model, groups=groups, n_labels=6)
    shown.figure_.canvas.draw()
    boxes = [label.get_window_extent() for label in shown.labels_]
    assert len(boxes) == 6
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    frame = shown.ax_.get_window_extent()
    assert all(frame.count_contains(box.corners()) == 4 for box in boxes)
    centres = shown.ax_.transData.transform(shown.scatter_.get_offsets())
    radii = np.sqrt(shown.scatter_.get_sizes() / np.pi) * shown.figure_.dpi / 72
    for box in boxes:  # six of a few groups: there is room beside the circles
        near = np.clip(centres, box.min, box.max) - centres
        assert (np.hypot(*near.T) >= radii).all()
    plt.close("all")
