"""The covariance of held-out residuals, against models that are trained again for unit targets."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import solve_triangular
from scipy.stats import kstest
from sklearn.model_selection import KFold, LeaveOneGroupOut, ShuffleSplit

from holdfast import KernelRidgeClassifierCV, KernelRidgeCV
from holdfast.exceptions import InvalidInputError, NotSupportedError
from holdfast.kernels import RBF
from reference.retrain import policy_experiment, retrain

pytestmark = pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")
M = 30
RNG = np.random.default_rng(0)
X = RNG.normal(size=(M, 2))
Y = np.sin(X[:, 0]) + 0.3 * RNG.normal(size=M)
K = RBF(gamma=0.4)(X)
GROUPS = np.arange(M) // 4
WEIGHTS = RNG.uniform(0.5, 2.0, size=M)


def naive(experiments, alpha, basis=None, policy="remove", weights=None, bias=True, jitter=0.0):
    """Residuals are L y; under the model y has the covariance Σ: L Σ L'."""
    w = np.ones(M) if weights is None else weights
    rows = []
    for experiment in experiments:
        held, test, removed = policy_experiment(experiment.held_out, experiment.test, basis, policy)
        f = retrain(K, np.eye(M), held, test, alpha, basis, removed, w, bias, jitter)
        rows.append(np.eye(M)[test] - f)
    L = np.vstack(rows)
    prior = K
    if basis is not None:
        B = np.asarray(basis)
        prior = K[:, B] @ np.linalg.solve(K[np.ix_(B, B)] + jitter * np.eye(B.size), K[B])
    # A bias is a prior without bounds, which L does not see: it takes constants to zero.
    return L @ (prior / alpha + np.diag(1 / w)) @ L.T


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["", "weights"])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize(
    "cv",
    [None, KFold(4), LeaveOneGroupOut(), ShuffleSplit(5, test_size=0.3, random_state=0)],
    ids=["loo", "folds", "groups", "overlapping"],
)
@pytest.mark.parametrize("policy", [None, "keep", "train"])
def test_against_training_on_unit_targets(cv, policy, bias, weights):
    basis = None if policy is None else [1, 5, 8, 20, 22]
    options = {"held_out_basis": policy} if policy else {}
    model = KernelRidgeCV(
        RBF(gamma=0.4), alphas=[0.1, 1.0], cv=cv, basis=basis, fit_intercept=bias, **options
    ).fit(X, Y, groups=GROUPS if isinstance(cv, LeaveOneGroupOut) else None, sample_weight=weights)
    experiments = model._problem.experiments
    held = model.held_out()
    for alpha in (0.1, 1.0):
        expected = naive(
            experiments, alpha, basis, policy or "remove", weights, bias, model.jitter_
        )
        found = held.residual_covariance(alpha)
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)
    # Of rows that stay in training `std` is that of another observation, not of their residual.
    left = slice(None) if policy != "train" else ~np.isin(held.rows, basis)
    diagonal = np.diag(held.residual_covariance()) * held.noise_variance[0, 0]
    np.testing.assert_allclose(diagonal[left], held.std[0, left, 0] ** 2, rtol=1e-8)


def test_residuals_solved_with_its_root_are_uncorrelated():
    """What it is for: a Q–Q plot of targets that come from the model itself."""
    rng = np.random.default_rng(1)
    places = np.linspace(0, 6, 60)[:, None]
    prior = RBF(gamma=1.0)(places)
    root = np.linalg.cholesky(prior / 0.1 + np.eye(60))
    z = []
    for _ in range(20):
        y = root @ rng.normal(size=60)
        model = KernelRidgeCV(RBF(gamma=1.0), alphas=[0.1], cv=6, fit_intercept=False)
        held = model.fit(places, y).held_out()
        residuals = y[held.rows] - held.values[0, :, 0]
        z.append(
            solve_triangular(np.linalg.cholesky(held.residual_covariance()), residuals, lower=True)
        )
    assert kstest(np.concatenate(z), "norm").pvalue > 0.01


def test_rows_of_weight_zero_have_none():
    weights = np.where(np.arange(M) % 5 == 0, 0.0, 1.0)
    model = KernelRidgeCV(RBF(gamma=0.4), alphas=[0.1], cv=4).fit(X, Y, sample_weight=weights)
    held = model.held_out()
    found = held.residual_covariance()
    used = weights[held.rows] > 0
    assert np.isnan(found[~used]).all()
    expected = naive(model._problem.experiments, 0.1, weights=np.where(weights > 0, 1.0, 1e-30))
    np.testing.assert_allclose(
        found[np.ix_(used, used)], expected[np.ix_(used, used)], rtol=1e-8, atol=1e-8
    )


@pytest.mark.parametrize("policy", ["remove", "reselect"])
def test_models_that_differ_are_refused(policy):
    model = KernelRidgeCV(gamma=0.4, alphas=[0.1], basis=8, held_out_basis=policy, random_state=0)
    held = model.fit(X, Y).held_out()
    with pytest.raises(NotSupportedError, match='held_out_basis="keep"'):
        held.residual_covariance()


def test_columns_that_each_experiment_scales_are_refused():
    held = KernelRidgeCV("linear", alphas=[0.1], standardize=True).fit(X, Y).held_out()
    with pytest.raises(NotSupportedError, match="standardize"):
        held.residual_covariance()


def test_other_calls_that_are_refused():
    model = KernelRidgeCV(gamma=0.4, alphas=[0.1]).fit(X, Y)
    for alpha in (-1.0, 0.0, "one"):
        with pytest.raises(InvalidInputError, match="alpha"):
            model.held_out().residual_covariance(alpha)
    with pytest.raises(NotSupportedError, match="for regression"):
        KernelRidgeClassifierCV(alphas=[0.1]).fit(X, Y > 0).held_out().residual_covariance()
