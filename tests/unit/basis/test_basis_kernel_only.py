"""Selectors that look at the kernel alone: feature vectors, pivoted Cholesky, farthest point."""

import os

import numpy as np
import pytest

from holdfast.basis import FeatureVectors
from holdfast.basis import feature_vectors as selecting
from holdfast.basis.base import SQRT_EPS, Pool
from holdfast.basis.pivoted_cholesky import pivot
from holdfast.exceptions import KernelError
from holdfast.kernels import RBF, FunctionKernel, Linear, Polynomial
from holdfast.kernels.matrix import KernelRows, PrecomputedRows
from reference.basis import feature_vectors, reconstruction
from reference.retrain import retrain
from reproduce import datasets


def kernel_matrix(m, seed=0, kernel=None):
    X = np.random.default_rng(seed).normal(size=(m, 3))
    return (kernel or RBF(0.4))(X)


def pool_of(K, weights=None, seed=0):
    m = len(K)
    return Pool(
        data=PrecomputedRows(K),
        y=None,
        weights=np.ones(m) if weights is None else weights,
        groups=None,
        folds=None,
        rng=np.random.default_rng(seed),
    )


# --- feature vectors ----------------------------------------------------------------------------


@pytest.mark.parametrize("sample", [None, 8])
@pytest.mark.parametrize("kernel", [RBF(0.4), Polynomial(3), RBF(0.01)], ids=repr)
def test_feature_vectors_as_naive(kernel, sample):
    K = kernel_matrix(50, kernel=kernel)
    selector = FeatureVectors(12, sample=sample)
    rows = selector.select(PrecomputedRows(K), rng=4)
    rng = np.random.default_rng(4)
    naive = feature_vectors(K, 12, rank_tolerance=SQRT_EPS, n_candidates=sample, rng=rng)
    np.testing.assert_array_equal(rows, naive)
    for j in range(1, len(rows) + 1):
        error = 1.0 - reconstruction(K, rows[:j].tolist())
        np.testing.assert_allclose(selector.errors_[j - 1], error, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("kernel", [RBF(0.4), Polynomial(3), RBF(0.01)], ids=repr)
def test_feature_vectors_without_the_kernel_matrix(kernel, monkeypatch):
    """Computed in blocks of few rows, chosen and judged as with the matrix in memory."""
    data = KernelRows(kernel, np.random.default_rng(0).normal(size=(60, 3)))
    kept, streamed = FeatureVectors(40), FeatureVectors(40)
    rows = kept.select(data)
    assert "whole 60 x 60" in kept.explain(60)
    monkeypatch.setattr(selecting, "_KEPT_BYTES", 1.0)
    monkeypatch.setattr(selecting, "CHUNK", 4 * 60 * 7)
    counted = Counted(kernel, data.X)
    np.testing.assert_array_equal(streamed.select(counted), rows)
    np.testing.assert_allclose(streamed.errors_, kept.errors_, rtol=1e-8, atol=1e-14)
    assert counted.largest <= 60 * 7
    assert "again, in blocks" in streamed.explain(60)


def test_gains_are_summed_again_before_rounding_decides():
    """A smooth kernel, whose gains fall by twelve digits: still those of Δ itself."""
    K = kernel_matrix(80, kernel=RBF(0.02))
    share = np.full(80, 1 / 80)
    gains, usable = selecting.Gains(pool_of(K), share), np.ones(80, dtype=bool)
    left = K.copy()
    for _ in range(25):
        best, gap = gains.choose(usable)
        usable[best] = False
        v = left[:, best] / np.sqrt(left[best, best])
        left -= np.outer(v, v)
        some = usable & (gap > 1e-8)
        naive = share @ np.square(left)
        error = np.abs(gains._g - naive)[some] / gap[some]
        assert error.max(initial=0.0) <= 1e-4 * (naive[some] / gap[some]).max(initial=1.0)


class Counted(KernelRows):
    """Counts the kernel values that are computed, and the most at once."""

    values, largest = 0, 0

    def block(self, rows, columns):
        part = super().block(rows, columns)
        self.values += part.size
        self.largest = max(self.largest, part.size)
        return part

    def diag(self, rows=None):
        part = super().diag(rows)
        self.values += part.size
        return part


def test_drawn_feature_vectors_cost_the_same_for_any_number_of_rows():
    """Cawley and Talbot 2004, §2.4.1: O(n³) for the improved algorithm, and no ℓ in it."""
    n, c, e = 30, 20, 25
    for m in (200, 2000, 20_000):
        data = Counted(RBF(0.4), np.random.default_rng(0).normal(size=(m, 3)))
        rows = FeatureVectors(n, sample=c, evaluate=e).select(data, rng=0)
        assert np.unique(rows).size == n
        assert data.values <= sum((c + e) * (j + 1) + c * e for j in range(n))


def test_drawn_feature_vectors_as_naive():
    m, n, c, e = 50, 12, 8, 11
    K, weights = kernel_matrix(m), np.random.default_rng(1).uniform(0.5, 2.0, size=m)
    selector = FeatureVectors(n, sample=c, evaluate=e)
    rows = selector.select(PrecomputedRows(K), weights=weights, rng=4)
    rng, chosen = np.random.default_rng(4), []
    for found, error in zip(rows, selector.errors_, strict=True):
        drawn = [int(j) for j in rng.choice(m, size=c, replace=False) if j not in chosen]
        on = rng.choice(m, size=e, replace=False)

        def error_with(basis, on=on):
            B = K[np.ix_(basis, basis)]
            lost = [K[i, i] - K[i, basis] @ np.linalg.solve(B, K[basis, i]) for i in on]
            return float(np.average(lost / K[on, on], weights=weights[on]))

        errors = [error_with([*chosen, j]) for j in drawn]
        assert found == drawn[int(np.argmin(errors))]
        np.testing.assert_allclose(error, min(errors), rtol=1e-7)
        chosen.append(int(found))


def negative(X, Z):
    return -(X @ Z.T)


def test_drawn_feature_vectors_stop():
    X = np.random.default_rng(0).normal(size=(300, 4))
    selector = FeatureVectors(sample=10, evaluate=20)
    assert len(selector.select(KernelRows(Linear(), X), rng=0)) == 4
    assert selector.stopped_ == "rank"
    selector = FeatureVectors(tol=0.2, sample=10, evaluate=20)
    selector.select(KernelRows(RBF(0.1), X), rng=0)
    assert selector.stopped_ == "tol"
    with pytest.raises(KernelError, match="negative values on its diagonal"):
        FeatureVectors(3, sample=5, evaluate=5).select(KernelRows(FunctionKernel(negative), X))


@pytest.mark.parametrize("sample", [None, 10])
def test_feature_vectors_stop_at_a_tolerance(sample):
    K = kernel_matrix(50)
    selector = FeatureVectors(tol=0.2, sample=sample)
    rows = selector.select(PrecomputedRows(K), rng=0)
    assert selector.stopped_ == "tol"
    assert selector.errors_[-1] <= 0.2 < selector.errors_[-2]
    assert 1.0 - reconstruction(K, rows.tolist()) <= 0.2


@pytest.mark.parametrize("sample", [None, 10])
def test_feature_vectors_stop_at_the_rank(sample):
    X = np.random.default_rng(0).normal(size=(40, 4))
    selector = FeatureVectors(sample=sample)
    rows = selector.select(KernelRows(Linear(), X), rng=0)
    assert len(rows) == 4
    assert selector.stopped_ == "rank"
    assert selector.errors_[-1] < 1e-12


def test_feature_vectors_weights_are_repeated_rows():
    K = kernel_matrix(30, seed=2)
    counts = np.random.default_rng(1).integers(1, 5, size=30)
    copy_of = np.repeat(np.arange(30), counts)
    weighted, repeated = FeatureVectors(8), FeatureVectors(8)
    rows = weighted.select(PrecomputedRows(K), weights=counts.astype(float))
    copies = repeated.select(PrecomputedRows(K[np.ix_(copy_of, copy_of)]))
    np.testing.assert_array_equal(rows, copy_of[copies])
    np.testing.assert_allclose(weighted.errors_, repeated.errors_, rtol=1e-9)


def test_feature_vectors_pass_over_zero_rows_and_refuse_negative_ones():
    X = np.r_[np.zeros((3, 2)), np.random.default_rng(0).normal(size=(10, 2))]
    rows = FeatureVectors().select(KernelRows(Linear(), X))
    assert len(rows) == 2
    assert rows.min() >= 3
    with pytest.raises(KernelError, match="negative values on its diagonal"):
        FeatureVectors(3).select(KernelRows(FunctionKernel(negative), X))


def check_motorcycle(X, y):
    """Cawley and Talbot 2004, Fig. 1: 15 rows or so exhaust the kernel; sparse and dense agree."""
    data = KernelRows(RBF(13.1), (X - X.min()) / (X.max() - X.min()))
    K = data.block(slice(None), slice(None))
    selector = FeatureVectors()
    rows = selector.select(data)
    assert selector.stopped_ == "rank"
    assert 13 <= len(rows) <= 17
    everything = np.arange(len(y))
    dense = retrain(K, y, [], everything, 1.0)
    sparse = retrain(K, y, [], everything, 1.0, rows, jitter=1e-10)
    assert np.linalg.norm(sparse - dense) < 1e-6 * np.linalg.norm(dense)


def test_feature_vectors_exhaust_a_smooth_kernel():
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(size=133))[:, None]
    check_motorcycle(x, np.sin(9 * x[:, 0]) + 0.2 * rng.normal(size=133))


@pytest.mark.skipif("HOLDFAST_DATA" not in os.environ, reason="the motorcycle data are not here")
def test_feature_vectors_on_motorcycle():
    data = datasets.load("motorcycle")
    check_motorcycle(np.asarray(data.X, float), np.asarray(data.y, float))


# --- randomly pivoted Cholesky ------------------------------------------------------------------


def test_pivots_have_the_chances_of_one_at_a_time_sampling():
    K = np.array([[2.0, 1.6, 0.1], [1.6, 1.5, 0.2], [0.1, 0.2, 0.5]])
    w = np.array([1.0, 2.0, 3.0])
    expected = np.zeros((3, 3))
    for i in range(3):
        first = w[i] * K[i, i] / (w @ np.diag(K))
        gap = w * (np.diag(K) - K[:, i] ** 2 / K[i, i])
        expected[i] = first * gap / gap.sum()
    draws, pool = 2000, pool_of(K, w)
    counts = np.zeros((3, 3))
    for _ in range(draws):
        first, second = pivot(pool, 2, block=4)[0]
        counts[first, second] += 1
    off = ~np.eye(3, dtype=bool)
    chi2 = np.sum((counts - draws * expected)[off] ** 2 / (draws * expected[off]))
    assert counts[~off].sum() == 0
    assert chi2 < 20.5  # 0.999 quantile with 5 degrees of freedom


@pytest.mark.parametrize("block", [None, 1, 16])
def test_pivot_factor_is_the_nystrom_approximation(block):
    K = kernel_matrix(60, seed=3)
    rows, residual = pivot(pool_of(K), 25, block=block)
    assert len(np.unique(rows)) == 25
    nystrom = K[:, rows] @ np.linalg.solve(K[np.ix_(rows, rows)], K[rows])
    np.testing.assert_allclose(residual.F @ residual.F.T, nystrom, atol=1e-9)
    np.testing.assert_allclose(residual.gap, np.diag(K - nystrom), atol=1e-9)
