"""Every answer against its naive twin, which really trains again."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF as GaussianRBF
from sklearn.gaussian_process.kernels import ConstantKernel
from sklearn.model_selection import GroupKFold, KFold, LeaveOneGroupOut, LeaveOneOut

from holdfast import HoldOut, KernelRidgeClassifierCV, KernelRidgeCV
from holdfast.kernels import RBF
from reference import answers as naive
from reference import kernels
from reference.retrain import policy_experiment, retrain
from tolerances import relative_difference

pytestmark = [
    pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning"),
    pytest.mark.filterwarnings("ignore:The groups parameter is ignored"),
]

SEED, M, NEW = 41, 34, 6
RNG = np.random.default_rng(SEED)
X = RNG.normal(size=(M, 3))
X[7] = X[6]  # two rows alike
X_NEW = RNG.normal(size=(NEW, 3))
Y = np.stack([np.sin(X[:, 0]) + 3.0, X[:, 1] * X[:, 2]], axis=1) + 0.1 * RNG.normal(size=(M, 2))
Y[[3, 9]] = Y[3]  # equal targets
BASIS = np.array([20, 2, 31, 5, 14, 27, 11, 33, 8, 17])
GROUPS = np.repeat(np.arange(5), [2, 4, 7, 9, 12])[RNG.permutation(M)]
WEIGHTS = {"none": None, "zeros": RNG.uniform(0.2, 3.0, M)}
WEIGHTS["zeros"][[2, 4, 30]] = 0.0  # a basis row and two others
MODELS = {
    "dense": (None, "remove"),
    "remove": (BASIS, "remove"),
    "keep": (BASIS, "keep"),
    "train": (BASIS, "train"),
    "skip": (BASIS, "skip"),
}
ALPHAS = np.array([1e-2, 0.3, 5.0])
K_ALL = {
    "rbf": kernels.gram("rbf", np.vstack([X, X_NEW]), gamma=0.2),
    "linear": kernels.gram("linear", np.vstack([X, X_NEW])),
}

each_model = pytest.mark.parametrize("model", MODELS)
each_weight = pytest.mark.parametrize("weights", WEIGHTS)
each_bias = pytest.mark.parametrize("bias", [True, False], ids=["bias", "no_bias"])


@cache
def fitted(model="dense", weights="none", bias=True, kernel="rbf", cv="folds", targets=2):
    basis, policy = MODELS[model]
    splits = {
        "loo": LeaveOneOut(),
        "folds": KFold(4, shuffle=True, random_state=1),
        "groups": LeaveOneGroupOut(),
        "group_folds": GroupKFold(2),
    }
    y = Y if targets == 2 else Y[:, 0]
    return KernelRidgeCV(
        kernel,
        gamma=0.2,
        alphas=ALPHAS,
        basis=basis,
        held_out_basis=policy,
        fit_intercept=bias,
        cv=splits[cv],
    ).fit(X, y, sample_weight=WEIGHTS[weights], groups=GROUPS)


def options(model, weights="none", bias=True, estimator=None):
    basis, policy = MODELS[model]
    jitter = 0.0 if basis is None or estimator is None else estimator.jitter_
    return {
        "basis": basis,
        "policy": policy,
        "weights": WEIGHTS[weights],
        "bias": bias,
        "jitter": jitter,
    }


def close(got, expected, digits=1e-8, context=""):
    difference = relative_difference(got, expected)
    assert difference <= digits, f"{difference:.1e} apart, {context} seed={SEED}"


# -- models without some rows ----------------------------------------------------------------------


@each_model
@each_weight
@each_bias
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_predict_without_is_retraining(model, weights, bias, kernel):
    estimator = fitted(model, weights, bias, kernel)
    K = K_ALL[kernel]
    how = options(model, weights, bias, estimator)
    sets = [[5], [0], [1, 2, 3, 20], np.arange(26), [20, 2, 31, 5, 14]]  # the last two: anew
    for rows in sets:
        for alpha in ALPHAS[::2]:
            both = K[:, :M]
            expected = naive.without(K[:M, :M], both, Y, rows, alpha, **how)
            got = estimator.predict_without(rows, np.vstack([X, X_NEW]), alpha=alpha)
            close(got, expected, context=f"{rows} {alpha}")


@each_model
def test_predict_without_one_penalty_per_target(model):
    estimator = fitted(model)
    how = options(model, estimator=estimator)
    got = estimator.predict_without([1, 20], X_NEW, alpha=[5.0, 1e-2])
    for t, alpha in enumerate([5.0, 1e-2]):
        K = K_ALL["rbf"]
        close(got[:, [t]], naive.without(K[:M, :M], K[M:, :M], Y[:, t], [1, 20], alpha, **how))


@each_model
@each_weight
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_coefficients_make_the_predictions(model, weights, kernel):
    estimator = fitted(model, weights, True, kernel, targets=1)
    K = K_ALL[kernel]
    for rows in ([5], [1, 2, 3, 20], np.arange(26), [20, 2, 31, 5, 14]):
        found = estimator.coef_without(rows, alpha=0.3)
        values = K[M:, estimator.basis_indices_] @ found.dual_coef + found.intercept
        close(values, estimator.predict_without(rows, X_NEW, alpha=0.3))
        basis, policy = MODELS[model]
        if basis is None:
            assert (found.dual_coef[np.asarray(rows)] == 0).all()
        elif policy == "remove":
            assert (found.dual_coef[np.isin(basis, rows)] == 0).all()
        if kernel == "linear" and basis is None:
            close(X_NEW @ found.coef + found.intercept, values)


def test_sparse_matrices_frames_objects_and_precomputed_kernels():
    pd = pytest.importorskip("pandas")
    dense = fitted("remove", targets=1)
    expected = dense.predict_without([1, 2], X_NEW)
    same = {"gamma": 0.2, "alphas": ALPHAS, "basis": BASIS, "cv": KFold(4)}
    sparse = KernelRidgeCV(**same).fit(sp.csr_matrix(X), Y[:, 0])
    close(sparse.predict_without([1, 2], sp.csr_matrix(X_NEW), alpha=dense.alpha_), expected)
    frame = KernelRidgeCV(**same).fit(pd.DataFrame(X, columns=list("abc")), Y[:, 0])
    new = pd.DataFrame(X_NEW, columns=list("abc"))
    close(frame.predict_without([1, 2], new, alpha=dense.alpha_), expected)
    K = K_ALL["rbf"]
    for basis in (None, BASIS):
        known = KernelRidgeCV("precomputed", **{**same, "basis": basis}).fit(K[:M, :M], Y[:, 0])
        got = known.predict_without([1, 2], K[M:, :M], alpha=0.3)
        close(
            got,
            fitted("dense" if basis is None else "remove", targets=1).predict_without(
                [1, 2], X_NEW, alpha=0.3
            ),
        )


def test_reselected_basis():
    estimator = KernelRidgeCV(
        gamma=0.2, alphas=ALPHAS, basis=8, held_out_basis="reselect", cv=3, random_state=0
    ).fit(X, Y)
    got = estimator.predict_without([3, 4, 5], X[[3, 4, 5]])
    close(got, estimator.predict_without([3, 4, 5]))


def test_classifiers():
    labels = np.where(Y[:, 1] > 0, "yes", "no")
    estimator = KernelRidgeClassifierCV(gamma=0.2, alphas=ALPHAS, cv=4).fit(X, labels)
    rows = [0, 1, 2]
    K = K_ALL["rbf"]
    signs = np.where(labels == "yes", 1.0, -1.0)
    expected = naive.without(K[:M, :M], K[M:, :M], signs, rows, estimator.alpha_)[:, 0]
    close(estimator.predict_without(rows, X_NEW), expected)
    three = np.digitize(Y[:, 1], [-0.3, 0.3])
    several = KernelRidgeClassifierCV(gamma=0.2, alphas=ALPHAS, cv=4).fit(X, three)
    assert several.predict_without(rows, X_NEW).shape == (NEW, 3)


# -- intervals -------------------------------------------------------------------------------------


@each_model
@each_weight
@pytest.mark.parametrize("cv", ["loo", "folds", "groups", "group_folds"])
def test_intervals_are_those_of_retrained_models(model, weights, cv):
    estimator = fitted(model, weights, True, cv=cv)
    how = options(model, weights, True, estimator)
    w = np.ones(M) if WEIGHTS[weights] is None else WEIGHTS[weights]
    K, alpha = K_ALL["rbf"], estimator.alpha_
    models, residuals, owners, rows = [], [], [], []
    for experiment in estimator.held_out().experiments:
        held_out, test = experiment.held_out, experiment.test
        H, T, removed = policy_experiment(held_out, test, how["basis"], how["policy"])
        if not len(T):
            continue
        models.append(naive.without(K[:M, :M], K[M:, :M], Y, held_out, alpha, **how))
        f = retrain(K[:M, :M], Y, H, T, alpha, how["basis"], removed, w, True, how["jitter"])
        for t, row in enumerate(T):
            if w[row] > 0:
                residuals.append(Y[row] - f[t])
                owners.append(len(models) - 1)
                rows.append(row)
    models, residuals = np.array(models), np.array(residuals)
    whole = cv in ("groups", "group_folds")
    groups = [int(GROUPS[row]) for row in rows] if whole else None
    levels = (0.5, 0.9)
    got = estimator.predict_interval(X_NEW, levels)
    assert got.shape == (NEW, 2, 2, 2)
    for t in range(2):
        for i, level in enumerate(levels):
            expected = naive.interval(models[:, :, t], residuals[:, t], owners, level, groups)
            finite = np.isfinite(expected)
            assert (np.isfinite(got[:, :, i, t]) == finite).all()
            if finite.any():
                close(got[:, :, i, t][finite], expected[finite], context=str(level))


def test_shapes_and_infinite_bounds():
    one = fitted(targets=1, cv="loo")
    assert one.predict_interval(X_NEW).shape == (NEW, 2)
    assert one.predict_interval(X_NEW, [0.5, 0.8, 0.9]).shape == (NEW, 2, 3)
    assert fitted(cv="loo").predict_interval(X_NEW).shape == (NEW, 2, 2)
    wide = one.predict_interval(X_NEW, 0.99)  # 34 rows cannot promise that
    assert (wide[:, 0] == -np.inf).all()
    assert (wide[:, 1] == np.inf).all()


# -- the Gaussian view -----------------------------------------------------------------------------

#: More rows than basis rows; two of them are basis rows, and some have no weight.
WIDE = np.array([20, 2, 0, 1, 3, 4, 6, 7, 9, 10, 12, 13, 15, 16, 30])
LAW_SETS = [
    HoldOut([1, 2, 3, 20], [2, 20, 3]),
    HoldOut(np.arange(26)),
    HoldOut([20, 2, 31, 5, 14]),
    HoldOut([4, 6, 7]),
    HoldOut(WIDE),
    HoldOut(WIDE, WIDE[[12, 0, 4, 13]]),
    *[HoldOut([i]) for i in range(M) if i not in BASIS],
]


@each_model
@each_weight
@each_bias
def test_held_out_law(model, weights, bias):
    estimator = fitted(model, weights, bias)
    how = options(model, weights, bias, estimator)
    w = np.ones(M) if WEIGHTS[weights] is None else WEIGHTS[weights]
    found = estimator.held_out(LAW_SETS, alphas=ALPHAS)
    K = K_ALL["rbf"][:M, :M]
    std, density = found.std, found.log_density()
    for a, alpha in enumerate(ALPHAS):
        laws, residuals, square, count = [], [], np.zeros(2), 0
        for experiment, values in zip(found.experiments, found.predictions, strict=True):
            C = naive.held_out_law(K, experiment.held_out, experiment.test, alpha, **how)
            r = Y[experiment.test] - values[a]
            kept = np.flatnonzero(w[experiment.test] > 0)
            laws.append((C, C[np.ix_(kept, kept)]))
            residuals.append(r[kept])
            count += kept.size
            if kept.size:
                square += (r[kept] * np.linalg.solve(laws[-1][1], r[kept])).sum(axis=0)
        noise = square / count
        expected = np.sqrt(np.concatenate([np.diag(C) for C, _ in laws])[:, None] * noise)
        close(std[a], expected)
        total = sum(
            naive.log_density(r[:, t], C, noise[t])
            for (_, C), r in zip(laws, residuals, strict=True)
            for t in range(2)
            if len(r)
        )
        assert abs(density[a] - total) <= 1e-8 * max(1.0, abs(total))


@pytest.mark.parametrize("weights", WEIGHTS)
def test_the_dense_law_is_gaussian_process_regression(weights):
    """Refits of scikit-learn's regressor, with the noise of `noise_variance_`, for every row."""
    estimator = fitted("dense", weights, False, cv="loo", targets=1)
    noise, alpha = estimator.noise_variance_, estimator.alpha_
    w = np.ones(M) if WEIGHTS[weights] is None else WEIGHTS[weights]
    live = np.flatnonzero(w > 0)
    prior = ConstantKernel(noise / alpha) * GaussianRBF(np.sqrt(1 / 0.4))

    def refit(rows):
        model = GaussianProcessRegressor(prior, alpha=noise / w[rows], optimizer=None)
        return model.fit(X[rows], Y[rows, 0])

    mean, std = estimator.predict(X_NEW, return_std=True)
    f, s = refit(live).predict(X_NEW, return_std=True)
    close(mean, f)
    close(std, np.sqrt(s**2 + noise))
    held = estimator.held_out(alphas=[alpha])
    total = 0.0
    for i in live:
        f, s = refit(np.setdiff1d(live, [i])).predict(X[[i]], return_std=True)
        variance = s[0] ** 2 + noise / w[i]
        assert abs(held.matrix()[0, i, 0] - f[0]) < 1e-8
        assert abs(held.std[0, i, 0] - np.sqrt(variance)) < 1e-8
        total -= 0.5 * (np.log(2 * np.pi * variance) + (Y[i, 0] - f[0]) ** 2 / variance)
    assert abs(held.log_density()[0] - total) < 1e-8 * abs(total)


def test_the_score_log_density_is_that_of_gaussian_process_regression():
    """From refits of scikit-learn's regressor without each group."""
    alpha, gamma, y = 0.3, 0.4, Y[:, 0]
    model = KernelRidgeCV(
        RBF(gamma),
        alphas=[alpha],
        cv=LeaveOneGroupOut(),
        fit_intercept=False,
        scoring="log_density",
    )
    found = model.fit(X, y, groups=GROUPS).best_score_

    def refits(noise):
        """Residuals and their covariance, group by group."""
        prior = ConstantKernel(noise / alpha) * GaussianRBF(np.sqrt(0.5 / gamma))
        for g in np.unique(GROUPS):
            H, rest = np.flatnonzero(g == GROUPS), np.flatnonzero(g != GROUPS)
            regressor = GaussianProcessRegressor(prior, alpha=noise, optimizer=None)
            f, C = regressor.fit(X[rest], y[rest]).predict(X[H], return_cov=True)
            yield y[H] - f, C + noise * np.eye(H.size)

    noise = sum(r @ np.linalg.solve(C, r) for r, C in refits(1.0)) / M
    total = sum(naive.log_density(r, C, 1.0) for r, C in refits(noise))
    assert abs(found - total / M) < 1e-8


@each_model
@each_weight
@each_bias
def test_std_of_new_rows(model, weights, bias):
    if model == "skip":
        pytest.skip("the model on all rows is that of train")
    estimator = fitted(model, weights, bias)
    w = np.ones(M) if WEIGHTS[weights] is None else WEIGHTS[weights]
    basis, K = MODELS[model][0], K_ALL["rbf"]
    live = np.flatnonzero(w > 0)
    jitter = 0.0 if basis is None else estimator.jitter_
    model_law = (live, estimator.alpha_, w, bias, basis, (), jitter)
    V = naive.posterior(K[:M, :M], K[M:, :M], K[M:, M:], *model_law)
    expected = np.sqrt(np.asarray(estimator.noise_variance_) * (1 + np.diag(V)[:, None]))
    close(estimator.predict(X_NEW, return_std=True)[1], expected)


def test_density_scores_choose_the_penalty():
    estimator = KernelRidgeCV(
        gamma=0.2, alphas=ALPHAS, scoring="log_density", cv=LeaveOneGroupOut()
    ).fit(X, Y, groups=GROUPS)
    found = estimator.held_out()
    scores = found.score("log_density")
    assert estimator.alpha_ == ALPHAS[np.argmax(scores)]
    assert abs(estimator.best_score_ - scores.max()) < 1e-12
    close(scores, found.log_density() / (2 * M))
    separate = KernelRidgeCV(
        gamma=0.2, alphas=ALPHAS, scoring="log_density", alpha_per_target=True
    ).fit(X, Y)
    for t in range(2):
        alone = KernelRidgeCV(gamma=0.2, alphas=ALPHAS, scoring="log_density").fit(X, Y[:, t])
        assert separate.alpha_[t] == alone.alpha_
        assert abs(separate.noise_variance_[t] / alone.noise_variance_ - 1) < 1e-10


# -- influence -------------------------------------------------------------------------------------


@each_model
@each_weight
@each_bias
@pytest.mark.parametrize("by", ["rows", "groups"])
def test_influence(model, weights, bias, by):
    estimator = fitted(model, weights, bias)
    how = options(model, weights, bias, estimator)
    if how["policy"] == "skip":
        how["policy"] = "train"  # models are the same
    w = np.ones(M) if WEIGHTS[weights] is None else WEIGHTS[weights]
    K, alpha = K_ALL["rbf"][:M, :M], estimator.alpha_
    sets = [[i] for i in range(M)]
    if by == "groups":
        sets = [np.flatnonzero(g == GROUPS) for g in range(5)]
    got = estimator.influence(None if by == "rows" else GROUPS)
    full = naive.without(K, K, Y, [], alpha, **how)
    h = np.array([_leverage(K, i, alpha, how, w) for i in range(M)])
    freedom = h.sum()
    s2 = (w[:, None] * (Y - full) ** 2).sum(axis=0) / ((w > 0).sum() - freedom)
    for j, rows in enumerate(sets):
        rows = np.asarray(rows)
        f = naive.without(K, K, Y, rows, alpha, **how)
        cook = (w[:, None] * (full - f) ** 2).sum(axis=0) / (freedom * s2)
        np.testing.assert_allclose(got.cook[j], cook, rtol=1e-7, atol=1e-12)
        assert abs(got.leverage[j] - h[rows].sum()) < 1e-10
        C = naive.held_out_law(K, rows, rows, alpha, **how)
        kept = np.flatnonzero(w[rows] > 0)
        if not kept.size:
            kept = np.arange(rows.size)
        r, C = (Y - f)[rows][kept], C[np.ix_(kept, kept)]
        square = (r * np.linalg.solve(C, r)).sum(axis=0) / kept.size
        np.testing.assert_allclose(np.abs(got.residual[j]), np.sqrt(square / s2), rtol=1e-7)
        if by == "rows":
            assert (np.sign(got.residual[j]) == np.sign((Y - f)[rows[0]])).all()


def _leverage(K, i, alpha, how, w):
    if w[i] == 0:
        return 0.0
    unit = np.zeros(M)
    unit[i] = 1.0
    return naive.without(K, K[[i]], unit, [], alpha, **how)[0, 0]


def test_influence_of_ordinary_least_squares():
    """Almost no penalty: the textbook's internally studentised residuals and Cook's distances."""
    estimator = KernelRidgeCV("linear", alphas=[1e-10], cv=5).fit(X, Y[:, 0])
    Z = np.column_stack([X, np.ones(M)])
    hat = Z @ np.linalg.solve(Z.T @ Z, Z.T)
    e, h = Y[:, 0] - hat @ Y[:, 0], np.diag(hat)
    s2 = e @ e / (M - 4)
    studentised = e / np.sqrt(s2 * (1 - h))
    found = estimator.influence()
    close(found.residual, studentised, 1e-7)
    close(found.cook, studentised**2 * h / (1 - h) / 4, 1e-7)
