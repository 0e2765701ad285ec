"""Every path × kernel × split × weights × targets × bias × policy against real retraining.

Held-out predictions of ``reference.retrain``, which trains again for every experiment and penalty
and knows no hold-out identity, against those of the package. Kernels are well conditioned here;
``test_oracle.py`` has the others.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.gaussian_process.kernels import DotProduct, RationalQuadratic
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneGroupOut,
    LeaveOneOut,
    LeavePOut,
    RepeatedKFold,
    ShuffleSplit,
    StratifiedKFold,
    TimeSeriesSplit,
)

from holdfast import HoldOut, KernelRidgeClassifierCV, KernelRidgeCV
from holdfast.kernels import RBF, Linear, Polynomial
from recorded import Recorded, chosen_for
from reference import kernels
from reference.retrain import PATHS, policy_experiment, retrain
from tolerances import assert_close

pytestmark = [
    pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning"),
    pytest.mark.filterwarnings("ignore:The groups parameter is ignored"),  # one fit, many splits
]

SEED = 20
M, D = 36, 5
# Five penalties, more than the package solves one by one; three of them are retrained.
GRID = np.array([1e-3, 1e-2, 0.3, 5.0, 1e2])
ALPHAS = GRID[::2]
BASIS = np.array([20, 2, 31, 5, 14, 27, 11, 33, 8])
RNG = np.random.default_rng(SEED)
X = RNG.normal(size=(M, D))
Y = np.stack([np.sin(X[:, 0]) + 3.0, X[:, 1] * X[:, 2], 10.0 * X[:, 3] - 20.0], axis=1)
Y += 0.1 * RNG.normal(size=Y.shape)
GROUPS = np.repeat(np.arange(6), [1, 3, 5, 7, 9, 11])[RNG.permutation(M)]
WEIGHTS = {"none": None, "random": RNG.uniform(0.2, 3.0, M)}
WEIGHTS["zeros"] = WEIGHTS["random"].copy()
WEIGHTS["zeros"][[2, 14, 4, 17, 30]] = 0.0  # two basis rows and three others

# Policies: a dense model and a sparse one.
MODELS = {
    "dense-remove": (None, "remove"),
    "dense-keep": (None, "keep"),
    "remove": (BASIS, "remove"),
    "keep": (BASIS, "keep"),
    "train": (BASIS, "train"),
    "skip": (BASIS, "skip"),
}

SPLITS = {
    "leave_one_out": LeaveOneOut,
    "one_row_folds": lambda: KFold(M, shuffle=True, random_state=1),
    "five_folds": lambda: 5,
    "folds_larger_than_basis": lambda: KFold(3, shuffle=True, random_state=0),
    "groups": LeaveOneGroupOut,
    "group_folds": lambda: GroupKFold(3),
    "repeated": lambda: RepeatedKFold(n_splits=4, n_repeats=2, random_state=0),
    "shuffle_split": lambda: ShuffleSplit(4, test_size=0.2, train_size=0.5, random_state=0),
    "leave_pairs_out": lambda: list(LeavePOut(2).split(X))[::41],
    "time_series": lambda: TimeSeriesSplit(4),
    "test_within_held_out": lambda: [
        HoldOut([1, 2, 3, 4], [2]),
        HoldOut([3, 4, 5, 20, 21, 22, 23], [5, 4]),
        HoldOut([2, 30, 17], [30, 17]),
        HoldOut(np.arange(30), [0, 11, 17]),
        HoldOut([35]),
    ],
}


def experiments_of(split):
    """Return (held_out, test) pairs of a split: held out is all that does not train."""
    cv = SPLITS[split]()
    if cv is None:
        return [([i], [i]) for i in range(M)]
    if isinstance(cv, int):
        cv = KFold(cv)
    if isinstance(cv, list) and isinstance(cv[0], HoldOut):
        return [(experiment.held_out, experiment.test) for experiment in cv]
    pairs = cv if isinstance(cv, list) else cv.split(X, Y[:, 0], GROUPS)
    return [(np.setdiff1d(np.arange(M), train), test) for train, test in pairs]


def expected_predictions(K, experiments, *, basis, policy, weights, bias, jitter=1e-10, y=Y):
    """Return (alphas, test rows, targets) by retraining, the experiments laid end to end."""
    parts = []
    for held_out, test in experiments:
        H, T, removed = policy_experiment(held_out, test, basis, policy)
        if len(T):
            model = (basis, removed, weights, bias, 0.0 if basis is None else jitter)
            parts.append([retrain(K, y, H, T, alpha, *model) for alpha in ALPHAS])
    return np.concatenate(parts, axis=1)


def assert_predictions(got, expected, context):
    """Compare each penalty and target on its own: its largest prediction is the scale."""
    got = got[::2]
    assert got.shape == expected.shape, context
    for a, alpha in enumerate(ALPHAS):
        for target in range(got.shape[2]):
            where = f"{context} alpha={alpha} target={target} seed={SEED}"
            assert_close(got[a, :, target], expected[a, :, target], "retraining", where)


# -- split × weights × bias × policy × path × targets, one kernel ---------------------------------


@cache
def fitted(path, model, weights, bias, n_targets):
    """Return the package's model; its factors answer for every split."""
    basis, policy = MODELS[model]
    estimator = KernelRidgeCV(
        "rbf",
        gamma=0.2,
        alphas=GRID,
        basis=basis,
        cv=KFold(4, shuffle=True, random_state=3),
        held_out_basis=policy,
        fit_intercept=bias,
        path=path,
    )
    y = Y[:, 0] if n_targets == 1 else Y
    return estimator.fit(X, y, sample_weight=WEIGHTS[weights], groups=GROUPS)


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no_bias"])
def test_every_path_is_retraining(split, model, weights, bias):
    basis, policy = MODELS[model]
    expected = expected_predictions(
        kernels.gram("rbf", X, gamma=0.2),
        experiments_of(split),
        basis=basis,
        policy=policy,
        weights=WEIGHTS[weights],
        bias=bias,
    )
    cv = SPLITS[split]()
    for path in PATHS:
        for n_targets in (1, 3):
            got = fitted(path, model, weights, bias, n_targets).held_out(cv).values
            assert_predictions(got, expected[:, :, :n_targets], f"{path}, {n_targets} targets")


# -- kernel × model × bias × path, two splits -----------------------------------------------------


def words(n):
    rng = np.random.default_rng(SEED)
    return ["".join(rng.choice(list("abcde"), size=rng.integers(3, 9))) for _ in range(n)]


def shared_letters(A, B):
    """Return a kernel of two sets of words: the inner product of their letter counts, bounded."""
    count = [np.array([[w.count(c) for c in "abcde"] for w in rows], float) for rows in (A, B)]
    squared = ((count[0][:, None] - count[1][None]) ** 2).sum(axis=2)
    return np.exp(-0.1 * squared) + 0.05 * (np.asarray(A)[:, None] == np.asarray(B)[None])


def rational(A, B, power):
    """Return a kernel of two sets of vectors, as a user would write it."""
    return (1.0 + ((A[:, None] - B[None]) ** 2).sum(axis=2)) ** -power


POLY = {"degree": 2, "gamma": 0.5, "coef0": 1.0}
SPARSE_X = sp.csr_array(np.where(np.abs(X) > 0.4, X, 0.0))
SQUARE = kernels.gram("matern32", X, gamma=0.4)
LOW_RANK = BASIS[:4]  # as many basis rows as a kernel of rank five can take


def gram(name, rows=X, **params):
    return kernels.gram(name, rows, **params)


# name: (what the estimator takes, its rows, the kernel matrix, basis rows of the sparse model)
KERNELS = {
    "linear": ({"kernel": "linear"}, X, gram("linear"), LOW_RANK),
    "poly": ({"kernel": "poly", **POLY}, X, gram("poly", **POLY), BASIS),
    "rbf": ({"kernel": "rbf", "gamma": 0.3}, X, gram("rbf", gamma=0.3), BASIS),
    "rbf_per_feature": (
        {"kernel": RBF(np.linspace(0.1, 0.9, D))},
        X,
        gram("rbf", gamma=np.linspace(0.1, 0.9, D)),
        BASIS,
    ),
    "laplacian": ({"kernel": "laplacian", "gamma": 0.3}, X, gram("laplacian", gamma=0.3), BASIS),
    "matern12": ({"kernel": "matern12", "gamma": 0.3}, X, gram("matern12", gamma=0.3), BASIS),
    "matern32": ({"kernel": "matern32", "gamma": 0.3}, X, gram("matern32", gamma=0.3), BASIS),
    "matern52": ({"kernel": "matern52", "gamma": 0.3}, X, gram("matern52", gamma=0.3), BASIS),
    "cosine": ({"kernel": "cosine"}, X, gram("cosine"), LOW_RANK),
    "normalised": (
        {"kernel": Polynomial(**POLY).normalised()},
        X,
        kernels.gram(kernels.normalised, X, kernel=kernels.poly, **POLY),
        BASIS,
    ),
    "sum": (
        {"kernel": RBF(0.3) + 0.5 * Linear()},
        X,
        gram("rbf", gamma=0.3) + 0.5 * gram("linear"),
        BASIS,
    ),
    "product": (
        {"kernel": RBF(0.3) * Polynomial(**POLY)},
        X,
        gram("rbf", gamma=0.3) * gram("poly", **POLY),
        BASIS,
    ),
    "callable": (
        {"kernel": rational, "kernel_params": {"power": 1.5}},
        X,
        rational(X, X, 1.5),
        BASIS,
    ),
    "words": ({"kernel": shared_letters}, words(M), shared_letters(words(M), words(M)), BASIS),
    "precomputed": ({"kernel": "precomputed"}, SQUARE, SQUARE, BASIS),
    "precomputed_columns": ({"kernel": "precomputed"}, SQUARE[:, BASIS], SQUARE, BASIS),
    "gaussian_process": (
        {"kernel": RationalQuadratic(1.5, 0.8) + DotProduct(0.5)},
        X,
        (RationalQuadratic(1.5, 0.8) + DotProduct(0.5))(X),
        BASIS,
    ),
    "sparse_linear": ({"kernel": "linear"}, SPARSE_X, gram("linear", SPARSE_X.toarray()), LOW_RANK),
    "sparse_rbf": (
        {"kernel": "rbf", "gamma": 0.3},
        SPARSE_X,
        gram("rbf", SPARSE_X.toarray(), gamma=0.3),
        BASIS,
    ),
    "sparse_poly": (
        {"kernel": "poly", **POLY},
        SPARSE_X,
        gram("poly", SPARSE_X.toarray(), **POLY),
        BASIS,
    ),
}


# A dense model needs all columns of the kernel matrix.
KERNELS_AND_MODELS = [
    (kernel, model)
    for kernel in KERNELS
    for model in ("dense", "remove", "keep", "train")
    if (kernel, model) != ("precomputed_columns", "dense")
]


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no_bias"])
@pytest.mark.parametrize(("kernel", "model"), KERNELS_AND_MODELS)
def test_every_kernel_is_retraining(kernel, model, bias):
    params, rows, K, basis = KERNELS[kernel]
    basis, policy = (None, "remove") if model == "dense" else (basis, model)
    jitter = 0.0 if basis is None else 1e-10 * np.mean(np.diag(K)[basis])
    for split, weights in (("five_folds", "zeros"), ("test_within_held_out", "none")):
        expected = expected_predictions(
            K,
            experiments_of(split),
            basis=basis,
            policy=policy,
            weights=WEIGHTS[weights],
            bias=bias,
            jitter=jitter,
        )
        for path in PATHS:
            estimator = KernelRidgeCV(
                **params,
                alphas=GRID,
                basis=basis,
                cv=SPLITS[split](),
                held_out_basis=policy,
                fit_intercept=bias,
                path=path,
            ).fit(rows, Y, sample_weight=WEIGHTS[weights])
            np.testing.assert_allclose(estimator.jitter_, jitter, rtol=1e-12)
            got = estimator.held_out().values
            assert_predictions(got, expected, f"{path} {split} weights {weights}")


# -- larger held-out sets than fit into one system: conjugate gradients ---------------------------


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("policy", ["remove", "keep"])
def test_large_held_out_sets_are_retraining(policy, path):
    rng = np.random.default_rng(SEED)
    m, n, alphas = 300, 30, np.geomspace(1e-2, 1e3, 8)
    rows = rng.normal(size=(m, D))
    y = np.sin(rows[:, :2]) + 0.1 * rng.normal(size=(m, 2))
    weights, basis = rng.uniform(0.5, 2.0, m), rng.permutation(m)[:n]
    K = np.exp(-0.1 * ((rows[:, None] - rows[None]) ** 2).sum(axis=2))
    cv = KFold(5, shuffle=True, random_state=0)
    estimator = KernelRidgeCV(
        "rbf", gamma=0.1, alphas=alphas, basis=basis, cv=cv, held_out_basis=policy, path=path
    ).fit(rows, y, sample_weight=weights)
    for (train, test), got in zip(cv.split(rows), estimator.held_out().predictions, strict=True):
        H = np.setdiff1d(np.arange(m), train)
        H, T, removed = policy_experiment(H, test, basis, policy)
        for alpha, values in zip(alphas, got, strict=True):
            model = (basis, removed, weights, True, 1e-10)
            assert_close(values, retrain(K, y, H, T, alpha, *model), "retraining", (path, alpha))


# -- every basis chosen anew: retraining with the very rows that were chosen ----------------------


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no_bias"])
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("split", ["five_folds", "groups", "test_within_held_out"])
def test_reselect_is_retraining_with_the_rows_chosen(split, weights, bias):
    K = kernels.gram("rbf", X, gamma=0.2)
    w = WEIGHTS[weights]
    estimator = KernelRidgeCV(
        "rbf",
        gamma=0.2,
        alphas=GRID,
        basis=Recorded(4),
        cv=SPLITS[split](),
        held_out_basis="reselect",
        fit_intercept=bias,
        random_state=0,
    ).fit(X, Y, sample_weight=w, groups=GROUPS)
    chosen = chosen_for(estimator, cv=SPLITS[split](), groups=GROUPS)
    expected = []
    for (held_out, test), positions in zip(experiments_of(split), chosen, strict=True):
        train = np.setdiff1d(np.arange(M), held_out)
        train = train if w is None else train[w[train] > 0]
        basis = train[positions]
        assert len(np.unique(basis)) == 4
        expected.append(
            [retrain(K, Y, held_out, test, a, basis, (), w, bias, 1e-10) for a in ALPHAS]
        )
    assert_predictions(estimator.held_out().values, np.concatenate(expected, axis=1), "reselect")


# -- the fit itself -------------------------------------------------------------------------------


def naive_coefficients(K, y, alpha, basis, weights, bias, jitter):
    """Return (coefficients, intercept) from raw normal equations or the bordered system."""
    w = np.ones(len(K)) if weights is None else weights
    if basis is None:
        live = np.flatnonzero(w > 0)
        A = np.ones((len(live) + 1, len(live) + 1))
        A[:-1, :-1] = K[np.ix_(live, live)] + alpha * np.diag(1.0 / w[live])
        A[-1, -1] = 0.0
        rhs = np.vstack([y[live], np.zeros((1, y.shape[1]))])
        solution = np.linalg.solve(A, rhs) if bias else np.linalg.solve(A[:-1, :-1], rhs[:-1])
        coef = np.zeros((len(K), y.shape[1]))
        coef[live] = solution[: len(live)]
    else:
        Z = np.column_stack([K[:, basis], np.ones(len(K))])
        R = np.zeros((len(basis) + 1, len(basis) + 1))
        R[:-1, :-1] = alpha * (K[np.ix_(basis, basis)] + jitter * np.eye(len(basis)))
        A, rhs = Z.T @ (w[:, None] * Z) + R, Z.T @ (w[:, None] * y)
        solution = np.linalg.solve(A, rhs) if bias else np.linalg.solve(A[:-1, :-1], rhs[:-1])
        coef = solution[: len(basis)]
    return coef, solution[-1] if bias else np.zeros(y.shape[1])


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no_bias"])
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("basis", [None, BASIS], ids=["dense", "sparse"])
@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear"])
def test_the_fit_is_training_on_all_rows(kernel, basis, weights, bias, path):
    params, rows, K, _ = KERNELS[kernel]
    basis = LOW_RANK if basis is not None and kernel == "linear" else basis
    estimator = KernelRidgeCV(
        **params, alphas=GRID, basis=basis, cv=5, fit_intercept=bias, path=path
    ).fit(rows, Y, sample_weight=WEIGHTS[weights])
    new = np.random.default_rng(SEED + 1).normal(size=(7, D))
    joint = params["kernel"]
    extra = {key: value for key, value in params.items() if key != "kernel"}
    K_all = kernels.gram(joint, np.vstack([X, new]), **extra)
    w = np.concatenate([np.ones(M) if WEIGHTS[weights] is None else WEIGHTS[weights], np.zeros(7)])
    y = np.vstack([Y, np.zeros((7, 3))])
    everything = np.arange(M + 7)
    expected = retrain(
        K_all, y, [], everything, estimator.alpha_, basis, (), w, bias, estimator.jitter_
    )
    assert_close(estimator.predict(np.vstack([X, new])), expected, "retraining", path)
    coef, intercept = naive_coefficients(
        K, Y, estimator.alpha_, basis, WEIGHTS[weights], bias, estimator.jitter_
    )
    assert_close(estimator.dual_coef_, coef, "retraining", "dual_coef_")
    if bias:
        assert_close(estimator.intercept_, intercept, "retraining", "intercept_")
    else:
        assert not estimator.intercept_.any()
    np.testing.assert_array_equal(
        estimator.basis_indices_, np.arange(M) if basis is None else basis
    )


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf", "laplacian", "cosine"])
def test_the_dense_fit_without_bias_is_scikit_learn(kernel, weights):
    params, rows, _, _ = KERNELS[kernel]
    w = WEIGHTS[weights]
    ours = KernelRidgeCV(**params, alphas=[0.3], fit_intercept=False)
    ours.fit(rows, Y, sample_weight=w)
    theirs = KernelRidge(alpha=0.3, **params).fit(rows, Y, sample_weight=w)
    assert_close(ours.dual_coef_, theirs.dual_coef_, "retraining")
    new = np.random.default_rng(SEED + 2).normal(size=(6, D))
    assert_close(ours.predict(new), theirs.predict(new), "retraining")


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("model", ["dense-remove", "remove", "keep", "train"])
def test_holdout_predicts_by_the_model_that_never_saw_the_rows(model, path):
    basis, policy = MODELS[model]
    K = kernels.gram("rbf", X, gamma=0.2)
    rows = [33, 2, 7, 9, 16]
    for n_targets in (1, 3):
        estimator = fitted(path, model, "random", True, n_targets)
        for alpha in (None, 0.05):
            H, T, removed = policy_experiment(rows, rows, basis, policy)
            used = estimator.alpha_ if alpha is None else alpha
            model_ = (basis, removed, WEIGHTS["random"], True, estimator.jitter_)
            expected = retrain(K, Y[:, :n_targets], H, T, used, *model_)
            got = estimator.predict_without(rows, alpha=alpha)
            assert got.shape == ((len(T),) if n_targets == 1 else (len(T), 3))
            assert_close(got.reshape(len(T), -1), expected, "retraining", path)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("model", ["dense-remove", "remove", "keep", "train", "skip"])
def test_verify_retrains_and_agrees(model, path):
    certificate = fitted(path, model, "zeros", True, 3).verify(4)
    assert certificate.max_relative_error <= 1e-10
    assert certificate.experiments.size == 4


# -- many targets ---------------------------------------------------------------------------------


@pytest.mark.parametrize("basis", [None, BASIS], ids=["dense", "sparse"])
@pytest.mark.parametrize("split", ["leave_one_out", "five_folds", "groups", "time_series"])
def test_one_penalty_per_target_is_one_fit_per_target(split, basis):
    rng = np.random.default_rng(SEED + 3)
    y = np.stack([Y[:, 0], Y[:, 1], rng.normal(size=M), X[:, 0] ** 3], axis=1)
    alphas = np.geomspace(1e-3, 1e3, 13)
    params = {"gamma": 0.2, "alphas": alphas, "basis": basis, "cv": SPLITS[split]()}
    together = KernelRidgeCV(**params, alpha_per_target=True).fit(X, y, groups=GROUPS)
    assert together.alpha_.shape == together.best_score_.shape == (4,)
    assert len(set(together.alpha_)) > 1
    for j in range(4):
        alone = KernelRidgeCV(**params).fit(X, y[:, j], groups=GROUPS)
        assert together.alpha_[j] == alone.alpha_
        assert_close(together.best_score_[j], alone.best_score_, "retraining")
        assert_close(together.dual_coef_[:, j], alone.dual_coef_, "retraining")
        assert_close(together.intercept_[j], alone.intercept_, "retraining")
        held = [1, 5, 8]
        assert_close(
            together.predict_without(held)[:, j], alone.predict_without(held), "retraining"
        )


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("basis", [None, BASIS], ids=["dense", "sparse"])
def test_many_targets_are_one_at_a_time(basis, path):
    rng = np.random.default_rng(SEED + 4)
    y = X @ rng.normal(size=(D, 500)) + rng.normal(size=(M, 500))
    cv = KFold(4, shuffle=True, random_state=0)
    params = {"gamma": 0.2, "alphas": GRID, "basis": basis, "cv": cv, "path": path}
    together = KernelRidgeCV(**params).fit(X, y).held_out().values
    for j in range(0, 500, 50):
        alone = KernelRidgeCV(**params).fit(X, y[:, j]).held_out().values
        assert_close(together[:, :, [j]], alone, "retraining", path)


# -- classification: the same algebra on ±1 targets -----------------------------------------------


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("model", ["dense-remove", "remove"])
def test_classifier_decisions_are_retraining_on_plus_and_minus_one(model, n_classes, path):
    basis, policy = MODELS[model]
    labels = np.array(["no", "yes", "maybe"])[np.digitize(X[:, 0], [0.0, 0.8])]
    labels = labels if n_classes == 3 else np.where(labels == "no", "no", "yes")
    classes = np.unique(labels)
    targets = np.where(labels[:, None] == classes[None], 1.0, -1.0)
    targets = targets[:, 1:] if n_classes == 2 else targets
    cv = StratifiedKFold(4, shuffle=True, random_state=0)
    estimator = KernelRidgeClassifierCV(
        gamma=0.2, alphas=GRID, basis=basis, cv=cv, held_out_basis=policy, path=path
    ).fit(X, labels, sample_weight=WEIGHTS["zeros"])
    pairs = [(np.setdiff1d(np.arange(M), tr), te) for tr, te in cv.split(X, labels)]
    expected = expected_predictions(
        kernels.gram("rbf", X, gamma=0.2),
        pairs,
        basis=basis,
        policy=policy,
        weights=WEIGHTS["zeros"],
        bias=True,
        y=targets,
    )
    assert_predictions(estimator.held_out().values, expected, path)
