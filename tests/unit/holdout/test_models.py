"""All held-out models at once against ridge regressions that are trained one by one."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import holdfast.holdout.models as module
from holdfast import holdout
from holdfast.experiments import Ragged, Tasks
from holdfast.holdout.accuracy import PROMISE
from holdfast.holdout.models import HeldOutModels, predict_with
from holdfast.kernels import RBF
from holdfast.kernels.matrix import KernelRows
from holdfast.smoother import FeatureSmoother, KernelSmoother, Unpenalised
from holdfast.smoother.features import ColumnFeatures

SEED = 12
RNG = np.random.default_rng(SEED)
M, D = 24, 3
X = RNG.normal(size=(M, D))
Y = np.c_[X @ [1.0, -2.0, 0.5], X[:, 0] ** 2] + 0.3 * RNG.normal(size=(M, 2)) + 4.0
NEW = RNG.normal(size=(13, D))
WEIGHTS = RNG.uniform(0.5, 2.0, size=M)
#: Ordinary sets, and two that leave little.
HELD = [[0, 5, 7], [1], list(range(2, M)), list(range(20))]


def tasks_of(*held):
    rows = Ragged.from_arrays([np.array(h, dtype=np.int64) for h in held])
    return Tasks(rows, Ragged.empty(len(held)), rows, np.arange(len(held)))


def ridge(held, rows, alpha, target, bias=True):
    """Return predictions of rows by a linear model that is trained without `held`."""
    keep = np.setdiff1d(np.arange(M), held)
    w = WEIGHTS[keep]
    left, y = X[keep], Y[keep, target]
    x0, y0 = (np.average(left, axis=0, weights=w), np.average(y, weights=w)) if bias else (0.0, 0.0)
    centred = left - x0
    A = (centred * w[:, None]).T @ centred + alpha * np.eye(D)
    return (rows - x0) @ np.linalg.solve(A, (centred * w[:, None]).T @ (y - y0)) + y0


def linear(bias=True, Y=Y):
    return FeatureSmoother(ColumnFeatures(X), WEIGHTS, Y, Unpenalised.bias(WEIGHTS, bias))


def dense(bias=True):
    kernel = KernelRows(RBF(0.4), X)
    return KernelSmoother(kernel, WEIGHTS, Y, Unpenalised.bias(WEIGHTS, bias))


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    ("keep", "block"),
    [(2**20, 2**20), (2**20, 16), (40, 2**20), (40, 16), (20, 16), (17, 1), (15, 2**20), (8, 3)],
)
def test_new_rows_block_by_block(monkeypatch, keep, block, bias):
    """However few models and rows are kept at once, each model predicts every row."""
    monkeypatch.setattr(module, "KEEP_DOUBLES", keep)
    monkeypatch.setattr(module, "BLOCK_DOUBLES", block)
    alphas = np.array([0.3, 2.0])
    models = HeldOutModels(linear(bias), tasks_of(*HELD), alphas)
    vars(models)["again"] = np.array([False, False, True, True])  # some of either kind
    found = np.full((2, len(NEW), 4), np.nan)
    ends = [0]
    for rows, values in models.predict(NEW):
        assert rows.start == ends[-1]
        found[:, rows] = values
        ends.append(rows.stop)
    assert ends[-1] == len(NEW)
    for t, j in np.ndindex(2, 4):
        expected = ridge(HELD[j], NEW, alphas[t], t, bias)
        assert_allclose(found[t, :, j], expected, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("block", [1, 7, 2**20])
def test_one_model_predicts_a_block_at_a_time(monkeypatch, block):
    monkeypatch.setattr(module, "BLOCK_DOUBLES", block)
    for held in (HELD[0], HELD[2]):
        models = HeldOutModels(linear(), tasks_of(held), np.array([0.3, 2.0]))
        values = predict_with(NEW, models.only())
        for t, alpha in enumerate((0.3, 2.0)):
            assert_allclose(values[:, t], ridge(held, NEW, alpha, t), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("unit", [1.0, 2.0**300])
def test_published_models(unit):
    """Coefficients of the columns, and the intercept, in units of the targets."""
    smoother = linear(Y=Y * unit)
    assert smoother.targets.unit == pytest.approx(unit, rel=100 if unit > 1 else 0)
    models = HeldOutModels(smoother, tasks_of(*HELD), np.array([0.3, 2.0]))
    seen = set()
    for j, fit in models.published():
        seen.add(j)
        for t, alpha in enumerate((0.3, 2.0)):
            value = NEW @ (fit.linear[:, t] / unit) + fit.unpenalised[0, t] / unit * 1.0
            assert_allclose(value, ridge(HELD[j], NEW, alpha, t), rtol=1e-8, atol=1e-9)
    assert seen == {0, 1, 2, 3}


@pytest.mark.parametrize("make", [linear, dense])
@pytest.mark.parametrize("bias", [False, True])
def test_what_led_to_the_models(make, bias):
    """Squares of residuals under I − S, predictions of the test rows, targets of two penalties."""
    smoother, alphas = make(bias), np.array([0.3, 2.0])
    tasks = tasks_of([0, 5, 7], [1, 2, 3], [4], [20, 21])
    assert not HeldOutModels(smoother, tasks, alphas).again.any()
    expected = np.stack(
        [holdout.predict(make(bias), tasks, alphas[[t]], "retrain")[0, :, t] for t in range(2)]
    )
    seen = []
    for stack in HeldOutModels(smoother, tasks, alphas).stacks():
        for i, j in enumerate(stack.index.tolist()):
            seen.append(j)
            rows = tasks.held[j]
            span = slice(tasks.test.ptr[j], tasks.test.ptr[j + 1])
            assert_allclose(stack.predictions[i], expected[:, span], rtol=1e-8)
            for t, alpha in enumerate(alphas):
                root = np.sqrt(WEIGHTS[rows])
                r = root * (Y[rows, t] - expected[t, span])
                S = smoother_matrix(make(bias), alpha)[np.ix_(rows, rows)]
                square = r @ (np.eye(len(rows)) - S) @ r
                assert stack.squares[i, t, 0] == pytest.approx(square, rel=1e-8)
    assert sorted(seen) == [0, 1, 2, 3]


def smoother_matrix(smoother, alpha):
    """Return S for weighted rows, column by column."""
    other = smoother.retargeted(np.eye(M) / np.sqrt(WEIGHTS))
    rows = np.arange(M)
    alphas = np.full(M, alpha)
    factor = other.coordinates(alphas)
    values = other.fitted_rows(factor, other.model(factor, alphas), rows)
    return values * np.sqrt(WEIGHTS)[:, None]


def interpolating():
    """Return a model with a column that only row 7 has: its leverage is nearly one."""
    rows = np.c_[X, np.zeros(M)]
    rows[7, 3] = 1.0
    return FeatureSmoother(ColumnFeatures(rows), np.ones(M), Y, Unpenalised.bias(np.ones(M), True))


def test_sets_past_the_promise_are_trained_again():
    tasks, alphas = tasks_of([0, 1], [7, 8], [2, 3], [7], [4]), np.full(2, 1e-10)
    models = HeldOutModels(interpolating(), tasks, alphas)
    assert models.again.tolist() == [False, True, False, True, False]
    assert (models.error[models.again] > PROMISE).all()
    seen = np.sort(np.concatenate([stack.index for stack in models.stacks()]))
    assert seen.tolist() == [0, 2, 4]
    expected = holdout.predict(interpolating(), tasks, alphas[:1], "retrain")[0]
    new = np.c_[X, np.arange(M) == 7]
    (values,) = (values for _, values in models.predict(new))
    for j in range(len(tasks)):
        span = slice(tasks.test.ptr[j], tasks.test.ptr[j + 1])
        assert_allclose(values[:, tasks.test[j], j].T, expected[span], rtol=1e-8)


def test_what_cannot_be_afforded_is_stated(monkeypatch):
    monkeypatch.setattr(module, "affordable", lambda *_: False)
    models = HeldOutModels(interpolating(), tasks_of([0, 1], [7, 8], [7]), np.full(2, 1e-10))
    assert not models.again.any()
    assert (models.error > PROMISE).tolist() == [False, True, True]
    seen = np.concatenate([stack.index for stack in models.stacks()])
    assert sorted(seen.tolist()) == [0, 1, 2]
