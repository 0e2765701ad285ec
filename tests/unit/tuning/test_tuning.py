"""The search for alpha and gamma: what it finds, what it says, and how it ends."""

from __future__ import annotations

import operator

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_friedman1
from sklearn.model_selection import LeaveOneGroupOut

from holdfast import KernelRidgeClassifierCV, KernelRidgeCV
from holdfast.exceptions import (
    GridEdgeWarning,
    HoldOutError,
    InvalidInputError,
    KernelError,
    NotSupportedError,
    SelectionBiasWarning,
)
from holdfast.kernels import RBF, Laplacian, Matern, OnColumns
from holdfast.tuning import tune
from holdfast.tuning.criterion import Criterion, Evaluation
from holdfast.tuning.flatness import relevance, standard_error
from holdfast.tuning.losses import SquaredError
from holdfast.tuning.space import Coordinates

SEED = 7


def wave(m=60, d=2):
    print(f"seed {SEED}")
    rng = np.random.default_rng(SEED)
    X = rng.uniform(-2, 2, size=(m, d))
    y = np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=m)
    return X, y


@pytest.mark.filterwarnings("ignore:the best alpha is")  # of the grid
@pytest.mark.parametrize("basis", [None, 20])
def test_lbfgs_and_nelder_mead_meet_below_the_grid(basis):
    X, y = wave()
    model = KernelRidgeCV("rbf", basis=basis, cv=6, random_state=0)
    by_gradient = tune(model, X, y, flatness=False)
    by_simplex = tune(model, X, y, method="nelder-mead", flatness=False)
    assert by_gradient.success
    assert by_simplex.success
    assert by_gradient.criterion == pytest.approx(by_simplex.criterion, rel=1e-4)
    grid = {"gamma": np.logspace(-2, 1.5, 8), "alphas": np.logspace(-4, 1, 8)}
    assert by_gradient.criterion <= -model.set_params(**grid).fit(X, y).best_score_
    # a stationary point, or one at the bounds
    assert by_gradient.n_evaluations < by_simplex.n_evaluations
    assert np.nanmin(by_gradient.trials.gradient_norm) < 1e-3


@pytest.mark.filterwarnings("ignore:the best")
def test_estimator_reproduces_the_criterion():
    X, y = wave()
    groups = np.arange(60) // 4
    weights = np.random.default_rng(0).uniform(0.5, 2, size=60)
    model = KernelRidgeCV("matern52", basis=15, cv=LeaveOneGroupOut(), random_state=SEED)
    bounds = {"alpha": (1e-4, 10.0), "gamma": (0.05, 50.0)}
    result = tune(model, X, y, sample_weight=weights, groups=groups, bounds=bounds, flatness=False)
    fitted = result.estimator().fit(X, y, sample_weight=weights, groups=groups)
    middle = len(fitted.cv_results_["alpha"]) // 2
    assert fitted.cv_results_["alpha"][middle] == pytest.approx(result.alpha, rel=1e-12)
    error = -fitted.cv_results_["pooled_test_score"][middle]
    assert error == pytest.approx(result.criterion, rel=1e-10)
    np.testing.assert_array_equal(fitted.basis_indices_, result.basis_indices)
    assert clone(result.estimator(rule="1se")).rule == "1se"
    assert isinstance(result.kernel, Matern)


LAWS = {"log_density": "minus log density"}


@pytest.mark.filterwarnings("ignore:the best alpha is")  # of the grid
@pytest.mark.parametrize("scoring", LAWS)
@pytest.mark.parametrize("basis", [None, 20])
def test_tuning_for_a_law_beats_a_grid_by_its_score(scoring, basis):
    X, y = wave()
    model = KernelRidgeCV("rbf", basis=basis, cv=6, random_state=0, scoring=scoring)
    result = tune(model, X, y, flatness=False)
    by_simplex = tune(model, X, y, method="nelder-mead", flatness=False)
    assert result.success
    assert result.criterion == pytest.approx(by_simplex.criterion, abs=1e-4)
    assert np.nanmin(result.trials.gradient_norm) < 1e-3
    assert f"held-out {LAWS[scoring]} {result.criterion:.4g}" in repr(result)
    gammas, alphas = np.logspace(-2, 1.5, 8), np.logspace(-4, 1, 8)
    grid = KernelRidgeCV(**(model.get_params() | {"gamma": gammas, "alphas": alphas})).fit(X, y)
    assert result.criterion <= -grid.best_score_
    fitted = result.estimator().fit(X, y)  # chooses alpha by the same score
    middle = len(fitted.cv_results_["alpha"]) // 2
    score = fitted.cv_results_["pooled_test_score"][middle]
    assert -score == pytest.approx(result.criterion, rel=1e-10)
    assert fitted.scoring == scoring


def test_the_scale_of_targets_shifts_the_log_density():
    X, y = wave(50)
    model = KernelRidgeCV("rbf", cv=5, scoring="log_density")
    one = tune(model, X, y, ard=True)
    other = tune(model, X, 1e6 * y, ard=True)
    assert other.criterion == pytest.approx(one.criterion + np.log(1e6), abs=1e-5)
    assert other.gamma[0] == pytest.approx(one.gamma[0], rel=0.05)
    assert other.relevance.verdicts == one.relevance.verdicts
    assert one.relevance.relevant.tolist() == [True, False]
    assert other.standard_error == pytest.approx(one.standard_error, rel=1e-2)


def test_flatness_of_a_log_density_is_measured_in_its_own_units():
    X, y = wave()
    model = KernelRidgeCV("rbf", cv=6, scoring="log_density")
    result = tune(model, X, y)
    criterion, best = Criterion.of(model, X, y), np.log([result.alpha, result.gamma[0]])
    rises = (0.005, result.standard_error)
    ranges = (result.flatness.one_percent, result.flatness.one_standard_error)
    for rise, range_ in zip(rises, ranges, strict=True):
        for i, end in np.ndindex(2, 2):
            at = best.copy()
            at[i] = np.log(range_[i, end])
            found = criterion.evaluate(at, gradient=False).value - result.criterion
            assert found == pytest.approx(rise, rel=0.11)


def test_a_target_without_error_has_no_density():
    X, y = wave(30)
    for scoring in LAWS:
        model = KernelRidgeCV("rbf", cv=3, scoring=scoring)
        with pytest.raises(HoldOutError, match="target 1 is predicted without error"):
            tune(model, X, np.c_[y, np.ones(30)], flatness=False)
    with pytest.raises(InvalidInputError, match="log_density"):
        tune(KernelRidgeClassifierCV("rbf", scoring="log_density"), X, np.arange(30) % 2)


def test_an_iterator_of_splits_serves_the_estimator_too():
    X, y = wave(30)
    pairs = ((np.delete(np.arange(30), rows), rows) for rows in np.array_split(np.arange(30), 3))
    result = tune(KernelRidgeCV("rbf", cv=pairs), X, y, flatness=False)
    fitted = result.estimator().fit(X, y)
    assert fitted.n_splits_ == 3


def test_ard_finds_the_irrelevant_features_and_a_lower_error():
    X, y = make_friedman1(n_samples=250, n_features=9, noise=1.0, random_state=0)
    model = KernelRidgeCV("rbf", basis=60, cv=10, random_state=0)
    one = tune(model, X, y, flatness=False)
    many = tune(model, X, y, ard=True, n_starts=1)
    assert many.criterion < 0.75 * one.criterion
    assert many.relevance.relevant[:5].all()
    assert not many.relevance.relevant[5:].any()
    assert many.irrelevant[5:].sum() >= 3  # of one it may be that it cannot be told
    assert many.relevance.verdicts[0] == "relevant"
    assert many.gamma.shape == (9,)
    rest = many.relevance
    assert (rest.rise[:5] > 2 * rest.standard_error[:5]).all()


def test_the_search_goes_on_where_a_feature_turns_out_to_do_harm():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(80, 2))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=80)
    model = KernelRidgeCV(cv=5)
    first = tune(model, X, y, ard=True, flatness=False)
    result = tune(model, X, y, ard=True)
    assert result.criterion < 0.9 * first.criterion
    assert (result.relevance.rise > -0.01 * result.criterion).all()
    assert result.irrelevant.tolist() == [False, True]
    assert result.trials.start.max() > first.trials.start.max()
    assert result.n_evaluations == len(result.trials)


def test_flatness_is_that_of_the_criterion():
    X, y = wave()
    model = KernelRidgeCV("rbf", cv=6)
    result = tune(model, X, y)
    criterion = Criterion.of(model, X, y)
    best = np.log([result.alpha, result.gamma[0]])

    def value(*shift):
        return criterion.evaluate(best + np.array(shift), gradient=False).value

    h = 1e-2
    second = (value(h, 0) - 2 * value(0, 0) + value(-h, 0)) / h**2
    mixed = (value(h, h) - value(h, -h) - value(-h, h) + value(-h, -h)) / (4 * h * h)
    assert result.flatness.hessian[0, 0] == pytest.approx(second, rel=1e-2)
    assert result.flatness.hessian[0, 1] == pytest.approx(mixed, rel=1e-2)
    assert (result.flatness.eigenvalues > 0).all()
    losses = criterion.evaluate(best).losses
    assert result.standard_error == standard_error(losses, criterion.share)
    rises = (0.01 * result.criterion, result.standard_error)
    ranges = (result.flatness.one_percent, result.flatness.one_standard_error)
    for threshold, range_ in zip(rises, ranges, strict=True):
        for i in (0, 1):
            for end in np.log(range_[i]) - best[i]:
                shift = [0.0, 0.0]
                shift[i] = end
                assert value(*shift) - result.criterion == pytest.approx(threshold, rel=0.11)


def test_ranges_of_widths_that_lie_at_a_bound():
    """There the criterion is no parabola: an end that the search does not bound is a crossing."""
    rng = np.random.default_rng(5)
    X = rng.uniform(-2, 2, size=(60, 3))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=60)
    model = KernelRidgeCV(cv=5)
    result = tune(model, X, y, ard=True)
    criterion = Criterion.of(model, X, y, ard=True)
    best = np.log([result.alpha, *result.gamma])
    for i, end in np.ndindex(4, 2):
        at = best.copy()
        at[i] = np.log(result.flatness.one_percent[i, end])
        rise = criterion.evaluate(at, gradient=False).value / result.criterion - 1.0
        bounded = end == 0 and i in (2, 3)
        assert rise == pytest.approx(0.0 if bounded else 0.01, rel=0.11, abs=1e-6)


def test_standard_error_of_equal_experiments_is_the_usual_one():
    losses = np.random.default_rng(0).random(50)
    usual = losses.std(ddof=1) / np.sqrt(50)
    assert standard_error(losses / 50, np.full(50, 1 / 50)) == pytest.approx(usual)
    assert np.isnan(standard_error(np.ones(1), np.ones(1)))


def test_what_was_tried():
    X, y = wave(40)
    seen = []
    result = tune(KernelRidgeCV("rbf", cv=4), X, y, ard=True, flatness=False, callback=seen.append)
    assert [trial.number for trial in seen] == list(range(1, result.n_evaluations + 1))
    np.testing.assert_array_equal([trial.criterion for trial in seen], result.trials.criterion)
    assert len(result.trials) == result.n_evaluations
    assert np.nanmin(result.trials.criterion) == result.criterion
    assert set(result.trials.start.tolist()) == {-1, 0, 1}
    frame = result.to_frame()
    assert list(frame) == ["start", "alpha", "gamma_0", "gamma_1", "criterion", "gradient_norm"]
    assert "held-out mean squared error" in repr(result)


def test_progress_is_told():
    X, y = wave(30)
    told = []
    model = KernelRidgeCV("rbf", cv=3)
    tune(model, X, y, progress=lambda *args: told.append(args), max_evaluations=12, flatness=False)
    assert told[-1] == (12, 12, "tuning")


def test_interruption_returns_the_best_so_far():
    X, y = wave(40)

    def interrupt(trial):
        if trial.number == 15:
            raise KeyboardInterrupt

    result = tune(KernelRidgeCV("rbf", cv=4), X, y, callback=interrupt)
    assert result.n_evaluations == 15
    assert not result.success
    assert "interrupted" in result.message
    assert result.flatness is None
    assert result.criterion == np.nanmin(result.trials.criterion)


def test_limits_and_callback_end_the_search():
    X, y = wave(40)
    model = KernelRidgeCV("rbf", cv=4)
    short = tune(model, X, y, max_evaluations=11, flatness=False)
    assert (short.n_evaluations, short.success) == (11, False)
    assert "11 evaluations" in short.message
    stopped = tune(model, X, y, callback=lambda trial: trial.number == 5, flatness=False)
    assert (stopped.n_evaluations, stopped.message) == (5, "stopped by the callback")


def test_start_and_bounds():
    X, y = wave(40)
    model = KernelRidgeCV("rbf", cv=4)
    result = tune(model, X, y, start=(0.5, 2.0), flatness=False)
    assert (result.trials.alpha[0], result.trials.gamma[0, 0]) == pytest.approx((0.5, 2.0))
    limits = {"gamma": (5.0, 50.0)}
    with pytest.warns(GridEdgeWarning, match="gamma, 5, lies at a bound"):
        tight = tune(model, X, y, bounds=limits, flatness=False)
    assert tight.gamma[0] == pytest.approx(5.0)
    assert tight.trials.gamma.min() >= 5.0 * (1 - 1e-12)
    two = tune(model, X, y, start=[(0.5, 2.0), (0.1, [1.0, 3.0])], ard=True, flatness=False)
    assert set(two.trials.start.tolist()) == {0, 1}


def test_scale_of_targets_and_features_does_not_matter():
    X, y = wave(50)
    model = KernelRidgeCV("rbf", cv=5)
    one = tune(model, X, y, ard=True, flatness=False)
    other = tune(model, X * [1.0, 1000.0], 1e6 * y, ard=True, flatness=False)
    assert other.criterion == pytest.approx(1e12 * one.criterion, rel=1e-4)
    assert other.gamma[0] == pytest.approx(one.gamma[0], rel=0.05)


@pytest.mark.parametrize("scoring", [None, *LAWS])
def test_targets_whose_squares_leave_the_range_of_numbers(scoring):
    X, y = wave(40)
    model = KernelRidgeCV("rbf", cv=4, scoring=scoring)
    one = tune(model, X, y, ard=True)
    for size in (2.0**-600, 2.0**300):
        seen = []
        other = tune(model, X, size * y, ard=True, callback=seen.append)
        np.testing.assert_allclose([other.alpha, *other.gamma], [one.alpha, *one.gamma], rtol=1e-3)
        assert other.relevance.verdicts == one.relevance.verdicts
        assert seen[0].criterion == other.trials.criterion[0]
        if scoring == "log_density":
            assert other.criterion == pytest.approx(one.criterion + np.log(size), abs=1e-6)
            assert other.standard_error == pytest.approx(one.standard_error, rel=1e-3)


def test_a_model_that_breaks_down_everywhere_says_why():
    X, y = wave(30)
    X[:, 1] = X[:, 0] = np.arange(30) // 10  # three different rows, all in the basis
    model = KernelRidgeCV("rbf", basis=np.arange(30), cv=3, jitter=0.0, held_out_basis="keep")
    with pytest.raises(KernelError, match="singular"):
        tune(model, X, y, flatness=False)


@pytest.mark.filterwarnings("ignore:the best alpha")
def test_a_trial_that_breaks_down_is_stepped_back_from():
    X, y = wave(30)
    # Without a shift, wide kernels make the basis singular; narrow ones are fine.
    model = KernelRidgeCV("rbf", basis=25, cv=3, jitter=0.0, random_state=0)
    bounds = {"gamma": (1e-6, 1e3)}
    result = tune(model, X, y, start=[(0.1, 1e-6), (0.1, 20.0)], bounds=bounds, flatness=False)
    assert np.isnan(result.trials.criterion[0])
    assert np.isfinite(result.criterion)


def test_classifier_and_kernels_without_gradient():
    X, y = wave(50)
    labels = np.where(y > 0, "high", "low")
    model, limits = KernelRidgeClassifierCV("rbf", cv=5), {"gamma": (0.1, 10.0)}
    result = tune(model, X, labels, bounds=limits, flatness=False)
    assert isinstance(result.estimator(), KernelRidgeClassifierCV)
    assert result.estimator().fit(X, labels).best_score_ > 0.8
    codes = KernelRidgeCV(result.kernel, alphas=[result.alpha], cv=5).fit(X, 2.0 * (y > 0) - 1.0)
    assert -codes.best_score_ == pytest.approx(result.criterion, rel=1e-9)
    laplacian = tune(KernelRidgeCV(Laplacian(1.0), cv=5), X, y, method="nelder-mead")
    assert isinstance(laplacian.kernel, Laplacian)
    assert laplacian.flatness.hessian is None
    assert laplacian.flatness.one_percent.shape == (2, 2)
    with pytest.raises(NotSupportedError, match="nelder-mead"):
        tune(KernelRidgeCV(Laplacian(1.0), cv=5), X, y)


@pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")
def test_a_sum_of_kernels_is_tuned_as_one_kernel_is():
    rng = np.random.default_rng(3)
    X = rng.uniform(-3, 3, size=(90, 1))
    y = np.sin(8 * X[:, 0]) + 2.0 * np.sin(0.8 * X[:, 0]) + 0.3 * rng.normal(size=90)
    model = KernelRidgeCV(RBF(1.0) + 1.0 * RBF(1.0), cv=5)
    result = tune(model, X, y, flatness=False)
    alone = tune(KernelRidgeCV(RBF(1.0), cv=5), X, y, flatness=False)
    assert result.criterion < alone.criterion
    assert result.gamma.shape == (2,)
    assert result.kernel.parameters.keys() == model.kernel.parameters.keys()
    names = ["k1__gamma", "k2__factor", "k2__kernel__gamma"]
    assert list(result.trials.names) == names
    assert [name for name in result.to_frame() if "__" in name] == names
    fitted = result.estimator(alphas=[result.alpha]).fit(X, y)
    assert -fitted.best_score_ == pytest.approx(result.criterion, rel=1e-6)
    limits = {"gamma": (0.5, 40.0), "k2__factor": (0.1, 10.0)}
    start = (0.01, {"k1__gamma": 20.0, "k2__factor": 1.0, "k2__kernel__gamma": 0.6})
    again = tune(model, X, y, start=start, bounds=limits, flatness=True)
    assert all(0.5 <= gamma <= 40.0 for gamma in again.gamma)
    assert again.flatness.hessian.shape == (4, 4)
    with pytest.raises(InvalidInputError, match="k2__factor"):
        tune(model, X, y, start=(0.01, {"gamma": 1.0}))
    simplex = tune(model, X, y, start=start, method="nelder-mead", flatness=False)
    assert simplex.criterion == pytest.approx(result.criterion, rel=0.1)


@pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")
@pytest.mark.parametrize("join", [operator.add, operator.mul], ids=["sum", "product"])
def test_parts_on_some_columns_start_from_the_widths_of_these(join):
    """Columns in units a factor of 1000 apart: brute force over a grid finds no better kernel."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(60, 2)) * [1.0, 1000.0]
    y = np.sin(2 * X[:, 0]) + np.cos(3 * X[:, 1] / 1000.0) + 0.1 * rng.normal(size=60)

    def kernel(first, second):
        return join(OnColumns(RBF(first), [0]), OnColumns(RBF(second), [1]))

    result = tune(KernelRidgeCV(kernel(1.0, 1.0), cv=5), X, y, flatness=False)
    grid = [kernel(a, 1e-6 * b) for a in (0.03, 0.3, 3.0) for b in (0.03, 0.3, 3.0)]
    brute = KernelRidgeCV(grid, alphas=np.logspace(-5, 1, 13), cv=5).fit(X, y)
    assert result.criterion <= -brute.best_score_ < 0.1


def test_one_width_per_feature_needs_a_kernel_that_has_them():
    X, y = wave(20)
    with pytest.raises(NotSupportedError, match="ard=False"):
        tune({"kernel": "poly", "cv": 3}, X, y, ard=True)


def test_a_selector_that_looks_at_the_rows_is_named():
    from holdfast.basis import RandomlyPivotedCholesky

    X, y = wave(40)
    model = KernelRidgeCV("rbf", basis=RandomlyPivotedCholesky(8), cv=4)
    with pytest.warns(SelectionBiasWarning, match="RandomlyPivotedCholesky"):
        result = tune(model, X, y, max_evaluations=10, flatness=False)
    assert result.basis_indices.shape == (8,)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"method": "newton"}, InvalidInputError, "lbfgs"),
        ({"method": "nelder-mead", "ard": True}, NotSupportedError, "ard=False"),
        ({"n_starts": 0}, InvalidInputError, "n_starts"),
        ({"max_evaluations": 0.5}, InvalidInputError, "max_evaluations"),
        ({"bounds": {"beta": (1, 2)}}, InvalidInputError, "beta"),
        ({"bounds": {"alpha": (2, 1)}}, InvalidInputError, "low < high"),
        ({"bounds": {"gamma": (1, 2, 3)}}, InvalidInputError, "low, high"),
        ({"start": 3.0}, InvalidInputError, "pair"),
        ({"start": (1.0, -1.0)}, InvalidInputError, "positive"),
    ],
)
def test_refusals(arguments, error, words):
    X, y = wave(20)
    with pytest.raises(error, match=words):
        tune({"cv": 3}, X, y, **arguments)


def test_kernel_object_keeps_its_kind():
    X, y = wave(30)
    result = tune({"kernel": Matern(1.5, 0.7), "cv": 3}, X, y, max_evaluations=15, flatness=False)
    assert (type(result.kernel), result.kernel.nu) == (Matern, 1.5)
    assert isinstance(tune({"cv": 3}, X, y, max_evaluations=12, flatness=False).kernel, RBF)


@pytest.mark.parametrize(
    ("rise", "error", "verdict"),
    [
        (3.0, 3.3, "unclear"),
        (8.0, 3.3, "relevant"),
        (0.3, 0.4, "irrelevant"),
        (-0.5, 0.3, "irrelevant"),
        (-3.0, 3.3, "unclear"),
    ],
)
def test_a_rise_within_its_error_is_not_called_irrelevant(rise, error, verdict):
    """Of a mean squared error of 100: what can be said of a feature depends on both numbers."""

    class Stub:
        ard = True
        coordinates = Coordinates(RBF(1.0), ("gamma",), (1,))
        share = np.full(400, 1 / 400)
        loss = SquaredError

        @staticmethod
        def evaluate(point, gradient):
            # Differences with this sum and this standard error.
            spread = np.tile([1.0, -1.0], 200)
            spread *= error / np.sqrt(400 / 399 * np.sum(spread**2))
            losses = np.full(400, (100 + rise) / 400) + spread
            return Evaluation(100 + rise, losses, None)

    best = Evaluation(100.0, np.full(400, 0.25), None)
    found = relevance(Stub, np.zeros(2), best, np.array([[-9.0, 9.0], [-9.0, 9.0]]))
    assert found.rise[0] == pytest.approx(rise)
    assert found.standard_error[0] == pytest.approx(error)
    assert found.verdicts == [verdict]
