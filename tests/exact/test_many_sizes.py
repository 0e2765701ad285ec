"""Groups of many sizes are solved together: each of them as if it were alone."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF
from sklearn.model_selection import LeaveOneGroupOut

from holdfast import KernelRidgeCV
from reference.retrain import retrain
from tolerances import assert_close

pytestmark = pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")

SIZES = np.array([1, 1, 2, 3, 4, 5, 6, 7, 9, 11, 12, 13, 14, 17, 21, 26, 30])
ALPHAS = np.array([1e-3, 0.1, 10.0])


def data(targets, weighted):
    """Return groups of 1 to 30 rows in random order, some of them of no weight."""
    rng = np.random.default_rng(3)
    groups = rng.permutation(np.repeat(np.arange(SIZES.size), SIZES))
    m = groups.size
    X = rng.normal(size=(m, 2))
    Y = np.sin(X[:, :1]) + 0.3 * rng.normal(size=(m, targets))
    weights = rng.uniform(0.2, 3.0, m) if weighted else np.ones(m)
    weights[rng.choice(m, 9, replace=False)] = 0.0 if weighted else 1.0
    return X, Y, groups, weights


@pytest.mark.parametrize("targets", [1, 3])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("policy", ["dense", "remove", "keep"])
def test_every_group_is_predicted_as_by_a_refit(policy, weighted, targets):
    X, Y, groups, weights = data(targets, weighted)
    m, basis = len(X), None if policy == "dense" else np.arange(0, len(X), 4)
    options = {} if basis is None else {"basis": basis, "held_out_basis": policy, "jitter": 1e-6}
    model = KernelRidgeCV(
        gamma=4.0, alphas=ALPHAS, cv=LeaveOneGroupOut(), path="spectral", **options
    ).fit(X, Y, groups=groups, sample_weight=weights)
    found = model.held_out().matrix()  # (alphas, rows, targets)
    K = RBF(length_scale=np.sqrt(0.125))(X)
    for group in range(SIZES.size):
        held = np.flatnonzero(groups == group)
        removed = held[np.isin(held, basis)] if policy == "remove" else []
        for a, alpha in enumerate(ALPHAS):
            jitter = 0.0 if basis is None else model.jitter_
            expected = retrain(K, Y, held, held, alpha, basis, removed, weights, jitter=jitter)
            assert_close(found[a, held], expected, "retraining", (group, alpha, m))


def test_groups_are_predicted_alike_in_any_company():
    X, Y, groups, _ = data(1, weighted=False)
    model = KernelRidgeCV(gamma=4.0, alphas=ALPHAS, basis=np.arange(0, len(X), 4), cv=3)
    model.fit(X, Y[:, 0])
    together = model.held_out(LeaveOneGroupOut(), groups=groups)
    for group in (0, 5, 9, SIZES.size - 1):
        rows = np.flatnonzero(groups == group)
        alone = model.held_out([(np.setdiff1d(np.arange(len(X)), rows), rows)])
        assert_close(together.predictions[group], alone.predictions[0], "law", group)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("policy", ["dense", "remove", "keep"])
def test_many_targets_of_single_rows(policy, weighted):
    """Rows that are basis rows and rows that are not take turns, and targets are many."""
    X, Y, _, weights = data(40, weighted)
    basis = None if policy == "dense" else np.arange(0, len(X), 4)
    options = {} if basis is None else {"basis": basis, "held_out_basis": policy, "jitter": 1e-6}
    model = KernelRidgeCV(gamma=4.0, alphas=ALPHAS, path="spectral", **options)
    found = model.fit(X, Y, sample_weight=weights).held_out().matrix()
    K = RBF(length_scale=np.sqrt(0.125))(X)
    for row in range(0, len(X), 7):
        removed = [row] if policy == "remove" and row % 4 == 0 else []
        for a, alpha in enumerate(ALPHAS):
            jitter = 0.0 if basis is None else model.jitter_
            expected = retrain(K, Y, [row], [row], alpha, basis, removed, weights, jitter=jitter)
            assert_close(found[a, [row]], expected, "retraining", (row, alpha))
