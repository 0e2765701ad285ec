"""Which tasks take which path, and who makes up for predictions that lost their digits."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from holdfast import KernelRidgeCV, holdout
from holdfast.exceptions import DigitsWarning
from holdfast.experiments import Ragged, Tasks
from holdfast.holdout import digits, retrain, spectral
from holdfast.holdout.digits import (
    FREE_OPERATIONS,
    MOST_BASIS_REMOVED,
    WORTH_FITS,
    affordable,
    basis_shrinks,
    few_left,
    trained_anew,
    warn_of_digits,
    warn_of_rounding,
    warn_of_unlike_rows,
    without_doubt,
    without_reach,
)
from holdfast.holdout.elimination import after_others
from holdfast.holdout.verify import Verification, deviations, verify
from holdfast.kernels import RBF
from holdfast.kernels.matrix import KernelRows
from holdfast.progress import listening
from holdfast.smoother import FeatureSmoother, KernelSmoother, Unpenalised, WhitenedFeatures
from holdfast.smoother.base import Sizes
from holdfast.smoother.features import ColumnFeatures
from holdfast.smoother.measured import Measured
from holdfast.smoother.scale import RowScale

M = 40
RNG = np.random.default_rng(31)
X = RNG.normal(size=(M, 3))
Y = np.c_[np.sin(X[:, 0]), X[:, 1] + 1.0] + 0.1 * RNG.normal(size=(M, 2))
ALPHAS = np.array([0.1, 1.0, 10.0])
ALL = slice(None)


def ragged(sets):
    return Ragged.from_arrays([np.array(rows, dtype=np.int64) for rows in sets])


def tasks_of(held, removed=None, test=None):
    removed = [[]] * len(held) if removed is None else removed
    test = held if test is None else test
    return Tasks(ragged(held), ragged(removed), ragged(test), np.arange(len(held)))


def sparse(weights=None, bias=True, n=12):
    weights = np.ones(M) if weights is None else weights
    features = WhitenedFeatures.of(KernelRows(RBF(0.3), X), np.arange(n), 1e-8)
    return FeatureSmoother(features, weights, Y, Unpenalised.bias(weights, bias))


def dense(weights=None, bias=True, rows=X, **options):
    weights = np.ones(M) if weights is None else weights
    kernel = KernelRows(RBF(0.3), rows)
    return KernelSmoother(kernel, weights, Y, Unpenalised.bias(weights, bias), **options)


def linear(rows=X, bias=True):
    return FeatureSmoother(ColumnFeatures(rows), np.ones(M), Y, Unpenalised.bias(np.ones(M), bias))


# -- how much is left --------------------------------------------------------------------------


def test_the_share_of_the_basis_that_may_leave():
    tasks = tasks_of([[0]] * 4, [[], [0, 1], [0, 1, 2], [0, 1, 2, 3]])
    assert MOST_BASIS_REMOVED * 12 == 3.0
    assert basis_shrinks(tasks, 12).tolist() == [False, False, True, True]
    assert basis_shrinks(tasks, 16).tolist() == [False, False, False, True]
    assert basis_shrinks(tasks, None).tolist() == [False] * 4


@pytest.mark.parametrize("make", [sparse, dense, linear])
@pytest.mark.parametrize("bias", [False, True])
def test_the_share_of_the_trace_that_is_left(make, bias):
    """Against the trace of the rows that are left, centred anew."""
    smoother = make(bias=bias)
    order = np.random.default_rng(0).permutation(M)
    held = [order[:k].tolist() for k in range(1, M)]
    found = few_left(smoother, tasks_of(held))
    gram = _gram(make, bias)
    left = []
    for rows in held:
        keep = np.setdiff1d(np.arange(M), rows)
        part = gram[np.ix_(keep, keep)]
        left.append(np.trace(part) - (part.mean() * len(keep) if bias else 0.0))
    share = np.array(left) / (np.trace(gram) - (gram.mean() * M if bias else 0.0))
    # Clearly less is found, clearly more is not: the bound errs on the side of training anew.
    assert found[share < smoother.least_share].all()
    assert not found[share > smoother.least_share + 0.1].any()
    assert found.any()
    assert not found.all()
    assert_array_equal(trained_anew(smoother, tasks_of(held)), found)


def _gram(make, bias):
    if make is dense:
        return RBF(0.3)(X)
    smoother = make(bias=False)
    W = smoother.system.W
    return W @ W.T


class Sized:
    """A smoother of a size."""

    def __init__(self, m, p, found=None):
        self.m, self.p, self.found, self.largest_value = m, p, found, 1e3

    def sizes(self, tasks):
        return Sizes("features", self.m, self.p, 1, None)

    def measured(self, *_):
        return self.found


def test_the_last_answer_is_remembered_and_no_other():
    rows = X.copy()
    rows[0] *= 1e6
    smoother = linear(rows)
    far, near = tasks_of([[0]]), tasks_of([[1]])
    assert few_left(smoother, far).all()
    few_left(smoother, far)[:] = False  # a copy
    assert few_left(smoother, far).all()
    assert not few_left(smoother, near).any()
    assert few_left(smoother, far).all()
    assert not few_left(linear(), far).any()


def test_what_may_be_trained_from_scratch():
    """Work of less than a second, or of twenty fits."""
    one, m, p = tasks_of([[0]]), 10**6, 100
    each = 6.0 * m * p**2 + 2 * 4.0 * p**3
    assert each > FREE_OPERATIONS
    fits = WORTH_FITS * (m * p**2 + p**3)
    assert int(fits // each) == 3
    assert affordable(Sized(m, p), tasks_of([[0]] * 3), 2)
    assert not affordable(Sized(m, p), tasks_of([[0]] * 4), 2)
    small = 6.0 * 100 * 10.0**2 + 4.0 * 10.0**3
    most = int(FREE_OPERATIONS // small)
    assert affordable(Sized(100, 10), one.select(np.zeros(most, dtype=int)), 1)
    assert not affordable(Sized(100, 10), one.select(np.zeros(most + 1, dtype=int)), 1)
    many = Sized(10, 1000)  # penalties count the order to the third power
    assert affordable(many, one, 4)
    assert not affordable(many, one, 6)


def test_doubts_about_measured_errors():
    """Errors beside what is attainable; where training takes no time, errors as they are."""
    attainable = np.array([1e-9, 1e-9, 1e-13, 1e-9])
    errors = np.array([1.1, 0.9, 1.1, 1.1]) * digits.CLEARLY_WORSE * attainable
    errors[3] = 0.9 * digits.TOO_LITTLE  # too small to matter
    each = 6.0 * 100 * 10.0**2 + 3 * 4.0 * 10.0**3
    few = tasks_of([[0]]).select(np.zeros(int(digits.CHEAP // each), dtype=int))
    many = few.select(np.zeros(len(few) + 1, dtype=int))
    for tasks, lost in ((many, [True, False, False, False]), (few, [True, True, False, False])):
        smoother = Sized(100, 10, Measured(errors, attainable))
        found = without_doubt(np.ones((4, 2, 1)), smoother, tasks, ALPHAS, ALL)
        assert_array_equal(np.isnan(found).all(axis=(1, 2)), lost)
        assert_array_equal(np.isnan(found).any(axis=(1, 2)), lost)
    kept = without_doubt(np.ones((1, 2, 1)), Sized(100, 10), few, ALPHAS, ALL)
    assert np.isfinite(kept).all()


def test_work_that_just_takes_no_time():
    """200 rows, 100 columns, 2 penalties: 20 million operations exactly."""
    errors = np.full(2, 1e-9)
    for m, lost in ((200, True), (201, False)):
        smoother = Sized(m, 100, Measured(errors, errors))
        found = without_doubt(np.ones((2, 1, 1)), smoother, tasks_of([[0]]), ALPHAS[:2], ALL)
        assert np.isnan(found).all() == lost


def test_rows_that_reach_much_farther_than_what_is_left():
    """Predictions of a row many times as long as the training rows magnify rounding errors."""
    smoother = Sized(4, 2)
    smoother.norms, smoother.scale = np.array([1e8, 1.0, 2.0, 3.0, 9.0]), RowScale.of(
        np.array([1.0, 1.0, 1.0, 1.0, 0.0])
    )  # fmt: skip
    smoother.unpenalised = SimpleNamespace(Q=np.zeros((5, 0)))
    tasks = tasks_of([[0], [0], [1], [0, 1]], test=[[0, 2], [1], [1], [0]])
    few = np.array([True, True, True, False])
    # Without row 0 a trace of 6 is left, and row 0 is √(1e8/6) times as long.
    limit = 6.0 / (digits.TOO_LITTLE / (digits.EPS * np.sqrt(1e8 / 6.0)) - 1.0)
    alphas = limit * np.array([0.99, 1.01])
    found = without_reach(np.ones((2, 5, 1)), smoother, tasks, alphas, few)[..., 0]
    assert_array_equal(np.isnan(found), [[True, True, False, False, False], [False] * 5])
    kept = without_reach(np.ones((2, 5, 1)), smoother, tasks, alphas, np.zeros(4, dtype=bool))
    assert np.isfinite(kept).all()


def test_rows_count_from_the_mean_of_those_that_are_left():
    """A heavy row lies close to the mean of all, which it has drawn to itself."""
    smoother, Q = Sized(4, 2), np.sqrt([[0.96], [0.02], [0.01], [0.01]])
    smoother.norms, smoother.scale = np.array([4.0, 10.0, 20.0, 30.0]), RowScale.of(np.ones(4))
    smoother.unpenalised, smoother.shift = SimpleNamespace(Q=Q), lambda held: 1.0
    tasks = tasks_of([[0]], test=[[0, 2]])
    # Of a trace of 64, 4 leaves with row 0, and 1/0.04 with the mean.
    longest = 2.0 + np.sqrt(0.96) / 0.04
    limit = 35.0 / (digits.TOO_LITTLE * np.sqrt(35.0) / (digits.EPS * longest) - 1.0)
    alphas = limit * np.array([0.99, 1.01])
    found = without_reach(np.ones((2, 2, 1)), smoother, tasks, alphas, np.array([True]))
    assert_array_equal(np.isnan(found[..., 0]), [[True, True], [False, False]])


def test_which_penalties_are_told():
    with pytest.warns(DigitsWarning, match="0.1, 0.2, 0.3, 0.4, 0.5 and 1 more .* 7 exp") as told:
        warn_of_digits(np.arange(1, 7) / 10.0, 7)
    assert told[0].message.alphas == (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
    with pytest.warns(DigitsWarning, match=r"alpha = 0.1, 0.2, 0.3, 0.4, 0.5 digits"):
        warn_of_digits(np.arange(1, 6) / 10.0, 7)
    eps = np.finfo(float).eps * 1e3
    with pytest.warns(DigitsWarning, match="follows rounding errors") as told:
        warn_of_rounding(Sized(1, 1), np.array([0.1 * eps, 0.9 * eps, eps, 1.1 * eps]))
    assert told[0].message.alphas == pytest.approx((0.1 * eps, 0.9 * eps))
    with pytest.warns(DigitsWarning, match="alpha = 1 to 3 digits are lost") as told:
        warn_of_unlike_rows(np.arange(1.0, 5.0), np.array([2e-8, 1e-8, 1.0, 0.0]))
    assert told[0].message.alphas == (1.0, 3.0)
    with pytest.warns(DigitsWarning, match="alpha = 3 to 3"):
        warn_of_unlike_rows(np.arange(1.0, 5.0), np.array([2e-8, 1e-8, 1.0, 0.0]), 0.5)


@pytest.mark.filterwarnings("error")
def test_nothing_to_tell():
    warn_of_rounding(Sized(1, 1), np.array([1.0]))
    warn_of_unlike_rows(ALPHAS, np.zeros(3))


# -- who takes which path ----------------------------------------------------------------------

HELD = [[0, 1], list(range(38)), [5], [6]]
REMOVED = [[0, 1], list(range(2)), [], [0, 1, 2]]
FEW = [False, True, False, False]
SHRINKS = [False, False, False, True]


def masks(smoother, path):
    found = holdout._ways(smoother, tasks_of(HELD, REMOVED), path)
    return {way: mask.tolist() for way, mask in found.items()}


def test_tasks_take_the_path_that_keeps_their_digits():
    assert masks(sparse(), "retrain") == {"retrain": [True] * 4}
    usual = [True, False, True, False]
    for path in ("spectral", "single"):
        found = {"retrain": SHRINKS, "fold_gram": FEW, path: usual}
        assert masks(sparse(), path) == found
    assert masks(sparse(), "fold_gram") == {"retrain": SHRINKS, "fold_gram": [True] * 3 + [False]}
    whole = holdout._ways(dense(), tasks_of(HELD), "spectral")
    assert {way: mask.tolist() for way, mask in whole.items()} == {
        "fold_gram": FEW,
        "spectral": [True, False, True, True],
    }


def test_coordinates_that_cannot_be_summed():
    """Where little is left there, it is trained; folds take the spectral path."""
    smoother = linear(X * [1e7, 1.0, 1e-7])
    smoother.factor(least=1e-9)
    assert not smoother.additive
    tasks = tasks_of([[0, 1], list(range(39)), [5]])
    few = few_left(smoother, tasks)
    assert few.tolist() == [False, True, False]
    for path in ("spectral", "fold_gram"):
        found = holdout._ways(smoother, tasks, path)
        assert set(found) == {"retrain", "spectral"}
        assert_array_equal(found["retrain"], few)
        assert_array_equal(found["spectral"], ~few)


def test_folds_are_announced_without_those_that_are_trained_anew(monkeypatch):
    told = []
    monkeypatch.setattr(FeatureSmoother, "announce", lambda self, tasks: told.append(tasks.source))
    holdout._ways(sparse(), tasks_of(HELD, REMOVED), "fold_gram")
    assert [source.tolist() for source in told] == [[0, 1, 2]]
    holdout._ways(sparse(), tasks_of([[6]], [[0, 1, 2]]), "fold_gram")
    holdout._ways(sparse(), tasks_of(HELD, REMOVED), "spectral")
    assert len(told) == 1


@pytest.mark.parametrize("path", ["spectral", "single", "fold_gram"])
@pytest.mark.parametrize("columns", [slice(None), slice(1, 2)])
def test_every_way_gives_the_model_without_the_rows(path, columns):
    tasks = tasks_of(HELD, REMOVED, [[1, 9], [3], [5, 0, 7], [6]])
    found = holdout.predict(sparse(), tasks, ALPHAS, path, columns)
    expected = holdout.predict(sparse(), tasks, ALPHAS, "retrain", columns)
    assert found.shape == (3, 7, 2 if columns == slice(None) else 1)
    assert_allclose(found, expected, rtol=1e-7, atol=1e-9)


def test_each_way_is_asked_for_its_own_tasks(monkeypatch):
    asked = []

    def taken(name):
        def path(smoother, tasks, alphas, columns):
            asked.append((name, tasks.source.tolist()))
            return retrain.predict(smoother, tasks, alphas, columns)

        return path

    monkeypatch.setattr(holdout, "PATHS", {n: taken(n) for n in ("single", "fold_gram", "retrain")})
    tasks = tasks_of(HELD, REMOVED)
    found = holdout.predict(sparse(), tasks, ALPHAS, "single")
    assert sorted(asked) == [("fold_gram", [1]), ("retrain", [3]), ("single", [0, 2])]
    asked.clear()
    again = holdout.predict(sparse(), tasks, ALPHAS, "retrain")
    assert asked == [("retrain", [0, 1, 2, 3])]
    assert_allclose(found, again, rtol=1e-12)


# -- who makes up for lost digits --------------------------------------------------------------


@pytest.fixture
def recorded(monkeypatch):
    """Paths that note what they were asked for, one that forgets, one that forgets less."""
    asked = []
    right = holdout.predict(sparse(), tasks_of([[0], [1, 2], [3]]), ALPHAS, "retrain")

    def forgets(smoother, tasks, alphas, columns):
        values = spectral.predict(smoother, tasks, alphas, columns)
        values[0, 1, 0] = np.nan  # first penalty: one row of the second set
        values[2, 3] = np.nan  # last penalty: the third set
        return values

    def less(smoother, tasks, alphas, columns):
        asked.append(("spectral", tasks.source.tolist(), alphas.tolist()))
        values = spectral.predict(smoother, tasks, alphas, columns) + 100.0
        values[-1, -1] = np.nan
        return values

    def last(smoother, tasks, alphas, columns):
        asked.append(("retrain", tasks.source.tolist(), alphas.tolist()))
        return retrain.predict(smoother, tasks, alphas, columns)

    monkeypatch.setattr(holdout, "PATHS", {"single": forgets, "spectral": less, "retrain": last})
    return asked, right


def test_lost_predictions_are_asked_again_and_others_stay(recorded):
    asked, right = recorded
    found = holdout.predict(sparse(), tasks_of([[0], [1, 2], [3]]), ALPHAS, "single")
    assert asked == [("spectral", [1, 2], [0.1, 10.0]), ("retrain", [2], [10.0])]
    expected = right.copy()
    expected[0, 1, 0] += 100.0
    assert_allclose(found, expected, rtol=1e-9)


def test_the_digits_that_are_left_where_training_costs_too_much(recorded, monkeypatch):
    asked, right = recorded
    monkeypatch.setattr(holdout, "affordable", lambda smoother, tasks, n: n > 1)
    with pytest.warns(DigitsWarning, match="alpha = 10 .* 1 experiments"):
        found = holdout.predict(sparse(), tasks_of([[0], [1, 2], [3]]), ALPHAS, "single")
    assert asked == [("spectral", [1, 2], [0.1, 10.0])]
    expected = right.copy()
    expected[0, 1, 0] += 100.0
    assert_allclose(found, expected, rtol=1e-7)


@pytest.mark.parametrize("spared", [False, True])
def test_penalties_at_which_rows_are_too_unlike(monkeypatch, spared):
    """They are trained from scratch if that is affordable; the others take the path."""
    asked = []
    promised = np.array([1e-10, 1e-12, 1e-11])
    smoother = dense()
    monkeypatch.setattr(
        type(smoother), "promise", lambda self, alphas: promised[np.searchsorted(ALPHAS, alphas)]
    )

    def taken(name):
        def path(smoother, tasks, alphas, columns):
            asked.append((name, alphas.tolist()))
            return retrain.predict(smoother, tasks, alphas, columns)

        return path

    monkeypatch.setattr(holdout, "PATHS", {name: taken(name) for name in ("single", "retrain")})
    monkeypatch.setattr(holdout, "affordable", lambda *_: not spared)
    tasks = tasks_of([[0], [1, 2]])
    found = holdout.predict(smoother, tasks, ALPHAS, "single")
    if spared:
        assert asked == [("single", ALPHAS.tolist())]
    else:
        assert asked == [("retrain", [0.1]), ("single", [1.0, 10.0])]
    monkeypatch.undo()
    assert_allclose(found, holdout.predict(dense(), tasks, ALPHAS, "retrain"), rtol=1e-9)


# -- rows that leave after others --------------------------------------------------------------


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("zeros", [False, True])
def test_sets_that_leave_after_others(zeros, bias):
    weights = RNG.uniform(0.5, 2.0, size=M)
    if zeros:
        weights[[2, 17, 30]] = 0.0
    outer = [np.array([0, 1, 5]), np.array([20, 21]), np.array([8, 9])]
    inner = [
        tasks_of([[3, 4], [6], [7, 10]], test=[[4, 3], [6], [7, 10]]),
        tasks_of([[25], [26]]),
        tasks_of([[11], [12]], test=[[11], [13]]),  # other rows are tested
    ]
    found = after_others(dense(weights, bias), outer, inner, ALPHAS)
    assert found[2] is None
    for rows, tasks, values in zip(outer[:2], inner, found, strict=False):
        left = weights.copy()
        left[rows] = 0.0
        expected = holdout.predict(dense(left, bias), tasks, ALPHAS, "retrain")
        assert_allclose(values, expected, rtol=1e-7)


def test_sets_that_must_not_leave_after_others():
    few = [tasks_of([list(range(2, 30))])]
    assert after_others(dense(), [np.array([0, 1])], few, ALPHAS) == [None]
    usual = [tasks_of([[2], [3]])]
    assert after_others(sparse(), [np.array([0, 1])], usual, ALPHAS) == [None]
    far = X.copy()
    far[3] *= 1e8
    smoother = KernelSmoother(far @ far.T, np.ones(M), Y, Unpenalised.bias(np.ones(M), True))
    assert after_others(smoother, [np.array([0, 1])], usual, ALPHAS) == [None]
    one_more = [tasks_of([[2], [3]], test=[[2], [3, 4]])]
    assert after_others(dense(), [np.array([0, 1])], one_more, ALPHAS) == [None]


# -- certificates ------------------------------------------------------------------------------


def test_deviations_are_relative_to_the_largest_prediction(monkeypatch):
    tasks = tasks_of([[0, 1], [2], [3, 4]])
    smoother = sparse()
    right = holdout.predict(smoother, tasks, ALPHAS, "retrain")
    real = holdout.predict

    def wrong(smoother, tasks, alphas, path, *more):
        values = real(smoother, tasks, alphas, "retrain", *more)
        if path == "single":
            values[1, 2, 1] += 0.5
            values[0, 4, 0] -= 0.25
        return values

    monkeypatch.setattr(holdout, "predict", wrong)
    steps = []
    with listening(lambda *step: steps.append(step)):
        found = deviations(smoother, tasks, ALPHAS, "single")
    mine = [step[:2] for step in steps if step[2] == "retraining to verify"]
    assert mine == [(1, 3), (2, 3), (3, 3)]
    size = np.abs(right).max(axis=(1, 2))
    expected = np.zeros((3, 3))
    expected[1, 1], expected[2, 0] = 0.5 / size[1], 0.25 / size[0]
    assert_allclose(found, expected, atol=1e-12)
    result = verify(smoother, tasks, ALPHAS, "single", 3, 0, np.array([2]))
    assert result.experiments.tolist() == [0, 1, 2]
    assert result.max_relative_error == pytest.approx(0.5 / size[1])
    assert result.chosen_relative_error < 1e-9
    assert not result.verified


def test_predictions_of_nothing_deviate_by_nothing():
    ones = np.ones(M)
    smoother = FeatureSmoother(ColumnFeatures(X), ones, 0.0 * Y, Unpenalised.bias(ones, True))
    assert_array_equal(deviations(smoother, tasks_of([[0], [1, 2]]), ALPHAS, "single"), 0.0)


def test_tasks_that_are_trained_anyway_are_drawn_last():
    tasks = tasks_of([[0]] * 6, [[0, 1, 2]] * 3 + [[]] * 3)
    for seed in range(4):
        found = verify(sparse(), tasks, ALPHAS, "spectral", 3, seed, np.array([0]))
        assert found.experiments.tolist() == [3, 4, 5]
        assert found.verified
    assert verify(sparse(), tasks, ALPHAS, "spectral", 4, 1, np.array([0])).experiments.size == 4
    assert verify(sparse(), tasks, ALPHAS, "spectral", 99, 1, np.array([0])).experiments.size == 6


def test_how_much_is_allowed():
    errors = np.array([[1e-7, 2e-6, 2.99e-5]])
    promised = np.array([0.0, 1e-7, 1e-6])

    def of(chosen, errors=errors, promised=promised):
        return Verification(errors.max(), errors, np.arange(1), ALPHAS, np.array(chosen), promised)

    assert of([0]).verified  # 30 times what is promised elsewhere
    assert not of([1]).verified
    assert not of([0], errors * 1.01).verified
    assert of([0], errors * 0.1).within(1e-6)
    assert not of([0]).within(1e-8)
    assert of([0, 1]).chosen_relative_error == 2e-6
    assert "At λ = 10 double precision" in of([0]).words()
    assert "NOT verified: more than 1e-06" in of([2]).words()
    assert of([0], errors * 1e-3).words().endswith("over the grid.")
    assert "NOT verified: 1 experiments × 3" in repr(of([2]))


def test_no_spectrum_where_it_would_cost_light_rows_their_digits():
    """Whoever asks for it, or for the cheapest path, has the inverse at each penalty instead."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 2)), rng.normal(size=30)
    weights = np.where(np.arange(30) < 3, 1e-9, 1.0)
    alphas = np.logspace(-2, 4, 25)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        far = KernelRidgeCV(gamma=0.5, alphas=alphas).fit(X, y, sample_weight=weights)
        asked = KernelRidgeCV(gamma=0.5, alphas=alphas, path="spectral")
        asked.fit(X, y, sample_weight=weights)
        near = KernelRidgeCV(gamma=0.5, alphas=alphas).fit(X, y, sample_weight=weights + 1e-6)
    assert far.explain().path == asked.explain().path == "single"
    assert "too far apart" in str(far.explain())
    assert "asked for and would cost digits" in str(asked.explain())
    assert near.explain().path == "spectral"
    assert "too far apart" not in str(near.explain())
    assert_array_equal(asked.held_out().values, far.held_out().values)
