"""Against exact arithmetic: every path keeps the promise, or is as accurate as retraining.

Ill-conditioned kernels and extreme penalties, where a well-meant formula can lose all accuracy.
Errors are the largest over max(spread of y, |f − mean of y|), over several problems: two stable
methods differ by a factor of several on a single problem by luck alone, in either direction.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

from holdfast import HoldOut, KernelRidgeCV
from holdfast.exceptions import SingularBasisError
from reference.oracle import conditioned_problem, exact_retrain
from reference.retrain import PATHS, policy_experiment, retrain
from tolerances import allowed, yardstick_error
from torture.truth import exact_models

pytestmark = [
    pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning"),
    pytest.mark.filterwarnings("ignore::holdfast.exceptions.PrecisionWarning"),
]

SEEDS = range(3)
ALPHAS = np.array([1e-10, 1e-6, 1e-2, 1e2, 1e6])
#: "remove" and "keep" are sparse models; every row of a dense model is a basis row.
MODELS = ("remove", "keep", "dense")
#: Leave-one-out of some rows; a fifth, a third and seven tenths of the rows and of the basis.
KINDS = {"one row": None, "a fifth": 0.2, "a third": 1 / 3, "most rows": 0.7}
#: Rows and basis rows: three times as many rows as basis
#: rows take the package's way for many rows.
SPARSE_SIZE, DENSE_SIZE = (36, 12), (16, 16)


def problem(condition, model, seed):
    """Return a random problem whose basis block (dense: whole matrix) has this condition."""
    size = DENSE_SIZE if model == "dense" else SPARSE_SIZE
    # One target, so that a dense model is solved through its tridiagonal reduction.
    return conditioned_problem(condition, *size, 3, 3, n_targets=1, seed=seed)


def held_out_sets(p, kind, seed):
    """Return held-out sets of a kind, as large a share of the basis rows as of the others."""
    rng = np.random.default_rng([seed, list(KINDS).index(kind)])
    others = np.setdiff1d(np.arange(len(p.K)), p.basis)
    if kind == "one row":
        rows = np.concatenate([p.basis[: 6 - len(others[:3])], others[:3]])
        return [np.array([row]) for row in rows]
    sets = []
    for _ in range(2):
        parts = [rng.permutation(r)[: round(KINDS[kind] * r.size)] for r in (p.basis, others)]
        sets.append(rng.permutation(np.concatenate(parts)))
    return sets


def errors(p, sets, model, bias):
    """Yield names and errors (alphas,) of every path and of retraining; "rounding" is stated."""
    basis, policy = (None, "remove") if model == "dense" else (p.basis, model)
    experiments = [policy_experiment(rows, rows, basis, policy) for rows in sets]
    ones, parts = np.ones(len(p.K)), defaultdict(list)
    for H, T, removed in experiments:
        more = (basis, removed, ones, bias, 0.0)
        parts["exact"].append(exact_models(p.K, p.y, H, T, ALPHAS, *more))
        again = [retrain(p.K, p.y, H, T, alpha, *more) for alpha in ALPHAS]
        parts["retraining"].append(np.array(again))
    values = {name: np.concatenate(part, axis=1) for name, part in parts.items()}
    exact = values.pop("exact")
    for path in PATHS:
        estimator = KernelRidgeCV(
            "precomputed",
            alphas=ALPHAS,
            basis=basis,
            cv=[HoldOut(rows) for rows in sets],
            held_out_basis=policy,
            fit_intercept=bias,
            jitter=0.0,
            path=path,
        ).fit(p.K if basis is None else p.K[:, basis], p.y)
        values[path] = estimator.held_out().values
        yield "rounding", estimator.cv_results_["rounding"]
    for name, found in values.items():
        pairs = zip(found, exact, strict=True)
        yield name, np.array([yardstick_error(got, right, p.y) for got, right in pairs])


@pytest.mark.parametrize("condition", [1e4, 1e8, 1e11, 1e14])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no_bias"])
@pytest.mark.parametrize("model", MODELS)
def test_every_path_keeps_the_promise(model, bias, condition):
    for kind in KINDS:
        worst = defaultdict(lambda: np.zeros(ALPHAS.size))
        for seed in SEEDS:
            p = problem(condition, model, seed)
            for name, found in errors(p, held_out_sets(p, kind, seed), model, bias):
                worst[name] = np.maximum(worst[name], found)
        for a, alpha in enumerate(ALPHAS):
            limit = allowed(worst["rounding"][a], worst["retraining"][a])
            for path in PATHS:
                error = worst[path][a]
                assert error <= limit, f"{error:.1e} > {limit:.1e}: {path}, alpha {alpha}, {kind}"


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("model", ["remove", "keep"])
def test_streamed_rows_are_as_accurate(model, path):
    for condition in (1e8, 1e12):
        for seed in range(4):
            p = problem(condition, model, seed)
            for rows in held_out_sets(p, "a fifth", seed):
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
                again = retrain(p.K, p.y, H, T, 1e-10, p.basis, removed)
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
