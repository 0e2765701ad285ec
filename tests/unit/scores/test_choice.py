"""What the estimators report and choose: scores, rules, scorers, many targets."""

import tracemalloc
import warnings

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import make_scorer, mean_pinball_loss, mean_squared_error, r2_score
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneOut,
    ShuffleSplit,
    cross_val_predict,
    cross_val_score,
)

from holdfast import HoldOut, KernelRidgeCV
from holdfast.basis import Greedy, Random
from holdfast.exceptions import GridEdgeWarning, SelectionBiasWarning

SEED = 2
RNG = np.random.default_rng(SEED)
M = 60
X = RNG.normal(size=(M, 3))
Y = np.sin(2 * X[:, 0]) + 0.3 * RNG.normal(size=M)
TARGETS = np.c_[Y, X[:, 1] + 2 * RNG.normal(size=M), RNG.normal(size=M), X[:, 2] ** 2]
WEIGHTS = RNG.integers(0, 4, size=M).astype(float)
GROUPS = np.arange(M) % 6
ALPHAS = np.logspace(-4, 3, 15)
FOLDS = KFold(5, shuffle=True, random_state=0)


def model(**options):
    return KernelRidgeCV(
        **{"alphas": ALPHAS, "gamma": 0.4, "cv": FOLDS, "random_state": 0, **options}
    )


def quiet(estimator, *args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GridEdgeWarning)
        return estimator.fit(*args, **kwargs)


# -- the table of scores ---------------------------------------------------------------------------


def test_columns_of_the_table():
    fitted = model().fit(X, Y)
    results = fitted.cv_results_
    assert set(results) == {
        "alpha",
        "params",
        "mean_test_score",
        "std_test_score",
        "se_test_score",
        "pooled_test_score",
        "rank_test_score",
        "rounding",
        "param_alpha",
        "param_kernel",
        "param_gamma",
        *(f"split{i}_test_score" for i in range(5)),
    }
    assert (results["rounding"] < 1e-8).all()
    assert all(len(column) == ALPHAS.size for column in results.values())
    np.testing.assert_array_equal(results["alpha"], ALPHAS)
    same = {"kernel": "rbf", "gamma": 0.4}
    assert results["params"] == [{**same, "alpha": alpha} for alpha in ALPHAS]
    np.testing.assert_array_equal(results["param_alpha"], ALPHAS)
    splits = np.array([results[f"split{i}_test_score"] for i in range(5)])
    np.testing.assert_allclose(results["mean_test_score"], splits.mean(axis=0))
    np.testing.assert_allclose(results["std_test_score"], splits.std(axis=0))
    np.testing.assert_allclose(results["se_test_score"], splits.std(axis=0, ddof=1) / np.sqrt(5))
    assert results["rank_test_score"][fitted.best_index_] == 1
    assert fitted.alpha_ == ALPHAS[fitted.best_index_]
    assert fitted.best_score_ == results["pooled_test_score"].max()
    assert fitted.best_params_ == results["params"][fitted.best_index_]


@pytest.mark.parametrize("pooled", [True, False])
def test_pooled_and_averaged_mean_what_they_say(pooled):
    """KernelRidge has no bias, so the same model without one."""
    options = {"fit_intercept": False, "scoring": "r2", "pooled": pooled}
    fitted = quiet(model(**options), X, Y)
    for i, alpha in enumerate(ALPHAS):
        ridge = KernelRidge(alpha=alpha, kernel="rbf", gamma=0.4)
        each = cross_val_score(ridge, X, Y, cv=FOLDS, scoring="r2")
        together = r2_score(Y, cross_val_predict(ridge, X, Y, cv=FOLDS))
        for j in range(5):
            assert fitted.cv_results_[f"split{j}_test_score"][i] == pytest.approx(each[j], abs=1e-8)
        assert fitted.cv_results_["mean_test_score"][i] == pytest.approx(each.mean(), abs=1e-8)
        assert fitted.cv_results_["pooled_test_score"][i] == pytest.approx(together, abs=1e-8)
    column = fitted.cv_results_["pooled_test_score" if pooled else "mean_test_score"]
    assert fitted.best_score_ == column.max()
    assert fitted.alpha_ == ALPHAS[np.argmax(column)]


def test_pooled_and_averaged_can_choose_differently():
    """Groups of different sizes: the mean over experiments counts small groups as much."""
    groups = np.repeat([0, 1, 2, 3], [48, 4, 4, 4])
    fits = [
        quiet(model(cv=GroupKFold(4), pooled=pooled), X, Y, groups=groups)
        for pooled in (True, False)
    ]
    for key in ("pooled_test_score", "mean_test_score"):
        np.testing.assert_array_equal(fits[0].cv_results_[key], fits[1].cv_results_[key])
    assert fits[0].best_score_ == fits[0].cv_results_["pooled_test_score"].max()
    assert fits[1].best_score_ == fits[1].cv_results_["mean_test_score"].max()
    assert fits[0].best_score_ != fits[1].best_score_


def test_the_score_of_the_fit_is_the_score_of_its_held_out_predictions():
    fitted = model(scoring="neg_mean_absolute_error").fit(X, Y, sample_weight=WEIGHTS)
    found = fitted.held_out()
    for pooled, key in ((True, "pooled_test_score"), (False, "mean_test_score")):
        np.testing.assert_array_equal(
            found.score("neg_mean_absolute_error", pooled=pooled), fitted.cv_results_[key]
        )


def test_rows_tested_more_than_once_count_each_time():
    splits = ShuffleSplit(6, test_size=0.4, random_state=1)
    fitted = quiet(model(cv=splits), X, Y)
    found = fitted.held_out()
    assert found.rows.size == 6 * 24
    expected = [mean_squared_error(Y[found.rows], p[:, 0]) for p in found.values]
    np.testing.assert_allclose(-fitted.cv_results_["pooled_test_score"], expected)


def test_only_test_rows_are_scored():
    experiments = [HoldOut(np.arange(j, j + 7), [j + 3]) for j in range(0, 50, 5)]
    fitted = quiet(model(cv=experiments), X, Y)
    tested = np.arange(3, 53, 5)
    expected = [mean_squared_error(Y[tested], p[:, 0]) for p in fitted.held_out().values]
    np.testing.assert_allclose(-fitted.cv_results_["pooled_test_score"], expected)


def test_columns_count_experiments_also_those_that_are_skipped():
    basis = [2, 5, 7]
    fitted = quiet(model(cv=None, basis=basis, held_out_basis="skip"), X, Y)
    assert fitted.n_splits_ == M
    found = fitted.held_out()
    assert len(found.experiments) == M - 3
    for i in range(M):
        column = fitted.cv_results_[f"split{i}_test_score"]
        if i in basis:
            assert np.isnan(column).all()
        else:
            residual = Y[i] - found.values[:, found.rows == i, 0][:, 0]
            np.testing.assert_allclose(column, -(residual**2))


def test_many_experiments_have_no_column_each():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(1200, 1))
    fitted = quiet(
        KernelRidgeCV(basis=20, alphas=[0.1, 1.0, 10.0], random_state=0),
        rows,
        np.sin(rows[:, 0]) + 0.1 * rng.normal(size=1200),
    )
    assert fitted.n_splits_ == 1200
    assert "split0_test_score" not in fitted.cv_results_
    assert np.isfinite(fitted.cv_results_["se_test_score"]).all()


# -- the choice ------------------------------------------------------------------------------------


def test_one_standard_error():
    best, simple = model().fit(X, Y), model(rule="1se").fit(X, Y)
    shown, se = (best.cv_results_[f"{key}_test_score"] for key in ("pooled", "se"))
    within = shown >= shown.max() - se[np.argmax(shown)]
    expected = np.flatnonzero(within).max()
    assert simple.best_index_ == expected > best.best_index_
    assert simple.alpha_ == ALPHAS[expected]
    assert simple.best_score_ == shown[expected]
    np.testing.assert_allclose(
        simple.predict(X), model(alphas=ALPHAS[expected]).fit(X, Y).predict(X), rtol=1e-9
    )


@pytest.mark.parametrize("scoring", ["r2", "explained_variance"])
def test_one_standard_error_is_that_of_the_interval(scoring):
    """Over the same rows, whether the score is a mean over them or is jackknifed."""
    best = model(scoring=scoring, cv=None).fit(X, Y)
    simple = model(scoring=scoring, cv=None, rule="1se").fit(X, Y)
    se = best.score_interval(method="asymptotic").standard_error
    shown = best.cv_results_["pooled_test_score"]
    assert simple.best_index_ == np.flatnonzero(shown >= shown.max() - se).max()
    assert simple.best_index_ > best.best_index_


@pytest.mark.parametrize(
    ("alphas", "edge"), [([1e2, 1e3, 1e4], "smallest"), ([1e-8, 1e-7, 1e-6], "largest")]
)
def test_the_edge_of_the_grid_is_named(alphas, edge):
    with pytest.warns(GridEdgeWarning, match=f"the {edge} of the grid") as caught:
        model(alphas=alphas).fit(X, Y)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert "Extend alphas" in str(caught[0].message)


def test_no_edge_no_warning():
    model().fit(X, Y)  # warnings are errors
    model(alphas=[0.1]).fit(X, Y)  # one value has no edge


@pytest.mark.parametrize(
    "cv",
    [
        LeaveOneOut(),
        FOLDS,
        GroupKFold(6),
        ShuffleSplit(5, random_state=0),
        [HoldOut([1, 2]), HoldOut([2, 9])],
    ],
    ids=["loo", "folds", "groups", "shuffle", "overlapping"],
)
@pytest.mark.parametrize("basis", [None, 15])
@pytest.mark.parametrize("path", ["spectral", "per_fold", "cholesky"])
def test_one_penalty_for_each_target_under_any_cv(cv, basis, path):
    options = {"cv": cv, "basis": basis, "path": path}
    joint = quiet(model(alpha_per_target=True, **options), X, TARGETS, groups=GROUPS)
    assert joint.alpha_.shape == joint.best_score_.shape == joint.best_index_.shape == (4,)
    assert joint.cv_results_["target_test_score"].shape == (ALPHAS.size, 4)
    for t in range(4):
        alone = quiet(model(**options), X, TARGETS[:, t], groups=GROUPS)
        assert joint.alpha_[t] == alone.alpha_
        assert joint.best_score_[t] == pytest.approx(alone.best_score_, rel=1e-8)
        np.testing.assert_allclose(joint.predict(X)[:, t], alone.predict(X), rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(
            joint.predict_without([3, 4])[:, t], alone.predict_without([3, 4]), rtol=1e-6, atol=1e-8
        )


def test_targets_share_a_penalty_by_their_average_score():
    joint = model().fit(X, TARGETS)
    table = np.stack(
        [quiet(model(), X, y).cv_results_["pooled_test_score"] for y in TARGETS.T], axis=1
    )
    np.testing.assert_allclose(joint.cv_results_["target_test_score"], table, rtol=1e-9)
    np.testing.assert_allclose(joint.cv_results_["pooled_test_score"], table.mean(axis=1))
    assert joint.best_index_ == np.argmax(table.mean(axis=1))
    assert isinstance(joint.alpha_, float)


def test_one_target_in_a_column():
    flat, column = model().fit(X, Y), model().fit(X, Y[:, None])
    assert column.predict(X).shape == (M, 1)
    np.testing.assert_allclose(column.predict(X)[:, 0], flat.predict(X))
    per_target = model(alpha_per_target=True).fit(X, Y[:, None])
    assert per_target.alpha_.tolist() == [flat.alpha_]


# -- scorers ---------------------------------------------------------------------------------------


def pinball(estimator, rows, y):
    return -mean_pinball_loss(y, estimator.predict(rows), alpha=0.2)


@pytest.mark.parametrize(
    ("scoring", "value"),
    [
        (None, lambda y, p: -np.mean((y - p) ** 2)),
        ("neg_mean_squared_error", lambda y, p: -np.mean((y - p) ** 2)),
        ("neg_root_mean_squared_error", lambda y, p: -np.sqrt(np.mean((y - p) ** 2))),
        ("neg_mean_absolute_error", lambda y, p: -np.mean(np.abs(y - p))),
        ("neg_median_absolute_error", lambda y, p: -np.median(np.abs(y - p))),
        ("r2", r2_score),
        ("neg_max_error", lambda y, p: -np.max(np.abs(y - p))),
        ("explained_variance", lambda y, p: 1 - np.var(y - p) / np.var(y)),
        (
            make_scorer(mean_pinball_loss, greater_is_better=False, alpha=0.2),
            lambda y, p: -mean_pinball_loss(y, p, alpha=0.2),
        ),
        (pinball, lambda y, p: -mean_pinball_loss(y, p, alpha=0.2)),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_scorers(scoring, value):
    fitted = quiet(model(scoring=scoring), X, Y)
    found = fitted.held_out()
    for i in range(ALPHAS.size):
        p = found.values[i, :, 0]
        assert fitted.cv_results_["pooled_test_score"][i] == pytest.approx(
            value(Y[found.rows], p), rel=1e-10
        )
        part = slice(0, 12)
        assert fitted.cv_results_["split0_test_score"][i] == pytest.approx(
            value(Y[found.rows[part]], p[part]), rel=1e-10
        )


def test_weights_count_in_scores():
    fitted = quiet(model(), X, Y, sample_weight=WEIGHTS)
    found = fitted.held_out()
    w = WEIGHTS[found.rows]
    expected = [-np.average((Y[found.rows] - p[:, 0]) ** 2, weights=w) for p in found.values]
    np.testing.assert_allclose(fitted.cv_results_["pooled_test_score"], expected)


def test_r2_of_leave_one_out_is_pooled():
    """Single rows have no R²; scikit-learn gives nan and a warning, here they are pooled."""
    fitted = model(cv=LeaveOneOut(), scoring="r2").fit(X, Y)
    found = fitted.held_out(alphas=fitted.alpha_).matrix()[0, :, 0]
    assert fitted.best_score_ == pytest.approx(r2_score(Y, found))


# -- very many targets -----------------------------------------------------------------------------


PINBALL = make_scorer(mean_pinball_loss, greater_is_better=False)


@pytest.mark.parametrize(("cv", "scoring"), [(None, None), (FOLDS, None), (FOLDS, PINBALL)])
@pytest.mark.parametrize(
    "options", [{}, {"basis": 12}, {"basis": 12, "held_out_basis": "reselect"}]
)
@pytest.mark.parametrize("per_target", [False, True])
def test_chunks_of_targets_are_the_same_as_all_at_once(cv, scoring, options, per_target):
    """Where memory is short, targets are scored a few at a time."""
    many = TARGETS @ np.random.default_rng(1).normal(size=(4, 40))
    options = {
        "cv": cv,
        "scoring": scoring,
        "alphas": [0.01, 0.1, 1.0],
        "alpha_per_target": per_target,
        **options,
    }
    whole = quiet(model(**options), X, many)
    chunks = quiet(model(**options, memory_limit=160_000), X, many)
    np.testing.assert_array_equal(chunks.alpha_, whole.alpha_)
    assert chunks.cv_results_.keys() == whole.cv_results_.keys()
    for key, column in whole.cv_results_.items():
        if key.endswith("test_score"):
            np.testing.assert_allclose(chunks.cv_results_[key], column, rtol=1e-9, err_msg=key)
    np.testing.assert_allclose(chunks.predict(X), whole.predict(X), rtol=1e-9, atol=1e-12)


def test_how_many_targets_are_scored_at_once():
    widths = []

    def watched(estimator, p, y):
        widths.append(y.shape[1] if y.ndim > 1 else 1)
        return -float(np.mean((p - y) ** 2))

    many = TARGETS @ np.random.default_rng(1).normal(size=(4, 40))
    short = {"memory_limit": 160_000, "alphas": [0.01, 0.1, 1.0]}
    quiet(model(scoring=watched, **short), X, many)
    assert 1 < max(widths) < 40


@pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")
def test_twenty_thousand_targets():
    """No copy of the factors for each target, and held-out predictions only of some at once."""
    rng = np.random.default_rng(3)
    m, v = 24, 20_000
    rows = rng.normal(size=(m, 2))
    targets = rng.normal(size=(m, v))
    estimator = KernelRidgeCV(
        alphas=[0.1, 1.0, 10.0], gamma=0.5, alpha_per_target=True, cv=4, memory_limit="3MB"
    )
    tracemalloc.start()
    try:
        estimator.fit(rows, targets)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert estimator.alpha_.shape == (v,)
    assert estimator.dual_coef_.shape == (m, v)
    # All held-out predictions at once are three times the targets; the targets themselves, their
    # centred copy, the coefficients and a few passing copies are all that is as large as y.
    assert peak < 12 * targets.nbytes
    t = 12_345
    alone = KernelRidgeCV(alphas=[0.1, 1.0, 10.0], gamma=0.5, cv=4).fit(rows, targets[:, t])
    assert estimator.alpha_[t] == alone.alpha_
    np.testing.assert_allclose(estimator.dual_coef_[:, t], alone.dual_coef_, rtol=1e-8)


@pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")
def test_reselect_is_a_full_fit_of_each_experiment():
    """Pahikkala et al. 2012 §6.2, third approach: selectors see training rows and their y alone."""
    seen = []

    class Watched(Random):
        @property
        def needs(self):
            return frozenset({"y"})

        def _choose(self, pool):
            seen.append(pool.targets().copy())
            return super()._choose(pool)

    fitted = model(basis=Watched(10), held_out_basis="reselect").fit(X, TARGETS)
    splits = list(FOLDS.split(X))
    assert len(seen) == 1 + len(splits)
    np.testing.assert_array_equal(seen[0], TARGETS)
    for (train, _), targets in zip(splits, seen[1:], strict=True):
        np.testing.assert_array_equal(targets, TARGETS[train])
    assert fitted.held_out().values.shape == (ALPHAS.size, M, 4)


def test_selection_bias_is_said_once():
    with pytest.warns(SelectionBiasWarning, match='held_out_basis="reselect"') as caught:
        quiet(model(basis=Greedy(6)), X, Y)
    assert len([w for w in caught if w.category is SelectionBiasWarning]) == 1
    quiet(model(basis=Greedy(6), held_out_basis="reselect", cv=3), X, Y)
