"""Dense models through one inverse for each penalty: sizes that the exact matrix does not reach."""

import numpy as np
import pytest

import holdfast.holdout.identity
from holdfast import HoldOut, KernelRidgeCV
from holdfast.exceptions import KernelError
from holdfast.experiments import Ragged, Tasks
from holdfast.kernels import RBF
from holdfast.linalg import shifted_inverse
from holdfast.smoother import KernelSmoother, Unpenalised
from holdfast.smoother.factor import KernelFactor
from holdfast.smoother.inverse import HeldInverse, InverseFactor
from reference.retrain import retrain
from tolerances import yardstick_error

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
            assert yardstick_error(values[a, fold], truth, Y) < 1e-9


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
    monkeypatch.setattr(holdfast.holdout.identity, "STACK_DOUBLES", 2 * (60 * 41 + 40) * 4)
    found = KernelRidgeCV(path="single", **options).fit(X, Y).held_out().matrix()
    np.testing.assert_allclose(found, truth, rtol=1e-9, atol=1e-9)


COLUMNS = {0: np.empty((30, 0)), 1: np.ones((30, 1)), 3: np.vander(np.linspace(-1, 1, 30), 3)}


def smoother_of(s, weighted, definite=True):
    X, Y, weights = problem(30)
    w = weights if weighted else np.ones(30)
    K = RBF(0.5)(X)
    smoother = KernelSmoother(K, w, Y, Unpenalised.of(COLUMNS[s], w), definite=definite)
    return smoother, K, Y, w


def stacked(held, test):
    """Return tasks of one shape, stacked."""
    removed = Ragged.empty(len(held))
    rows = [Ragged.from_arrays([np.array(r) for r in sets]) for sets in (held, test)]
    (shape,) = Tasks(rows[0], removed, rows[1], np.arange(len(held))).shapes()
    return shape


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("s", COLUMNS)
def test_the_factor_at_one_penalty_is_the_inverse(s, weighted):
    smoother, K, Y, w = smoother_of(s, weighted)
    alpha = 0.3
    factor = smoother.single(alpha)
    assert isinstance(factor, InverseFactor)
    assert factor.alpha == alpha
    live = w > 0
    root = np.sqrt(w[live])
    A = root[:, None] * K[np.ix_(live, live)] * root + alpha * np.eye(live.sum())
    B = root[:, None] * COLUMNS[s][live]
    # Without the columns B: G = A⁻¹ − A⁻¹B(BᵀA⁻¹B)⁻¹BᵀA⁻¹.
    AB = np.linalg.solve(A, B)
    G = np.linalg.inv(A) - AB @ np.linalg.solve(B.T @ AB, AB.T)
    np.testing.assert_allclose(factor.G, G, atol=1e-12 * np.abs(G).max())
    np.testing.assert_allclose(factor.G @ B, 0.0, atol=1e-12 * np.abs(G).max())
    np.testing.assert_allclose(factor.c, G @ (root[:, None] * Y[live]), rtol=1e-9, atol=1e-11)
    expected = np.zeros(30)
    expected[live] = 1.0 - alpha * np.diag(G)
    np.testing.assert_allclose(factor.leverages(alpha), expected, atol=1e-12)
    np.testing.assert_allclose(smoother.factor(alpha).leverages(alpha), expected, atol=1e-12)
    # An indefinite kernel has no Cholesky factorisation: its spectrum serves one penalty too.
    other = smoother_of(s, weighted, definite=False)[0].single(alpha)
    assert isinstance(other, KernelFactor)
    np.testing.assert_allclose(other.leverages(alpha), expected, atol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("s", COLUMNS)
def test_held_out_rows_by_the_inverse(s, weighted):
    smoother, K, Y, w = smoother_of(s, weighted)
    live, alpha = np.flatnonzero(w > 0), 0.3
    H = np.array([live[[4, 1, 9]], live[[2, 3, 5]]])
    T = np.array([[H[0, 1], 0, 29, 11], [7, 8, H[1, 0], H[1, 2]]])
    factor = smoother.single(alpha)
    held = factor.held(stacked(H, T), np.array([alpha]))
    assert isinstance(held, HeldInverse)
    assert held.shape == (1, 2, 3, 2)
    place = np.searchsorted(live, H)
    np.testing.assert_array_equal(held.errors()[0], factor.c[place])
    for j in range(2):
        np.testing.assert_array_equal(
            held.gaps(slice(j, j + 1))[0, 0], factor.G[np.ix_(place[j], place[j])]
        )
    r = holdfast.holdout.identity.residuals(held, np.inf).r
    predictions = held.predict(r)
    for j in range(2):
        left = np.setdiff1d(live, H[j])
        root = np.sqrt(w[left])
        border = np.zeros((left.size + s, left.size + s))
        border[: left.size, : left.size] = root[:, None] * K[np.ix_(left, left)] * root
        border[: left.size, : left.size] += alpha * np.eye(left.size)
        border[: left.size, left.size :] = root[:, None] * COLUMNS[s][left]
        border[left.size :, : left.size] = border[: left.size, left.size :].T
        rhs = np.vstack([root[:, None] * Y[left], np.zeros((s, 2))])
        c = np.linalg.solve(border, rhs)
        # The coefficients of the rows that are left, and none for those held out.
        found = held.coefficients(r)[j]
        np.testing.assert_array_equal(found[place[j]], 0.0)
        where = np.searchsorted(live, left)
        np.testing.assert_allclose(found[where], c[: left.size], rtol=1e-9, atol=1e-10)
        coef = root[:, None] * c[: left.size]

        def model(rows, left=left, coef=coef, c=c):
            return K[np.ix_(rows, left)] @ coef + COLUMNS[s][rows] @ c[left.size :]

        missed = np.sqrt(w[H[j]])[:, None] * (Y[H[j]] - model(H[j]))
        np.testing.assert_allclose(r[0, j], missed, rtol=1e-9, atol=1e-10)
        whole = smoother.restore(predictions[:, j], T[j], slice(None))[0]
        np.testing.assert_allclose(whole, model(T[j]), rtol=1e-9, atol=1e-10)


def test_shifted_inverse():
    A = np.array([[3.0, 1.0], [1.0, 2.0]])
    whole = A + np.eye(2)
    found = shifted_inverse(A, 1.0)
    assert found is A
    np.testing.assert_allclose(found @ whole, np.eye(2), atol=1e-15)
    with pytest.raises(KernelError, match=r"alpha=0\.5 .*pivot 2 of 2.*larger alphas"):
        shifted_inverse(np.array([[1.0, 2.0], [2.0, 1.0]]), 0.5)
