"""The smoother on held-out rows: I − S, the residuals, and the models that follow from others."""

from dataclasses import replace

import numpy as np
import pytest

import holdfast.linalg.threads
import holdfast.smoother.held
from holdfast.exceptions import SingularBasisError
from holdfast.experiments import Shape
from holdfast.smoother import HeldCoordinates, same_rows
from holdfast.smoother.held import constraints, removed_part
from reference import held as twin

ALPHAS = np.geomspace(1e-3, 1e3, 4)
SETS = [
    # m, p, b, h, e, v
    (60, 12, 60, 1, 0, 1),
    (60, 12, 20, 1, 1, 2),
    (80, 9, 6, 2, 1, 3),
    (200, 30, 7, 10, 2, 1),
    (200, 30, 5, 25, 0, 2),
    (200, 30, 5, 40, 3, 2),
    (200, 30, 2, 20, 28, 1),
    (60, 12, 4, 0, 2, 2),
]
every_problem = pytest.mark.parametrize(
    ("sizes", "bias"),
    [(sizes, bias) for sizes in SETS for bias in (False, True)],
    ids=lambda value: "-".join(map(str, value)) if isinstance(value, tuple) else str(value),
)


def problem(sizes, bias, alphas=ALPHAS):
    m, p, b, h, e, v = sizes
    return twin.problem(m, p + bias, b, h, e, v, alphas, 21, bias)


def held_rows(given):
    """Return what the package makes of the same problem, without weights."""
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


@pytest.fixture(params=[1, 2], ids=["one thread", "two threads"])
def several_pieces(request, monkeypatch):
    """Cut the work in pieces, on one thread or two."""
    monkeypatch.setattr(holdfast.linalg.threads, "blas_threads", lambda: request.param)
    monkeypatch.setattr(holdfast.smoother.held, "PIECE_DOUBLES", 2000)


@pytest.mark.usefixtures("several_pieces")
@every_problem
def test_coordinates_against_explicit_matrices(sizes, bias):
    given = problem(sizes, bias)
    held = held_rows(given)
    kept = [array.copy() for array in (held.V, held.out, held.D, held.z, held.Y, given.O)]
    a, b, h, v = len(ALPHAS), len(given.H), given.H.shape[1], given.y.shape[1]
    assert held.shape == (a, b, h, v)
    assert held.row_size == len(given.Lambda)
    assert held.definite
    np.testing.assert_allclose(held.errors(), twin.errors(given), rtol=1e-10, atol=1e-11)
    pieces = held.pieces(1000)
    assert [piece.start for piece in pieces[1:]] == [piece.stop for piece in pieces[:-1]]
    assert (pieces[0].start, pieces[-1].stop) == (0, b)
    for piece in pieces:
        gaps = held.gaps(piece)
        for j, k in np.ndindex(gaps.shape[:2]):
            number = piece.start + j
            rows = given.H[number]
            expected = np.eye(h) - given.S(k, number)[np.ix_(rows, rows)]
            np.testing.assert_allclose(gaps[j, k], expected, rtol=1e-10, atol=1e-11)
    diagonals = [np.diag(given.U @ np.diag(D) @ given.U.T)[given.H] for D in given.D]
    leverages = held.leverages(slice(None))
    np.testing.assert_allclose(leverages, np.reshape(diagonals, (a, b * h)).T, rtol=1e-10)
    some = held.leverages(np.array([2, 0]))
    np.testing.assert_allclose(some, leverages[:, [2, 0]], rtol=1e-14)
    for array, before in zip(
        (held.V, held.out, held.D, held.z, held.Y, given.O), kept, strict=True
    ):
        assert np.array_equal(array, before)


@pytest.mark.usefixtures("several_pieces")
@every_problem
def test_models_that_follow_from_held_out_residuals(sizes, bias):
    given = problem(sizes, bias)
    held = held_rows(given)
    theta = twin.coefficients(given)  # (a, b, p, v), really trained
    r = given.y[given.H] - given.U[given.H] @ theta
    before = r.copy()
    for piece in held.pieces(1000):
        found = held.betas(r, piece).transpose(1, 0, 3, 2)
        np.testing.assert_allclose(found, theta[:, piece], rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(held.predict(r), given.U[given.T] @ theta, rtol=1e-9, atol=1e-9)
    assert np.array_equal(r, before)


@every_problem
@pytest.mark.parametrize("alpha", [1e-6, 1.0, 1e6])
def test_coordinates_that_are_scaled_for_the_only_penalty(sizes, bias, alpha):
    given = problem(sizes, bias, np.array([alpha]))
    e = given.O.shape[2]
    # The same span: other rows that are not orthonormal, and long or short.
    mix = np.random.default_rng(2).normal(size=(e, e)) + 3.0 * np.eye(e)
    N = (given.O @ mix * np.geomspace(1e-3, 1e3, e)).swapaxes(1, 2).reshape(-1, given.U.shape[1])
    plain, root = held_rows(given), np.sqrt(given.D[0])
    held = replace(
        plain,
        V=plain.V * root,
        out=plain.out * root,
        D=np.ones_like(given.D),
        R=np.ones_like(given.D),
        O=constraints(N, np.arange(len(N)).reshape(len(given.H), e), d=root),
        z=root[:, None] * plain.z,
        root=root,
    )
    theta = twin.coefficients(given)  # really trained
    r = given.y[given.H] - given.U[given.H] @ theta
    everything = slice(None)
    for found, expected in (
        (held.errors(), twin.errors(given)),
        (held.gaps(everything), plain.gaps(everything)),
        (held.betas(r, everything).transpose(1, 0, 3, 2), theta),
        (held.predict(r), given.U[given.T] @ theta),
        (held.constrained(held.out) * root, plain.constrained(plain.out)),
        (held.at(np.array([0])).errors(), twin.errors(given)),
        (held.among(np.array([1, 0])).errors(), twin.errors(given)[:, [1, 0]]),
    ):
        np.testing.assert_allclose(
            found, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max(initial=1.0)
        )


@every_problem
def test_some_of_the_penalties(sizes, bias):
    given = problem(sizes, bias)
    whole, chosen = held_rows(given), np.array([3, 1])
    part = whole.at(chosen)
    assert part.shape == (2, *whole.shape[1:])
    np.testing.assert_allclose(part.errors(), whole.errors()[chosen], rtol=1e-12, atol=1e-13)
    piece = slice(0, 2)
    gaps = whole.gaps(piece)[:, chosen]
    np.testing.assert_allclose(part.gaps(piece), gaps, rtol=1e-12, atol=1e-13)
    J, all_of_them = whole.removal(piece, chosen), whole.removal(piece)
    if given.O.shape[2]:
        np.testing.assert_allclose(J, all_of_them[:, chosen], rtol=1e-10, atol=1e-12)
    else:
        assert J is None
        assert all_of_them is None


@every_problem
def test_some_of_the_tasks(sizes, bias):
    given = problem(sizes, bias)
    whole, sets = held_rows(given), np.array([1, 0])
    part = whole.among(sets)
    assert part.shape == (len(ALPHAS), 2, *whole.shape[2:])
    np.testing.assert_allclose(part.errors(), whole.errors()[:, sets], rtol=1e-12, atol=1e-13)
    gaps = whole.gaps(slice(0, 2))[sets]
    np.testing.assert_allclose(part.gaps(slice(0, 2)), gaps, rtol=1e-12, atol=1e-13)
    r = np.ones(whole.shape)
    expected = whole.predict(r)[:, sets]
    np.testing.assert_allclose(part.predict(r[:, sets]), expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("e", [1, 3])
def test_removal_is_what_the_constraints_add(e):
    given = problem((80, 9, 4, 5, e, 1), bias=True)
    held = held_rows(given)
    J = held.removal(slice(0, 4))
    assert J.shape == (4, len(ALPHAS), e, 5)
    for j, k in np.ndindex(J.shape[:2]):
        V = given.U[given.H[j]]
        without = V @ np.diag(given.D[k]) @ V.T
        added = without - V @ given.M(k, j) @ V.T
        np.testing.assert_allclose(J[j, k].T @ J[j, k], added, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("e", [0, 1, 4])
def test_rows_under_the_constraint_where_the_penalty_is_gone(e):
    given = problem((80, 9, 4, 5, e, 1), bias=False)
    held = held_rows(given)
    rows = held.constrained_rows()
    for j in range(4):
        expected = given.U[given.H[j]] @ (np.eye(9) - given.O[j] @ given.O[j].T)
        np.testing.assert_allclose(rows[j], expected, atol=1e-13)


@pytest.mark.parametrize("e", [1, 2, 8])
def test_what_the_constraint_takes_away(e):
    given = problem((80, 9, 4, 5, e, 2), bias=False)
    for shared in (True, False):
        rng = np.random.default_rng(3)
        beta = rng.standard_normal((1 if shared else 4, len(ALPHAS), 2, 9))
        taken = removed_part(given.O, given.D, beta)
        left = (beta - taken) @ given.O[:, None]
        np.testing.assert_allclose(left, 0.0, atol=1e-11)  # O'(β − taken) = 0
        for j, k in np.ndindex(4, len(ALPHAS)):
            b = beta[0 if shared else j, k].T
            DO = np.diag(given.D[k]) @ given.O[j]
            expected = DO @ np.linalg.solve(given.O[j].T @ DO, given.O[j].T @ b)
            np.testing.assert_allclose(taken[j, k], expected.T, rtol=1e-9, atol=1e-11)


# -- dense models: I − S itself is known -----------------------------------------------------------


def dense(Lambda, alphas, h, seed=23, columns=0, t=3):
    """Return a dense model in its spectrum, its kernel, and the rows: held out and tested."""
    rng = np.random.default_rng(seed)
    m, b, v = Lambda.size + columns, 3, 2
    Q = np.linalg.qr(rng.standard_normal((m, m)))[0]
    K = (Q[:, : Lambda.size] * Lambda) @ Q[:, : Lambda.size].T
    y = rng.standard_normal((m, v))
    H = np.array([rng.choice(m, h, replace=False) for _ in range(b)])
    T = rng.integers(0, m, size=(b, t))
    all_of_them = np.append(Lambda, np.ones(columns))
    penalised = np.repeat([1.0, 0.0], [Lambda.size, columns])
    D = 1.0 / (all_of_them + alphas[:, None] * penalised)
    held = HeldCoordinates(
        V=Q[H],
        out=Q[T] * all_of_them,
        D=D,
        R=D * penalised,
        O=None,
        z=Q.T @ y,
        Y=y[H],
        kappa=0.0,
        unit=np.ones(len(D)),
        length=np.ones((len(D), v)),
        formed=np.zeros(len(D)),
    )
    return held, K, Q[:, Lambda.size :], y, H, T


@pytest.mark.parametrize("indefinite", [False, True])
@pytest.mark.parametrize("columns", [0, 1, 3])
@pytest.mark.parametrize("h", [1, 5, 40])
def test_dense_models(h, columns, indefinite):
    alphas = np.array([1e-2, 1.0])
    Lambda = np.geomspace(1e-4, 1.0, 80)
    if indefinite:
        Lambda[::9] *= -0.37
    held, K, Z, y, H, T = dense(Lambda, alphas, h, columns=columns)
    assert held.definite is not indefinite
    m = len(K)
    for k, alpha in enumerate(alphas):
        # I − S = α (K + αI)⁻¹ without the columns Z, which it annihilates.
        A = np.linalg.inv(K + alpha * np.eye(m))
        A = A - A @ Z @ np.linalg.solve(Z.T @ A @ Z, Z.T @ A) if columns else A
        np.testing.assert_allclose(held.errors()[k], (A @ y)[H], rtol=1e-8, atol=1e-9)
        for j in range(3):
            gap = held.gaps(slice(j, j + 1))[0, k]
            np.testing.assert_allclose(gap, A[np.ix_(H[j], H[j])], rtol=1e-9, atol=1e-9)
    for k, alpha in enumerate(alphas):
        for j in range(3):
            left = np.delete(np.arange(m), H[j])
            border = np.block(
                [
                    [K[np.ix_(left, left)] + alpha * np.eye(left.size), Z[left]],
                    [Z[left].T, np.zeros((columns, columns))],
                ]
            )
            c = np.linalg.solve(border, np.vstack([y[left], np.zeros((columns, 2))]))
            whole = K[:, left] @ c[: left.size] + Z @ c[left.size :]
            r = np.zeros((2, 3, h, 2))
            r[k, j] = (y - whole)[H[j]]
            found = held.predict(r)[k, j]
            np.testing.assert_allclose(found, whole[T[j]], rtol=1e-8, atol=1e-8)


# -- pieces and constraints ------------------------------------------------------------------------


def test_pieces_hold_at_least_one_set(monkeypatch):
    held = held_rows(problem((60, 12, 20, 1, 0, 1), bias=False))
    monkeypatch.setattr(holdfast.smoother.held, "PIECE_DOUBLES", 100)
    assert [piece.stop - piece.start for piece in held.pieces(30)] == [3] * 6 + [2]
    assert len(held.pieces(10**9)) == 20
    assert held.pieces(0) == [slice(0, 20)]


def test_orthonormal_constraints():
    rng = np.random.default_rng(5)
    N = rng.standard_normal((6, 9)) * np.geomspace(1.0, 1e5, 6)[:, None]
    assert constraints(N, np.empty((4, 0), dtype=np.int64)) is None
    assert constraints(None, np.empty((4, 0), dtype=np.int64)) is None
    for E in ([[0], [5]], [[3, 1], [5, 0]], [[0, 1, 2, 3, 4, 5]]):
        O = constraints(N, np.array(E))  # noqa: E741
        assert O.shape == (len(E), 9, len(E[0]))
        for j, rows in enumerate(E):
            np.testing.assert_allclose(O[j].T @ O[j], np.eye(len(rows)), atol=1e-14)
            unit = N[rows] / np.linalg.norm(N[rows], axis=1, keepdims=True)
            np.testing.assert_allclose(unit @ O[j] @ O[j].T, unit, atol=1e-14)
    for d in (None, np.array([1.0, 2.0, 1e-9])):
        with pytest.raises(SingularBasisError):
            constraints(np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0]]), np.array([[0, 1]]), d=d)
        with pytest.raises(SingularBasisError):
            constraints(np.array([[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]]), np.array([[0, 1]]), d=d)


@pytest.mark.parametrize("near", [1.0, 1e-2, 1e-5, 1e-9])
@pytest.mark.parametrize("spread", [0, 4, 10])
def test_constraints_under_a_diagonal(near, spread):
    rng = np.random.default_rng(6)
    N = rng.standard_normal((8, 9))
    N[1] = N[0] + near * N[1]  # alike, or nearly the same
    d = 10.0 ** rng.uniform(-spread / 2, 0, size=9)
    E = np.array([[2, 1, 0, 4], [3, 7, 2, 5], [5, 6, 0, 4]])
    O = constraints(N, E, d)  # noqa: E741
    for j, real in enumerate(O):
        np.testing.assert_allclose(real.T @ real, np.eye(real.shape[1]), atol=1e-13)
        rows = N[E[j]] * d  # each lies in the span, however alike they are
        unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        np.testing.assert_allclose(unit @ real @ real.T, unit, atol=1e-13)


def test_tests_that_are_the_held_out_rows():
    H, E = np.array([[3, 1], [4, 2]]), np.empty((2, 0), dtype=np.int64)
    for T, same in ((H.copy(), True), (H[:, ::-1], False), (H[:, :1], False)):
        assert same_rows(Shape(np.arange(2), H, E, T, np.zeros_like(T))) is same
