"""Sets of many sizes side by side, and sets that share their rows, against really training again.

Stacks are filled up to one size, and S is formed once for a bundle of overlapping sets; neither may
be seen in the answers."""

from __future__ import annotations

import numpy as np
import pytest

from holdfast import HoldOut, KernelRidgeCV
from tolerances import allowed, relative_difference, tolerance, yardstick_error

pytestmark = pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")

SEED, M = 17, 90
RNG = np.random.default_rng(SEED)
X = RNG.uniform(-1, 1, size=(M, 2))
Y = np.stack([np.sin(3 * X[:, 0]), X[:, 1] ** 2 + 2.0], axis=1) + 0.1 * RNG.normal(size=(M, 2))
BASIS = RNG.choice(M, 30, replace=False)
WEIGHTS = {"none": None, "zeros": RNG.uniform(0.3, 2.0, M)}
WEIGHTS["zeros"][[4, 5, *BASIS[:2]]] = 0.0
MODELS = {
    "dense": (None, "remove"),
    "remove": (BASIS, "remove"),
    "keep": (BASIS, "keep"),
    "train": (BASIS, "train"),
    "skip": (BASIS, "skip"),
}


def neighbourhoods():
    near = np.linalg.norm(X[:, None] - X, axis=2)
    return [HoldOut(np.flatnonzero(row <= 0.45), [i]) for i, row in enumerate(near)]


def ragged_groups():
    sizes = [9, 11, 12, 13, 14, 15, 16]
    return [HoldOut(rows) for rows in np.split(RNG.permutation(M), np.cumsum(sizes)[:-1])]


def some_tested():
    return [HoldOut(e.held_out, e.held_out[: 1 + e.held_out.size // 2]) for e in ragged_groups()]


EXPERIMENTS = {
    "neighbourhoods": neighbourhoods(),
    "groups": ragged_groups(),
    "some_tested": some_tested(),
}


def fitted(model, weights, alphas, bias=True, kernel="rbf"):
    basis, policy = MODELS[model]
    return KernelRidgeCV(
        kernel,
        gamma=4.0,
        alphas=alphas,
        basis=basis,
        held_out_basis=policy,
        fit_intercept=bias,
        path="spectral",
    ).fit(X, Y, sample_weight=WEIGHTS[weights])


def retrained(model, weights, experiments):
    again = KernelRidgeCV(**{**model.get_params(), "path": "refit", "cv": experiments})
    return again.fit(X, Y, sample_weight=WEIGHTS[weights]).held_out().values


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(("weights", "bias"), [("none", True), ("zeros", True), ("zeros", False)])
@pytest.mark.parametrize("which", EXPERIMENTS)
@pytest.mark.parametrize("count", [1, 9])
def test_ragged_sets_are_retrained_models(model, weights, bias, which, count):
    found = fitted(model, weights, np.logspace(-2, 1, count), bias)
    got = found.held_out(EXPERIMENTS[which]).values
    difference = relative_difference(got, retrained(found, weights, EXPERIMENTS[which]))
    assert difference <= tolerance("retraining"), f"{difference:.1e} apart, seed={SEED}"


def test_basis_rows_that_are_nearly_dependent():
    """Pairs of basis rows almost alike leave together."""
    close = X.copy()
    close[BASIS[1::2]] = close[BASIS[::2]] + 1e-5
    near = np.linalg.norm(close[:, None] - close, axis=2)
    sets = [HoldOut(np.flatnonzero(row <= 0.45), [i]) for i, row in enumerate(near)]
    options = {"gamma": 4.0, "alphas": [1e-3], "basis": BASIS, "cv": sets}
    models = [
        KernelRidgeCV(**options, path=path).fit(close, Y)
        for path in ("spectral", "cholesky", "per_fold", "refit")
    ]
    *others, truth = (model.held_out().values for model in models)
    for got in others:  # which all whiten the same basis rows, and differ by little
        assert yardstick_error(got, others[0], Y) <= 1e-9, f"seed={SEED}"
        limit = allowed(models[0].cv_results_["rounding"][0])
        assert yardstick_error(got, truth, Y) <= limit, f"seed={SEED}"


def test_a_row_that_nothing_else_supports():
    """A leverage near one, among overlapping sets: trained again, as everywhere."""
    far = X.copy()
    far[3] = 40.0
    y = Y.copy()
    y[3] = 5.0
    near = np.linalg.norm(far[:, None] - far, axis=2)
    sets = [HoldOut(np.flatnonzero(row <= 0.45), [i]) for i, row in enumerate(near)]
    basis = np.union1d(BASIS, [3])
    options = {"gamma": 4.0, "basis": basis, "alphas": [1e-9], "held_out_basis": "keep"}
    model = KernelRidgeCV(**options, path="spectral").fit(far, y)
    truth = KernelRidgeCV(**options, path="refit", cv=sets).fit(far, y).held_out().values
    assert relative_difference(model.held_out(sets).values, truth) <= 1e-7, f"seed={SEED}"
