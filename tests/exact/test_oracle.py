"""Against 50-digit arithmetic: every path keeps the promise, or is as accurate as retraining.

Ill-conditioned kernels and extreme penalties, where a well-meant formula can lose all accuracy.
What an error is, and over what it is taken, is said in ``oracle_errors``.
"""

from __future__ import annotations

import numpy as np
import pytest

from holdfast import HoldOut, KernelRidgeCV
from holdfast.exceptions import SingularBasisError
from oracle_errors import KINDS, MODELS, PATHS, cells, held_out_sets, problem
from reference.oracle import exact_retrain
from reference.retrain import policy_experiment, retrain
from tolerances import allowed, yardstick_error

pytestmark = [
    pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning"),
    pytest.mark.filterwarnings("ignore::holdfast.exceptions.PrecisionWarning"),
]

SEEDS = range(3)
ALPHAS = (1e-10, 1e-6, 1e-2, 1e2, 1e6)


@pytest.mark.parametrize("condition", [1e4, 1e8, 1e11, 1e14])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no_bias"])
@pytest.mark.parametrize("model", MODELS)
def test_every_path_keeps_the_promise(model, bias, condition):
    found = list(cells(condition, model, bias, SEEDS, ALPHAS))
    assert len(found) == len(ALPHAS) * len(KINDS)
    for cell in found:
        for path in PATHS:
            limit = allowed(cell.rounding, max(cell.errors["whitened"], cell.errors["qr"]))
            context = f"{path}, alpha {cell.alpha}, {cell.kind}, seeds {SEEDS}"
            assert cell.errors[path] <= limit, f"{cell.errors[path]:.1e} > {limit:.1e}: {context}"


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("model", ["remove", "keep"])
def test_streamed_rows_are_as_accurate(model, path):
    for condition in (1e8, 1e12):
        for seed in range(4):
            p = problem(condition, model, seed)
            for rows in held_out_sets(p, model, "a fifth", seed):
                H, T, removed = policy_experiment(rows, rows, p.basis, model)
                estimator = KernelRidgeCV(
                    "precomputed",
                    alphas=[1e-10, 1e-4],
                    basis=p.basis,
                    held_out_basis=model,
                    jitter=0.0,
                    path=path,
                    memory_limit=1.0,
                    cv=[HoldOut(rows)],
                ).fit(p.K[:, p.basis], p.y)
                exact = exact_retrain(p.K, p.y, H, T, 1e-10, p.basis, removed)
                again = retrain(p.K, p.y, H, T, 1e-10, p.basis, removed, solver="whitened")
                error = yardstick_error(estimator.held_out().values[0], exact, p.y)
                rounding = estimator.cv_results_["rounding"][0]
                limit = allowed(rounding, yardstick_error(again, exact, p.y))
                assert error <= limit, f"{error:.1e} > {limit:.1e}: {condition}, {seed}"


# -- held-out rows that carry most of the data ----------------------------------------------------


def far_group(rng, m, d):
    X = rng.normal(size=(m, d))
    X[: m // 4] += 1e4 * rng.normal(size=d)
    return X, np.ones(m), np.arange(m // 4)


def outlier(rng, m, d):
    X = rng.normal(size=(m, d))
    X[3] *= 1e4
    return X, np.ones(m), np.array([3])


def heavy_weights(rng, m, d):
    weights = np.ones(m)
    weights[:4] = 1e8
    return rng.normal(size=(m, d)), weights, np.arange(4)


def almost_everything(rng, m, d):
    return rng.normal(size=(m, d)), np.ones(m), rng.permutation(m)[: m - 3]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no_bias"])
@pytest.mark.parametrize("d", [4, 30], ids=["primal", "dual"])
@pytest.mark.parametrize("make", [far_group, outlier, heavy_weights, almost_everything])
def test_held_out_rows_may_carry_most_of_the_data(make, d, bias, path):
    # Taken away from sums over all rows they would leave little that is right.
    m, alphas = 24, [1e-2, 1.0, 100.0]
    for seed in range(2):
        rng = np.random.default_rng(seed)
        X, weights, held_out = make(rng, m, d)
        y = rng.normal(size=(m, 2)) + 1.0
        estimator = KernelRidgeCV("linear", alphas=alphas, fit_intercept=bias, path=path)
        estimator.fit(X, y, sample_weight=weights)
        got = estimator.held_out([HoldOut(held_out)]).values
        for alpha, values in zip(alphas, got, strict=True):
            args = (X @ X.T, y, held_out, held_out, alpha)
            exact = exact_retrain(*args, weights=weights, bias=bias)
            error = yardstick_error(values, exact, y)
            assert error <= allowed(0.0), f"{error:.1e}, alpha {alpha}, seed {seed}"


# -- what is refused ------------------------------------------------------------------------------


def test_a_basis_that_is_singular_to_working_precision_is_refused():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, size=(40, 2))
    y = np.sin(X[:, 0])
    smooth = {"kernel": "rbf", "gamma": 1e-3, "basis": np.arange(15), "alphas": [1e-3, 1.0]}
    with pytest.raises(SingularBasisError, match="singular at basis row"):
        KernelRidgeCV(**smooth, jitter=0.0).fit(X, y)
    assert KernelRidgeCV(**smooth).fit(X, y).jitter_ == pytest.approx(1e-10)


@pytest.mark.parametrize("seed", range(5))
def test_a_condition_of_ten_to_the_fourteen_is_not_refused(seed):
    p = problem(1e14, "keep", seed)
    KernelRidgeCV("precomputed", basis=p.basis, alphas=[1e-3, 1.0], jitter=0.0).fit(
        p.K[:, p.basis], p.y
    )
