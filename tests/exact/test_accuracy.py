"""The promise of accuracy, through public names: what is kept, what is stated, and what is said.

Held-out predictions equal those of refitting to 1e-6 of the standard deviation of y; where they may
not, ``rounding`` says by how much. The hard families of `torture` are in `test_torture`.
"""

from __future__ import annotations

import pickle
import re
import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from holdfast import HoldOut, KernelRidgeCV
from holdfast.exceptions import HoldfastWarning, PrecisionWarning
from reference.oracle import exact_features
from tolerances import PROMISE, TIMES
from torture.families import FAMILIES, problem
from torture.measure import fitted
from torture.truth import truth

pytestmark = [
    pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]


# -- held-out models at any rows ------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_models_without_some_rows_keep_the_promise_at_other_rows(family):
    drawn = problem(family, 100)
    for path, held in [("spectral", drawn.sets[0]), ("per_fold", drawn.sets[-1])]:
        alone, every = replace(drawn, sets=[held]), np.arange(len(drawn.X))
        model = fitted(drawn, path)
        tests = np.union1d(held[:3], every[:: len(every) // 6])
        judge = truth(alone, model, [tests])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", HoldfastWarning)
            values = [model.predict_without(held, drawn.X[tests], a) for a in drawn.alphas]
        error = judge.error(np.array(values).reshape(judge.exact.shape))
        if error.max() > PROMISE:
            error -= TIMES * judge.qr_error(len(drawn.X), 4)
        assert error.max() <= PROMISE, (path, held.size)


def bordered(K, y, weights, alpha):
    """Return predictions of all rows by the optimality conditions of a dense model with a bias."""
    m = len(K)
    A = np.zeros((m + 1, m + 1))
    A[:m, :m], A[:m, m], A[m, :m] = K + alpha * np.diag(1.0 / weights), 1.0, 1.0
    solution = np.linalg.solve(A, np.append(y, 0.0))
    return K @ solution[:m] + solution[m]


def with_heavy_rows(heavy, noise=0.1, **options):
    """Return a model with five heavy rows, its data, and what it warned of."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = np.sin(X[:, 0]) + noise * rng.normal(size=200)
    weights = np.ones(200)
    weights[:5] = heavy
    model = KernelRidgeCV(gamma=0.5, **options)
    told = fit(model, X, y, sample_weight=weights)
    return model, X, y, weights, told


def fit(model, X, y, **more):
    """Fit a model and return its warnings of precision."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model.fit(X, y, **more)
    return [w.message for w in told if isinstance(w.message, PrecisionWarning)]


@pytest.mark.parametrize("heavy", [1e3, 1e6])
def test_a_few_heavy_rows_do_not_harm_the_fitted_model(heavy):
    model, X, y, weights, _ = with_heavy_rows(heavy, alphas=[1e-6])
    K, near = model.kernel_(X, X), {"rtol": 0.0, "atol": PROMISE * y.std()}
    np.testing.assert_allclose(model.predict(X), bordered(K, y, weights, 1e-6), **near)
    rest = slice(3, None)
    expected = bordered(K[rest, rest], y[rest], weights[rest], 1e-6)
    np.testing.assert_allclose(model.predict_without([0, 1, 2], X[rest]), expected, **near)


# -- what is refitted, and what is stated ---------------------------------------------------------

M, LONELY = 60, 7
RNG = np.random.default_rng(3)
ROWS = np.c_[RNG.normal(size=(M, 2)), np.zeros(M)]
ROWS[LONELY, 2] = 1.0
NOISE = RNG.normal(size=M)
ALPHAS = np.array([1e-13, 1e-11])


def ridge_without(X, y, row, alphas):
    """Return predictions (alphas, …) of a row by QR without it, for targets y (m, …)."""
    keep = np.delete(np.arange(len(X)), row)
    x0, y0 = X[keep].mean(axis=0), y[keep].mean(axis=0)
    b = np.concatenate([y[keep] - y0, np.zeros((X.shape[1], *y.shape[1:]))])
    found = []
    for alpha in alphas:
        A = np.vstack([X[keep] - x0, np.sqrt(alpha) * np.eye(X.shape[1])])
        found.append((X[row] - x0) @ np.linalg.lstsq(A, b, rcond=None)[0] + y0)
    return np.array(found)


def test_a_row_that_alone_supports_a_column_is_refitted():
    model = KernelRidgeCV(kernel="linear", alphas=ALPHAS).fit(ROWS, NOISE)
    expected = ridge_without(ROWS, NOISE, LONELY, ALPHAS)
    found = model.held_out(alphas=ALPHAS)
    np.testing.assert_allclose(found.values[:, LONELY, 0], expected, atol=PROMISE * NOISE.std())
    assert found.rounding.max() <= PROMISE
    for alpha, right in zip(ALPHAS, expected, strict=True):
        for value in (
            model.predict_without([LONELY], alpha=alpha)[0],
            model.predict_without([LONELY], ROWS[[LONELY]], alpha=alpha)[0],
            ROWS[LONELY] @ (own := model.coef_without([LONELY], alpha=alpha)).coef + own.intercept,
        ):
            assert value == pytest.approx(right, abs=PROMISE * NOISE.std())


def test_a_permutation_test_with_such_a_row():
    """Its residual once was a rounding error over zero for the targets, so that p was 0.01."""
    count = 99
    model = KernelRidgeCV(kernel="linear", alphas=ALPHAS).fit(ROWS, NOISE)
    found = model.permutation_test(count, random_state=0)
    rng = np.random.default_rng(1)
    Y = np.c_[NOISE, np.stack([rng.permutation(NOISE) for _ in range(count)], axis=1)]
    values = np.stack([ridge_without(ROWS, Y, row, ALPHAS) for row in range(M)], axis=1)
    scores = -np.square(values - Y).mean(axis=1).min(axis=0)  # the better penalty of each
    p = np.mean(scores >= scores[0] - 1e-9)
    assert found.score == pytest.approx(scores[0], rel=1e-6)
    assert found.p_value == pytest.approx(p, abs=0.15)
    assert p > 0.2  # nothing can be learned from noise
    assert np.median(found.null_scores) == pytest.approx(np.median(scores[1:]), rel=0.1)


def test_what_costs_too_much_to_refit_is_stated():
    grid = np.array([1e-6, 1e2])
    model, _, y, *_ = with_heavy_rows(1e6, alphas=grid, path="spectral")
    twin, *_ = with_heavy_rows(1e6, alphas=grid, path="refit")
    rounding = model.cv_results_["rounding"]
    assert rounding[0] > PROMISE >= rounding[1]
    np.testing.assert_array_equal(model.held_out().rounding, rounding)
    for found in (model.held_out(), model.held_out(alphas=grid), pickled(model).held_out()):
        error = np.abs(found.values - twin.held_out().values).max(axis=(1, 2)) / y.std()
        assert error[0] > PROMISE
        assert (error <= np.maximum(PROMISE, TIMES * found.rounding)).all()


def test_verify_compares_what_the_fit_gave():
    """The few experiments that it draws could be refitted, and be compared with themselves."""
    model, *_ = with_heavy_rows(1e6, alphas=[1e-6], path="spectral")
    found = model.verify(20)
    assert not found.verified
    assert PROMISE < found.max_relative_error <= TIMES * model.cv_results_["rounding"][0]
    assert with_heavy_rows(1e3, alphas=[1e-6], path="spectral")[0].verify(20).verified


@pytest.mark.parametrize("alpha", [1e-6, 1e-2])
def test_heavy_rows_cost_nothing_at_one_penalty(alpha):
    """A Cholesky factor keeps rows of different weights apart, and its estimate knows that."""
    model, _, y, *_, told = with_heavy_rows(1e6, alphas=[alpha], path="cholesky")
    twin, *_ = with_heavy_rows(1e6, alphas=[alpha], path="refit")
    error = np.abs(model.held_out().values - twin.held_out().values).max() / y.std()
    assert error <= PROMISE
    assert model.cv_results_["rounding"][0] <= PROMISE
    assert not told


def pickled(model):
    return pickle.loads(pickle.dumps(model))


def test_only_a_chosen_penalty_is_warned_of():
    """Others are marked: a user sees which scores to read with care."""
    *_, told = with_heavy_rows(1e6, alphas=[1e-6], path="spectral")
    (warning,) = told
    assert warning.alphas == (pytest.approx(1e-6),)
    assert warning.argument == "alphas"
    model, *_, told = with_heavy_rows(1e6, noise=5.0, alphas=[1e-6, 1e2], path="spectral")
    assert model.alpha_ == pytest.approx(1e2)
    assert model.cv_results_["rounding"][0] > PROMISE
    assert not told


def smooth(**options):
    """Return a model of basis rows whose kernel is far too wide, with its data."""
    rng = np.random.default_rng(1)
    X = rng.uniform(-1.0, 1.0, size=(80, 2))
    y = np.sin(2.0 * X[:, 0]) + X[:, 1] ** 2
    options = {"gamma": 1e-3, "basis": np.arange(40), "jitter": 1e-13} | options
    return KernelRidgeCV(**options), X, y


def test_the_default_grid_asks_for_nothing_impossible():
    model, X, y = smooth()
    assert not fit(model, X, y)
    assert model.verify(10).verified


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weights"])
def test_a_pickled_linear_model_in_mixed_units(weighted):
    """Held-out predictions were off by 85 standard deviations, with weights by ten millions."""
    rng = np.random.default_rng(0)
    m, scales = 50, np.array([1e-3, 1.0, 1e3, 1e6, 1e9])
    X = rng.normal(size=(m, 5)) * scales
    y = X / scales @ rng.normal(size=5) + 0.1 * rng.normal(size=m)
    weights = 10.0 ** rng.uniform(-2, 2, size=m) if weighted else np.ones(m)
    alphas = np.array([1e-6, 1e-2, 1e2])
    model = KernelRidgeCV(kernel="linear", alphas=alphas).fit(X, y, sample_weight=weights)
    again = pickled(model)
    again.predict_without([0, 1], X)
    found = again.held_out(alphas=alphas).values
    parts = [np.array([i]) for i in range(m)]
    exact = [exact_features(X, y, one, one, alphas, weights, True) for one in parts]
    exact = np.concatenate(exact, axis=1)
    size = np.maximum(y.std(), np.abs(exact - y.mean()))
    assert (np.abs(found - exact) / size).max() < PROMISE


# -- what `verify` says ---------------------------------------------------------------------------


def test_verify_says_verified_and_how_far_apart():
    rng = np.random.default_rng(0)
    X = StandardScaler().fit_transform(rng.normal(size=(60, 3)))
    model = KernelRidgeCV(gamma=0.3).fit(X, np.sin(X[:, 0]) + 0.1 * rng.normal(size=60))
    found = model.verify()
    assert found.verified
    assert found.max_relative_error < 1e-9
    assert repr(found).startswith("<verified: 5 experiments refitted")


@pytest.mark.parametrize(
    ("error", "start"), [(1e-7, "<verified"), (1e-5, "<5 experiments"), (0.1, "<WRONG")]
)
def test_verify_states_both_numbers_or_asks_for_a_report(error, start):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    model = KernelRidgeCV(gamma=0.3, alphas=[1.0]).fit(X, X[:, 0] + rng.normal(size=60))
    found = replace(model.verify(), relative_errors=np.full((5, 1), error))
    assert repr(found).startswith(start)
    assert found.verified == (error < PROMISE)
    assert len(re.findall(r"\de-\d\d", repr(found))) == (2 if start == "<5 experiments" else 1)
    assert ("report" in repr(found)) == (error > 1e-3)


@pytest.mark.parametrize("options", [{"basis": np.arange(40), "jitter": 1e-12}, {"basis": None}])
def test_verify_knows_what_double_precision_cannot_represent(options):
    """Kernel values that differ by an eps move predictions about as far as it says."""
    for alpha in (1e-9, 1e-6, 1e-3):
        model, X, y = smooth(**options, gamma=0.05, cv=[HoldOut(np.arange(8))], alphas=[alpha])
        fit(model, X, y)
        K, moved = np.asarray(model.kernel_(X)), []
        for seed in range(8):
            noise = np.random.default_rng(seed).normal(size=K.shape) * np.finfo(float).eps
            other = K * (1.0 + (noise + noise.T) / np.sqrt(2.0))
            again = KernelRidgeCV(**{**model.get_params(), "kernel": "precomputed"})
            fit(again, other if options["basis"] is None else other[:, options["basis"]], y)
            moved.append(again.held_out().values)
        change = np.std(moved, axis=0).max() / y.std()
        stated = model.verify(1).rounding[0]
        assert 0.02 * stated <= change <= 5.0 * stated
