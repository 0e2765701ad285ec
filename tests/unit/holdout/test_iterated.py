"""Which systems are iterated, which are factorised: by their leverages, at the limits."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import holdfast.holdout.conjugate as conjugate
from holdfast.experiments import Ragged, Tasks
from holdfast.holdout import identity
from holdfast.holdout.conjugate import _rows_at_once, solve_cg
from holdfast.holdout.identity import residuals
from holdfast.smoother import HeldCoordinates

H, A = 4, 3  # rows of a set, penalties


def held_rows(leverages, weak=0.0, a=A, p=40):
    """Return sets (b, h) of rows with these leverages at the first, smallest penalty.

    Rows have coordinates of their own, so that every number is exact.
    """
    leverages = np.asarray(leverages, dtype=float)
    b, h = leverages.shape
    V = np.zeros((b, h, p))
    V[:, np.arange(h), np.arange(h)] = np.sqrt(leverages / 2.0)
    D = np.repeat(2.0 / np.arange(1, a + 1)[:, None], p, axis=1)
    rng = np.random.default_rng(0)
    z, Y = rng.standard_normal((p, 1)), rng.standard_normal((b, h, 1))
    return HeldCoordinates(V=V, out=V, D=D, R=D, O=None, z=z, Y=Y, kappa=1.0, weak=weak)


@pytest.fixture
def went(monkeypatch):
    """Which penalties, of how many sets, went which way."""
    ways = []
    real_cg, real_direct = identity.solve_cg, identity.solve_direct

    def iterated(held, alphas, errors, **options):
        ways.append(("cg", alphas.tolist(), held.shape[1]))
        return real_cg(held, alphas, errors, **options)

    def direct(held, errors, Y=None):
        ways.append(("direct", held.shape[0], held.shape[1]))
        return real_direct(held, errors, Y)

    monkeypatch.setattr(identity, "CG_ROWS", H)
    monkeypatch.setattr(identity, "CG_SYSTEMS", H * A)
    monkeypatch.setattr(identity, "CG_LEVERAGE", 0.5)
    monkeypatch.setattr(identity, "solve_cg", iterated)
    monkeypatch.setattr(identity, "solve_direct", direct)
    return ways


def solved(held, told=False):
    found = residuals(held, told=told)
    expected = np.array([
        [np.linalg.solve(gap, e) for gap, e in zip(gaps, errors, strict=True)]
        for gaps, errors in zip(held.gaps(slice(None)).swapaxes(0, 1), held.errors(), strict=True)
    ])  # fmt: skip
    assert_allclose(found, expected, rtol=1e-9)


def test_enough_rows_and_penalties(went):
    solved(held_rows(np.full((2, H), 0.1)))
    assert went == [("cg", [0, 1, 2], 2)]
    went.clear()
    solved(held_rows(np.full((2, H), 0.1), a=A - 1))
    solved(held_rows(np.full((2, H - 1), 0.1), a=2 * A))
    assert went == [("direct", 2, 2), ("direct", 6, 2)]


def test_sets_with_a_row_of_much_leverage_are_solved_apart(went):
    """One of four may leave; its penalties are iterated where the leverage allows it."""
    leverages = np.full((4, H), 0.1)
    leverages[2, 1] = 0.5  # just too much, at the first penalty
    solved(held_rows(leverages))
    assert went == [("cg", [1, 2], 1), ("direct", 1, 1), ("cg", [0, 1, 2], 3)]


def test_the_right_sets_are_solved_apart(went, monkeypatch):
    """The third of eight, and no other, whatever the number of rows."""
    leverages = np.full((8, H), 0.1)
    leverages[2, 3] = 0.6
    seen = []
    real = HeldCoordinates.among
    monkeypatch.setattr(
        HeldCoordinates, "among", lambda self, sets: seen.append(sets.tolist()) or real(self, sets)
    )
    solved(held_rows(leverages))
    assert seen == [[2], [0, 1, 3, 4, 5, 6, 7]]
    assert [way[2] for way in went] == [1, 1, 7]


def test_sets_with_much_leverage_that_are_many_share_their_fate(went):
    leverages = np.full((4, H), 0.1)
    leverages[1:3, 1] = 0.5
    solved(held_rows(leverages))
    assert went == [("cg", [1, 2], 4), ("direct", 1, 4)]
    went.clear()
    leverages[1:3, 1] = 0.49
    solved(held_rows(leverages))
    assert went == [("cg", [0, 1, 2], 4)]


def test_who_must_be_told_is_not_iterated_where_digits_may_be_lost(went):
    """No pivot is smaller than one less the trace: only then may nobody look."""
    leverages = np.full((3, H), 0.1)
    leverages[1] = 0.24
    solved(held_rows(leverages, weak=1e-3), told=True)  # a trace of 0.96
    assert [way[0] for way in went] == ["cg"]
    went.clear()
    leverages[1] = 0.25
    solved(held_rows(leverages, weak=1e-3), told=True)  # a trace of 1
    assert [way[0] for way in went] == ["direct"]
    went.clear()
    solved(held_rows(leverages, weak=1e-3))
    assert [way[0] for way in went] == ["cg"]
    went.clear()
    leverages[:] = 0.24  # no set has more, all together have
    solved(held_rows(leverages, weak=1e-3), told=True)
    assert [way[0] for way in went] == ["cg"]


def test_what_does_not_converge_is_factorised(went, monkeypatch):
    real = identity.solve_cg

    def unsure(held, alphas, errors, **options):
        r, converged = real(held, alphas, errors, **options)
        converged[1, 0] = False
        return np.where(converged[:, :, None, None], r, np.nan), converged

    monkeypatch.setattr(identity, "solve_cg", unsure)
    solved(held_rows(np.full((2, H), 0.1)))
    assert went == [("cg", [0, 1, 2], 2), ("direct", 1, 2)]


@pytest.mark.parametrize("parallel", [True, False])
def test_a_users_function_is_asked_by_one_thread(monkeypatch, parallel):
    """Targets in parts, and stacks in parts, side by side only if rows may be made so."""
    threads = []

    class Factor:
        n_targets, size, fills = 5, 2, False

        def select(self, columns):
            return self

    Factor.parallel = parallel
    rows = Ragged.from_arrays([np.array([0]), np.array([1, 2]), np.array([3, 4, 5])])
    tasks = Tasks(rows, Ragged.empty(3), rows, np.arange(3))
    monkeypatch.setattr(
        identity, "run_pieces", lambda work, parts, n=None: threads.append((len(parts), n))
    )
    monkeypatch.setattr(identity, "_targets_at_once", lambda *_: 2)
    identity.held_out_predictions(Factor(), tasks, np.array([1.0]), apart=True)
    assert threads == [(3, None if parallel else 1)]
    threads.clear()
    stacks = []
    monkeypatch.setattr(identity, "_targets_at_once", lambda *_: 3)
    monkeypatch.setattr(identity, "piece_threads", lambda: 1)
    monkeypatch.setattr(identity, "_predictions", lambda f, part, *_: stacks.append(1) or np.zeros(
        (1, *part.T.shape, 5)
    ))  # fmt: skip
    identity.held_out_predictions(Factor(), tasks, np.array([1.0]), apart=True)
    assert (threads, len(stacks)) == (([(3, None)], 0) if parallel else ([], 3))


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
    return HeldCoordinates(V=V, out=V, D=D, R=D, O=None, z=z, Y=Y, kappa=1.0)


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
