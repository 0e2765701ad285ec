"""Greedy basis rows: the rank-one updates choose what retraining every candidate chooses."""

import numpy as np
import pytest

from holdfast.basis import Greedy
from holdfast.basis.pivoted_cholesky import low_rank_factor
from holdfast.exceptions import HoldfastWarning, InvalidInputError
from holdfast.kernels import RBF, Linear, Polynomial
from holdfast.kernels.matrix import KernelRows, PrecomputedRows
from reference.basis import draw_candidates, greedy
from reference.retrain import retrain


def problem(m, seed=0, d=2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, d))
    noise = 0.1 * rng.normal(size=(m, 2))
    y = np.column_stack([np.sin(2 * X[:, 0]), X.sum(axis=1) ** 2]) + noise
    return X, y, rng.uniform(0.2, 3.0, size=m)


def held_out_error(K, y, basis, alpha, w, bias, jitter, folds):
    """Weighted mean squared held-out error, every experiment retrained, the basis kept."""
    total = 0.0
    for H in folds:
        predicted = retrain(K, y, H, H, alpha, basis, (), w, bias, jitter)
        total += np.sum(w[H, None] * (y[H] - predicted) ** 2)
    return total / (w.sum() * y.shape[1])


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("alpha", [1.0, 1e-3, 1e-6])
@pytest.mark.parametrize("gamma", [0.05, 1.0])
def test_training_error_as_naive(alpha, bias, gamma):
    X, y, w = problem(80)
    K = RBF(gamma)(X)
    jitter = 1e-8  # the mean diagonal is one, so relative is absolute
    selector = Greedy(20, candidates=10, alpha=alpha, fit_intercept=bias, jitter=jitter)
    rows = selector.select(PrecomputedRows(K), y, w, rng=7)
    naive = greedy(K, y, 20, alpha, np.random.default_rng(7), 10, w, bias, jitter)
    np.testing.assert_array_equal(rows, naive)


def test_training_error_curve_is_the_training_error():
    X, y, w = problem(50, seed=1)
    K = RBF(0.5)(X)
    selector = Greedy(12, candidates=6, alpha=1e-2, jitter=1e-8)
    rows = selector.select(PrecomputedRows(K), y, w, rng=1)
    for j in range(1, 13):
        fitted = retrain(K, y, [], np.arange(50), 1e-2, rows[:j], (), w, True, 1e-8)
        error = np.sum(w[:, None] * (y - fitted) ** 2) / (w.sum() * 2)
        np.testing.assert_allclose(selector.errors_[j - 1], error, rtol=1e-9)


@pytest.mark.parametrize(("gamma", "low", "high"), [(0.1, 5, 20), (2.0, 30, 48)])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("alpha", [1.0, 1e-4])
def test_few_directions_as_naive(alpha, bias, gamma, low, high):
    # One feature: the kernel's columns lie in fewer directions than √(12/8) n = 48.
    X, y, w = problem(120, seed=8, d=1)
    y = np.column_stack([np.sin(2 * X[:, 0]), np.cos(X[:, 0])]) + 0.1 * y
    K = RBF(gamma)(X)
    n, jitter = 40, 1e-7
    factor = low_rank_factor(PrecomputedRows(K), 48)
    assert factor is not None
    assert low < factor.shape[1] < high
    selector = Greedy(n, candidates=12, alpha=alpha, fit_intercept=bias, jitter=jitter)
    rows = selector.select(PrecomputedRows(K), y, w, rng=7)
    naive = greedy(K, y, n, alpha, np.random.default_rng(7), 12, w, bias, jitter)
    np.testing.assert_array_equal(rows[:16], naive[:16])
    # Later rows add next to nothing, and which adds least is decided by rounding.
    for j in (1, 16, n):
        fitted = retrain(K, y, [], np.arange(120), alpha, rows[:j], (), w, bias, jitter)
        error = np.sum(w[:, None] * (y - fitted) ** 2) / (w.sum() * 2)
        np.testing.assert_allclose(selector.errors_[j - 1], error, rtol=1e-9)


def test_low_rank_factor():
    X, _, _ = problem(150, seed=10, d=1)
    K = RBF(0.1)(X)
    F = low_rank_factor(KernelRows(RBF(0.1), X), 75)
    np.testing.assert_allclose(F @ F.T, K, rtol=0, atol=1e-14)
    assert low_rank_factor(KernelRows(RBF(0.1), X), 5) is None
    assert low_rank_factor(KernelRows(RBF(100.0), X), 75) is None
    linear = low_rank_factor(KernelRows(Linear(), np.c_[X, X, 0 * X]), 75)
    assert linear.shape == (150, 1)
    # Rows of very different size: each to its own rounding error.
    graded = Polynomial(degree=3, gamma=1.0, coef0=1.0)
    rows = np.logspace(-2, 3, 150)[:, None]
    K3 = graded(rows)
    F = low_rank_factor(KernelRows(graded, rows), 75)
    size = np.sqrt(np.diag(K3))
    assert np.max(np.abs(F @ F.T - K3) / np.outer(size, size)) < 1e-13
    # What is left of this diagonal is nothing, but not of the matrix: it is no kernel.
    noise = 1e-8 * np.triu(np.random.default_rng(0).normal(size=K.shape), 1)
    assert low_rank_factor(PrecomputedRows(K + noise + noise.T), 150) is None


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("alpha", [1.0, 1e-4])
@pytest.mark.parametrize("criterion", ["loo", "group"])
def test_held_out_criteria_as_naive(criterion, alpha, bias):
    m, n, jitter = 36, 6, 1e-8
    X, y, w = problem(m, seed=2)
    K = RBF(0.5)(X)
    # Some groups larger than n, some smaller: both forms of the group matrices are met.
    groups = np.r_[np.zeros(12, int), np.ones(9, int), np.arange(15) // 3 + 2]
    groups = np.random.default_rng(3).permutation(groups)
    labels = np.arange(m) if criterion == "loo" else groups
    folds = [np.flatnonzero(labels == g) for g in np.unique(labels)]
    selector = Greedy(n, 4, alpha, criterion, fit_intercept=bias, jitter=jitter)
    rows = selector.select(PrecomputedRows(K), y, w, groups, rng=9)
    rng, chosen = np.random.default_rng(9), []
    for j in range(n):
        drawn = draw_candidates(chosen, m, 4, rng)
        errors = [
            held_out_error(K, y, [*chosen, int(h)], alpha, w, bias, jitter, folds) for h in drawn
        ]
        chosen.append(int(drawn[np.argmin(errors)]))
        np.testing.assert_allclose(selector.errors_[j], min(errors), rtol=1e-9)
    assert rows.tolist() == chosen


def test_groups_of_one_are_leave_one_out():
    X, y, w = problem(60, seed=4)
    data = KernelRows(RBF(0.5), X)
    by_row = Greedy(10, 8, 0.1, "loo")
    by_group = Greedy(10, 8, 0.1, "group")
    rows = by_row.select(data, y, w, rng=0)
    np.testing.assert_array_equal(rows, by_group.select(data, y, w, np.arange(60), rng=0))
    np.testing.assert_allclose(by_row.errors_, by_group.errors_, rtol=1e-10)


def test_whole_weights_are_repeated_rows():
    X, y, _ = problem(30, seed=5)
    counts = np.random.default_rng(0).integers(1, 4, size=30)
    copy_of = np.repeat(np.arange(30), counts)
    weighted = Greedy(8, candidates=30, alpha=0.3)
    repeated = Greedy(8, candidates=len(copy_of), alpha=0.3)
    rows = weighted.select(KernelRows(RBF(0.5), X), y, counts.astype(float), rng=1)
    copies = repeated.select(KernelRows(RBF(0.5), X[copy_of]), y[copy_of], rng=1)
    np.testing.assert_array_equal(rows, copy_of[copies])
    np.testing.assert_allclose(weighted.errors_, repeated.errors_, rtol=1e-9)


def test_dependent_candidates_are_passed_over():
    X, y, _ = problem(40, seed=6, d=3)
    selector = Greedy(10, candidates=5, jitter=0.0)
    with pytest.warns(HoldfastWarning, match="chose 3 basis rows instead of 10"):
        rows = selector.select(KernelRows(Linear(), X), y, rng=0)
    assert len(rows) == len(selector.errors_) == 3
    # With a shift every row is independent, as it is for the model that is retrained.
    shifted = Greedy(10, candidates=5, alpha=1.0, jitter=1e-6)
    K = Linear()(X)
    absolute = 1e-6 * np.mean(np.diag(K))
    naive = greedy(K, y, 3, 1.0, np.random.default_rng(0), 5, jitter=absolute)
    rows = shifted.select(KernelRows(Linear(), X), y, rng=0)
    assert len(rows) == 10
    assert np.isfinite(shifted.errors_).all()
    np.testing.assert_array_equal(rows[:3], naive)


def test_one_group_is_refused():
    X, y, _ = problem(10)
    with pytest.raises(InvalidInputError, match="at least two groups"):
        Greedy(3, criterion="group").select(KernelRows(RBF(1.0), X), y, groups=np.zeros(10))
