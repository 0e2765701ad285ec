"""The tuned criterion and its gradient, against real retraining and high-precision differences."""

from __future__ import annotations

import itertools
import tracemalloc
import zlib

import mpmath
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.model_selection import LeaveOneGroupOut

from holdfast import HoldOut, KernelRidgeClassifierCV, KernelRidgeCV
from holdfast.exceptions import InvalidInputError, NotSupportedError
from holdfast.holdout import PATHS
from holdfast.kernels import RBF, Laplacian, Linear, Matern, Polynomial
from holdfast.tuning.criterion import Criterion
from reference.answers import law_criterion
from reference.oracle import _dense_system, _solve, _sparse_system

# Leave-one-out of rows that have groups is meant here.
pytestmark = pytest.mark.filterwarnings("ignore:groups were given without cv")

SEED = 20240517
KERNELS = [RBF(0.3), Matern(0.5, 0.3), Matern(1.5, 0.3), Matern(2.5, 0.3)]
NAMES = ["rbf", "matern12", "matern32", "matern52"]


def data(m, d=3, seed=SEED):
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, d)) + 3.0
    Y = np.c_[np.sin(X[:, 0]), X[:, 1] ** 2] + 0.1 * rng.normal(size=(m, 2))
    weights = rng.uniform(0.5, 2.0, size=m)
    weights[[1, 4]] = 0.0
    return X, Y, weights, rng.integers(0, m // 4, size=m), rng


def splits(kind, m, rng):
    if kind == "overlapping":  # held-out sets overlap, and only a part of each is tested
        held = [rng.permutation(m)[:7] for _ in range(6)]
        return [HoldOut(rows, rows[[5, 1, 3]]) for rows in held]
    return {"loo": None, "folds": 4, "groups": LeaveOneGroupOut()}[kind]


def stencil(f, x, i, h=2e-3):
    """Sixth-order central difference."""
    step = np.zeros(x.size)
    step[i] = h
    difference = [f(x + k * step) - f(x - k * step) for k in (1, 2, 3)]
    return float(np.dot([45.0, -9.0, 1.0], difference) / (60.0 * h))


def value_of(criterion):
    return lambda at: criterion.evaluate(at, gradient=False).value


MODELS = [(None, "remove"), (8, "remove"), (8, "keep")]
LAWS = ["log_density"]
HOLDOUTS = ["loo", "folds", "groups", "overlapping"]


@pytest.mark.parametrize(
    ("kernel", "scoring"),
    [*((kernel, None) for kernel in KERNELS), *((KERNELS[0], scoring) for scoring in LAWS)],
    ids=[*NAMES, *LAWS],
)
@pytest.mark.parametrize("kind", HOLDOUTS)
@pytest.mark.parametrize(("basis", "policy"), MODELS, ids=["dense", "remove", "keep"])
def test_gradient_against_differences_and_value_against_fit(kernel, scoring, kind, basis, policy):
    m = 36
    X, Y, weights, groups, rng = data(m)
    cv = splits(kind, m, rng)
    # Any three of these four in every combination, each in several of the tests.
    cases = [c for c in itertools.product([0, 1], repeat=4) if sum(c) % 2 == 0]
    which = zlib.crc32(f"{kernel}{scoring}{kind}{basis}{policy}".encode()) % len(cases)
    bias, weighted, two, ard = map(bool, cases[which])
    model = KernelRidgeCV(
        kernel,
        basis=basis,
        cv=cv,
        held_out_basis=policy,
        fit_intercept=bias,
        alphas=[0.2],
        random_state=0,
        scoring=scoring,
    )
    y, w = (Y if two else Y[:, 0]), (weights if weighted else None)
    criterion = Criterion.of(model, X, y, sample_weight=w, groups=groups, ard=ard)
    x = np.log(np.append(0.2, [0.4, 0.25, 0.33] if ard else 0.3))
    found = criterion.evaluate(x)
    model.set_params(kernel=criterion.coordinates.kernel_at(x))
    model.fit(X, y, sample_weight=w, groups=groups)
    assert found.value == pytest.approx(-model.best_score_, rel=1e-12)
    assert found.losses.sum() == pytest.approx(found.value, rel=1e-14)
    assert value_of(criterion)(x) == found.value
    numeric = np.array([stencil(value_of(criterion), x, i) for i in range(x.size)])
    assert np.abs(found.gradient - numeric).max() < 1e-8 * np.abs(numeric).max()


def exact_kernel(nu, q):
    if nu is None:
        return mpmath.exp(-q)
    t = mpmath.sqrt(4 * mpmath.mpf(nu) * q)
    factor = {0.5: 1, 1.5: 1 + t, 2.5: 1 + t + t * t / 3}[nu]
    return factor * mpmath.exp(-t)


def exact_criterion(nu, point, X, Y, w, tasks, basis, policy, bias, jitter):
    """The definition in the arithmetic of mpmath: retrain every experiment, average the losses."""
    alpha, *gammas = (mpmath.exp(value) for value in point)
    if len(gammas) == 1:
        gammas = gammas * X.shape[1]
    rows = [[mpmath.mpf(float(value)) for value in row] for row in X]

    def k(i, j):
        pairs = zip(gammas, rows[i], rows[j], strict=True)
        return exact_kernel(nu, mpmath.fsum(g * (a - b) ** 2 for g, a, b in pairs))

    total, weight = mpmath.mpf(0), mpmath.mpf(0)
    for held, test in tasks:
        train = [i for i in range(len(X)) if i not in set(held) and w[i] > 0]
        w_T = [mpmath.mpf(float(w[i])) for i in train]
        targets = [[mpmath.mpf(float(Y[i, t])) for i in train] for t in range(Y.shape[1])]
        if basis is None:
            columns = train
            K = [[k(i, j) for j in train] for i in train]
            system = _dense_system(K, targets, w_T, alpha, bias)
        else:
            columns = [j for j in basis if policy == "keep" or j not in set(held)]
            K_LL = [
                [k(i, j) + (mpmath.mpf(jitter) if i == j else 0) for j in columns] for i in columns
            ]
            K_TL = [[k(i, j) for j in columns] for i in train]
            system = _sparse_system(K_TL, K_LL, targets, w_T, alpha, bias)
        coefficients = _solve(*system)
        for i in test:
            z = [k(i, j) for j in columns] + [mpmath.mpf(1)] * bias
            for t, a in enumerate(coefficients):
                residual = mpmath.mpf(float(Y[i, t])) - mpmath.fdot(z, a)
                total += mpmath.mpf(float(w[i])) * residual**2
            weight += mpmath.mpf(float(w[i])) * len(coefficients)
    return total / weight


EXACT = [
    # kernel, kind, basis, policy, bias, weighted, targets, ard
    (KERNELS[0], "loo", None, "remove", True, True, 1, True),
    (KERNELS[3], "groups", None, "remove", False, False, 2, False),
    (KERNELS[1], "folds", None, "remove", True, False, 1, True),
    (KERNELS[0], "loo", 5, "remove", True, True, 1, True),
    (KERNELS[2], "loo", 5, "keep", False, False, 2, False),
    (KERNELS[0], "folds", 3, "remove", True, False, 2, True),
    (KERNELS[3], "groups", 5, "remove", True, True, 1, True),
    (KERNELS[1], "groups", 5, "keep", True, False, 1, False),
]


@pytest.mark.parametrize(
    ("kernel", "kind", "basis", "policy", "bias", "weighted", "v", "ard"), EXACT
)
def test_gradient_against_high_precision(kernel, kind, basis, policy, bias, weighted, v, ard):
    m = 10
    X, Y, weights, _, rng = data(m, d=2, seed=3)
    groups = np.arange(m) // 2
    y, w = Y[:, :v], weights if weighted else np.ones(m)
    chosen = None if basis is None else rng.permutation(m)[:basis]
    if basis == 3:  # fewer basis rows than held-out rows: the p × p form
        chosen = np.array([0, 4, 9])
    large = [(np.arange(6, 10), np.arange(6)), (np.arange(4), np.arange(4, 10))]
    cv = {"loo": None, "groups": LeaveOneGroupOut(), "folds": large}[kind]
    jitter = 1e-4
    model = KernelRidgeCV(
        kernel,
        basis=chosen,
        cv=cv,
        held_out_basis=policy,
        fit_intercept=bias,
        jitter=jitter,
    )
    criterion = Criterion.of(model, X, y, sample_weight=w, groups=groups, ard=ard)
    point = np.log(np.append(0.3, [0.5, 0.2] if ard else 0.3))
    found = criterion.evaluate(point)
    fitted = model.set_params(alphas=[0.3]).fit(X, y, sample_weight=w, groups=groups)
    tasks = [(e.held_out.tolist(), e.test.tolist()) for e in fitted.held_out().experiments]
    nu = getattr(kernel, "nu", None)
    with mpmath.workdps(40):
        exact_point = [mpmath.mpf(float(value)) for value in point]

        def f(i, h):
            at = [value + (h if j == i else 0) for j, value in enumerate(exact_point)]
            return exact_criterion(nu, at, X, y, w, tasks, chosen, policy, bias, jitter)

        h = mpmath.mpf(10) ** -14
        value = float(f(0, 0))
        exact = np.array([float((f(i, h) - f(i, -h)) / (2 * h)) for i in range(point.size)])
    assert found.value == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(found.gradient, exact, rtol=0, atol=1e-10 * np.abs(exact).max())


@pytest.mark.parametrize("scoring", LAWS)
@pytest.mark.parametrize(("n", "policy"), MODELS, ids=["dense", "remove", "keep"])
@pytest.mark.parametrize("kind", ["loo", "groups", "overlapping"])
def test_criteria_of_distributions_against_retraining(kind, n, policy, scoring):
    """Value and gradient, from models that are trained without each held-out set."""
    m, jitter = 14, 1e-4
    X, Y, _, _, rng = data(m, d=2, seed=3)
    w, groups = rng.uniform(0.5, 2.0, size=m), np.arange(m) // 2
    basis = None if n is None else rng.permutation(m)[:n]
    options = {"basis": basis, "cv": splits(kind, m, rng), "held_out_basis": policy}
    model = KernelRidgeCV(RBF(0.3), jitter=jitter, scoring=scoring, alphas=[0.3], **options)
    criterion = Criterion.of(model, X, Y, sample_weight=w, groups=groups)
    fitted = model.fit(X, Y, sample_weight=w, groups=groups)
    tasks = [(e.held_out, e.test) for e in fitted.held_out().experiments]

    def naive(point):
        alpha, gamma = np.exp(point)
        shift = 0.0 if basis is None else jitter
        how = {"basis": basis, "weights": w, "jitter": shift, "policy": policy}
        return law_criterion(RBF(gamma)(X), Y, tasks, alpha, scoring, **how)

    point = np.log([0.3, 0.3])
    found = criterion.evaluate(point)
    assert found.value == pytest.approx(naive(point), rel=1e-10)
    numeric = [stencil(naive, point, i) for i in range(2)]
    np.testing.assert_allclose(found.gradient, numeric, rtol=1e-7)


def test_ill_conditioned_basis_keeps_digits():
    # cond(K_BB) is beyond 1e10: the shift of 1e-10 is all that holds it.
    X, Y, _, _, rng = data(60, d=2)
    basis = rng.permutation(60)[:20]
    criterion = Criterion.of(KernelRidgeCV(RBF(0.02), basis=basis, cv=5), X, Y, ard=True)
    x = np.log([1e-3, 0.02, 0.03])
    numeric = [stencil(value_of(criterion), x, i, 5e-2) for i in range(3)]
    gradient = criterion.evaluate(x).gradient
    np.testing.assert_allclose(gradient, numeric, rtol=0, atol=2e-5 * np.abs(numeric).max())


@pytest.mark.parametrize("basis", [None, 10])
@pytest.mark.parametrize("ard", [False, True])
def test_sparse_rows_agree_with_dense_rows(basis, ard):
    X, Y, weights, groups, _ = data(40)
    X[np.random.default_rng(0).random(X.shape) < 0.5] = 0.0
    model = KernelRidgeCV(RBF(0.1), basis=basis, cv=LeaveOneGroupOut(), random_state=0)
    x = np.log(np.append(0.1, [0.1, 0.2, 0.3] if ard else 0.1))
    twins = [
        Criterion.of(model, rows, Y, sample_weight=weights, groups=groups, ard=ard).evaluate(x)
        for rows in (X, sp.csr_matrix(X))
    ]
    assert twins[0].value == pytest.approx(twins[1].value, rel=1e-11)
    np.testing.assert_allclose(twins[0].gradient, twins[1].gradient, rtol=1e-9, atol=1e-12)


def test_coincident_rows_have_a_gradient():
    X, Y, _, _, _ = data(30)
    X[10:20] = X[:10]
    for kernel in KERNELS:
        criterion = Criterion.of(KernelRidgeCV(kernel, cv=5), X, Y, ard=True)
        x = np.log([0.1, 0.3, 0.3, 0.3])
        numeric = [stencil(value_of(criterion), x, i) for i in range(4)]
        gradient = criterion.evaluate(x).gradient
        np.testing.assert_allclose(gradient, numeric, rtol=0, atol=1e-8 * np.abs(numeric).max())


def test_skipped_basis_rows_and_a_classifier():
    X, Y, _, groups, _ = data(40)
    labels = np.where(Y[:, 0] > 0, "yes", "no")
    x = np.log([0.1, 0.3])
    model = KernelRidgeCV(RBF(0.3), basis=9, cv=LeaveOneGroupOut(), held_out_basis="skip")
    model.set_params(random_state=0, alphas=[0.1])
    criterion = Criterion.of(model, X, Y, groups=groups)
    model.fit(X, Y, groups=groups)
    assert criterion.evaluate(x).value == pytest.approx(-model.best_score_, rel=1e-12)
    classifier = KernelRidgeClassifierCV(RBF(0.3), cv=4, alphas=[0.1])
    found = Criterion.of(classifier, X, labels).evaluate(x)
    codes = np.where(labels == "yes", 1.0, -1.0)
    decisions = classifier.fit(X, labels).held_out().matrix()[0, :, 0]
    assert found.value == pytest.approx(np.mean((codes - decisions) ** 2), rel=1e-12)


MIXED = {
    "sum": RBF(0.3) + Matern(1.5, 0.1),
    "weighted sum": 0.5 * RBF(0.3) + 2.0 * Linear(),
    "product": RBF(0.3) * Matern(2.5, 0.1),
    "nested": RBF(0.2) * (0.1 * Linear() + 1.0) + 0.5 * Matern(0.5, 0.4),
    "multiple": 3.0 * RBF(0.3),
}
SEARCHED = {
    "sum": ("k1__gamma", "k2__gamma"),
    "weighted sum": ("k1__kernel__gamma", "k2__factor"),
    "product": ("k1__gamma", "k2__gamma"),
    "nested": (
        "k1__k1__gamma", "k1__k2__k1__factor", "k1__k2__k2__value", "k2__factor",
        "k2__kernel__gamma",
    ),
    "multiple": ("kernel__gamma",),
}  # fmt: skip


def by_hand(model, X, Y, weights):
    """Return the mean squared error of folds that are trained from the kernel matrix, by hand."""
    K, total = model.kernel_(X), 0.0
    for fold in model.held_out().experiments:
        train = np.setdiff1d(np.flatnonzero(weights > 0), fold.held_out)
        system = np.ones((train.size + 1, train.size + 1))
        system[:-1, :-1] = K[np.ix_(train, train)] + np.diag(model.alpha_ / weights[train])
        system[-1, -1] = 0.0
        c = np.linalg.solve(system, np.r_[Y[train], np.zeros((1, 2))])
        r = Y[fold.test] - K[np.ix_(fold.test, train)] @ c[:-1] - c[-1]
        total += (weights[fold.test, None] * r**2).sum()
    return total / (2 * weights.sum())


@pytest.mark.parametrize("name", list(MIXED))
@pytest.mark.parametrize("scoring", [None, "log_density"])
@pytest.mark.parametrize("basis", [None, 8], ids=["dense", "remove"])
@pytest.mark.parametrize("ard", [False, True], ids=["one", "ard"])
def test_sums_products_and_multiples_have_gradients(name, scoring, basis, ard):
    X, Y, weights, _, _ = data(36)
    kernel = MIXED[name]
    model = KernelRidgeCV(kernel, basis=basis, cv=4, alphas=[0.2], random_state=0, scoring=scoring)
    criterion = Criterion.of(model, X, Y, sample_weight=weights, ard=ard)
    names = criterion.coordinates.names
    if name == "nested":  # both parts of the sum have a factor: that of the first stays
        assert names == tuple(n for n in SEARCHED[name] if n != "k1__k2__k1__factor")
    else:
        assert names == SEARCHED[name]
    widths = iter([0.4, 0.25, 0.33] * 2)
    start = [
        next(widths) if wide else kernel.parameters[label]
        for label, wide in zip(
            criterion.coordinates.labels, criterion.coordinates.widths, strict=True
        )
    ]
    x = np.log([0.2, *start])
    found = criterion.evaluate(x)
    model.set_params(kernel=criterion.coordinates.kernel_at(x)).fit(X, Y, sample_weight=weights)
    assert found.value == pytest.approx(-model.best_score_, rel=1e-10)
    if basis is None and scoring is None:
        assert found.value == pytest.approx(by_hand(model, X, Y, weights), rel=1e-10)
    numeric = np.array([stencil(value_of(criterion), x, i) for i in range(x.size)])
    assert np.abs(found.gradient - numeric).max() < 1e-7 * np.abs(numeric).max()


def test_kernels_without_gradient_have_a_value():
    X, Y, _, _, _ = data(30)
    for kernel in (Laplacian(0.3), Polynomial(2, 0.3, 1.0)):
        for basis in (None, 7):
            model = KernelRidgeCV(kernel, basis=basis, cv=5, alphas=[0.1], random_state=0)
            criterion = Criterion.of(model, X, Y)
            value = criterion.evaluate(np.log([0.1, 0.3]), gradient=False).value
            assert value == pytest.approx(-model.fit(X, Y).best_score_, rel=1e-8)


def test_no_square_matrix_of_all_rows():
    m = 3000
    X, Y, _, _, _ = data(m)
    groups = np.arange(m) // 5
    for cv in (None, 10, LeaveOneGroupOut()):
        model = KernelRidgeCV(RBF(0.3), basis=12, cv=cv, random_state=0)
        criterion = Criterion.of(model, X, Y, groups=groups, ard=True)
        tracemalloc.start()
        criterion.evaluate(np.log([0.1, 0.3, 0.3, 0.3]))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < m * m * 8 / 4


def test_inputs_stay_as_they_are():
    X, Y, weights, groups, _ = data(30)
    copies = X.copy(), Y.copy(), weights.copy(), groups.copy()
    model = KernelRidgeCV(RBF(0.3), cv=3)
    before = model.get_params()
    criterion = Criterion.of(model, X, Y, sample_weight=weights, groups=groups)
    first = criterion.evaluate(np.log([0.1, 0.3]))
    again = criterion.evaluate(np.log([0.1, 0.3]))
    assert first.value == again.value
    np.testing.assert_array_equal(first.gradient, again.gradient)
    for now, then in zip((X, Y, weights, groups), copies, strict=True):
        np.testing.assert_array_equal(now, then)
    assert model.get_params() == before


@pytest.mark.parametrize(
    ("params", "error", "words"),
    [
        ({"kernel": "linear"}, NotSupportedError, "no gamma"),
        ({"kernel": "precomputed"}, NotSupportedError, "no gamma"),
        ({"kernel": 2.0 * Linear() * 3.0}, NotSupportedError, "no gamma"),
        ({"scoring": "r2"}, NotSupportedError, "scoring='r2'"),
        ({"alpha_per_target": True}, NotSupportedError, "alpha_per_target"),
        ({"basis": 5, "held_out_basis": "reselect"}, NotSupportedError, "remove"),
        ({"basis": 5, "held_out_basis": "train"}, NotSupportedError, "remove"),
        ({"cv": LeaveOneGroupOut()}, InvalidInputError, "groups"),
        ({"memory_limit": 1e4}, InvalidInputError, "basis=1000"),
        ({"gamma": [0.1, 0.2]}, InvalidInputError, "one kernel"),
    ],
)
def test_refusals(params, error, words):
    X, Y, _, _, _ = data(20)
    with pytest.raises(error, match=words):
        Criterion.of(KernelRidgeCV(**params), X, Y)


def test_other_refusals():
    X, Y, _, _, _ = data(20)
    with pytest.raises(InvalidInputError, match="KernelRidgeCV"):
        Criterion.of("rbf", X, Y)


@pytest.mark.filterwarnings("ignore::holdfast.exceptions.PrecisionWarning")  # as it must be
@pytest.mark.parametrize("scoring", [None, *LAWS])
@pytest.mark.parametrize(("basis", "policy"), [(None, "remove"), (25, "keep"), (25, "remove")])
@pytest.mark.parametrize("cv", [None, 5])
def test_criterion_lies_within_the_spread_of_the_paths(basis, policy, cv, scoring):
    """Also where the kernel of the basis rows is nearly singular: what is lost is lost nowhere."""
    points = [(1e-8, 0.02), (1e-5, 0.3)]
    for seed, (alpha, gamma) in enumerate(points):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(50, 2))
        y = np.sin(X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.normal(size=50)
        rows = None if basis is None else rng.permutation(50)[:basis]
        point = np.log([alpha, gamma])
        a, g = np.exp(point)
        model = KernelRidgeCV(RBF(g), alphas=[a], basis=rows, held_out_basis=policy, cv=cv)
        model.set_params(scoring=scoring)
        value = Criterion.of(model, X, y).evaluate(point, False).value
        scores = np.array([-model.set_params(path=p).fit(X, y).best_score_ for p in PATHS])
        if scoring is not None and basis is None:  # all paths share their covariances: one more way
            tasks = [(e.held_out, e.test) for e in model.held_out().experiments]
            scores = np.append(scores, law_criterion(RBF(g)(X), y, tasks, a, scoring))
        # With basis rows there is no other way: rounding of the covariances shows in no spread.
        floor = 1e-13 if scoring is None or basis is None else 1e-12
        limit = 4 * max(np.ptp(scores), floor * abs(value))
        if scoring is None:  # paths that train again agree to the last bit: what rounding moves
            moved = y.std() * float(model.cv_results_["rounding"][0])
            limit = max(limit, 2 * np.sqrt(value) * moved)
        assert np.abs(value - scores).max() < limit, f"seed {seed}, {alpha}, {gamma}"
