"""The choice of the penalty, its warnings and its ranks, on tables of scores made up for it."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.stats import rankdata

from holdfast import HoldOut, KernelRidgeCV
from holdfast.exceptions import GridEdgeWarning, InvalidInputError

NAN = np.nan
M = 12
X = np.random.default_rng(0).normal(size=(M, 2))
Y = X[:, 0] + np.sin(3 * X[:, 1])


def chosen(whole, mean=None, se=None, **options):
    """Return a model that chose by these scores at the penalties 1, 2, 3, …

    Its scorer knows predictions again: the first tells the penalty, their number the experiment.
    All rows have the score `whole`, two experiments of different sizes the mean and the standard
    error that are asked for. Several targets have a column of scores each.
    """
    whole = np.asarray(whole, dtype=float)
    each = whole.reshape(len(whole), -1)
    mean = each if mean is None else np.asarray(mean, dtype=float).reshape(each.shape)
    half = np.zeros(each.shape) if se is None else np.reshape(se, each.shape)
    folds = [HoldOut(np.arange(5)), HoldOut(np.arange(5, M))]
    y = np.c_[tuple(Y + 3 * t for t in range(each.shape[1]))]
    y = y if whole.ndim > 1 else y[:, 0]
    plain = {"gamma": 0.5, "alphas": np.arange(1.0, len(each) + 1), "cv": folds}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GridEdgeWarning)
        values = KernelRidgeCV(**plain).fit(X, y).held_out().values
    scores = {}
    for a, t in np.ndindex(each.shape):
        first, second = values[a, 0, t], values[a, 5, t]
        scores[round(first, 9), M] = each[a, t]
        scores[round(first, 9), 5] = mean[a, t] + half[a, t]
        scores[round(second, 9), 7] = mean[a, t] - half[a, t]

    def scorer(estimator, p, y):
        if p.ndim > 1:
            return np.mean([scorer(estimator, one, y) for one in p.T])
        return scores[round(float(p[0]), 9), len(p)]

    return KernelRidgeCV(**plain, scoring=scorer, **options).fit(X, y)


def quiet(*args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GridEdgeWarning)
        return chosen(*args, **options)


# --- one penalty ----------------------------------------------------------------------------------


def test_the_best_score_is_chosen():
    model = chosen([0.1, 0.5, 0.3])
    assert (model.best_index_, model.alpha_, model.best_score_) == (1, 2.0, 0.5)
    assert isinstance(model.best_index_, int)
    assert isinstance(model.alpha_, float)


def test_pooled_or_mean():
    whole, mean = [0.1, 0.5, 0.3, 0.2], [0.1, 0.2, 0.6, 0.1]
    for pooled, best, score in ((True, 1, 0.5), (False, 2, 0.6)):
        model = chosen(whole, mean, pooled=pooled)
        assert (model.best_index_, model.best_score_) == (best, pytest.approx(score))
        np.testing.assert_allclose(model.cv_results_["pooled_test_score"], whole)
        np.testing.assert_allclose(model.cv_results_["mean_test_score"], mean)
        assert model.cv_results_["rank_test_score"][best] == 1


@pytest.mark.parametrize(
    ("scores", "best"),
    [
        ([0.1, 0.5, 0.5, 0.5, 0.3], 3),  # ties go to the larger penalty
        ([-9.0, -0.5, -0.5, -0.7], 2),
        ([0.0, (0.1 + 0.2) + 0.3, 0.6, 0.1], 2),  # the same mean in another order
        ([0.0, 0.6 + 1e-9, 0.6, 0.1], 1),
        ([-1e-20, -3e-30, -3.1e-30, -1e-20], 1),
        ([-3.0, -1.0, -1.0 - 0.5e-12, -2.0], 2),  # a matter of twelve decimals
        ([-3.0, -1.0, -1.0 - 3e-12, -2.0], 1),
        ([NAN, 0.1, 0.5, NAN, 0.2, NAN], 2),  # nan is never chosen
    ],
)
def test_ties_and_gaps(scores, best):
    model = chosen(scores)
    assert model.best_index_ == best
    assert model.cv_results_["rank_test_score"][best] == 1


@pytest.mark.parametrize("pooled", [True, False])
def test_nothing_but_nan_is_an_error(pooled):
    with pytest.raises(InvalidInputError, match="undefined") as caught:
        chosen([NAN, NAN], pooled=pooled)
    assert caught.value.argument == "scoring"
    assert ("pooled=True" in str(caught.value)) == (not pooled)


@pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")
def test_means_are_compared_where_the_pooled_score_is_undefined():
    def score(estimator, p, y):
        return NAN if len(y) == len(Y) else -float(np.square(estimator.predict(p) - y).mean())

    one = KernelRidgeCV("linear", cv=3, scoring=score, pooled=False).fit(X, Y)
    other = KernelRidgeCV("linear", cv=3, pooled=False).fit(X, Y)
    assert np.isnan(one.cv_results_["pooled_test_score"]).all()
    assert one.alpha_ == other.alpha_


@pytest.mark.parametrize("seed", range(30))
def test_choice_and_ranks_equal_plain_loops(seed):
    rng = np.random.default_rng(seed)
    values = rng.choice([NAN, -2.0, -1.0, 0.0, 0.5, 1.0], size=rng.integers(2, 9))
    values[rng.integers(values.size)] = 0.25
    se = rng.choice([0.0, 0.5, 1.0, 10.0])
    best = max(i for i, v in enumerate(values) if v == np.nanmax(values))
    within = max(i for i, v in enumerate(values) if v >= np.nanmax(values) - se)
    one = quiet(values)
    assert one.best_index_ == best
    few = {"se": np.full(values.size, se), "pooled": False}
    assert quiet(values, **few, rule="1se").best_index_ == within
    lowest = np.where(np.isnan(values), -99.0, values)
    ranks = one.cv_results_["rank_test_score"]
    np.testing.assert_array_equal(ranks, rankdata(-lowest, method="min"))
    assert ranks.dtype == np.int32


# --- one standard error ---------------------------------------------------------------------------


def test_one_standard_error_takes_that_of_the_best():
    options = {"rule": "1se", "pooled": False}
    scores, se = [0.0, 1.0, 0.85, 0.75, 0.5, 0.95, 0.1], [9, 0.2, 9, 9, 9, 9, 9]
    assert chosen(scores, se=se, **options).best_index_ == 5  # the largest, not the first run
    model = chosen([*scores[:5], 0.1], se=se[:6], **options)
    assert (model.best_index_, model.alpha_) == (2, 3.0)
    assert model.best_score_ == pytest.approx(0.85)
    scores = [-4.0, -1.0, -1.5, -1.6]
    assert chosen(scores, se=[9.0, 0.5, 9, 9], **options).best_index_ == 2  # inclusive


def test_one_standard_error_needs_one():
    with pytest.raises(InvalidInputError, match="at least two experiments") as caught:
        KernelRidgeCV(cv=[HoldOut([0, 1, 2])], rule="1se", pooled=False).fit(X, Y)
    assert caught.value.argument == "rule"


# --- one penalty for each target ------------------------------------------------------------------


PER_TARGET = {
    "pooled": [[0.0, 0.1], [1.0, 0.2], [0.9, 0.6], [0.5, 0.55], [0.2, 0.0]],
    "mean": [[0.0, 0.1], [0.1, 0.9], [0.8, 0.6], [0.5, 0.7], [0.2, 0.0]],
    "se": [[9, 9], [0.2, 9], [9, 0.01], [9, 9], [9, 9]],
}


def test_each_target_has_its_own_penalty():
    model = chosen(PER_TARGET["pooled"], PER_TARGET["mean"], alpha_per_target=True)
    np.testing.assert_array_equal(model.best_index_, [1, 2])
    np.testing.assert_array_equal(model.alpha_, [2.0, 3.0])
    np.testing.assert_array_equal(model.best_score_, [1.0, 0.6])
    table = model.cv_results_["target_test_score"]
    np.testing.assert_array_equal(table, PER_TARGET["pooled"])
    averaged = chosen(PER_TARGET["pooled"], PER_TARGET["mean"], alpha_per_target=True, pooled=False)
    np.testing.assert_array_equal(averaged.best_index_, [2, 1])
    np.testing.assert_allclose(averaged.best_score_, [0.8, 0.9])
    assert chosen(PER_TARGET["pooled"]).best_index_ == 2
    # Each has its own standard error.
    whole, se = PER_TARGET["pooled"], PER_TARGET["se"]
    model = chosen(whole, se=se, alpha_per_target=True, rule="1se", pooled=False)
    np.testing.assert_array_equal(model.best_index_, [2, 2])
    np.testing.assert_allclose(model.best_score_, [0.9, 0.6])


def test_a_single_target_chosen_per_target_gives_arrays_of_length_one():
    model = chosen([0.0, 0.5, 0.1], alpha_per_target=True)
    np.testing.assert_array_equal(model.best_index_, [1])
    assert model.alpha_.shape == model.best_score_.shape == (1,)


def test_a_target_without_any_score_is_an_error():
    table = np.array(PER_TARGET["pooled"])
    table[:, 1] = NAN
    with pytest.raises(InvalidInputError, match="1 of 2 targets"):
        quiet(table, alpha_per_target=True)


# --- the ends of the grid -------------------------------------------------------------------------


def said(*args, **options):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        chosen(*args, **options)
    assert all(w.category is GridEdgeWarning for w in caught)
    assert all(w.message.argument == "alphas" for w in caught)
    return [str(w.message) for w in caught]


def test_both_ends_are_warned_about():
    (low,) = said([3, 2, 1])
    assert "the smallest of the grid (1)" in low
    assert "below by a factor of 100 (to 0.01)" in low
    assert "above" not in low
    (high,) = said([1, 2, 3])
    assert "the largest of the grid (3)" in high
    assert "above by a factor of 100 (to 300)" in high
    assert "below" not in high


def test_the_best_is_warned_about_and_not_what_the_rule_makes_of_it():
    rule = {"se": [0.5] * 3, "rule": "1se", "pooled": False}
    assert said([1.0, 2.0, 1.9], **rule) == []  # the choice is the last
    assert len(said([2.0, 1.9, 1.0], **rule)) == 1  # the best is the first


def test_no_ends_of_a_grid_of_one_and_of_scores_all_alike():
    assert said([1.0]) == said([1.0, 1.0, 1.0]) == []
    assert len(said([1.0, 2.0])) == 1


def test_one_warning_counts_the_targets():
    table = np.array([[3, 3, 1, 1, 1], [2, 2, 2, 2, 2], [1, 1, 3, 1, 1]])
    (message,) = said(table, alpha_per_target=True)
    assert "the smallest of the grid (1) for 2 of 5 targets" in message
    assert "the largest of the grid (3) for 1 of 5 targets" in message
    assert said(table[:, 3:], alpha_per_target=True) == []


# --- the table of results -------------------------------------------------------------------------


def test_results_load_in_pandas_and_are_the_readers_own():
    y = np.c_[Y, Y**2]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GridEdgeWarning)
        model = KernelRidgeCV(gamma=0.5, alphas=[0.1, 1.0, 1e3], cv=5).fit(X, y)
    table = model.cv_results_.pop("target_test_score")
    frame = pd.DataFrame(model.cv_results_)
    assert list(frame["alpha"]) == [0.1, 1.0, 1e3]
    splits = np.array([frame[f"split{i}_test_score"] for i in range(5)])
    np.testing.assert_allclose(frame["mean_test_score"], splits.mean(axis=0))
    np.testing.assert_allclose(frame["pooled_test_score"], table.mean(axis=1))
    before = model.held_out().score()
    for value in model.cv_results_.values():
        if isinstance(value, np.ndarray) and value.dtype.kind == "f":
            value[...] = 0
    np.testing.assert_array_equal(model.held_out().score(), before)
    np.testing.assert_array_equal(model.alphas_, [0.1, 1.0, 1e3])


@pytest.mark.parametrize(
    "alphas", [2, 0.5, [1, 2, 30], (10, 0.1, 1), np.array([0.1, 1], np.float32), pd.Series([1, 9])]
)
def test_penalties_become_a_sorted_array_of_the_models_own(alphas):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GridEdgeWarning)
        found = KernelRidgeCV(gamma=0.5, alphas=alphas).fit(X, Y).alphas_
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, np.sort(np.atleast_1d(alphas)))
    assert not np.shares_memory(found, alphas)


def test_ranks_of_many_penalties_need_no_pairs():
    """A hundred thousand of them took a minute once, because ranks were counted in pairs."""
    alphas = np.logspace(-3, 3, 20_000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GridEdgeWarning)
        results = KernelRidgeCV("linear", alphas=alphas).fit(X[:4], Y[:4]).cv_results_
    scores = results["pooled_test_score"]
    differ = np.abs(np.diff(np.sort(scores))).min() > 1e-11
    expected = rankdata(-scores, "min")
    if differ:
        np.testing.assert_array_equal(results["rank_test_score"], expected)
    assert np.abs(results["rank_test_score"] - expected).max() < 100
