"""All held-out models at once against ridge regressions that are trained one by one."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import holdfast.holdout.models as module
from holdfast import holdout
from holdfast.exceptions import DigitsWarning
from holdfast.experiments import Ragged, Tasks
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
#: Two ordinary sets, and two that leave so little that they are trained anew.
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
    assert models.anew.tolist() == [False, False, True, True]
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


def test_no_more_is_kept_than_there_is_room_for(monkeypatch):
    models = HeldOutModels(linear(), tasks_of(*HELD), np.array([0.3, 0.3]))
    size = 2 * 2 * 4  # targets, models that are not trained anew, coordinates
    monkeypatch.setattr(module, "KEEP_DOUBLES", size)
    assert models._kept().shape == (2, 2, 4)
    monkeypatch.setattr(module, "KEEP_DOUBLES", size - 1)
    assert models._kept() is None
    all_anew = HeldOutModels(linear(), tasks_of(*HELD[2:]), np.array([0.3, 0.3]))
    assert all_anew._kept().size == 0


def test_rows_per_block(monkeypatch):
    monkeypatch.setattr(module, "KEEP_DOUBLES", 20)  # 2 targets, 2 models trained anew: 5 rows
    monkeypatch.setattr(module, "BLOCK_DOUBLES", 16)  # 2 targets, 4 models: 2 rows
    models = HeldOutModels(linear(), tasks_of(*HELD), np.array([0.3, 0.3]))
    parts = [(rows.start, rows.stop) for rows, _ in models.predict(NEW)]
    assert parts == [(0, 2), (2, 4), (4, 5), (5, 7), (7, 9), (9, 10), (10, 12), (12, 13)]


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
    assert not HeldOutModels(smoother, tasks, alphas).anew.any()
    expected = np.stack(
        [holdout.predict(make(bias), tasks, alphas[[t]], "retrain")[0, :, t] for t in range(2)]
    )
    seen = []
    for stack in HeldOutModels(smoother, tasks, alphas).stacks(tested=True):
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
    values = other.fitted_rows(other.model(np.full(M, alpha)), rows)
    return values * np.sqrt(WEIGHTS)[:, None]


def test_rows_too_unlike_each_other_are_trained_anew():
    """A dense model with one far-away row has too few digits for any factor of all rows."""
    far = X.copy()
    far[3] *= 1e7
    K = far @ far.T
    smoother = KernelSmoother(K, np.ones(M), Y, Unpenalised.bias(np.ones(M), True))
    tasks, alphas = tasks_of([0], [1, 2]), np.array([1e-3, 1e-3])
    models = HeldOutModels(smoother, tasks, alphas)
    assert models.anew.tolist() == [True, True]
    assert list(models.stacks()) == []
    calm = HeldOutModels(smoother, tasks, np.array([1e12, 1e12]))
    assert calm.anew.tolist() == [False, False]


def interpolating():
    """Return a model with a column that only row 7 has: its leverage is nearly one."""
    rows = np.c_[X, np.zeros(M)]
    rows[7, 3] = 1.0
    return FeatureSmoother(ColumnFeatures(rows), np.ones(M), Y, Unpenalised.bias(np.ones(M), True))


@pytest.mark.parametrize("first", ["anew", "stacks"])
def test_sets_whose_digits_are_lost(first):
    tasks = tasks_of([0, 1], [7, 8], [2, 3], [7], [4])
    models = HeldOutModels(interpolating(), tasks, np.array([1e-6, 1e-6]))
    assert not models._anew_at_once.any()
    if first == "anew":
        assert models.anew.tolist() == [False, True, False, True, False]
    seen = np.sort(np.concatenate([stack.index for stack in models.stacks()]))
    assert seen.tolist() == [0, 2, 4]
    assert models.anew.tolist() == [False, True, False, True, False]
    assert models.anew.dtype == bool
    expected = holdout.predict(interpolating(), tasks, np.array([1e-6]), "retrain")[0]
    known = {j: stack for stack in models.stacks(tested=True) for j in stack.index.tolist()}
    for j in (0, 2, 4):
        place = known[j].index.tolist().index(j)
        span = slice(tasks.test.ptr[j], tasks.test.ptr[j + 1])
        assert_allclose(known[j].predictions[place].T, expected[span], rtol=1e-8)


def test_lost_digits_that_cannot_be_afforded_are_told(monkeypatch):
    monkeypatch.setattr(module, "affordable", lambda *_: False)
    tasks = tasks_of([0, 1], [7, 8], [7])
    models = HeldOutModels(interpolating(), tasks, np.array([1e-6, 1e-6]))
    with pytest.warns(DigitsWarning, match="2 experiments"):
        seen = np.concatenate([stack.index for stack in models.stacks()])
    assert sorted(seen.tolist()) == [0, 1, 2]
    assert not models.anew.any()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(HeldOutModels(interpolating(), tasks_of([0, 1]), np.array([1e-6] * 2)).stacks())


def test_some_of_a_stack():
    models = HeldOutModels(linear(), tasks_of([0, 1], [2, 3], [4, 5]), np.array([0.3, 2.0]))
    (stack,) = models.stacks(tested=True)
    chosen = np.array([True, False, True])
    part = stack.only(chosen)
    assert_array_equal(part.index, stack.index[chosen])
    assert_array_equal(part.shape.H, stack.shape.H[chosen])
    for mine, whole in zip(part[2:], stack[2:], strict=True):
        assert_array_equal(mine, whole[chosen])
