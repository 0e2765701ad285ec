"""Answers for targets of any size, and for rows that nothing else supports."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from holdfast import KernelRidgeCV
from reference import kernels
from reference.retrain import retrain
from tolerances import relative_difference

pytestmark = [
    pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning"),
    pytest.mark.filterwarnings("ignore::holdfast.exceptions.PrecisionWarning"),
]

SEED, M = 5, 60
RNG = np.random.default_rng(SEED)
X = RNG.uniform(-1, 1, size=(M, 2))
Y = np.sin(3 * X[:, 0]) + 1.0 + 0.2 * RNG.normal(size=M)
GROUPS = np.repeat(np.arange(12), 5)
X_NEW = RNG.uniform(-1, 1, size=(5, 2))

# What each answer is, in units of the targets to the power that follows.
ANSWERS = {
    "without": (lambda m: m.predict_without([1, 2], X_NEW), 1),
    "coefficients": (lambda m: m.coef_without([1, 2]).dual_coef, 1),
    "plus": (lambda m: m.predict_interval(X_NEW), 1),
    "gaussian": (lambda m: m.predict_interval(X_NEW, method="gaussian"), 1),
    "std": (lambda m: m.predict(X_NEW, return_std=True)[1], 1),
    "held_out_std": (lambda m: m.held_out().std, 1),
    "cook": (lambda m: m.influence(GROUPS).cook, 0),
    "studentised": (lambda m: m.influence(GROUPS).residual, 0),
    "nested": (lambda m: m.nested(4).values, 1),
    "nested_alphas": (lambda m: m.nested(4).alphas, 0),
    "p_value": (lambda m: m.permutation_test(19, random_state=0).p_value, 0),
}
# And of scores, which must themselves lie within the range of numbers.
SCORES = {
    "interval_nested": lambda m: ends(m.score_interval(n_partitions=2, random_state=0)),
    "interval_asymptotic": lambda m: ends(m.score_interval(method="asymptotic")),
    "null_scores": lambda m: m.permutation_test(9, random_state=0).null_scores,
    "inner_scores": lambda m: m.nested(4).inner_scores,
    "nested_score": lambda m: np.atleast_1d(m.nested(4).score()),
    "held_out_score": lambda m: m.held_out().score(m.scoring),
}


def ends(interval):
    return np.array([interval.score, interval.low, interval.high, interval.standard_error])


@cache
def fitted(size, basis, scoring=None):
    options = {"gamma": 2.0, "alphas": [0.01, 0.1, 1.0], "cv": 5, "random_state": 0}
    return KernelRidgeCV(**options, basis=basis, scoring=scoring).fit(X, Y * size)


@pytest.mark.parametrize("basis", [None, 20], ids=["dense", "sparse"])
@pytest.mark.parametrize("size", [1e-70, 1e70])
@pytest.mark.parametrize("name", ANSWERS)
def test_targets_of_any_size_have_the_same_answers(name, size, basis):
    ask, power = ANSWERS[name]
    got, expected = (np.asarray(ask(fitted(s, basis))) for s in (size, 1.0))
    unit = size if power else 1.0
    assert relative_difference(got / unit, expected) <= 1e-9, f"seed={SEED}"


@pytest.mark.parametrize("basis", [None, 20], ids=["dense", "sparse"])
@pytest.mark.parametrize(
    ("size", "scoring", "power"),
    [
        (1e70, None, 2),
        (1e-70, "neg_mean_absolute_error", 1),
        (1e-70, "r2", 0),
        (1e70, "r2", 0),
    ],
)
@pytest.mark.parametrize("name", SCORES)
def test_scores_of_targets_of_any_size(name, size, scoring, power, basis):
    got, expected = (SCORES[name](fitted(s, basis, scoring)) for s in (size, 1.0))
    for _ in range(power):
        got = got / size
    assert relative_difference(got, expected) <= 1e-9, f"seed={SEED}"


@pytest.mark.parametrize("size", [1e-70, 1e70])
def test_log_density_counts_the_unit(size):
    got, expected = (fitted(s, 20).held_out().log_density() for s in (size, 1.0))
    assert relative_difference(got + M * np.log(size), expected) <= 1e-9


# -- a row that nothing else supports --------------------------------------------------------------

FAR = 3
X_FAR, Y_FAR = X.copy(), Y.copy()
X_FAR[FAR], Y_FAR[FAR] = 40.0, 5.0
K_FAR = kernels.gram("rbf", X_FAR, gamma=0.5)
BASIS = np.union1d(RNG.choice(M, 15, replace=False), [FAR])


@cache
def with_a_far_row(policy, alpha):
    options = {"gamma": 0.5, "alphas": [alpha], "basis": BASIS, "held_out_basis": policy}
    model = KernelRidgeCV(**options).fit(X_FAR, Y_FAR)
    assert model.influence().leverage[FAR] > 0.999
    return model


def trained_without(model, rows):
    """Predictions of all rows by a model that is really trained without some of them."""
    removed = np.intersect1d(BASIS, rows) if model.held_out_basis == "remove" else []
    found = (BASIS, removed, None, True, model.jitter_)
    return retrain(K_FAR, Y_FAR, rows, np.arange(M), model.alpha_, *found)[:, 0]


@pytest.mark.parametrize("alpha", [1e-3, 1e-8])
@pytest.mark.parametrize("policy", ["keep", "remove"])
@pytest.mark.parametrize("rows", [[FAR], [FAR, 4, 5], [10]], ids=["far", "far_and_near", "near"])
def test_models_without_a_far_row(policy, alpha, rows):
    model = with_a_far_row(policy, alpha)
    got = model.predict_without(rows, X_FAR)
    assert relative_difference(got, trained_without(model, rows)) <= 1e-7, f"seed={SEED}"


@pytest.mark.parametrize("alpha", [1e-3, 1e-8])
@pytest.mark.parametrize("policy", ["keep", "remove"])
def test_influence_of_a_far_row(policy, alpha):
    model = with_a_far_row(policy, alpha)
    found, h = model.influence(), model.influence().leverage
    full = model.predict(X_FAR)
    s2 = np.square(Y_FAR - full).sum() / (M - h.sum())
    for row in (FAR, 10):
        moved = full - trained_without(model, [row])
        cook = np.square(moved).sum() / (h.sum() * s2)
        assert found.cook[row] == pytest.approx(cook, rel=1e-6)
    assert np.isfinite(found.residual).all()


@pytest.mark.parametrize("policy", ["keep", "remove"])
def test_jackknife_plus_with_a_far_row(policy):
    model, m = with_a_far_row(policy, 1e-3), M
    f = np.stack([trained_without(model, [i]) for i in range(m)])  # (models, rows)
    r = np.abs(Y_FAR - np.diagonal(f))
    near = np.arange(10, 16)
    rank = int(np.ceil(0.9 * (m + 1)))
    high = np.sort(f[:, near] + r[:, None], axis=0)[rank - 1]
    low = np.sort(f[:, near] - r[:, None], axis=0)[m - rank]
    got = model.predict_interval(X_FAR[near], level=0.9)
    assert relative_difference(got, np.stack([low, high], axis=1)) <= 1e-7, f"seed={SEED}"
