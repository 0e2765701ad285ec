"""The same models by scikit-learn: KernelRidge, Ridge and GaussianProcessRegressor."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as gp
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold, LeaveOneOut, cross_val_predict

from holdfast import KernelRidgeCV

pytestmark = pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")

COMMON = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
PROBLEMS = {
    "seed": st.integers(0, 10**6),
    "m": st.integers(6, 40),
    "d": st.integers(1, 6),
    "alpha": st.floats(-4, 2).map(lambda power: 10.0**power),
}


def problem(seed, m, d, v=1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, d))
    Y = np.sin(X[:, :1]) @ np.ones((1, v)) + 0.3 * rng.normal(size=(m, v))
    return X, Y[:, 0] if v == 1 else Y, rng.normal(size=(5, d)), rng.uniform(0.2, 3.0, m)


def agree(ours, theirs, alpha):
    """Compare to the digits that a condition number of about m / alpha leaves to both."""
    scale = np.abs(theirs).max()
    assert np.abs(ours - theirs).max() <= 1e-11 * max(1.0, 1.0 / alpha) * max(scale, 1e-3)


@COMMON
@given(
    kernel=st.sampled_from(["rbf", "laplacian", "poly", "linear", "cosine"]),
    weighted=st.booleans(),
    v=st.integers(1, 2),
    **PROBLEMS,
)
def test_kernel_ridge(seed, m, d, alpha, kernel, weighted, v):
    X, y, new, weights = problem(seed, m, d, v)
    w = weights if weighted else None
    options = {} if kernel in ("linear", "cosine") else {"gamma": 0.3, "degree": 2, "coef0": 1.0}
    theirs = KernelRidge(alpha=alpha, kernel=kernel, **options)
    ours = KernelRidgeCV(kernel, alphas=[alpha], fit_intercept=False, cv=3, **options)
    ours.fit(X, y, sample_weight=w)
    theirs.fit(X, y, sample_weight=w)
    agree(ours.predict(new), theirs.predict(new), alpha)
    if not weighted:
        held = cross_val_predict(theirs, X, y, cv=KFold(3))
        agree(ours.held_out().matrix()[0], held.reshape(m, v), alpha)


@COMMON
@given(bias=st.booleans(), weighted=st.booleans(), v=st.integers(1, 2), **PROBLEMS)
def test_ridge(seed, m, d, alpha, bias, weighted, v):
    X, y, new, weights = problem(seed, m, d, v)
    w = weights if weighted else None
    theirs = Ridge(alpha=alpha, fit_intercept=bias).fit(X, y, sample_weight=w)
    ours = KernelRidgeCV("linear", alphas=[alpha], fit_intercept=bias)
    ours.fit(X, y, sample_weight=w)
    agree(ours.predict(new), theirs.predict(new), alpha)
    if not weighted:
        held = cross_val_predict(Ridge(alpha=alpha, fit_intercept=bias), X, y, cv=LeaveOneOut())
        agree(ours.held_out().matrix()[0], held.reshape(m, v), alpha)


@COMMON
@given(
    kernel=st.sampled_from(
        [gp.RBF(1.3), gp.Matern(0.8, nu=1.5), gp.RationalQuadratic(1.0, 2.0), gp.DotProduct(0.7)]
    ),
    **PROBLEMS,
)
def test_the_mean_of_a_gaussian_process(seed, m, d, alpha, kernel):
    """Its noise is our penalty."""
    X, y, new, _ = problem(seed, m, d)
    theirs = GaussianProcessRegressor(kernel, alpha=alpha, optimizer=None).fit(X, y)
    ours = KernelRidgeCV(kernel, alphas=[alpha], fit_intercept=False).fit(X, y)
    agree(ours.predict(new), theirs.predict(new), alpha)
    held = [
        GaussianProcessRegressor(kernel, alpha=alpha, optimizer=None)
        .fit(np.delete(X, i, axis=0), np.delete(y, i))
        .predict(X[i : i + 1])[0]
        for i in range(m)
    ]
    agree(ours.held_out().matrix()[0, :, 0], np.array(held), alpha)
