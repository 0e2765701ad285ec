"""Every family of hard problems, every path: the promise is kept, or QR does no better.

`make torture` draws as many as you like; here each family has a few, and the worst that were ever
found keep their seeds.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import sklearn
from sklearn.linear_model import Ridge

from holdfast import HoldOut, KernelRidgeCV
from torture.families import FAMILIES, problem
from torture.measure import PROMISE, TIMES, answered, fitted, measure
from torture.rivals import grid_search, ridge_cv
from torture.truth import truth
from torture.ways import WAYS

#: Seeds of problems that once were past the promise.
# fmt: off
FOUND = {
    "units": [0],
    "rare_columns": [
        1, 2, 14, 24, 20094, 60014, 61253, 61285, 61764, 70239, 62810, 63278, 62697,
        63068, 300820,
    ],
    "smooth_kernel": [2, 500827],
    "cubic_with_outlier": [0, 14, 60340, 62205, 502487, 503595],
    "time_stamps": [1],
    "correlated_units": [3],
    "sparse_wild_weights": [4, 1005, 60069, 60164, 201015, 400037],
    "target_sizes": [0],
    "wild_weights": [3, 88, 61653],
    "leverage": [14, 42, 43],
    "dense_outlier": [47, 66, 20, 52, 64, 80, 1001, 1183, 1376, 1547, 1570],
    "dense_kernel": [40, 1240, 1296, 1315, 1761, 2075],
    "dense_duplicates": [15, 24, 60054, 60075],
    "dense_wild_weights": [3, 6, 300020, 400305, 400500],
    "duplicate_basis": [60428, 502844],
    "more_columns_than_rows": [60982, 61245, 61491, 62424, 63549],
    "sparse_folds": [502215],
}
#: The same by other ways.
FOUND_ELSEWHERE = {
    "streamed": [("offsets", 0), ("offsets", 3), ("cubic_with_outlier", 62205)],
    "cluster": [
        ("offsets", 3), ("time_stamps", 303), ("cubic_with_outlier", 21), ("leverage", 47),
        ("rare_columns", 24), ("sparse_wild_weights", 21), ("sparse_wild_weights", 46),
        ("wild_weights", 0), ("wild_weights", 21), ("cubic_with_outlier", 62205),
    ],
    "neighbourhoods": [("rare_columns", 1010), ("wild_weights", 1006)],
}
# fmt: on
HARD = [*((name, 100) for name in FAMILIES), *((f, s) for f, seeds in FOUND.items() for s in seeds)]
ELSEWHERE = [(*which, way) for way, some in FOUND_ELSEWHERE.items() for which in some]

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@pytest.mark.parametrize(("family", "seed"), HARD)
def test_every_path_keeps_the_promise(family, seed):
    found = measure(problem(family, seed))
    misses = {path: found.miss(path) for path in found.errors}
    assert max(misses.values()) <= PROMISE, misses


@pytest.mark.parametrize(("family", "seed", "way"), ELSEWHERE)
def test_every_other_way_keeps_the_promise(family, seed, way):
    if way == "cluster":
        pytest.importorskip("dask.array")
    found = WAYS[way](problem(family, seed))
    assert found.miss(way) <= PROMISE


@pytest.mark.parametrize("path", ["spectral", "per_fold", "cholesky"])
@pytest.mark.parametrize("seed", [60428, 60005])
def test_nearly_equal_basis_rows_that_leave_together(seed, path):
    """Without a jitter the rows that are removed nearly depend on each other."""
    drawn = problem("duplicate_basis", seed)
    sets = [np.array([0, 14])]
    drawn = replace(drawn, policy="remove", sets=sets, basis=np.delete(drawn.basis, [5]))
    model = fitted(drawn, path, jitter=0.0)
    judge = truth(drawn, model)
    allowed = PROMISE + TIMES * judge.qr_error(28)
    for values, rounding in answered(model, drawn.alphas):
        assert (judge.error(values) <= allowed)[rounding <= PROMISE].all()


def test_wild_weights_cost_a_dense_model_nothing():
    """Once wrong by a tenth at tiny penalties."""
    for seed in range(20):
        drawn = problem("sparse_wild_weights", seed)
        dense = replace(drawn, basis=None, policy="remove", bias=False)
        found = measure(dense, ("spectral", "cholesky"))
        assert max(found.miss(path) for path in found.errors) <= PROMISE, seed


@pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")
@pytest.mark.parametrize("seed", [0, 1])
def test_light_rows_of_a_dense_model(seed):
    """Eigenvectors mix all rows: light ones were once wrong, in silence."""
    rng = np.random.default_rng(seed)
    m, alphas = 400, np.array([1e3, 1e6])
    X, weights = rng.normal(size=(m, 6)), 10.0 ** rng.uniform(-6, 6, m)
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=m)
    sets = [HoldOut([i]) for i in np.argsort(weights)[:: m // 20]]
    twin, *others = (
        KernelRidgeCV(kernel="rbf", gamma=0.2, alphas=alphas, cv=sets, path=path)
        .fit(X, y, sample_weight=weights)
        .held_out()
        .values
        for path in ("refit", "spectral", "cholesky", "per_fold")
    )
    size = np.maximum(y.std(), np.abs(twin - y.mean()))
    for values in others:
        assert (np.abs(values - twin) / size).max() < 1e-9


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_cluster_and_reselected_rows(family, way):
    if way == "cluster":
        pytest.importorskip("dask.array")
    found = WAYS[way](problem(family, 0))
    if found is None:
        pytest.skip(f"{way} has no such model")
    assert found.miss(way) <= PROMISE


@pytest.mark.skipif(
    tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 9),
    reason="earlier versions of scikit-learn take other ways",
)
def test_what_the_page_says_of_scikit_learn():
    """Columns in units up to 1e12: both lose every digit, the package loses none."""
    for pair in (ridge_cv(problem("units", 0)), grid_search(problem("units", 0))):
        assert pair.rival > 0.1
        assert pair.ours < 1e-13
    easy = ridge_cv(problem("wide_penalties", 0))  # the same question, then
    assert max(easy.rival, easy.ours) < 1e-12


def test_a_time_stamp_costs_nothing():
    """One column of seconds since 1970: scikit-learn's RidgeCV is wrong by 0.09 here."""
    rng = np.random.default_rng(0)
    m = 200
    X = np.c_[rng.normal(size=(m, 3)), 1.7e9 + 1e7 * rng.normal(size=m)]
    y = X[:, :3] @ [1, -1, 0.5] + 0.1 * rng.normal(size=m)
    model = KernelRidgeCV(kernel="linear", scoring="r2").fit(X, y)
    assert model.best_score_ > 0.99  # the grid reaches the penalties of the other columns
    ridge = Ridge(alpha=model.alpha_).fit(X, y)
    np.testing.assert_allclose(model.predict(X), ridge.predict(X), atol=1e-7)
    assert model.verify().max_relative_error < 1e-11


@pytest.mark.parametrize("unit", [1e-70, 1e-30, 1e40, 1e70])
def test_targets_of_any_size_choose_the_same_penalty(unit):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(40, 3))
    y = X @ [1.0, 2.0, -1.0] + 0.3 * rng.normal(size=40)
    plain, other = (KernelRidgeCV(gamma=0.1).fit(X, y * factor) for factor in (1.0, unit))
    assert other.alpha_ == plain.alpha_
    np.testing.assert_allclose(other.predict(X) / unit, plain.predict(X), rtol=1e-9)


@pytest.mark.filterwarnings("ignore::holdfast.exceptions.GridEdgeWarning")
def test_an_empty_row_is_no_alarm():
    """A document without words is small by nature: nobody is warned, and nothing is wrong."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(30, 60))
    X[4] = 0.0
    model = KernelRidgeCV(kernel="linear", alphas=[1e-6, 1.0], scoring="r2").fit(X, X[:, 0])
    assert model.cv_results_["rounding"].max() < 1e-8
    assert model.verify(30).max_relative_error < 1e-9
