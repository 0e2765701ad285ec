"""Scores at their edges: experiments of one row among others, chunks, grids, and who is asked."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import holdfast.scores.scoring as scoring
from holdfast.exceptions import GridEdgeWarning, InvalidInputError
from holdfast.scores.choice import EXTEND, choose, rank, warn_at_edge
from holdfast.scores.metrics import _hit, _r2
from holdfast.scores.penalties import (
    ABOVE,
    BELOW,
    COUNT,
    DECADES,
    Penalties,
    default_penalties,
    extended,
)
from holdfast.scores.scorers import decision_to_label_index, resolve_scoring
from holdfast.scores.scoring import MAX_SPLITS, Scores, combine, score_experiments
from holdfast.scores.standard_errors import mean_and_std

RNG = np.random.default_rng(17)
STEP = DECADES / (COUNT - 1)


def made(sizes, v=1, a=3, name="r2", weights=None, **options):
    m = sum(sizes)
    y = np.random.default_rng(1).normal(size=(m, v))
    p = y + 0.5 * np.random.default_rng(2).normal(size=(a, m, v))
    w = np.ones(m) if weights is None else weights
    ptr = np.concatenate([[0], np.cumsum(sizes)])
    scores = score_experiments(resolve_scoring(name), p, np.arange(m), ptr, y, w, **options)
    return y, p, scores


# -- experiments of one row --------------------------------------------------------------------


def test_one_experiment_of_a_single_row_lends_r2_the_error_of_a_mean():
    """Its R² is undefined, so the standard error is that of the pooled score."""
    sizes = [1, 6, 7]
    y, p, scores = made(sizes)
    for i in range(3):
        square = ((y - p[i]) ** 2)[:, 0]
        parts = np.split(square - square.mean(), np.cumsum(sizes)[:-1])
        sums = np.array([part.sum() for part in parts]) / 14 / y.var()
        assert_allclose(scores.se[i], np.sqrt(3 / 2 * np.square(sums).sum()))
    assert_array_equal(np.isnan(scores.splits), [[True, False, False]] * 3)
    assert_allclose(scores.mean, scores.splits[:, 1:].mean(axis=1))
    assert_allclose(scores.std, scores.splits[:, 1:].std(axis=1))


def test_two_rows_are_enough_for_a_score():
    _, _, scores = made([2, 2, 5])
    assert np.isfinite(scores.splits).all()
    assert_allclose(scores.se, scores.splits.std(axis=1, ddof=1) / np.sqrt(3))


def test_one_experiment_alone_has_no_jackknife():
    _, _, scores = made([5])
    assert np.isnan(scores.se).all()


@pytest.mark.parametrize("batch", [1, 30, 1 << 16])
def test_a_few_penalties_at_a_time(monkeypatch, batch):
    _, _, whole = made([3, 4, 1], v=2, a=5)
    monkeypatch.setattr(scoring, "_BATCH", batch)
    _, _, parts = made([3, 4, 1], v=2, a=5)
    for field in ("pooled", "splits", "mean", "std", "se", "per_target_se"):
        assert_allclose(getattr(parts, field), getattr(whole, field), rtol=1e-12)


def test_mean_and_deviation_of_what_is_defined():
    mean, std = mean_and_std(np.array([[1.0, 3.0, np.nan], [np.nan] * 3, [2.0, np.inf, 2.0]]))
    assert_allclose(mean, [2.0, np.nan, 2.0])
    assert_allclose(std, [1.0, np.nan, 0.0])
    one, spread = mean_and_std(np.array([[7.0]]))
    assert (one[0], spread[0]) == (7.0, 0.0)


def test_r2_of_a_constant_target():
    found = _r2(np.array([0.0, 2.0, 1.0]), np.array([0.0, 0.0, 4.0]))
    assert found.tolist() == [1.0, 0.0, 0.75]


def test_hits():
    one = np.array([[[0.5], [-0.5], [0.0], [np.nan]]])
    index = np.array([[1.0], [1.0], [0.0], [1.0]])
    assert_array_equal(_hit(one, index)[0, :, 0], [1.0, 0.0, 1.0, np.nan])
    three = np.array([[[0.1, 0.2, 0.0], [3.0, 2.0, 1.0], [0.0, np.inf, 0.0]]])
    assert_array_equal(_hit(three, np.array([[1.0], [1.0], [1.0]]))[0, :, 0], [1.0, 0.0, np.nan])


def test_a_decision_of_zero_is_for_the_first_class():
    decision = np.array([[0.0], [1e-300], [-1e-300]])
    assert decision_to_label_index(decision).tolist() == [0, 1, 0]
    assert decision_to_label_index(np.array([[0.0, 0.0, 0.0], [0.0, 1.0, 1.0]])).tolist() == [0, 1]


# -- chunks of targets -------------------------------------------------------------------------


def test_targets_that_lack_their_own_scores_have_none_together():
    _, _, with_each = made([4, 5], v=2, name="explained_variance", each_target=True)
    _, _, without = made([4, 5], v=2, name="explained_variance")
    found = combine([with_each, without], [2, 2])
    assert found.per_target.shape == (3, 4)
    assert found.per_target_mean is None
    assert found.per_target_se is None


def test_the_share_of_a_chunk_is_its_number_of_targets():
    _, _, one = made([4, 5])
    _, _, three = made([4, 5], v=3)
    found = combine([one, three], [1, 3])
    assert_allclose(found.pooled, (one.pooled + 3 * three.pooled) / 4)
    assert_allclose(found.splits, (one.splits + 3 * three.splits) / 4)
    assert_allclose(found.per_target, np.c_[one.pooled, three.per_target])
    assert_allclose(found.per_target_mean, np.c_[one.mean, three.per_target_mean])
    assert_allclose(found.per_target_se, np.c_[one.se, three.per_target_se])
    assert_allclose(found.se, found.splits.std(axis=1, ddof=1) / np.sqrt(2))


# -- scorers that are called -------------------------------------------------------------------


def test_weights_that_are_all_alike_are_not_passed():
    told = []

    def scorer(estimator, X, y, sample_weight=None):
        told.append(None if sample_weight is None else sample_weight.tolist())
        return float(len(y))

    scoring, y, p = resolve_scoring(scorer), np.zeros((4, 1)), np.zeros((4, 1))
    assert scoring.score(y, p, np.array([2.0, 0.0, 2.0, 2.0])) == 3.0
    assert scoring.score(y, p, np.array([2.0, 0.0, 1.0, 2.0])) == 3.0
    assert told == [None, [2.0, 1.0, 2.0]]
    with pytest.raises(InvalidInputError, match="zero for every test row"):
        scoring.score(y, p, np.zeros(4))


def test_groups_of_the_rows_that_count():
    told = []

    def scorer(estimator, X, y, groups=None):
        told.append(None if groups is None else groups.tolist())
        return 1.0

    scoring = resolve_scoring(scorer)
    assert scoring.takes_groups
    y, p, w = np.zeros((4, 1)), np.zeros((1, 4, 1)), np.array([1.0, 0.0, 1.0, 1.0])
    groups = np.array(["a", "b", "c", "d"])
    score_experiments(scoring, p, np.arange(4), np.array([0, 2, 4]), y, w, groups=groups)
    assert told[:3] == [["a", "c", "d"], ["a"], ["c", "d"]]
    scoring.score(y, p[0], w, groups)
    assert told[-1] == ["a", "c", "d"]
    scoring.score(y, p[0], w)
    assert told[-1] is None


def test_as_many_experiments_as_may_be_called_one_by_one():
    calls = []

    def scorer(estimator, X, y):
        calls.append(len(y))
        return 1.0

    for n, each in ((MAX_SPLITS, True), (MAX_SPLITS + 1, False)):
        calls.clear()
        m = 2 * n
        scores = score_experiments(
            resolve_scoring(scorer), np.zeros((1, m, 1)), np.arange(m), np.arange(0, m + 1, 2),
            np.zeros((m, 1)), np.ones(m),
        )  # fmt: skip
        assert (calls.count(2) == n) is each
        assert np.isfinite(scores.splits).all() == each
        assert np.isfinite(scores.se).all() == each


def test_a_value_that_is_no_number():
    for value, message in ((np.ones(2), "ndarray"), ("1", "str")):
        scoring = resolve_scoring(lambda e, X, y, value=value: value)
        with pytest.raises(InvalidInputError, match=f"one number, got {message}"):
            scoring.score(np.zeros((2, 1)), np.zeros((2, 1)), np.ones(2))
    assert np.isnan(resolve_scoring(lambda e, X, y: np.inf).score(
        np.zeros((2, 1)), np.zeros((2, 1)), np.ones(2)
    ))  # fmt: skip


def test_a_summary_of_many_splits_goes_in_parts():
    splits = RNG.normal(size=(3, (1 << 20) // 2 + 3, 1))
    found = Scores.of_targets(splits.mean(axis=1), splits)
    assert_allclose(found.mean, splits[:, :, 0].mean(axis=1))
    assert_allclose(found.std, splits[:, :, 0].std(axis=1))


# -- penalties ---------------------------------------------------------------------------------


def test_the_default_grid():
    (grid,) = default_penalties(np.array([50.0]))
    assert grid.alphas.size == COUNT
    assert grid.alphas[-1] == pytest.approx(50.0)
    assert grid.alphas[0] == pytest.approx(50.0 * 10.0**-DECADES)
    assert (grid.unit, grid.first) == (50.0, 1 - COUNT)
    assert_allclose(np.diff(np.log10(grid.alphas)), STEP)


def test_grids_of_several_kernels_are_parts_of_one_sequence():
    one, other, third = default_penalties(np.array([50.0, 50.0 * 10.0 ** (5.3 * STEP), 0.5]))
    assert other.first - one.first == 5
    assert_allclose(other.alphas[:-5], one.alphas[5:])
    assert third.alphas[-1] == pytest.approx(50.0 * 10.0 ** (STEP * round(-2.0 / STEP)))


def test_beyond_the_ends_of_a_grid():
    (grid,) = default_penalties(np.array([50.0]))
    below, above = grid.beyond(np.array([3, 7]))
    assert (below.size, above.size) == (0, 0)
    below, above = grid.beyond(np.array([3, 0]))
    assert (below.size, above.size) == (BELOW, 0)
    assert_allclose(below * 10.0 ** (BELOW * STEP), grid.alphas[:BELOW])
    below, above = grid.beyond(np.array([COUNT - 1, 3]))
    assert (below.size, above.size) == (0, ABOVE)
    assert_allclose(above, 50.0 * 10.0 ** (STEP * np.arange(1, ABOVE + 1)))
    assert [part.size for part in grid.beyond(np.array([0, COUNT - 1]))] == [BELOW, ABOVE]
    own = Penalties.given([1.0, 2.0])
    assert [part.size for part in own.beyond(np.array([0, 1]))] == [0, 0]
    (tiny,) = default_penalties(np.array([1e-314]))
    assert (tiny.beyond(np.array([0]))[0] > 0).all()
    (huge,) = default_penalties(np.array([1e307]))
    assert np.isfinite(huge.beyond(np.array([COUNT - 1]))[1]).all()
    assert 0 < huge.beyond(np.array([COUNT - 1]))[1].size < ABOVE


def test_scores_beyond_the_ends_join_those_of_the_grid():
    (grid,) = default_penalties(np.array([50.0]))

    def score(alphas):
        one = np.log10(alphas)
        return Scores(one, one[:, None], one + 1, one + 2, one + 3, np.c_[one, one])

    for best, n in (([0], BELOW), ([COUNT - 1], ABOVE), ([0, COUNT - 1], BELOW + ABOVE), ([4], 0)):
        alphas, scores = extended(grid, score(grid.alphas), np.array(best), score)
        assert alphas.size == COUNT + n
        assert (np.diff(alphas) > 0).all()
        expected = score(alphas)
        for field in ("pooled", "splits", "mean", "std", "se", "per_target"):
            assert_array_equal(getattr(scores, field), getattr(expected, field))


# -- the choice --------------------------------------------------------------------------------


def table(values, se=None):
    values = np.asarray(values, dtype=float)
    se = np.zeros_like(values) if se is None else np.asarray(se, dtype=float)
    return Scores(values, values[:, None], values, se, se)


def test_within_one_standard_error_is_inclusive():
    alphas = np.array([1.0, 2.0, 3.0, 4.0])
    scores = table([-4.0, -1.0, -1.5, -1.6], [9.0, 0.5, 9.0, 9.0])
    found = choose(scores, alphas, pooled=True, rule="1se", per_target=False)
    assert (found.indices, found.alpha, found.score) == (2, 3.0, -1.5)


def test_a_tie_is_a_matter_of_twelve_decimals():
    alphas = np.array([1.0, 2.0, 3.0])
    for gap, best in ((0.5e-12, 1), (3e-12, 0)):
        scores = table([-1.0, -1.0 - gap, -2.0])
        found = choose(scores, alphas, pooled=True, rule="best", per_target=False)
        assert found.indices == best
        assert found.best.tolist() == [best]


def test_both_ends_are_named_with_what_lies_beyond():
    alphas = np.array([0.5, 1.0, 4.0])
    with pytest.warns(GridEdgeWarning, match="and") as told:
        warn_at_edge(np.array([0, 2, 2]), alphas)
    text = str(told[0].message)
    assert "the smallest of the grid (0.5) for 1 of 3 targets" in text
    assert "the largest of the grid (4) for 2 of 3 targets" in text
    assert f"below by a factor of {EXTEND:g} (to 0.005)" in text
    assert f"above by a factor of {EXTEND:g} (to 400)" in text


def test_ranks_with_ties_and_gaps():
    values = np.array([-2.0, -1.0, np.nan, -1.0 - 1e-13, -3.0, -np.inf])
    assert rank(values).tolist() == [3, 1, 6, 1, 4, 5]
