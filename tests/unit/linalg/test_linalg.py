"""The numeric ground against plain NumPy, with awkward sizes and conditions."""

import sys
import threading
import time

import mpmath
import numpy as np
import pytest
from scipy.linalg import cho_factor, cho_solve

from holdfast import HoldOut, KernelRidgeCV
from holdfast.exceptions import (
    InvalidInputError,
    KernelError,
    SingularBasisError,
)
from holdfast.kernels import RBF
from holdfast.linalg import (
    CHOLESKY_UP_TO,
    Complement,
    Definite,
    Tridiagonal,
    Whitening,
    _nogil,
    add_gram,
    blas_threads,
    cholesky_basis,
    eigh,
    mirror,
    orthonormal_rows,
    piece_threads,
    pieces_alone,
    reciprocal_shifts,
    run_pieces,
    solve_shifted,
    subtract_outer,
    threads_for,
)
from reference.oracle import exact_retrain, relative_error

EPS = np.finfo(np.float64).eps


def spd(p, seed, cond=1e3):
    """Return a symmetric positive definite matrix of the given condition, norm 1."""
    rng = np.random.default_rng(seed)
    Q, _ = np.linalg.qr(rng.standard_normal((p, p)))
    A = (Q * np.geomspace(1.0, 1.0 / cond, p)) @ Q.T
    return (A + A.T) / 2


# --- eigh -------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("p", [1, 2, 7, 60])
def test_eigh_reconstructs(p, order):
    A = np.array(spd(p, p), order=order)
    kept = A.copy()
    Lambda, V = eigh(A)
    assert np.array_equal(A, kept)
    assert np.all(np.diff(Lambda) >= 0)
    np.testing.assert_allclose((V * Lambda) @ V.T, A, atol=50 * EPS)
    np.testing.assert_allclose(V.T @ V, np.eye(p), atol=50 * EPS)
    np.testing.assert_allclose(Lambda, np.linalg.eigvalsh(A), atol=50 * EPS)
    assert V.flags.f_contiguous


@pytest.mark.parametrize("order", ["C", "F"])
def test_eigh_overwrite_reuses_the_memory(order):
    A = np.array(spd(30, 1), order=order)
    kept = A.copy()
    Lambda, V = eigh(A, overwrite=True)
    assert np.shares_memory(A, V)
    np.testing.assert_allclose((V * Lambda) @ V.T, kept, atol=50 * EPS)


def test_eigh_of_read_only_and_strided_input():
    big = spd(40, 2)
    view = big[::2, ::2]
    Lambda, V = eigh(view, overwrite=True)
    np.testing.assert_allclose((V * Lambda) @ V.T, big[::2, ::2], atol=50 * EPS)
    big.flags.writeable = False
    Lambda, V = eigh(big, overwrite=True)
    np.testing.assert_allclose((V * Lambda) @ V.T, big, atol=50 * EPS)


def test_eigh_of_nothing():
    Lambda, V = eigh(np.zeros((0, 0)))
    assert Lambda.shape == (0,)
    assert V.shape == (0, 0)


# --- Cholesky factor and whitening --------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 50])
def test_cholesky_basis_is_the_factor_of_the_shifted_matrix(n):
    K = spd(n, n)
    kept = K.copy()
    C = cholesky_basis(K, 0.25)
    assert np.array_equal(K, kept)
    assert np.array_equal(C, np.tril(C))
    np.testing.assert_allclose(C @ C.T, K + 0.25 * np.eye(n), atol=20 * EPS)


def test_duplicate_basis_rows_are_an_error_that_names_the_pivot():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((20, 3))
    X[13] = X[4]
    K = np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(2))
    with pytest.raises(SingularBasisError, match=r"20 basis rows.*basis row 13.*jitter"):
        cholesky_basis(K, 0.0)
    cholesky_basis(K, 1e-6)


def test_an_indefinite_matrix_reports_its_negative_pivot():
    K = np.diag([1.0, 2.0, -0.5, 1.0])
    with pytest.raises(SingularBasisError, match=r"pivot reached is -0\.4 at basis row 2"):
        cholesky_basis(K, 0.1)


def test_eigenvalues_that_do_not_converge_are_an_error(monkeypatch):
    monkeypatch.setattr("holdfast.linalg.eigen.call", lambda *_: 3)
    with pytest.raises(
        KernelError, match=r"of a 4 x 4 matrix did not converge \(LAPACK returned 3"
    ):
        eigh(np.eye(4))


def test_the_pivot_that_fails_is_named():
    # C of the first two rows is [[2, 0], [1, 1]], so that C⁻¹(1, 1) = (½, ½), of squared length ½.
    K = np.array([[4.0, 2.0, 1.0], [2.0, 2.0, 1.0], [1.0, 1.0, 0.25]])
    with pytest.raises(SingularBasisError, match=r"is -0\.25 at basis row 2 "):
        cholesky_basis(K, 0.0)
    with pytest.raises(SingularBasisError, match=r"is -3 at basis row 0 "):
        cholesky_basis(K - 7.0 * np.eye(3), 0.0)


def test_numerically_singular_but_factorable_is_an_error():
    K = np.diag([1.0, 1e-17, 1.0])
    with pytest.raises(SingularBasisError, match=r"1e-17 at basis row 1"):
        cholesky_basis(K, 0.0)


def test_values_that_are_not_finite_are_an_error():
    K = np.eye(3)
    K[0, 1] = np.nan
    with pytest.raises(KernelError, match="1 values that are not finite"):
        cholesky_basis(K, 0.0)


@pytest.mark.parametrize("rows", [0, 1, 10, 400])
def test_whiten_against_a_solve(rows):
    rng = np.random.default_rng(rows)
    C = cholesky_basis(spd(40, 5), 1e-3)
    K = rng.standard_normal((rows, 40))
    kept = K.copy()
    expected = np.linalg.solve(C, K.T).T
    whitening = Whitening(C)
    W = whitening.rows(K)
    np.testing.assert_allclose(W, expected, rtol=1e-9, atol=1e-12)
    assert np.array_equal(K, kept)
    out = np.empty_like(K)
    assert whitening.rows(K, out=out) is out
    assert np.array_equal(K, kept)
    np.testing.assert_array_equal(out, W)
    assert whitening.rows(K, out=K) is K
    np.testing.assert_array_equal(K, W)


def test_whiten_refuses_an_output_it_would_have_to_copy():
    C = cholesky_basis(np.eye(4), 0.0)
    with pytest.raises(InvalidInputError, match="C-ordered"):
        Whitening(C).rows(np.ones((3, 4)), out=np.empty((4, 3)).T)


@pytest.mark.parametrize("cond", [1e4, 1e8, 1e12])
def test_whitened_rows_give_the_kernel_back_to_the_last_digit(cond):
    K_BB = spd(80, 7, cond)
    C = cholesky_basis(K_BB, 0.0)
    # Rows of the kernel itself: the answer K_BB C⁻ᵀ = C is known, errors scale with cond(C).
    exact = C.astype(np.longdouble)
    K = (exact @ exact.T).astype(np.float64)
    W = Whitening(C).rows(K)
    assert np.abs(W - C).max() <= 4 * np.sqrt(cond) * EPS
    # Substitution: W Cᵀ = K whatever the condition. A product with C⁻¹ does not do that.
    left = np.abs(W.astype(np.longdouble) @ exact.T - K)
    assert (left <= 80 * EPS * (np.abs(W) @ np.abs(C).T)).all()


@pytest.mark.parametrize("near", [1e-3, 1e-7])
def test_the_span_of_removed_basis_rows_keeps_its_digits(near):
    """C O is zero but for the rows removed, to the last digit, however alike two of them are."""
    X = np.random.default_rng(3).standard_normal((7, 2))
    X[5] = X[1] + near * X[5]
    C = cholesky_basis(np.exp(-0.5 * np.square(X[:, None] - X).sum(axis=2)), 1e-13)
    removed = np.array([5, 1, 3])
    O = Whitening(C).span(removed)  # noqa: E741
    np.testing.assert_allclose(O.T @ O, np.eye(3), atol=1e-14)
    left = np.delete(C.astype(np.longdouble) @ O, removed, axis=0)
    assert np.abs(left).max() < 5e-16
    plain = orthonormal_rows(np.linalg.inv(C).T[removed])  # as it would be without
    np.testing.assert_allclose(O @ O.T, plain @ plain.T, atol=1e-15 / near)
    with pytest.raises(SingularBasisError):
        Whitening(C).span(np.array([1, 1]))


# --- constraint ---------------------------------------------------------------------------------

SHAPES = [(0, 1), (1, 1), (1, 2), (3, 4), (4, 4), (0, 6), (5, 40), (39, 40)]


@pytest.mark.parametrize(("e", "p"), SHAPES)
def test_complement_against_the_explicit_basis(e, p):
    rng = np.random.default_rng(100 * p + e)
    N = rng.standard_normal((e, p)) * np.geomspace(1.0, 1e6, e)[:, None]
    kept = N.copy()
    O = orthonormal_rows(N)  # noqa: E741  # the design's name
    c = Complement(N)
    Z = c.lift(np.eye(p - e))
    assert np.array_equal(N, kept)
    assert (O.shape, Z.shape, c.n_removed) == ((p, e), (p, p - e), e)
    Q = np.hstack([O, Z])
    np.testing.assert_allclose(Q.T @ Q, np.eye(p), atol=30 * EPS)
    np.testing.assert_allclose((N / np.linalg.norm(N, axis=1, keepdims=True)) @ Z, 0, atol=30 * EPS)
    A = spd(p, 11)
    for matrix in (A, np.asfortranarray(A)):
        np.testing.assert_allclose(c.reduce(matrix), Z.T @ A @ Z, atol=30 * EPS)
        assert np.array_equal(matrix, A)
    z = rng.standard_normal((p, 2))
    np.testing.assert_allclose(c.project(z), Z.T @ z, atol=1e-13)
    stack = np.stack([z, 2 * z])
    np.testing.assert_allclose(c.project(stack)[1], 2 * Z.T @ z, atol=1e-13)
    np.testing.assert_allclose(c.lift(c.project(stack))[1], 2 * Z @ (Z.T @ z), atol=1e-13)


def _orthonormal_columns():
    """Yield unpenalised columns Q (m, s): as few or as many rows as there can be, with zeros."""
    rng = np.random.default_rng(8)
    for unit in ([1.0], [-1.0], [0.0, 1.0], [-0.6, 0.8], [0.0, 0.0, 0.0, -1.0, 0.0]):
        yield np.array(unit)[:, None]
    yield np.full((50, 1), 50**-0.5)
    root = np.sqrt(np.where(rng.random(600) < 0.5, rng.random(600), 0.0))
    for s in (1, 2, 5):  # a trend under weights, half of them zero; more rows than one block
        yield np.linalg.qr(root[:, None] * np.vander(np.linspace(-1, 1, 600), s))[0]
    yield np.eye(7)[:, [4, 0, 6]]
    yield np.linalg.qr(rng.standard_normal((6, 6)))[0]
    yield np.linalg.qr(rng.standard_normal((6, 5)))[0]


@pytest.mark.parametrize(
    "Q", list(_orthonormal_columns()), ids=lambda Q: "x".join(map(str, Q.shape))
)
def test_what_is_orthogonal_to_some_columns(Q):
    m, s = Q.shape
    c = Complement(Q.T)
    Z = c.lift(np.eye(m - s))
    assert (Z.shape, c.n_removed) == ((m, m - s), s)
    np.testing.assert_allclose(Z.T @ Z, np.eye(m - s), atol=10 * EPS)
    np.testing.assert_allclose(Q.T @ Z, 0.0, atol=10 * EPS)
    K = spd(m, 9)
    kept = K.copy()
    reduced = c.reduce(K)
    np.testing.assert_allclose(reduced, Z.T @ K @ Z, atol=30 * EPS)
    np.testing.assert_allclose(reduced, reduced.T, rtol=0, atol=2 * EPS)
    assert np.array_equal(K, kept)
    A = (reduced + reduced.T) / 2
    lifted = c.lift_symmetric(A)
    np.testing.assert_allclose(lifted, Z @ A @ Z.T, atol=30 * EPS)
    np.testing.assert_allclose(lifted, lifted.T, rtol=0, atol=2 * EPS)
    np.testing.assert_allclose(lifted @ Q, 0.0, atol=30 * EPS)
    np.testing.assert_allclose(c.reduce(lifted), A, atol=30 * EPS)
    Y = np.random.default_rng(10).standard_normal((m, 3))
    np.testing.assert_allclose(c.project(Y), Z.T @ Y, atol=1e-13)
    stack = np.stack([Y, 2 * Y])
    np.testing.assert_allclose(c.project(stack)[1], 2 * c.project(Y), atol=1e-13)
    np.testing.assert_allclose(c.lift(c.project(stack))[1], 2 * Z @ (Z.T @ Y), atol=1e-13)


@pytest.mark.parametrize(("e", "p"), SHAPES)
def test_a_symmetric_matrix_lifted_from_the_complement(e, p):
    rng = np.random.default_rng(100 * p + e)
    c = Complement(rng.standard_normal((e, p)) * np.geomspace(1.0, 1e6, e)[:, None])
    Z = c.lift(np.eye(p - e))
    A = spd(p - e, 12) if e < p else np.zeros((0, 0))
    kept = A.copy()
    lifted = c.lift_symmetric(A)
    assert np.array_equal(A, kept)
    assert not np.shares_memory(A, lifted)
    np.testing.assert_allclose(lifted, Z @ A @ Z.T, atol=30 * EPS)
    np.testing.assert_allclose(c.reduce(lifted), A, atol=30 * EPS)


@pytest.mark.parametrize("row", [np.zeros(3), np.array([np.nan, 1.0]), np.zeros(0)])
def test_a_row_without_a_direction_is_an_error(row):
    with pytest.raises(InvalidInputError):
        Complement(row[None])


def test_the_length_of_a_row_does_not_matter():
    N = np.array([[3.0, -4.0, 12.0], [1.0, 2.0, 0.0]])
    c, scaled = Complement(N), Complement(N * np.array([[1e-30], [1e30]]))
    np.testing.assert_allclose(scaled.lift(np.eye(1)), c.lift(np.eye(1)), atol=10 * EPS)


def test_complement_does_not_alias_its_argument():
    A = spd(6, 1)
    reduced = Complement(np.zeros((0, 6))).reduce(A)
    assert not np.shares_memory(A, reduced)


@pytest.mark.parametrize(
    "N",
    [
        np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0]]),
        np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]),
        np.array([[np.nan, 0.0, 0.0]]),
    ],
    ids=["duplicate", "zero", "nan"],
)
def test_dependent_constraints_are_an_error(N):
    for function in (orthonormal_rows, Complement):
        with pytest.raises(SingularBasisError):
            function(N)


def test_more_constraints_than_unknowns_are_an_error():
    with pytest.raises(InvalidInputError, match=r"\(3, 2\)"):
        orthonormal_rows(np.ones((3, 2)))


# --- many shifts --------------------------------------------------------------------------------

ALPHAS = np.array([1e-12, 1e-6, 1e-2, 1.0, 1e8])


def reduced_and_solved(A, Z, alphas):
    return Tridiagonal.reduce(A).solve(Z, alphas)


def reduced_and_refined(A, Z, alphas):
    reduced = Tridiagonal.reduce(A)
    return reduced.refine(A, Z, alphas, reduced.solve(Z, alphas))


def one_by_one(A, Z, alphas):
    return np.concatenate([solve_shifted(A, Z, alphas[[a]]) for a in range(alphas.size)])


def by_eigenvectors(A, Z, alphas):
    return solve_shifted(A, Z, alphas, definite=False)


WAYS = [
    reduced_and_solved,
    reduced_and_refined,
    solve_shifted,
    one_by_one,
    by_eigenvectors,
]
every_way = pytest.mark.parametrize("solve", WAYS, ids=lambda solve: solve.__name__)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("v", [1, 3])
@pytest.mark.parametrize("p", [1, 2, 3, 40])
@every_way
def test_shifts_against_one_solve_per_alpha(solve, p, v, order):
    assert len(ALPHAS) > CHOLESKY_UP_TO
    A = np.array(spd(p, p), order=order)
    Z = np.random.default_rng(v).standard_normal((p, v))
    kept = A.copy(), Z.copy()
    x = solve(A, Z, ALPHAS)
    assert x.shape == (len(ALPHAS), p, v)
    assert np.array_equal(A, kept[0])
    assert np.array_equal(Z, kept[1])
    for alpha, solution in zip(ALPHAS, x, strict=True):
        expected = np.linalg.solve(A + alpha * np.eye(p), Z)
        np.testing.assert_allclose(solution, expected, atol=1e-11 * np.abs(expected).max())


@pytest.mark.parametrize("order", ["C", "F"])
def test_shifts_in_place(order):
    A = np.array(spd(30, 4), order=order)
    kept = A.copy()
    reduced = Tridiagonal.reduce(A, overwrite=True)
    assert np.shares_memory(A, reduced.reflectors)
    Z = np.ones((30, 1))
    expected = np.linalg.solve(kept + np.eye(30), Z)
    for _ in range(2):  # solving leaves the reduction as it was
        np.testing.assert_allclose(reduced.solve(Z, np.ones(1))[0], expected, rtol=1e-11)


@every_way
def test_shifts_of_nothing(solve):
    assert solve(np.zeros((0, 0)), np.zeros((0, 2)), ALPHAS).shape == (5, 0, 2)
    assert solve(np.eye(3), np.zeros((3, 0)), ALPHAS).shape == (5, 3, 0)
    if solve in (reduced_and_solved, reduced_and_refined):
        assert solve(np.eye(3), np.zeros((3, 2)), np.zeros(0)).shape == (0, 3, 2)


@pytest.mark.parametrize("solve", WAYS[:2], ids=lambda solve: solve.__name__)
def test_an_indefinite_system_is_an_error_that_names_alpha(solve):
    A = spd(12, 6) - 0.5 * np.eye(12)
    with pytest.raises(KernelError, match=r"12 x 12 .* alpha = 0\.25 .*larger alpha"):
        solve(A, np.ones((12, 1)), np.array([1.0, 0.25]))
    x = solve(A, np.ones((12, 1)), np.array([1.0]))[0]
    np.testing.assert_allclose((A + np.eye(12)) @ x, 1.0, atol=1e-12)


@pytest.mark.parametrize("n_alphas", [1, CHOLESKY_UP_TO + 1])
def test_an_indefinite_matrix_is_solved_only_when_it_is_declared(n_alphas):
    A = spd(12, 6) - 0.5 * np.eye(12)
    Z, alphas = np.ones((12, 1)), np.linspace(0.25, 0.2, n_alphas)
    with pytest.raises(KernelError, match=r"not positive definite.*larger alpha"):
        solve_shifted(A, Z, alphas)
    with pytest.raises(KernelError, match=r"alpha ?= ?0\.25 "):
        solve_shifted(A, Z, alphas)
    x = solve_shifted(A, Z, alphas, definite=False)
    for alpha, solution in zip(alphas, x, strict=True):
        np.testing.assert_allclose((A + alpha * np.eye(12)) @ solution, 1.0, atol=1e-11)


def test_a_penalty_that_meets_a_negative_eigenvalue_is_an_error():
    A = np.diag([2.0, 1.0, -0.5, 0.0])
    Z, alphas = np.ones((4, 1)), np.array([3.0, 0.5, 0.25])
    with pytest.raises(KernelError, match=r"indefinite .*eigenvalue at −0\.5.* other alphas"):
        by_eigenvectors(A, Z, alphas)
    x = by_eigenvectors(A, Z, alphas[::2])
    np.testing.assert_allclose(x[:, :, 0], 1.0 / (np.diag(A) + alphas[::2, None]), rtol=1e-14)


def test_reciprocal_shifts():
    Lambda, alphas = np.array([4.0, 0.0, 1.0]), np.array([1e-300, 0.5])
    mask = np.array([1.0, 1.0, 0.0])  # the last coordinate carries no penalty
    found = reciprocal_shifts(Lambda, alphas, mask)
    np.testing.assert_allclose(found, [[0.25, 1e300, 1.0], [1 / 4.5, 2.0, 1.0]], rtol=2 * EPS)
    negative = np.array([4.0, -2.0, 1.0])
    np.testing.assert_allclose(
        reciprocal_shifts(negative, np.array([1.0, 3.0]), mask), [[0.2, -1, 1], [1 / 7, 1, 1]]
    )
    for nearly in (2.0, 2.0 * (1 + 1e-12)):
        with pytest.raises(KernelError, match=r"eigenvalue at −2, .*singular.*other alphas"):
            reciprocal_shifts(negative, np.array([1.0, nearly]), mask)
    reciprocal_shifts(negative, np.array([1.0, 2.0 * (1 + 1e-6)]), mask)
    assert reciprocal_shifts(np.zeros(0), alphas, np.zeros(0)).shape == (2, 0)


def _exact_solution(A, Z, alpha):
    """Return the solution of (A + alpha I) x = Z in 50 digits, rounded."""
    with mpmath.workdps(50):
        p = len(A)
        shifted = mpmath.matrix(A.tolist()) + mpmath.mpf(float(alpha)) * mpmath.eye(p)
        return np.array(mpmath.lu_solve(shifted, mpmath.matrix(Z.tolist())).tolist(), dtype=float)


@pytest.mark.parametrize("cond", [1e4, 1e8, 1e12])
def test_tridiagonal_is_as_accurate_as_cholesky_and_eigh(cond):
    p = 20
    errors = {"tridiagonal": 0.0, "eigh": 0.0, "cholesky": 0.0}
    for seed in range(4):
        A = spd(p, seed, cond)
        Z = A @ np.random.default_rng(seed).standard_normal((p, 1))
        for alpha in (0.0, 1e-10, 1e-3):
            exact = _exact_solution(A, Z, alpha)
            answers = {
                "tridiagonal": Tridiagonal.reduce(A).solve(Z, np.array([alpha]))[0],
                "eigh": by_eigenvectors(A, Z, np.array([alpha]))[0],
                "cholesky": cho_solve(cho_factor(A + alpha * np.eye(p)), Z),
            }
            for name, x in answers.items():
                error = np.linalg.norm(x - exact) / np.linalg.norm(exact)
                errors[name] = max(errors[name], error)
    assert errors["tridiagonal"] <= 5 * max(errors["eigh"], errors["cholesky"])


@pytest.mark.parametrize("ascending", [False, True])
def test_tridiagonal_keeps_the_small_directions_of_a_graded_matrix(ascending):
    # The Gram matrix of training rows in eigen-coordinates of all rows: eigenvalues 1 … 1e-12.
    rng = np.random.default_rng(12)
    p, m, h, alpha = 16, 60, 15, 1e-10
    W = np.linalg.qr(rng.standard_normal((m, p)))[0] * np.geomspace(1.0, 1e-6, p)
    W = np.ascontiguousarray(W[:, ::-1] if ascending else W)
    y = rng.standard_normal((m, 1))
    A = W[h:].T @ W[h:]
    kept = A.copy()
    with mpmath.workdps(50):
        exact = mpmath.matrix(W[h:].tolist())
        gram = exact.T * exact + mpmath.mpf(alpha) * mpmath.eye(p)
        theta = mpmath.lu_solve(gram, exact.T * mpmath.matrix(y[h:].tolist()))
        expected = np.array((mpmath.matrix(W[:h].tolist()) * theta).tolist(), dtype=float)
    reduced = Tridiagonal.reduce(A)
    assert np.array_equal(A, kept)
    assert reduced.flipped == ascending
    x = reduced.solve(W[h:].T @ y[h:], np.array([alpha]))[0]
    np.testing.assert_allclose(W[:h] @ x, expected, atol=1e-12 * np.abs(expected).max())
    in_place = Tridiagonal.reduce(A, overwrite=True)
    assert np.shares_memory(A, in_place.reflectors)
    np.testing.assert_array_equal(in_place.solve(W[h:].T @ y[h:], np.array([alpha]))[0], x)


# Rows of very different weight, in no order: √wK√w is graded, and its small entries matter.


def _weighted_rows():
    """Return X, y, weights from 1 down to 1e-8, and penalties that fit the smallest of them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    weights = np.logspace(-8, 0, 40)[rng.permutation(40)]
    return X, np.sin(2 * X[:, 0]), weights, np.logspace(-12, -7, 6)


def test_refinement_keeps_the_small_entries_of_a_graded_matrix():
    X, y, weights, alphas = _weighted_rows()
    assert alphas.size > CHOLESKY_UP_TO
    root = np.sqrt(weights)
    A, Z = root[:, None] * RBF(1.0)(X) * root, (root * y)[:, None]
    refined, plain = solve_shifted(A, Z, alphas), Tridiagonal.reduce(A).solve(Z, alphas)
    exact = [_exact_solution(A, Z, alphas[a]) for a in (0, 2)]
    errors = [relative_error(refined[a], x) for a, x in zip((0, 2), exact, strict=True)]
    before = [relative_error(plain[a], x) for a, x in zip((0, 2), exact, strict=True)]
    assert max(errors) < 1e-9
    assert min(before) > 1e-8  # so the line above can fail


@pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")
@pytest.mark.parametrize("bias", [False, True])
def test_folds_of_a_dense_model_with_wild_weights(bias):
    X, y, weights, alphas = _weighted_rows()
    folds = np.array_split(np.random.default_rng(1).permutation(40), 5)
    options = {"alphas": alphas, "cv": [HoldOut(fold) for fold in folds], "fit_intercept": bias}
    model = KernelRidgeCV(RBF(1.0), path="fold_gram", **options).fit(X, y, sample_weight=weights)
    K, values = RBF(1.0)(X), model.held_out().matrix()
    for fold in folds[:3]:
        for a in (0, 2):
            exact = exact_retrain(K, y, fold, fold, alphas[a], None, (), weights, bias)
            size = np.maximum(y.std(), np.abs(exact - y.mean()))
            assert (np.abs(values[a, fold] - exact) / size).max() < 1e-9


# --- stacks of small positive definite systems ---------------------------------------------------


def _stack(shape, h, seed=0):
    rng = np.random.default_rng(seed)
    B = rng.standard_normal((*shape, h, h + 3))
    return B @ B.swapaxes(-1, -2) / h


@pytest.mark.parametrize("shape", [(), (1,), (4,), (3, 2)], ids=str)
@pytest.mark.parametrize("h", [1, 2, 7, 20, 21, 50])
@pytest.mark.parametrize("long", [0, 2e6], ids=["long solves", "short"])
def test_definite_systems_solved_several_times(h, shape, long, monkeypatch):
    monkeypatch.setattr("holdfast.linalg.definite.LONG_SOLVE", long)
    M = _stack(shape, h)
    kept = M.copy()
    systems = Definite(M)
    assert systems.failed.shape == shape
    assert not systems.failed.any()
    rng = np.random.default_rng(1)
    for v in (1, 4, 1):
        right = rng.standard_normal((*shape, h, v))
        before = right.copy()
        X = systems.solve(right)
        assert np.array_equal(right, before)
        assert not np.shares_memory(X, right)
        expected = np.linalg.solve(kept, right)
        np.testing.assert_allclose(X, expected, rtol=1e-9, atol=1e-10)
    # A right-hand side in another order of its axes, as conjugate gradients hand it over.
    turned = np.asfortranarray(rng.standard_normal((*shape, h, 2)))
    expected = np.linalg.solve(kept, turned)
    np.testing.assert_allclose(systems.solve(turned), expected, rtol=1e-9)
    part = np.full((*shape, 2 * h, 2), np.nan)[..., :h, :]  # a view into something larger
    part[:] = turned
    systems.solve_in_place(part)
    np.testing.assert_allclose(part, expected, rtol=1e-9)


@pytest.mark.parametrize("h", [1, 2, 20, 21, 50])
@pytest.mark.parametrize("kind", ["zero", "negative", "no digit", "nan"])
def test_systems_without_a_digit_are_marked_and_the_others_solved(kind, h):
    M = _stack((3, 2), h)
    # The last pivot is what the last diagonal entry has left over: take it away.
    last = 1.0 / np.linalg.inv(M[1, 0])[-1, -1]
    M[1, 0, -1, -1] -= last
    if kind == "negative":
        M[1, 0, -1, -1] -= 0.5 * last
    elif kind == "no digit":
        M[1, 0] = np.eye(h)
        M[1, 0, -1, -1] = 0.5 * h * EPS if h > 1 else -EPS
    elif kind == "nan":
        M[1, 0, -1, -1] = np.nan
    elif h == 1:
        M[1, 0] = 0.0
    kept = M.copy()
    systems = Definite(M)
    assert np.array_equal(np.argwhere(systems.failed), [[1, 0]])
    right = np.random.default_rng(2).standard_normal((3, 2, h, 2))
    good = ~systems.failed
    with np.errstate(divide="ignore", invalid="ignore"):
        for _ in range(2):
            X = systems.solve(right)
            expected = np.linalg.solve(kept[good], right[good])
            np.testing.assert_allclose(X[good], expected, rtol=1e-9, atol=1e-10)
            assert not X[~good].any()


@pytest.mark.parametrize("h", [1, 5, 30])
def test_the_scale_of_a_definite_matrix_does_not_matter_below_one(h):
    # Dense models: G = (K + αI)⁻¹ shrinks like 1/α, and its digits do not.
    for scale in (1e-200, 1e-9, 1.0, 1e9):
        M = scale * _stack((2,), h)
        kept = M.copy()
        systems = Definite(M)
        assert not systems.failed.any()
        right = np.ones((2, h, 1))
        expected = np.linalg.solve(kept / scale, right) / scale
        np.testing.assert_allclose(systems.solve(right), expected, rtol=1e-9)
    # I − S: entries were subtracted from 1, so that a pivot of 1e-17 is rounding.
    assert not Definite(np.diag(np.append(np.full(h, 1e-3), 1e-6))).failed
    assert Definite(np.diag(np.append(np.full(h, 1e9), 1e-17))).failed


@pytest.mark.parametrize(("shape", "h"), [((0,), 1), ((0,), 3), ((0, 2), 30)], ids=str)
def test_no_definite_systems(shape, h):
    systems = Definite(np.zeros((*shape, h, h)))
    assert systems.failed.shape == shape
    assert not systems.failed.any()
    assert systems.solve(np.zeros((*shape, h, 2))).shape == (*shape, h, 2)


# --- routines called by pointer -------------------------------------------------------------------


def test_wrong_shapes_and_types_never_reach_a_pointer():
    A, B = np.eye(4, order="F"), np.ones((4, 1))
    for call in (
        lambda: _nogil.dsytrd(np.ones((4, 3), order="F")),
        lambda: _nogil.dsytrd(np.eye(4, dtype=np.float32)),
        lambda: _nogil.dsytrd(np.arange(16.0).reshape(4, 4)),
        lambda: _nogil.substitute(np.eye(3), B),
    ):
        with pytest.raises(ValueError, match="needs Fortran-ordered float64 of shape"):
            call()
    A.flags.writeable = False
    with pytest.raises(ValueError, match="may be overwritten"):
        _nogil.dsytrd(A)
    for reduce in (eigh, Tridiagonal.reduce):
        with pytest.raises(InvalidInputError, match="square"):
            reduce(np.ones((4, 3)))
    C = cholesky_basis(np.eye(4), 0.0)
    with pytest.raises(ValueError, match="shape"):
        Whitening(C).rows(np.ones((2, 3)))


@pytest.mark.parametrize("overwrite", [False, True])
def test_integer_matrices_are_converted(overwrite):
    A = np.array([[2, 1], [1, 3]])
    Lambda, _ = eigh(A, overwrite=overwrite)
    np.testing.assert_allclose(Lambda, np.linalg.eigvalsh(A), rtol=1e-14)


def test_other_threads_run_during_a_reduction():
    # With this switch interval another thread gets the interpreter lock only if the call gives
    # it up. One of many tries is enough; a routine that holds the lock never lets it through.
    A = np.asfortranarray(spd(300, 31))
    before = sys.getswitchinterval()
    sys.setswitchinterval(1000.0)
    try:
        seen = any(_another_thread_runs(lambda: _nogil.dsytrd(A)) for _ in range(100))
    finally:
        sys.setswitchinterval(before)
    assert seen


def _another_thread_runs(call):
    gate, ran = threading.Lock(), []
    gate.acquire()
    thread = threading.Thread(target=lambda: (gate.acquire(), ran.append(True)))
    thread.start()
    time.sleep(0.001)
    gate.release()
    call()
    during = bool(ran)
    thread.join()
    return during


# --- threads ------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_threads", [None, 1, 3])
def test_pieces_all_run_and_blas_threads_come_back(n_threads):
    before = blas_threads()
    done = np.zeros(20)
    inside = []

    def work(i):
        inside.append(blas_threads())
        done[i] += 1

    run_pieces(work, range(20), n_threads)
    assert np.array_equal(done, np.ones(20))
    assert set(inside) == {1}
    assert blas_threads() == before


@pytest.mark.parametrize("n_threads", [1, 3])
def test_an_error_in_a_piece_reaches_the_caller(n_threads):
    def work(i):
        if i == 5:
            raise ZeroDivisionError

    before = blas_threads()
    with pytest.raises(ZeroDivisionError):
        run_pieces(work, range(20), n_threads)
    assert blas_threads() == before


@pytest.mark.parametrize("n_threads", [1, 3])
def test_pieces_treat_overflow_as_the_caller_does(n_threads):
    seen = []
    with np.errstate(over="raise", under="ignore"):
        run_pieces(lambda _: seen.append(np.geterr()), range(4), n_threads)
        expected = np.geterr()
    assert seen == [expected] * 4
    assert expected["over"] == "raise"


@pytest.mark.parametrize("n", [1, 5, 127, 128, 129, 300])
@pytest.mark.parametrize("k", [1, 40])
def test_substitution_in_blocks(n, k):
    """C X = B holds to the last digit, whatever the condition of C."""
    rng = np.random.default_rng(n)
    C = np.asfortranarray(np.tril(rng.normal(size=(n, n))) / n + np.diag(np.logspace(0, -6, n)))
    B = np.asfortranarray(rng.normal(size=(n, k)))
    solved = B.copy(order="F")
    _nogil.substitute(C, solved)
    assert (np.abs(C @ solved - B) <= 4 * n * EPS * (np.abs(C) @ np.abs(solved))).all()


def test_substitution_refuses_what_it_cannot_write_to():
    """A pointer knows no shape: the shapes are checked before."""
    C = np.eye(4, order="F")
    for bad in (np.zeros((5, 2), order="F"), np.zeros((4, 2)), np.zeros((4, 2), "f4", order="F")):
        with pytest.raises(ValueError, match="Fortran"):
            _nogil.substitute(C, bad)


@pytest.mark.parametrize("p", [1, 7, 64, 65, 130])
def test_symmetric_sums_in_place(p):
    """Gram matrices add up in the corner of a larger matrix; the rest stays as it is."""
    rng = np.random.default_rng(p)
    whole, expected = np.zeros((p + 1, p + 1)), np.zeros((p, p))
    for k in (1, 3, 50, 0):
        block = rng.normal(size=(k, p))
        add_gram(block, whole[:p, :p])
        expected += block.T @ block
    mirror(whole)
    np.testing.assert_allclose(whole[:p, :p], expected, rtol=1e-13, atol=1e-13)
    assert not whole[p].any()
    assert not whole[:, p].any()
    u, v = rng.normal(size=(2, p))
    subtract_outer(whole[:p, :p], u, v)
    np.testing.assert_allclose(whole[:p, :p], expected - np.outer(u, v), rtol=1e-13, atol=1e-12)


def test_gram_sums_refuse_other_shapes():
    """A pointer knows no shape here either."""
    for bad in (np.zeros((4, 4)), np.zeros((3, 3), order="F").T[:, ::-1], np.zeros((3, 6))[:, ::2]):
        with pytest.raises(ValueError, match="rows of 3 doubles"):
            add_gram(np.ones((2, 3)), bad)


def test_small_matrices_get_one_thread():
    """And the setting is restored on the way out, also after an error."""
    before = blas_threads()
    with threads_for(10):
        assert blas_threads() == 1
    with pytest.raises(RuntimeError), threads_for(10):
        raise RuntimeError
    with threads_for(10**6):
        assert blas_threads() == before
    assert blas_threads() == before


def test_pieces_keep_their_threads_while_blas_has_one(monkeypatch):
    before, inside, both = blas_threads(), [], threading.Barrier(2)

    def work(_):
        inside.append((blas_threads(), piece_threads()))

    def together(piece):
        work(piece)
        both.wait(timeout=60)  # two pieces at once, or it breaks

    with pieces_alone(10):
        assert (blas_threads(), piece_threads()) == (1, before)
        with pieces_alone(10):  # also when asked twice
            assert piece_threads() == before
        run_pieces(together, range(4), 2)
        run_pieces(work, range(2), 1)
    assert inside == [(1, 1)] * 6  # pieces of pieces run one after the other
    with pytest.raises(RuntimeError), pieces_alone(10):
        raise RuntimeError
    with pieces_alone(10**6):
        assert (blas_threads(), piece_threads()) == (before, before)
    assert (blas_threads(), piece_threads()) == (before, before)
