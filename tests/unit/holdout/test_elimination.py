"""Sets that leave after others: against explicit systems and training again."""

import numpy as np
import pytest

from holdfast import HoldOut, KernelRidgeCV, holdout
from holdfast.answers.folds import UnionsOfFolds
from holdfast.experiments import as_experiments
from holdfast.holdout.elimination import Eliminated, Pairs

pytestmark = pytest.mark.filterwarnings("ignore::holdfast.exceptions.HoldfastWarning")
M = 80


def data(targets=1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(M, 3))
    Y = np.column_stack([np.sin(X @ rng.normal(size=3)) for _ in range(targets)])
    Y += 0.3 * rng.normal(size=Y.shape) + 2.0
    return X, Y[:, 0] if targets == 1 else Y


def fitted(X, y, w=None, **options):
    options = {"gamma": 0.3, "alphas": [0.1, 1.0], "cv": 5, **options}
    return KernelRidgeCV(**options).fit(X, y, sample_weight=w)


def pairs_of(folds, more=()):
    pairs = [np.append(a, b) for i, a in enumerate(folds) for b in folds[:i]]
    return [HoldOut(rows) for rows in (*folds, *pairs, *more)]


@pytest.mark.parametrize("h", [1, 4, 25])
@pytest.mark.parametrize("v", [1, 3])
def test_residuals_against_the_whole_system(h, v):
    rng = np.random.default_rng(0)
    A, e = rng.normal(size=(60, 60)), rng.normal(size=(60, v))
    G = A @ A.T + 0.1 * np.eye(60)
    rows = rng.permutation(60)
    O, H = rows[:7], np.stack([rows[7 : 7 + h], rows[20 : 20 + h]])  # noqa: E741
    left = Eliminated(G, e, O)
    np.testing.assert_allclose(left.alone(), np.linalg.solve(G[np.ix_(O, O)], e[O]), rtol=1e-9)
    inner = left.inner(H)
    for j, mine in enumerate(H):
        both = np.append(O, mine)
        r = np.linalg.solve(G[np.ix_(both, both)], e[both])
        np.testing.assert_allclose(inner[j], r[7:], rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(left.outer(H, inner)[j], r[:7], rtol=1e-7, atol=1e-9)


def test_a_singular_block_has_no_answer():
    G = np.ones((5, 5)) + np.diag([0.0, 0.0, 1.0, 1.0, 1.0])
    left = Eliminated(G, np.ones((5, 1)), np.array([0, 1]))
    assert np.isnan(left.inner(np.array([[2], [3]]))).all()


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("alpha", [1e-6, 0.3, 1e5])
def test_pairs_equal_training_again(alpha, weighted, bias):
    X, Y = data(targets=2)
    w = None
    if weighted:
        w = np.random.default_rng(1).uniform(0.2, 3, size=M)
        w[[3, 30]] = 0.0
    smoother_of = fitted(X, Y, w, fit_intercept=bias)._fitted_model()
    folds = np.split(np.random.default_rng(2).permutation(M), np.cumsum([1, 9, 9, 2, 9]))[:5]
    three = np.concatenate(folds[:3])
    tasks = smoother_of.tasks(as_experiments(pairs_of(folds, [three]), M))
    smoother = smoother_of.smoother
    found = Pairs.of(smoother, alpha).predict(tasks)
    again = holdout.predict(smoother, tasks, np.array([alpha]), "retrain")[0]
    smoother.restore(found[None], tasks.test.values, slice(None))
    lost = np.isnan(found).any(axis=1)
    assert lost[tasks.test.owners == len(tasks) - 1].all()  # three folds
    told = (tasks.test.owners == len(tasks) - 1) | ~smoother.scale.trained[tasks.test.values]
    np.testing.assert_array_equal(lost, told)
    tolerance = 1e-8 if alpha == 1e-6 else 1e-10
    scale = np.abs(again).max()
    np.testing.assert_allclose(found[~lost], again[~lost], rtol=0, atol=tolerance * scale)


@pytest.mark.parametrize("kernel", ["rbf", "sigmoid"])
@pytest.mark.parametrize("path", ["single", "spectral"])
def test_what_is_given_up_takes_the_path(path, kernel):
    X, y = data()
    w = np.ones(M)
    w[[3, 30]] = 0.0
    asked = fitted(X, y, w, kernel=kernel, gamma=0.1)._fitted_model()
    folds = np.array_split(np.random.default_rng(2).permutation(M), 8)
    experiments = pairs_of(folds, [np.concatenate(folds[:3]), np.arange(60)])
    tasks = asked.tasks(as_experiments(experiments, M))
    alphas = np.array([0.3, 2.0])
    assert (Pairs.of(asked.smoother, 0.3) is None) == (kernel == "sigmoid")  # an indefinite kernel
    found = UnionsOfFolds(asked.smoother).predict(tasks, alphas, path)
    again = holdout.predict(asked.smoother, tasks, alphas, "retrain")
    np.testing.assert_allclose(found, again, rtol=1e-8, atol=1e-9)


def test_both_ways_of_an_interval_agree(monkeypatch):
    X, y = data(targets=2)
    model = fitted(X, y, alpha_per_target=True, alphas=np.logspace(-2, 1, 4))
    asked = []
    predict = Pairs.predict
    monkeypatch.setattr(Pairs, "predict", lambda *a: asked.append(1) or predict(*a))
    found = model.score_interval(n_splits=10, n_partitions=3, random_state=0)
    assert asked
    monkeypatch.setattr(Pairs, "pays", staticmethod(lambda *_: False))
    direct = model.score_interval(n_splits=10, n_partitions=3, random_state=0)
    np.testing.assert_allclose(found.low, direct.low, rtol=1e-9)
    np.testing.assert_allclose(found.standard_error, direct.standard_error, rtol=1e-9)


def test_kept_for_the_smoother_that_they_were_made_for():
    X, y = data()
    one, other = (fitted(X, y)._fitted_model().smoother for _ in range(2))
    kept = Pairs.of(one, 0.3)
    assert kept.still(one)
    assert not kept.still(other)
