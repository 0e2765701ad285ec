"""Systems with many shifts: the reduction in both orders, its refinement, and what is refused."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from holdfast.exceptions import KernelError
from holdfast.linalg import solve_shifted
from holdfast.linalg.shifts import (
    ALIKE,
    CHOLESKY_UP_TO,
    Tridiagonal,
    _grows,
    reciprocal_shifts,
    solve_with_looks,
)

ALPHAS = np.array([0.1, 0.5, 2.0, 10.0, 40.0])


def graded(p, up):
    rng = np.random.default_rng(p)
    scale = np.geomspace(1.0, 1e3, p)
    B = rng.standard_normal((p, p)) * (scale if up else scale[::-1])
    return B.T @ B


def direct(A, Z, alphas):
    return np.array([np.linalg.solve(A + alpha * np.eye(len(A)), Z) for alpha in alphas])


@pytest.mark.parametrize(
    ("diagonal", "grows"),
    [
        ([1.0, 1.0, 1.0, 10.0], False),
        ([1.0, 1.0, 1.0, 10.5], True),
        ([1.0, 100.0, 1.0, 1.0, 11.0], False),  # a quarter of five is two
        ([1.0, 1.0, 1.0, 1.0, 20.0], True),
        ([-1.0, 1.0, 1.0, -15.0, -6.0], True),
        ([11.0, 1.0, 1.0, 1.0], False),
        ([3.0], False),
    ],
)
def test_a_diagonal_that_grows(diagonal, grows):
    assert _grows(np.array(diagonal)) is grows


@pytest.mark.parametrize("up", [False, True])
@pytest.mark.parametrize("p", [1, 2, 3, 9, 30])
def test_reduction_and_refinement(p, up):
    A, Z = graded(p, up), np.random.default_rng(1).standard_normal((p, 2))
    kept = A.copy()
    reduced = Tridiagonal.reduce(A)
    assert reduced.flipped is (up and p > 2) or p < 4
    expected = direct(A, Z, ALPHAS)
    found = reduced.solve(Z, ALPHAS)
    size = np.abs(expected).max(axis=1, keepdims=True)
    assert (np.abs(found - expected) < 1e-10 * size).all()
    # A step takes nearly all of an error away, whatever the order of the coordinates.
    wrong = found + 1e-3 * size * np.random.default_rng(2).standard_normal(found.shape)
    assert (np.abs(reduced.refine(A, Z, ALPHAS, wrong) - expected) < 1e-9 * size).all()
    # L⁻ᵀ with LLᵀ = A + α: its square is the inverse.
    half = reduced.random_solutions(np.eye(p), float(ALPHAS[-1]))
    assert_allclose(half @ half.T @ (A + ALPHAS[-1] * np.eye(p)), np.eye(p), atol=1e-8)
    assert_array_equal(A, kept)


@pytest.mark.parametrize("n_alphas", [CHOLESKY_UP_TO, CHOLESKY_UP_TO + 1])
def test_a_matrix_that_is_not_definite(n_alphas):
    A, Z = np.diag([1.0, -0.5, 1.0]), np.ones((3, 1))
    alphas = np.linspace(0.1, 1.0, n_alphas)
    with pytest.raises(KernelError):
        solve_shifted(A, Z, alphas)
    found = solve_shifted(A, Z, np.array([1.0, 2.0]), definite=False)
    assert_allclose(found, direct(A, Z, [1.0, 2.0]))


def test_shifts_of_a_spectrum():
    Lambda, mask = np.array([2.0, 0.0, 1.0]), np.array([1.0, 1.0, 0.0])
    found = reciprocal_shifts(Lambda, np.array([0.5, 4.0]), mask)
    assert_allclose(found, [[1 / 2.5, 2.0, 1.0], [1 / 6.0, 1 / 4.0, 1.0]])
    indefinite = np.array([2.0, -1.0])
    assert_allclose(reciprocal_shifts(indefinite, np.array([0.5]), np.ones(2)), [[0.4, -2.0]])
    with pytest.raises(KernelError, match="eigenvalue at −1,"):
        reciprocal_shifts(indefinite, np.array([3.0, 1.0]), np.ones(2))
    # Zero is no negative eigenvalue: the penalty keeps it away.
    assert reciprocal_shifts(np.array([1e12, 0.0]), np.array([1e-3]), np.ones(2))[0, 1] == 1e3
    # What counts as singular is relative to the largest.
    close = np.array([3.0, -1.0 + 1e-9])
    assert reciprocal_shifts(close, np.array([1.0]), np.ones(2))[0, 1] == pytest.approx(1e9)
    with pytest.raises(KernelError):
        reciprocal_shifts(np.array([3.0, -1.0 + 1e-11]), np.array([1.0]), np.ones(2))


def test_rounding_errors_larger_than_the_shift_are_no_obstacle():
    V = np.linalg.qr(np.random.default_rng(0).standard_normal((8, 8)))[0]
    Lambda = np.r_[1.0, 0.5, np.zeros(5), -1e-15]
    A = (V * Lambda) @ V.T
    A, Z = (A + A.T) / 2, (V[:, :2] @ [1.0, 2.0])[:, None]
    found = solve_shifted(A, Z, np.array([1e-17]))
    assert_allclose(A @ found[0], Z, atol=1e-9)
    with pytest.raises(KernelError):
        solve_shifted(A - 1e-10 * np.outer(V[:, 7], V[:, 7]), Z, np.array([1e-17]))


@pytest.mark.parametrize("unlike", [1.0, 10.0 * ALIKE], ids=["one unit", "many units"])
@pytest.mark.parametrize("n_alphas", [CHOLESKY_UP_TO, CHOLESKY_UP_TO + 3])
@pytest.mark.parametrize("v", [1, 3])
def test_looks_stand_for_the_shifts_above_them(n_alphas, v, unlike):
    """A reduction gives them at two shifts, factorisations at each."""
    rng = np.random.default_rng(4)
    units = np.append(np.ones(29), np.sqrt(unlike))
    B = rng.standard_normal((40, 30)) * units
    A, Z, looks = B.T @ B, rng.standard_normal((30, v)), rng.standard_normal((30, 2))
    alphas = np.geomspace(0.1, 10.0, n_alphas)
    x, y, owner = solve_with_looks(A, Z, looks, alphas)
    assert_allclose(x, direct(A, Z, alphas), rtol=1e-8, atol=1e-12)
    assert_allclose(solve_shifted(A, Z, alphas), x, rtol=1e-11, atol=1e-14)
    assert (owner.shape, np.unique(owner).size) == ((n_alphas,), len(y))
    firsts = np.array([np.flatnonzero(owner == k)[0] for k in range(len(y))])
    assert_allclose(y, direct(A, looks, alphas[firsts]), rtol=1e-6, atol=1e-10)


def test_random_solutions_have_the_covariance_of_the_inverse():
    A = graded(5, up=True)
    n = np.random.default_rng(6).standard_normal((5, 20_000))
    found = Tridiagonal.reduce(A).random_solutions(n, 0.5)
    expected = np.linalg.inv(A + 0.5 * np.eye(5))
    size = np.sqrt(np.diag(expected))
    unit = np.outer(size, size)
    assert_allclose(np.cov(found) / unit, expected / unit, atol=0.05)
    with pytest.raises(KernelError):
        Tridiagonal.reduce(-A).random_solutions(n, 0.5)


@pytest.mark.parametrize("least", [-1.0, -1e-3, 0.5])
def test_shifts_that_leave_a_matrix_indefinite(least):
    V = np.linalg.qr(np.random.default_rng(3).normal(size=(6, 6)))[0]
    A = V @ np.diag([least, 1.0, 2.0, 2.0, 3.0, 9.0]) @ V.T
    alphas = np.array([1e-4, 1e-2, 0.9, 1.1, 3.0])
    found = Tridiagonal.reduce(A).definite_from(alphas)
    assert found == np.count_nonzero(alphas + least < 0.0)
    assert Tridiagonal.reduce(A - 5.0 * np.eye(6)).definite_from(alphas) == alphas.size
