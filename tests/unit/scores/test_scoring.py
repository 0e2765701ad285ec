"""Scores of held-out predictions against plain loops over scikit-learn's metric functions."""

import itertools
import warnings
from dataclasses import replace

import numpy as np
import pytest
import sklearn
from scipy import stats
from sklearn import metrics
from sklearn.base import is_classifier
from sklearn.model_selection import KFold, LeaveOneGroupOut

from holdfast import HoldOut, KernelRidgeClassifierCV, KernelRidgeCV
from holdfast.exceptions import GridEdgeWarning, InvalidInputError, NotSupportedError
from reference.sigmoids import probabilities

pytestmark = pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")

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
MEANS = ["neg_mean_squared_error", "neg_root_mean_squared_error", "neg_mean_absolute_error", "r2"]
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
SKLEARN = tuple(int(part) for part in sklearn.__version__.split(".")[:2])
TWO_CLASSES_ONLY = [("roc_auc", 3)] + [("neg_brier_score", 3)] * (SKLEARN < (1, 7))

M = 23
RNG = np.random.default_rng(11)
X = RNG.normal(size=(M, 2))
Y = np.sin(2 * X[:, :1]) + 0.5 * RNG.normal(size=(M, 3)) + 3.0
ALPHAS = [0.1, 3.0]
LAYOUTS = {
    "folds": [HoldOut(rows) for rows in np.split(RNG.permutation(M), [4, 6, 14, 18])],
    "overlapping": [HoldOut(RNG.choice(M, n, replace=False)) for n in (5, 9, 12, 6)],
    "leave-one-out": None,
}
WEIGHTS = {
    "equal": np.full(M, 0.7),
    "random": RNG.uniform(0.1, 3.0, size=M),
    "zeros": np.where(RNG.random(M) < 0.3, 0.0, RNG.uniform(0.1, 3.0, size=M)),
}


def fit(y=None, *, classifier=False, weights=None, groups=None, rows=X, **options):
    """Return a model with few penalties, fitted to rows of this file."""
    kind = KernelRidgeClassifierCV if classifier else KernelRidgeCV
    model = kind(**{"gamma": 0.5, "alphas": ALPHAS, "cv": KFold(4), **options})
    return model.fit(rows, Y[:, 0] if y is None else y, sample_weight=weights, groups=groups)


def columns(model):
    """Return (pooled, splits), each with a row for each penalty."""
    n = model.n_splits_
    splits = [model.cv_results_[f"split{i}_test_score"] for i in range(n)]
    return model.cv_results_["pooled_test_score"], np.array(splits).T


def loops(score, y, found, weights):
    """Return (pooled, splits): score(y, p, w) of the rows with weight, one call at a time.

    Weights that are all equal count as none, which scikit-learn's median tells apart.
    """
    rows, predictions = found.rows, found.values
    equal = np.ptp(weights[rows][weights[rows] > 0]) == 0

    def one(p, positions):
        r = rows[positions]
        keep = weights[r] > 0
        if not keep.any():
            return np.nan
        return score(y[r][keep], p[positions][keep], None if equal else weights[r][keep])

    ends = np.cumsum([0] + [len(e.test) for e in found.experiments])
    experiments = [np.arange(a, b) for a, b in itertools.pairwise(ends)]
    pooled = np.array([one(p, np.arange(len(rows))) for p in predictions])
    return pooled, np.array([[one(p, e) for e in experiments] for p in predictions])


# --- the table of results -------------------------------------------------------------------------


@pytest.mark.parametrize("name", REGRESSION)
@pytest.mark.parametrize("v", [1, 3])
@pytest.mark.parametrize("weighting", WEIGHTS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_regression_scores_equal_plain_loops(name, v, weighting, layout):
    y, w = Y[:, :v], WEIGHTS[weighting]
    model = fit(y, weights=w, cv=LAYOUTS[layout], scoring=name)
    found = model.held_out()
    pooled, splits = loops(REGRESSION[name], y, found, w)
    results = model.cv_results_
    np.testing.assert_allclose(columns(model)[0], pooled, rtol=1e-12)
    np.testing.assert_allclose(columns(model)[1], splits, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found.score(name, pooled=True), pooled, rtol=1e-12)
    defined = splits[:, ~np.isnan(splits).all(axis=0)]
    if defined.size:
        np.testing.assert_allclose(results["mean_test_score"], defined.mean(axis=1), rtol=1e-9)
        np.testing.assert_allclose(results["std_test_score"], defined.std(axis=1), rtol=1e-7)
    if layout == "folds":
        se = defined.std(axis=1, ddof=1) / np.sqrt(defined.shape[1])
        np.testing.assert_allclose(results["se_test_score"], se, rtol=1e-7)
    assert ("target_test_score" in results) == (v > 1)
    for t in range(v if v > 1 else 0):
        target = loops(lambda a, b, w, t=t: REGRESSION[name](a[:, t], b[:, t], w), y, found, w)
        np.testing.assert_allclose(results["target_test_score"][:, t], target[0], rtol=1e-12)


@pytest.mark.parametrize(
    ("name", "n_classes"),
    [(name, c) for name in CLASSIFICATION for c in (2, 3) if (name, c) not in TWO_CLASSES_ONLY],
)
@pytest.mark.parametrize("weighting", ["random", "zeros"])
@pytest.mark.filterwarnings("ignore")  # of the plain loops below
def test_classification_scores_equal_plain_loops(name, n_classes, weighting):
    rng = np.random.default_rng(5)
    # These two take the label 1 for the positive class; other labels show that none is assumed.
    plain = name in ("neg_brier_score", "average_precision")
    m, classes = 60, np.arange(n_classes) + (0 if plain else 4)
    labels = classes[rng.integers(n_classes, size=m)]
    weights = rng.uniform(0.1, 3.0, size=m)
    weights[rng.random(m) < (0.4 if weighting == "zeros" else 0.0)] = 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the scores themselves must not warn: only the loops may
        warnings.simplefilter("ignore", GridEdgeWarning)
        model = fit(
            labels, classifier=True, weights=weights, rows=rng.normal(size=(m, 2)), scoring=name,
            alphas=[0.01, 0.1, 1.0, 10.0], gamma=2.0, cv=KFold(3),
        )  # fmt: skip
    found = model.held_out()
    v, index_of = found.values.shape[2], np.searchsorted(classes, labels[found.rows])
    both = [np.c_[f, probabilities(f, index_of, weights[found.rows])] for f in found.values]

    def score(y, both, w):
        f, p = both[:, :v], both[:, v:]
        index = (f[:, 0] > 0).astype(int) if v == 1 else f.argmax(axis=1)
        return CLASSIFICATION[name](y, classes[index], p, f[:, 0] if v == 1 else f, w)

    pooled, splits = loops(score, labels, replace(found, values=np.array(both)), weights)
    np.testing.assert_allclose(columns(model)[0], pooled, rtol=1e-9)
    np.testing.assert_allclose(columns(model)[1], splits, rtol=1e-9)
    np.testing.assert_allclose(model.cv_results_["mean_test_score"], splits.mean(axis=1), rtol=1e-9)


# --- standard errors ------------------------------------------------------------------------------


@pytest.mark.parametrize("weighting", ["equal", "random", "zeros"])
def test_r2_of_single_rows_has_the_standard_error_of_a_mean_over_rows(weighting):
    rng = np.random.default_rng(9)
    rows = rng.normal(size=(130, 2))
    y, w = rows[:, 0] + rng.normal(size=130), rng.uniform(0.1, 3.0, size=130)
    w = np.ones(130) if weighting == "equal" else w
    w[rng.random(130) < (0.4 if weighting == "zeros" else 0.0)] = 0.0
    options = {"weights": w, "rows": rows, "cv": None}
    model = fit(y, scoring="r2", **options)
    se, p = model.cv_results_["se_test_score"], model.held_out().matrix()[:, :, 0]
    if weighting == "equal":
        squares = fit(y, **options).cv_results_["se_test_score"]
        np.testing.assert_allclose(se, squares / y.var())
    # The bootstrap is another way to the same quantity.
    draws = rng.integers(130, size=(400, 130))
    boot = np.std([REGRESSION["r2"](y[d], p[0][d], w[d]) for d in draws])
    assert 0.5 < se[0] / boot < 2.0
    twice = fit(np.c_[y, y], scoring="r2", **options)
    np.testing.assert_allclose(twice.cv_results_["se_test_score"], se)


def test_one_experiment_of_a_single_row_lends_r2_the_error_of_a_mean():
    """Its R² is undefined, so the standard error is that of the pooled score."""
    y, ends = Y[:, 0], [1, 9]
    model = fit(cv=[HoldOut(rows) for rows in np.split(np.arange(M), ends)], scoring="r2")
    splits = columns(model)[1]
    for i, p in enumerate(model.held_out().matrix()[:, :, 0]):
        square = (y - p) ** 2
        sums = [part.sum() for part in np.split(square - square.mean(), ends)]
        se = np.sqrt(3 / 2 * np.square(sums).sum()) / M / y.var()
        assert model.cv_results_["se_test_score"][i] == pytest.approx(se)
    np.testing.assert_array_equal(np.isnan(splits), [[True, False, False]] * 2)
    np.testing.assert_allclose(model.cv_results_["mean_test_score"], splits[:, 1:].mean(axis=1))


@pytest.mark.parametrize("name", ["neg_mean_squared_error", "r2", "explained_variance"])
def test_no_standard_error_of_one_experiment(name):
    model = fit(Y, cv=[HoldOut(np.arange(9))], scoring=name)
    pooled, splits = columns(model)
    np.testing.assert_allclose(splits[:, 0], pooled, rtol=1e-14)
    assert np.isnan(model.cv_results_["se_test_score"]).all()


def test_no_standard_error_of_called_scores_of_single_rows():
    model = fit(Y, cv=None, scoring="explained_variance")
    assert np.isfinite(model.cv_results_["pooled_test_score"]).all()
    assert np.isnan(model.cv_results_["se_test_score"]).all()


@pytest.mark.parametrize("order", ["sorted", "periodic"])
def test_the_error_of_no_mean_over_rows_does_not_follow_the_order_of_rows(order):
    """Blocks of neighbours, or of every twentieth, would mistake a pattern for error."""
    m = 400
    rows = np.random.default_rng(0).normal(size=(m, 1))
    size = (np.arange(m) // 20 if order == "sorted" else np.arange(m) % 20).astype(float)

    model = fit(size, rows=rows, alphas=[1e6], cv=KFold(4, shuffle=True, random_state=0),
                scoring=mean_size)  # fmt: skip
    found = model.score_interval(method="asymptotic")
    assert found.score == pytest.approx(size.mean())
    assert 0.6 < found.standard_error / (np.std(size, ddof=1) / 20) < 1.6  # otherwise 4, or near 0


def mean_size(estimator, X, y):
    return float(np.mean(y))


def test_the_error_of_no_mean_over_rows_leaves_out_groups_one_at_a_time():
    size, groups = np.arange(60) // 7 + 0.0, np.arange(60) % 15
    rows = np.random.default_rng(0).normal(size=(60, 1))
    model = fit(size, rows=rows, groups=groups, cv=LeaveOneGroupOut(), scoring=mean_size)
    means = np.array([size[groups != g].mean() for g in range(15)])
    expected = np.sqrt(14 / 15 * np.sum((means - means.mean()) ** 2))
    assert model.score_interval(method="asymptotic").standard_error == pytest.approx(expected)


# --- weights --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MEANS)
def test_integer_weights_are_repeated_rows(name):
    for seed in range(10):
        counts = np.random.default_rng(seed).integers(0, 4, size=M)
        found = replace(fit(Y).held_out(), weights=counts.astype(float))
        repeated = np.repeat(np.arange(M), counts)
        twin = [REGRESSION[name](Y[repeated], p[repeated], None) for p in found.matrix()]
        np.testing.assert_allclose(found.score(name, pooled=True), twin, rtol=1e-9)


@pytest.mark.parametrize(
    "name", ["neg_mean_squared_error", "r2", "neg_max_error", "d2_absolute_error_score"]
)
def test_a_row_of_weight_zero_is_an_absent_row(name):
    found = fit(weights=WEIGHTS["zeros"], cv=KFold(5)).held_out()
    values, absent = found.values.copy(), WEIGHTS["zeros"][found.rows] == 0
    values[:, absent] = 1e6  # must not be looked at, not even by a scorer without weights
    changed = replace(found, values=values)
    for pooled in (True, False):
        np.testing.assert_array_equal(
            changed.score(name, pooled=pooled), found.score(name, pooled=pooled)
        )


@pytest.mark.parametrize("name", ["neg_mean_squared_error", "r2", "explained_variance"])
def test_an_experiment_without_weight_is_left_out(name):
    w = WEIGHTS["random"].copy()
    w[6:12] = 0.0
    ends = [[0, 6], [6, 12], [12, 18], [18, M]]
    folds = [HoldOut(np.arange(a, b)) for a, b in ends]
    some = fit(Y, weights=w, cv=folds, scoring=name)
    rest = fit(Y, weights=w, cv=[folds[i] for i in (0, 2, 3)], scoring=name)
    assert np.isnan(columns(some)[1][:, 1]).all()
    np.testing.assert_allclose(columns(some)[1][:, [0, 2, 3]], columns(rest)[1], rtol=1e-12)
    for key in ("pooled", "mean", "std", "se", "target"):
        a, b = (model.cv_results_[f"{key}_test_score"] for model in (some, rest))
        np.testing.assert_allclose(a, b, rtol=1e-10)


def test_no_weight_at_all_is_an_error():
    w = np.ones(M)
    w[:4] = 0.0
    with pytest.raises(InvalidInputError, match="sample_weight") as caught:
        fit(weights=w, cv=[HoldOut([0, 1]), HoldOut([2, 3])])
    assert caught.value.argument == "sample_weight"


# --- many experiments -----------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "each"), [(1000, True), (1001, False)])
def test_scorers_are_called_for_each_of_a_thousand_experiments_and_not_of_more(n, each):
    calls = []

    def absolute(estimator, X, y):
        calls.append(len(y))
        return -np.abs(estimator.predict(X) - y).mean()

    rows = np.random.default_rng(5).normal(size=(n, 1))
    options = {"rows": rows, "cv": None, "basis": 5, "alphas": [0.1, 1.0], "random_state": 0}
    model = fit(np.sin(rows[:, 0]), scoring=absolute, **options)
    assert (len(calls) == 2 * (n + 1)) == each
    assert (len(calls) == 2) != each
    fast = fit(np.sin(rows[:, 0]), scoring="neg_mean_absolute_error", **options).cv_results_
    for key in ("pooled", "mean"):
        slow = model.cv_results_[f"{key}_test_score"]
        if key == "pooled" or each:
            np.testing.assert_allclose(slow, fast[f"{key}_test_score"], rtol=1e-12)
        else:
            assert np.isnan(slow).all()
    assert np.isfinite(fast["se_test_score"]).all()


# --- undefined scores -----------------------------------------------------------------------------


def test_an_auc_of_one_class_is_nan_without_a_warning():
    labels = np.array([0, 0, 0, 1, 0, 1, 1, 1])
    folds = [HoldOut([0, 1, 2]), HoldOut([3, 4, 5]), HoldOut([6, 7])]
    model = fit(labels, classifier=True, rows=X[:8], cv=folds, scoring="roc_auc")
    pooled, splits = columns(model)
    np.testing.assert_array_equal(np.isnan(splits), [[True, False, True]] * 2)
    f = model.held_out().matrix()[:, :, 0]
    np.testing.assert_allclose(pooled, [metrics.roc_auc_score(labels, one) for one in f])
    np.testing.assert_allclose(model.cv_results_["mean_test_score"], splits[:, 1])
    assert (model.cv_results_["std_test_score"] == 0.0).all()
    assert np.isnan(model.cv_results_["se_test_score"]).all()


@pytest.mark.parametrize("name", REGRESSION)
def test_predictions_that_are_not_finite_score_nan(name):
    found = fit(Y).held_out()
    values = found.values.copy()
    values[0, 3, 1] = np.inf
    scores = replace(found, values=values).score(name, pooled=True)
    np.testing.assert_array_equal(np.isnan(scores), [True, False])


@pytest.mark.parametrize("three", [False, True], ids=["two classes", "three classes"])
def test_accuracy_of_decisions_that_are_ties_or_nothing(three):
    """Zero names the first class; of equal decisions the first is named; nan names none."""
    labels = np.array(["a", "b", "c"])[np.arange(M) % (3 if three else 2)]
    found = fit(labels, classifier=True).held_out()
    decisions = np.zeros_like(found.values)
    decisions[1, 5] = np.nan
    accuracy = replace(found, values=decisions).score("accuracy", pooled=True)
    np.testing.assert_array_equal(accuracy, [np.mean(labels == "a"), np.nan])


def test_r2_of_a_constant_target():
    y = np.full((9, 1), 0.1)
    found = fit(Y[:9], rows=X[:9], cv=KFold(2)).held_out()
    p = np.stack([y, np.zeros((9, 1))])
    # Rounding may put a weighted mean beside the target, for some weights on every machine.
    for seed in range(200):
        weights = np.random.default_rng(seed).uniform(0.1, 3.0, size=9)
        constant = replace(found, y=y, values=p, weights=weights)
        for pooled in (True, False):
            np.testing.assert_array_equal(constant.score("r2", pooled=pooled), [1.0, 0.0])


def test_a_summary_of_very_many_splits_and_rows():
    """More than fit into a cache, or are summed up at once."""
    m = 600_000
    found = fit(Y[:, 0], cv=None).held_out()
    rng = np.random.default_rng(0)
    y, values = rng.normal(size=(m, 1)), rng.normal(size=(2, m, 1))
    large = KernelRidgeCV("linear", alphas=[1.0]).fit(y, y[:, 0]).held_out()
    many = replace(large, y=y, values=values, weights=np.ones(m), scoring=found.scoring)
    expected = -np.mean((y - values) ** 2, axis=(1, 2))
    for pooled in (True, False):
        np.testing.assert_allclose(many.score(pooled=pooled), expected, rtol=1e-11)


# --- scorers --------------------------------------------------------------------------------------


def test_scorers_that_mean_something_else_than_a_known_name():
    squared = metrics.mean_squared_error
    weighted = metrics.make_scorer(metrics.r2_score, multioutput="variance_weighted")
    found = fit(Y).held_out()
    expected = [squared(Y, p) for p in found.matrix()]
    for scorer, sign in (
        (metrics.make_scorer(squared, greater_is_better=False), -1),
        (metrics.make_scorer(squared), 1),
    ):
        np.testing.assert_allclose(found.score(scorer, pooled=True), sign * np.array(expected))
    expected = [metrics.r2_score(Y, p, multioutput="variance_weighted") for p in found.matrix()]
    np.testing.assert_allclose(found.score(weighted, pooled=True), expected)
    plain = found.score(metrics.get_scorer("r2"), pooled=True)
    np.testing.assert_array_equal(plain, found.score("r2", pooled=True))
    labels = np.arange(M) % 2  # the error of a classifier's labels is scikit-learn's to judge
    model = fit(labels, classifier=True, scoring="r2")
    for p, score in zip(model.held_out().labels(), columns(model)[0], strict=True):
        assert score == pytest.approx(metrics.r2_score(labels[model.held_out().rows], p))
    with pytest.raises(InvalidInputError, match="accuracy"):
        found.score("accuracy")


def test_what_a_scorer_is_given():
    """Weights and groups only if it takes them, of rows that count, and no weights all alike."""
    seen = []

    def both(estimator, X, y, sample_weight=None, groups=None):
        some = [None if part is None else part.tolist() for part in (sample_weight, groups)]
        seen.append((X.shape, y.shape, *some))
        return 1

    def neither(estimator, X, y):
        return float(np.sum(estimator.predict(X) == X))

    groups = np.array(list("abcd"))
    folds = [HoldOut([0, 1]), HoldOut([2, 3])]
    options = {"rows": X[:4], "cv": folds, "alphas": [1.0], "groups": groups}
    fit(Y[:4, 0], weights=[2.0, 0.0, 2.0, 2.0], scoring=both, **options)
    assert seen == [
        ((3,), (3,), None, ["a", "c", "d"]),
        ((1,), (1,), None, ["a"]),
        ((2,), (2,), None, ["c", "d"]),
    ]
    seen.clear()
    model = fit(Y[:4, 0], weights=[2.0, 0.0, 1.0, 2.0], scoring=both, **options)
    assert seen[0] == ((3,), (3,), [2.0, 1.0, 2.0], ["a", "c", "d"])
    assert model.best_score_ == 1.0
    seen.clear()
    fit(Y[:4, 0], scoring=both, **{**options, "groups": None})
    assert seen[0] == ((4,), (4,), None, None)
    model = fit(Y[:4, 0], weights=[2.0, 0.0, 1.0, 2.0], scoring=neither, **options)
    assert model.best_score_ == 3.0
    assert "neither" in repr(model.permutation_test(2))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_estimator_that_a_scorer_sees(n_classes):
    classes = np.array(["ant", "bee", "cow"])[:n_classes]
    labels, seen = classes[np.arange(M) % n_classes], []

    def scorer(estimator, X, y):
        decision = estimator.decision_function(X)
        assert decision.shape == ((len(y),) if n_classes == 2 else (len(y), 3))
        assert estimator.predict_proba(X).shape == (len(y), n_classes)
        np.testing.assert_array_equal(estimator.classes_, classes)
        index = (decision > 0).astype(int) if n_classes == 2 else decision.argmax(axis=1)
        np.testing.assert_array_equal(estimator.predict(X), classes[index])
        assert is_classifier(estimator)
        seen.append(len(y))
        return 0.5

    assert fit(labels, classifier=True, scoring=scorer).best_score_ == 0.5
    assert set(seen) == {M, 5, 6}


def test_metadata_routing_changes_nothing():
    options = {"weights": WEIGHTS["random"], "scoring": "explained_variance"}
    plain = fit(**options).best_score_
    with sklearn.config_context(enable_metadata_routing=True):
        assert fit(**options).best_score_ == plain


@pytest.mark.skipif(SKLEARN < (1, 9), reason="scikit-learn refuses a regressor's decisions")
def test_ranking_metrics_of_a_regression():
    y = (np.arange(M) % 2).astype(float)
    model = fit(y, scoring="roc_auc")
    p = model.held_out().matrix()[:, :, 0]
    np.testing.assert_allclose(columns(model)[0], [metrics.roc_auc_score(y, f) for f in p])


@pytest.mark.parametrize("name", REGRESSION)
def test_predictions_are_not_changed(name):
    found = fit(Y, weights=WEIGHTS["zeros"]).held_out()
    copies = [a.copy() for a in (found.values, found.rows, found.y, found.weights)]
    found.score(name)
    for array, copy in zip((found.values, found.rows, found.y, found.weights), copies, strict=True):
        np.testing.assert_array_equal(array, copy)


# --- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scoring", "message"),
    [
        ("neg_mean_square_error", "'neg_mean_squared_error'"),
        ("kendal_tau", "'kendall_tau'"),
        ("concordence", "'concordance'"),
        ("zzz", "get_scorer_names"),
        (["r2"], "one scikit-learn scorer"),
        (3, "got 3"),
        (metrics.mean_squared_error, "make_scorer"),
        ("neg_max_error", r"'neg_max_error'.*[Mm]ulti"),  # of one target only
        ("neg_log_loss", "'neg_log_loss'"),  # of classes
        (lambda estimator, X, y: {"a": 1.0}, "got dict"),
        (lambda estimator, X, y: np.ones(2), "got ndarray"),
        (lambda estimator, X, y: "1", "got str"),
    ],
)
def test_a_scorer_that_cannot_be_used_is_named(scoring, message):
    found = fit(Y).held_out()
    for ask in (lambda: fit(Y, scoring=scoring), lambda: found.score(scoring)):
        with pytest.raises(InvalidInputError, match=message) as caught:
            ask()
        assert caught.value.argument == "scoring"


def test_a_score_that_is_infinite_is_undefined():
    with pytest.raises(InvalidInputError, match="undefined"):
        fit(scoring=lambda estimator, X, y: np.inf)


def test_predictions_do_not_tell_the_score_of_a_distribution():
    labels = np.arange(M) % 2
    with pytest.raises(NotSupportedError, match="log_density"):
        fit(scoring="log_density").nested(3)
    with pytest.raises(InvalidInputError, match="log_density"):
        fit(labels, classifier=True).held_out().score("log_density")


@pytest.mark.parametrize("cv", [None, KFold(4)], ids=["leave-one-out", "folds"])
def test_the_log_density_is_that_of_normal_distributions(cv):
    """Joint ones of the rows of an experiment; the score is the mean over rows."""
    model = fit(cv=cv, scoring="log_density")
    found = model.held_out()
    total = found.log_density() / M
    np.testing.assert_allclose(columns(model)[0], total, rtol=1e-10)
    if cv is None:
        p, std = found.matrix()[:, :, 0], found.std[:, np.argsort(found.rows), 0]
        expected = stats.norm.logpdf(Y[:, 0], p, std).mean(axis=1)
        np.testing.assert_allclose(total, expected, rtol=1e-10)
