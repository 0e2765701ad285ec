"""Kernel values against double loops, scikit-learn and 50-digit arithmetic; the laws of kernels."""

import copy
import pickle
import warnings

import hypothesis.strategies as st
import mpmath
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis.extra.numpy import arrays
from sklearn.base import clone
from sklearn.gaussian_process import kernels as gp
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.model_selection import GridSearchCV
from threadpoolctl import threadpool_limits

from holdfast import KernelRidgeCV
from holdfast.exceptions import InvalidInputError, KernelError, NotSupportedError
from holdfast.kernels import (
    RBF,
    Constant,
    Cosine,
    FunctionKernel,
    Kernel,
    Laplacian,
    Linear,
    Matern,
    Normalised,
    Polynomial,
    Precomputed,
    Product,
    Scaled,
    SklearnKernel,
    Sum,
)
from holdfast.kernels.grid import NAMED, kernel_grid
from holdfast.kernels.products import distance_matrix
from reference import kernels as naive

ROUNDING = 1e-13

# (kernel, name of its double loop, parameters of that)
PLAIN = [
    (Linear(), "linear", {}),
    (Polynomial(1, 0.7, 0.0), "poly", {"degree": 1, "gamma": 0.7, "coef0": 0.0}),
    (Polynomial(2, 0.3, 0.0), "poly", {"degree": 2, "gamma": 0.3, "coef0": 0.0}),
    (Polynomial(3, 0.3, 1.5), "poly", {"degree": 3, "gamma": 0.3, "coef0": 1.5}),
    (Polynomial(6, 0.1, 1.0), "poly", {"degree": 6, "gamma": 0.1, "coef0": 1.0}),
    (RBF(0.4), "rbf", {"gamma": 0.4}),
    (Laplacian(0.4), "laplacian", {"gamma": 0.4}),
    (Matern(0.5, 0.4), "matern12", {"gamma": 0.4}),
    (Matern(1.5, 0.4), "matern32", {"gamma": 0.4}),
    (Matern(2.5, 0.4), "matern52", {"gamma": 0.4}),
    (Cosine(), "cosine", {}),
]
ids = [repr(kernel) for kernel, *_ in PLAIN]
plain = pytest.mark.parametrize(("kernel", "name", "params"), PLAIN, ids=ids)
# few features take direct differences, more take matrix products
widths = pytest.mark.parametrize("d", [1, 4, 5, 12])


def resolve_kernel(kernel, **given):
    """Return the one kernel that the arguments of an estimator describe."""
    default = {"gamma": None, "degree": 3, "coef0": 1.0, "kernel_params": None, "n_features": None}
    (found,) = kernel_grid(kernel, **{**default, **given})
    return found.kernel


def rows(m: int, d: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(m, d))


def sparse_rows(m: int, d: int, seed: int = 0) -> sp.csr_array:
    rng = np.random.default_rng(seed)
    return sp.csr_array(rng.normal(size=(m, d)) * (rng.random((m, d)) < 0.3))


def assert_fresh_matrix(K: np.ndarray, shape: tuple[int, ...]) -> None:
    assert type(K) is np.ndarray
    assert K.shape == shape
    assert K.dtype == np.float64
    assert K.flags.c_contiguous
    assert K.flags.writeable


# values -----------------------------------------------------------------------------------------


@plain
@widths
def test_matrix_equals_double_loop(kernel, name, params, d):
    X, Z = rows(9, d, 1), rows(7, d, 2)
    Z[3] = X[4]  # one pair coincides
    expected = naive.gram(name, X, Z, **params)
    K = kernel(X, Z)
    assert_fresh_matrix(K, (9, 7))
    np.testing.assert_allclose(K, expected, rtol=ROUNDING, atol=ROUNDING)
    K = kernel(X)
    assert_fresh_matrix(K, (9, 9))
    np.testing.assert_array_equal(K, K.T)
    np.testing.assert_array_equal(K, kernel(X, X))
    expected = naive.gram(name, X, **params)
    np.testing.assert_allclose(K, expected, rtol=ROUNDING, atol=ROUNDING)
    np.testing.assert_allclose(kernel.diag(X), expected.diagonal(), rtol=ROUNDING)
    assert kernel.diag(X).shape == (9,)


@plain
@pytest.mark.parametrize(("d", "sparse"), [(4, False), (5, False), (5, True)])
def test_many_blocks_equal_one_and_threads_change_no_bit(kernel, name, params, sparse, d):
    X, Z = rows(700, d, 4), rows(400, d, 5)
    if sparse:
        X, Z = sp.csr_array(X), sp.csr_array(Z)
    before = X.copy(), Z.copy()
    parts = range(0, 700, 35)
    one = np.concatenate([kernel(X[i : i + 35], Z) for i in parts])
    one_symmetric = np.concatenate([kernel(X[i : i + 35], X) for i in parts])
    found = []
    for threads in (1, 3):
        with threadpool_limits(threads, user_api="blas"):
            found.append((kernel(X, Z), kernel(X)))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_array_equal(found[0][1], found[1][1])
    np.testing.assert_allclose(found[0][0], one, rtol=ROUNDING, atol=ROUNDING)
    np.testing.assert_allclose(found[0][1], one_symmetric, rtol=ROUNDING, atol=ROUNDING)
    np.testing.assert_array_equal(found[0][1], found[0][1].T)
    for now, then in zip((X, Z), before, strict=True):  # rows are left alone
        assert abs(now - then).max() == 0.0


@pytest.mark.parametrize("name", ["linear", "poly", "rbf"])
def test_a_row_alone_has_the_values_that_it_has_among_others(name):
    """Bit by bit: a vector must not go another way through BLAS than a matrix."""
    rng = np.random.default_rng(0)
    X, Z = 1e3 * rng.normal(size=(12, 6)), 1e3 * rng.normal(size=(9, 6))
    kernel = resolve_kernel(name, gamma=1e-6, n_features=6)
    whole = kernel(X, Z)
    for i in range(len(X)):
        np.testing.assert_array_equal(kernel(X[[i]], Z), whole[[i]])
    if name != "rbf":  # its distances are centred on the mean of Z
        for j in range(len(Z)):
            np.testing.assert_array_equal(kernel(X, Z[[j]]), whole[:, [j]])
            np.testing.assert_array_equal(kernel(X[[0]], Z[[j]]), whole[[0]][:, [j]])


@pytest.mark.parametrize("name", ["linear", "poly", "polynomial", "rbf", "laplacian", "cosine"])
@pytest.mark.parametrize("gamma", [None, 0.3])
def test_names_equal_scikit_learn(name, gamma):
    X, Z = rows(15, 6, 9), rows(8, 6, 10)
    X[2] = 0.0  # the cosine with a row of zeros is zero
    kernel = resolve_kernel(name, gamma=gamma, degree=4, coef0=0.5, n_features=6)
    expected = pairwise_kernels(
        X, Z, metric=name, filter_params=True, gamma=gamma, degree=4, coef0=0.5
    )
    np.testing.assert_allclose(kernel(X, Z), expected, rtol=ROUNDING, atol=ROUNDING)
    expected = pairwise_kernels(
        X, metric=name, filter_params=True, gamma=gamma, degree=4, coef0=0.5
    )
    np.testing.assert_allclose(kernel(X), expected, rtol=ROUNDING, atol=ROUNDING)
    np.testing.assert_allclose(kernel.diag(X), expected.diagonal(), rtol=ROUNDING, atol=ROUNDING)


@pytest.mark.parametrize(("name", "nu"), [("matern12", 0.5), ("matern32", 1.5), ("matern52", 2.5)])
def test_matern_has_length_scale_one_over_root_two_gamma(name, nu):
    X, Z = rows(15, 6, 11), rows(8, 6, 12)
    kernel = resolve_kernel(name, gamma=0.3)
    expected = gp.Matern(1.0 / np.sqrt(0.6), nu=nu)(X, Z)
    np.testing.assert_allclose(kernel(X, Z), expected, rtol=ROUNDING)


@pytest.mark.parametrize(
    "make", [RBF, Laplacian, lambda g: Matern(2.5, g), lambda g: Matern(0.5, g)]
)
@pytest.mark.parametrize("d", [3, 6])
@pytest.mark.parametrize("sparse", [False, True])
def test_one_gamma_per_feature_equals_scaled_columns(make, d, sparse):
    gammas = np.linspace(0.2, 2.0, d)
    X, Z = sparse_rows(10, d, 13), sparse_rows(6, d, 14)
    kernel = make(gammas)
    power = 1.0 if isinstance(kernel, Laplacian) else 0.5
    expected = make(1.0)(X.toarray() * gammas**power, Z.toarray() * gammas**power)
    K = kernel(X, Z) if sparse else kernel(X.toarray(), Z.toarray())
    np.testing.assert_allclose(K, expected, rtol=ROUNDING)
    assert kernel == make(list(gammas))
    assert hash(kernel) == hash(make(list(gammas)))


@pytest.mark.parametrize("d", [3, 6])
def test_float32_and_integers_are_read_in_full_precision(d):
    rng = np.random.default_rng(15)
    integers = rng.integers(-50, 50, size=(40, d))
    single = rng.normal(size=(40, d)).astype(np.float32)
    unsigned = np.abs(integers).astype(np.uint8)
    for X in (integers, single, unsigned, integers > 0, np.asfortranarray(single)):
        for kernel in (Linear(), RBF(0.01), Laplacian(0.01), Cosine()):
            expected = kernel(X.astype(np.float64), X[:7].astype(np.float64))
            np.testing.assert_array_equal(kernel(X, X[:7]), expected)
            assert kernel(X).dtype == np.float64
            S = sp.csr_array(X)
            np.testing.assert_allclose(kernel(S, S[:7]), expected, rtol=ROUNDING, atol=ROUNDING)
            np.testing.assert_allclose(kernel.diag(S), kernel(X).diagonal(), rtol=ROUNDING)


def test_frames_and_lists_are_rows():
    X = rows(6, 3, 16)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    np.testing.assert_array_equal(RBF(1.0)(frame), RBF(1.0)(X))
    np.testing.assert_array_equal(RBF(1.0)(X.tolist(), frame), RBF(1.0)(X, X.copy()))


@pytest.mark.parametrize("kernel", [Linear(), RBF(1.0), Laplacian(1.0), Cosine(), Matern()])
def test_no_rows_give_an_empty_matrix(kernel):
    X = rows(4, 6, 17)
    assert kernel(X[:0], X).shape == (0, 4)
    assert kernel(X, X[:0]).shape == (4, 0)
    assert kernel(X[:0]).shape == (0, 0)
    assert kernel.diag(X[:0]).shape == (0,)


def test_cosine_of_tiny_and_huge_rows():
    X = rows(6, 5, 39)
    scaled = X * np.array([1e-300, 1e-170, 1.0, 1e100, 1e160, 1e300])[:, np.newaxis]
    for Y in (scaled, sp.csr_array(scaled)):
        np.testing.assert_allclose(Cosine()(Y), Cosine()(X), rtol=1e-12)
        np.testing.assert_array_equal(Cosine().diag(Y), 1.0)


# sparse rows ------------------------------------------------------------------------------------


@plain
@pytest.mark.parametrize("form", [sp.csr_array, sp.csr_matrix, sp.csc_array, sp.coo_matrix])
def test_sparse_equals_dense(kernel, name, params, form):
    X, Z = sparse_rows(12, 9, 18), sparse_rows(7, 9, 19)
    X = sp.vstack([X[:11], Z[[2]]], format="csr")  # one pair coincides
    dense, dense_symmetric = kernel(X.toarray(), Z.toarray()), kernel(X.toarray())
    K = kernel(form(X), form(Z))
    assert_fresh_matrix(K, (12, 7))
    np.testing.assert_allclose(K, dense, rtol=ROUNDING, atol=ROUNDING)
    np.testing.assert_allclose(kernel(form(X)), dense_symmetric, rtol=ROUNDING, atol=ROUNDING)
    np.testing.assert_array_equal(kernel(form(X)), kernel(form(X)).T)
    np.testing.assert_allclose(kernel.diag(form(X)), dense_symmetric.diagonal(), rtol=ROUNDING)
    # one of the two dense
    np.testing.assert_allclose(kernel(form(X), Z.toarray()), dense, rtol=ROUNDING, atol=ROUNDING)
    np.testing.assert_allclose(kernel(X.toarray(), form(Z)), dense, rtol=ROUNDING, atol=ROUNDING)


def test_repeated_entries_of_a_sparse_matrix_add_up():
    entries = ([1.0, 2.0, 5.0], ([0, 0, 1], [1, 1, 0]))
    X = sp.coo_array(entries, shape=(2, 6)).tocsr()
    repeated = sp.csr_array(
        (np.array([1.0, 2.0, 5.0]), np.array([1, 1, 0]), np.array([0, 2, 3])), shape=(2, 6)
    )
    np.testing.assert_array_equal(RBF(0.1)(repeated), RBF(0.1)(X.toarray()))
    assert repeated.nnz == 3  # the caller's matrix is as it was


@pytest.mark.parametrize(
    "kernel",
    [
        Linear(),
        Polynomial(2, 1e-3),
        RBF(0.1),
        Matern(0.5, 0.1),
        Cosine(),
        Laplacian(0.1),
    ],
)
def test_sparse_rows_are_never_made_dense(kernel):
    # 40 rows of 2**23 features would fill 2.7 GB
    d, rng = 2**23, np.random.default_rng(20)
    columns = rng.integers(0, d, size=400)
    X = sp.csr_array((rng.normal(size=400), (np.repeat(np.arange(40), 10), columns)), shape=(40, d))
    X.sum_duplicates()
    used = np.unique(columns)
    small = sp.csr_array(
        (X.data, np.searchsorted(used, X.indices), X.indptr), shape=(40, used.size)
    )
    np.testing.assert_allclose(kernel(X), kernel(small.toarray()), rtol=ROUNDING, atol=ROUNDING)
    np.testing.assert_allclose(kernel(X[:3], X), kernel(small[:3], small), rtol=ROUNDING)


# accuracy ---------------------------------------------------------------------------------------


def exact_distances(X, Z):
    with mpmath.workdps(50):
        return np.array(
            [
                [
                    float(
                        mpmath.fsum(
                            (mpmath.mpf(a) - mpmath.mpf(b)) ** 2 for a, b in zip(x, z, strict=True)
                        )
                    )
                    for z in Z
                ]
                for x in X
            ]
        )


OFFSETS = ["common", "two clusters", "close pairs", "one outlier"]


@pytest.mark.parametrize("where", OFFSETS)
@pytest.mark.parametrize("sparse", [False, True])
def test_distances_keep_their_digits(where, sparse):
    X, Z = rows(14, 7, 21), rows(11, 7, 22)
    if where == "common":
        X, Z = X + 1e6, Z + 1e6
    elif where == "two clusters":
        X[::2] += 1e6
        Z[::2] += 1e6
    elif where == "close pairs":
        Z[:8] = X[:8] + 1e-9 * Z[:8]
    else:
        Z[0] *= 1e8
    expected = exact_distances(X, Z)
    symmetric = exact_distances(X, X)
    if sparse:
        X, Z = sp.csr_array(X), sp.csr_array(Z)
    np.testing.assert_allclose(distance_matrix(X, Z), expected, rtol=1e-11)
    np.testing.assert_allclose(distance_matrix(X), symmetric, rtol=1e-11)
    np.testing.assert_allclose(RBF(0.1)(X, Z), np.exp(-0.1 * expected), rtol=1e-11, atol=1e-300)
    # the square root of a lost digit is eight lost digits
    np.testing.assert_allclose(
        Matern(0.5, 0.5)(X, Z), np.exp(-np.sqrt(expected)), rtol=1e-11, atol=1e-300
    )


@pytest.mark.parametrize("d", [3, 7])
def test_widths_by_feature_keep_the_digits(d):
    gammas = np.linspace(0.01, 0.1, d)
    X, Z = rows(14, d, 21) + 1e6, rows(11, d, 22) + 1e6
    Z[::2] += 1e6
    X[::2] += 1e6
    distances = ((X[:, None, :] - Z[None, :, :]) ** 2 * gammas).sum(axis=2)  # no cancellation
    np.testing.assert_allclose(RBF(gammas)(X, Z), np.exp(-distances), rtol=1e-11, atol=1e-300)


@pytest.mark.parametrize("d", [2, 30])
def test_equal_rows_are_at_distance_zero(d):
    X = rows(10, d, 23) * 1e3 + 1e5
    D2 = distance_matrix(X, X[[7, 3]].copy())
    assert D2[7, 0] == 0.0
    assert D2[3, 1] == 0.0
    assert np.count_nonzero(D2 == 0.0) == 2
    np.testing.assert_array_equal(distance_matrix(X).diagonal(), 0.0)
    np.testing.assert_array_equal(distance_matrix(np.repeat(X[:1], 5, axis=0)), 0.0)


@pytest.mark.parametrize("kernel", [RBF(0.3), Matern(0.5, 0.3), Matern(1.5, 0.3), Matern(2.5, 0.3)])
def test_widths_share_one_distance_matrix(kernel):
    X, Z = rows(10, 6, 24), rows(5, 6, 25)
    D2 = distance_matrix(X, Z)
    before = D2.copy()
    np.testing.assert_array_equal(kernel.from_squared_distances(D2), kernel(X, Z))
    np.testing.assert_array_equal(D2, before)
    out = np.empty_like(D2)
    assert kernel.from_squared_distances(D2, out=out) is out
    kernel.from_squared_distances(D2, out=D2)
    np.testing.assert_array_equal(D2, out)


def test_widths_by_feature_cannot_share_distances():
    with pytest.raises(NotSupportedError, match="one gamma for all features"):
        RBF([0.1, 0.2]).from_squared_distances(np.ones((2, 2)))


# composition ------------------------------------------------------------------------------------


def test_sums_products_and_multiples():
    X, Z = rows(8, 3, 26), rows(5, 3, 27)
    a, b, c = RBF(0.5), Linear(), Polynomial(2)
    for symmetric in (False, True):
        arguments = (X,) if symmetric else (X, Z)
        A, B, C = (k(*arguments) for k in (a, b, c))
        np.testing.assert_allclose((a + b)(*arguments), A + B, rtol=ROUNDING)
        np.testing.assert_allclose((a * b)(*arguments), A * B, rtol=ROUNDING)
        np.testing.assert_allclose((2.5 * a)(*arguments), 2.5 * A, rtol=ROUNDING)
        np.testing.assert_allclose(
            (a * 2 + b * c + a)(*arguments), 2 * A + B * C + A, rtol=1e-12, atol=1e-12
        )
    k = a * 2 + b * c + a
    np.testing.assert_allclose(k.diag(X), k(X).diagonal(), rtol=ROUNDING)
    assert (a + b) + c == a + (b + c) == Sum((a, b, c))
    assert (a * b) * c == a * (b * c) == Product((a, b, c))
    assert a * 2 == 2 * a == Scaled(a, 2.0)
    assert len({a + b, Sum((RBF(0.5), Linear()))}) == 1


def test_a_constant_adds_a_penalised_bias():
    """Pahikkala et al. 2012, footnote 1: k + c is the model f + b with penalty λ(aᵀKa + b²/c)."""
    m, c, alpha = 20, 2.5, 0.3
    X, y = rows(m, 2, 90), rows(m, 1, 91)[:, 0]
    k = RBF(0.4)
    assert k + c == c + k == Sum((k, Constant(c)))
    np.testing.assert_array_equal((k + c)(X, X[:4]), k(X, X[:4]) + c)
    np.testing.assert_array_equal((k + c).diag(X), 1.0 + c)
    assert Constant()(["a", "b"], ["c"]).tolist() == [[1.0], [1.0]]
    model = KernelRidgeCV(k + c, alphas=[alpha], fit_intercept=False).fit(X, y)
    # the same minimum over (a, b), by the normal equations of the stacked problem
    K, ones = k(X), np.ones((m, 1))
    A = np.hstack([K, ones])
    penalty = np.zeros((m + 1, m + 1))
    penalty[:m, :m], penalty[m, m] = K, 1.0 / c
    theta = np.linalg.solve(A.T @ A + alpha * penalty, A.T @ y)
    np.testing.assert_allclose(model.predict(X), A @ theta, rtol=1e-8)
    np.testing.assert_allclose(model.dual_coef_.sum() * c, theta[-1], rtol=1e-6)


def test_normalised_kernel():
    X, Z = rows(8, 6, 29), rows(5, 6, 30)
    k = Polynomial(3, 0.5, 1.0)
    expected = naive.gram("poly", X, Z, degree=3, gamma=0.5, coef0=1.0)
    expected /= np.sqrt(np.outer(k.diag(X), k.diag(Z)))
    np.testing.assert_allclose(k.normalised()(X, Z), expected, rtol=ROUNDING)
    K = k.normalised()(X)
    np.testing.assert_array_equal(K, K.T)
    np.testing.assert_array_equal(K.diagonal(), 1.0)
    np.testing.assert_array_equal(k.normalised().diag(X), 1.0)
    np.testing.assert_allclose(Linear().normalised()(X, Z), Cosine()(X, Z), rtol=1e-12)


def test_normalised_kernel_of_a_zero_row_is_an_error():
    X = rows(5, 3, 31)
    X[2] = 0.0
    for call in (Normalised(Linear()), Normalised(Linear()).diag):
        with pytest.raises(KernelError, match=r"Normalised.*k\(x, x\) > 0.*row 2 \(1 such rows\)"):
            call(X)


def test_operators_refuse_what_is_no_kernel():
    for operation in (lambda: RBF(1.0) + "1", lambda: RBF(1.0) * "2", lambda: [1.0] * RBF(1.0)):
        with pytest.raises(TypeError):
            operation()
    for operation in (lambda: -1.0 * RBF(1.0), lambda: 0 * RBF(1.0), lambda: np.nan * RBF(1.0)):
        with pytest.raises(InvalidInputError, match="factor must be a finite positive number"):
            operation()
    for operation in (lambda: RBF(1.0) + 0.0, lambda: -1 + RBF(1.0), lambda: Constant(np.inf)):
        with pytest.raises(InvalidInputError, match="value must be a finite positive number"):
            operation()
    for operation in (lambda: Sum((RBF(1.0), "rbf")), lambda: Normalised("rbf"), lambda: Sum(())):
        with pytest.raises(InvalidInputError, match="kernel"):
            operation()


# adapters ---------------------------------------------------------------------------------------


def shared_letters(X, Z, weight=1.0):
    """A kernel of strings that also checks what it is given."""
    assert X.dtype == object
    assert X.ndim == Z.ndim == 1
    return [[weight * len(set(x) & set(z)) for z in Z] for x in X]


def test_function_kernel_on_strings():
    words = ["ab", "abc", "xyz", "cax", "q"]
    k = FunctionKernel(shared_letters, {"weight": 2.0})
    expected = 2.0 * np.array(
        [[2, 2, 0, 1, 0], [2, 3, 0, 2, 0], [0, 0, 3, 1, 0], [1, 2, 1, 3, 0], [0, 0, 0, 0, 1]]
    )
    assert_fresh_matrix(k(words), (5, 5))
    np.testing.assert_array_equal(k(words), expected)
    np.testing.assert_array_equal(k(words, words[:2]), expected[:, :2])
    np.testing.assert_array_equal(k.diag(words * 5), np.tile(expected.diagonal(), 5))
    np.testing.assert_allclose(k.normalised()(words)[0, 1], 2 / np.sqrt(6), rtol=ROUNDING)
    assert k.accepts_objects
    assert (2.0 * k.normalised()).accepts_objects
    assert not RBF(1.0).accepts_objects


def test_function_kernel_on_vectors_is_called_once():
    calls = []

    def inner(X, Z):
        calls.append((X.shape, Z.shape))
        return X @ Z.T

    X, Z = rows(6, 3, 32), rows(4, 3, 33)
    np.testing.assert_array_equal(FunctionKernel(inner)(X, Z), X @ Z.T)
    assert calls == [((6, 3), (4, 3))]


def test_function_kernel_never_hands_out_the_functions_own_array():
    own = np.eye(3)
    K = FunctionKernel(lambda X, Z: own)(rows(3, 2))
    K[...] = 7.0
    np.testing.assert_array_equal(own, np.eye(3))


@pytest.mark.parametrize(
    ("func", "message"),
    [
        (lambda X, Z: np.ones((2, 2)), r"shape \(3, 3\).*got \(2, 2\)"),
        (lambda X, Z: 1.0, r"shape \(3, 3\).*got \(\)"),
        (lambda X, Z: np.full((3, 3), np.nan), "finite values; got 9 NaN and 0 infinite of 9"),
        (lambda X, Z: np.diag([1.0, np.inf, 1.0]), "got 0 NaN and 1 infinite"),
        (lambda X, Z: np.ones((3, 3)) * 1j, "real numbers; got dtype complex128"),
        (lambda X, Z: np.full((3, 3), "a"), "real numbers; got dtype <U1"),
        (lambda X, Z: np.full((3, 3), {}), "real numbers; got dtype object"),
    ],
)
def test_function_kernel_with_wrong_values(func, message):
    func.__name__ = "my_kernel"
    for kernel in (FunctionKernel(func), FunctionKernel(func) + RBF(1.0)):
        with pytest.raises(KernelError, match="my_kernel must return.*" + message):
            kernel(rows(3, 2))


def test_sparse_result_of_a_function_is_accepted():
    X = sparse_rows(5, 4, 34)
    np.testing.assert_allclose(FunctionKernel(lambda X, Z: X @ Z.T)(X), Linear()(X), rtol=ROUNDING)


def test_sklearn_kernel():
    X, Z = rows(8, 3, 35), rows(5, 3, 36)
    inner = 2.0 * gp.RBF([0.5, 1.0, 2.0]) + gp.DotProduct(0.3) * gp.RationalQuadratic()
    k = SklearnKernel(inner)
    np.testing.assert_allclose(k(X, Z), inner(X, Z), rtol=ROUNDING)
    np.testing.assert_allclose(k(X), inner(X), rtol=ROUNDING)
    np.testing.assert_allclose(k.diag(X), inner.diag(X), rtol=ROUNDING)
    assert k == SklearnKernel(clone(inner)) != SklearnKernel(gp.RBF())
    assert hash(k) == hash(SklearnKernel(clone(inner)))
    inner.theta = inner.theta + 1.0  # the caller's kernel may change, ours may not
    assert k != SklearnKernel(inner)
    with pytest.raises(InvalidInputError, match="X must be dense"):
        k(sp.csr_array(X))
    with pytest.raises(InvalidInputError, match=r"sklearn\.gaussian_process"):
        SklearnKernel(RBF(1.0))


def test_white_noise_is_no_kernel():
    for kernel in (gp.WhiteKernel(), gp.RBF() + 0.5 * gp.WhiteKernel()):
        with pytest.raises(InvalidInputError, match=r"WhiteKernel.*alpha"):
            SklearnKernel(kernel)


# values, not objects ----------------------------------------------------------------------------

ALL = [kernel for kernel, *_ in PLAIN] + [
    RBF([0.5, 1.0]),
    RBF(1.0) + 2.0 * Linear() * Cosine(),
    Polynomial(2).normalised(),
    RBF(1.0) + 2.0,
    Constant(3.0),
    FunctionKernel(shared_letters, {"weight": 2.0}),
    SklearnKernel(gp.Matern(0.5, nu=1.5)),
]


@pytest.mark.parametrize("kernel", ALL, ids=lambda kernel: repr(kernel).partition(" at 0x")[0])
def test_kernels_are_values(kernel):
    assert pickle.loads(pickle.dumps(kernel)) == kernel
    assert copy.deepcopy(kernel) == kernel
    assert clone(kernel) is kernel
    assert hash(pickle.loads(pickle.dumps(kernel))) == hash(kernel)
    assert [other for other in ALL if other == kernel] == [kernel]
    with pytest.raises(AttributeError):
        kernel.gamma = 3.0


@pytest.mark.parametrize("kernel", [k for k in ALL if not isinstance(k, FunctionKernel)], ids=repr)
def test_repr_is_the_way_to_write_a_kernel(kernel):
    names = {cls.__name__: cls for cls in (Sum, Product, Scaled, Normalised, SklearnKernel)}
    names |= {type(k).__name__: type(k) for k in ALL} | {"Matern": Matern}
    if isinstance(kernel, SklearnKernel):
        assert repr(kernel) == "SklearnKernel(kernel=Matern(length_scale=0.5, nu=1.5))"
    else:
        assert eval(repr(kernel), names) == kernel


def test_grid_search_over_kernels():
    X = rows(30, 2, 37)
    y = np.sin(2.0 * X[:, 0])
    estimator = KernelRidgeCV(RBF(0.5), alphas=[1e-3])
    assert clone(estimator).kernel == RBF(0.5)
    assert clone(estimator).set_params(kernel=Matern(0.5)).kernel == Matern(0.5)
    assert "kernel=RBF(gamma=0.5)" in repr(estimator)
    grid = {"kernel": [RBF(1e-4), RBF(0.5), Matern(0.5, 100.0)]}
    search = GridSearchCV(estimator, grid, cv=3).fit(X, y)
    assert search.best_params_ == {"kernel": RBF(0.5)}
    assert list(search.cv_results_["param_kernel"]) == grid["kernel"]


# laws -------------------------------------------------------------------------------------------

finite = st.floats(-1e3, 1e3, allow_subnormal=False)
matrices = st.integers(1, 8).flatmap(
    lambda m: st.integers(1, 7).flatmap(lambda d: arrays(np.float64, (m, d), elements=finite))
)
psd_kernels = st.sampled_from(
    [
        Linear(),
        Polynomial(2, 1e-3, 1.0),
        Polynomial(3, 1e-3, 0.5),
        RBF(1e-4),
        RBF(0.3),
        Laplacian(0.01),
        Matern(0.5, 1e-3),
        Matern(1.5, 0.01),
        Matern(2.5, 1e-5),
        Cosine(),
        RBF(0.1) + 0.5 * Linear(),
        RBF(0.01) * Polynomial(2, 1e-3),
        Polynomial(2, 1e-3, 1.0).normalised(),
    ]
)


@settings(max_examples=80, deadline=None)
@given(psd_kernels, matrices, st.booleans())
def test_law_symmetric_and_positive_semidefinite(kernel, X, sparse):
    K = kernel(sp.csr_array(X) if sparse else X)
    np.testing.assert_array_equal(K, K.T)
    scale = np.abs(K).max()
    assert np.linalg.eigvalsh(K).min() >= -1e-12 * max(scale, 1.0) * len(X)
    np.testing.assert_allclose(kernel.diag(X), K.diagonal(), rtol=1e-12, atol=1e-12 * scale)


@settings(max_examples=60, deadline=None)
@given(psd_kernels, matrices, st.randoms(use_true_random=False))
def test_law_rows_are_independent(kernel, X, random):
    # permuting or repeating rows permutes or repeats the matrix
    order = [random.randrange(len(X)) for _ in range(len(X) + 2)]
    K = kernel(X)
    scale = max(np.abs(K).max(), 1.0)
    np.testing.assert_allclose(kernel(X[order]), K[np.ix_(order, order)], atol=1e-11 * scale)
    np.testing.assert_allclose(kernel(X[order], X), K[order], atol=1e-11 * scale)


@settings(max_examples=60, deadline=None)
@given(matrices, matrices, st.booleans())
def test_law_distances(X, Z, sparse):
    d = min(X.shape[1], Z.shape[1])
    X, Z = X[:, :d], Z[:, :d]
    expected = ((X[:, None, :] - Z[None, :, :]) ** 2).sum(axis=2)
    D2 = distance_matrix(sp.csr_array(X), sp.csr_array(Z)) if sparse else distance_matrix(X, Z)
    np.testing.assert_allclose(D2, expected, rtol=1e-11, atol=0.0)


# names and bad input ----------------------------------------------------------------------------


def test_every_name_resolves():
    assert set(NAMED) == {
        *("linear", "poly", "polynomial", "rbf", "laplacian", "matern12", "matern32", "matern52"),
        "cosine",
    }
    for name in NAMED:
        assert isinstance(resolve_kernel(name, n_features=4), Kernel)
    assert resolve_kernel("precomputed") == Precomputed()
    assert resolve_kernel("rbf", n_features=4) == RBF(0.25)
    assert resolve_kernel("poly", n_features=4, degree=2) == Polynomial(2, 0.25, 1.0)
    assert resolve_kernel("polynomial", gamma=2.0, coef0=0.0) == Polynomial(3, 2.0, 0.0)
    assert resolve_kernel("matern12", gamma=3) == Matern(0.5, 3.0)


def test_objects_resolve_to_themselves():
    assert resolve_kernel(RBF(0.5), gamma=3.0, n_features=9) == RBF(0.5)
    assert resolve_kernel(Precomputed()) == Precomputed()
    assert resolve_kernel(gp.RBF()) == SklearnKernel(gp.RBF())
    expected = FunctionKernel(shared_letters, {"weight": 3.0})
    assert resolve_kernel(shared_letters, kernel_params={"weight": 3.0}) == expected


def test_bad_smoothness():
    with pytest.raises(InvalidInputError, match=r"nu must be 0\.5, 1\.5 or 2\.5; got 3"):
        Matern(3.0)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.ones(4), r"1-D array of 4 numbers: use X\.reshape\(-1, 1\)"),
        ([1.0, 2.0], r"1-D array of 2 numbers"),
        (np.ones((2, 2, 2)), r"shape \(2, 2, 2\)"),
        (["a", "b"], "needs numeric rows.*got 2 objects"),
        (np.array([["a", "b"]], dtype=object), "X must hold numbers"),
        (np.ones((2, 2), dtype=complex), "X must be real"),
        (3.0, "X must be a 2-D array.*got float"),
        ("text", "X must be a 2-D array.*got str"),
    ],
)
def test_bad_rows(X, message):
    for kernel in (RBF(1.0), Linear(), Laplacian(1.0)):
        with pytest.raises(InvalidInputError, match=message):
            kernel(X)


def test_rows_of_different_width():
    for kernel in (RBF(1.0), Linear(), Laplacian(1.0)):
        with pytest.raises(InvalidInputError, match="same number of features; got 3 and 2"):
            kernel(rows(4, 3), rows(4, 2))
    with pytest.raises(InvalidInputError, match="got 3 numbers for 2 features"):
        RBF([1.0, 1.0, 1.0])(rows(4, 2))


def test_huge_values_give_no_warning_of_their_own():
    # far rows have kernel value zero, not a warning about underflow
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        K = RBF(1.0)(rows(5, 6, 38) * 1e100, np.zeros((2, 6)))
    np.testing.assert_array_equal(K, 0.0)
