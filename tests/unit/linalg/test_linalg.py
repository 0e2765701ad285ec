"""The numeric ground against plain NumPy, with awkward sizes and conditions."""

import sys
import threading
import time

import mpmath
import numpy as np
import pytest
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.lapack import dtrtri

from holdfast.exceptions import (
    HoldOutError,
    InvalidInputError,
    KernelError,
    SingularBasisError,
)
from holdfast.linalg import (
    Complement,
    Deflation,
    HeldOutRows,
    Spectrum,
    Tridiagonal,
    Whitening,
    _nogil,
    add_gram,
    blas_threads,
    cholesky_basis,
    eigh,
    mirror,
    orthonormal_rows,
    run_pieces,
    solve_cg,
    solve_direct,
    subtract_outer,
    threads_for,
)

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
    whitening = Whitening(C, inverted=False)
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
        Whitening(C, inverted=False).rows(np.ones((3, 4)), out=np.empty((4, 3)).T)


@pytest.mark.parametrize("cond", [1e4, 1e8, 1e12])
def test_the_inverse_is_as_accurate_as_substitution(cond):
    K_BB = spd(80, 7, cond)
    C = cholesky_basis(K_BB, 0.0)
    # Rows of the kernel itself: the answer K_BB C⁻ᵀ = C is known, errors scale with cond(C).
    by_inverse = Whitening(dtrtri(C, lower=1)[0], inverted=True)
    by_solve = Whitening(C, inverted=False)
    exact = C.astype(np.longdouble)
    K = (exact @ exact.T).astype(np.float64)
    errors = [np.abs(w.rows(K) - C).max() for w in (by_inverse, by_solve)]
    assert errors[0] <= 4 * max(errors[1], np.sqrt(cond) * EPS)


# --- deflation ----------------------------------------------------------------------------------


def _unit_vectors():
    rng = np.random.default_rng(8)
    yield np.array([1.0])
    yield np.array([-1.0])
    yield np.array([0.0, 1.0])
    yield np.array([-0.6, 0.8])
    yield np.array([0.0, 0.0, 0.0, -1.0, 0.0])
    yield np.full(50, 50**-0.5)
    sparse = np.where(rng.random(600) < 0.5, rng.random(600), 0.0)
    yield sparse / np.linalg.norm(sparse)


@pytest.mark.parametrize("q", list(_unit_vectors()), ids=lambda q: f"m{len(q)}")
def test_deflation_against_the_explicit_matrix(q):
    m = len(q)
    d = Deflation(q)
    Z = d.lift(np.eye(m - 1))
    assert Z.shape == (m, m - 1)
    np.testing.assert_allclose(Z.T @ Z, np.eye(m - 1), atol=10 * EPS)
    np.testing.assert_allclose(q @ Z, 0.0, atol=10 * EPS)
    K = spd(m, 9)
    kept = K.copy()
    reduced = d.symmetric(K)
    np.testing.assert_allclose(reduced, Z.T @ K @ Z, atol=30 * EPS)
    assert np.array_equal(reduced, reduced.T)
    assert np.array_equal(K, kept)
    lifted = d.lift_symmetric(reduced)
    np.testing.assert_allclose(lifted, Z @ reduced @ Z.T, atol=30 * EPS)
    assert np.array_equal(lifted, lifted.T)
    Y = np.random.default_rng(10).standard_normal((m, 3))
    np.testing.assert_allclose(d.project(Y), Z.T @ Y, atol=1e-13)
    stack = np.stack([Y, 2 * Y])
    np.testing.assert_allclose(d.project(stack)[1], 2 * d.project(Y), atol=1e-13)
    np.testing.assert_allclose(d.lift(d.project(stack))[1], 2 * Z @ (Z.T @ Y), atol=1e-13)


@pytest.mark.parametrize("q", [np.zeros(3), np.ones(3), np.array([np.nan, 1.0]), np.zeros(0)])
def test_deflation_needs_a_unit_vector(q):
    with pytest.raises(InvalidInputError):
        Deflation(q)


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


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("v", [1, 3])
@pytest.mark.parametrize("p", [1, 2, 3, 40])
@pytest.mark.parametrize("kind", [Tridiagonal, Spectrum])
def test_shifts_against_one_solve_per_alpha(kind, p, v, order):
    A = np.array(spd(p, p), order=order)
    Z = np.random.default_rng(v).standard_normal((p, v))
    kept = A.copy(), Z.copy()
    x = kind.reduce(A).solve(Z, ALPHAS)
    assert x.shape == (len(ALPHAS), p, v)
    assert np.array_equal(A, kept[0])
    assert np.array_equal(Z, kept[1])
    for alpha, solution in zip(ALPHAS, x, strict=True):
        expected = np.linalg.solve(A + alpha * np.eye(p), Z)
        np.testing.assert_allclose(solution, expected, atol=1e-11 * np.abs(expected).max())


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", [Tridiagonal, Spectrum])
def test_shifts_in_place(kind, order):
    A = np.array(spd(30, 4), order=order)
    kept = A.copy()
    reduced = kind.reduce(A, overwrite=True)
    assert np.shares_memory(A, reduced.reflectors if kind is Tridiagonal else reduced.V)
    Z = np.ones((30, 1))
    expected = np.linalg.solve(kept + np.eye(30), Z)
    for _ in range(2):  # solving leaves the reduction as it was
        np.testing.assert_allclose(reduced.solve(Z, np.ones(1))[0], expected, rtol=1e-11)


@pytest.mark.parametrize("kind", [Tridiagonal, Spectrum])
def test_shifts_of_nothing(kind):
    assert kind.reduce(np.zeros((0, 0))).solve(np.zeros((0, 2)), ALPHAS).shape == (5, 0, 2)
    assert kind.reduce(np.eye(3)).solve(np.zeros((3, 2)), np.zeros(0)).shape == (0, 3, 2)
    assert kind.reduce(np.eye(3)).solve(np.zeros((3, 0)), ALPHAS).shape == (5, 3, 0)


@pytest.mark.parametrize("kind", [Tridiagonal, Spectrum])
def test_an_indefinite_system_is_an_error_that_names_alpha(kind):
    A = spd(12, 6) - 0.5 * np.eye(12)
    reduced = kind.reduce(A)
    with pytest.raises(KernelError, match=r"12 x 12 .* alpha = 0\.25 .*larger alpha"):
        reduced.solve(np.ones((12, 1)), np.array([1.0, 0.25]))
    x = reduced.solve(np.ones((12, 1)), np.array([1.0]))[0]
    np.testing.assert_allclose((A + np.eye(12)) @ x, 1.0, atol=1e-12)


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
                "eigh": Spectrum.reduce(A).solve(Z, np.array([alpha]))[0],
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


# --- held-out residuals -------------------------------------------------------------------------


def _held_out_problem(m, p, b, h, e, v, alphas, seed, bias=False):
    """Return rows in spectral coordinates, indices, constraints, D and right-hand sides."""
    rng = np.random.default_rng(seed)
    U = rng.standard_normal((m, p - bias)) * np.geomspace(1.0, 1e-2, p - bias)
    if bias:
        U -= U.mean(axis=0)
    Lambda, V = np.linalg.eigh(U.T @ U)
    U, penalised = U @ V, np.ones(p)
    if bias:
        U = np.hstack([U, np.full((m, 1), m**-0.5)])
        Lambda, penalised[-1] = np.append(Lambda, 1.0), 0.0
    rows = np.stack([rng.choice(m, h, replace=False) for _ in range(b)])
    O = np.stack([np.linalg.qr(rng.standard_normal((p, e)))[0] for _ in range(b)])  # noqa: E741
    D = 1.0 / (Lambda + np.asarray(alphas)[:, None] * penalised)
    return U, rows, O, D, rng.standard_normal((len(alphas), b, h, v))


def _held_out_naive(U, rows, O, D, E, dual):  # noqa: E741
    R = np.empty_like(E)
    for a, d in enumerate(D):
        for b, row in enumerate(rows):
            M = np.diag(d)
            if O.shape[2]:
                DO = M @ O[b]
                M = M - DO @ np.linalg.inv(O[b].T @ DO) @ DO.T
            S = U[row] @ M @ U[row].T
            R[a, b] = np.linalg.solve(S if dual else np.eye(len(row)) - S, E[a, b])
    return R


SETS = [
    # m, p, b, h, e, v
    (60, 12, 60, 1, 0, 1),
    (60, 12, 60, 1, 1, 2),
    (80, 1, 5, 3, 0, 1),
    (80, 9, 6, 2, 1, 3),
    (200, 30, 7, 10, 2, 1),
    (200, 30, 5, 25, 0, 2),
    (200, 30, 5, 40, 3, 2),
    (200, 30, 1, 20, 29, 1),
]


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("n_alphas", [1, 6])
@pytest.mark.parametrize("sizes", SETS, ids=lambda s: "-".join(map(str, s)))
def test_held_out_residuals_against_explicit_matrices(sizes, n_alphas, bias):
    m, p, b, h, e, v = sizes
    alphas = np.geomspace(1e-12, 1e8, n_alphas)
    U, rows, O, D, E = _held_out_problem(m, p + bias, b, h, e, v, alphas, 21, bias)  # noqa: E741
    kept = [array.copy() for array in (U, rows, O, D, E)]
    expected = _held_out_naive(U, rows, O, D, E, dual=False)
    for held in (HeldOutRows(U, rows, O), HeldOutRows(U[rows], None, O)):
        for n_threads in (1, 2):
            direct = solve_direct(held, D, E, n_threads=n_threads)
            np.testing.assert_allclose(direct, expected, rtol=1e-9, atol=1e-10)
            R, converged = solve_cg(held, D, E, max_steps=100, n_threads=n_threads)
            assert converged.shape == (n_alphas, b)
            assert converged.all()
            np.testing.assert_allclose(R, expected, rtol=1e-9, atol=1e-10)
    for array, before in zip((U, rows, O, D, E), kept, strict=True):
        assert np.array_equal(array, before)


@pytest.mark.parametrize("h", [1, 5, 40])
def test_held_out_residuals_in_the_dual_form(h):
    rng = np.random.default_rng(23)
    Lambda, V = np.linalg.eigh(spd(80, 24, 1e4))
    alphas = np.array([1e-2, 1.0])
    D = alphas[:, None] / (Lambda + alphas[:, None])
    rows = np.stack([rng.choice(80, h, replace=False) for _ in range(3)])
    E = rng.standard_normal((2, 3, h, 2))
    expected = _held_out_naive(V, rows, np.zeros((3, 80, 0)), D, E, dual=True)
    held = HeldOutRows(V, rows, dual=True)
    np.testing.assert_allclose(solve_direct(held, D, E), expected, rtol=1e-10, atol=1e-11)
    R, converged = solve_cg(held, D, E, max_steps=200)
    assert converged.all()
    np.testing.assert_allclose(R, expected, rtol=1e-9, atol=1e-10)


def test_cg_says_which_systems_it_did_not_solve():
    # Twenty rows of set 1 carry twenty coordinates almost alone: leverages of nearly 1.
    alphas = np.array([1e-9, 10.0])
    rng = np.random.default_rng(25)
    U = rng.standard_normal((3000, 60))
    U[7:27, :20] += 3e4 * rng.standard_normal((20, 20))
    Lambda, V = np.linalg.eigh(U.T @ U)
    U = U @ V
    D = 1.0 / (Lambda + alphas[:, None])
    rows = np.stack([np.arange(100, 130), np.arange(30)])
    E = rng.standard_normal((2, 2, 30, 1))
    R, converged = solve_cg(HeldOutRows(U, rows), D, E, max_steps=12)
    assert converged[:, 0].all()
    assert not converged[0, 1]
    expected = _held_out_naive(U, rows, np.zeros((2, 60, 0)), D, E, dual=False)
    np.testing.assert_allclose(R[:, 0], expected[:, 0], rtol=1e-9, atol=1e-11)
    unsolved = np.flatnonzero(~converged.all(axis=0))
    assert np.array_equal(unsolved, [1])
    for held in (HeldOutRows(U, rows), HeldOutRows(U[rows])):
        R = solve_direct(held.take(unsolved), D, E[:, unsolved])
        assert R.shape == (2, 1, 30, 1)
        # The leverages leave about half of the digits.
        error = np.abs(R - expected[:, unsolved]).max() / np.abs(expected[:, unsolved]).max()
        assert error < 1e-5


def test_cg_of_zero_and_of_values_that_are_not_finite():
    U, rows, O, D, E = _held_out_problem(90, 10, 3, 4, 0, 1, [1e-3, 1.0], 26)  # noqa: E741
    E[0, 0] = 0.0
    E[1, 2, 1] = np.nan
    with np.errstate(invalid="ignore"):
        R, converged = solve_cg(HeldOutRows(U, rows, O), D, E)
    assert np.array_equal(R[0, 0], np.zeros((4, 1)))
    assert np.array_equal(converged, [[True, True, True], [True, True, False]])


@pytest.mark.parametrize("h", [1, 4, 20])
def test_a_leverage_of_one_is_an_error(h):
    # Row 0 is the only one to see coordinate 0, which is not penalised.
    U, rows, O, D, E = _held_out_problem(90, 10, 3, h, 0, 1, [1.0], 27)  # noqa: E741
    U[:, 0] = 0.0
    U[0, 0] = 1.0
    D[:, 0] = 1.0
    rows[:, 0], rows[:, 1:] = 50, np.arange(51, 50 + h)
    rows[2, 0] = 0
    with pytest.raises(HoldOutError, match=f"{h} rows.*larger alphas"):
        solve_direct(HeldOutRows(U, rows, O), D, E)
    _, converged = solve_cg(HeldOutRows(U, rows, O), D, E)
    assert np.array_equal(converged, [[True, True, False]])


def test_no_sets_and_no_rows():
    D = np.ones((2, 5))
    for b, h in ((0, 3), (4, 0)):
        held = HeldOutRows(np.zeros((10, 5)), np.zeros((b, h), dtype=np.int64))
        E = np.zeros((2, b, h, 1))
        assert solve_direct(held, D, E).shape == E.shape
        R, converged = solve_cg(held, D, E)
        assert R.shape == E.shape
        assert converged.all()


# --- routines called by pointer -------------------------------------------------------------------


def test_wrong_shapes_and_types_never_reach_a_pointer():
    A, B = np.eye(4, order="F"), np.ones((4, 1))
    for call in (
        lambda: _nogil.dsytrd(np.ones((4, 3), order="F")),
        lambda: _nogil.dsytrd(np.eye(4, dtype=np.float32)),
        lambda: _nogil.dsytrd(np.arange(16.0).reshape(4, 4)),
        lambda: _nogil.dsyevd(np.ones((4, 3), order="F")),
        lambda: _nogil.dposv(np.eye(3), B),
        lambda: _nogil.dpttrf(np.ones(4), np.ones(4)),
        lambda: _nogil.dpttrs(np.ones(4), np.ones(2), B),
        lambda: _nogil.substitute(np.eye(3), B),
        lambda: _nogil.triangular_product(np.eye(3), B),
    ):
        with pytest.raises(ValueError, match="needs Fortran-ordered float64 of shape"):
            call()
    A.flags.writeable = False
    with pytest.raises(ValueError, match="may be overwritten"):
        _nogil.dsytrd(A)
    for reduce in (eigh, Tridiagonal.reduce, Spectrum.reduce):
        with pytest.raises(InvalidInputError, match="square"):
            reduce(np.ones((4, 3)))
    C = cholesky_basis(np.eye(4), 0.0)
    with pytest.raises(ValueError, match="shape"):
        Whitening(C, inverted=False).rows(np.ones((2, 3)))


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
