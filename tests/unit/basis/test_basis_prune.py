"""Pruning: the removal algebra drops what retraining without each row would drop."""

import numpy as np
import pytest

from holdfast.basis import Fixed, Prune, Random, prune
from holdfast.exceptions import InvalidInputError, SingularBasisError
from holdfast.kernels import RBF, Linear
from holdfast.kernels.matrix import KernelRows, PrecomputedRows
from reference.retrain import retrain


def problem(m=24, seed=0, gamma=0.5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, 2))
    y = np.column_stack([np.sin(2 * X[:, 0]), X.sum(axis=1) ** 2]) + 0.1 * rng.normal(size=(m, 2))
    return RBF(gamma)(X), y, rng.uniform(0.2, 3.0, size=m)


def leave_one_out(K, y, basis, alpha, w, bias, jitter):
    """Weighted mean squared leave-one-out error, every row retrained, the basis kept."""
    total = 0.0
    for i in range(len(K)):
        predicted = retrain(K, y, [i], [i], alpha, basis, (), w, bias, jitter)
        total += w[i] * np.sum((y[i] - predicted) ** 2)
    return total / (w.sum() * y.shape[1])


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("alpha", "gamma"), [(1.0, 0.5), (1e-5, 0.5), (1e-2, 0.02)])
def test_prune_as_naive(alpha, gamma, bias):
    K, y, w = problem(gamma=gamma)
    start = np.random.default_rng(1).permutation(24)[:10]
    selector = Prune(6, start, alpha, fit_intercept=bias, jitter=1e-8)
    rows = selector.select(PrecomputedRows(K), y, w)
    left = start.tolist()
    first = leave_one_out(K, y, left, alpha, w, bias, 1e-8)
    np.testing.assert_allclose(selector.errors_[0], first, rtol=1e-8)
    for j in range(4):
        errors = [
            leave_one_out(K, y, left[:e] + left[e + 1 :], alpha, w, bias, 1e-8)
            for e in range(len(left))
        ]
        del left[int(np.argmin(errors))]
        np.testing.assert_allclose(selector.errors_[j + 1], min(errors), rtol=1e-8)
    assert rows.tolist() == left
    assert selector.sizes_.tolist() == [10, 9, 8, 7, 6]


def test_prune_in_steps_drops_the_lowest_of_one_ranking():
    K, y, w = problem()
    start = np.random.default_rng(2).permutation(24)[:12].tolist()
    selector = Prune(6, start, 0.1, step=3, jitter=1e-8)
    rows = selector.select(PrecomputedRows(K), y, w)
    left = start
    for _ in range(2):
        errors = [
            leave_one_out(K, y, left[:e] + left[e + 1 :], 0.1, w, True, 1e-8)
            for e in range(len(left))
        ]
        gone = set(np.argsort(errors)[:3].tolist())
        left = [row for e, row in enumerate(left) if e not in gone]
    assert rows.tolist() == left
    final = leave_one_out(K, y, left, 0.1, w, True, 1e-8)
    np.testing.assert_allclose(selector.errors_[-1], final, rtol=1e-8)


def test_updates_agree_with_computing_afresh_at_every_drop(monkeypatch):
    K, y, w = problem(120, seed=3, gamma=0.05)
    selector = Prune(10, 80, 1e-4)
    rows = selector.select(PrecomputedRows(K), y, w, rng=0)
    updated = selector.errors_
    monkeypatch.setattr(prune, "_MAX_GROWTH", 0.5)
    np.testing.assert_array_equal(selector.select(PrecomputedRows(K), y, w, rng=0), rows)
    np.testing.assert_allclose(updated, selector.errors_, rtol=1e-6)


def test_start_is_four_times_n_random_rows_and_may_be_anything():
    K, y, _ = problem()
    data = PrecomputedRows(K)
    default = Prune(3).select(data, y, rng=5)
    np.testing.assert_array_equal(default, Prune(3, start=12).select(data, y, rng=5))
    np.testing.assert_array_equal(default, Prune(3, start=Random(12)).select(data, y, rng=5))
    np.testing.assert_array_equal(default, Prune(3, start=0.5).select(data, y, rng=5))
    start = np.array([4, 9, 2])
    np.testing.assert_array_equal(Prune(3, start=Fixed(start)).select(data, y), start)


def test_start_names_rows_of_the_whole_data():
    K, y, w = problem()
    w[[0, 5]] = 0.0
    rows = Prune(3, start=[23, 7, 8, 1]).select(PrecomputedRows(K), y, w)
    assert set(rows.tolist()) < {23, 7, 8, 1}
    with pytest.raises(InvalidInputError, match="weight zero cannot be started from: 5"):
        Prune(3, start=[23, 7, 5, 1]).select(PrecomputedRows(K), y, w)


def test_singular_start_is_refused():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 2)), rng.normal(size=20)
    with pytest.raises(SingularBasisError, match="numerically singular"):
        Prune(2, start=8, jitter=0.0).select(KernelRows(Linear(), X), y, rng=0)
