"""Smoothers asked directly: what they refuse, what they keep, and models in other units."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import holdfast.smoother.bordered as training
from holdfast import holdout
from holdfast.exceptions import InvalidInputError, KernelError, NotSupportedError
from holdfast.experiments import Ragged, Tasks
from holdfast.kernels import RBF, FunctionKernel
from holdfast.kernels.matrix import KernelRows
from holdfast.smoother import FeatureSmoother, KernelSmoother, Unpenalised, WhitenedFeatures
from holdfast.smoother.base import Fit
from holdfast.smoother.features import ColumnFeatures
from holdfast.smoother.kernel_smoother import _check_definite, deflated_kernel
from holdfast.smoother.make import is_primal, require_room, require_symmetric

EPS = np.finfo(np.float64).eps
M = 20
RNG = np.random.default_rng(21)
X = RNG.normal(size=(M, 3))
Y = np.c_[np.sin(X[:, 0]), X[:, 1] * X[:, 2], X[:, 2]] + 0.1 * RNG.normal(size=(M, 3)) + 2.0
WEIGHTS = RNG.uniform(0.5, 2.0, size=M)
WEIGHTS[[4, 11]] = 0.0
K = RBF(0.3)(X)
V = np.linalg.qr(RNG.normal(size=(M, M)))[0]
NOTHING = np.array([], dtype=np.int64)


def dense(K=K, weights=WEIGHTS, bias=True, **options):
    return KernelSmoother(K, weights, Y, Unpenalised.bias(weights, bias), **options)


def sparse(weights=WEIGHTS, bias=True, memory=np.inf, n=8):
    features = WhitenedFeatures.of(KernelRows(RBF(0.3), X), np.arange(0, 2 * n, 2), 1e-8)
    return FeatureSmoother(features, weights, Y, Unpenalised.bias(weights, bias), memory)


def linear(weights=WEIGHTS, bias=True, memory=np.inf):
    features = ColumnFeatures(X)
    return FeatureSmoother(features, weights, Y, Unpenalised.bias(weights, bias), memory)


def with_spectrum(eigenvalues):
    A = (V[:, : len(eigenvalues)] * eigenvalues) @ V[:, : len(eigenvalues)].T
    return (A + A.T) / 2


# -- what is refused ---------------------------------------------------------------------------


def test_a_dense_model_needs_room_for_four_matrices():
    require_room(10, 3200.0)
    with pytest.raises(InvalidInputError, match=r"10 rows needs 3\.2e-06 GB"):
        require_room(10, 3199.0)


@pytest.mark.parametrize("row", [0, 3, 6])
def test_a_function_that_is_not_symmetric_in_one_row(row):
    def values(A, B):
        return A @ B.T + 1e-3 * (A[:, [0]] == row) * (B[:, 0] != row)

    rows = np.arange(7.0)[:, None]
    kernel = FunctionKernel(values)
    with pytest.raises(KernelError, match=rf"values gives values for rows .*\b{row}\b.* by 0.001"):
        require_symmetric(kernel, KernelRows(kernel, rows))


def test_rounding_is_no_asymmetry():
    rows = np.arange(7.0)[:, None]
    for gap, refused in ((0.9e-8, False), (1.1e-8, True)):

        def values(A, B, gap=gap):
            return np.full((len(A), len(B)), 50.0) + 50.0 * gap * (A[:, [0]] < B[:, 0])

        kernel = FunctionKernel(values)
        if refused:
            with pytest.raises(KernelError, match="symmetric"):
                require_symmetric(kernel, KernelRows(kernel, rows))
        else:
            require_symmetric(kernel, KernelRows(kernel, rows))


def test_at_most_64_rows_are_looked_at():
    seen = []

    def values(A, B):
        seen.append((A[:, 0].tolist(), len(B)))
        return A @ B.T

    rows = np.arange(1000.0)[:, None]
    kernel = FunctionKernel(values)
    require_symmetric(kernel, KernelRows(kernel, rows))
    (looked, n) = seen[-1]
    assert (len(looked), n, looked[0], looked[-1]) == (64, 64, 0.0, 999.0)


def test_columns_are_cheaper_than_a_matrix_while_they_are_fewer():
    import scipy.sparse as sp

    from holdfast.kernels import Linear
    from holdfast.smoother.make import MAX_SPARSE_FEATURES

    assert is_primal(Linear(), X)
    assert not is_primal(Linear(), X[:3])
    assert is_primal(Linear(), X[:4])
    assert not is_primal(RBF(1.0), X)
    n = MAX_SPARSE_FEATURES
    assert is_primal(Linear(), sp.csr_array((n + 2, n)))
    assert not is_primal(Linear(), sp.csr_array((n + 2, n + 1)))


@pytest.mark.parametrize("alpha", [0.1, 10.0])
def test_an_indefinite_matrix_is_refused_at_any_penalty(alpha):
    bad = with_spectrum(np.r_[np.ones(M - 1), -0.05])
    smoother = dense(bad, trusted=False)
    tasks = Tasks.one(np.array([0, 1]), NOTHING, np.array([0, 1]))
    for path in ("single", "fold_gram", "spectral"):
        with pytest.raises(KernelError, match="not positive semidefinite"):
            holdout.predict(smoother, tasks, np.array([alpha]), path)
    dense(bad).require_semidefinite()  # trusted: not looked at
    declared = dense(bad, definite=False, trusted=False)
    declared.require_semidefinite()
    found, expected = (
        holdout.predict(declared, tasks, np.array([alpha]), path)
        for path in ("fold_gram", "retrain")
    )
    assert_allclose(found, expected, rtol=1e-8)


def test_rounding_errors_are_no_negative_eigenvalues():
    for size, refused in ((100.0, False), (1e5, True)):
        smoother = dense(with_spectrum(np.r_[np.ones(M - 1), -size * M * EPS]), trusted=False)
        if refused:
            with pytest.raises(KernelError):
                smoother.require_semidefinite()
        else:
            smoother.require_semidefinite()


def test_how_negative_an_eigenvalue_may_be():
    def spectrum(low, high=1.0):
        return np.array([low, 0.0, 0.5, high])

    _check_definite(spectrum(-399.0 * EPS), 0.5)
    with pytest.raises(KernelError, match="largest of 1,"):
        _check_definite(spectrum(-401.0 * EPS), 0.5)
    _check_definite(spectrum(-9_900.0 * EPS), 100.0)  # the trace counts where it is larger
    with pytest.raises(KernelError):
        _check_definite(spectrum(-10_100.0 * EPS), 100.0)
    _check_definite(np.zeros(0), 0.0)
    with pytest.raises(KernelError):
        _check_definite(1e-20 * spectrum(-401.0 * EPS), 0.5e-20)
    with pytest.raises(KernelError):
        _check_definite(np.array([-1.0, -2.0]), 0.0)


def test_new_rows_of_a_precomputed_kernel_have_no_variance():
    with pytest.raises(NotSupportedError, match="precomputed"):
        dense().variances(K, np.array([1.0]))


# -- the matrix without the unpenalised directions ---------------------------------------------


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("weights", [np.ones(M), 4.0 * np.ones(M), WEIGHTS])
def test_the_weighted_matrix_without_the_level(weights, bias):
    unpenalised = Unpenalised.bias(weights, bias)
    kept = K.copy()
    A, complement = deflated_kernel(K, weights, unpenalised)
    live, root = weights > 0, np.sqrt(weights)
    weighted = (root[:, None] * K * root)[np.ix_(live, live)]
    assert (complement is None) is not bias
    if not bias:
        assert_allclose(A, weighted, rtol=1e-14)
    else:
        Q = unpenalised.Q[live]
        P = np.eye(len(Q)) - Q @ Q.T
        Lambda = np.linalg.eigvalsh(P @ weighted @ P)
        assert_allclose(np.linalg.eigvalsh(A), Lambda[1:], atol=1e-12)
    A[:] = 7.0
    assert_array_equal(K, kept)


# -- models in other units ---------------------------------------------------------------------


def test_a_model_in_another_unit():
    fit = Fit(np.array([[2.0]]), np.array([[3.0]]), np.array([[5.0]]))
    assert fit.times(1.0) is fit
    twice = fit.times(4.0)
    assert (twice.dual[0, 0], twice.linear[0, 0], twice.unpenalised[0, 0]) == (8.0, 12.0, 20.0)
    assert fit._replace(linear=None).times(4.0).linear is None


def test_targets_as_they_were_given():
    for make in (dense, sparse, linear):
        assert_allclose(make().original_targets(), Y, rtol=1e-12)
    huge = KernelSmoother(K, WEIGHTS, Y * 2.0**400, Unpenalised.bias(WEIGHTS, True))
    assert huge.targets.unit > 1e100
    assert_allclose(huge.original_targets() / 2.0**400, Y, rtol=1e-12)
    values = huge.restore(np.zeros((1, 2, 3)), np.array([0, 5]), slice(None))
    assert_allclose(values[0] / 2.0**400, [np.average(Y, axis=0, weights=WEIGHTS)] * 2, rtol=1e-12)


@pytest.mark.parametrize("make", [dense, sparse, linear])
def test_how_many_targets(make):
    smoother = make()
    assert smoother.count(slice(None)) == 3
    assert smoother.count(slice(1, 2)) == 1
    assert make().order == {dense: M, sparse: 9, linear: 4}[make]


# -- one model after another -------------------------------------------------------------------


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("known", [False, True], ids=["by factors", "by the spectrum"])
def test_models_with_a_penalty_for_each_target(known, bias):
    """Coefficients solve the optimality conditions of each target at its penalty."""
    alphas = np.array([0.1, 5.0, 0.1])
    smoother = dense(bias=bias)
    if known:
        smoother.factor(0.1)
    live = WEIGHTS > 0
    fit = smoother.fit(alphas)
    level = fit.unpenalised[0] if bias else np.zeros(3)
    assert fit.unpenalised.shape == (int(bias), 3)
    assert not fit.dual[~live].any()
    for t, alpha in enumerate(alphas):
        c = fit.dual[live, t]
        left = WEIGHTS[live] * (Y[live, t] - K[np.ix_(live, live)] @ c - level[t]) - alpha * c
        assert_allclose(left, 0.0, atol=1e-10)
        if bias:
            assert abs(c.sum()) < 1e-10
    factor = smoother.coordinates(alphas)
    model = smoother.model(factor, alphas)
    again = smoother.published(factor, model, alphas)
    assert_allclose(again.dual, fit.dual, atol=1e-10)
    assert_allclose(again.unpenalised, fit.unpenalised, atol=1e-10)
    rows = np.array([1, 4, 11])
    values = K[rows] @ fit.dual + level
    assert_allclose(smoother.fitted_rows(factor, model, rows), values, atol=1e-9)
    squares = (WEIGHTS[:, None] * np.square(K @ fit.dual + level)).sum(axis=0)
    assert_allclose(smoother.fitted_squares(factor, model), squares, rtol=1e-9)


@pytest.mark.parametrize("make", [dense, sparse, linear])
@pytest.mark.parametrize("bias", [False, True])
def test_what_is_left_without_rows(make, bias):
    """`without`, `remaining` and `retargeted` are smoothers of their own problems."""
    held, test = np.array([2, 3, 7]), np.array([2, 4, 5])
    alphas = np.full(3, 0.3)
    smoother = make(bias=bias)
    tasks = Tasks(*(Ragged.from_arrays([r]) for r in (held, NOTHING, test)), np.arange(1))
    expected = holdout.predict(make(bias=bias), tasks, alphas[:1], "retrain")[0]
    own = smoother.remaining(held, NOTHING)
    assert_array_equal(own.weights[held], 0.0)
    assert_allclose(fitted(own, alphas, test), expected, rtol=1e-7)
    own = smoother.without(held, NOTHING)
    values = fitted(own, alphas, test)[None]
    assert_allclose(smoother.restore(values, test, slice(None))[0], expected, rtol=1e-7)
    values = fitted(smoother, alphas, test)
    assert_allclose(fitted(smoother.retargeted(3.0 * Y), alphas, test), 3.0 * values, rtol=1e-9)
    smoother.factor(0.3)
    assert_allclose(fitted(smoother.retargeted(-Y), alphas, test), -values, rtol=1e-8)


def fitted(smoother, alphas, rows):
    """Return predictions of rows of the data by the model on all rows."""
    factor = smoother.coordinates(alphas)
    return smoother.fitted_rows(factor, smoother.model(factor, alphas), rows)


@pytest.mark.parametrize("at_once", [1, 50, 2**20])
@pytest.mark.parametrize("bias", [False, True])
def test_a_dense_model_from_its_optimality_conditions(monkeypatch, bias, at_once):
    monkeypatch.setattr(training, "AT_ONCE", at_once)
    held, test, alphas = np.array([1, 2]), np.array([1, 2, 4]), np.geomspace(1e-3, 10.0, 3)
    found = dense(bias=bias).retrain(held, NOTHING, test, alphas, slice(0, 2))
    train = np.setdiff1d(np.flatnonzero(WEIGHTS > 0), held)
    n, w = train.size, WEIGHTS[train]
    ones = np.ones((n, int(bias)))
    level = np.average(Y[:, :2], axis=0, weights=WEIGHTS) if bias else 0.0
    for k, alpha in enumerate(alphas):
        A = np.block([
            [K[np.ix_(train, train)] + alpha * np.diag(1.0 / w), ones],
            [ones.T, np.zeros((int(bias),) * 2)],
        ])  # fmt: skip
        rhs = np.vstack([Y[train][:, :2] - level, np.zeros((int(bias), 2))])
        c = np.linalg.solve(A, rhs)
        expected = K[np.ix_(test, train)] @ c[:n] + (c[n] if bias else 0.0)
        assert_allclose(found[k], expected, rtol=1e-9)


def test_training_from_scratch_is_refined():
    """A matrix of condition 1e12: the solution has the digits of longer numbers."""
    n = 8
    A = (V[:n, :n] * np.geomspace(1.0, 1e-12, n)) @ V[:n, :n].T
    A = (A + A.T) / 2
    y = np.ones((n, 1))
    one = training.Bordered(A, np.empty((n, 0)), y, np.ones(n))
    found = one.predictions(np.eye(n), np.empty((n, 0)), np.array([1e-11]))[0]
    long = A.astype(np.longdouble) + np.longdouble(1e-11) * np.eye(n)
    x = found.astype(np.longdouble)
    for _ in range(30):  # the same in long numbers, by plain refinement
        x = x + np.linalg.solve(A + 1e-11 * np.eye(n), (y - long @ x).astype(float))
    if np.finfo(np.longdouble).eps < 1e-18:
        assert np.abs(found - x).max() < 1e-8 * np.abs(x).max()
    with pytest.raises(np.linalg.LinAlgError, match="singular"):
        training.Bordered(np.zeros((2, 2)), np.empty((2, 0)), y[:2], np.ones(2)).predictions(
            np.eye(2), np.empty((2, 0)), np.zeros(1)
        )
    long = training.product(np.arange(6.0).reshape(3, 2), np.ones((2, 1), dtype=np.longdouble))
    assert long[:, 0].tolist() == [1.0, 5.0, 9.0]
    assert training.product(np.empty((0, 2)), np.ones((2, 3), np.longdouble)).shape == (0, 3)
