"""Several kernels: weights and penalty chosen as by training every model of every draw again."""

from __future__ import annotations

import pickle
from threading import get_ident

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.model_selection import KFold, LeaveOneGroupOut, LeaveOneOut

from holdfast import KernelMixtureCV, KernelRidgeCV
from holdfast.answers import training
from holdfast.estimators import search
from holdfast.exceptions import GridEdgeWarning, InvalidInputError, NotSupportedError
from holdfast.kernels import RBF, FunctionKernel, Linear, OnColumns
from holdfast.kernels.shared import SharedRows, distinct_parts

pytestmark = pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")

M, EXACT = 42, 1e-9
RNG = np.random.default_rng(0)
X = RNG.normal(size=(M, 6))
Y = np.c_[np.sin(X[:, 0]) + X[:, 1], X[:, 4] * X[:, 5], X[:, 2] + 0.5 * X[:, 3]] + 0.2 * RNG.normal(
    size=(M, 3)
)
NEW, WEIGHTS = RNG.normal(size=(5, 6)), np.where(np.arange(M) == 3, 0.0, RNG.uniform(0.5, 2, M))
RUNS = np.arange(M) // 7
ALPHAS = np.array([0.03, 0.3, 3.0])
BANDS = {
    "sound": OnColumns(RBF(0.3), range(3)),
    "light": OnColumns(RBF(0.3), range(3, 6)),
    "plain": Linear(),
}
DRAWS = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [0.2, 0.3, 0.5], [0.6, 0.4, 0]], dtype=float)


def matrix(weights, A, B, bands=BANDS):
    return sum(w * k(A, B) for w, k in zip(weights, bands.values(), strict=True))


def predicted(draw, alpha, train, rows, y=Y, weights=WEIGHTS, bands=BANDS):
    """Return predictions of the model of some rows, by its bordered equations."""
    train = train[weights[train] > 0]
    K, one = matrix(draw, X[train], X[train], bands), np.ones((train.size, 1))
    system = np.block([[K + alpha * np.diag(1 / weights[train]), one], [one.T, np.zeros((1, 1))]])
    found = np.linalg.solve(system, np.vstack([y[train], np.zeros((1, y.shape[1]))]))
    return matrix(draw, rows, X[train], bands) @ found[:-1] + found[-1]


def retrained(draw, alpha, y=Y, weights=WEIGHTS, bands=BANDS):
    """Return leave-run-out predictions by training every model."""
    held = np.empty_like(y)
    for run in np.unique(RUNS):
        out = run == RUNS
        held[out] = predicted(draw, alpha, np.flatnonzero(~out), X[out], y, weights, bands)
    return held


def errors(draw, alpha, y=Y, weights=WEIGHTS, bands=BANDS):
    """Return the weighted held-out squared error of each target, leave-run-out."""
    held = retrained(draw, alpha, y, weights, bands)
    return (weights[:, None] * (y - held) ** 2).sum(axis=0) / weights.sum()


TABLE = np.array([[errors(draw, alpha) for alpha in ALPHAS] for draw in DRAWS])  # (n, a, v)


def fitted(y=Y, weights=WEIGHTS, **more):
    options = {"draws": DRAWS, "normalise": False, "alphas": ALPHAS, "cv": LeaveOneGroupOut()}
    model = KernelMixtureCV(BANDS, **{**options, **more})
    return model.fit(X, y, sample_weight=weights, groups=RUNS)


def test_one_set_of_weights_is_the_best_of_all_that_were_trained():
    model = fitted()
    mean = TABLE.mean(axis=2)
    i, a = np.unravel_index(mean.argmin(), mean.shape)
    assert np.allclose(model.kernel_weights_, DRAWS[i])
    assert model.alpha_ == ALPHAS[a]
    assert np.isclose(-model.best_score_, mean.min(), rtol=1e-9)
    assert np.allclose(-model.cv_results_["pooled_test_score"], mean.ravel(), rtol=1e-9)
    assert model.cv_results_["param_weights"][3] == tuple(DRAWS[1])
    expected = predicted(DRAWS[i], ALPHAS[a], np.arange(M), NEW)
    assert np.abs(model.predict(NEW) - expected).max() < EXACT
    assert list(model.kernel_names_) == list(BANDS)


def test_one_set_of_weights_and_a_penalty_for_each_target():
    model = fitted(alpha_per_target=True)
    best = TABLE.min(axis=1).mean(axis=1)
    i = best.argmin()
    assert np.allclose(model.kernel_weights_, DRAWS[i])
    assert np.array_equal(model.alpha_, ALPHAS[TABLE[i].argmin(axis=0)])


@pytest.mark.parametrize("own", [True, False], ids=["own penalties", "one penalty"])
def test_weights_for_each_target(own):
    model = fitted(weights_per_target=True, alpha_per_target=own)
    best, draw = TABLE.min(axis=0), TABLE.argmin(axis=0)  # (a, v)
    index = best.argmin(axis=0) if own else np.full(3, best.mean(axis=1).argmin())
    chosen = draw[index, np.arange(3)]
    assert len(set(chosen)) > 1  # or there is nothing to see
    assert np.allclose(model.kernel_weights_, DRAWS[chosen])
    assert np.array_equal(model.alpha_, ALPHAS[index])
    assert np.allclose(-model.best_score_, best[index, np.arange(3)], rtol=1e-9)
    held = np.flatnonzero(RUNS == 2)
    left = np.setdiff1d(np.arange(M), held)
    for v, (i, a) in enumerate(zip(chosen, index, strict=True)):
        expected = predicted(DRAWS[i], ALPHAS[a], np.arange(M), NEW)[:, v]
        assert np.abs(model.predict(NEW)[:, v] - expected).max() < EXACT
        expected = predicted(DRAWS[i], ALPHAS[a], left, NEW)[:, v]
        assert np.abs(model.predict_without(held, NEW)[:, v] - expected).max() < EXACT
    values, std = model.predict(NEW, return_std=True)
    assert values.shape == std.shape == (5, 3)
    assert sorted(np.concatenate([columns for columns, _ in model.models_])) == [0, 1, 2]
    bounds = model.predict_interval(NEW, level=[0.5, 0.8])
    for columns, part in model.models_:
        assert part.held_out().matrix().shape[2] == columns.size
        expected = part.predict_interval(NEW, level=[0.5, 0.8])
        assert np.array_equal(bounds[..., columns], expected)


LINEAR = {
    "first": OnColumns(Linear(), range(2)),
    "middle": OnColumns(Linear(), range(1, 5)),
    "all": Linear(),
}


@pytest.mark.parametrize("kind", ["array", "sparse", "cluster"])
@pytest.mark.parametrize("each", [False, True], ids=["one", "each"])
def test_linear_bands_are_fitted_in_their_columns(kind, each):
    rows, new = X, NEW
    if kind == "sparse":
        rows, new = sp.csr_matrix(X), sp.csr_matrix(NEW)
    if kind == "cluster":
        rows = pytest.importorskip("dask.array").from_array(X, (11, 6))
    options = {"draws": DRAWS, "normalise": False, "alphas": ALPHAS, "weights_per_target": each}
    model = KernelMixtureCV(LINEAR, cv=LeaveOneGroupOut(), alpha_per_target=each, **options)
    model.fit(rows, Y, sample_weight=WEIGHTS, groups=RUNS)
    table = np.array([[errors(d, a, bands=LINEAR) for a in ALPHAS] for d in DRAWS])
    parts = model.models_ if each else [(np.arange(3), model)]
    for columns, part in parts:
        assert part.explain().facts["model"] != "dense"
        held = np.flatnonzero(RUNS == 2)
        left = np.setdiff1d(np.arange(M), held)
        for v, t in enumerate(columns):
            mean = table[..., t] if each else table.mean(axis=2)
            i, a = np.unravel_index(mean.argmin(), mean.shape)
            draw, alpha = DRAWS[i], ALPHAS[a]
            weights = model.kernel_weights_[t] if each else model.kernel_weights_
            assert np.allclose(weights, draw)
            expected = predicted(draw, alpha, np.arange(M), NEW, bands=LINEAR)[:, t]
            assert np.abs(model.predict(new)[:, t] - expected).max() < EXACT
            assert np.abs(NEW @ part.coef_[v] + part.intercept_[v] - expected).max() < EXACT
            expected = predicted(draw, alpha, left, NEW, bands=LINEAR)[:, t]
            assert np.abs(model.predict_without(held, new)[:, t] - expected).max() < EXACT
            own = part.held_out().matrix()[np.flatnonzero(part.alphas_ == alpha)[0], :, v]
            assert np.abs(own - retrained(draw, alpha, bands=LINEAR)[:, t]).max() < EXACT
    if kind == "array" and not each:
        assert np.allclose(-model.cv_results_["pooled_test_score"], table.mean(axis=2).ravel())
        K = model.kernel_(X, X)
        assert np.allclose(model.predict(X), K @ model.dual_coef_ + model.intercept_)


@pytest.mark.parametrize("more", [{}, {"weights_per_target": True}], ids=["one", "each"])
@pytest.mark.parametrize("cv", [LeaveOneOut(), LeaveOneGroupOut()], ids=["rows", "runs"])
def test_large_kernels_are_compared_side_by_side(more, cv, monkeypatch):
    alone, threads = fitted(cv=cv, **more), set()
    plain = training.score_experiments

    def watched(*args, **kwargs):
        threads.add(get_ident())
        return plain(*args, **kwargs)

    monkeypatch.setattr(search, "SMALL", 1)
    monkeypatch.setattr(search, "piece_threads", lambda: 3)
    monkeypatch.setattr(training, "score_experiments", watched)
    model = fitted(cv=cv, **more)
    assert len(threads) > 1
    assert np.array_equal(model.kernel_weights_, alone.kernel_weights_)
    assert np.abs(model.predict(NEW) - alone.predict(NEW)).max() < EXACT  # BLAS may have threads
    if not more:
        for name in ("pooled_test_score", "alpha", "param_weights", "rank_test_score"):
            found, expected = (np.stack(m.cv_results_[name]) for m in (model, alone))
            assert np.abs(found - expected).max() < EXACT
    little = fitted(cv=cv, memory_limit=1.0 * M**2 * 80, **more)
    assert np.array_equal(little.kernel_weights_, alone.kernel_weights_)


def test_code_of_users_runs_on_one_thread(monkeypatch):
    """Their kernels and scorers may keep a state."""
    threads = set()
    monkeypatch.setattr(search, "SMALL", 1)
    monkeypatch.setattr(search, "piece_threads", lambda: 3)

    def kernel(A, B):
        threads.add(get_ident())
        return A @ B.T

    def scorer(estimator, A, y):
        threads.add(get_ident())
        return -float(np.abs(estimator.predict(A) - y).mean())

    grid = [FunctionKernel(kernel), 2.0 * FunctionKernel(kernel), 3.0 * FunctionKernel(kernel)]
    KernelRidgeCV(grid, alphas=ALPHAS).fit(X, Y[:, 0])
    KernelRidgeCV(gamma=[0.1, 0.2, 0.3], alphas=ALPHAS, cv=4, scoring=scorer).fit(X, Y[:, 0])
    assert threads == {get_ident()}


def test_draws_are_shares_of_kernels_of_one_size():
    model = KernelMixtureCV(BANDS, n_draws=12, cv=5, random_state=1, alphas=ALPHAS).fit(X, Y)
    draws = np.array([*map(np.array, model.cv_results_["param_weights"][:: ALPHAS.size])])
    assert draws.shape == (12, 3)
    assert np.allclose(draws.sum(axis=1), 1)
    assert np.allclose(draws[0], 1 / 3)
    assert np.array_equal(draws[1:4], np.eye(3))
    traces = [np.trace(k(X) - k(X).mean(axis=0)) / M for k in BANDS.values()]
    expected = sum(k(X) / (3 * t) for k, t in zip(BANDS.values(), traces, strict=True))
    centre = model.cv_results_["param_kernel"][0]
    assert np.allclose(centre(X), expected)
    again = KernelMixtureCV(BANDS, n_draws=12, cv=5, random_state=1, alphas=ALPHAS).fit(X, Y)
    assert np.array_equal(again.kernel_weights_, model.kernel_weights_)


def test_rows_on_a_cluster_streamed_and_with_little_memory():
    da = pytest.importorskip("dask.array")
    options = {"draws": DRAWS, "normalise": False, "alphas": ALPHAS, "cv": 4}
    basis = np.arange(0, M, 4)
    local = KernelMixtureCV(BANDS, basis=basis, **options).fit(X, Y)
    lazy = KernelMixtureCV(BANDS, basis=basis, **options).fit(da.from_array(X, (11, 6)), Y)
    small = KernelMixtureCV(BANDS, basis=basis, memory_limit=4000, **options).fit(X, Y)
    for other in (lazy, small):
        assert np.array_equal(other.kernel_weights_, local.kernel_weights_)
        scores = [model.cv_results_["pooled_test_score"] for model in (other, local)]
        assert np.allclose(*scores, rtol=1e-8)
        assert np.allclose(other.predict(NEW), local.predict(NEW), atol=1e-8)
    plain = KernelRidgeCV(local.kernel_, alphas=ALPHAS, cv=4, basis=basis).fit(X, Y)
    assert np.allclose(local.held_out().matrix(), plain.held_out().matrix(), atol=1e-9)


def test_values_of_shared_parts_are_those_of_the_sum():
    parts, rows = list(BANDS.values()), np.array([3, 0, 7])
    shared = SharedRows.of(parts, X, rows)
    total = 0.5 * parts[0] + 2.0 * (parts[1] + 3.0 * parts[2])
    some = shared.with_kernel(total)
    assert np.allclose(some.block(np.arange(M), rows), total(X, X[rows]), rtol=1e-14)
    assert np.allclose(some.block(rows, slice(0, 5)), total(X[rows], X[:5]), rtol=1e-14)
    assert shared.with_kernel(total + RBF(0.9)) is None
    assert distinct_parts([total, parts[1]]) == [parts[0], parts[1], parts[2]]


# -- every answer ----------------------------------------------------------------------------------


def test_answers_for_fixed_weights_are_those_of_retrained_models():
    draw, alpha = DRAWS[3], ALPHAS[1]
    model = fitted(draws=draw, alphas=[alpha])
    held, live = retrained(draw, alpha), WEIGHTS > 0
    assert np.abs(model.held_out().matrix()[0] - held).max() < EXACT
    # jackknife+ over runs: each run weighs as much as the others
    bounds = model.predict_interval(NEW, level=0.6)
    runs = np.unique(RUNS)
    values = [predicted(draw, alpha, np.flatnonzero(run != RUNS), NEW) for run in runs]
    share = 1.0 / ((runs.size + 1) * np.bincount(RUNS[live]))[RUNS[live]]
    for t in range(3):
        size = np.abs(Y - held)[live, t]
        for k in range(len(NEW)):
            f = np.array([value[k, t] for value in values])[RUNS[live]]
            order = np.argsort(f + size, kind="stable")
            first = int(np.argmax(np.cumsum(share[order]) >= 0.6 - 1e-12))
            assert np.isclose(bounds[k, 1, t], (f + size)[order[first]], atol=EXACT)
    full = predicted(draw, alpha, np.arange(M), X)
    without = predicted(draw, alpha, np.flatnonzero(RUNS != 1), X)
    moved = (WEIGHTS[:, None] * (full - without) ** 2).sum(axis=0)
    cook = model.influence(RUNS).cook
    ratio = cook[1] / moved
    other = predicted(draw, alpha, np.flatnonzero(RUNS != 4), X)
    again = cook[4] / (WEIGHTS[:, None] * (full - other) ** 2).sum(axis=0)
    assert np.allclose(ratio, again, rtol=1e-8)  # Cook's distance, up to its unit
    test = model.permutation_test(9, random_state=0)
    assert np.isclose(-test.score, errors(draw, alpha).mean(), rtol=1e-9)


def test_intervals_of_several_models_are_those_of_each():
    model = fitted(weights_per_target=True, alpha_per_target=True)
    bounds = model.predict_interval(NEW, level=[0.5, 0.6])
    assert bounds.shape == (5, 2, 2, 3)
    for columns, part in model.models_:
        assert np.array_equal(bounds[..., columns], part.predict_interval(NEW, level=[0.5, 0.6]))
    one = fitted(y=Y[:, 0], weights_per_target=True)
    assert one.predict_interval(NEW, level=0.6).shape == (5, 2)


def test_nested_and_permutations_repeat_the_choice_of_the_weights():
    cv = KFold(3)
    model = fitted(y=Y[:, :1], weights=np.ones(M), cv=cv)
    found = model.nested(KFold(4))
    for experiment, values in zip(found.experiments, found.predictions, strict=True):
        left = np.setdiff1d(np.arange(M), experiment.held_out)
        again = KernelMixtureCV(BANDS, draws=DRAWS, normalise=False, alphas=ALPHAS, cv=cv)
        again.fit(X[left], Y[left, :1])
        assert np.abs(values - again.predict(X[experiment.test])).max() < 1e-8
    test = model.permutation_test(19, random_state=0)
    assert test.score == model.best_score_


@pytest.mark.parametrize("more", [{}, {"weights_per_target": True}], ids=["one", "each"])
def test_pickles_and_clones(more):
    model = fitted(**more)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict(NEW), model.predict(NEW))
    assert np.array_equal(again.kernel_weights_, model.kernel_weights_)
    assert clone(model).get_params()["normalise"] is False
    assert not {"kernel", "gamma", "standardize"} & model.get_params().keys()


def test_a_fit_of_the_other_kind_leaves_nothing_behind():
    model = fitted(weights_per_target=True)
    model.set_params(weights_per_target=False).fit(X, Y, groups=RUNS)
    assert not hasattr(model, "models_")
    assert model.kernel_weights_.shape == (3,)
    model.set_params(weights_per_target=True).fit(X, Y, groups=RUNS)
    assert not hasattr(model, "cv_results_")


def test_a_grid_that_ends_too_early_is_told():
    with pytest.warns(GridEdgeWarning, match="for 3 of 3 targets"):
        fitted(alphas=[1e5, 1e6], weights_per_target=True, alpha_per_target=True)
    with pytest.warns(GridEdgeWarning, match="largest of the grid"):
        fitted(alphas=[1e-9, 1e-8])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"kernels": "rbf"}, InvalidInputError, "kernels must be a list or dict"),
        ({"kernels": []}, InvalidInputError, "at least one kernel"),
        ({"kernels": ["rbf", "precomputed"]}, NotSupportedError, "functions of rows"),
        ({"kernels": ["rbf", 3]}, InvalidInputError, "kernel must be one of"),
        ({"draws": [[1.0, 2.0]]}, InvalidInputError, "one column for each of the 3"),
        ({"draws": [[1.0, -1.0, 1.0]]}, InvalidInputError, "not negative"),
        ({"draws": [[0.0, 0.0, 0.0]]}, InvalidInputError, "some of each row"),
        ({"draws": None, "n_draws": 0}, InvalidInputError, "n_draws must be"),
        ({"draws": None, "concentration": -1}, InvalidInputError, "concentration must be"),
        ({"normalise": "yes"}, InvalidInputError, "normalise"),
        ({"rule": "1se", "weights_per_target": True}, NotSupportedError, "rule="),
    ],
)
def test_bad_calls_are_refused_and_change_nothing(options, error, message):
    model = fitted()
    before = model.predict(NEW)
    model.set_params(**options)
    with pytest.raises(error, match=message):
        model.fit(X, Y, groups=RUNS)
    assert np.array_equal(model.predict(NEW), before)


def test_names_of_kernels_and_trends_for_each_target():
    model = KernelMixtureCV(["linear", "rbf"], cv=4, n_draws=5, trend=[0], weights_per_target=True)
    model.fit(X, Y)
    assert list(model.kernel_names_) == ["k1", "k2"]
    assert model.predict(NEW).shape == (5, 3)
