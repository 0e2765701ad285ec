"""What is looked at when one experiment is trained again, and what is made of it."""

import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from holdfast import holdout
from holdfast.exceptions import DigitsWarning
from holdfast.experiments import Ragged, Tasks
from holdfast.holdout.check import FACTORISATIONS, MOST_ROWS, MOST_TARGETS, check
from holdfast.holdout.verify import TOLERANCE
from holdfast.smoother import FeatureSmoother, KernelSmoother, Unpenalised
from holdfast.smoother.features import ColumnFeatures
from holdfast.smoother.kernel_form import MANY

module = sys.modules[check.__module__]

M = 120
RNG = np.random.default_rng(41)
X = RNG.normal(size=(M, 3))
X[70] = [4.0, -4.0, 4.0]
X[50] = [30.0, 30.0, 30.0]
Y = X @ RNG.normal(size=(3, 10)) + 0.1 * RNG.normal(size=(M, 10)) + 3.0
ALPHA = 0.5


def linear(memory=np.inf, Y=Y):
    ones = np.ones(M)
    smoother = FeatureSmoother(ColumnFeatures(X), ones, Y, Unpenalised.bias(ones, True), memory)
    smoother.factor(least=ALPHA)
    return smoother


def tasks_of(held, test=None):
    parts = [
        Ragged.from_arrays([np.array(rows, dtype=np.int64) for rows in sets])
        for sets in (held, [[]] * len(held), held if test is None else test)
    ]
    return Tasks(*parts, 100 + np.arange(len(held)))


#: An ordinary set, the row of high leverage with others, and a set that leaves too little.
HELD = [[0, 1], [*range(60, 100)], [*range(M - 1)], [5]]
TASKS = tasks_of(HELD)


@pytest.fixture
def looked(monkeypatch):
    """What the deviation was asked for; it says what it is told."""
    asked = {"found": 1e-9}

    def deviation(smoother, rows, alpha, columns, fast, size):
        asked.update(rows=rows, alpha=alpha, columns=columns, fast=fast, size=size)
        return asked["found"]

    monkeypatch.setattr(module, "_deviation", deviation)
    return asked


def test_the_rows_of_highest_leverage_are_looked_at(looked):
    smoother = linear()
    values = np.arange(float(TASKS.test.values.size))[:, None] + np.zeros(10)
    told = check(smoother, TASKS, "spectral", 3, ALPHA, np.arange(10), values)
    assert told == "experiment 101, 40 rows held out, trained again at alpha = 0.5: deviates by " \
                   "1.0e-09"  # fmt: skip
    held, removed, test = looked["rows"]
    assert held.tolist() == HELD[1]
    assert removed.size == 0
    leverages = smoother.leverages(ALPHA)
    order = np.argsort(-leverages[60:100], kind="stable")[:MOST_ROWS]
    assert_array_equal(test, 60 + order)
    assert test[0] == 70
    assert_array_equal(looked["columns"], np.arange(MOST_TARGETS))
    assert_array_equal(looked["fast"], values[2 + order][:, :MOST_TARGETS])
    assert looked["size"] == values.max()
    assert looked["alpha"] == ALPHA


def test_sums_of_leverages_decide(looked):
    """Many ordinary rows outweigh a single one."""
    tasks = tasks_of([[70], [*range(45)], [1]])
    values = np.zeros((47, 10))
    told = check(linear(), tasks, "spectral", 3, ALPHA, np.arange(2), values)
    assert told.startswith("experiment 101, 45 rows held out")
    assert looked["size"] == 1.0  # nothing to compare with
    told = check(linear(), tasks_of([[1], [70]]), "spectral", 3, ALPHA, np.arange(2), values[:2])
    assert told.startswith("experiment 101, 1 row held out,")


def test_sizes_are_those_of_the_targets_looked_at(looked):
    values = np.zeros((1, 10))
    values[0] = [1.0, -2.0, 0, 0, 0, 0, 0, 0, 0, 50.0]
    check(linear(), tasks_of([[3]]), "spectral", 3, ALPHA, np.array([1, 0]), values)
    assert looked["size"] == 2.0
    assert_array_equal(looked["fast"], [[-2.0, 1.0]])


def test_predictions_that_are_not_kept_are_made_again(looked):
    tasks = tasks_of([[0, 1], [70, 3]], [[1], [3, 70]])
    check(linear(), tasks, "single", 3, ALPHA, np.array([2, 4]), None)
    expected = holdout.predict(linear(), tasks, np.array([ALPHA]), "retrain")[0]
    assert looked["rows"][2].tolist() == [3, 70]  # so few that all of them are looked at
    assert_allclose(looked["fast"], expected[1:][:, [2, 4]], rtol=1e-8)
    assert looked["size"] == pytest.approx(np.abs(Y[:, [2, 4]]).max())


@pytest.mark.parametrize(
    ("found", "told"),
    [(TOLERANCE, False), (1.01 * TOLERANCE, True), (np.nan, True), (0.0, False)],
)
def test_who_is_warned(looked, found, told, recwarn):
    looked["found"] = found
    check(linear(), tasks_of([[3]]), "spectral", 3, ALPHA, np.arange(2), np.ones((1, 10)))
    warned = [w.message for w in recwarn if isinstance(w.message, DigitsWarning)]
    assert bool(warned) is told
    if told:
        assert warned[0].alphas == (ALPHA,)
        assert "experiment 100, 1 row held out, was trained again" in str(warned[0])


def test_reasons_not_to_look(looked):
    values = np.ones((TASKS.test.values.size, 10))
    some = TASKS, "retrain", 3, ALPHA, np.arange(2), values
    assert check(linear(), *some) == "no: every experiment was trained from scratch"
    little = tasks_of([[*range(M - 1)], [*range(M - 2)]])
    values = np.ones((little.test.values.size, 10))
    told = check(linear(), little, "spectral", 3, ALPHA, np.arange(2), values)
    assert told == "no: every experiment was trained anew"
    assert "rows" not in looked


def test_a_short_fit_of_a_dense_model_is_not_checked(looked):
    """Without a spectrum one more factorisation has to be a small part of many."""
    assert MANY == 5 * FACTORISATIONS
    ones, values = np.ones(M), np.ones((5, 10))

    def told(n_tasks, path, n_alphas, known=False):
        smoother = KernelSmoother(X @ X.T + np.eye(M), ones, Y, Unpenalised.bias(ones, True))
        if known:
            smoother.factor()
        tasks = tasks_of([[j] for j in range(n_tasks)])
        return check(smoother, tasks, path, n_alphas, ALPHA, np.arange(2), values[:n_tasks])

    short = "no: it would take too large a part of so short a fit; verify() does it"
    assert told(5, "fold_gram", 4).startswith("experiment")
    assert told(5, "fold_gram", 9).startswith("experiment")
    assert told(5, "fold_gram", 3) == short
    assert told(4, "fold_gram", 9) == short
    assert told(5, "single", 6) == short
    assert told(5, "single", 7).startswith("experiment")  # three for each inverse
    assert told(5, "spectral", 9) == short
    assert told(5, "single", 1, known=True).startswith("experiment")


# -- how far it is -----------------------------------------------------------------------------

ROWS = np.array([3, 70]), np.array([], dtype=np.int64), np.array([70, 3, 8])
COLUMNS = np.array([4, 1])


def right():
    one = Tasks.one(*ROWS)
    return holdout.predict(linear(), one, np.array([ALPHA]), "retrain")[0][:, COLUMNS]


@pytest.mark.parametrize("memory", [np.inf, 0.0], ids=["kept", "streamed"])
def test_a_deviation_is_relative_to_the_size(memory):
    smoother = linear(memory)
    calm = module._deviation(smoother, ROWS, ALPHA, COLUMNS, right(), 2.0)
    assert calm < 1e-9
    wrong = right()
    wrong[1, 0] += 1e-3
    found = module._deviation(smoother, ROWS, ALPHA, COLUMNS, wrong, 2.0)
    assert found == pytest.approx(0.5e-3, rel=1e-6)


def test_a_second_opinion_that_disagrees_is_not_the_last(monkeypatch):
    smoother = linear()
    real = smoother.refined
    trained = []
    once = smoother.retrain
    monkeypatch.setattr(smoother, "retrain", lambda *a: trained.append(1) or once(*a))
    for gap, asked in ((0.5 * TOLERANCE, 0), (2.0 * TOLERANCE, 1)):
        trained.clear()
        monkeypatch.setattr(smoother, "refined", lambda *a, gap=gap: real(*a) + gap)
        found = module._deviation(smoother, ROWS, ALPHA, COLUMNS, right(), 1.0)
        assert len(trained) == asked
        assert found == pytest.approx(gap, rel=1e-2) if not asked else found < 1e-9

    def singular(*_):
        raise np.linalg.LinAlgError

    trained.clear()
    monkeypatch.setattr(smoother, "refined", singular)
    assert module._deviation(smoother, ROWS, ALPHA, COLUMNS, right(), 1.0) < 1e-9
    assert trained


def test_what_counts_as_settled_is_in_units_of_the_targets(monkeypatch):
    smoother = linear(Y=Y * 2.0**300)
    unit = smoother.targets.unit
    sizes = []
    real = smoother.refined
    monkeypatch.setattr(smoother, "refined", lambda *a: sizes.append(a[-1]) or real(*a))
    fast = right() * 2.0**300
    assert module._deviation(smoother, ROWS, ALPHA, COLUMNS, fast, 2.0**301) < 1e-9
    assert sizes == [2.0**301 / unit]
