"""Single rows without themselves, and y − r: which digits are believed, at the limits."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from holdfast.holdout.identity import (
    CANCELLING,
    HeldSystem,
    _alone_predictions,
    from_residuals,
    solve_direct,
)
from holdfast.holdout.lost import CLOSE, DIRECTION, FAINT, VANISHING, signs
from holdfast.smoother import Alone, HeldCoordinates


def alone(gap, fitted, errors, weak, lift=None, size=0.0):
    """Return one row for each entry, at one penalty and for one target."""
    gap = np.atleast_1d(np.asarray(gap, dtype=float))
    lift = 1.0 - gap if lift is None else np.asarray(lift, dtype=float)
    fitted, errors = (np.broadcast_to(x, gap.shape).astype(float) for x in (fitted, errors))
    columns = (fitted[None, :, None], lift[:, None], gap[:, None], errors[None, :, None])
    return Alone(*columns, weak, np.full((1, 1), size))


def test_a_row_falls_by_its_lift_times_the_residual():
    found = _alone_predictions(alone([0.5, 0.25], [1.0, 2.0], [0.1, 0.2], 1e-3, [0.3, 0.6]))
    assert_allclose(found[0, :, 0], [1.0 - 0.3 * 0.2, 2.0 - 0.6 * 0.8])


def test_a_gap_has_to_be_larger_than_the_weakest():
    found = _alone_predictions(alone([0.1, 0.11, 0.09], 1.0, 0.01, 0.1))
    assert_array_equal(np.isnan(found[0, :, 0]), [True, False, True])


@pytest.mark.parametrize("size", [1.0, 1e-3, 1e3])
def test_predictions_that_vanish_beside_residuals_are_not_believed(size):
    """Where the gap is close to nothing, and only there."""
    gap = np.array([0.5 * CLOSE, CLOSE, 1.01 * CLOSE, 0.5 * CLOSE, 0.5])
    share = np.array([0.9, 0.9, 0.9, 1.1, 9.0]) * VANISHING  # of what is left, as residuals are
    r = size * np.ones(5)
    left = share * r
    fitted = left + (1.0 - gap) * r
    found = _alone_predictions(alone(gap, fitted, gap * r, 1e-5))
    assert_array_equal(np.isnan(found[0, :, 0]), [True, True, False, False, False])
    assert_allclose(found[0, 2:, 0], left[2:], rtol=1e-9)
    # Without a limit there is no doubt: nothing was subtracted to get the gap.
    assert np.isfinite(_alone_predictions(alone(gap, fitted, gap * r, -np.inf))).all()
    assert np.isfinite(_alone_predictions(alone(gap, fitted, gap * r, 0.0))).all()


def test_weights_do_not_change_what_vanishes():
    """A row of weight 4: the lift is that of the prediction, the residual that of √w y."""
    gap, root = np.array([0.5 * CLOSE] * 3), 2.0
    lift = (1.0 - gap) / root
    r = np.ones(3)
    left = np.array([0.9, 1.1, 9.0]) * VANISHING * r / root
    found = _alone_predictions(alone(gap, left + lift * r, gap * r, 1e-5, lift))
    assert_array_equal(np.isnan(found[0, :, 0]), [True, False, False])


def test_the_largest_prediction_counts_the_more_the_smaller_the_gap():
    """Twice as small a gap asks for twice as large a prediction, beside what was taken away."""
    for gap, asked in ((0.5, 1.0), (0.5 * CLOSE, 2.0), (0.1 * CLOSE, 10.0)):
        for share, lost in ((0.99, True), (1.01, False)):
            value = share * asked * VANISHING * (1.0 - gap)
            found = _alone_predictions(alone([gap], value + (1.0 - gap), gap, 1e-5))
            assert np.isnan(found).all() == lost, gap


def test_predictions_that_all_vanish_beside_what_was_taken_away():
    """Leverages may be moderate: what counts is the largest of all predictions of a target."""
    gap, r = np.array([0.5, 0.5]), np.array([1.0, 1.0])
    for left, lost in (([0.4, 0.3], True), ([0.51, 0.3], False)):
        small = np.array(left) * VANISHING
        found = _alone_predictions(alone(gap, small + 0.5 * r, gap * r, 1e-3))
        assert np.isnan(found).all() == lost
        assert np.isnan(found).any() == lost
        assert np.isfinite(_alone_predictions(alone(gap, small + 0.5 * r, gap * r, 0.0))).all()


@pytest.mark.parametrize("root", [1.0, 3.0])
def test_predictions_that_are_faint_beside_all_that_was_fitted(root):
    """A gap that is moderate, and a residual as small as the prediction: others were fitted."""
    gap = np.array([0.2, 0.4, 0.8])
    lift = (1.0 - gap) / root
    values = np.array([0.5, -1.0, 0.3])
    for share, lost in ((1.01, [False] * 3), (0.99, [True, False, False])):
        size = root * gap[0] / (share * FAINT * np.sqrt(1.0 - gap[0]))  # the largest is 1
        fitted = values + lift * values
        found = _alone_predictions(alone(gap, fitted, gap * values, 1e-3, lift, size))
        assert_array_equal(np.isnan(found[0, :, 0]), lost)
        everything = _alone_predictions(alone(gap, fitted, gap * values, 0.0, lift, size))
        assert_allclose(everything[0, :, 0], values)


def test_a_small_gap_alone_makes_no_prediction_faint():
    """Below CLOSE it counts as that: a bound on rounding errors is not their size."""
    gap = np.array([0.2 * CLOSE, 0.5])
    for share, lost in ((1.01, False), (0.99, True)):
        size = CLOSE / (share * FAINT * np.sqrt(1.0 - gap[0]))
        found = _alone_predictions(alone(gap, 1.0 + (1.0 - gap), gap, 1e-4, size=size))
        assert_array_equal(np.isnan(found[0, :, 0]), [lost, False])


def test_a_row_without_leverage_is_not_faint():
    """Its gap rounds to 1, and what is left of its lift must not be divided by that."""
    found = _alone_predictions(alone([1.0, 1.0], 1e-5, 1.0, 1e-3, [1e-20, -1e-20], 1.0))
    assert_allclose(found[0, :, 0], 1e-5)


# -- y − r, or the model itself ----------------------------------------------------------------


def held_rows(seed=0, kappa=1.0, itself=True, a=2, b=3, h=2, v=2, p=5):
    rng = np.random.default_rng(seed)
    V = 0.3 * rng.standard_normal((b, h, p))
    D = rng.uniform(0.5, 1.0, size=(a, p))
    z, Y = rng.standard_normal((p, v)), rng.uniform(1.0, 2.0, size=(b, h, v))
    out = V if itself else V + 0.0
    return HeldCoordinates(V=V, out=out, D=D, R=D, O=None, z=z, Y=Y, kappa=kappa)


def test_predictions_are_what_residuals_leave_unless_that_is_little():
    """With residuals that are no solution the two ways differ, and show which was taken."""
    held = held_rows()
    r = np.broadcast_to(0.5 * held.Y, (2, *held.Y.shape)).copy()
    assert_array_equal(from_residuals(held, r), held.Y - r)
    # One target of one set is small at the second penalty: the model is asked at that penalty.
    largest = np.abs(held.Y[1, :, 1]).max()
    for factor, model in ((0.99, True), (1.01, False)):
        some = r.copy()
        some[1, 1, :, 1] = held.Y[1, :, 1] - factor * CANCELLING * largest
        found = from_residuals(held, some)
        assert_array_equal(found[0], held.Y - some[0])
        expected = held.predict(some)[1] if model else held.Y - some[1]
        assert_allclose(found[1], expected, rtol=1e-12)


def test_other_rows_are_always_predicted_by_the_model():
    held = held_rows(itself=False)
    r = np.broadcast_to(0.5 * held.Y, (2, *held.Y.shape)).copy()
    assert_array_equal(from_residuals(held, r), held.predict(r))
    dual = held_rows(kappa=0.0)
    assert_array_equal(from_residuals(dual, r), dual.predict(r))


# -- systems with a weak direction -------------------------------------------------------------


def weak_direction(factor, h=40, weak=1e-3):
    """Return a set whose I − S shrinks one direction so much that signs grow to 1/`factor`.

    In units of what may be.
    """
    look = signs(h)[:, 0]
    direction = look * np.linspace(0.5, 1.5, h)
    direction /= np.linalg.norm(direction)
    gap = factor * DIRECTION * weak * (look @ direction) * np.abs(direction).max()
    V = np.zeros((1, h, h + 1))  # more coordinates than rows
    V[0, :, 0] = direction * np.sqrt(1.0 - gap)
    D, z = np.ones((1, h + 1)), np.ones((h + 1, 1))
    return HeldCoordinates(
        V=V, out=V, D=D, R=D, O=None, z=z, Y=np.ones((1, h, 1)), kappa=1.0, weak=weak
    )


def test_a_direction_that_shows_in_no_pivot():
    """All pivots are moderate, and yet the inverse lengthens one vector too much."""
    for factor, lost in ((0.9, True), (1.1, False)):
        held = weak_direction(factor)
        pivots = np.square(np.diag(np.linalg.cholesky(held.gaps(slice(None))[0, 0])))
        assert pivots.min() > held.weak
        assert np.isnan(solve_direct(held, np.ones((1, 1, 40, 1)))).all() == lost
        assert HeldSystem(held).weak.tolist() == [lost]


def test_little_that_is_left_of_targets_beside_a_small_pivot():
    h = 1
    V = np.full((1, 1, 1), np.sqrt(1.0 - 0.5 * CLOSE))
    one = np.ones((1, 1))
    held = HeldCoordinates(
        V=V, out=V, D=one, R=one, O=None, z=0.0 * one, Y=np.zeros((1, h, 1)), kappa=1.0, weak=1e-5
    )
    errors = np.full((1, 1, 1, 1), 0.5 * CLOSE)  # so that r = 1
    assert_allclose(solve_direct(held, errors), 1.0, rtol=1e-9)
    for left, lost in ((1.98, True), (2.02, False)):  # half of CLOSE asks for twice as much
        Y = np.full((1, 1, 1), 1.0 + left * VANISHING)
        assert np.isnan(solve_direct(held, errors, Y)).all() == lost
    wide = HeldCoordinates(
        V=np.full((1, 1, 1), np.sqrt(1.0 - 1.1 * CLOSE)), out=V, D=one, R=one, O=None, z=0.0 * one,
        Y=np.zeros((1, h, 1)), kappa=1.0, weak=1e-5,
    )  # fmt: skip
    Y = np.full((1, 1, 1), 1.0 + 0.5 * VANISHING)
    assert np.isfinite(solve_direct(wide, np.full((1, 1, 1, 1), 1.1 * CLOSE), Y)).all()


def test_sets_that_are_faint_beside_all_that_was_fitted():
    """The largest prediction of all sets counts, and the pivot of each."""
    gap = np.array([0.2, 0.4])
    V = np.zeros((2, 2, 3))
    V[:, 0, 0] = np.sqrt(1.0 - gap)
    r, left = np.full((2, 2, 2), 0.5), np.array([[0.1, 0.0], [1.0, 0.0]])
    one = np.ones((1, 3))
    for share, lost in ((1.01, [False, False]), (0.99, [True, False])):
        z = np.zeros((3, 2))
        z[2] = gap[0] / (share * FAINT * np.sqrt(1.0 - gap[0])), 1e-9
        held = HeldCoordinates(
            V=V, out=V, D=one, R=one, O=None, z=z, Y=np.zeros((2, 2, 2)), kappa=1.0, weak=1e-3
        )
        errors = (held.gaps(slice(None))[:, 0] @ r)[None]
        found = solve_direct(held, errors, r + left[:, :, None])
        assert_array_equal(np.isnan(found[0]).all(axis=(1, 2)), lost)
        assert_array_equal(np.isnan(found[0]).any(axis=(1, 2)), lost)
        assert_allclose(solve_direct(held, errors)[0], r)


def test_one_target_that_is_left_with_little_costs_the_set():
    """Of several targets one is enough, at the penalty where the pivot is small."""
    h, gap = 2, 0.5 * CLOSE
    V = np.zeros((2, h, 3))
    V[0, 0, 0] = np.sqrt(1.0 - gap)
    V[1, 0, 0] = 0.5
    D, z = np.ones((1, 3)), np.zeros((3, 2))
    held = HeldCoordinates(
        V=V, out=V, D=D, R=D, O=None, z=z, Y=np.zeros((2, h, 2)), kappa=1.0, weak=1e-5
    )
    r = np.array([[1.0, 1.0], [0.5, 0.5]])  # of both sets; the largest row counts
    gaps = held.gaps(slice(None))[:, 0]
    errors = (gaps @ r)[None]
    Y = np.broadcast_to(r, (2, h, 2)).copy()
    Y[:, 0] += [0.9 * VANISHING, 1.1 * VANISHING]
    Y[1, 1] += 0.5  # a good size for one of the sets
    found = solve_direct(held, errors, Y)
    assert np.isnan(found[0, 0]).all()
    assert_allclose(found[0, 1], r)
    Y[:, 0, 0] = Y[:, 0, 1]
    assert_allclose(solve_direct(held, errors, Y)[0], [r, r], rtol=1e-9)


@pytest.mark.parametrize(("h", "p"), [(3, 6), (6, 3)], ids=["few rows", "few coordinates"])
@pytest.mark.parametrize("e", [0, 1])
def test_a_system_and_its_inverse(h, p, e):
    """By I − S_HH, or where rows are more than coordinates by the smaller system."""
    rng = np.random.default_rng(h)
    V = rng.standard_normal((2, h, p)) / np.sqrt(4.0 * h * p)
    O = np.linalg.qr(rng.standard_normal((2, p, e)))[0] if e else None  # noqa: E741
    D, z = np.ones((1, p)), np.ones((p, 1))
    held = HeldCoordinates(
        V=V, out=V, D=D, R=D, O=O, z=z, Y=np.ones((2, h, 1)), kappa=1.0, weak=1e-6
    )
    system = HeldSystem(held)
    right = rng.standard_normal((2, h, 2))
    for j in range(2):
        P = np.eye(p) if O is None else np.eye(p) - O[j] @ O[j].T
        gap = np.eye(h) - V[j] @ P @ V[j].T
        assert_allclose(system.solve(right)[j], np.linalg.solve(gap, right[j]), rtol=1e-9)
        assert_allclose(system.inverse_diagonal()[j], np.diag(np.linalg.inv(gap)), rtol=1e-9)
        assert system.log_det[j] == pytest.approx(np.linalg.slogdet(gap)[1])
    assert system.weak.tolist() == [False, False]
