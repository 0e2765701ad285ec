"""The papers' experiments: baselines equal retraining, verdicts can fail, and some of them run."""

import json
from pathlib import Path

import numpy as np
import pytest

from holdfast import HoldOut, KernelRidgeCV
from holdfast.kernels import RBF, Linear
from reference.retrain import retrain
from reproduce import (
    EXPERIMENTS,
    _approaches,
    _baselines,
    _grouped,
    main,
    p000_variance,
)
from reproduce._parses import make_parses

PAGES = Path(__file__).parents[2] / "docs" / "reproduce"
SEED = 20240


@pytest.fixture
def problem():
    rng = np.random.default_rng(SEED)
    X = rng.uniform(-3, 3, size=(40, 2))
    y = np.sin(X).sum(axis=1) + 0.2 * rng.standard_normal(40)
    basis = rng.choice(40, size=9, replace=False)
    return X, y, basis


@pytest.fixture(scope="module")
def parses():
    data = make_parses(n_train=12, n_test=6, train_size=5, test_size=6, seed=SEED)
    return _grouped.GroupedTask(data.train(), data.test())


@pytest.fixture
def folder(tmp_path):
    """A folder with small files in the place of two of the papers' data sets."""
    rng = np.random.default_rng(SEED)
    for name, scale in (("ailerons", 300.0), ("motorcycle", 10.0)):
        X = scale * rng.uniform(0.0, 2.0, size=(200, 1))
        y = np.sin(X[:, 0] / scale) + 0.2 * rng.standard_normal(200)
        np.savez(tmp_path / f"{name}.npz", X=X, y=y, is_train=np.arange(200) < 150)
    return tmp_path


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    "method", ["cawley_talbot", "cawley_talbot_printed", "explicit", "explicit_orthogonal"]
)
def test_sparse_baselines_equal_retraining(problem, method, bias):
    X, y, basis = problem
    K, jitter, alpha = RBF(0.3)(X), 1e-6, 0.05
    twin = [
        retrain(K, y, [i], [i], alpha, basis=basis, bias=bias, jitter=jitter)[0, 0]
        for i in range(40)
    ]
    shifted = K[np.ix_(basis, basis)] + jitter * np.eye(basis.size)
    values = getattr(_baselines, method)(K[:, basis], shifted, y, alpha, bias=bias)
    np.testing.assert_allclose(values, twin, rtol=1e-8, atol=1e-10)
    model = KernelRidgeCV(
        gamma=0.3,
        basis=basis,
        alphas=[alpha],
        held_out_basis="keep",
        jitter=jitter,
        fit_intercept=bias,
    ).fit(X, y)
    np.testing.assert_allclose(values, model.held_out().matrix()[0, :, 0], rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("n_folds", [5, 40])
@pytest.mark.parametrize("method", ["naive_dense", "an_et_al", "eigendecomposition"])
def test_dense_baselines_equal_retraining(problem, method, n_folds):
    X, y, _ = problem
    K, alphas = RBF(0.3)(X), [0.05, 2.0]
    rng = np.random.default_rng(SEED)
    folds = np.array_split(rng.permutation(40), n_folds)
    values = getattr(_baselines, method)(K, y, folds, alphas)
    for a, alpha in enumerate(alphas):
        for fold in folds:
            twin = retrain(K, y, fold, fold, alpha, bias=False)[:, 0]
            np.testing.assert_allclose(values[a, fold], twin, rtol=1e-8, atol=1e-10)
    model = KernelRidgeCV(
        kernel="precomputed", alphas=alphas, cv=[HoldOut(f) for f in folds], fit_intercept=False
    )
    with _approaches.expected_warnings():  # two penalties: one of them is at the end of the grid
        model.fit(K, y)
    np.testing.assert_allclose(values, model.held_out().matrix()[:, :, 0], rtol=1e-8, atol=1e-10)


def test_curves_of_grouped_data_equal_retraining(parses):
    data, kernel, alpha = parses.train, Linear(), 4.0
    basis = _grouped.one_basis_row_per_group(data, np.random.default_rng(SEED))
    assert np.unique(data.groups[basis]).size == 12
    curves = _grouped.curves_of(parses, kernel, basis, np.array([alpha]))
    K = kernel(data.X)

    def error(policy):
        squares = []
        for group in np.unique(data.groups):
            rows = np.flatnonzero(data.groups == group)
            inside, rest = np.intersect1d(rows, basis), np.setdiff1d(rows, basis)
            held = rest if policy in ("train", "not counted") else rows
            test = rest if policy == "not counted" else rows
            removed = inside if policy == "remove" else ()
            if not test.size:
                continue
            options = {"basis": basis, "removed": removed, "bias": False, "jitter": 1e-7}
            twin = retrain(K, data.y, held, test, alpha, **options)[:, 0]
            squares.append((twin - data.y[test]) ** 2)
        return np.concatenate(squares).mean()

    policies = dict(zip(_grouped.CURVES, ("remove", "train", "keep"), strict=False))
    for name, policy in {**policies, _grouped.WITHOUT: "not counted"}.items():
        assert curves[name][0] == pytest.approx(error(policy), rel=1e-7)
    K_BB = K[np.ix_(basis, basis)] + 1e-7 * np.eye(basis.size)
    a = np.linalg.solve(K[:, basis].T @ K[:, basis] + alpha * K_BB, K[:, basis].T @ data.y)
    predicted = kernel(parses.test.X, data.X[basis]) @ a
    expected = np.mean((predicted - parses.test.y) ** 2)
    assert curves[_grouped.CURVES[3]][0] == pytest.approx(expected, rel=1e-7)


def test_coefficients_without_a_group_equal_retraining(parses):
    data, alpha = parses.train, 0.5
    basis = _grouped.one_basis_row_per_group(data, np.random.default_rng(SEED))
    K = Linear()(data.X, data.X[basis])
    inside, outside, product = [], [], []
    for group in np.unique(data.groups):
        kept = data.groups != group
        A = K[kept].T @ K[kept] + alpha * (K[basis] + 1e-7 * np.eye(basis.size))
        a = np.abs(np.linalg.solve(A, K[kept].T @ data.y[kept]))
        own = data.groups[basis] == group
        inside += list(a[own])
        outside += list(a[~own])
        product += list((np.abs(K[~kept]) * a)[:, own].ravel())
    found = _grouped.coefficients(data, Linear(), basis, alpha)
    assert found["a_inside"] == pytest.approx(np.mean(inside), rel=1e-6)
    assert found["a_outside"] == pytest.approx(np.mean(outside), rel=1e-6)
    assert found["ak_inside"] == pytest.approx(np.mean(product), rel=1e-6)


def test_same_mean_fails_on_a_shift():
    rng = np.random.default_rng(SEED)
    for noise, shift, holds in ((0.01, 0.0, True), (0.01, 0.1, False), (1.0, 0.0, None)):
        errors = 1.0 + noise * rng.standard_normal((50, 3, 4))
        errors[:, 1, 2] += shift
        mean, variance = _approaches.moments(errors)
        assert p000_variance.same_mean(mean, variance, len(errors)).holds is holds


@pytest.mark.filterwarnings("ignore")  # two repetitions decide little
@pytest.mark.parametrize("id", ["p000-fig5", "p000-fig9", "p002-lemma1"])
def test_an_experiment_runs_and_writes_its_page(id, folder, capsys):
    out = folder / "out"
    assert main([id, "--quick", "--data", str(folder), "--out", str(out)]) == 0
    assert EXPERIMENTS[id].title in capsys.readouterr().out
    entry = json.loads((out / f"{id}.json").read_text("utf-8"))
    page = (out / f"{id}.md").read_text("utf-8")
    assert entry["claims"]
    assert all(claim["evidence"] in page for claim in entry["claims"])
    assert (out / f"{id}.svg").stat().st_size > 1000
