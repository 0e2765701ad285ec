"""Models so large that factorisations have several threads, against models really retrained."""

import numpy as np
import pytest

from holdfast import KernelRidgeCV
from holdfast.kernels import RBF
from holdfast.linalg import SMALL
from reference.retrain import retrain

M, ALPHAS = SMALL + 40, np.array([0.1, 10.0])


@pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("cv", "basis"), [(None, None), (5, None), (None, SMALL + 7)])
def test_models_past_the_size_where_threads_change(cv, basis, weighted, bias):
    """Mixed units, duplicates, weights with zeros; kernel matrix and single rows go in pieces."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(M, 3)) * [1.0, 1e3, 1e-3]
    X[:5] = X[5:10]
    y = np.stack([np.sin(X[:, 0]), 1e-3 * X[:, 1]], axis=1) + 0.1 * rng.normal(size=(M, 2))
    weights = rng.random(M) * (rng.random(M) > 0.1) if weighted else np.ones(M)
    gamma = 0.3 / X.var(axis=0)
    rows = None if basis is None else rng.permutation(M)[:basis]
    model = KernelRidgeCV(
        RBF(gamma), alphas=ALPHAS, cv=cv, basis=rows, held_out_basis="remove", fit_intercept=bias,
        jitter=1e-10,
    ).fit(X, y, sample_weight=weights)  # fmt: skip
    found, K = model.held_out().matrix(), RBF(gamma)(X)
    held = [0] if cv is None else np.arange(M)[: -(-M // cv)]  # row 0 has a twin, row 5
    removed = () if rows is None else np.intersect1d(rows, held)
    shift = 0.0 if rows is None else model.jitter_
    right = retrain(K, y, held, held, ALPHAS[0], rows, removed, weights, bias, shift)
    np.testing.assert_allclose(found[0, held], right, rtol=0, atol=1e-9)
