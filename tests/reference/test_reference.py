"""The references agree with each other, with scikit-learn and with exact arithmetic."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import Matern
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.metrics import pairwise

from reference import basis as naive_basis
from reference import kernels
from reference.oracle import conditioned_problem, exact_retrain, relative_error
from reference.retrain import POLICIES, policy_experiment, retrain, retrain_all

M = 40
BASIS = np.array([3, 17, 5, 30, 8, 21, 12, 26, 39, 1])
HELD_OUT = np.array([5, 2, 30, 11, 19, 33, 8])  # 5, 30 and 8 are basis rows
ALPHAS = [1e-3, 1e-1, 10.0]


@pytest.fixture(scope="module", params=[0, 1], ids=["seed0", "seed1"])
def data(request):
    """Return X, K (condition of K_BB below 1e3), y with two targets, weights with some zeros."""
    rng = np.random.default_rng(request.param)
    X = rng.normal(size=(M, 4))
    K = kernels.gram("rbf", X, gamma=0.3)
    y = np.sin(X[:, :2]) + 0.1 * rng.normal(size=(M, 2)) + 3.0
    weights = rng.uniform(0.2, 3.0, size=M)
    weights[[4, 17, 33]] = 0.0  # a plain row, a basis row, a held-out row
    return X, K, y, weights


def model_kwargs(weights, *, sparse, bias, weighted):
    """Return the keyword arguments of one model of the matrix."""
    return {
        "basis": BASIS if sparse else None,
        "jitter": 1e-9 if sparse else 0.0,
        "bias": bias,
        "weights": weights if weighted else None,
    }


every_model = pytest.mark.parametrize(
    ("sparse", "bias", "weighted"),
    [(s, b, w) for s in (False, True) for b in (False, True) for w in (False, True)],
)


# Kernels


@pytest.mark.parametrize(
    ("name", "params", "theirs"),
    [
        ("linear", {}, pairwise.linear_kernel),
        ("poly", {"degree": 3, "gamma": 0.7, "coef0": 1.5}, pairwise.polynomial_kernel),
        ("rbf", {"gamma": 0.7}, pairwise.rbf_kernel),
        ("laplacian", {"gamma": 0.7}, pairwise.laplacian_kernel),
        ("cosine", {}, pairwise.cosine_similarity),
    ],
)
def test_kernels_are_those_of_scikit_learn(name, params, theirs):
    rng = np.random.default_rng(7)
    X, Z = rng.normal(size=(6, 3)), rng.normal(size=(4, 3))
    X[2] = 0.0
    np.testing.assert_allclose(
        kernels.gram(name, X, Z, **params), theirs(X, Z, **params), rtol=1e-13, atol=1e-14
    )


@pytest.mark.parametrize(("name", "nu"), [("matern12", 0.5), ("matern32", 1.5), ("matern52", 2.5)])
@pytest.mark.parametrize("gamma", [0.7, np.array([0.1, 2.0, 0.5])], ids=["scalar", "per_feature"])
def test_matern_has_length_scale_one_over_root_two_gamma(name, nu, gamma):
    rng = np.random.default_rng(8)
    X, Z = rng.normal(size=(6, 3)), rng.normal(size=(4, 3))
    theirs = Matern(length_scale=1.0 / np.sqrt(2.0 * gamma), nu=nu)(X, Z)
    np.testing.assert_allclose(kernels.gram(name, X, Z, gamma=gamma), theirs, rtol=1e-13)


@pytest.mark.parametrize(("name", "power"), [("rbf", 2), ("laplacian", 1)])
def test_gamma_per_feature_scales_the_features(name, power):
    rng = np.random.default_rng(9)
    X, gamma = rng.normal(size=(6, 3)), np.array([0.1, 2.0, 0.5])
    np.testing.assert_allclose(
        kernels.gram(name, X, gamma=gamma),
        kernels.gram(name, X * gamma ** (1.0 / power), gamma=1.0),
        rtol=1e-13,
    )


def test_normalised_kernel_is_the_correlation_of_the_kernel():
    X = np.random.default_rng(10).normal(size=(6, 3))
    params = {"degree": 2, "gamma": 0.7, "coef0": 1.5}
    K = kernels.gram("poly", X, **params)
    scale = 1.0 / np.sqrt(np.diag(K))
    normalised = kernels.gram(kernels.normalised, X, kernel=kernels.poly, **params)
    np.testing.assert_allclose(normalised, scale[:, None] * K * scale, rtol=1e-13)


# Retraining


@every_model
@pytest.mark.parametrize("policy", POLICIES)
def test_retraining_is_exact_arithmetic(data, policy, sparse, bias, weighted):
    _, K, y, weights = data
    kwargs = model_kwargs(weights, sparse=sparse, bias=bias, weighted=weighted)
    more = (kwargs["weights"], bias, kwargs["jitter"])
    experiments = [(HELD_OUT, HELD_OUT), (HELD_OUT, [2, 5, 17, 4]), ([7], [7])]
    found = retrain_all(K, y, experiments, ALPHAS, kwargs["basis"], policy, *more)
    for (held_out, test), values in zip(experiments, found, strict=True):
        H, T, removed = policy_experiment(held_out, test, kwargs["basis"], policy)
        exact = exact_retrain(K, y, H, T, ALPHAS, kwargs["basis"], removed, *more)
        assert values.shape == exact.shape == (3, len(T), 2)
        assert relative_error(values, exact) < 1e-12


@pytest.mark.parametrize("weighted", [False, True])
def test_dense_without_bias_is_scikit_learns_kernel_ridge(data, weighted):
    X, K, y, weights = data
    w = weights if weighted else np.ones(M)
    train = np.setdiff1d(np.flatnonzero(w), HELD_OUT)
    theirs = KernelRidge(alpha=0.1, kernel="rbf", gamma=0.3)
    theirs.fit(X[train], y[train], sample_weight=w[train])
    ours = retrain(K, y, HELD_OUT, HELD_OUT, 0.1, weights=w, bias=False)
    np.testing.assert_allclose(ours, theirs.predict(X[HELD_OUT]), rtol=1e-10, atol=1e-12)


@every_model
def test_scikit_learns_ridge_on_features_is_the_same_model(data, sparse, bias, weighted):
    # Dense: FF' = K. Sparse: coordinates in which the penalty a'(K_LL + jitter I)a is |beta|^2.
    _, K, y, weights = data
    kwargs = model_kwargs(weights, sparse=sparse, bias=bias, weighted=weighted)
    w = weights if weighted else np.ones(M)
    left = np.array([3, 17, 21, 12, 26, 39, 1])
    if sparse:
        values, V = np.linalg.eigh(K[np.ix_(left, left)] + kwargs["jitter"] * np.eye(len(left)))
        F = K[:, left] @ V / np.sqrt(values)
    else:
        values, V = np.linalg.eigh(K)
        F = V * np.sqrt(np.clip(values, 0.0, None))
    train = np.setdiff1d(np.flatnonzero(w), HELD_OUT)
    theirs = Ridge(alpha=0.1, fit_intercept=bias, solver="cholesky")
    theirs.fit(F[train], y[train], sample_weight=w[train])
    ours = retrain(K, y, HELD_OUT, HELD_OUT, 0.1, removed=[5, 8, 30] if sparse else (), **kwargs)
    np.testing.assert_allclose(ours, theirs.predict(F[HELD_OUT]), rtol=1e-9, atol=1e-11)


@every_model
def test_weight_zero_is_held_out(data, sparse, bias, weighted):
    _, K, y, weights = data
    kwargs = model_kwargs(weights, sparse=sparse, bias=bias, weighted=weighted)
    zeroed = np.ones(M) if kwargs["weights"] is None else kwargs["weights"].copy()
    zeroed[HELD_OUT] = 0.0
    held_out = retrain(K, y, HELD_OUT, HELD_OUT, 0.1, **kwargs)
    kwargs["weights"] = zeroed
    np.testing.assert_array_equal(retrain(K, y, [], HELD_OUT, 0.1, **kwargs), held_out)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_integer_weights_are_repeated_rows(data, bias, sparse):
    _, K, y, _ = data
    counts = np.random.default_rng(3).integers(0, 4, size=M)
    counts[BASIS] = np.maximum(counts[BASIS], 1)  # a basis row must be somewhere to be repeated
    rows = np.repeat(np.arange(M), counts)
    first = np.array([np.flatnonzero(rows == j)[0] for j in BASIS])
    common = {"alpha": 0.1, "bias": bias}
    by_weight = retrain(
        K, y, HELD_OUT, HELD_OUT, weights=counts, basis=BASIS if sparse else None, **common
    )
    # Test rows are appended and held out too, so that rows of count zero can be predicted.
    repeated = np.concatenate([rows, HELD_OUT])
    held_out = np.flatnonzero(np.isin(repeated, HELD_OUT))
    by_copies = retrain(
        K[np.ix_(repeated, repeated)],
        y[repeated],
        held_out,
        np.arange(len(rows), len(repeated)),
        basis=first if sparse else None,
        **common,
    )
    np.testing.assert_allclose(by_copies, by_weight, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("bias", [False, True])
def test_dense_is_sparse_with_every_training_row_as_basis(data, bias):
    _, K, y, _ = data
    held_out, train = np.arange(20), np.arange(20, M)
    dense = exact_retrain(K, y, held_out, held_out, 0.1, bias=bias)
    sparse = exact_retrain(K, y, held_out, held_out, 0.1, basis=train, bias=bias)
    np.testing.assert_allclose(sparse, dense, rtol=4e-16)


def test_a_singular_system_is_not_answered():
    ones = np.ones((4, 4))  # without a penalty nothing tells the rows apart
    with pytest.raises(ArithmeticError):
        exact_retrain(ones, np.arange(4.0), [0], [0], 0.0, bias=False)


@pytest.mark.parametrize(
    ("policy", "held_out", "test", "removed"),
    [
        ("remove", [9, 3, 4, 1], [3, 9], [3, 1]),
        ("keep", [9, 3, 4, 1], [3, 9], []),
        ("train", [9, 4], [3, 9], []),
        ("skip", [9, 4], [9], []),
    ],
)
def test_policies_say_what_leaves_and_what_is_tested(policy, held_out, test, removed):
    got = policy_experiment([9, 3, 4, 1], [3, 9], [1, 2, 3], policy)
    assert [part.tolist() for part in got] == [held_out, test, removed]
    dense = policy_experiment([9, 3], [3], None, policy)
    assert [part.tolist() for part in dense] == [[9, 3], [3], []]


# Accuracy: where the digits go


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    ("condition", "alpha", "digits_kept"),
    [
        (1e4, 1.0, 13), (1e4, 1e-4, 13),
        (1e8, 1.0, 12), (1e8, 1e-4, 11),
        (1e10, 1.0, 11), (1e10, 1e-4, 9),
        (1e12, 1.0, 11), (1e12, 1e-4, 9),
        (1e14, 1.0, 10), (1e14, 1e-4, 7),
    ],
)  # fmt: skip
def test_retraining_keeps_its_digits(condition, alpha, digits_kept, bias):
    for seed in range(3):
        p = conditioned_problem(condition, seed=seed)
        kwargs = {"basis": p.basis, "removed": np.intersect1d(p.held_out, p.basis), "bias": bias}
        exact = exact_retrain(p.K, p.y, p.held_out, p.held_out, alpha, **kwargs)
        got = retrain(p.K, p.y, p.held_out, p.held_out, alpha, **kwargs)
        assert relative_error(got, exact) < 10.0**-digits_kept, f"seed {seed}"


# Basis selection


def test_greedy_takes_the_candidate_of_lowest_training_error(data):
    _, K, y, weights = data
    rng = np.random.default_rng(11)
    chosen = naive_basis.greedy(K, y, 3, 0.1, rng, n_candidates=M, weights=weights)
    assert len(set(chosen.tolist())) == 3
    for step in range(3):
        errors = {}
        for h in np.setdiff1d(np.arange(M), chosen[:step]):
            rows = [*chosen[:step], h]
            values, V = np.linalg.eigh(K[np.ix_(rows, rows)])
            F = K[:, rows] @ V / np.sqrt(values)
            model = Ridge(alpha=0.1).fit(F, y, sample_weight=weights)
            errors[h] = np.sum(weights[:, None] * (y - model.predict(F)) ** 2)
        assert min(errors, key=errors.get) == chosen[step]


def test_reconstruction_is_the_mean_share_of_projected_norms():
    X = np.random.default_rng(13).normal(size=(20, 5))
    K = kernels.gram("linear", X)
    Q = np.linalg.qr(X[[4, 9, 2]].T).Q
    share = np.sum((X @ Q) ** 2, axis=1) / np.sum(X**2, axis=1)
    np.testing.assert_allclose(naive_basis.reconstruction(K, [4, 9, 2]), share.mean(), rtol=1e-12)
    assert naive_basis.reconstruction(K, []) == 0.0


def test_feature_vectors_are_greedy_and_stop_at_the_rank():
    X = np.random.default_rng(14).normal(size=(20, 4))
    K = kernels.gram("linear", X)
    chosen = naive_basis.feature_vectors(K, 10).tolist()
    assert len(chosen) == 4  # the rank of the linear kernel
    for step in range(4):
        scores = {}
        for j in sorted(set(range(20)) - set(chosen[:step])):
            Q = np.linalg.qr(X[[*chosen[:step], j]].T).Q
            scores[j] = np.mean(np.sum((X @ Q) ** 2, axis=1) / np.sum(X**2, axis=1))
        if step < 3:  # at full rank every candidate reconstructs everything
            assert max(scores, key=scores.get) == chosen[step]
    np.testing.assert_allclose(naive_basis.reconstruction(K, chosen), 1.0, rtol=1e-12)


def test_feature_vectors_stop_at_a_size_or_an_error(data):
    _, K, _, _ = data
    ten = naive_basis.feature_vectors(K, 10)
    assert naive_basis.feature_vectors(K, 4).tolist() == ten[:4].tolist()
    errors = [1.0 - naive_basis.reconstruction(K, ten[:n].tolist()) for n in range(11)]
    assert np.all(np.diff(errors) < 0)
    tolerance = 0.5 * (errors[5] + errors[6])
    assert naive_basis.feature_vectors(K, 10, tolerance).tolist() == ten[:6].tolist()
