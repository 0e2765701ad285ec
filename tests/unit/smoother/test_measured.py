"""Errors of dense models are measured, and what is measured is acted upon."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from holdfast import HoldOut, KernelRidgeCV
from holdfast.exceptions import DigitsWarning, KernelError
from holdfast.holdout import digits, single, spectral
from holdfast.kernels import RBF
from holdfast.linalg import Accuracy, solve_shifted
from holdfast.smoother.factor import KernelFactor
from reference.retrain import retrain

pytestmark = pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(18, 2))
Y = np.sin(X[:, :1]) + 0.1 * RNG.normal(size=(18, 2))
WEIGHTS = 10.0 ** RNG.uniform(-1, 1, 18)
WEIGHTS[4] = 0.0
ALPHAS = np.array([1e-7, 1e-5])
SETS = [HoldOut([3]), HoldOut([0, 4, 9], test=[9, 0]), HoldOut(np.arange(6, 12))]


def fitted(bias=True, weights=WEIGHTS, rows=X, targets=Y, sets=SETS, alphas=ALPHAS):
    model = KernelRidgeCV(
        RBF(0.1), alphas=alphas, cv=sets, fit_intercept=bias, path="spectral", scoring="r2"
    ).fit(rows, targets, sample_weight=weights)
    question = model._fitted_model()
    return question.smoother, question.tasks(model._problem.experiments)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("single", [False, True])
def test_an_error_is_measured_for_what_it_is(bias, single):
    smoother, tasks = fitted(bias)
    which = slice(0, 1) if single else slice(None)
    alphas = ALPHAS[which]
    factor = smoother.factor(1e-7) if single else smoother.factor()
    values = spectral.held_out_predictions(smoother.factor(), tasks, ALPHAS)[which]
    small = smoother.measured(tasks, alphas, values, slice(None), factor)
    wrong = values.copy()
    wrong[0, 1, 0] += 1e-6
    large = smoother.measured(tasks, alphas, wrong, slice(None), factor)
    restored = smoother.restore(values.copy(), tasks.test.values, slice(None))
    size = np.abs(restored[0, :, 0]).max()
    assert small.errors.max() < 1e-7
    assert large.errors[0] == pytest.approx(1e-6 / size, rel=0.1)
    np.testing.assert_array_equal(large.attainable, small.attainable)


def test_predictions_that_are_given_up_are_not_measured():
    smoother, tasks = fitted()
    values = spectral.held_out_predictions(smoother.factor(), tasks, ALPHAS)
    whole = smoother.measured(tasks, ALPHAS, values, slice(None))
    some = values.copy()
    some[:, 0] = np.nan
    left = smoother.measured(tasks, ALPHAS, some, slice(None))
    assert (left.errors > 0).all()
    assert (left.errors <= 3 * whole.errors).all()
    nothing = smoother.measured(tasks, ALPHAS, np.full_like(values, np.nan), slice(None))
    np.testing.assert_array_equal(nothing.errors, 0.0)


def test_the_step_of_refinement_ends_at_retraining():
    """With a factor that is wrong by 1e-4, one step leaves its square."""
    smoother, tasks = fitted(weights=None)
    K = RBF(0.1)(X)
    exact = np.concatenate(
        [retrain(K, Y, tasks.held[j], tasks.test[j], 1e-5) for j in range(len(tasks))]
    )[None]
    factor = smoother.factor()
    rough = KernelFactor(
        factor.V, factor.Lambda * (1 + 1e-4), factor.penalised, factor.z, factor.Ys, factor.scale
    )
    values = exact - Y.mean(axis=0)
    alpha = np.array([1e-5])
    assert smoother.measured(tasks, alpha, values, slice(None), rough).errors.max() < 1e-6
    assert np.abs(rough.inverse_rows(np.array([0]), alpha)
                  / factor.inverse_rows(np.array([0]), alpha) - 1).max() > 1e-5  # fmt: skip


def test_a_path_that_is_clearly_worse_is_not_believed(monkeypatch):
    """Predictions that are wrong in the seventh digit are trained anew, or a warning names α."""
    right = spectral.held_out_predictions

    def wrong(factor, tasks, alphas):
        values = right(factor, tasks, alphas)
        values[alphas == 1e-5] *= 1 + 1e-7
        return values

    model = KernelRidgeCV(RBF(0.1), alphas=ALPHAS, cv=SETS, path="spectral", scoring="r2")
    expected = model.fit(X, Y).held_out(alphas=ALPHAS).values
    monkeypatch.setattr(spectral, "held_out_predictions", wrong)
    np.testing.assert_allclose(model.held_out(alphas=ALPHAS).values, expected, rtol=1e-10)
    monkeypatch.setattr("holdfast.holdout.affordable", lambda *what: False)
    monkeypatch.setattr(digits, "CHEAP", 0.0)
    # The inverse at that penalty makes up for it, …
    np.testing.assert_allclose(model.held_out(alphas=ALPHAS).values[1], expected[1], rtol=1e-9)
    monkeypatch.setattr(single, "held_out_predictions", wrong)  # … unless it is as bad.
    with pytest.warns(DigitsWarning, match=r"alpha = 1e-05 .*unlike") as told:
        model.held_out(alphas=ALPHAS)
    assert told[0].message.alphas == (1e-5,)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("gamma", [0.01, None, 1.0])
def test_ordinary_data_are_not_doubted(gamma, bias, monkeypatch):
    """No retraining and no warning, at any penalty of the default grid."""
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(120, 4))
    y = np.sin(rows[:, 0]) + rows[:, 1] + 0.1 * rng.normal(size=120)
    monkeypatch.setattr("holdfast.holdout._fill_in", None)  # nothing to fill in
    looked = []
    believe = digits.without_doubt

    def watched(values, smoother, tasks, alphas, columns, factor=None):
        looked.append(smoother.measured(tasks, alphas, values, columns, factor))
        return believe(values, smoother, tasks, alphas, columns, factor)

    monkeypatch.setattr(spectral, "without_doubt", watched)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DigitsWarning)
        model = KernelRidgeCV(gamma=gamma, fit_intercept=bias, path="spectral").fit(rows, y)
    assert model.verify().max_relative_error < 1e-5
    if gamma == 0.01:  # nearly singular: it was looked at, and found as good as can be
        found = looked[0]
        assert (found.errors < 3 * found.attainable + 1e-12).all()


def test_a_narrow_kernel_predicts_tiny_numbers_with_all_their_digits():
    """Predictions of 1e-20 beside targets of 1: what a spectrum leaves of the targets is 1e-16."""
    rows = np.arange(12.0)[:, None]
    y = RNG.normal(size=12)
    kernel, alphas = RBF(45.0), np.array([1e-6, 1.0])
    model = KernelRidgeCV(
        kernel, alphas=alphas, fit_intercept=False, path="spectral", scoring="r2"
    ).fit(rows, y)
    found = model.held_out(alphas=alphas).values[..., 0]
    for alpha, values in zip(alphas, found, strict=True):
        expected = [retrain(kernel(rows), y, [i], [i], alpha, bias=False)[0, 0] for i in range(12)]
        assert np.abs(expected).max() < 1e-19
        np.testing.assert_allclose(values, expected, rtol=1e-12)


def test_rounding_errors_larger_than_the_penalty_do_not_stop_a_path():
    """A matrix that is semidefinite but for rounding has a spectrum, if no Cholesky factor."""
    v = np.linspace(1.0, 2.0, 9)[:, None]
    A = v @ v.T
    A[0, 0] -= 2e-15
    for alphas in (np.full(1, 1e-17), np.full(6, 1e-17)):
        with pytest.raises(KernelError):
            solve_shifted(A, v, alphas, Accuracy(np.zeros(9)))
        x = solve_shifted(A, v, alphas, Accuracy(np.zeros(9), refine=True))
        np.testing.assert_allclose(A @ x[-1], v, rtol=1e-6)
