"""The package against the formulas that the papers print.

They agree where the formulas are accurate. Where the formulas lose digits, the loss is measured
against exact arithmetic and the package is shown not to share it.
"""

from __future__ import annotations

import numpy as np
import pytest

from holdfast import HoldOut, KernelRidgeCV
from reference import kernels, printed
from reference.oracle import conditioned_problem, exact_retrain, relative_error
from tolerances import assert_close, yardstick_error

pytestmark = pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")

PATHS = ("spectral", "per_fold", "cholesky")
SEED = 4
M = 40
ALPHAS = [1e-3, 1e-1, 10.0]
BASIS = np.array([3, 17, 5, 30, 8, 21, 12, 26, 39, 1])
RNG = np.random.default_rng(SEED)
X = RNG.normal(size=(M, 4))
K = kernels.gram("rbf", X, gamma=0.3)
Y = np.sin(X[:, :2]) + 0.1 * RNG.normal(size=(M, 2)) + 3.0
T = Y[:, 0]

HELD_OUT = {
    "few": np.array([5, 2, 30, 11, 19, 33, 8]),  # 5, 30 and 8 are basis rows
    "one": np.array([17]),
    "many": np.concatenate([BASIS[:4], np.setdiff1d(np.arange(M), BASIS)[:20]]),
}
every_path = pytest.mark.parametrize("path", PATHS)
every_set = pytest.mark.parametrize("held_out", HELD_OUT.values(), ids=HELD_OUT)


def fitted(path, y=Y, **params):
    """Return the model on all rows, without bias unless asked, on the rows' own kernel matrix."""
    settings = {"alphas": ALPHAS, "fit_intercept": False, "path": path, "jitter": 1e-9}
    return KernelRidgeCV("precomputed", **{**settings, **params}).fit(K, y)


# -- agreement ------------------------------------------------------------------------------------


@every_path
@every_set
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("policy", ["remove", "keep"], ids=["proposition_1", "corollary_2"])
def test_000_proposition_1(policy, side, held_out, path):
    model = fitted(path, basis=BASIS, held_out_basis=policy)
    got = model.held_out([HoldOut(held_out)]).values
    caches = printed.proposition_1_caches(K, Y, BASIS, jitter=model.jitter_)
    for alpha, values in zip(ALPHAS, got, strict=True):
        formula = printed.proposition_1(
            caches, held_out, alpha, remove=policy == "remove", side=side
        )
        assert_close(values, formula, "printed", f"alpha {alpha}")
        if policy == "remove":
            retrained = printed.equation_19(K, Y, held_out, BASIS, alpha, jitter=model.jitter_)
            assert_close(values, retrained, "printed", f"(19), alpha {alpha}")


@every_path
def test_000_method_1_for_each_penalty(path):
    model = fitted(path, basis=BASIS, held_out_basis="keep")
    formula = printed.method_1_leave_one_out(K, Y, BASIS, ALPHAS, jitter=model.jitter_)
    assert_close(model.held_out().matrix(), formula, "printed")


def test_000_a_sparse_model_is_a_dense_one_with_the_modified_kernel():
    sparse = fitted("spectral", basis=BASIS, held_out_basis="keep", jitter=0.0)
    modified = printed.modified_kernel(K, BASIS)
    modified = 0.5 * (modified + modified.T)
    dense = KernelRidgeCV("precomputed", alphas=ALPHAS, fit_intercept=False).fit(modified, Y)
    held_out = [HoldOut(rows) for rows in HELD_OUT.values()]
    assert_close(dense.held_out(held_out).values, sparse.held_out(held_out).values, "printed")


@every_path
@pytest.mark.parametrize("gamma", [0.05, 5.0, 500.0])
def test_002_closed_form_leave_one_out_and_press(gamma, path):
    # The parameter of an LS-SVM is 1/(2 lambda); the bias is not penalised.
    model = fitted(
        path, T, alphas=[0.5 / gamma], basis=BASIS, held_out_basis="keep", fit_intercept=True
    )
    E = printed.closed_form_residuals(K, T, BASIS, gamma, jitter=model.jitter_)
    held_out = model.held_out()
    assert_close(T - held_out.matrix()[0, :, 0], np.diag(E), "printed")
    press = printed.press(K, T, BASIS, gamma, jitter=model.jitter_)
    assert_close(-M * held_out.score("neg_mean_squared_error"), [press], "printed")
    assert_close(-M * model.best_score_, press, "printed")


@pytest.mark.parametrize("gamma", [5.0, 500.0])
def test_002_lemma_2_and_the_residuals_of_a4(gamma):
    model = fitted(
        "auto", T, alphas=[0.5 / gamma], basis=BASIS, held_out_basis="keep", fit_intercept=True
    )
    E = printed.closed_form_residuals(K, T, BASIS, gamma, jitter=model.jitter_)
    for i in (0, 3, 17):
        assert_close(T - model.predict_without([i], K), E[i], "printed", f"row {i}")
        p = printed.bartlett_parameters(K, T, BASIS, gamma, i, jitter=model.jitter_)
        own = model.coef_without([i])
        assert_close(np.append(own.dual_coef, own.intercept), p, "printed", f"row {i}")


@pytest.mark.parametrize("gamma", [0.05, 5.0, 500.0])
def test_002_sparse_and_dense_coefficients(gamma):
    alpha = 0.5 / gamma
    sparse = fitted("auto", T, alphas=[alpha], basis=BASIS, fit_intercept=True)
    C, d, _ = printed.sparse_lssvm_system(K, T, BASIS, gamma, jitter=sparse.jitter_)
    assert_close(np.append(sparse.dual_coef_, sparse.intercept_), np.linalg.solve(C, d), "printed")
    dense = fitted("auto", T, alphas=[alpha], fit_intercept=True)
    a, b = printed.dense_lssvm(K, T, gamma)
    assert_close(np.append(dense.dual_coef_, dense.intercept_), np.append(a, b), "printed")


@every_path
@every_set
def test_003_and_004_dense_formulas(held_out, path):
    got = fitted(path).held_out([HoldOut(held_out)]).values
    for alpha, values in zip(ALPHAS, got, strict=True):
        for residuals in (printed.equation_14, printed.equation_16):
            formula = Y[held_out] - residuals(K, Y, held_out, alpha)
            assert_close(values, formula, "printed", residuals.__name__)
        assert_close(values, printed.equation_9(K, Y, held_out, alpha), "printed", "equation_9")


@every_path
def test_004_equation_10_for_leave_one_out(path):
    got = fitted(path).held_out().matrix()
    for alpha, values in zip(ALPHAS, got, strict=True):
        assert_close(values, printed.equation_10(K, Y, alpha), "printed", f"alpha {alpha}")


# -- loss: median relative errors over three problems ---------------------------------------------


def median_errors(condition, alpha, compute, sparse):
    """Return the median errors of {name: predictions} for problems of one condition."""
    errors: dict[str, list[float]] = {}
    for seed in range(3):
        size = (40, 15, 8, 3) if sparse else (16, 16, 3, 3)
        p = conditioned_problem(condition, *size, seed=seed)
        for name, (values, removed) in compute(p, alpha).items():
            basis = p.basis if sparse else None
            exact = exact_retrain(
                p.K, p.y, p.held_out, p.held_out, alpha, basis, removed, bias=False
            )
            errors.setdefault(name, []).append(relative_error(values, exact))
            over_spread = yardstick_error(values, exact, p.y)
            errors.setdefault(f"{name} over the spread", []).append(over_spread)
    return {name: float(np.median(values)) for name, values in errors.items()}


def sparse_predictions(p, alpha):
    caches = printed.proposition_1_caches(p.K, p.y, p.basis)
    removed = np.intersect1d(p.held_out, p.basis)
    found = {
        "proposition_1": (printed.proposition_1(caches, p.held_out, alpha), removed),
        "corollary_2": (printed.proposition_1(caches, p.held_out, alpha, remove=False), ()),
    }
    for policy, gone in (("remove", removed), ("keep", ())):
        model = KernelRidgeCV(
            "precomputed",
            alphas=[alpha],
            basis=p.basis,
            held_out_basis=policy,
            fit_intercept=False,
            jitter=0.0,
        ).fit(p.K[:, p.basis], p.y)
        found[policy] = (model.held_out([HoldOut(p.held_out)]).values[0], gone)
    return found


@pytest.mark.parametrize(
    ("condition", "alpha", "digits_printed", "digits_kept"),
    [(1e6, 1e-4, 9, 11), (1e8, 1e-4, 6, 10), (1e10, 1e-4, 5, 9), (1e12, 1e-6, 2, 7)],
)
def test_000_loses_digits_as_printed(condition, alpha, digits_printed, digits_kept):
    # Forming K_B K_B' before whitening squares the condition, and the corrections cancel.
    errors = median_errors(condition, alpha, sparse_predictions, sparse=True)
    for formula, policy in (("proposition_1", "remove"), ("corollary_2", "keep")):
        assert errors[formula] > 10.0**-digits_printed, (formula, errors)
        assert errors[policy] < 10.0**-digits_kept, (policy, errors)
        assert errors[formula] > 1000 * errors[policy], errors


def dense_predictions(p, alpha):
    H = p.held_out
    model = KernelRidgeCV("precomputed", alphas=[alpha], fit_intercept=False, path="spectral")
    got = model.fit(p.K, p.y).held_out([HoldOut(H)]).values[0]
    return {
        "equation_9": (printed.equation_9(p.K, p.y, H, alpha), ()),
        "equation_14": (p.y[H] - printed.equation_14(p.K, p.y, H, alpha), ()),
        "equation_16": (p.y[H] - printed.equation_16(p.K, p.y, H, alpha), ()),
        "holdfast": (got, ()),
    }


def test_004_loses_digits_at_small_penalties_and_003_at_large_ones():
    # (9) takes B from the identity, which cancels as B tends to it; (14) and (16) give residuals,
    # and y less a residual cancels as the prediction tends to zero. The package gives y less a
    # residual too: beside the spread of y, what is lost is nothing.
    small = median_errors(1e4, 1e-10, dense_predictions, sparse=False)
    assert small["equation_9"] > 1e-8
    assert small["equation_16"] < 1e-12
    assert small["holdfast"] < 1e-12
    large = median_errors(1e4, 1e6, dense_predictions, sparse=False)
    assert large["equation_14"] > 1e-11
    assert large["equation_16"] > 1e-11
    assert large["equation_9"] < 1e-14
    assert large["holdfast over the spread"] < 1e-14
