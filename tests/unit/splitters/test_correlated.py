"""Rows that a kernel holds to be most alike, against a loop over all pairs."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics.pairwise import rbf_kernel

from holdfast import KernelRidgeCV
from holdfast.exceptions import HoldOutError, InvalidInputError
from holdfast.kernels import RBF, Linear, Tanimoto
from holdfast.splitters import LeaveCorrelatedOut, LeaveNeighbourhoodOut, around
from reference.retrain import retrain
from tolerances import assert_close

M = 30
RNG = np.random.default_rng(0)
X = RNG.normal(size=(M, 2))
BITS = (RNG.random((M, 12)) < 0.3).astype(float)


def naive(K, share):
    """The row itself, then others by |correlation| until the share is reached, and ties."""
    sets = []
    for i in range(len(K)):
        alike = []
        for j in range(len(K)):
            both = math.sqrt(K[i, i] * K[j, j])
            alike.append(abs(K[i, j]) / both if both > 0 else 0.0)
        alike[i] = 1.0
        last = sorted(alike, reverse=True)[math.ceil(share * len(K) - 1e-9) - 1]
        sets.append([j for j, value in enumerate(alike) if value >= last - 1e-9 and value > 0])
    return sets


def held(splitter, m=M):
    found = splitter.experiments(m)
    assert [e.test.tolist() for e in found] == [[i] for i in range(m)]
    return [e.held_out.tolist() for e in found]


@pytest.mark.parametrize("share", [0.01, 0.1, 0.3, 0.5])
@pytest.mark.parametrize("kernel", [RBF(gamma=0.4), Linear()], ids=["rbf", "linear"])
def test_against_a_loop(kernel, share):
    expected = naive(kernel(X), share)
    assert held(LeaveCorrelatedOut(kernel, share, X=X)) == expected
    assert held(LeaveCorrelatedOut(kernel(X), share)) == expected
    assert held(LeaveCorrelatedOut(lambda A, B: kernel(A, B), share, X=X.tolist())) == expected


def test_a_stationary_kernel_is_a_distance():
    """The same number of rows for each, the nearest ones."""
    distance = np.linalg.norm(X[:, None] - X, axis=2)
    near = [sorted(np.argsort(row)[:6].tolist()) for row in distance]
    assert held(LeaveCorrelatedOut(rbf_kernel, 0.2, X=X)) == near


def test_rows_that_are_as_much_alike_leave_together():
    twice = np.vstack([X[:10], X[:10]])
    assert all(
        i + 10 in row for i, row in enumerate(held(LeaveCorrelatedOut(RBF(), 0.01, twice), 20)[:10])
    )
    place = np.array([0.0, 1.0, -1.0, 5.0, -5.0])[:, None]
    assert held(LeaveCorrelatedOut(RBF(), 0.4, place), 5)[0] == [0, 1, 2]


def test_sparse_fingerprints_and_rows_without_a_bit():
    bits = BITS.copy()
    bits[4] = 0.0
    expected = naive(Tanimoto()(bits), 0.1)
    assert held(LeaveCorrelatedOut(Tanimoto(), 0.1, X=sp.csr_array(bits))) == expected
    K = X @ X.T
    K[3] = K[:, 3] = 0.0  # a row that the kernel knows nothing about
    assert held(LeaveCorrelatedOut(K, 0.1)) == naive(K, 0.1)


def test_blocks_change_nothing(monkeypatch):
    whole = held(LeaveCorrelatedOut(RBF(), 0.2, X=X))
    monkeypatch.setattr(around, "BLOCK_ROWS", 7)
    assert held(LeaveCorrelatedOut(RBF(), 0.2, X=X)) == whole


def test_fits_are_those_that_are_trained_again():
    y = np.sin(X[:, 0])
    splitter = LeaveCorrelatedOut(RBF(gamma=0.4), 0.2, X=X)
    model = KernelRidgeCV(RBF(gamma=0.4), alphas=[0.1], cv=splitter).fit(X, y)
    K = RBF(gamma=0.4)(X)
    expected = [retrain(K, y, rows, [i], 0.1)[0, 0] for i, rows in enumerate(held(splitter))]
    assert_close(model.held_out().values[0, :, 0], expected, "retraining")


def test_get_n_splits():
    assert LeaveCorrelatedOut(RBF(), 0.1, X=X).get_n_splits() == M
    assert LeaveCorrelatedOut(np.eye(5), 0.1).get_n_splits() == 5


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ((RBF(), 0.0, X), InvalidInputError, "share must be a number between 0 and 1"),
        ((RBF(), 1.0, X), InvalidInputError, "got 1.0"),
        ((RBF(), "half", X), InvalidInputError, "'half'"),
        ((RBF(), True, X), InvalidInputError, "True"),
        ((RBF(), 0.99, X), HoldOutError, "holds out all 30 rows"),
        ((RBF(), 0.1), InvalidInputError, "X must hold the rows"),
        ((RBF(), 0.1, X[:4]), InvalidInputError, "30 rows of the data; got 4"),
        ((np.eye(4), 0.1), InvalidInputError, "30 × 30"),
        (("rbf", 0.1, X), InvalidInputError, "str"),
        ((np.full((M, M), np.nan), 0.1), InvalidInputError, "finite"),
        ((-np.eye(M), 0.1), InvalidInputError, "negative"),
        ((lambda A, B: np.ones((2, 2)), 0.1, X), InvalidInputError, "all pairs"),
    ],
)
def test_what_is_refused(arguments, error, words):
    with pytest.raises(error, match=words):
        LeaveCorrelatedOut(*arguments).experiments(M)


def test_another_radius_for_each_row():
    """In a sparse region the same share reaches further, which is what it is for."""
    line = np.r_[np.linspace(0, 1, 20), np.linspace(5, 20, 10)][:, None]
    by_share = held(LeaveCorrelatedOut(RBF(gamma=0.01), 0.1, X=line))
    by_radius = LeaveNeighbourhoodOut(line, 0.2).experiments(M)
    assert min(map(len, by_share)) == 3
    assert by_radius.held_out.sizes.min() == 1
