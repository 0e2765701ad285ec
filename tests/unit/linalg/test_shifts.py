"""Systems with many shifts: the reduction in both orders, its refinement, and what is refused."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import holdfast.linalg.shifts as shifts
from holdfast.exceptions import KernelError
from holdfast.linalg import Accuracy, solve_shifted
from holdfast.linalg.shifts import ALIKE, CHOLESKY_UP_TO, Tridiagonal, _grows, reciprocal_shifts

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
    # Products of solutions with rows, in the coordinates of the reduction.
    rows = np.random.default_rng(3).standard_normal((4, p))
    solutions, inside = reduced.reduced_solutions(Z, ALPHAS), reduced.coordinates(rows)
    products = np.einsum("vap,kp->avk", solutions, inside)
    outside = np.einsum("apv,kp->avk", expected, rows)
    assert_allclose(products, outside, rtol=1e-7, atol=1e-9 * np.abs(outside).max())
    assert_array_equal(A, kept)


@pytest.mark.parametrize("up", [False, True])
def test_the_smallest_eigenvalue_from_above(up):
    for p in (1, 2, 12):
        A = graded(p, up)
        smallest = np.linalg.eigvalsh(A)[0]
        found = Tridiagonal.reduce(A).smallest(ALPHAS)
        assert (found >= (smallest + ALPHAS) * (1 - 1e-9)).all()
        assert (found <= 3.0 * (smallest + ALPHAS)).all()
        assert_allclose(np.diff(found), np.diff(ALPHAS))


def test_the_smallest_eigenvalue_of_a_direction_hidden_from_the_start():
    """Its eigenvector is nearly orthogonal to where inverse steps begin."""
    start = np.random.default_rng(0).standard_normal((400, 1))[:, 0]
    diagonal = np.full(400, 1e-3)
    diagonal[np.abs(start).argmin()] = 1e-5
    found = Tridiagonal.reduce(np.diag(diagonal)).smallest(np.array([0.0, 1.0]))
    assert_allclose(found, [1e-5, 1.0 + 1e-5], rtol=1e-3)


def test_shifts_before_the_first_that_is_definite():
    A = np.diag([3.0, -1.0, 2.0])
    found = Tridiagonal.reduce(A).smallest(np.array([0.5, 1.0, 1.5, 4.0]))
    assert_array_equal(found[:2], -np.inf)
    assert_allclose(found[2:], [0.5, 3.0], rtol=0.25)
    with pytest.raises(KernelError, match=r"3 x 3 system .* at alpha = 0.5 "):
        Tridiagonal.reduce(A).solve(np.ones((3, 1)), np.array([4.0, 0.5, 2.0]))


@pytest.mark.parametrize("n_alphas", [CHOLESKY_UP_TO, CHOLESKY_UP_TO + 1])
@pytest.mark.parametrize("refine", [False, True])
def test_only_the_shifts_that_lack_digits_have_no_answer(n_alphas, refine):
    A, Z = np.diag([1.0, 1e-5, 1.0]), np.array([[1.0], [2.0], [3.0]])
    alphas = np.array([1e-7, 1e-6, 1e-2, 1.0, 2.0])[-n_alphas:]
    accuracy = Accuracy(np.ones(3), 1e-3, refine)
    expected = np.array([Z / (np.diag(A)[:, None] + alpha) for alpha in alphas])
    lost = alphas + 1e-5 < 1e-3 * (1.0 + alphas)
    found = solve_shifted(A, Z, alphas, accuracy)
    assert_array_equal(np.isnan(found).any(axis=(1, 2)), lost)
    assert_array_equal(np.isnan(found).all(axis=(1, 2)), lost)
    assert_allclose(found[~lost], expected[~lost], rtol=1e-9)
    assert lost.any()
    assert not lost.all()


@pytest.mark.parametrize("n_alphas", [CHOLESKY_UP_TO, CHOLESKY_UP_TO + 1])
def test_a_matrix_that_is_not_definite(n_alphas):
    A, Z = np.diag([1.0, -0.5, 1.0]), np.ones((3, 1))
    alphas = np.linspace(0.1, 1.0, n_alphas)
    with pytest.raises(KernelError):
        solve_shifted(A, Z, alphas)
    with pytest.raises(KernelError):
        solve_shifted(A, Z, alphas, Accuracy(np.zeros(3), refine=True))
    found = solve_shifted(A, Z, np.array([1.0, 2.0]), Accuracy(np.zeros(3), definite=False))
    assert_allclose(found, direct(A, Z, [1.0, 2.0]))


def test_rounding_errors_larger_than_the_shift_are_no_obstacle():
    V = np.linalg.qr(np.random.default_rng(0).standard_normal((8, 8)))[0]
    Lambda = np.r_[1.0, 0.5, np.zeros(5), -1e-15]
    A = (V * Lambda) @ V.T
    A, Z = (A + A.T) / 2, (V[:, :2] @ [1.0, 2.0])[:, None]
    found = solve_shifted(A, Z, np.array([1e-17]), Accuracy(np.zeros(8), refine=True))
    assert_allclose(A @ found[0], Z, atol=1e-9)
    with pytest.raises(KernelError):
        solve_shifted(A, Z, np.array([1e-17]))
    worse = A - 1e-10 * np.outer(V[:, 7], V[:, 7])
    with pytest.raises(KernelError):
        solve_shifted(worse, Z, np.array([1e-17]), Accuracy(np.zeros(8), refine=True))


def test_which_way_a_system_goes(monkeypatch):
    """A reduction for many shifts, unless columns are unlike or sides are many."""
    went = []
    real = shifts._by_reduction
    monkeypatch.setattr(shifts, "_by_reduction", lambda *a: went.append(1) or real(*a))
    rng = np.random.default_rng(4)
    B = rng.standard_normal((24, 24))
    A = B @ B.T

    def way(n_alphas, accuracy, v=1):
        went.clear()
        alphas, Z = np.linspace(1.0, 2.0, n_alphas), rng.standard_normal((24, v))
        assert_allclose(solve_shifted(A, Z, alphas, accuracy), direct(A, Z, alphas), rtol=1e-8)
        return bool(went)

    assert not way(CHOLESKY_UP_TO, None)
    assert way(CHOLESKY_UP_TO + 1, None)
    exact = Accuracy(np.zeros(24), refine=True)
    assert way(CHOLESKY_UP_TO + 1, exact)
    assert not way(CHOLESKY_UP_TO + 1, exact, v=2)  # a twelfth of the rows
    assert way(CHOLESKY_UP_TO + 1, None, v=2)
    far = np.r_[np.zeros(23), ALIKE - 1.0]
    assert way(CHOLESKY_UP_TO + 1, Accuracy(far))
    assert not way(CHOLESKY_UP_TO + 1, Accuracy(far * 1.01))
    assert way(CHOLESKY_UP_TO + 1, Accuracy(far * 1.01, refine=True))


def test_a_second_step_where_the_first_changed_much():
    A = graded(6, up=False)
    Z = np.ones((6, 1))
    reduced = Tridiagonal.reduce(A)
    steps = []

    class Counted:
        def refine(self, A, Z, alphas, x):
            steps.append(alphas.tolist())
            return reduced.refine(A, Z, alphas, x)

    exact = direct(A, Z, ALPHAS)
    wrong = exact.copy()
    wrong[1] *= 1.0 + 1e-7
    wrong[3] *= 1.0 + 1e-10
    found = shifts._refined(Counted(), A, Z, ALPHAS, wrong)
    assert steps == [ALPHAS.tolist(), [0.5]]
    assert_allclose(found, exact, rtol=1e-9)


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


def test_a_weak_direction_that_shows_in_no_pivot():
    """Kahan's matrix: all pivots are alike, and their product shrinks one direction."""
    p, c = 30, 0.6
    R = np.eye(p) - c * np.triu(np.ones((p, p)), 1)
    A = R.T @ R
    scale = 10.0 ** np.linspace(-3, 3, p)  # in whatever units the columns are
    rhs = np.ones((p, 1))
    pivots = np.square(np.diag(np.linalg.cholesky(A)))
    size = np.diag(A)
    floor = 0.5 * float((pivots / size).min())
    weakest = float(np.linalg.eigvalsh(A / np.sqrt(size * size[:, None]))[0])
    assert weakest < 1e-6 * floor
    for units in (np.ones(p), scale):
        made, known = A * units * units[:, None], Accuracy(size * units**2, floor)
        assert np.isnan(solve_shifted(made, rhs, np.array([1e-12]), known)).all()
        # Where rounding errors are smaller than that direction, the system is solved.
        exact = Accuracy(size * units**2, weakest)
        assert np.isfinite(solve_shifted(made, rhs, np.array([1e-12]), exact)).all()
