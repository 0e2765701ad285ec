"""Sums of held-out sets from the pass that makes the system."""

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Lock

import numpy as np
import pytest
from sklearn.model_selection import KFold

import holdfast.smoother.rows
from holdfast import HoldOut, KernelRidgeCV, holdout
from holdfast.data.indices import as_slice
from holdfast.experiments import Ragged
from holdfast.kernels import RBF
from holdfast.kernels.matrix import KernelRows
from holdfast.smoother import FeatureSmoother, Unpenalised, WhitenedFeatures
from holdfast.smoother.rows import StreamedRows, cut, even_blocks

SEED = 11
RNG = np.random.default_rng(SEED)
M, N = 300, 20
X = RNG.normal(size=(M, 3))
Y = np.c_[np.sin(X[:, 0]) + 0.1 * RNG.normal(size=M), X[:, 1] * X[:, 2]]
WEIGHTS = {
    "none": np.ones(M),
    "weights": RNG.uniform(0.2, 3.0, size=M),
    "zeros": RNG.integers(0, 3, size=M).astype(float),
}
#: Columns without a penalty: none, the bias, a trend of the second order.
COLUMNS = {"none": np.empty((M, 0)), "bias": np.ones((M, 1)), "trend": np.vander(X[:, 1], 3)}
BASIS = RNG.permutation(M)[:N]
FEATURES = WhitenedFeatures.of(KernelRows(RBF(0.3), X), BASIS, 1e-10)

SETS = {
    "partition": np.array_split(RNG.permutation(M), 5),
    "not all rows": [np.arange(30, 90), RNG.permutation(np.arange(100, 140))],
    "many": np.array_split(np.arange(M), 20),
    "one": [np.arange(M)],
}

pytestmark = pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("sets", SETS)
def test_sums_of_sets_are_those_of_their_rows(monkeypatch, sets, weights, columns, keep):
    """Each set has the Gram matrix and products of its rows of W; the whole is their sum."""
    monkeypatch.setattr(holdfast.smoother.rows, "BLOCK_BYTES", 1)
    monkeypatch.setattr(holdfast.smoother.rows, "LEAST_ROWS", 13)
    w = WEIGHTS[weights]
    held = Ragged.from_arrays([rows[w[rows] > 0] for rows in SETS[sets]])
    unpenalised = Unpenalised.of(COLUMNS[columns], w)
    smoother, other = (
        FeatureSmoother(FEATURES, w, Y, unpenalised, np.inf if keep else 0.0) for _ in range(2)
    )
    system, plain = smoother.system(held), other.system()
    assert plain.sets is None
    assert isinstance(system.W, StreamedRows) is not keep
    W, Ys = system.W[np.arange(M)], smoother.targets.Ys
    size = np.abs(system.gram).max()
    for j in range(len(held)):
        gram, z = system.sets.find(held[j])
        rows = held[j]
        np.testing.assert_allclose(gram, W[rows].T @ W[rows], atol=1e-14 * size)
        np.testing.assert_allclose(z, W[rows].T @ Ys[rows], atol=1e-13 * size)
    for of in (lambda s: s.gram, lambda s: s.z, lambda s: s.B.total, lambda s: s.norms):
        np.testing.assert_allclose(of(system), of(plain), rtol=1e-12, atol=1e-13 * size)
    assert system.sets.find(held[0][1:]) is None
    np.testing.assert_array_equal(system.sets.find(held[0][::-1])[0], system.sets.find(held[0])[0])
    gram, z = system.sets.find(held.values)  # a union of sets is a sum
    rows = held.values
    np.testing.assert_allclose(gram, W[rows].T @ W[rows], atol=1e-13 * size)
    np.testing.assert_allclose(z, W[rows].T @ Ys[rows], atol=1e-12 * size)
    assert system.sets.find(np.empty(0, dtype=np.int64)) is None


@pytest.mark.parametrize("policy", ["remove", "keep"])
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("limit", [None, 200_000])
@pytest.mark.parametrize("y", [Y, Y[:, 0]], ids=["two targets", "one target"])
def test_folds_from_the_first_pass_equal_retraining(y, limit, weights, policy):
    """The sums that came with the system give what training without the fold gives."""
    model = KernelRidgeCV(
        RBF(0.3),
        basis=BASIS,
        alphas=np.logspace(-6, 2, 6),
        cv=KFold(6, shuffle=True, random_state=3),
        path="fold_gram",
        held_out_basis=policy,
        memory_limit=limit,
    )
    model.fit(X, y, sample_weight=WEIGHTS[weights])
    assert model.verify(n_experiments=6).max_relative_error < 1e-10


def test_sets_that_overlap_or_are_many():
    """Sets that share rows have sums of their own, and small sets are summed when needed."""
    options = {"basis": BASIS, "alphas": [0.1, 1.0], "path": "fold_gram"}
    overlapping = [HoldOut(np.arange(j, j + 60)) for j in range(0, 240, 30)]
    for cv in (overlapping, 60):
        model = KernelRidgeCV(RBF(0.3), cv=cv, **options).fit(X, Y)
        assert model.verify().max_relative_error < 1e-10


def test_threads_may_ask_for_different_paths_at_once():
    """A smoother is a value: whoever asks, rows stay what they are."""
    model = KernelRidgeCV(RBF(0.3), basis=BASIS, alphas=[0.01, 1.0], path="fold_gram", cv=5)
    for _ in range(5):
        fitted = model.fit(X, Y)._fitted_model()
        tasks = fitted.tasks(model._problem.experiments)
        predict = partial(holdout.predict, fitted.smoother, tasks, np.array([0.01, 1.0]))
        expected = predict("fold_gram")
        with ThreadPoolExecutor(4) as pool:
            for values in pool.map(predict, ["fold_gram", "spectral", "fold_gram", "single"]):
                np.testing.assert_allclose(values, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("limit", [None, 1, 200_000])
def test_a_function_of_the_user_is_called_by_one_thread_at_a_time(limit):
    """It may keep a state, so that the sums of folds must not be made side by side either."""
    busy, clashes = Lock(), []

    def kernel(A, B):
        if not busy.acquire(blocking=False):
            clashes.append(1)
            return np.exp(-0.3 * np.square(A[:, None] - B).sum(axis=2))
        time.sleep(0.001)
        values = np.exp(-0.3 * np.square(A[:, None] - B).sum(axis=2))
        busy.release()
        return values

    options = {"alphas": [0.1, 1.0], "cv": 6, "path": "fold_gram", "memory_limit": limit}
    KernelRidgeCV(kernel, basis=BASIS, **options).fit(X, Y)
    assert not clashes


def test_blocks_cover_all_rows():
    """Blocks are in order, disjoint, together everything, and none is empty."""
    for m in (1, 5, 64, 1000, 1001):
        for parts in (cut(slice(0, m), 7), even_blocks(m, 10**5)):
            joined = np.concatenate([np.arange(m)[part] for part in parts])
            assert np.array_equal(joined, np.arange(m))
            assert min(part.stop - part.start for part in parts) > 0


def test_consecutive_rows_become_a_slice():
    """Only rows that follow each other do."""
    assert as_slice(np.arange(3, 9)) == slice(3, 9)
    for rows in ([], [1, 3, 2, 4], [4, 3, 2], [1, 2, 4]):
        assert not isinstance(as_slice(np.array(rows, dtype=np.int64)), slice)
