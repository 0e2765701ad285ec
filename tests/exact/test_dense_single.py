"""Dense models through one inverse for each penalty: sizes that the exact matrix does not reach."""

import numpy as np
import pytest

import holdfast.holdout.inverse
from holdfast import HoldOut, KernelRidgeCV
from holdfast.exceptions import KernelError
from holdfast.kernels import RBF
from holdfast.linalg import shifted_inverse
from reference.retrain import retrain

SEED = 11
pytestmark = pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")


def problem(m, v=2):
    rng = np.random.default_rng(SEED)
    X = rng.normal(size=(m, 3))
    Y = np.column_stack([np.sin(X @ rng.normal(size=3)) for _ in range(v)])
    return X, Y + 0.1 * rng.normal(size=(m, v)) + 2.0, rng.integers(0, 3, size=m).astype(float)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_large_folds_as_retrained(bias, weighted):
    X, Y, weights = problem(120)
    w = weights if weighted else np.ones(120)
    folds = np.array_split(np.random.default_rng(1).permutation(120), [24, 48, 49, 60])
    alphas = np.array([1e-6, 1e-1, 1e8])
    model = KernelRidgeCV(
        RBF(0.5), alphas=alphas, cv=[HoldOut(f) for f in folds], fit_intercept=bias, path="single"
    ).fit(X, Y, sample_weight=w)
    K = RBF(0.5)(X)
    values = model.held_out().matrix()
    for fold in folds:
        for a, alpha in enumerate(alphas):
            truth = retrain(K, Y, fold, fold, alpha, None, (), w, bias)
            scale = np.abs(truth).max()
            np.testing.assert_allclose(values[a, fold], truth, rtol=0, atol=1e-9 * scale)


@pytest.mark.parametrize("path", ["spectral", "fold_gram", "single"])
@pytest.mark.parametrize("alphas", [[0.1, 1.0], np.logspace(-2, 2, 7)])
def test_one_row_left_is_its_target(path, alphas):
    X, y = np.array([[0.0], [1.0]]), np.array([3.0, -1.0])
    model = KernelRidgeCV(RBF(1.0), alphas=alphas, path=path).fit(X, y)
    values = model.held_out().matrix()[:, :, 0]
    np.testing.assert_allclose(values, np.tile(y[::-1], (len(alphas), 1)), atol=1e-12)


def test_many_targets_in_small_stacks(monkeypatch):
    X, Y, _ = problem(60, v=40)
    options = {"kernel": RBF(0.5), "alphas": [0.1, 1.0]}
    truth = KernelRidgeCV(path="spectral", **options).fit(X, Y).held_out().matrix()
    sizes = []
    solve = holdfast.holdout.inverse.solve_systems
    monkeypatch.setattr(
        holdfast.holdout.inverse,
        "solve_systems",
        lambda M, E: sizes.append(len(M)) or solve(M, E),
    )
    monkeypatch.setattr(holdfast.holdout.inverse, "STACK_DOUBLES", 2 * 60 * 41 * 4)
    found = KernelRidgeCV(path="single", **options).fit(X, Y).held_out().matrix()
    np.testing.assert_allclose(found, truth, rtol=1e-9, atol=1e-9)
    assert max(sizes) == 4  # (held row + test row) x (m and m targets) doubles each


def test_shifted_inverse():
    A = np.array([[3.0, 1.0], [1.0, 2.0]])
    whole = A + np.eye(2)
    found = shifted_inverse(A, 1.0)
    assert found is A
    np.testing.assert_allclose(found @ whole, np.eye(2), atol=1e-15)
    with pytest.raises(KernelError, match=r"alpha=0\.5 .*pivot 2 of 2.*larger alphas"):
        shifted_inverse(np.array([[1.0, 2.0], [2.0, 1.0]]), 0.5)
