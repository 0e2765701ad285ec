"""Unions of folds that step together: against training again, and what they give up."""

from dataclasses import replace

import numpy as np
import pytest

from holdfast import HoldOut, KernelRidgeClassifierCV, KernelRidgeCV, holdout
from holdfast.answers.folds import UnionsOfFolds
from holdfast.experiments import Ragged, Tasks, as_experiments
from holdfast.holdout import unions
from holdfast.holdout.unions import Unions

pytestmark = pytest.mark.filterwarnings("ignore::holdfast.exceptions.HoldfastWarning")


def data(m=160, d=3, targets=1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, d))
    Y = np.column_stack([np.sin(X @ rng.normal(size=d)) for _ in range(targets)])
    Y += 0.3 * rng.normal(size=Y.shape) + 2.0
    return X, Y[:, 0] if targets == 1 else Y


def fitted(X, y, w=None, **options):
    options = {"gamma": 0.3, "alphas": [0.1, 1.0], "cv": 5, "random_state": 0, **options}
    return KernelRidgeCV(**options).fit(X, y, sample_weight=w)


def unions_of(folds, more=()):
    """Every fold, every two folds, and what else there is."""
    pairs = [np.append(a, b) for i, a in enumerate(folds) for b in folds[:i]]
    return [HoldOut(rows) for rows in (*folds, *pairs, *more)]


def together(model, experiments, alpha):
    """Return predictions of sets that step together, and of training again."""
    asked = model._fitted_model()
    smoother = asked.smoother
    tasks = asked.tasks(as_experiments(experiments, smoother.weights.size))
    again = holdout.predict(smoother, tasks, np.array([alpha]), "retrain")[0]
    found = Unions(smoother.factor(least=alpha), alpha).predict(tasks)
    return smoother.restore(found[None], tasks.test.values, slice(None))[0], again, tasks


def random_folds(m, K, seed=0):
    return np.array_split(np.random.default_rng(seed).permutation(m), K)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("policy", ["remove", "keep", "train", "skip"])
def test_unions_equal_training_again(policy, weighted, bias):
    X, Y = data(targets=2)
    w = None
    if weighted:
        w = np.random.default_rng(1).uniform(0.2, 3, size=len(X))
        w[[3, 30, 75, 77]] = 0.0  # the second and the third are basis rows
    options = {"held_out_basis": policy, "fit_intercept": bias}
    model = fitted(X, Y, w, basis=np.arange(0, 160, 5), **options)
    for K in (8, 2):
        sets = unions_of(random_folds(160, K))[: 2 if K == 2 else None]
        for alpha in (0.5, 10.0):
            found, again, _ = together(model, sets, alpha)
            np.testing.assert_allclose(found, again, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("kind", ["linear", "sparse"])
def test_ragged_and_tiny_folds_and_sets_that_are_no_pairs(kind):
    X, y = data(d=6)
    options = {"linear": {"kernel": "linear"}, "sparse": {"basis": 25}}[kind]
    model = fitted(X, y, **options)
    cuts = np.cumsum([1, 2, 40, 3, 17, 1])
    folds = np.split(np.random.default_rng(2).permutation(160), cuts)
    whole = np.concatenate([folds[0], folds[2], folds[4], folds[5]])
    sets = [*unions_of(folds[:6], [whole]), HoldOut(folds[2], test=folds[2][:5])]
    found, again, _ = together(model, sets, 1.0)
    np.testing.assert_allclose(found, again, rtol=1e-9, atol=1e-10)


def test_targets_of_zero_and_penalties_far_apart():
    X, y = data()
    Y = np.column_stack([y, np.zeros_like(y), 1e-6 * y, 1e-60 * y])  # beyond single precision
    model = fitted(X, Y, basis=25, fit_intercept=False)
    for alpha in (0.2, 1e4):
        found, again, _ = together(model, unions_of(random_folds(160, 6)), alpha)
        for t in range(4):
            scale = np.abs(again[:, t]).max()
            np.testing.assert_allclose(found[:, t], again[:, t], rtol=0, atol=1e-9 * scale)


def test_rows_of_large_leverage_are_given_up():
    X, y = data(d=4)
    X[7] *= 1e4
    model = fitted(X, y, kernel="linear")
    found, again, tasks = together(model, unions_of(random_folds(160, 5)), 0.1)
    holds = np.array([7 in tasks.held[j] for j in range(len(tasks))])[tasks.test.owners]
    assert np.isnan(found[holds]).all()
    np.testing.assert_allclose(found[~holds], again[~holds], rtol=1e-9, atol=1e-10)


def test_constraints_that_nearly_depend_on_each_other_are_given_up():
    X, y = data()
    X[5] = X[10] + 1e-5  # two basis rows, nearly the same
    model = fitted(X, y, basis=np.arange(0, 160, 5))
    found, again, tasks = together(model, unions_of(random_folds(160, 8)), 1.0)
    both = np.array([np.isin([1, 2], tasks.removed[j]).all() for j in range(len(tasks))])
    both = both[tasks.test.owners]
    assert both.any()
    assert np.isnan(found[both]).all()
    np.testing.assert_allclose(found[~both], again[~both], rtol=1e-8, atol=1e-9)


def test_what_does_not_converge_is_given_up_and_factorised(monkeypatch):
    X, y = data()
    model = fitted(X, y, basis=25)
    monkeypatch.setattr(unions, "MOST_STEPS", 1)
    sets = unions_of(random_folds(160, 6))
    found, _, _ = together(model, sets, 0.1)
    assert np.isnan(found).all()
    monkeypatch.setattr(Unions, "pays", staticmethod(lambda *_: True))
    asked = model._fitted_model()
    tasks = asked.tasks(as_experiments(sets, 160))
    values = UnionsOfFolds(asked.smoother).predict(tasks, np.array([0.1]), "fold_gram")
    again = asked.held_out(tasks, np.array([0.1]), "retrain")
    np.testing.assert_allclose(values, again, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("pays", [True, False])
def test_both_ways_of_an_interval_agree(monkeypatch, pays):
    X, y = data(targets=2)
    asked = []
    monkeypatch.setattr(
        Unions, "pays", staticmethod(lambda tasks, *_: asked.append(len(tasks)) or pays)
    )
    grid = {"alphas": np.logspace(-2, 1, 4), "alpha_per_target": True}
    model = fitted(X, y, basis=30, path="fold_gram", **grid)
    found = model.score_interval(n_splits=10, n_partitions=3, random_state=0)
    monkeypatch.setattr(Unions, "pays", staticmethod(lambda *_: False))
    direct = model.score_interval(n_splits=10, n_partitions=3, random_state=0)
    np.testing.assert_allclose(found.low, direct.low, rtol=1e-9)
    assert len(asked) == 3
    assert min(asked) > 10  # others lose a quarter of the basis
    labels = np.where(y[:, 0] > 2, "yes", "no")
    options = {"gamma": 0.3, "basis": 30, "cv": 5, "path": "fold_gram", "random_state": 0}
    some = KernelRidgeClassifierCV(**options).fit(X, labels)
    monkeypatch.setattr(Unions, "pays", staticmethod(lambda *_: pays))
    low = some.score_interval(n_splits=6, n_partitions=2, random_state=0).low
    monkeypatch.setattr(Unions, "pays", staticmethod(lambda *_: False))
    assert low == some.score_interval(n_splits=6, n_partitions=2, random_state=0).low


def test_kept_until_rows_are_rotated_again():
    X, y = data()
    smoother = fitted(X, y, basis=25)._fitted_model().smoother
    kept = Unions(smoother.factor(), 0.1)
    assert kept.still(smoother)
    assert not kept.still(fitted(X, y, basis=25)._fitted_model().smoother)


def test_pays_where_sets_share_large_folds():
    X, y = data(m=400)
    asked = fitted(X, y, basis=250, gamma=2.0)._fitted_model()
    folds = random_folds(400, 10)
    sizes = asked.smoother.sizes

    def pays(experiments, memory=1e9):
        tasks = asked.tasks(as_experiments(experiments, 400))
        return Unions.pays(tasks, replace(sizes(tasks), memory=memory))

    assert pays(unions_of(folds))
    assert not pays(unions_of(folds), memory=2e6)
    assert not pays([HoldOut(rows) for rows in folds])  # nothing is shared


def test_constraints_that_are_the_same_have_no_inverse():
    """A set that loses two basis rows of the same coefficients is given up, and no other."""
    X, Y = data(targets=2)
    model = fitted(X, Y, basis=np.arange(0, 160, 5))
    smoother = model._fitted_model().smoother
    factor = smoother.factor(least=0.1)
    N = factor.N.copy()
    N[1] = N[0]
    held = Ragged.from_arrays([np.array([0, 5]), np.array([0, 10]), np.array([7])])
    removed = Ragged.from_arrays([np.array([0, 1]), np.array([0, 2]), np.array([], dtype=int)])
    tasks = Tasks(held, removed, held, np.arange(3))
    found = Unions(replace(factor, N=N), 0.1).predict(tasks)
    assert np.isnan(found).any(axis=1).tolist() == [True, True, False, False, False]
    expected = Unions(factor, 0.1).predict(tasks)
    np.testing.assert_allclose(found[2:], expected[2:], rtol=1e-9)
