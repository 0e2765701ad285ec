"""The identity r_H = (I − S_HH)⁻¹ e_H: solved directly, by iteration, and for several sides."""

from dataclasses import replace

import numpy as np
import pytest

import holdfast.holdout.identity as identity
import holdfast.linalg.threads
import holdfast.smoother.held
from holdfast.exceptions import HoldOutError
from holdfast.experiments import Ragged, Tasks
from holdfast.holdout.conjugate import solve_cg
from holdfast.holdout.identity import (
    CG_LEVERAGE,
    CG_ROWS,
    CG_SYSTEMS,
    HeldSystem,
    held_out_predictions,
    residuals,
    rows_without_themselves,
    solve_direct,
)
from holdfast.smoother import HeldCoordinates, factor
from holdfast.smoother.factor import FeatureFactor
from holdfast.smoother.scale import RowScale
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
    )


def right_sides(given, seed=0):
    shape = len(given.alphas), *given.H.shape, given.y.shape[1]
    return np.random.default_rng(seed).standard_normal(shape)


@pytest.fixture(params=[1, 2], ids=["one thread", "two threads"])
def n_threads(request, monkeypatch):
    """Run the pieces on one thread or two."""
    monkeypatch.setattr(holdfast.linalg.threads, "blas_threads", lambda: request.param)


# -- direct systems --------------------------------------------------------------------------------


@pytest.mark.usefixtures("n_threads")
@pytest.mark.parametrize("piece", [1, 2**16], ids=["a set at a time", "all sets at once"])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("n_alphas", [1, 6])
@pytest.mark.parametrize("sizes", SETS, ids=lambda s: "-".join(map(str, s)))
def test_direct_residuals_against_explicit_matrices(monkeypatch, sizes, n_alphas, bias, piece):
    monkeypatch.setattr(holdfast.smoother.held, "PIECE_DOUBLES", piece)
    m, p, b, h, e, v = sizes
    given = twin.problem(m, p + bias, b, h, e, v, np.geomspace(1e-12, 1e8, n_alphas), 21, bias)
    held, E = held_rows(given), right_sides(given)
    kept = [array.copy() for array in (held.V, held.D, given.O, E)]
    found = solve_direct(held, E)
    np.testing.assert_allclose(found, twin.residuals(given, E), rtol=1e-9, atol=1e-10)
    for array, before in zip((held.V, held.D, given.O, E), kept, strict=True):
        assert np.array_equal(array, before)


def dense(Lambda, alphas, h):
    """Return a dense model in its spectrum, V, the held-out rows and right-hand sides."""
    rng = np.random.default_rng(23)
    m = Lambda.size
    V = np.linalg.qr(rng.standard_normal((m, m)))[0]
    rows = np.stack([rng.choice(m, h, replace=False) for _ in range(3)])
    y = rng.standard_normal((m, 2))
    D = 1.0 / (Lambda + alphas[:, None])
    held = HeldCoordinates(
        V=V[rows], out=V[rows] * Lambda, D=D, R=D, O=None, z=V.T @ y, Y=y[rows], kappa=0.0
    )
    return held, V, rows, rng.standard_normal((alphas.size, 3, h, 2))


@pytest.mark.parametrize("indefinite", [False, True])
@pytest.mark.parametrize("h", [1, 5, 40])
def test_direct_residuals_in_the_dual_form(h, indefinite):
    Lambda, alphas = np.geomspace(1.0, 1e-4, 80), np.array([1e-2, 1.0])
    if indefinite:
        Lambda[::7] *= -0.3  # a kernel that declares it: no Cholesky factorisation
    held, V, rows, E = dense(Lambda, alphas, h)
    expected = np.empty_like(E)
    for a, b in np.ndindex(2, 3):
        S = V[rows[b]] @ np.diag(1.0 / (Lambda + alphas[a])) @ V[rows[b]].T
        expected[a, b] = np.linalg.solve(S, E[a, b])
    rtol = 1e-8 if indefinite else 1e-10
    scale = np.abs(expected).max() if indefinite else 1.0
    for found in (solve_direct(held, E), residuals_of(held, E)):
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=1e-11 * scale)


def residuals_of(held, E):
    """Return `residuals` for other errors than those of the model."""

    class Other(type(held)):
        def errors(self):
            return E

    return residuals(Other(**{name: getattr(held, name) for name in held.__dataclass_fields__}))


@pytest.mark.parametrize("h", [1, 4, 20, 21, 30])
def test_a_leverage_of_one_has_no_answer(h):
    given = twin.problem(90, 10, 3, h, 0, 1, [1.0], 27)
    # Row 0 is the only one to see coordinate 0, which is not penalised.
    U, Lambda, penalised, H = given.U, given.Lambda, given.penalised, given.H
    U[:, 0], U[0, 0], Lambda[0], penalised[0] = 0.0, 1.0, 1.0, 0.0
    H[:, 0], H[:, 1:] = 50, np.arange(51, 50 + h)
    H[2, 0] = 0
    E = right_sides(given)
    with np.errstate(divide="ignore", invalid="ignore"):
        r = solve_direct(held_rows(given), E)
    assert np.isnan(r[:, 2]).all()
    easy = given._replace(H=H[:2], O=given.O[:2])
    np.testing.assert_allclose(r[:, :2], twin.residuals(easy, E[:, :2]), rtol=1e-9, atol=1e-10)
    with pytest.raises(HoldOutError, match=f"the {h} rows of held-out set 2 .*larger alphas"):
        HeldSystem(held_rows(without_penalty(given)))


def test_the_set_without_a_digit_is_found_in_pieces_too(monkeypatch):
    given = twin.problem(90, 10, 5, 2, 0, 1, [1.0, 2.0], 27)
    given.U[:, 0], given.U[0, 0], given.Lambda[0], given.penalised[0] = 0.0, 1.0, 1.0, 0.0
    given.H[:] = np.arange(50, 60).reshape(5, 2)
    given.H[3, 1] = 0
    monkeypatch.setattr(holdfast.smoother.held, "PIECE_DOUBLES", 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        r = solve_direct(held_rows(given), right_sides(given))
    lost = np.isnan(r).any(axis=(2, 3))
    assert np.array_equal(lost, np.isnan(r).all(axis=(2, 3)))
    assert np.array_equal(lost, [[False, False, False, True, False]] * 2)


@pytest.mark.parametrize("h", [2, 30])
def test_a_pivot_that_is_too_weak_has_no_answer(h):
    """Where a factor says so: leverages close to 1 have cost too many digits."""
    given = twin.problem(200, 12, 4, h, 0, 1, [1e-3, 1e3], 44)
    U = given.U.copy()
    U[given.H[1, 0]] *= 1e4  # leverage of nearly 1 at the small penalty
    Lambda, V = np.linalg.eigh(U.T @ U)
    given = given._replace(U=U @ V, Lambda=Lambda)
    held, E = held_rows(given), right_sides(given)
    weak = solve_direct(replace(held, weak=1e-3), E)
    lost = np.isnan(weak).any(axis=(2, 3))
    assert lost[0, 1]
    assert not lost[1, [0, 2, 3]].any()
    whole = solve_direct(held, E)
    assert np.isfinite(whole).all()
    np.testing.assert_allclose(weak[~lost], whole[~lost], rtol=1e-11)


@pytest.mark.parametrize(("b", "h"), [(0, 3), (4, 0)])
def test_no_sets_and_no_rows(b, h):
    given = twin.problem(10, 5, b, h, 0, 1, [1.0, 2.0], 28)
    held, E = held_rows(given), np.zeros((2, b, h, 1))
    assert solve_direct(held, E).shape == E.shape
    assert residuals(held).shape == E.shape


# -- conjugate gradients where they pay ------------------------------------------------------------


def spread_out(alphas):
    """Return a problem whose second set makes conjugate gradients give up.

    Twenty coordinates are seen by the 60 rows of that set alone, each row with little leverage: no
    row warns. Together they carry them almost whole, so that I − S_HH has twenty eigenvalues
    between 1e-7 and 1, far apart.
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


def test_residuals_fall_back_to_direct_systems(monkeypatch):
    """Where the iteration does not get there, the direct systems answer with the right numbers."""
    alphas = np.geomspace(1.0, 1e9, 6)
    given = spread_out(alphas)
    held, expected = held_rows(given), twin.residuals(given, twin.errors(given))
    assert CG_ROWS <= 60
    assert 60 * alphas.size >= CG_SYSTEMS
    assert held.leverages(slice(None)).max() < CG_LEVERAGE  # nothing warns beforehand
    errors = held.errors()
    r, converged = solve_cg(held, np.arange(6), errors)
    assert converged[:, [0, 2]].all()  # the other sets are easy
    assert not converged[0, 1]
    assert converged[-1].all()
    off = np.abs(r - expected).max(axis=(2, 3)) / np.abs(expected).max(axis=(2, 3))
    assert off[0, 1] > 1e-4  # so it would be wrong to take it
    asked = []

    def direct(part, right):
        asked.append(part.shape[0])
        np.testing.assert_array_equal(right, errors[~converged.all(axis=1)])
        return solve_direct(part, right)

    monkeypatch.setattr(identity, "solve_direct", direct)
    found = residuals(held)
    assert asked == [int((~converged.all(axis=1)).sum())]
    assert 0 < asked[0] < 6  # and not those that conjugate gradients solved
    scale = np.abs(expected).max(axis=(2, 3), keepdims=True)
    np.testing.assert_allclose(found / scale, expected / scale, rtol=0, atol=1e-8)
    np.testing.assert_allclose(
        held.predict(found), given.U[given.T] @ twin.coefficients(given), rtol=1e-7, atol=1e-7
    )


def test_residuals_fall_back_when_steps_run_out(monkeypatch):
    """Ordinary rows and too few steps: every penalty is solved directly, and none is wrong."""
    given = twin.problem(300, 30, 4, 40, 2, 2, np.geomspace(1e-2, 1e2, 8), 41, bias=True)
    held = held_rows(given)
    expected = twin.residuals(given, twin.errors(given))
    said = []

    def hurried(*args, **options):
        r, converged = solve_cg(*args, **options, max_steps=2)
        said.append(converged)
        return r, converged

    monkeypatch.setattr(identity, "solve_cg", hurried)
    found = residuals(held)
    assert len(said) == 1
    assert not said[0].all(axis=1).any()
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-10)


def test_rows_of_much_leverage_are_never_iterated(monkeypatch):
    """One row that a small penalty lets the model interpolate: direct at that penalty only."""
    given = twin.problem(300, 30, 3, 40, 0, 1, np.geomspace(1e-3, 1e7, 8), 42)
    U = given.U.copy()
    U[given.H[1, 5]] *= 300.0
    Lambda, V = np.linalg.eigh(U.T @ U)
    given = given._replace(U=U @ V, Lambda=Lambda)
    held = held_rows(given)
    leverage = held.leverages(slice(None)).max(axis=0)
    easy = np.flatnonzero(leverage < CG_LEVERAGE)
    assert 0 < easy.size < 8
    iterated, directly = [], []

    def cg(part, alphas, right, **options):
        iterated.append(alphas)
        return solve_cg(part, alphas, right, **options)

    def direct(part, right):
        directly.append(part.shape[0])
        return solve_direct(part, right)

    monkeypatch.setattr(identity, "solve_cg", cg)
    monkeypatch.setattr(identity, "solve_direct", direct)
    found = residuals(held)
    assert len(iterated) == 1
    np.testing.assert_array_equal(iterated[0], easy)
    assert directly == [8 - easy.size]
    expected = twin.residuals(given, twin.errors(given))
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9)


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
    found = residuals(held)
    assert bool(calls) is iterated is (h >= CG_ROWS and h * n_alphas >= CG_SYSTEMS)
    expected = twin.residuals(given, twin.errors(given))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-10)


def test_dense_models_are_never_iterated(monkeypatch):
    held = dense(np.geomspace(1.0, 1e-4, 80), np.geomspace(1e-2, 1.0, 12), 40)[0]
    monkeypatch.setattr(identity, "solve_cg", None)
    direct = solve_direct(held, held.errors())
    np.testing.assert_array_equal(residuals(held), direct)


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
    one = right_sides(given)[0, :, :, :1]
    found = twin.residuals(given, one[None])[0]
    np.testing.assert_allclose(system.solve(one), found, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("h", [4, 30])
def test_a_held_out_system_of_a_dense_model(h):
    Lambda, alpha = np.geomspace(1.0, 1e-4, 80), np.array([1e-2])
    held, _, _, E = dense(Lambda, alpha, h)
    found = HeldSystem(held).solve(E[0])
    np.testing.assert_allclose(found, solve_direct(held, E)[0], rtol=1e-9, atol=1e-11)


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
    scale, z = RowScale.of(np.ones(len(given.U))), given.U.T @ given.y
    return FeatureFactor(given.U, given.Lambda, given.penalised, z, given.y, scale, N)


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
    monkeypatch.setattr(identity, "piece_threads", lambda: 1)
    given = twin.problem(150, 12, 1, 1, 0, 2, np.geomspace(1e-2, 1e2, n_alphas), 60, bias=True)
    rng = np.random.default_rng(61)
    N = rng.standard_normal((9, 12))
    held = [[3], [4], [5], [], [], [7], [7, 8, 9], [10, 11], [140], [*range(20, 50)], [*range(30)]]
    test = [[3], [4], [6], [1], [2, 3], [7, 1], [7, 8, 9], [11], [140], [*range(20, 50)], [0, 149]]
    removed = [[], [2], [], [], [1], [3], [0, 4], [], [8], [], [5, 6]]
    tasks = tasks_of(held, test, removed)
    values = held_out_predictions(feature_factor(given, N), tasks, given.alphas)
    assert values.shape == (n_alphas, tasks.test.values.size, 2)
    for j in range(len(tasks)):
        O = np.linalg.qr(N[removed[j]].T)[0] if removed[j] else np.zeros((12, 0))  # noqa: E741
        one = given._replace(H=np.array([held[j]], dtype=int), T=np.array([test[j]]), O=O[None])
        expected = given.U[test[j]] @ twin.coefficients(one)[:, 0]
        found = values[:, tasks.test.ptr[j] : tasks.test.ptr[j + 1]]
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_single_rows_of_large_models_go_in_parts_for_all_threads(monkeypatch):
    """BLAS would use its own threads for plain products this large, and these go on spinning."""
    given = twin.problem(90, 12, 1, 1, 0, 2, np.geomspace(1e-2, 1e2, 5), 63, bias=True)
    rows = [[i] for i in range(90)]
    tasks, made = tasks_of(rows, rows), feature_factor(given)
    expected = held_out_predictions(made, tasks, given.alphas)
    real, parts = Tasks.stacks, []

    def counted(self, *args, **options):
        parts.append(real(self, *args, **options))
        return parts[-1]

    monkeypatch.setattr(Tasks, "stacks", counted)
    monkeypatch.setattr(identity, "piece_threads", lambda: 3)
    for smallest, count in ((13, 1), (12, 6)):
        monkeypatch.setattr(identity, "SMALL", smallest)
        values = held_out_predictions(made, tasks, given.alphas)
        assert len(parts[-1]) == count
        np.testing.assert_allclose(values, expected, rtol=1e-12)


def test_many_targets_never_share_a_stack_with_few_rows(monkeypatch):
    """The cost of scaling z by D for every few rows would grow with the square of the targets."""
    given = twin.problem(90, 12, 1, 1, 0, 700, np.geomspace(1e-2, 1e2, 6), 62, bias=True)
    scaled = []
    times = factor.times

    def counted(rows, D, z):
        scaled.append(D.size * z.shape[1])
        return times(rows, D, z)

    monkeypatch.setattr(factor, "times", counted)
    rows = [[i] for i in range(90)]
    values = held_out_predictions(feature_factor(given), tasks_of(rows, rows), given.alphas)
    assert values.shape == (6, 90, 700)
    assert sum(scaled) == given.D.size * 700  # each target once


@pytest.mark.parametrize(("at_once", "parts"), [(10, 1), (9, 3)])
def test_targets_come_in_parts_from_more_than_two_on(monkeypatch, at_once, parts):
    given = twin.problem(40, 6, 1, 1, 0, 20, np.geomspace(1e-2, 1e2, 3), 64, bias=True)
    rows, seen = [[i] for i in range(40)], []
    monkeypatch.setattr(identity, "_targets_at_once", lambda *_: at_once)
    real = FeatureFactor.alone
    monkeypatch.setattr(
        FeatureFactor, "alone", lambda self, *args: seen.append(self.n_targets) or real(self, *args)
    )
    held_out_predictions(feature_factor(given), tasks_of(rows, rows), given.alphas)
    assert (len(seen), sum(seen)) == (parts, 20)


@pytest.mark.parametrize("sizes", SETS, ids=lambda s: "-".join(map(str, s)))
def test_the_rows_held_out_are_predicted_without_cancellation(sizes):
    """For those y − r is the prediction, unless it is much smaller than the targets."""
    m, p, b, h, e, v = sizes
    alphas = np.array([1e-2, 1.0, 1e12])
    given = twin.problem(m, p, b, h, e, v, alphas, 21, bias=False)
    held = held_rows(given._replace(T=given.H))
    assert not held.tests_itself
    itself = replace(held, out=held.V)
    assert itself.tests_itself
    r = residuals(held)
    found, wanted = identity.from_residuals(itself, r), held.predict(r)
    np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-10)
    # With penalty 1e12 nothing but rounding errors would be left of y − r.
    np.testing.assert_allclose(found[2], wanted[2], rtol=1e-11)


def test_a_single_row_of_leverage_one_has_no_answer():
    given = twin.problem(60, 10, 1, 1, 0, 1, [1.0, 0.25], 27)
    given.U[:, 0], given.U[0, 0], given.Lambda[0], given.penalised[0] = 0.0, 1.0, 1.0, 0.0
    factor = feature_factor(given)
    tasks = tasks_of([[5], [0], [6]], [[5], [0], [6]])
    values = held_out_predictions(factor, tasks, given.alphas)
    assert np.isnan(values[:, 1]).all()
    assert np.isfinite(values[:, [0, 2]]).all()


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
    np.testing.assert_allclose(held.gaps(slice(0, 1)), [[[[1 / 3]]]])
    np.testing.assert_allclose(residuals(held), 0.0, atol=1e-15)
    np.testing.assert_allclose(held.predict(residuals(held)), 1.0)
    values = held_out_predictions(feature_factor(given), tasks_of([[1]], [[1]]), alpha)
    np.testing.assert_allclose(values, 1.0)
