"""Basis vectors that are not rows, against retraining with the points as rows of weight zero."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.model_selection import KFold, LeaveOneGroupOut

from holdfast import HoldOut, KernelRidgeClassifierCV, KernelRidgeCV
from holdfast.basis import Fixed, Points
from holdfast.exceptions import InvalidInputError, NotSupportedError
from holdfast.kernels import RBF, FunctionKernel
from reference import kernels
from reference.retrain import PATHS, POLICIES, retrain
from tolerances import assert_close

pytestmark = pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")

M, N, D = 36, 8, 3
ALPHAS = np.array([1e-3, 0.1, 5.0])
RNG = np.random.default_rng(0)
X, Z = RNG.normal(size=(M, D)), RNG.normal(size=(N, D))
Y = np.stack([np.sin(X[:, 0]) + 3.0, X[:, 1] * X[:, 2]], axis=1) + 0.1 * RNG.normal(size=(M, 2))
GROUPS = np.repeat(np.arange(6), [1, 3, 5, 7, 9, 11])[RNG.permutation(M)]
WEIGHTS = RNG.uniform(0.2, 3.0, M)
WEIGHTS[[4, 9]] = 0.0
K = kernels.gram("rbf", np.vstack([X, Z]), gamma=0.3)  # the points below the rows …
BELOW = M + np.arange(N)
SPLITS = {
    "leave_one_out": [([i], [i]) for i in range(M)],
    "folds": [(test, test) for _, test in KFold(5).split(X)],
    "groups": [(test, test) for _, test in LeaveOneGroupOut().split(X, groups=GROUPS)],
    "within": [([1, 2, 3, 4], [2]), (np.arange(30), [0, 4, 11])],
}


def model(**options):
    options = {"gamma": 0.3, "alphas": ALPHAS, "basis": Points(Z), "cv": 4, **options}
    return KernelRidgeCV(**options)


def expected(experiments, alphas, weights, bias, jitter):
    # … and without weight
    w = np.concatenate([np.ones(M) if weights is None else weights, np.zeros(N)])
    y = np.vstack([Y, np.zeros((N, 2))])
    parts = [
        [retrain(K, y, held, test, alpha, BELOW, (), w, bias, jitter) for alpha in alphas]
        for held, test in experiments
    ]
    return np.concatenate(parts, axis=1)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no_bias"])
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["none", "weights"])
def test_held_out_predictions_are_those_of_retraining(path, policy, bias, weights):
    fitted = model(held_out_basis=policy, path=path, fit_intercept=bias)
    fitted.fit(X, Y, sample_weight=weights)
    for split, experiments in SPLITS.items():
        got = fitted.held_out([HoldOut(*pair) for pair in experiments])
        wanted = expected(experiments, ALPHAS, weights, bias, fitted.jitter_)
        for a, alpha in enumerate(ALPHAS):
            rows = np.concatenate([part[a] for part in got.predictions])
            assert_close(rows, wanted[a], "retraining", (split, alpha))


def test_the_model_is_made_of_the_points():
    fitted = model().fit(X, Y)
    np.testing.assert_array_equal(fitted.basis_indices_, BELOW)
    assert fitted.basis_selector_.Z is not None
    new = RNG.normal(size=(5, D))
    values = RBF(0.3)(new, Z) @ fitted.dual_coef_ + fitted.intercept_
    assert_close(fitted.predict(new), values, "law")
    assert fitted.verify(4).max_relative_error < 1e-10


def test_points_are_rows_of_weight_zero():
    """Other questions too: a row of weight zero that is a basis row and is never held out."""
    ours = model().fit(X, Y[:, 0])
    rows, y = np.vstack([X, Z]), np.concatenate([Y[:, 0], np.zeros(N)])
    weights = np.concatenate([np.ones(M), np.zeros(N)])
    folds = [HoldOut(test) for _, test in KFold(4).split(X)]
    theirs = model(basis=Fixed(BELOW), cv=folds).fit(rows, y, sample_weight=weights)
    assert ours.alpha_ == theirs.alpha_
    new = RNG.normal(size=(5, D))
    for answer in (
        lambda m: m.predict_interval(new),
        lambda m: m.predict(new, return_std=True)[1],
        lambda m: m.predict_without([3, 5, 7]),
        lambda m: m.coef_without([3, 5, 7]).dual_coef,
        lambda m: m.influence().cook[:M],
    ):
        assert_close(answer(ours), answer(theirs), "law")
    inner = [ours.nested(3), theirs.nested([HoldOut(test) for _, test in KFold(3).split(X)])]
    assert inner[0].alphas.shape == inner[1].alphas.shape


def test_several_widths_and_classes():
    fitted = model(gamma=[0.1, 0.3, 1.0]).fit(X, Y)
    alone = model(gamma=fitted.kernel_.gamma).fit(X, Y)
    assert_close(fitted.predict(X), alone.predict(X), "law")
    labels = np.where(Y[:, 0] > 3.0, "up", "down")
    judge = KernelRidgeClassifierCV(gamma=0.3, alphas=ALPHAS, basis=Points(Z), cv=4).fit(X, labels)
    assert judge.dual_coef_.shape == (N,)


@pytest.mark.parametrize("linear", [True, False])
def test_sparse_rows_and_objects(linear):
    rows, points = sp.csr_array(X), sp.csr_array(Z)
    kernel = "linear" if linear else "rbf"
    options = {"kernel": kernel, "jitter": 1e-8, "fit_intercept": False}
    thin = model(basis=Points(points), **options).fit(rows, Y)
    assert_close(thin.predict(rows), model(**options).fit(X, Y).predict(X), "law")
    if linear:
        assert_close(X @ thin.coef_.T, thin.predict(X), "law")


def shared_letters(left, right):
    return [[len(set(a) & set(b)) / 26.0 for b in right] for a in left]


def test_points_that_are_words():
    words = np.array(["alder", "birch", "cedar", "elm", "fir", "larch"], dtype=object)
    basis = Points(["oak", "ash"])
    fitted = KernelRidgeCV(FunctionKernel(shared_letters), alphas=[0.1], basis=basis)
    fitted.fit(words, np.arange(6.0))
    assert fitted.predict(["yew"]).shape == (1,)


def test_bad_points():
    for points in (Z[:, :2], np.ones(3), np.empty((0, D)), np.full((2, D), np.nan), ["a", "b"]):
        with pytest.raises(InvalidInputError):
            model(basis=Points(points)).fit(X, Y)
    with pytest.raises(NotSupportedError):
        model(held_out_basis="reselect").fit(X, Y)
    with pytest.raises(NotSupportedError):
        model(kernel="precomputed").fit(K[:M, :M], Y)
