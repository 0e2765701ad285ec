"""Robust weights, against a loop that solves and retrains naively; Fisher's threshold."""

import warnings

import numpy as np
import pytest
from sklearn.model_selection import KFold, TimeSeriesSplit

import holdfast
from holdfast import HoldOut, KernelRidgeClassifierCV, KernelRidgeCV
from holdfast.exceptions import (
    GridEdgeWarning,
    HoldfastWarning,
    InvalidInputError,
    NotSupportedError,
)
from holdfast.kernels import RBF
from reference.retrain import retrain
from tolerances import assert_close

pytestmark = pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")

M, ALPHA = 60, 0.2
RNG = np.random.default_rng(3)
X = RNG.uniform(-3, 3, size=(M, 1))
TRUTH = np.sin(X[:, 0])
Y = TRUTH + 0.1 * RNG.normal(size=M)
OUT = np.array([4, 17, 30, 44])
Y[OUT] += [4.0, -3.0, 5.0, 0.6]
WEIGHTS = RNG.uniform(0.5, 2.0, M)
WEIGHTS[[8, 9]] = 0.0
K = RBF(0.5)(X)
BASIS = np.arange(0, M, 4)


def model(**options):
    return KernelRidgeCV(**{"gamma": 0.5, "alphas": [ALPHA], **options})


def naive(rounds, base, kind, basis):
    """Fit, residuals, scale, weights, again; every residual by training anew."""
    w, jitter = np.ones(M), 0.0 if basis is None else 1e-10
    for _ in range(rounds):
        weights, everything = base * w, np.arange(M)
        if kind == "fitted":
            fit = retrain(K, Y, [], everything, ALPHA, basis, (), weights, True, jitter)[:, 0]
        else:
            fit = np.empty(M)
            for i in range(M):
                gone = () if basis is None else np.intersect1d(basis, [i])
                fit[i] = retrain(K, Y, [i], [i], ALPHA, basis, gone, weights, True, jitter)[0, 0]
        r = Y - fit
        q = np.percentile(r[base > 0], [25, 75])
        z = np.abs(r) / ((q[1] - q[0]) / (2 * 0.6744897501960817))
        before, w = w, np.where(z <= 2.5, 1.0, np.maximum((3.0 - z) / 0.5, 1e-4))
    return r, before


@pytest.mark.parametrize("kind", ["held_out", "fitted"])
@pytest.mark.parametrize("basis", [None, BASIS], ids=["dense", "sparse"])
@pytest.mark.parametrize("base", [np.ones(M), WEIGHTS], ids=["none", "weights"])
def test_the_loop_is_the_naive_one(kind, basis, base):
    for rounds in (1, 2, 3):
        with pytest.warns(HoldfastWarning, match=f"after {rounds} rounds"):
            found = holdfast.robust_weights(
                model(basis=basis), X, Y, base, residuals=kind, max_rounds=rounds, tol=0.0
            )
        r, w = naive(rounds, base, kind, basis)
        assert_close(found.residuals, r, "retraining", rounds)
        assert_close(found.weights, w, "retraining", rounds)
        assert not found.converged


@pytest.mark.parametrize("basis", [None, BASIS], ids=["dense", "sparse"])
def test_held_out_predictions_are_exact_at_the_final_weights(basis):
    found = holdfast.robust_weights(model(basis=basis), X, Y)
    assert found.converged
    assert f"{found.rounds} rounds, converged" in repr(found)
    assert (found.weights[OUT] < 0.01).all()
    folds = [test for _, test in KFold(5).split(X)]
    values = found.model.held_out([HoldOut(fold) for fold in folds]).predictions
    for fold, got in zip(folds, values, strict=True):
        gone = () if basis is None else np.intersect1d(basis, fold)
        jitter = 0.0 if basis is None else 1e-10
        args = (ALPHA, basis, gone, found.weights, True, jitter)
        assert_close(got[0], retrain(K, Y, fold, fold, *args), "retraining")
    plain = np.abs(model(basis=basis).fit(X, Y).predict(X) - TRUTH).mean()
    assert np.abs(found.model.predict(X) - TRUTH).mean() < 0.5 * plain


@pytest.mark.parametrize("seed", [1, 5, 7])
def test_weights_that_would_go_back_and_forth_settle(seed):
    # Whole steps never settle here.
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, size=(120, 2))
    y = np.sin(X).sum(axis=1) + 0.2 * rng.standard_t(3, size=120)
    found = holdfast.robust_weights(model(alphas=[0.1]), X, y)
    assert found.converged
    assert found.rounds > 5
    size = np.abs(found.residuals) / found.scale
    expected = np.clip((3.0 - size) / 0.5, 1e-4, 1.0)
    np.testing.assert_allclose(found.weights, expected, atol=0.01)


def test_warnings_are_those_of_the_last_model():
    # With the outliers the largest penalty is the best, without them it is not.
    alphas = np.logspace(-3, 2, 6)
    y = np.where(np.isin(np.arange(M), OUT), 40.0, Y)
    with pytest.warns(GridEdgeWarning):
        model(alphas=alphas).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", GridEdgeWarning)
        assert holdfast.robust_weights(model(alphas=alphas), X, y).converged
        with pytest.raises(GridEdgeWarning):
            holdfast.robust_weights(model(alphas=[10.0, 100.0, 1000.0]), X, Y)


def test_an_outlier_that_pulls_the_fit_shows_only_when_held_out():
    far = np.r_[X, [[9.0]]]
    y = np.r_[Y, 3.0]
    fitted, held = (
        holdfast.robust_weights(model(alphas=[1e-3]), far, y, residuals=kind)
        for kind in ("fitted", "held_out")
    )
    assert fitted.weights[-1] == 1.0
    assert held.weights[-1] < 0.01


def test_rows_never_tested_or_tested_often():
    once = holdfast.robust_weights(model(cv=TimeSeriesSplit(4)), X, Y)
    assert once.residuals.shape == (M,)
    folds = [HoldOut(test) for _, test in KFold(5).split(X)]
    one, twice = (holdfast.robust_weights(model(cv=cv), X, Y) for cv in (folds, folds + folds))
    assert_close(twice.weights, one.weights, "law")


def test_residuals_without_scale_lower_nothing():
    y = np.zeros(M)
    y[3] = 1.0
    found = holdfast.robust_weights(model(gamma=1e9, fit_intercept=False), X, y)
    assert found.scale == 0.0
    assert (found.weights == 1.0).all()


def test_bad_calls():
    for options, words in (
        ({"residuals": "raw"}, "residuals"),
        ({"cutoffs": (3.0, 2.5)}, "cutoffs must increase"),
        ({"least": 2.0}, "least must lie"),
        ({"max_rounds": 0}, "max_rounds"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            holdfast.robust_weights(model(), X, Y, **options)
    with pytest.raises(InvalidInputError, match="one target"):
        holdfast.robust_weights(model(), X, np.c_[Y, Y])
    with pytest.raises(NotSupportedError, match="takes a KernelRidgeCV"):
        holdfast.robust_weights(KernelRidgeClassifierCV(), X, Y > 0)


# -- the kernel Fisher discriminant ----------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.01, 1.0, 100.0])
def test_the_classifier_has_the_direction_of_the_fisher_discriminant(alpha):
    """Cawley, Talbot 2004 §4; Mika et al. 1999: a = (N + λK)⁻¹(k₊ − k₋), threshold midway."""
    Z = RNG.normal(size=(50, 2))
    up = Z[:, 0] + 0.5 * RNG.normal(size=50) > 0.8
    G = RBF(0.7)(Z)
    N = np.zeros((50, 50))
    for c in (up, ~up):
        N += G[:, c] @ (np.eye(c.sum()) - np.full((c.sum(), c.sum()), 1 / c.sum())) @ G[c]
    a = np.linalg.solve(N + alpha * G, G[:, up].mean(axis=1) - G[:, ~up].mean(axis=1))
    fisher = G @ a
    judge = KernelRidgeClassifierCV("rbf", gamma=0.7, alphas=[alpha]).fit(Z, up)
    values = judge.decision_function(Z)
    slope = np.ptp(values) / np.ptp(fisher)
    np.testing.assert_allclose(values - values.mean(), slope * (fisher - fisher.mean()), atol=1e-8)
    middle = 0.5 * (fisher[up].mean() + fisher[~up].mean())
    threshold = 0.5 * (values[up].mean() + values[~up].mean())
    np.testing.assert_allclose(
        threshold - values.mean(), slope * (middle - fisher.mean()), atol=1e-8
    )
    weights = np.where(up, 1 / up.sum(), 1 / (~up).sum())
    values = judge.fit(Z, up, sample_weight=weights).decision_function(Z)
    assert abs(values[up].mean() + values[~up].mean()) < 1e-9
