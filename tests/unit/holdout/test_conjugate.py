"""Held-out residuals by conjugate gradients against explicit matrices, and what they admit."""

import numpy as np
import pytest

import holdfast.holdout.conjugate as conjugate
import holdfast.linalg.threads
import holdfast.smoother.held
from holdfast.holdout.conjugate import _rows_at_once, solve_cg
from holdfast.smoother import HeldCoordinates
from reference import held as twin

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


def held_rows(given):
    return HeldCoordinates(
        V=given.U[given.H],
        out=given.U[given.T],
        D=given.D,
        R=given.D,
        O=given.O if given.O.shape[2] else None,
        z=given.U.T @ given.y,
        Y=given.y[given.H],
        kappa=1.0,
        unit=np.ones(len(given.D)),
        length=np.ones((len(given.D), given.y.shape[1])),
        formed=np.zeros(len(given.D)),
    )


def right_sides(given, seed=0):
    shape = len(given.alphas), *given.H.shape, given.y.shape[1]
    return np.random.default_rng(seed).standard_normal(shape)


@pytest.fixture(params=[1, 2], ids=["one thread", "two threads"])
def n_threads(request, monkeypatch):
    """Run the pieces on one thread or two."""
    monkeypatch.setattr(holdfast.linalg.threads, "blas_threads", lambda: request.param)


@pytest.mark.usefixtures("n_threads")
@pytest.mark.parametrize("piece", [1, 2**16], ids=["a set at a time", "all sets at once"])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("n_alphas", [1, 6])
@pytest.mark.parametrize("sizes", SETS, ids=lambda s: "-".join(map(str, s)))
def test_residuals_against_explicit_matrices(monkeypatch, sizes, n_alphas, bias, piece):
    monkeypatch.setattr(holdfast.smoother.held, "PIECE_DOUBLES", piece)
    m, p, b, h, e, v = sizes
    given = twin.problem(m, p + bias, b, h, e, v, np.geomspace(1e-12, 1e8, n_alphas), 21, bias)
    held, E = held_rows(given), right_sides(given)
    kept = [array.copy() for array in (held.V, held.D, given.O, E)]
    expected = twin.residuals(given, E)
    r, converged = solve_cg(held, np.arange(n_alphas), E, max_steps=100)
    assert converged.shape == (n_alphas, b)
    assert converged.all()
    np.testing.assert_allclose(r, expected, rtol=1e-9, atol=1e-10)
    for array, before in zip((held.V, held.D, given.O, E), kept, strict=True):
        assert np.array_equal(array, before)


@pytest.mark.parametrize("e", [0, 2])
def test_some_of_the_penalties(e):
    given = twin.problem(200, 30, 4, 25, e, 2, np.geomspace(1e-3, 1e3, 7), 22)
    held, E, chosen = held_rows(given), right_sides(given), np.array([5, 0, 2])
    r, converged = solve_cg(held, chosen, E[chosen], max_steps=100)
    assert converged.shape == (3, 4)
    assert converged.all()
    np.testing.assert_allclose(r, twin.residuals(given, E)[chosen], rtol=1e-9, atol=1e-10)


def test_penalties_that_are_done_leave_the_iteration(monkeypatch):
    """Large penalties need few steps, and are not carried along."""
    given = twin.problem(300, 30, 3, 40, 0, 1, np.geomspace(1e-6, 1e6, 9), 24)
    seen, operator = [], conjugate._Operator
    restricted = operator.restricted

    def counted(self, alphas):
        seen.append(len(alphas))
        return restricted(self, alphas)

    monkeypatch.setattr(operator, "restricted", counted)
    E = right_sides(given)
    r, converged = solve_cg(held_rows(given), np.arange(9), E, max_steps=100)
    assert converged.all()
    assert seen == sorted(seen, reverse=True)
    assert min(seen) < 9
    np.testing.assert_allclose(r, twin.residuals(given, E), rtol=1e-9, atol=1e-10)


def test_sets_that_are_done_leave_the_iteration(monkeypatch):
    """One set in twelve needs many more steps than the others, which are not carried along."""
    given = twin.problem(600, 30, 12, 30, 0, 1, np.geomspace(1e-3, 1e3, 6), 43)
    U = given.U.copy()
    U[given.H[7, :5]] *= 8.0
    Lambda, T = np.linalg.eigh(U.T @ U)
    given = given._replace(U=U @ T, Lambda=Lambda)
    seen, operator = [], conjugate._Operator
    among = operator.among

    def counted(self, sets):
        seen.append(sets.tolist())
        return among(self, sets)

    monkeypatch.setattr(operator, "among", counted)
    E = right_sides(given)
    r, converged = solve_cg(held_rows(given), np.arange(6), E, max_steps=100)
    assert converged.all()
    assert seen
    assert 7 in seen[0]
    assert len(seen[0]) < 8
    np.testing.assert_allclose(r, twin.residuals(given, E), rtol=1e-9, atol=1e-10)


# -- what is not solved is said --------------------------------------------------------------------


def test_few_steps_are_not_enough_and_it_says_so():
    """A mutation that takes every answer for good is caught here: the numbers are wrong."""
    given = twin.problem(200, 30, 5, 40, 0, 2, np.array([1e-3, 1e-2]), 30)
    held, E = held_rows(given), right_sides(given)
    expected = twin.residuals(given, E)
    r, converged = solve_cg(held, np.arange(2), E, max_steps=3)
    assert not converged.any()
    off = np.abs(r - expected).max(axis=(2, 3)) / np.abs(expected).max(axis=(2, 3))
    assert off.min() > 1e-6  # so it would have been wrong to say that they are
    r, converged = solve_cg(held, np.arange(2), E, max_steps=100)
    assert converged.all()
    np.testing.assert_allclose(r, expected, rtol=1e-9, atol=1e-10)


def test_no_system_is_called_solved_that_is_not():
    """Whatever the number of steps: converged means right to many digits."""
    given = twin.problem(200, 30, 5, 40, 1, 2, np.geomspace(1e-6, 1e2, 5), 31, bias=True)
    held, E = held_rows(given), right_sides(given)
    expected = twin.residuals(given, E)
    shares = []
    for steps in range(1, 45, 4):
        r, converged = solve_cg(held, np.arange(5), E, max_steps=steps)
        off = np.abs(r - expected).max(axis=(2, 3)) / np.abs(expected).max(axis=(2, 3))
        assert (off[converged] < 1e-10).all()
        shares.append(converged.mean())
    assert shares[0] == 0.0
    assert len(set(shares)) > 2  # some sooner than others
    assert shares[-1] == 1.0


def test_a_looser_tolerance_is_met_by_the_true_residual():
    given = twin.problem(200, 30, 5, 40, 0, 1, np.array([1e-3, 1.0]), 32)
    held, E = held_rows(given), right_sides(given)
    for tolerance in (1e-3, 1e-8):
        r, converged = solve_cg(held, np.arange(2), E, max_steps=100, tolerance=tolerance)
        assert converged.all()
        for a, b in np.ndindex(2, 5):
            rows = given.H[b]
            M = np.eye(40) - given.S(a, b)[np.ix_(rows, rows)]
            left = np.linalg.norm(E[a, b] - M @ r[a, b])
            # The last correction is a contraction: it leaves no more than was there.
            assert left <= tolerance * (np.linalg.norm(E[a, b]) + np.linalg.norm(r[a, b]))


def test_it_says_which_systems_it_did_not_solve():
    # Twenty rows of set 1 carry twenty coordinates almost alone: leverages of nearly 1.
    alphas = np.array([1e-9, 10.0])
    rng = np.random.default_rng(25)
    U = rng.standard_normal((3000, 60))
    U[7:27, :20] += 3e4 * rng.standard_normal((20, 20))
    Lambda, V = np.linalg.eigh(U.T @ U)
    H = np.stack([np.arange(100, 130), np.arange(30)])
    y, none = rng.standard_normal((3000, 1)), np.zeros((2, 60, 0))
    given = twin.Problem(U @ V, y, Lambda, np.ones(60), alphas, H, H, none)
    E = right_sides(given)
    r, converged = solve_cg(held_rows(given), np.arange(2), E, max_steps=12)
    assert converged[:, 0].all()
    assert not converged[0, 1]
    expected = twin.residuals(given, E)
    np.testing.assert_allclose(r[:, 0], expected[:, 0], rtol=1e-9, atol=1e-11)
    unsolved = np.flatnonzero(~converged.all(axis=0))
    assert np.array_equal(unsolved, [1])


def test_zero_and_values_that_are_not_finite():
    given = twin.problem(90, 10, 3, 4, 0, 1, [1e-3, 1.0], 26)
    E = right_sides(given)
    E[0, 0] = 0.0
    E[1, 2, 1] = np.nan
    with np.errstate(invalid="ignore"):
        r, converged = solve_cg(held_rows(given), np.arange(2), E)
    assert np.array_equal(r[0, 0], np.zeros((4, 1)))
    assert np.array_equal(converged, [[True, True, True], [True, True, False]])


@pytest.mark.parametrize("h", [1, 4, 20])
def test_a_leverage_of_one_is_not_solved(h):
    given = twin.problem(90, 10, 3, h, 0, 1, [1.0], 27)
    # Row 0 is the only one to see coordinate 0, which is not penalised.
    U, Lambda, penalised, H = given.U, given.Lambda, given.penalised, given.H
    U[:, 0], U[0, 0], Lambda[0], penalised[0] = 0.0, 1.0, 1.0, 0.0
    H[:, 0], H[:, 1:] = 50, np.arange(51, 50 + h)
    H[2, 0] = 0
    _, converged = solve_cg(held_rows(given), np.arange(1), right_sides(given))
    assert np.array_equal(converged, [[True, True, False]])


@pytest.mark.parametrize(("b", "h"), [(0, 3), (4, 0)])
def test_no_sets_and_no_rows(b, h):
    given = twin.problem(10, 5, b, h, 0, 1, [1.0, 2.0], 28)
    E = np.zeros((2, b, h, 1))
    r, converged = solve_cg(held_rows(given), np.arange(2), E)
    assert r.shape == E.shape
    assert converged.shape == (2, b)
    assert converged.all()


# -- how much is done ---------------------------------------------------------------------------


def counted(monkeypatch):
    steps = []
    real = conjugate._Operator.__call__

    def call(self, P, out):
        steps.append(P.shape)
        return real(self, P, out)

    monkeypatch.setattr(conjugate._Operator, "__call__", call)
    return steps


def random_rows(largest, b=3, h=30, p=20, a=4, v=1, seed=0):
    """Return sets whose S has eigenvalues up to `largest`."""
    rng = np.random.default_rng(seed)
    V = np.linalg.qr(rng.standard_normal((b, h, p)))[0] * np.sqrt(np.linspace(0.0, largest, p))
    D = np.geomspace(1.0, 0.5, a)[:, None] * np.ones(p)
    z, Y = rng.standard_normal((p, v)), rng.standard_normal((b, h, v))
    return HeldCoordinates(V=V, out=V, D=D, R=D, O=None, z=z, Y=Y, kappa=1.0,
                           unit=np.ones(a), length=np.ones((a, v)), formed=np.zeros(a))  # fmt: skip


def test_steps_are_no_more_than_the_condition_asks_for(monkeypatch):
    """Conjugate gradients gain (√κ − 1)/(√κ + 1) a step, and stop when the goal is reached."""
    steps = counted(monkeypatch)
    for largest in (0.3, 0.75, 0.9):
        held = random_rows(largest)
        steps.clear()
        _, converged = solve_cg(held, np.arange(4), held.errors())
        assert converged.all()
        root = np.sqrt(1.0 / (1.0 - largest))
        bound = np.log(2.0 / 1e-14) / np.log((root + 1.0) / (root - 1.0))
        assert len(steps) <= bound + 2
        loose = len(steps)
        steps.clear()
        _, converged = solve_cg(held, np.arange(4), held.errors(), tolerance=1e-5)
        assert converged.all()
        assert len(steps) < loose - 2


@pytest.mark.parametrize(
    ("rows", "h", "p", "expected"),
    [
        (10, 5, 10, 10),  # all of them are small
        (10**6, 10**5, 10, 10**6),  # not even a few would be
    ],
)
def test_rows_of_small_products(rows, h, p, expected):
    assert _rows_at_once(rows, h, p) == expected


def test_rows_of_products_that_are_cut():
    """No more than fit, in multiples of four, and nearly even."""
    h, p = 40, 64
    most = min(conjugate._SMALL_RESULTS, conjugate._SMALL_PRODUCT // p) // h
    assert most >= conjugate._SMALL_ROWS
    for rows in (most + 1, 2 * most, 2 * most + 1, 5 * most - 1):
        step = _rows_at_once(rows, h, p)
        assert 0 < step <= most
        pieces = -(-rows // step)
        assert pieces <= -(-rows // most) + 1
        assert step - (rows - (pieces - 1) * step) <= 4 * pieces or step == most
    assert _rows_at_once(most, h, p) == most
