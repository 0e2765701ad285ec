"""The identity r_H = (I − S_HH)⁻¹ e_H: solved directly, by iteration, and for several sides."""

import numpy as np
import pytest

import holdfast.holdout.identity as identity
import holdfast.linalg.threads
import holdfast.smoother.held
from holdfast.exceptions import HoldOutError
from holdfast.experiments import Ragged, Tasks
from holdfast.holdout.conjugate import solve_cg
from holdfast.holdout.identity import (
    CG_ROWS,
    CG_SYSTEMS,
    HeldSystem,
    held_out,
    residuals,
    rows_without_themselves,
)
from holdfast.smoother import HeldCoordinates, Unpenalised
from holdfast.smoother.factor import FeatureFactor
from holdfast.smoother.scale import Centre, RowScale, Targets
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
    a, v = len(given.D), given.y.shape[1]
    return HeldCoordinates(
        V=given.U[given.H],
        out=given.U[given.T],
        D=given.D,
        R=given.D,
        O=given.O if given.O.shape[2] else None,
        z=given.U.T @ given.y,
        Y=given.y[given.H],
        kappa=1.0,
        unit=np.full(a, 1e-16),
        length=np.ones((a, v)),
        formed=np.zeros(a),
    )


def right_sides(given, seed=0):
    shape = len(given.alphas), *given.H.shape, given.y.shape[1]
    return np.random.default_rng(seed).standard_normal(shape)


def solved(held, E, most=np.inf):
    """Return `residuals` for other errors than those of the model."""

    class Other(type(held)):
        def errors(self, room=None):
            return E

    own = {name: getattr(held, name) for name in held.__dataclass_fields__}
    return residuals(Other(**own), most)


@pytest.fixture(params=[1, 2], ids=["one thread", "two threads"])
def n_threads(request, monkeypatch):
    """Run the pieces on one thread or two."""
    monkeypatch.setattr(holdfast.linalg.threads, "blas_threads", lambda: request.param)


# -- residuals ---------------------------------------------------------------------------------


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
    found = solved(held, E)
    np.testing.assert_allclose(found.r, twin.residuals(given, E), rtol=1e-9, atol=1e-10)
    assert found.grown.shape == (n_alphas, b, h)
    assert np.isfinite(found.grown).all()
    for array, before in zip((held.V, held.D, given.O, E), kept, strict=True):
        assert np.array_equal(array, before)


def dense(Lambda, alphas, h):
    """Return a dense model in its spectrum, V, the held-out rows and right-hand sides."""
    rng = np.random.default_rng(23)
    m, a = Lambda.size, alphas.size
    V = np.linalg.qr(rng.standard_normal((m, m)))[0]
    rows = np.stack([rng.choice(m, h, replace=False) for _ in range(3)])
    y = rng.standard_normal((m, 2))
    D = 1.0 / (Lambda + alphas[:, None])
    held = HeldCoordinates(
        V=V[rows], out=V[rows] * Lambda, D=D, R=D, O=None, z=V.T @ y, Y=y[rows], kappa=0.0,
        unit=np.ones(a), length=np.ones((a, 2)), formed=np.zeros(a),
    )  # fmt: skip
    return held, V, rows, rng.standard_normal((a, 3, h, 2))


@pytest.mark.parametrize("indefinite", [False, True])
@pytest.mark.parametrize("h", [1, 5, 40])
def test_residuals_in_the_dual_form(monkeypatch, h, indefinite):
    monkeypatch.setattr(identity, "solve_cg", None)  # dense models are never iterated
    Lambda, alphas = np.geomspace(1.0, 1e-4, 80), np.geomspace(1e-2, 1.0, 12)
    if indefinite:
        Lambda[::7] *= -0.3  # a kernel that declares it: no Cholesky factorisation
    held, V, rows, E = dense(Lambda, alphas, h)
    expected = np.empty_like(E)
    for a, b in np.ndindex(12, 3):
        S = V[rows[b]] @ np.diag(1.0 / (Lambda + alphas[a])) @ V[rows[b]].T
        expected[a, b] = np.linalg.solve(S, E[a, b])
    rtol = 1e-8 if indefinite else 1e-10
    scale = np.abs(expected).max() if indefinite else 1.0
    np.testing.assert_allclose(solved(held, E).r, expected, rtol=rtol, atol=1e-11 * scale)


@pytest.mark.parametrize("piece", [1, 2**16], ids=["a set at a time", "all sets at once"])
@pytest.mark.parametrize("h", [1, 4, 20, 21, 30])
def test_a_leverage_of_one_has_no_answer(monkeypatch, h, piece):
    """Its errors grow without bound, and the others are what they are."""
    monkeypatch.setattr(holdfast.smoother.held, "PIECE_DOUBLES", piece)
    given = twin.problem(90, 10, 3, h, 0, 1, [1.0], 27)
    # Row 0 is the only one to see coordinate 0, which is not penalised.
    U, Lambda, penalised, H = given.U, given.Lambda, given.penalised, given.H
    U[:, 0], U[0, 0], Lambda[0], penalised[0] = 0.0, 1.0, 1.0, 0.0
    H[:, 0], H[:, 1:] = 50, np.arange(51, 50 + h)
    H[2, 0] = 0
    E = right_sides(given)
    found = solved(held_rows(given), E)
    assert np.isinf(found.grown[:, 2]).all()
    assert not found.r[:, 2].any()
    assert np.isfinite(found.grown[:, :2]).all()
    easy = given._replace(H=H[:2], O=given.O[:2])
    expected = twin.residuals(easy, E[:, :2])
    np.testing.assert_allclose(found.r[:, :2], expected, rtol=1e-9, atol=1e-10)
    with pytest.raises(HoldOutError, match=f"the {h} rows of held-out set 2 .*larger alphas"):
        HeldSystem(held_rows(without_penalty(given)))


@pytest.mark.parametrize(("b", "h"), [(0, 3), (4, 0)])
def test_no_sets_and_no_rows(b, h):
    given = twin.problem(10, 5, b, h, 0, 1, [1.0, 2.0], 28)
    assert residuals(held_rows(given), np.inf).r.shape == (2, b, h, 1)


def spread_out(alphas):
    """Return a problem whose second set makes conjugate gradients give up.

    Twenty coordinates are seen by the 60 rows of that set alone, each row with little leverage.
    Together they carry them almost whole, so that I − S_HH has twenty eigenvalues between 1e-7
    and 1, far apart.
    """
    rng = np.random.default_rng(40)
    m, h = 600, 60
    U = np.zeros((m, 40))
    own = np.linalg.qr(rng.standard_normal((h, 20)))[0]
    U[100 : 100 + h, :20] = own * np.geomspace(1.0, 3e3, 20)
    U[:, 20:] = rng.standard_normal((m, 20))
    U[100 : 100 + h, 20:] = 0.0  # so that the Gram matrix of each half is by itself
    Lambda, V = np.linalg.eigh(U.T @ U)
    H = np.stack([np.arange(300, 300 + h), np.arange(100, 100 + h), np.arange(400, 400 + h)])
    y, T = rng.standard_normal((m, 2)), np.array([[0], [100], [599]])
    return twin.Problem(U @ V, y, Lambda, np.ones(40), alphas, H, T, np.zeros((3, 40, 0)))


def test_sets_that_are_not_solved_by_iteration_are_factorised():
    """Where the iteration does not get there, direct systems answer with the right numbers."""
    alphas = np.geomspace(1.0, 1e9, 6)
    given = spread_out(alphas)
    held, expected = held_rows(given), twin.residuals(given, twin.errors(given))
    assert CG_ROWS <= 60
    assert 60 * alphas.size >= CG_SYSTEMS
    r, converged = solve_cg(held, np.arange(6), held.errors())
    assert converged[:, [0, 2]].all()  # the other sets are easy
    assert not converged[0, 1]
    off = np.abs(r - expected).max(axis=(2, 3)) / np.abs(expected).max(axis=(2, 3))
    assert off[0, 1] > 1e-4  # so it would be wrong to take it
    found = residuals(held, np.inf)
    scale = np.abs(expected).max(axis=(2, 3), keepdims=True)
    np.testing.assert_allclose(found.r / scale, expected / scale, rtol=0, atol=1e-8)
    np.testing.assert_allclose(
        held.predict(found.r), given.U[given.T] @ twin.coefficients(given), rtol=1e-7, atol=1e-7
    )


def test_sets_whose_errors_grow_too_much_are_factorised(monkeypatch):
    """Which says how much they grow at every penalty, instead of at the smallest alone."""
    given = twin.problem(300, 30, 3, 40, 0, 1, np.geomspace(1e-3, 1e7, 8), 42)
    U = given.U.copy()
    U[given.H[1, 5]] *= 300.0
    Lambda, V = np.linalg.eigh(U.T @ U)
    given = given._replace(U=U @ V, Lambda=Lambda)
    held, expected = held_rows(given), twin.residuals(given, twin.errors(given))
    direct, sets = identity._solved, []
    monkeypatch.setattr(
        identity, "_solved", lambda part, e: sets.append(part.shape[1]) or direct(part, e)
    )
    loose, strict = residuals(held, np.inf), residuals(held, 100.0)
    assert sets in ([1], [1, 1])  # the second set alone, at the latest where growth is limited
    np.testing.assert_allclose(strict.r, expected, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(loose.r, expected, rtol=1e-7, atol=1e-8)
    assert strict.grown[0, 1].max() > 100.0 > strict.grown[:, [0, 2]].max()
    assert strict.grown[-1, 1].max() < strict.grown[0, 1].max() / 100.0


@pytest.mark.parametrize(
    ("h", "n_alphas", "iterated"),
    [
        (CG_ROWS, 13, True),
        (CG_ROWS - 1, 20, False),
        (CG_ROWS, CG_SYSTEMS // CG_ROWS, False),
        (40, 8, True),
        (40, 7, False),
    ],
)
def test_conjugate_gradients_only_where_they_pay(monkeypatch, h, n_alphas, iterated):
    given = twin.problem(300, 20, 3, h, 0, 1, np.geomspace(1e-1, 1e2, n_alphas), 43)
    held, calls = held_rows(given), []
    monkeypatch.setattr(
        identity, "solve_cg", lambda *args, **kw: calls.append(1) or solve_cg(*args, **kw)
    )
    found = residuals(held, np.inf).r
    assert bool(calls) is iterated is (h >= CG_ROWS and h * n_alphas >= CG_SYSTEMS)
    expected = twin.residuals(given, twin.errors(given))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-10)


# -- one factorisation for several right-hand sides ------------------------------------------------


def without_penalty(given):
    """Return a problem at one penalty in coordinates where D = 1."""
    p, U = given.Lambda.size, given.U * np.sqrt(given.D[0])
    return given._replace(U=U, Lambda=np.ones(p), penalised=np.zeros(p))


def single(m, p, b, h, e, seed):
    return without_penalty(twin.problem(m, p, b, h, e, 2, [0.1], seed))


@pytest.mark.parametrize("e", [0, 1, 3])
@pytest.mark.parametrize("h", [1, 3, 12, 13, 21, 60])
def test_a_held_out_system_solved_several_times(h, e):
    """With fewer coordinates than held-out rows, the smaller of two systems serves."""
    given = single(300, 12, 4, h, e, 50)
    system = HeldSystem(held_rows(given))
    for seed in range(3):
        right = right_sides(given, seed)
        expected = twin.residuals(given, right)[0]
        kept = right.copy()
        np.testing.assert_allclose(system.solve(right[0]), expected, rtol=1e-9, atol=1e-10)
        assert np.array_equal(right, kept)
    for j, rows in enumerate(given.H):
        gap = np.eye(h) - given.S(0, j)[np.ix_(rows, rows)]
        inverse = np.diag(np.linalg.inv(gap))
        np.testing.assert_allclose(system.inverse_diagonal()[j], inverse, rtol=1e-9)
        assert system.log_det[j] == pytest.approx(np.linalg.slogdet(gap)[1], abs=1e-10)


@pytest.mark.parametrize("h", [4, 30])
def test_a_held_out_system_of_a_dense_model(h):
    held, _, _, E = dense(np.geomspace(1.0, 1e-4, 80), np.array([1e-2]), h)
    np.testing.assert_allclose(HeldSystem(held).solve(E[0]), solved(held, E).r[0], rtol=1e-9)


def test_a_held_out_system_that_all_coordinates_hang_on():
    """More rows held out than coordinates, and one coordinate that no other row sees."""
    given = single(90, 10, 3, 40, 0, 51)
    U = given.U.copy()
    U[:, 0] = 0.0
    U[:20, 0] = 20**-0.5
    given.H[:] = np.arange(30, 70)
    given.H[1, :20] = np.arange(20)
    with pytest.raises(HoldOutError, match=r"the 40 rows of held-out set 1 .*larger alphas"):
        HeldSystem(held_rows(given._replace(U=U)))


# -- from residuals to predictions -----------------------------------------------------------------


def feature_factor(given, N=None):
    """Return the factor of the package for the same rows."""
    m, p = given.U.shape
    scale, none = RowScale.of(np.ones(m)), Unpenalised.bias(np.ones(m), False)
    return FeatureFactor(
        V=given.U, Lambda=given.Lambda, penalised=given.penalised, z=given.U.T @ given.y,
        targets=Targets.of(given.y, scale, none), scale=scale, unpenalised=none, features=None,
        B=Centre.of(np.zeros((0, p))), N=N, T=np.eye(p), least=1e-3, defect=np.zeros((2, 1)),
    )  # fmt: skip


def tasks_of(held, test, removed=None):
    removed = [[] for _ in held] if removed is None else removed
    parts = [
        Ragged.from_arrays([np.array(rows, dtype=np.int64) for rows in sets])
        for sets in (held, removed, test)
    ]
    return Tasks(*parts, np.arange(len(held)))


@pytest.mark.usefixtures("n_threads")
@pytest.mark.parametrize("stack", [1, 2**20], ids=["a task at a time", "all at once"])
@pytest.mark.parametrize("n_alphas", [2, 13])
@pytest.mark.parametrize("per_row", [0, 4], ids=["a target at a time", "all targets"])
def test_predictions_of_tasks_of_all_shapes(monkeypatch, stack, n_alphas, per_row):
    monkeypatch.setattr(identity, "STACK_DOUBLES", stack)
    monkeypatch.setattr(identity, "TARGETS_PER_ROW", per_row)
    given = twin.problem(150, 12, 1, 1, 0, 2, np.geomspace(1e-2, 1e2, n_alphas), 60, bias=True)
    rng = np.random.default_rng(61)
    N = rng.standard_normal((9, 12))
    held = [[3], [4], [5], [], [], [7], [7, 8, 9], [10, 11], [140], [*range(20, 50)], [*range(30)]]
    test = [[3], [4], [6], [1], [2, 3], [7, 1], [7, 8, 9], [11], [140], [*range(20, 50)], [0, 149]]
    removed = [[], [2], [], [], [1], [3], [0, 4], [], [8], [], [5, 6]]
    tasks = tasks_of(held, test, removed)
    values, error = held_out(feature_factor(given, N), tasks, given.alphas)
    assert values.shape == (n_alphas, tasks.test.values.size, 2)
    assert error.shape == (n_alphas, len(tasks))
    assert error.max() < 1e-10  # nothing is hard here
    for j in range(len(tasks)):
        O = np.linalg.qr(N[removed[j]].T)[0] if removed[j] else np.zeros((12, 0))  # noqa: E741
        one = given._replace(H=np.array([held[j]], dtype=int), T=np.array([test[j]]), O=O[None])
        expected = given.U[test[j]] @ twin.coefficients(one)[:, 0]
        found = values[:, tasks.test.ptr[j] : tasks.test.ptr[j + 1]]
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_a_single_row_of_leverage_one_has_no_answer():
    given = twin.problem(60, 10, 1, 1, 0, 1, [1.0, 0.25], 27)
    given.U[:, 0], given.U[0, 0], given.Lambda[0], given.penalised[0] = 0.0, 1.0, 1.0, 0.0
    tasks = tasks_of([[5], [0], [6]], [[5], [0], [6]])
    _, error = held_out(feature_factor(given), tasks, given.alphas)
    assert np.isinf(error[:, 1]).all()
    assert (error[:, [0, 2]] < 1e-12).all()


def test_rows_without_themselves():
    errors = np.array([[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_allclose(
        rows_without_themselves(errors, np.array([0.5, 0.75])), [[2.0, 4.0], [12.0, 16.0]]
    )
    np.testing.assert_allclose(
        rows_without_themselves(errors, np.array([[0.5, 0.0], [0.75, 0.5]])),
        [[2.0, 2.0], [12.0, 8.0]],
    )


def test_the_worked_example():
    """x = (1, 2), y = (1, 1), α = 1, no bias: the second row is predicted by 1."""
    x, y = np.array([[1.0], [2.0]]), np.ones((2, 1))
    one, alpha = np.ones(1), np.array([1.0])
    given = twin.Problem(
        x, y, np.array([5.0]), one, alpha, np.array([[1]]), np.array([[1]]), np.zeros((1, 1, 0))
    )
    held = held_rows(given)
    r = residuals(held, np.inf).r
    np.testing.assert_allclose(held.gaps(slice(0, 1)), [[[[1 / 3]]]])
    np.testing.assert_allclose(r, 0.0, atol=1e-15)
    np.testing.assert_allclose(held.predict(r), 1.0)
    values, _ = held_out(feature_factor(given), tasks_of([[1]], [[1]]), alpha)
    np.testing.assert_allclose(values, 1.0)
