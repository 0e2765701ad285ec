"""Ball arithmetic and software arithmetic, two libraries, say the same to the last bit or two."""

from __future__ import annotations

import numpy as np
import pytest

from reference.oracle import exact_retrain as by_digits
from torture.families import problem
from torture.measure import fitted
from torture.truth import truth

balls = pytest.importorskip("reference.balls", reason="needs python-flint")


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("removed", [None, [], [3, 7]])
def test_two_libraries_agree(removed, bias, weighted):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(14, 2))
    K = np.exp(-0.05 * np.square(X[:, None] - X).sum(axis=2))
    y = rng.normal(size=(14, 2))
    weights = 10.0 ** rng.uniform(-4, 4, 14) if weighted else None
    basis = None if removed is None else [3, 7, 9, 11]
    jitter = 0.0 if removed is None else 1e-9
    more = (basis, removed or (), weights, bias, jitter)
    alphas = np.array([1e-10, 1.0, 1e10])
    found = balls.exact_retrain(K, y, [3, 4, 7], [3, 4], alphas, *more)
    for alpha, values in zip(alphas.tolist(), found, strict=True):
        again = by_digits(K, y, [3, 4, 7], [3, 4], alpha, *more, digits=80)
        np.testing.assert_allclose(values, again, rtol=4 * np.finfo(float).eps)


@pytest.mark.parametrize("family", ["units", "target_sizes", "several_targets", "dense_outlier"])
def test_problems_have_the_same_truth_without_flint(family, monkeypatch):
    drawn = problem(family, 0)
    model = fitted(drawn, "spectral")
    exact = truth(drawn, model).exact
    monkeypatch.setattr("torture.truth.balls", None)
    np.testing.assert_allclose(exact, truth(drawn, model).exact, rtol=4 * np.finfo(float).eps)


def test_a_singular_system_is_not_answered():
    ones = np.ones((4, 4))  # without a penalty nothing tells the rows apart
    with pytest.raises(ArithmeticError, match="singular"):
        balls.exact_retrain(ones, np.arange(4.0), [0], [0], np.array([0.0]), bias=False)
