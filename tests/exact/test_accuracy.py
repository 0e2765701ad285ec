"""What the package says of its own accuracy is true, and what it promises it keeps.

Errors are over max(spread of y, |f − mean of y|). Our algebra adds at most 1e-8; what double
precision cannot represent (the data floor) is stated, and a warning where it matters.
"""

from __future__ import annotations

import pickle
import warnings
from itertools import pairwise

import numpy as np
import pytest
from holdfast.holdout.accuracy import LOST, PROMISE, WORTH_A_WARNING, data_floor

from holdfast import HoldOut, KernelRidgeCV, holdout
from holdfast.core.models import HeldOutModels
from holdfast.exceptions import HoldfastWarning, PrecisionWarning
from torture.families import problem
from torture.measure import fitted
from torture.truth import exact_features, truth

pytestmark = [
    pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]

PATHS = ("spectral", "per_fold", "cholesky")
PROBLEMS = [
    ("units", 0), ("time_stamps", 1), ("correlated_units", 3), ("rare_columns", 2),
    ("leverage", 42), ("wild_weights", 88), ("offsets", 3), ("smooth_kernel", 2),
    ("cubic_with_outlier", 14), ("duplicate_basis", 60428), ("sparse_wild_weights", 4),
    ("sparse_folds", 502215), ("dense_kernel", 40), ("dense_outlier", 47),
    ("dense_wild_weights", 3), ("dense_duplicates", 15), ("more_columns_than_rows", 60982),
]  # fmt: skip
#: Rows of weight zero, predicted where others weigh ten million times as much as the rest.
UNTRAINED = [("dense_wild_weights", 10156), ("dense_wild_weights", 10654)]


# -- stated errors ------------------------------------------------------------------------------


def of_problem(family, seed, path):
    """Return (smoother, tasks, alphas), truth, and what no error need stay below (alphas, 1)."""
    drawn = problem(family, seed)
    model = fitted(drawn, path)
    known, judge = model._fitted_model(), truth(drawn, model)
    asked = known.smoother, known.tasks(model._problem.experiments), drawn.alphas
    floor = 10.0 * data_floor(*asked)[:, None]
    by_qr = 10.0 * by_set(judge, judge.retrain(np.arange(len(drawn.X))), asked[1])
    return asked, judge, floor, by_qr


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(("family", "seed"), PROBLEMS + UNTRAINED)
def test_the_stated_error_bounds_the_true_one(family, seed, path):
    asked, judge, floor, by_qr = of_problem(family, seed, path)
    got = holdout.judged(*asked, path)
    true = by_set(judge, got.values, asked[1])
    allowed = np.maximum(np.maximum(PROMISE, got.error) + floor, by_qr)
    assert (true <= allowed).all(), (true / allowed).max()
    assert got.error.max() <= PROMISE  # so small a problem is always worth training again


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(("family", "seed"), PROBLEMS)
def test_a_path_states_its_error_before_anything_is_trained_again(family, seed, path):
    """By this estimate sets are chosen for training again; it may be too small by a few times."""
    (smoother, tasks, alphas), judge, floor, by_qr = of_problem(family, seed, path)
    values, stated = holdout.PATHS[path](smoother, tasks, alphas, slice(None))
    values = smoother.restore(values, tasks.test.values, slice(None))
    true = by_set(judge, values, tasks)
    allowed = np.maximum(np.maximum(PROMISE, PROMISE / LOST * stated) + floor, by_qr)
    assert (true <= allowed).all(), (true / allowed).max()


def by_set(judge, values, tasks):
    """Return the largest error (alphas, tasks) of predictions (alphas, test rows, targets)."""
    size = np.maximum(judge.spread, np.abs(judge.exact - judge.mean))
    errors = (np.abs(values - judge.exact) / size).max(axis=2)
    ends = tasks.test.ptr
    return np.stack([errors[:, a:b].max(axis=1) for a, b in pairwise(ends)], 1)


# -- a row that alone supports a column ---------------------------------------------------------

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


def test_a_row_that_alone_supports_a_column_is_trained_again():
    model = KernelRidgeCV(kernel="linear", alphas=ALPHAS).fit(ROWS, NOISE)
    expected = ridge_without(ROWS, NOISE, LONELY, ALPHAS)
    found = model.held_out(alphas=ALPHAS).values[:, LONELY, 0]
    np.testing.assert_allclose(found, expected, atol=PROMISE * NOISE.std())
    known = model._fitted_model()
    tasks = known.tasks(model._problem.experiments)
    models = HeldOutModels(known.smoother, tasks, ALPHAS[:1])
    assert np.flatnonzero(models.again).tolist() == [LONELY]
    assert models.error[LONELY] > PROMISE
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
    assert found.score == pytest.approx(scores[0], rel=1e-7)
    assert found.p_value == pytest.approx(p, abs=0.15)
    assert p > 0.2  # nothing can be learned from noise
    assert found.null_scores.min() > 2.0 * scores.min()
    assert np.median(found.null_scores) == pytest.approx(np.median(scores[1:]), rel=0.1)


# -- a linear model in mixed units, saved and asked --------------------------------------------


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weights"])
def test_a_pickled_linear_model_asked_for_one_thing_and_another(weighted):
    """Held-out predictions were off by 85 standard deviations, with weights by ten millions."""
    rng = np.random.default_rng(0)
    m, scales = 50, np.array([1e-3, 1.0, 1e3, 1e6, 1e9])
    X = rng.normal(size=(m, 5)) * scales
    y = X / scales @ rng.normal(size=5) + 0.1 * rng.normal(size=m)
    weights = 10.0 ** rng.uniform(-2, 2, size=m) if weighted else np.ones(m)
    alphas = np.array([1e-6, 1e-2, 1e2])
    model = KernelRidgeCV(kernel="linear", alphas=alphas).fit(X, y, sample_weight=weights)
    again = pickle.loads(pickle.dumps(model))
    again.predict_without([0, 1], X)
    found = again.held_out(alphas=alphas).values
    parts = [np.array([i]) for i in range(m)]
    exact = [exact_features(X, y, one, one, alphas, weights, True) for one in parts]
    exact = np.concatenate(exact, axis=1)
    size = np.maximum(y.std(), np.abs(exact - y.mean()))
    assert (np.abs(found - exact) / size).max() < PROMISE


# -- where double precision is not enough --------------------------------------------------------


def smooth(alphas, **more):
    """Return a model of basis rows whose kernel is far too wide."""
    rng = np.random.default_rng(1)
    X = rng.uniform(-1.0, 1.0, size=(80, 2))
    y = np.sin(2.0 * X[:, 0]) + X[:, 1] ** 2
    options = {"kernel": "rbf", "gamma": 1e-3, "basis": np.arange(40), "jitter": 1e-13} | more
    return KernelRidgeCV(alphas=alphas, **options), X, y


def test_a_warning_names_the_penalty_that_double_precision_cannot_serve():
    model, X, y = smooth([1e-14])
    with pytest.warns(PrecisionWarning, match="at alpha = 1e-14 held-out predictions") as told:
        model.fit(X, y)
    (warning,) = (w.message for w in told if isinstance(w.message, PrecisionWarning))
    assert warning.alphas == (pytest.approx(1e-14),)
    assert model.cv_results_["rounding"].max() > WORTH_A_WARNING


def test_no_warning_where_such_a_penalty_is_not_chosen():
    """It is marked: a user sees which scores to read with care."""
    rng = np.random.default_rng(2)
    model, X, y = smooth([1e-14, 1e-2])
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrecisionWarning)
        model.fit(X, y + 3.0 * rng.normal(size=y.size))
    rounding = model.cv_results_["rounding"]
    assert model.alpha_ == pytest.approx(1e-2)
    assert rounding[0] > WORTH_A_WARNING > rounding[1]


def test_the_default_grid_leaves_out_what_cannot_be_resolved():
    model, X, y = smooth(None)
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrecisionWarning)
        model.fit(X, y)
    assert model.cv_results_["rounding"].max() <= WORTH_A_WARNING
    assert model.verify(10).verified


@pytest.mark.parametrize("options", [{"basis": np.arange(40), "jitter": 1e-12}, {"basis": None}])
def test_stated_rounding_errors_are_what_they_are(options):
    """Kernel values that differ by an eps move predictions about as far as the floor says."""
    model, X, y = smooth([1e-9, 1e-6, 1e-3], gamma=0.05, cv=[HoldOut(np.arange(8))], **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HoldfastWarning)
        model.fit(X, y)
        K = np.asarray(model.kernel_(X))
        moved = []
        for seed in range(8):
            noise = np.random.default_rng(seed).normal(size=K.shape) * np.finfo(float).eps
            other = K * (1.0 + (noise + noise.T) / np.sqrt(2.0))
            basis = options["basis"]
            columns = other if basis is None else other[:, basis]
            again = model.__class__(**{**model.get_params(), "kernel": "precomputed"})
            again.fit(columns, y)
            moved.append(again.held_out().values)
    change = np.std(moved, axis=0).max(axis=(1, 2)) / y.std()
    stated = model.cv_results_["rounding"]
    assert (change <= 5.0 * stated).all()
    assert (change >= 0.02 * stated).all()
