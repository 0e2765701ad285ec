"""The choice of the penalty, its warnings, and the table of results."""

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import rankdata

from holdfast.exceptions import GridEdgeWarning, InvalidInputError
from holdfast.scores.choice import check_alphas, choose, cv_results, warn_at_edge
from holdfast.scores.scorers import resolve_scoring
from holdfast.scores.scoring import MAX_COLUMNS, Scores, score_experiments

NAN = np.nan


def scores_of(pooled, mean=None, se=0.0, **by_target):
    """Return Scores with the given values, splits being of no importance."""
    pooled = np.asarray(pooled, dtype=float)
    mean = pooled if mean is None else np.asarray(mean, dtype=float)
    se = np.broadcast_to(np.asarray(se, dtype=float), pooled.shape)
    fields = {name: np.asarray(value, dtype=float) for name, value in by_target.items()}
    return Scores(pooled, pooled[:, None], mean, np.zeros_like(pooled), se, **fields)


def pick(scores, *, pooled=True, rule="best", per_target=False):
    """Return the choice on the grid 1, 2, 3, …; a best score at one of its ends is an error."""
    alphas = np.arange(1.0, len(scores.pooled) + 1)
    choice = choose(scores, alphas, pooled=pooled, rule=rule, per_target=per_target)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_at_edge(choice.best, alphas)
    return choice


# --- one alpha -----------------------------------------------------------------------------------


def test_the_best_score_is_chosen():
    choice = pick(scores_of([0.1, 0.5, 0.3]))
    assert (choice.indices, choice.alpha, choice.score) == (1, 2.0, 0.5)
    assert isinstance(choice.indices, int)
    assert isinstance(choice.alpha, float)


def test_pooled_or_mean():
    scores = scores_of([0.1, 0.5, 0.3, 0.2], mean=[0.1, 0.2, 0.6, 0.1])
    assert pick(scores, pooled=True).indices == 1
    assert pick(scores, pooled=False).indices == 2
    assert pick(scores, pooled=False).score == 0.6


def test_ties_go_to_the_larger_alpha():
    assert pick(scores_of([0.1, 0.5, 0.5, 0.5, 0.3])).indices == 3
    assert pick(scores_of([-9.0, -0.5, -0.5, -0.7])).indices == 2


def test_a_difference_by_rounding_is_a_tie():
    third = (0.1 + 0.2) + 0.3  # 0.6000000000000001, the same mean in another order
    assert third != 0.6
    assert pick(scores_of([0.0, third, 0.6, 0.1])).indices == 2
    assert pick(scores_of([0.0, 0.6 + 1e-9, 0.6, 0.1])).indices == 1
    assert pick(scores_of([-1e-20, -3e-30, -3.1e-30, -1e-20])).indices == 1


def test_nan_is_never_chosen():
    assert pick(scores_of([NAN, 0.1, 0.5, NAN, 0.2, NAN])).indices == 2
    assert pick(scores_of([0.1, 0.5, NAN, 0.2]), rule="1se").indices == 1


@pytest.mark.parametrize(
    ("pooled", "message"),
    [(True, "pooled score is undefined"), (False, "mean score over experiments is .* pooled=True")],
)
def test_nothing_but_nan_is_an_error(pooled, message):
    with pytest.raises(InvalidInputError, match=message):
        pick(scores_of([NAN, NAN]), pooled=pooled)


@settings(max_examples=100, deadline=None)
@given(
    values=st.lists(st.sampled_from([NAN, -2.0, -1.0, 0.0, 0.5, 1.0]), min_size=1, max_size=8),
    se=st.sampled_from([0.0, 0.5, 1.0, 10.0]),
)
def test_choice_equals_a_plain_loop(values, se):
    defined = [v for v in values if not np.isnan(v)]
    if not defined:
        return
    best = max(i for i, v in enumerate(values) if v == max(defined))
    within = max(i for i, v in enumerate(values) if v >= max(defined) - se)
    args = (scores_of(values, se=se), np.arange(1.0, len(values) + 1))
    plain = choose(*args, pooled=True, rule="best", per_target=False)
    careful = choose(*args, pooled=True, rule="1se", per_target=False)
    assert plain.indices == best
    assert careful.indices == within
    differ = max(defined) > min(defined)  # else nothing better lies beyond the ends
    assert plain.best.tolist() == careful.best.tolist() == [best] * differ


# --- one standard error --------------------------------------------------------------------------


def test_one_standard_error_takes_that_of_the_best():
    scores = scores_of([0.0, 1.0, 0.85, 0.75, 0.5, 0.95, 0.1], se=[9, 0.2, 9, 9, 9, 9, 9])
    assert pick(scores, rule="1se").indices == 5  # the largest within, not the first run within
    scores = scores_of([0.0, 1.0, 0.85, 0.75, 0.5, 0.1], se=[9, 0.2, 9, 9, 9, 9])
    choice = pick(scores, rule="1se")
    assert (choice.indices, choice.alpha, choice.score) == (2, 3.0, 0.85)


def test_one_standard_error_needs_one():
    with pytest.raises(InvalidInputError, match="rule='1se' needs the standard error"):
        pick(scores_of([0.0, 1.0, 0.5], se=NAN), rule="1se")
    assert pick(scores_of([0.0, 1.0, 0.5], se=NAN)).indices == 1


def test_unknown_rule():
    with pytest.raises(InvalidInputError, match="rule must be 'best' or '1se', got '2se'"):
        pick(scores_of([0.0, 1.0, 0.5]), rule="2se")


# --- one alpha for each target -------------------------------------------------------------------


PER_TARGET = {
    "per_target": [[0.0, 0.1], [1.0, 0.2], [0.9, 0.6], [0.5, 0.55], [0.2, 0.0]],
    "per_target_mean": [[0.0, 0.1], [0.1, 0.9], [0.8, 0.6], [0.5, 0.7], [0.2, 0.0]],
    "per_target_se": [[9, 9], [0.2, 9], [9, 0.01], [9, 9], [9, 9]],
}


def test_each_target_has_its_own_alpha():
    scores = scores_of([0.0, 0.1, 0.3, 0.2, 0.1], **PER_TARGET)
    choice = pick(scores, per_target=True)
    np.testing.assert_array_equal(choice.indices, [1, 2])
    np.testing.assert_array_equal(choice.alpha, [2.0, 3.0])
    np.testing.assert_array_equal(choice.score, [1.0, 0.6])
    np.testing.assert_array_equal(pick(scores, per_target=True, pooled=False).indices, [2, 1])
    assert pick(scores).indices == 2


def test_each_target_has_its_own_standard_error():
    scores = scores_of([0.0, 0.1, 0.3, 0.2, 0.1], **PER_TARGET)
    choice = pick(scores, per_target=True, rule="1se")
    np.testing.assert_array_equal(choice.indices, [2, 2])
    np.testing.assert_array_equal(choice.score, [0.9, 0.6])


def test_a_single_target_chosen_per_target_gives_arrays_of_length_one():
    choice = pick(scores_of([0.0, 0.5, 0.1]), per_target=True)
    np.testing.assert_array_equal(choice.indices, [1])
    assert choice.alpha.shape == choice.score.shape == (1,)


def test_a_target_without_any_score_is_an_error():
    table = np.array(PER_TARGET["per_target"])
    table[:, 1] = NAN
    scores = scores_of(np.zeros(5), per_target=table)
    with pytest.raises(InvalidInputError, match="of 1 of 2 targets is undefined"):
        pick(scores, per_target=True)


# --- the ends of the grid ------------------------------------------------------------------------


def edge_messages(scores, alphas, **options):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        choice = choose(scores, np.asarray(alphas), **{"pooled": True, "rule": "best", **options})
        warn_at_edge(choice.best, np.asarray(alphas))
    assert all(w.category is GridEdgeWarning for w in caught)
    return [str(w.message) for w in caught]


def test_the_smallest_alpha_is_warned_about():
    (message,) = edge_messages(scores_of([3, 2, 1]), [0.01, 1.0, 10.0], per_target=False)
    assert "the smallest of the grid (0.01)" in message
    assert "Extend alphas below by a factor of 100 (to 0.0001)" in message
    assert "above" not in message


def test_the_largest_alpha_is_warned_about():
    (message,) = edge_messages(scores_of([1, 2, 3]), [0.01, 1.0, 10.0], per_target=False)
    assert "the largest of the grid (10)" in message
    assert "Extend alphas above by a factor of 100 (to 1000)" in message
    assert "below" not in message


def test_the_best_is_warned_about_and_not_what_the_rule_makes_of_it():
    scores = scores_of([1.0, 2.0, 1.9], se=0.5)  # the choice is the last, the best is not
    assert edge_messages(scores, [1.0, 2.0, 3.0], rule="1se", per_target=False) == []
    scores = scores_of([2.0, 1.9, 1.0], se=0.5)  # the best is the first, the choice is not
    assert len(edge_messages(scores, [1.0, 2.0, 3.0], rule="1se", per_target=False)) == 1


def test_a_grid_of_one_has_no_ends():
    assert edge_messages(scores_of([1.0]), [1.0], per_target=False) == []
    assert len(edge_messages(scores_of([1.0, 2.0]), [1.0, 2.0], per_target=False)) == 1


def test_one_warning_counts_the_targets():
    table = np.array([[3, 3, 1, 1, 1], [2, 2, 2, 2, 2], [1, 1, 3, 1, 1]])
    scores = scores_of(np.zeros(3), per_target=table)
    (message,) = edge_messages(scores, [0.5, 1.0, 2.0], per_target=True)
    assert "the smallest of the grid (0.5) for 2 of 5 targets" in message
    assert "the largest of the grid (2) for 1 of 5 targets" in message
    inside = scores_of(np.zeros(3), per_target=table[:, 3:])
    assert edge_messages(inside, [0.5, 1.0, 2.0], per_target=True) == []


# --- cv_results ----------------------------------------------------------------------------------


def real_scores(v=1, n_experiments=5, m=20, a=4):
    rng = np.random.default_rng(0)
    y = rng.normal(size=(m, v))
    ptr = np.linspace(0, m, n_experiments + 1).astype(int)
    predictions = rng.normal(size=(a, m, v))
    return score_experiments(
        resolve_scoring(None), predictions, np.arange(m), ptr, y, np.ones(m)
    ), np.logspace(-1, 2, a)


def test_cv_results_load_in_pandas():
    scores, alphas = real_scores()
    frame = pd.DataFrame(cv_results(scores, alphas, pooled=True))
    assert list(frame["alpha"]) == list(alphas)
    assert list(frame["params"]) == [{"alpha": a} for a in alphas]
    for key in ("mean", "std", "se", "pooled"):
        np.testing.assert_array_equal(frame[f"{key}_test_score"], getattr(scores, key))
    for i in range(5):
        np.testing.assert_array_equal(frame[f"split{i}_test_score"], scores.splits[:, i])
    assert "split5_test_score" not in frame
    assert "target_test_score" not in frame
    assert frame["rank_test_score"].dtype == np.int32


def test_cv_results_of_many_targets():
    scores, alphas = real_scores(v=3)
    results = cv_results(scores, alphas, pooled=True)
    np.testing.assert_array_equal(results["target_test_score"], scores.per_target)
    np.testing.assert_allclose(results["target_test_score"].mean(axis=1), scores.pooled)


@pytest.mark.parametrize(("n", "listed"), [(MAX_COLUMNS, True), (MAX_COLUMNS + 1, False)])
def test_cv_results_list_the_splits_up_to_a_number(n, listed):
    scores, alphas = real_scores(n_experiments=n, m=n, a=2)
    keys = [k for k in cv_results(scores, alphas, pooled=True) if k.startswith("split")]
    assert len(keys) == (n if listed else 0)


def test_cv_results_do_not_share_memory_with_the_scores():
    scores, alphas = real_scores(v=2)
    for value in cv_results(scores, alphas, pooled=True).values():
        if isinstance(value, np.ndarray):
            value[...] = 0
    assert (alphas > 0).all()
    for field in ("pooled", "splits", "mean", "std", "se", "per_target"):
        assert (getattr(scores, field) != 0).all()


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from([NAN, -2.0, -1.0, 0.0, 0.5, 1.0]), min_size=1, max_size=8))
def test_rank_equals_scipy(values):
    values = np.array(values)
    scores = scores_of(np.zeros(len(values)), mean=values)
    alphas = np.arange(1.0, len(values) + 1)
    lowest = np.where(np.isnan(values), -99.0, values)
    found = cv_results(scores, alphas, pooled=False)["rank_test_score"]
    np.testing.assert_array_equal(found, rankdata(-lowest, method="min"))
    np.testing.assert_array_equal(cv_results(scores, alphas, pooled=True)["rank_test_score"], 1)


def test_the_chosen_alpha_has_rank_one_even_in_a_tie_by_rounding():
    scores = scores_of([0.0, (0.1 + 0.2) + 0.3, 0.6, 0.1])
    ranks = cv_results(scores, np.arange(1.0, 5.0), pooled=True)["rank_test_score"]
    np.testing.assert_array_equal(ranks, [4, 1, 1, 3])
    assert ranks[pick(scores).indices] == 1


# --- check_alphas --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("alphas", "expected"),
    [
        (2, [2.0]),
        (0.5, [0.5]),
        ([1, 2, 30], [1.0, 2.0, 30.0]),
        ((10, 0.1, 1), [0.1, 1.0, 10.0]),
        (np.array([0.1, 1.0], dtype=np.float32), np.array([0.1, 1.0], dtype=np.float32)),
        (pd.Series([0.1, 1.0]), [0.1, 1.0]),
    ],
)
def test_alphas_become_a_float_array(alphas, expected):
    found = check_alphas(alphas)
    assert found.dtype == np.float64
    assert found.ndim == 1
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("alphas", "message"),
    [
        (0.0, "greater than 0, got 0"),
        ([-1.0, 1.0], "greater than 0, got -1"),
        ([1.0, NAN], "finite, got nan"),
        ([1.0, np.inf], "finite, got inf"),
        ([2.0, 1.0, 2.0], "not repeat a value, got 2 more than once"),
        ([], "at least one value"),
        ([[1.0, 2.0]], r"shape \(1, 2\)"),
        ([[1.0], [1.0, 2.0]], "one-dimensional"),
        (["a"], "real numbers"),
        ("auto", "real numbers"),
        ([True, False], "real numbers, got values of type bool"),
        ([1j], "real numbers, got values of type complex128"),
        ([None, 1.0], "real numbers, got values of type object"),
    ],
)
def test_unusable_alphas(alphas, message):
    with pytest.raises(InvalidInputError, match=message) as caught:
        check_alphas(alphas)
    assert str(caught.value).startswith("alphas must")
    with pytest.raises(InvalidInputError, match=message) as caught:
        check_alphas(alphas, "alpha")
    assert str(caught.value).startswith("alpha must")


def test_alphas_are_copied():
    mine = np.array([1.0, 2.0])
    check_alphas(mine)[0] = 9.0
    assert mine[0] == 1.0
