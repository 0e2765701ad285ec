"""Scores of held-out experiments against plain loops over scikit-learn's metric functions."""

import dataclasses
import itertools
import warnings

import numpy as np
import pytest
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics
from sklearn.linear_model import Ridge, RidgeClassifier
from sklearn.model_selection import KFold, cross_val_score

from holdfast.exceptions import InvalidInputError
from holdfast.scores.metrics import METRICS
from holdfast.scores.scorers import decision_to_label_index, decision_to_proba, resolve_scoring
from holdfast.scores.scoring import MAX_SPLITS, combine, score_experiments
from holdfast.scores.standard_errors import jackknife
from reference.sigmoids import probabilities

REGRESSION = {
    "neg_mean_squared_error": lambda y, p, w: -metrics.mean_squared_error(y, p, sample_weight=w),
    "neg_root_mean_squared_error": lambda y, p, w: (
        -metrics.root_mean_squared_error(y, p, sample_weight=w)
    ),
    "neg_mean_absolute_error": lambda y, p, w: -metrics.mean_absolute_error(y, p, sample_weight=w),
    "r2": lambda y, p, w: metrics.r2_score(y, p, sample_weight=w) if len(y) > 1 else np.nan,
    "explained_variance": lambda y, p, w: metrics.explained_variance_score(y, p, sample_weight=w),
    "neg_median_absolute_error": lambda y, p, w: (
        -metrics.median_absolute_error(y, p, sample_weight=w)
    ),
}
CLASSIFICATION = {  # metric(labels, label predictions, probabilities, decision, weights)
    "accuracy": lambda y, c, p, f, w: metrics.accuracy_score(y, c, sample_weight=w),
    "balanced_accuracy": lambda y, c, p, f, w: metrics.balanced_accuracy_score(
        y, c, sample_weight=w
    ),
    "f1_macro": lambda y, c, p, f, w: metrics.f1_score(y, c, average="macro", sample_weight=w),
    "neg_log_loss": lambda y, c, p, f, w: -metrics.log_loss(y, p, sample_weight=w),
    "roc_auc": lambda y, c, p, f, w: metrics.roc_auc_score(y, f, sample_weight=w),
    "roc_auc_ovr": lambda y, c, p, f, w: metrics.roc_auc_score(
        y, p if p.shape[1] > 2 else p[:, 1], multi_class="ovr", sample_weight=w
    ),
    "average_precision": lambda y, c, p, f, w: metrics.average_precision_score(
        y, f, sample_weight=w
    ),
    "neg_brier_score": lambda y, c, p, f, w: (
        -metrics.brier_score_loss(y, p if p.shape[1] > 2 else p[:, 1], sample_weight=w)
    ),
}

REGRESSION_METRICS = [n for n, m in METRICS.items() if m.of == "values"] + ["explained_variance"]

SKLEARN = tuple(int(part) for part in sklearn.__version__.split(".")[:2])
TWO_CLASSES_ONLY = [("roc_auc", 3)] + [("neg_brier_score", 3)] * (SKLEARN < (1, 7))


def loops(score, y, predictions, rows, ptr, weights):
    """Return (pooled, splits): score(y, p, w) of the rows with weight, one call at a time.

    Weights that are all equal count as none, which scikit-learn's median tells apart.
    """
    equal = np.ptp(weights[rows][weights[rows] > 0]) == 0

    def one(p, positions):
        r = rows[positions]
        keep = weights[r] > 0
        if not keep.any():
            return np.nan
        return score(y[r][keep], p[positions][keep], None if equal else weights[r][keep])

    experiments = [np.arange(a, b) for a, b in itertools.pairwise(ptr)]
    pooled = np.array([one(p, np.arange(len(rows))) for p in predictions])
    splits = np.array([[one(p, e) for e in experiments] for p in predictions])
    return pooled, splits


def make_rows(layout, m, rng):
    """Return (rows, ptr) of a list of experiments on m rows."""
    if layout == "folds":  # of unequal size
        cuts = np.sort(rng.choice(np.arange(1, m), size=4, replace=False))
        return rng.permutation(m), np.concatenate([[0], cuts, [m]])
    if layout == "overlapping":  # and one experiment without any test row
        tests = [rng.choice(m, size=s, replace=False) for s in (5, 9, 0, 12, 6)]
        return np.concatenate(tests), np.cumsum([0] + [len(t) for t in tests])
    return np.arange(m), np.arange(m + 1)  # leave-one-out


def make_weights(kind, m, rng):
    if kind == "equal":
        return np.full(m, 0.7)
    weights = rng.uniform(0.1, 3.0, size=m)
    if kind == "zeros":
        weights[rng.random(m) < 0.4] = 0.0
    return weights


def make_regression(seed, v, m=23, a=2):
    rng = np.random.default_rng(seed)
    y = rng.normal(size=(m, v)) + 3.0
    return rng, y, lambda rows: y[rows] + rng.normal(size=(a, len(rows), v))


@pytest.mark.parametrize("name", REGRESSION)
@pytest.mark.parametrize("v", [1, 3])
@pytest.mark.parametrize("weighting", ["equal", "random", "zeros"])
@pytest.mark.parametrize("layout", ["folds", "overlapping", "leave-one-out"])
def test_regression_scores_equal_plain_loops(name, v, weighting, layout):
    rng, y, predict = make_regression(11, v)
    weights = make_weights(weighting, len(y), rng)
    rows, ptr = make_rows(layout, len(y), rng)
    predictions = predict(rows)
    scores = score_experiments(
        resolve_scoring(name), predictions, rows, ptr, y, weights, each_target=True
    )
    pooled, splits = loops(REGRESSION[name], y, predictions, rows, ptr, weights)
    np.testing.assert_allclose(scores.pooled, pooled, rtol=1e-12)
    np.testing.assert_allclose(scores.splits, splits, rtol=1e-10, atol=1e-12)
    assert (name in METRICS) == (resolve_scoring(name).metric is not None)
    if v == 1:
        assert scores.per_target is None
        return
    for t in range(v):
        target = score_experiments(
            resolve_scoring(name), predictions[:, :, [t]], rows, ptr, y[:, [t]], weights
        )
        np.testing.assert_allclose(scores.per_target[:, t], target.pooled, rtol=1e-12)
        np.testing.assert_allclose(scores.per_target_mean[:, t], target.mean, rtol=1e-10)
        np.testing.assert_allclose(scores.per_target_se[:, t], target.se, rtol=1e-8, atol=1e-14)


def plain_proba(decision):
    """Return probabilities row by row, from the definition."""
    out = []
    for f in decision:
        full = np.array([-f[0], f[0]]) if len(f) == 1 else f
        p = np.array([max((1 + value) / 2, 0.0) for value in full])
        out.append(p / p.sum() if p.sum() > 0 else np.exp(full) / np.exp(full).sum())
    return np.array(out)


@pytest.mark.parametrize(
    ("name", "n_classes"),
    [(name, c) for name in CLASSIFICATION for c in (2, 3) if (name, c) not in TWO_CLASSES_ONLY],
)
@pytest.mark.parametrize("weighting", ["equal", "random", "zeros"])
@pytest.mark.filterwarnings("ignore")  # of the plain loops below
def test_classification_scores_equal_plain_loops(name, n_classes, weighting):
    rng = np.random.default_rng(5)
    # These two take the label 1 for the positive class; other labels show that none is assumed.
    plain = name in ("neg_brier_score", "average_precision")
    m, classes = 60, np.arange(n_classes) + (0 if plain else 4)
    labels = classes[rng.integers(n_classes, size=m)]
    v = 1 if n_classes == 2 else n_classes
    weights = make_weights(weighting, m, rng)
    rows, ptr = rng.permutation(m), np.array([0, 20, 41, 60])
    decision = rng.normal(size=(4, m, v)) * 1.5

    index_of = np.searchsorted(classes, labels[rows])

    def score(y, both, w):
        f, p = both[:, :v], both[:, v:]
        index = (f[:, 0] > 0).astype(int) if v == 1 else f.argmax(axis=1)
        return CLASSIFICATION[name](y, classes[index], p, f[:, 0] if v == 1 else f, w)

    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the scores themselves must not warn: only the loops may
        scores = score_experiments(
            resolve_scoring(name, classes=classes), decision, rows, ptr, labels, weights
        )
    both = [np.c_[f, probabilities(f, index_of, weights[rows])] for f in decision]
    pooled, splits = loops(score, labels, both, rows, ptr, weights)
    np.testing.assert_allclose(scores.pooled, pooled, rtol=1e-9)
    np.testing.assert_allclose(scores.splits, splits, rtol=1e-9)
    np.testing.assert_allclose(scores.mean, splits.mean(axis=1), rtol=1e-9)
    np.testing.assert_allclose(scores.std, splits.std(axis=1), rtol=1e-7)
    np.testing.assert_allclose(scores.se, splits.std(axis=1, ddof=1) / np.sqrt(3), rtol=1e-7)
    assert scores.per_target is None


# --- the experiments of real models --------------------------------------------------------------


@pytest.mark.parametrize("name", ["neg_mean_squared_error", "r2", "neg_max_error"])
def test_splits_equal_cross_val_score_of_refitted_models(name):
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(50, 4)), rng.normal(size=50)
    folds = list(KFold(7).split(X))
    alphas = [0.1, 10.0]
    predictions = np.stack(
        [
            np.concatenate([Ridge(alpha=a).fit(X[i], y[i]).predict(X[j]) for i, j in folds])
            for a in alphas
        ]
    )[:, :, None]
    rows = np.concatenate([j for _, j in folds])
    ptr = np.cumsum([0] + [len(j) for _, j in folds])
    scores = score_experiments(
        resolve_scoring(name), predictions, rows, ptr, y[:, None], np.ones(50)
    )
    expected = [cross_val_score(Ridge(alpha=a), X, y, cv=KFold(7), scoring=name) for a in alphas]
    np.testing.assert_allclose(scores.splits, expected, rtol=1e-10)
    np.testing.assert_allclose(scores.mean, np.mean(expected, axis=1), rtol=1e-10)
    np.testing.assert_allclose(scores.std, np.std(expected, axis=1), rtol=1e-10)


@pytest.mark.parametrize("name", ["accuracy", "f1_macro"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_splits_of_classifiers_equal_cross_val_score(name, n_classes):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(90, 3))
    classes = np.array(["ant", "bee", "cow"])[:n_classes]
    y = classes[
        (X[:, 0] + rng.normal(size=90) * 0.5 > 0).astype(int) + (n_classes - 2) * (X[:, 1] > 0)
    ]
    folds = list(KFold(3).split(X))

    decision = np.concatenate(
        [np.asarray(RidgeClassifier().fit(X[i], y[i]).decision_function(X[j])) for i, j in folds]
    )
    scores = score_experiments(
        resolve_scoring(name, classes=classes),
        decision.reshape(1, 90, -1),
        np.concatenate([j for _, j in folds]),
        np.array([0, 30, 60, 90]),
        y,
        np.ones(90),
    )
    expected = cross_val_score(RidgeClassifier(), X, y, cv=KFold(3), scoring=name)
    assert np.isfinite(expected).all()
    np.testing.assert_allclose(scores.splits[0], expected, rtol=1e-12)


# --- standard errors -----------------------------------------------------------------------------


@pytest.mark.parametrize("weighting", ["equal", "random", "zeros"])
def test_r2_of_single_rows_has_the_standard_error_of_a_mean_over_rows(weighting):
    rng, y, predict = make_regression(9, 1, m=130)
    rows, ptr = make_rows("leave-one-out", 130, rng)
    p, w = predict(rows), make_weights(weighting, 130, rng)
    found = score_experiments(resolve_scoring("r2"), p, rows, ptr, y, w)
    squares = score_experiments(resolve_scoring(None), p, rows, ptr, y, w)
    variance = np.average((y - np.average(y, weights=w, axis=0)) ** 2, weights=w, axis=0)
    if weighting == "equal":
        np.testing.assert_allclose(found.se, squares.se / variance)
    # The bootstrap is another way to the same quantity.
    draws = rng.integers(130, size=(400, 130))
    boot = np.std([REGRESSION["r2"](y[d], p[0][d], w[d]) for d in draws])
    assert 0.5 < found.se[0] / boot < 2.0
    many = np.concatenate([p, p], axis=2), rows, ptr, np.hstack([y, y]), w
    twice = score_experiments(resolve_scoring("r2"), *many)
    np.testing.assert_allclose(twice.se, found.se)
    np.testing.assert_allclose(twice.per_target_se, np.tile(found.se[:, None], 2))


def test_called_scores_of_single_rows_have_no_standard_error():
    rng, y, predict = make_regression(8, 2, m=18)
    rows, ptr = make_rows("leave-one-out", 18, rng)
    scoring = resolve_scoring("explained_variance")
    found = score_experiments(scoring, predict(rows), rows, ptr, y, np.ones(18))
    assert np.isfinite(found.pooled).all()
    assert np.isnan(found.se).all()


@pytest.mark.parametrize("order", ["sorted", "periodic"])
def test_blocks_of_the_jackknife_do_not_follow_the_order_of_units(order):
    # Blocks of neighbours, or of every twentieth, would mistake the pattern for error or its lack.
    size = (np.arange(400) // 20 if order == "sorted" else np.arange(400) % 20).astype(float)
    mean, se = jackknife(lambda kept: size[kept].mean(keepdims=True), np.arange(400))
    assert mean[0] == size.mean()
    assert 0.6 < se[0] / (np.std(size, ddof=1) / 20) < 1.6  # along the pattern: above 4, or near 0
    _, exact = jackknife(lambda kept: size[kept].mean(keepdims=True), np.arange(400) % 15)
    totals = np.array([np.delete(size, np.arange(b, 400, 15)).mean() for b in range(15)])
    np.testing.assert_allclose(exact, np.sqrt(14 / 15 * np.sum((totals - totals.mean()) ** 2)))


def test_one_experiment_has_no_standard_error():
    _, y, predict = make_regression(1, 2, m=9)
    for name in ("neg_mean_squared_error", "r2", "explained_variance"):
        scores = score_experiments(
            resolve_scoring(name),
            predict(np.arange(9)),
            np.arange(9),
            np.array([0, 9]),
            y,
            np.ones(9),
            each_target=True,
        )
        np.testing.assert_allclose(scores.splits[:, 0], scores.pooled, rtol=1e-14)
        assert np.isnan(scores.se).all()
        assert np.isnan(scores.per_target_se).all()


# --- weights -------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(
    counts=st.lists(st.integers(0, 3), min_size=8, max_size=14).filter(
        # One row repeated is a constant target to R², where one heavy row is a single row.
        lambda c: sum(n > 0 for n in c) > 1
    ),
    name=st.sampled_from(REGRESSION_METRICS),
    seed=st.integers(0, 2**16),
)
def test_integer_weights_are_repeated_rows(counts, name, seed):
    rng = np.random.default_rng(seed)
    counts, m = np.array(counts), len(counts)
    y = rng.normal(size=(m, 2))
    p = rng.normal(size=(1, m, 2))
    cut = 4
    repeated = np.repeat(np.arange(m), counts)
    ends = np.concatenate([[0], np.cumsum(counts)])[[0, cut, m]]
    a = score_experiments(
        resolve_scoring(name), p, np.arange(m), np.array([0, cut, m]), y, counts.astype(float)
    )
    b = score_experiments(resolve_scoring(name), p[:, repeated], repeated, ends, y, np.ones(m))
    np.testing.assert_allclose(a.pooled, b.pooled, rtol=1e-9, atol=1e-12)
    several = [np.sum(counts[:cut] > 0) > 1, np.sum(counts[cut:] > 0) > 1]
    np.testing.assert_allclose(a.splits[:, several], b.splits[:, several], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "name", ["neg_mean_squared_error", "r2", "neg_max_error", "d2_absolute_error_score"]
)
def test_a_row_of_weight_zero_is_an_absent_row(name):
    rng, y, predict = make_regression(6, 1, m=20)
    weights = make_weights("zeros", 20, rng)
    p = predict(np.arange(20))
    p[:, weights == 0] = 1e6  # must not be looked at, not even by a scorer without weights
    keep = np.flatnonzero(weights > 0)
    half = np.array([0, 10, 20])
    a = score_experiments(resolve_scoring(name), p, np.arange(20), half, y, weights)
    b = score_experiments(
        resolve_scoring(name), p[:, keep], keep, np.searchsorted(keep, half), y, weights
    )
    for field in ("pooled", "splits", "mean", "std", "se"):
        np.testing.assert_array_equal(getattr(a, field), getattr(b, field))


@pytest.mark.parametrize("name", ["neg_mean_squared_error", "r2", "explained_variance"])
def test_an_experiment_without_weight_is_left_out(name):
    rng, y, predict = make_regression(2, 2, m=24)
    p = predict(np.arange(24))
    weights = rng.uniform(0.5, 2.0, size=24)
    weights[6:12] = 0.0
    ptr = np.array([0, 6, 12, 18, 24])
    scores = score_experiments(resolve_scoring(name), p, np.arange(24), ptr, y, weights)
    rest = np.r_[0:6, 12:24]
    others = score_experiments(
        resolve_scoring(name), p[:, rest], rest, np.array([0, 6, 12, 18]), y, weights
    )
    assert np.isnan(scores.splits[:, 1]).all()
    np.testing.assert_array_equal(scores.splits[:, [0, 2, 3]], others.splits)
    for field in ("pooled", "mean", "std", "se", "per_target"):
        np.testing.assert_array_equal(getattr(scores, field), getattr(others, field))


def test_no_weight_at_all_is_an_error():
    y, p = np.zeros((4, 1)), np.zeros((1, 4, 1))
    with pytest.raises(InvalidInputError, match="zero for every test row"):
        score_experiments(
            resolve_scoring(None), p, np.arange(4), np.array([0, 2, 4]), y, np.zeros(4)
        )
    with pytest.raises(InvalidInputError, match="zero for every test row"):
        resolve_scoring(None).score(y, p[0], np.zeros(4))


# --- many experiments ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", REGRESSION_METRICS[:-1])
def test_fast_metrics_call_no_scorer(name):
    def refuse(*args, **kwargs):
        raise AssertionError("called")

    _, y, predict = make_regression(5, 1, m=5000)
    rows, ptr = np.arange(5000), np.arange(5001)
    p = predict(rows)
    scoring = dataclasses.replace(resolve_scoring(name), scorer=refuse)
    scores = score_experiments(scoring, p, rows, ptr, y, np.ones(5000))
    residual = (p - y)[:, :, 0]
    expected = {
        "neg_mean_squared_error": -(residual**2),
        "neg_root_mean_squared_error": -np.abs(residual),
        "neg_mean_absolute_error": -np.abs(residual),
        "r2": np.full_like(residual, np.nan),
    }[name]
    np.testing.assert_allclose(scores.splits, expected, rtol=1e-13)
    assert np.isfinite(scores.se).all()
    assert np.isnan(scores.mean).all() == (name == "r2")


def test_called_scorers_are_not_called_for_each_of_many_experiments():
    calls = []

    def scorer(estimator, X, y):
        calls.append(len(y))
        return -np.abs(estimator.predict(X) - y).mean()

    m = MAX_SPLITS + 1
    _, y, predict = make_regression(5, 1, m=m)
    rows, ptr = np.arange(m), np.arange(m + 1)
    p = predict(rows)
    scores = score_experiments(resolve_scoring(scorer), p, rows, ptr, y, np.ones(m))
    assert len(calls) == len(p)
    assert np.isnan(scores.splits).all()
    assert scores.splits.shape == (len(p), m)
    assert np.isnan(scores.mean).all()
    fast = score_experiments(
        resolve_scoring("neg_mean_absolute_error"), p, rows, ptr, y, np.ones(m)
    )
    np.testing.assert_allclose(scores.pooled, fast.pooled, rtol=1e-12)
    assert np.isnan(scores.se).all()


# --- undefined scores ----------------------------------------------------------------------------


def test_an_auc_of_one_class_is_nan_without_a_warning():
    labels = np.array([0, 0, 0, 1, 0, 1, 1, 1])
    f = np.linspace(-1, 1, 8)[None, :, None]
    scoring = resolve_scoring("roc_auc", classes=np.array([0, 1]))
    scores = score_experiments(scoring, f, np.arange(8), np.array([0, 3, 6, 8]), labels, np.ones(8))
    np.testing.assert_array_equal(np.isnan(scores.splits), [[True, False, True]])
    np.testing.assert_allclose(scores.pooled, metrics.roc_auc_score(labels, f[0, :, 0]))
    np.testing.assert_allclose(scores.mean, scores.splits[:, 1])
    assert scores.std == 0.0
    assert np.isnan(scores.se).all()


@pytest.mark.parametrize("name", [*REGRESSION])
def test_predictions_that_are_not_finite_score_nan(name):
    _, y, predict = make_regression(7, 2, m=12)
    p = predict(np.arange(12))
    p[0, 3, 1] = np.inf
    scores = score_experiments(
        resolve_scoring(name), p, np.arange(12), np.array([0, 6, 12]), y, np.ones(12)
    )
    np.testing.assert_array_equal(np.isnan(scores.pooled), [True, False])
    np.testing.assert_array_equal(np.isnan(scores.splits), [[True, False], [False, False]])
    assert np.isnan(resolve_scoring(name).score(y, p[0], np.ones(12)))


def test_accuracy_without_a_decision_is_nan():
    f = np.array([[0.3, np.nan, -1.0], [1.0, 2.0, 3.0]])[:, None, :]
    scoring = resolve_scoring("accuracy", classes=np.arange(3))
    scores = score_experiments(
        scoring, f, np.array([0]), np.array([0, 1]), np.array([2]), np.ones(1)
    )
    np.testing.assert_array_equal(scores.pooled, [np.nan, 1.0])


def test_a_label_that_is_no_class_is_never_hit():
    labels, f = np.array([1, 2, 9]), np.array([[-1.0], [1.0], [1.0]])
    scoring = resolve_scoring("accuracy", classes=np.array([1, 2]))
    scores = score_experiments(scoring, f[None], np.arange(3), np.array([0, 3]), labels, np.ones(3))
    assert scores.pooled[0] == scoring.score(labels, f, np.ones(3)) == 2 / 3


def test_r2_of_a_constant_target():
    y = np.full((9, 1), 0.1)
    p = np.stack([np.full((9, 1), 0.1), np.zeros((9, 1))])
    # Rounding may put a weighted mean beside the target, for some weights on every machine.
    for seed in range(200):
        weights = np.random.default_rng(seed).uniform(0.1, 3.0, size=9)
        scores = score_experiments(
            resolve_scoring("r2"), p, np.arange(9), np.array([0, 4, 9]), y, weights
        )
        np.testing.assert_array_equal(scores.pooled, [1.0, 0.0])
        np.testing.assert_array_equal(scores.splits, [[1.0, 1.0], [0.0, 0.0]])


# --- Scoring.score -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", REGRESSION)
@pytest.mark.parametrize("v", [1, 2])
def test_score_equals_the_metric(name, v):
    rng, y, predict = make_regression(10, v)
    p = predict(np.arange(len(y)))[0]
    weights = make_weights("random", len(y), rng)
    expected = REGRESSION[name](y, p, weights)
    assert resolve_scoring(name).score(y, p, weights) == pytest.approx(expected, rel=1e-13)


def test_defaults():
    assert resolve_scoring(None).name == "neg_mean_squared_error"
    assert resolve_scoring(None, classes=np.array(["a", "b"])).name == "neg_log_loss"


def test_scorer_objects_take_the_fast_way_only_when_they_mean_the_same():
    mse = metrics.mean_squared_error
    scorer = metrics.make_scorer(mse, greater_is_better=False)
    assert resolve_scoring(scorer).metric is METRICS["neg_mean_squared_error"]
    assert resolve_scoring(metrics.get_scorer("r2")).metric is METRICS["r2"]
    assert resolve_scoring(metrics.make_scorer(mse)).metric is None
    weighted = metrics.make_scorer(metrics.r2_score, multioutput="variance_weighted")
    assert resolve_scoring(weighted).metric is None
    # accuracy of a regression on 0/1 targets is scikit-learn's to judge
    assert resolve_scoring("accuracy").metric is None
    assert resolve_scoring("r2", classes=np.array([0, 1])).metric is None


def test_scorer_with_its_own_multioutput():
    _, y, predict = make_regression(10, 3)
    p = predict(np.arange(len(y)))[0]
    scorer = metrics.make_scorer(metrics.r2_score, multioutput="variance_weighted")
    expected = metrics.r2_score(y, p, multioutput="variance_weighted")
    assert resolve_scoring(scorer).score(y, p, np.ones(len(y))) == pytest.approx(expected)


def test_callable_scorers_get_weights_only_if_they_take_them():
    seen = {}

    def with_weights(estimator, X, y, sample_weight=None):
        seen["weights"] = sample_weight
        seen["shapes"] = (X.shape, y.shape)
        return 1

    def without(estimator, X, y):
        return float(np.sum(estimator.predict(X) == y))

    y, p = np.arange(4.0)[:, None], np.arange(4.0)[:, None]
    assert resolve_scoring(with_weights).score(y, p, np.ones(4)) == 1.0
    assert seen["weights"] is None
    resolve_scoring(with_weights).score(y, p, np.array([0.0, 1.0, 2.0, 3.0]))
    np.testing.assert_array_equal(seen["weights"], [1.0, 2.0, 3.0])
    assert seen["shapes"] == ((3,), (3,))
    assert resolve_scoring(without).score(y, p, np.array([0.0, 1.0, 2.0, 3.0])) == 3.0
    assert resolve_scoring(without).name.endswith("without")


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_estimator_that_a_scorer_sees(n_classes):
    classes = np.array(["ant", "bee", "cow"])[:n_classes]
    f = np.array([[0.5], [-0.5]]) if n_classes == 2 else np.array([[0.1, 0.2, 0.9], [0.3, 0, 0]])
    labels = ["bee", "ant"] if n_classes == 2 else ["cow", "ant"]

    def scorer(estimator, X, y):
        decision = estimator.decision_function(X)
        assert decision.shape == ((2,) if n_classes == 2 else (2, 3))
        assert estimator.predict_proba(X).shape == (2, n_classes)
        np.testing.assert_array_equal(estimator.classes_, classes)
        np.testing.assert_array_equal(estimator.predict(X), labels)
        assert sklearn.base.is_classifier(estimator)
        return 0.5

    assert resolve_scoring(scorer, classes=classes).score(np.array(labels), f, np.ones(2)) == 0.5


def test_metadata_routing_changes_nothing():
    rng, y, predict = make_regression(10, 1)
    p, weights = predict(np.arange(len(y)))[0], make_weights("random", len(y), rng)
    plain = resolve_scoring("explained_variance").score(y, p, weights)
    with sklearn.config_context(enable_metadata_routing=True):
        assert resolve_scoring("explained_variance").score(y, p, weights) == plain


@pytest.mark.skipif(SKLEARN < (1, 9), reason="scikit-learn refuses a regressor's decisions")
def test_ranking_metrics_of_a_regression():
    y = np.array([0.0, 1.0, 1.0, 0.0])[:, None]
    p = np.array([0.1, 0.9, 0.3, 0.4])[:, None]
    assert resolve_scoring("roc_auc").score(y, p, np.ones(4)) == 0.75


def test_inputs_are_not_changed():
    rng, y, predict = make_regression(10, 2)
    rows, ptr = make_rows("folds", len(y), rng)
    arrays = [predict(rows), rows, ptr, y, make_weights("zeros", len(y), rng)]
    copies = [a.copy() for a in arrays]
    for name in REGRESSION:
        score_experiments(resolve_scoring(name), *arrays, each_target=True)
    for array, copy in zip(arrays, copies, strict=True):
        np.testing.assert_array_equal(array, copy)


# --- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scoring", "message"),
    [
        ("neg_mean_square_error", "did you mean 'neg_mean_squared_error'"),
        ("zzz", "get_scorer_names"),
        (["r2"], "must be None, the name of one scikit-learn scorer"),
        (3, "got 3"),
        (metrics.mean_squared_error, "make_scorer"),
    ],
)
def test_unknown_scoring(scoring, message):
    with pytest.raises(InvalidInputError, match=message):
        resolve_scoring(scoring)


def test_a_scorer_that_refuses_is_named():
    y, p = np.zeros((4, 2)), np.zeros((4, 2))
    with pytest.raises(InvalidInputError, match=r"scoring='neg_max_error' cannot score.*[Mm]ulti"):
        resolve_scoring("neg_max_error").score(y, p, np.ones(4))
    with pytest.raises(InvalidInputError, match="scoring='neg_log_loss' cannot score"):
        resolve_scoring("neg_log_loss").score(y, p, np.ones(4))
    with pytest.raises(InvalidInputError, match="must return one number, got dict"):
        resolve_scoring(lambda estimator, X, y: {"a": 1.0}).score(y, p, np.ones(4))


def test_a_classifier_needs_two_classes():
    with pytest.raises(InvalidInputError, match="at least two classes"):
        resolve_scoring(None, classes=np.array([1]))


# --- decision values -----------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(n_classes=st.integers(2, 5), seed=st.integers(0, 2**16), scale=st.sampled_from([0.5, 2, 9]))
def test_probabilities_of_decisions(n_classes, seed, scale):
    rng = np.random.default_rng(seed)
    v = 1 if n_classes == 2 else n_classes
    decision = rng.normal(size=(12, v)) * scale - (scale if v > 1 else 0)
    proba = decision_to_proba(decision, n_classes)
    np.testing.assert_allclose(proba, plain_proba(decision), rtol=1e-12)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-14)
    # The predicted class is the most probable one.
    label = decision_to_label_index(decision)
    chosen = np.take_along_axis(proba, label[:, None], axis=1)[:, 0]
    np.testing.assert_array_equal(chosen, proba.max(axis=1))


def test_probabilities_where_every_term_vanishes_are_a_softmax():
    decision = np.array([[-1000.0, -1001.0, -2000.0], [-1.0, -1.0, -1.0]])
    expected = [[1 / (1 + np.exp(-1)), 1 / (1 + np.exp(1)), 0.0], [1 / 3] * 3]
    np.testing.assert_allclose(decision_to_proba(decision, 3), expected, rtol=1e-12)


# --- chunks of targets ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*REGRESSION])
@pytest.mark.parametrize("layout", ["folds", "leave-one-out"])
@pytest.mark.parametrize("weighting", ["equal", "zeros"])
def test_chunks_of_targets_combine_to_the_whole(name, layout, weighting):
    rng, y, predict = make_regression(12, 4, m=16)
    rows, ptr = make_rows(layout, 16, rng)
    p, weights = predict(rows), make_weights(weighting, 16, rng)
    scoring = resolve_scoring(name)
    chunks = [slice(0, 1), slice(1, 4)]
    parts = [
        score_experiments(scoring, p[:, :, c], rows, ptr, y[:, c], weights, each_target=True)
        for c in chunks
    ]
    found = combine(parts, [1, 3])
    whole = score_experiments(scoring, p, rows, ptr, y, weights, each_target=True)
    for field in dataclasses.fields(whole):
        a, b = getattr(found, field.name), getattr(whole, field.name)
        assert (a is None) == (b is None), field.name
        if (
            field.name == "se"
            and name == "r2"
            and np.isnan(whole.splits[:, ptr[1:] > ptr[:-1]]).any()
        ):
            assert (a >= b).all()  # more than the splits is needed: a bound
        elif a is not None:
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-13, err_msg=field.name)
