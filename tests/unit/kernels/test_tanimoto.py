"""The Tanimoto kernel, against a loop over pairs, and in models."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics.pairwise import pairwise_distances

from holdfast import KernelRidgeCV
from holdfast.exceptions import InvalidInputError
from holdfast.kernels import Tanimoto


def fingerprints(m=60, d=40, seed=0):
    rng = np.random.default_rng(seed)
    X = (rng.random((m, d)) < 0.15).astype(float)
    X[[3, 7]] = 0.0
    return X


def loop(X, Z):
    K = np.empty((len(X), len(Z)))
    for i, x in enumerate(X):
        for j, z in enumerate(Z):
            union = x @ x + z @ z - x @ z
            K[i, j] = 1.0 if union == 0 else x @ z / union
    return K


FORMS = {
    "float": np.asarray,
    "bool": lambda X: X.astype(bool),
    "int": lambda X: X.astype(np.int8),
    "csr": sp.csr_matrix,
    "csr bool": lambda X: sp.csr_array(X.astype(bool)),
    "csc float32": lambda X: sp.csc_matrix(X.astype(np.float32)),
}


@pytest.mark.parametrize("form", list(FORMS))
def test_against_a_loop(form):
    X, Z = fingerprints(), fingerprints(25, seed=1)
    make = FORMS[form]
    np.testing.assert_allclose(Tanimoto()(make(X), make(Z)), loop(X, Z), rtol=1e-15)
    K = Tanimoto()(make(X))
    np.testing.assert_allclose(K, loop(X, X), rtol=1e-15)
    assert np.array_equal(K, K.T)
    assert np.array_equal(K.diagonal(), np.ones(60))
    assert np.array_equal(Tanimoto().diag(make(X)), np.ones(60))


def test_bits_agree_with_the_jaccard_distance():
    X = fingerprints()[8:]
    X = X[X.any(axis=1)]
    expected = 1.0 - pairwise_distances(X.astype(bool), metric="jaccard")
    np.testing.assert_allclose(Tanimoto()(X), expected, atol=1e-15)


def test_counts_are_positive_semidefinite():
    X = np.random.default_rng(0).poisson(0.7, size=(300, 12)).astype(float)
    K = Tanimoto()(X)
    np.testing.assert_allclose(K, loop(X, X), rtol=1e-14)
    assert K.min() >= 0.0
    assert K.max() == 1.0
    assert np.linalg.eigvalsh(K)[0] > -1e-12


def test_rows_of_zeros():
    X = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 0.0]])
    expected = [[1.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 1.0]]
    for make in (np.asarray, sp.csr_matrix):
        assert Tanimoto()(make(X)).tolist() == expected
        assert Tanimoto()(make(X), make(X)).tolist() == expected


def test_negative_entries_are_refused():
    X = fingerprints()
    X[5, 2] = -1.0
    for rows in (X, sp.csr_matrix(X)):
        with pytest.raises(InvalidInputError, match="non-negative"):
            Tanimoto()(rows)
        with pytest.raises(InvalidInputError, match="non-negative"):
            Tanimoto()(rows, fingerprints())


def test_sparse_bits_are_not_made_dense():
    d = 2**22  # 300 dense rows would take 10 GB
    rng = np.random.default_rng(0)
    columns = rng.integers(0, 500, size=(300, 20)) * 8191
    X = sp.csr_matrix((np.ones(6000), (np.repeat(np.arange(300), 20), columns.ravel())), (300, d))
    X.data[:] = 1.0
    used = np.unique(columns)
    np.testing.assert_allclose(Tanimoto()(X), Tanimoto()(X[:, used].toarray()), rtol=1e-15)


@pytest.mark.parametrize("basis", [None, 20], ids=["dense model", "basis rows"])
def test_models_on_dense_and_sparse_rows(basis):
    X, new = fingerprints(80), fingerprints(10, seed=2)
    y = X[:, :5].sum(axis=1) + 0.8 * np.random.default_rng(1).normal(size=80)
    options = {"basis": basis, "cv": 5, "alphas": [0.1], "random_state": 0}
    model = KernelRidgeCV(Tanimoto(), **options).fit(X, y)
    naive = KernelRidgeCV(loop, **options).fit(X, y)
    assert model.best_score_ == pytest.approx(naive.best_score_, rel=1e-9)
    np.testing.assert_allclose(model.predict(new), naive.predict(new), rtol=1e-7)
    assert model.verify().max_relative_error < 1e-8
    sparse = KernelRidgeCV(Tanimoto(), **options).fit(sp.csr_matrix(X), y)
    assert sparse.best_score_ == pytest.approx(model.best_score_, rel=1e-9)
    np.testing.assert_allclose(sparse.predict(sp.csr_matrix(new)), model.predict(new), rtol=1e-7)
    for fitted, rows in ((model, new), (sparse, sp.csr_matrix(new))):
        loaded = pickle.loads(pickle.dumps(fitted))
        assert loaded.kernel == Tanimoto()
        assert np.array_equal(loaded.predict(rows), fitted.predict(rows))
