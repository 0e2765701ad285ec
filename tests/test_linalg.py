"""The numeric ground against plain NumPy, with awkward sizes and conditions."""

import mpmath
import numpy as np
import pytest
from scipy.linalg import cho_factor, cho_solve

from holdfast.exceptions import InvalidInputError, KernelError, SingularBasisError
from holdfast.linalg import (
    Complement,
    Deflation,
    Spectrum,
    Tridiagonal,
    Whitening,
    cholesky_basis,
    eigh,
    orthonormal_rows,
    whiten,
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
    W = whiten(K, C)
    np.testing.assert_allclose(W, expected, rtol=1e-9, atol=1e-12)
    assert np.array_equal(K, kept)
    out = np.empty_like(K)
    assert whiten(K, C, out=out) is out
    assert np.array_equal(K, kept)
    np.testing.assert_array_equal(out, W)
    assert whiten(K, C, out=K) is K
    np.testing.assert_array_equal(K, W)


def test_whiten_refuses_an_output_it_would_have_to_copy():
    C = cholesky_basis(np.eye(4), 0.0)
    with pytest.raises(InvalidInputError, match="C-ordered"):
        whiten(np.ones((3, 4)), C, out=np.empty((4, 3)).T)


@pytest.mark.parametrize("cond", [1e4, 1e8, 1e12])
def test_the_inverse_is_as_accurate_as_substitution(cond):
    K_BB = spd(80, 7, cond)
    C = cholesky_basis(K_BB, 0.0)
    # Rows of the kernel itself: the answer K_BB C⁻ᵀ = C is known, errors scale with cond(C).
    by_inverse = Whitening.prepare(C, 10**6)
    by_solve = Whitening.prepare(C, 0)
    assert by_inverse.inverted
    assert not by_solve.inverted
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
    p = 30
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
